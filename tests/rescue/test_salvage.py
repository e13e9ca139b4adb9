"""Salvage: what comes out of damaged partitions, by the bytes that a search without kdump finds intact."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

from kdump.finding import Trait
from kdump.format.batch.epoch_order import EpochsAround
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.format.source import BytesSource
from kdump.rescue.compacted import Cleaned
from kdump.rescue.next_steps import _steps_without, steps_for
from kdump.rescue.salvage import Wanted, _without, salvage
from kdump.rescue.scanned_log import read_log
from kdump.rescue.valid_runs import ValidRuns
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from kdump.rows.steps import Rank
from kdump.storage.file_source import OpenFailure
from tests.support.damage_cases import Damage, damage_cases
from tests.support.faults import Full, fails, killed_at
from tests.support.healing import OPTIONS, batches, many
from tests.support.partitions import checkpoint, marker, name, snapshot, write
from tests.support.repair_trees import Counting, Faulty, Quick
from tests.support.runs import FIXTURES, changed, copy_tree, fingerprint, flat, run_on_full_disk
from tests.support.segments import TRANSACTIONAL, Record, batch, message, wrapper
from tests.support.unprivileged import unprivileged
from tests.support.whole_lines import run_kdump, whole_text

if TYPE_CHECKING:
    from kdump.rescue.partition_salvage import SalvageOptions
    from kdump.storage.fsops import FileOps
    from tests.support.sample import OneIn

CASES = damage_cases(FIXTURES / "damage")


def rows_of(run: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.stdout.splitlines()]


def intact(data: bytes) -> list[tuple[int, bytes]]:
    """Offset and bytes of every batch at any place whose CRC is right, none inside of another."""
    at, found = 0, []
    while at + 26 <= len(data):
        offset, size = struct.unpack_from(">qi", data, at)
        end, magic = at + 12 + size, data[at + 16]
        good = False
        if 14 <= size <= len(data) - at - 12 and offset >= 0:
            if magic == 2 and size >= 49:
                good = struct.unpack_from(">I", data, at + 17)[0] == crc32c(data[at + 21 : end])
            elif magic < 2:
                good = struct.unpack_from(">I", data, at + 12)[0] == zlib.crc32(data[at + 16 : end])
        if good:
            found.append((offset, data[at:end]))
        at = end if good else at + 1
    return found


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_a_damaged_log_gives_every_batch_that_is_intact(case: Damage, tmp_path: Path) -> None:
    tree = case.build(tmp_path / "d")
    before = fingerprint(tree)
    run = run_kdump(["salvage", "d", "--to", "out", "--format", "json"], tmp_path)
    assert run.exit in (0, 3), run.stderr
    assert changed(before, fingerprint(tree)) is None
    rows = rows_of(run)
    patched = [row for row in rows if row["type"] == "patched"]
    why = {code for row in rows if row["type"] == "loss" for code in row["because"]}
    absent = any(row["type"] == "loss" and row["certainty"] == "absent" for row in rows)
    for folder in (path for path in tree.iterdir() if path.is_dir()):
        logs = [log for log in folder.glob("*.log") if len(log.name) == 24]
        wanted = {one[17:] for log in logs for _, one in intact(log.read_bytes())}
        found = {one[17:] for one in batches(tmp_path / "out" / folder.name).values()}
        if not patched:
            assert found <= wanted
        is_overlap = {"O06", "L10"} & set(case.codes)
        if not (Trait.UNREADABLE.is_among(why) or absent or is_overlap) and case.name != "l04-head-zeroed":
            assert wanted <= found
    checked = rows_of(run_kdump(["verify", "--format", "json", "out"], tmp_path))
    assert [row for row in checked if row["type"] == "finding" and row["severity"] == "error"] == []
    start = rows_of(run_kdump(["verify", "--start", "all", "--format", "json", "out"], tmp_path))
    told = [row for row in start if row["type"] == "prediction"]
    assert told
    assert all(row["loads"] and all(one["action"] == "keep" for one in row["segments"]) for row in told)


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_rows_cover_every_offset_once(case: Damage, tmp_path: Path) -> None:
    case.build(tmp_path / "d")
    rows = rows_of(run_kdump(["salvage", "d", "--to", "out", "--format", "json"], tmp_path))
    rows = [row for row in rows if row["type"] != "step"]
    assert [row["type"] for row in rows[-2:]] == ["salvage", "summary"]
    spans = [(row["offset"], row["lastOffset"]) for row in rows if row["type"] in ("kept", "loss")]
    assert all(first <= last for first, last in spans)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(spans))


@pytest.mark.parametrize("seed", [61144, 201051, 202304])
def test_a_base_offset_with_a_wrong_bit_in_one_copy_neither_refuses_nor_leads_the_others(seed: int) -> None:
    [one] = many(range(seed, seed + 1))
    assert one.faults == [], one.what


@pytest.mark.parametrize("part", range(10))
def test_copies_heal_each_other(part: int) -> None:
    for one in many(range(20 * part, 20 * part + 20)):
        assert one.faults == [], (one.seed, one.what)


def test_doubtful_records_go_into_a_file_of_their_own(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "b01-payload-mid-last")
    case.build(tmp_path / "d")
    assert run_kdump(["salvage", "d", "--to", "out", "--doubtful", "doubtful.jsonl"], tmp_path).exit == 3
    rows = [json.loads(text) for text in (tmp_path / "doubtful.jsonl").read_text().splitlines()]
    assert [(row["type"], row["offset"], row["doubtful"]) for row in rows] == [
        ("record", 238, True),
        ("record", 239, True),
    ]
    assert run_kdump(["salvage", "d", "--to", "out2", "--doubtful", "doubtful.jsonl"], tmp_path).exit == 2


# --- divergence ---------------------------------------------------------------------------------------------
Parts = list[tuple[int, int, bytes]]


def copy(root: Path, broker: int, parts: Parts, epochs: list[tuple[int, int]] | None) -> str:
    """A copy of plain-0 of batches (offset, epoch, value) of one record each."""
    data = b"".join(batch(offset, [value], epoch=epoch) for offset, epoch, value in parts)
    files = {name(0): data}
    if epochs is not None:
        files["leader-epoch-checkpoint"] = checkpoint(*epochs)
    return str(write(root / f"broker{broker}" / "plain-0", files))


def values(items: list[Any], root: Path) -> dict[int, bytes]:
    assert any(isinstance(item, SalvageDone) for item in items), items
    return batches(root / "out" / "plain-0")


def run(root: Path, sources: list[str], options: SalvageOptions = OPTIONS) -> list[Any]:
    return list(salvage(sources, Wanted(str(root / "out"), None, ()), options, Quick()))


def line(*spans: tuple[int, int, int], mark: bytes = b"t") -> Parts:
    return [(offset, epoch, mark + b"%d" % offset) for first, last, epoch in spans for offset in range(first, last + 1)]


def test_the_higher_epoch_wins_though_it_is_shorter(tmp_path: Path) -> None:
    good = copy(tmp_path, 1, line((0, 4, 1), (5, 6, 3)), [(1, 0), (3, 5)])
    stale = copy(tmp_path, 2, line((0, 4, 1)) + line((5, 9, 2), mark=b"x"), [(1, 0), (2, 5)])
    write(tmp_path / "broker2" / "plain-0", {f"{10:020}.snapshot": snapshot()})
    items = run(tmp_path, [stale, good])
    got = values(items, tmp_path)
    assert sorted(got) == list(range(7))
    assert not any(b"x" in data[61:] for data in got.values())
    done = next(item for item in items if isinstance(item, SalvageDone))
    assert (done.diverged, done.salvaged.log_end_offset, done.salvaged.offsets_lost) == (5, 7, 0)


@pytest.mark.parametrize("epochs", [[(1, 0), (3, 5)], None])
def test_a_batch_of_another_branch_fills_no_hole(epochs: list[tuple[int, int]] | None, tmp_path: Path) -> None:
    whole = line((0, 4, 1), (5, 9, 3))
    good = copy(tmp_path, 1, whole[:5] + whole[7:], epochs)
    stale = copy(tmp_path, 2, line((0, 4, 1)) + line((5, 7, 1), mark=b"x"), None)
    got = values(run(tmp_path, [good, stale]), tmp_path)
    assert not any(b"x" in data[61:] for data in got.values())
    assert sorted(got) == [0, 1, 2, 3, 4, 7, 8, 9]


def test_different_batches_of_one_epoch_are_refused_with_both_sides(tmp_path: Path) -> None:
    one = copy(tmp_path, 1, line((0, 5, 1)), [(1, 0)])
    other = copy(tmp_path, 2, line((0, 3, 1)) + line((4, 5, 1), mark=b"x"), [(1, 0)])
    refused = [item for item in run(tmp_path, [one, other]) if isinstance(item, SalvageRefused)]
    assert len(refused) == 1
    assert one in refused[0].why
    assert other in refused[0].why
    got = values(run(tmp_path, [one, other], OPTIONS.replace(prefer=other)), tmp_path)
    assert b"x5" in got[5]


def test_partitions_that_are_refused_are_named_at_the_end(tmp_path: Path) -> None:
    for broker, mark in ((1, b"v"), (2, b"x")):
        for number in (0, 2):
            write(tmp_path / f"broker{broker}" / f"plain-{number}", {name(0): batch(0, [mark])})
        write(tmp_path / f"broker{broker}" / "plain-1", {name(0): batch(0, [b"v"])})
    done = run_kdump(["salvage", "broker1", "broker2", "--to", "out"], tmp_path)
    assert done.exit == 12
    assert done.stdout.splitlines()[-2] == b"refused: 2 partitions: plain-0, plain-2 (why stands above)"
    assert batches(tmp_path / "out" / "plain-1")


@pytest.mark.parametrize(
    ("directory", "why"),
    [
        (f"plain-1.{'0' * 32}-delete", "a broker was about to delete it (-delete): name it alone"),
        (f"plain-1.{'0' * 32}-stray", "a broker took it for a stray (-stray): name it alone"),
        (
            f"plain-0.{'0' * 32}-future",
            "a copy on its way to another log directory, not finished (-future): name it alone",
        ),
        ("pl@in-0", "not the name of a partition that a broker serves, TOPIC-N: name it alone, with --name"),
    ],
)
def test_a_directory_that_is_not_taken_has_its_own_reason(directory: str, why: str, tmp_path: Path) -> None:
    write(tmp_path / "logdir", {f"{directory}/{name(0)}": batch(0), f"plain-1/{name(0)}": batch(0)})
    done = run_kdump(["salvage", "logdir", "--to", "out"], tmp_path)
    assert (done.exit, done.stderr.decode()) == (0, f"kdump: logdir/{directory}: {why}\n")


def test_topic_ids_are_never_mixed(tmp_path: Path) -> None:
    sources = [copy(tmp_path, broker, line((0, 3, 1)), None) for broker in (1, 2)]
    for source, topic_id in zip(sources, ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"), strict=True):
        write(tmp_path / source, {"partition.metadata": b"version: 0\ntopic_id: " + topic_id.encode()})
    done = run_kdump(["salvage", *sources, "--to", "out"], tmp_path)
    assert done.exit == 12
    assert b"AAAAAAAAAAAAAAAAAAAAAQ" in done.stderr


# --- the end of the log ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("at", "lost"),
    [(3, 1), (25, 3), (60, 3)],
    ids=["its base offset is wrong", "its last offset is wrong", "its count is wrong"],
)
def test_a_torn_header_at_the_end_never_makes_a_loss_larger(at: int, lost: int, tmp_path: Path) -> None:
    torn = bytearray(batch(1, [b"a", b"b", b"c"]))
    torn[-1] ^= 1
    torn[at] ^= 64
    source = str(write(tmp_path / "plain-0", {name(0): batch(0, [b"0"]) + torn}))
    done = next(item for item in run(tmp_path, [source]) if isinstance(item, SalvageDone))
    assert done.salvaged.offsets_lost == (0 if at == 3 else lost)


def torn(data: bytes) -> bytes:
    """A batch whose CRC is wrong."""
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_header_that_the_next_one_bears_out_is_lost_whole_and_so_is_the_next(tmp_path: Path) -> None:
    few = bytearray(batch(1, [b"a", b"b", b"c"]))
    few[60] = 1  # its count is wrong too, and the batch behind it begins where its offsets end
    source = str(write(tmp_path / "plain-0", {name(0): batch(0, [b"0"]) + torn(bytes(few)) + torn(batch(4, [b"4"]))}))
    rows = rows_of(run_kdump(["salvage", source, "--to", "out", "--format", "json"], tmp_path))
    assert [(row["offset"], row["lastOffset"]) for row in rows if row["type"] == "loss"] == [(1, 3), (4, 4)]


def test_a_torn_end_before_batches_of_another_branch_is_lost(tmp_path: Path) -> None:
    good = copy(tmp_path, 1, line((0, 4, 1)), [(1, 0), (3, 6)])
    parts = [batch(offset, [b"t%d" % offset], epoch=1) for offset in range(6)]
    branch = [batch(offset, [b"x%d" % offset], epoch=2) for offset in range(6, 9)]
    log = b"".join([*parts[:5], torn(parts[5]), *branch])
    other = str(write(tmp_path / "broker2" / "plain-0", {name(0): log}))
    rows = rows_of(run_kdump(["salvage", good, other, "--to", "out", "--format", "json"], tmp_path))
    assert [(row["offset"], row["lastOffset"]) for row in rows if row["type"] == "loss"] == [(5, 5)]
    assert [(row["offset"], row["lastOffset"]) for row in rows if row["type"] == "divergent"] == [(6, 8)]


def test_bytes_behind_the_last_batch_that_are_no_batch_are_told(tmp_path: Path) -> None:
    log = batch(0, [b"a"]) + batch(1, [b"b"])
    for size, tail in ((100, b"\x07" * 100), (0, bytes(100))):
        source = str(write(tmp_path / f"{size}" / "plain-0", {name(0): log + tail}))
        done = run_kdump(["salvage", source, "--to", f"out{size}"], tmp_path)
        assert done.exit == 0
        note = f"{source}/{name(0)}: the 100 bytes from byte {len(log)} on, behind the last batch, are no batch (L09)"
        assert (note.encode() in done.stdout) == bool(size)
    whole = str(write(tmp_path / "whole" / "plain-0", {name(0): log + batch(2, [b"c"])}))
    done = run_kdump(["salvage", str(tmp_path / "100" / "plain-0"), whole, "--to", "healed"], tmp_path)
    assert b"are no batch" not in done.stdout  # it is in the other copy


def test_a_batch_too_high_takes_nothing_from_those_behind_it(tmp_path: Path) -> None:
    """Its right neighbour is torn, so that verify blames the one behind that."""
    for bits, kept, lost in ((1, [(0, 2), (4, 6)], [3]), (3, [(0, 1), (4, 6)], [2, 3])):
        parts = [batch(offset, [b"v%d" % offset]) for offset in range(7)]
        parts[2] = (2 + (bits << 20)).to_bytes(8, "big") + parts[2][8:]
        parts[3] = torn(parts[3])
        source = str(write(tmp_path / f"{bits}" / "plain-0", {name(0): b"".join(parts)}))
        rows = rows_of(run_kdump(["salvage", source, "--to", f"out{bits}", "--format", "json"], tmp_path))
        spans = {
            kind: [(row["offset"], row["lastOffset"]) for row in rows if row["type"] == kind]
            for kind in ("kept", "loss", "divergent")
        }
        assert spans["kept"] == kept
        assert [at for first, last in spans["loss"] for at in range(first, last + 1)] == lost
        assert spans["divergent"] == []


def test_a_batch_that_begins_in_the_next_segment_takes_nothing_from_the_one_behind_it(tmp_path: Path) -> None:
    parts = [batch(offset, [b"v%d" % offset]) for offset in range(5)]
    odd = (1 + (1 << 24)).to_bytes(8, "big") + parts[1][8:]
    files = {name(0): torn(parts[0]) + odd + parts[2], name(3): parts[3] + parts[4]}
    source = str(write(tmp_path / "plain-0", files))
    assert values(run(tmp_path, [source]), tmp_path) == dict(list(enumerate(parts))[1:])
    assert doubtful(tmp_path) == [(0, 0, ["B01"])]


def test_a_batch_too_high_between_torn_ones_takes_no_offset_from_a_neighbour_that_it_does_not_touch(
    tmp_path: Path,
) -> None:
    parts = [batch(offset, [b"v%d" % offset]) for offset in range(7)]
    odd = (1 + (1 << 24)).to_bytes(8, "big") + parts[2][8:]  # one bit from the offset after that of the first batch
    log = b"".join([parts[0], torn(parts[1]), odd, torn(parts[3]), *parts[4:]])
    got = values(run(tmp_path, [str(write(tmp_path / "plain-0", {name(0): log}))]), tmp_path)
    assert sorted(got) == [0, 4, 5, 6]


def test_epochs_that_a_checkpoint_confirms_are_looked_up_in_one_walk() -> None:
    class Counted(BytesSource):
        count = 0

        def read_into(self, position: int, target: memoryview) -> int:
            Counted.count += len(target)
            return super().read_into(position, target)

    reads = []
    for groups in (50, 400):
        epochs = [2 * group + 1 + high for group in range(groups) for high in (0, 1_000_000, 1_000_000)]
        log = b"".join(batch(offset, [b"v"], epoch=epoch) for offset, epoch in enumerate(epochs))
        Counted.count = 0
        entries = [EpochEntry(2 * group + 1, 3 * group) for group in range(groups)]
        read_log(Counted(log), 0, OPTIONS.limits, EpochsAround(entries))
        reads.append(Counted.count / len(log))
    assert reads[1] < 2 * reads[0]


def test_a_loss_that_reaches_over_smaller_ones_of_another_copy_is_seen_behind_them(tmp_path: Path) -> None:
    parts = [batch(offset, [b"v%d" % offset]) for offset in range(9)]
    gone = [b"\x07" * len(part) for part in parts]
    one = [parts[0], *gone[1:8], parts[8]]
    other = [*parts[:2], gone[2], *parts[3:5], parts[8]]
    sources = [
        str(write(tmp_path / f"{number}" / "plain-0", {name(0): b"".join(some)}))
        for number, some in enumerate((one, other))
    ]
    rows = rows_of(run_kdump(["salvage", *sources, "--to", "out", "--format", "json"], tmp_path))
    losses = [row for row in rows if row["type"] == "loss"]
    assert [(row["offset"], row["lastOffset"]) for row in losses] == [(2, 2), (5, 7)]
    assert all(row["file"] is not None and row["because"] == ["L09"] for row in losses)


# --- offsets at the limits ------------------------------------------------------------------------------------
def log_of(root: Path, base: int, *parts: bytes) -> str:
    return str(write(root / "plain-0", {name(base): b"".join(parts)}))


def doubtful(root: Path) -> list[tuple[int, int, list[str]]]:
    rows = [json.loads(text) for text in (root / "out" / "plain-0.salvage.jsonl").read_text().splitlines()]
    losses = [row for row in rows if row["type"] == "loss"]
    assert {row["certainty"] for row in losses} <= {"doubtful"}
    return [(row["offset"], row["lastOffset"], row["because"]) for row in losses]


def test_a_batch_too_far_above_its_segment_begins_one_of_its_own(tmp_path: Path) -> None:
    parts = [batch(2**32 + k, [b"v"]) for k in range(3)]
    got = values(run(tmp_path, [log_of(tmp_path, 0, *parts)]), tmp_path)
    assert got == {2**32 + k: part for k, part in enumerate(parts)}
    assert [log.name for log in (tmp_path / "out" / "plain-0").glob("*.log")] == [name(2**32)]
    assert run_kdump(["verify", "--start", "all", "out/plain-0"], tmp_path).exit == 0


LIMIT = 2**63 - 1
NO_OFFSET = {
    "negative": (5, [batch(-5, [b"v"]), batch(-4, [b"v"])], [(6, 6, ["O01"]), (7, 7, ["O01"])]),
    "the last offset wraps": (LIMIT - 8, [batch(LIMIT - 3, [b"v"] * 9)], [(LIMIT - 7, LIMIT - 1, ["O02"])]),
    "no log end": (LIMIT - 8, [batch(LIMIT, [b"v"])], [(LIMIT - 7, LIMIT - 7, ["O02"])]),
    "negative inside": (5, [wrapper(0, -3, [b"a", b"b"], wrapper_offset=7)], [(6, 7, ["O03"])]),
    "above its wrapper": (5, [wrapper(0, 2**32, [b"a"], wrapper_offset=6)], [(6, 6, ["O03"])]),
}


@pytest.mark.parametrize("case", NO_OFFSET)
def test_a_batch_without_an_offset_that_can_be_stays_out_and_is_doubtful(case: str, tmp_path: Path) -> None:
    base, odd, expected = NO_OFFSET[case]
    good = batch(base, [b"v"])
    assert values(run(tmp_path, [log_of(tmp_path, base, good, *odd)]), tmp_path) == {base: good}
    assert doubtful(tmp_path) == expected


def test_a_wrapper_that_begins_inside_the_message_before_stays_where_it_is(tmp_path: Path) -> None:
    parts = [message(0, 5), wrapper(0, 5, [b"a", b"b", b"c"])]
    items = run(tmp_path, [log_of(tmp_path, 5, *parts)])
    assert values(items, tmp_path) == {5: parts[0], 7: parts[1]}


# --- transactions -------------------------------------------------------------------------------------------
def test_a_later_commit_covers_no_transaction_whose_abort_is_lost(tmp_path: Path) -> None:
    producer = (7, 0)
    parts = [
        batch(0, [b"a"], flags=TRANSACTIONAL, producer=(*producer, 0)),
        bytes(len(marker(1, producer, commit=False))),  # the ABORT is destroyed
        batch(2, [b"c"], flags=TRANSACTIONAL, producer=(*producer, 1)),
        marker(3, producer, commit=True),
    ]
    source = str(write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    got = values(run(tmp_path, [source]), tmp_path)
    assert sorted(got) == [2, 3]


@pytest.mark.parametrize("at", [22, 50])  # attributes, the last byte of the producer id
def test_one_wrong_field_of_a_marker_does_not_tell_that_it_was_another_batch(at: int, tmp_path: Path) -> None:
    abort = bytearray(marker(1, (7, 0), commit=False))
    abort[at] ^= 0x20
    parts = [
        batch(0, [b"a"], flags=TRANSACTIONAL, producer=(7, 0, 0)),
        bytes(abort),
        batch(2, [b"c"], flags=TRANSACTIONAL, producer=(7, 0, 1)),
        marker(3, (7, 0), commit=True),
    ]
    source = str(write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    assert sorted(values(run(tmp_path, [source]), tmp_path)) == [2, 3]


def test_a_damaged_batch_as_small_as_a_marker_may_be_one_whatever_its_header_says(tmp_path: Path) -> None:
    data = batch(1, [b"b"])
    parts = [
        batch(0, [b"a"], flags=TRANSACTIONAL, producer=(7, 0, 0)),
        data[:-1] + bytes([data[-1] ^ 1]),
        marker(2, (7, 0), commit=True),
    ]
    source = str(write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    assert sorted(values(run(tmp_path, [source]), tmp_path)) == [2]


def test_intact_batches_that_stay_out_are_told_with_the_hole_that_may_have_their_end(tmp_path: Path) -> None:
    parts = [
        batch(0, [b"a", b"b"], flags=TRANSACTIONAL, producer=(7, 0, 0)),
        marker(2, (7, 0), commit=True),
        batch(3, [b"c"], flags=TRANSACTIONAL, producer=(7, 0, 2)),
        marker(4, (7, 0), commit=False),
    ]
    whole = b"".join(parts)
    at = len(parts[0]) + len(parts[1]) - 1  # in the COMMIT
    write(tmp_path / "one" / "plain-0", {name(0): whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]})
    write(tmp_path / "two" / "plain-0", {name(0): whole})
    alone = run_kdump(["salvage", "one", "--to", "out1"], tmp_path)
    assert alone.exit == 3
    lost, left_out = alone.stdout.decode().splitlines()[1:3]
    assert lost == "  lost: offsets 0..2 (3 records)"
    assert left_out == (
        "  left out: offsets 0..1 (2 records, intact): the end of their transaction may be in what is lost at offset 2"
        "; a copy that has it settles it"
    )
    both = run_kdump(["salvage", "one", "two", "--to", "out2"], tmp_path)
    assert both.exit == 0
    assert b"left out" not in both.stdout


def test_a_transaction_without_its_end_stays_open(tmp_path: Path) -> None:
    parts = [batch(0, [b"a"], flags=TRANSACTIONAL, producer=(7, 0, 0)), bytes(78)]
    source = str(write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    items = run(tmp_path, [source])
    done = next(item for item in items if isinstance(item, SalvageDone))
    assert [(one.producer_id, one.first_offset) for one in done.salvaged.open_transactions] == [(7, 0)]
    assert (tmp_path / "out" / "plain-0" / f"{1:020}.snapshot").stat().st_size > 10


# --- steps --------------------------------------------------------------------------------------------------
TORN = batch(9)[:30]
START_AT_1 = (
    "log-start-offset-checkpoint says `plain 0 1`; line 2 counts the entries: "
    "until then verify takes the offsets below 1 for lost"
)


def brokers(root: Path, *data: bytes, beside: dict[str, bytes] | None = None, topic: str = "plain") -> list[str]:
    """The partition as each of some brokers has it."""
    files = [{name(0): one} | (beside or {}) for one in data]
    return [str(write(root / f"broker{k}" / f"{topic}-0", one)) for k, one in enumerate(files, 1)]


def done_of(root: Path, sources: list[str]) -> SalvageDone:
    return next(item for item in run(root, sources) if isinstance(item, SalvageDone))


WELL = b"".join(batch(at, [b"v"]) for at in range(6))


def test_a_partition_without_a_damaged_copy_needs_no_rescue(tmp_path: Path) -> None:
    """A copy may end before the others: whether that is a loss nobody can tell, so it is named."""
    sources = brokers(tmp_path, WELL, WELL[: len(WELL) // 6 * 4])
    done = done_of(tmp_path, sources)
    assert (done.is_sound, done.steps) == (True, ())
    assert done.notes == (
        f"{sources[1]} ends at offset 4, before another copy: it may follow that one, and must not lead before",
    )
    lines = run_kdump(["salvage", *sources, "--to", "text"], tmp_path).stdout.decode().splitlines()
    assert "  no copy of it is damaged: its replicas need no rescue, leave them in place" in lines
    assert [line for line in lines if line.startswith(("  next", "with losses"))] == []


@pytest.mark.parametrize("topic", ["plain", "__cluster_metadata"])
def test_of_a_damaged_and_a_whole_copy_kafka_replicates_the_whole_one(topic: str, tmp_path: Path) -> None:
    sources = brokers(tmp_path, WELL[:200] + b"X" + WELL[201:], WELL, topic=topic)
    done = done_of(tmp_path, sources)
    how = (
        f"while its broker runs and leads plain-0, stop the brokers of {sources[0]}, move these out of their log.dirs"
        if topic == "plain"
        else f"stop the node of {sources[0]}, move all files but quorum-state and sound .checkpoint files out of the"
    )
    assert done.steps[0].why.startswith(f"{sources[1]} is sound and has all of this: {how}")
    assert done.steps[1].why.startswith("stop ")
    assert not done.is_sound


@pytest.mark.parametrize(
    "beside",
    [
        {"leader-epoch-checkpoint": b"0\n1\n0 x\n"},
        {"partition.metadata": b"version: 0\n"},
        {f"{9:020}.snapshot": snapshot()},
        {"../recovery-point-offset-checkpoint": b"0\n1\nplain 0 9\n"},
        {"../log-start-offset-checkpoint": b"0\n5\n"},
    ],
)
def test_a_copy_with_damage_beside_its_log_is_not_sound(beside: dict[str, bytes], tmp_path: Path) -> None:
    (source,) = brokers(tmp_path, WELL)
    for file, data in beside.items():
        (Path(source) / file).write_bytes(data)
    done = done_of(tmp_path, [source])
    assert not done.is_sound
    assert done.steps


def test_copies_that_only_together_have_all_are_put_in_place(tmp_path: Path) -> None:
    size = len(WELL) // 6
    done = done_of(tmp_path, brokers(tmp_path, WELL[: size * 2] + WELL[size * 3 :], WELL[: size * 4]))
    assert (done.is_sound, done.salvaged.offsets_lost) == (False, 0)
    assert done.steps[0].why.startswith("stop every broker")


HURT = WELL[:200] + b"X" + WELL[201:]
HOLED = WELL[: len(WELL) // 6] + WELL[len(WELL) // 6 * 2 :]


@pytest.mark.parametrize("topic", ["plain", "__cluster_metadata"])
@pytest.mark.parametrize("copies", [[HURT], [HOLED], [WELL + TORN[:5]], [HURT, HURT]], ids=str)
def test_before_all_replicas_are_replaced_a_person_sees_whether_another_one_is_sound(
    copies: list[bytes], topic: str, tmp_path: Path
) -> None:
    sources = brokers(tmp_path, *copies, topic=topic)
    steps = done_of(tmp_path, sources).steps
    asked, together = (step for step in steps if " OTHER" in (step.command or ""))
    (then,) = (step for step in steps if step.why.startswith("stop ") and step.begins_option)
    first, second = (asked, then) if len(copies) == 1 else (then, asked)
    assert [step for step in steps if step.begins_option] == [first, second, together]
    assert (first.rank, first.condition) == (Rank.RECOMMENDED, None)
    is_alone = len(copies) == 1
    assert second.condition == ("there is no other replica" if is_alone else "another replica is sound")
    told = ", ".join(sources)
    assert asked.why.startswith(f"before all that follows, see that no other replica of {topic}-0 is sound; where one")
    how = "fetches the rest" if topic != "plain" else "Kafka replicates it"
    assert f"lacks nothing that {told} had, " in asked.why
    assert asked.why.endswith(f"{how}, and you are done")
    assert str(asked.command) == f"kdump verify --replicas {' '.join(sources)} OTHER"
    assert together.why.startswith("where none is sound, salvage all replicas together")
    assert str(together.command) == f"kdump salvage {' '.join(sources)} OTHER --to DIR"


def test_of_a_directory_without_the_name_of_a_partition_all_replicas_are_salvaged_together(tmp_path: Path) -> None:
    """`verify --replicas` compares by names."""
    write(tmp_path, {f"copy/{name(0)}": HURT})
    text = run_kdump(["salvage", "copy", "--name", "t-0", "--to", "out"], tmp_path).stdout.decode()
    assert "verify --replicas" not in text
    (first,) = (line for line in text.splitlines() if line.startswith("  next 1: "))
    assert first.endswith(": kdump salvage copy OTHER --to DIR --name t-0")


@pytest.mark.parametrize("copies", [[HURT, WELL], [WELL, WELL], [HOLED, WELL[: len(WELL) // 6 * 4]]], ids=str)
def test_nobody_looks_for_further_replicas_where_those_that_are_named_lack_nothing(
    copies: list[bytes], tmp_path: Path
) -> None:
    done = done_of(tmp_path, brokers(tmp_path, *copies))
    assert done.salvaged.offsets_lost == 0
    assert [step for step in done.steps if "OTHER" in str(step.command)] == []


def test_the_command_for_all_replicas_reads_all_that_this_run_has_read(tmp_path: Path) -> None:
    """Also logs that are named as files beside their directory, and what lies below the log start."""
    size = len(WELL) // 6
    (source,) = brokers(tmp_path, HURT[size:], beside={f"{name(0)}.deleted": WELL[:size]})
    (Path(source) / name(0)).rename(Path(source) / name(1))
    command = ["salvage", source, f"{source}/{name(0)}.deleted", "--below-log-start"]
    text = run_kdump([*command, "--to", "out"], tmp_path).stdout.decode()
    assert f"go on here: kdump {' '.join(command[:-1])} OTHER --below-log-start --to DIR\n" in text


def test_of_a_deleted_partition_other_replicas_are_asked_for_only_where_it_lacks_something(tmp_path: Path) -> None:
    for data, is_lacking in ((WELL, False), (HURT, True)):
        root = tmp_path / str(is_lacking)
        source = str(write(root / f"plain-0.{'0' * 32}-delete", {name(0): data}))
        asked = [str(step.command) for step in done_of(root, [source]).steps if "OTHER" in str(step.command)]
        assert asked == ([f"kdump salvage {source} OTHER --to DIR"] if is_lacking else [])


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_nobody_resets_groups_for_an_internal_topic(topic: str, tmp_path: Path) -> None:
    for is_lost, data in ((False, WELL + TORN[:5]), (True, WELL[:200] + b"X" + WELL[201:])):
        root = tmp_path / str(is_lost)
        done = done_of(root, brokers(root, data, topic=topic))
        assert bool(done.salvaged.offsets_lost) == is_lost
        command = f"`kdump groups {done.path}` lists what groups have committed there"
        lost = f"; commits of groups may be lost: {command}" if is_lost and topic == "__consumer_offsets" else ""
        assert [step.why for step in done.steps if step.why.startswith("start")] == [f"start them{lost}"]
        (copied,) = (step.why for step in done.steps if step.why.startswith("copy "))
        assert (f", and {done.path}.salvage.jsonl beside it, into the log.dir" in copied) is is_lost


def test_the_last_lines_name_the_partitions_with_losses(tmp_path: Path) -> None:
    for number in range(8):
        data = WELL if number == 3 else WELL[:200] + b"X" + WELL[201:]
        write(tmp_path / "logs", {f"plain-{number}/{name(0)}": data})
    lines = run_kdump(["salvage", "logs", "--to", "out"], tmp_path).stdout.decode().splitlines()
    few = "plain-0, plain-1, plain-2, plain-4, plain-5"
    assert lines[-2] == f"with losses: 7 partitions: {few} and 2 more (its lines above say which)"


def test_every_broker_gets_the_copy_as_an_empty_one_may_be_elected(tmp_path: Path) -> None:
    """Three brokers, one copy: the controller elected an empty broker of the ISR, and the copy was cut to offset 0."""
    parts = [batch(0, [b"a"], flags=TRANSACTIONAL, producer=(7, 0, 0)), bytes(78)]
    source = str(write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    done = next(item for item in run(tmp_path, [source]) if isinstance(item, SalvageDone))
    steps = [step.why for step in done.steps if step.condition == "there is no other replica"]
    (copied,) = (step for step in done.steps if step.why.startswith("copy "))
    assert (copied.keeps.records, copied.loses.records, copied.size) == (1, 0, done.salvaged.size)
    assert steps[0].startswith("stop every broker that has a replica of plain-0; on each move its directory out of the")
    assert f"copy {done.path} into the log.dir of each, owned" in steps[2]
    assert "on each, in recovery-point-offset-checkpoint" in steps[3]
    assert "`plain 0` to 1 where" in steps[3]
    assert "do not delete only the line: line 2 of the file counts the entries" in steps[3]
    assert steps[4] == (
        "start them; reset groups that had committed an offset above 1: `kdump groups LOGDIR... --topic plain` "
        "(those of all brokers) lists what they had committed"
    )
    assert "kdump transactions --hanging" in steps[5]
    assert steps[5].endswith(": before you abort one, look at what it wrote")
    ended = done.salvaged.replace(open_transactions=())
    assert [step.why for step in steps_for(ended, done.path, 1, needs_id=False)] == [
        *(steps[0], steps[2]),
        f"on each see that {START_AT_1}",
        *steps[3:5],
    ]


@pytest.mark.parametrize(("high_watermark", "is_told"), [(297, False), (298, True)])
def test_checkpoints_are_lowered_and_groups_reset_only_where_the_end_is_lost(
    high_watermark: int, is_told: bool, tmp_path: Path
) -> None:
    node = copy_tree(FIXTURES / "damage/intact/none/logdir", tmp_path / "n1")
    with next(iter(sorted((node / "plain-0").glob("*.log")))).open("r+b") as log:
        log.seek(300)
        log.write(b"X")
    marks = node / "replication-offset-checkpoint"
    marks.write_text(marks.read_text().replace("\nplain 0 297\n", f"\nplain 0 {high_watermark}\n"))
    said = run_kdump(["salvage", "n1/plain-0", "--to", "out"], tmp_path)
    assert said.exit == 3
    assert ("lower the number" in flat(said.stdout)) is is_told
    assert ("reset groups" in flat(said.stdout)) is is_told


@pytest.mark.parametrize("layout", ["text", "json"])
def test_a_salvage_that_cannot_write_its_output_says_what_is_whole(layout: str, tmp_path: Path) -> None:
    write(tmp_path / "plain-0", {name(0): batch(0, [b"a"])})
    assert run_kdump(["salvage", "plain-0", "--to", "same"], tmp_path).exit == 0
    run = run_on_full_disk(["salvage", "plain-0", "--to", "out", "--format", layout], tmp_path)
    assert run.exit == 5
    assert run.stderr.startswith(b"kdump: cannot write the output: No space left on device\n")
    assert run.stderr.endswith(b"kdump: out/plain-0 is salvaged, and whole\n")
    made, same = (
        {one.name: one.read_bytes() for one in (tmp_path / to / "plain-0").iterdir()} for to in ("out", "same")
    )
    assert made == same


def test_a_partition_without_topic_id_is_a_stray_until_somebody_writes_it(tmp_path: Path) -> None:
    """Three brokers got partitions of carved runs: each renamed them to -stray, and led empty ones."""
    files = {name(0): batch(0, [b"a"]) + TORN}
    for ident in (b"", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"):
        files |= {"partition.metadata": ident} if ident else {}
        source = str(write(tmp_path / str(len(ident)) / "plain-0", files))
        items = list(salvage([source], Wanted(str(tmp_path / f"out{len(ident)}"), None, ()), OPTIONS, Quick()))
        done = next(item for item in items if isinstance(item, SalvageDone))
        assert any(f"write {done.path}/partition.metadata" in step.why for step in done.steps) == (not ident)


VERSION = {"zookeeper": b"broker.id=0\nversion=0\n", "kraft": b"node.id=0\nversion=1\n"}
CHECKPOINT = {"replication-offset-checkpoint": b"0\n1\nplain 0 1\n"}


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ({"meta.properties": VERSION["zookeeper"]}, None),
        ({**CHECKPOINT, "other-0/x": b""}, None),
        ({"meta.properties": VERSION["kraft"]}, "no source has the topic id, and a KRaft broker renames "),
        (
            {"meta.properties": VERSION["zookeeper"], f"__cluster_metadata-0/{name(0)}": b""},
            "no source has the topic id, and a KRaft broker renames ",
        ),
        ({}, "where the brokers run KRaft: no source has the topic id, and "),
        (CHECKPOINT, "where the brokers run KRaft: no source has the topic id, and "),
        (
            {**CHECKPOINT, "other-0/partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"},
            "where the brokers run KRaft: no source has the topic id, and ",
        ),
    ],
    ids=["zookeeper", "before 0.9", "kraft", "migrated", "no log.dir", "no sibling", "sibling with id"],
)
def test_a_topic_id_is_asked_for_only_where_brokers_may_run_kraft(
    beside: dict[str, bytes], told: str | None, tmp_path: Path
) -> None:
    write(tmp_path / "data", {**beside, f"plain-0/{name(0)}": batch(0, [b"a"]) + TORN})
    for _ in ("made", "kept from the first run"):
        items = run(tmp_path, [str(tmp_path / "data" / "plain-0")])
        (done,) = (item for item in items if isinstance(item, SalvageDone))
        found = [step.why for step in done.steps if "no source has" in step.why]
        assert [one.startswith(told) for one in found] == [True] if told else found == []


@pytest.mark.parametrize("other", [False, True])
def test_of_runs_alone_a_person_sees_whether_another_copy_has_more_before_they_are_put_in_place(
    other: bool, tmp_path: Path
) -> None:
    run_log = batch(5, [b"a"]) + batch(6, [b"b"])
    write(tmp_path / "runs", {f"run-00001-{name(5)}": run_log})
    write(tmp_path / "copy" / "plain-0", {name(0): batch(0, [b"%d" % k for k in range(5)]) + run_log + TORN})
    command = ["salvage", f"runs/run-00001-{name(5)}", *(["copy/plain-0"] if other else []), "--name", "plain-0"]
    for to in ("out", "out"):  # the second time it is kept from the first one
        text = run_kdump([*command, "--to", to], tmp_path).stdout.decode()
        (first,) = (line for line in text.splitlines() if line.startswith("  next 1: "))
        if other:
            assert first.startswith("  next 1: before all that follows, see that no other replica of plain-0 is sound")
            assert "not complete" not in text
        else:
            assert first.startswith("  next 1: do not put out/plain-0 in place before you know that no replica and no ")
            assert "more than offsets 5..6: runs of carve tell neither" in first
            assert first.endswith(f"kdump salvage runs/run-00001-{name(5)} OTHER --to DIR --name plain-0")
            assert "nothing is lost of what was read" in text
            assert "not complete: 1 partition: plain-0" in text
            rows = rows_of(run_kdump([*command, "--to", to, "--format", "json"], tmp_path))
            step = next(row for row in rows if row["type"] == "step")
            assert first == f"  next 1: {step['why']}: {step['command']}"


@pytest.mark.parametrize(
    "copies",
    [
        [WELL + TORN],
        [WELL, WELL],
        [WELL[:200] + b"X" + WELL[201:], WELL],
        [WELL, WELL[: len(WELL) // 6 * 4]],
        [WELL[:200] + b"X" + WELL[201:], WELL[: len(WELL) // 6 * 4]],
    ],
    ids=["damaged", "sound", "one damaged", "one short", "damaged and short"],
)
def test_what_a_former_run_has_made_has_the_same_steps(copies: list[bytes], tmp_path: Path) -> None:
    beside = {"../log-start-offset-checkpoint": b"0\n1\nplain 0 3\n"}
    command = ["salvage", *brokers(tmp_path, *copies, beside=beside), "--to", "out"]
    first, again = (run_kdump(command, tmp_path).stdout.decode().splitlines() for _ in range(2))
    hang = ("  next", "  no copy", "  note: broker", "  note: wherever")
    assert [line for line in first if line.startswith(hang)] == [line for line in again if line.startswith(hang)]
    assert any("log-start-offset-checkpoint says `plain 0 3`" in line for line in again)


def test_only_one_log_of_the_metadata_goes_on(tmp_path: Path) -> None:
    source = str(write(tmp_path / "__cluster_metadata-0", {name(0): batch(0, [b"a"]) + TORN}))
    done = next(item for item in run(tmp_path, [source]) if isinstance(item, SalvageDone))
    assert done.steps[0].why.startswith("before all that follows, see that no other replica")
    placing = [step.why for step in done.steps if step.condition == "there is no other replica"]
    assert placing[0].startswith("stop the broker that is to have __cluster_metadata-0")
    assert "only one log may go on" in placing[-1]


NEWEST, FIRST = "00000000000000000333-0000000001.checkpoint", "00000000000000000000-0000000000.checkpoint"


def metadata_of(root: Path, *nodes: str, at: int = 4096) -> list[Path]:
    """Copies of a metadata log with a hole."""
    found = []
    for node in nodes:
        (root / node).mkdir()
        one = root / node / "__cluster_metadata-0"
        shutil.copytree(FIXTURES / "kafka-4.3.1" / "clean" / "node1" / one.name, one)
        log = bytearray((one / name(0)).read_bytes())
        log[at : at + 4096] = bytes(len(log[at : at + 4096]))
        (one / name(0)).write_bytes(log)
        found.append(one)
    return found


def steps_of(root: Path, sources: list[Path], to: str = "out") -> list[str]:
    """The steps as text has them, which a second run prints too."""
    command = ["salvage", *(str(one.relative_to(root)) for one in sources), "--to", to]
    first, again = (
        [line for line in run_kdump(command, root).stdout.decode().splitlines() if line.startswith("  next ")]
        for _ in range(2)
    )
    assert first == again
    return [line for line in first if " OTHER" not in line]  # what is asked of other replicas has tests of its own


def copied(steps: list[str]) -> list[str]:
    """The files that the steps copy into the result, before the directory that has them is moved away."""
    moved = next(at for at, step in enumerate(steps) if "move its damaged directory out of the log.dir" in step)
    found = [(at, step.partition(": cp -p ")[2].split()) for at, step in enumerate(steps) if ": cp -p " in step]
    assert all(at < moved and words[1] == "out/__cluster_metadata-0/" for at, words in found)
    return [words[0] for _, words in found]


def taken_along(root: Path) -> dict[str, bytes]:
    """The snapshots of a salvaged metadata log."""
    return {one.name: one.read_bytes() for one in (root / "out" / "__cluster_metadata-0").glob("*.checkpoint")}


def test_the_newest_sound_snapshot_of_a_metadata_log_goes_along_and_the_quorum_state_is_told(tmp_path: Path) -> None:
    (source,) = metadata_of(tmp_path, "a")
    steps = steps_of(tmp_path, [source])
    assert copied(steps) == ["a/__cluster_metadata-0/quorum-state"]
    assert taken_along(tmp_path) == {NEWEST: (source / NEWEST).read_bytes()}
    assert "without it the node may vote twice in one epoch" in steps[1]
    assert "empties the log" not in steps[1]
    assert steps_of(tmp_path, [source]) == steps
    for file in copied(steps):
        shutil.copy(tmp_path / file, tmp_path / "out" / "__cluster_metadata-0")
    whole = FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "__cluster_metadata-0"
    told = [
        run_kdump(["cluster", str(one)], tmp_path).stdout.decode() for one in (tmp_path / "out" / whole.name, whole)
    ]
    state = [[row for row in one.splitlines() if row.startswith("topic ")] for one in told]
    assert state[0] == state[1] != []


@pytest.mark.parametrize("harm", ["bit", "torn", "no footer", "empty"])
def test_a_snapshot_that_is_damaged_is_not_put_beside_a_salvaged_metadata_log(harm: str, tmp_path: Path) -> None:
    (source,) = metadata_of(tmp_path, "a")
    data = bytearray((source / NEWEST).read_bytes())
    last = intact(bytes(data))[-1][1]
    data[-200] ^= harm == "bit"
    cut = {"bit": len(data), "torn": len(data) - 20, "no footer": len(data) - len(last), "empty": 0}[harm]
    (source / NEWEST).write_bytes(data[:cut])
    (source / "quorum-state").write_bytes(b"{")
    steps = steps_of(tmp_path, [source])
    assert copied(steps) == []
    assert [*taken_along(tmp_path)] == [FIRST]
    assert "no source has a sound quorum-state: without it the node may vote twice" in steps[1]


def test_a_snapshot_ahead_of_a_salvaged_metadata_log_is_told_to_empty_that(tmp_path: Path) -> None:
    (source,) = metadata_of(tmp_path, "a")
    log = (source / name(0)).read_bytes()
    (source / name(0)).write_bytes(log[:15000])
    (step,) = (one for one in steps_of(tmp_path, [source]) if NEWEST in one)
    assert "a node of Kafka 4.3 then empties the log and goes on from the snapshot, at offset 333" in step
    assert taken_along(tmp_path) == {}


def test_each_node_keeps_its_own_quorum_state_and_all_may_have_the_newest_snapshot(tmp_path: Path) -> None:
    sources = metadata_of(tmp_path, "a", "b")
    (sources[0] / NEWEST).unlink()
    steps = steps_of(tmp_path, sources)
    assert [*taken_along(tmp_path)] == [NEWEST]
    files = ", ".join(f"{node}/__cluster_metadata-0/quorum-state" for node in "ab")
    assert f"copy to each node its own quorum-state, into its __cluster_metadata-0: {files}" in steps[1]


def test_a_metadata_log_that_begins_late_asks_for_a_snapshot_that_reaches_it(tmp_path: Path) -> None:
    (source,) = metadata_of(tmp_path, "a")
    begin = begun_at(source, 400)
    steps = steps_of(tmp_path, [source])
    assert copied(steps) == ["a/__cluster_metadata-0/quorum-state"]
    assert f"no source has a sound snapshot that reaches offset {begin}, where the log begins" in steps[1]
    assert "without it no node starts (L18)" in steps[1]
    assert taken_along(tmp_path) == {}


def test_a_salvaged_metadata_log_that_begins_late_has_the_snapshot_that_a_node_starts_with(tmp_path: Path) -> None:
    (source,) = metadata_of(tmp_path, "a")
    begun_at(source, 300)
    steps_of(tmp_path, [source])
    assert [*taken_along(tmp_path)] == [NEWEST]
    assert run_kdump(["verify", "out"], tmp_path).exit == 0


def begun_at(source: Path, offset: int) -> int:
    """Let a metadata log begin at an offset or above, and end torn; return where it begins."""
    parts = [one for one in intact((source / name(0)).read_bytes()) if one[0] >= offset]
    (source / name(0)).unlink()
    (source / name(parts[0][0])).write_bytes(b"".join(data for _, data in parts) + TORN)
    return parts[0][0]


# --- what it went on without --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("other", "told", "status"),
    [
        ("typo/plain-0", "typo/plain-0 (no such file)", 10),
        ("empty", "empty (no log of a partition here)", 10),
        ("unmounted", "unmounted (no log of a partition here)", 10),
        ("shut/plain-0", "shut/plain-0 (could not be read)", 5),
        ("closed/plain-0", f"closed/plain-0/{name(0)} (could not be read)", 5),
    ],
)
def test_a_result_that_may_lack_what_a_source_has_is_not_told_as_complete(
    other: str, told: str, status: int, tmp_path: Path
) -> None:
    files = {name(0): batch(0), "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"}
    for broker in ("good", "shut", "closed"):
        write(tmp_path / broker / "plain-0", files)
    (tmp_path / "empty").mkdir()
    write(tmp_path / "unmounted", {"recovery-point-offset-checkpoint": b"0\n0\n"})
    (tmp_path / "shut" / "plain-0").chmod(0)
    (tmp_path / "closed" / "plain-0" / name(0)).chmod(0)
    command = ["salvage", "good/plain-0", other, "--to"]
    why = f"went on without {told}: if it can be had, run salvage again with it, and another --to, before you use this"
    done = unprivileged(*command, "out", cwd=tmp_path)
    assert done.exit == status
    lines = whole_text(done.stdout.decode()).splitlines()
    assert "  nothing is lost of what was read" in lines
    assert [line for line in lines if line.startswith("  next 1")] == [f"  next 1: {why}"]
    assert lines[-2] == "not complete: 1 partition: plain-0 (next 1 of each says why)"
    rows = rows_of(unprivileged(*command, "out2", "--format", "json", cwd=tmp_path))
    step = next(row for row in rows if row["type"] == "step")
    assert (step["rank"], step["command"], step["why"]) == ("recommended", None, why)
    assert step["partitions"] == ["out2/plain-0"]
    assert [row["type"] for row in rows if row["type"] in ("salvage", "step")][:2] == ["salvage", "step"]


def test_a_source_without_a_partition_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    write(tmp_path / "disk1", {f"plain-0/{name(0)}": batch(0)})
    write(tmp_path / "disk2", {"meta.properties": b"version=1\nnode.id=1\n"})
    done = run_kdump(["salvage", "disk1", "disk2", "--to", "out"], tmp_path)
    told = "kdump: disk2: no partition in this log.dir; see whether its volume is mounted\n"
    assert (done.exit, done.stderr.decode()) == (10, told)


def test_a_partition_that_only_another_directory_keeps_shut_is_told_as_complete(tmp_path: Path) -> None:
    write(tmp_path / "logdir", {f"plain-{number}/{name(0)}": batch(0) for number in range(2)})
    write(tmp_path / "other", {f"plain-1/{name(0)}": batch(0)})
    (tmp_path / "other" / "plain-1").chmod(0)
    text = unprivileged("salvage", "logdir", "other", "--to", "out", cwd=tmp_path).stdout.decode()
    assert text.count("went on without other/plain-1 (could not be read)") == 1
    assert "not complete: 1 partition: plain-1 (" in text


def test_bytes_that_the_disk_does_not_read_are_told_before_the_next_steps(tmp_path: Path) -> None:
    source = str(write(tmp_path / "plain-0", {name(0): batch(0)}))
    problem = OpenFailure(f"{source}/{name(0)}", "read", "bytes 0..9 cannot be read: Input/output error")
    steps = list(_steps_without(_without([problem, problem])))
    assert [step.why.partition(":")[0] for step in steps] == [
        f"went on without {source}/{name(0)} (some bytes could not be read)"
    ]


@pytest.mark.parametrize("source", ["emptyd", "notk"])
def test_a_source_without_kafka_files_is_said_to_be_one(source: str, tmp_path: Path) -> None:
    (tmp_path / "emptyd").mkdir()
    write(tmp_path / "notk", {"README": b"x"})
    done = run_kdump(["salvage", source, "--to", "out"], tmp_path)
    assert (done.exit, done.stderr.decode()) == (10, f"kdump: {source}: no Kafka files here\n")


# --- where it cannot write --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("no/such", "no: no such directory, and --to goes into it; make it first: mkdir -p no"),
        ("file/out", "file: Not a directory"),
        ("closed/out", "closed/out: cannot be made: Permission denied"),
    ],
)
def test_a_directory_that_cannot_be_made_is_said_once_for_all_partitions(to: str, why: str, tmp_path: Path) -> None:
    write(tmp_path / "logdir", {f"plain-{number}/{name(0)}": batch(0) for number in range(3)})
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    done = unprivileged("salvage", "logdir", "--to", to, cwd=tmp_path)
    assert done.exit == 13
    assert done.stderr.decode() == f"kdump: {why}\n"


# --- what the options decide ------------------------------------------------------------------------------------
OLD, TOMBSTONE = Record(b"old", key=b"k"), Record(None, key=b"k")


def cleaned_copies(root: Path, tail: list[Record], *, alone: bool) -> list[str]:
    """One copy as it was written, its tombstone destroyed; in the other the cleaner has taken `k` away, and all of it.

    Args:
        root: where they go.
        tail: the records of the batch that is destroyed.
        alone: the old record of `k` is a batch by itself.
    """
    left = batch(1, [Record(b"x", key=b"x")]) if alone else batch(0, [Record(b"x", key=b"x", delta=1)])
    whole = batch(0, [OLD]) + left if alone else batch(0, [OLD, Record(b"x", key=b"x")])
    torn = bytearray(batch(2, tail))
    torn[-1] ^= 1
    end = batch(2 + len(tail), [Record(b"y", key=b"y")])
    copies = {"b1": whole + bytes(torn) + end, "b2": left + end}
    return [str(write(root / one / "plain-0", {name(0): data})) for one, data in copies.items()]


@pytest.mark.parametrize("alone", [False, True], ids=["one of a batch", "a batch by itself"])
def test_a_key_whose_tombstone_is_lost_and_cleaned_away_elsewhere_is_listed_as_revived(
    alone: bool, tmp_path: Path
) -> None:
    made = run_kdump(
        ["salvage", *cleaned_copies(tmp_path, [TOMBSTONE], alone=alone), "--to", "out", "--format", "json"], tmp_path
    )
    revived = [row for row in rows_of(made) if row["type"] == "revived"]
    assert [(row["partition"], row["key"], row["offset"]) for row in revived] == [("plain-0", "k", 0)]


@pytest.mark.parametrize("alone", [False, True], ids=["one of a batch", "a batch by itself"])
def test_a_key_that_has_a_newer_record_is_not_revived(alone: bool, tmp_path: Path) -> None:
    sources = cleaned_copies(tmp_path, [TOMBSTONE], alone=alone)
    for source in sources:
        with (tmp_path / source / name(0)).open("ab") as log:
            log.write(batch(4, [Record(b"new", key=b"k")]))
    made = run_kdump(["salvage", *sources, "--to", "out", "--format", "json"], tmp_path)
    assert [row for row in rows_of(made) if row["type"] == "revived"] == []


@pytest.mark.parametrize("nodes", ["12", "21", "13", "31", "23", "32", "123", "321"])
def test_intact_replicas_that_each_broker_cleaned_by_itself_are_one_line(nodes: str, tmp_path: Path) -> None:
    """The delete horizons of their batches differ, and with it what their timestamps count from."""
    clean = FIXTURES / "kafka-4.3.1" / "clean"
    for topic in ("compact-0", "compacttxn-0"):
        sources = [str(at) for n in nodes if (at := clean / f"node{n}" / topic).is_dir()]
        if len(sources) < 2:
            continue
        run = run_kdump(["salvage", *sources, "--to", topic, "--format", "json"], tmp_path)
        rows = rows_of(run)
        assert run.exit == 0
        assert not [row for row in rows if row["type"] in ("divergent", "revived") or row.get("certainty") == "lost"]
        (done,) = (row for row in rows if row["type"] == "salvage")
        for number, source in enumerate(sources):
            run = run_kdump(["salvage", source, "--to", f"{topic}-{number}", "--format", "json"], tmp_path)
            (one,) = (row for row in rows_of(run) if row["type"] == "salvage")
            assert (done["batches"], done["records"]) >= (one["batches"], one["records"])
            assert done["logEndOffset"] == one["logEndOffset"]


@pytest.mark.parametrize(
    ("gone", "holes"),
    [
        ((9,), [(9, 9)]),
        ((4,), [(4, 4)]),
        (tuple(range(10, 20)), [(10, 19)]),
        ((9, 19), [(9, 9), (19, 19)]),
        ((4, 19), [(4, 4), (19, 19)]),
        ((4, 14), [(4, 4), (14, 14)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", [(), ("--set", "cleanup.policy=delete")], ids=["nobody says", "delete"])
def test_verify_and_salvage_agree_what_holes_are(
    policy: tuple[str, ...], gone: tuple[int, ...], holes: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Segments begin at 0, 10 and 20; of a hole at the end of one only the name of the next one tells."""
    logs = {base: [batch(n, [b"v"]) for n in range(base, base + 10) if n not in gone] for base in (0, 10, 20)}
    write(tmp_path / "t-0", {name(base): b"".join(data) for base, data in logs.items() if data})
    for verb in (["verify", "t-0"], ["salvage", "t-0", "--to", "out"]):
        run = run_kdump([*verb, "--format", "json", *policy], tmp_path)
        rows = [row for row in rows_of(run) if row["type"] == "loss"]
        assert [(row["offset"], row["lastOffset"]) for row in rows] == holes
        assert {row["certainty"] for row in rows} == {"lost" if policy else "unexplained"}
        assert run.exit == (3 if policy else 0)
        count = sum(last - first + 1 for first, last in holes)
        summary = rows_of(run)[-1]
        assert (summary["offsetsLost"], summary["offsetsUnexplained"]) == ((count, 0) if policy else (0, count))


