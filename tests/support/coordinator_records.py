"""Records of internal topics made byte by byte, as Kafka's coordinators write them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support.segments import TIME, Record, batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRANSACTIONAL = 16
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


def text(value: str) -> bytes:
    """A string with its length. Source: ByteBufferAccessor, messages that are not flexible."""
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def commit(
    group: str, partition: int, offset: int | None, *, topic: str = "t", key_version: int = 1, time: int = TIME
) -> Record:
    """A commit; no offset makes a tombstone. Source: OffsetCommitKey, OffsetCommitValue v3 (v0 with an old key)."""
    key = struct.pack(">h", key_version) + text(group) + text(topic) + struct.pack(">i", partition)
    if offset is None:
        return Record(None, key)
    if key_version == 0:
        return Record(struct.pack(">hq", 0, offset) + text("m") + struct.pack(">q", time), key)
    return Record(struct.pack(">hqi", 3, offset, 5) + text("m") + struct.pack(">q", time), key)


def classic(group: str, generation: int | None, *, protocol: str = "consumer", members: int = 0) -> Record:
    """The metadata of a classic group; no generation makes a tombstone. Source: GroupMetadataValue v0."""
    key = struct.pack(">h", 2) + text(group)
    if generation is None:
        return Record(None, key)
    value = struct.pack(">h", 0) + text(protocol) + struct.pack(">i", generation) + text("range") + text("m0")
    value += struct.pack(">i", members)
    for number in range(members):
        value += text(f"m{number}") + text("client") + text("/host") + struct.pack(">iii", 1, 0, 0)
    return Record(value, key)


def transaction(
    name: str,
    producer: int,
    state: str,
    partitions: Mapping[str, Sequence[int]] | None = None,
    *,
    epoch: int = 0,
    timeout: int = 60_000,
    started: int = TIME,
    updated: int = TIME,
) -> Record:
    """A transaction. Source: TransactionLogKey, TransactionLogValue v0."""
    value = struct.pack(">hqhib", 0, producer, epoch, timeout, STATES.index(state))
    value += struct.pack(">i", len(partitions or {}))
    for topic, numbers in (partitions or {}).items():
        value += text(topic) + struct.pack(">i", len(numbers)) + b"".join(struct.pack(">i", one) for one in numbers)
    value += struct.pack(">qq", updated, started)
    return Record(value, struct.pack(">h", 0) + text(name))


def at(offset: int, time: int, *records: Record, producer: tuple[int, int] | None = None, epoch: int = 0) -> bytes:
    """A batch at an offset and a time, of a transaction where a producer is given (id and epoch)."""
    flags, ids = (0, (-1, -1, -1)) if producer is None else (TRANSACTIONAL, (*producer, 0))
    return batch(offset, records, base_timestamp=time, flags=flags, producer=ids, epoch=epoch)


def ended(offset: int, time: int, producer: tuple[int, int], *, commit: bool) -> bytes:
    """A marker of a transaction at a time. Source: EndTransactionMarker."""
    record = Record(struct.pack(">hi", 0, 3), struct.pack(">hh", 0, int(commit)))
    return batch(offset, [record], base_timestamp=time, flags=TRANSACTIONAL | 32, producer=(*producer, -1))
