"""How Kafka reads a compressed section: which bytes reach its record iterator before its decompressor throws.

A call of the decompressor that fails delivers nothing, not even what it had decoded. So what a consumer still
gets depends on how its calls fall, and that depends on the lengths of the records. This replays them.

Source: org.apache.kafka.common.utils.ChunkedBytesStream,
org.apache.kafka.common.compress.*Compression.wrapForInput
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kdump.finding import Code
from kdump.format.codec.base import CodecProblem

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.format.codec.base import Pieces

KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"
READ_FAILED = f"{KAFKA_EXCEPTION}: Failed to decompress record stream"
CHECK_FAILED = f"{KAFKA_EXCEPTION}: Error checking for remaining bytes after reading batch"
IO = "java.io.IOException: "
END_OF_FILE = "java.io.EOFException"
UNDERFLOW = "java.nio.BufferUnderflowException"
# A body is read in one call however large it is; this many bytes of it are enough at a time.
STEP = 1 << 18
MESSAGE_HEADER = 12
MESSAGE_SIZE_AT = 8
VARINT_BYTES = 5
# attributes, two deltas, two lengths and the number of headers
SMALLEST_BODY = 6
SMALLEST_MESSAGE = 14


class JavaError(Exception):
    """What a stream of Kafka throws.

    Args:
        text: class and message, as Throwable.toString() gives them.
        code: of the finding.
        io: an IOException, which Kafka wraps; other exceptions pass as they are.
        trailing: the stream was read to its proper end (snappy, which has none: to the end of a chunk); what
            fails is the look behind it.
    """

    def __init__(self, text: str, code: Code = Code.C01, *, io: bool = True, trailing: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.io = io
        self.trailing = trailing


class JavaStream(Protocol):
    """The decompressing stream below ChunkedBytesStream.

    Attributes:
        chunk: bytes of the buffer that Kafka puts above it.
    """

    chunk: int

    def read(self, length: int) -> bytes | memoryview:
        """Return 1 to `length` bytes, none at the end.

        Fewer than `length` only where a call of the Java stream ends too.

        Raises:
            JavaError: what Java throws.
        """


class Layout(Protocol):
    """Follows the lengths in the decoded bytes, as far as they decide how large the next call is."""

    rest: int

    def advance(self, piece: bytes | memoryview) -> None:
        """Follow the next bytes; `rest` is then what the current body still lacks."""


class RecordLayout:
    """Records of magic 2: a varint, then a body of that length.

    Source: org.apache.kafka.common.record.DefaultRecord.readFrom(InputStream)
    """

    def __init__(self) -> None:
        self.rest = 0
        self._value = 0
        self._bytes = 0
        self._over = False

    def advance(self, piece: bytes | memoryview) -> None:
        """Follow the next bytes; see Layout."""
        position, end = 0, len(piece)
        while position < end and not self._over:
            taken = min(self.rest, end - position)
            self.rest -= taken
            position += taken
            while position < end and not self.rest and not self._over:
                byte = piece[position]
                position += 1
                self._value |= (byte & 0x7F) << 7 * self._bytes
                self._bytes += 1
                if byte < 0x80 or self._bytes == VARINT_BYTES:
                    self._begin_body()

    def _begin_body(self) -> None:
        # a length that no record can have ends Kafka's iteration: what would be read after it never matters
        self.rest = 0 if self._value & 1 else self._value >> 1
        self._over = self.rest < SMALLEST_BODY
        self._value = self._bytes = 0


class MessageLayout:
    """Inner messages of magic 0 and 1: 12 bytes with the size, then the message.

    Source: org.apache.kafka.common.record.AbstractLegacyRecordBatch.DataLogInputStream
    """

    def __init__(self) -> None:
        self.rest = MESSAGE_HEADER
        self._header = bytearray()
        self._over = False

    def advance(self, piece: bytes | memoryview) -> None:
        """Follow the next bytes; see Layout."""
        position, end = 0, len(piece)
        while position < end and not self._over:
            taken = min(self.rest, end - position)
            if len(self._header) < MESSAGE_HEADER:
                self._header += piece[position : position + taken]
            self.rest -= taken
            position += taken
            if self.rest == 0 and len(self._header) == MESSAGE_HEADER:
                self.rest = int.from_bytes(self._header[MESSAGE_SIZE_AT:], "big")
                self._over = self.rest < SMALLEST_MESSAGE
                # a thirteenth byte says that the body is next
                self._header.append(0)
            if self.rest == 0:
                self._header.clear()
                self.rest = MESSAGE_HEADER


def read_as_kafka(open_stream: Callable[[], JavaStream], magic: int) -> Pieces:
    """Yield what each call of Kafka's decompressor delivers, up to the one that throws.

    Args:
        open_stream: makes the stream; may throw as its Java constructor does.
        magic: of the batch.

    Yields:
        Decoded bytes.

    Returns:
        What Java throws, None at a clean end.
    """
    try:
        stream = open_stream()
    except JavaError as error:
        if error.code is Code.C03:
            return thrown(error, magic)
        text = f"{KAFKA_EXCEPTION}: {error.text}"
        return CodecProblem(error.code, text, fatal=True, cause=error.text, after=text)
    layout: Layout = RecordLayout() if magic >= 2 else MessageLayout()
    while True:
        left = layout.rest if layout.rest >= stream.chunk else stream.chunk
        while left:
            length = min(left, STEP)
            try:
                piece = stream.read(length)
            except JavaError as error:
                return thrown(error, magic)
            if not piece:
                return None
            layout.advance(piece)
            yield piece
            left -= len(piece)
            if len(piece) < length:
                break


def thrown(error: JavaError, magic: int) -> CodecProblem:
    """Return what comes out of Kafka's iterator when its stream throws.

    Source: org.apache.kafka.common.record.DefaultRecordBatch.StreamRecordIterator,
        org.apache.kafka.common.record.AbstractLegacyRecordBatch.DeepRecordsIterator
    """
    if error.code is Code.C03:
        return CodecProblem(Code.C03, error.text, fatal=True)
    why, after, cause = READ_FAILED, CHECK_FAILED, error.text
    if not error.io:
        why, after, cause = error.text, error.text, ""
    elif magic < 2:
        why = after = f"{KAFKA_EXCEPTION}: {error.text}"
    return CodecProblem(error.code, why, fatal=True, cause=cause, after=after, trailing=error.trailing)
