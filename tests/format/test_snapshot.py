"""Producer snapshots: Kafka's entries, and Kafka's words about damage, release by release."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry, Release, encode_snapshot, read_snapshot
from kdump.format.source import BytesSource

pytestmark = pytest.mark.quick

ONE = bytes.fromhex(
    "00014fd64d5e00000001000000000001801300630000010b0000000000000005000000010000018bcfe56800ffffffff0000000000000004"
)
ENTRY = ProducerStateEntry(98323, 99, 267, 5, 1, 1_700_000_000_000, -1, 4)
FAILED = "Snapshot failed schema validation: "
FIELD = f"{FAILED}Error reading field "
CORRUPT = "Snapshot is corrupt (CRC is no longer valid). "
UNDERFLOW = "java.nio.BufferUnderflowException"

# Messages of CorruptSnapshotException of ProducerStateManager.readSnapshot: 4.3.1 (4.2.1 says the same), 3.9.2.
DAMAGED = [
    ("empty", b"", f"{FAILED}null", f"{FIELD}'version': {UNDERFLOW}"),
    ("one byte", ONE[:1], f"{FAILED}null", f"{FIELD}'version': {UNDERFLOW}"),
    ("version only", ONE[:2], f"{FAILED}null", f"{FIELD}'crc': {UNDERFLOW}"),
    ("no count", ONE[:8], f"{FAILED}null", f"{FIELD}'producer_entries': {UNDERFLOW}"),
    (
        "torn at epoch",
        ONE[:18],
        f"{FAILED}null",
        f"{FIELD}'producer_entries': Error reading field 'epoch': {UNDERFLOW}",
    ),
    (
        "torn at timestamp",
        ONE[:40],
        f"{FAILED}null",
        f"{FIELD}'producer_entries': Error reading field 'timestamp': {UNDERFLOW}",
    ),
    (
        "version 2",
        b"\0\2" + ONE[2:],
        f"{FAILED}Snapshot contained an unknown file version 2",
        "Snapshot contained an unknown file version 2",
    ),
    (
        "version 2, torn",
        b"\0\2" + ONE[2:40],
        f"{FAILED}Snapshot contained an unknown file version 2",
        f"{FIELD}'producer_entries': Error reading field 'timestamp': {UNDERFLOW}",
    ),
    (
        "crc",
        ONE[:2] + b"\0" + ONE[3:],
        f"{CORRUPT}Stored crc: 14044510. Computed crc: 1339444574",
        f"{CORRUPT}Stored crc: 14044510. Computed crc: 1339444574",
    ),
    (
        "negative count",
        ONE[:6] + pack(">i", -1) + ONE[10:],
        f"{FAILED}non-nullable field producerEntries was serialized as null",
        f"{FIELD}'producer_entries': Array size -1 cannot be negative",
    ),
    (
        "count too large by one",
        ONE[:6] + pack(">i", 2) + ONE[10:],
        f"{FAILED}null",
        f"{FIELD}'producer_entries': Error reading field 'producer_id': {UNDERFLOW}",
    ),
    (
        "huge count",
        ONE[:6] + pack(">i", 2**31 - 1) + ONE[10:],
        f"{FAILED}Tried to allocate a collection of size 2147483647, but there are only 46 bytes remaining.",
        f"{FIELD}'producer_entries': Error reading array of size 2147483647, only 46 bytes available",
    ),
    (
        "count zero",
        ONE[:6] + pack(">i", 0) + ONE[10:],
        f"{CORRUPT}Stored crc: 1339444574. Computed crc: 14567938",
        f"{CORRUPT}Stored crc: 1339444574. Computed crc: 14567938",
    ),
    (
        "byte behind",
        ONE + b"x",
        f"{CORRUPT}Stored crc: 1339444574. Computed crc: 1412361258",
        f"{CORRUPT}Stored crc: 1339444574. Computed crc: 1412361258",
    ),
]


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


entries = st.builds(ProducerStateEntry, *map(signed, (64, 16, 32, 64, 32, 64, 32, 64)))


@pytest.mark.parametrize("release", ["4.3", "4.2", "3.9"])
def test_a_sound_snapshot_is_read_whole(release: Release) -> None:
    snapshot = read_snapshot(BytesSource(ONE), release)
    assert snapshot.error is None
    assert snapshot.version == 1
    assert list(snapshot.entries) == list(snapshot.salvaged) == [ENTRY]
    assert snapshot.entries[0].first_sequence == 266
    assert snapshot.entries[0].has_batch


@pytest.mark.parametrize(("data", "of_4_3", "of_3_9"), [row[1:] for row in DAMAGED], ids=[row[0] for row in DAMAGED])
def test_damage_is_told_in_the_words_of_the_release(data: bytes, of_4_3: str, of_3_9: str) -> None:
    assert read_snapshot(BytesSource(data)).error == of_4_3
    assert read_snapshot(BytesSource(data), "4.2").error == of_4_3
    assert read_snapshot(BytesSource(data), "3.9").error == of_3_9


def test_a_broker_gets_nothing_of_a_damaged_snapshot_but_the_user_gets_what_is_whole() -> None:
    two = encode_snapshot([ENTRY, ENTRY._replace(producer_id=1)])
    snapshot = read_snapshot(BytesSource(two[:-1]))
    assert list(snapshot.entries) == []
    assert list(snapshot.salvaged) == [ENTRY]


def test_a_lying_count_allocates_nothing_and_hides_nothing() -> None:
    for count in (2**31 - 1, -1, 0):
        snapshot = read_snapshot(BytesSource(ONE[:6] + pack(">i", count) + ONE[10:]))
        assert snapshot.error is not None
        assert list(snapshot.salvaged) == [ENTRY]


def test_a_snapshot_that_no_broker_can_hold_is_told_without_reading_it() -> None:
    class Huge(BytesSource):
        def __init__(self) -> None:
            super().__init__(ONE)
            self.size = 2**40

        def read_at(self, position: int, length: int) -> bytes:
            assert length <= 1 << 20
            return super().read_at(position, length)

    snapshot = read_snapshot(Huge())
    assert snapshot.error == "Required array size too large"
    assert len(snapshot.salvaged) == (2**40 - 10) // 46
    assert snapshot.salvaged[0] == ENTRY


@pytest.mark.parametrize(
    ("last", "delta", "first"), [(267, 1, 266), (0, 1, 2**31 - 1), (3, 10, 2**31 - 7), (-1, 0, 2**31 - 1)]
)
def test_a_sequence_wraps_below_zero_as_in_kafka(last: int, delta: int, first: int) -> None:
    assert ENTRY._replace(last_sequence=last, offset_delta=delta).first_sequence == first


def test_entries_are_a_sequence_that_reads_the_file_when_asked() -> None:
    rows = [ENTRY._replace(producer_id=i) for i in range(3000)]
    found = read_snapshot(BytesSource(encode_snapshot(rows))).entries
    assert (len(found), found[-1], found[2999]) == (3000, rows[-1], rows[-1])
    assert found[1:3] == tuple(rows[1:3])
    assert found == rows
    assert found != rows[:-1]
    with pytest.raises(IndexError):
        found[3000]


@given(st.lists(entries, max_size=5))
def test_a_snapshot_reads_back_what_was_encoded(rows: list[ProducerStateEntry]) -> None:
    snapshot = read_snapshot(BytesSource(encode_snapshot(rows)))
    assert snapshot.error is None
    assert list(snapshot.entries) == rows


def test_encoding_gives_the_bytes_that_kafka_writes() -> None:
    assert encode_snapshot([ENTRY]) == ONE
    assert encode_snapshot([]) == bytes.fromhex("0001") + bytes.fromhex("48674bc7") + bytes(4)


@given(st.binary(max_size=120))
def test_no_bytes_make_a_snapshot_raise(data: bytes) -> None:
    for start in (b"", b"\0\1"):
        for release in ("4.3", "3.9"):
            snapshot = read_snapshot(BytesSource(start + data), "3.9" if release == "3.9" else "4.3")
            assert len(list(snapshot.salvaged)) == len(snapshot.salvaged)


def test_every_truncation_is_told_and_none_raises() -> None:
    data = encode_snapshot([ENTRY, ENTRY])
    for size in range(len(data)):
        for release in ("4.3", "3.9"):
            snapshot = read_snapshot(BytesSource(data[:size]), "3.9" if release == "3.9" else "4.3")
            assert snapshot.error is not None
            assert list(snapshot.salvaged) == [ENTRY] * max(0, (size - 10) // 46)
