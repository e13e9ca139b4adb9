"""Keys and values of the internal topics, as brokers wrote them."""

from __future__ import annotations

import struct
from functools import cache

from tests.support.runs import FIXTURES

INTERNAL = [
    "__consumer_offsets",
    "__transaction_state",
    "__cluster_metadata",
    "__remote_log_metadata",
    "__share_group_state",
]


@cache
def contents_of(topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of an internal topic, as brokers wrote them."""
    found = []
    for path in sorted((FIXTURES / "kafka-4.3.1" / "clean" / "node1").glob(f"{topic}-*/*.log")):
        data = path.read_bytes()
        at = 0
        while at + 61 < len(data):
            (size,) = struct.unpack_from(">i", data, at + 8)
            if data[at + 22] & 7 == 0:
                found += plain_records(data[at + 61 : at + 12 + size])
            at += 12 + size
    return found


def plain_records(data: bytes) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of sound records."""
    found = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)

    def sized() -> bytes | None:
        nonlocal at
        size = number()
        at += max(0, size)
        return None if size < 0 else data[at - size : at]

    while at < len(data):
        size = number()
        end = at + size
        at += 1
        number()
        number()
        found.append((sized(), sized()))
        at = end
    return found
