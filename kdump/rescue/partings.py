"""Where sources part: the first offset at which one contradicts the source that counts, as its batches tell.

A log is written once, in order: so all that a source has behind the first offset at which another history is known to
have something else is of its own history, also where the one that counts ends earlier or has a hole. A source that has
the same batch as one that has parted, behind the place where that parted, is of that history too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.rescue.epochs import NEVER
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.rescue.line import Candidate

    Branch = Iterable["BranchBatch"]
    """The batches of one source, each behind the one before, which can be gone through more than once."""


class BranchBatch(TupleValue):
    """A batch of a branch."""

    # offset, last_offset: of it
    offset: int
    last_offset: int
    epoch: int  # its leader epoch, -1 for none
    identity: tuple[int, int]  # of its bytes: two batches of these offsets with the same one are the same batch
    side: Candidate | None = None  # where it can be read again; None where nobody has to

    def is_same(self, other: BranchBatch) -> bool:
        """Tell whether both are one batch. The epoch is outside of the CRC, and may be wrong in one of them."""
        return (self.offset, self.last_offset, self.identity) == (other.offset, other.last_offset, other.identity)

    def has_offsets_of(self, other: BranchBatch) -> bool:
        """Tell whether both have the same offsets."""
        return (self.offset, self.last_offset) == (other.offset, other.last_offset)


class Parting(TupleValue):
    """How far a branch goes with the one that counts."""

    cut: int = NEVER  # the first offset at which it is another history; NEVER where nothing shows that
    agreed: int = -1  # the last offset of the last batch below that which both have, -1 for none


def partings(
    branches: Sequence[Branch],
    chosen: int,
    ends: Sequence[int],
    is_version: Callable[[BranchBatch, BranchBatch], bool],
) -> list[Parting]:
    """Return how far each branch goes with the one that counts.

    Args:
        branches: all of them.
        chosen: number of the one that counts.
        ends: up to which offset (exclusive) each counts by its leader epochs.
        is_version: tells of two batches of the same offsets and epoch whether compaction made one out of the other.
    """
    found = [
        Parting(ends[chosen]) if number == chosen else _parting(branches[chosen], branch, ends[number], is_version)
        for number, branch in enumerate(branches)
    ]
    # those that have parted, the lowest first: who goes on with one of these has parted where that has
    waiting = sorted((one for one in range(len(found)) if found[one].cut < ends[one]), key=lambda one: found[one].cut)
    while waiting:
        parted = waiting.pop(0)
        cut = found[parted].cut
        for number, other in enumerate(found):
            if number == chosen or other.cut <= cut or other.agreed >= cut:
                continue
            if _goes_with(branches[number], branches[parted], cut):
                found[number] = Parting(cut, other.agreed)
                waiting.append(number)
                waiting.sort(key=lambda one: found[one].cut)
    return found


def _parting(
    chosen: Branch, branch: Branch, end: int, is_version: Callable[[BranchBatch, BranchBatch], bool]
) -> Parting:
    agreed = -1
    for one, other in _overlaps(chosen, branch, 0):
        if other.last_offset >= end:
            break
        is_one = one.is_same(other)
        if not is_one and one.epoch == other.epoch and (one.epoch < 0 or one.has_offsets_of(other)):
            is_one = is_version(one, other)  # a cleaner changes the offsets of a message of magic 0 or 1
        if not is_one:
            return Parting(min(end, max(one.offset, other.offset)), agreed)
        agreed = other.last_offset
    return Parting(end, agreed)


def _goes_with(branch: Branch, other: Branch, start: int) -> bool:
    """Whether two branches have one batch in common that ends at an offset or behind it."""
    return any(one.is_same(two) for one, two in _overlaps(branch, other, start))


def _overlaps(one: Branch, other: Branch, start: int) -> Iterator[tuple[BranchBatch, BranchBatch]]:
    """Yield each two batches of two branches that have an offset in common, of those that reach up to an offset."""
    left = (batch for batch in one if batch.last_offset >= start)
    right = (batch for batch in other if batch.last_offset >= start)
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        if a.offset <= b.last_offset and b.offset <= a.last_offset:
            yield a, b
        if a.last_offset <= b.last_offset:
            a = next(left, None)
        else:
            b = next(right, None)
