"""What waits for an open transaction, and what compaction makes of tombstones: `dump --fate` and `dump --committed`."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.cleaner.tombstones import REMOVED, UNMARKED, tombstone_of
from kdump.dump.input_file import input_files
from kdump.dump.last_stable import last_stable, log_reader
from kdump.format.checksum import crc32c
from kdump.storage.file_source import OpenFailure
from tests.support.coordinator_records import at, ended
from tests.support.field_cases import TIME, closed, log_dir
from tests.support.partitions import checkpoint, name, segment, snapshot, write
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.partitions import Files

COMPACT = ["--set", "cleanup.policy=compact"]
DAY = 86_400_000
ONE, TWO = (77, 0), (78, 0)


def told(root: Path, *args: str) -> tuple[dict[int, Any], str]:
    """The fates by offset, and what stands on standard error."""
    run = run_kdump(["dump", "logdir", "--fate", "--format", "json", *args], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {row["offset"]: row["fate"] for row in rows if row["type"] == "record"}, run.stderr.decode()


def record(key: str) -> Record:
    return Record(b"v", key.encode())


def never_ended(*, in_one_segment: bool) -> Files:
    """A transaction that began at 1 was never ended; another one and plain records came after it."""
    first = [at(0, TIME, record("a")), at(1, TIME, record("b"), producer=ONE)]
    second = [
        at(2, TIME, record("c")),
        at(3, TIME, record("d"), producer=TWO),
        ended(4, TIME, TWO, commit=True),
        at(5, TIME, *map(record, "efgh")),
    ]
    state = (77, 0, 0, 1, 0, TIME, -1, 1)
    files = segment(0, first + second) if in_one_segment else segment(0, first) | segment(2, second)
    files |= {name(9, "snapshot"): snapshot(state, (78, 0, 0, 3, 0, TIME, 0, -1))}
    files |= {} if in_one_segment else {name(2, "snapshot"): snapshot(state)}
    return log_dir({"orders-0": files | {"leader-epoch-checkpoint": checkpoint((0, 0))}})


@pytest.mark.parametrize("in_one_segment", [True, False])
def test_what_lies_behind_an_open_transaction_waits_for_it(in_one_segment: bool, tmp_path: Path) -> None:
    write(tmp_path / "logdir", never_ended(in_one_segment=in_one_segment))
    for first in (0, 2):  # the transaction need not be among what is shown
        found, _ = told(tmp_path, *COMPACT, "--from-offset", str(first))
        waits = {"producerId": 77, "firstOffset": 1}
        assert {offset: one["waitsFor"] for offset, one in found.items()} == {
            offset: waits if offset else None for offset in range(first, 9)
        }
        assert [one["transaction"] for one in found.values()][-6:-4] == ["committed", None]
    text = run_kdump(["dump", "logdir/orders-0", "--fate", *COMPACT], tmp_path).stdout
    assert text.count(b"kept") == 1  # offset 0


@pytest.mark.parametrize(("args", "behind"), [([], "6 of the records shown lie"), (["--key", "d"], "1 of the records")])
def test_committed_says_where_a_reader_stands(args: list[str], behind: str, tmp_path: Path) -> None:
    write(tmp_path / "logdir", never_ended(in_one_segment=False))
    runs = [
        run_kdump(["dump", "logdir", "--committed", "-j", jobs, *args], tmp_path).stderr.decode().splitlines()
        for jobs in ("1", "2")
    ]
    assert runs[0] == runs[1]
    (line,) = [one for one in runs[0] if "read_committed" in one]
    assert "stands at offset 1: there the transaction of producer 77 begins" in line
    assert behind in line
    aborted = run_kdump(["dump", "logdir", "--aborted", *args], tmp_path)
    assert b"read_committed" not in aborted.stderr


def test_of_a_log_that_lies_alone_the_log_itself_tells(tmp_path: Path) -> None:
    write(tmp_path, segment(0, [at(0, TIME, record("a")), at(1, TIME, record("b"), producer=ONE)]))
    (log,) = (one for one in input_files([str(tmp_path / name(0, "log"))]) if not isinstance(one, OpenFailure))
    log = log.replace(base=0, kind=log.name.kind)
    assert last_stable(log, log_reader(log, 1 << 20)) == (77, 1)
    assert last_stable(log, None) is None


def test_tombstones_of_old_formats_go_by_the_time_of_their_file() -> None:
    assert [tombstone_of(magic, 0, 0, 1, drop_legacy=old) for magic in (0, 1) for old in (True, False)] == [
        REMOVED,
        UNMARKED,
    ] * 2


def with_horizon(base: int, horizon: int, *records: Record) -> bytes:
    """A batch as the cleaner writes it: its base timestamp is the delete horizon."""
    data = bytearray(batch(base, records, base_timestamp=horizon))
    struct.pack_into(">h", data, 21, 64)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def test_tombstones_go_as_the_cleaner_decides(tmp_path: Path) -> None:
    tombstone, far = Record(None, b"x"), 4_000_000_000_000
    parts = [
        with_horizon(0, TIME + DAY, tombstone, record("k")),  # over
        with_horizon(2, far, Record(None, b"y")),
        at(3, TIME, Record(None, b"z"), Record(None, b"w")),
        at(5, TIME, record("w")),
    ]
    files = closed(8, end=10) | segment(0, parts) | {"leader-epoch-checkpoint": checkpoint((0, 0))}
    write(tmp_path / "logdir", log_dir({"t-0": files}, cleaner=("t", 0, 3)))
    found, said = told(tmp_path, *COMPACT)
    assert [(found[n]["tombstone"], found[n]["tombstoneUntil"]) for n in range(6)] == [
        ("removed", None),
        (None, None),
        ("until", far),
        ("unmarked", None),
        (None, None),  # superseded at 5
        (None, None),
    ]
    assert "logdir/t-0: tombstones go in passes of the cleaner: " in said
    deleted, said = told(tmp_path, "--set", "cleanup.policy=delete")
    assert {one["tombstone"] for one in deleted.values()} == {None}
    assert "tombstones" not in said


def test_why_no_pass_is_due_is_what_retention_says(tmp_path: Path) -> None:
    files = segment(0, [at(n, TIME + n, Record(None if n == 4 else b"v", b"k")) for n in range(5)])
    write(tmp_path / "logdir", log_dir({"t-0": files | {"leader-epoch-checkpoint": checkpoint((0, 0))}}))
    _, said = told(tmp_path, *COMPACT)
    why = "there is nothing to clean"
    assert f"passes of the cleaner: {why}" in said
    assert why in run_kdump(["retention", "logdir", "--compaction", *COMPACT], tmp_path).stdout.decode()