def test_offsets_of_which_nothing_tells_are_in_every_total_of_salvage_from_a_former_run_too(tmp_path: Path) -> None:
    write(tmp_path / "t-0", {name(base): batch(base, [b"v"] * 10) for base in (0, 20)})
    for _ in range(2):
        text = run_kdump(["salvage", "t-0", "--to", "out"], tmp_path).stdout.decode().splitlines()
        assert text[-1].endswith("; lost: nothing; unexplained: 10 offsets")
        rows = rows_of(run_kdump(["salvage", "t-0", "--to", "out", "--format", "json"], tmp_path))
        *_, row, summary = (one for one in rows if one["type"] != "step")
        assert (row["type"], row["offsetsUnexplained"], summary["offsetsUnexplained"]) == ("salvage", 10, 10)


def test_a_log_that_its_indexes_show_to_be_lost_is_no_hole_of_compaction(tmp_path: Path) -> None:
    logs = {base: b"".join(batch(n, [b"v"]) for n in range(base, base + 10) if n % 10 != 4) for base in (0, 10, 20)}
    partition = write(tmp_path / "t-0", {name(base): data for base, data in logs.items()})
    args = ["reindex", "t-0", "--apply", "--quarantine", "q", "--index-interval-bytes", "100"]
    assert run_kdump(args, tmp_path).exit == 0
    (partition / name(10)).unlink()
    rows = rows_of(run_kdump(["salvage", "t-0", "--to", "out", "--format", "json"], tmp_path))
    lost = [(row["offset"], row["lastOffset"]) for row in rows if row["type"] == "loss" and row["certainty"] == "lost"]
    assert (10, 19) in lost


