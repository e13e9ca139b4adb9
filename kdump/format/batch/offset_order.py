"""The order of offsets from batch to batch, and which of two batches is wrong where they disagree.

Strategy: a base offset is outside the CRC, so a wrong one shows only against the neighbours. A batch that adjoins the
good one before it is good. Any other one waits, for a few batches or until some adjoin each other; then it is known how
the fewest are wrong. Batches that are wrong side by side have the place that they fill between the good ones around
them. Behind damage nothing adjoins, and a batch waits like any other. The last batches of a segment have no next one:
where they reach into the next segment, which may be a stale one, or over the end that all other files know, their base
offsets are wrong only if one bit of each makes them fill what lies between the good batch and that offset. Where none
knows that end, the batch before them alone tells nothing: a broker writes such an overlap where an append failed
half-way, or leaders changed. Nor is a batch moved with which its epoch begins by the leader-epoch-checkpoint. A batch
that overlaps the one before it, and that nothing moves, stays where it is: a broker serves its offsets from there. The
first one of a segment overlaps the segment before it where it begins below its name: that is the log end offset then.
Source: LocalLog.roll, LogSegment.ensureOffsetInRange.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from kdump.finding import OVERLAP, Code, Finding, Report
from kdump.format.batch import layout
from kdump.format.java_values import MIN_LONG
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.format.batch.window import Window


class HeaderFacts(TupleValue):
    """The fields of one batch that the folds compare.

    Args:
        position, size: bytes.
        first: base offset; None for a compressed legacy wrapper, where it is not known.
        last: last offset.
        epoch: leader epoch; None below magic 2, which has none.
        trusted: its CRC is right.
    """

    position: int
    size: int
    first: int | None
    last: int
    epoch: int | None
    trusted: bool


def header_facts(window: Window, k: int) -> HeaderFacts:
    """Return row k of a window as the folds see it."""
    at = k * layout.BATCH_WIDTH
    rows = window.rows
    legacy = rows[at + layout.MAGIC] < layout.MAGIC_V2
    first: int | None = rows[at + layout.BASE_OFFSET]
    if legacy and rows[at + layout.ATTRIBUTES] & layout.CODEC_MASK:
        first = None
    return HeaderFacts(
        rows[at + layout.POSITION],
        rows[at + layout.SIZE],
        first,
        rows[at + layout.LAST_OFFSET],
        None if legacy else rows[at + layout.LEADER_EPOCH],
        rows[at + layout.CRC] == rows[at + layout.COMPUTED_CRC],
    )


def offsets_at(window: Window, k: int) -> tuple[int | None, int, bool]:
    """Return the offsets of the batch in row k, and whether the first is that after the last right batch before it.

    A compressed legacy wrapper has its last offset only: its first one is None where no right batch lies before it.
    """
    first, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
    if first >= 0 or window.cell(k, layout.MAGIC) >= layout.MAGIC_V2:
        return first, last, False
    before = window.offset_before(k)
    return (before + 1 if layout.UNKNOWN < before < last else None), last, True


def misplaced(window: Window, findings: Iterable[Finding]) -> Iterator[tuple[int, int]]:
    """Yield the batches of a window whose right base offset is known: number of the row, and what is to be added.

    Args:
        window: batches of a log.
        findings: that a checked walk has made about them.
    """
    for finding in findings:
        if isinstance(finding.expected, int):
            for k in _row_of(window, finding):
                yield k, finding.expected - window.cell(k, layout.BASE_OFFSET)


def unplaced(window: Window, findings: Iterable[Finding]) -> set[int]:
    """Return the numbers of the rows of a window whose base offset is wrong while nobody knows the right one.

    Args:
        window: batches of a log.
        findings: that a checked walk has made about them.
    """
    return {k for finding in findings if finding.is_unplaced for k in _row_of(window, finding)}


def _row_of(window: Window, finding: Finding) -> Iterator[int]:
    """The row of the batch whose base offset is wrong by a finding, where it is in the window."""
    if finding.is_misplaced and finding.position is not None:
        k = bisect_left(window.column(layout.POSITION), finding.position, 0, window.count)
        if k < window.count and window.cell(k, layout.POSITION) == finding.position:
            yield k


def put_right(window: Window, findings: Iterable[Finding]) -> dict[int, int]:
    """Give the batches of a window whose right base offset is known that offset, in their rows; the bytes stay.

    Those whose right one nobody knows are marked as out of range: their offsets say nothing.

    Args:
        window: batches of a log.
        findings: that a checked walk has made about them.

    Returns:
        what was added, by number of the row.
    """
    shifts = dict(misplaced(window, findings))
    for k, shift in shifts.items():
        window.shift(k, shift)
    for k in unplaced(window, findings):
        window.mark(k, layout.OUT_OF_RANGE)
    return shifts


LOG_END = "log_end"
"""Among the values of a finding: the end that other files know, by which the last base offset of a log is judged."""


def unknown() -> None:
    """Nobody knows where the log ends."""


class _Waiting(TupleValue):
    """A batch that waits for those behind it to be judged.

    Args:
        batch: it.
        is_lost: bytes are lost, or not to be trusted, between it and the batch before it.
        may_be: its offsets can be those of its log.
        may_be_right: it is wrong, or as likely another one.
        is_borne: the header of a damaged batch beside it bears it out.
    """

    batch: HeaderFacts
    is_lost: bool
    may_be: bool
    may_be_right: bool = False
    is_borne: bool = False


_MOST = 6  # batches that wait
_SURE = 3  # so many that adjoin each other are right
_WRONG, _HOLE, _BACK = 100, 10, 250  # what a wrong batch, a hole, and going back below what was believed cost
_NEVER = 1 << 40
_BITS = (*(1 << bit for bit in range(63)), MIN_LONG)


class OffsetFold:
    """Judges the offsets of a log's batches in file order.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        segment: base offset of the file, layout.UNKNOWN when it has none.
        next_base: base offset of the next segment; None where there is none, or nobody knows.
        known_end: tells the highest offset at which other files know the last segment to end; None where none does.
        begins: tells whether the leader-epoch-checkpoint begins an epoch at an offset; such a batch lies where it was
            written, whatever the arithmetic of its neighbours says.

    Attributes:
        last: the last offset that is known to be right, None before the first batch.
        when_free: is told the offsets that damage leaves free before a right batch, or that a log lacks at its start:
            first, last (None before a legacy wrapper) and the position of the batch.

    Reports: O01-O04, B07.
    """

    def __init__(
        self,
        file: str,
        report: Report,
        segment: int,
        next_base: int | None,
        known_end: Callable[[], int | None] = unknown,
        begins: Callable[[int | None, int | None], bool] = lambda _epoch, _offset: False,
    ) -> None:
        self._file = file
        self._begins = begins
        self._report = report
        self._segment = segment
        self._next_base = next_base
        self._known_end = known_end
        self._good: HeaderFacts | None = None
        self._waiting: tuple[_Waiting, ...] = ()
        self._calm = 0  # so many of the last that wait ascend
        self._run = 0  # so many of the last that wait adjoin each other
        self._lost = False  # bytes or a batch that cannot be trusted lie before the next batch
        self._damaged: HeaderFacts | None = None  # the batch before the next one, where its CRC is wrong
        self._open = False  # or something of that kind behind the good one
        self._proven = True  # the good batch follows another one, not damage
        self._end: int | None = None  # of the log, once no batch comes any more, where the last ones fill it
        self._log_end: int | None = None  # the same, whether they do or not
        self.when_free: Callable[[int, int | None, int], None] = lambda _first, _last, _position: None

    @property
    def state(self) -> tuple[object, ...]:
        """What it holds."""
        return self._good, self._waiting, self._calm, self._run, self._lost, self._open, self._proven, self._damaged

    def resume(self, state: tuple[Any, ...]) -> None:
        """Go on from what another one held."""
        self._good, self._waiting, self._calm, self._run, self._lost, self._open, self._proven, self._damaged = state

    @property
    def last(self) -> int | None:
        """The last offset that is known to be right."""
        return None if self._good is None else self._good.last

    @property
    def is_settled(self) -> bool:
        """Whether no batch waits for those behind it to be judged."""
        return not self._waiting

    @property
    def waits_from(self) -> int | None:
        """The position of the first batch that waits for those behind it to be judged; None where none does."""
        return self._waiting[0].batch.position if self._waiting else None

    def is_next(self, first: int) -> bool:
        """Whether a batch with this base offset is the next one, and nothing waits for it."""
        return not self._waiting and not self._lost and self._good is not None and first == self._good.last + 1

    def skip(self, last: HeaderFacts, position: int) -> None:
        """Move on to the last of three or more batches that are right, and of which each adjoins the one before it.

        Args:
            last: it.
            position: of the first of them, bytes.
        """
        self._settle(is_sure=True)
        if (self._lost or self._open) and self._good is not None:
            self.when_free(self._good.last + 1, self._good.last, position)
        self._good, self._lost, self._open, self._proven = last, False, False, True  # by the one right before it
        self._damaged = None

    def after_loss(self) -> None:
        """Expect missing offsets: bytes were lost before the next batch."""
        self._lost, self._damaged = True, None

    def push(self, one: HeaderFacts) -> None:
        """Take the next batch."""
        if not one.trusted:
            self._damaged = one
            if self._waiting and not self._lost and self._bears_out(one, self._waiting[-1].batch):
                self._waiting = (*self._waiting[:-1], self._waiting[-1]._replace(is_borne=True))
            self._lost = True  # its offsets are as good as its bytes: neither believed nor blamed
            return
        is_lost, self._lost = self._lost, False
        damaged, self._damaged = self._damaged, None
        is_borne = damaged is not None and one.first == damaged.last + 1
        new = _Waiting(one, is_lost, self._in_range(one), is_borne=is_borne)
        if not self._waiting and new.may_be and not is_lost and self._goes_on(one):
            self._accept(one)
            return
        before = self._waiting[-1].batch if self._waiting else self._good
        is_below = not _is_above(one, self._waiting[-1].batch) if self._waiting else self._is_below(one)
        ascends = new.may_be and not is_below
        self._calm = self._calm + 1 if ascends else 0
        adjoins = before is not None and one.first == before.last + 1
        self._run = self._run + 1 if adjoins and ascends and not is_lost and self._waiting else 1
        self._waiting = (*self._waiting, new)
        if self._run >= _SURE:
            self._settle(is_sure=True)
        elif len(self._waiting) > _MOST:
            self._settle_first()

    def _bears_out(self, damaged: HeaderFacts, before: HeaderFacts) -> bool:
        """Whether the header of a damaged batch goes on from the one before, or overlaps that where an epoch begins."""
        if damaged.first is None or damaged.first > before.last:
            return damaged.first == before.last + 1
        return self._begins(damaged.epoch, damaged.first)

    def finish(self) -> None:
        """There is no next batch."""
        if self._waiting:
            self._end = self._log_end = self._known_end() if self._next_base is None else self._next_base
            self._settle(is_sure=False)

    def _goes_on(self, one: HeaderFacts) -> bool:
        """Whether nothing speaks against this as the next batch, or as the first one of the log."""
        if self._good is None:
            return not self._open and one.first in (None, self._segment)
        return not self._open and one.first == self._good.last + 1

    def _accept(self, one: HeaderFacts) -> None:
        """The next batch that is right; before it offsets are free where something is lost, or nothing was before."""
        if self._open or self._good is None:
            first = self._segment if self._good is None else self._good.last + 1
            self.when_free(first, None if one.first is None else one.first - 1, one.position)
        self._good, self._proven, self._open = one, not self._open, False

    def _in_range(self, one: HeaderFacts) -> bool:
        first = _begin(one)
        if first < 0 or first + _span(one) > layout.LARGEST_OFFSET:
            return False
        return self._segment == layout.UNKNOWN or 0 <= one.last - self._segment <= layout.MAX_INT

    @property
    def _floor(self) -> int | None:
        """The last offset before the next batch: of the good one, or of the segment before; None where none is known.

        Where the name is above the first batch of a segment, the one before it has ended there.
        """
        if self._good is not None:
            return self._good.last
        return None if self._segment == layout.UNKNOWN else self._segment - 1

    def _is_below(self, one: HeaderFacts) -> bool:
        """Whether a batch begins among the offsets that lie before it."""
        floor = self._floor
        return floor is not None and _begin(one) <= floor

    # --- which of those that wait are right -----------------------------------------------------------------
    def _settle(self, *, is_sure: bool) -> None:
        """Judge all that wait.

        Args:
            is_sure: the last one is right; else there is no next one.
        """
        waiting, self._waiting = self._waiting, ()
        if not waiting:
            return
        behind = 0 if is_sure else self._that_fill_the_end(waiting)
        self._end = self._end if behind else None
        self._calm -= behind
        self._judge(waiting, *self._right_ones(waiting[: len(waiting) - behind], is_sure=is_sure))
        self._calm = self._run = 0

    def _settle_first(self) -> None:
        """Judge some of the first that wait, up to a right one."""
        waiting = self._waiting
        right, others = self._right_ones(waiting, is_sure=False)
        count = 1
        if self._calm < len(waiting):
            count = max((k + 1 for k in right if k < _MOST // 2), default=right[0] + 1 if right else 1)
        self._judge(waiting[:count], [k for k in right if k < count], others)
        self._waiting = waiting[count:]
        self._calm, self._run = min(self._calm, len(self._waiting)), min(self._run, len(self._waiting))

    def _right_ones(self, waiting: Sequence[_Waiting], *, is_sure: bool) -> tuple[list[int], list[int]]:
        """Return the numbers of those that are right: the fewest are wrong, and as few holes as can be lie between.

        Of two that contradict each other, and nothing else decides, the higher one is wrong, or the second where both
        begin at one offset.

        Args:
            waiting: they.
            is_sure: the last one is right.

        Returns:
            the numbers; and those that are right where the other one of each such two is the wrong one.
        """
        if not waiting or self._calm >= len(waiting):
            return list(range(len(waiting))), []
        good, count = self._good, len(waiting)
        costs: list[int] = []  # of the best way that ends at one
        ways: list[list[int]] = []  # the numbers that may come before it on such a way
        for j, one in enumerate(waiting):
            best, before = _NEVER, [-1]
            if one.may_be:
                best = self._cost_between(good, waiting, -1, j)
                best += _BACK if self._is_below(one.batch) else 0
                best += self._reaches_over(one)
            for i in range(j if one.may_be else 0):
                if _is_above(one.batch, waiting[i].batch):
                    cost = costs[i] + self._cost_between(waiting[i].batch, waiting, i, j) + self._reaches_over(one)
                    before = [*before, i] if cost == best else [i] if cost < best else before
                    best = min(best, cost)
            costs.append(best)
            ways.append(before)
        ends = [(costs[j] + _cost_of(waiting, j + 1, count), j) for j in range(count - 1 if is_sure else 0, count)]
        ends += [] if is_sure else [(_cost_of(waiting, 0, count), -1)]
        ways.append([j for cost, j in ends if cost == min(ends)[0]])

        found = []
        for choose in (min, max):
            at, right = len(waiting), list[int]()
            while at >= 0:
                some = [k for k in ways[at] if k >= 0]
                at = choose(
                    some, key=lambda k: (_begin(waiting[k].batch), waiting[k].batch.first is None, k), default=-1
                )
                right.append(at)
            found.append(right[-2::-1])
        return found[0], found[1]

    def _reaches_over(self, one: _Waiting) -> int:
        """What it costs that a batch is right which reaches into the next segment: of two that one is wrong."""
        return int(self._next_base is not None and one.batch.last >= self._next_base)

    def _cost_between(self, before: HeaderFacts | None, waiting: Sequence[_Waiting], i: int, j: int) -> int:
        """What it costs that batches between two right ones are wrong, or missing.

        Those that fill what lies between these belong there, however many are wrong: else one of them would lie in a
        place that leaves too little for the others.
        """
        first, between = waiting[j].batch.first, waiting[i + 1 : j]
        cost = _cost_of(waiting, i + 1, j)
        last = before.last if before is not None else self._segment - 1 if self._segment != layout.UNKNOWN else None
        is_lost = any(one.is_lost for one in waiting[i + 1 : j + 1]) or (i < 0 and self._open)
        if is_lost or first is None or last is None or any(one.batch.first is None for one in between):
            return cost
        free = first - last - 1
        if free == sum(_span(one.batch) + 1 for one in between):
            return min(cost, _WRONG + len(between))
        is_wrapper = before is not None and before.first is None  # where it begins nobody knows
        return cost + _HOLE if free > 0 or is_wrapper else cost

    def _that_fill_the_end(self, waiting: Sequence[_Waiting]) -> int:
        """Return how many of the last, of which one bit each is wrong, fill what is left up to the end of the log.

        That is where the next segment begins, or where other files know the log to end. No log had an end between two
        of its batches, but after a truncation.
        """
        if self._end is None or self._lost:
            return 0
        size = 0
        for count in range(1, len(waiting) + 1):
            one = waiting[-count]
            if one.is_lost or one.batch.first is None:
                break
            size += _span(one.batch) + 1
            left = waiting[-count - 1].batch if count < len(waiting) else self._good
            begin = self._segment if left is None else left.last + 1
            if begin + size != self._end or (count == len(waiting) and self._open):
                continue
            places = _in_a_row(begin, waiting[-count:])
            firsts = [one.batch.first or 0 for one in waiting[-count:]]
            is_one_bit = all((was ^ true).bit_count() == 1 for was, true in zip(firsts, places, strict=True))
            reaches = any(one.batch.last >= self._end for one in waiting[-count:])
            if is_one_bit and reaches and self._end not in firsts:
                return count
        return 0

    # --- what is told ---------------------------------------------------------------------------------------
    def _judge(self, waiting: Sequence[_Waiting], right: Sequence[int], others: Sequence[int]) -> None:
        """Take or blame batches one by one.

        Args:
            waiting: they.
            right: the numbers of those that are right.
            others: of those that may be right instead.
        """
        waiting = [one._replace(may_be_right=k in others) for k, one in enumerate(waiting)]
        begin = 0
        for k in (*right, len(waiting)):
            after = waiting[k] if k < len(waiting) else None
            self._blame_all(waiting[begin:k], after)
            if after is not None:
                self._open |= after.is_lost
                if self._is_below(after.batch):
                    following = waiting[k + 1] if k + 1 < len(waiting) else None
                    self._blame_all((after,), following)  # offsets continue from the lower one
                else:
                    self._gap(after.batch)
                self._accept(after.batch)
            begin = k + 1

    def _blame_all(self, wrong: Sequence[_Waiting], after: _Waiting | None) -> None:
        """Blame batches that lie one behind the other; those whose place is known count there.

        Args:
            wrong: they.
            after: the right one behind them; None where there is none.
        """
        following = None if after is None else after.batch
        judged = list(zip(wrong, self._places(wrong, after) if wrong else (), strict=True))
        first = next((k for k, one in enumerate(judged) if k and self._stays(one[0], following, one[1])), 0)
        if first:  # what lies before it has its place below it
            self._blame_all(wrong[:first], wrong[first])
            self._blame_all(wrong[first:], after)
            return
        for k, (one, place) in enumerate(judged):
            held = one.batch
            if self._stays(one, following, place):
                self._keep(held)
                self._blame_all(self._but_for_next(wrong[k + 1 :]), after)
                return
            self._open |= one.is_lost
            if one.may_be:
                self._wrong(held, following, place)
            elif held.first is not None and self._adjoins(held):
                self._delta(held, following)
            else:
                self._out_of_range(held, place)

    def _but_for_next(self, wrong: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Take those that go on from the good one, which was taken for wrong as they were; return the others."""
        while wrong and wrong[0].may_be and not wrong[0].is_lost and self._adjoins(wrong[0].batch):
            self._accept(wrong[0].batch)
            wrong = wrong[1:]
        return wrong

    def _is_sure(self, one: _Waiting) -> bool:
        """Whether something beside the right ones around it says that a batch has the offset that it has."""
        return one.is_borne or self._begins(one.batch.epoch, one.batch.first)

    def _places(self, wrong: Sequence[_Waiting], after: _Waiting | None) -> list[int | None]:
        """Return the base offsets that batches must have had, None for each where nobody knows, or one is borne out."""
        return [
            None if self._is_sure(one) else place
            for one, place in zip(wrong, self._by_neighbours(wrong, after), strict=True)
        ]

    def _by_neighbours(self, wrong: Sequence[_Waiting], after: _Waiting | None) -> list[int | None]:
        """Return the base offsets that batches must have had by what lies around them, None where nobody knows.

        Where they fill the offsets between the right ones around them, they had these. Else one has that with which it
        adjoins a neighbour, if that is one bit away, no other one bit away lies between the right ones, and no other
        batch is as likely wrong.
        """
        lefts, rights = self._from_left(wrong), self._from_right(wrong, after)
        if None not in lefts and lefts == rights:
            return lefts
        good = self._good
        if good is None and rights[0] == self._segment:
            return rights
        is_lost = self._open or any(one.is_lost for one in wrong) or after is None or after.is_lost
        found = [_begin(one.batch) for one in wrong]
        free: tuple[int, int] | None = None
        low = self._segment if good is None else good.last + 1
        # several at the end of a log that agree with each other may be right, and the name of the log wrong
        by_left = self._proven and (after is not None or (len(wrong) == 1 and self._ends_with(wrong[0].batch)))
        if low != layout.UNKNOWN and not is_lost and after is not None and after.batch.first is not None:
            free = low, after.batch.first - 1
        bound = layout.LARGEST_OFFSET
        if after is not None and after.batch.first is not None:
            bound = after.batch.first - 1 - after.is_lost  # what is lost between them had an offset too
        for sides, order in ((lefts, range(len(wrong))), (rights, range(len(wrong) - 1, -1, -1))):
            is_known = sides is rights or by_left
            for k in order:
                place = sides[k]
                is_known = is_known and not wrong[k].may_be_right
                is_known = is_known and place is not None and (place ^ found[k]).bit_count() == 1
                is_known = is_known and place is not None and low <= place <= bound - _span(wrong[k].batch)
                if not is_known or (free is not None and _one_bit_from(found[k], _span(wrong[k].batch), *free) != 1):
                    is_known, sides[k] = False, None
        places = [
            left if right is None else right if left is None else None
            for left, right in zip(lefts, rights, strict=True)
        ]
        is_any_below = any(self._is_below(one.batch) for one in wrong)
        # where there is no place for one of several, an overlap explains them as well
        return [None] * len(wrong) if is_any_below and None in places else places

    def _ends_with(self, one: HeaderFacts) -> bool:
        """Whether the log ends where a batch ends that adjoins the good one: that one alone tells nothing."""
        floor = self._floor
        return floor is not None and not self._lost and floor + _span(one) + 2 == self._log_end

    def _from_left(self, wrong: Sequence[_Waiting]) -> list[int | None]:
        """The base offsets with which batches adjoin what lies before them."""
        found: list[int | None] = []
        good = self._good
        at = None if self._open else good.last + 1 if good is not None else self._segment
        at = None if at == layout.UNKNOWN else at
        for one in wrong:
            at = None if one.is_lost or one.batch.first is None else at
            found.append(_if_there_is(at, one.batch))
            at = None if at is None else at + _span(one.batch) + 1
        return found

    def _from_right(self, wrong: Sequence[_Waiting], after: _Waiting | None) -> list[int | None]:
        """The base offsets with which batches adjoin what lies behind them."""
        found: list[int | None] = []
        at = self._end if after is None else None if after.is_lost else after.batch.first
        for one in reversed(wrong):
            at = None if at is None else at - _span(one.batch) - 1
            found.append(_if_there_is(at, one.batch))
            at = None if one.is_lost or one.batch.first is None else at
        return found[::-1]

    def _adjoins(self, one: HeaderFacts) -> bool:
        return self._good is not None and not self._open and one.first == self._good.last + 1

    def _gap(self, held: HeaderFacts) -> None:
        if self._good is None or self._open or held.first is None or self._adjoins(held):
            return
        first, last = self._good.last + 1, held.first - 1
        self._report(
            Finding(
                Code.O04,
                self._file,
                held.position,
                0,
                offset=first,
                last_offset=last,
                values={"missing_first": first, "missing_last": last},
            )
        )

    def _out_of_range(self, held: HeaderFacts, expected: int | None) -> None:
        first = _begin(held)
        below = first < max(self._segment, 0)
        of_file = f"the base offset {self._segment} of the file"
        if below:
            why = "is negative" if self._segment == layout.UNKNOWN else f"is below {of_file}"
        elif first + _span(held) > layout.LARGEST_OFFSET:
            why = "leaves no offset for what follows its batch"
        else:
            why = f"is too far above {of_file}"
        self._blame(Code.O01 if below else Code.O02, held, first, expected, {"why": why})

    def _wrong(self, held: HeaderFacts, after: HeaderFacts | None, expected: int | None) -> None:
        first = _begin(held)
        log_end = None
        if first < self._segment:
            why = f"is below the base offset {self._segment} of the file"
        elif self._good is not None and first <= self._good.last:
            why = f"is not above the last offset {self._good.last} before it"
        elif after is not None:
            why = "lies above the batch after it"
        elif self._next_base is not None:
            why = f"lets its batch reach into the next segment, which begins at {self._next_base}"
        else:
            log_end = self._end
            why = f"lies above the end of the log by its other files, {log_end}, where this batch fits exactly"
        code = Code.O01 if first < self._segment else Code.O03
        self._blame(code, held, first, expected, {"why": why, LOG_END: log_end})

    def _stays(self, one: _Waiting, after: HeaderFacts | None, expected: int | None) -> bool:
        """Whether a batch that is taken for wrong lies where it was written, among those before it or over their end.

        It does where its epoch begins with it, or where nothing has another place for it. What follows may bear it out,
        or leave no place between what is there and itself; else one bit of it may be wrong, unless no bit makes it
        adjoin the one before.
        """
        held, floor, good = one.batch, self._floor, self._good
        if not one.may_be or expected is not None or held.first is None or floor is None:
            return False
        if good is not None and good.first is None:
            return False
        if self._is_sure(one):
            return True
        is_below, last = held.first <= floor, max(held.last, floor)
        is_lost = self._open or one.is_lost
        if after is None:  # the arithmetic of one neighbour alone says nothing
            end = self._log_end if self._next_base is None else self._next_base
            return is_below and (end == last + 1 or (not is_lost and (self._next_base or last + 1) > last))
        if after.first is None:
            return False
        has_room = after.first - floor - 1 > _span(held)
        if not has_room or (is_below and after.first == last + 1):
            return True
        return is_below and not is_lost and held.last > floor and ((floor + 1) ^ held.first).bit_count() != 1

    def _keep(self, held: HeaderFacts) -> None:
        """Take a batch as right that was taken for wrong."""
        if self._is_below(held):
            self._overlap(held)
        else:
            self._gap(held)
            self._accept(held)

    def _overlap(self, held: HeaderFacts) -> None:
        before = self._floor
        assert held.first is not None
        assert before is not None
        last = min(before, held.last)
        both = f"{held.first}..{last}" if held.first < last else str(last)
        are = "are" if held.first < last else "is"
        what = f"not above the last offset {before} before it"
        if self._good is None:
            what = f"below the base offset {self._segment} of the file, up to which the segment before goes"
        values: dict[str, int | str | None] = {
            "why": f"is {what}: {both} {are} there twice",
            "remedy": f"none: no offset is lost, and a broker serves all; readers may get {both} twice",
            OVERLAP: last,
        }
        place = held.position, held.size
        self._report(
            Finding(
                Code.O03,
                self._file,
                *place,
                offset=held.first,
                last_offset=held.last,
                field="baseOffset",
                found=held.first,
                values=values,
            )
        )
        if held.last > before:
            self._accept(held)

    def _blame(
        self, code: Code, held: HeaderFacts, found: int, expected: int | None, values: dict[str, int | str | None]
    ) -> None:
        self._report(
            Finding(
                code,
                self._file,
                held.position,
                held.size,
                offset=held.first,
                last_offset=_last_of(held),
                field="baseOffset",
                found=found,
                expected=expected,
                values=values,
            )
        )
        # The batch itself is there: its offsets are not missing too.
        if expected is not None:
            begin = None if held.first is None else expected
            restored = held._replace(first=begin, last=expected + _span(held))
            self._gap(restored)
            self._accept(restored)
        else:
            self._open = True

    def _delta(self, held: HeaderFacts, after: HeaderFacts | None) -> None:
        """The base offset follows, the last offset cannot be: lastOffsetDelta is wrong under the right CRC."""
        assert held.first is not None
        expected = after.first - 1 - held.first if after is not None and after.first is not None else None
        self._report(
            Finding(
                Code.B07,
                self._file,
                held.position,
                held.size,
                offset=held.first,
                last_offset=_last_of(held),
                field="lastOffsetDelta",
                found=_span(held),
                expected=expected,
            )
        )
        self._open = True  # its last offset is not known: those after it are not missing too


