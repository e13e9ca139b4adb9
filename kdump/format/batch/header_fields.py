"""Which fields of batch headers outside the CRC can have one value only, and a log read as if they had it.

A base offset is determined by both neighbours, or by one when a single bit makes the difference, or by what it fills
with others between sound ones (`base_offset`); a length and a magic by the CRC, which is right with one value of them;
a leader epoch by two witnesses (`epoch_order`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Trait
from kdump.format.batch import layout
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kdump.format.source import Source

_PLACES = {
    "baseOffset": (layout.OFFSET_AT, 8),
    "batchLength": (layout.SIZE_AT, 4),
    "partitionLeaderEpoch": (layout.LEADER_EPOCH_AT, 4),
    "magic": (layout.MAGIC_AT, 1),
}


class Patch(Value):
    """Some bytes of a file that become others, of the same number."""

    position: int  # of the first
    # old, new: the bytes
    old: bytes
    new: bytes


def is_of_header(finding: Finding) -> bool:
    """Tell whether a field of a header is wrong that no CRC covers, or that the CRC itself determines."""
    code = finding.code
    if code is Code.B02:
        return finding.field == "magic"
    if code is Code.E03:  # the leader-epoch-checkpoint says another one, and that may be what is wrong
        return False
    is_gap = finding.gap and Trait.BATCH_LENGTH in code.traits
    return Trait.PATCH_HEADER in code.traits and not is_gap and not finding.is_overlap


def patch_of(finding: Finding, source: Source) -> Patch:
    """Return what puts a field right whose value is determined.

    Args:
        finding: about a header, with the number that is expected.
        source: the log as it is.
    """
    assert finding.position is not None
    assert isinstance(finding.expected, int)
    at, size = _PLACES[str(finding.field)]
    position = finding.position + at
    old = source.read_at(position, size)
    return Patch(position, old, finding.expected.to_bytes(size, "big", signed=True))


class Overlay:
    """A source with some of its bytes replaced.

    Args:
        source: the file.
        patches: what replaces them.
    """

    def __init__(self, source: Source, patches: Iterable[Patch]) -> None:
        self.name, self.size = source.name, source.size
        self._source = source
        self._patches = sorted(patches, key=lambda one: one.position)
        self._ends = [one.position + len(one.new) for one in self._patches]  # they do not overlap

    @property
    def is_growing(self) -> bool:
        """As of the file."""
        return self._source.is_growing

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        data = bytearray(self._source.read_at(position, length))
        self._put(position, memoryview(data), len(data))
        return bytes(data)

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        done = self._source.read_into(position, target)
        self._put(position, target, done)
        return done

    def next_data(self, position: int) -> int:
        """Return the first position at or after `position` that is not in a hole, `size` when there is none."""
        return self._source.next_data(position)

    def unreadable(self, start: int, end: int) -> Sequence[tuple[int, int, str]]:
        """Return what of [start, end) reading has passed over: start and end of each range, and why it failed."""
        return self._source.unreadable(start, end)

    def _put(self, position: int, target: memoryview, size: int) -> None:
        for one in self._patches[bisect_right(self._ends, position) :]:
            if one.position >= position + size:
                return
            first, last = max(one.position, position), min(one.position + len(one.new), position + size)
            if first < last:
                target[first - position : last - position] = one.new[first - one.position : last - one.position]