def test_a_compaction_never_explains_the_missing_end_of_a_log(tmp_path: Path) -> None:
    """Nothing there is absent, for verify and salvage; what the high watermark alone knows may have been cut off."""
    for number in (1, 2, 3):
        node = FIXTURES / "kafka-4.3.1" / "clean" / f"node{number}"
        partition = copy_tree(node / "compact-0", tmp_path / f"n{number}" / "compact-0")
        shutil.copy(node / "replication-offset-checkpoint", tmp_path / f"n{number}")
        os.truncate(partition / name(0), 4000)
        for path in partition.glob("000000000000000006*"):
            path.unlink()
    checked = rows_of(run_kdump(["verify", "--replicas", "n1", "n2", "n3", "--format", "json"], tmp_path))
    told = [row for row in checked if row["type"] == "loss" and row["certainty"] != "absent"]
    lost = [(row["offset"], row["lastOffset"]) for row in told]
    sources = [f"n{number}/compact-0" for number in (1, 2, 3)]
    rows = rows_of(run_kdump(["salvage", *sources, "--to", "out", "--format", "json"], tmp_path))
    losses = [row for row in rows if row["type"] == "loss"]
    ends = [(row["offset"], row["lastOffset"]) for row in losses if row["certainty"] != "absent"]
    assert (ends[0][0], ends[-1][1]) == (min(lost)[0], max(last for _, last in lost)) == (538, 679)
    assert all(row["lastOffset"] < 538 for row in losses if row["certainty"] == "absent")
    (row,) = (one for one in rows if one["type"] == "salvage")
    assert row["offsetsLost"] == 10  # the torn batch


