"""Batches of magic 0 to 2: those of the model as bytes, and bytes as batches, read without kdump."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from tests.support.hole_logs import Batch
from tests.support.segments import CONTROL, GZIP, NONE, TRANSACTIONAL, compress, message

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = 61
"""Bytes of magic 2 before the records."""
LEGACY = 26
"""Bytes of magic 0 before the key and the value, lengths included; magic 1 has eight more."""
_CODEC, _HORIZON = 7, 64
_MAGIC_AT, _CRC_AT, _COVERED_AT = 16, 17, 21

Entry = tuple[int, "bytes | None", "bytes | None", "int | None"]
"""A record: offset, key, value, timestamp (None in magic 0)."""


@dataclass(frozen=True)
class Legacy(Batch):
    """A message of magic 0 or 1, or a compressed one with messages inside."""

    magic: int = 1

    @cached_property
    def data(self) -> bytes:
        """Its bytes. Source: LegacyRecord.write, MemoryRecordsBuilder."""
        if self.codec == NONE:
            ((at, key, value),) = self.records
            return message(self.magic, at, value, key=key, timestamp=self.time)
        first = self.records[0][0] if self.magic else 0
        inner = [
            message(self.magic, at - first, value, key=key, timestamp=self.time) for at, key, value in self.records
        ]
        stream = compress(self.codec, b"".join(inner), magic=self.magic)
        last = self.records[-1][0]
        return message(self.magic, last, stream, key=None, attributes=self.codec, timestamp=self.time)


def moved(one: Batch, base: int) -> Batch:
    """The same batch written once more at another offset."""
    by = base - one.base
    records = tuple((at + by, key, value) for at, key, value in one.records)
    return replace(one, base=base, last=one.last + by, records=records)


def entries(one: Batch) -> list[Entry]:
    """The records of a batch of the model."""
    time = None if isinstance(one, Legacy) and one.magic == 0 else one.time
    return [(at, key, value, time) for at, key, value in one.records]


# --- bytes to batches ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Read:
    """A batch as its bytes tell.

    Args:
        position, size: where it lies, bytes.
        magic: of it.
        base, last: offsets, as stored.
        epoch: of the leader; -1 where there is none.
        flags: attributes.
        producer: id, epoch, base sequence.
        time: its largest timestamp.
        entries: its records.
        is_whole: its CRC is right.
    """

    position: int
    size: int
    magic: int
    base: int
    last: int
    epoch: int = -1
    flags: int = 0
    producer: tuple[int, int, int] = (-1, -1, -1)
    time: int = -1
    entries: tuple[Entry, ...] = field(default=())
    is_whole: bool = True

    @property
    def is_control(self) -> bool:
        """Whether it has a marker."""
        return bool(self.flags & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it is of a transaction."""
        return bool(self.flags & TRANSACTIONAL)

    @property
    def commits(self) -> bool | None:
        """What a marker says; None for a batch of data, or where the record of the marker is cleaned away."""
        if not self.is_control or not self.entries:
            return None
        key = self.entries[0][1]
        assert key is not None
        return key[3] == 1


def is_intact(data: bytes, at: int, size: int) -> bool:
    """Whether the CRC of a batch is right."""
    if data[at + _MAGIC_AT] == 2:
        return crc32c(data[at + _COVERED_AT : at + size]) == int.from_bytes(
            data[at + _CRC_AT : at + _COVERED_AT], "big"
        )
    return zlib.crc32(data[at + 16 : at + size]) == int.from_bytes(data[at + 12 : at + 16], "big")


def read_log(data: bytes) -> Iterator[Read]:
    """Yield the batches of a log as their lengths tell; the last one is not whole where it is cut.

    Raises:
        ValueError: bytes are no batch.
    """
    at = 0
    while at < len(data):
        if len(data) - at < LEGACY:
            raise ValueError(f"{len(data) - at} bytes at the end")
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        magic = data[at + _MAGIC_AT]
        if magic > 2 or not (LEGACY if magic < 2 else HEADER) <= size <= len(data) - at:
            raise ValueError(f"no batch at {at}")
        yield _magic_2(data, at, size) if magic == 2 else _legacy(data, at, size)
        at += size


def _magic_2(data: bytes, at: int, size: int) -> Read:
    header = struct.unpack_from(">qiibIhiqqqhii", data, at)
    base, flags, delta, base_time, time, producer = header[0], *header[5:9], header[9:12]
    is_whole = is_intact(data, at, size)
    found: tuple[Entry, ...] = ()
    if is_whole:
        body = data[at + HEADER : at + size]
        if flags & _CODEC == GZIP and body:
            body = zlib.decompress(body, 31)
        found = tuple((base + delta, key, value, base_time + time) for delta, time, key, value in _records(body))
    return Read(at, size, 2, base, base + delta, header[2], flags, producer, time, found, is_whole)


def _records(body: bytes) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    at = 0
    while at < len(body):
        size, at = _varint(body, at)
        end = at + size
        time, at = _varint(body, at + 1)
        delta, at = _varint(body, at)
        key, at = _sized(body, at)
        value, _ = _sized(body, at)
        yield delta, time, key, value
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def read_aborted(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield producer, first and last offset of each entry of a transaction index."""
    for at in range(0, len(data) - 33, 34):
        producer, first, last = struct.unpack_from(">qqq", data, at + 2)
        yield producer, first, last


class _Message(NamedTuple):
    offset: int
    flags: int
    time: int | None
    key: bytes | None
    value: bytes | None


def _message(data: bytes, at: int) -> _Message:
    offset, flags = int.from_bytes(data[at : at + 8], "big", signed=True), data[at + 17]
    time, place = None, at + 18
    if data[at + _MAGIC_AT] == 1:
        time, place = int.from_bytes(data[place : place + 8], "big", signed=True), place + 8
    found: list[bytes | None] = []
    for _ in range(2):
        size = int.from_bytes(data[place : place + 4], "big", signed=True)
        place += 4
        found.append(None if size < 0 else data[place : place + size])
        place += max(size, 0)
    return _Message(offset, flags, time, *found)


def _legacy(data: bytes, at: int, size: int) -> Read:
    magic, is_whole = data[at + _MAGIC_AT], is_intact(data, at, size)
    outer = _message(data, at)
    if not is_whole or not outer.flags & _CODEC:
        found: tuple[Entry, ...] = ((outer.offset, outer.key, outer.value, outer.time),) if is_whole else ()
        return Read(at, size, magic, outer.offset, outer.offset, entries=found, is_whole=is_whole)
    assert outer.value is not None
    stream, place, inner = zlib.decompress(outer.value, 31), 0, list[_Message]()
    while place < len(stream):
        inner.append(_message(stream, place))
        place += 12 + int.from_bytes(stream[place + 8 : place + 12], "big")
    by = outer.offset - inner[-1].offset if magic else 0
    found = tuple((one.offset + by, one.key, one.value, one.time) for one in inner)
    return Read(at, size, magic, found[0][0], outer.offset, entries=found)
