"""A log as a broker has it, from the files of its partition.

Strategy: of a segment the log is read once, by its headers, and 12 bytes of its time index. A pass of the cleaner reads
logs whole; what it has seen of their times is not read again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.header_summary import Outline, outline
from kdump.broker.retention import ActiveSegment, LogFacts, SegmentFacts
from kdump.finding import Code, Finding
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.kinds import FileKind
from kdump.storage.file_source import DoorProblem
from kdump.storage.segment import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.format.batch.window import Buffer
    from kdump.retention.log_files import LogFiles

_NO_TIME = -1


class LogReader:
    """Reads a log.

    Args:
        files: of the partition, at least one segment.
        buffer: to read logs into.

    Attributes:
        files: the same.

    Reports: K02; what is wrong with a log that a quick look finds damaged.

    Raises:
        UnreadableError: from each method: what cannot be left out cannot be read.
    """

    def __init__(self, files: LogFiles, buffer: Buffer) -> None:
        self.files = files
        self._buffer = buffer
        self._outlines: dict[int, Outline | None] = {}
        self._status: dict[int, tuple[int, int]] = {}  # size in bytes, time in ms
        self._is_told = False

    def facts(
        self, start: int | None, watermark: int | None, largest: Mapping[int, int], *, timeless: bool = False
    ) -> LogFacts:
        """Return the log as a broker has it.

        Args:
            start: the log start offset, at most the end; None for what the checkpoint says.
            watermark: the high watermark; None for the end.
            largest: by number of a segment the largest timestamp of its data, where that is known.
            timeless: leave times out that only the data tells, and do not read it for them.
        """
        end = self._end_offset()
        offset = self.files.directory.log_start if start is None else min(start, end)  # no DeleteRecords goes further
        first = max(offset, self.files.bases[0])
        if first > end and not self._is_told:
            self._is_told = True
            values: dict[str, int | str | None] = {"partition": self.files.name, "end": end}
            self.files.report(
                Finding(Code.K02, self.files.path, field="logStartOffset", found=first, expected=end, values=values)
            )
        end = max(first, end)
        segments = [
            self._segment(number, largest.get(number), timeless=timeless) for number in range(len(self.files.bases))
        ]
        return LogFacts(segments, first, end, end if watermark is None else min(max(watermark, first), end))

    def _end_offset(self) -> int:
        last = len(self.files.bases) - 1
        seen = self.outline(last)
        if seen is None:
            path = self.files.file(last, FileKind.LOG)
            raise UnreadableError(DoorProblem(path, "other", f"{path}: without it the end of the log is not known"))
        return self.files.bases[last] if seen.end_offset is None else seen.end_offset

    def _segment(self, number: int, known: int | None, *, timeless: bool) -> SegmentFacts:
        is_recovered = self._is_recovered(number)
        in_data = known
        if in_data is None and not timeless:
            seen = self.outline(number)
            in_data = None if seen is None else seen.largest
        size, modified = self._size_and_time(number)
        if is_recovered:
            largest = max(
                self._last_time(number) if self._is_open(number) else _NO_TIME,
                _NO_TIME if in_data is None else in_data,
            )
        else:
            largest = self._last_time(number)
        if largest >= 0:
            return SegmentFacts(self.files.bases[number], size, largest, "index", in_data)
        return SegmentFacts(self.files.bases[number], size, modified, "mtime", in_data)

    def _size_and_time(self, number: int) -> tuple[int, int]:
        """Return size (bytes) and time (ms) of a log, as they were when it was looked at first."""
        found = self._status.get(number)
        if found is None:
            path = self.files.file(number, FileKind.LOG)
            try:
                found = self.files.directory.listing.status(os.path.basename(path))
            except OSError as error:
                raise UnreadableError(DoorProblem(path, "other", f"{path}: {error.strerror}")) from None
            self._status[number] = found
        return found

    def modified(self, number: int) -> int:
        """Return the time of a log, ms."""
        return self._size_and_time(number)[1]

    def _is_open(self, number: int) -> bool:
        """Whether a broker has not closed the segment: what its time index lacks it has in memory."""
        return number == len(self.files.bases) - 1 and not self.files.directory.was_closed

    def _is_recovered(self, number: int) -> bool:
        """Whether the time index is not what counts: a broker makes it anew when it starts, or knows better."""
        if not self.files.has(number, FileKind.INDEX) or self._is_open(number):
            return True
        log_dir, key = self.files.log_dir, self.files.key
        if self.files.directory.was_closed or not log_dir.file(FileKind.RECOVERY_POINT).is_read:
            return False
        point = 0 if key is None else log_dir.offset(FileKind.RECOVERY_POINT, key) or 0
        following = self.files.bases[number + 1] if number + 1 < len(self.files.bases) else point + 1
        return following > point

    def _last_time(self, number: int) -> int:
        """The timestamp of the last entry of the time index, -1 without one."""
        if not self.files.has(number, FileKind.TIMEINDEX):
            return _NO_TIME
        source = self.files.opened(number, FileKind.TIMEINDEX)
        index = TimeIndex(source, self.files.bases[number])
        if self._is_open(number):
            index.trim()
            return index.last_entry().timestamp
        at = (index.entries - 1) * index.entry_size
        return int.from_bytes(source.read_at(at, 8), "big", signed=True) if index.entries else _NO_TIME

    def outline(self, number: int) -> Outline | None:
        """Return what the headers of a log say; None, and a problem is reported, where it cannot be read."""
        if number not in self._outlines:
            source = self.files.directory.cache.open(self.files.file(number, FileKind.LOG), follow=False)
            if isinstance(source, DoorProblem):
                self.files.report(source)
                self._outlines[number] = None
                return None
            try:
                self._status.setdefault(number, (source.size, source.modified))
                found = outline(source, self._buffer, self.files.max_batch_bytes)
                self._outlines[number] = found
                if not found.is_sound:
                    self.files.explain(source, number)
            except OSError as error:
                self.files.report(DoorProblem(source.name, "read", f"{source.name}: cannot be read: {error.strerror}"))
                self._outlines[number] = None
        return self._outlines[number]

    def active(self) -> ActiveSegment:
        """Return what counts of the last segment when something is appended."""
        last = len(self.files.bases) - 1
        offsets, times = self._entries(last, FileKind.INDEX), self._entries(last, FileKind.TIMEINDEX)
        size = self._size_and_time(last)[0]
        return ActiveSegment(self.files.bases[last], size, offsets, times, self.files.first_timestamp(last))

    def _entries(self, number: int, kind: FileKind) -> int:
        if not self.files.has(number, kind):
            return 0
        source, base = self.files.opened(number, kind), self.files.bases[number]
        index = OffsetIndex(source, base) if kind is FileKind.INDEX else TimeIndex(source, base)
        if self._is_open(number):
            index.trim()
        return index.entries
