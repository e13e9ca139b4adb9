"""Records of the group, transaction and share coordinators, as JSON.

The key begins with the record type (int16), the value with the version of the message (int16). Whatever is
wrong with either is said in the place of the key, and no payload is printed.

Source: org.apache.kafka.tools.DumpLogSegments.CoordinatorRecordMessageParser,
org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde
"""

from __future__ import annotations

from binascii import a2b_base64
from functools import lru_cache
from typing import TYPE_CHECKING

from kdump.decode.decoded import DELETED, Decoded, in_bytes
from kdump.decode.fast_compile import quick
from kdump.decode.java_text import java_json
from kdump.decode.wire import RUNTIME, LimitError, MalformedError, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.decode.decoded import Decoder, Texts, Usual
    from kdump.decode.fast_compile import Quick
    from kdump.decode.schema import Schema
    from kdump.decode.table import Table

_SHORT_KEY = 512
_REMEMBERED_KEYS = 4096

_EMBEDDED = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}
_CONSUMERS = (b"\0\x08consumer", b"\tconsumer")  # the first field of groups whose members' bytes are decoded further

_Key = tuple[int, bytes, "dict[str, Value] | None", "str | None"]


_Value = tuple["dict[str, Value] | None", "str | None", "str | None"]


class _UnreadableError(Exception):
    """A record that cannot be read, in Kafka's words."""


class _TooLargeError(_UnreadableError):
    """It is over a limit of Kafka 4.4."""


def decoder(name: str, known: Table) -> Decoder:
    """Return the decoder of a coordinator's records.

    Args:
        name: offsets, transaction or share.
        known: the table of the release.
    """
    of_values = {number: known.schema(record + "Value") for number, record in known.records(name).items()}
    read_key = _key_reader(name, known)
    checks: bool = known.fact("checksValueVersion")
    missing = _missing_key(known)
    embedded = [known.schema(message) for message in _EMBEDDED.values()]
    named = _state_names(name, known)

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        if key is None:
            return Decoded(None, None, f"{RUNTIME}: Failed to decode message at offset {offset} {missing}")
        try:
            kind, key_text, key_object, left = read_key(key)
            if key_object is None:
                return Decoded(b"Unknown record type %d at offset %d, skipping." % (kind, offset), None)
            if value is None:
                return Decoded(key_text, DELETED, None, key_object, None, left)
            schema = of_values[kind]
            version = _version(value, "value")
            if checks and not schema.low <= version <= schema.high:
                raise _UnreadableError(f"Found an unknown record version {version} for {kind} type")
            data, end = _read(schema, value, version, "value")
        except _UnreadableError as problem:
            return Decoded(f"Error at offset {offset}, skipping. {problem}".encode(), None)
        if schema.message.name == "GroupMetadataValue":
            _open_members(data, *embedded)
        value_object = {"version": str(version), "data": data}
        left = _joined(left, _left(value, end, "value"))
        payload = java_json(value_object, schema.floats)
        return Decoded(key_text, named(payload) if named else payload, None, key_object, value_object, left)

    return decode


def open_decoder(name: str, known: Table) -> Decoder:
    """Return the decoder of a coordinator's records for JSON: see `kdump.decode.open_decoder`.

    Args:
        name: offsets, transaction or share.
        known: an open table.
    """
    of_values = {number: known.schema(record + "Value") for number, record in known.records(name).items()}
    read_key = _key_reader(name, known)
    missing = _missing_key(known)
    read_value = _value_reader(of_values, *(known.schema(message) for message in _EMBEDDED.values()))

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        if key is None:
            return Decoded(None, None, f"{RUNTIME}: Failed to decode message at offset {offset} {missing}")
        key_object: object = None
        left = note = None
        try:
            kind, _, key_object, left = read_key(key)
            if key_object is None:
                key_object, note = {"type": str(kind), "data": in_bytes(key[2:])}, f"unknown record type {kind}"
            if value is None:
                return Decoded(None, DELETED, None, key_object=key_object, payload_object=None, warning=left, note=note)
            shown, more, strange = read_value(kind, value)
        except _TooLargeError as problem:
            return Decoded(
                None,
                None,
                None,
                key_object=key_object,
                payload_object=None,
                warning=_joined(left, str(problem)),
                note=note,
            )
        except _UnreadableError as problem:
            text = f"Error at offset {offset}, skipping. {problem}".encode()
            return Decoded(
                text, None, None, key_object=None, payload_object=None, warning=_joined(left, str(problem)), note=note
            )
        return Decoded(
            None,
            None,
            None,
            key_object=key_object,
            payload_object=shown,
            warning=_joined(left, more),
            note=_joined(note, strange),
        )

    return decode


def _missing_key(known: Table) -> str:
    return f"using {known.fact('missingKey')} (message had a missing key)"


def _value_reader(
    of_values: dict[int, Schema], subscription: Schema, assignment: Schema
) -> Callable[[int, bytes], _Value]:
    """Return a function from a record type and a value to its object, what is left over and what is not known."""

    def read(kind: int, value: bytes) -> _Value:
        schema = of_values.get(kind)
        if schema is None and len(value) < 2:
            return None, None, None
        version = _version(value, "value")
        if schema is None or not schema.low <= version <= schema.high:
            strange = None if schema is None else f"unknown version {version} of {schema.message.name}"
            return {"version": str(version), "data": in_bytes(value[2:])}, None, strange
        data, end = _read(schema, value, version, "value")
        strange = schema.strangers(version)
        if schema.message.name == "GroupMetadataValue":
            _open_members(data, subscription, assignment)
        return {"version": str(version), "data": data}, _left(value, end, "value"), strange

    return read


