"""Check the index entries and batches that one lookup used."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.broker.lookup_results import NO_TIMESTAMP, FoundBatch, Refused
from kdump.broker.segment_reading import outline
from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.header_checks import check_header
from kdump.format.batch.window import HEADERS_WINDOW, Buffer
from kdump.format.index.offset_and_time import TimestampOffset, zeros_are_right
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.broker.lookup import Lookup
    from kdump.find.log_scan import LogScan
    from kdump.find.remedies import Remedies
    from kdump.finding import Report
    from kdump.format.batch.window import Window
    from kdump.format.index.offset_and_time import OffsetPosition
    from kdump.storage.partition_dir import PartitionDir


_KEPT = 512  # batches that are remembered of a way: an index leads to the first of a few
_BY_FILE_TIME = "and a broker goes by the time of the file"
_PASSED_OVER = "and a broker does not look into the log for that"
_HEADER = layout.ODD_CODEC | layout.ODD_ATTRIBUTES | layout.ODD_DELTA | layout.ODD_COUNT | layout.ODD_FLAGS
_MARKS = _HEADER | layout.NOT_ABOVE | layout.EPOCH_CHANGES


class LookupAudit:
    """Watches lookups in one partition.

    Args:
        partition: its segments.
        report: takes the findings, some of them more than once.

    Attributes:
        untimed: the log whose time index is empty or missing: that, not what the log has, decided which segment a
            broker searched; None where that is not so.
        reason: why a broker may find less than there is, where no damage is the reason; empty where none is known.

    Reports: X04, X05, X07, T02-T05, K02 and those of `check_header`.
    """

    def __init__(self, partition: PartitionDir, report: Report) -> None:
        self._partition = partition
        self._bases = partition.bases
        self._report = report
        self._passed: dict[tuple[int, int], array[int]] = {}  # rows, by segment and position
        self._doubtful: tuple[int, OffsetPosition] | None = None
        self._too_late: tuple[int, int] | None = None  # segment whose time index names a later time than there is
        self._astray: tuple[int, TimestampOffset] | None = None  # an entry whose offset the lookup did not come to
        self._end_is_odd: bool | None = None
        self._is_beyond = False  # the last entry of the last offset index is not below the end that a broker takes
        self._times_seen = 0  # segments whose time index was judged, and the first of them that was odd
        self._first_odd_time: int | None = None
        self.is_odd = False  # something on the way of this question is wrong: the data has to be asked
        self.untimed: str | None = None
        self.reason = ""

    def start(self, lookup: Lookup) -> None:
        """Another question begins.

        Args:
            lookup: knows whether a broker has any segment left for it.
        """
        self.is_odd, self.untimed = False, None
        self.reason = ""
        self._doubtful = self._too_late = self._astray = None
        self._passed.clear()
        if lookup.is_emptied():
            self._start_ahead(lookup)

    def passed(self, number: int, window: Window, k: int) -> None:
        """Look at a batch that a lookup meets: row k of a window of a segment."""
        row = window.row(k)
        if not _is_true(row) or not 0 <= row[layout.LAST_OFFSET] - self._bases[number] <= layout.MAX_INT:
            self.is_odd = True
        if row[layout.SUSPICION] & _MARKS or not window.has_record_bytes:
            self._check_marks(number, window, k)
        passed = self._passed
        if len(passed) < _KEPT:
            passed[number, row[layout.POSITION]] = row

    def _check_marks(self, number: int, window: Window, k: int) -> None:
        """Look at a batch that the scan has marked, or of which it had the header only, which it does not mark."""
        batch = FoundBatch(number, window, k).window
        row = batch.rows
        if not window.has_record_bytes:
            _scan.suspect(row, 1, layout.UNKNOWN, array("q", [layout.UNKNOWN, layout.UNKNOWN]))
        epoch, before = row[layout.LEADER_EPOCH], next(reversed(self._passed.values()), row)[layout.LEADER_EPOCH]
        is_epoch_odd = epoch < max(before, layout.NO_EPOCH)
        if row[layout.SUSPICION] & layout.NOT_ABOVE or (row[layout.SUSPICION] & layout.EPOCH_CHANGES and is_epoch_odd):
            self.is_odd = True
        if _is_true(row) and row[layout.SUSPICION] & _HEADER:
            for finding in check_header(self._partition.segment(number).path, batch, 0):
                self._report(finding)

    def _start_ahead(self, lookup: Lookup) -> None:
        """The log start offset is beyond the end: what is here is deleted when a broker starts."""
        self.is_odd, self.reason = True, "it deletes all segments when it starts"
        partition, end = self._partition, lookup.lost_end or 0
        start = partition.start_offset
        values: dict[str, int | str | None] = {"partition": partition.name, "end": end, "missing": start - end}
        finding = Finding(
            Code.K02,
            partition.log_dir.path_of(FileKind.LOG_START),
            field="logStartOffset",
            found=start,
            expected=end,
            offset=end,
        )
        self._report(finding.replace(values=values))

    def check_offset(self, lookup: Lookup, offset: int, found: FoundBatch | Refused | None) -> None:
        """Judge the entry of the offset index that a lookup of an offset began from, and the end of the index."""
        last = len(self._partition) - 1
        if isinstance(found, FoundBatch):
            self._check_entry(found.segment, offset)
            floor = max(0, self._partition.floor(offset))
            if found.segment != floor:  # the segment of the offset had none
                self.is_odd = True
                self._check_entry(floor, offset)
        elif lookup.in_range(offset):
            self.is_odd |= isinstance(found, Refused) and not found.limit
            self._check_entry(max(0, self._partition.floor(offset)), offset)
        if not isinstance(found, FoundBatch) or found.segment == last:
            self.check_end(lookup)

    def check_following(self, lookup: Lookup, place: tuple[int, int] | None) -> None:
        """Judge the base offset of the batch of an answer by the one behind it: it is outside of the CRC.

        Args:
            lookup: has found the answer.
            place: number of the segment and position of the batch; None for none.
        """
        batch = None if place is None or self.is_odd else lookup.batch_at(*place)
        if place is None or not isinstance(batch, FoundBatch):
            return
        number, last, end = place[0], batch.cell(layout.LAST_OFFSET), place[1] + batch.cell(layout.SIZE)
        log = self._partition.segment(number).log
        if end < log.size:
            header = log.read_at(end, layout.RECORDS_AT)
            is_v2 = len(header) == layout.RECORDS_AT and header[layout.MAGIC_AT] == layout.MAGIC_V2
            self.is_odd = is_v2 and 0 <= wire.i64(header, 0) <= last  # the first field is the base offset
        elif number + 1 < len(self._bases):
            self.is_odd = self._bases[number + 1] <= last

    def check_end(self, lookup: Lookup) -> None:
        """Judge what the end of the log was taken from."""
        if self._end_is_odd is None:
            before, self.is_odd = self.is_odd, False
            self._judge_end(lookup)
            self._end_is_odd, self.is_odd = self.is_odd, before
        self.is_odd |= self._end_is_odd

    def _judge_end(self, lookup: Lookup) -> None:
        end = lookup.end_offset()
        lookup.meet_end(self.passed)
        if isinstance(end, Refused):
            self.is_odd = not end.limit
            return
        index = self._partition.segment(len(self._partition) - 1).offset_index
        self._is_beyond = bool(index.entries) and index.last_entry().offset >= end
        self.is_odd |= self._is_beyond

    def check_time(self, lookup: Lookup, timestamp: int, *, nothing: bool) -> None:
        """Judge the entries of the time indexes that a lookup of a time believed.

        Args:
            lookup: has made it.
            timestamp: ms since the epoch.
            nothing: it found nothing.
        """
        number = lookup.first_reaching(timestamp)
        count = len(self._partition)
        self._check_last_times(count if number is None else number + 1)
        before = (count if number is None else number) - 1
        if before >= 0:
            self._check_late(lookup, before, timestamp)
        if lookup.first_untimed is not None and lookup.first_untimed <= before:
            self._without_times(lookup.first_untimed, _BY_FILE_TIME)
        if number is None:
            return
        if nothing and number in lookup.file_times:
            is_last = number == count - 1
            if self._partition.segment(number).log.size or not is_last:  # an empty last segment hides nothing
                self._without_times(number, _BY_FILE_TIME)
        elif nothing:  # its time index says that there is something
            self.is_odd, self._too_late = True, (number, lookup.late_timestamp(number))
            if number < self._partition.floor(self._partition.start_offset):
                self.reason = self.reason or "the segment that is late enough lies below the log start"
        segment = self._partition.segment(number)
        entry = segment.time_index.lookup(timestamp)
        offset = max(entry.offset, self._partition.start_offset)
        self._check_entry(number, offset)
        if segment.time_index.entries and entry != (NO_TIMESTAMP, segment.base_offset):  # that is none of them
            self._check_time_entry(lookup, number, entry)

    def check_max(self, lookup: Lookup, *, nothing: bool) -> None:
        """Judge what the largest timestamp was taken from.

        Args:
            lookup: has looked for it.
            nothing: no record has it.
        """
        self._check_last_times(len(self._partition))
        if lookup.first_untimed is not None:
            self._without_times(lookup.first_untimed, _PASSED_OVER)
        number, largest = lookup.believed
        index = self._partition.segment(number).time_index
        if not index.entries or largest < 0:
            return
        if nothing:
            self.is_odd, self._too_late = True, (number, lookup.late_timestamp(number))
        entry = index.last_entry()
        self._check_late(lookup, number, largest + 1)
        if entry.timestamp == largest:
            self._check_time_entry(lookup, number, entry)

    def _without_times(self, number: int, effect: str) -> None:
        """The time index of a segment is empty or missing, although the log may not be."""
        self.untimed = self.untimed or self._partition.segment(number).path
        what = "empty" if self._partition.has(self._bases[number], FileKind.TIMEINDEX) else "missing"
        self.reason = self.reason or f"the time index of {self._partition.segment(number).path} is {what}, {effect}"

    def settle(self, data: LogScan, met: Remedies) -> None:
        """Judge the entries that were in doubt, now that the data has been looked at.

        Args:
            data: knows where batches begin, and with which offset.
            met: knows what is wrong in the logs: that is no fault of an index.
        """
        if self._too_late is not None:
            self._settle_time(*self._too_late, data, met)
        if self._astray is not None:
            self._settle_astray(*self._astray, data, met)
        if self._is_beyond:
            last = len(self._partition) - 1
            self._settle_beyond(last, self._partition.segment(last).offset_index.last_entry(), data)
        if self._doubtful is None:
            return
        number, entry = self._doubtful
        segment = self._partition.segment(number)
        name, base = segment.offset_index.name, data.base_at(number, entry.position)
        if base is None:
            if not (self._settle_beyond(number, entry, data) or met.covers(segment.path, entry.position)):
                self._tell(Code.X04, name, entry.offset, found=entry.position)
        elif base > entry.offset:
            self._tell(Code.X05, name, entry.offset, found=entry.position, values={"base": base})

    def _settle_beyond(self, number: int, entry: OffsetPosition, data: LogScan) -> bool:
        """Judge an entry by the end of its log: whether it is not below that."""
        end = data.end_offset(number)
        if entry.offset >= end:
            name = self._partition.segment(number).offset_index.name
            self._tell(Code.X07, name, entry.offset, found=entry.offset, values={"end": end})
        return entry.offset >= end

    def _settle_time(self, number: int, largest: int, data: LogScan, met: Remedies) -> None:
        """Judge the last entry of a time index by the largest timestamp from its batch on, where nothing was lost."""
        segment = self._partition.segment(number)
        index, entry = segment.time_index, segment.time_index.last_entry()
        if entry.offset >= data.end_offset(number):  # there is no such batch
            largest = data.runs(number).max_timestamp
        if entry.timestamp > largest and met.is_sound(segment.path):
            self._tell(Code.T04, index.name, entry.offset, found=entry.timestamp, values={"largest": largest})

    def _settle_astray(self, number: int, entry: TimestampOffset, data: LogScan, met: Remedies) -> None:
        """Judge an entry of a time index by the largest timestamp up to its offset, where nothing was lost."""
        segment = self._partition.segment(number)
        largest = data.newest_until(number, entry.offset)
        if largest not in (entry.timestamp, NO_TIMESTAMP) and met.is_sound(segment.path):
            self._tell(
                Code.T04, segment.time_index.name, entry.offset, found=entry.timestamp, values={"largest": largest}
            )

    def _check_entry(self, number: int, offset: int) -> None:
        segment = self._partition.segment(number)
        index = segment.offset_index
        entry = index.lookup(offset)
        if not index.entries or (entry.offset, entry.position) == (segment.base_offset, 0):
            return
        batch = self._passed.get((number, entry.position))
        if batch is None or not _is_true(batch) or batch[layout.BASE_OFFSET] > entry.offset:
            self.is_odd = True
            self._doubtful = (number, entry)

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
        before = index.entry(index.entries - 2) if index.entries > 1 else TimestampOffset(0, 0)
        is_zero = last.timestamp == 0 and not self._is_zero_right(number)
        if is_zero:
            self._tell(Code.T02, index.name, last.offset, found=0)
        elif last.timestamp < before.timestamp:
            values = {"other": before.timestamp, "other_offset": before.offset}
            self._tell(Code.T03, index.name, last.offset, found=last.timestamp, values={**values, "side": "before"})
        return is_zero or last.timestamp < before.timestamp

    def _is_zero_right(self, number: int) -> bool:
        """Whether the log of a segment is one whose time index ends in a zero."""
        log = self._partition.segment(number).log
        seen = outline(log, Buffer(log, HEADERS_WINDOW), MAX_BATCH_BYTES)
        return seen.is_sound and zeros_are_right(seen.largest)

    def _check_late(self, lookup: Lookup, number: int, timestamp: int) -> None:
        """Look at what comes after the last entry of a time index, in the last segment that was passed over."""
        index = self._partition.segment(number).time_index
        late = lookup.late_timestamp(number) if index.entries else NO_TIMESTAMP
        if late >= timestamp:
            last = index.last_entry()
            self._tell(Code.T05, index.name, last.offset, found=last.timestamp, values={"largest": late})

    def _check_time_entry(self, lookup: Lookup, number: int, entry: TimestampOffset) -> None:
        """Compare an entry with the batch that has its offset: a lookup that did not meet it may be past its answer."""
        met = (row for (segment, _), row in self._passed.items() if segment == number and _has(row, entry.offset))
        batch = next(met, None)
        if batch is None:
            found = lookup.batch_of(number, entry.offset)
            batch = found.window.rows if isinstance(found, FoundBatch) else None
        if batch is None or not (_is_true(batch) and _has(batch, entry.offset)):
            self.is_odd, self._astray = True, (number, entry)
        elif batch[layout.MAX_TIMESTAMP] not in (entry.timestamp, NO_TIMESTAMP):
            name, largest = self._partition.segment(number).time_index.name, batch[layout.MAX_TIMESTAMP]
            self._tell(Code.T04, name, entry.offset, found=entry.timestamp, values={"largest": largest})

    def _tell(
        self, code: Code, file: str, offset: int, *, found: int, values: Mapping[str, int | str] | None = None
    ) -> None:
        self.is_odd = True
        self._report(Finding(code, file, offset=offset, found=found, values=values or {}))


def _has(row: array[int], offset: int) -> bool:
    """Whether an offset lies in a batch, as its header says."""
    return row[layout.BASE_OFFSET] <= offset <= row[layout.LAST_OFFSET]


def _is_true(row: array[int]) -> bool:
    """Whether the CRC of a batch is right, under a magic that there is."""
    return row[layout.CRC] == row[layout.COMPUTED_CRC] and row[layout.MAGIC] <= layout.MAGIC_V2
