"""The exceptions that Kafka throws for a record or message that it cannot read.

Source: org.apache.kafka.common.record.internal.DefaultRecord.readFrom, DefaultRecordBatch.uncompressedIterator,
LegacyRecord, org.apache.kafka.common.utils.ByteUtils, Utils.readBytes, Utils.sizeDelimited
"""

from __future__ import annotations

from kdump.compat.kafka_stream import PREMATURE, zigzag
from kdump.format.batch import layout
from kdump.format.java_values import INVALID

STRUCTURE = f"{INVALID}: Found invalid record structure"
ARGUMENT = "java.lang.IllegalArgumentException"
OUT_OF_BOUNDS = "java.lang.IndexOutOfBoundsException"
LONGEST_VARLONG = 10


class _BrokenError(Exception):
    """A BufferUnderflowException or IllegalArgumentException, which Kafka turns into one of its own."""


class _Buffer:
    """A ByteBuffer, as far as records are read from it."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self.position

    def varint(self, most: int = layout.LONGEST_VARINT) -> bytes:
        start = self.position
        for end in range(start + 1, start + most + 1):
            if end > len(self._data):
                raise _BrokenError
            if self._data[end - 1] < 0x80:
                self.position = end
                return bytes(self._data[start:end])
        raise _BrokenError

    def number(self) -> int:
        return zigzag(self.varint()) or 0

    def skip(self, size: int) -> None:
        if size > self.remaining:
            raise _BrokenError
        self.position += max(0, size)


def stream_exception(data: memoryview) -> str:
    """Return what Kafka throws at a record that was read from a stream as a whole.

    Args:
        data: the record, its length included; bytes may follow it.
    """
    length = _Buffer(data)
    size = length.number()
    return _body_exception(data[length.position : length.position + size], size)


def buffer_exception(data: memoryview) -> str:
    """Return what Kafka throws at a record of an uncompressed batch: there it reads on into the next ones.

    Args:
        data: the record, its length included, and all that follows it in the batch.
    """
    buffer = _Buffer(data)
    try:
        size = buffer.number()
    except _BrokenError:
        head = data[: layout.LONGEST_VARINT]
        if len(head) < layout.LONGEST_VARINT or head[-1] < 0x80:
            return PREMATURE
        value = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(head[:-1]))
        last = head[-1] - 256 << 28  # a byte of Java has a sign
        why = "Varint is too long, the most significant bit in the 5th byte is set"
        return f"{ARGUMENT}: {why}, converted value: {(value | last) & 0xFFFFFFFF:x}"
    return _body_exception(data[buffer.position :], size)


def _body_exception(data: memoryview, size: int) -> str:
    buffer = _Buffer(data)
    if buffer.remaining < size:
        rest = f"but instead the buffer has only {buffer.remaining} remaining bytes."
        return f"{INVALID}: Invalid record size: expected {size} bytes in record payload, {rest}"
    try:
        why = _fields_exception(buffer)
    except _BrokenError:
        return STRUCTURE
    if why is None:
        read = f"but instead read {buffer.position}"
        why = f"Invalid record size: expected to read {size} bytes in record payload, {read}"
    return f"{INVALID}: {why}"


def _fields_exception(buffer: _Buffer) -> str | None:
    buffer.skip(1)
    buffer.varint(LONGEST_VARLONG)
    buffer.varint()
    buffer.skip(buffer.number())
    buffer.skip(buffer.number())
    count = buffer.number()
    if count < 0:
        return f"Found invalid number of record headers {count}"
    if count > buffer.remaining:
        return f"Found invalid number of record headers. {count} is larger than the remaining size of the buffer"
    for _ in range(count):
        size = buffer.number()
        if size < 0:
            return f"Invalid negative header key size {size}"
        buffer.skip(size)
        buffer.skip(buffer.number())
    return None
