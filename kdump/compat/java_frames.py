"""Java's decompressing streams as Kafka 4.3.1 uses them, lz4 and zstd: what a read returns and throws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.compat.kafka_stream import IO, UNDERFLOW, JavaError
from kdump.finding import Code
from kdump.format.codec import lz4_frame, zstd_frame, zstd_layout
from kdump.format.codec.xxh32 import xxh32

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionReader

RUNTIME = "java.lang.RuntimeException: "
PREMATURE = f"{IO}Stream ended prematurely"
ZSTD_IO = "com.github.luben.zstd.ZstdIOException: "


class Lz4Input:
    """Kafka's own reader of lz4 frames.

    It looks at one block a call and at nothing after the end mark; the content checksum and size are ignored.

    Args:
        data: the whole section.
        magic: of the batch; 0 and the header checksum is ignored.
        before: bytes of the batch before the section, which Kafka's messages count in.

    Source: org.apache.kafka.common.compress.Lz4BlockInputStream
    """

    chunk = 2048
    SHORTEST = 6

    def __init__(self, data: memoryview, magic: int, before: int) -> None:
        import lz4.block

        self._decode: Any = lz4.block.decompress
        self._failure: Any = lz4.block.LZ4BlockError
        self._data = data
        self._before = before
        self._block = memoryview(b"")
        self._finished = False
        if len(data) < self.SHORTEST:
            raise JavaError(PREMATURE, Code.C02)
        if data[:4] != lz4_frame.MAGIC:
            raise JavaError(f"{IO}Stream unsupported (invalid magic bytes)")
        self._flags = data[4]
        self._max_block = self._check(self._flags, data[5])
        self._position = self.SHORTEST + 8 * bool(self._flags & lz4_frame.CONTENT_SIZE)
        if self._position > len(data):
            raise JavaError(PREMATURE, Code.C02)
        self._position += 1
        if self._position > len(data):
            why = f"java.lang.IllegalArgumentException: newPosition > limit: ({self._position} > {len(data)})"
            raise JavaError(UNDERFLOW if magic else why, Code.C02, io=False)
        if magic > 0 and data[self._position - 1] != lz4_frame.header_checksum(data, self._position):
            raise JavaError(f"{IO}Stream frame descriptor corrupted")

    def _check(self, flags: int, block_byte: int) -> int:
        for wrong, why in (
            (flags & 3, "Reserved bits must be 0"),
            (not flags & lz4_frame.INDEPENDENT, "Dependent block stream is unsupported"),
            (flags >> 6 != lz4_frame.VERSION, f"Version {flags >> 6} is unsupported"),
            (block_byte & 15, "Reserved2 field must be 0"),
            (block_byte >> 4 & 7 < 4, "Block size value must be between 4 and 7"),
            (block_byte >> 7, "Reserved3 field must be 0"),
        ):
            if wrong:
                raise JavaError(RUNTIME + why, io=False)
        return lz4_frame.block_size(block_byte >> 4)

    @property
    def available(self) -> bool:
        """Whether something is left of the current block."""
        return bool(self._block)

    def read(self, length: int) -> memoryview | None:
        """Return what is left of the current block, else of the next, which may be empty; see JavaStream."""
        if not self._block and not self._finished:
            self._block = memoryview(self._next_block())
        if self._finished:
            return None
        piece = self._block[:length]
        self._block = self._block[length:]
        return piece

    def _next_block(self) -> bytes | memoryview:
        start = self._position + 4
        if start > len(self._data):
            raise JavaError(PREMATURE, Code.C02)
        word = int.from_bytes(self._data[self._position : start], "little")
        length = word & ~lz4_frame.STORED
        if length == 0:
            self._finished = True
            if self._flags & lz4_frame.CONTENT_CHECKSUM and start + 4 > len(self._data):
                raise JavaError(UNDERFLOW, Code.C02, io=False)
            return b""
        if length > self._max_block:
            raise JavaError(f"{IO}Block size {length} exceeded max: {self._max_block}")
        end = start + length
        if end > len(self._data):
            raise JavaError(PREMATURE, Code.C02)
        block = self._data[start:end]
        decoded = block if word & lz4_frame.STORED else self._decoded(block, start)
        if self._flags & lz4_frame.BLOCK_CHECKSUM:
            end += 4
            if end > len(self._data):
                raise JavaError(UNDERFLOW, Code.C02, io=False)
            if xxh32(block) != int.from_bytes(self._data[end - 4 : end], "little"):
                raise JavaError(f"{IO}Block checksum mismatch")
        self._position = end
        return decoded

    def _decoded(self, block: memoryview, start: int) -> bytes:
        try:
            return bytes(self._decode(block, uncompressed_size=self._max_block))
        except self._failure as error:
            code = str(error).rpartition(": ")[2]
            offset = self._before + start + (int(code) if code.isdecimal() else 0)
            why = f"net.jpountz.lz4.LZ4Exception: Error decoding offset {offset} of input buffer"
            raise JavaError(IO + why) from None


class ZstdInput:
    """ZstdInputStreamNoFinalizer of zstd-jni over chunks of 131,075 bytes; the libzstd behind it is the same.

    Args:
        data: the whole section.

    Source: com.github.luben.zstd.ZstdInputStreamNoFinalizer.readInternal
    """

    chunk = 16384
    available = True

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._end, cut_frame, self._cut = zstd_layout.outline(data)
        frames = data if self._cut else data[: self._end]
        self._buffer = memoryview(bytearray(self.chunk))
        context: Any = zstd_frame.new_context()
        self._reader: Any = context.stream_reader(
            SourceChunks(frames, cut_frame), read_size=SourceChunks.SIZE, read_across_frames=False
        )

    def read(self, length: int) -> memoryview | None:
        """Return all that was asked, less only at the end of a frame; see JavaStream."""
        if length > len(self._buffer):
            self._buffer = memoryview(bytearray(length))
        count = self._call(self._reader, self._buffer[:length])
        if not count:
            self._check_end()
        return self._buffer[:count] if count else None

    def _call(self, reader: ZstdDecompressionReader, target: memoryview) -> int:
        try:
            return int(reader.readinto(target))
        except zstd_frame.failure() as error:
            raise JavaError(ZSTD_IO + zstd_frame.libzstd_message(error)) from None

    def _check_end(self) -> None:
        size = len(self._data)
        if not self._cut and self._end < size:
            junk = zstd_frame.new_context().stream_reader(self._data[self._end :])
            self._call(junk, memoryview(bytearray(1)))
        # Java takes the end for a clean one unless it read a chunk after the last frame was finished
        if -(-self._end // SourceChunks.SIZE) * SourceChunks.SIZE < size:
            raise JavaError(f"{ZSTD_IO}Truncated source", Code.C02)


class SourceChunks:
    """The section as zstd-jni reads it: in chunks of the size that libzstd recommends.

    Where the last frame is cut, zstandard does not ask libzstd for what it still holds of the last block, as
    zstd-jni does. So that it asks, one more byte comes: as the first of a block header, which has three, it
    means nothing. For that a cut raw block, which libzstd passes on byte by byte, gets the length that it
    has.

    Args:
        data: the frames.
        cut_frame: the last one, if it is cut after its header.
    """

    SIZE = 131075

    def __init__(self, data: memoryview, cut_frame: zstd_layout.Frame | None) -> None:
        self._data = data
        self._position = 0
        self._extra = b""
        block = zstd_layout.last_block(data, cut_frame) if cut_frame else None
        if cut_frame is None or block is None or block.claim > cut_frame.largest_block:
            return
        if block.raw and block.end > len(data):
            self._data = memoryview(zstd_layout.shortened(data, block))
            self._extra = b"\0"
        elif block.end == len(data):
            self._extra = b"\0"

    def read(self, size: int) -> memoryview | bytes:
        """Return the next chunk, empty at the end."""
        chunk = self._data[self._position : self._position + size]
        self._position += size
        if chunk:
            return chunk
        extra, self._extra = self._extra, b""
        return extra
