"""Salvage: what it says of offsets that no source has, by what the other files and the other copies tell."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageDone
from tests.support.healing import OPTIONS, batches
from tests.support.partitions import name, write
from tests.support.repair_trees import Quick
from tests.support.runs import FIXTURES, copy_tree
from tests.support.segments import batch

INTACT = FIXTURES / "damage" / "intact"


def done_of(root: Path, *sources: Path) -> SalvageDone:
    items = list(salvage([str(one) for one in sources], Wanted(str(root / "out"), None, ()), OPTIONS, Quick()))
    return next(item for item in items if isinstance(item, SalvageDone))


def losses(done: SalvageDone) -> list[tuple[int, int, str, list[str]]]:
    """First and last offset, certainty and codes of what is lost or doubtful."""
    rows: list[dict[str, Any]] = [json.loads(text) for text in Path(done.rows).read_text().splitlines()]
    return [
        (row["offset"], row["lastOffset"], row["certainty"], row["because"])
        for row in rows
        if row["type"] == "loss" and row["certainty"] != "absent"
    ]


def put(log: Path, position: int, data: bytes) -> None:
    with log.open("r+b") as file:
        file.seek(position)
        file.write(data)


# --- logs of which only the indexes are left ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("case", "base", "lost"),
    [
        ("none", 0, (0, 118)),
        ("none", 119, (119, 239)),
        ("none", 240, (240, 296)),
        ("logstart", 0, (58, 115)),  # below its log start nothing is lost
        ("compacted", 494, (494, 629)),  # compaction takes no log away alone
    ],
)
def test_offsets_of_a_log_whose_indexes_alone_are_left_are_lost(
    case: str, base: int, lost: tuple[int, int], tmp_path: Path
) -> None:
    tree = copy_tree(INTACT / case / "logdir", tmp_path / "d")
    [source] = (path for path in tree.iterdir() if path.is_dir())
    (source / name(base)).unlink()
    done = done_of(tmp_path, source)
    assert losses(done) == [(*lost, "lost", ["F08"])]
    assert not done.is_sound
    assert done.salvaged.offsets_lost == lost[1] - lost[0] + 1


def test_a_copy_that_lacks_a_log_is_damaged_and_another_heals_it(tmp_path: Path) -> None:
    sources = [copy_tree(INTACT / "none" / "logdir", tmp_path / broker) / "plain-0" for broker in "ab"]
    (sources[0] / name(0)).unlink()
    done = done_of(tmp_path, *sources)
    assert losses(done) == []
    assert done.steps[0].why.startswith(f"{sources[1]} is sound and has all of this")


# --- base offsets that cannot be --------------------------------------------------------------------------------
def test_two_batches_with_base_offsets_that_cannot_be_are_restored_where_files_know_the_end(tmp_path: Path) -> None:
    """They fill the log up to the end that snapshots and checkpoints have; the log keeps its name."""
    source = copy_tree(INTACT / "none" / "logdir", tmp_path / "d") / "plain-0"
    for position, data in ((3746, "0900000000000124"), (3956, "5100000000000127")):
        put(source / name(240), position, bytes.fromhex(data))
    done = done_of(tmp_path, source)
    assert losses(done) == []
    assert (done.salvaged.log_end_offset, done.records_lost, done.ranges_unknown) == (297, 0, 0)
    intact = INTACT / "none" / "logdir" / "plain-0" / name(240)
    assert (Path(done.path) / name(240)).read_bytes() == intact.read_bytes()


PARTS = [batch(at, [b"v"]) for at in range(20)]


@pytest.mark.parametrize("base", [100, 15, 19])
def test_a_log_whose_batches_lie_below_its_name_is_renamed(base: int, tmp_path: Path) -> None:
    source = write(tmp_path / "plain-0", {name(base): b"".join(PARTS)})
    done = done_of(tmp_path, source)
    assert losses(done) == []
    assert batches(Path(done.path)) == dict(enumerate(PARTS))


def test_batches_that_cannot_be_where_nothing_else_knows_the_end_are_doubtful(tmp_path: Path) -> None:
    """Without snapshots and checkpoints nothing knows the end but the batches themselves."""
    high = [batch(at + (1 << 60), [b"v", b"w"]) for at in (20, 22)]
    done = done_of(tmp_path, write(tmp_path / "plain-0", {name(0): b"".join([*PARTS, *high])}))
    assert losses(done) == [(20, 21, "doubtful", ["O02"]), (22, 23, "doubtful", ["O02"])]


# --- lengths ------------------------------------------------------------------------------------------------------
def test_a_wrong_length_and_a_wrong_base_offset_in_one_log_are_both_put_right(tmp_path: Path) -> None:
    first = bytearray(PARTS[0])
    struct.pack_into(">i", first, 8, 0)
    later = bytearray(PARTS[5])
    struct.pack_into(">q", later, 0, 0)
    parts = [bytes(first), *PARTS[1:5], bytes(later), *PARTS[6:]]
    done = done_of(tmp_path, write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    assert losses(done) == []
    assert batches(Path(done.path)) == dict(enumerate(PARTS))


def test_batches_behind_one_whose_length_stays_wrong_are_kept(tmp_path: Path) -> None:
    """Zeros over length and epoch: the epochs around it differ, so nobody knows which one it had."""
    parts = [batch(at, [b"v"], epoch=1 + (at > 3)) for at in range(8)]
    torn = bytearray(parts[3])
    torn[8:16] = bytes(8)
    source = write(tmp_path / "plain-0", {name(0): b"".join([*parts[:3], bytes(torn), *parts[4:]])})
    done = done_of(tmp_path, source)
    assert losses(done) == [(3, 3, "doubtful", ["L05"])]
    assert sorted(batches(Path(done.path))) == [0, 1, 2, 4, 5, 6, 7]


# --- compaction ---------------------------------------------------------------------------------------------------
def cleaned(root: Path, *damage: tuple[int, bytes]) -> Path:
    tree = copy_tree(INTACT / "compacted" / "logdir", root)
    for position, data in damage:
        put(tree / "compacted-0" / name(0), position, data)
    return tree / "compacted-0"


def test_what_a_whole_copy_has_cleaned_away_is_not_lost_for_damage_in_another(tmp_path: Path) -> None:
    damaged = cleaned(tmp_path / "a", (942, bytes(140)))
    done = done_of(tmp_path, damaged, cleaned(tmp_path / "b"))
    assert losses(done) == []
    assert done.steps[0].why.startswith(f"{tmp_path / 'b' / 'compacted-0'} is sound and has all of this")


def test_what_both_copies_have_damaged_is_lost(tmp_path: Path) -> None:
    """The header of the one copy has no records though bytes follow it: it does not tell where its batch ended."""
    done = done_of(tmp_path, cleaned(tmp_path / "a", (942, bytes(140))), cleaned(tmp_path / "b", (942 + 60, bytes(20))))
    assert [one[:3] for one in losses(done)] == [(201, 219, "lost"), (220, 243, "doubtful")]


def test_a_hole_that_stands_alone_in_a_copy_is_no_cleaning(tmp_path: Path) -> None:
    torn = PARTS[5][:-1] + bytes([PARTS[5][-1] ^ 1])
    short = batch(10, [b"v"], last_delta=1, count=1)
    damaged = write(tmp_path / "a" / "plain-0", {name(0): b"".join([*PARTS[:5], torn, *PARTS[6:10], short])})
    cut = write(tmp_path / "b" / "plain-0", {name(0): b"".join([*PARTS[:5], *PARTS[6:10]])})
    assert losses(done_of(tmp_path, damaged, cut)) == [(5, 5, "doubtful", ["B01"])]


def test_the_first_offsets_of_a_whole_log_that_are_cleaned_away_are_not_lost(tmp_path: Path) -> None:
    """One bit in the wrapper that the log begins with, at offset 41."""
    intact = FIXTURES / "releases" / "0.11.0.3" / "logs" / "m1c-0"
    sources = [copy_tree(intact, tmp_path / broker / "m1c-0") for broker in "ab"]
    data = (sources[0] / name(0)).read_bytes()
    put(sources[0] / name(0), 22, bytes([data[22] ^ 1]))
    assert {one[2] for one in losses(done_of(tmp_path, *sources))} == {"unexplained"}  # so they are in the sound copy


LOG_DIRS = [FIXTURES / "kafka-4.3.1/clean/node1", *sorted(FIXTURES.glob("releases/*/logs"))]


@pytest.mark.parametrize("log_dir", LOG_DIRS, ids=lambda one: one.parent.name)
def test_of_what_a_broker_has_written_nothing_is_lost_and_nothing_is_foreign(log_dir: Path, tmp_path: Path) -> None:
    """Compacted logs of one batch, with one hole, or with a hole at their start among them."""
    items = salvage([str(log_dir)], Wanted(str(tmp_path / "out"), None, ()), OPTIONS, Quick())
    done = [item for item in items if isinstance(item, SalvageDone)]
    assert done
    assert {one.salvaged.partition: losses(one) for one in done if losses(one)} == {}
    assert [note for one in done for note in one.notes if "F15" in note] == []