def _joined(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None


def _state_names(decoder_name: str, known: Table) -> Callable[[bytes], bytes] | None:
    """Return what puts the names of transaction states into the text of a value; None where numbers stay.

    Source: DumpLogSegments.TransactionLogMessageParser, TransactionState (4.4): a state that has no name is the number,
    but a string.
    """
    if decoder_name != "transaction" or not known.fact("namesTransactionStates"):
        return None
    names = [name.encode() for name in known.states("transaction")]
    field = b'"transactionStatus":'

    def named(text: bytes) -> bytes:
        at = text.find(field) + len(field)  # only numbers stand before it
        end = text.find(b",", at)
        number = int(text[at:end])
        name = names[number] if 0 <= number < len(names) else text[at:end]
        return b'%b"%b"%b' % (text[:at], name, text[end:])

    return named


def usual(name: str, known: Table, *, as_json: bool) -> Usual:
    """Return the quick way for a coordinator's records.

    Args:
        name: offsets, transaction or share.
        known: the table of the release.
        as_json: numbers stay numbers.
    """
    named = None if as_json else _state_names(name, known)
    records = known.records(name)
    of_keys = {  # the version of a key is its type, and each has been read like the highest
        number: quick(message, min(number, message.high), b'{"type":"%d","data":' % number)
        for number, message in [(number, known.message(f"{record}Key")) for number, record in records.items()]
    }
    of_values: dict[tuple[int, int, bool], Quick | None] = {}
    group = next((number for number, record in records.items() if record == "GroupMetadata"), None)
    flexible = known.message("GroupMetadataValue").flex or 0
    members = {field: known.message(message) for field, message in _EMBEDDED.items()}

    def read_key(key: bytes) -> tuple[int, bytes] | None:
        kind = int.from_bytes(key[:2])
        reader = of_keys.get(kind) if len(key) > 1 else None
        text = None if reader is None else reader(key, 2)
        return None if text is None else (kind, text)

    remembered = lru_cache(_REMEMBERED_KEYS)(read_key)

    def texts(key: bytes | None, value: bytes | None) -> Texts | None:
        if key is None:
            return None
        found = remembered(key) if len(key) <= _SHORT_KEY else read_key(key)
        if found is None:
            return None
        kind, text = found
        if value is None:
            return text, DELETED
        if len(value) < 2:
            return None
        version = value[0] << 8 | value[1]
        opens = kind == group and value.startswith(_CONSUMERS[version >= flexible], 2)
        what = kind, version, opens
        if what not in of_values:
            message, head = known.message(f"{records[kind]}Value"), b'{"version":"%d","data":' % version
            is_known = message.low <= version <= message.high
            of_values[what] = quick(message, version, head, members if opens else {}) if is_known else None
        reader = of_values[what]
        payload = None if reader is None else reader(value, 2)
        if payload is None:
            return None
        return text, named(payload) if named else payload

    return texts


def _key_reader(name: str, known: Table) -> Callable[[bytes], _Key]:
    """Return a function from a key to its type, text, object and what is left over; it remembers short keys.

    A coordinator writes few keys many times. The object is None when the type is not known.
    """
    schemas = {number: known.schema(record + "Key") for number, record in known.records(name).items()}

    def read(key: bytes) -> _Key:
        kind = _version(key, "key")
        schema = schemas.get(kind)
        if schema is None:
            return kind, b"", None, None
        data, end = _read(schema, key, kind, "key")
        shown = {"type": str(kind), "data": data}
        return kind, java_json(shown, schema.floats), shown, _left(key, end, "key")

    remembered = lru_cache(_REMEMBERED_KEYS)(read)
    return lambda key: remembered(key) if len(key) <= _SHORT_KEY else read(key)


def _version(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise _UnreadableError(f"Could not read version from {what}'s buffer.")
    return int.from_bytes(data[:2], signed=True)


def _read(schema: Schema, data: bytes, version: int, what: str) -> tuple[dict[str, Value], int]:
    """Read a key or value behind its first two bytes."""
    try:
        return schema.read(data, 2, version)
    except MalformedError as problem:
        cause = "null" if problem.message is None else problem.message
        text = f"Could not read record with version {version} from {what}'s buffer due to: {cause}."
        raise (_TooLargeError if isinstance(problem, LimitError) else _UnreadableError)(text) from None


def _left(data: bytes, end: int, what: str) -> str | None:
    left = len(data) - end
    return f"{left} byte{'s' if left > 1 else ''} after the {what} record" if left else None


def _open_members(group: dict[str, Value], subscription: Schema, assignment: Schema) -> None:
    """Put what consumers say, decoded, in the place of the bytes; what cannot be read stays Base64.

    Source: org.apache.kafka.tools.DumpLogSegments.OffsetsMessageParser.prepareGroupMetadataValue
    """
    if group["protocolType"] != "consumer":
        return
    for member in group["members"]:
        member["subscription"] = _embedded(member["subscription"], subscription)
        member["assignment"] = _embedded(member["assignment"], assignment)


def _embedded(base64: str, schema: Schema) -> Value:
    data = a2b_base64(base64)
    if len(data) < 2:
        return base64
    try:
        return schema.read(data, 2, int.from_bytes(data[:2], signed=True))[0]
    except MalformedError:
        return base64
