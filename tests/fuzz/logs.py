"""Logs that are nearly right: every magic and codec, each number the true one or a lie, CRCs right most of the time."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from tests.fuzz.chance import with_true_crcs
from tests.support import partitions
from tests.support.segments import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    HEADER,
    LEGACY_CODECS,
    LOG_APPEND_TIME,
    LZ4,
    NONE,
    SNAPPY,
    TIME,
    TRANSACTIONAL,
    ZSTD,
    compress,
    with_crc,
    with_legacy_crc,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.chance import Chance
    from tests.support.partitions import Files


def field(chance: Chance, data: bytes | None) -> bytes:
    """A length as a varint and the bytes; null is -1, or another number below 0."""
    if data is None:
        return chance.varint(-1)
    return chance.varint(len(data)) + data


def record(chance: Chance, delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """A record of magic 2."""
    headers = chance.randrange(3) if chance.often(0.3) else 0
    body = bytes([chance.among([1, 128]) if chance.lie() else 0]) + chance.varint(delta) + chance.varint(delta)
    body += field(chance, key) + field(chance, value) + chance.varint(headers)
    for _ in range(headers):
        body += field(chance, chance.text(4)) + field(chance, None if chance.often(0.2) else chance.text(6))
    return chance.varint(len(body)) + body


def pairs(chance: Chance, most: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values; some keys come again."""
    return [
        (
            None if chance.often(0.1) else b"k%d" % chance.randrange(5) if chance.often(0.5) else chance.text(),
            None if chance.often(0.15) else chance.text(40),
        )
        for _ in range(chance.randrange(1, most + 1))
    ]


def batch(
    chance: Chance,
    offset: int,
    *,
    codec: int | None = None,
    contents: Sequence[tuple[bytes | None, bytes | None]] | None = None,
    stream: bytes | None = None,
) -> tuple[bytes, int]:
    """A batch of magic 2 and the offset after it.

    Args:
        chance: decides.
        offset: base offset.
        codec: of the records; None: any.
        contents: keys and values; None: any.
        stream: the compressed records, as they are.
    """
    contents = pairs(chance, 6) if contents is None else contents
    if codec is None:
        codec = chance.among(CODECS) if chance.often(0.4) else NONE
    data = b"".join(record(chance, delta, *pair) for delta, pair in enumerate(contents))
    if chance.lie():
        data = chance.damage(data, 2)
    body = compress(codec, data) if stream is None else stream
    flags = LOG_APPEND_TIME * chance.often(0.1) | DELETE_HORIZON * chance.often(0.05)
    producer = (-1, -1, -1)
    if chance.often(0.3):
        producer = (chance.randrange(3), 0, offset & 0x7FFFFFFF)
        flags |= TRANSACTIONAL * chance.often(0.5)
    if chance.lie():
        flags |= chance.among([CONTROL, 0x80, 5, 6, 7, CONTROL | TRANSACTIONAL])
    last = len(contents) - 1
    number = chance.number
    header = HEADER.pack(
        number(offset, 64),
        number(len(body) + 49, 32) if chance.often(0.3) else len(body) + 49,
        number(0, 32),
        number(2, 8) if chance.often(0.3) else 2,
        0,
        number(codec | flags, 16),
        number(last, 32),
        number(TIME + offset, 64),
        number(TIME + offset + last, 64),
        number(producer[0], 64),
        number(producer[1], 16),
        number(producer[2], 32),
        number(len(contents), 32),
    )
    made = header + body
    return (made if chance.lie() else with_crc(made)), offset + max(1, last + 1)


def message(
    chance: Chance,
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    attributes: int = 0,
) -> bytes:
    """A message of magic 0 or 1."""
    number = chance.number
    body = struct.pack(">bb", number(magic, 8) if chance.often(0.2) else magic, number(attributes, 8))
    if magic:
        body += struct.pack(">q", number(TIME + offset, 64))
    for data in (key, value):
        body += struct.pack(">i", number(-1 if data is None else len(data), 32)) + (data or b"")
    size = number(len(body) + 4, 32) if chance.often(0.3) else len(body) + 4
    made = struct.pack(">qiI", number(offset, 64), size, zlib.crc32(body)) + body
    return chance.damage(made, 1) if chance.lie() else with_legacy_crc(made)