# --- parts of a partition -----------------------------------------------------------------------------------
SPAN = FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "txnspan-0"


@pytest.mark.parametrize("given", [(68,), (68, 139)])
def test_a_result_of_some_segments_of_a_directory_is_not_put_in_place(given: tuple[int, ...], tmp_path: Path) -> None:
    copy_tree(SPAN, tmp_path / "d" / SPAN.name)
    logs = [f"d/txnspan-0/{name(base)}" for base in given]
    for again in (False, True):
        run = run_kdump(["salvage", *logs, "--to", "out"], tmp_path)
        assert run.exit == 3
        text = run.stdout.decode()
        assert f"d/txnspan-0: only {len(given)} of 4 segments read" in run.stderr.decode()
        (step,) = (line for line in text.splitlines() if line.startswith("  next "))
        assert step.startswith("  next 1: do not put out/txnspan-0 in place")
        assert step.endswith(f"only {len(given)} of 4 segments of d/txnspan-0; salvage them all: {WHOLE}")
        assert "nothing is lost" not in text
        assert "readers of committed data wait" not in text
        assert ("kept from a former run" in text) is again
    rows = rows_of(run_kdump(["salvage", *logs, "--to", "out", "--format", "json"], tmp_path))
    assert [row["command"] for row in rows if row["type"] == "step"] == [WHOLE]
    spans = [(row["offset"], row["lastOffset"]) for row in rows if row["type"] in ("kept", "loss")]
    assert (spans[0][0], spans[-1][1]) == (0, 257)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(spans))
    assert run_kdump([*WHOLE.split()[1:-1], "all"], tmp_path).exit == 0


