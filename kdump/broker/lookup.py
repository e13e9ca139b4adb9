"""How a broker finds offsets and times: by the indexes, and then by reading on from where they point.

The answers are a broker's, wrong ones of a wrong index included; what it throws is a `Refused`. The batches are read
by Kafka's walk, and no CRC decides anything: a broker does not look at it when it reads.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING

from kdump.broker.found import NO_TIMESTAMP, Batch, Found, Refused, find_record
from kdump.format import layout
from kdump.format.kafkawalk import KafkaWalk
from kdump.format.records import RecordReader
from kdump.format.window import Buffer, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.checkpoint import EpochEntry
    from kdump.log.partition import Partition, Segment

WINDOW = 6 * 1024  # bytes of a log read at once: an index points some 4 KB before the batch that is wanted
_NEGATIVE = "java.lang.IllegalArgumentException: Negative position"


class Lookup:
    """A broker's lookups in one partition.

    Args:
        partition: its segments.
        max_uncompressed_bytes, max_batch_bytes: limits; beyond them a batch is refused.
        passed: called with each batch that a lookup passes or meets, in order, for those who judge the way: number
            of the segment, window, row.

    Attributes:
        end_way: the batches that were met for the end of the log, as `passed` gets them.
        file_times: segments whose time index tells nothing, so that a broker goes by the time of the file.
    """

    def __init__(
        self,
        partition: Partition,
        max_uncompressed_bytes: int,
        max_batch_bytes: int,
        passed: Callable[[int, Window, int], None],
    ) -> None:
        self._partition = partition
        self._reader = RecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes, kafka=True)
        self._limit = max_batch_bytes
        self._passed = passed
        self._end: int | Refused | None = None
        self._buffer: Buffer | None = None
        self._failure: Refused | None = None
        self.end_way: list[tuple[int, Window, int]] = []
        self.file_times: set[int] = set()
        self._reach: list[int] = []  # the largest timestamp of the first n + 1 segments

    def end_offset(self) -> int | Refused:
        """Return the log end offset that a broker has after a clean start.

        Source: LogSegment.readNextOffset, LogLoader.load.
        """
        if self._end is None:
            passed, self._passed = self._passed, self._on_end_way
            self._end = self._next_offset(len(self._partition) - 1)
            self._passed = passed
        return self._end

    def _next_offset(self, number: int) -> int | Refused:
        segment = self._partition.segment(number)
        last = segment.offset_index.last_entry().offset
        found = self._search(number, last, segment.offset_index.lookup(last).position)
        if not isinstance(found, Batch):
            return segment.base_offset if found is None else found
        end = segment.base_offset
        for window, k in self._batches(number, found.cell(layout.POSITION)):
            end = window.cell(k, layout.LAST_OFFSET) + 1
        return self._failure or end

    def _on_end_way(self, number: int, window: Window, k: int) -> None:
        self.end_way.append((number, Batch(number, window, k).window, 0))

    def read(self, offset: int) -> Batch | Refused | None:
        """Return the batch that the answer to a fetch from an offset begins with; None for an empty answer.

        Args:
            offset: from the log start offset to the log end offset; outside a broker answers OffsetOutOfRange.

        Source: UnifiedLog.read, LocalLog.read, LogSegment.read.
        """
        partition = self._partition
        if offset < partition.start_offset:
            return Refused(_out_of_range(offset, partition.name))
        for number in range(max(0, partition.floor(offset)), len(partition)):
            if number == len(partition) - 1:
                end = self.end_offset()
                if isinstance(end, Refused):
                    return end
                if offset > end:
                    return Refused(_out_of_range(offset, partition.name))
                if offset == end:
                    return None
            found = self._search(number, offset, self._position(number, offset))
            if found is not None:
                return found
        return None

    def in_range(self, offset: int) -> bool:
        """Tell whether a broker takes a fetch from an offset."""
        end = self.end_offset()
        return offset >= self._partition.start_offset and (isinstance(end, Refused) or offset <= end)

    def batch_at(self, number: int, position: int) -> Batch | Refused | None:
        """Return what a broker takes for a batch at a position of a segment."""
        found = next(self._batches(number, position), None)
        return self._failure if found is None else Batch(number, *found)

    def time(self, timestamp: int) -> Found | Refused | None:
        """Return the first record at or after a time in the first segment that reaches up to it.

        Args:
            timestamp: ms since the epoch.

        Source: UnifiedLog.searchOffsetInLocalLog, LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp.
        """
        partition = self._partition
        number = self.first_reaching(timestamp)
        if number is None:
            return None
        start = partition.start_offset
        offset = max(partition.segment(number).time_index.lookup(timestamp).offset, start)
        for window, k in self._batches(number, self._position(number, offset)):
            if window.cell(k, layout.MAX_TIMESTAMP) >= timestamp:
                batch = Batch(number, window, k)
                found = find_record(
                    self._reader, batch, lambda time, at: time >= timestamp and at >= partition.start_offset
                )
                if found is not None:
                    return found
        return self._failure

    def first_reaching(self, timestamp: int) -> int | None:
        """Return the first segment whose largest timestamp is at or after a time; no segment is asked twice."""
        reach = self._reach
        while len(reach) < len(self._partition) and (not reach or reach[-1] < timestamp):
            largest = self.largest_timestamp(len(reach))
            reach.append(max(largest, reach[-1]) if reach else largest)
        number = bisect_left(reach, timestamp)
        return number if number < len(reach) else None

    def largest_timestamp(self, number: int) -> int:
        """Return what a broker takes for the largest timestamp of a segment: by its time index, else its file time.

        Source: LogSegment.largestTimestamp.
        """
        segment = self._partition.segment(number)
        largest = self._last_time(segment, number)[0]
        if largest >= 0:
            return largest
        self.file_times.add(number)
        return segment.modified

    def max_timestamp(self) -> Found | Refused | None:
        """Return the first record with the largest timestamp, as far as the time indexes know.

        Source: UnifiedLog.fetchOffsetByTimestamp (MAX_TIMESTAMP), RecordBatch.offsetOfMaxTimestamp.
        """
        partition = self._partition
        times = [self._last_time(partition.segment(n), n) for n in range(len(partition))]
        number = max(range(len(times)), key=lambda n: times[n][0])
        largest, offset = times[number]
        for window, k in self._batches(number, self._position(number, offset)):
            if window.cell(k, layout.MAX_TIMESTAMP) == largest:
                if window.cell(k, layout.MAGIC) == 0:
                    return None
                return find_record(self._reader, Batch(number, window, k), lambda time, _: time == largest)
        return self._failure

    def earliest(self) -> Found:
        """Return the log start offset with its leader epoch."""
        first = next(iter(self._epochs()), None)
        start = self._partition.start_offset
        return Found(NO_TIMESTAMP, start, first.epoch if first and first.start_offset <= start else None)

    def latest(self) -> Found | Refused:
        """Return the log end offset with the latest leader epoch."""
        end = self.end_offset()
        if isinstance(end, Refused):
            return end
        epochs = self._epochs()
        return Found(NO_TIMESTAMP, end, epochs[-1].epoch if epochs else None)

    def _epochs(self) -> Sequence[EpochEntry]:
        """The leader epochs as they are after loading. Source: LeaderEpochFileCache.truncateFromStart, -FromEnd."""
        end, start = self.end_offset(), self._partition.start_offset
        epochs = [one for one in self._partition.epochs if isinstance(end, Refused) or one.start_offset < end]
        before = [one for one in epochs if one.start_offset <= start]
        after = [one for one in epochs if one.start_offset > start]
        return [before[-1]._replace(start_offset=start), *after] if before else after

    def _position(self, number: int, offset: int) -> int:
        return self._partition.segment(number).offset_index.lookup(offset).position

    def _last_time(self, segment: Segment, number: int) -> tuple[int, int]:
        """The largest timestamp that a broker knows of a segment, and the offset of its batch.

        That is the last entry of the time index, unless the broker has the segment in its hands or has to recover it:
        then what comes after that entry counts too. Source: LogSegment.readLargestTimestamp, recover.
        """
        last = segment.time_index.last_entry()
        if segment.has_index and not segment.is_open:
            return last.timestamp, last.offset
        return max((last.timestamp, last.offset), self._late(number), key=itemgetter(0))

    def late_timestamp(self, number: int) -> int:
        """Return the largest timestamp of the batches from the last entry of a time index on, which it may lack."""
        return self._late(number)[0]

    def _late(self, number: int) -> tuple[int, int]:
        segment = self._partition.segment(number)
        largest = (NO_TIMESTAMP, segment.base_offset)
        for window, k in self._batches(number, self._position(number, segment.time_index.last_entry().offset)):
            if window.cell(k, layout.MAX_TIMESTAMP) > largest[0]:
                largest = (window.cell(k, layout.MAX_TIMESTAMP), window.cell(k, layout.LAST_OFFSET))
        return largest

    def _search(self, number: int, offset: int, position: int) -> Batch | Refused | None:
        """Source: FileRecords.searchForOffsetFromPosition."""
        before: int | None = None  # position of the last batch below the offset that reaches up to it
        for window, k in self._batches(number, position):
            at, rows = k * layout.BATCH_WIDTH, window.rows
            base = rows[at + layout.BASE_OFFSET]
            if rows[at + layout.MAGIC] < layout.MAGIC_V2 and rows[at + layout.ATTRIBUTES] & layout.CODEC_MASK:
                first = self._first_offset(number, window, k)
                if isinstance(first, Refused):
                    return first
                base = first
            if base == offset or (base > offset and before is None):
                return Batch(number, window, k)
            if base > offset:
                break
            before = rows[at + layout.POSITION] if rows[at + layout.LAST_OFFSET] >= offset else None
        else:
            if self._failure is not None:
                return self._failure
        return None if before is None else self.batch_at(number, before)

    def _first_offset(self, number: int, window: Window, k: int) -> int | Refused:
        """The base offset of a legacy wrapper, which takes its records. Source: AbstractLegacyRecordBatch."""
        found = find_record(self._reader, Batch(number, window, k), lambda _time, _at: True)
        if isinstance(found, Found):
            return found.offset
        return Refused("java.util.NoSuchElementException") if found is None else found

    def _batches(self, number: int, position: int) -> Iterator[tuple[Window, int]]:
        """Yield what a broker takes for batches from a position of a segment on: window and row.

        When they end, `_failure` says what a broker throws then, None for nothing. Source: FileRecords.batchesFrom.
        """
        self._failure = Refused(_NEGATIVE) if position < 0 else None
        if position < 0:
            return
        log = self._partition.segment(number).log
        if self._buffer is None:
            self._buffer = Buffer(log, WINDOW)
        self._buffer.source = log
        walk = KafkaWalk(log, log.name, position, log.size, self._limit, self._buffer)
        passed = self._passed
        for window in walk.windows():
            for k in range(window.count):
                passed(number, window, k)
                yield window, k
        if walk.failure is not None:
            self._failure = Refused(walk.failure)


def _out_of_range(offset: int, name: str) -> str:
    return f"org.apache.kafka.common.errors.OffsetOutOfRangeException: offset {offset} is out of range in {name}"
