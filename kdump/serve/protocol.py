"""Requests and responses of Kafka's protocol: bytes to plain values, and back.

The definitions are those of kio, which makes a typed class of every version of every message of Kafka's own schemas,
and is kept by Aiven as part of its work. kafka-python has definitions too, but of the requests that its client sends;
those here are of both sides. kio's own reader is not used: it takes memory for as many elements as a request claims
to have before it looks whether they are there, and ends the process where there is no such memory. The reader below
goes over the same classes and never takes more than the bytes that are there.
"""

from __future__ import annotations

import dataclasses
import struct
import typing
import uuid
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Fields = dict[str, Any]
    _Reader = Callable[["_Cursor"], Any]

_UUID_SIZE = 16
_MOST_VARINT = 5  # bytes of a 32-bit number
_FIRST = 4  # bytes of api key and version, which all requests begin with
_UNKNOWN = ErrorCode.unknown_server_error
API_VERSIONS = "api_versions"


class BadRequestError(Exception):
    """The bytes are no request of their kind and version."""


class Header(Value):
    """The header of a request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    size: int  # bytes; the body follows


class Api(Value):
    """A kind of request."""

    name: str  # kio's, as list_offsets
    key: int
    least: int  # the first version that there are definitions for
    most: int  # the last one


@cache
def api(name: str) -> Api:
    """Return a kind of request by its name."""
    versions = [version for version, kinds in schema_name_map[name].items() if EntityType.request in kinds]
    key = next(key for key, its in api_key_map.items() if its == name)
    return Api(name, key, min(versions), max(versions))


@cache
def names_by_key() -> dict[int, str]:
    """Return the names of all kinds of requests that Kafka has."""
    return dict(api_key_map)


# --- reading ------------------------------------------------------------------------------------------------------
class _Cursor:
    """Bytes and a position; what is behind the end is no byte."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise BadRequestError(f"{count} bytes at {self.at} of {len(self.data)}")
        found = self.data[self.at : end]
        self.at = end
        return found

    def varint(self) -> int:
        value = 0
        for shift in range(0, 7 * _MOST_VARINT, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BadRequestError("a varint has no end")

    def length(self, *, flexible: bool, wide: bool) -> int:
        """Return the length of what follows, -1 for null."""
        if flexible:
            return self.varint() - 1
        return int.from_bytes(self.take(4 if wide else 2), "big", signed=True)


def _number(form: str) -> _Reader:
    unpack, size = struct.Struct(f">{form}").unpack, struct.calcsize(form)
    return lambda cursor: unpack(cursor.take(size))[0]


_NUMBERS = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float64": "d", "bool": "?", "error_code": "h", "timedelta_i32": "i", "timedelta_i64": "q", "datetime_i64": "q",
}  # fmt: skip


def _uuid(cursor: _Cursor) -> uuid.UUID | None:
    found = uuid.UUID(bytes=cursor.take(_UUID_SIZE))
    return found if found.int else None


def _text(cursor: _Cursor, *, flexible: bool) -> str | None:
    length = cursor.length(flexible=flexible, wide=False)
    if length < 0:
        return None
    try:
        return cursor.take(length).decode()
    except UnicodeDecodeError:
        raise BadRequestError("a string is no UTF-8") from None


def _bytes(cursor: _Cursor, *, flexible: bool) -> bytes | None:
    length = cursor.length(flexible=flexible, wide=True)
    return None if length < 0 else cursor.take(length)


def _array(cursor: _Cursor, element: _Reader, *, flexible: bool) -> list[Any] | None:
    count = cursor.length(flexible=flexible, wide=True)
    if count < 0:
        return None
    if count > len(cursor.data) - cursor.at:  # each element has a byte at least
        raise BadRequestError(f"{count} elements at {cursor.at} of {len(cursor.data)} bytes")
    return [element(cursor) for _ in range(count)]


