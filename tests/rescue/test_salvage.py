"""Salvage: what comes out of damaged partitions, by the bytes that a search without kdump finds intact."""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

from kdump.rescue.salvage import Wanted, salvage, steps_for
from kdump.salvaged import SalvageDone, SalvageRefused
from kdump.storage.fsops import FileOps
from tests.support.damage_cases import Damage, damage_cases
from tests.support.healing import OPTIONS, Quick, batches, many
from tests.support.partitions import checkpoint, marker, name, snapshot, write
from tests.support.runs import FIXTURES, changed, copy_tree, fingerprint, run_kdump
from tests.support.segments import TRANSACTIONAL, batch, message, wrapper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kdump.rescue.partition import SalvageOptions

CASES = damage_cases(FIXTURES / "damage")
STICKS = {
    *("R01", "R02", "R03", "R04", "R06", "C01", "C02", "C04", "C05", "C07"),
    *("B05", "B07", "B08", "B09", "B11", "P03"),
}


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
        if not (why & STICKS or absent or {"O06", "L10"} & set(case.codes)) and case.name != "l04-head-zeroed":
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
    assert [row["type"] for row in rows[-2:]] == ["salvage", "summary"]
    spans = [(row["offset"], row["lastOffset"]) for row in rows if row["type"] in ("kept", "loss")]
    assert all(first <= last for first, last in spans)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(spans))


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
    "negative": (5, [batch(-5, [b"v"]), batch(-4, [b"v"])], (6, 7, ["O01"])),
    "the last offset wraps": (LIMIT - 8, [batch(LIMIT - 3, [b"v"] * 9)], (LIMIT - 7, LIMIT - 1, ["O02"])),
    "no log end": (LIMIT - 8, [batch(LIMIT, [b"v"])], (LIMIT - 7, LIMIT - 7, ["O02"])),
    "negative inside": (5, [wrapper(0, -3, [b"a", b"b"], wrapper_offset=7)], (6, 7, ["O03"])),
    "above its wrapper": (5, [wrapper(0, 2**32, [b"a"], wrapper_offset=6)], (6, 6, ["O03"])),
}


@pytest.mark.parametrize("case", NO_OFFSET)
def test_a_batch_without_an_offset_that_can_be_stays_out_and_is_doubtful(case: str, tmp_path: Path) -> None:
    base, odd, expected = NO_OFFSET[case]
    good = batch(base, [b"v"])
    assert values(run(tmp_path, [log_of(tmp_path, base, good, *odd)]), tmp_path) == {base: good}
    assert doubtful(tmp_path) == [expected]


def test_a_wrapper_that_begins_inside_the_message_before_is_another_branch(tmp_path: Path) -> None:
    parts = [message(0, 5), wrapper(0, 5, [b"a", b"b", b"c"])]
    items = run(tmp_path, [log_of(tmp_path, 5, *parts)])
    assert values(items, tmp_path) == {5: parts[0]}


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


