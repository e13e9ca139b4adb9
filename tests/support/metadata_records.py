"""Records of the metadata log made byte by byte, as Kafka's controller writes them, and snapshots of them.

Nothing of kdump is used here: what is made must not depend on what is tested.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING

from tests.support.segments import CONTROL, TIME, Record, batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIGRATING = "A" * 22


def uuid(number: int) -> str:
    """An id as Kafka shows it: 22 characters."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(struct.pack(">QQ", 0xABCD, number)).decode().rstrip("=")


def unsigned(number: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def text(value: str | None) -> bytes:
    """A compact string."""
    return unsigned(0) if value is None else octets(value.encode())


def octets(value: bytes) -> bytes:
    """Compact bytes."""
    return unsigned(len(value) + 1) + value


def many(values: Iterable[bytes]) -> bytes:
    """A compact array."""
    items = list(values)
    return unsigned(len(items) + 1) + b"".join(items)


def numbers(values: Iterable[int]) -> bytes:
    """A compact array of int32."""
    return many(struct.pack(">i", one) for one in values)


def raw(one: str) -> bytes:
    """The 16 bytes of an id."""
    return urlsafe_b64decode(one + "==")


def framed(number: int, version: int, fields: bytes, tags: dict[int, bytes] | None = None) -> Record:
    """A record: frame, fields, tagged fields. Source: AbstractApiMessageSerde."""
    section = unsigned(len(tags or {}))
    for tag, data in sorted((tags or {}).items()):
        section += unsigned(tag) + unsigned(len(data)) + data
    return Record(bytes((1, number, version)) + fields + section, None)


def broker(number: int, directories: Sequence[str] = (), *, epoch: int = 1, fenced: bool = False) -> Record:
    """RegisterBrokerRecord v3."""
    point = text("PLAINTEXT") + text("host") + struct.pack(">Hh", 9092, 0) + unsigned(0)
    fields = struct.pack(">i?", number, False) + raw(uuid(number)) + struct.pack(">q", epoch)
    fields += many([point]) + many([]) + text(None) + struct.pack(">??", fenced, False)
    return framed(0, 3, fields, {0: many(map(raw, directories))} if directories else None)


def unregister(number: int, epoch: int = 1) -> Record:
    """UnregisterBrokerRecord."""
    return framed(1, 0, struct.pack(">iq", number, epoch))


def topic(name: str, number: int) -> Record:
    """TopicRecord."""
    return framed(2, 0, text(name) + raw(uuid(number)))


def remove_topic(number: int) -> Record:
    """RemoveTopicRecord."""
    return framed(9, 0, raw(uuid(number)))


def partition(number: int, of: int, replicas: Sequence[int], directories: Sequence[str] = ()) -> Record:
    """PartitionRecord v1: the first replica leads, all are in sync."""
    fields = struct.pack(">i", number) + raw(uuid(of)) + numbers(replicas) * 2 + numbers([]) * 2
    fields += struct.pack(">iii", replicas[0], 0, 0) + many(map(raw, directories or [MIGRATING] * len(replicas)))
    return framed(3, 1, fields)


def change(
    number: int,
    of: int,
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    elr: Sequence[int] | None = None,
) -> Record:
    """PartitionChangeRecord v2."""
    tags = {}
    if isr is not None:
        tags[0] = numbers(isr)
    if leader is not None:
        tags[1] = struct.pack(">i", leader)
    if elr is not None:
        tags[6] = numbers(elr)
    return framed(5, 2, struct.pack(">i", number) + raw(uuid(of)), tags)


def config(kind: int, resource: str, name: str, value: str | None) -> Record:
    """ConfigRecord."""
    return framed(4, 0, struct.pack(">b", kind) + text(resource) + text(name) + text(value))


def scram(name: str, salt: bytes, stored: bytes, server: bytes) -> Record:
    """UserScramCredentialRecord of SCRAM-SHA-512."""
    return framed(
        11, 0, text(name) + b"\x02" + octets(salt) + octets(stored) + octets(server) + struct.pack(">i", 8192)
    )


def token(name: str) -> Record:
    """DelegationTokenRecord."""
    fields = text("User:owner") + text("User:asked") + many([text("User:renewer")]) + struct.pack(">qqq", 1, 3, 2)
    return framed(10, 0, fields + text(name))


def feature(name: str, level: int) -> Record:
    """FeatureLevelRecord."""
    return framed(12, 0, text(name) + struct.pack(">h", level))


def quota(user: str | None, key: str, value: float | None) -> Record:
    """ClientQuotaRecord; no value removes it."""
    entity = many([text("user") + text(user) + unsigned(0)])
    return framed(14, 0, entity + text(key) + struct.pack(">d?", value or 0.0, value is None))


def quotas(entity: Sequence[tuple[str, str | None]], key: str, value: float) -> Record:
    """ClientQuotaRecord of an entity of several parts."""
    parts = many([text(kind) + text(name) + unsigned(0) for kind, name in entity])
    return framed(14, 0, parts + text(key) + struct.pack(">d?", value, False))


def acl(number: int, principal: str, place: tuple[int, str, int], operation: int, permission: int = 3) -> Record:
    """AccessControlEntryRecord, from every host; the place is resource type, name and pattern type."""
    kind, name, pattern = place
    fields = raw(uuid(number)) + struct.pack(">b", kind) + text(name) + struct.pack(">b", pattern)
    return framed(18, 0, fields + text(principal) + text("*") + struct.pack(">bb", operation, permission))


def voters(*found: tuple[int, str, str, int]) -> Record:
    """KRaftVoters, a control record: id, directory id, host and port of each. Source: VotersRecord."""
    rows = []
    for number, directory, host, port in found:
        point = text("CONTROLLER") + text(host) + struct.pack(">H", port) + unsigned(0)
        rows.append(
            struct.pack(">i", number) + raw(directory) + many([point]) + struct.pack(">hh", 0, 1) + unsigned(0) * 2
        )
    return Record(struct.pack(">h", 0) + many(rows) + unsigned(0), struct.pack(">hh", 0, 6))


BEGIN, END, ABORT = framed(23, 0, b""), framed(24, 0, b""), framed(25, 0, b"")


def log(*records: Sequence[Record], start: int = 0, time: int = TIME) -> bytes:
    """A log: a batch each second."""
    data, offset = b"", start
    for number, some in enumerate(records):
        data += batch(offset, list(some), base_timestamp=time + 1000 * number, epoch=1)
        offset += len(some)
    return data


def snapshot(records: Sequence[Record], *, contained: int, is_finished: bool = True) -> bytes:
    """A snapshot: header, records, footer. Source: RecordsSnapshotWriter, SnapshotHeaderRecord."""
    header = Record(struct.pack(">hq", 0, contained) + unsigned(0), struct.pack(">hh", 0, 3))
    footer = Record(struct.pack(">h", 0) + unsigned(0), struct.pack(">hh", 0, 4))
    data = batch(0, [header], flags=CONTROL, base_timestamp=contained, epoch=1)
    if records:
        data += batch(1, list(records), base_timestamp=contained, epoch=1)
    if is_finished:
        data += batch(1 + len(records), [footer], flags=CONTROL, base_timestamp=contained, epoch=1)
    return data
