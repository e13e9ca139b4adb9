"""The indexes of a segment judged by meaning, while the walk goes through its log.

An entry of an offset index is right when a batch begins where it points and no lookup that it answers leaves a batch
out. Brokers before 2.0 wrote the first offset of that batch, and an append of several batches wrote the last of all:
that an entry is not the last offset of its batch is no damage. An entry of a time index is right when its timestamp is
the largest one up to the batch with its offset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kdump.finding import Code, Finding, Severity
from kdump.format import layout

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kdump.finding import Report
    from kdump.format.index import OffsetIndex, TimeIndex
    from kdump.format.window import Window

INTERVAL = 4096  # index.interval.bytes, unless a topic has another
_OFFSET_SLOT, _TIME_SLOT = 8, 12
_NO_TIMESTAMP = -1


class _IndexFold(ABC):
    """Takes the entries in their order, as far as the walk has got, and what is odd about the file itself.

    Args:
        index: the index.
        size: of its file, bytes.
        report: takes each finding.
        may_be_untrimmed: zeros at the end are what a broker at work, or one that crashed, leaves there.
    """

    _slot: int
    _odd_size: Code
    _zero_tail: Code

    def __init__(self, index: OffsetIndex | TimeIndex, size: int, report: Report, *, may_be_untrimmed: bool) -> None:
        self._index = index
        self._size = size
        self._report = report
        self._may_be_untrimmed = may_be_untrimmed
        self._entries = self._numbered()
        self._entry = next(self._entries, None)
        self._lost = False  # a gap lies before the next batch, or a batch whose CRC is wrong
        self.used = 0  # entries before the zeros at the end

    def _numbered(self) -> Iterator[tuple[int, int, int]]:
        """Number and the two values of each entry up to the zeros at the end, which are no entries."""
        zeros = 0
        number = 0
        base = self._index.base_offset
        nothing = (base, 0) if self._slot == _OFFSET_SLOT else (0, base)
        for first, second in self._index.columns():
            for entry in zip(first, second, strict=True):
                if entry == nothing:
                    zeros += 1
                else:
                    for k in range(zeros):  # zeros with something after them are entries, wrong ones
                        yield number - zeros + k, *nothing
                    zeros = 0
                    yield number, *entry
                    self.used = number + 1
                number += 1

    def gap(self) -> None:
        """Bytes of the log are no batch."""
        self._lost = True

    @abstractmethod
    def step(self, window: Window) -> None:
        """Take the next batches."""

    def finish(self, end: int, size: int, last_batch_at: int) -> None:
        """The log is at its end.

        Args:
            end: the offset after its last batch.
            size: of the log, bytes.
            last_batch_at: where its last batch begins, bytes.
        """
        if self._size % self._slot:
            rest = self._size % self._slot
            self._say(self._odd_size, self._size - rest, rest, found=self._size)
        self._rest(end, size, last_batch_at)
        zeros = self._index.entries - self.used
        if zeros:
            severity = Severity.NOTE if self._may_be_untrimmed else None
            at, length = self.used * self._slot, zeros * self._slot
            self._report(
                Finding(self._zero_tail, self._index.name, at, length, count=zeros, found=0, severity_override=severity)
            )

    @abstractmethod
    def _rest(self, end: int, size: int, last_batch_at: int) -> None:
        """Judge the entries that no batch was left for."""

    def _say(self, code: Code, at: int, length: int, **more: Any) -> None:  # noqa: ANN401 (fields of a Finding)
        self._report(Finding(code, self._index.name, at, length, **more))

    def _blame(
        self, code: Code, number: int, offset: int, found: int, values: dict[str, int], expected: int | None = None
    ) -> None:
        at = number * self._slot
        self._say(code, at, self._slot, offset=offset, found=found, values=values, expected=expected)


class OffsetIndexFold(_IndexFold):
    """Judges an offset index.

    Reports: X01-X08.
    """

    _slot, _odd_size, _zero_tail = _OFFSET_SLOT, Code.X01, Code.X02

    def __init__(self, index: OffsetIndex, size: int, report: Report, *, may_be_untrimmed: bool) -> None:
        super().__init__(index, size, report, may_be_untrimmed=may_be_untrimmed)
        self._offset = index.base_offset - 1
        self._position = -1
        self._widest = 0  # bytes of the log between two entries
        self._last = index.base_offset - 1  # last offset of the batch before the window

    def step(self, window: Window) -> None:
        """Take the next batches."""
        end = window.end(window.count)
        if self._entry is not None and self._entry[2] < end:
            positions, lasts = window.column(layout.POSITION), window.column(layout.LAST_OFFSET)
            while self._entry is not None and self._entry[2] < end:
                self._judge(self._entry, window, positions, lasts)
                self._entry = next(self._entries, None)
        self._last = window.cell(window.count - 1, layout.LAST_OFFSET)
        self._lost = not window.all_trusted

    def _judge(self, entry: tuple[int, int, int], window: Window, positions: array[int], lasts: array[int]) -> None:
        number, offset, position = entry
        if not self._in_order(number, offset, position):
            return
        k = bisect_left(positions, position)
        if k == len(positions) or positions[k] != position:
            if not self._lost or position >= positions[0]:
                self._blame(Code.X04, number, offset, position, {})
            return
        before = lasts[k - 1] if k else self._last
        if before >= offset:
            self._blame(Code.X05, number, offset, position, {"base": before + 1})
        elif offset not in (lasts[k], window.cell(k, layout.BASE_OFFSET)):
            self._blame(Code.X06, number, offset, position, {"last": lasts[k]})

    def _in_order(self, number: int, offset: int, position: int) -> bool:
        """Whether an entry is above the one before it; both of its values, as a search relies on it."""
        if offset > self._offset and position > self._position:
            self._widest = max(self._widest, position - max(self._position, 0))
            self._offset, self._position = offset, position
            return True
        values = {"before": self._offset, "position": self._position}
        self._blame(Code.X03, number, offset, position, values)
        return False

    def _rest(self, end: int, size: int, last_batch_at: int) -> None:
        while self._entry is not None:
            number, offset, position = self._entry
            if not self._in_order(number, offset, position):
                pass
            elif offset >= end:
                self._blame(Code.X07, number, offset, offset, {"end": end})
            elif position >= size or not self._lost:
                self._blame(Code.X04, number, offset, position, {})
            self._entry = next(self._entries, None)
        # It may leave out as much as it did elsewhere: an append of several batches gets one entry.
        end = max(self._position, 0)
        most = 2 * self._widest if self._widest else INTERVAL
        if self.used == self._index.entries and last_batch_at - end > most:
            self._say(Code.X08, self._size, 0, found=end, values={"last": last_batch_at})


class TimeIndexFold(_IndexFold):
    """Judges a time index.

    Args:
        may_lack_last: the broker has the segment in its hands: the last entry is written when it lets go.

    Reports: T01-T05.
    """

    _slot, _odd_size, _zero_tail = _TIME_SLOT, Code.T01, Code.T02

    def __init__(self, index: TimeIndex, size: int, report: Report, *, may_be_untrimmed: bool) -> None:
        super().__init__(index, size, report, may_be_untrimmed=may_be_untrimmed)
        self._time = self._largest = _NO_TIMESTAMP
        self._offset = index.base_offset - 1
        self._only_magic_0 = True
        self._doubt = False  # what was lost may have had the timestamp of an entry

    def gap(self) -> None:
        """Bytes of the log are no batch."""
        self._doubt = True

    def step(self, window: Window) -> None:
        """Take the next batches."""
        last = window.cell(window.count - 1, layout.LAST_OFFSET)
        times = window.column(layout.MAX_TIMESTAMP)
        self._doubt = self._doubt or not window.all_trusted
        if self._entry is not None and self._entry[2] <= last:
            lasts = window.column(layout.LAST_OFFSET)
            largest = list(accumulate(times, max, initial=self._largest))
            while self._entry is not None and self._entry[2] <= last:
                self._judge(self._entry, window, bisect_left(lasts, self._entry[2]), largest)
                self._entry = next(self._entries, None)
        self._largest = max(self._largest, *times)
        self._only_magic_0 = self._only_magic_0 and not max(window.column(layout.MAGIC))

    def _judge(self, entry: tuple[int, int, int], window: Window, k: int, largest: list[int]) -> None:
        number, time, offset = entry
        if not self._in_order(number, time, offset) or not window.cell(k, layout.MAGIC):
            return
        is_there = window.cell(k, layout.BASE_OFFSET) <= offset
        if time == largest[k + 1] and is_there:
            return
        if self._doubt and time > window.cell(k, layout.MAX_TIMESTAMP):
            return
        self._blame(Code.T04, number, offset, time, {"largest": largest[k + 1]}, largest[k + 1])

    def _in_order(self, number: int, time: int, offset: int) -> bool:
        if time > self._time and offset >= self._offset:
            self._time, self._offset = time, offset
            return True
        self._blame(Code.T03, number, offset, time, {"before": self._time, "offset_before": self._offset})
        return False

    def _rest(self, end: int, size: int, last_batch_at: int) -> None:
        while self._entry is not None:
            number, time, offset = self._entry
            if self._in_order(number, time, offset) and not self._doubt:
                self._blame(Code.T04, number, offset, time, {"largest": self._largest}, self._largest)
            self._entry = next(self._entries, None)
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
