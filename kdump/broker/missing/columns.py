"""Many holes of a partition, held as columns of numbers: a million of them cost some megabytes."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import MissingRange, Proof
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator

_FEWEST_DROPPED = 1024
_Kind = tuple[tuple[str, ...], Proof | None]
"""What else there is to know of a hole: why it is told, and what proves it. Few holes differ in that."""


class MissingRun(TupleValue):
    """Holes that adjoin each other: the first and the last of them, and how many they are."""

    begin: MissingRange
    end: MissingRange
    parts: int


class MissingColumns:
    """Holes in the order of their offsets; they come at the end, and go at the front.

    Holes that adjoin each other, those of neighbouring logs, make a run: one hole of the partition.
    """

    def __init__(self) -> None:
        self._firsts, self._lasts, self._positions = array("q"), array("q"), array("q")
        self._files, self._kinds = array("l"), array("H")
        self._names: list[str] = []
        self._known: dict[_Kind, int] = {}
        self._begin = 0  # those before it are gone
        self._runs = array("q")  # number of the first hole of each run, counted from the first hole ever
        self._run = 0  # the first run that is here
        self._gone = 0  # holes that the columns have no more

    def __len__(self) -> int:
        return len(self._firsts) - self._begin

    def __iter__(self) -> Iterator[MissingRange]:
        kinds = list(self._known)
        for at in range(self._begin, len(self._firsts)):
            yield self._at(at, kinds)

    def _at(self, at: int, kinds: list[_Kind]) -> MissingRange:
        name = self._names[self._files[at]]
        because, proof = kinds[self._kinds[at]]
        return MissingRange(self._firsts[at], self._lasts[at], because, name, self._positions[at], proof=proof)

    def add(self, hole: MissingRange) -> None:
        """Take a hole behind all that are here."""
        if not len(self) or self._lasts[-1] + 1 != hole.first:
            self._runs.append(self._gone + len(self._firsts))
        self._firsts.append(hole.first)
        self._lasts.append(hole.last)
        self._positions.append(hole.position)
        if not self._names or self._names[-1] != hole.file:
            self._names.append(hole.file)
        self._files.append(len(self._names) - 1)
        self._kinds.append(self._known.setdefault((hole.because, hole.proof), len(self._known)))

    @property
    def last(self) -> int:
        """The last offset of the last hole, -1 for none."""
        return self._lasts[-1] if len(self) else -1

    def has(self, last: int) -> bool:
        """Tell whether a hole ends at an offset."""
        at = bisect_left(self._lasts, last, self._begin)
        return at < len(self._lasts) and self._lasts[at] == last

    def over(self, first: int, last: int) -> Iterator[MissingRange]:
        """Yield the holes that have any of some offsets, inclusive."""
        kinds = list(self._known)
        for at in range(bisect_left(self._lasts, first, self._begin), len(self._firsts)):
            if self._firsts[at] > last:
                return
            yield self._at(at, kinds)

    def run_around(self, offset: int) -> tuple[int, int] | None:
        """Return the first and last offset of the run that an offset is in; None for none."""
        low, high = self._run, len(self._runs)
        while low < high:
            middle = (low + high) // 2
            if self._extent(middle)[1] < offset:
                low = middle + 1
            else:
                high = middle
        if low == len(self._runs):
            return None
        first, last = self._extent(low)
        return (first, last) if first <= offset else None

    def _bounds(self, run: int) -> tuple[int, int]:
        """Number of the first hole of a run, and of the one behind its last."""
        stop = self._runs[run + 1] - self._gone if run + 1 < len(self._runs) else len(self._firsts)
        return max(self._runs[run] - self._gone, self._begin), stop

    def _extent(self, run: int) -> tuple[int, int]:
        begin, stop = self._bounds(run)
        return self._firsts[begin], self._lasts[stop - 1]

    def _one_run(self, run: int) -> MissingRun:
        (begin, stop), kinds = self._bounds(run), list(self._known)
        return MissingRun(self._at(begin, kinds), self._at(stop - 1, kinds), stop - begin)

    def runs(self) -> Iterator[MissingRun]:
        """Yield the runs, in order."""
        for run in range(self._run, len(self._runs)):
            yield self._one_run(run)

    def first_run(self) -> MissingRun | None:
        """Return the first run; None for none."""
        return self._one_run(self._run) if len(self) else None

    @property
    def has_more_runs(self) -> bool:
        """Whether there is another run behind the first one."""
        return self._run + 1 < len(self._runs)

    def pop(self) -> MissingRange:
        """Take the first hole away, and return it."""
        found = self._at(self._begin, list(self._known))
        at_end = self._begin + 1 == self._bounds(self._run)[1]
        self._begin += 1
        self._run += at_end
        if self._begin >= max(_FEWEST_DROPPED, len(self._firsts) // 2):
            for column in (self._firsts, self._lasts, self._positions, self._files, self._kinds):
                del column[: self._begin]
            self._gone += self._begin
            self._begin = 0
            del self._runs[: self._run]
            self._run = 0
        return found
