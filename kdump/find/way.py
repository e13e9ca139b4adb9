"""What is odd on the way of a lookup: batches that were passed, and the index entries that were believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.found import NO_TIMESTAMP, Batch, Refused
from kdump.finding import Code, Finding
from kdump.format import layout

if TYPE_CHECKING:
    from array import array
    from collections.abc import Container, Mapping

    from kdump.broker.lookup import Lookup
    from kdump.find.datamap import DataMap
    from kdump.finding import Report
    from kdump.format.index import OffsetPosition, TimestampOffset
    from kdump.format.window import Window
    from kdump.log.partition import Partition


_KEPT = 512  # batches that are remembered of a way: an index leads to the first of a few


class Way:
    """Watches lookups in one partition. A finding about an index is reported once.

    Args:
        partition: its segments.
        report: takes the findings.

    Attributes:
        is_odd: something on the way of this question is wrong: the data has to be asked.
        by_file_time: the time of a file decided which segment was searched.

    Reports: X04, X05, X07, T02, T03, T04.
    """

    def __init__(self, partition: Partition, report: Report) -> None:
        self._partition = partition
        self._report = report
        self._told: set[tuple[Code, str, int | None]] = set()
        self._passed: dict[tuple[int, int], array[int]] = {}  # rows, by segment and position
        self._next, self._last = (-1, -1), -1  # where the next batch begins, and the last offset before it
        self._doubtful: tuple[int, OffsetPosition] | None = None
        self._end_is_odd: bool | None = None
        self._times_seen = 0  # segments whose time index was judged, and the first of them that was odd
        self._first_odd_time: int | None = None
        self.is_odd = False
        self.by_file_time = False

    def start(self) -> None:
        """Another question begins."""
        self.is_odd = self.by_file_time = False
        self._next = (-1, -1)
        self._doubtful = None
        self._passed.clear()

    def passed(self, number: int, window: Window, k: int) -> None:
        """Look at a batch that a lookup meets: row k of a window of a segment."""
        at = k * layout.BATCH_WIDTH
        row = window.rows[at : at + layout.BATCH_WIDTH]
        position, base, last = row[layout.POSITION], row[layout.BASE_OFFSET], row[layout.LAST_OFFSET]
        if not _is_true(row) or not 0 <= last - self._partition.bases[number] <= layout.MAX_INT:
            self.is_odd = True
        if self._next == (number, position) and 0 <= base <= self._last:
            self.is_odd = True
        if len(self._passed) < _KEPT:
            self._passed[number, position] = row
        self._next, self._last = (number, position + row[layout.SIZE]), last

    def check_offset(self, lookup: Lookup, offset: int, found: Batch | Refused | None) -> None:
        """Judge the entry of the offset index that a lookup of an offset began from, and the end of the index."""
        last = len(self._partition) - 1
        if isinstance(found, Batch):
            self._check_entry(found.segment, offset)
            floor = max(0, self._partition.floor(offset))
            if found.segment != floor:  # the segment of the offset had none
                self.is_odd = True
                self._check_entry(floor, offset)
        elif lookup.in_range(offset):
            self.is_odd |= isinstance(found, Refused)
            self._check_entry(max(0, self._partition.floor(offset)), offset)
        if not isinstance(found, Batch) or found.segment == last:
            self.check_end(lookup)

    def check_end(self, lookup: Lookup) -> None:
        """Judge what the end of the log was taken from."""
        if self._end_is_odd is None:
            before, self.is_odd = self.is_odd, False
            self._judge_end(lookup)
            self._end_is_odd, self.is_odd = self.is_odd, before
        self.is_odd |= self._end_is_odd

    def _judge_end(self, lookup: Lookup) -> None:
        end = lookup.end_offset()
        for met in lookup.end_way:
            self.passed(*met)
        if isinstance(end, Refused):
            self.is_odd = True
            return
        index = self._partition.segment(len(self._partition) - 1).offset_index
        if index.entries and (last := index.last_entry().offset) >= end:
            self._tell(Code.X07, index.name, last, found=last, values={"end": end})

    def check_time(self, lookup: Lookup, timestamp: int, *, nothing: bool) -> None:
        """Judge the entries of the time indexes that a lookup of a time believed.

        Args:
            lookup: has made it.
            timestamp: ms since the epoch.
            nothing: it found nothing.
        """
        number = lookup.first_reaching(timestamp)
        self._check_last_times(len(self._partition) if number is None else number + 1)
        before = (len(self._partition) if number is None else number) - 1
        if before >= 0:
            self._check_late(lookup, before, timestamp)
        if number is None:
            return
        self.is_odd |= nothing and number not in lookup.file_times  # its time index says that there is something
        self.by_file_time = number in lookup.file_times
        segment = self._partition.segment(number)
        entry = segment.time_index.lookup(timestamp)
        offset = max(entry.offset, self._partition.start_offset)
        self._check_entry(number, offset)
        if segment.time_index.entries and entry.timestamp >= 0:
            self._check_time_entry(number, entry)

    def check_max(self, *, nothing: bool) -> None:
        """Judge what the largest timestamp was taken from.

        Args:
            nothing: no record has it.
        """
        self._check_last_times(len(self._partition))
        indexes = (self._partition.segment(n).time_index for n in range(len(self._partition)))
        self.is_odd |= nothing and any(index.entries for index in indexes)

    def settle(self, data: DataMap, damaged: Container[tuple[str, int | None]]) -> None:
        """Judge the entry that was in doubt, now that the data has been looked at.

        Args:
            data: knows where batches begin.
            damaged: file and position of what is wrong in the logs: no fault of an index.
        """
        if self._doubtful is None:
            return
        number, entry = self._doubtful
        segment = self._partition.segment(number)
        if not data.begins_at(number, entry.position) and (segment.path, entry.position) not in damaged:
            self._tell(Code.X04, segment.offset_index.name, entry.offset, found=entry.position)

    def _check_entry(self, number: int, offset: int) -> None:
        segment = self._partition.segment(number)
        index = segment.offset_index
        entry = index.lookup(offset)
        if not index.entries or (entry.offset, entry.position) == (segment.base_offset, 0):
            return
        batch = self._passed.get((number, entry.position))
        if batch is None or not _is_true(batch):
            self.is_odd = True
            self._doubtful = (number, entry)
        elif (base := batch[layout.BASE_OFFSET]) > entry.offset:
            self._tell(Code.X05, index.name, entry.offset, found=entry.position, values={"base": base})

    def _check_last_times(self, stop: int) -> None:
        """Judge the last entries of the time indexes of the segments before `stop`, each one once."""
        while self._times_seen < stop:
            if self._check_last_time(self._times_seen) and self._first_odd_time is None:
                self._first_odd_time = self._times_seen
            self._times_seen += 1
        self.is_odd |= self._first_odd_time is not None and self._first_odd_time < stop

    def _check_last_time(self, number: int) -> bool:
        index = self._partition.segment(number).time_index
        if not index.entries:
            return False
        last = index.last_entry()
        before = index.entry(index.entries - 2).timestamp if index.entries > 1 else 0
        if last.timestamp == 0:
            self._tell(Code.T02, index.name, last.offset, found=0)
        elif last.timestamp < before:
            self._tell(Code.T03, index.name, last.offset, found=last.timestamp, values={"before": before})
        return last.timestamp == 0 or last.timestamp < before

    def _check_late(self, lookup: Lookup, number: int, timestamp: int) -> None:
        """Look at what comes after the last entry of a time index, in the last segment that was passed over."""
        index = self._partition.segment(number).time_index
        late = lookup.late_timestamp(number) if index.entries else NO_TIMESTAMP
        if late >= timestamp:
            last = index.last_entry()
            self._tell(Code.T05, index.name, last.offset, found=last.timestamp, values={"largest": late})

    def _check_time_entry(self, number: int, entry: TimestampOffset) -> None:
        """Compare an entry with the batch that has its offset, where the lookup has met it."""
        for (segment, _), batch in self._passed.items():
            if segment == number and batch[layout.BASE_OFFSET] <= entry.offset <= batch[layout.LAST_OFFSET]:
                largest = batch[layout.MAX_TIMESTAMP]
                if largest not in (entry.timestamp, NO_TIMESTAMP):
                    name = self._partition.segment(number).time_index.name
                    self._tell(Code.T04, name, entry.offset, found=entry.timestamp, values={"largest": largest})
                return

    def _tell(self, code: Code, file: str, offset: int, *, found: int, values: Mapping[str, int] | None = None) -> None:
        self.is_odd = True
        if (code, file, offset) not in self._told:
            self._told.add((code, file, offset))
            self._report(Finding(code, file, offset=offset, found=found, values=values or {}))


def _is_true(row: array[int]) -> bool:
    """Whether the CRC of a batch is right, under a magic that there is."""
    return row[layout.CRC] == row[layout.COMPUTED_CRC] and row[layout.MAGIC] <= layout.MAGIC_V2
