"""A record that is too large for who reads it: its fields are cut, its sizes are not.

Strategy: the fields are passed over in the stream, the first bytes of each are kept, and a small record is made of
them that the record kernel reads like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.kernels import wire
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.format.codec.base import DecodedStream

_SCRATCH = 256 * 1024
_LONGEST_VARLONG = 10


class CutRecord(Value):
    """What a record has whose row tells of less.

    Args:
        size: of the whole record, bytes.
        key_size, value_size: bytes; below 0 for null.
        headers: how many.
    """

    size: int
    key_size: int
    value_size: int
    headers: int


class CutError(Exception):
    """The record cannot be read; `status` is layout.R_MORE, R_BODY ..."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class RecordCutter:
    """Reads one large record from a decompressed stream.

    Args:
        stream: where it goes on.
        held: the bytes of the record that were read already, its length first.
        most: bytes of the key, of the value and of the headers that are kept.

    Attributes:
        stream: as given.
        rest: bytes behind the record that were read.
    """

    def __init__(self, stream: DecodedStream, held: memoryview, most: int) -> None:
        self.stream = stream
        self.rest = held
        self._most = most
        self._left = layout.LONGEST_VARINT  # bytes that the record has left

    def read(self) -> tuple[bytes, CutRecord]:
        """Return a record that stands for this one, and what this one has.

        Raises:
            CutError: it cannot be read.
        """
        size = self._number(layout.LONGEST_VARINT, layout.R_LENGTH_VARINT)
        self._left = size
        body = self._take(1, layout.R_BODY)
        body += _varint(self._number(_LONGEST_VARLONG, layout.R_FIELD_VARINT))
        body += _varint(self._number(layout.LONGEST_VARINT, layout.R_FIELD_VARINT))
        key_size, key = self._field(layout.R_KEY_LENGTH)
        value_size, value = self._field(layout.R_VALUE_LENGTH)
        headers = self._number(layout.LONGEST_VARINT, layout.R_FIELD_VARINT)
        if not 0 <= headers <= self._left:
            raise CutError(layout.R_HEADER_COUNT_BAD)
        rest = self._left
        kept, end = _whole_headers(self._keep(rest), headers, rest)
        if len(end) < rest and (kept == headers or rest <= self._most):  # bytes are left over, or nothing was cut
            raise CutError(layout.R_BODY)
        body += key + value + _varint(kept) + end
        return _varint(len(body)) + body, CutRecord(size, key_size, value_size, headers)

    def _field(self, too_long: int) -> tuple[int, bytes]:
        """A key or a value: its size, and the field as it is kept."""
        size = self._number(layout.LONGEST_VARINT, layout.R_FIELD_VARINT)
        if size > self._left:
            raise CutError(too_long)
        kept = self._keep(max(0, size))
        return size, _varint(min(size, len(kept)) if size > 0 else size) + kept

    def _number(self, longest: int, wrong: int) -> int:
        """A varint, cut to 32 bits (64 where it may have ten bytes) as Java does."""
        data = bytearray()
        while len(data) < longest:
            data += self._take(1, wrong)
            if data[-1] < 0x80:
                read = wire.varint if longest == layout.LONGEST_VARINT else wire.varlong
                return read(memoryview(data), 0, len(data))
        raise CutError(wrong)

    def _take(self, count: int, wrong: int) -> bytes:
        if count > self._left:
            raise CutError(wrong)
        data = self._keep(count)
        if len(data) < count:
            raise CutError(layout.R_MORE)
        return data

    def _keep(self, count: int) -> bytes:
        """Pass over some bytes; return the first of them."""
        kept = bytearray()
        self._left -= count
        while count:
            if not self.rest:
                scratch = memoryview(bytearray(_SCRATCH))
                self.rest = scratch[: self.stream.read_into(scratch)]
                if not self.rest:
                    raise CutError(layout.R_MORE)
            part = self.rest[:count]
            kept += part[: self._most - len(kept)]
            self.rest = self.rest[len(part) :]
            count -= len(part)
        return bytes(kept)


def _varint(value: int) -> bytes:
    """A number as records have it; 64 bits."""
    data = bytearray(_LONGEST_VARLONG)
    return bytes(data[: wire.put_varint(memoryview(data), 0, value)])


def _whole_headers(data: bytes, count: int, size: int) -> tuple[int, bytes]:
    """How many of the headers, which have `size` bytes, are whole in their first bytes, and these.

    What is wrong behind these first bytes is not seen.
    """
    at = whole = 0
    view = memoryview(data)
    while whole < count:
        start = at
        for status in (layout.R_HEADER_KEY, layout.R_HEADER_VALUE):
            after = wire.varint_end(view, at, len(data), wire.WIDEST_INT)
            if after == wire.TOO_WIDE:
                raise CutError(layout.R_FIELD_VARINT)
            if after < 0:
                return whole, data[:start]
            length = wire.varint(view, at, after)
            if length > size - after or (length < 0 and status == layout.R_HEADER_KEY):
                raise CutError(status)
            at = after + max(0, length)
        if at > len(data):
            return whole, data[:start]
        whole += 1
    return whole, data[:at]
