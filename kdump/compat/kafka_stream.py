"""A compressed section as Kafka reads it, record by record: the bytes that it gets, and its exceptions.

A call of a decompressor that fails delivers nothing, not even what it had decoded. So what is read before an
exception depends on how the calls fall, and that depends on the lengths of the records. This replays the calls.

Source: org.apache.kafka.common.utils.ChunkedBytesStream, Utils.readFully,
org.apache.kafka.common.record.internal.DefaultRecordBatch.StreamRecordIterator, DefaultRecord.readFrom(InputStream),
AbstractLegacyRecordBatch.DataLogInputStream
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.java_values import INVALID
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"
READ_FAILED = f"{KAFKA_EXCEPTION}: Failed to decompress record stream"
CHECK_FAILED = f"{KAFKA_EXCEPTION}: Error checking for remaining bytes after reading batch"
PREMATURE = f"{INVALID}: Incorrect declared batch size, premature EOF reached"
LEFT_OVER = f"{INVALID}: Incorrect declared batch size, records still remaining in file"
TOO_SMALL = (
    "org.apache.kafka.common.errors.CorruptRecordException: Record size is less than the minimum record overhead "
    f"({layout.MIN_SIZE_V0})"
)
IO = "java.io.IOException: "
END_OF_FILE = "java.io.EOFException"
UNDERFLOW = "java.nio.BufferUnderflowException"
TOOL_HEAP = 256 << 20  # bytes: what kafka-run-class.sh gives a tool
HEAP_SPACE = "java.lang.OutOfMemoryError: Java heap space"
MAX_ARRAY = layout.MAX_INT - 2  # elements; HotSpot refuses more whatever the heap
REFERENCE = 4  # bytes of an element of an array of objects
# A body is read in one call however large it is; this many bytes of it are enough at a time.
STEP = 1 << 18


class JavaError(Exception):
    """An exception of a stream of Kafka.

    Args:
        text: class and message, as Throwable.toString() gives them.
        code: of the finding.
        io: an IOException, which Kafka wraps; other exceptions pass as they are.
    """

    def __init__(self, text: str, code: Code = Code.C01, *, io: bool = True) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.io = io


class Thrown(Value):
    """An exception of Kafka's iterator over the records of a batch."""

    text: str  # class and message, as Throwable.toString() gives them; for C03 the sentence of the limit
    cause: str = ""  # the same of the exception below it, empty without one
    code: Code = Code.C01  # C03 where no exception was thrown: the limit of kdump ended the section


class JavaStream(Protocol):
    """The decompressing stream below ChunkedBytesStream."""

    chunk: int  # bytes of the buffer that Kafka puts above it

    @property
    def available(self) -> bool:
        """InputStream.available, as far as it decides anything: false where a read begins with new input."""

    def read(self, length: int) -> bytes | memoryview | None:
        """Return up to `length` bytes, as many as one call of the Java stream gives; None at the end.

        Raises:
            JavaError: what Java throws.
        """


class ArrayRoom(Value):
    """What Java may take for one record out of a stream."""

    heap: int  # bytes; what needs more in one piece is an OutOfMemoryError
    max_record: int | None = None  # bytes that a record may claim, from 4.4 on; None for releases before
    looks_ahead: bool = False  # records are handed out one by one: the last one not where something is behind it

    def refuse_negative(self, size: int) -> None:
        """Throw what a negative size of a record of magic 2 is to 4.4; to releases before it is an early end."""
        if self.max_record is not None and size < 0:
            raise JavaError(f"{INVALID}: Invalid record size: {size} is negative.", io=False)

    def refuse(self, size: int) -> None:
        """Throw what a size throws that there is no room for.

        Source: DefaultRecord.readFrom(InputStream), AbstractLegacyRecordBatch.DataLogInputStream (4.4)
        """
        if self.max_record is not None and size > self.max_record:
            why = f"{size} exceeds the configured maximum record size of {self.max_record}."
            raise JavaError(f"{INVALID}: Invalid record size: {why}", io=False)
        refuse_array(size, self.heap)


class ChunkedStream:
    """ChunkedBytesStream over a decompressing stream.

    Args:
        stream: the decompressing stream.
        limit: bytes to decode at most; more is C03.
    """

    def __init__(self, stream: JavaStream, limit: int) -> None:
        self._stream = stream
        self._chunk: bytes | memoryview = b""
        self._at = 0
        self._limit = limit
        self._room = limit

    def read(self) -> int:
        """Return the next byte, -1 where there is none."""
        if self._at == len(self._chunk) and not self._fill():
            return -1
        self._at += 1
        return self._chunk[self._at - 1]

    def read_fully(self, length: int) -> bytes:
        """Return `length` bytes, fewer where a read says that the end has come. Source: Utils.readFully."""
        data = bytearray()
        while len(data) < length:
            piece = self._read(length - len(data))
            if piece is None:
                break
            data += piece
        return bytes(data)

    def _read(self, length: int) -> bytes | None:
        data = bytearray()
        while True:
            piece = self._read_once(length - len(data))
            if not piece:
                return bytes(data) if data or piece is not None else None
            data += piece
            if len(data) == length or not self._stream.available:
                return bytes(data)

    def _read_once(self, length: int) -> bytes | memoryview | None:
        if self._at == len(self._chunk):
            if length >= self._stream.chunk:
                return self._call(min(length, STEP))
            if not self._fill():
                return None
        piece = self._chunk[self._at : self._at + length]
        self._at += len(piece)
        return piece

    def _fill(self) -> bool:
        self._chunk, self._at = b"", 0
        self._chunk = self._call(self._stream.chunk) or b""
        return bool(self._chunk)

    def _call(self, length: int) -> bytes | memoryview | None:
        piece = self._stream.read(min(length, self._room + 1))
        self._room -= len(piece or b"")
        if self._room < 0:
            raise JavaError(f"it decodes to more than {self._limit} bytes", Code.C03)
        return piece


