"""Compressed sections: everything that can be decoded is delivered, nothing raises, nothing grows."""

from __future__ import annotations

import contextlib
import gzip
import random
import struct
import subprocess
import sys
import zlib
from itertools import permutations

import lz4.block
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.compat.kafka_reader import open_as_kafka
from kdump.compat.kafka_stream import JavaError
from kdump.finding import Code
from kdump.format import checksum
from kdump.format.checksum import xxh32
from kdump.format.codec.base import CodecProblem
from kdump.format.codec.decompress import CompressionType, Decompressor
from kdump.format.codec.signatures import NOT_COMPRESSED

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
LIMIT = 1 << 24
WORDS = b"the quick brown fox jumps over the lazy dog and then over the next one too ".split(b" ")
TEXT = b" ".join(random.Random(7).choices(WORDS, k=30_000))
RECORD = bytes.fromhex("100000000104686900")


def read(
    codec: int, data: bytes, magic: int = 2, limit: int = LIMIT, window: int = 1 << 20
) -> tuple[bytes, CodecProblem | None]:
    stream = Decompressor(codec, memoryview(data), magic, limit)
    target, out = memoryview(bytearray(window)), bytearray()
    while count := stream.read_into(target):
        out += target[:count]
    assert stream.read_into(target) == 0
    return bytes(out), stream.problem


def read_as_kafka(codec: int, data: bytes, magic: int = 2, limit: int = LIMIT) -> bytes:
    """What Kafka's stream delivers before it ends or throws."""
    out = bytearray()
    with contextlib.suppress(JavaError):
        stream = open_as_kafka(CompressionType(codec), memoryview(data), magic, 61, limit, LIMIT)
        while len(out) <= limit and (piece := stream.read(stream.chunk)) is not None:
            out += piece
    return bytes(out)


def xerial(data: bytes, block: int = 32768) -> bytes:
    parts = [XERIAL]
    for start in range(0, len(data), block):
        part = snappy.compress(data[start : start + block])
        parts += [struct.pack(">i", len(part)), part]
    return b"".join(parts)


def lz4_frame(data: bytes, **options: object) -> bytes:
    return bytes(lz4.frame.compress(data, **{"store_size": False, "block_linked": False, "block_size": 4, **options}))


def zstd_frame(data: bytes, *, write_checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False, write_checksum=write_checksum).compress(data)


def compress(codec: int, data: bytes) -> bytes:
    return {
        GZIP: lambda: gzip.compress(data, mtime=0),
        SNAPPY: lambda: xerial(data),
        LZ4: lambda: lz4_frame(data),
        ZSTD: lambda: zstd_frame(data),
    }[CompressionType(codec)]()


