"""Control records: transaction markers, and those of the Raft layer in the metadata log.

The key is version and type (int16 each). Every value is read at version 0 of its message, whatever it says;
its own version number is a field, and decides which fields the JSON has.

Source: org.apache.kafka.tools.DumpLogSegments.printControlRecord,
org.apache.kafka.common.record.internal.ControlRecordType, EndTransactionMarker, ControlRecordUtils
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kdump.decode import wire
from kdump.decode.java_text import java_json
from kdump.decode.schema import ReadMode
from kdump.decode.table import newest, table
from kdump.decode.wire import MalformedError, Value
from kdump.format.java_values import INVALID

if TYPE_CHECKING:
    from kdump.decode.table import Table

_NULL = "java.lang.NullPointerException"
_MARKERS = (0, 1)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Java ended the run at a control record."""

    message: str  # the text after 'Exception in thread "main" '


def control_text(key: bytes | None, value: bytes | None, release: str) -> bytes | Stopped:
    """Return what DumpLogSegments appends to the line of a control record.

    Args:
        key: of the record.
        value: of the record.
        release: 4.3, 4.2 or 3.9.

    Returns:
        UTF-8 text with its leading space, or the end of Java's run.
    """
    known = table(release)
    try:
        number = _number(key, known)
        row = known.control().get(number)
        if row is None:
            return f" controlType: UNKNOWN({number})".encode()
        if number in _MARKERS:
            return f" endTxnMarker: {row['name']} coordinatorEpoch: {_epoch(value, known)}".encode()
        if row["text"] is None:
            return f" controlType: {row['name']}({number})".encode()
        return f" {row['text']}".encode() + java_json(_message(row["value"], value, known), False)
    except MalformedError as problem:
        return Stopped(str(problem))


def control_object(key: bytes | None, value: bytes | None, release: str | None = None) -> dict[str, Value] | None:
    """Return a control record as JSON-able {"type": "COMMIT", "data": ...}, None where it is damaged.

    Args:
        key: of the record.
        value: of the record.
        release: whose schemas count; None for the newest, and for keeping unknown tagged fields too.
    """
    known = table(newest(), ReadMode.OPEN) if release is None else table(release)
    try:
        number = _number(key, known)
        row = known.control().get(number)
        if row is None:
            return {"type": f"UNKNOWN({number})", "data": None}
        if number in _MARKERS:
            return {"type": row["name"], "data": {"coordinatorEpoch": _epoch(value, known)}}
        return {"type": row["name"], "data": _message(row["value"], value, known)}
    except MalformedError:
        return None


def _number(key: bytes | None, known: Table) -> int:
    """Return the type in a key.

    Source: org.apache.kafka.common.record.internal.ControlRecordType.parseTypeId
    """
    if key is None:
        call = f"java.nio.ByteBuffer.{known.fact('controlKeyCall')}()"
        raise MalformedError(_NULL, f'Cannot invoke "{call}" because "key" is null')
    if len(key) < 4:
        text = f"Must have at least 4 bytes, but found only {len(key)}"
        raise MalformedError(INVALID, f"Invalid value size found for {known.fact('controlKeyWord')}. {text}")
    version = int.from_bytes(key[:2], signed=True)
    if version < 0:
        text = "May indicate data corruption"
        raise MalformedError(INVALID, f"Invalid version found for control record: {version}. {text}")
    return int(known.schema("ControlRecordTypeSchema").read(key, 2, version)[0]["type"])


def _epoch(value: bytes | None, known: Table) -> int:
    """Return the coordinator epoch of a transaction marker.

    Source: org.apache.kafka.common.record.internal.EndTransactionMarker.deserializeValue
    """
    counts: bool = known.fact("markerNeedsSixBytes")
    if value is None:
        call = f"java.nio.ByteBuffer.{'remaining' if counts else 'getShort'}()"
        raise MalformedError(_NULL, f'Cannot invoke "{call}" because "value" is null')
    if counts and len(value) < 6:
        text = f"Must have at least 6 bytes, but found only {len(value)}"
        raise MalformedError(INVALID, f"Invalid value size found for end transaction marker. {text}")
    if len(value) < 2:
        raise MalformedError(wire.UNDERFLOW)
    version = int.from_bytes(value[:2], signed=True)
    if version < 0:
        text = "May indicate data corruption"
        raise MalformedError(INVALID, f"Invalid version found for end transaction marker: {version}. {text}")
    return int(known.schema("EndTxnMarker").read(value, 2, version)[0]["coordinatorEpoch"])


def _message(name: str, value: bytes | None, known: Table) -> dict[str, Value]:
    """Return the message in a value, with the fields of the version that it says it has."""
    if value is None:
        raise MalformedError(_NULL, 'Cannot invoke "java.nio.ByteBuffer.slice()" because "data" is null')
    return known.schema(name).read(value, 0, 0, int.from_bytes(value[:2], signed=True))[0]
