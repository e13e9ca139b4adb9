"""What a second reading of the kernels and their callers found: each of these once read or wrote what it should not."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Any

import pytest

import kdump as library
from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import _scan, layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checksum import crc32, crc32c
from kdump.format.record.reader import ROWS, RecordReader
from kdump.format.source import BytesSource
from kdump.state import _fold
from tests.broker.test_compaction import clean, made
from tests.format.test_kernels import both
from tests.support.partitions import aborted, marker, name
from tests.support.runs import run_kdump
from tests.support.segments import (
    CONTROL,
    GZIP,
    TRANSACTIONAL,
    Record,
    batch,
    compress,
    framed,
    message,
    varint,
    wrapper,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kdump.finding import Finding
    from kdump.format.batch.window import Window

LIMIT = 1 << 26
_LARGE = b"v" * 9_000_000  # the value of a record that export cuts


def window(data: bytes) -> Window:
    """The one window of a log."""
    found: list[Finding] = []
    (one,) = CheckedWalk(
        BytesSource(data, "log"), found.append, segment=0, next_base=None, max_batch_bytes=LIMIT
    ).windows()
    return one


def odd_wrapper(count: int) -> bytes:
    """A wrapper whose messages say magic 5: Kafka reads them as magic 1, by its model and not by the kernel."""
    inner = bytearray()
    for i in range(count):
        one = bytearray(message(1, i, b"v"))
        one[layout.MAGIC_AT] = 5
        inner += one
    return wrapper(1, 0, [b""] * count, stream=compress(GZIP, bytes(inner), magic=1))


@pytest.mark.parametrize("count", [1, ROWS, ROWS + 1, 5000])
def test_no_chunk_has_more_rows_than_its_takers_have_room_for(count: int) -> None:
    chunks = list(KafkaRecordReader(LIMIT).chunks(window(odd_wrapper(count))))
    assert max(chunk.filled for chunk in chunks) <= ROWS
    assert sum(chunk.filled for chunk in chunks) == count
    assert [chunk.begun for chunk in chunks] == [False] + [True] * (len(chunks) - 1)


def test_the_cleaner_takes_a_wrapper_with_more_messages_than_one_chunk_has(tmp_path: Path) -> None:
    found = clean(made(tmp_path, (0, [odd_wrapper(5000)]), (5000, [batch(5000)])))
    assert not found.failure


def test_an_unknown_codec_fails_the_cleaner_as_it_fails_kafka(tmp_path: Path) -> None:
    odd = batch(0, [Record(b"1", key=b"a")], codec=0, flags=5)
    found = clean(made(tmp_path, (0, [odd]), (1, [batch(1, [Record(b"1", key=b"a")])])))
    assert found.failure


@pytest.mark.parametrize("codec", [GZIP, 5])
def test_an_empty_batch_fails_the_cleaner_where_kafka_cannot_open_its_stream(codec: int, tmp_path: Path) -> None:
    """Source: DefaultRecordBatch.streamingIterator."""
    odd = batch(0, [], codec=0, flags=codec)
    found = clean(made(tmp_path, (0, [odd]), (1, [batch(1, [Record(b"1", key=b"a")])])))
    assert found.failure


def test_offsets_in_a_wrapper_that_are_further_apart_than_longs_reach_wrap_as_in_java(tmp_path: Path) -> None:
    inner = b"".join(message(0, offset, b"v", key=b"%d" % offset) for offset in (-(2**63), 2**63 - 1, 0))
    odd = wrapper(0, 0, [b""], stream=compress(GZIP, inner))
    assert not clean(made(tmp_path, (0, [odd]), (1, [batch(1, [Record(b"1", key=b"a")])]))).failure


def test_offsets_in_a_wrapper_that_descend_tell_nothing_of_where_it_begins(tmp_path: Path) -> None:
    """Verify asked how far the last one lies above the first, and expected offsets beyond 2^63."""
    base = 2**63 - 2**31
    inner = b"".join(message(0, offset, b"v") for offset in (base, base + 1, -2))
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / f"{base:020}.log"
    odd = wrapper(0, base, [b""] * 3, stream=compress(GZIP, inner))
    log.write_bytes(odd + message(0, base + 3, b"v") + wrapper(0, -base, [b""] * 2, stream=compress(GZIP, inner)))
    found = run_kdump(["verify", "--format", "json", "t-0"], tmp_path)
    assert found.exit == 3
    assert not found.stderr


def test_a_large_key_of_a_control_record_is_not_looked_for_where_it_was_cut(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(batch(0, [Record(_LARGE, key=b"\0\0\0\6" + _LARGE)], codec=GZIP, flags=CONTROL))
    for options in (["--print-data-log"], ["--print-data-log", "--format", "json"], ["--deep-iteration"]):
        assert run_kdump(["dump", *options, str(log)], tmp_path).exit in (0, 3)


@pytest.mark.parametrize("part", [{"flags": 5}, {"codec": GZIP, "body": b"no gzip"}, {"body": b"\xff" * 9}])
def test_an_aborted_batch_is_cleaned_away_unread(part: dict[str, Any], tmp_path: Path) -> None:
    """Source: Cleaner.buildOffsetMapForSegment, MemoryRecords.filterTo."""
    more = {key: value for key, value in part.items() if key != "flags"}
    odd = batch(0, [Record(b"1", key=b"a")], producer=(7, 0, 0), flags=TRANSACTIONAL | part.get("flags", 0), **more)
    parts = [odd, marker(1, (7, 0), commit=False), batch(2, [Record(b"1", key=b"a")])]
    place = made(tmp_path, (0, parts))
    (place / "t-0" / name(0, "txnindex")).write_bytes(aborted(7, 0, 1, 0))
    found = clean(place)
    assert not found.failure
    assert found.cleaned is not None
    assert [run[0] for one in found.cleaned for run in one.runs] == [1]


def test_a_delete_horizon_beyond_the_longs_wraps_as_in_java(tmp_path: Path) -> None:
    parts = [batch(0, [Record(b"1", key=b"a"), Record(None, key=b"b")])]
    place = made(tmp_path, (0, parts), (2, [batch(2, [Record(b"1", key=b"a")])]))
    assert not clean(place, delete_retention_ms=str(2**63 - 1)).failure


def test_a_walk_ends_where_a_shorter_file_ends() -> None:
    data = batch(0)
    walk = KafkaWalk(BytesSource(data, "log"), "log", 0, 2 * len(data), LIMIT)
    assert sum(one.count for one in walk.windows()) == 1


def test_a_row_beyond_its_window_has_no_crc() -> None:
    data = batch(0)
    row = array("q", bytes(8 * layout.BATCH_WIDTH))
    _scan.header_row(data, 0, 0, len(data), 2, row)
    for position, size in ((0, len(data) + 1), (-1, len(data)), (0, 25), (len(data), 100), (0, -1)):
        row[layout.POSITION], row[layout.SIZE] = position, size
        _scan.fill_crcs(data, 0, row, 1, crc32, crc32c)
        assert row[layout.COMPUTED_CRC] == -1
    row[layout.POSITION], row[layout.SIZE] = 0, len(data)
    _scan.fill_crcs(data, 0, row, 1, crc32, crc32c)
    assert row[layout.COMPUTED_CRC] == row[layout.CRC]


def cut_record(headers: bytes, count: int) -> bytes:
    body = b"\0" + varint(0) + varint(0) + varint(1) + b"k" + varint(len(_LARGE)) + _LARGE + varint(count) + headers
    return framed(body)


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        (b"\0\0\0\0", 0),  # bytes left over in the record
        (varint(-5) + varint(1) + b"x", 1),  # a key of negative size
        (b"\x82\x80\x80\x80\x80\x80\x00x" + varint(1) + b"y", 1),  # a size of seven bytes
        (varint(1) + b"k" + varint(100) + b"x", 1),  # a value that ends behind the record
        (varint(1) + b"k" + varint(1) + b"xjunk", 1),  # bytes behind the headers
        (bytes(2000), 0),  # more of them than are kept
        (varint(1) + b"k" + varint(1) + b"x" + bytes(2000), 1),
        (varint(5000) + bytes(2000), 1),  # a key that ends behind the record
        (b"\xff" * 2_000_000, 1),  # a size without an end
    ],
)
def test_a_large_record_that_cannot_be_read_whole_cannot_be_read_cut(headers: bytes, count: int) -> None:
    body = compress(GZIP, cut_record(headers, count) + framed(b"\0" + varint(0) + varint(1) + varint(0) * 3))
    one = window(batch(0, [b"", b""], codec=GZIP, body=body))
    for cut in (None, 1000):
        chunks = list(RecordReader(LIMIT, cut=cut).chunks(one))
        assert sum(chunk.filled for chunk in chunks) == 0, cut
        assert chunks[-1].problem is not None, cut


def voters(count: int, name: bytes, headers: bytes = b"") -> Record:
    """A KRaft control record that names voters."""
    voter = struct.pack(">i", 1) + bytes(16) + b"\x02" + bytes([len(name) + 1]) + name
    voter += b"\x02h" + struct.pack(">H", 9093) + b"\0" + struct.pack(">hh", 0, 1) + b"\0\0"
    number, size = bytearray(), count + 1
    while size > 0x7F:
        number.append(size & 0x7F | 0x80)
        size >>= 7
    number.append(size)
    pairs = ((headers, None),) if headers else ()
    return Record(b"\0\0" + bytes(number) + voter * count + b"\0", key=struct.pack(">hh", 0, 6), headers=pairs)


@pytest.mark.parametrize(("count", "headers"), [(80_000, b""), (1, b"x" * 9_000_000)])
def test_the_text_of_a_control_record_has_any_length(count: int, headers: bytes, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(batch(0, [voters(count, "\u00e9".encode(), headers)], flags=CONTROL))
    run = run_kdump(["dump", "--deep-iteration", str(log)], tmp_path)
    assert run.exit in (0, 3)
    assert "kRaftVersionFeature" in run.stdout.decode()


def test_columns_of_the_library_cannot_be_written(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(batch(0))
    with library.Log(str(log)) as one:
        (columns,) = one.records().columns()
    with pytest.raises(TypeError):
        columns.key_at[0] = 1 << 44
    with pytest.raises(AttributeError):
        columns.data = b""  # type: ignore[misc]
    assert columns[0].value == b"value"


def test_times_of_the_library_have_no_limits(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(batch(0))
    assert [len(list(library.records(str(log), from_time=time))) for time in (-(2**70), 2**70)] == [1, 0]


def test_the_last_offset_that_a_long_can_be_has_one_after_it_as_java_counts() -> None:
    for kernel in both(_fold):
        row = array("q", bytes(8 * layout.BATCH_WIDTH))
        row[layout.BASE_OFFSET], row[layout.MAGIC], row[layout.SIZE] = 0, 2, 61
        row[layout.LAST_OFFSET] = 2**63 - 1
        state, cuts = array("q", [0, -1, 2**63 - 1, -1, -1, -1, 0, -1, -1]), array("q", [0, 0, 0])
        kernel.survey(row, 1, 0, state, array("q", [0]), cuts)
        assert state[_fold.END] == state[_fold.HOLE_END] == cuts[_fold.CUT_OFFSET] == -(2**63)
