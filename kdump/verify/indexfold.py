"""What the checks of both kinds of index share: entries in their order, as far as the walk has got."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar

from kdump.finding import Capped, Code, Finding, Severity
from kdump.format import layout
from kdump.value import Value
from kdump.verify.order import Entries, Same, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kdump.finding import Report
    from kdump.format.index import OffsetIndex, TimeIndex
    from kdump.format.source import Source
    from kdump.format.window import Window
    from kdump.verify.order import Entry, Outlier, Strict

_PIECE = 64 * 1024  # bytes of an index
USUAL = 10 * 1024 * 1024  # segment.index.bytes; a smaller index is judged whatever its log has
_SMALLEST_BATCH = layout.LOG_OVERHEAD + layout.MIN_SIZE_V0  # one entry for each, at most
_ASIDE = 8192  # outliers that wait for their batches; what is more is not compared with the log

FINE, ODD, WRONG = range(3)


class Fault(Value):
    """What the log says of an entry.

    Args:
        grade: FINE, ODD (a lookup is right with it) or WRONG.
        code, values, expected: what there is to report; None for nothing.
    """

    grade: int
    code: Code | None = None
    values: Mapping[str, int | str | None] = {}
    expected: int | None = None


NO_FAULT = Fault(FINE)


class IndexFold(ABC):
    """Takes the entries in their order, as far as the walk has got, and what is odd about the file itself.

    An entry that is out of order waits until the log has said what it is, and what its neighbour is. `step` and
    `finish` yield after some thousand entries: what was found can be handed on, and need not be held.

    Args:
        index: the index.
        source: its file.
        floor: what both columns of its first entry have to be above.
        report: takes each finding.
        may_be_untrimmed: zeros at the end are what a broker at work, or one that crashed, leaves there.
        log_size: of the log beside it, bytes; None where that is not there.

    Reports: F03, L12, and what its kinds show.
    """

    _slot: ClassVar[int]
    _offset_column: ClassVar[int]
    _strict: ClassVar[Strict]
    _odd_size: ClassVar[Code]
    _zero_tail: ClassVar[Code]
    _disorder: ClassVar[Code]

    def __init__(
        self,
        index: OffsetIndex | TimeIndex,
        source: Source,
        floor: tuple[int, int],
        report: Report,
        *,
        may_be_untrimmed: bool,
        log_size: int | None,
    ) -> None:
        self._index = index
        self._size = source.size
        self._report = Capped(report)
        self._may_be_untrimmed = may_be_untrimmed
        most = most_bytes(log_size, self._slot) // self._slot
        if source.size > layout.MAX_INT:
            self.used, self._judged = index.entries, min(most, USUAL // self._slot)
        else:
            self.used = _before_zeros(source, self._slot, index.entries)
            self._judged = min(self.used, most)
        if self._judged < self.used:
            at, found = self._judged * self._slot, self.used * self._slot
            expected = layout.MAX_INT if source.size > layout.MAX_INT else most * self._slot
            self._say(Code.F03, at, source.size - at, found=found, expected=expected)
            self._say(Code.L12, at, source.size - at, values={"why": f"the entries from byte {at} on"})
        self._latest = floor  # the entry that was taken last
        self._parts = in_order(index.columns(0, self._judged), self._strict, floor)
        self._entries = Entries(range(0), array("q"), array("q"))
        self._at = 0  # in them
        self._aside: list[tuple[int, int, Outlier, int | None]] = []  # due from which key on; what the log has said
        self._same: list[Same] = []
        self._nears: dict[int, int] = {}  # what the log says of their neighbours
        self._lost = False  # a gap lies before the next batch, or a batch whose CRC is wrong

    def _take(self, limit: int) -> Iterator[Entries]:
        """Yield the next entries that ascend, up to the first whose key is at or above the limit."""
        while True:
            keys = self._entries.second  # what entries meet batches by: positions, or offsets in a time index
            if self._at == len(keys):
                part = next(self._parts, None)
                if part is None:
                    return
                self._entries, outliers = part
                self._at = 0
                if isinstance(outliers, Same):
                    self._keep_same(outliers)
                else:
                    for one in outliers:
                        self._set_aside(one)
                yield self._entries.part(0, 0)  # of this part none may be left
                continue
            stop = bisect_left(keys, limit, self._at)
            if stop == self._at:
                return
            start, self._at = self._at, stop
            self._latest = self._entries.first[stop - 1], self._entries.second[stop - 1]
            yield self._entries.part(start, stop)

    def _keep_same(self, stretch: Same) -> None:
        """Keep a stretch until the entries before it are judged, as a part of the one before where it goes on."""
        before = self._same[-1] if self._same else None
        if before is not None and before.near == stretch.near and before.entry[1:] == stretch.entry[1:]:
            self._same[-1] = before.replace(count=stretch.entry.number + stretch.count - before.entry.number)
        elif len(self._same) < _ASIDE:
            self._same.append(stretch)
        else:
            self._tell_same(stretch)

    def _tell_same(self, stretch: Same) -> None:
        """Report one entry again and again: none of them can be right, and their number may be anything."""
        for told, one in enumerate(stretch):
            if self._report.is_full(self._disorder):
                self._report.add(self._disorder, stretch.count - told)
                return
            self._out_of_order(one)

    def _set_aside(self, one: Outlier) -> None:
        if len(self._aside) < _ASIDE:
            self._nears.setdefault(one.near.number, FINE)
            heappush(self._aside, (one.entry.second, one.entry.number, one, None))
        else:
            self._out_of_order(one)

    def _judge_aside(self, limit: int, fault_of: Callable[[Entry], Fault]) -> None:
        """Judge the outliers whose key is below the limit, and settle those whose neighbour has been judged too."""
        while self._aside and self._aside[0][0] < limit:
            _, number, one, found = heappop(self._aside)
            if found is not None:
                self._settle(one, found)
                continue
            fault = fault_of(one.entry)
            if fault.grade == WRONG and not one.is_low:
                self._tell(one.entry, fault)
            heappush(self._aside, (max(one.near.second, one.entry.second), number, one, fault.grade))
        if not self._aside:
            self._nears.clear()

    def _settle(self, one: Outlier, found: int) -> None:
        """Blame an outlier, or its neighbour when the log says that this is the worse of both."""
        near = self._nears.get(one.near.number, FINE)
        if near <= found:
            if found != WRONG or one.is_low:
                self._out_of_order(one)
        elif near == ODD:
            self._out_of_order(one.replace(entry=one.near, near=one.entry, is_low=not one.is_low))

    def _tell(self, entry: Entry, fault: Fault) -> None:
        """Report what the log says of an entry, and keep it when an outlier waits for that."""
        if entry.number in self._nears:
            self._nears[entry.number] = fault.grade
        if fault.code is not None:
            columns = entry[1:]
            offset, found = columns[self._offset_column], columns[1 - self._offset_column]
            self._blame(fault.code, entry.number, offset, found, fault.values, fault.expected)

    @abstractmethod
    def _out_of_order(self, one: Outlier) -> None:
        """Report an entry that is out of order."""

    def gap(self) -> None:
        """Bytes of the log are no batch."""
        self._lost = True

    @abstractmethod
    def step(self, window: Window, last: int, *, sure: bool) -> Iterator[None]:
        """Take the next batches.

        Args:
            window: the batches.
            last: the last offset that is believed after them.
            sure: their offsets are right; else no entry is blamed for not agreeing with them.
        """

    def finish(self, end: int, size: int, last_batch_at: int) -> Iterator[None]:
        """The log is at its end.

        Args:
            end: the offset after its last batch.
            size: of the log, bytes.
            last_batch_at: where its last batch begins, bytes.
        """
        if self._size % self._slot:
            rest = self._size % self._slot
            self._say(self._odd_size, self._size - rest, rest, found=self._size)
        yield from self._rest(end, size, last_batch_at)
        for stretch in self._same:
            self._tell_same(stretch)
        zeros = self._index.entries - self.used if self._judged == self.used else 0
        if zeros:
            severity = Severity.NOTE if self._may_be_untrimmed else None
            at, length = self.used * self._slot, zeros * self._slot
            self._report(
                Finding(self._zero_tail, self._index.name, at, length, count=zeros, found=0, severity_override=severity)
            )
        self.close()

    def close(self) -> None:
        """Report what was held back."""
        self._report.close()

    @abstractmethod
    def _rest(self, end: int, size: int, last_batch_at: int) -> Iterator[None]:
        """Judge the entries that no batch was left for."""

    def _say(self, code: Code, at: int, length: int, **more: Any) -> None:  # noqa: ANN401 (fields of a Finding)
        self._report(Finding(code, self._index.name, at, length, **more))

    def _blame(
        self,
        code: Code,
        number: int,
        offset: int,
        found: int,
        values: Mapping[str, int | str | None],
        expected: int | None = None,
    ) -> None:
        at = number * self._slot
        self._say(code, at, self._slot, offset=offset, found=found, values=values, expected=expected)


def most_bytes(log_size: int | None, slot: int, smallest: int = _SMALLEST_BATCH) -> int:
    """Return how many bytes an index can have that a broker has made: one entry for each batch at most.

    Args:
        log_size: of the log beside it, bytes; None where that is not there.
        slot: of an entry, bytes.
        smallest: bytes of the log that one entry takes at least.
    """
    if log_size is None:
        return layout.MAX_INT
    return min(max(USUAL, log_size // smallest * slot), layout.MAX_INT)


def _before_zeros(source: Source, slot: int, entries: int) -> int:
    """How many entries come before the zeros at the end, which are none: a broker had not written there."""
    end = entries * slot
    while end:
        start = max(0, end - _PIECE)
        if source.next_data(start) >= end:  # a hole
            end = start
            continue
        data = source.read_at(start, end - start).rstrip(b"\0")
        if data:
            return -(-(start + len(data)) // slot)
        end = start
    return 0
