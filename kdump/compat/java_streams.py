"""Java's decompressing streams as Kafka 4.3.1 uses them: the results and exceptions of each read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from kdump.compat.kafka_stream import END_OF_FILE, IO, UNDERFLOW, JavaError, refuse_array
from kdump.finding import Code
from kdump.format.checksum import xxh32
from kdump.format.codec import lz4_frame, xerial, zstd_frame
from kdump.format.codec.base import StreamDamage

if TYPE_CHECKING:
    from zlib import _Decompress as Decompress

    from zstandard import ZstdDecompressionReader

ZIP = "java.util.zip.ZipException: "
SNAPPY_IO = "org.xerial.snappy.SnappyIOException: "
SNAPPY_ERROR = "org.xerial.snappy.SnappyError: "
RUNTIME = "java.lang.RuntimeException: "
PREMATURE = f"{IO}Stream ended prematurely"
ZSTD_IO = "com.github.luben.zstd.ZstdIOException: "


class GzipInput:
    """GZIPInputStream of JDK 17 with Kafka's buffer of 8 KB.

    It ignores reserved flags, and after the first member whatever is not a gzip header.

    Args:
        data: the whole section.

    Source: java.util.zip.GZIPInputStream, InflaterInputStream
    """

    chunk = 16384
    available = True
    BUFFER = 8192
    MAGIC = 0x8B1F
    DEFLATED = 8
    HEADER_CRC, EXTRA, NAME, COMMENT = 2, 4, 8, 16
    TRAILER = 8
    # one more trailer and the shortest header and trailer of a further member
    WORTH_A_LOOK = 26

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = self._header(0)
        self._start()

    def _start(self) -> None:
        self._inflater: Decompress = zlib.decompressobj(-15)
        self._feed: bytes | memoryview = b""
        self._crc = 0
        self._written = 0

    def _byte(self, position: int) -> int:
        if position >= len(self._data):
            raise JavaError(END_OF_FILE, Code.C02)
        return self._data[position]

    def _short(self, position: int) -> int:
        return self._byte(position) | self._byte(position + 1) << 8

    def _header(self, start: int) -> int:
        if self._short(start) != self.MAGIC:
            raise JavaError(f"{ZIP}Not in GZIP format")
        if self._byte(start + 2) != self.DEFLATED:
            raise JavaError(f"{ZIP}Unsupported compression method")
        flags = self._byte(start + 3)
        position = start + 10
        self._byte(position - 1)
        if flags & self.EXTRA:
            position += 2 + self._short(position)
            self._byte(position - 1)
        for _ in range(bool(flags & self.NAME) + bool(flags & self.COMMENT)):
            while self._byte(position):
                position += 1
            position += 1
        if flags & self.HEADER_CRC:
            if self._short(position) != zlib.crc32(self._data[start:position]) & 0xFFFF:
                raise JavaError(f"{ZIP}Corrupt GZIP header")
            position += 2
        return position

    def read(self, length: int) -> bytes | None:
        """Return what one call of inflate gives; see JavaStream."""
        while True:
            piece = self._inflate(length)
            if piece:
                self._crc = zlib.crc32(piece, self._crc)
                self._written += len(piece)
                return piece
            if not self._next_member():
                return None

    def _inflate(self, length: int) -> bytes:
        while True:
            try:
                piece = self._inflater.decompress(self._feed, length)
            except zlib.error as error:
                raise JavaError(ZIP + str(error).partition(": ")[2]) from None
            # at the end the interpreter leaves its unused data here too
            self._feed = b"" if self._inflater.eof else self._inflater.unconsumed_tail
            if piece or self._inflater.eof:
                return piece
            if not self._feed:
                self._feed = self._data[self._position : self._position + self.BUFFER]
                if not self._feed:
                    raise JavaError(f"{END_OF_FILE}: Unexpected end of ZLIB input stream", Code.C02)
                self._position += len(self._feed)

    def _next_member(self) -> bool:
        left = len(self._inflater.unused_data)
        trailer = self._position - left
        end = trailer + self.TRAILER
        for position, expected in ((trailer, self._crc), (trailer + 4, self._written & 0xFFFFFFFF)):
            if position + 4 > len(self._data):
                raise JavaError(END_OF_FILE, Code.C02)
            if int.from_bytes(self._data[position : position + 4], "little") != expected:
                raise JavaError(f"{ZIP}Corrupt GZIP trailer")
        buffered = self._position
        self._position = max(buffered, end)
        if self._position == len(self._data) and left <= self.WORTH_A_LOOK:
            return False
        try:
            start = self._header(end)
        except JavaError:
            return False
        self._start()
        self._feed = self._data[start:buffered]
        self._position = max(buffered, start)
        return True


class SnappyInput:
    """SnappyInputStream of snappy-java 1.1.10.

    A read continues over chunks until it is full: a bad chunk costs what the read had from the chunk before.

    Args:
        data: the whole section.
        limit: bytes that one block may claim at most.
        heap: bytes that Java may have.

    Source: org.xerial.snappy.SnappyInputStream
    """

    chunk = 2048
    available = True
    MAX_CHUNK = 512 * 1024 * 1024
    CORRUPT = f"{IO}FAILED_TO_UNCOMPRESS(5)"

    def __init__(self, data: memoryview, limit: int, heap: int) -> None:
        self._data = data
        self._limit = limit
        self._heap = heap
        self._position = xerial.HEADER_SIZE
        self._block = memoryview(b"")
        if not data:
            raise JavaError(f"{SNAPPY_IO}[EMPTY_INPUT] Cannot decompress empty stream", Code.C02)
        if not xerial.is_framed(data):
            self._position = len(data)
            self._block = self._uncompress(data)

    def read(self, length: int) -> memoryview | None:
        """Return all that was asked where there is so much; see JavaStream."""
        pieces: list[memoryview] = []
        while length:
            while not self._block:
                if not self._next_chunk():
                    return memoryview(b"".join(pieces)) if pieces else None
            piece = self._block[:length]
            self._block = self._block[length:]
            length -= len(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def _next_chunk(self) -> bool:
        data = self._data
        while True:
            start = self._position + xerial.LENGTH_SIZE
            if start > len(data):
                self._position = len(data)
                return False
            if data[self._position : start] != xerial.MAGIC_HEAD:
                break
            if not self._second_header():
                return False
        length = int.from_bytes(data[self._position : start], "big", signed=True)
        if length < 0:
            why = f"[INVALID_CHUNK_SIZE] chunkSize is too big or negative : {length}"
            raise JavaError(SNAPPY_ERROR + why, io=False)
        if length > self.MAX_CHUNK:
            why = f"chunkSize {length:,} is greater than max configured chunk size {self.MAX_CHUNK:,}"
            raise JavaError(f"{SNAPPY_ERROR}[FAILED_TO_UNCOMPRESS] Received {why}", io=False)
        if length > self._heap:
            raise JavaError(f"{SNAPPY_ERROR}[INVALID_CHUNK_SIZE] Java heap space", io=False)
        self._position = start + length
        if self._position > len(data):
            raise JavaError(f"{IO}failed to read chunk", Code.C02)
        self._block = self._uncompress(data[start : self._position])
        return True

    def _second_header(self) -> bool:
        header = self._data[self._position : self._position + xerial.HEADER_SIZE]
        if len(header) < xerial.HEADER_SIZE:
            why = "[FAILED_TO_UNCOMPRESS] Insufficient header size in a concatenated block"
            raise JavaError(SNAPPY_IO + why, Code.C02)
        self._position += xerial.HEADER_SIZE
        version = int.from_bytes(header[8:12], "big", signed=True)
        if header[: len(xerial.MAGIC)] == xerial.MAGIC and version < 1:
            why = f"Compressed with an incompatible codec version {version}. At least version 1 is required"
            raise JavaError(f"{SNAPPY_IO}[INCOMPATIBLE_VERSION] {why}")
        return header[: len(xerial.MAGIC)] == xerial.MAGIC

    def _uncompress(self, block: memoryview) -> memoryview:
        size = xerial.claimed_size(block, self._limit)
        if size == xerial.OVER_LIMIT:
            raise JavaError(f"one block claims more than {self._limit} bytes", Code.C03)
        if size == xerial.NO_NUMBER:
            raise JavaError(f"{IO}PARSING_ERROR(2)")
        if size == xerial.TOO_MUCH:
            refuse_array(xerial.preamble(block), self._heap)
        try:
            return xerial.decompress(block, self._limit)
        except StreamDamage:
            raise JavaError(self.CORRUPT) from None


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
        self._end, cut_frame, self._cut = zstd_frame.outline(data)
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

    def __init__(self, data: memoryview, cut_frame: zstd_frame.Frame | None) -> None:
        self._data = data
        self._position = 0
        self._extra = b""
        block = zstd_frame.last_block(data, cut_frame) if cut_frame else None
        if cut_frame is None or block is None or block.claim > cut_frame.largest_block:
            return
        if block.raw and block.end > len(data):
            self._data = memoryview(zstd_frame.shortened(data, block))
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
