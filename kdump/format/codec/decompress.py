"""Compressed records sections, decoded in bounded steps; no bytes can make it raise or grow.

The codec libraries are imported when a section of their codec comes, not before: most runs need none or one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.codec import gzip_stream as gzipstream
from kdump.format.codec import lz4_fast as lz4fast
from kdump.format.codec import lz4_frame as lz4frame
from kdump.format.codec import xerial
from kdump.format.codec import zstd_frame as zstdframe
from kdump.format.codec.base import CodecProblem, CompressionType, Damage
from kdump.format.codec.signatures import looks_like

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.format.codec.base import FastReader, Pieces

__all__ = ["CodecProblem", "CompressionType", "Decompressor", "looks_like"]

# Kafka's messages about lz4 count from the start of the batch: bytes before the section, by magic. A wrapper
# of magic 0 or 1 is taken to have no key; none of Kafka's writers gave it one.
BYTES_BEFORE = (26, 34, 61)
SCRATCH = 1 << 17


class Decompressor:
    """One compressed records section, read in bounded steps.

    The checked personality verifies all it can and delivers every byte before a damage. Kafka's delivers what
    a consumer of Kafka 4.3.1 gets before its decompressor throws, and says what it throws: `problem.why` when
    a record was still wanted, `problem.after` when all records of the batch were complete. It is as fast as
    the other where the first target is larger than the decoded section; a larger section is decoded twice, for
    what Kafka delivers of a damaged one cannot be known before its damage is.

    Args:
        codec: the codec bits, 0 to 4.
        data: the section, contiguous bytes.
        magic: of the batch.
        limit: bytes to decode at most; more is C03.
        kafka: Kafka's personality instead of the checked one.

    Attributes:
        problem: what is wrong (C01 to C06), for the caller to report; final once `read_into` has returned 0.

    Raises:
        ValueError: there is no such codec (B05).

    Source: org.apache.kafka.common.compress.Compression.wrapForInput
    """

    __slots__ = (
        "_codec",
        "_data",
        "_kafka",
        "_limit",
        "_magic",
        "_piece",
        "_pieces",
        "_produced",
        "_reader",
        "_sound",
        "problem",
    )

    def __init__(self, codec: int, data: memoryview, magic: int, limit: int, *, kafka: bool = False) -> None:
        self.problem: CodecProblem | None = None
        self._codec = codec
        self._data = data
        self._magic = magic
        self._limit = limit
        self._kafka = kafka
        self._produced = 0
        self._reader: FastReader | None = None
        self._pieces: Pieces | None = None
        self._piece = NO_BYTES
        self._sound = False
        if codec not in FAST_READERS:
            raise ValueError(f"there is no codec {codec}")
        try:
            self._reader = FAST_READERS[codec](data, magic, limit)
        except Damage:
            self._start_over()

    @property
    def trailing_error(self) -> bool:
        """Whether Kafka read the stream to its proper end and throws at what is behind it."""
        return self.problem is not None and self.problem.trailing

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
            why = f"it decodes to more than {self._limit} bytes"
            self._end_with(CodecProblem(Code.C03, why, fatal=True))
        return 0

    def _end_with(self, problem: CodecProblem | None) -> None:
        self.problem = problem
        self._pieces = None
        self._piece = NO_BYTES

    def _read_fast(self, target: memoryview) -> int:
        reader = self._reader
        assert reader is not None
        try:
            count = reader.read_into(target)
        except Damage:
            self._start_over()
            return self._fill_from_pieces(target)
        if self._kafka and not self._sound:
            self._sound = not reader.problem if count < len(target) else self._is_sound()
            if not self._sound:
                self._start_over()
                return self._fill_from_pieces(target)
        if count < len(target):
            self.problem = reader.problem
        return count

    def _is_sound(self) -> bool:
        """Look through the whole section, as far as the limit."""
        scratch = memoryview(bytearray(SCRATCH))
        left = self._limit
        try:
            reader = FAST_READERS[self._codec](self._data, self._magic, self._limit)
            while left > 0:
                count = reader.read_into(scratch)
                left -= count
                if count < len(scratch):
                    return reader.problem is None
        except Damage:
            return False
        return True

    def _start_over(self) -> None:
        """Read carefully from the start, passing over what was delivered."""
        self._reader = None
        codec = CompressionType(self._codec)
        if self._kafka:
            self._pieces = open_as_kafka(codec, self._data, self._magic, self._limit)
            return
        looks = looks_like(self._data, self._magic) if self._produced == 0 else None
        if looks not in (None, codec.label):
            self._end_with(CodecProblem(Code.C05, str(looks), fatal=True))
            return
        self._pieces = open_carefully(codec, self._data, self._magic, self._limit)
        passed = 0
        while passed < self._produced and self._next_piece():
            skipped = min(len(self._piece), self._produced - passed)
            self._piece = self._piece[skipped:]
            passed += skipped

    def _next_piece(self) -> bool:
        if self._pieces is None:
            return False
        try:
            self._piece = memoryview(next(self._pieces))
        except StopIteration as stop:
            self._end_with(stop.value or self.problem)
            return False
        return True

    def _fill_from_pieces(self, target: memoryview) -> int:
        filled, room = 0, len(target)
        while filled < room:
            if not self._piece and not self._next_piece():
                break
            count = min(len(self._piece), room - filled)
            target[filled : filled + count] = self._piece[:count]
            self._piece = self._piece[count:]
            filled += count
        return filled


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


NO_BYTES = memoryview(b"")

FAST_READERS: dict[int, Callable[[memoryview, int, int], FastReader]] = {
    CompressionType.NONE: lambda data, magic, limit: PlainReader(data, magic),
    CompressionType.GZIP: lambda data, magic, limit: gzipstream.GzipReader(data),
    CompressionType.SNAPPY: lambda data, magic, limit: xerial.SnappyReader(data, limit),
    CompressionType.LZ4: lambda data, magic, limit: lz4fast.open_frame(data, magic),
    CompressionType.ZSTD: lambda data, magic, limit: zstdframe.ZstdReader(data),
}
"""The fast reader of each codec, by its number; each may raise Damage."""


def open_carefully(codec: CompressionType, data: memoryview, magic: int, limit: int) -> Pieces:
    """Return the pieces of a damaged section, as far as each can be decoded."""
    if codec is CompressionType.ZSTD:
        return zstdframe.read_carefully(data)
    if codec is CompressionType.LZ4:
        return lz4frame.read_carefully(data, magic)
    if codec is CompressionType.SNAPPY:
        return xerial.read_carefully(data, limit)
    return gzipstream.read_carefully(data)


def open_as_kafka(codec: CompressionType, data: memoryview, magic: int, limit: int) -> Pieces:
    """Return the pieces of a section as Kafka's calls deliver them."""
    from kdump.compat import java_frames as javaframes
    from kdump.compat import java_streams as javastreams
    from kdump.compat.kafka_stream import read_as_kafka

    if codec is CompressionType.ZSTD:
        return read_as_kafka(lambda: javaframes.ZstdInput(data), magic)
    if codec is CompressionType.LZ4:
        return read_as_kafka(lambda: javaframes.Lz4Input(data, magic, BYTES_BEFORE[magic]), magic)
    if codec is CompressionType.SNAPPY:
        return read_as_kafka(lambda: javastreams.SnappyInput(data, limit), magic)
    if codec is CompressionType.GZIP:
        return read_as_kafka(lambda: javastreams.GzipInput(data), magic)
    return whole(data)


def whole(data: memoryview) -> Pieces:
    """Yield a section that is not compressed."""
    yield data
    return None
