"""Batches that copies have at different offsets: in one of them the base offset is wrong.

A base offset is outside the CRC. In a hole that compaction has left nothing in a log speaks against a wrong one;
another copy does, that has the same bytes elsewhere and none there. Equal bytes may also be different batches, which a
producer without an id has written again: each copy then has both, or lacks one where its own log does not reach.

Strategy: the logs are walked side by side, and of what not all have a number for each batch is kept. Only where two of
these are equal a second walk looks at the batches themselves.
"""

from __future__ import annotations

from array import array
from heapq import merge
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from kdump.format.batch.header_judge import is_one_bit
from kdump.rescue.base_offset.seen import are_same_bytes, seen_in, with_neighbours
from kdump.rescue.valid_runs import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.finding import Finding
    from kdump.rescue.base_offset.seen import CopyLog, Neighbourhood, SeenBatch

_PLACE = itemgetter(0, 1, 2)  # as `SeenBatch.place`
_MOST = 10_000  # batches that are looked at


class AtTwoPlacesError(Exception):
    """Copies have one batch at different offsets, and nothing tells which is right."""

    def __init__(self, sides: list[SeenBatch]) -> None:
        super().__init__(sides)
        self.sides = sides


def wrong_in_holes(logs: Sequence[CopyLog], max_batch_bytes: int, prefer: int | None) -> Iterator[tuple[int, Finding]]:
    """Yield a finding for each batch whose base offset is wrong by another copy, with the number of its log.

    Args:
        logs: of all copies.
        max_batch_bytes: of a larger batch only the header is read.
        prefer: number of the copy that is right where nothing else tells, None for none.

    Raises:
        AtTwoPlacesError: nothing tells which offset is right.

    Reports: O03.
    """
    ranges: dict[int, tuple[int, int]] = {}
    for log in logs:
        if log.facts.first is not None and log.facts.last is not None:
            first, last = ranges.get(log.copy, (log.facts.first, log.facts.last))
            ranges[log.copy] = min(first, log.facts.first), max(last, log.facts.last)
    keys = array("Q", (_key(held[0]) for held in _not_in_all(logs, max_batch_bytes)))
    twice = {key for key, following in pairwise(sorted(keys)) if key == following}
    if not twice:
        return
    found: dict[int, list[SeenBatch]] = {key: [] for key in twice}
    for held in _not_in_all(logs, max_batch_bytes):
        if (some := found.get(_key(held[0]))) is not None and len(some) < _MOST:
            some.extend(held)
    standing = _standing(logs, chain.from_iterable(found.values()), max_batch_bytes)
    for some in found.values():
        yield from _judged(logs, [standing[row.log, row.position] for row in some], ranges, prefer)


def _key(row: SeenBatch) -> int:
    """What equal batches have in common, wherever they stand, in 64 bits."""
    size, crc, span = row.content
    return crc << 32 | (size ^ span << 16) & 0xFFFFFFFF


def _rows(log: CopyLog, number: int, max_batch_bytes: int) -> Iterator[SeenBatch]:
    """The batches of a log in the order of offsets."""
    for run in log.facts.runs.by_offset():
        yield from seen_in(batches_of(log.source, run.start, run.end, max_batch_bytes), log.facts.wrappers, number)


def _not_in_all(logs: Sequence[CopyLog], max_batch_bytes: int) -> Iterator[list[SeenBatch]]:
    """Yield the batches that not all copies have, each with all logs that have it."""
    copies = {log.copy for log in logs}
    own = [[number for number, log in enumerate(logs) if log.copy == copy] for copy in copies]
    lines = (chain.from_iterable(_rows(logs[number], number, max_batch_bytes) for number in some) for some in own)
    for _, some in groupby(merge(*lines), key=_PLACE):
        held = list(some)
        if len({logs[row.log].copy for row in held}) < len(copies):
            yield held


