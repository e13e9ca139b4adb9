"""Java's decompressing streams as Kafka 4.3.1 uses them, gzip and snappy: what a read returns and throws."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kdump.compat.kafka_stream import END_OF_FILE, IO, JavaError, refuse_array
from kdump.finding import Code
from kdump.format.codec import xerial
from kdump.format.codec.base import StreamDamage

if TYPE_CHECKING:
    from zlib import _Decompress as Decompress

ZIP = "java.util.zip.ZipException: "
SNAPPY_IO = "org.xerial.snappy.SnappyIOException: "
SNAPPY_ERROR = "org.xerial.snappy.SnappyError: "


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

    A read goes on over chunks until it is full: a bad chunk costs what the read had from the chunk before.

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