def _span(one: HeaderFacts) -> int:
    """How far the last offset lies above the first, also where their sum was no long any more; 0 where nobody knows."""
    if one.first is None:
        return 0
    return (one.last - one.first + 2**31) % 2**64 - 2**31  # lastOffsetDelta is an int


def _last_of(one: HeaderFacts) -> int | None:
    """The last offset; None where there is no such number."""
    return one.last if one.first is None or one.first + _span(one) == one.last else None


def _begin(one: HeaderFacts) -> int:
    """The first offset that is known of a batch."""
    return one.last if one.first is None else one.first


def _is_above(one: HeaderFacts, before: HeaderFacts) -> bool:
    """Whether a batch lies above another one."""
    return _begin(one) > before.last


def _cost_of(waiting: Sequence[_Waiting], start: int, stop: int) -> int:
    """What it costs that some are wrong. A wrapper may hold any offsets: the later one of two is wrong."""
    legacy = sum(len(waiting) - k for k in range(start, stop) if waiting[k].batch.first is None)
    return _WRONG * (stop - start) + legacy


def _in_a_row(first: int, some: Iterable[_Waiting]) -> list[int]:
    """The base offsets that batches have where the first one has this, and each adjoins the one before it."""
    found = []
    for one in some:
        found.append(first)
        first += _span(one.batch) + 1
    return found


def _if_there_is(offset: int | None, one: HeaderFacts) -> int | None:
    """A base offset, if a batch can have it."""
    return offset if offset is not None and 0 <= offset <= layout.LARGEST_OFFSET - max(0, _span(one)) else None


def _one_bit_from(offset: int, span: int, low: int, high: int) -> int:
    """Return how many base offsets one bit away let a batch lie in a range of offsets."""
    return sum(low <= other and other + span <= high for other in (offset ^ bit for bit in _BITS))