def is_found(problem: CodecProblem | None, code: Code, *, fatal: bool) -> bool:
    return problem is not None and problem.code is code and problem.fatal is fatal


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=400), times=st.integers(1, 400), window=st.integers(1, 5000))
@settings(max_examples=60)
def test_a_sound_section_comes_back_whole(codec: int, data: bytes, times: int, window: int) -> None:
    data = data * times
    window = max(window, len(data) // 200)
    assert read(codec, compress(codec, data), window=window) == (data, None)
    assert read_as_kafka(codec, compress(codec, data)) == data


@pytest.mark.parametrize(
    "section",
    [
        lz4_frame(TEXT, content_checksum=True, block_checksum=True, store_size=True),
        lz4_frame(TEXT, block_size=7),
        lz4_frame(random.Random(1).randbytes(70_000)),
    ],
)
@pytest.mark.parametrize("window", [999, 1 << 20])
def test_every_option_of_lz4_that_kafka_takes_is_read(section: bytes, window: int) -> None:
    out, problem = read(LZ4, section, window=window)
    assert problem is None
    assert out == lz4.frame.decompress(section)


@pytest.mark.parametrize("codec", CODECS)
def test_streams_written_one_after_the_other_are_one_section(codec: int) -> None:
    first, second = compress(codec, TEXT[:5000]), compress(codec, TEXT[5000:9000])
    out, problem = read(codec, first + second)
    assert read_as_kafka(codec, first + second) == out
    if codec == LZ4:
        # Kafka's reader ends at the end of the first frame
        assert out == TEXT[:5000]
        assert is_found(problem, Code.C02, fatal=False)
    else:
        assert (out, problem) == (TEXT[:9000], None)


def test_a_raw_snappy_block_without_framing_is_read() -> None:
    section = snappy.compress(TEXT)
    assert read(SNAPPY, section) == (TEXT, None)
    assert read_as_kafka(SNAPPY, section) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_no_truncation_raises_and_each_gives_a_beginning_of_the_data(codec: int) -> None:
    section = compress(codec, TEXT[:300])
    for length in range(len(section)):
        out, problem = read(codec, section[:length], window=64)
        assert TEXT.startswith(out)
        assert problem is not None or length == 0 or codec == SNAPPY
        assert out == read(codec, section[:length], window=1000)[0]
        assert TEXT.startswith(read_as_kafka(codec, section[:length]))


@pytest.mark.parametrize("codec", CODECS)
def test_no_flipped_bit_raises(codec: int) -> None:
    section = compress(codec, TEXT[:200])
    for position in range(len(section) * 8):
        damaged = bytearray(section)
        damaged[position // 8] ^= 1 << position % 8
        out, _ = read(codec, bytes(damaged), limit=5000)
        assert len(out) <= 5000
        read_as_kafka(codec, bytes(damaged), limit=5000)


@pytest.mark.parametrize("codec", [*CODECS, NONE])
@given(data=st.binary(max_size=300), head=st.booleans(), magic=st.integers(0, 2))
@settings(max_examples=100)
def test_no_bytes_at_all_raise(codec: int, data: bytes, head: bool, magic: int) -> None:
    heads = {
        NONE: b"",
        GZIP: b"\x1f\x8b\x08",
        SNAPPY: XERIAL,
        LZ4: bytes.fromhex("04224d18604082"),
        ZSTD: b"\x28\xb5\x2f\xfd",
    }
    section = (heads[CompressionType(codec)] if head else b"") + data
    out, _ = read(codec, section, magic, limit=10_000)
    assert len(out) <= 10_000
    if codec != NONE:
        read_as_kafka(codec, section, magic, limit=10_000)


def test_an_unknown_codec_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="no codec 5"):
        Decompressor(5, memoryview(b""), 2, LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: int) -> None:
    section = compress(codec, TEXT[:50_000])
    assert read(codec, section, limit=50_000) == (TEXT[:50_000], None)
    out, problem = read(codec, section, limit=49_999, window=7000)
    assert out == TEXT[:49_999]
    assert is_found(problem, Code.C03, fatal=True)


@pytest.mark.parametrize("codec", CODECS)
def test_nothing_is_not_a_section(codec: int) -> None:
    out, problem = read(codec, b"")
    assert out == b""
    assert is_found(problem, Code.C02, fatal=True)


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_end_cost_no_data(codec: int) -> None:
    out, problem = read(codec, compress(codec, TEXT) + b"\x7f\x22\x33\x44\x55\x66", window=50_000)
    assert out == TEXT
    assert is_found(problem, Code.C02, fatal=False)


@pytest.mark.parametrize(("marked", "real"), [*permutations(CODECS, 2)])
def test_data_of_another_codec_is_named(marked: int, real: int) -> None:
    out, problem = read(marked, compress(real, TEXT[:100]))
    assert out == b""
    assert problem == CodecProblem(Code.C05, CompressionType(real).label, fatal=True)


@pytest.mark.parametrize("marked", CODECS)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_records_that_are_not_compressed_are_named(marked: int, magic: int) -> None:
    message = bytes([magic, 0]) + bytes(8 * magic) + struct.pack(">ii2s", -1, 2, b"hi")
    message = struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message
    _, problem = read(marked, RECORD * 3 if magic == 2 else message, magic)
    assert problem == CodecProblem(Code.C05, NOT_COMPRESSED, fatal=True)


def test_compressed_data_in_a_batch_marked_none_is_named_and_delivered() -> None:
    section = compress(ZSTD, TEXT)
    assert read(NONE, section) == (section, CodecProblem(Code.C05, "zstd", fatal=False))
    assert read(NONE, RECORD) == (RECORD, None)


def test_the_good_blocks_before_a_bad_one_are_delivered() -> None:
    bad_zstd = bytearray(zstd_frame(random.Random(2).randbytes(200_000)))
    second = 6 + 3 + 131072
    bad_zstd[second] |= 6  # a block type that does not exist
    out, problem = read(ZSTD, bytes(bad_zstd), window=10_000)
    assert out == random.Random(2).randbytes(200_000)[:131072]
    assert is_found(problem, Code.C01, fatal=True)
    section = lz4_frame(TEXT)
    first = int.from_bytes(section[7:11], "little")
    out, problem = read(LZ4, section[: 11 + first] + struct.pack("<I", 5) + b"\x1fa\xff\xff\x00" + bytes(4))
    assert out == TEXT[:65536] + b"a"
    assert is_found(problem, Code.C01, fatal=True)


def test_the_good_beginning_of_a_bad_snappy_block_is_delivered() -> None:
    block = b"\x14\x20" + b"ninebytes" + b"\x15\x09" + b"\x15\xff"  # a literal, a copy, and a copy from nowhere
    section = XERIAL + struct.pack(">i", len(block)) + block
    out, problem = read(SNAPPY, section)
    assert out == b"ninebytesninebytes"
    assert is_found(problem, Code.C01, fatal=True)


def test_all_that_zlib_decodes_before_an_error_is_delivered() -> None:
    section = bytearray(gzip.compress(TEXT, mtime=0))
    rng = random.Random(3)
    for _ in range(60):
        damaged = section.copy()
        damaged[rng.randrange(10, len(section))] ^= 0xFF
        member, expected = zlib.decompressobj(31), bytearray()
        try:
            for byte in damaged:
                expected += member.decompress(bytes([byte]))
        except zlib.error:
            pass
        out, problem = read(GZIP, bytes(damaged), window=30_000)
        assert out.startswith(expected)
        assert len(out) <= len(expected) + 258
        assert problem is not None


@pytest.mark.parametrize(
    ("codec", "section", "code"),
    [
        (GZIP, gzip.compress(TEXT, mtime=0)[:-5] + bytes(5), Code.C01),
        (GZIP, gzip.compress(TEXT, mtime=0)[:-1] + b"\x7f", Code.C04),
        (LZ4, lz4_frame(TEXT, content_checksum=True)[:-4] + bytes(4), Code.C06),
        (LZ4, lz4_frame(TEXT, content_checksum=True)[:-4], Code.C02),
        (LZ4, lz4_frame(TEXT, block_checksum=True)[:-5] + bytes(5), Code.C01),
        (LZ4, lz4_frame(TEXT, block_linked=True), Code.C01),
        (LZ4, lz4_frame(TEXT)[:6] + b"\0" + lz4_frame(TEXT)[7:], Code.C01),
        (ZSTD, zstd_frame(TEXT, write_checksum=True)[:-4] + bytes(4), Code.C01),
        (ZSTD, zstd_frame(TEXT, write_checksum=True)[:-2], Code.C02),
        (SNAPPY, xerial(TEXT, 1 << 20)[:19] + b"\xff" + xerial(TEXT, 1 << 20)[20:], Code.C04),
    ],
)
def test_what_is_wrong_around_whole_data_costs_none_of_it(codec: int, section: bytes, code: Code) -> None:
    for window in (3000, 1 << 20):
        out, problem = read(codec, section, window=window)
        assert out == TEXT
        assert is_found(problem, code, fatal=False)


def test_the_wrong_header_checksum_of_magic_0_is_no_problem() -> None:
    for options in ({}, {"content_checksum": True}):
        section = bytearray(lz4_frame(TEXT, **options))
        section[6] ^= 0x55
        assert read(LZ4, bytes(section), magic=0) == (TEXT, None)
        of_magic_0 = open_as_kafka(LZ4, memoryview(section), 0, 26, LIMIT, LIMIT)
        assert of_magic_0.read(100) == TEXT[:100]
        with pytest.raises(JavaError):
            open_as_kafka(LZ4, memoryview(section), 1, 34, LIMIT, LIMIT)


def test_sizes_that_frames_declare_are_compared_with_the_data() -> None:
    frame = lz4_frame(RECORD, store_size=True)
    descriptor = frame[4:6] + struct.pack("<Q", 3 << 30)
    section = frame[:4] + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF]) + frame[15:]
    assert read(LZ4, section) == (
        RECORD,
        CodecProblem(Code.C04, "3221225472 bytes, where there are 9", fatal=False),
    )
    section = bytes.fromhex("28b52ffda00a000000490000") + RECORD
    assert read(ZSTD, section) == (RECORD, CodecProblem(Code.C04, "10 bytes, where there are 9", fatal=False))
    out, problem = read(ZSTD, bytes.fromhex("28b52ffde0000000c0000000000100000100"))
    assert out == b""
    assert is_found(problem, Code.C04, fatal=True)


