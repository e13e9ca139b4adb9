"""How serializers say which schema a key or a payload has: in its first bytes, or in a header of the record.

Source: io.confluent.kafka.serializers, PrefixSchemaIdSerializer and HeaderSchemaIdSerializer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kdump.format.kernels import wire
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable

_BY_ID = 0
_BY_GUID = 1
ID_END = 5  # magic byte and int32
_GUID_END = 17  # magic byte and 16 bytes
KEY_HEADER = b"__key_schema_id"
VALUE_HEADER = b"__value_schema_id"
FIRST_MESSAGE = (0,)
_MOST_INDEXES = 64  # messages within messages


class SchemaFrame(TupleValue):
    """Which schema bytes have."""

    id: int | None
    guid: str | None
    start: int  # where the payload begins, or what of it comes before: see `message_of`
    indexes: tuple[int, ...] | None = None  # of the message, where a header says it

    @property
    def what(self) -> str:
        """The schema, in words."""
        return f"id {self.id}" if self.guid is None else f"GUID {self.guid}"


def frame_of(data: bytes) -> SchemaFrame | None:
    """Return the frame that bytes begin with, None for none."""
    if len(data) >= ID_END and data[0] == _BY_ID:
        return SchemaFrame(wire.i32(data, 1), None, ID_END)
    if len(data) >= _GUID_END and data[0] == _BY_GUID:
        return SchemaFrame(None, str(UUID(bytes=data[1:_GUID_END])), _GUID_END)
    return None


def header_frame(headers: Iterable[tuple[bytes, bytes | None]], name: bytes) -> SchemaFrame | None:
    """Return the frame in the last header of a name, None where there is none, or what it has is no frame.

    Args:
        headers: of a record.
        name: KEY_HEADER or VALUE_HEADER.
    """
    found = None
    for key, value in headers:
        if key == name and value is not None:
            found = value
    frame = None if found is None else frame_of(found)
    if found is None or frame is None:
        return None
    if len(found) == frame.start:
        return frame._replace(start=0)
    message = message_of(found, frame.start)
    return None if message is None or message[1] != len(found) else frame._replace(start=0, indexes=message[0])


def message_of(data: bytes, at: int) -> tuple[tuple[int, ...], int] | None:
    """Return the message that Protobuf's frame names, and where it begins; None where that is not readable.

    Args:
        data: with the frame.
        at: behind the id.
    """
    found: list[int] = []
    left = None
    while left is None or left > 0:
        after = wire.varint_end(data, at, len(data), wire.WIDEST_INT)
        if after < 0:
            return None
        number = wire.varint(data, at, after)
        if number < 0 or (left is None and number > _MOST_INDEXES):
            return None
        if left is None:
            left = number
        else:
            found.append(number)
            left -= 1
        at = after
    return tuple(found) or FIRST_MESSAGE, at
