"""No single bit, no length and no zeros go unseen: exhaustive over two small segments.

What Kafka makes of each flip of an index stands in the tables of `fixtures/damage/flips`. Where the kernels run
uncompiled, fixed samples take the place of what is exhaustive.
"""

from __future__ import annotations

import csv
import gzip
import os
import random
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kdump.checks.job import SegmentJob
from kdump.checks.options import VerifyOptions
from kdump.checks.segment import check_segment
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.format.kinds import FileKind
from tests.support.partitions import Files, name, overwrite, segment, write
from tests.support.runs import FIXTURES
from tests.support.scan_windows import COMPILED, FLIPS, Real, windows_of
from tests.support.segments import batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.support.sample import OneIn

OPTIONS = VerifyOptions()
KINDS = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX)
FORMATS = sorted(FLIPS)


@pytest.fixture(autouse=True)
def _few_rows() -> Iterator[None]:
    with windows_of():
        yield


class Place(NamedTuple):
    """A partition directory with a segment that is changed and judged again and again.

    Args:
        job: the segment.
        path: of the file that is changed.
        data: its bytes as they are right.
    """

    job: SegmentJob
    path: Path
    data: bytes

    def flipped(self, bit: int) -> list[Finding]:
        """What is found with one bit flipped; it is flipped back afterwards."""
        at, right = bit // 8, self.data[bit // 8]
        with self.path.open("r+b", buffering=0) as file:  # in place: a new file would cost more than the walk
            os.pwrite(file.fileno(), bytes([right ^ 1 << bit % 8]), at)
            try:
                return self.found()
            finally:
                os.pwrite(file.fileno(), bytes([right]), at)

    def found(self) -> list[Finding]:
        """What is found."""
        return [one for one in check_segment(self.job, OPTIONS) if isinstance(one, Finding)]

    @contextmanager
    def changed(self, data: bytes) -> Iterator[None]:
        """Put other bytes into the file for a while."""
        overwrite(self.path, data)
        yield
        overwrite(self.path, self.data)


def place(
    folder: Path, files: Files, base: int, kind: FileKind = FileKind.LOG, *, epochs: tuple[EpochEntry, ...] = ()
) -> Place:
    """Write files, and judge those of one segment; `kind` is the one that is changed."""
    write(folder, files)
    there = {one: str(folder / name(base, one.value)) for one in KINDS if name(base, one.value) in files}
    is_last = not any(path > name(base + 1, "") for path in files)
    later = sorted(int(path[:20]) for path in files if path.endswith(".log") and int(path[:20]) > base)
    next_base = later[0] if later else None
    job = SegmentJob(there, base, True, is_last, False, 0, epochs, "flips", False, next_base=next_base)
    return Place(job, folder / name(base, kind.value), files[name(base, kind.value)])


def lone(folder: Path, format_: str, kind: FileKind = FileKind.LOG) -> Place:
    """One of the small segments with the indexes that recovery makes."""
    source = FIXTURES / "damage" / "flips" / format_
    base = FLIPS[format_].base
    names = [name(base, one.value) for one in KINDS]
    return place(folder, {path: (source / path).read_bytes() for path in names}, base, kind)


def loud(found: Sequence[Finding]) -> bool:
    return any(one.severity is not Severity.NOTE for one in found)


def some(numbers: Sequence[int], count: int = 600) -> Sequence[int]:
    """All of them, or a fixed sample."""
    return numbers if COMPILED or len(numbers) <= count else random.Random(count).sample(numbers, count)


# --- logs ---------------------------------------------------------------------------------------------------
NOT_COVERED = {
    1: {*range(8)},  # the offset
    2: {*range(8), *range(12, 16)},  # base offset and leader epoch
}


def covered(log: Real) -> list[int]:
    """The bits that a CRC or a length covers, and those of CRCs, lengths and magics themselves."""
    return [
        8 * at + bit
        for start, size in log.bounds
        for at in range(start, start + size)
        if at - start not in NOT_COVERED[log.data[start + layout.MAGIC_AT]]
        for bit in range(8)
    ]


@pytest.mark.parametrize("format_", FORMATS)
def test_every_bit_that_is_covered_is_told(format_: str, one_in: OneIn, tmp_path: Path) -> None:
    """All but offsets and epochs, whatever lies around the log."""
    log = FLIPS[format_]
    alone = place(tmp_path, {name(log.base): log.data}, log.base)
    alone = alone._replace(job=alone.job.replace(only=str(alone.path)))  # nobody told by an index that is not there
    assert not alone.found()
    silent = [bit for bit in some(one_in(3, covered(log))) if not loud(alone.flipped(bit))]
    assert silent == []