def read_records(
    open_stream: Callable[[], JavaStream], magic: int, count: int, limit: int, room: ArrayRoom
) -> Generator[bytes, None, Thrown | None]:
    """Read the records of a compressed batch of magic 2. What is inside a record is not looked at.

    Args:
        open_stream: makes the stream; may throw as its Java constructor does.
        magic: of the batch.
        count: records that it says it has.
        limit: bytes to decode at most.
        room: what Java may take.

    Yields:
        A record with its length. Kafka looks at the end of the stream before it hands out the last one, but after it
        has looked into it, which is not done here.

    Returns:
        What Java throws after them; None at a clean end.
    """
    try:
        stream = ChunkedStream(open_stream(), limit)
    except JavaError as error:
        return _not_opened(error)
    failed = READ_FAILED
    try:
        if count < 0:
            return Thrown(f"{INVALID}: Found invalid record count {count} in magic v{magic} batch")
        if count == 0:
            return None  # whoever opens the stream of an empty batch reads nothing of it
        refuse_array(count, room.heap // REFERENCE)
        for left in reversed(range(count)):
            head = _length(stream)
            size = zigzag(head)
            if size is None:
                return Thrown(PREMATURE)
            room.refuse_negative(size)
            if size < 0:
                return Thrown(PREMATURE)
            room.refuse(size)
            body = stream.read_fully(size)
            if len(body) < size:
                why = f"expected {size} bytes in record payload, but the record payload reached EOF."
                return Thrown(f"{INVALID}: Invalid record size: {why}")
            if not left and room.looks_ahead:
                failed = CHECK_FAILED
                if stream.read() >= 0:
                    return Thrown(LEFT_OVER)
            yield head + body
        failed = CHECK_FAILED
        return None if room.looks_ahead or stream.read() < 0 else Thrown(LEFT_OVER)
    except JavaError as error:
        return _thrown(error, failed)


def read_messages(
    open_stream: Callable[[], JavaStream], limit: int, room: ArrayRoom
) -> Generator[bytes, None, Thrown | None]:
    """Read the messages inside a compressed one of magic 0 or 1; arguments as `read_records`.

    Yields:
        A message with its 12 bytes of offset and size.

    Returns:
        What Java throws after them; None at an end, a message that is cut by it included.
    """
    try:
        stream = ChunkedStream(open_stream(), limit)
    except JavaError as error:
        return _not_opened(error)
    try:
        while True:
            head = stream.read_fully(layout.LOG_OVERHEAD)
            if len(head) < layout.LOG_OVERHEAD:
                return None
            size = int.from_bytes(head[layout.SIZE_AT :], "big", signed=True)
            if size < layout.MIN_SIZE_V0:
                return Thrown(TOO_SMALL)
            room.refuse(size)
            body = stream.read_fully(size)
            if len(body) < size:
                return None
            yield head + body
    except JavaError as error:
        return _thrown(error, f"{KAFKA_EXCEPTION}: {error.text}")


def _length(stream: ChunkedStream) -> bytes:
    """The bytes of a varint; at the end of a stream Java reads -1, and continues as with a byte."""
    head = bytearray()
    while not head or (head[-1] >= 0x80 and len(head) < layout.LONGEST_VARINT):
        head.append(stream.read() & 0xFF)
    return bytes(head)


def zigzag(head: bytes) -> int | None:
    """Return the int32 in the bytes of a varint, None where it has too many. Source: ByteUtils.readVarint."""
    if head[-1] >= 0x80:
        return None
    value = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(head)) & 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1)


def refuse_array(size: int, heap: int) -> None:
    """Throw what a new array of `size` elements throws where no more than `heap` can be had.

    Raises:
        JavaError: the size is too large, or negative for Java.
    """
    if size > layout.MAX_INT:
        raise JavaError(f"java.lang.NegativeArraySizeException: {size - (1 << 32)}", io=False)
    if size > MAX_ARRAY:
        raise JavaError("java.lang.OutOfMemoryError: Requested array size exceeds VM limit", io=False)
    if size > heap:
        raise JavaError(HEAP_SPACE, io=False)


def _not_opened(error: JavaError) -> Thrown:
    """Source: org.apache.kafka.common.compress.*Compression.wrapForInput."""
    if error.code is Code.C03:
        return Thrown(error.text, code=Code.C03)
    return Thrown(f"{KAFKA_EXCEPTION}: {error.text}", error.text)


def _thrown(error: JavaError, wrapped: str) -> Thrown:
    if error.code is Code.C03:
        return Thrown(error.text, code=Code.C03)
    return Thrown(wrapped, error.text) if error.io else Thrown(error.text)