def _judged(
    logs: Sequence[CopyLog], some: Sequence[Neighbourhood], ranges: dict[int, tuple[int, int]], prefer: int | None
) -> Iterator[tuple[int, Finding]]:
    """Yield the findings about batches of one content; where they stand at more than two offsets nobody can tell."""
    sides: dict[int, list[Neighbourhood]] = {}
    for standing in some:
        sides.setdefault(standing.row.first, []).append(standing)
    if len(sides) != 2:
        return
    mine, other = sides.values()
    copies = [{logs[it.row.log].copy for it in side} for side in (mine, other)]
    one, its = mine[0].row, other[0].row
    if not copies[0].isdisjoint(copies[1]) or not are_same_bytes(one, logs[one.log].source, its, logs[its.log].source):
        return
    reaches = all(
        ranges[copy][0] <= first <= ranges[copy][1]
        for known, first in ((copies[0], its.first), (copies[1], one.first))
        for copy in known
    )
    is_at_home = all(any(map(_adjoins, side)) for side in (mine, other))  # several wrong bits do not make that
    if not (one.sequence >= 0 or _is_one_bit_off(one, its) or (reaches and not is_at_home)):
        return  # of a producer with sequences no other batch has the same ones
    wrong, right = _wrong_side(mine, other, logs, prefer)
    for row, _, _ in wrong:
        yield row.log, row.moved_to(right[0].row.first, logs[row.log].source.name)


def _wrong_side(
    one: list[Neighbourhood], other: list[Neighbourhood], logs: Sequence[CopyLog], prefer: int | None
) -> tuple[list[Neighbourhood], list[Neighbourhood]]:
    """Return the side that is wrong, and the right one.

    A place is right where the other one does not lie between the same neighbours, or where more copies have it. That it
    adjoins a neighbour tells nothing: by one bit a batch may come to lie at the edge of a hole.

    Raises:
        AtTwoPlacesError: nothing tells.
    """
    tests: tuple[Callable[[list[Neighbourhood], list[Neighbourhood]], int], ...] = (
        lambda mine, others: all(_may_be_at(it, logs[it.row.log], mine[0].row.first) for it in others),
        lambda mine, _others: len(mine),
        lambda mine, _others: any(logs[it.row.log].copy == prefer for it in mine),
    )
    for test in tests:
        fits = test(one, other), test(other, one)
        if fits[0] != fits[1]:
            return (other, one) if fits[0] > fits[1] else (one, other)
    raise AtTwoPlacesError([one[0].row, other[0].row])


def _may_be_at(one: Neighbourhood, log: CopyLog, first: int) -> bool:
    """Whether a batch may have a base offset between its neighbours."""
    before = log.before if one.before is None else one.before.last
    after = log.stop if one.after is None else one.after.first
    return before < first and first + one.row.last - one.row.first < after


def _adjoins(one: Neighbourhood) -> bool:
    """Whether a batch adjoins one beside it in its log."""
    is_behind = one.before is not None and one.before.last + 1 == one.row.first
    return is_behind or (one.after is not None and one.after.first == one.row.last + 1)


def _is_one_bit_off(one: SeenBatch, other: SeenBatch) -> bool:
    """Whether one bit takes a batch from one place to another, which it does not adjoin as when it is written again."""
    is_beside = other.first in (one.last + 1, 2 * one.first - one.last - 1)
    return is_one_bit(one.first, other.first) and not is_beside


def _standing(
    logs: Sequence[CopyLog], some: Iterable[SeenBatch], max_batch_bytes: int
) -> dict[tuple[int, int], Neighbourhood]:
    """The batches with their neighbours, by number of the log and position."""
    wanted: dict[int, set[int]] = {}
    for row in some:
        wanted.setdefault(row.log, set()).add(row.position)
    return {
        (number, one.row.position): one
        for number, positions in wanted.items()
        for one in with_neighbours(_rows(logs[number], number, max_batch_bytes))
        if one.row.position in positions
    }
