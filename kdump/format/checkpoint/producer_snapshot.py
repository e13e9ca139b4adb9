"""Producer snapshots: the state of every producer at one offset.

Strategy: the count in the file is compared with the size of the file and never allocates anything; entries
are read in pages as they are asked for, so a snapshot of any size costs one page of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap
from struct import Struct
from typing import TYPE_CHECKING, overload

from kdump.format.checksum import crc32c
from kdump.format.java_values import MAX_INT
from kdump.format.source import crc32c_of
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.source import Source

Release = str

VERSION = 1
CRC_FROM = 6  # the CRC covers everything from the count on, bytes after the last entry included
THROWN_AWAY = "deletes the file and uses an older one"
"""What a broker does with a snapshot that it cannot read."""
TOO_LARGE = "Required array size too large"  # Files.readAllBytes: an OutOfMemoryError in the broker

_HEADER = Struct(">hIi")  # version, crc, count
_ENTRY = Struct(">qhiqiqiq")
ENTRY_SIZE = _ENTRY.size
_PAGE_ENTRIES = 1024

# Where each field of an entry ends, with the name that the schema of 3.9 has for it.
_FIELD_ENDS = (
    (8, "producer_id"),
    (10, "epoch"),
    (14, "last_sequence"),
    (22, "last_offset"),
    (26, "offset_delta"),
    (34, "timestamp"),
    (38, "coordinator_epoch"),
    (46, "current_txn_first_offset"),
)


class ProducerStateEntry(TupleValue):
    """The state of one producer, in wire order and as stored.

    `last_offset` below 0: it has no batch, the sequences mean nothing. `current_txn_first_offset` below 0:
    it has no open transaction. `timestamp` is ms.

    Source: ProducerStateEntry, ProducerSnapshot.json.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def has_batch(self) -> bool:
        """Whether the snapshot knows the last batch of the producer."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record of the last batch.

        Source: DefaultRecordBatch.decrementSequence, int32 arithmetic.
        """
        difference = self.last_sequence - self.offset_delta
        if self.last_sequence < self.offset_delta:
            difference += MAX_INT + 1
        return (difference + 2**31) % 2**32 - 2**31


class ProducerEntries(Sequence[ProducerStateEntry]):
    """Entries of a snapshot, read from the file when they are asked for.

    Args:
        source: the snapshot file.
        count: how many whole entries follow the header; the file must have room for them.
    """

    def __init__(self, source: Source, count: int) -> None:
        self._source = source
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> ProducerStateEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ProducerStateEntry]: ...
    def __getitem__(self, index: int | slice) -> ProducerStateEntry | Sequence[ProducerStateEntry]:
        """Return one entry, or a tuple of some."""
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(self._count)))
        number = range(self._count)[index]
        return ProducerStateEntry._make(_ENTRY.unpack(self._read(number, 1)))

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        for first in range(0, self._count, _PAGE_ENTRIES):
            page = self._read(first, min(_PAGE_ENTRIES, self._count - first))
            yield from map(ProducerStateEntry._make, _ENTRY.iter_unpack(page))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(other) == len(self) and all(map(tuple.__eq__, self, other))

    def __hash__(self) -> int:
        return hash((ProducerEntries, self._count))

    def _read(self, first: int, count: int) -> bytes:
        return self._source.read_at(_HEADER.size + first * _ENTRY.size, count * _ENTRY.size)


class Snapshot(Value):
    """A producer snapshot as a broker sees it, and what is left of one that it throws away."""

    version: int | None  # as stored; None when the file is too short for one
    entries: Sequence[ProducerStateEntry]  # what the broker loads: nothing where there is an error
    # every whole entry that the file has room for, whatever its count and its CRC say; the same as `entries` where
    # there is no error
    salvaged: Sequence[ProducerStateEntry]
    error: str | None  # Kafka's words about the damage, byte for byte; None for a sound file


def read_snapshot(source: Source, release: Release = "4.3") -> Snapshot:
    """Read a producer snapshot.

    Args:
        source: the .snapshot file.
        release: whose words an error has; 4.2 and 4.3 say the same.

    Returns:
        the snapshot; bad bytes never raise.

    Raises:
        OSError: the source cannot be read, here or when the entries are asked for.

    Source: ProducerStateManager.readSnapshot.
    """
    header = source.read_at(0, _HEADER.size)
    version = int.from_bytes(header[:2], "big", signed=True) if len(header) >= 2 else None
    room = max(0, source.size - _HEADER.size) // _ENTRY.size
    if source.size > MAX_INT:
        error: str | None = TOO_LARGE
    else:
        error = (_error_39 if release == "3.9" else _error_4)(source, header, room)
    if error is not None:
        return Snapshot(version, (), ProducerEntries(source, room), error)
    entries = ProducerEntries(source, _HEADER.unpack(header)[2])
    return Snapshot(version, entries, entries, None)


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the file of `entries`, in order.

    Source: ProducerStateManager.writeSnapshot.
    """
    body = b"".join(starmap(_ENTRY.pack, entries))
    counted = (len(body) // _ENTRY.size).to_bytes(4, "big") + body
    return VERSION.to_bytes(2, "big") + crc32c(counted).to_bytes(4, "big") + counted


def _error_4(source: Source, header: bytes, room: int) -> str | None:
    """Return what 4.x says: the version first, then the generated reader, then the CRC."""
    why = _schema_error_4(source, header, room)
    return _crc_error(source, header) if why is None else f"Snapshot failed schema validation: {why}"


def _schema_error_4(source: Source, header: bytes, room: int) -> str | None:
    underflow = "null"  # a BufferUnderflowException has no message
    if len(header) < 2:
        return underflow
    version = int.from_bytes(header[:2], "big", signed=True)
    if version != VERSION:
        return f"Snapshot contained an unknown file version {version}"
    if len(header) < _HEADER.size:
        return underflow
    count, left = _HEADER.unpack(header)[2], source.size - _HEADER.size
    if count < 0:
        return "non-nullable field producerEntries was serialized as null"
    if count > left:
        return f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
    return underflow if count > room else None


def _error_39(source: Source, header: bytes, room: int) -> str | None:
    """Return what 3.9 says: the whole schema is read before the version is looked at."""
    why = _schema_error_39(source, header, room)
    if why is not None:
        return f"Snapshot failed schema validation: Error reading field {why}"
    version = _HEADER.unpack(header)[0]
    if version != VERSION:
        return f"Snapshot contained an unknown file version {version}"
    return _crc_error(source, header)


def _schema_error_39(source: Source, header: bytes, room: int) -> str | None:
    underflow = "java.nio.BufferUnderflowException"
    for end, field in ((2, "version"), (6, "crc"), (_HEADER.size, "producer_entries")):
        if len(header) < end:
            return f"'{field}': {underflow}"
    count, left = _HEADER.unpack(header)[2], source.size - _HEADER.size
    if count < 0:
        return f"'producer_entries': Array size {count} cannot be negative"
    if count > left:
        return f"'producer_entries': Error reading array of size {count}, only {left} bytes available"
    if count > room:
        torn = next(field for end, field in _FIELD_ENDS if end > left % _ENTRY.size)
        return f"'producer_entries': Error reading field '{torn}': {underflow}"
    return None


def _crc_error(source: Source, header: bytes) -> str | None:
    stored, computed = _HEADER.unpack(header)[1], crc32c_of(source, CRC_FROM, source.size)
    if stored == computed:
        return None
    return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
