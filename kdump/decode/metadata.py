"""Records of __cluster_metadata, as JSON; and the frame that they share with the records of remote storage.

The frame: unsigned varints frame version (1), type, version; then the message; nothing behind it.

Source: org.apache.kafka.tools.DumpLogSegments.ClusterMetadataLogMessageParser,
org.apache.kafka.server.common.serialization.AbstractApiMessageSerde
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kdump.decode import wire
from kdump.decode.decoded import Decoded, in_bytes
from kdump.decode.fast_compile import quick
from kdump.decode.java_text import java_json
from kdump.decode.schema import ReadMode
from kdump.decode.wire import LimitError, MalformedError, Value

if TYPE_CHECKING:
    from kdump.decode.decoded import Decoder, Texts, Usual
    from kdump.decode.fast_compile import Quick
    from kdump.decode.schema import Schema
    from kdump.decode.table import Table

_LARGEST = 0x7FFF
_SHORT_FRAME = 3  # frame version, type, version: a byte each
_LARGEST_BYTE = 0x7F
_PREVIEW = (
    "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release "
    "of KRaft in 2.8 to newer versions are not supported."
)
_UNKNOWN_FRAME = "Could not deserialize metadata record due to unknown frame version "


class UnframedError(Exception):
    """A framed record that cannot be read, in Kafka's words; `is_limit`: too large, in the words of 4.4."""

    def __init__(self, why: str, *, is_limit: bool = False) -> None:
        super().__init__(why)
        self.is_limit = is_limit


@dataclass(frozen=True, slots=True)
class Framed:
    """A framed record."""

    name: str | int  # of its type (TOPIC_RECORD); the number where the type is not known
    number: int  # of its type
    version: int  # as found
    data: dict[str, Value]  # its fields; of an unknown type its bytes
    floats: bool  # whether they may hold floating point numbers
    strange: str | None = None  # what of it the table does not know, in words; None for nothing

    @property
    def object(self) -> dict[str, Value]:
        """The record as Kafka's JSON."""
        return {"type": self.name, "version": self.version, "data": self.data}


class Frames:
    """Reads framed records of one kind."""

    def __init__(self, known: Table, name: str) -> None:
        records = known.records(name).items()
        self._is_open = known.reading is ReadMode.OPEN
        self._rows: dict[int, tuple[str, Schema]] = {
            number: (_enum_name(record), known.schema(record)) for number, record in records
        }

    def read(self, value: bytes) -> Framed:
        """Read a record; an open table leaves an unknown type in its bytes.

        Raises:
            UnframedError: it cannot be read.
        """
        frame, at = _short(value, 0, "frame version")
        if frame == 0:
            raise UnframedError(_PREVIEW)
        if frame != 1:
            raise UnframedError(f"{_UNKNOWN_FRAME}{frame}(only frame version 1 is supported)")
        number, at = _short(value, at, "type")
        version, at = _short(value, at, "version")
        if number not in self._rows and self._is_open:
            return Framed(number, number, version, in_bytes(value[at:]), False, f"unknown record type {number}")
        if number not in self._rows:
            raise UnframedError(f"{wire.UNSUPPORTED_VERSION}: Unknown metadata id {number}")
        name, schema = self._rows[number]
        try:
            data, end = schema.read(value, at, version)
        except MalformedError as problem:
            if self._is_open and isinstance(problem, LimitError):
                raise UnframedError(str(problem.message), is_limit=True) from None
            raise UnframedError(f"Failed to deserialize record with type {number}") from None
        if end != len(value):
            raise UnframedError(f"Found {len(value) - end} byte(s) of garbage after {number}")
        return Framed(name, number, version, data, schema.floats, schema.strangers(version) if self._is_open else None)


def decoder(known: Table) -> Decoder:
    """Return the decoder of metadata records; keys are not looked at.

    Args:
        known: the table of the release.
    """
    frames = Frames(known, "metadata")

    def decode(offset: int, _key: bytes | None, value: bytes | None) -> Decoded:
        try:
            record = frames.read(value or b"")
        except UnframedError as problem:
            return Decoded(None, f"Error at {offset}, skipping. {problem}".encode())
        shown = record.object
        return Decoded(None, java_json(shown, record.floats), payload_object=shown)

    return decode


def open_decoder(known: Table) -> Decoder:
    """Return the decoder of metadata records for JSON: see `kdump.decode.open_decoder`.

    Args:
        known: an open table.
    """
    frames = Frames(known, "metadata")

    def decode(offset: int, _key: bytes | None, value: bytes | None) -> Decoded:
        try:
            record = frames.read(value or b"")
        except UnframedError as problem:
            text = None if problem.is_limit else f"Error at {offset}, skipping. {problem}".encode()
            return Decoded(None, text, warning=str(problem))
        return Decoded(None, None, payload_object=record.object, note=record.strange)

    return decode


def usual(known: Table) -> Usual:
    """Return the quick way for metadata records.

    Args:
        known: the table of the release.
    """
    records = known.records("metadata")
    readers: dict[bytes, Quick | None] = {}

    def texts(_key: bytes | None, value: bytes | None) -> Texts | None:
        frame = b"" if value is None else value[:_SHORT_FRAME]
        if frame not in readers:
            readers[frame] = _quick(known, records, frame)
        reader = readers[frame]
        payload = None if reader is None or value is None else reader(value, _SHORT_FRAME)
        return None if payload is None else (None, payload)

    return texts


def _quick(known: Table, records: dict[int, str], frame: bytes) -> Quick | None:
    """Return the quick reader of what comes behind a frame, None for a frame that is not usual."""
    if len(frame) < _SHORT_FRAME or frame[0] != 1 or frame[1] not in records or max(frame) > _LARGEST_BYTE:
        return None
    record = records[frame[1]]
    if not (message := known.message(record)).low <= frame[2] <= message.high:
        return None
    head = b'{"type":"%b","version":%d,"data":' % (_enum_name(record).encode(), frame[2])
    return quick(message, frame[2], head)


def _enum_name(record: str) -> str:
    """Return the name of a record's type: TOPIC_RECORD for TopicRecord."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", record).upper()


def _short(data: bytes, at: int, what: str) -> tuple[int, int]:
    """Read a varint that is an int16; above 2^31-1 it is negative and keeps its low 16 bits, as in Java."""
    try:
        value, at = wire.uvarint(data, at)
    except (IndexError, MalformedError):
        raise UnframedError(f"Error while reading {what}") from None
    if value > _LARGEST:
        raise UnframedError(f"Value for {what} was too large.")
    return ((value + 0x8000) & 0xFFFF) - 0x8000, at
