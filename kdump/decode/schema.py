"""The one reader of all messages: from a message of the table and a version to a list of field readers.

Which fields are there, how each is read and what may be null is settled once, when a version is first met;
per record nothing of the table is looked at again.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kdump.decode import wire
from kdump.decode.wire import FIXED, MalformedError, Reader, UnknownVersionError, Value

Names = tuple[str, ...]
TagReader = Callable[[bytes, int, dict[str, Value]], tuple[dict[str, Value], int]]


class ReadMode(IntEnum):
    """The way in which messages are read.

    EXACT: as the classes of a release read them. BOUNDED: but no more than a budget of memory in all, which Kafka does
    not have. OPEN: so bounded, and what the table does not know stays: unknown tagged fields are kept, and a version
    above the highest is read as the highest to its end.
    """

    EXACT = 0
    BOUNDED = 1
    OPEN = 2


UNKNOWN_TAGS = "unknownTaggedFields"
"""Key of the tagged fields of a struct that the table does not know, as JSON has them."""

_TAGS_TOLD = 3  # unknown tags of a record that are named; the others are counted


Row = Any
"""A piece of the table: its `_readme` says which."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message."""

    name: str  # as in Kafka's JSON
    kind: str  # type of the value, of the items when it is an array; "struct" for a struct
    array: bool  # whether it is an array
    first: int  # lowest version of the message that has it
    last: int | None  # highest version that has it, None when no end is known
    nullable: bool  # whether it may be null
    tag: int | None  # its tag, None for an ordinary field
    default: Row  # value where a version does not have it; a tagged field that equals it is not shown
    struct: str  # name of the struct, "" when it is none
    common: bool  # whether Kafka declares the struct apart from the field
    fields: tuple[Field, ...]  # fields of the struct

    def has(self, version: int) -> bool:
        """Whether a version of the message has the field."""
        return self.first <= version and (self.last is None or version <= self.last)


@dataclass(frozen=True, slots=True)
class Message:
    """A message: the lowest and highest version, the first flexible one (None: none is), its fields."""

    name: str
    low: int
    high: int
    flex: int | None
    fields: tuple[Field, ...]


class Schema:
    """The readers of a message, one for each version met.

    Args:
        message: its row of the table.
        reading: how it is read.
        limited: whether the release refuses arrays and tag sections over a limit; other ways of reading do so anyway.
    """

    def __init__(self, message: Message, reading: ReadMode = ReadMode.EXACT, *, limited: bool = False) -> None:
        self.message = message  # its row of the table
        self.unknown: list[int] = []  # the tags that were kept of the message read last
        self._reading = reading
        self._limits = wire.Limits(
            limited or reading is not ReadMode.EXACT, None if reading is ReadMode.EXACT else wire.MemoryBudget()
        )
        self.low = message.low  # lowest version
        self.high = message.high  # highest version
        self.floats = _has_floats(message.fields)  # whether it has floating point numbers
        self._readers: dict[tuple[int, int], Reader] = {}

    def read(self, data: bytes, at: int, version: int, shown: int | None = None) -> tuple[dict[str, Value], int]:
        """Read the message, without its frame.

        Kafka's generated readers take every version: one below the lowest like the lowest, one above the
        highest like the highest, but then no struct inside can be read.

        Args:
            data: the bytes.
            at: where the message begins.
            version: of the bytes.
            shown: version whose fields are wanted, when it is another.

        Returns:
            The fields as JSON-able values in order of declaration, and the position after the message.

        Raises:
            MalformedError: Java would throw.

        Source: the `read` methods and JSON converters of the generated messages
        """
        self.unknown.clear()
        if self._limits.room is not None:
            self._limits.room.left = wire.MOST_IN_ALL
        wanted = (version, version if shown is None else shown)
        reader = self._readers.get(wanted) or self._reader(*wanted)
        try:
            return reader(data, at)
        except (IndexError, struct.error):
            raise MalformedError(wire.UNDERFLOW) from None
        except UnknownVersionError as unknown:
            raise MalformedError(wire.UNSUPPORTED_VERSION, f"Can't read version {version} of {unknown}") from None

    def _reader(self, version: int, shown: int) -> Reader:
        """Return the reader of a version; versions out of range share the reader of the nearest."""
        nearest = (max(self.low, min(version, self.high + 1)), max(self.low, min(shown, self.high)))
        if nearest not in self._readers:
            unknown = self.unknown if self._reading is ReadMode.OPEN else None
            compiler = _Compiler(self.message, *nearest, unknown, self._limits)
            self._readers[nearest] = compiler.struct(self.message.fields)
        return self._readers[nearest]

    def strangers(self, version: int) -> str | None:
        """Return what of the message read last the table does not know, in words; None for nothing.

        Args:
            version: of its bytes.
        """
        name, found = self.message.name, []
        if version > self.high:
            found.append(f"version {version} of {name} is newer than {self.high}, the newest that is known")
        if self.unknown:
            first, more = self.unknown[:_TAGS_TOLD], len(self.unknown) - _TAGS_TOLD
            tags = ", ".join(map(str, first)) + (f" and {more} more" if more > 0 else "")
            found.append(f"unknown tagged field{'s' if len(self.unknown) > 1 else ''} {tags} in {name}")
        return "; ".join(found) or None


