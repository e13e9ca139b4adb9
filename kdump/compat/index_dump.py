"""DumpLogSegments' reading of the two indexes of a segment, with its false alarms and early ends."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.compat.kafka_stream import TOOL_HEAP
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.format.record.chunk import KEPT
from kdump.item import Complaint, ComplaintKind, Died, IndexEmpty, IndexPassed, OffsetEntries, TimeEntries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dialect import Dialect
    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.batch.window import Window
    from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
    from kdump.format.source import Source
    from kdump.item import Item

_CORRUPT = "org.apache.kafka.storage.internals.log.CorruptIndexException: "
_ILLEGAL = "java.lang.IllegalArgumentException: "


def file_records(size: int, name: str) -> str:
    """Java's text of an open log."""
    return f"FileRecords(size={size}, file={name}, start=0, end={layout.MAX_INT})"


class KafkaIndexes:
    """Reads the indexes of one segment as DumpLogSegments does.

    Args:
        log: the segment's log.
        log_name: its absolute path.
        dialect: the release.
        options: what was asked for.
    """

    def __init__(self, log: Source, log_name: str, dialect: Dialect, options: DumpOptions) -> None:
        self._log = log
        self._log_name = log_name
        self._dialect = dialect
        self._options = options
        self._ends_well: set[int] = set()
        self._reader = KafkaRecordReader(
            options.max_uncompressed_bytes, cut=KEPT, heap=TOOL_HEAP, metadata=False, max_record=dialect.max_record
        )

    def offset_index(self, index: OffsetIndex, path: str, absolute: str) -> Iterator[Item]:
        """Yield what the tool prints of an offset index.

        Args:
            index: the index.
            path: as the user wrote it.
            absolute: the absolute path, for complaints.

        Source: DumpLogSegments.dumpIndex.
        """
        if index.entries == 0:
            yield IndexEmpty(path)
            return
        if self._options.index_sanity_check:
            yield self._sanity(index, path, absolute)
            return
        first = True
        for offsets, positions in index.columns():
            for i, (offset, position) in enumerate(zip(offsets, positions, strict=True)):
                if offset == index.base_offset and not first:
                    yield self._shown(OffsetEntries(offsets[:i], positions[:i]))
                    return
                first = False
                last_offset = self._batch_at(position)
                if isinstance(last_offset, Died):
                    yield self._shown(OffsetEntries(offsets[:i], positions[:i]))
                    yield last_offset
                    return
                if last_offset != offset:
                    yield Complaint(ComplaintKind.MISMATCH, absolute, offset, last_offset)
            yield self._shown(OffsetEntries(offsets, positions))

    def time_index(self, index: TimeIndex, offsets: OffsetIndex, path: str, absolute: str) -> Iterator[Item]:
        """Yield what the tool prints of a time index; arguments as `offset_index`.

        Source: DumpLogSegments.dumpTimeIndex.
        """
        if self._options.index_sanity_check:
            yield self._sanity(index, path, absolute)
            return
        previous, first = -1, True
        for timestamps, targets in index.columns():
            for i, (timestamp, target) in enumerate(zip(timestamps, targets, strict=True)):
                if target == index.base_offset and not first:
                    yield self._shown(TimeEntries(timestamps[:i], targets[:i]))
                    return
                first = False
                for item in self._time_entry(timestamp, target, previous, offsets.lookup(target).position, absolute):
                    if isinstance(item, Died):
                        yield self._shown(TimeEntries(timestamps[:i], targets[:i]))
                    yield item
                    if isinstance(item, Died):
                        return
                previous = timestamp
            yield self._shown(TimeEntries(timestamps, targets))

    def _shown(self, entries: OffsetEntries | TimeEntries) -> OffsetEntries | TimeEntries:
        if not self._options.verify_index_only:
            return entries
        none = array("q")
        return OffsetEntries(none, none) if isinstance(entries, OffsetEntries) else TimeEntries(none, none)

    def _sanity(self, index: OffsetIndex | TimeIndex, path: str, absolute: str) -> Item:
        complaint = index.sanity_check()
        return Died(_CORRUPT + complaint.replace("{file}", absolute)) if complaint else IndexPassed(path)

    def _slice_error(self, position: int, size: int) -> Died | None:
        """Source: FileRecords.slice."""
        log = file_records(self._log.size, self._log_name)
        if position < 0:
            return Died(f"{_ILLEGAL}Invalid position: {position} in read from {log}")
        if position > self._log.size:
            return Died(f"{_ILLEGAL}Slice from position {position} exceeds end position of {log}")
        if size < 0:
            return Died(f"{_ILLEGAL}Invalid size: {size} in read from {log}")
        return None

    def _batch_at(self, position: int) -> int | Died:
        """The last offset of the first batch at a position, as far as the check may look."""
        size = self._options.max_message_size
        error = self._slice_error(position, size)
        if error is not None:
            return error
        end = min(position + size, self._log.size)
        header = self._log.read_at(position, layout.RECORDS_AT)
        if position >= end - layout.HEADER_UP_TO_MAGIC:
            return Died("java.util.NoSuchElementException")
        batch_size = _int(header, layout.SIZE_AT, 4)
        if batch_size < layout.MIN_SIZE_V0:
            return Died(
                "org.apache.kafka.common.errors.CorruptRecordException: Found record size "
                f"{batch_size} smaller than minimum record overhead (14) in file {self._log_name}."
            )
        if position > end - layout.LOG_OVERHEAD - batch_size:
            return Died("java.util.NoSuchElementException")
        offset = _int(header, layout.OFFSET_AT, 8)
        if _int(header, layout.MAGIC_AT, 1) < layout.MAGIC_V2:
            return offset
        if len(header) < layout.RECORDS_AT:
            log = file_records(self._log.size, self._log_name)
            return Died(
                f"org.apache.kafka.common.KafkaException: Failed to load record batch at position {position} from {log}"
            )
        return offset + _int(header, layout.LAST_OFFSET_DELTA_AT, 4)

    def _time_entry(self, timestamp: int, target: int, previous: int, position: int, absolute: str) -> Iterator[Item]:
        error = self._slice_error(position, layout.MAX_INT)
        if error is not None:
            yield error
            return
        found = self._find(position, target)
        if isinstance(found, Died):
            yield found
            return
        last_offset, largest = found
        if last_offset != target:
            yield Complaint(ComplaintKind.NOT_FOUND, absolute, target, last_offset)
            return
        if isinstance(largest, Died):
            yield largest
            return
        if largest != timestamp:
            yield Complaint(ComplaintKind.TIMESTAMP, absolute, timestamp, largest)
        if previous >= timestamp:
            yield Complaint(ComplaintKind.UNORDERED, absolute, timestamp, previous)

    def _find(self, position: int, target: int) -> tuple[int, int | Died] | Died:
        """The first batch from `position` on that ends at or after the offset.

        Returns:
            Its last offset (-1: there is none) and the largest timestamp of its records (ms).
        """
        walk = KafkaWalk(self._log, self._log_name, position, self._log.size, self._options.max_batch_bytes)
        found: tuple[int, int | Died] | None = None
        for window in walk.windows():
            if found is None:
                for k, last_offset in enumerate(window.column(layout.LAST_OFFSET)):
                    if last_offset >= target:
                        found = last_offset, self._largest(window, k) if last_offset == target else 0
                        break
            if found is not None and (
                not self._dialect.walks_on or self._ends_well.intersection(window.column(layout.POSITION))
            ):
                break
        else:
            if walk.failure is not None and (self._dialect.walks_on or found is None):
                return Died(walk.failure)
        # The chain of lengths from here on is the same for every later entry that lies on it.
        self._ends_well.add(position)
        return found or (-1, 0)

    def _largest(self, window: Window, k: int) -> int | Died:
        """The largest timestamp of the records of one batch, ms."""
        alone = window.batch(k)
        largest = -1
        for chunk in self._reader.chunks(alone):
            times = chunk.rows[layout.R_TIMESTAMP : chunk.filled * layout.RECORD_WIDTH : layout.RECORD_WIDTH]
            largest = max(largest, max(times, default=-1))
            if chunk.problem is not None:
                return Died(chunk.problem.java)
        return largest


def _int(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)
