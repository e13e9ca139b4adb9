"""Decompression of records sections in bounded steps, whatever the bytes are.

The codec libraries are imported when a section of their codec comes, not before: most runs need none or one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.codec import gzip_stream, lz4_frame, xerial, zstd_frame
from kdump.format.codec.base import CodecProblem, CompressionType, PieceReader, StreamDamage
from kdump.format.codec.signatures import looks_like

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.format.codec.base import FastReader, Pieces

__all__ = ["CodecProblem", "CompressionType", "Decompressor", "looks_like"]


class Decompressor:
    """One compressed records section, read in bounded steps.

    It verifies all it can and delivers every byte before a damage.

    Args:
        codec: the codec bits, 0 to 4.
        data: the section, contiguous bytes.
        magic: of the batch.
        limit: bytes to decode at most; more is C03.

    Attributes:
        problem: what is wrong (C01 to C06), for the caller to report; final once `read_into` has returned 0.

    Raises:
        ValueError: there is no such codec (B05).

    Source: org.apache.kafka.common.compress.Compression.wrapForInput
    """

    __slots__ = (
        "_codec",
        "_data",
        "_limit",
        "_magic",
        "_pieces",
        "_produced",
        "_reader",
        "problem",
    )

    def __init__(self, codec: int, data: memoryview, magic: int, limit: int) -> None:
        self.problem: CodecProblem | None = None
        self._codec = codec
        self._data = data
        self._magic = magic
        self._limit = limit
        self._produced = 0
        self._reader: FastReader | None = None
        self._pieces: PieceReader[CodecProblem | None] = PieceReader(nothing())
        if codec not in FAST_READERS:
            raise ValueError(f"there is no codec {codec}")
        try:
            self._reader = FAST_READERS[codec](data, magic, limit)
        except StreamDamage:
            self._start_over()

    def read_into(self, target: memoryview) -> int:
        """Decode the next bytes.

        Args:
            target: writable bytes, at least one.

        Returns:
            How many bytes of `target` were filled: all but at the end; 0 at the end or at damage.
        """
        room = self._limit - self._produced
        if room < len(target):
            if room <= 0:
                return self._look_beyond_limit()
            target = target[:room]
        count = self._read_fast(target) if self._reader else self._fill_from_pieces(target)
        self._produced += count
        return count

    def _look_beyond_limit(self) -> int:
        target = memoryview(bytearray(1))
        if self._read_fast(target) if self._reader else self._fill_from_pieces(target):
            self._reader = None
            self._pieces = PieceReader(nothing())
            self.problem = CodecProblem(Code.C03, f"it decodes to more than {self._limit} bytes", fatal=True)
        return 0

    def _read_fast(self, target: memoryview) -> int:
        reader = self._reader
        assert reader is not None
        try:
            count = reader.read_into(target)
        except StreamDamage:
            self._start_over()
            return self._fill_from_pieces(target)
        if count < len(target):
            self.problem = reader.problem
        return count

    def _start_over(self) -> None:
        """Read carefully from the start, passing over what was delivered."""
        self._reader = None
        codec = CompressionType(self._codec)
        looks = looks_like(self._data, self._magic) if self._produced == 0 else None
        if looks not in (None, codec.label):
            self.problem = CodecProblem(Code.C05, str(looks), fatal=True)
            return
        self._pieces = PieceReader(open_carefully(codec, self._data, self._magic, self._limit))
        self._pieces.skip(self._produced)

    def _fill_from_pieces(self, target: memoryview) -> int:
        count = self._pieces.read_into(target)
        if count < len(target):
            self.problem = self._pieces.ending or self.problem
        return count


def nothing() -> Pieces:
    """Yield no bytes."""
    yield from ()
    return None


class PlainReader:
    """A section that is not compressed.

    Args:
        data: the whole section.
        magic: of the batch.
    """

    def __init__(self, data: memoryview, magic: int) -> None:
        looks = looks_like(data, magic)
        other = looks in {codec.label for codec in CompressionType}
        self.problem = CodecProblem(Code.C05, str(looks), fatal=False) if other else None
        self._rest = data

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see FastReader."""
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


FAST_READERS: dict[int, Callable[[memoryview, int, int], FastReader]] = {
    CompressionType.NONE: lambda data, magic, limit: PlainReader(data, magic),
    CompressionType.GZIP: lambda data, magic, limit: gzip_stream.GzipReader(data),
    CompressionType.SNAPPY: lambda data, magic, limit: xerial.SnappyReader(data, limit),
    CompressionType.LZ4: lambda data, magic, limit: lz4_frame.open_frame(data, magic),
    CompressionType.ZSTD: lambda data, magic, limit: zstd_frame.ZstdReader(data),
}
"""The fast reader of each codec, by its number; each may raise StreamDamage."""


def open_carefully(codec: CompressionType, data: memoryview, magic: int, limit: int) -> Pieces:
    """Return the pieces of a damaged section, as far as each can be decoded."""
    if codec is CompressionType.ZSTD:
        return zstd_frame.read_carefully(data)
    if codec is CompressionType.LZ4:
        return lz4_frame.read_carefully(data, magic)
    if codec is CompressionType.SNAPPY:
        return xerial.read_carefully(data, limit)
    return gzip_stream.read_carefully(data)