def _has_floats(fields: tuple[Field, ...]) -> bool:
    return any(field.kind == "float64" or _has_floats(field.fields) for field in fields)


def default_of(field: Field) -> Value:
    """Return the value of a field that is not there; a struct's default is a struct of defaults."""
    if field.kind == "struct" and not field.array and field.default is not None:
        return {inner.name: default_of(inner) for inner in field.fields if inner.tag is None}
    return field.default


class _Compiler:
    """Makes the reader of one version of one message."""

    def __init__(
        self, message: Message, version: int, shown: int, unknown: list[int] | None, limits: wire.Limits
    ) -> None:
        self.version = min(version, message.high)
        self.shown = shown
        self.unknown = unknown
        self.limits = limits
        self.refuses = version > message.high and unknown is None
        self.flexible = message.flex is not None and self.version >= message.flex

    def struct(self, fields: tuple[Field, ...], marked: bool = False) -> Reader:
        """Return the reader of the fields of a struct and, in a flexible version, of its tags.

        With `marked`, a struct that has unknown tags is a `_Strange`.
        """
        plan = self._plan([field for field in fields if field.tag is None])
        tags = self._tags(fields, marked) if self.flexible else None

        def read(data: bytes, at: int) -> tuple[dict[str, Value], int]:
            out: dict[str, Value] = {}
            for name, names, reader in plan:
                if names:
                    values, at = reader(data, at)
                    out.update(zip(names, values, strict=True))
                else:
                    out[name], at = reader(data, at)
            if tags is None:
                return out, at
            return tags(data, at, out) if data[at] else (out, at + 1)

        return read

    def _plan(self, fields: list[Field]) -> list[tuple[str, Names, Reader]]:
        """Return name and reader of each field; neighbours of fixed size have one reader, and their names."""
        plan: list[tuple[str, Names, Reader]] = []
        run: list[Field] = []
        for field in fields:
            here = field.has(self.version)
            if here and field.kind in FIXED and not field.array:
                run.append(field)
                continue
            plan.extend(_fixed(run))
            run = []
            if here:
                plan.append((field.name, (), self._value(field, field.name)))
            elif field.has(self.shown):
                plan.append((field.name, (), _constant(default_of(field))))
        return [*plan, *_fixed(run)]

    def _value(self, field: Field, name: str) -> Reader:
        """Return the reader of a field's value; `name` is what messages call it."""
        if field.array:
            of_one = FIXED.get(field.kind) or self._item(field, f"{name} element", False)
            return wire.array(name, self.flexible, field.nullable, of_one, self.limits)
        return self._item(field, name, field.nullable)

    def _item(self, field: Field, name: str, nullable: bool) -> Reader:
        if field.kind == "string":
            return wire.string(name, self.flexible, nullable)
        if field.kind == "bytes":
            return wire.octets(name, self.flexible, nullable)
        if field.kind != "struct":
            return wire.scalar(field.kind)
        tagged = field.tag is not None
        if self.refuses and not field.common:
            reader = _refusal(field.struct)
        else:
            reader = self.struct(field.fields, tagged and not field.array)
        return _nullable_struct(reader, tagged) if nullable else reader

    def _tags(self, fields: tuple[Field, ...], marked: bool) -> TagReader:
        """Return the reader of a tag section: it gives the struct again, in order, with its tagged fields."""
        tagged = {field.tag: field for field in fields if field.tag is not None}
        here = {tag: field for tag, field in tagged.items() if field.has(self.version)}
        readers = {tag: (field.name, self._value(field, field.name)) for tag, field in here.items()}
        defaults = {field.name: default_of(field) for field in tagged.values()}
        order = [field.name for field in fields]
        version, unknown, limits = self.version, self.unknown, self.limits

        def read(data: bytes, at: int, out: dict[str, Value]) -> tuple[dict[str, Value], int]:
            strange = False
            kept: list[Value] = []
            count, at = wire.uvarint(data, at)
            limits.check_tags(count, len(data) - at)
            for _ in range(count):
                tag, at = wire.uvarint(data, at)
                size, at = wire.uvarint(data, at)
                if tag in readers:
                    name, reader = readers[tag]
                    out[name], at = reader(data, at)
                elif tag in tagged and unknown is None:
                    raise MalformedError(wire.RUNTIME, f"Tag {tag} is not valid for version {version}")
                else:
                    start, at = at, wire.need(data, at, size)
                    strange = True
                    if unknown is not None:
                        if limits.room is not None:
                            limits.room.take(1)
                        unknown.append(tag)
                        kept.append({"tag": tag, "base64": b64encode(data[start:at]).decode()})
            shown: dict[str, Value] = {}
            for name in order:
                if name in out and (name not in defaults or out[name] != defaults[name]):
                    shown[name] = dict(out[name]) if isinstance(out[name], _Strange) else out[name]
            if kept:
                shown[UNKNOWN_TAGS] = kept
            return (_Strange(shown) if strange and marked else shown), at

        return read