WHOLE = "kdump salvage d/txnspan-0 --to DIR"


def test_logs_named_as_files_are_whole_where_nothing_beside_them_is_left_out(tmp_path: Path) -> None:
    whole = copy_tree(SPAN, tmp_path / "d" / SPAN.name)
    (tmp_path / "alone" / SPAN.name).mkdir(parents=True)
    shutil.copy(whole / name(68), tmp_path / "alone" / SPAN.name)
    every = sorted(str(log) for log in whole.glob("*.log"))
    one = f"d/txnspan-0/{name(68)}"
    for number, sources in enumerate((every, [one, "d/txnspan-0"], [f"alone/txnspan-0/{name(68)}"])):
        run = run_kdump(["salvage", *sources, "--to", f"out{number}"], tmp_path)
        assert (run.exit, run.stderr) == (0, b"")
        assert b"do not put" not in run.stdout


def test_the_command_for_all_segments_has_the_name_that_the_directory_does_not_tell(tmp_path: Path) -> None:
    copy_tree(SPAN, tmp_path / "-old")
    run = run_kdump(["salvage", f"./-old/{name(68)}", "--to", "out", "--name", "txnspan-0"], tmp_path)
    assert run.stdout.count(b": kdump salvage ./-old --to DIR --name txnspan-0\n") == 1


