"""The entries of an index that are out of order, told from the sound ones around them.

One wrong bit makes an entry too high or too low. Of a stretch that does not ascend most entries are believed: the
longest row of them that does, in both columns. What is left stands aside with a neighbour that it is out of order
with; which of the two is wrong, the log says.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kdump.format import _scan
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HELD = 64  # entries that are judged once more, with those that follow: the last of a chunk may be wrong

Strict = tuple[bool, bool]  # of each column: must it rise from entry to entry, or may it stay


class Entry(NamedTuple):
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
    """A stretch of one entry again and again, too low for what is before it: zeros, mostly.

    Args:
        entry: the first of them.
        near: the believed one before them.
        count: how many there are.
    """

    entry: Entry
    near: Entry
    count: int

    def __iter__(self) -> Iterator[Outlier]:
        for number in range(self.entry.number, self.entry.number + self.count):
            yield Outlier(self.entry._replace(number=number), self.near, True)


class Outlier(Value):
    """An entry that is out of order.

    Args:
        entry: the entry.
        near: the believed one that it is out of order with; before it when `is_low`, else after it.
        is_low: too low for what is before it, else too high for what follows.
    """

    entry: Entry
    near: Entry
    is_low: bool


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
