"""Indexes: the answers of Kafka's own classes, on sound files and on damaged ones."""

from __future__ import annotations

from math import ceil, log2
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.index.offset_and_time import (
    MANY_SEARCHES,
    PAGE_BYTES,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
)
from kdump.format.index.transaction_index import AbortedTxn, TransactionIndex
from kdump.format.source import BytesSource

pytestmark = pytest.mark.quick

BASE = 1000
T0 = 1_700_000_000_000
OFFSET_ROWS = [(BASE + 10 * i + 9, 100 * i) for i in range(1, 1501)]
TIME_ROWS = [(T0 + 50 * i, BASE + 10 * i) for i in range(1, 1201)]


def swapped() -> list[tuple[int, int]]:
    rows = list(OFFSET_ROWS)
    for a, b in ((700, 1200), (30, 1400)):
        rows[a], rows[b] = rows[b], rows[a]
    return rows


OFFSET_FILE = OffsetIndex.encode(OFFSET_ROWS, BASE)
TIME_FILE = TimeIndex.encode(TIME_ROWS, BASE)
OFFSET_FILES = {
    "sorted": OFFSET_FILE,
    "zero tail": OFFSET_FILE + bytes(8 * 600),
    "long zero tail": OFFSET_FILE + bytes(8 * 1600),
    "swapped": OffsetIndex.encode(swapped(), BASE),
    "negative": pack(">ii", -5, 7) + OFFSET_FILE[8:],
}
TIME_FILES = {
    "sorted": TIME_FILE,
    "zero tail": TIME_FILE + bytes(12 * 300),
    "long zero tail": TIME_FILE + bytes(12 * 1300),
}

# Answers of org.apache.kafka.storage.internals.log.OffsetIndex and TimeIndex of Kafka 4.3.1 on these files.
OFFSET_TARGETS = (0, 999, 1000, 1019, 1020, 3009, 8019, 8020, 13019, 15009, 16009, 16010, 2**40)
NOTHING = (1000, 0)
OFFSET_ANSWERS = {
    "sorted": [
        *[NOTHING] * 3,
        *[(1019, 100), (1019, 100), (3009, 20000), (8019, 70100), (8019, 70100), (13019, 120100)],
        *[(15009, 140000), (16009, 150000), (16009, 150000), (16009, 150000)],
    ],
    "zero tail": [
        *[NOTHING] * 3,
        *[(1019, 100), (1019, 100), (3009, 20000), (8019, 70100), (8019, 70100)],
        *[NOTHING] * 5,
    ],
    "long zero tail": [NOTHING] * 13,
    "swapped": [
        *[NOTHING] * 3,
        *[(1019, 100), (1019, 100), (3009, 20000), (8009, 70000), (8009, 70000), (8019, 70100)],
        *[(15009, 140000), (16009, 150000), (16009, 150000), (16009, 150000)],
    ],
    "negative": [
        NOTHING,
        *[(995, 7)] * 4,
        *[(3009, 20000), (8019, 70100), (8019, 70100), (13019, 120100)],
        *[(15009, 140000), (16009, 150000), (16009, 150000), (16009, 150000)],
    ],
}
TIME_TARGETS = (-1, 0, 1, T0 + 49, T0 + 50, T0 + 51, T0 + 25_925, T0 + 60_000, T0 + 60_001)
NO_TIME, ZERO = (-1, 1000), (0, 1000)
TIME_ANSWERS = {
    "sorted": [
        *[NO_TIME] * 4,
        *[(T0 + 50, 1010), (T0 + 50, 1010), (T0 + 25_900, 6180), (T0 + 60_000, 13000), (T0 + 60_000, 13000)],
    ],
    "zero tail": [
        *[NO_TIME] * 4,
        *[(T0 + 50, 1010), (T0 + 50, 1010), (T0 + 25_900, 6180), ZERO, ZERO],
    ],
    "long zero tail": [NO_TIME, NO_TIME, *[ZERO] * 7],
}


