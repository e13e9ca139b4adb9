"""How a broker finds offsets and times: by the indexes, then by reading from the position that they give.

The answers are a broker's, wrong ones of a wrong index included; what it throws is a `Refused`. The batches are read
by Kafka's walk, and no CRC decides anything: a broker does not look at it when it reads.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING

from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.broker.lookup_results import NO_TIMESTAMP, FoundBatch, FoundRecord, Refused, find_record
from kdump.broker.releases import rules_of
from kdump.broker.segment_reading import SegmentReading
from kdump.format.batch import layout
from kdump.format.java_values import MAX_DECOMPRESSED
from kdump.format.kernels import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.broker.releases import Rules
    from kdump.format.batch.window import Window
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.segment import Segment


_NEWEST = rules_of()


class Lookup:
    """A broker's lookups in one partition.

    Args:
        partition: its segments.
        max_uncompressed_bytes, max_batch_bytes: limits; beyond them a batch is refused.
        passed: called with each batch that a lookup passes or meets, in order, for those who judge the way: number
            of the segment, window, row.
        rules: of the broker's release.
        max_record: max.decompressed.message.bytes of the topic.

    Attributes:
        lost_end: where the segments end, when that is below the log start offset; None otherwise, or not known yet.
        file_times: segments whose time index tells nothing, so that a broker goes by the time of the file.
        believed: what `max_timestamp` took for the largest timestamp: number of the segment, and ms.
    """

    def __init__(
        self,
        partition: PartitionDir,
        max_uncompressed_bytes: int,
        max_batch_bytes: int,
        passed: Callable[[int, Window, int], None],
        rules: Rules = _NEWEST,
        *,
        max_record: int = MAX_DECOMPRESSED,
    ) -> None:
        self._partition = partition
        self._reading = SegmentReading(partition, max_uncompressed_bytes, max_batch_bytes, passed, rules, max_record)
        self._records = self._reading.records
        self._end: int | Refused | None = None
        self.lost_end: int | None = None
        self.file_times: set[int] = set()
        self.first_untimed: int | None = None  # the first of them that has batches; None as long as none was met
        self.believed = (0, NO_TIMESTAMP)
        self._reach: list[int] = []  # the largest timestamp of the first n + 1 segments

    def end_offset(self) -> int | Refused:
        """Return the log end offset that a broker has after a clean start: the log start where that is higher.

        Source: LogSegment.readNextOffset, LogLoader.load.
        """
        if self._end is None:
            end = self.meet_end(lambda _number, _window, _k: None)
            start = self._partition.start_offset
            if isinstance(end, int) and end < start:
                self.lost_end, end = end, start
            self._end = end
        return self._end

    def is_emptied(self) -> bool:
        """Tell whether a broker deletes all segments at its start: the log start offset is beyond their end."""
        if self._partition.start_offset <= self._partition.bases[-1]:
            return False
        self.end_offset()
        return self.lost_end is not None

    def meet_end(self, passed: Callable[[int, Window, int], None]) -> int | Refused:
        """Look up the end that the last log has, each time again.

        Args:
            passed: called with number, window and row of each batch that is met, without its bytes.
        """

        def bare(number: int, window: Window, k: int) -> None:
            met = FoundBatch(number, window, k).window
            met.has_record_bytes = False
            passed(number, met, 0)

        reading = self._reading
        before, reading.passed = reading.passed, bare
        try:
            return reading.next_offset(len(self._partition) - 1)
        finally:
            reading.passed = before

    def read(self, offset: int) -> FoundBatch | Refused | None:
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
            found = self._reading.search(number, offset, self._position(number, offset))
            if found is not None:
                return found
        return None

    def in_range(self, offset: int) -> bool:
        """Tell whether a broker takes a fetch from an offset."""
        end = self.end_offset()
        return offset >= self._partition.start_offset and (isinstance(end, Refused) or offset <= end)

    def batch_at(self, number: int, position: int) -> FoundBatch | Refused | None:
        """Return what a broker takes for a batch at a position of a segment."""
        return self._reading.batch_at(number, position)

    def batch_of(self, number: int, offset: int) -> FoundBatch | Refused | None:
        """Return what a broker finds in one segment for an offset, its index first; it counts for no way.

        Args:
            number: of the segment.
            offset: that an index of it has.
        """
        with self._unwatched():
            return self._reading.search(number, offset, self._position(number, offset))

    def end_before(self, number: int, position: int, base: int) -> int | None:
        """Return the offset after the batch before one; None where there is none, or nobody knows.

        Args:
            number: of the segment.
            position: of the batch, bytes.
            base: its first offset.
        """
        end = None
        with self._unwatched():
            if not position:
                found = self._reading.next_offset(number - 1) if number else None
                return found if isinstance(found, int) else None
            for window, k in self._reading.batches(number, self._position(number, base - 1)):
                if window.cell(k, layout.POSITION) >= position:
                    break
                end = wire.add(window.cell(k, layout.LAST_OFFSET), 1)
        return end

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """What is read meanwhile is no part of the way to an answer."""
        passed, self._reading.passed = self._reading.passed, lambda _number, _window, _k: None
        try:
            yield
        finally:
            self._reading.passed = passed

    def time(self, timestamp: int) -> FoundRecord | Refused | None:
        """Return the first record at or after a time in the first segment that reaches up to it.

        Args:
            timestamp: ms since the epoch.

        Source: UnifiedLog.searchOffsetInLocalLog, LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp.
        """
        partition = self._partition
        number = self.first_reaching(timestamp)
        if number is None or self.is_emptied():
            return None
        start = partition.start_offset
        offset = max(partition.segment(number).time_index.lookup(timestamp).offset, start)
        for window, k in self._reading.batches(number, self._position(number, offset)):
            if window.cell(k, layout.MAX_TIMESTAMP) >= timestamp:
                batch = FoundBatch(number, window, k)
                found = find_record(
                    self._records, batch, lambda time, at: time >= timestamp and at >= partition.start_offset
                )
                if found is not None:
                    return found
        return self._reading.failure

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
        largest = self._known_time(number)[0]
        return largest if largest >= 0 else self._partition.segment(number).modified

    def _known_time(self, number: int) -> tuple[int, int]:
        segment = self._partition.segment(number)
        known = self._last_time(segment, number)
        if known[0] < 0:
            self.file_times.add(number)
            if segment.log.size and (self.first_untimed is None or number < self.first_untimed):
                self.first_untimed = number
        return known

    def max_timestamp(self) -> FoundRecord | Refused | None:
        """Return the first record with the largest timestamp, as far as the time indexes know.

        Source: UnifiedLog.fetchOffsetByTimestamp (MAX_TIMESTAMP), RecordBatch.offsetOfMaxTimestamp.
        """
        partition = self._partition
        if self.is_emptied():
            return None
        times = [self._known_time(n) for n in range(len(partition))]
        number = max(range(len(times)), key=lambda n: times[n][0])
        largest, offset = times[number]
        self.believed = number, largest
        for window, k in self._reading.batches(number, self._position(number, offset)):
            if window.cell(k, layout.MAX_TIMESTAMP) == largest:
                if window.cell(k, layout.MAGIC) == 0:
                    return None
                batch = FoundBatch(number, window, k)
                return find_record(self._reading.streamed, batch, lambda time, _: time == largest)
        return self._reading.failure

    def earliest(self) -> FoundRecord:
        """Return the log start offset with its leader epoch."""
        first = next(iter(self._epochs()), None)
        start = self._partition.start_offset
        return FoundRecord(NO_TIMESTAMP, start, first.epoch if first and first.start_offset <= start else None)

    def latest(self) -> FoundRecord | Refused:
        """Return the log end offset with the latest leader epoch."""
        end = self.end_offset()
        if isinstance(end, Refused):
            return end
        epochs = self._epochs()
        return FoundRecord(NO_TIMESTAMP, end, epochs[-1].epoch if epochs else None)

    def _epochs(self) -> Sequence[EpochEntry]:
        """The leader epochs as they are after loading. Source: LogLoader.load."""
        if self.is_emptied():
            return ()
        cache, end = EpochCache(self._partition.epochs), self.end_offset()
        if not isinstance(end, Refused):
            cache.truncate_from_end(end)
        cache.truncate_from_start(self._partition.log_start)
        return cache.entries

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
        for window, k in self._reading.batches(number, self._position(number, segment.time_index.last_entry().offset)):
            if window.cell(k, layout.MAX_TIMESTAMP) > largest[0]:
                largest = (window.cell(k, layout.MAX_TIMESTAMP), window.cell(k, layout.LAST_OFFSET))
        return largest


def _out_of_range(offset: int, name: str) -> str:
    return f"org.apache.kafka.common.errors.OffsetOutOfRangeException: offset {offset} is out of range in {name}"
