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

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.rescue.valid_runs import batches_of
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.format.source import Source
    from kdump.rescue.log_facts import LogFacts

_PIECE = 1024 * 1024
_COLUMNS = (layout.BASE_OFFSET, layout.SIZE, layout.CRC, layout.LAST_OFFSET, layout.POSITION, layout.BASE_SEQUENCE)
_PLACE = itemgetter(0, 1, 2)
_MOST = 10_000  # batches that are looked at

_Cells = tuple[int, int, int, int, int, int, int]  # the columns, and the number of the log


class CopyLog(TupleValue):
    """A log of a copy.

    Args:
        copy: number of the copy.
        source: as its runs count on it.
        facts: what it has.
        base, end: base offset by its name, and where the next log begins, or other files know it to end; None where
            nothing tells it.
    """

    copy: int
    source: Source
    facts: LogFacts
    base: int | None
    end: int | None


class Stand(TupleValue):
    """A batch where a copy has it.

    Args:
        log: number of the log.
        position, size: bytes.
        first, last: offsets.
        before, after: the last offset before it, and the first one behind it, in its log.
        has_sequence: its producer numbers its records: no other batch has these bytes.
    """

    log: int
    position: int
    size: int
    first: int
    last: int
    before: int
    after: int
    has_sequence: bool

    def may_be_at(self, first: int) -> bool:
        """Tell whether it may have a base offset between its neighbours."""
        return self.before < first and first + self.last - self.first < self.after


class AtTwoPlacesError(Exception):
    """Copies have one batch at different offsets, and nothing tells which is right."""

    def __init__(self, sides: list[Stand]) -> None:
        super().__init__(sides)
        self.sides = sides


def moved_in_holes(logs: Sequence[CopyLog], max_batch_bytes: int, prefer: int | None) -> Iterator[tuple[int, Finding]]:
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
    found: dict[int, list[_Cells]] = {key: [] for key in twice}
    for held in _not_in_all(logs, max_batch_bytes):
        if (some := found.get(_key(held[0]))) is not None and len(some) < _MOST:
            some.extend(held)
    standing = _standing(logs, chain.from_iterable(found.values()), max_batch_bytes)
    for some in found.values():
        yield from _judged(logs, [standing[cells[-1], cells[4]] for cells in some], ranges, prefer)


def _key(cells: _Cells) -> int:
    """What equal batches have in common, wherever they stand."""
    first, size, crc, last, *_ = cells
    return crc << 32 | (size ^ (last - first) << 16) & 0xFFFFFFFF


def _rows(log: CopyLog, number: int, max_batch_bytes: int) -> Iterator[_Cells]:
    """Yield the batches of a log in the order of offsets, but for those of magic 0 and 1."""
    for run in log.facts.runs.by_offset():
        for window in batches_of(log.source, run.start, run.end, max_batch_bytes):
            columns = [window.column(one) for one in (layout.MAGIC, *_COLUMNS)]
            for magic, *cells in zip(*columns, strict=True):
                if magic >= layout.MAGIC_V2:
                    yield (*cells, number)


def _not_in_all(logs: Sequence[CopyLog], max_batch_bytes: int) -> Iterator[list[_Cells]]:
    """Yield the batches that not all copies have, each with all logs that have it."""
    copies = {log.copy for log in logs}
    own = [[number for number, log in enumerate(logs) if log.copy == copy] for copy in copies]
    lines = (chain.from_iterable(_rows(logs[number], number, max_batch_bytes) for number in some) for some in own)
    for _, some in groupby(merge(*lines), key=_PLACE):
        held = list(some)
        if len({logs[cells[-1]].copy for cells in held}) < len(copies):
            yield held


def _judged(
    logs: Sequence[CopyLog], some: Sequence[Stand], ranges: dict[int, tuple[int, int]], prefer: int | None
) -> Iterator[tuple[int, Finding]]:
    """Yield the findings about batches of one content; where they stand at more than two offsets nobody can tell."""
    sides: dict[int, list[Stand]] = {}
    for standing in some:
        sides.setdefault(standing.first, []).append(standing)
    if len(sides) != 2:
        return
    mine, other = sides.values()
    copies = [{logs[it.log].copy for it in side} for side in (mine, other)]
    if not copies[0].isdisjoint(copies[1]) or not _are_same_bytes(logs, mine[0], other[0]):
        return
    reaches = all(
        ranges[copy][0] <= side[0].first <= ranges[copy][1]
        for known, side in ((copies[0], other), (copies[1], mine))
        for copy in known
    )
    if not (mine[0].has_sequence or reaches or _is_one_bit_off(mine[0], other[0])):
        return
    wrong, right = _wrong_side(mine, other, logs, prefer)
    for one in wrong:
        place = logs[one.log].source.name, one.position, one.size
        offsets = one.first, one.last
        yield one.log, Finding(Code.O03, *place, False, *offsets, "baseOffset", right[0].first, one.first)


def _wrong_side(
    one: list[Stand], other: list[Stand], logs: Sequence[CopyLog], prefer: int | None
) -> tuple[list[Stand], list[Stand]]:
    """Return the side that is wrong, and the right one.

    A place is right where the other one does not lie between the same neighbours, or where more copies have it. That it
    adjoins a neighbour tells nothing: by one bit a batch may come to lie at the edge of a hole.

    Raises:
        AtTwoPlacesError: nothing tells.
    """
    tests: tuple[Callable[[list[Stand], list[Stand]], int], ...] = (
        lambda mine, others: all(it.may_be_at(mine[0].first) for it in others),
        lambda mine, _others: len(mine),
        lambda mine, _others: any(logs[it.log].copy == prefer for it in mine),
    )
    for test in tests:
        fits = test(one, other), test(other, one)
        if fits[0] != fits[1]:
            return (other, one) if fits[0] > fits[1] else (one, other)
    raise AtTwoPlacesError([one[0], other[0]])


def _is_one_bit_off(one: Stand, other: Stand) -> bool:
    """Whether one bit takes a batch from one place to another, which it does not adjoin as when it is written again."""
    is_beside = other.first in (one.last + 1, 2 * one.first - one.last - 1)
    return (one.first ^ other.first).bit_count() == 1 and not is_beside


def _standing(logs: Sequence[CopyLog], some: Iterable[_Cells], max_batch_bytes: int) -> dict[tuple[int, int], Stand]:
    """The batches with their neighbours, by number of the log and position."""
    wanted: dict[int, set[int]] = {}
    for cells in some:
        wanted.setdefault(cells[-1], set()).add(cells[4])
    found = {}
    for number, positions in wanted.items():
        log = logs[number]
        before = layout.UNKNOWN if log.base is None else log.base - 1
        for row, following in pairwise(chain(_rows(log, number, max_batch_bytes), (None,))):
            assert row is not None
            first, size, _, last, position, sequence, _ = row
            if position in positions:
                after = log.end if following is None else following[0]
                after = layout.LARGEST_OFFSET + 1 if after is None else after
                ends = first, last, before, after
                found[number, position] = Stand(number, position, size, *ends, sequence >= 0)
            before = last
    return found


def _are_same_bytes(logs: Sequence[CopyLog], one: Stand, other: Stand) -> bool:
    """Whether two batches are equal in all that their CRCs are of."""
    if one.size != other.size:
        return False
    for at in range(layout.ATTRIBUTES_AT, one.size, _PIECE):
        size = min(_PIECE, one.size - at)
        if logs[one.log].source.read_at(one.position + at, size) != logs[other.log].source.read_at(
            other.position + at, size
        ):
            return False
    return True
