"""`Source`: the bytes of a file, as the parsers see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kdump.format.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence


class Source(Protocol):
    """A file of fixed size that can be read at any position.

    Attributes:
        name: what messages call it: the path as the user wrote it.
        size: bytes; fixed when the source is opened, whatever happens to the file later.
        is_growing: a broker may be appending to it: what stands at its end may not be whole yet.
    """

    @property
    def name(self) -> str:
        """The name of the source in messages."""

    @property
    def size(self) -> int:
        """Bytes, fixed at open."""

    @property
    def is_growing(self) -> bool:
        """Whether a broker may be appending to it."""

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end of the source."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` with the bytes from `position` on; return how many there were."""

    def next_data(self, position: int) -> int:
        """Return the first position at or after `position` that is not in a hole, `size` when there is none."""

    def unreadable(self, start: int, end: int) -> Sequence[tuple[int, int, str]]:
        """Return what of [start, end) reading has passed over: start and end of each range, and why it failed."""


_PIECE = 1 << 20


def crc32c_of(source: Source, start: int, end: int) -> int:
    """Return the CRC-32C of a part of a source; a large one is not held.

    Args:
        source: of the bytes.
        start, end: of the part, half-open.

    Raises:
        OSError: it cannot be read.
    """
    found = 0
    for at in range(start, end, _PIECE):
        found = crc32c(source.read_at(at, min(_PIECE, end - at)), found)
    return found


class BytesSource:
    """A Source over bytes in memory."""

    is_growing = False

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        self.name = name
        self._data = memoryview(data)
        self.size = len(data)

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        return bytes(self._data[position : position + length])

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        part = self._data[position : position + len(target)]
        target[: len(part)] = part
        return len(part)

    def next_data(self, position: int) -> int:
        """Return `position`: memory has no holes."""
        return min(position, self.size)

    def unreadable(self, _start: int, _end: int) -> tuple[()]:
        """Return none."""
        return ()
