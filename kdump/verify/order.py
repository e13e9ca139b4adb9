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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HELD = 64  # entries that are judged once more, with those that follow: the last of a chunk may be wrong

Strict = tuple[bool, bool]  # of each column: must it rise from entry to entry, or may it stay


class Entry(NamedTuple):
    """One entry: its number in the index, and both columns."""

    number: int
    first: int
    second: int


class Entries(NamedTuple):
    """Some entries that ascend: their numbers, and both columns."""

    numbers: Sequence[int]
    first: array[int]
    second: array[int]

    def part(self, start: int, stop: int | None = None) -> Entries:
        """Return the entries [start, stop) of these."""
        return Entries(self.numbers[start:stop], self.first[start:stop], self.second[start:stop])

    def rows(self) -> Iterator[Entry]:
        """Yield each entry."""
        return map(Entry, self.numbers, self.first, self.second)


class Outlier(NamedTuple):
    """An entry that is out of order.

    Args:
        entry: the entry.
        near: the believed one that it is out of order with; before it when `is_low`, else after it.
        is_low: too low for what is before it, else too high for what follows.
    """

    entry: Entry
    near: Entry
    is_low: bool


class _Chunk(NamedTuple):
    first: array[int]
    second: array[int]

    def entry(self, k: int, number: int) -> Entry:
        return Entry(number + k, self.first[k], self.second[k])


def in_order(
    chunks: Iterator[tuple[array[int], array[int]]], strict: Strict, floor: tuple[int, int]
) -> Iterator[tuple[Entries, list[Outlier]]]:
    """Sort out which entries ascend.

    Args:
        chunks: both columns, some thousand entries at a time.
        strict: how each column is to ascend.
        floor: what the first entry has to be above, in the same way.

    Yields:
        entries, each above all that were yielded before; the outliers between them.
    """
    number = 0
    held = _Chunk(array("q"), array("q"))
    last = Entry(-1, *floor)
    found = next(chunks, None)
    while found is not None:
        following = next(chunks, None)
        chunk = _Chunk(held.first + found[0], held.second + found[1])
        size = len(chunk.first)
        cut = size if following is None else max(size - _HELD, 0)
        outliers: list[Outlier] = []
        if _is_above(chunk.entry(0, number), last, strict) and all(map(_scan.ascends, chunk, strict)):
            entries = Entries(range(number, number + cut), chunk.first[:cut], chunk.second[:cut])
        else:
            kept, outliers = _sorted_out(chunk, number, strict, last)
            kept = [k for k in kept if k < cut]
            outliers = [one for one in outliers if one.entry.number < number + cut]
            columns = (array("q", map(column.__getitem__, kept)) for column in chunk)
            entries = Entries([number + k for k in kept], *columns)
        if entries.numbers:
            last = Entry(entries.numbers[-1], entries.first[-1], entries.second[-1])
        yield entries, outliers
        number += cut
        held = _Chunk(chunk.first[cut:], chunk.second[cut:])
        found = following


def _sorted_out(chunk: _Chunk, number: int, strict: Strict, last: Entry) -> tuple[list[int], list[Outlier]]:
    """Which entries of a chunk ascend from `last` on, and the others."""
    every = [chunk.entry(k, number) for k in range(len(chunk.first))]
    maybe = [k for k, entry in enumerate(every) if _is_above(entry, last, strict)]
    by_first, by_second = (_longest(column, maybe, is_strict) for column, is_strict in zip(chunk, strict, strict=True))
    believed = sorted(by_first & by_second)
    kept: list[int] = []
    outliers: list[Outlier] = []
    at = 0  # in `believed`
    for k, entry in enumerate(every):
        after = every[believed[at]] if at < len(believed) else None
        is_low = not _is_above(entry, last, strict)
        if entry is after or not (is_low or (after is not None and not _is_above(after, entry, strict))):
            at += entry is after
            kept.append(k)
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
