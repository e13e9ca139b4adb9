"""Ranges of numbers, held as two arrays: many of them cost little, and each question is a search by bisection."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class RangeSet:
    """A set of numbers of 64 bits, as ranges that do not touch each other, in order.

    Attributes:
        firsts, lasts: of each range, inclusive.
    """

    __slots__ = ("firsts", "lasts")

    def __init__(self) -> None:
        self.firsts, self.lasts = array("q"), array("q")

    def __len__(self) -> int:
        return len(self.firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.firsts, self.lasts, strict=True)

    def add(self, first: int, last: int) -> None:
        """Add the numbers from `first` to `last`; none where `last` is below.

        Raises:
            OverflowError: one has more than 64 bits.
        """
        if first > last:
            return
        begin, end = bisect_left(self.lasts, first - 1), bisect_right(self.firsts, last + 1)  # those that it touches
        if begin < end:
            first, last = min(first, self.firsts[begin]), max(last, self.lasts[end - 1])
        new = array("q", (first, last))
        self.firsts[begin:end], self.lasts[begin:end] = new[:1], new[1:]

    def reaching(self, first: int) -> int:
        """Return the number of the first range that ends at or behind a number; their count where none does."""
        return bisect_left(self.lasts, first)

    def over(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges that have any number from `first` to `last`."""
        for at in range(self.reaching(first), len(self)):
            if self.firsts[at] > last:
                return
            yield self.firsts[at], self.lasts[at]

    def has_any(self, first: int, last: int) -> bool:
        """Tell whether any number from `first` to `last` is here."""
        at = self.reaching(first)
        return first <= last and at < len(self) and self.firsts[at] <= last

    def has_all(self, first: int, last: int) -> bool:
        """Tell whether all numbers from `first` to `last` are here."""
        at = self.reaching(first)
        return first > last or (at < len(self) and self.firsts[at] <= first and last <= self.lasts[at])
