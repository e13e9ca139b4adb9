"""One wrong entry of an index is one entry that is blamed, wherever it is and whatever it says."""

from __future__ import annotations

import random
import struct
from array import array
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.checks import indexes as order
from kdump.checks.indexes import in_order
from kdump.checks.job import SegmentJob
from kdump.checks.options import VerifyOptions
from kdump.checks.segment import check_segment
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from tests.support.partitions import name, offset_index, overwrite, segment, time_index, write
from tests.support.scan_windows import COMPILED, windows_of
from tests.support.segments import TIME, batch

if TYPE_CHECKING:
    from collections.abc import Sequence

BASE, COUNT, STEP = 7, 14, 100  # batches of two records, each 100 ms later
PARTS = [batch(BASE + 2 * k, (b"a", b"b"), base_timestamp=TIME + STEP * k) for k in range(COUNT)]
SIZE = len(PARTS[0])
FILES = segment(BASE, PARTS, interval=1)
SLOTS = {FileKind.INDEX: 8, FileKind.TIMEINDEX: 12}
AFTERWARDS = {Code.T05, Code.X08}  # about what comes after the last entry


@pytest.fixture
def job(tmp_path: Path) -> SegmentJob:
    """A segment with an entry for each batch but the first."""
    write(tmp_path, FILES)
    kinds = (FileKind.LOG, *SLOTS)
    return SegmentJob(
        {kind: str(tmp_path / name(BASE, kind.value)) for kind in kinds}, BASE, True, True, False, 0, (), None, False
    )


def judged(job: SegmentJob, kind: FileKind, data: bytes) -> list[Finding]:
    """What is found in an index with this content."""
    path = Path(job.files[kind])
    overwrite(path, data)
    found = [one for one in check_segment(job, VerifyOptions(deep=False)) if isinstance(one, Finding)]
    overwrite(path, FILES[path.name])
    found = [one for one in found if one.code is not Code.O07]  # of a log that ends before its index does
    assert {one.file for one in found} <= {str(path)}
    return found


def slot(kind: FileKind, data: bytes, number: int) -> tuple[int, int]:
    """What an entry has: its offset, and the other number."""
    first, second = struct.unpack_from(">ii" if kind is FileKind.INDEX else ">qi", data, number * SLOTS[kind])
    return (BASE + first, second) if kind is FileKind.INDEX else (BASE + second, first)