BOMBS = """
import gzip, resource, struct, sys
from pathlib import Path
import lz4.frame, snappy
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from kdump.compat.kafka_reader import open_as_kafka
from kdump.format.codec.decompress import CompressionType, Decompressor
from kdump.compat.kafka_stream import MAX_ARRAY, ArrayRoom, read_messages
XERIAL = b"\\x82SNAPPY\\0" + struct.pack(">ii", 1, 1)
rle = lambda last: ((131072 << 3) | 2 | last).to_bytes(3, "little") + b"A"
liar = b"\\xff\\xff\\xff\\xff\\x0f\\x10hello"
zeros = gzip.compress(bytes(1 << 26), mtime=0)
for codec, data, code in (
    (4, b"\\x28\\xb5\\x2f\\xfd\\0\\x58" + rle(0) * 32767 + rle(1), "C03"),
    (4, bytes.fromhex("28b52ffde0000000c0000000000100000100"), "C04"),
    (4, b"\\x28\\xb5\\x2f\\xfd\\0\\x88" + rle(0) * 5000 + rle(1), "C03"),
    (1, zeros, "C03"),
    (1, gzip.compress(zeros, mtime=0), None),
    (3, lz4.frame.compress(bytes(1 << 26), block_linked=False), "C03"),
    (3, lz4.frame.compress(bytes(1 << 26), block_linked=False, content_checksum=True), "C03"),
    (2, liar, "C04"),
    (2, XERIAL + struct.pack(">i", len(liar)) + liar, "C04"),
    (2, XERIAL + struct.pack(">i", 0x7FFFFFFF) + liar, "C02"),
    (2, snappy.compress(bytes(1 << 26)), "C03"),
):
    stream = Decompressor(codec, memoryview(data), 2, 1 << 24)
    target, total = memoryview(bytearray(1 << 20)), 0
    while count := stream.read_into(target):
        total += count
    assert total <= 1 << 24
    assert (stream.problem and stream.problem.code.name) == code, (codec, data[:20], stream.problem)
    opened = lambda: open_as_kafka(CompressionType(codec), memoryview(data), 1, 34, 1 << 24, 1 << 28)
    assert sum(map(len, read_messages(opened, 1 << 24, ArrayRoom(MAX_ARRAY)))) <= 1 << 24
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]  # its own, not that of who started it
assert int(peak) < 300_000
"""


