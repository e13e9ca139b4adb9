"""Kafka's personality: what a consumer of Kafka 4.3.1 gets of a damaged section, and what it throws.

Each expectation was seen with Kafka's own classes (DefaultRecordBatch.streamingIterator of kafka-clients 4.3.1 on
JDK 17). The streams are put together by hand from blocks that are not compressed, so that they are the same
whatever version of a codec library is installed.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from kdump.compat.kafka_reader import open_as_kafka
from kdump.compat.kafka_stream import MAX_ARRAY, ArrayRoom, Thrown, read_messages, read_records
from kdump.format.batch.layout import RECORDS_AT
from kdump.format.codec.base import CompressionType
from kdump.format.codec.decompress import Decompressor
from tests.support.segments import varint

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kdump.compat.kafka_stream import JavaStream

pytestmark = pytest.mark.quick

LIMIT = 1 << 24
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
KAFKA = "org.apache.kafka.common.KafkaException: "
READ_FAILED = KAFKA + "Failed to decompress record stream"
CHECK_FAILED = KAFKA + "Error checking for remaining bytes after reading batch"
ZIP = "java.util.zip.ZipException: "
IO = "java.io.IOException: "
ZSTD_IO = "com.github.luben.zstd.ZstdIOException: "
SNAPPY_IO = "org.xerial.snappy.SnappyIOException: "
OLD_VERSION = "Compressed with an incompatible codec version 0. At least version 1 is required"
PIECE = 65535


def record(delta: int, size: int) -> bytes:
    body = b"\0\0" + varint(delta) + b"\x01" + varint(size) + bytes([delta % 251]) * size + b"\0"
    return varint(len(body)) + body


def records(count: int, size: int) -> bytes:
    return b"".join(record(delta, size) for delta in range(count))


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def gzip_stored(data: bytes, size: int = PIECE) -> bytes:
    """A gzip member of stored blocks of `size` bytes."""
    blocks = [b"\0" + struct.pack("<HH", len(part), len(part) ^ 0xFFFF) + part for part in pieces(data, size)]
    blocks.append(b"\x01\0\0\xff\xff")
    header = bytes.fromhex("1f8b08000000000000ff")
    return header + b"".join(blocks) + struct.pack("<II", zlib.crc32(data), len(data))


def snappy_block(data: bytes) -> bytes:
    """A raw block of one literal."""
    size, preamble = len(data), bytearray()
    while size >= 0x80:
        preamble.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*preamble, size, 0xF4]) + struct.pack("<H", len(data) - 1) + data


def xerial(data: bytes, size: int = 32768) -> bytes:
    blocks = [snappy_block(part) for part in pieces(data, size)]
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def lz4_stored(data: bytes, size: int = 65536, flags: int = 0x60, checksum: int = 0x82) -> bytes:
    """A frame of stored blocks; the default header is the one that Kafka writes."""
    blocks = [struct.pack("<I", len(part) | 1 << 31) + part for part in pieces(data, size)]
    return bytes.fromhex("04224d18") + bytes([flags, 0x40, checksum]) + b"".join(blocks) + bytes(4)


def zstd_raw(data: bytes, size: int = 131072) -> bytes:
    """A frame of raw blocks with a window of 2 MB and no declared size."""
    parts = pieces(data, size)
    blocks = [(len(part) << 3 | (part is parts[-1])).to_bytes(3, "little") + part for part in parts]
    return bytes.fromhex("28b52ffd0058") + b"".join(blocks)


def broken(section: bytes, position: int, replacement: bytes) -> bytes:
    return section[:position] + replacement + section[position + len(replacement) :]


SMALL = records(5, 100)
MANY = records(60, 1000)
LARGE = record(0, 10) + record(1, 40_000) + records(60, 1000)

VECTORS = {
    # gzip: reads of 16 KB; a failing one delivers nothing of its own
    "gzip sound": (gzip_stored(SMALL), GZIP, 5),
    "gzip trailer crc": (broken(gzip_stored(SMALL), -8, b"\0\0\0\0"), GZIP, 5),
    "gzip no trailer": (gzip_stored(SMALL)[:-3], GZIP, 5),
    "gzip cut": (gzip_stored(MANY)[:40_000], GZIP, 60),
    "gzip bad third block": (broken(gzip_stored(MANY, 20_000), 10 + 2 * 20_005 + 3, b"\0\0"), GZIP, 60),
    "gzip bad block after a large record": (
        broken(gzip_stored(LARGE, 45_000), 10 + 45_005 + 3, b"\0\0"),
        GZIP,
        62,
    ),
    "gzip 18 bytes after": (gzip_stored(SMALL) + bytes(18), GZIP, 5),
    "gzip bad member after": (gzip_stored(SMALL) + gzip_stored(b"")[:10] + b"\xff" * 20, GZIP, 5),
    "gzip bad second member": (gzip_stored(MANY) + broken(gzip_stored(SMALL), 13, b"\0\0"), GZIP, 65),
    "gzip reserved flags": (broken(gzip_stored(SMALL), 3, b"\xe0"), GZIP, 5),
    "gzip other method": (broken(gzip_stored(SMALL), 2, b"\x09"), GZIP, 5),
    "gzip nothing": (b"", GZIP, 5),
    "gzip not gzip": (SMALL, GZIP, 5),
    # snappy: reads of 2 KB that go on over chunks
    "snappy sound": (xerial(MANY), SNAPPY, 60),
    "snappy bad second chunk": (broken(xerial(MANY), 16 + 4 + 32774 + 4, b"\xff" * 5), SNAPPY, 60),
    "snappy second chunk cut": (xerial(MANY)[:40_000], SNAPPY, 60),
    "snappy second chunk after a large record": (xerial(LARGE, 41_000)[:60_000], SNAPPY, 62),
    "snappy negative length after": (xerial(SMALL) + b"\xff\xff\xff\xff", SNAPPY, 5),
    "snappy three bytes after": (xerial(SMALL) + b"\xff\xff\xff", SNAPPY, 5),
    "snappy bytes after 2048": (xerial(records(2, 1015)) + b"\0\0\1\0\0", SNAPPY, 2),
    "snappy half a header after": (xerial(SMALL) + XERIAL[:9], SNAPPY, 5),
    "snappy second header of version 0": (xerial(SMALL) + XERIAL[:8] + bytes(8), SNAPPY, 5),
    "snappy claims 4 GiB - 1": (b"\xff\xff\xff\xff\x0f\x10hello", SNAPPY, 1),
    "snappy chunk claims 2 GiB": (XERIAL + b"\0\0\0\x0b\x80\x80\x80\x80\x08\x10hello", SNAPPY, 1),
    "snappy nothing": (b"", SNAPPY, 5),
    # lz4: one block a read; nothing before a bad block is lost
    "lz4 sound": (lz4_stored(MANY, 30_000), LZ4, 60),
    "lz4 second block too long": (broken(lz4_stored(MANY, 30_000), 7 + 30_004, b"\1\0\1\0"), LZ4, 60),
    "lz4 second block corrupt": (
        broken(lz4_stored(MANY, 30_000), 7 + 30_004, b"\x30\x75\0\0\xff\xff\0"),
        LZ4,
        60,
    ),
    "lz4 cut": (lz4_stored(MANY, 30_000)[:40_000], LZ4, 60),
    "lz4 no end mark": (lz4_stored(SMALL)[:-1], LZ4, 5),
    "lz4 bytes after": (lz4_stored(SMALL) + b"\1\2\3", LZ4, 5),
    "lz4 content checksum missing": (lz4_stored(SMALL, 65536, 0x64, 0xA7), LZ4, 5),
    "lz4 content checksum wrong": (lz4_stored(SMALL, 65536, 0x64, 0xA7) + b"abcd", LZ4, 5),
    "lz4 header checksum": (lz4_stored(SMALL, checksum=0x83), LZ4, 5),
    "lz4 linked blocks": (lz4_stored(SMALL, 65536, 0x40, 0xC0), LZ4, 5),
    "lz4 dictionary": (lz4_stored(SMALL, 65536, 0x61, 0), LZ4, 5),
    "lz4 empty block at the end": (lz4_stored(SMALL)[:-4] + b"\1\0\0\0\0" + bytes(4), LZ4, 5),
    "lz4 nothing": (b"", LZ4, 5),
    "lz4 not lz4": (SMALL, LZ4, 5),
    # zstd: reads of 16 KB over blocks of one frame
    "zstd sound": (zstd_raw(MANY, 20_000), ZSTD, 60),
    "zstd bad third block": (broken(zstd_raw(MANY, 20_000), 6 + 2 * 20_003, b"\7"), ZSTD, 60),
    "zstd bad block right after a read": (broken(zstd_raw(MANY, 16_384), 6 + 2 * 16_387, b"\7"), ZSTD, 60),
    "zstd cut": (zstd_raw(MANY, 20_000)[:50_000], ZSTD, 60),
    "zstd cut after a block": (zstd_raw(MANY, 20_000)[: 6 + 2 * 20_003], ZSTD, 60),
    "zstd bad block after a large record": (broken(zstd_raw(LARGE, 45_000), 6 + 45_003, b"\7"), ZSTD, 62),
    "zstd bytes after": (zstd_raw(SMALL) + b"junk", ZSTD, 5),
    "zstd bytes after that begin a frame": (zstd_raw(SMALL) + b"\x28\xb5", ZSTD, 5),
    "zstd skippable frame": (b"\x50\x2a\x4d\x18\3\0\0\0abc" + zstd_raw(SMALL), ZSTD, 5),
    "zstd two frames": (zstd_raw(records(3, 100)) + zstd_raw(record(3, 100) + record(4, 100)), ZSTD, 5),
    "zstd window": (broken(zstd_raw(SMALL), 5, b"\x89"), ZSTD, 5),
    "zstd largest window": (broken(zstd_raw(SMALL), 5, b"\x88"), ZSTD, 5),
    "zstd not zstd": (SMALL, ZSTD, 5),
}

SEEN = {
    "gzip sound": (5, "", ""),
    "gzip trailer crc": (4, CHECK_FAILED, ZIP + "Corrupt GZIP trailer"),
    "gzip no trailer": (4, CHECK_FAILED, "java.io.EOFException"),
    "gzip cut": (39, READ_FAILED, "java.io.EOFException: Unexpected end of ZLIB input stream"),
    "gzip bad third block": (32, READ_FAILED, ZIP + "invalid stored block lengths"),
    "gzip bad block after a large record": (2, READ_FAILED, ZIP + "invalid stored block lengths"),
    "gzip 18 bytes after": (5, "", ""),
    "gzip bad member after": (4, CHECK_FAILED, ZIP + "invalid block type"),
    "gzip bad second member": (60, READ_FAILED, ZIP + "invalid stored block lengths"),
    "gzip reserved flags": (5, "", ""),
    "gzip other method": (
        0,
        KAFKA + ZIP + "Unsupported compression method",
        ZIP + "Unsupported compression method",
    ),
    "gzip nothing": (0, KAFKA + "java.io.EOFException", "java.io.EOFException"),
    "gzip not gzip": (0, KAFKA + ZIP + "Not in GZIP format", ZIP + "Not in GZIP format"),
    "snappy sound": (60, "", ""),
    "snappy bad second chunk": (32, READ_FAILED, IO + "PARSING_ERROR(2)"),
    "snappy second chunk cut": (32, READ_FAILED, IO + "failed to read chunk"),
    "snappy second chunk after a large record": (2, READ_FAILED, IO + "failed to read chunk"),
    "snappy negative length after": (
        0,
        "org.xerial.snappy.SnappyError: [INVALID_CHUNK_SIZE] chunkSize is too big or negative : -1",
        "",
    ),
    "snappy three bytes after": (5, "", ""),
    "snappy bytes after 2048": (1, CHECK_FAILED, IO + "failed to read chunk"),
    "snappy half a header after": (
        0,
        READ_FAILED,
        "org.xerial.snappy.SnappyIOException: [FAILED_TO_UNCOMPRESS] Insufficient header size in a concatenated block",
    ),
    "snappy second header of version 0": (
        0,
        READ_FAILED,
        SNAPPY_IO + "[INCOMPATIBLE_VERSION] " + OLD_VERSION,
    ),
    "snappy claims 4 GiB - 1": (
        0,
        KAFKA + "java.lang.NegativeArraySizeException: -1",
        "java.lang.NegativeArraySizeException: -1",
    ),
    "snappy chunk claims 2 GiB": (0, "java.lang.NegativeArraySizeException: -2147483648", ""),
    "snappy nothing": (
        0,
        KAFKA + "org.xerial.snappy.SnappyIOException: [EMPTY_INPUT] Cannot decompress empty stream",
        "org.xerial.snappy.SnappyIOException: [EMPTY_INPUT] Cannot decompress empty stream",
    ),
    "lz4 sound": (60, "", ""),
    "lz4 second block too long": (29, READ_FAILED, IO + "Block size 65537 exceeded max: 65536"),
    "lz4 second block corrupt": (
        29,
        READ_FAILED,
        IO + "net.jpountz.lz4.LZ4Exception: Error decoding offset 30353 of input buffer",
    ),
    "lz4 cut": (29, READ_FAILED, IO + "Stream ended prematurely"),
    "lz4 no end mark": (4, CHECK_FAILED, IO + "Stream ended prematurely"),
    "lz4 bytes after": (5, "", ""),
    "lz4 content checksum missing": (4, "java.nio.BufferUnderflowException", ""),
    "lz4 content checksum wrong": (5, "", ""),
    "lz4 header checksum": (
        0,
        KAFKA + IO + "Stream frame descriptor corrupted",
        IO + "Stream frame descriptor corrupted",
    ),
    "lz4 linked blocks": (
        0,
        KAFKA + "java.lang.RuntimeException: Dependent block stream is unsupported",
        "java.lang.RuntimeException: Dependent block stream is unsupported",
    ),
    "lz4 dictionary": (
        0,
        KAFKA + "java.lang.RuntimeException: Reserved bits must be 0",
        "java.lang.RuntimeException: Reserved bits must be 0",
    ),
    "lz4 empty block at the end": (5, "", ""),
    "lz4 nothing": (0, KAFKA + IO + "Stream ended prematurely", IO + "Stream ended prematurely"),
    "lz4 not lz4": (
        0,
        KAFKA + IO + "Stream unsupported (invalid magic bytes)",
        IO + "Stream unsupported (invalid magic bytes)",
    ),
    "zstd sound": (60, "", ""),
    "zstd bad third block": (32, READ_FAILED, ZSTD_IO + "Data corruption detected"),
    "zstd bad block right after a read": (16, READ_FAILED, ZSTD_IO + "Data corruption detected"),
    "zstd cut": (49, READ_FAILED, ZSTD_IO + "Truncated source"),
    "zstd cut after a block": (39, READ_FAILED, ZSTD_IO + "Truncated source"),
    "zstd bad block after a large record": (2, READ_FAILED, ZSTD_IO + "Data corruption detected"),
    "zstd bytes after": (4, CHECK_FAILED, ZSTD_IO + "Unknown frame descriptor"),
    "zstd bytes after that begin a frame": (5, "", ""),
    "zstd skippable frame": (5, "", ""),
    "zstd two frames": (5, "", ""),
    "zstd window": (0, READ_FAILED, ZSTD_IO + "Frame requires too much memory for decoding"),
    "zstd largest window": (5, "", ""),
    "zstd not zstd": (0, READ_FAILED, ZSTD_IO + "Unknown frame descriptor"),
}
"""By name of the vector: records that came, what was thrown, and its cause; as Java printed them."""


def stream_of(section: bytes, codec: int, magic: int) -> Callable[[], JavaStream]:
    return lambda: open_as_kafka(CompressionType(codec), memoryview(section), magic, RECORDS_AT, LIMIT, MAX_ARRAY)


def drained(records: Generator[bytes, None, Thrown | None]) -> tuple[int, Thrown | None]:
    """How many records came, and what was thrown after them."""
    came = 0
    while True:
        try:
            next(records)
        except StopIteration as stop:
            return came, stop.value
        came += 1


@pytest.mark.parametrize("name", VECTORS)
def test_kafka_is_followed_to_the_record(name: str) -> None:
    section, codec, count = VECTORS[name]
    came, thrown = drained(read_records(stream_of(section, codec, 2), 2, count, LIMIT, ArrayRoom(MAX_ARRAY)))
    if thrown is None:
        assert (came, "", "") == SEEN[name]
        return
    # the look for remaining bytes is part of reading the last record: when it throws, that record is lost
    assert (min(came, count - 1), thrown.text, thrown.cause) == SEEN[name]


@pytest.mark.parametrize("name", VECTORS)
def test_the_checked_reader_reports_whatever_kafka_throws_at(name: str) -> None:
    section, codec, _ = VECTORS[name]
    stream = Decompressor(codec, memoryview(section), 2, 1 << 24)
    while stream.read_into(memoryview(bytearray(1 << 20))):
        pass
    assert stream.problem is not None or not SEEN[name][1]


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_throw_the_error_of_the_stream_itself(magic: int) -> None:
    message = struct.pack(">qi", 0, 26) + bytes(26)
    section = broken(gzip_stored(message), -8, b"\0\0\0\0")
    came, thrown = drained(read_messages(stream_of(section, GZIP, magic), LIMIT, ArrayRoom(MAX_ARRAY)))
    assert came == 1
    assert thrown is not None
    assert thrown.text == KAFKA + ZIP + "Corrupt GZIP trailer"