# --- empty partitions ---------------------------------------------------------------------------------------
def with_an_empty_one(root: Path, files: dict[str, bytes], high_watermark: int = 5) -> Any:
    """Salvage a log directory of a partition with a batch, and of empty-0."""
    write(root / "logs" / "plain-0", {name(0): batch(0, [b"v"])})
    write(root / "logs" / "empty-0", files)
    write(root / "logs", {"replication-offset-checkpoint": b"0\n1\nempty 0 %d\n" % high_watermark})
    return run_kdump(["salvage", "logs", "--to", "out"], root)


def test_an_empty_partition_beside_others_that_are_written_is_a_note(tmp_path: Path) -> None:
    blank = {name(5): b"", name(5, "index"): bytes(80), name(5, "timeindex"): bytes(120)}
    files = {**blank, "leader-epoch-checkpoint": checkpoint((3, 5)), name(5, "snapshot"): snapshot()}
    run = with_an_empty_one(tmp_path, files)
    assert run.exit == 0
    assert run.stderr == b"kdump: empty-0: empty in logs, and nothing there tells of a record: not written\n"
    assert run_kdump(["salvage", "logs/empty-0", "--to", "other"], tmp_path).exit == 10


@pytest.mark.parametrize(
    ("files", "high_watermark"),
    [
        ({}, 6),
        ({name(5): b"x"}, 5),
        ({name(5, "index"): struct.pack(">ii", 3, 40)}, 5),
        ({name(5, "timeindex"): struct.pack(">qi", 1000, 0)}, 5),
        ({name(9): b""}, 5),
        ({name(9, "index"): b""}, 5),
        ({name(9, "snapshot"): snapshot()}, 5),
        ({"leader-epoch-checkpoint": checkpoint((0, 5), (2, 8))}, 5),
    ],
)
def test_an_empty_log_with_a_sign_of_records_is_no_batch_found(
    files: dict[str, bytes], high_watermark: int, tmp_path: Path
) -> None:
    run = with_an_empty_one(tmp_path, {name(5): b"", **files}, high_watermark)
    assert run.exit == 10
    assert b"no batch of it was found" in run.stderr


