"""Messages of internal topics as the folds read them: by the newest schemas, and only when somebody asks for them."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kdump.decode.schema import ReadMode
from kdump.decode.table import newest, table
from kdump.decode.wire import MalformedError
from kdump.format.record.chunk import KEPT, MOST_WHOLE
from kdump.format.record.reader import key_and_value
from kdump.state._fold import LARGEST_HELD
from kdump.value import Value

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from kdump.decode.table import Table
    from kdump.format.record.chunk import Chunk, CutRecord

Message = dict[str, Any]
_VERSION = 2  # bytes before the message: type of the record, or version of the value
_FIRST = 16  # bytes of what is not held


class Unreadable(Value):
    """Why a value cannot be read."""

    why: str


class PackedValue(bytes):
    """A large value as it is held for long: a zstd frame, so that memory follows the bytes of the file."""


class TooLarge(bytes):
    """The first bytes of a key or a value that is not held: they tell its type or version; all of a control record."""

    why: str  # it cannot be read


def fields_of(chunk: Chunk) -> Callable[[memoryview, array[int]], tuple[bytes | None, bytes | None]]:
    """Return what reads keys and values of a chunk as `key_and_value` does; of those not held it gives TooLarge."""
    return key_and_value if chunk.cut is None else partial(_large_fields, chunk.cut)


def _large_fields(cut: CutRecord, view: memoryview, row: array[int]) -> tuple[bytes | None, bytes | None]:
    """Key and value of a large record whose first bytes are here."""
    from kdump.format.record.cut_record import whole_fields

    whole = whole_fields(cut)
    if whole is not None:
        return whole
    size = max(0, cut.key_size) + max(0, cut.value_size)
    why = f"key and value have {size} bytes: more than {MOST_WHOLE} are not decoded"
    key, value = key_and_value(view, row)
    return _held(key, cut.key_size, why), _held(value, cut.value_size, why)


def _held(data: bytes | None, size: int, why: str) -> bytes | None:
    """A field of which so many bytes may be here, or what stands for it where it has more."""
    if data is None or size <= KEPT:
        return data
    found = TooLarge(data[:_FIRST])
    found.why = why
    return found


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
    if isinstance(key, TooLarge):
        return Unreadable(key.why)
    schema = known().schema(name)
    try:
        return schema.read(key, _VERSION, schema.low)[0]
    except MalformedError as problem:
        return Unreadable(f"the key cannot be read as {name}: {_cause(problem)}")


def pack(value: bytes, largest: int = LARGEST_HELD) -> bytes:
    """Return a value as it is held for long: a large one PackedValue, for `read_value`.

    Args:
        value: as it lies on disk.
        largest: bytes of one that is held as it is.
    """
    if len(value) <= largest or isinstance(value, PackedValue):
        return value
    from zstandard import ZstdCompressor

    return PackedValue(ZstdCompressor(level=1).compress(value))


def read_value(name: str, value: bytes) -> Message | Unreadable:
    """Read a value.

    Args:
        name: of its message.
        value: with its version.
    """
    if isinstance(value, PackedValue):
        from zstandard import ZstdDecompressor

        value = ZstdDecompressor().decompress(value)
    if isinstance(value, TooLarge):
        return Unreadable(value.why)
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
