"""How a broker reads a segment: batches by Kafka's walk from a position on, the search among them, and all headers.

No CRC decides anything: a broker does not look at it when it reads.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from kdump.broker.lookup_results import FoundBatch, FoundRecord, Refused, find_record
from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import _scan, layout
from kdump.format.batch.gap import zeros_until
from kdump.format.batch.window import Buffer, Window
from kdump.format.java_values import MAX_DECOMPRESSED
from kdump.format.kernels import wire
from kdump.format.record.chunk import KEPT
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.broker.releases import Rules
    from kdump.format.batch.window import Window
    from kdump.format.index.offset_and_time import OffsetIndex
    from kdump.format.source import Source

WINDOW = 6 * 1024  # bytes of a log read at once: an index points some 4 KB before the batch that is wanted
_NEGATIVE = "java.lang.IllegalArgumentException: Negative position"
_NO_TIME = -1

_ODD = (
    layout.NOT_ABOVE | layout.ODD_MAGIC | layout.ODD_CODEC | layout.ODD_DELTA | layout.ODD_COUNT | layout.OUT_OF_RANGE
)


class ReadableSegment(Protocol):
    """The part of a segment that is read."""

    @property
    def base_offset(self) -> int:
        """By its name."""

    @property
    def log(self) -> Source:
        """The log."""

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index."""


class ReadableSegments(Protocol):
    """The segments of a partition."""

    def segment(self, number: int, /) -> ReadableSegment:
        """Return a segment by its number."""


class SegmentReading:
    """Reads the segments of one partition.

    Args:
        partition: its segments.
        max_uncompressed_bytes, max_batch_bytes: limits; the records of a batch beyond them are not read.
        passed: called with each batch that is passed or met, in order: number of the segment, window, row.
        rules: of the broker's release.
        max_record: max.decompressed.message.bytes of the topic.

    Attributes:
        records: reads records as a broker does.
        streamed: the same, one by one.
        failure: what a broker throws where the batches of the latest walk ended, None for nothing.
    """

    def __init__(
        self,
        partition: ReadableSegments,
        max_uncompressed_bytes: int,
        max_batch_bytes: int,
        passed: Callable[[int, Window, int], None],
        rules: Rules,
        max_record: int = MAX_DECOMPRESSED,
    ) -> None:
        self._partition = partition
        self._limit = max_batch_bytes
        self._buffer: Buffer | None = None
        self._searches_base_offsets = rules.searches_base_offsets
        bound = rules.max_record(max_record)
        self.streamed = KafkaRecordReader(
            max_uncompressed_bytes, max_batch=max_batch_bytes, cut=KEPT, streams=True, max_record=bound
        )
        self.records = (
            self.streamed
            if rules.streams_time_search
            else KafkaRecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes, cut=KEPT)
        )
        self._max_uncompressed_bytes = max_uncompressed_bytes
        self.passed = passed  # the same; may be changed
        self.failure: Refused | None = None

    @cached_property
    def _offsets(self) -> KafkaRecordReader:
        """Reads the base offsets of wrappers, for which Kafka reads neither keys nor values, nor their sizes."""
        return KafkaRecordReader(self._max_uncompressed_bytes, max_batch=self._limit, cut=KEPT, metadata=False)

    def next_offset(self, number: int) -> int | Refused:
        """Return the offset after the last batch of a segment, as a broker finds it by the offset index.

        Source: LogSegment.readNextOffset.
        """
        segment = self._partition.segment(number)
        last = segment.offset_index.last_entry().offset
        found = self.search(number, last, segment.offset_index.lookup(last).position)
        if not isinstance(found, FoundBatch):
            return segment.base_offset if found is None else found
        end = segment.base_offset
        for window, k in self.batches(number, found.cell(layout.POSITION)):
            end = wire.add(window.cell(k, layout.LAST_OFFSET), 1)
        return self.failure or end

    def batch_at(self, number: int, position: int) -> FoundBatch | Refused | None:
        """Return what a broker takes for a batch at a position of a segment."""
        found = next(self.batches(number, position), None)
        return self.failure if found is None else FoundBatch(number, *found)

    def search(self, number: int, offset: int, position: int) -> FoundBatch | Refused | None:
        """Return the batch that has an offset, or the first one after it, from a position of a segment on.

        Source: LogSegment.translateOffset, FileRecords.searchForOffsetFromPosition; in 3.9 searchForOffsetWithSize.
        """
        if not self._searches_base_offsets:
            for window, k in self.batches(number, max(position, 0)):
                if window.cell(k, layout.LAST_OFFSET) >= offset:
                    return FoundBatch(number, window, k)
            return self.failure
        before: int | None = None  # position of the last batch below the offset that reaches up to it
        for window, k in self.batches(number, max(position, 0)):
            at, rows = k * layout.BATCH_WIDTH, window.rows
            base = self.first_offset(number, window, k)
            if isinstance(base, Refused):
                return base
            if base == offset or (base > offset and before is None):
                return FoundBatch(number, window, k)
            if base > offset:
                break
            before = rows[at + layout.POSITION] if rows[at + layout.LAST_OFFSET] >= offset else None
        else:
            if self.failure is not None:
                return self.failure
        return None if before is None else self.batch_at(number, before)

    def first_offset(self, number: int, window: Window, k: int) -> int | Refused:
        """Return the base offset of a batch: that of a legacy wrapper takes its records.

        Source: AbstractLegacyRecordBatch.
        """
        if not window.is_wrapper(k):
            return window.cell(k, layout.BASE_OFFSET)
        found = find_record(self._offsets, FoundBatch(number, window, k), lambda _time, _at: True)
        if isinstance(found, FoundRecord):
            return found.offset
        if found is None:
            return Refused("java.util.NoSuchElementException", (number, window.cell(k, layout.POSITION)))
        return found

    def batches(self, number: int, position: int) -> Iterator[tuple[Window, int]]:
        """Yield what a broker takes for batches from a position of a segment on: window and row.

        When they end, `failure` says what a broker throws then, None for nothing. Source: FileRecords.batchesFrom.
        """
        self.failure = Refused(_NEGATIVE) if position < 0 else None
        if position < 0:
            return
        log = self._partition.segment(number).log
        if self._buffer is None:
            self._buffer = Buffer(log, WINDOW)
        self._buffer.source = log
        walk = KafkaWalk(log, log.name, position, log.size, self._limit, self._buffer)
        passed = self.passed
        for window in walk.windows():
            for k in range(window.count):
                passed(number, window, k)
                yield window, k
        if walk.failure is not None and not _is_space_ahead(log, walk.position):
            self.failure = Refused(walk.failure)