class CountingSource(BytesSource):
    """Counts reads."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads = 0

    def read_at(self, position: int, length: int) -> bytes:
        self.reads += 1
        return super().read_at(position, length)


def rows_of(index: OffsetIndex | TimeIndex) -> list[tuple[int, int]]:
    return [row for first, second in index.columns() for row in zip(first, second, strict=True)]


relative = st.integers(-(2**31), 2**31 - 1)
base_offsets = st.sampled_from((0, 7, 2**40, 2**63 - 2**31, 2**63 - 1))


@pytest.mark.parametrize("name", OFFSET_FILES)
def test_an_offset_lookup_finds_what_the_broker_finds(name: str) -> None:
    index = OffsetIndex(BytesSource(OFFSET_FILES[name]), BASE)
    assert [tuple(index.lookup(target)) for target in OFFSET_TARGETS] == OFFSET_ANSWERS[name]


@pytest.mark.parametrize("name", TIME_FILES)
def test_a_time_lookup_finds_what_the_broker_finds(name: str) -> None:
    index = TimeIndex(BytesSource(TIME_FILES[name]), BASE)
    assert [tuple(index.lookup(target)) for target in TIME_TARGETS] == TIME_ANSWERS[name]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=40),
    st.booleans(),
    st.sampled_from([OffsetIndex, TimeIndex]),
)
def test_the_lookups_after_many_find_what_the_first_found(
    rows: list[tuple[int, int]], ascending: bool, kind: type[OffsetIndex] | type[TimeIndex]
) -> None:
    if ascending:
        rows = sorted(dict(rows).items())
    data = kind.encode(rows, 0)
    first = [kind(BytesSource(data), 0).lookup(target) for target in range(-1, 62)]
    index = kind(BytesSource(data), 0)
    for target in range(MANY_SEARCHES):
        index.lookup(-2 - target)
    assert [index.lookup(target) for target in range(-1, 62)] == first


def test_an_empty_index_answers_with_the_base_offset() -> None:
    assert OffsetIndex(BytesSource(b""), 5).lookup(9) == OffsetPosition(5, 0)
    assert OffsetIndex(BytesSource(b""), 5).last_entry() == OffsetPosition(5, 0)
    assert TimeIndex(BytesSource(b""), 5).lookup(9) == TimestampOffset(-1, 5)
    assert TimeIndex(BytesSource(b""), 5).last_entry() == TimestampOffset(-1, 5)


@pytest.mark.parametrize("entries", [1, 1023, 1024, 1025, 1026, 2049, 5000, 70_001])
def test_a_lookup_reads_only_the_pages_that_it_needs(entries: int) -> None:
    data = OffsetIndex.encode(((i, i) for i in range(1, entries + 1)), 0)
    bound = ceil(log2(max(1, -(-len(data) // PAGE_BYTES)))) + 2
    for target in range(0, entries + 2, max(1, entries // 97)):
        source = CountingSource(data)
        assert OffsetIndex(source, 0).lookup(target).offset == min(target, entries)
        assert source.reads <= bound


def test_the_pages_kept_do_not_grow_with_the_index() -> None:
    index = OffsetIndex(BytesSource(bytes(8 * 1_200_000)), 0)
    for number in range(0, 1_200_000, 512):
        index.entry(number)
    assert len(index._pages) <= 256


@given(base_offsets, st.lists(st.tuples(st.integers(0, 2**31 - 1), relative), max_size=40))
def test_an_offset_index_reads_back_what_was_encoded(base: int, rows: list[tuple[int, int]]) -> None:
    rows = [(base + min(offset, 2**63 - 1 - base), position) for offset, position in rows]
    index = OffsetIndex(BytesSource(OffsetIndex.encode(rows, base)), base)
    assert rows_of(index) == [tuple(index.entry(i)) for i in range(index.entries)] == rows


@given(
    base_offsets,
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1)), max_size=40),
)
def test_a_time_index_reads_back_what_was_encoded(base: int, rows: list[tuple[int, int]]) -> None:
    rows = [(timestamp, base + min(offset, 2**63 - 1 - base)) for timestamp, offset in rows]
    index = TimeIndex(BytesSource(TimeIndex.encode(rows, base)), base)
    assert rows_of(index) == [tuple(index.entry(i)) for i in range(index.entries)] == rows


@given(st.binary(max_size=200), base_offsets, st.integers(-(2**63), 2**63 - 1))
def test_no_bytes_make_an_index_raise(data: bytes, base: int, target: int) -> None:
    for index in (OffsetIndex(BytesSource(data), base), TimeIndex(BytesSource(data), base)):
        assert rows_of(index) == [tuple(index.entry(i)) for i in range(index.entries)]
        index.lookup(target)
        index.sanity_check()
    aborted = TransactionIndex(BytesSource(data), base)
    assert len(list(aborted)) == aborted.readable <= aborted.entries
    aborted.sanity_check()


def test_columns_of_a_range_are_those_entries() -> None:
    index = OffsetIndex(BytesSource(OFFSET_FILE), BASE)
    chunks = list(index.columns(1498, 9999))
    assert [(list(offsets), list(positions)) for offsets, positions in chunks] == [([15999, 16009], [149900, 150000])]
    large = OffsetIndex(BytesSource(bytes(8 * 20_000)), 3)
    assert [len(offsets) for offsets, _ in large.columns()] == [8192, 8192, 3616]


def test_a_relative_offset_wraps_as_in_java() -> None:
    index = OffsetIndex(BytesSource(pack(">ii", 1, 0)), 2**63 - 1)
    assert index.entry(0).offset == -(2**63)
    assert rows_of(index) == [(-(2**63), 0)]


@pytest.mark.parametrize("number", [-1, 1500])
def test_an_entry_that_is_not_there_is_an_index_error(number: int) -> None:
    with pytest.raises(IndexError):
        OffsetIndex(BytesSource(OFFSET_FILE), BASE).entry(number)


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_an_offset_out_of_range_is_not_encoded(offset: int) -> None:
    with pytest.raises(ValueError, match=f"Integer overflow for offset: {offset}"):
        OffsetIndex.encode([(offset, 0)], BASE)
    with pytest.raises(ValueError, match=f"Integer overflow for offset: {offset}"):
        TimeIndex.encode([(0, offset)], BASE)


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        (OffsetIndex(BytesSource(OFFSET_FILES["zero tail"]), BASE), None),
        (
            OffsetIndex(BytesSource(OFFSET_FILES["negative"][:8]), BASE),
            (
                "Corrupt index found, index file {file} has non-zero size but the last offset is 995 "
                "which is less than the base offset 1000"
            ),
        ),
        (
            OffsetIndex(BytesSource(OFFSET_FILE[:27]), BASE),
            "Index file {file} is corrupt, found 27 bytes which is neither positive nor a multiple of 8",
        ),
        (
            TimeIndex(BytesSource(TIME_FILES["zero tail"]), BASE),
            (
                "Corrupt time index found, time index file ({file}) has non-zero size but the last timestamp "
                "is 0 which is less than the first timestamp 1700000000050"
            ),
        ),
        (
            TimeIndex(BytesSource(pack(">qi", 5, -1)), BASE),
            (
                "Corrupt time index found, time index file ({file}) has non-zero size but the last offset "
                "is 999 which is less than the first offset 1000"
            ),
        ),
        (
            TimeIndex(BytesSource(TIME_FILE[:25]), BASE),
            ("Time index file {file} is corrupt, found 25 bytes which is neither positive nor a multiple of 12"),
        ),
    ],
)
def test_a_sanity_check_speaks_in_kafkas_words(index: OffsetIndex | TimeIndex, complaint: str | None) -> None:
    assert index.sanity_check() == complaint


def test_an_index_that_no_broker_can_map_is_told_without_reading_it() -> None:
    class Huge(BytesSource):
        size = 2**40

        def __init__(self) -> None:
            self.name = "huge"

        def read_at(self, position: int, length: int) -> bytes:
            raise AssertionError

    assert OffsetIndex(Huge(), 0).sanity_check() == "Size exceeds Integer.MAX_VALUE"


def aborted(version: bytes, producer_id: int, first: int, last: int, stable: int) -> bytes:
    return version + pack(">qqqq", producer_id, first, last, stable)


def test_a_partial_aborted_transaction_at_the_end_does_not_count() -> None:
    index = TransactionIndex(BytesSource(aborted(b"\0\0", 7, 1000, 1010, 1011) + b"\0" * 33), BASE)
    assert list(index) == [AbortedTxn(0, 7, 1000, 1010, 1011)]
    assert index.entries == index.readable == 1
    assert index.error is None
    assert index.sanity_check() is None


@pytest.mark.parametrize(("version", "printed"), [(b"\0\1", 0), (b"\x80\0", -128)])
def test_before_4_4_a_version_with_a_first_byte_not_above_zero_passes(version: bytes, printed: int) -> None:
    index = TransactionIndex(BytesSource(aborted(version, 7, 1000, 1010, 1011)), BASE, version_bytes=1)
    assert [txn.version for txn in index] == [printed]
    assert index.error is None


@pytest.mark.parametrize(
    ("version", "number"), [(b"\0\1", 1), (b"\x80\0", -32768), (b"\0\xff", 255), (b"\xff\xfe", -2), (b"\1\0", 256)]
)
def test_from_4_4_on_both_bytes_of_a_version_must_be_zero(version: bytes, number: int) -> None:
    good = aborted(b"\0\0", 7, 1000, 1010, 1011)
    index = TransactionIndex(BytesSource(good + aborted(version, 7, 1000, 1010, 1011)), BASE)
    assert index.readable == 1
    message = f"Unexpected aborted transaction version {number} in transaction index {{file}}"
    assert index.error == f"{message}, supported version range is 0 to 0"


def test_an_unknown_version_ends_the_entries_with_kafkas_words() -> None:
    good, bad = aborted(b"\0\0", 7, 1000, 1010, 1011), aborted(b"\1\0", 8, 1001, 1012, 1013)
    index = TransactionIndex(BytesSource(good + bad + good), BASE, version_bytes=1)
    assert list(index) == [AbortedTxn(0, 7, 1000, 1010, 1011)]
    message = "Unexpected aborted transaction version 1 in transaction index {file}, current version is 0"
    assert index.error == index.sanity_check() == message
    assert index.entry(1) == AbortedTxn(1, 8, 1001, 1012, 1013)


def test_an_unknown_version_is_found_beyond_the_first_chunk() -> None:
    good, bad = aborted(b"\0\0", 7, 1000, 1010, 1011), aborted(b"\2\0", 8, 1001, 1012, 1013)
    index = TransactionIndex(BytesSource(good * 8200 + bad), BASE)
    assert index.readable == len(list(index)) == 8200


def test_an_aborted_transaction_below_the_segment_fails_the_sanity_check() -> None:
    data = aborted(b"\0\0", 7, 900, 999, 1000)
    assert TransactionIndex(BytesSource(data), BASE).sanity_check() == (
        "Last offset of aborted transaction AbortedTxn(version=0, producerId=7, firstOffset=900, "
        "lastOffset=999, lastStableOffset=1000) in index {file} is less than start offset 1000"
    )


@given(st.lists(st.builds(AbortedTxn, st.just(0), *[st.integers(-(2**63), 2**63 - 1)] * 4), max_size=20))
def test_a_transaction_index_reads_back_what_was_encoded(txns: list[AbortedTxn]) -> None:
    assert list(TransactionIndex(BytesSource(TransactionIndex.encode(txns)), 0)) == txns
