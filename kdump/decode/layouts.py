"""Records of clients' own topics whose layout is fixed: Kafka Streams' changelogs, and the topics of MirrorMaker 2.

A key of a windowed store is a key, then the start of the window (8 bytes) and a sequence number (4 bytes); of a
session store a key, then end and start of the session (8 bytes each). The value of a timestamped store is a timestamp
(8 bytes), then a value. The name of a changelog does not say of which kind its store is, so these are decoded where
they are asked for by name. The topics of MirrorMaker 2 are known by their names; what has not their layout there is
left as it is, for others may call a topic `heartbeats` too.

Source: WindowKeySchema, SessionKeySchema, ValueAndTimestampSerializer of Kafka Streams; OffsetSync, Checkpoint,
Heartbeat, DefaultReplicationPolicy of MirrorMaker 2, Kafka 4.3.1.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from kdump.decode.decoded import DELETED, NULL, Decoded
from kdump.decode.java_text import java_utf8
from kdump.value import TupleValue, pattern

if TYPE_CHECKING:
    import re

    from kdump.decode.decoded import Decoder, Value

_LONG, _INT, _SHORT = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">h")


class RecordLayout(TupleValue):
    """The fixed layout of keys and values of some topic.

    A field is a name and a type: `string` (2 bytes of length, then UTF-8), `int16`, `int32`, `int64`; the type `key` or
    `value` stands for what is left of the bytes in front of it, or behind it.
    """

    what: str  # the records, for a sentence
    topics: re.Pattern[str] | None  # names of topics that have it; None where no name tells
    key: tuple[tuple[str, str], ...]
    value: tuple[tuple[str, str], ...]


_WINDOW = (("key", "key"), ("windowStart", "int64"), ("sequence", "int32"))
_SESSION = (("key", "key"), ("windowEnd", "int64"), ("windowStart", "int64"))
_TIMED = (("timestamp", "int64"), ("value", "value"))
_KEY, _VALUE = (("key", "key"),), (("value", "value"),)
_OF_STREAMS = {_WINDOW: "windowed", _SESSION: "session", _TIMED: "timestamped"}  # none has a number below 0
_LAYOUTS = {
    "windowed": RecordLayout("a windowed store of Kafka Streams", None, _WINDOW, _VALUE),
    "windowed-timestamped": RecordLayout("a windowed store of Kafka Streams", None, _WINDOW, _TIMED),
    "session": RecordLayout("a session store of Kafka Streams", None, _SESSION, _VALUE),
    "timestamped": RecordLayout("a timestamped store of Kafka Streams", None, _KEY, _TIMED),
    "offset-syncs": RecordLayout(
        "MirrorMaker's offset-syncs",
        pattern(r"mm2-offset-syncs\W.+\Winternal"),
        (("topic", "string"), ("partition", "int32")),
        (("upstreamOffset", "int64"), ("offset", "int64")),
    ),
    "checkpoints": RecordLayout(
        "MirrorMaker's checkpoints",
        pattern(r".+\Wcheckpoints\Winternal"),
        (("group", "string"), ("topic", "string"), ("partition", "int32")),
        (("version", "int16"), ("upstreamOffset", "int64"), ("offset", "int64"), ("metadata", "string")),
    ),
    "heartbeats": RecordLayout(
        "MirrorMaker's heartbeats",
        pattern(r"(?:.+\W)?heartbeats"),
        (("sourceClusterAlias", "string"), ("targetClusterAlias", "string")),
        (("version", "int16"), ("timestamp", "int64")),
    ),
}
NAMES = tuple(_LAYOUTS)
"""The names of the layouts, as --decoder has them."""

WINDOW_SUFFIX, SESSION_SUFFIX = 12, 16
"""Bytes behind the key in a key of a windowed store, and of a session store."""

_SIZES = {"int16": _SHORT, "int32": _INT, "int64": _LONG}


class _OddError(Exception):
    """Bytes do not have a layout; the text says why."""


def layout_of(topic: str) -> str | None:
    """Return the name of the layout that the records of a topic have by its name; None where no name tells."""
    return next((name for name, one in _LAYOUTS.items() if one.topics and one.topics.fullmatch(topic)), None)


def what_of(name: str) -> str:
    """Return whose records have a layout, for a sentence."""
    return _LAYOUTS[name].what


def decoder(name: str, plain: Decoder | None = None, *, is_sure: bool = True) -> Decoder:
    """Return the decoder of a layout.

    Args:
        name: one of `NAMES`.
        plain: reads the key and the value inside; None for UTF-8.
        is_sure: the user named it; else what does not have the layout is no fault.
    """
    from kdump.decode.formats import decoder as forms

    layout, inner = _LAYOUTS[name], plain or forms("utf8", "utf8")

    def decode(offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        try:
            of_key, key_part = _parts(layout.key, key, "key")
            of_value, value_part = _parts(layout.value, value, "value")
        except _OddError as odd:
            text_key, text_value = (None if one is None else java_utf8(one) for one in (key, value))
            return Decoded(text_key, text_value, None, NULL, NULL, str(odd) if is_sure else None)
        read = inner(offset, key_part, value_part)
        made_key = _made(name, layout.key, of_key, read.shown_key)
        made_value = _made(name, layout.value, of_value, read.shown_payload)
        text = None if made_key is None else _text(made_key)
        payload = DELETED if made_value is None else _text(made_value)
        shown = DELETED.decode() if made_value is None else made_value
        return Decoded(text, payload, None, NULL if made_key is None else made_key, shown)

    return decode


def _parts(
    fields: tuple[tuple[str, str], ...], data: bytes | None, side: str
) -> tuple[dict[str, Value] | None, bytes | None]:
    """The fields of a key or a value, and the bytes of the key or value inside; None for null."""
    if data is None:
        return None, None
    found: dict[str, Value] = {}
    inside: bytes | None = None
    at, end = 0, len(data)
    for number, (name, kind) in enumerate(fields):
        if kind == side:
            end = len(data) - sum(_SIZES[other].size for _, other in fields[number + 1 :])
            if end < at:
                raise _OddError(f"{len(data)} bytes are too few for the {side}")
            inside, found[name], at = data[at:end], None, end
        elif kind == "string":
            size = _number(data, at, "int16", side)
            at += _SHORT.size
            if size < 0 or at + size > len(data):
                raise _OddError(f"{name} of the {side} is {size} bytes long, and {len(data) - at} are left")
            try:
                found[name] = data[at : at + size].decode()
            except UnicodeDecodeError:
                raise _OddError(f"{name} of the {side} is not UTF-8") from None
            at += size
        else:
            found[name] = _number(data, at, kind, side)
            if found[name] < 0 and fields in _OF_STREAMS:
                raise _OddError(f"{name} of the {side} is {found[name]}")
            at += _SIZES[kind].size
    if at != len(data):
        raise _OddError(f"{len(data) - at} bytes are left behind the {side}")
    return found, inside


def _number(data: bytes, at: int, kind: str, side: str) -> int:
    if at + _SIZES[kind].size > len(data):
        raise _OddError(f"{len(data)} bytes are too few for the {side}")
    number: int = _SIZES[kind].unpack_from(data, at)[0]
    return number


def _made(name: str, fields: tuple[tuple[str, str], ...], found: dict[str, Value] | None, inside: object) -> Value:
    """The object of a key or a value: as of an internal topic, its version apart from its data."""
    if found is None:
        return None
    data = {field: inside if kind in ("key", "value") else found[field] for field, kind in fields}
    if fields in (_KEY, _VALUE):
        return inside
    version = data.pop("version", None)
    kind = _OF_STREAMS.get(fields, name)
    return {"type": kind, **({} if version is None else {"version": version}), "data": data}


def _text(made: Value) -> bytes:
    return made.encode() if isinstance(made, str) else json.dumps(made, separators=(",", ":")).encode()