def _is_space_ahead(log: Source, position: int) -> bool:
    """Whether there is nothing but zeros behind a position, for batches to come: who appends knows where they end.

    Source: FileRecords.open, log.preallocate.
    """
    return log.is_growing and zeros_until(log, position, log.size) == log.size


class Outline(TupleValue):
    """The headers of a log, summed up."""

    largest: int  # the largest timestamp of the batches with the right CRC, ms; -1 for none
    end_offset: int | None  # the offset after the last batch; None where there is none
    is_sound: bool  # all bytes belong to batches, and these look right


def outline(log: Source, buffer: Buffer, max_batch_bytes: int) -> Outline:
    """Read the headers of a log, as far as a broker could.

    Args:
        log: the log.
        buffer: to read into.
        max_batch_bytes: a batch over this is not held in memory.

    Raises:
        OSError: it cannot be read.
    """
    buffer.source = log
    walk = KafkaWalk(log, log.name, 0, log.size, max_batch_bytes, buffer)
    largest, end, is_sound = _NO_TIME, None, True
    for window in walk.windows():
        largest = max(largest, trusted_time(window))
        end = wire.add(window.cell(window.count - 1, layout.LAST_OFFSET), 1)
        is_sound = is_sound and looks_right(window)
    return Outline(largest, end, is_sound and walk.failure is None and walk.position == log.size)


def trusted_time(window: Window) -> int:
    """Return the largest timestamp of the batches with the right CRC, -1 for none."""
    times = window.column(layout.MAX_TIMESTAMP)
    if not window.all_trusted:
        right = zip(times, window.column(layout.CRC), window.column(layout.COMPUTED_CRC), strict=True)
        return max((time for time, stored, computed in right if stored == computed), default=_NO_TIME)
    return max(times, default=_NO_TIME)


def looks_right(window: Window) -> bool:
    """Whether the CRC of each batch is right, and its header no reason to look closer."""
    return window.all_trusted and not _scan.suspicions(window.rows, window.count) & _ODD