def _primitive(kind: str, *, flexible: bool) -> _Reader:
    if kind in _NUMBERS:
        return _number(_NUMBERS[kind])
    if kind == "uuid":
        return _uuid
    return partial(_text if kind == "string" else _bytes, flexible=flexible)


class _Shape(Value):
    """How a field lies in the bytes, and in kio's classes."""

    name: str
    kind: str | None  # of a primitive value, or of the elements of an array of such; None for entities
    of: type | None  # the class of an entity, or of the elements of an array
    is_array: bool
    is_nullable: bool
    tag: int | None


@cache
def _shapes(of: type) -> tuple[_Shape, ...]:
    """The fields of a class of kio's."""
    hints, found = typing.get_type_hints(of), []
    for field in dataclasses.fields(of):
        kinds = [one for one in typing.get_args(hints[field.name]) if one is not type(None)] or [hints[field.name]]
        is_nullable = type(None) in typing.get_args(hints[field.name])
        is_array = typing.get_origin(hints[field.name]) is tuple
        if is_nullable and typing.get_origin(kinds[0]) is tuple:
            is_array, kinds = True, list(typing.get_args(kinds[0]))
        element = kinds[0]
        kind = field.metadata.get("kafka_type")
        entity = element if kind is None else None
        found.append(_Shape(field.name, kind, entity, is_array, is_nullable, field.metadata.get("tag")))
    return tuple(found)


@cache
def _reader(of: type) -> _Reader:
    """Return what reads an entity to a dict by the names of its fields; null for an absent one is None."""
    flexible = of.__flexible__  # type: ignore[attr-defined]
    is_header = of.__name__ == "RequestHeader"
    fields: list[tuple[str, _Reader]] = []
    tagged: dict[int, tuple[str, _Reader]] = {}
    for shape in _shapes(of):
        one = _reader(shape.of) if shape.kind is None and shape.of is not None else None
        if one is None:
            # the client id is of the old form in all versions, as Kafka's own generator has it
            is_flexible = flexible and not (is_header and shape.name == "client_id")
            one = _primitive(shape.kind or "", flexible=is_flexible)
        elif shape.is_nullable and not shape.is_array:
            one = partial(_nullable, one)
        if shape.is_array:
            one = partial(_array, element=one, flexible=flexible)
        if not shape.is_nullable and (shape.is_array or shape.kind in ("string", "bytes", "records")):
            one = partial(_not_null, one, shape.name)
        if shape.tag is None:
            fields.append((shape.name, one))
        else:
            tagged[shape.tag] = shape.name, one

    def read(cursor: _Cursor) -> Fields:
        found = {name: one(cursor) for name, one in fields}
        if flexible:
            _read_tagged(cursor, tagged, found)
        return found

    return read


def _not_null(one: _Reader, name: str, cursor: _Cursor) -> Any:  # noqa: ANN401 (of the protocol)
    value = one(cursor)
    if value is None:
        raise BadRequestError(f"{name} is null")
    return value


def _nullable(one: _Reader, cursor: _Cursor) -> Fields | None:
    return one(cursor) if cursor.take(1)[0] < 0x80 else None


def _read_tagged(cursor: _Cursor, tagged: Mapping[int, tuple[str, _Reader]], found: Fields) -> None:
    for _ in range(cursor.varint()):  # each takes two bytes, or it ends
        tag, size = cursor.varint(), cursor.varint()
        value = _Cursor(cursor.take(size))
        if tag in tagged:
            name, one = tagged[tag]
            found[name] = one(value)


