"""Offsets that a log has twice: after a leader change without acks=all, or by a producer of legacy wrappers.

A broker loads such a log and serves all of it; what a consumer gets depends on where it starts. Nothing is lost.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.finding import OVERLAP, REPEATED, Code, Finding, ignore
from kdump.format.batch import _scan, layout
from kdump.format.batch.walk import CheckedWalk
from kdump.ranges import RangeSet
from kdump.rows.verdict import Duplicate, Place
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.checks.batch_contents import BatchContents
    from kdump.checks.options import VerifyOptions
    from kdump.format.record.chunk import Chunk

_MOST = 100  # overlaps of one log that are told
_MOST_COMPARED = 100_000  # offsets whose records are compared


class Overlap(TupleValue):
    """A batch that begins at or below an offset that the log had before it."""

    # first, last: the offsets that both have
    first: int
    last: int
    position: int  # of the batch, bytes
    # of the batch that has these offsets, where this one has the same records at others; None where it has the offsets
    origin: int | None = None


class OverlapWatch:
    """Collects the overlaps of one log.

    Args:
        file: path of the log.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[Overlap] = []
        self._repeats: list[Overlap] = []  # by the sequences of their producers
        self._of_wrappers: list[Overlap] = []
        self._reached = -1  # the highest offset inside legacy wrappers so far
        self._is_misplaced = False  # a header is wrong: what is inside its wrapper says nothing of others

    def see(self, finding: Finding) -> None:
        """Take what is wrong with the log."""
        if finding.file != self._file:
            return
        if finding.is_overlap and len(self._found) < _MOST and finding.offset is not None:
            last = finding.values[OVERLAP]
            if isinstance(last, int):
                self._found.append(Overlap(finding.offset, last, finding.position or 0))
        repeated = finding.values.get(REPEATED)
        if isinstance(repeated, str) and len(self._repeats) < _MOST:
            offsets, _, position = repeated.partition("@")
            first, _, last = offsets.partition("..")
            self._repeats.append(Overlap(int(first), int(last), finding.position or 0, int(position)))
        self._is_misplaced |= finding.is_misplaced

    def records(self, chunk: Chunk) -> None:
        """Take records of a window: those of legacy wrappers may go back, which their headers do not show."""
        window = chunk.window
        if not chunk.filled:
            return
        part = window.slice(chunk.first, chunk.last)
        lowest, _ = _scan.extremes(part.rows, part.count, layout.MAGIC)
        if lowest >= layout.MAGIC_V2:
            return
        batches = chunk.rows[layout.R_BATCH : chunk.filled * layout.RECORD_WIDTH : layout.RECORD_WIDTH]
        for k in range(chunk.first, chunk.last):
            begin = bisect_left(batches, k)
            end = bisect_left(batches, k + 1, begin)
            is_true = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
            if begin < end and is_true:
                self._wrapper(chunk, (begin, end), window.cell(k, layout.POSITION))

    def _wrapper(self, chunk: Chunk, rows: tuple[int, int], position: int) -> None:
        width, at = layout.RECORD_WIDTH, layout.R_OFFSET
        first, last = chunk.rows[rows[0] * width + at], chunk.rows[(rows[1] - 1) * width + at]
        before = self._of_wrappers[-1] if self._of_wrappers else None
        if before is not None and before.position == position and self._reached >= first:
            first = max(first, before.last + 1)  # the same batch, in another chunk
        if first <= self._reached and first <= last and len(self._of_wrappers) < _MOST:
            self._of_wrappers.append(Overlap(first, min(last, self._reached), position))
        self._reached = max(self._reached, last)

    def overlaps(self) -> tuple[Overlap, ...]:
        """Return them, in the order of the log."""
        positions = {one.position for one in self._found}
        inside = [] if self._is_misplaced else [one for one in self._of_wrappers if one.position not in positions]
        return tuple(sorted([*self._found, *inside, *self._repeats], key=lambda one: one.position))


class _Batch(TupleValue):
    """A batch that has some of the offsets."""

    # first, last: its offsets; of a legacy wrapper those that follow the batch before it
    first: int
    last: int
    log: str
    # position, size: bytes
    position: int
    size: int


class Duplicates:
    """Makes the rows of a partition, or of one log that was named alone.

    Args:
        path: of the partition directory.
        name: of it.
        options: limits.
    """

    def __init__(self, path: str, name: str, options: VerifyOptions) -> None:
        self._path = path
        self._name = name
        self._options = options

    def of(self, overlaps: Sequence[Overlap], logs: Sequence[str]) -> Iterator[Finding | Duplicate]:
        """Yield what a log has twice.

        Args:
            overlaps: of the log.
            logs: it, behind the one before it where there is one.

        Reports: O08.
        """
        for one in overlaps:
            if one.origin is not None:
                places = Place(logs[-1], one.origin), Place(logs[-1], one.position)
                yield Duplicate(self._path, self._name, one.first, one.last, places)
        overlaps = [one for one in overlaps if one.origin is None]
        if not overlaps:
            return
        from kdump.checks.batch_contents import BatchContents  # it reads what few logs have: the watch is in each

        batches = [one for log in logs for one in self._batches(log, overlaps)]
        records = BatchContents(self._options)
        numbers = {each.position: at for at, each in enumerate(batches) if each.log == logs[-1]}
        for one in overlaps:
            at = numbers.get(one.position)
            if at is None:
                continue
            here = batches[at]
            others = [each for each in batches[:at] if each.first <= one.last and each.last >= one.first]
            both = f"offset {one.first} is" if one.first == one.last else f"offsets {one.first}..{one.last} are"
            values = {"both": both, "records": self._compared(one, others, here, records)}
            place = here.log, here.position, here.size
            yield Finding(Code.O08, *place, offset=one.first, last_offset=one.last, values=values)
            found = tuple(Place(each.log, each.position) for each in (*others, here))
            yield Duplicate(self._path, self._name, one.first, one.last, found)
        records.close()

    def _batches(self, log: str, overlaps: Sequence[Overlap]) -> Iterator[_Batch]:
        """The batches of a log that have offsets of overlaps."""
        opened = open_source(log)
        if isinstance(opened, OpenFailure):
            return
        wanted = RangeSet()
        for one in overlaps:
            wanted.add(one.first, one.last)
        positions = {one.position for one in overlaps}
        with opened, suppress(OSError):  # what cannot be read has its own finding
            walk = CheckedWalk(opened, ignore, next_base=None, max_batch_bytes=self._options.max_batch_bytes)
            before = -1
            for window in walk.windows():
                for k in range(window.count):
                    first, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
                    if first < 0 or window.cell(k, layout.MAGIC) < layout.MAGIC_V2:
                        first = min(before + 1, last)
                    place = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
                    before = max(before, last)
                    if wanted.has_any(first, last) or place[0] in positions:
                        yield _Batch(first, last, log, *place)

    def _compared(self, one: Overlap, others: Sequence[_Batch], here: _Batch, records: BatchContents) -> str:
        if one.last - one.first >= _MOST_COMPARED:
            return "too many to compare their records"
        found = dict(self._read([here], one, records))
        earlier = dict(self._read(others, one, records))
        if None in found.values() or None in earlier.values() or not earlier:
            return "not all of their records can be compared"
        return "with the same records" if found == earlier else "with other records the second time"

    def _read(
        self, batches: Sequence[_Batch], one: Overlap, records: BatchContents
    ) -> Iterator[tuple[int, tuple[object, ...] | None]]:
        for batch in batches:
            for offset, record in records.of(batch.log, batch.position, batch.size):
                if record is None or one.first <= offset <= one.last:
                    yield offset, record