def test_a_batch_too_high_cleans_no_offsets_away(tmp_path: Path) -> None:
    """Between it and the batch before it the log lacks nothing that is behind it."""
    whole = [batch(offset, [Record(b"v", key=b"k%d" % offset)]) for offset in range(8)]
    odd = list(whole)
    odd[4] = (4 + (3 << 20)).to_bytes(8, "big") + odd[4][8:]
    odd[5] = torn(odd[5])
    for number, parts in enumerate((whole, odd)):
        write(tmp_path / f"b{number}" / "plain-0", {name(0): b"".join(parts)})
    one = read_log(BytesSource(b"".join(odd)), 0, OPTIONS.limits, EpochsAround())
    cleaned = Cleaned()
    runs = ValidRuns()
    runs.append(0, sum(map(len, odd[:5])), 0, 4 + (3 << 20))
    runs.append(sum(map(len, odd[:6])), sum(map(len, odd)), 6, 7)
    cleaned.add(BytesSource(b"".join(odd)), one.replace(runs=runs, gaps=1), 0, None, OPTIONS.limits)
    assert cleaned.has(4, 5)
    assert not cleaned.has(6, 6)


def test_epochs_of_a_replica_known_to_be_good_win_over_the_highest_epoch_of_the_sources(tmp_path: Path) -> None:
    good = copy(tmp_path, 1, line((0, 4, 1), (5, 6, 3)), None)
    newer = copy(tmp_path, 2, [*line((0, 4, 1)), *line((5, 9, 4), mark=b"x")], None)
    (tmp_path / "known").write_bytes(checkpoint((1, 0), (3, 5)))
    for args, mark in (([], b"x"), (["--epochs", "known"], b"t")):
        out = f"out{len(args)}"
        assert run_kdump(["salvage", good, newer, "--to", out, *args], tmp_path).exit == 0
        assert batches(tmp_path / out / "plain-0")[5].endswith(mark + b"5" + b"\0")


def test_epochs_that_are_no_sound_checkpoint_are_wrong_use(tmp_path: Path) -> None:
    source = copy(tmp_path, 1, line((0, 4, 1)), None)
    (tmp_path / "torn").write_bytes(checkpoint((1, 0), (3, 5))[:-4])
    for path in ("torn", "missing"):
        assert run_kdump(["salvage", source, "--to", "out", "--epochs", path], tmp_path).exit == 2
    assert not (tmp_path / "out").exists()


def log_start_at(root: Path, offset: int) -> str:
    """A partition of six batches, of whose log directory the checkpoint has a log start offset."""
    write(root / "logs", {"log-start-offset-checkpoint": b"0\n1\nplain 0 %d\n" % offset})
    return str(write(root / "logs" / "plain-0", {name(0): b"".join(batch(at, [b"v"]) for at in range(6))}))


def test_batches_below_the_log_start_stay_out_as_absent_unless_they_are_asked_for(tmp_path: Path) -> None:
    source = log_start_at(tmp_path, 3)
    rows = rows_of(run_kdump(["salvage", source, "--to", "out", "--format", "json"], tmp_path))
    spans = [(row["type"], row["offset"], row["lastOffset"]) for row in rows if row["type"] in ("kept", "loss")]
    assert spans[-1] == ("kept", 3, 5)
    assert all(row["certainty"] == "absent" for row in rows if row["type"] == "loss")
    assert rows[-2]["logStartOffset"] == 3
    said = run_kdump(["salvage", source, "--to", "again"], tmp_path)
    assert said.exit == 0
    assert b"log-start-offset-checkpoint says `plain 0 3`" in said.stdout
    assert b"3 intact records below the log start offset 3 stay out" in said.stdout
    assert b"leave them in place" not in said.stdout
    low = run_kdump(["salvage", source, "--to", "low", "--below-log-start"], tmp_path).stdout
    assert b"log-start-offset-checkpoint says `plain 0 0`" in low  # by the old one a broker deletes what was rescued
    assert (
        b"log-start-offset-checkpoint says `plain 0 0`"
        in run_kdump(["salvage", source, "--to", "low"], tmp_path).stdout
    )
    asked = run_kdump(["salvage", source, "--to", "all", "--below-log-start", "--format", "json"], tmp_path)
    assert [(row["offset"], row["lastOffset"]) for row in rows_of(asked) if row["type"] == "kept"] == [(0, 5)]
    assert sorted(batches(tmp_path / "all" / "plain-0")) == list(range(6))


def test_a_log_start_above_the_end_of_its_own_log_does_not_count_and_is_told(tmp_path: Path) -> None:
    made = run_kdump(["salvage", log_start_at(tmp_path, 7), "--to", "out"], tmp_path)
    assert sorted(batches(tmp_path / "out" / "plain-0")) == list(range(6))
    assert b"(K02) and does not count" in made.stdout


def test_prefer_names_one_of_the_sources(tmp_path: Path) -> None:
    source = copy(tmp_path, 1, line((0, 4, 1)), None)
    done = run_kdump(["salvage", source, "--to", "out", "--prefer", "other"], tmp_path)
    assert done.exit == 2
    assert f"name one as it was given: --prefer {source}" in done.stderr.decode()


def test_a_contradiction_of_log_directories_names_the_source_to_paste(tmp_path: Path) -> None:
    """It named the partitions only, and `--prefer broker1/plain-0` was none of the sources."""
    for broker, mark in ((1, b"v"), (2, b"x")):
        copy(tmp_path, broker, line((0, 3, 1)) + line((4, 5, 1), mark=mark), [(1, 0)])
    args = ["salvage", "broker1", "broker2/", "--to", "out"]
    done = run_kdump(args, tmp_path)
    assert done.exit == 12
    assert done.stderr.decode().endswith("Name the one that counts: --prefer broker1 or --prefer broker2/\n")
    done = run_kdump([*args, "--prefer", "broker1/plain-0"], tmp_path)
    assert done.exit == 2
    assert "is none of the sources; it lies in one: --prefer broker1\n" in done.stderr.decode()
    assert run_kdump([*args, "--prefer", "broker2/"], tmp_path).exit == 0
    assert b"x5" in batches(tmp_path / "out" / "plain-0")[5]


def test_one_wrong_bit_in_the_last_epoch_of_a_copy_wins_over_no_other_copy(tmp_path: Path) -> None:
    good = copy(tmp_path, 1, line((0, 4, 1), (5, 9, 3)), None)
    stale = copy(tmp_path, 2, [*line((0, 4, 1)), *line((5, 5, 1), (6, 6, 16385), mark=b"x")], None)
    assert [item for item in run(tmp_path, [good, stale]) if isinstance(item, SalvageDone)] == []
    got = values(run(tmp_path, [good, stale], OPTIONS.replace(prefer=good)), tmp_path)
    assert sorted(got) == list(range(10))
    assert not any(b"x" in data[61:] for data in got.values())