def read_header(data: bytes) -> Header:
    """Return the header of a request.

    Args:
        data: the request without its length.

    Raises:
        BadRequestError: it has none, or is of a kind or version that nothing is known of; but for the version of
            ApiVersions, of which any may come.
    """
    if len(data) < _FIRST:
        raise BadRequestError("too few bytes for a header")
    key, version = struct.unpack_from(">hh", data)
    name = names_by_key().get(key)
    if name is None:
        raise BadRequestError(f"no request has the key {key}")
    if name == API_VERSIONS and not api(name).least <= version <= api(name).most:
        correlation = _Cursor(data, _FIRST).take(4)  # stands there in each header
        return Header(key, version, int.from_bytes(correlation, "big", signed=True), None, len(data))
    cursor = _Cursor(data)
    found = _reader(_request(key, version).__header_schema__)(cursor)  # type: ignore[attr-defined]
    return Header(key, version, found["correlation_id"], found.get("client_id"), cursor.at)


def read_request(header: Header, data: bytes) -> Fields:
    """Return the fields of a request.

    Args:
        header: of it.
        data: the request without its length.

    Raises:
        BadRequestError: the bytes are none of this kind and version.
    """
    cursor = _Cursor(data, header.size)
    return _reader(_request(header.api_key, header.version))(cursor)  # type: ignore[no-any-return]


def _request(key: int, version: int) -> type:
    known = api(names_by_key()[key])
    if not known.least <= version <= known.most:
        raise BadRequestError(f"{known.name} has no version {version}")
    return load_request_schema(key, version)


# --- writing ------------------------------------------------------------------------------------------------------
class ResponsePieces:
    """What a response is made of, in order: bytes, and ranges of files that are read when they are sent."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._pieces: list[Any] = []
        self.size = 0  # bytes

    def write(self, piece: Any) -> None:  # noqa: ANN401 (bytes, or whatever has a length)
        """Add a piece."""
        self.size += len(piece)
        if isinstance(piece, bytes | bytearray):
            self._bytes += piece
        else:
            self._pieces += [bytes(self._bytes), piece]
            self._bytes.clear()

    def __iter__(self) -> Iterator[Any]:
        yield from self._pieces
        yield bytes(self._bytes)


def response(header: Header, fields: Fields, version: int | None = None) -> ResponsePieces:
    """Return the response to a request.

    Args:
        header: of the request.
        fields: of the response, of which its version takes those that it has; what is left out has its default.
        version: of the response; None for that of the request.
    """
    of = load_response_schema(header.api_key, header.version if version is None else version)
    pieces = ResponsePieces()
    its_header = of.__header_schema__
    values = {"correlation_id": header.correlation_id}
    entity_writer(its_header)(pieces, _made(its_header, values))  # type: ignore[arg-type]
    entity_writer(of)(pieces, _made(of, fields))  # type: ignore[arg-type]
    return pieces


def _made(of: type, fields: Fields) -> Any:  # noqa: ANN401 (one of kio's classes)
    """Return an entity of kio's."""
    values = {}
    for shape in _shapes(of):
        value = fields.get(shape.name)
        if value is not None and shape.kind is None and shape.of is not None:
            value = tuple(_made(shape.of, one) for one in value) if shape.is_array else _made(shape.of, value)
        elif value is not None:
            value = tuple(value) if shape.is_array else _value(shape.kind, value)
        if value is None and shape.name not in fields:
            if shape.name in _defaulted(of):
                continue
            value = _empty(shape)
        values[shape.name] = value
    return of(**values)


@cache
def _defaulted(of: type) -> frozenset[str]:
    fields = dataclasses.fields(of)
    return frozenset(one.name for one in fields if one.default is not dataclasses.MISSING)


def _value(kind: str | None, value: Any) -> Any:  # noqa: ANN401
    if kind == "error_code":
        return ErrorCode(value)
    return timedelta(milliseconds=value) if kind in ("timedelta_i32", "timedelta_i64") else value


def _empty(shape: _Shape) -> Any:  # noqa: ANN401
    if shape.is_array:  # clients of Kafka 4 do not look whether it is null
        return ()
    if shape.is_nullable or shape.kind == "uuid":
        return None
    if shape.kind in ("string", "bytes"):
        return "" if shape.kind == "string" else b""
    return _value(shape.kind, 0)
