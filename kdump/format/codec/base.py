"""The base of all codecs: their numbers, their problems, and the readers of decoded bytes."""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kdump.value import Value

if TYPE_CHECKING:
    from kdump.finding import Code


class CompressionType(IntEnum):
    """The codec bits of a batch.

    Source: org.apache.kafka.common.record.CompressionType
    """

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Kafka's name of the codec."""
        return self.name.lower()


_NAMES = tuple(codec.label for codec in CompressionType)


def codec_name(number: int) -> str:
    """Return Kafka's name of a codec, `unknown:N` where Kafka has none.

    Args:
        number: the codec bits of a batch.
    """
    return _NAMES[number] if number < len(_NAMES) else f"unknown:{number}"


class CodecProblem(Value):
    """The reason why a stream could not be read to its end, or a fault that loses no bytes."""

    # C01 damaged, C02 ends early or bytes after the end, C03 over the limit, C04 a declared size that is a lie, C05 the
    # bytes are something else, C06 content checksum of lz4
    code: Code
    why: str  # phrase for the sentence of the finding; for C05 what the bytes look like
    fatal: bool  # the bytes end before they should; False when all of them were delivered


Pieces = Generator[bytes | memoryview, None, CodecProblem | None]
"""Decoded bytes from the start of a section, in bounded pieces; returns what was wrong."""

_Ending = TypeVar("_Ending")


class PieceReader(Generic[_Ending]):
    """Fills buffers from pieces of any size.

    Args:
        pieces: the bytes.
    """

    def __init__(self, pieces: Generator[bytes | memoryview, None, _Ending]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")
        self.ending: _Ending | None = None  # what the pieces returned; None before their end

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; return how many bytes there were, fewer only at the end."""
        filled, room = 0, len(target)
        while filled < room and self._has_piece():
            count = min(len(self._piece), room - filled)
            target[filled : filled + count] = self._piece[:count]
            self._piece = self._piece[count:]
            filled += count
        return filled

    def skip(self, size: int) -> None:
        """Pass over `size` bytes, fewer only at the end."""
        while size and self._has_piece():
            count = min(len(self._piece), size)
            self._piece = self._piece[count:]
            size -= count

    def _has_piece(self) -> bool:
        try:
            while not self._piece:
                self._piece = memoryview(next(self._pieces))
        except StopIteration as stop:
            self.ending = stop.value or self.ending
            return False
        return True


class StreamDamage(Exception):  # noqa: N818  (a signal between the modules of the codecs; it never leaves them)
    """The fast reader met something that only the careful reader of its codec can judge."""


class FastReader(Protocol):
    """Reads a section that is sound with the C library; gives up at the first thing that is not."""

    problem: CodecProblem | None  # what is odd at the end; final when `read_into` has returned less than was asked

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; return how many bytes there were, fewer only at the end.

        Raises:
            StreamDamage: bytes may have been lost in this call: the careful reader must start over.
        """


class DecodedStream(Protocol):
    """The decoded bytes of a section."""

    problem: CodecProblem | None

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; return how many bytes there were, 0 only at the end."""