class _Strange(dict[str, Value]):
    """A struct in a tag, with tags that Kafka does not know: to Java it never equals the default."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = None


def _fixed(fields: list[Field]) -> list[tuple[str, Names, Reader]]:
    """Return the entry of a plan for fields of fixed size that follow each other."""
    if not fields:
        return []
    if len(fields) == 1:
        return [(fields[0].name, (), wire.scalar(fields[0].kind))]
    code = struct.Struct(">" + "".join(FIXED[field.kind] for field in fields))
    unpack, size = code.unpack_from, code.size

    def read(data: bytes, at: int) -> tuple[Names, int]:
        return unpack(data, at), at + size

    return [("", tuple(field.name for field in fields), read)]


def _constant(value: Value) -> Reader:
    def read(_data: bytes, at: int) -> tuple[Value, int]:
        return value, at

    return read


def _refusal(name: str) -> Reader:
    def read(_data: bytes, _at: int) -> tuple[Value, int]:
        raise UnknownVersionError(name)

    return read


def _nullable_struct(reader: Reader, tagged: bool) -> Reader:
    """Return a reader of a struct that may be null: one int8 before it, in a tag an unsigned varint."""

    def plain(data: bytes, at: int) -> tuple[Value, int]:
        return (None, at + 1) if data[at] > 0x7F else reader(data, at + 1)

    def in_tag(data: bytes, at: int) -> tuple[Value, int]:
        present, at = wire.uvarint(data, at)
        return reader(data, at) if present else (None, at)

    return in_tag if tagged else plain