def blamed(job: SegmentJob, kind: FileKind, data: bytes) -> set[int]:
    """The numbers of the entries that are blamed, with what they have."""
    found = [one for one in judged(job, kind, data) if one.code not in AFTERWARDS]
    for one in found:
        offset, other = slot(kind, data, (one.position or 0) // SLOTS[kind])
        assert (one.offset, one.found) == (offset, offset if one.code is Code.X07 else other)
    return {(one.position or 0) // SLOTS[kind] for one in found}


@pytest.mark.parametrize("rows", [2, 4096])
@pytest.mark.parametrize("kind", SLOTS, ids=lambda kind: kind.value)
def test_one_flipped_bit_is_told_of_its_own_entry_only(kind: FileKind, rows: int, job: SegmentJob) -> None:
    right = FILES[name(BASE, kind.value)]
    step = 1 if COMPILED else 7
    assert not judged(job, kind, right)
    told = 0
    with windows_of(rows=rows):
        for bit in range(0, 8 * len(right), step):
            data = bytearray(right)
            data[bit // 8] ^= 1 << bit % 8
            found = blamed(job, kind, bytes(data))
            assert found <= {bit // 8 // SLOTS[kind]}, (bit, found)
            told += bool(found)
    assert told > 0.9 * 8 * len(right) / step, "but for the first offset of a batch instead of its last"


ENTRIES = [(BASE + 2 * k + 1, SIZE * k) for k in range(1, COUNT)]


@pytest.mark.parametrize(
    ("at", "far"),
    [(at, far) for at in range(len(ENTRIES)) for far in range(-3, 4) if far and 0 <= at + 1 + far < COUNT],
)
def test_an_entry_for_another_batch_is_the_one_that_is_wrong(at: int, far: int, job: SegmentJob) -> None:
    """The position of a batch that is there: only the log can tell which of two entries is right."""
    entries = [*ENTRIES]
    entries[at] = (entries[at][0], SIZE * (at + 1 + far))
    found = judged(job, FileKind.INDEX, offset_index(BASE, *entries))
    assert {(one.position or 0) // 8 for one in found if one.code is not Code.X08} == {at}
    is_right = (at, far) == (0, -1)  # whoever searches for the first entry begins at the start of the log anyway
    assert any(one.severity is Severity.ERROR for one in found) != is_right


def test_zeros_in_the_middle_are_blamed_alone(job: SegmentJob) -> None:
    for start, stop in ((1, 2), (2, 3), (3, 7), (1, 6)):
        for kind, slot in SLOTS.items():
            right = FILES[name(BASE, kind.value)]
            data = right[: start * slot] + bytes((stop - start) * slot) + right[stop * slot :]
            assert blamed(job, kind, data) == {*range(start, stop)}


def test_of_two_entries_that_are_swapped_one_is_blamed(job: SegmentJob) -> None:
    for at in range(len(ENTRIES) - 1):
        entries = [*ENTRIES]
        entries[at], entries[at + 1] = entries[at + 1], entries[at]
        found = judged(job, FileKind.INDEX, offset_index(BASE, *entries))
        assert [(one.code, one.position) for one in found] == [(Code.X03, 8 * at + 8)]
        assert f"offset {ENTRIES[at + 1][0]} at byte" in found[0].message


def test_a_time_that_belongs_to_a_later_batch_is_wrong(job: SegmentJob) -> None:
    times = [(TIME + STEP * k, BASE + 2 * k + 1) for k in range(1, COUNT)]
    for at in range(len(times)):
        for far in (-2, 2, 4, 1000):
            changed = [*times]
            changed[at] = (changed[at][0] + STEP * far, changed[at][1])
            assert blamed(job, FileKind.TIMEINDEX, time_index(BASE, *changed)) == {at}


# --- the order alone ------------------------------------------------------------------------------------------
def sorted_out(values: Sequence[int], size: int) -> tuple[list[int], dict[int, int]]:
    """The values that are believed, and the others with their neighbours; read `size` at a time."""
    columns = [array("q", values[at : at + size]) for at in range(0, len(values), size)]
    parts = list(in_order(((column, column) for column in columns), (True, True), (-9, -9)))
    kept = [entry for entries, _ in parts for entry in entries.rows()]
    outliers = [one for _, some in parts for one in some]
    assert sorted(entry.number for entry in [*kept, *(one.entry for one in outliers)]) == [*range(len(values))]
    assert all(values[entry.number] == entry.first for entry in kept)
    return [entry.first for entry in kept], {one.entry.first: one.near.first for one in outliers}


@pytest.mark.parametrize("size", [1, 3, 5, 100])
@pytest.mark.parametrize("held", [4, 64])
def test_the_end_of_a_piece_is_judged_with_what_follows(size: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_HELD", held)
    right = [*range(10, 50)]
    for at in range(1, len(right) - 2):
        for wrong in (-10, -5, 9, 1000, 2**40):
            values = [*right]
            values[at] = wrong
            kept, outliers = sorted_out(values, size)
            assert kept == right[:at] + right[at + 1 :]
            assert outliers == {wrong: right[at + 1 if wrong > right[at] else at - 1]}


def test_what_cannot_be_is_not_believed_however_much_of_it_there_is(job: SegmentJob) -> None:
    """A byte too many before an entry shifts all that follow."""
    for kind, slot in SLOTS.items():
        right = FILES[name(BASE, kind.value)]
        data = right[: 3 * slot] + b"\x80" + right[3 * slot : -1]
        assert blamed(job, kind, data) == {*range(3, len(right) // slot)}


def test_nothing_is_believed_of_what_falls_all_the_way_but_the_first() -> None:
    kept, outliers = sorted_out([*range(40, 0, -1)], 100)
    assert kept == [40]
    assert outliers == dict.fromkeys(range(1, 40), 40)


def test_an_empty_index_has_no_order() -> None:
    assert list(in_order(iter(()), (True, True), (0, 0))) == []


def test_more_outliers_than_can_wait_are_told_all(job: SegmentJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.checks.indexes._ASIDE", 2)
    found = judged(job, FileKind.INDEX, offset_index(BASE, *ENTRIES[6:], *ENTRIES[:6]))
    assert sorted(one.position or 0 for one in found) == [8 * at for at in range(7, 13)]
    assert {one.code for one in found} == {Code.X03}


@pytest.mark.parametrize("log", [FILES[name(BASE)], b""], ids=["log", "empty"])
def test_what_is_wrong_is_handed_on_piece_by_piece(
    log: bytes, job: SegmentJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many entries are wrong: nothing grows with them."""
    piece, count = 20, 2000
    monkeypatch.setattr("kdump.format.index.offset_and_time.CHUNK_ENTRIES", piece)
    monkeypatch.setattr("kdump.checks.indexes._ASIDE", piece)
    overwrite(Path(job.files[FileKind.LOG]), log)
    rng = random.Random(count)
    for kind, slot in SLOTS.items():
        overwrite(Path(job.files[kind]), rng.randbytes(count * slot))
        found = list(check_segment(job, VerifyOptions(deep=False)))
        runs = [
            len(list(run)) for is_finding, run in groupby(found, lambda one: isinstance(one, Finding)) if is_finding
        ]
        assert sum(1 + (one.more or 0) for one in found if isinstance(one, Finding)) > 0.9 * count
        assert max(runs) < 6 * (piece + order._HELD)
