"""Programs for the kernel that decodes common messages, made from the table."""

from __future__ import annotations

from array import array
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from kdump.decode import _fast
from kdump.decode.java_text import java_json
from kdump.decode.schema import default_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kdump.decode.schema import Field, Message

_ROOM = 65536  # bytes of text; longer ones are left to the general reader
_KINDS = {
    "bool": _fast.BOOL,
    "int8": _fast.INT8,
    "int16": _fast.INT16,
    "uint16": _fast.UINT16,
    "int32": _fast.INT32,
    "uint32": _fast.UINT32,
    "int64": _fast.INT64,
    "uuid": _fast.UUID,
    "string": _fast.STRING,
    "bytes": _fast.BYTES,
}

Quick: TypeAlias = "Callable[[bytes, int], bytes | None]"
"""From the bytes and the place of a message in them to its text; None where the general reader has to look."""

_NOTHING: Mapping[str, Message] = MappingProxyType({})
_NEVER = [_fast.TAGGED_STRUCT, 0, 0, 0, 0, 0, 0, 0, 0]

_room = memoryview(bytearray(_ROOM))
_state = array("q", [0, 0])


def quick(message: Message, version: int, head: bytes, embedded: Mapping[str, Message] = _NOTHING) -> Quick | None:
    """Return the quick reader of one version of a message; None where there is none.

    Args:
        message: the message.
        version: of the message, from its lowest to its highest.
        head: what comes before the JSON of its fields; a brace comes behind it.
        embedded: the messages in fields of bytes, by the name of the field; they begin with their version (int16).
    """
    try:
        rows = _Program(message, version, embedded)
    except KeyError:  # a type that the kernel does not know
        return None
    program, literals = array("q", rows.flat()), bytes(rows.literals)
    read, room, state = _fast.read, _room, _state
    return lambda data, at: read(program, literals, data, at=at, head=head, target=room, state=state)


class _Program:
    """The rows of one version of a message, and the literals that they point to."""

    def __init__(self, message: Message, version: int, embedded: Mapping[str, Message]) -> None:
        self._embedded = embedded
        self.literals = bytearray()
        self._rows: list[list[int]] = []
        self._message(message, version)

    def _message(self, message: Message, version: int) -> int:
        """Add the struct of a message; return its row."""
        self._version = version
        self._flexible = message.flex is not None and version >= message.flex
        return self._struct(message.fields)

    def flat(self) -> list[int]:
        """Return the numbers of all rows."""
        return [number for row in self._rows for number in row]

    def _new(self, count: int) -> int:
        """Make rows; return the first."""
        first = len(self._rows)
        self._rows.extend([0] * _fast.WIDTH for _ in range(count))
        return first

    def _literal(self, text: bytes) -> tuple[int, int]:
        self.literals += text
        return len(self.literals) - len(text), len(text)

    def _struct(self, fields: tuple[Field, ...]) -> int:
        """Add a struct; return its row."""
        at = self._new(1)
        plain = [field for field in fields if field.tag is None and field.has(self._version)]
        tags = self._last_tags(fields) if self._flexible else []
        first, first_tag = self._new(len(plain)), self._new(len(tags))
        self._rows[at] = [_fast.STRUCT, first, len(plain), first_tag, len(tags), self._flexible, 0, 0, 0]
        for row, field in enumerate(plain, first):
            self._field(row, field)
        for row, field in enumerate(tags, first_tag):
            self._field(row, field)
            self._rows[row][6:] = [*self._literal(java_json(default_of(field))), field.tag or 0]
        return at

    def _last_tags(self, fields: tuple[Field, ...]) -> list[Field]:
        """The tagged fields at the end of a struct, which the kernel can append; others it does not know."""
        last: list[Field] = []
        for field in reversed(fields):
            if field.tag is None:
                break
            last.insert(0, field)
        return [field for field in last if field.has(self._version)]

    def _field(self, row: int, field: Field) -> None:
        name = self._literal(b'"%b":' % field.name.encode())
        if field.name in self._embedded:
            self._rows[row] = self._open(field, name)
        elif not field.array:
            self._rows[row] = self._value(field, name, nullable=field.nullable)
        else:
            item = self._new(1)
            self._rows[item] = self._value(field, (0, 0), nullable=False)
            self._rows[row] = [_fast.ARRAY, *name, field.nullable, self._flexible, item, 0, 0, 0]

    def _open(self, field: Field, name: tuple[int, int]) -> list[int]:
        """Return the row of a field of bytes with a message in it."""
        message, outer = self._embedded[field.name], (self._version, self._flexible)
        first = self._new(message.high + 1)
        for version in range(message.high + 1):
            self._rows[first + version][5] = self._message(message, version)
        self._version, self._flexible = outer
        return [_fast.EMBEDDED, *name, field.nullable, self._flexible, first, message.high + 1, 0, 0]

    def _value(self, field: Field, name: tuple[int, int], *, nullable: bool) -> list[int]:
        if field.kind == "struct" and field.tag is not None and not field.array:
            return [_fast.TAGGED_STRUCT, *name, nullable, 0, 0, 0, 0, 0] if nullable else _NEVER
        if field.kind == "struct":
            return [_fast.STRUCT, *name, nullable, 0, self._struct(field.fields), 0, 0, 0]
        return [_KINDS[field.kind], *name, nullable, self._flexible, 0, 0, 0, 0]
