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
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format import _scan, layout
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kinds import FileKind
from kdump.verify.indexfold import NO_FAULT, ODD, WRONG, Fault, IndexFold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.finding import Report
    from kdump.format.source import Source
    from kdump.format.window import Window
    from kdump.verify.order import Entry, Outlier

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

    _slot, _offset_column, _strict = _OFFSET_SLOT, 0, (True, True)
    _odd_size, _zero_tail, _disorder = Code.X01, Code.X02, Code.X03

    def __init__(
        self, index: OffsetIndex, source: Source, report: Report, *, may_be_untrimmed: bool, log_size: int | None
    ) -> None:
        super().__init__(
            index, source, (index.base_offset - 1, -1), report, may_be_untrimmed=may_be_untrimmed, log_size=log_size
        )
        self.hints = index.ascending_positions
        self._last = index.base_offset - 1  # last offset of the batch before the window
        self._above: tuple[Entry, Fault] | None = None  # the last one above its batch

    def step(self, window: Window, last: int, *, sure: bool) -> Iterator[None]:
        """Take the next batches."""
        limit = window.end(window.count)
        for entries in self._take(limit):
            yield
            exact = _scan.exact_offsets(entries.first, entries.second, window.rows, window.count) if sure else 0
            if exact < len(entries.first):
                fault_of = self._judge(window, sure=sure)
                for entry in entries.part(exact).rows():
                    self._look(entry, fault_of(entry))
        if self._aside:
            self._judge_aside(limit, self._judge(window, sure=sure))
        self._last = last
        self._lost = not window.all_trusted

    def _look(self, entry: Entry, fault: Fault) -> None:
        self._tell(entry, fault)
        if fault.grade == ODD and fault.code is None:
            self._say_above(_NO_LIMIT)
            self._above = entry, fault

    def _judge(self, window: Window, *, sure: bool) -> Callable[[Entry], Fault]:
        """Who says what the log has to an entry; ODD without a code when it is above its batch, which may be right."""
        positions, lasts = window.column(layout.POSITION), window.column(layout.LAST_OFFSET)

        def fault_of(entry: Entry) -> Fault:
            _, offset, position = entry
            k = bisect_left(positions, position)
            if k == len(positions) or positions[k] != position:
                return Fault(WRONG, Code.X04) if not self._lost or position >= positions[0] else NO_FAULT
            before = lasts[k - 1] if k else self._last
            if not sure:
                return NO_FAULT
            if before >= offset:
                return Fault(WRONG, Code.X05, {"base": before + 1})
            if offset > lasts[k]:
                return Fault(ODD, None, {"last": lasts[k]})
            if offset not in (lasts[k], window.cell(k, layout.BASE_OFFSET)):
                return Fault(ODD, Code.X06, {"last": lasts[k]})
            return NO_FAULT

        return fault_of

    def _say_above(self, end: int) -> None:
        """Judge the entry that was kept: above its batch is right for an append of several, above all is not."""
        if self._above is not None:
            entry, fault = self._above
            if entry.first >= end:
                self._too_long(entry, end)
            else:
                self._tell(entry, fault.replace(code=Code.X06))

    def _too_long(self, entry: Entry, end: int) -> None:
        self._blame(Code.X07, entry.number, entry.first, entry.first, {"end": end})

    def _out_of_order(self, one: Outlier) -> None:
        side = "before" if one.is_low else "after"
        near: dict[str, int | str | None] = {"other": one.near.first, "position": one.near.second, "side": side}
        self._tell(one.entry, Fault(WRONG, Code.X03, near))

    def _rest(self, end: int, size: int, last_batch_at: int) -> Iterator[None]:
        def fault_of(entry: Entry) -> Fault:
            return Fault(WRONG, Code.X04) if entry.second >= size or not self._lost else NO_FAULT

        self._say_above(end)
        for entries in self._take(_NO_LIMIT):
            yield
            for entry in entries.rows():
                if entry.first >= end:
                    self._tell(entry, Fault(WRONG))
                    self._too_long(entry, end)
                else:
                    self._tell(entry, fault_of(entry))
        self._judge_aside(_NO_LIMIT, fault_of)
        # Entries are not evenly apart: an append of several batches gets one.
        end = max(self._latest[1], 0)
        most = 4 * (end // self.used) if self.used else INTERVAL
        if self._judged == self._index.entries and last_batch_at - end > most:
            self._say(Code.X08, self._size, 0, found=end, values={"last": last_batch_at})


class TimeIndexFold(IndexFold):
    """Judges a time index.

    Reports: T01-T05.
    """

    _slot, _offset_column, _strict = _TIME_SLOT, 1, (True, False)
    _odd_size, _zero_tail, _disorder = Code.T01, Code.T02, Code.T03

    def __init__(
        self, index: TimeIndex, source: Source, report: Report, *, may_be_untrimmed: bool, log_size: int | None
    ) -> None:
        floor = _NO_TIMESTAMP, index.base_offset - 1
        super().__init__(index, source, floor, report, may_be_untrimmed=may_be_untrimmed, log_size=log_size)
        self._largest = _NO_TIMESTAMP
        self._only_magic_0 = True
        self._doubt = False  # what was lost may have had the timestamp of an entry

    def gap(self) -> None:
        """Bytes of the log are no batch."""
        self._doubt = True

    def step(self, window: Window, last: int, *, sure: bool) -> Iterator[None]:
        """Take the next batches."""
        self._doubt = self._doubt or not window.all_trusted
        for entries in self._take(last + 1):
            yield
            times, offsets, rows, count = entries.first, entries.second, window.rows, window.count
            exact = _scan.exact_times(times, offsets, rows, count, self._largest) if sure else 0
            if exact < len(times):
                fault_of = self._judge(window, sure=sure)
                for entry in entries.part(exact).rows():
                    self._tell(entry, fault_of(entry))
        if self._aside:
            self._judge_aside(last + 1, self._judge(window, sure=sure))
        self._largest = _scan.largest_timestamp(window.rows, window.count, self._largest)
        self._only_magic_0 = self._only_magic_0 and not _scan.extremes(window.rows, window.count, layout.MAGIC)[1]

    def _judge(self, window: Window, *, sure: bool) -> Callable[[Entry], Fault]:
        """Who says what the log has to an entry."""
        if not sure:
            return lambda _: NO_FAULT
        lasts, times = window.column(layout.LAST_OFFSET), window.column(layout.MAX_TIMESTAMP)
        for k, stored in enumerate(window.column(layout.CRC)):
            if stored != window.cell(k, layout.COMPUTED_CRC):
                times[k] = _NO_TIMESTAMP
        largest = array("q", accumulate(times, max, initial=self._largest))  # before each batch, and at the end

        def fault_of(entry: Entry) -> Fault:
            _, time, offset = entry
            k = min(bisect_left(lasts, offset), window.count - 1)
            if not window.cell(k, layout.MAGIC):
                return NO_FAULT
            before, until = largest[k], largest[k + 1]
            is_there = window.cell(k, layout.BASE_OFFSET) <= offset
            if is_there and time == until > before:
                return NO_FAULT
            if self._doubt and (time > until or not is_there):
                return NO_FAULT
            if is_there and time == before:  # whoever asks for that time begins to search behind it
                own = window.cell(k, layout.MAX_TIMESTAMP)
                return Fault(WRONG, Code.T04, {"largest": f"{own}, and one before it {before}"})
            return Fault(WRONG, Code.T04, {"largest": until}, until)

        return fault_of

    def _out_of_order(self, one: Outlier) -> None:
        side = "before" if one.is_low else "after"
        near: dict[str, int | str | None] = {"other": one.near.first, "other_offset": one.near.second, "side": side}
        self._tell(one.entry, Fault(WRONG, Code.T03, near))

    def _rest(self, end: int, size: int, last_batch_at: int) -> Iterator[None]:
        def fault_of(_: Entry) -> Fault:
            return NO_FAULT if self._doubt else Fault(WRONG, Code.T04, {"largest": self._largest}, self._largest)

        for entries in self._take(_NO_LIMIT):
            yield
            for entry in entries.rows():
                self._tell(entry, fault_of(entry))
        self._judge_aside(_NO_LIMIT, fault_of)
        time, offset = self._latest
        if time < self._largest and self._judged == self._index.entries and not self._only_magic_0:
            severity = Severity.NOTE if self._may_be_untrimmed else None
            at = max(self.used - 1, 0) * self._slot
            self._report(
                Finding(
                    Code.T05,
                    self._index.name,
                    at,
                    self._slot if self.used else 0,
                    offset=offset if self.used else None,
                    found=time,
                    expected=self._largest,
                    severity_override=severity,
                    values={"largest": self._largest},
                )
            )


def index_fold(
    kind: FileKind,
    source: Source,
    base_offset: int,
    report: Report,
    *,
    may_be_untrimmed: bool,
    log_size: int | None = None,
) -> IndexFold:
    """Return the fold that judges an index.

    Args:
        kind: offset index or time index.
        source: its file.
        base_offset: of the segment.
        report: takes each finding.
        may_be_untrimmed, log_size: see `IndexFold`.

    Raises:
        OSError: it cannot be read.
    """
    if kind is FileKind.INDEX:
        offsets = OffsetIndex(source, base_offset)
        return OffsetIndexFold(offsets, source, report, may_be_untrimmed=may_be_untrimmed, log_size=log_size)
    times = TimeIndex(source, base_offset)
    return TimeIndexFold(times, source, report, may_be_untrimmed=may_be_untrimmed, log_size=log_size)
