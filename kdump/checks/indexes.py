"""The indexes of a segment judged by meaning, while the walk goes through its log.

An entry of an offset index is right when a batch begins where it points and no lookup that it answers leaves a batch
out. Brokers before 2.0 wrote the first offset of that batch, and an append of several batches wrote the last of all:
that an entry is not the last offset of its batch is no damage. An entry of a time index is right when its timestamp is
the largest one up to the batch with its offset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

from kdump.finding import Capped, Code, Finding, Severity
from kdump.format.batch import _scan, layout
from kdump.format.index.offset_and_time import INDEX_BYTES, INDEX_INTERVAL, OffsetIndex, TimeIndex, zeros_are_right
from kdump.format.java_values import MAX_LONG
from kdump.format.kinds import FileKind
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kdump.finding import Report
    from kdump.format.batch.window import Window
    from kdump.format.source import Source


_HELD = 64  # entries that are judged once more, with those that follow: the last of a chunk may be wrong

Strict = tuple[bool, bool]  # of each column: must it rise from entry to entry, or may it stay


class Entry(TupleValue):
    """One entry: its number in the index, and both columns."""

    number: int
    first: int
    second: int


class Entries:
    """Some entries that ascend.

    Args:
        numbers: of the entries in the index.
        first, second: both columns.
    """

    __slots__ = ("first", "numbers", "second")

    def __init__(self, numbers: Sequence[int], first: array[int], second: array[int]) -> None:
        self.numbers = numbers
        self.first = first
        self.second = second

    def part(self, start: int, stop: int | None = None) -> Entries:
        """Return the entries [start, stop) of these."""
        return Entries(self.numbers[start:stop], self.first[start:stop], self.second[start:stop])

    def rows(self) -> Iterator[Entry]:
        """Yield each entry."""
        return map(Entry, self.numbers, self.first, self.second)


class Same(Value):
    """A stretch of one entry again and again, too low for what is before it: zeros, mostly."""

    entry: Entry  # the first of them
    near: Entry  # the believed one before them
    count: int  # how many there are

    def __iter__(self) -> Iterator[Outlier]:
        for number in range(self.entry.number, self.entry.number + self.count):
            yield Outlier(self.entry._replace(number=number), self.near, True)


class Outlier(Value):
    """An entry that is out of order."""

    entry: Entry  # the entry
    near: Entry  # the believed one that it is out of order with; before it when `is_low`, else after it
    is_low: bool  # too low for what is before it, else too high for what follows


def in_order(
    chunks: Iterator[tuple[array[int], array[int]]], strict: Strict, floor: tuple[int, int]
) -> Iterator[tuple[Entries, list[Outlier] | Same]]:
    """Sort out which entries ascend.

    Args:
        chunks: both columns, some thousand entries at a time.
        strict: how each column is to ascend.
        floor: what the first entry has to be above, in the same way.

    Yields:
        entries, each above all that were yielded before; the outliers between them, or a stretch of one outlier.
    """
    number = 0  # of the first entry that is held
    held = Entries(range(0), array("q"), array("q"))
    last = Entry(-1, *floor)
    found = next(chunks, None)
    while found is not None:
        following = next(chunks, None)
        numbers = range(number, number + len(held.first) + len(found[0]))
        chunk = Entries(numbers, held.first + found[0], held.second + found[1])
        cut = len(numbers) if following is None else max(len(numbers) - _HELD, 0)
        outliers: list[Outlier] | Same = []
        is_above = _is_above(next(chunk.rows()), last, strict)
        if is_above and _scan.ascends(chunk.first, strict[0]) and _scan.ascends(chunk.second, strict[1]):
            entries = chunk.part(0, cut)
        elif not is_above and _is_uniform(chunk):
            entries, outliers = chunk.part(0, 0), Same(next(chunk.rows()), last, cut)
        else:
            kept, others = _sorted_out(chunk, strict, last)
            kept = [entry for entry in kept if entry.number < number + cut]
            outliers = [one for one in others if one.entry.number < number + cut]
            columns = [[entry[at] for entry in kept] for at in range(3)]
            entries = Entries(columns[0], array("q", columns[1]), array("q", columns[2]))
        if entries.numbers:
            last = Entry(entries.numbers[-1], entries.first[-1], entries.second[-1])
        yield entries, outliers
        held = chunk.part(cut)
        number += cut
        found = following


def _is_uniform(chunk: Entries) -> bool:
    """Whether all entries of a chunk are the same one."""
    return all(column == column[:1] * len(column) for column in (chunk.first, chunk.second))


def _sorted_out(chunk: Entries, strict: Strict, last: Entry) -> tuple[list[Entry], list[Outlier]]:
    """Which entries of a chunk ascend from `last` on, and the others."""
    every = list(chunk.rows())
    maybe = [k for k, entry in enumerate(every) if _is_above(entry, last, strict)]
    believed = sorted(_longest(chunk.first, maybe, strict[0]) & _longest(chunk.second, maybe, strict[1]))
    kept: list[Entry] = []
    outliers: list[Outlier] = []
    at = 0  # in `believed`
    for entry in every:
        after = every[believed[at]] if at < len(believed) else None
        is_low = not _is_above(entry, last, strict)
        if entry is after or not (is_low or (after is not None and not _is_above(after, entry, strict))):
            at += entry is after
            kept.append(entry)
            last = entry
        else:
            near = last if is_low else after
            assert near is not None
            outliers.append(Outlier(entry, near, is_low))
    return kept, outliers


def _is_above(entry: Entry, other: Entry, strict: Strict) -> bool:
    first, second = strict
    return (entry.first > other.first or (entry.first == other.first and not first)) and (
        entry.second > other.second or (entry.second == other.second and not second)
    )


def _longest(column: array[int], numbers: list[int], is_strict: bool) -> set[int]:
    """The longest row of entries whose values ascend; of two the one with the earlier entries."""
    search = bisect_left if is_strict else bisect_right
    tails: list[int] = []  # of the rows of each length that go back from the end: the largest first value, negated
    heads: list[int] = []
    then: dict[int, int | None] = {}
    for k in reversed(numbers):
        value = -column[k]
        length = search(tails, value)
        then[k] = heads[length - 1] if length else None
        tails[length : length + 1] = [value]
        heads[length : length + 1] = [k]
    found = set()
    k_next = heads[-1] if heads else None
    while k_next is not None:
        found.add(k_next)
        k_next = then[k_next]
    return found


_PIECE = 64 * 1024  # bytes of an index
_SMALLEST_BATCH = layout.LOG_OVERHEAD + layout.MIN_SIZE_V0  # one entry for each, at most
_SMALLEST_BATCH = layout.LOG_OVERHEAD + layout.MIN_SIZE_V0  # one entry for each, at most
_ASIDE = 8192  # outliers that wait for their batches; what is more is not compared with the log

FINE, ODD, WRONG = range(3)


_UNTRIMMED = "none: a broker trims it when it shuts down, and builds it again after a crash"


class Fault(Value):
    """What the log says of an entry."""

    grade: int  # FINE, ODD (a lookup is right with it) or WRONG
    # code, values, expected: what there is to report; None for nothing
    code: Code | None = None
    values: Mapping[str, int | str | None] = {}
    expected: int | None = None


NO_FAULT = Fault(FINE)
UNSURE = Fault(FINE)  # damage of the log lets nobody say


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
        tells_zeros: report zeros at the end.

    Attributes:
        right, wrong: entries that agree with the log, and those that do not.
        misplaced: of the wrong ones, those that point to where no batch begins.
        beyond: of the wrong ones, those for what comes after the end of the log.
        reaches: the highest offset that it has for what comes after the end of the log; None for none.

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
        tells_zeros: bool = True,
    ) -> None:
        self._index = index
        self._size = source.size
        self._report = Capped(report)
        self._may_be_untrimmed = may_be_untrimmed
        self._tells_zeros = tells_zeros
        most = most_bytes(log_size, self._slot) // self._slot
        if source.size > layout.MAX_INT:
            self.used, self._judged = index.entries, min(most, INDEX_BYTES // self._slot)
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
        self.right = self.wrong = self.misplaced = self.beyond = 0
        self.reaches: int | None = None

    def _count(self, fault: Fault) -> None:
        """Count an entry as one that agrees with the log, or does not."""
        self.right += fault.grade != WRONG and fault is not UNSURE
        self.wrong += fault.grade == WRONG
        self.misplaced += fault.code is Code.X04

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
            self._count(fault)
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
        if zeros and self._tells_zeros and not self._may_be_zero:
            severity = Severity.NOTE if self._may_be_untrimmed else None
            values = {"remedy": _UNTRIMMED} if self._may_be_untrimmed else {}
            at, length = self.used * self._slot, zeros * self._slot
            self._report(
                Finding(
                    self._zero_tail,
                    self._index.name,
                    at,
                    length,
                    count=zeros,
                    found=0,
                    severity_override=severity,
                    values=values,
                )
            )
        self.close()

    @property
    def _may_be_zero(self) -> bool:
        """Whether the log is such that zeros at the end are entries."""
        return False

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
    # An index of the usual size is judged whatever its log has.
    return min(max(INDEX_BYTES, log_size // smallest * slot), layout.MAX_INT)


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


_OFFSET_SLOT, _TIME_SLOT = OffsetIndex.entry_size, TimeIndex.entry_size
_NO_TIMESTAMP = -1


class OffsetIndexFold(IndexFold):
    """Judges an offset index.

    Reports: X01-X08.
    """

    _slot, _offset_column, _strict = _OFFSET_SLOT, 0, (True, True)
    _odd_size = Code.X01
    _zero_tail = Code.X02
    _disorder = Code.X03

    def __init__(self, index: OffsetIndex, source: Source, report: Report, **how: Any) -> None:  # noqa: ANN401 (see IndexFold)
        super().__init__(index, source, (index.base_offset - 1, -1), report, **how)
        self.hints = index.ascending_positions  # makes the positions of its entries, as far as they ascend
        self._last = index.base_offset - 1  # last offset of the batch before the window
        self._above: tuple[Entry, Fault] | None = None  # the last one above its batch

    def step(self, window: Window, last: int, *, sure: bool) -> Iterator[None]:
        """Take the next batches."""
        limit = window.end(window.count)
        for entries in self._take(limit):
            yield
            exact = _scan.exact_offsets(entries.first, entries.second, window.rows, window.count) if sure else 0
            self.right += exact
            if exact < len(entries.first):
                fault_of = self._judge(window, sure=sure)
                for entry in entries.part(exact).rows():
                    self._look(entry, fault_of(entry))
        if self._aside:
            self._judge_aside(limit, self._judge(window, sure=sure))
        self._last = last
        self._lost = not window.all_trusted

    def _look(self, entry: Entry, fault: Fault) -> None:
        self._count(fault)
        self._tell(entry, fault)
        if fault.grade == ODD and fault.code is None:
            self._say_above(MAX_LONG)
            self._above = entry, fault

    def _judge(self, window: Window, *, sure: bool) -> Callable[[Entry], Fault]:
        """Who says what the log has to an entry; ODD without a code when it is above its batch, which may be right."""
        positions, lasts = window.column(layout.POSITION), window.column(layout.LAST_OFFSET)

        def fault_of(entry: Entry) -> Fault:
            _, offset, position = entry
            k = bisect_left(positions, position)
            if k == len(positions) or positions[k] != position:
                return Fault(WRONG, Code.X04) if not self._lost or position >= positions[0] else UNSURE
            before = lasts[k - 1] if k else self._last
            if not sure:
                return UNSURE
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
            return Fault(WRONG, Code.X04) if entry.second >= size or not self._lost else UNSURE

        self._say_above(end)
        for entries in self._take(MAX_LONG):
            yield
            for entry in entries.rows():
                fault = Fault(WRONG) if entry.first >= end else fault_of(entry)
                self._count(fault)
                self._tell(entry, fault)
                if entry.first >= end:
                    self._too_long(entry, end)
                    if entry.second >= size:
                        self.beyond += 1
                        self.reaches = entry.first
        self._judge_aside(MAX_LONG, fault_of)
        # Entries are not evenly apart: an append of several batches gets one.
        end = max(self._latest[1], 0)
        most = 4 * (end // self.used) if self.used else INDEX_INTERVAL
        if self._judged == self._index.entries and last_batch_at - end > most:
            self._say(Code.X08, self._size, 0, found=end, values={"last": last_batch_at})


class TimeIndexFold(IndexFold):
    """Judges a time index.

    Reports: T01-T05.
    """

    _slot, _offset_column, _strict = _TIME_SLOT, 1, (True, False)
    _odd_size = Code.T01
    _zero_tail = Code.T02
    _disorder = Code.T03

    def __init__(self, index: TimeIndex, source: Source, report: Report, **how: Any) -> None:  # noqa: ANN401 (see IndexFold)
        floor = _NO_TIMESTAMP, index.base_offset - 1
        super().__init__(index, source, floor, report, **how)
        self._largest = _NO_TIMESTAMP
        self._near = _NO_TIMESTAMP  # the largest of those whose offset an entry can have
        self._only_magic_0 = True
        self._doubt = False  # what was lost may have had the timestamp of an entry

    def gap(self) -> None:
        """Bytes of the log are no batch."""
        self._doubt = True

    @property
    def _may_be_zero(self) -> bool:
        return zeros_are_right(self._largest) and not self._doubt

    def step(self, window: Window, last: int, *, sure: bool) -> Iterator[None]:
        """Take the next batches."""
        self._doubt = self._doubt or not window.all_trusted
        for entries in self._take(last + 1):
            yield
            times, offsets, rows, count = entries.first, entries.second, window.rows, window.count
            exact = _scan.exact_times(times, offsets, rows, count, self._largest) if sure else 0
            self.right += exact
            if exact < len(times):
                fault_of = self._judge(window, sure=sure)
                for entry in entries.part(exact).rows():
                    fault = fault_of(entry)
                    self._count(fault)
                    self._tell(entry, fault)
        if self._aside:
            self._judge_aside(last + 1, self._judge(window, sure=sure))
        self._largest = _scan.largest_timestamp(window.rows, window.count, self._largest)
        self._near = self._largest if last <= self._limit else max(self._near, *self._near_times(window))
        self._only_magic_0 = self._only_magic_0 and not _scan.extremes(window.rows, window.count, layout.MAGIC)[1]

    @property
    def _limit(self) -> int:
        return self._index.base_offset + layout.MAX_INT

    def _near_times(self, window: Window) -> Iterator[int]:
        """The timestamps of batches that an entry can be about; those that are no batch's have none."""
        yield _NO_TIMESTAMP
        times, lasts = window.column(layout.MAX_TIMESTAMP), window.column(layout.LAST_OFFSET)
        for k, stored in enumerate(window.column(layout.CRC)):
            if lasts[k] <= self._limit and stored == window.cell(k, layout.COMPUTED_CRC):
                yield times[k]

    def _judge(self, window: Window, *, sure: bool) -> Callable[[Entry], Fault]:
        """Who says what the log has to an entry."""
        if not sure:
            return lambda _: UNSURE
        lasts, times = window.column(layout.LAST_OFFSET), window.column(layout.MAX_TIMESTAMP)
        for k, stored in enumerate(window.column(layout.CRC)):
            if stored != window.cell(k, layout.COMPUTED_CRC):
                times[k] = _NO_TIMESTAMP
        largest = array("q", accumulate(times, max, initial=self._largest))  # before each batch, and at the end

        def fault_of(entry: Entry) -> Fault:
            _, time, offset = entry
            k = min(bisect_left(lasts, offset), window.count - 1)
            if not window.cell(k, layout.MAGIC):
                return UNSURE
            before, until = largest[k], largest[k + 1]
            is_there = window.cell(k, layout.BASE_OFFSET) <= offset
            if is_there and time == until > before:
                return NO_FAULT
            if self._doubt and (time > until or not is_there):
                return UNSURE
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
            return UNSURE if self._doubt else Fault(WRONG, Code.T04, {"largest": self._largest}, self._largest)

        for entries in self._take(MAX_LONG):
            yield
            for entry in entries.rows():
                fault = fault_of(entry)
                self._count(fault)
                self._tell(entry, fault)
                if entry.second >= end and entry.first > self._largest:
                    self.beyond += 1
                    self.reaches = entry.second
        self._judge_aside(MAX_LONG, fault_of)
        time, offset = self._latest
        if time < self._near and self._judged == self._index.entries and not self._only_magic_0:
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
                    expected=self._near,
                    severity_override=severity,
                    values={"largest": self._near},
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
    tells_zeros: bool = True,
) -> IndexFold:
    """Return the fold that judges an index.

    Args:
        kind: offset index or time index.
        source: its file.
        base_offset: of the segment.
        report: takes each finding.
        may_be_untrimmed, log_size, tells_zeros: see `IndexFold`.

    Raises:
        OSError: it cannot be read.
    """
    how = {"may_be_untrimmed": may_be_untrimmed, "log_size": log_size, "tells_zeros": tells_zeros}
    if kind is FileKind.INDEX:
        return OffsetIndexFold(OffsetIndex(source, base_offset), source, report, **how)
    return TimeIndexFold(TimeIndex(source, base_offset), source, report, **how)
