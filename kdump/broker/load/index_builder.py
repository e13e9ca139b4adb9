"""The offset index and the time index of a segment, rebuilt from its batches as LogSegment.recover does."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import compress
from typing import TYPE_CHECKING

from kdump.broker.failure import INVALID_OFFSET, BrokerError
from kdump.format.batch import _scan, layout
from kdump.format.index.offset_and_time import OffsetPosition, TimestampOffset
from kdump.format.java_values import ARGUMENT
from kdump.format.kernels import wire
from kdump.value import TupleValue

if TYPE_CHECKING:
    from kdump.format.batch.window import Window

_OFFSET_ENTRY, _TIME_ENTRY = 8, 12  # bytes
_NO_TIMESTAMP = -1


class Mark(TupleValue):
    """A state of an `IndexBuilder` to return to: numbers of entries, and what the next ones depend on."""

    entries: int
    times: int
    largest: TimestampOffset
    due: int


class IndexBuilder:
    """Both indexes of a segment.

    Args:
        base_offset: of the segment.
        interval: index.interval.bytes.
        max_bytes: segment.index.bytes: what a broker has room for.
        path: of the files without suffix, for messages.

    Attributes:
        offsets, positions: columns of the offset index: absolute, file position.
        timestamps, time_offsets: columns of the time index: ms, absolute.
        largest: the largest timestamp so far, with the last offset of its batch.

    Source: LogSegment.recover, OffsetIndex.append, TimeIndex.maybeAppend.
    """

    def __init__(self, base_offset: int, interval: int, max_bytes: int, path: str) -> None:
        self.offsets, self.positions = array("q"), array("q")
        self.timestamps, self.time_offsets = array("q"), array("q")
        self.largest = TimestampOffset(_NO_TIMESTAMP, base_offset)
        self._interval = interval
        self._due = interval  # a batch that starts after this position gets an entry
        self._room = max_bytes // _OFFSET_ENTRY
        self._time_room = max_bytes // _TIME_ENTRY - 1  # the last is kept for the end
        self._path = path
        self._out = array("q")

    def step(self, window: Window, stop: int) -> None:
        """Take the first `stop` batches of a window, all of them sound.

        Raises:
            BrokerError: an entry that a broker cannot append.
        """
        if not self._all_ascend(window, stop):
            self._one_by_one(window, stop)

    def _all_ascend(self, window: Window, stop: int) -> bool:
        """Take the batches where each entry that they give can be appended; else take none."""
        if _scan.suspicions(window.rows, stop) & layout.ODD_MAGIC:
            return False
        time = self.timestamps[-1] if self.timestamps else _NO_TIMESTAMP
        time_offset = self.time_offsets[-1] if self.time_offsets else layout.UNKNOWN
        last = self.offsets[-1] if self.offsets else layout.UNKNOWN
        state = array("q", (self._due, last, *self.largest, time, time_offset))
        out = self._out
        if len(out) < stop * layout.INDEX_ENTRY:
            out = self._out = array("q", bytes(8 * stop * layout.INDEX_ENTRY))
        found = _scan.index_entries(window.rows, stop, self._interval, state, out)
        if found < 0 or len(self.offsets) + found > self._room or len(self.timestamps) + found > self._time_room:
            return False
        end, width = found * layout.INDEX_ENTRY, layout.INDEX_ENTRY
        self.offsets += out[0:end:width]
        self.positions += out[1:end:width]
        has_time = out[2:end:width]
        self.timestamps.extend(compress(out[3:end:width], has_time))
        self.time_offsets.extend(compress(out[4:end:width], has_time))
        self._due, self.largest = state[0], TimestampOffset(state[2], state[3])
        return True

    def _one_by_one(self, window: Window, stop: int) -> None:
        positions, lasts = window.column(layout.POSITION), window.column(layout.LAST_OFFSET)
        times = _max_timestamps(window)
        start, at = 0, bisect_right(positions, self._due, 0, stop)
        while at < stop:
            self._see(times, lasts, start, at + 1)
            self._append(at, OffsetPosition(lasts[at], positions[at]))
            self._due = positions[at] + self._interval
            start, at = at + 1, bisect_right(positions, self._due, at + 1, stop)
        self._see(times, lasts, start, stop)

    def finish(self) -> None:
        """Add the largest timestamp at the end of the log.

        Raises:
            BrokerError: a broker cannot append it.
        """
        self._append_time(0)

    def mark(self) -> Mark:
        """Return what `restore` needs to come back to here."""
        return Mark(len(self.offsets), len(self.timestamps), self.largest, self._due)

    def restore(self, mark: Mark) -> None:
        """Take back what came after a mark."""
        del self.offsets[mark.entries :], self.positions[mark.entries :]
        del self.timestamps[mark.times :], self.time_offsets[mark.times :]
        self.largest, self._due = mark.largest, mark.due

    def _see(self, times: array[int], lasts: array[int], start: int, stop: int) -> None:
        """Source: LogSegment.maxTimestampAndOffsetSoFar."""
        if start < stop:
            latest = max(times[start:stop]) if stop > start + 1 else times[start]
            if latest > self.largest.timestamp:
                self.largest = TimestampOffset(latest, lasts[times.index(latest, start)])

    def _append(self, k: int, entry: OffsetPosition) -> None:
        number = len(self.offsets)
        if number >= self._room:
            why = f"{ARGUMENT}: Attempt to append to a full index (size = {number})."
            raise BrokerError(k, "offset index", why)
        if number and entry.offset <= self.offsets[-1]:
            why = f"{INVALID_OFFSET}: Attempt to append an offset {entry.offset} to position {number} no larger than"
            after = f"the last offset appended ({self.offsets[-1]}) to {self._path}.index"
            raise BrokerError(k, "offset index", f"{why} {after}")
        self.offsets.append(entry.offset)
        self.positions.append(entry.position)
        if len(self.timestamps) >= self._time_room:
            why = f"{ARGUMENT}: Attempt to append to a full time index (size = {len(self.timestamps)})."
            raise BrokerError(k, "time index", why)
        self._append_time(k)

    def _append_time(self, k: int) -> None:
        """Append the largest timestamp, unless it is the last entry already."""
        timestamp, offset = self.largest
        number = len(self.timestamps)
        if number and offset < self.time_offsets[-1]:
            why = f"{INVALID_OFFSET}: Attempt to append an offset ({offset}) to slot {number} no larger than"
            after = f"the last offset appended ({self.time_offsets[-1]}) to {self._path}.timeindex"
            raise BrokerError(k, "time index", f"{why} {after}")
        if timestamp > (self.timestamps[-1] if number else _NO_TIMESTAMP):
            self.timestamps.append(timestamp)
            self.time_offsets.append(offset)


def _max_timestamps(window: Window) -> array[int]:
    """The largest timestamp of each batch; a broker takes a negative magic for 1."""
    times = window.column(layout.MAX_TIMESTAMP)
    if _scan.suspicions(window.rows, window.count) & layout.ODD_MAGIC:
        for k, magic in enumerate(window.column(layout.MAGIC)):
            if magic < 0:
                at = window.cell(k, layout.POSITION) - window.origin + layout.LEGACY_TIMESTAMP_AT
                times[k] = wire.i64(window.view, at)
    return times
