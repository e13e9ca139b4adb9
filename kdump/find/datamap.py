"""What the data itself answers: every true batch of the segments, whatever their indexes say.

Strategy: each segment is walked once with the checked walk, which reports its damage. What is kept of it are runs of
`RUN` batches with their highest offset and time; a question reads the batches of one run again. So any number of
questions costs one walk, and memory stays a fraction of what an index takes.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.broker.found import Batch, Found, Refused, find_record, limit_of
from kdump.broker.reading import WINDOW
from kdump.find.runs import Run, Runs, true_rows
from kdump.format import layout
from kdump.format.kafkawalk import KafkaWalk
from kdump.format.recordchecks import RecordChecks
from kdump.format.records import RecordReader
from kdump.format.walk import CheckedWalk
from kdump.format.window import Buffer, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.finding import Finding, Report
    from kdump.format.chunk import Chunk
    from kdump.format.source import Source
    from kdump.log.partition import Partition

RUN = 64  # batches
_NO_BYTES = memoryview(b"\0")


class DataMap:
    """The true batches of a partition.

    Args:
        partition: its segments.
        report: takes the damage of each segment, once.
        max_uncompressed_bytes, max_batch_bytes: limits; the records of a batch beyond them are not seen.
        times: look at the timestamps of all records; without it there are no answers about time.
    """

    def __init__(
        self,
        partition: Partition,
        report: Report,
        max_uncompressed_bytes: int,
        max_batch_bytes: int,
        *,
        times: bool,
    ) -> None:
        self._partition = partition
        self._report = report
        self._limit = max_batch_bytes
        self._times = times
        self._reader = RecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes)
        self._runs: dict[int, Runs] = {}
        self._buffer: Buffer | None = None

    def offset(self, offset: int) -> Batch | None:
        """Return the batch that has an offset; else the first one whose last offset is above it."""
        for number in range(max(0, self._partition.floor(offset)), len(self._partition)):
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

    def _reaching(self, number: int, run: Run, offset: int) -> Batch | None:
        """The first batch of a run with a last offset at or above this one."""
        for window in self._windows(number, run):
            for k, last in enumerate(window.column(layout.LAST_OFFSET)):
                if last >= offset:
                    return Batch(number, window, k)
        return None

    def time(self, timestamp: int) -> Found | Refused | None:
        """Return the first record, in the order of the log, at or after a time (ms since the epoch).

        Refused where records over a limit may have it.
        """
        return self._time(timestamp, self._partition.start_offset)

    def _time(self, timestamp: int, start: int) -> Found | Refused | None:
        for number in range(len(self._partition)):
            for run in self.runs(number).at_time(timestamp):
                found = self._record(number, run, timestamp, start)
                if found is not None:
                    return found
        return None

    def max_timestamp(self) -> Found | Refused | None:
        """Return the first record with the largest timestamp, below the log start too; None when no record has one.

        Refused where records over a limit may have a larger one.
        """
        largest = max(self.runs(number).max_timestamp for number in range(len(self._partition)))
        return self._time(largest, 0) if largest >= 0 else None

    def end_offset(self) -> int:
        """Return the offset after the last true batch; the base offset of the last segment when that has none."""
        number = len(self._partition) - 1
        runs = self.runs(number).runs
        if not runs:
            return self._partition.bases[number]
        return [window.cell(window.count - 1, layout.LAST_OFFSET) for window in self._windows(number, runs[-1])][-1] + 1

    def begins_at(self, number: int, position: int) -> bool:
        """Tell whether a true batch of a segment begins at a position."""
        run = next((run for run in self.runs(number).runs if run.position <= position < run.end), None)
        windows = self._windows(number, run) if run is not None else ()
        return any(position in window.column(layout.POSITION) for window in windows)

    def around(self, number: int, position: int, count: int) -> Iterator[Window]:
        """Yield the batches of a segment around a position, one a window: `count` before it, and after it.

        Only the rows are there, not the bytes. The segment is walked twice, so that nothing is held.
        """
        windows = self._walk(number, _ignore).windows()
        at = sum(bisect_right(window.column(layout.POSITION), position) for window in windows)
        first, stop, seen = max(0, at - 1 - count), at + count, 0
        width = layout.BATCH_WIDTH
        for window in self._walk(number, _ignore).windows():
            for k in range(max(0, first - seen), min(window.count, stop - seen)):
                row = window.rows[k * width : (k + 1) * width]
                yield Window(_NO_BYTES, row[layout.POSITION], row, 1, whole=False)
            seen += window.count
            if seen >= stop:
                return

    def runs(self, number: int) -> Runs:
        """Return the runs of a segment, walked when it is asked for the first time."""
        if number not in self._runs:
            self._runs[number] = Runs(self._walked(number))
        return self._runs[number]

    def _walk(self, number: int, report: Report) -> CheckedWalk:
        segment = self._partition.segment(number)
        walk = CheckedWalk(
            segment.log,
            report,
            segment=segment.base_offset,
            hints=segment.offset_index.ascending_positions,
            max_batch_bytes=self._limit,
        )
        walk.checks.follow_producers = False
        return walk

    def _walked(self, number: int) -> Iterator[Run]:
        file = self._partition.segment(number).path
        for window in self._walk(number, self._report).windows():
            times = self._seen_times(file, window) if self._times else {}
            for start, stop in true_rows(window):
                for k in range(start, stop, RUN):
                    yield self._run(number, window, k, min(k + RUN, stop), times)

    def _run(self, number: int, window: Window, start: int, stop: int, times: dict[int, int]) -> Run:
        firsts = window.column(layout.BASE_OFFSET)[start:stop]
        for k, first in enumerate(firsts):
            if first < 0:
                firsts[k] = self._first(Batch(number, window, start + k))
        return Run(
            window.cell(start, layout.POSITION),
            window.end(stop),
            min(firsts),
            max(window.column(layout.LAST_OFFSET)[start:stop]),
            max((times.get(k, -1) for k in range(start, stop)), default=-1) if times else -1,
        )

    def _seen_times(self, file: str, window: Window) -> dict[int, int]:
        """The largest timestamp of the records of each batch of a window, by row."""
        times: dict[int, int] = {}
        width = layout.RECORD_WIDTH
        checks = RecordChecks(file)
        for chunk in self._reader.chunks(window):
            self._judge(checks, chunk, times)
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

    def _judge(self, checks: RecordChecks, chunk: Chunk, times: dict[int, int]) -> None:
        """Report what is wrong with some records; what those over a limit may have is as much as the header says."""
        for finding in checks.check(chunk):
            self._report(finding)
        problem = chunk.problem
        if problem is not None and limit_of(chunk.window, problem):
            times[problem.batch] = chunk.window.cell(problem.batch, layout.MAX_TIMESTAMP)

    def _first(self, batch: Batch) -> int:
        """The first offset that a batch may have: a compressed legacy message does not tell it."""
        base = batch.cell(layout.BASE_OFFSET)
        if base >= 0 or batch.cell(layout.MAGIC) >= layout.MAGIC_V2:
            return base
        for chunk in self._reader.chunks(batch.window):
            if chunk.filled:
                return chunk.rows[layout.R_OFFSET]
        return batch.cell(layout.LAST_OFFSET)

    def _windows(self, number: int, run: Run) -> Iterator[Window]:
        """Yield the batches of a run again: nothing but true ones lie in it."""
        log = self._partition.segment(number).log
        return KafkaWalk(log, log.name, run.position, run.end, self._limit, self._buffer_of(log)).windows()

    def _batches(self, number: int, run: Run) -> Iterator[Batch]:
        return (Batch(number, window, k) for window in self._windows(number, run) for k in range(window.count))

    def _buffer_of(self, log: Source) -> Buffer:
        if self._buffer is None:
            self._buffer = Buffer(log, WINDOW)
        self._buffer.source = log
        return self._buffer

    def _record(self, number: int, run: Run, timestamp: int, start: int) -> Found | Refused | None:
        for batch in self._batches(number, run):
            found = find_record(self._reader, batch, lambda time, at: time >= timestamp and at >= start)
            is_open = isinstance(found, Refused) and found.limit and batch.cell(layout.MAX_TIMESTAMP) >= timestamp
            if isinstance(found, Found) or is_open:
                return found
        return None


def _ignore(_finding: Finding) -> None:
    """What is wrong here was reported when the run was made."""