@pytest.mark.parametrize("format_", FORMATS)
def test_the_indexes_tell_nearly_all_of_the_others(format_: str, tmp_path: Path) -> None:
    """With the indexes of the segment only leader epochs can pass, which nothing else has."""
    log, judged = FLIPS[format_], lone(tmp_path, format_)
    assert not judged.found()
    others = sorted({*range(8 * len(log.data))} - {*covered(log)})
    silent = [bit for bit in some(others) if not judged.flipped(bit)]
    starts = [start for start, _ in log.bounds]
    epochs = range(12, 16) if format_ == "v2" else ()
    assert all(bit // 8 - max(at for at in starts if at <= bit // 8) in epochs for bit in silent)


# --- between two neighbours ---------------------------------------------------------------------------------
BEFORE, FIRST, NEXT = 990, 1000, 1018  # base offsets: ten records before, and what follows
EPOCHS = (EpochEntry(4, 900), EpochEntry(6, 1012))  # those of the segment


@pytest.fixture
def between(tmp_path: Path) -> Place:
    """The segment of magic 2 between two others that meet it, and the checkpoint of its leader epochs."""
    log = FLIPS["v2"]
    before = [batch(BEFORE + 2 * k, (b"a", b"b"), epoch=4) for k in range(5)]
    files = {
        **segment(BEFORE, before),
        name(FIRST): log.data,
        **segment(NEXT, [batch(NEXT, (b"a", b"b"), epoch=6)]),
    }
    judged = place(tmp_path, files, FIRST, epochs=EPOCHS)
    return judged._replace(job=judged.job.replace(only=str(judged.path)))


def test_every_bit_is_told_between_neighbours(between: Place, one_in: OneIn) -> None:
    """What no CRC covers has to fit between the neighbours, and to the checkpoint of leader epochs."""
    assert not between.found()
    silent = [bit for bit in some(one_in(3, range(8 * len(between.data))), 1500) if not loud(between.flipped(bit))]
    assert silent == []


def test_every_length_is_told_between_neighbours(between: Place) -> None:
    """A cut between two batches is a hole before the next segment: a note, for compaction makes such holes too."""
    ends = {sum(place) for place in FLIPS["v2"].bounds}
    for size in some(range(len(between.data))):
        with between.changed(between.data[:size]):
            found = between.found()
        assert loud(found) == (size not in ends and size > 0), size
        assert any(one.code is Code.O07 for one in found) == (size == 0 or size >= min(ends)), size


def test_zeros_from_any_place_are_told_between_neighbours(between: Place) -> None:
    for start in some(range(len(between.data))):
        data = between.data[:start] + bytes(len(between.data) - start)
        with between.changed(data):
            assert loud(between.found()) == (data != between.data), start


# --- the end of a partition ---------------------------------------------------------------------------------
@pytest.mark.parametrize("format_", FORMATS)
def test_every_length_of_the_last_log_is_told(format_: str, tmp_path: Path) -> None:
    """Its own indexes say that more was there."""
    judged = lone(tmp_path, format_)
    for size in some(range(len(judged.data))):
        with judged.changed(judged.data[:size]):
            assert loud(judged.found()), size


# --- indexes ------------------------------------------------------------------------------------------------
class Flip(NamedTuple):
    """A row of a table: the bit, and whether lookups give other answers then."""

    bit: int
    is_harmful: bool


def table(format_: str, kind: FileKind) -> list[Flip]:
    """What Kafka makes of an index with each bit flipped."""
    path = FIXTURES / "damage" / "flips" / format_ / f"{kind.value}-flips.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = [(int(row["bit"]), row["lookups"]) for row in csv.DictReader(lines)]
    return [Flip(bit, not re.fullmatch("wrong0 ex0", lookups)) for bit, lookups in rows if bit >= 0]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("kind", [FileKind.INDEX, FileKind.TIMEINDEX], ids=lambda kind: kind.value)
def test_every_flip_that_changes_a_lookup_is_told(format_: str, kind: FileKind, tmp_path: Path) -> None:
    judged, flips = lone(tmp_path, format_, kind), table(format_, kind)
    assert not judged.found()
    assert len(flips) == 8 * len(judged.data)
    harmful = [flip.bit for flip in flips if flip.is_harmful]
    assert len(harmful) > 200
    silent = [bit for bit in some(harmful, 200) if not loud(judged.flipped(bit))]
    assert silent == []
