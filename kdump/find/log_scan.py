"""The answer of the data itself: every intact batch of the segments, without their indexes.

Strategy: each segment is walked once with the checked walk, which reports its damage. What is kept of it are runs of
`RUN` batches with their highest offset and time; a question reads the batches of one run again. So any number of
questions costs one walk, and memory stays a fraction of what an index takes.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from kdump.broker.lookup_results import NO_TIMESTAMP, FoundBatch, FoundRecord, Refused, find_record, limit_of
from kdump.broker.segment_reading import WINDOW
from kdump.compat.kafka_walk import KafkaWalk
from kdump.finding import Finding, ignore
from kdump.format.batch import _scan, layout
from kdump.format.batch.base_offset.fold import unknown
from kdump.format.batch.walk import CheckedWalk, right_windows
from kdump.format.batch.window import Buffer, Window
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.item import Progress
from kdump.storage.evidence import BESIDE, evidence_of
from kdump.value import TupleValue
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.finding import Report
    from kdump.format.record.chunk import Chunk
    from kdump.format.source import Source
    from kdump.storage.partition_dir import PartitionDir
    from kdump.workers import InOrder


class OffsetRun(TupleValue):
    """Some true batches in a row, without anything between them."""

    # position, end: bytes, half-open
    position: int
    end: int
    # first, last: the lowest and the highest offset that the batches claim
    first: int
    last: int
    max_timestamp: int  # of their records, ms; of a batch whose records are over a limit what its header says
    # of one batch alone whose magic or length the file has wrong and the CRC has proven; its size is that of the run.
    # None for batches that can be read as they are.
    magic: int | None = None
    shift: int = 0  # what is to be added to the offsets of one batch alone whose base offset is wrong, 0 for others


if TYPE_CHECKING:
    _Scanned = OffsetRun | Finding | Progress


class Runs:
    """The runs of a segment, with what finds one fast.

    Args:
        runs: in the order of the log.

    Attributes:
        ascend: no run begins below the end of one before it.
    """

    def __init__(self, runs: Iterable[OffsetRun]) -> None:
        self.runs = list(runs)
        self._lasts = array("q", accumulate((run.last for run in self.runs), max))
        self._times = array("q", accumulate((run.max_timestamp for run in self.runs), max))
        self.ascend = all(run.first > last for run, last in zip(self.runs[1:], self._lasts, strict=False))

    def reaching(self, offset: int) -> int:
        """Return the number of the first run with a last offset at or above this one."""
        return bisect_left(self._lasts, offset)

    def at_time(self, timestamp: int) -> Iterator[OffsetRun]:
        """Yield the runs that reach up to a time (ms since the epoch)."""
        return (run for run in self.runs[bisect_left(self._times, timestamp) :] if run.max_timestamp >= timestamp)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp, -1 for none."""
        return self._times[-1] if self.runs else -1


def proven_magic(window: Window) -> int | None:
    """Return the magic of a batch that the file has with another magic or length; None for all others.

    The checked walk hands such a batch out alone.
    """
    if window.count != 1:
        return None
    at = window.cell(0, layout.POSITION) - window.origin
    size = wire.i32(window.view, at + layout.SIZE_AT)
    magic = int.from_bytes(window.view[at + layout.MAGIC_AT : at + layout.MAGIC_AT + 1], "big", signed=True)
    has = size + layout.LOG_OVERHEAD, magic
    proven = window.cell(0, layout.SIZE), window.cell(0, layout.MAGIC)
    return None if has == proven else proven[1]


