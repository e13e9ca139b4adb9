"""Where the batches whose base offset is wrong belong, and which of them stay where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.batch.header_judge import OFFSET_BITS, is_one_bit, one_bit_from
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.format.batch.base_offset.header import Before, Ends, HeaderFacts, Waiting


class Around(TupleValue):
    """What lies around batches that are taken for wrong."""

    before: Before  # what lies before them
    after: Waiting | None  # the right one behind them; None where there is none
    ends: Ends  # where the log goes on, or ends
    is_lost: bool  # bytes are lost behind the last batch of the log
    begins_epoch: bool = False  # by the leader-epoch-checkpoint an epoch begins with the right one behind them

    def is_taken_over(self, one: HeaderFacts) -> bool:
        """Tell whether the right one behind a batch begins inside of it, as the log of a new leader does."""
        after = None if self.after is None else self.after.batch
        if after is None or after.first is None or one.first is None or not self.begins_epoch:
            return False
        return one.first < after.first <= one.last < after.last and one.epoch != after.epoch


def by_neighbours(wrong: Sequence[Waiting], around: Around) -> list[int | None]:
    """Return the base offsets that batches must have had by what lies around them, None where nobody knows.

    Where they fill the offsets between the right ones around them, they had these. Else one has that with which it
    adjoins a neighbour, if that is one bit away, no other one bit away lies between the right ones, and no other batch
    is as likely wrong.
    """
    before, after = around.before, around.after
    lefts, rights = _from_left(wrong, before), _from_right(wrong, around)
    last, is_filled = wrong[-1], None not in lefts and lefts == rights
    if last.may_be and around.is_taken_over(last.batch) and (last.batch.lacks_records or not is_filled):
        return [None] * len(wrong)  # seldom, but then nothing is wrong
    if is_filled:
        return [None] * len(wrong) if any(one.may_be_right for one in wrong) else lefts
    good = before.good
    if (good is None and rights[0] == before.segment) or (len(wrong) == 1 and around.ends.is_borne and after is None):
        return rights
    is_lost = before.is_open or any(one.is_lost for one in wrong) or after is None or after.is_lost
    free: tuple[int, int] | None = None
    low = before.segment if good is None else good.last + 1
    # several at the end of a log that agree with each other may be right, and the name of the log wrong
    by_left = before.is_proven and (after is not None or (len(wrong) == 1 and _ends_with(wrong[0].batch, around)))
    if low != layout.UNKNOWN and not is_lost and after is not None and after.batch.first is not None:
        free = low, after.batch.first - 1
    next_base = around.ends.next_base
    bound = layout.LARGEST_OFFSET if next_base is None else next_base - 1
    if after is not None and after.batch.first is not None:
        bound = after.batch.first - 1 - after.is_lost  # what is lost between them had an offset too
    for sides, order in ((lefts, range(len(wrong))), (rights, range(len(wrong) - 1, -1, -1))):
        is_known = sides is rights or by_left
        for k in order:
            place, one = sides[k], wrong[k].batch
            is_known = is_known and not wrong[k].may_be_right
            is_known = is_known and place is not None and is_one_bit(one.stored, one.field(place))
            is_known = is_known and place is not None and low <= place <= bound - one.span
            if not is_known or (free is not None and _one_bit_from(one, free) != 1):
                is_known, sides[k] = False, None
    places = [
        left if right is None else right if left is None else None for left, right in zip(lefts, rights, strict=True)
    ]
    is_any_below = any(before.is_above(one.batch) for one in wrong)
    # where there is no place for one of several, an overlap explains them as well
    return [None] * len(wrong) if is_any_below and None in places else places


def _ends_with(one: HeaderFacts, around: Around) -> bool:
    """Whether the log ends where a batch ends that adjoins the good one: that one alone tells nothing."""
    floor = around.before.floor
    return floor is not None and not around.is_lost and floor + one.span + 2 == around.ends.known


def _from_left(wrong: Sequence[Waiting], before: Before) -> list[int | None]:
    """The base offsets with which batches adjoin what lies before them."""
    found: list[int | None] = []
    at = None if before.is_open else before.good.last + 1 if before.good is not None else before.segment
    at = None if at == layout.UNKNOWN else at
    for one in wrong:
        at = None if one.is_lost or one.batch.first is None else at
        found.append(_if_there_is(at, one.batch))
        at = None if at is None else at + one.batch.span + 1
    return found


def _from_right(wrong: Sequence[Waiting], around: Around) -> list[int | None]:
    """The base offsets with which batches adjoin what lies behind them."""
    found: list[int | None] = []
    after = around.after
    at = around.ends.filled if after is None else None if after.is_lost else after.batch.first
    for one in reversed(wrong):
        at = None if at is None else at - one.batch.span - 1
        found.append(_if_there_is(at, one.batch))
        at = None if one.is_lost or one.batch.first is None else at
    return found[::-1]


def _if_there_is(offset: int | None, one: HeaderFacts) -> int | None:
    """A base offset, if a batch can have it."""
    return offset if offset is not None and 0 <= offset <= layout.LARGEST_OFFSET - max(0, one.span) else None


def _one_bit_from(one: HeaderFacts, free: tuple[int, int]) -> int:
    """How many base offsets one bit away let a batch lie in a range of offsets."""
    low, high = free
    firsts = (one.first_by(stored) for stored in one_bit_from(one.stored, OFFSET_BITS))
    return sum(low <= first and first + one.span <= high for first in firsts)


def stays(one: Waiting, around: Around, *, is_sure: bool) -> bool:
    """Tell whether a batch that is taken for wrong lies where it was written, among those before it or over their end.

    It does where its epoch begins with it, or where nothing has another place for it. What follows may bear it out, or
    leave no place between what is there and itself; else one bit of it may be wrong, unless no bit makes it adjoin the
    one before.

    Args:
        one: the batch; nobody knows another place for it.
        around: what lies around it.
        is_sure: something beside the right ones around it says that it has the offset that it has.
    """
    held, before, floor = one.batch, around.before, around.before.floor
    if not one.may_be or held.first is None or floor is None:
        return False
    if before.good is not None and before.good.first is None:
        return False
    if is_sure or around.is_taken_over(held):
        return True
    is_below, last = held.first <= floor, max(held.last, floor)
    is_lost = before.is_open or one.is_lost
    if around.after is None:  # the arithmetic of one neighbour alone says nothing
        next_base = around.ends.next_base
        end = around.ends.known if next_base is None else next_base
        return is_below and (end == last + 1 or (not is_lost and (next_base or last + 1) > last))
    following = around.after.batch.first
    if following is None:
        return False
    has_room = following - floor - 1 > held.span
    if not has_room or (is_below and following == last + 1):
        return True
    return is_below and not is_lost and held.last > floor and not is_one_bit(held.stored, held.field(floor + 1))