def test_no_bomb_takes_more_memory_than_a_window() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", BOMBS], check=True, timeout=120)


def test_codec_libraries_are_imported_only_when_they_are_used() -> None:
    code = (
        "import sys; import kdump.format.codec.decompress as c;"
        "known = {'lz4', 'zstandard', 'cramjam', 'snappy'};"
        "assert not known & set(sys.modules), known & set(sys.modules);"
        "c.Decompressor(4, memoryview(bytes.fromhex('28b52ffd2000010000')), 2, 9);"
        "assert known & set(sys.modules) == {'zstandard'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_checksums_have_their_published_check_values(monkeypatch: pytest.MonkeyPatch) -> None:
    checksum.self_test()
    assert checksum.crc32c(b"6789", checksum.crc32c(b"12345")) == 0xE3069283
    assert checksum.crc32(b"123456789") == 0xCBF43926
    monkeypatch.setattr(checksum, "crc32c", lambda data: 0)
    with pytest.raises(RuntimeError, match="CRC-32C of this machine is wrong"):
        checksum.self_test()


@given(data=st.binary(max_size=200))
def test_xxh32_is_that_of_the_lz4_library(data: bytes) -> None:
    frame = lz4.frame.compress(data + b"x", content_checksum=True)
    assert xxh32(data + b"x") == int.from_bytes(frame[-4:], "little")