def true_rows(window: Window) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows with the right CRC and offsets that can be those of the segment."""
    if window.all_trusted and not _scan.suspicions(window.rows, window.count) & layout.OUT_OF_RANGE:
        yield 0, window.count
        return
    start = 0
    for k in range(window.count):
        is_trusted = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
        if not is_trusted or window.cell(k, layout.SUSPICION) & layout.OUT_OF_RANGE:
            if start < k:
                yield start, k
            start = k + 1
    if start < window.count:
        yield start, window.count


RUN = 64  # batches
_NO_BYTES = memoryview(b"\0")


class LogScan:
    """The true batches of a partition.

    Args:
        partition: its segments.
        report: takes the damage of each segment, once.
        max_uncompressed_bytes, max_batch_bytes: limits; the records of a batch beyond them are not seen.
        times: look at the timestamps of all records; without it there are no answers about time.
        jobs: processes; 0 for one on each core.
        told: takes how far it is; None where nobody wants to know.
    """

    def __init__(
        self,
        partition: PartitionDir,
        report: Report,
        max_uncompressed_bytes: int,
        max_batch_bytes: int,
        *,
        times: bool,
        jobs: int = 1,
        told: Callable[[Progress], None] | None = None,
    ) -> None:
        self._jobs = jobs
        self._told = told
        self._sizes: dict[tuple[int, int], int] = {}
        self._begun = 0  # segment that the walk in hand has begun with
        self._last = len(partition) - 1  # segment up to which a question may need it
        self._ahead: tuple[int, InOrder[int, _Scanned], Iterator[Iterator[_Scanned]]] | None = None
        self._partition = partition
        self._report = report
        self._limit = max_batch_bytes
        self._times = times
        self._reader = RecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes, cut=KEPT)
        self._runs: dict[int, Runs] = {}
        self._buffer: Buffer | None = None

    def offset(self, offset: int) -> FoundBatch | None:
        """Return the batch that has an offset; else the first one whose last offset is above it."""
        for number in range(max(0, self._partition.floor(offset)), len(self._partition)):
            self._last = number
            runs = self.runs(number)
            at = runs.reaching(offset)
            if at == len(runs.runs):
                continue
            for run in runs.runs[at : at + 1] if runs.ascend else runs.runs[at:]:
                batch = self._reaching(number, run, offset) if run.first <= offset <= run.last else None
                if batch is not None and self._first(batch) <= offset:
                    return batch
            return self._reaching(number, runs.runs[at], offset)
        return None

    def _reaching(self, number: int, run: OffsetRun, offset: int) -> FoundBatch | None:
        """The first batch of a run with a last offset at or above this one."""
        for window in self._windows(number, run):
            for k, last in enumerate(window.column(layout.LAST_OFFSET)):
                if last >= offset:
                    return FoundBatch(number, window, k)
        return None

    def time(self, timestamp: int) -> FoundRecord | Refused | None:
        """Return the first record, in the order of the log, at or after a time (ms since the epoch).

        Refused where records over a limit may have it.
        """
        return self._time(timestamp, self._partition.start_offset)

    def _time(self, timestamp: int, start: int) -> FoundRecord | Refused | None:
        self._last = len(self._partition) - 1
        for number in range(len(self._partition)):
            for run in self.runs(number).at_time(timestamp):
                found = self._record(number, run, timestamp, start)
                if found is not None:
                    return found
        return None

    def max_timestamp(self) -> FoundRecord | Refused | None:
        """Return the first record with the largest timestamp, below the log start too; None when no record has one.

        Refused where records over a limit may have a larger one.
        """
        self._last = len(self._partition) - 1
        largest = max(self.runs(number).max_timestamp for number in range(len(self._partition)))
        return self._time(largest, 0) if largest >= 0 else None

    def newest(self) -> int:
        """Return the largest timestamp, ms, from the log start on; -1 when no record there has one."""
        self._last = len(self._partition) - 1
        start, largest = self._partition.start_offset, NO_TIMESTAMP
        for number in range(max(0, self._partition.floor(start)), len(self._partition)):
            for run in self.runs(number).at_time(0):
                if run.first >= start:
                    largest = max(largest, run.max_timestamp)
                elif run.last >= start:
                    largest = max(largest, self._newest_from(number, run, start))
        return largest

    def _newest_from(self, number: int, run: OffsetRun, start: int) -> int:
        """The largest timestamp of a run that begins below an offset, from there on."""
        largest, width = NO_TIMESTAMP, layout.RECORD_WIDTH
        for window in self._windows(number, run):
            for chunk in self._reader.chunks(window):
                offsets = chunk.rows[layout.R_OFFSET : chunk.filled * width : width]
                times = chunk.rows[layout.R_TIMESTAMP : chunk.filled * width : width]
                served = (time for at, time in zip(offsets, times, strict=True) if at >= start)
                largest = max(largest, max(served, default=NO_TIMESTAMP))
        return largest

    def newest_until(self, number: int, offset: int) -> int:
        """Return the largest timestamp of a segment up to the batch that an offset lies in, ms; -1 for none.

        Args:
            number: of the segment.
            offset: if no batch has it, the batches before it count.
        """
        self._last, largest = number, NO_TIMESTAMP
        for run in self.runs(number).runs:
            if run.last <= offset:
                largest = max(largest, run.max_timestamp)
                continue
            for window in self._windows(number, run) if run.first <= offset else ():
                firsts, times = window.column(layout.BASE_OFFSET), window.column(layout.MAX_TIMESTAMP)
                until = (time for first, time in zip(firsts, times, strict=True) if first <= offset)
                largest = max(largest, max(until, default=NO_TIMESTAMP))
        return largest

    def end_offset(self, number: int | None = None) -> int:
        """Return the offset after the last true batch of a segment; its base offset when it has none.

        Args:
            number: of the segment; None for the last one.
        """
        number = self._last = len(self._partition) - 1 if number is None else number
        runs = self.runs(number).runs
        if not runs:
            return self._partition.bases[number]
        return [window.cell(window.count - 1, layout.LAST_OFFSET) for window in self._windows(number, runs[-1])][-1] + 1

    def end_position(self) -> int:
        """Return where the last true batch of the last segment ends, bytes."""
        number = self._last = len(self._partition) - 1
        runs = self.runs(number).runs
        return runs[-1].end if runs else 0

    def base_at(self, number: int, position: int) -> int | None:
        """Return the right base offset of the true batch of a segment that begins at a position; None for none."""
        run = next((run for run in self.runs(number).runs if run.position <= position < run.end), None)
        for window in self._windows(number, run) if run is not None else ():
            for k, at in enumerate(window.column(layout.POSITION)):
                if at == position:
                    base = window.cell(k, layout.BASE_OFFSET)
                    return base if base >= 0 else self._first(FoundBatch(number, window, k))
        return None

    def around(self, number: int, position: int, count: int) -> Iterator[Window]:
        """Yield the batches of a segment around a position, one a window: `count` before it, and after it.

        Only the rows are there, not the bytes. The segment is walked twice, so that nothing is held.
        """
        windows = self._walk(number, ignore).windows()
        at = sum(bisect_right(window.column(layout.POSITION), position) for window in windows)
        first, stop, seen = max(0, at - 1 - count), at + count, 0
        width = layout.BATCH_WIDTH
        for window in self._walk(number, ignore).windows():
            for k in range(max(0, first - seen), min(window.count, stop - seen)):
                row = window.rows[k * width : (k + 1) * width]
                yield Window(_NO_BYTES, row[layout.POSITION], row, 1, has_record_bytes=False)
            seen += window.count
            if seen >= stop:
                return

    def runs(self, number: int) -> Runs:
        """Return the runs of a segment, walked when it is asked for the first time."""
        if number not in self._runs:
            self._runs[number] = Runs(self._taken(number))
        return self._runs[number]

    def _taken(self, number: int) -> Iterator[OffsetRun]:
        """Yield the runs of a segment, and report its damage; other processes may have begun with those after it."""
        if self._ahead is None or self._ahead[0] != number:
            self.close()
            total = None if self._told is None else 1  # what a question needs is known below
            scanned = in_order(range(number, len(self._partition)), self._walked, self._jobs, total=total)
            self._ahead = number, scanned, iter(scanned)
            self._begun = number
        _, scanned, segments = self._ahead
        self._ahead = number + 1, scanned, segments
        for one in next(segments):
            if isinstance(one, OffsetRun):
                yield one
            elif isinstance(one, Finding):
                self._report(one)
            elif self._told is not None:
                total = self._size(self._begun, max(number, self._last))
                self._told(Progress(min(one.done, total), total, one.path))

    def _size(self, first: int, last: int) -> int:
        """Bytes of the logs of some segments, as the listing has them."""
        if (first, last) not in self._sizes:
            bases, listing = self._partition.bases[first : last + 1], self._partition.listing
            names = (os.path.basename(self._partition.path_of(base, FileKind.LOG)) for base in bases)
            self._sizes = {(first, last): sum(map(listing.size, names))}
        return self._sizes[first, last]

    def close(self) -> None:
        """End what other processes do."""
        if self._ahead is not None:
            self._ahead[1].close()
            self._ahead = None

    def _walk(self, number: int, report: Report) -> CheckedWalk:
        segment = self._partition.segment(number)
        following = self._partition.next_base(segment.base_offset)
        evidence = evidence_of(self._partition)
        walk = CheckedWalk(
            segment.log,
            report,
            segment=segment.base_offset,
            next_base=following,
            known_end=partial(evidence.end, BESIDE, segment) if following is None else unknown,
            hints=segment.offset_index.ascending_positions,
            max_batch_bytes=self._limit,
        )
        walk.checks.follow_producers = False
        return walk

    def _walked(self, number: int) -> Iterator[_Scanned]:
        """Walk a segment: its runs, what is wrong with it, and how far it is."""
        file = self._partition.segment(number).path
        found: list[Finding] = []
        walk = self._walk(number, found.append)
        for window, shifts in right_windows(walk, found):
            times = self._seen_times(file, window, found.append) if self._times else {}
            yield from found
            found.clear()
            for start, stop in true_rows(window):
                alone = [one for k in shifts if start <= k < stop for one in (k, k + 1)]
                bounds = sorted({start, stop, *alone})
                for begin, end in pairwise(bounds):
                    for k in range(begin, end, RUN):
                        run = self._run(number, window, k, min(k + RUN, end), times)
                        yield run._replace(shift=shifts.get(k, 0))
            yield Progress(walk.border.position, 0, file)
        yield from found
        yield Progress(self._partition.segment(number).log.size, 0, file)

    def _run(self, number: int, window: Window, start: int, stop: int, times: dict[int, int]) -> OffsetRun:
        firsts = window.column(layout.BASE_OFFSET)[start:stop]
        for k, first in enumerate(firsts):
            if first < 0:
                firsts[k] = self._first(FoundBatch(number, window, start + k))
        return OffsetRun(
            window.cell(start, layout.POSITION),
            window.end(stop),
            min(firsts),
            max(window.column(layout.LAST_OFFSET)[start:stop]),
            max((times.get(k, -1) for k in range(start, stop)), default=-1) if times else -1,
            proven_magic(window),
        )

    def _seen_times(self, file: str, window: Window, report: Report) -> dict[int, int]:
        """The largest timestamp of the records of each batch of a window, by row."""
        times: dict[int, int] = {}
        width = layout.RECORD_WIDTH
        checks = RecordChecks(file)
        for chunk in self._reader.chunks(window):
            self._judge(checks, chunk, times, report)
            rows, stop = chunk.rows, chunk.filled * width
            if chunk.first == chunk.last - 1 and chunk.filled:
                largest = max(rows[layout.R_TIMESTAMP : stop : width])
                times[chunk.first] = max(times.get(chunk.first, -1), largest)
                continue
            for k, time in zip(
                rows[layout.R_BATCH : stop : width], rows[layout.R_TIMESTAMP : stop : width], strict=True
            ):
                if time > times.get(k, -1):
                    times[k] = time
        return times

    def _judge(self, checks: RecordChecks, chunk: Chunk, times: dict[int, int], report: Report) -> None:
        """Report what is wrong with some records; what those over a limit may have is as much as the header says."""
        for finding in checks.check(chunk):
            report(finding)
        problem = chunk.problem
        if problem is not None and limit_of(chunk.window, problem):
            times[problem.batch] = chunk.window.cell(problem.batch, layout.MAX_TIMESTAMP)

    def _first(self, batch: FoundBatch) -> int:
        """The first offset that a batch may have: a compressed legacy message does not tell it."""
        base = batch.cell(layout.BASE_OFFSET)
        if base >= 0 or batch.cell(layout.MAGIC) >= layout.MAGIC_V2:
            return base
        for chunk in self._reader.chunks(batch.window):
            if chunk.filled:
                return chunk.rows[layout.R_OFFSET]
        return batch.cell(layout.LAST_OFFSET)

    def _windows(self, number: int, run: OffsetRun) -> Iterator[Window]:
        """Yield the batches of a run again: nothing but true ones lie in it."""
        log = self._partition.segment(number).log
        if run.magic is not None:
            windows = iter((self._proven(log, run, run.magic),))
        else:
            windows = KafkaWalk(log, log.name, run.position, run.end, self._limit, self._buffer_of(log)).windows()
        for window in windows:
            if run.shift:
                window.shift(0, run.shift)
            yield window

    def _proven(self, log: Source, run: OffsetRun, magic: int) -> Window:
        """The one batch of a run, with the size and the magic that its CRC has proven."""
        buffer, size = self._buffer_of(log), run.end - run.position
        whole = size <= self._limit
        buffer.load(run.position, size if whole else 0)
        _scan.header_row(buffer.view, 0, run.position, size, magic, buffer.rows)
        window = Window(buffer.view, run.position, buffer.rows, 1, whole)
        if whole:
            window.fill_crcs()
        return window

    def _batches(self, number: int, run: OffsetRun) -> Iterator[FoundBatch]:
        return (FoundBatch(number, window, k) for window in self._windows(number, run) for k in range(window.count))

    def _buffer_of(self, log: Source) -> Buffer:
        if self._buffer is None:
            self._buffer = Buffer(log, WINDOW)
        self._buffer.source = log
        return self._buffer

    def _record(self, number: int, run: OffsetRun, timestamp: int, start: int) -> FoundRecord | Refused | None:
        for batch in self._batches(number, run):
            found = find_record(self._reader, batch, lambda time, at: time >= timestamp and at >= start)
            is_open = isinstance(found, Refused) and found.limit and batch.cell(layout.MAX_TIMESTAMP) >= timestamp
            if isinstance(found, FoundRecord) or is_open:
                return found
        return None
