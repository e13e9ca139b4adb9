"""Sums by name, and the rows that they become: all of them together are the sizes of all files.

Names without bound (keys, producers, groups) are kept in a sketch: where there are more than it has room for, the
smallest lose what the others keep (Misra and Gries, by weight), and no sum is wrong by more than what was lost.
"""

from __future__ import annotations

from operator import itemgetter

ROOM = 50_000  # names; up to twice as many are held
LOG, INDEX, OTHER, LEFTOVER = range(4)
(
    WEIGHT,
    BYTES,
    RECORDS,
    KEY_BYTES,
    VALUE_BYTES,
    UNCOMPRESSED,
    FIRST,
    LAST,
    SUPERSEDED,
    SUPERSEDED_BYTES,
    BATCHES,
    WIDTH,
) = range(12)
NEVER = 2**63


def empty() -> list[int]:
    """Return the sums of nothing."""
    sums = [0] * WIDTH
    sums[FIRST], sums[LAST] = NEVER, -NEVER
    return sums


def add(sums: list[int], more: list[int]) -> None:
    """Add sums to others."""
    first, last = min(sums[FIRST], more[FIRST]), max(sums[LAST], more[LAST])
    for number, value in enumerate(more):
        sums[number] += value
    sums[FIRST], sums[LAST] = first, last


class Names:
    """Sums by name, with bounded memory.

    Args:
        room: names that are kept at least.

    Attributes:
        sums: by name.
        error: bytes by which a weight may be too low, or a name's that is missing; 0 where all are exact.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.sums: dict[object, list[int]] = {}
        self.error = 0
        self._room = room

    def of(self, name: object) -> list[int]:
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

    def largest(self, count: int | None) -> list[tuple[object, list[int]]]:
        """Return names and sums by weight, the largest first.

        Args:
            count: how many; None for all.
        """
        by_name = sorted(self.sums.items(), key=lambda one: repr(one[0]))
        return sorted(by_name, key=lambda one: -one[1][WEIGHT])[:count]
