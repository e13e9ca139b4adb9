"""A log with ranges that the disk cannot read: there it reads as zeros, which no batch is, and the ranges are noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.format.source import Source

_BLOCK = 4096  # bytes that are given up at once


class TolerantSource:
    """A Source that passes over what cannot be read.

    Args:
        source: the log.

    Attributes:
        broken: position and length of each range that was passed over, and the first error.
    """

    def __init__(self, source: Source) -> None:
        self.name, self.size = source.name, source.size
        self._source = source
        self.broken: dict[int, int] = {}
        self.error: OSError | None = None

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        try:
            return self._source.read_at(position, length)
        except OSError:
            data = bytearray(max(0, min(length, self.size - position)))
            self.read_into(position, memoryview(data))
            return bytes(data)

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        try:
            return self._source.read_into(position, target)
        except OSError:
            pass
        wanted = max(0, min(len(target), self.size - position))
        done = 0
        while done < wanted:
            at = position + done
            size = min(_BLOCK - at % _BLOCK, wanted - done)
            try:
                got = self._source.read_into(at, target[done : done + size])
            except OSError as error:
                self.error = self.error or error
                start = at - at % _BLOCK
                self.broken[start] = min(_BLOCK, self.size - start)
                target[done : done + size] = bytes(size)
                got = size
            if not got:
                break
            done += got
        return done

    def next_data(self, position: int) -> int:
        """Return the first position at or after `position` that is not in a hole, `size` when there is none."""
        try:
            return self._source.next_data(position)
        except OSError:
            return position

    def ranges(self) -> list[tuple[int, int]]:
        """Return position and length of each range that was passed over, adjoining ones as one."""
        found: list[tuple[int, int]] = []
        for start in sorted(self.broken):
            if found and sum(found[-1]) == start:
                found[-1] = (found[-1][0], found[-1][1] + self.broken[start])
            else:
                found.append((start, self.broken[start]))
        return found
