"""The batches of a log in file order: each is right, or waits for those behind it to be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.format.batch import layout
from kdump.format.batch.base_offset.findings import OffsetFindings
from kdump.format.batch.base_offset.header import Before, Ends, LogEnd, Waiting
from kdump.format.java_values import MIN_LONG
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.finding import Report
    from kdump.format.batch.base_offset.far import Far
    from kdump.format.batch.base_offset.header import HeaderFacts
    from kdump.format.batch.base_offset.places import Around
    from kdump.format.batch.window import Window

_MOST = 6  # batches that wait
_SURE = 3  # so many that adjoin each other are right


def unknown(*_: object) -> None:
    """Nobody knows."""


class _Queue(TupleValue):
    """The batches that wait, and how many of the last of them ascend, and adjoin each other."""

    waiting: tuple[Waiting, ...] = ()
    calm: int = 0
    run: int = 0


class _Doubt(TupleValue):
    """What lies before the next batch and cannot be trusted."""

    is_lost: bool = False  # bytes, or a batch with a wrong CRC
    damaged: HeaderFacts | None = None  # the batch right before the next one, where its CRC is wrong


_NO_DOUBT, _LOST, _EMPTY = _Doubt(), _Doubt(is_lost=True), _Queue()


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
        span_of: tells how far the last offset of the legacy wrapper at a position lies above its first one, by what is
            inside; None where that cannot be read. Only where batches contradict each other anybody asks.
        leads_up: tells whether the log before ends right before an offset: the name of this one is right then.

    Attributes:
        on_free_range: is told the offsets that damage leaves free before a right batch, or that a log lacks at its
            start: first, last (None before a legacy wrapper) and the position of the batch. The range may be empty.
        asks_wrappers: where each legacy wrapper begins is asked, and not only where batches contradict each other.

    Reports: O01-O04, O09, B07.
    """

    def __init__(
        self,
        file: str,
        report: Report,
        segment: int,
        next_base: int | None,
        known_end: Callable[[], LogEnd | None] = unknown,
        begins: Callable[[int | None, int | None], bool] = lambda _epoch, _offset: False,
        span_of: Callable[[int], int | None] = unknown,
        leads_up: Callable[[int], bool] = lambda _offset: False,
    ) -> None:
        self._findings = OffsetFindings(file, report)
        self._leads_up = leads_up
        self._begins = begins
        self._known_end = known_end
        self._span_of = span_of
        self._ends = Ends(next_base)
        self._before = Before(segment)
        self._queue = _EMPTY
        self._doubt = _NO_DOUBT
        self._reach = 0  # how far the segment goes above its base, where that is further than its indexes can say
        self._far: Far | None = None
        self.asks_wrappers = False
        self.on_free_range: Callable[[int, int | None, int], None] = lambda _first, _last, _position: None

    @property
    def state(self) -> tuple[object, ...]:
        """What it holds."""
        return self._before, self._queue, self._doubt, self._reach

    def resume(self, state: tuple[Any, ...]) -> None:
        """Go on from what another one held."""
        self._before, self._queue, self._doubt, self._reach = state

    @property
    def segment(self) -> int:
        """Base offset of the file, layout.UNKNOWN when it has none."""
        return self._before.segment

    @property
    def last(self) -> int | None:
        """The last offset that is known to be right; None before the first batch."""
        return self._before.last

    @property
    def is_settled(self) -> bool:
        """Whether no batch waits for those behind it to be judged."""
        return not self._queue.waiting

    @property
    def first_undecided_position(self) -> int | None:
        """The position of the first batch that waits for those behind it to be judged; None where none does."""
        waiting = self._queue.waiting
        return waiting[0].batch.position if waiting else None

    def is_next(self, first: int) -> bool:
        """Whether a batch with this base offset is the next one, and nothing waits for it."""
        good = self._before.good
        return not self._queue.waiting and not self._doubt.is_lost and good is not None and first == good.last + 1

    def accept_far(self, window: Window) -> None:
        """Take batches for right that lie too far above the base of their segment, as `far` has it.

        Args:
            window: the next batches; the rows that are right are not out of range afterwards.

        Reports: O09, for the first one.
        """
        from kdump.format.batch.base_offset.far import Far  # few logs have such batches

        if self._far is None:
            next_base = self._ends.next_base
            end = self._known_end() if next_base is None else LogEnd(next_base)
            self._far = Far(self.segment, layout.UNKNOWN if end is None else end.offset, self._begins)
        self._reach, begins = self._far.accept(window, self._reach)
        for one in begins:
            self._findings.far(one, self.segment)

    def skip(self, last: HeaderFacts, position: int) -> None:
        """Move on to the last of three or more batches that are right, and of which each adjoins the one before it.

        Args:
            last: of these batches.
            position: of the first of them, bytes.
        """
        self._settle(is_sure=True)
        before = self._before
        if (self._doubt.is_lost or before.is_open) and before.good is not None:
            self.on_free_range(before.good.last + 1, before.good.last, position)
        self._before = Before(before.segment, last)  # by the one right before it
        self._doubt = _NO_DOUBT

    def after_loss(self) -> None:
        """Expect missing offsets: bytes were lost before the next batch."""
        self._doubt = _LOST

    def push(self, one: HeaderFacts) -> None:
        """Take the next batch."""
        self._push(self._with_span(one) if self.asks_wrappers and one.trusted else one)

    def _push(self, one: HeaderFacts) -> None:
        queue, doubt = self._queue, self._doubt
        if not one.trusted:
            if queue.waiting and not doubt.is_lost and self._bears_out(one, queue.waiting[-1].batch):
                last = queue.waiting[-1]._replace(is_borne=True)
                self._queue = queue._replace(waiting=(*queue.waiting[:-1], last))
            self._doubt = _Doubt(True, one)  # its offsets are as good as its bytes: neither believed nor blamed
            return
        self._doubt = _NO_DOUBT
        is_borne = doubt.damaged is not None and one.first == doubt.damaged.last + 1
        new = Waiting(
            one, doubt.is_lost, self._before.may_have(one, self._reach), is_borne=is_borne, damaged=doubt.damaged
        )
        if not queue.waiting and new.may_be and not doubt.is_lost and self._before.leads_to(one):
            self._accept(one)
            return
        self._queue = queue = self._with(new)
        if queue.run >= _SURE:
            self._settle(is_sure=True)
        elif len(queue.waiting) > _MOST:
            self._settle_first()

    def _with(self, new: Waiting) -> _Queue:
        """The batches that wait, and one more."""
        one, (waiting, calm, run) = new.batch, self._queue
        before = waiting[-1].batch if waiting else self._before.good
        is_below = not one.is_above(waiting[-1].batch) if waiting else self._before.is_above(one)
        ascends = new.may_be and not is_below
        adjoins = before is not None and one.first == before.last + 1
        goes_on = adjoins and ascends and not new.is_lost and bool(waiting)
        return _Queue((*waiting, new), calm + 1 if ascends else 0, run + 1 if goes_on else 1)

    def _bears_out(self, damaged: HeaderFacts, before: HeaderFacts) -> bool:
        """Whether the header of a damaged batch goes on from the one before, or overlaps that where an epoch begins."""
        if damaged.first is None or damaged.first > before.last:
            return damaged.first == before.last + 1
        return self._begins(damaged.epoch, damaged.first)

    def finish(self) -> None:
        """There is no next batch."""
        if self._queue.waiting:
            next_base = self._ends.next_base
            end = self._known_end() if next_base is None else LogEnd(next_base, 0)
            self._ends = Ends(next_base) if end is None else Ends(next_base, end.offset, files=end.files)
            self._settle(is_sure=False)

    def _accept(self, one: HeaderFacts) -> None:
        """The next batch that is right; before it offsets are free where something is lost, or nothing was before."""
        before = self._before
        if before.is_open or before.good is None:
            first = before.segment if before.good is None else before.good.last + 1
            self.on_free_range(first, None if one.first is None else one.first - 1, one.position)
        self._before = Before(before.segment, one, False, not before.is_open)

    def _open_up(self) -> None:
        """Note that nobody knows how many offsets lie behind the good batch."""
        self._before = self._before._replace(is_open=True)

    # --- those that wait ------------------------------------------------------------------------------------
    def _settle(self, *, is_sure: bool) -> None:
        """Judge all that wait.

        Args:
            is_sure: the last one is right; else there is no next one.
        """
        (waiting, calm, _), self._queue = self._queue, _EMPTY
        if not waiting:
            return
        known, behind = self._ends.known, 0
        is_over = known is not None and any(one.batch.last >= known for one in waiting)
        is_over |= self._ends.next_base is not None and calm < len(waiting)
        is_over = is_over and not (is_sure or self._doubt.is_lost)
        if calm < len(waiting) or is_over:
            waiting = self._with_spans(waiting)
        if is_over:
            from kdump.format.batch.base_offset.chain import is_too_far, that_fill_the_end  # few logs need them

            behind = int(is_too_far(waiting, self._before, self._ends))
            behind = behind or that_fill_the_end(waiting, self._before, self._ends, self._begins, self._leads_up)
        self._ends = self._ends._replace(filled=known if behind else None)
        if behind == 1 and known is not None:
            one = waiting[-1].batch
            self._ends = self._ends._replace(is_borne=self._begins(one.epoch, known - one.span - 1))
        some = waiting[: len(waiting) - behind]
        self._judge(waiting, *self._right_ones(some, calm - behind, is_sure=is_sure))

    def _settle_first(self) -> None:
        """Judge some of the first that wait, up to a right one."""
        waiting, calm, run = self._queue
        if calm < len(waiting):
            waiting = self._with_spans(waiting)
        right, others = self._right_ones(waiting, calm, is_sure=False)
        count = 1
        if calm < len(waiting):
            count = max((k + 1 for k in right if k < _MOST // 2), default=right[0] + 1 if right else 1)
        self._judge(waiting[:count], [k for k in right if k < count], others)
        rest = waiting[count:]
        self._queue = _Queue(rest, min(calm, len(rest)), min(run, len(rest)))

    def _with_spans(self, waiting: Sequence[Waiting]) -> tuple[Waiting, ...]:
        """The same batches; of legacy wrappers the first offset too, where what is inside tells it.

        Of a batch with nothing around it nobody asks: so it is when a wrapper is read by itself.
        """
        if len(waiting) == 1 and self._before.floor is None:
            return tuple(waiting)
        return tuple(one._replace(batch=self._with_span(one.batch)) for one in waiting)

    def _with_span(self, one: HeaderFacts) -> HeaderFacts:
        span = self._span_of(one.position) if one.first is None else None
        if span is None or one.last - span < MIN_LONG:
            return one
        return one._replace(first=one.last - span, is_wrapper=True)

    def _right_ones(self, waiting: Sequence[Waiting], calm: int, *, is_sure: bool) -> tuple[list[int], list[int]]:
        if not waiting or calm >= len(waiting):
            return list(range(len(waiting))), []
        from kdump.format.batch.base_offset.chain import right_ones  # few logs need it

        return right_ones(waiting, self._before, self._ends.next_base, is_sure=is_sure)

    def _judge(self, some: Sequence[Waiting], right: Sequence[int], others: Sequence[int]) -> None:
        """Take or blame batches one by one.

        Args:
            some: the batches.
            right: the numbers of those that are right.
            others: of those that may be right instead.
        """
        waiting = [one._replace(may_be_right=k in others) for k, one in enumerate(some)]
        begin = 0
        for k in (*right, len(waiting)):
            after = waiting[k] if k < len(waiting) else None
            self._blame_all(waiting[begin:k], after)
            if after is not None:
                if after.is_lost:
                    self._open_up()
                if self._before.is_above(after.batch):
                    following = waiting[k + 1] if k + 1 < len(waiting) else None
                    self._blame_all((after,), following)  # offsets continue from the lower one
                else:
                    self._findings.gap(self._before, after.batch)
                self._accept(after.batch)
            begin = k + 1

    # --- those that are wrong -------------------------------------------------------------------------------
    def _blame_all(self, wrong: Sequence[Waiting], after: Waiting | None) -> None:
        """Blame batches that lie one behind the other; those whose place is known count there.

        Args:
            wrong: the batches.
            after: the right one behind them; None where there is none.
        """
        befores = [self._before.good, *(one.batch for one in wrong[:-1])]
        places = self._places(wrong, befores, after) if wrong else []
        first = next((k for k, one in enumerate(wrong) if k and self._stays(one, befores[k], after, places[k])), 0)
        if first:  # what lies before it has its place below it
            self._blame_all(wrong[:first], wrong[first])
            self._blame_all(wrong[first:], after)
            return
        for k, one in enumerate(wrong):
            if self._stays(one, befores[k], after, places[k]):
                self._keep(one.batch)
                self._blame_all(self._but_for_next(wrong[k + 1 :]), after)
                return
            if one.is_lost:
                self._open_up()
            self._blame(one, None if after is None else after.batch, places[k])

    def _around(self, after: Waiting | None) -> Around:
        from kdump.format.batch.base_offset.places import Around  # few logs have batches out of place

        begins_epoch = after is not None and self._begins(after.batch.epoch, after.batch.first)
        return Around(self._before, after, self._ends, self._doubt.is_lost, begins_epoch)

    def _places(
        self, wrong: Sequence[Waiting], befores: Sequence[HeaderFacts | None], after: Waiting | None
    ) -> list[int | None]:
        """The base offsets that batches must have had, None for each where nobody knows, or one is borne out."""
        from kdump.format.batch.base_offset.places import by_neighbours

        places = by_neighbours(wrong, self._around(after))
        known = zip(wrong, befores, places, strict=True)
        return [None if self._is_sure(one, before) else place for one, before, place in known]

    def _is_sure(self, one: Waiting, before: HeaderFacts | None) -> bool:
        """Whether something beside the right ones around it says that a batch has the offset that it has.

        Args:
            one: the batch.
            before: the one before it; None for none. Of the same epoch, that is the one with which the epoch begins.
        """
        is_first = before is None or before.epoch != one.batch.epoch
        return one.is_borne or (is_first and one.may_be and self._begins(one.batch.epoch, one.batch.first))

    def _stays(self, one: Waiting, before: HeaderFacts | None, after: Waiting | None, place: int | None) -> bool:
        from kdump.format.batch.base_offset.places import stays

        return place is None and stays(one, self._around(after), is_sure=self._is_sure(one, before))

    def _but_for_next(self, wrong: Sequence[Waiting]) -> Sequence[Waiting]:
        """Take those that go on from the good one, which was taken for wrong as they were; return the others."""
        while wrong and wrong[0].may_be and not wrong[0].is_lost and self._before.adjoins(wrong[0].batch):
            self._accept(wrong[0].batch)
            wrong = wrong[1:]
        return wrong

    def _keep(self, held: HeaderFacts) -> None:
        """Take a batch as right that was taken for wrong."""
        before = self._before
        if before.is_above(held):
            self._findings.overlap(held, before)
            if before.floor is not None and held.last > before.floor:
                self._accept(held)
        else:
            self._findings.gap(before, held)
            self._accept(held)

    def _blame(self, one: Waiting, after: HeaderFacts | None, place: int | None) -> None:
        """Tell of a batch that is wrong; where its place is known it counts there: its offsets are not missing too."""
        held, before = one.batch, self._before
        if place is not None and place == held.first:  # wrong ones before it had taken its place
            self._keep(held)
            return
        if not one.may_be and held.first is not None and before.adjoins(held):
            self._findings.delta(held, after)
            self._open_up()  # its last offset is not known: those after it are not missing too
            return
        if one.may_be:
            self._findings.wrong(held, before, after, self._ends, place)
        else:
            self._findings.out_of_range(held, before, place)
        if place is None:
            self._open_up()
            return
        restored = held._replace(first=None if held.first is None else place, last=place + held.span)
        self._findings.gap(before, restored)
        self._accept(restored)
