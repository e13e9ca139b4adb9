"""Avro by fastavro, behind our own proof that the bytes are one value of the schema. Runs in the child only.

What a schema says of a value's meaning is not applied, as numbers are to stay numbers: a timestamp is its number. A
decimal is its exact digits, a UUID in 16 bytes is its text.
"""

from __future__ import annotations

import json
from array import array
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID

from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS

from kdump.decode.payload import _avro
from kdump.decode.payload.unfit import SchemaError, UnfitError
from kdump.format.java_values import MAX_INT
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_PRIMITIVES = {
    "null": (_avro.NULL,),
    "boolean": (_avro.BOOLEAN,),
    "int": (_avro.INT,),
    "long": (_avro.LONG,),
    "float": (_avro.FIXED, 4),
    "double": (_avro.FIXED, 8),
    "bytes": (_avro.BYTES,),
    "string": (_avro.BYTES,),
}
_WHY = {
    _avro.ENDS_INSIDE: "it ends inside a value",
    _avro.NUMBER: "a number has too many bits",
    _avro.NO_BOOLEAN: "a boolean is neither 0 nor 1",
    _avro.NO_BRANCH: "a union has no branch of that number",
    _avro.NO_SYMBOL: "an enum has no symbol of that number",
    _avro.LENGTH: "a length is below 0, or beyond the end",
    _avro.BLOCK: "a block has not the size that it says",
    _avro.DEPTH: f"it is nested deeper than {_avro.DEEPEST}",
    _avro.ITEMS: f"it has more than {_avro.MOST_EMPTY} items without bytes",
}
_DECIMAL, _UUID = "kdump-decimal", "kdump-uuid"
_LARGEST_SCALE = 10_000


class AvroSchema:
    """Decodes payloads of one schema.

    Args:
        text: of the schema.
        references: texts of those that it needs, each after what it needs itself.

    Raises:
        SchemaError: it cannot be read.
    """

    def __init__(self, text: str, references: Sequence[str]) -> None:
        try:
            named: dict[str, Any] = {}
            for one in references:
                parse_schema(_plain(json.loads(one)), named_schemas=named)
            self._schema = parse_schema(_plain(json.loads(text)), named_schemas=named)
            self._program = array("q", _Program(named).of(self._schema))
        except Exception as error:
            raise SchemaError(f"{type(error).__name__}: {error}") from None

    def decoded(self, body: bytearray, places: array[int]) -> Iterator[object]:
        """Yield what each payload comes to: a value that JSON can have, but for bytes; or the error that says why not.

        Args:
            body: the bytes of all; there is one at least.
            places: where each begins, and at last where the last one ends.
        """
        count, schema, read = len(places) - 1, self._schema, schemaless_reader
        ends = array("q", bytes(8 * count))
        if count:
            _avro.ends_of_values(self._program, body, places, count, ends, array("q", [0]))
        source, at = BytesIO(body), -1
        for number, after in enumerate(ends):
            end = places[number + 1]
            if after != end:
                why = _WHY[after] if after < 0 else f"{counted(end - after, 'byte')} behind the value"
                yield UnfitError(why)
                continue
            if at != places[number]:
                source.seek(places[number])
            try:
                value = read(source, schema, None)
            except Exception as error:
                at = -1
                yield error
                continue
            at = source.tell()
            yield value if at == end else UnfitError("fastavro reads another number of bytes")


class _Program:
    """Makes the program of a schema: see `_avro`.

    Args:
        named: the named types, by name.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._places: dict[str, int] = {}
        self._words: list[int] = []

    def of(self, schema: Any) -> list[int]:  # noqa: ANN401 (JSON)
        """Return the program of a schema."""
        self._place(schema)
        return self._words

    def _place(self, schema: Any) -> int:  # noqa: ANN401
        """Append what a schema is, and return its place."""
        kind = schema if isinstance(schema, str | list) else schema["type"]
        if isinstance(kind, dict):
            return self._place(kind)
        at = len(self._words)
        if isinstance(kind, list):
            return self._several(at, _avro.UNION, kind)
        if kind in _PRIMITIVES:
            self._words += _PRIMITIVES[kind]
        elif isinstance(schema, str):
            return self._places[schema] if schema in self._places else self._place(self._named[schema])
        elif kind in ("record", "error"):
            self._places[schema["name"]] = at
            self._several(at, _avro.RECORD, [field["type"] for field in schema["fields"]])
        elif kind == "enum":
            self._places[schema["name"]] = at
            self._words += _avro.ENUM, len(schema["symbols"])
        elif kind == "fixed":
            self._places[schema["name"]] = at
            self._words += _avro.FIXED, _size(schema["size"])
        else:
            self._words += _avro.ARRAY if kind == "array" else _avro.MAP, 0
            self._words[at + 1] = self._place(schema["items" if kind == "array" else "values"])
        return at

    def _several(self, at: int, operation: int, schemas: Sequence[Any]) -> int:
        self._words += operation, len(schemas), *[0] * len(schemas)
        for number, one in enumerate(schemas):
            self._words[at + 2 + number] = self._place(one)
        return at


def _size(size: Any) -> int:  # noqa: ANN401
    if not isinstance(size, int) or not 0 <= size <= MAX_INT:
        raise ValueError("the size of a fixed type is no length")
    return size


def _plain(schema: Any) -> Any:  # noqa: ANN401 (JSON)
    """A schema without what does not tell how bytes are read: defaults, and meanings but for two of them."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: one for name, one in schema.items() if name not in ("default", "logicalType", "doc", "aliases")}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _plain(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_plain(one) for one in kept["fields"]]
    meaning, kind = schema.get("logicalType"), schema.get("type")
    if meaning == "decimal" and kind in ("bytes", "fixed") and _is_scale(schema.get("scale", 0)):
        kept["logicalType"] = _DECIMAL
    elif meaning == "uuid" and kind == "fixed" and schema.get("size") == 16:
        kept["logicalType"] = _UUID
    return kept


def _is_scale(scale: object) -> bool:
    return isinstance(scale, int) and 0 <= scale <= _LARGEST_SCALE


def _decimal(data: bytes, schema: dict[str, Any], _reader: object = None) -> str:
    """The digits of a decimal, exactly."""
    scale = schema.get("scale", 0)
    number = int.from_bytes(data, "big", signed=True)
    digits = f"{abs(number):0{scale + 1}d}"
    whole, part = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    return f"{'-' if number < 0 else ''}{whole}{'.' if part else ''}{part}"


def _uuid(data: bytes, _schema: object, _reader: object = None) -> str:
    return str(UUID(bytes=data))


_READERS: dict[str, Callable[..., str]] = {
    f"bytes-{_DECIMAL}": _decimal,
    f"fixed-{_DECIMAL}": _decimal,
    f"fixed-{_UUID}": _uuid,
}
LOGICAL_READERS.update(_READERS)
