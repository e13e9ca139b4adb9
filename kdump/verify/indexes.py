"""The indexes of a segment judged by meaning, while the walk goes through its log.

An entry of an offset index is right when a batch begins where it points and no lookup that it answers leaves a batch
out. Brokers before 2.0 wrote the first offset of that batch, and an append of several batches wrote the last of all:
that an entry is not the last offset of its batch is no damage. An entry of a time index is right when its timestamp is
the largest one up to the batch with its offset.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate
from operator import le, lt
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format import layout
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kinds import FileKind
from kdump.verify.indexfold import Entries, IndexFold

if TYPE_CHECKING:
    from kdump.finding import Report
    from kdump.format.source import Source
    from kdump.format.window import Window

INTERVAL = 4096  # index.interval.bytes, unless a topic has another
_OFFSET_SLOT, _TIME_SLOT = 8, 12
_NO_TIMESTAMP = -1
_NO_LIMIT = 2**63 - 1


class OffsetIndexFold(IndexFold):
    """Judges an offset index.

    Attributes:
        hints: makes the positions of its entries, as far as they ascend.

    Reports: X01-X08.
    """

    _slot, _key, _odd_size, _zero_tail = _OFFSET_SLOT, 1, Code.X01, Code.X02

    def __init__(self, index: OffsetIndex, source: Source, report: Report, *, may_be_untrimmed: bool) -> None:
        super().__init__(index, source, report, may_be_untrimmed=may_be_untrimmed)
        self.hints = index.ascending_positions
        self._offset = index.base_offset - 1
        self._position = -1
        self._last = index.base_offset - 1  # last offset of the batch before the window
        self._above: tuple[int, int, int, int] | None = None  # the last entry above its batch, and that batch's end

    def step(self, window: Window, last: int, *, sure: bool) -> None:
        """Take the next batches."""
        for entries in self._take(window.end(window.count)):
            positions, lasts = window.column(layout.POSITION), window.column(layout.LAST_OFFSET)
            if not (sure and self._are_exact(entries, positions, lasts)):
                for entry in entries.rows():
                    self._judge(entry, window, positions, lasts if sure else None)
        self._last = last
        self._lost = not window.all_trusted

    def _are_exact(self, entries: Entries, positions: array[int], lasts: array[int]) -> bool:
        """Whether entries follow those before them, and each is the last offset of the batch where it points."""
        _, offsets, at = entries
        if (
            not self._ascends
            or offsets[0] <= self._offset
            or at[0] <= self._position
            or at[0] < positions[0]
            or at[-1] > positions[-1]
        ):
            return False
        k = bisect_left(positions, at[0])
        rows = slice(k, k + len(at))
        exact = positions[rows] == at and lasts[rows] == offsets  # where batches are larger than the interval
        if not exact:
            found = [bisect_left(positions, position) for position in at]
            exact = [positions[k] for k in found] == at.tolist() and [lasts[k] for k in found] == offsets.tolist()
        if exact:
            self._offset, self._position = offsets[-1], at[-1]
        return exact

    def _judge(
        self, entry: tuple[int, int, int], window: Window, positions: array[int], lasts: array[int] | None
    ) -> None:
        number, offset, position = entry
        if not self._in_order(number, offset, position):
            return
        k = bisect_left(positions, position)
        if k == len(positions) or positions[k] != position:
            if not self._lost or position >= positions[0]:
                self._blame(Code.X04, number, offset, position, {})
            return
        if lasts is None:
            return
        before = lasts[k - 1] if k else self._last
        if before >= offset:
            self._blame(Code.X05, number, offset, position, {"base": before + 1})
        elif offset > lasts[k]:
            self._say_above(_NO_LIMIT)
            self._above = number, offset, position, lasts[k]
        elif offset not in (lasts[k], window.cell(k, layout.BASE_OFFSET)):
            self._blame(Code.X06, number, offset, position, {"last": lasts[k]})

    def _say_above(self, end: int) -> None:
        """Judge the entry that was kept: above its batch is right for an append of several, above all is not."""
        if self._above is not None:
            number, offset, position, last = self._above
            if offset >= end:
                self._blame(Code.X07, number, offset, offset, {"end": end})
            else:
                self._blame(Code.X06, number, offset, position, {"last": last})

    def _in_order(self, number: int, offset: int, position: int) -> bool:
        """Whether an entry is above the one before it; both of its values, as a search relies on it."""
        if offset > self._offset and position > self._position:
            self._offset, self._position = offset, position
            return True
        values = {"before": self._offset, "position": self._position}
        self._blame(Code.X03, number, offset, position, values)
        return False

    def _rest(self, end: int, size: int, last_batch_at: int) -> None:
        self._say_above(end)
        for number, offset, position in self._left():
            if not self._in_order(number, offset, position):
                pass
            elif offset >= end:
                self._blame(Code.X07, number, offset, offset, {"end": end})
            elif position >= size or not self._lost:
                self._blame(Code.X04, number, offset, position, {})
        # Entries are not evenly apart: an append of several batches gets one.
        end = max(self._position, 0)
        most = 4 * (end // self.used) if self.used else INTERVAL
        if self.used == self._index.entries and last_batch_at - end > most:
            self._say(Code.X08, self._size, 0, found=end, values={"last": last_batch_at})


class TimeIndexFold(IndexFold):
    """Judges a time index.

    Reports: T01-T05.
    """

    _slot, _key, _odd_size, _zero_tail = _TIME_SLOT, 1, Code.T01, Code.T02

    def __init__(self, index: TimeIndex, source: Source, report: Report, *, may_be_untrimmed: bool) -> None:
        super().__init__(index, source, report, may_be_untrimmed=may_be_untrimmed)
        self._time = self._largest = _NO_TIMESTAMP
        self._offset = index.base_offset - 1
        self._only_magic_0 = True
        self._doubt = False  # what was lost may have had the timestamp of an entry

    def gap(self) -> None:
        """Bytes of the log are no batch."""
        self._doubt = True

    def step(self, window: Window, last: int, *, sure: bool) -> None:
        """Take the next batches."""
        times = window.column(layout.MAX_TIMESTAMP)
        if not window.all_trusted:
            self._doubt = True
            for k, stored in enumerate(window.column(layout.CRC)):
                if stored != window.cell(k, layout.COMPUTED_CRC):
                    times[k] = _NO_TIMESTAMP
        for entries in self._take(last + 1):
            lasts, largest = window.column(layout.LAST_OFFSET), times
            if times[0] < self._largest or not all(map(le, times, times[1:])):
                largest = array("q", accumulate(times, max, initial=self._largest))[1:]
            if not (sure and self._are_exact(entries, lasts, largest)):
                for entry in entries.rows():
                    if self._in_order(*entry) and sure:
                        self._judge(entry, window, min(bisect_left(lasts, entry[2]), window.count - 1), largest)
        self._largest = max(self._largest, *times)
        self._only_magic_0 = self._only_magic_0 and not max(window.column(layout.MAGIC))

    def _are_exact(self, entries: Entries, lasts: array[int], largest: array[int]) -> bool:
        """Whether entries follow those before them, and each has the largest timestamp up to the end of its batch."""
        _, times, offsets = entries
        if not self._ascends or times[0] <= self._time or offsets[0] < self._offset:
            return False
        if not all(map(lt, times, times[1:])):
            return False
        k = bisect_left(lasts, offsets[0])
        rows = slice(k, k + len(times))
        exact = lasts[rows] == offsets and largest[rows] == times  # where batches are larger than the interval
        exact = exact and self._before(largest, k) < times[0]
        if not exact:
            found = [bisect_left(lasts, offset) for offset in offsets]
            exact = [lasts[k] for k in found] == offsets.tolist() and [largest[k] for k in found] == times.tolist()
            exact = exact and all(map(lt, (self._before(largest, k) for k in found), times))
        if exact:
            self._time, self._offset = times[-1], offsets[-1]
        return exact

    def _judge(self, entry: tuple[int, int, int], window: Window, k: int, largest: array[int]) -> None:
        number, time, offset = entry
        if not window.cell(k, layout.MAGIC):
            return
        own, before = window.cell(k, layout.MAX_TIMESTAMP), self._before(largest, k)
        is_there = window.cell(k, layout.BASE_OFFSET) <= offset
        if time == largest[k] > before and is_there:
            return
        if self._doubt and (time > largest[k] or not is_there):
            return
        if time == before and is_there:  # whoever asks for that time begins to search behind it
            self._blame(Code.T04, number, offset, time, {"largest": f"{own}, and one before it {before}"})
        else:
            self._blame(Code.T04, number, offset, time, {"largest": largest[k]}, largest[k])

    def _before(self, largest: array[int], k: int) -> int:
        """The largest timestamp before the batch in row k of the window."""
        return largest[k - 1] if k else self._largest

    def _in_order(self, number: int, time: int, offset: int) -> bool:
        if time > self._time and offset >= self._offset:
            self._time, self._offset = time, offset
            return True
        self._blame(Code.T03, number, offset, time, {"before": self._time, "offset_before": self._offset})
        return False

    def _rest(self, end: int, size: int, last_batch_at: int) -> None:
        for number, time, offset in self._left():
            if self._in_order(number, time, offset) and not self._doubt:
                self._blame(Code.T04, number, offset, time, {"largest": self._largest}, self._largest)
        if self._time < self._largest and self.used == self._index.entries and not self._only_magic_0:
            severity = Severity.NOTE if self._may_be_untrimmed else None
            at = max(self.used - 1, 0) * self._slot
            self._report(
                Finding(
                    Code.T05,
                    self._index.name,
                    at,
                    self._slot if self.used else 0,
                    offset=self._offset if self.used else None,
                    found=self._time,
                    expected=self._largest,
                    severity_override=severity,
                    values={"largest": self._largest},
                )
            )


def index_fold(
    kind: FileKind, source: Source, base_offset: int, report: Report, *, may_be_untrimmed: bool
) -> IndexFold:
    """Return the fold that judges an index.

    Args:
        kind: offset index or time index.
        source: its file.
        base_offset: of the segment.
        report: takes each finding.
        may_be_untrimmed: see `IndexFold`.

    Raises:
        OSError: it cannot be read.
    """
    if kind is FileKind.INDEX:
        return OffsetIndexFold(OffsetIndex(source, base_offset), source, report, may_be_untrimmed=may_be_untrimmed)
    return TimeIndexFold(TimeIndex(source, base_offset), source, report, may_be_untrimmed=may_be_untrimmed)