def test_a_transaction_without_its_end_stays_open(tmp_path: Path) -> None:
    parts = [batch(0, [b"a"], flags=TRANSACTIONAL, producer=(7, 0, 0)), bytes(78)]
    source = str(write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    items = run(tmp_path, [source])
    done = next(item for item in items if isinstance(item, SalvageDone))
    assert [(one.producer_id, one.first_offset) for one in done.salvaged.open_transactions] == [(7, 0)]
    assert (tmp_path / "out" / "plain-0" / f"{1:020}.snapshot").stat().st_size > 10


# --- steps --------------------------------------------------------------------------------------------------
def test_every_broker_gets_the_copy_as_an_empty_one_may_be_elected(tmp_path: Path) -> None:
    """Three brokers, one copy: the controller elected an empty broker of the ISR, and the copy was cut to offset 0."""
    parts = [batch(0, [b"a"], flags=TRANSACTIONAL, producer=(7, 0, 0)), bytes(78)]
    source = str(write(tmp_path / "plain-0", {name(0): b"".join(parts)}))
    done = next(item for item in run(tmp_path, [source]) if isinstance(item, SalvageDone))
    steps = [step.why for step in done.steps]
    assert steps[0].startswith("stop every broker that has a replica of plain-0; on each move its directory away")
    assert f"copy {done.path} into the log.dir of each of them" in steps[2]
    assert "on each recovery-point-offset-checkpoint" in steps[3]
    assert "`plain 0` to 1 where" in steps[3]
    assert steps[4] == "start them; reset groups that had committed an offset above 1"
    assert "kdump transactions --hanging" in steps[5]
    ended = done.salvaged.replace(open_transactions=())
    assert [step.why for step in steps_for(ended, done.path, 1, has_id=True)] == [
        *(steps[0], steps[2]),
        "on each see that log-start-offset-checkpoint says `plain 0 1`",
        *steps[3:5],
    ]


def test_a_partition_without_topic_id_is_a_stray_until_somebody_writes_it(tmp_path: Path) -> None:
    """Three brokers got partitions of carved runs: each renamed them to -stray, and led empty ones."""
    files = {name(0): batch(0, [b"a"])}
    for ident in (b"", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"):
        files |= {"partition.metadata": ident} if ident else {}
        source = str(write(tmp_path / str(len(ident)) / "plain-0", files))
        items = list(salvage([source], Wanted(str(tmp_path / f"out{len(ident)}"), None, ()), OPTIONS, Quick()))
        done = next(item for item in items if isinstance(item, SalvageDone))
        assert any(f"write {done.path}/partition.metadata" in step.why for step in done.steps) == (not ident)


def test_only_one_log_of_the_metadata_goes_on(tmp_path: Path) -> None:
    source = str(write(tmp_path / "__cluster_metadata-0", {name(0): batch(0, [b"a"])}))
    done = next(item for item in run(tmp_path, [source]) if isinstance(item, SalvageDone))
    assert done.steps[0].why.startswith("stop the broker that is to have __cluster_metadata-0")
    assert "only one log may go on" in done.steps[-1].why


# --- writing ------------------------------------------------------------------------------------------------
class Killed(BaseException):
    """Ends a run as a signal would."""


class Faulty(FileOps):
    """Fails at the call with a number, counted from 0, or ends there."""

    def __init__(self, at: int, error: BaseException | None) -> None:
        self.at, self.calls, self._error = at, 0, error

    def call(self, name: str, function: Callable[..., Any], *args: object, **named: object) -> Any:
        """Make a call, or fail."""
        number, self.calls = self.calls, self.calls + 1
        if self._error is not None and number == self.at:
            raise self._error
        return None if name == "fsync" else function(*args, **named)


@pytest.mark.parametrize("error", [Killed(), OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "broken")], ids=repr)
def test_nothing_has_its_final_name_before_it_is_whole(error: BaseException, tmp_path: Path) -> None:
    source = str(copy_tree(FIXTURES / "damage" / "intact" / "txn" / "logdir", tmp_path / "d"))
    wanted, count = Wanted(str(tmp_path / "first"), None, ()), Faulty(-1, None)
    done = next(item for item in salvage([source], wanted, OPTIONS, count) if isinstance(item, SalvageDone))
    partition = done.salvaged.partition
    whole = {path.name: path.read_bytes() for path in (tmp_path / "first" / partition).iterdir()}
    for at in range(0, count.calls, 3):
        to = tmp_path / str(at)
        items: list[Any] = []
        with suppress(Killed):
            items = list(salvage([source], Wanted(str(to), None, ()), OPTIONS, Faulty(at, error)))
        if (to / partition).exists():
            assert {path.name: path.read_bytes() for path in (to / partition).iterdir()} == whole
            assert (to / f"{partition}.salvage.jsonl").exists()
        elif not isinstance(error, Killed):
            assert any(isinstance(item, SalvageRefused) and item.failed for item in items), at
        again = list(salvage([source], Wanted(str(to), None, ()), OPTIONS, Quick()))
        assert any(isinstance(item, SalvageDone) for item in again), (at, again)
        assert {path.name: path.read_bytes() for path in (to / partition).iterdir()} == whole


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
def test_exit_status(args: list[str], status: int, tmp_path: Path) -> None:
    tree = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logdir")
    copy_tree(tree / "plain-0", tmp_path / "renamed")
    write(tmp_path / "full", {"file": b"x"})
    os.mkfifo(tmp_path / "fifo")
    assert run_kdump(["salvage", *args], tmp_path).exit == status
