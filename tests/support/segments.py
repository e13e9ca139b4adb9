"""Segments made byte by byte, as Kafka's classes write them: every magic, every codec, lies where a test wants them.

Nothing of kdump is used here: what is made must not depend on what is tested (`tests/support/scan_windows.py` has the
other half).
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
LEGACY_CODECS = (NONE, GZIP, SNAPPY, LZ4)

HEADER = struct.Struct(">qiibIhiqqqhii")  # a batch of magic 2
CRC_AT, ATTRIBUTES_AT, COUNT_AT, RECORDS_AT = 17, 21, 57, 61
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64
TIME = 1_700_000_000_000

Header = tuple[bytes, "bytes | None"]


class Record(NamedTuple):
    """A record of magic 2; `delta` None: the one after the record before, `timestamp` is a delta too."""

    value: bytes | None = b"value"
    key: bytes | None = b"key"
    headers: Sequence[Header] = ()
    timestamp: int = 0
    delta: int | None = None
    attributes: int = 0


def varint(number: int) -> bytes:
    """A zigzag number of up to 64 bits."""
    value, out = (number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def sized(data: bytes | None) -> bytes:
    """A length as a varint, and the bytes; None has the length -1."""
    return varint(-1) if data is None else varint(len(data)) + data


def framed(body: bytes, length: int | None = None) -> bytes:
    """The body of a record behind its length, or behind a length that lies."""
    return varint(len(body) if length is None else length) + body


def encode(one: Record, delta: int) -> bytes:
    """One record, length included. Source: DefaultRecord.writeTo."""
    body = bytes([one.attributes]) + varint(one.timestamp) + varint(delta if one.delta is None else one.delta)
    body += sized(one.key) + sized(one.value) + varint(len(one.headers))
    body += b"".join(sized(key) + sized(value) for key, value in one.headers)
    return framed(body)


def batch(
    offset: int,
    records: Sequence[Record | bytes | None] = (b"value",),
    *,
    codec: int = NONE,
    flags: int = 0,
    epoch: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    base_timestamp: int = TIME,
    max_timestamp: int | None = None,
    last_delta: int | None = None,
    count: int | None = None,
    body: bytes | None = None,
    length: int | None = None,
    magic: int = 2,
) -> bytes:
    """A batch of magic 2, its CRC right whatever else lies. Source: DefaultRecordBatch.writeHeader.

    Args:
        offset: base offset.
        records: records, or only their values.
        codec: of the records.
        flags: attributes besides the codec.
        epoch: of the leader.
        producer: id, epoch, base sequence.
        base_timestamp: ms.
        max_timestamp: ms; None: the true one.
        last_delta: offset delta of the last record; None: the true one.
        count: of records; None: the true one.
        body: the bytes after the header, as they are; None: the records, compressed.
        length: batchLength; None: the true one.
        magic: is written; the layout stays that of magic 2.
    """
    made = [one if isinstance(one, Record) else Record(one) for one in records]
    if body is None:
        body = compress(codec, b"".join(encode(one, delta) for delta, one in enumerate(made)))
    latest = max((one.timestamp for one in made), default=0)
    last = max((delta if one.delta is None else one.delta for delta, one in enumerate(made)), default=0)
    header = HEADER.pack(
        offset,
        len(body) + RECORDS_AT - 12 if length is None else length,
        epoch,
        magic,
        0,
        codec | flags,
        last if last_delta is None else last_delta,
        base_timestamp,
        base_timestamp + latest if max_timestamp is None else max_timestamp,
        *producer,
        len(made) if count is None else count,
    )
    return with_crc(header + body)


def message(
    magic: int,
    offset: int,
    value: bytes | None = b"value",
    *,
    key: bytes | None = b"key",
    attributes: int = 0,
    timestamp: int = TIME,
    key_size: int | None = None,
    value_size: int | None = None,
) -> bytes:
    """A message of magic 0 or 1, its CRC right; sizes may lie. Source: LegacyRecord.write."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for data, size in ((key, key_size), (value, value_size)):
        body += struct.pack(">i", size if size is not None else -1 if data is None else len(data)) + (data or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(
    magic: int,
    offset: int,
    values: Sequence[bytes | None] = (b"value",),
    *,
    codec: int = GZIP,
    flags: int = 0,
    timestamp: int = TIME,
    wrapper_offset: int | None = None,
    raw: bool = False,
    stream: bytes | None = None,
) -> bytes:
    """A compressed message with messages inside: absolute offsets in magic 0, relative ones in magic 1.

    Args:
        magic: of all.
        offset: of the first message inside.
        values: of the messages inside.
        codec: of the wrapper.
        flags: attributes besides the codec.
        timestamp: of the wrapper; the messages inside have one later each.
        wrapper_offset: None: that of the last message.
        raw: snappy as one block without framing.
        stream: the compressed bytes, as they are.
    """
    if stream is None:
        first = 0 if magic else offset
        inner = [message(magic, first + i, value, timestamp=TIME + i) for i, value in enumerate(values)]
        stream = compress(codec, b"".join(inner), magic=magic, raw=raw)
    last = offset + len(values) - 1 if wrapper_offset is None else wrapper_offset
    return message(magic, last, stream, key=None, attributes=codec | flags, timestamp=timestamp)


def with_crc(data: bytes) -> bytes:
    """A batch of magic 2 with its CRC put right."""
    return data[:CRC_AT] + struct.pack(">I", crc32c(data[ATTRIBUTES_AT:])) + data[ATTRIBUTES_AT:]


def with_legacy_crc(data: bytes) -> bytes:
    """A message of magic 0 or 1 with its CRC put right."""
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


def compress(codec: int, data: bytes, *, magic: int = 2, raw: bool = False) -> bytes:
    """The bytes of records as Kafka's writers compress them."""
    if codec == GZIP:
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return snappy_block(data) if raw else xerial(data)
    if codec == LZ4:
        return lz4_frame(data, magic)
    if codec == ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(write_content_size=False).compress(data)
    return data


def snappy_block(data: bytes) -> bytes:
    """One raw block of snappy."""
    import snappy

    packed: bytes = snappy.compress(data)
    return packed


def xerial(data: bytes, chunk: int = 32768) -> bytes:
    """Blocks of snappy in the framing of snappy-java."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), chunk):
        block = snappy_block(data[at : at + chunk])
        out += struct.pack(">i", len(block)) + block
    return out


def lz4_frame(data: bytes, magic: int = 2) -> bytes:
    """A frame of independent blocks; Kafka's writers of magic 0 hashed the wrong bytes of its header."""
    import lz4.frame

    frame: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    if magic == 0:
        frame = frame[:6] + bytes([LZ4_WRONG_HASH[frame[4:6]]]) + frame[7:]
    return frame


# What brokers and clients before 0.10 wrote: the second byte of the hash of the magic number and the descriptor.
LZ4_WRONG_HASH = {b"\x60\x40": 0x1A}


def log(parts: Iterable[bytes]) -> bytes:
    """A log of these batches."""
    return b"".join(parts)


def bounds(parts: Sequence[bytes]) -> list[tuple[int, int]]:
    """Position and size of each batch of a log."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return [(start, end - start) for start, end in pairwise(ends)]
