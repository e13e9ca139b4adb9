"""Which of the batches that wait are right: the fewest are wrong, and as few holes as can be lie between."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from kdump.format.batch.gap import MOST_IN_BYTE
from kdump.format.batch.header_judge import INVENTED, OLDER, ONE_BIT, field_cost, is_one_bit
from kdump.format.java_values import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.format.batch.base_offset.header import Before, Ends, HeaderFacts, Waiting

_WRONG, _HOLE, _BACK = 100, 10, 250  # what a wrong batch, a hole, and going back below what was believed cost
_NEVER = 1 << 40


def right_ones(
    waiting: Sequence[Waiting], before: Before, next_base: int | None, *, is_sure: bool
) -> tuple[list[int], list[int]]:
    """Return the numbers of those that are right.

    Of two that contradict each other, and nothing else decides, the higher one is wrong, or the second where both begin
    at one offset.

    Args:
        waiting: the batches, one behind the other.
        before: what lies before them.
        next_base: base offset of the next segment; None for none.
        is_sure: the last one is right.

    Returns:
        the numbers; and those that are right where the other one of each such two is the wrong one.
    """
    count = len(waiting)
    costs: list[int] = []  # of the best way that ends at one
    ways: list[list[int]] = []  # the numbers that may come before it on such a way
    for j, one in enumerate(waiting):
        best, parents = _NEVER, [-1]
        over = int(next_base is not None and one.batch.last >= next_base)  # of two the one that reaches over is wrong
        if one.may_be:
            best = _cost_between(before, None, waiting, (-1, j))
            best += (_BACK if before.is_above(one.batch) else 0) + over
        for i in range(j if one.may_be else 0):
            if one.batch.is_above(waiting[i].batch):
                cost = costs[i] + _cost_between(before, waiting[i].batch, waiting, (i, j)) + over
                parents = [*parents, i] if cost == best else [i] if cost < best else parents
                best = min(best, cost)
        costs.append(best)
        ways.append(parents)
    ends = [(costs[j] + _cost_of(waiting, j + 1, count), j) for j in range(count - 1 if is_sure else 0, count)]
    ends += [] if is_sure else [(_cost_of(waiting, 0, count), -1)]
    ways.append([j for cost, j in ends if cost == min(ends)[0]])

    found = []
    for choose in (min, max):
        at, right = count, list[int]()
        while at >= 0:
            some = [k for k in ways[at] if k >= 0]
            at = choose(some, key=lambda k: (waiting[k].batch.begin, waiting[k].batch.first is None, k), default=-1)
            right.append(at)
        found.append(right[-2::-1])
    return found[0], found[1]


def _cost_between(
    before: Before, right: HeaderFacts | None, waiting: Sequence[Waiting], bounds: tuple[int, int]
) -> int:
    """What it costs that batches between two right ones are wrong, or missing.

    Those that fill what lies between these belong there, however many are wrong: else one of them would lie in a place
    that leaves too little for the others. But not where two of them adjoin each other as they are: each bears the other
    out, and no damage moves both by the same; unless they leave no room for the others, or lie over one that its own
    neighbour bears out.

    Args:
        before: what lies before all.
        right: the first of the two; None for the good one before all.
        waiting: all.
        bounds: numbers of the two; the first is -1 where it is before all.
    """
    i, j = bounds
    first, between = waiting[j].batch.first, waiting[i + 1 : j]
    cost = _cost_of(waiting, i + 1, j)
    right = before.good if i < 0 else right
    last = before.floor if right is None else right.last
    is_lost = any(one.is_lost for one in waiting[i + 1 : j + 1]) or (i < 0 and before.is_open)
    if is_lost or first is None or last is None or any(one.batch.first is None for one in between):
        return cost
    free = first - last - 1
    lowest = last if i < 1 or waiting[i - 1].batch.last + 1 == waiting[i].batch.first else -1
    highest = first if j + 1 < len(waiting) and waiting[j].batch.last + 1 == waiting[j + 1].batch.first else MAX_LONG
    ends = [0, *accumulate(one.batch.span + 1 for one in between)]  # how many offsets those up to one take
    are_borne = any(
        one.batch.last + 1 == other.batch.first
        and one.batch.begin > lowest + ends[k]
        and other.batch.last < highest - (ends[-1] - ends[k + 2])
        for k, (one, other) in enumerate(pairwise(between))
    )
    if free == ends[-1] and not are_borne:
        return min(cost, _WRONG + len(between))
    is_wrapper = right is not None and right.first is None  # where it begins nobody knows
    return cost + _HOLE if free > 0 or is_wrapper else cost


def _cost_of(waiting: Sequence[Waiting], start: int, stop: int) -> int:
    """What it costs that some are wrong. A wrapper may hold any offsets: the later one of two is wrong."""
    legacy = sum(len(waiting) - k for k in range(start, stop) if waiting[k].batch.first is None)
    return _WRONG * (stop - start) + legacy


def that_fill_the_end(
    waiting: Sequence[Waiting],
    before: Before,
    ends: Ends,
    begins: Callable[[int | None, int | None], bool],
    leads_up: Callable[[int], bool],
) -> int:
    """Return how many of the last, which reach over the end of the log as they are, fill what is left up to it.

    That is where the next segment begins, or where other files know the log to end: these may be older, so that one bit
    of each base offset must explain it there, or fewer wrong fields than older files. No log had an end between two of
    its batches, but after a truncation. The header of a damaged batch before them counts where it adjoins what lies
    before it, and each of them is wrong. One batch also fills it from where the leader-epoch-checkpoint begins its
    epoch, one that begins among the offsets before it, where the next segment begins behind it, and one behind lost
    bytes that reaches over the next segment by one bit.
    """
    if ends.known is None:
        return 0
    size = 0
    for count in range(1, len(waiting) + 1):
        one = waiting[-count]
        if one.batch.first is None:
            break
        size += one.batch.span + 1
        left = waiting[-count - 1].batch if count < len(waiting) else before.good
        begin = before.segment if left is None else left.last + 1
        place = ends.known - size
        if count == 1 and place > begin and begins(one.batch.epoch, place):
            begin = place
        if one.is_lost:
            damaged = one.damaged
            if damaged is None or damaged.first != begin or before.is_open:
                return int(count == 1 and begin <= place and _is_one_bit_over(one.batch, place, ends))
            begin = damaged.last + 1
        if begin + size != ends.known or (count == len(waiting) and before.is_open):
            if one.is_lost:
                break
            continue
        places = _in_a_row(begin, waiting[-count:])
        some = [one.batch for one in waiting[-count:]]
        firsts = [one.first for one in some]
        costs = [field_cost(one.stored, one.field(true)) for one, true in zip(some, places, strict=True)]
        is_one_bit = all(cost == ONE_BIT for cost in costs)
        is_explained = (
            is_one_bit
            or sum(costs) < ends.files * OLDER
            or (ends.next_base is not None and (sum(costs) <= INVENTED if all(costs) else not one.is_lost))
        )
        reaches = any(one.batch.last >= ends.known for one in waiting[-count:])
        is_below = count == 1 and ends.next_base is not None and one.batch.begin < begin
        if is_below and (begins(one.batch.epoch, begin) or not _is_left(left, one.batch)):
            reaches |= one.may_be or leads_up(begin)  # else the name of the log may be wrong as well
        # then these files may be older than it, where more than one bit is wrong
        is_behind = ends.next_base is None and ends.known in firsts
        if is_explained and reaches and (not is_behind or (is_one_bit and count == 1 and not one.is_lost)):
            return count
        if one.is_lost:
            break
    return 0


def _is_left(left: HeaderFacts | None, one: HeaderFacts) -> bool:
    """Whether one bit of the batch before one explains as well that it lies above: it leads up to that one then."""
    return left is not None and is_one_bit(left.stored, left.field(one.begin - left.span - 1))


def _is_one_bit_over(one: HeaderFacts, place: int, ends: Ends) -> bool:
    """Whether a batch reaches over the next segment by one wrong bit, without which it fills the log up to there."""
    is_over = ends.next_base is not None and one.last >= ends.next_base
    return is_over and is_one_bit(one.stored, one.field(place))


def is_too_far(waiting: Sequence[Waiting], before: Before, ends: Ends) -> bool:
    """Tell whether the last batch, behind lost bytes, lies behind all that files know, and farther than these held.

    That nothing is wrong but files that are older costs more then than several wrong bits: no cleaner was in a log to
    which a broker appends.
    """
    one, left = waiting[-1], before.good if len(waiting) == 1 else waiting[-2].batch
    if not one.is_lost or ends.next_base is not None or ends.known is None or one.batch.first is None:
        return False
    begin, end = (before.segment, 0) if left is None else (left.last + 1, left.position + left.size)
    has_room = begin + one.batch.span < ends.known <= one.batch.begin
    return has_room and one.batch.begin - begin > MOST_IN_BYTE * (one.batch.position - end)


def _in_a_row(first: int, some: Iterable[Waiting]) -> list[int]:
    """The base offsets that batches have where the first one has this, and each adjoins the one before it."""
    found = []
    for one in some:
        found.append(first)
        first += one.batch.span + 1
    return found
