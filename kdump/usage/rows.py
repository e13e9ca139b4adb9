"""Sums by name, and the rows that they become: all of them together are the sizes of all files.

Names of batches (codecs, producers, days) are kept in a sketch: where there are more than it has room for, the smallest
lose what the others keep (Misra and Gries, by weight), and no sum is wrong by more than what was lost. Those of
records are in `key_sums`.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from kdump.usage._sums import FIRST, LAST, WEIGHT
from kdump.usage.key_sums import empty

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

ROOM = 1 << 15  # names; up to twice as many are held
LOG, INDEX, OTHER, LEFTOVER = range(4)


def add(sums: array[int], more: array[int]) -> None:
    """Add sums to others."""
    first, last = min(sums[FIRST], more[FIRST]), max(sums[LAST], more[LAST])
    sums[FIRST] = sums[LAST] = 0
    for number, value in enumerate(more):
        if number not in (FIRST, LAST):
            sums[number] += value
    sums[FIRST], sums[LAST] = first, last


class Names:
    """Sums by name, with bounded memory.

    Args:
        room: names that are kept at least.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.sums: dict[str, array[int]] = {}  # by name
        self.error = 0  # bytes by which a weight may be too low, or a name's that is missing; 0 where all are exact
        self._room = room

    def of(self, name: str) -> array[int]:
        """Return the sums of a name, to be added to."""
        sums = self.sums.get(name)
        if sums is None:
            if len(self.sums) >= 2 * self._room:
                self._shrink()
            sums = self.sums[name] = empty()
        return sums

    def _shrink(self) -> None:
        """Let go of the smallest: all lose what the largest of them has."""
        lost = sorted(map(itemgetter(WEIGHT), self.sums.values()))[-self._room]
        self.error += lost
        for sums in self.sums.values():
            sums[WEIGHT] -= lost
        self.sums = {name: sums for name, sums in self.sums.items() if sums[WEIGHT] > 0}

    def join(self, sums: Mapping[str, array[int]], error: int) -> None:
        """Add the sums of another one, with its error."""
        for name, more in sums.items():
            add(self.of(name), more)
        self.error += error