def wrapper(
    chance: Chance, magic: int, offset: int, codec: int, *, depth: int = 1, stream: bytes | None = None
) -> tuple[bytes, int]:
    """A compressed message with messages inside, now and then with a wrapper among them, and the offset after it."""
    contents = pairs(chance, 4)
    inner = b""
    for i, (key, value) in enumerate(contents):
        at = i if magic else offset + i
        if depth and chance.often(0.1):
            inner += wrapper(chance, magic, at, codec, depth=depth - 1)[0]
        else:
            inner += message(chance, chance.among([0, 1, 2]) if chance.lie() else magic, at, key, value)
    if chance.lie():
        inner = chance.damage(inner, 2)
    data = compress(codec, inner, magic=magic, raw=chance.often(0.2)) if stream is None else stream
    last = offset + len(contents) - 1
    key = b"key" if chance.lie() else None
    return message(chance, magic, last, key, data, codec | (LOG_APPEND_TIME * chance.often(0.2))), last + 1


def legacy(chance: Chance, magic: int, offset: int) -> tuple[bytes, int]:
    """A message or a wrapper of magic 0 or 1, and the offset after it."""
    codec = chance.among(LEGACY_CODECS)
    if codec == NONE:
        ((key, value), *_) = pairs(chance, 1)
        return message(chance, magic, offset, key, value), offset + 1
    return wrapper(chance, magic, offset, codec)


def log(chance: Chance, *, base: int = 0, magics: Sequence[int] = (2,), codec: int | None = None) -> bytes:
    """A log of some batches; the bytes may be damaged, and their CRCs put right again after that.

    Args:
        chance: decides.
        base: the first offset.
        magics: of the batches.
        codec: of batches of magic 2; None: any.
    """
    parts, offset = [], base
    for _ in range(chance.randrange(1, 7)):
        magic = chance.among(magics)
        if chance.lie():
            offset = chance.number(offset + 1000, 40)
        part, offset = batch(chance, offset, codec=codec) if magic > 1 else legacy(chance, magic, offset)
        parts.append(part)
    return maybe_damaged(chance, b"".join(parts))


def maybe_damaged(chance: Chance, data: bytes) -> bytes:
    """The same log, or one with damage, with the CRCs put right half of the time."""
    if chance.lies and chance.often(0.5):
        data = chance.damage(data)
        if chance.often(0.5):
            data = with_true_crcs(data)
    return data


FRAMES = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


def framed(chance: Chance, codec: int) -> bytes:
    """A log of one batch whose compressed bytes are damaged, its CRC right."""
    lies, chance.lies = chance.lies, 0.0
    magic = 2 if codec == ZSTD else chance.among([0, 1, 2, 2])
    data = b"".join(record(chance, i, *pair) for i, pair in enumerate(pairs(chance, 8)))
    if magic < 2:
        data = b"".join(message(chance, magic, i, *pair) for i, pair in enumerate(pairs(chance, 8)))
    if chance.often(0.3):
        data *= chance.randrange(1, 200)
    stream = compress(codec, data, magic=magic, raw=chance.often(0.3))
    if chance.often(0.2):
        stream += compress(codec, chance.text(30), magic=magic)
    chance.lies = lies
    if chance.lies:
        head = chance.often(0.5)  # half of the damage in the header of the frame
        stream = chance.damage(stream[:32], 2) + stream[32:] if head else chance.damage(stream)
    if magic < 2:
        return wrapper(chance, magic, 0, codec, stream=stream)[0]
    return batch(chance, 0, codec=codec, stream=stream)[0]


def segment(chance: Chance, base: int, parts: Sequence[bytes]) -> Files:
    """A segment of sound batches of magic 2 with its indexes."""
    return partitions.segment(base, parts, interval=chance.among([0, 100, 512]))


def sound_parts(chance: Chance, base: int, most: int = 8) -> tuple[list[bytes], int]:
    """Sound batches of magic 2, and the offset after them."""
    lies, chance.lies = chance.lies, 0.0
    parts, offset = [], base
    for _ in range(chance.randrange(1, most + 1)):
        part, offset = batch(chance, offset)
        parts.append(part)
    chance.lies = lies
    return parts, offset


def partition(chance: Chance) -> tuple[Files, int]:
    """The files of a sound partition of some segments, and the offset after its last record."""
    files: Files = {}
    offset = 0
    for _ in range(chance.randrange(1, 4)):
        base = offset
        parts, offset = sound_parts(chance, base)
        files |= segment(chance, base, parts)
    files["leader-epoch-checkpoint"] = partitions.checkpoint((0, 0))
    files["partition.metadata"] = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    entries = [(n, 0, 5, offset - 1, 2, TIME, -1, -1) for n in range(chance.randrange(3))]
    files[partitions.name(offset, "snapshot")] = partitions.snapshot(*entries)
    return files, offset
