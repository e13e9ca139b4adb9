"""Values of Kafka's message protocol as they lie on disk: a reader for each type.

A reader takes bytes and a position and returns the value and the position after it. Values are JSON-able:
uuid and bytes are the text that Kafka's JSON shows for them. A reader raises `MalformedError`, or IndexError
or struct.error when it runs out of bytes; `schema.Schema.read` turns those into the first.

Source: org.apache.kafka.common.protocol.ByteBufferAccessor, the `read` methods of the generated messages.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from math import isfinite
from struct import Struct, unpack_from
from typing import Any

from kdump.decode.java_text import java_text

Value = Any
Reader = Callable[[bytes, int], tuple[Value, int]]

UNDERFLOW = "java.nio.BufferUnderflowException"
RUNTIME = "java.lang.RuntimeException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
NEGATIVE_SIZE = "java.lang.NegativeArraySizeException"
UNSUPPORTED_VERSION = "org.apache.kafka.common.errors.UnsupportedVersionException"

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
}
"""struct codes of the types whose value is what struct unpacks."""

MOST_ELEMENTS = 1_000_000
"""Elements of an array that Kafka reads, from 4.4 on."""
MOST_TAGS = 10_000
"""Entries of a tag section that Kafka reads, from 4.4 on."""
MOST_IN_ALL = 1_010_000
"""Elements and unknown tagged fields of one record that kdump holds; Kafka has no such limit."""
_LONGEST_STRING = 0x7FFF
_FLOAT = Struct(">d")
_INT16 = Struct(">h")
_INT32 = Struct(">i")


class MalformedError(Exception):
    """Bytes that Java could not read; never leaves the package."""

    def __init__(self, java: str, message: str | None = None) -> None:
        super().__init__(java, message)
        self.java = java  # name of the Java exception
        self.message = message  # its message, None for Java's null

    def __str__(self) -> str:
        """The exception as Throwable.toString shows it."""
        return self.java if self.message is None else f"{self.java}: {self.message}"


class LimitError(MalformedError):
    """Bytes that Kafka reads no further from 4.4 on, for they would take too much memory."""


class UnknownVersionError(Exception):
    """A struct inside a message met a version above the highest; `args[0]` names the struct."""


def int32(number: int) -> int:
    """Return `number` wrapped to a Java int."""
    return ((number + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned LEB128 number of at most 5 bytes; one above 2^31-1 is negative, as in Java.

    Source: org.apache.kafka.common.utils.ByteUtils.readUnsignedVarint
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value = byte & 0x7F
    for shift in (7, 14, 21):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    byte = data[at]
    value = (value | byte << 28) & 0xFFFFFFFF
    if byte >= 0x80:
        text = f"the most significant bit in the 5th byte is set, converted value: {value:x}"
        raise MalformedError(ILLEGAL_ARGUMENT, f"Varint is too long, {text}")
    return int32(value), at + 1


def need(data: bytes, at: int, size: int) -> int:
    """Return the position after `size` bytes at `at`, if the data has them."""
    left = len(data) - at
    if size > left:
        raise MalformedError(RUNTIME, f"Error reading byte array of {size} byte(s): only {left} byte(s) available")
    if size < 0:
        raise MalformedError(NEGATIVE_SIZE, str(size))
    return at + size


def _null(field: str) -> MalformedError:
    return MalformedError(RUNTIME, f"non-nullable field {field} was serialized as null")


def _length(flexible: bool, fixed: Struct) -> Callable[[bytes, int], tuple[int, int]]:
    """Return a reader of a length, where negative is null: a varint of length + 1, or a `fixed` number."""

    def compact(data: bytes, at: int) -> tuple[int, int]:
        byte = data[at]
        if byte < 0x80:
            return byte - 1, at + 1
        value, at = uvarint(data, at)
        return int32(value - 1), at

    unpack, size = fixed.unpack_from, fixed.size

    def plain(data: bytes, at: int) -> tuple[int, int]:
        return unpack(data, at)[0], at + size

    return compact if flexible else plain


def string(field: str, flexible: bool, nullable: bool) -> Reader:
    """Return the reader of a string; `field` is its name in messages."""
    length_of = _length(flexible, _INT16)

    def read(data: bytes, at: int) -> tuple[str | None, int]:
        length, at = length_of(data, at)
        if length < 0:
            if nullable:
                return None, at
            raise _null(field)
        if length > _LONGEST_STRING:
            raise MalformedError(RUNTIME, f"string field {field} had invalid length {length}")
        end = at + length
        if end > len(data):
            need(data, at, length)
        try:
            return data[at:end].decode(), end
        except UnicodeDecodeError:
            return java_text(data[at:end]), end

    return read


def octets(field: str, flexible: bool, nullable: bool) -> Reader:
    """Return the reader of a bytes field, whose value is Base64 with padding."""
    length_of = _length(flexible, _INT32)

    def read(data: bytes, at: int) -> tuple[str | None, int]:
        length, at = length_of(data, at)
        if length < 0:
            if nullable:
                return None, at
            raise _null(field)
        end = need(data, at, length)
        return b2a_base64(data[at:end], newline=False).decode(), end

    return read


class MemoryBudget:
    """The memory that a record may still take: no value may take much more than its bytes."""

    def __init__(self) -> None:
        self.left = MOST_IN_ALL  # elements and unknown tagged fields

    def take(self, count: int) -> None:
        """Take room for some elements.

        Raises:
            LimitError: there is none.
        """
        self.left -= count
        if self.left < 0:
            raise LimitError(RUNTIME, f"It has more than {MOST_IN_ALL} elements in all.")


class Limits:
    """What a reader of arrays and tag sections refuses.

    Args:
        kafka: whether those of Kafka 4.4 hold.
        room: of the record; None for no limit in all.

    Source: the generated `read` methods of 4.4, MessageUtil.MAX_ARRAY_LENGTH, MAX_TAGGED_FIELD_COUNT
    """

    def __init__(self, kafka: bool, room: MemoryBudget | None) -> None:
        self.kafka = kafka
        self.room = room

    def check_array(self, length: int) -> None:
        """Refuse an array that is too long, though its bytes may be there."""
        if self.kafka and length > MOST_ELEMENTS:
            what = f"of size {length}, which exceeds the maximum allowed size of {MOST_ELEMENTS}."
            raise LimitError(RUNTIME, f"Tried to read a collection {what}")
        if self.room is not None:
            self.room.take(length)

    def check_tags(self, count: int, left: int) -> None:
        """Refuse a tag section by the number of its entries, before the first is read."""
        if not self.kafka:
            return
        if count < 0:
            raise MalformedError(RUNTIME, f"Invalid negative number of tagged fields {count}")
        if count > left:
            why = f"but there are only {left} bytes remaining."
            raise MalformedError(RUNTIME, f"Tried to read {count} tagged fields, {why}")
        if count > MOST_TAGS:
            why = f"which exceeds the maximum allowed count of {MOST_TAGS}."
            raise LimitError(RUNTIME, f"Tried to read {count} tagged fields, {why}")


NO_LIMITS = Limits(False, None)


def array(field: str, flexible: bool, nullable: bool, item: Reader | str, limits: Limits = NO_LIMITS) -> Reader:
    """Return the reader of an array.

    Args:
        field: its name in messages.
        flexible: whether the length is a varint.
        nullable: whether the array may be null.
        item: the reader of its items, or a code of `FIXED`.
        limits: what it refuses.
    """
    length_of = _length(flexible, _INT32)
    items = _fixed_items(item) if isinstance(item, str) else _items(item)

    def read(data: bytes, at: int) -> tuple[list[Value] | None, int]:
        length, at = length_of(data, at)
        if length < 0:
            if nullable:
                return None, at
            raise _null(field)
        if length > len(data) - at:
            left = f"there are only {len(data) - at} bytes remaining."
            raise MalformedError(RUNTIME, f"Tried to allocate a collection of size {length}, but {left}")
        limits.check_array(length)
        return items(data, at, length)

    return read


def _items(item: Reader) -> Callable[[bytes, int, int], tuple[list[Value], int]]:
    def read(data: bytes, at: int, count: int) -> tuple[list[Value], int]:
        values = []
        for _ in range(count):
            value, at = item(data, at)
            values.append(value)
        return values, at

    return read


def _fixed_items(code: str) -> Callable[[bytes, int, int], tuple[list[Value], int]]:
    size = Struct(">" + code).size

    def read(data: bytes, at: int, count: int) -> tuple[list[Value], int]:
        return list(unpack_from(f">{count}{code}", data, at)), at + count * size

    return read


def uuid(data: bytes, at: int) -> tuple[str, int]:
    """Read a uuid: 22 characters of Base64 for URLs, without padding."""
    end = at + 16
    data[end - 1]  # out of bytes: IndexError
    return b2a_base64(data[at:end], newline=False)[:22].translate(_URL_SAFE).decode(), end


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def float64(data: bytes, at: int) -> tuple[float | str, int]:
    """Read a double; what JSON has no number for is the text that Kafka prints instead."""
    value: float = _FLOAT.unpack_from(data, at)[0]
    if isfinite(value):
        return value, at + 8
    return ("NaN" if value != value else "Infinity" if value > 0 else "-Infinity"), at + 8


def scalar(kind: str) -> Reader:
    """Return the reader of a type of fixed size."""
    if kind == "uuid":
        return uuid
    if kind == "float64":
        return float64
    code = Struct(">" + FIXED[kind])
    unpack, size = code.unpack_from, code.size

    def read(data: bytes, at: int) -> tuple[Value, int]:
        return unpack(data, at)[0], at + size

    return read
