"""Runs of batches that lie one behind the other and are all well, in columns; and what is inside of old wrappers."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump.broker.foreign import times_of
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import _scan, layout
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.batch.window import Buffer, Window
    from kdump.format.source import Source

_FLAGS = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG


class ValidRun(TupleValue):
    """Batches that lie one behind the other: their bytes, half-open, and their first and last offset."""

    start: int
    end: int
    first: int
    last: int


class ValidRuns:
    """The runs of one log by position: a column for each field of `ValidRun`."""

    __slots__ = ("ends", "firsts", "lasts", "starts")

    def __init__(self) -> None:
        self.starts, self.ends, self.firsts, self.lasts = array("q"), array("q"), array("q"), array("q")

    def append(self, start: int, end: int, first: int, last: int) -> None:
        """Add the next run."""
        self.starts.append(start)
        self.ends.append(end)
        self.firsts.append(first)
        self.lasts.append(last)

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[ValidRun]:
        return map(ValidRun, self.starts, self.ends, self.firsts, self.lasts)

    def by_offset(self) -> list[ValidRun]:
        """Return them by their first offsets."""
        return sorted(self, key=lambda run: run.first)

    @property
    def begins_at_zero(self) -> bool:
        """Whether a batch that is well stands at the begin of the file."""
        return bool(self.starts) and self.starts[0] == 0

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(self.ends) - sum(self.starts)

    @property
    def end(self) -> int:
        """Where the last batch ends; 0 where there is none."""
        return max(self.ends, default=0)

    def windows(self, log: Source, max_batch_bytes: int) -> Iterator[Window]:
        """Yield the batches of all runs again; see `batches_of`."""
        for start, end in zip(self.starts, self.ends, strict=True):
            yield from batches_of(log, start, end, max_batch_bytes)


class EpochRun(TupleValue):
    """Batches of one leader epoch, one behind the other: the first offset, the last, and how many batches."""

    epoch: int
    first: int
    last: int
    batches: int = 1
    last_base: int = -1  # first offset of the last one; -1 where nobody has noted it


class Wrappers:
    """The compressed wrappers of magic 0 and 1 of one log, whose headers tell the last offset only.

    Attributes:
        positions, firsts, counts: columns: file position, first offset and number of the messages inside.
    """

    def __init__(self) -> None:
        self.positions, self.firsts, self.counts = array("q"), array("q"), array("q")

    def add(self, position: int, first: int, count: int) -> bool:
        """Take messages of the next wrapper, or further ones of the last; return whether it is another one."""
        if self.positions and self.positions[-1] == position:
            self.counts[-1] += count
            return False
        self.positions.append(position)
        self.firsts.append(first)
        self.counts.append(count)
        return True

    def count(self, told: int, position: int) -> int:
        """Return how many records a batch has: as many as its header tells, else the messages inside, or one."""
        inner = self.at(position) if told < 0 else (0, told)
        return 1 if inner is None else inner[1]

    def at(self, position: int) -> tuple[int, int] | None:
        """Return first offset and number of messages of the wrapper at a position, None where none was read."""
        k = bisect_left(self.positions, position)
        if k == len(self.positions) or self.positions[k] != position:
            return None
        return self.firsts[k], self.counts[k]


class ValidRunBuilder:
    """Puts batches that follow each other together; what it knows of them is as in `ScannedLog`."""

    def __init__(self, wrappers: Wrappers, base: int | None) -> None:
        self.runs = ValidRuns()
        self._base = base  # of the log, where the one before it ends; None where nothing tells it
        self.epochs: list[EpochRun] = []
        self.has_transactions = self.lacks_records = False
        self.batches = self.traced_to = 0
        self.begins_below: int | None = None
        self.has_wrapper_overlaps = False  # what is inside a legacy wrapper lies over the batch before it
        self._times: tuple[int | None, int | None] = (None, None)
        self._wrappers = wrappers

    @property
    def times(self) -> tuple[int, int] | None:
        """As in `ScannedLog`."""
        first, largest = self._times
        return None if first is None or largest is None else (first, largest)

    def push(self, window: Window, start: int, stop: int) -> None:
        """Take rows [start, stop), which lie one behind the other."""
        if start >= stop:
            return
        has_wrappers = _scan.extremes(window.rows, window.count, layout.BASE_OFFSET)[0] < 0
        if has_wrappers or window.suspicions & layout.NOT_ABOVE:
            for k in range(start + 1, stop):  # only what is inside a wrapper tells where it begins
                if first_offset(window, k, self._wrappers) <= window.cell(k - 1, layout.LAST_OFFSET):
                    self._push(window, start, k)
                    start = k
                    self.has_wrapper_overlaps |= window.is_wrapper(k)
        self._push(window, start, stop)

    def _push(self, window: Window, start: int, stop: int) -> None:
        part = window.slice(start, stop)
        position, end = part.cell(0, layout.POSITION), part.end(part.count)
        first, last = first_offset(part, 0, self._wrappers), part.cell(part.count - 1, layout.LAST_OFFSET)
        self.batches += part.count
        self._times = times_of(part, *self._times)
        runs = self.runs
        is_next = bool(runs) and runs.ends[-1] == position
        if is_next and runs.lasts[-1] < first:
            runs.ends[-1], runs.lasts[-1] = end, last
        else:
            # of a batch that overlaps the one before it, the offsets count that only it has
            before = first - 1 if self._base is None else max(first, self._base) - 1
            before = runs.lasts[-1] if is_next else before
            overlaps = first <= before < part.cell(0, layout.LAST_OFFSET)
            self.has_wrapper_overlaps |= is_next and part.is_wrapper(0)
            if not position and overlaps:
                self.begins_below = first
            runs.append(position, end, before + 1 if overlaps else first, last)
        if part.suspicions & layout.HAS_PRODUCER and not self.has_transactions:
            self.has_transactions = any(flags & _FLAGS for flags in set(part.column(layout.ATTRIBUTES)))
        lowest, highest = _scan.extremes(part.rows, part.count, layout.LEADER_EPOCH)
        if not self.lacks_records and part.cell(0, layout.MAGIC) >= layout.MAGIC_V2:
            self.lacks_records = _scan.lacks_records(part.rows, part.count)
        traced = _scan.last_trace(part.rows, part.count)
        if traced >= 0:
            self.traced_to = max(self.traced_to, part.cell(traced, layout.LAST_OFFSET) + 1)
        if lowest == highest:
            self._epoch(EpochRun(lowest, first, last, part.count, part.cell(part.count - 1, layout.BASE_OFFSET)))
        else:
            for k in range(part.count):
                first, last = first_offset(part, k, self._wrappers), part.cell(k, layout.LAST_OFFSET)
                self._epoch(EpochRun(part.cell(k, layout.LEADER_EPOCH), first, last, last_base=first))

    def _epoch(self, run: EpochRun) -> None:
        if run.epoch < 0:
            return
        before = self.epochs[-1] if self.epochs else None
        if before is not None and before.epoch == run.epoch:
            last, last_base = max((before.last, before.last_base), (run.last, run.last_base))
            self.epochs[-1] = before._replace(last=last, batches=before.batches + run.batches, last_base=last_base)
        else:
            if before is not None and before.first < run.first <= before.last:  # it overlaps: the epoch before ends
                self.epochs[-1] = before._replace(last=run.first - 1)
            self.epochs.append(run)


def first_offset(window: Window, k: int, wrappers: Wrappers) -> int:
    """Return the first offset of a batch: that of a compressed wrapper is inside."""
    first = window.cell(k, layout.BASE_OFFSET)
    if window.is_wrapper(k):
        inner = wrappers.at(window.cell(k, layout.POSITION))
        first = window.cell(k, layout.LAST_OFFSET) if inner is None else inner[0]
    return first


def batches_of(
    log: Source, start: int, end: int, max_batch_bytes: int, buffer: Buffer | None = None
) -> Iterator[Window]:
    """Yield the batches of a run again, in windows.

    Args:
        log: with its patches.
        start, end: file positions, half-open.
        max_batch_bytes: of a larger batch only the header is held.
        buffer: to read into; its source is this log.
    """
    yield from KafkaWalk(log, log.name, start, end, max_batch_bytes, buffer).windows()