# --- writing ----------------------------------------------------------------------------------------------------
ERRORS = [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, bytes], list[str]]:
    """A source, the files of its result, and the names of the calls that write them."""
    root = tmp_path_factory.mktemp("whole")
    parts = [batch(at, [b"v%d" % at], epoch=at // 4, flags=TRANSACTIONAL, producer=(7, 0, at)) for at in range(6)]
    files = {name(0): b"".join(parts[:3]), name(3): b"".join(parts[3:]), "partition.metadata": METADATA}
    source = str(write(root / "plain-0", {**files, "leader-epoch-checkpoint": checkpoint((0, 0), (1, 4))}))
    counting = Counting()
    assert made(source, root / "out", counting)
    return source, contents(root / "out"), counting.names


METADATA = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def made(source: str, to: Path, ops: FileOps) -> bool:
    """Salvage; whether that has ended well."""
    items = list(salvage([source], Wanted(str(to), None, ()), OPTIONS, ops))
    done = any(isinstance(item, SalvageDone) for item in items)
    assert done or any(isinstance(item, SalvageRefused) and item.failed for item in items)
    return done


def contents(to: Path) -> dict[str, bytes]:
    """What has its final name, the rows without the paths of the result."""
    found = {path.name: path.read_bytes() for path in (to / "plain-0").glob("*")}
    rows = to / "plain-0.salvage.jsonl"
    return {**found, rows.name: rows.read_bytes().replace(str(to).encode(), b"")} if rows.exists() else found


def check_and_end(whole: tuple[str, dict[str, bytes], list[str]], to: Path, number: int) -> None:
    """What has its name is whole; the same command ends what is left."""
    source, wanted, calls = whole
    assert contents(to) in ({}, {ROWS: wanted[ROWS]}, wanted), (number, calls[number])
    assert made(source, to, Quick())
    assert contents(to) == wanted, (number, calls[number])
    assert sorted(path.name for path in to.iterdir()) == ["plain-0", ROWS]
    shutil.rmtree(to)


ROWS = "plain-0.salvage.jsonl"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_salvage_that_is_killed_at_any_call_starts_again(
    whole: tuple[str, dict[str, bytes], list[str]], after: bool, one_in: OneIn, tmp_path: Path
) -> None:
    source, _, calls = whole
    for number in one_in(3, range(len(calls))):
        killed_at(number, lambda ops: made(source, tmp_path / "out", ops), after=after)
        (tmp_path / "out").mkdir(exist_ok=True)
        check_and_end(whole, tmp_path / "out", number)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: errno.errorcode[error])
def test_a_salvage_whose_call_fails_leaves_nothing_under_a_final_name_that_is_not_whole(
    whole: tuple[str, dict[str, bytes], list[str]], error: int, one_in: OneIn, tmp_path: Path
) -> None:
    source, wanted, calls = whole
    for number in one_in(3, range(len(calls))):
        to = tmp_path / "out"
        assert not made(source, to, Faulty(number, fails(error))) or contents(to) == wanted, (number, calls[number])
        to.mkdir(exist_ok=True)
        assert [path.name for path in to.iterdir() if path.name not in ("plain-0", ROWS)] == [], calls[number]
        check_and_end(whole, to, number)


def test_a_disk_that_is_full_from_some_call_on_leaves_the_sources_and_an_empty_directory(
    whole: tuple[str, dict[str, bytes], list[str]], one_in: OneIn, tmp_path: Path
) -> None:
    source, _, calls = whole
    before = fingerprint(Path(source))
    for number in one_in(3, range(1, len(calls))):
        to = tmp_path / "out"
        if not made(source, to, Full(number)):
            assert contents(to) in ({}, {ROWS: contents(to).get(ROWS)})
        check_and_end(whole, to, number)
    assert changed(before, fingerprint(Path(source))) is None


@pytest.mark.parametrize("gone", ["unlinked", "cut"])
def test_a_source_that_vanishes_or_shrinks_while_it_is_read_is_told_and_nothing_is_written(
    gone: str, tmp_path: Path
) -> None:
    parts = [batch(at, [b"v" * 5000]) for at in range(300)]
    source = write(tmp_path / "plain-0", {name(0): b"".join(parts[:150]), name(150): b"".join(parts[150:])})

    class Vanishing(Quick):
        """Takes a log away when the first file is made."""

        def create(self, directory: int, name_: str) -> int:
            if gone == "cut":
                os.truncate(source / name(150), 70_000)
            else:
                (source / name(150)).unlink(missing_ok=True)
            return super().create(directory, name_)

    items = list(salvage([str(source)], Wanted(str(tmp_path / "out"), None, ()), OPTIONS, Vanishing()))
    done = any(isinstance(item, SalvageDone) for item in items)
    if gone == "cut":  # what is open is read to its end, though it has no name
        assert not done
        assert [item for item in items if isinstance(item, OpenFailure | SalvageRefused)] != []
        assert list((tmp_path / "out").iterdir()) == []
    else:
        assert done
        assert len(batches(tmp_path / "out" / "plain-0")) == 300


def test_partitions_of_other_runs_stay_in_the_directory(tmp_path: Path) -> None:
    """The salvage steps of verify for several partitions may have the same --to."""
    for name_of in ("t-0", "u-1"):
        write(tmp_path / "logs" / name_of, {name(0): batch(0, [b"a", b"b"])})
    runs = [run_kdump(["salvage", f"logs/{one}", "--to", "out"], tmp_path) for one in ("t-0", "u-1", "t-0")]
    assert [(run.exit, run.stderr) for run in runs] == [(0, b"")] * 3
    assert b"t-0" not in runs[1].stdout
    assert sorted(one.name for one in (tmp_path / "out").iterdir() if one.is_dir()) == ["t-0", "u-1"]
    refused = run_kdump(["salvage", "logs", "--to", "out"], tmp_path)
    assert (refused.exit, refused.stdout.count(b"salvaged ")) == (12, 1)
    assert refused.stderr == b"kdump: out: t-0 was made of other sources; name a new directory\n"
    (tmp_path / "out" / "u-1.salvage.jsonl").write_text("rubbish\n")
    assert run_kdump(["salvage", "logs/t-0", "--to", "out"], tmp_path).exit == 12


def test_what_is_kept_beside_new_partitions_has_one_line_and_alone_all_of_it(tmp_path: Path) -> None:
    for name_of in ("t-0", "u-1"):
        write(tmp_path / "logs" / name_of, {name(0): batch(0, [b"a", b"b"])})
    write(tmp_path / "logs" / "empty-0", {name(0): b""})  # is never written: that holds nothing back
    command = ["salvage", "logs", "--to", "out"]
    run_kdump(command, tmp_path)
    shutil.rmtree(tmp_path / "out" / "u-1")
    text = " ".join(run_kdump(command, tmp_path).stdout.decode().split())
    (kept,) = re.findall("kept from a former run: (.*?) next", text)
    assert kept.startswith("t-0 -> out/t-0: offsets 0..1, ")
    assert kept.endswith("; nothing is lost; the same command once more says what to do")
    again = run_kdump(command, tmp_path).stdout.decode()
    assert "  what became of every offset: out/t-0.salvage.jsonl\n" in again
    assert again.count("  no copy of it is damaged: ") == 2


def test_rows_of_logs_that_a_group_may_write_are_its_own_all_the_same(tmp_path: Path) -> None:
    source = copy(tmp_path, 1, line((0, 4, 1)), None)
    for path in (tmp_path / source).iterdir():
        path.chmod(0o664)
    command = ["salvage", source, "--to", "out"]
    assert run_kdump(command, tmp_path).exit == 0
    assert (tmp_path / "out" / ROWS).stat().st_mode & 0o777 == 0o644
    again = run_kdump(command, tmp_path)
    assert (again.exit, again.stderr) == (0, b"")


def test_what_a_former_run_has_made_is_kept_and_said_to_be(tmp_path: Path) -> None:
    source = copy(tmp_path, 1, line((0, 4, 1)), None)
    command = ["salvage", source, "--to", "out", "--format", "json"]
    first = run_kdump(command, tmp_path)
    assert first.stderr == b""
    log = tmp_path / source / name(0)
    stamp = (tmp_path / "out" / ROWS).stat().st_mtime_ns
    for when, told in ((stamp - 1, []), (stamp + 1, [str(log)])):
        os.utime(log, ns=(when, when))
        os.utime(source, ns=(stamp - 1, stamp - 1))
        again = run_kdump(command, tmp_path)
        assert again.exit == 0
        row = rows_of(again)[-2]
        assert (row.pop("keptFromFormerRun"), row.pop("changedSince")) == (True, told)
        assert row == rows_of(first)[-2]
        assert again.stderr.count(b"\n") == 1
        assert b"plain-0: kept from a former run, its sources were not read again" in again.stderr
        assert (b"changed since" in again.stderr) == bool(told)
        text = run_kdump(command[:4], tmp_path)
        assert text.stdout.startswith(b"kept from a former run: plain-0")
        assert b"remove out/plain-0 or name another --to" in text.stdout
        assert text.stderr == b""
        assert text.stdout.count(b"its sources were not read again") == 1
    shutil.rmtree(tmp_path / "out" / "plain-0")
    assert run_kdump(command, tmp_path).stdout == first.stdout


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["logdir", "--to", "logdir/x"], 12),
        (["logdir", "--to", "full"], 12),
        (["renamed", "--to", "out"], 12),
        (["renamed", "--to", "out", "--name", "plain-x"], 2),
        (["renamed", "--to", "out", "--name", "plain-0"], 0),
        (["nothing", "--to", "out"], 10),
        (["fifo", "--to", "out"], 5),
    ],
)
def test_the_status_of_salvage_says_how_it_ended(args: list[str], status: int, tmp_path: Path) -> None:
    tree = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logdir")
    copy_tree(tree / "plain-0", tmp_path / "renamed")
    write(tmp_path / "full", {"file": b"x"})
    os.mkfifo(tmp_path / "fifo")
    assert run_kdump(["salvage", *args], tmp_path).exit == status


# --- logs of other partitions, and under other names ----------------------------------------------------------
def plain_with(tmp_path: Path, **logs: Path) -> Path:
    """An intact partition of three segments, with other logs under some of its names."""
    tree = tmp_path / "d"
    shutil.copytree(FIXTURES / "damage" / "intact" / "none" / "logdir", tree)
    for base, source in logs.items():
        shutil.copy(source, tree / "plain-0" / f"{int(base[1:]):020}.log")
    return tree


@pytest.mark.parametrize(("base", "span"), [("b0", (0, 118)), ("b119", (119, 239)), ("b240", (240, 296))])
def test_a_log_of_another_partition_stays_out_of_the_only_copy_and_its_place_is_lost(
    base: str, span: tuple[int, int], tmp_path: Path
) -> None:
    source = FIXTURES / "damage" / "intact" / "zstd" / "logdir" / "zstd-0" / f"{159:020}.log"
    tree = plain_with(tmp_path, **{base: source})
    run = run_kdump(["salvage", "d", "--to", "out", "--format", "json"], tmp_path)
    assert run.exit == 3
    lost = [row for row in rows_of(run) if row["type"] == "loss"]
    assert [(row["offset"], row["lastOffset"], row["certainty"], row["because"]) for row in lost] == [
        (*span, "lost", ["F15"])
    ]
    assert lost[0]["file"] == f"d/plain-0/{span[0]:020}.log"
    assert not [row for row in rows_of(run) if row["type"] == "divergent"]
    kept = {
        one
        for log in (tree / "plain-0").glob("*.log")
        if log.read_bytes() != source.read_bytes()
        for _, one in intact(log.read_bytes())
    }
    assert set(batches(tmp_path / "out" / "plain-0").values()) == kept


def test_a_copy_whose_logs_have_wrong_names_is_not_called_sound_and_gives_all(tmp_path: Path) -> None:
    tree = plain_with(tmp_path)
    (tree / "plain-0" / f"{119:020}.log").rename(tree / "plain-0" / f"{118:020}.log")
    run = run_kdump(["salvage", "d", "--to", "out"], tmp_path)
    assert run.exit == 0
    assert b"no copy of it is damaged" not in run.stdout
    assert f"mv -n d/plain-0/{118:020}.log d/plain-0/{119:020}.log".encode() in run.stdout
    whole = FIXTURES / "damage" / "intact" / "none" / "logdir" / "plain-0"
    for log in whole.glob("*.log"):
        assert (tmp_path / "out" / "plain-0" / log.name).read_bytes() == log.read_bytes()


def test_where_nothing_is_salvaged_nothing_is_said_of_losses(tmp_path: Path) -> None:
    run = run_kdump(["salvage", "nowhere", "--to", "out"], tmp_path)
    assert (run.exit, run.stdout) == (10, b"nothing was salvaged\n")
