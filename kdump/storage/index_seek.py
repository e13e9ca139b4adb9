"""The position at which to begin reading a log: named by its indexes and confirmed by its data.

Strategy: an index is a hint. The batch at the place that an entry names must have the right CRC, and must not begin
above the offset of the entry; a time must be the largest of the batches since the entry before. Where that does not
hold the log is read from its start, and what is wrong with the index is a finding.
"""

from __future__ import annotations

import os
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.resync import Resync
from kdump.format.batch.walk import Border, CheckedWalk
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from kdump.finding import Report
    from kdump.format.batch.window import Window
    from kdump.format.index.offset_and_time import OffsetPosition, TimestampOffset
    from kdump.format.record.selection import Selection
    from kdump.format.source import Source
    from kdump.storage.segment import Segment

_BEYOND = 3  # entries: the first above an offset may be of the batch that has it


class Starts:
    """Finds where to begin in one log.

    Args:
        segment: the files of its base offset.
        source: the log.
        base: base offset of the log; None for a KRaft snapshot, which has no index.
        max_batch_bytes: limit of the walk that confirms a time.
        report: takes the findings about the indexes.

    Attributes:
        doubts: entries that point to no sound batch, by position: a walk over the place tells whether one begins there.

    Reports: X04, X05, T04.
    """

    def __init__(
        self, segment: Segment, source: Source, base: int | None, *, max_batch_bytes: int, report: Report
    ) -> None:
        self._segment = segment
        self._path = segment.path
        self._source = source
        self._base = base
        self._limit = max_batch_bytes
        self._report = report
        self._resync = Resync(source, tuple, search=False)
        self.doubts: dict[int, OffsetPosition] = {}

    def first(self, selection: Selection) -> int:
        """Return the position of a batch before which nothing is that is selected by offset, time or position."""
        start = 0
        if selection.from_offset is not None:
            start = self.offset(selection.from_offset)
        if selection.from_time is not None:
            start = max(start, self._time(selection.from_time))
        if selection.from_position:
            start = max(start, self.at_or_before(selection.from_position))
        return start

    def offset(self, offset: int) -> int:
        """Return the position of a batch that begins at or below an offset, 0 for the start of the log."""
        index = self._index
        if index is None or offset <= index.base_offset:
            return 0
        entry = index.lookup(offset)
        if entry.position == 0 or entry.offset > offset:
            return 0
        return self._confirmed(entry, index.name, by_offset=True)

    def beyond(self, offset: int) -> int:
        """Return the position of a batch that begins at or above an offset, the size of the log where none is known."""
        index = self._index
        if index is None:
            return self._source.size
        first = index.above(offset - 1)
        for number in range(first, min(first + _BEYOND, index.entries)):
            entry = index.entry(number)
            if not 0 < entry.position < self._source.size:
                break
            base = wire.i64(self._source.read_at(entry.position, 8).ljust(8, b"\0"), 0)
            if offset <= base <= entry.offset and self._resync.is_batch(entry.position):
                return entry.position
        return self._source.size

    def some_before(self, position: int, count: int) -> list[int]:
        """Return positions before another that the offset index names, evenly spread.

        Args:
            position: of a batch that it names, bytes.
            count: how many at least, if there are as many.
        """
        index = self._index
        if index is None:
            return []
        before = index.from_position(position)
        return [index.entry(number).position for number in range(0, before, max(1, before // count))]

    def at_or_before(self, position: int) -> int:
        """Return the position of a batch at or before a position, 0 for the start of the log."""
        index = self._index
        entry = None if index is None else index.before(position)
        if index is None or entry is None:
            return 0
        return self._confirmed(entry, index.name, by_offset=False)

    def pass_window(self, window: Window) -> None:
        """Settle the doubts about places in a window: a batch begins there, or the index is wrong."""
        if not self.doubts or not window.count:
            return
        start, end = window.cell(0, layout.POSITION), window.end(window.count)
        begins = set(window.column(layout.POSITION))
        for position in [one for one in sorted(self.doubts) if start <= one < end]:
            entry = self.doubts.pop(position)
            if position not in begins:
                self._points_nowhere(entry)

    def pass_damage(self, finding: Finding) -> None:
        """Forget the doubts about places that are damaged: no fault of the index."""
        if self.doubts and finding.position is not None and finding.file == self._path:
            end = finding.position + (finding.length or 0)
            for position in [one for one in self.doubts if finding.position <= one < end]:
                del self.doubts[position]

    def settle(self) -> None:
        """Report the entries that point to no batch: all of the log from its start on was walked over."""
        for _, entry in sorted(self.doubts.items()):
            self._points_nowhere(entry)
        self.doubts.clear()

    def _points_nowhere(self, entry: OffsetPosition) -> None:
        name = self._segment.path_of(FileKind.INDEX)
        self._report(Finding(Code.X04, name, offset=entry.offset, found=entry.position))

    @cached_property
    def _index(self) -> OffsetIndex | None:
        opened = None if self._base is None else self._segment.file(FileKind.INDEX)
        if self._base is None or opened is None or isinstance(opened, OpenFailure):
            return None
        index = OffsetIndex(opened, self._base)
        index.trim()
        return index

    def _confirmed(self, entry: OffsetPosition, name: str, *, by_offset: bool) -> int:
        """The position of an entry that the data confirms, else 0."""
        position = entry.position
        if not 0 <= position < self._source.size:
            if os.stat(self._path).st_size == self._source.size:  # else a broker has appended what it points to
                self._points_nowhere(entry)
            return 0
        if not self._resync.is_batch(position):
            self.doubts[position] = entry
            return 0
        header = self._source.read_at(position, layout.RECORDS_AT)
        if header[layout.MAGIC_AT] < layout.MAGIC_V2 and header[layout.LEGACY_ATTRIBUTES_AT] & layout.CODEC_MASK:
            return 0 if by_offset else position  # a wrapper: where its records begin is not in its header
        base = wire.i64(header, layout.OFFSET_AT)
        if base > entry.offset:
            found = Finding(Code.X05, name, offset=entry.offset, found=position, values={"base": base})
            self._report(found)
            return 0
        return position

    def _time(self, timestamp: int) -> int:
        """The position of a batch before which all are earlier than a time, as their headers say."""
        opened = None if self._base is None else self._segment.file(FileKind.TIMEINDEX)
        if self._base is None or opened is None or isinstance(opened, OpenFailure):
            return 0
        times = TimeIndex(opened, self._base)
        times.trim()
        entry = times.lookup(timestamp - 1)
        if not times.entries or not 0 <= entry.timestamp < timestamp:
            return 0
        before = times.lookup(entry.timestamp - 1)
        largest = self._largest(before, entry)
        if largest is None:
            return 0
        if largest != entry.timestamp:
            values = {"largest": largest}
            self._report(Finding(Code.T04, times.name, offset=entry.offset, found=entry.timestamp, values=values))
            return 0
        return self.offset(entry.offset)

    def _largest(self, before: TimestampOffset, entry: TimestampOffset) -> int | None:
        """The largest timestamp of the batches after one entry up to another; None where it cannot be told."""
        after = before.offset if before.timestamp >= 0 else layout.UNKNOWN
        if after >= entry.offset:
            return layout.NO_OFFSET  # they do not ascend
        found: list[Finding] = []
        border = Border(position=self.offset(after) if after > 0 else 0)
        walk = CheckedWalk(
            self._source, found.append, next_base=None, max_batch_bytes=self._limit, border=border, resync=False
        )
        largest = layout.NO_OFFSET
        index = self._index
        near = 1 if index is None else index.lookup(entry.offset).position + 1  # no more is read than must be
        for window in chain(walk.windows(near), walk.windows()):
            if not window.all_trusted or not all(window.column(layout.MAGIC)):
                return None  # magic 0 has no times, and brokers made entries for it all the same
            lasts, times = window.column(layout.LAST_OFFSET), window.column(layout.MAX_TIMESTAMP)
            for last, time in zip(lasts, times, strict=True):
                if last > after and time > largest:
                    largest = time
                if last >= entry.offset:
                    return largest
        return None if any(finding.gap for finding in found) else largest
