"""Messages of internal topics as the folds read them: by the newest schemas, and only when somebody asks for them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kdump.decode.schema import ReadMode
from kdump.decode.table import newest, table
from kdump.decode.wire import MalformedError
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.decode.table import Table

Message = dict[str, Any]
_VERSION = 2  # bytes before the message: type of the record, or version of the value


class Unreadable(Value):
    """Why a value cannot be read."""

    why: str


@cache
def known() -> Table:
    """Return the newest schemas."""
    return table(newest(), ReadMode.OPEN)


def kind_of(key: bytes) -> int | None:
    """Return the type of a record, None where the key is too short to say it."""
    return int.from_bytes(key[:_VERSION], signed=True) if len(key) >= _VERSION else None


def read_key(name: str, key: bytes) -> Message | Unreadable:
    """Read a key.

    Args:
        name: of its message.
        key: with the type of the record.
    """
    schema = known().schema(name)
    try:
        return schema.read(key, _VERSION, schema.low)[0]
    except MalformedError as problem:
        return Unreadable(f"the key cannot be read as {name}: {_cause(problem)}")


def read_value(name: str, value: bytes) -> Message | Unreadable:
    """Read a value.

    Args:
        name: of its message.
        value: with its version.
    """
    if len(value) < _VERSION:
        return Unreadable(f"the value has {len(value)} bytes: no version of {name}")
    schema = known().schema(name)
    version = int.from_bytes(value[:_VERSION], signed=True)
    if not schema.low <= version <= schema.high:
        return Unreadable(f"version {version} of {name} is not known: {schema.low} to {schema.high} are")
    try:
        return schema.read(value, _VERSION, version)[0]
    except MalformedError as problem:
        return Unreadable(f"the value cannot be read as version {version} of {name}: {_cause(problem)}")


def _cause(problem: MalformedError) -> str:
    return problem.message or "its bytes end too early"
