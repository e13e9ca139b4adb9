"""The recovery of a segment, against what Kafka 4.3.1 made of the same files and a model that takes batch by batch.

Texts of exceptions are Kafka's own, from runs of `LogSegment.recover` on the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import random
import re
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.broker.load.recover import Recovered, recover
from kdump.broker.producer.replay import ProducerFold, Producers
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry, read_snapshot
from kdump.format.index.offset_and_time import TimeIndex
from kdump.format.index.transaction_index import AbortedTxn
from kdump.format.source import BytesSource
from tests.support.damage_cases import damage_cases
from tests.support.partitions import name
from tests.support.runs import FIXTURES
from tests.support.scan_windows import COMPILED, FLIPS, MAX_BATCH, SEGMENTS, windows_of
from tests.support.segments import (
    CONTROL,
    GZIP,
    TIME,
    TRANSACTIONAL,
    Record,
    batch,
    compress,
    log,
    message,
    with_crc,
    with_legacy_crc,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kdump.finding import Finding

DAMAGE = FIXTURES / "damage"
INTERVALS = (4096, 512, 0)
NOBODY = Producers.empty()
PATH = "/logs/topic-0/00000000000000000000"


def recovered(data: bytes, base: int = 0, interval: int = 4096, start: Producers = NOBODY, **more: Any) -> Recovered:
    """Recover a segment of partition topic-0."""
    given = {"partition": "topic-0", "modified": 5, **more}
    return recover(BytesSource(data, f"/logs/topic-0/{name(base)}"), base, interval, start, **given)


# --- what Kafka made of the same files ----------------------------------------------------------------------
def logs(partition: Path) -> list[int]:
    return sorted(int(path.stem) for path in partition.glob("*.log") if re.fullmatch(r"\d{20}", path.stem))


def known_at(partition: Path, base: int) -> Producers:
    """What a broker knows of producers: by the newest sound snapshot, and by the segments after it."""
    known, at = NOBODY, 0
    for path in sorted(partition.glob(f"{'?' * 20}.snapshot")):
        snapshot = read_snapshot(BytesSource(path.read_bytes()))
        if 0 < int(path.stem) <= base and snapshot.error is None:
            at = int(path.stem)
            known = Producers.of_snapshot(snapshot.entries, at)
    for one in logs(partition):
        if at <= one < base:
            known = recovered((partition / name(one)).read_bytes(), one, start=known).producers
    return known


def written(found: Recovered) -> dict[str, bytes]:
    """The files beside the log that have bytes."""
    files = {"index": found.index(), "timeindex": found.timeindex(), "txnindex": found.txnindex()}
    return {suffix: data for suffix, data in files.items() if data}


def short(files: dict[str, bytes]) -> dict[str, str]:
    """Size and the head of the hash of each file, as the fixtures have them."""
    return {suffix: f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}" for suffix, data in files.items() if data}


def not_empty(files: dict[str, str]) -> dict[str, str]:
    return {suffix: one for suffix, one in files.items() if not one.startswith("0 ")}


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("intact", sorted(path.name for path in (DAMAGE / "intact").iterdir()))
def test_intact_segments_get_the_files_that_kafka_makes(intact: str, interval: int) -> None:
    folder = DAMAGE / "intact" / intact
    (partition,) = (path for path in (folder / "logdir").iterdir() if path.is_dir())
    known = NOBODY
    for base in logs(partition):
        data = (partition / name(base)).read_bytes()
        found = recovered(data, base, interval, known)
        known = found.producers
        kept = {path.suffix[1:]: path.read_bytes() for path in folder.glob(f"recovered/{interval}/{base:020}.*")}
        assert written(found) == {suffix: one for suffix, one in kept.items() if one}
        assert (found.failure, found.valid_bytes, found.truncated_bytes) == (None, len(data), 0)


RECORDED: dict[str, dict[str, dict[str, dict[str, str]]]] = json.loads((DAMAGE / "recovered.json").read_text("utf-8"))


@pytest.mark.parametrize("partition", RECORDED)
def test_segments_of_all_releases_get_the_files_that_kafka_makes(partition: str) -> None:
    folder = FIXTURES / partition
    for base, by_interval in RECORDED[partition].items():
        data, known = (folder / name(int(base))).read_bytes(), known_at(folder, int(base))
        for interval, files in by_interval.items():
            found = recovered(data, int(base), int(interval), known)
            assert short(written(found)) == not_empty(files), (base, interval)
            assert (found.failure, found.truncated_bytes) == (None, 0)


CASES = {case.name: case for case in damage_cases(DAMAGE)}
OUTCOMES: dict[str, dict[str, Any]] = json.loads((DAMAGE / "recover.json").read_text("utf-8"))


def closed(found: Recovered) -> dict[str, bytes]:
    """The files after a recovery that threw: LogSegment.close adds the largest timestamp, if it can."""
    times = [*zip(*found.time_entries, strict=True)]
    last = times[-1] if times else (-1, found.base_offset)
    if found.largest.timestamp > last[0] and found.largest.offset >= last[1]:
        times.append(found.largest)
    return written(found) | {"timeindex": TimeIndex.encode(times, found.base_offset)}


@pytest.mark.parametrize("case", OUTCOMES)
def test_damaged_segments_are_recovered_as_by_kafka(case: str, tmp_path: Path) -> None:
    outcome, damage = OUTCOMES[case], CASES[case]
    partition, base = damage.build(tmp_path / "logdir") / outcome["partition"], outcome["base"]
    data, known = (partition / name(base)).read_bytes(), known_at(partition, base)
    source = BytesSource(data, f"{{LOGDIR}}/{partition.name}/{name(base)}")
    found = recover(source, base, outcome["interval"], known, partition=partition.name, max_index_bytes=4096)
    escaped = found.failure.exception if found.failure and found.failure.escapes else None
    assert (escaped or "").replace("lastModifiedTime=0", "lastModifiedTime=N") == outcome.get("exception", "")
    files = {"log": data[: len(data) - found.truncated_bytes], **(closed(found) if escaped else written(found))}
    assert short(files) == not_empty(outcome["files"])
    if escaped is None:
        assert found.truncated_bytes == outcome["truncated"] == len(data) - found.valid_bytes
        assert len(found.producers.entries) == outcome["producers"]


def test_cases_of_each_kind_are_there() -> None:
    outcomes = list(OUTCOMES.values())
    assert sum("exception" in one for one in outcomes) == 10
    assert sum(one.get("truncated", 0) > 0 for one in outcomes) > 40
    assert sum(map(len, RECORDED.values())) > 200


def tables(format_: str) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Each way to damage one of the small segments, and what Kafka made of it."""
    right = FLIPS[format_].data
    for table in ("log-flips", "log-truncations", "log-zero-from"):
        with gzip.open(DAMAGE / "flips" / format_ / f"{table}.csv.gz", "rt", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                at, data = int(next(iter(row.values()))), bytearray(right)
                if table == "log-flips":
                    data[at // 8] ^= 1 << at % 8 if at >= 0 else 0
                elif table == "log-truncations":
                    del data[at:]
                else:
                    data[at:] = bytes(len(data) - at)
                yield bytes(data), row


@pytest.mark.parametrize("format_", sorted(FLIPS))
def test_every_bit_every_length_and_all_zeros_end_as_in_kafka(format_: str) -> None:
    rows = list(tables(format_))
    for data, row in rows if COMPILED else random.Random(1).sample(rows, 600):
        for interval in (4096, 0):
            wanted = row.get(f"recover_interval_{interval}")
            found = recovered(data, FLIPS[format_].base, interval)
            escapes = found.failure is not None and found.failure.escapes
            thrown = found.failure.java_class.rpartition(".")[2] if found.failure else ""
            assert wanted in (None, thrown if escapes else str(found.valid_bytes)), row


# --- what a broker throws -----------------------------------------------------------------------------------
CORRUPT = "org.apache.kafka.common.errors.CorruptRecordException: "
INVALID = "org.apache.kafka.common.InvalidRecordException: "
INVALID_OFFSET = "org.apache.kafka.common.errors.InvalidOffsetException: "
INVALID_STATE = "org.apache.kafka.common.errors.InvalidTxnStateException: "
OVERFLOW = (
    "org.apache.kafka.storage.internals.log.LogSegmentOffsetOverflowException: Detected offset overflow at offset "
)
ARGUMENT = "java.lang.IllegalArgumentException: "
NULL = "java.lang.NullPointerException: Cannot invoke "
TOO_SMALL = "Record batch is corrupt (the size 32 is smaller than the minimum allowed overhead 61)"
SEGMENT = f"size=152, lastModifiedTime=5, largestRecordTimestamp={TIME})"
ORDER = "The last offset of appended transactions must increase sequentially, but 7 is not greater than current last"
COMPLETED = "CompletedTxn[producerId=2, firstOffset=0, lastOffset=2, isAborted=false]"
FALLS = "Attempt to append an offset (50) to slot 1 no larger than the last offset appended (100) to"
PAYLOAD = "Invalid record size: expected"
ENDS = "Incorrect declared batch size, premature EOF reached"
TYPE = "Invalid control record type for end transaction marker "


def txn(offset: int, producer: int = 1) -> bytes:
    return batch(offset, flags=TRANSACTIONAL, producer=(producer, 0, 0))


END_KEY, END_VALUE = struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 7)


def marker(
    offset: int, producer: int = 1, *, key: bytes | None = END_KEY, value: bytes | None = END_VALUE, **more: Any
) -> bytes:
    return batch(offset, [Record(value, key)], flags=TRANSACTIONAL | CONTROL, producer=(producer, 0, -1), **more)


def late(offset: int, milliseconds: int) -> bytes:
    return batch(offset, max_timestamp=TIME + milliseconds)


class Thrown(NamedTuple):
    """Batches, what Kafka throws at the last of them, and what there is then.

    Args:
        parts: the log.
        exception: class and message.
        left: bytes of the log, entries of the three indexes, end offset of the producers.
        more: arguments of `recovered`; without an interval each batch but the first gets an entry.
    """

    parts: Sequence[bytes]
    exception: str
    left: tuple[int, int, int, int, int]
    more: dict[str, Any] | None = None


DATA = batch(0)
SIZE = len(DATA)
SHORT = struct.pack(">qiibI", 1, 20, 0, 2, 0) + bytes(11)
COMMIT = struct.pack(">hh", 0, 1)
CODEC_5 = bytearray(marker(1))
CODEC_5[22] |= 5
THROWN = {
    "crc": Thrown(
        [DATA, batch(1)[:-1] + b"!"],
        CORRUPT + "Record is corrupt (stored crc = 3680410845, computed crc = 159944960)",
        (76, 0, 1, 0, 1),
    ),
    "crc of a message": Thrown(
        [message(1, 0), message(1, 1)[:-1] + b"!"],
        CORRUPT + "Record is corrupt (stored crc = 1792040376, computed crc = 459397169)",
        (42, 0, 1, 0, 0),
    ),
    "size below the least": Thrown(
        [DATA, struct.pack(">qi", 1, 13) + bytes(20)],
        CORRUPT + f"Found record size 13 smaller than minimum record overhead (14) in file {PATH}.log.",
        (76, 0, 1, 0, 1),
    ),
    "shorter than its header": Thrown([DATA, SHORT, batch(2)], CORRUPT + TOO_SMALL, (76, 0, 1, 0, 1)),
    "shorter than its header, at the end": Thrown([DATA, SHORT], CORRUPT + TOO_SMALL, (76, 0, 1, 0, 1)),
    "offset too high": Thrown(
        [DATA, late(2**31, 5)],
        OVERFLOW + f"2147483648 in segment LogSegment(baseOffset=0, {SEGMENT}",
        (152, 0, 0, 0, 1),
    ),
    "offset below": Thrown(
        [batch(5), late(4, 5)],
        OVERFLOW + f"4 in segment LogSegment(baseOffset=5, {SEGMENT}",
        (152, 0, 0, 0, 6),
        {"base": 5},
    ),
    "offset falls": Thrown(
        [DATA, batch(5), batch(3)],
        INVALID_OFFSET
        + f"Attempt to append an offset 3 to position 1 no larger than the last offset appended (5) to {PATH}.index",
        (228, 1, 1, 0, 6),
    ),
    "index is full": Thrown(
        [batch(n) for n in range(7)],
        ARGUMENT + "Attempt to append to a full index (size = 5).",
        (532, 5, 1, 0, 6),
        {"max_index_bytes": 40},
    ),
    "time index is full": Thrown(
        [late(n, n) for n in range(3)],
        ARGUMENT + "Attempt to append to a full time index (size = 1).",
        (228, 2, 1, 0, 2),
        {"max_index_bytes": 24},
    ),
    "offset of a time falls": Thrown(
        [DATA, batch(1), late(100, 5), late(50, 9), batch(150)],
        INVALID_OFFSET + f"{FALLS} {PATH}.timeindex",
        (380, 2, 1, 0, 51),
        {"interval": SIZE},
    ),
    "offset of the last time falls": Thrown(
        [DATA, batch(1), late(100, 5), late(50, 9)],
        INVALID_OFFSET + f"{FALLS} {PATH}.timeindex",
        (304, 1, 1, 0, 51),
        {"interval": SIZE},
    ),
    "epoch at a negative offset": Thrown(
        [batch(-2, [Record()] * 5)],
        ARGUMENT + "Received invalid partition leader epoch entry EpochEntry[epoch=0, startOffset=-2]",
        (136, 0, 0, 0, 0),
    ),
    "outside of the transaction": Thrown(
        [txn(0), batch(1, producer=(1, 0, 1))],
        INVALID_STATE
        + "Expected transactional write from producer 1 at offset (offset=1, segment=[-1:-1]) in partition topic-0",
        (152, 1, 1, 0, 1),
    ),
    "aborts fall": Thrown(
        [txn(5, 1), txn(6, 2), marker(8, 1), marker(7, 2)],
        ARGUMENT + f"{ORDER} offset 8 of index {PATH}.txnindex",
        (308, 0, 0, 1, 9),
        {"interval": 4096},
    ),
    "two begin at one offset": Thrown(
        [txn(0, 1), txn(0, 2), marker(1, 1, key=COMMIT), marker(2, 2, key=COMMIT)],
        ARGUMENT + f"Attempted to complete transaction {COMPLETED} on partition topic-0 which was not started",
        (308, 0, 0, 0, 2),
        {"interval": 4096},
    ),
    "codec": Thrown([DATA, with_crc(bytes(CODEC_5))], ARGUMENT + "Unknown compression type id: 5", (154, 1, 1, 0, 1)),
    "no key": Thrown(
        [DATA, marker(1, key=None)], NULL + '"java.nio.ByteBuffer.duplicate()" because "key" is null', (150, 1, 1, 0, 1)
    ),
    "short key": Thrown(
        [DATA, marker(1, key=bytes(3))],
        INVALID + "Invalid value size found for control record key. Must have at least 4 bytes, but found only 3",
        (153, 1, 1, 0, 1),
    ),
    "version of the key": Thrown(
        [DATA, marker(1, key=struct.pack(">hh", -1, 0))],
        INVALID + "Invalid version found for control record: -1. May indicate data corruption",
        (154, 1, 1, 0, 1),
    ),
    "other type": Thrown(
        [DATA, marker(1, key=struct.pack(">hh", 0, 2))], ARGUMENT + TYPE + "LEADER_CHANGE", (154, 1, 1, 0, 1)
    ),
    "unknown type": Thrown(
        [DATA, marker(1, key=struct.pack(">hh", 0, 9))], ARGUMENT + TYPE + "UNKNOWN", (154, 1, 1, 0, 1)
    ),
    "no value": Thrown(
        [DATA, marker(1, value=None)],
        NULL + '"java.nio.ByteBuffer.getShort()" because "value" is null',
        (148, 1, 1, 0, 1),
    ),
    "short value": Thrown([DATA, marker(1, value=bytes(3))], "java.nio.BufferUnderflowException", (151, 1, 1, 0, 1)),
    "version of the value": Thrown(
        [DATA, marker(1, value=struct.pack(">hi", -1, 0))],
        INVALID + "Invalid version found for end transaction marker: -1. May indicate data corruption",
        (154, 1, 1, 0, 1),
    ),
    "count": Thrown(
        [DATA, marker(1, count=-1)], INVALID + "Found invalid record count -1 in magic v2 batch", (154, 1, 1, 0, 1)
    ),
    "no records": Thrown([DATA, marker(1, body=b"")], INVALID + ENDS, (137, 1, 1, 0, 1)),
    "record past the end": Thrown(
        [DATA, marker(1, body=b"\x20\0")],
        INVALID + f"{PAYLOAD} 16 bytes in record payload, but instead the buffer has only 1 remaining bytes.",
        (139, 1, 1, 0, 1),
    ),
    "length without end": Thrown(
        [DATA, marker(1, body=b"\xff" * 6)],
        ARGUMENT + "Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffffff",
        (143, 1, 1, 0, 1),
    ),
    "length without end, compressed": Thrown(
        [DATA, marker(1, codec=GZIP, body=compress(GZIP, b"\xff" * 6))], INVALID + ENDS, (160, 1, 1, 0, 1)
    ),
    "stream": Thrown(
        [DATA, marker(1, codec=GZIP, body=b"no gzip")],
        "org.apache.kafka.common.KafkaException: java.util.zip.ZipException: Not in GZIP format",
        (144, 1, 1, 0, 1),
    ),
}


@pytest.mark.parametrize("rows", [64, 1])
@pytest.mark.parametrize("thrown", THROWN.values(), ids=THROWN)
def test_a_broker_throws(thrown: Thrown, rows: int) -> None:
    data, more = log(thrown.parts), {"interval": 0, **(thrown.more or {})}
    with windows_of(rows=rows):
        found = recovered(data, **more)
    assert found.failure is not None
    assert found.failure.exception == thrown.exception.replace(PATH, PATH[:-1] + str(more.get("base", 0)))
    assert found.failure.escapes == (not thrown.exception.startswith((CORRUPT, INVALID)))
    entries = len(found.offset_entries[0]), len(found.time_entries[0]), len(found.aborted)
    assert (len(data) - found.truncated_bytes, *entries, found.producers_offset) == thrown.left


def test_a_log_of_2_gib_cannot_be_opened() -> None:
    source = BytesSource(b"", f"{PATH}.log")
    source.size = 2**31
    found = recover(source, 0, 4096, NOBODY)
    why = f"The size of segment {PATH}.log (2147483648) is larger than the maximum allowed segment size of 2147483647"
    assert found.failure is not None
    assert found.failure.exception == f"org.apache.kafka.common.KafkaException: {why}"
    assert found.failure.escapes


def test_what_came_after_the_failure_is_taken_back() -> None:
    """The batch whose end marker is broken is kept, with its index entry and its epoch; nothing after it is."""
    broken = marker(2, 1, key=bytes(3), epoch=2)
    parts = [txn(0, 1), batch(1, epoch=1), broken, late(3, 9), txn(4, 2), batch(5, epoch=7)]
    found = recovered(log(parts), interval=0)
    kept = sum(map(len, parts[:3]))
    assert (found.valid_bytes, found.truncated_bytes) == (kept, len(log(parts)) - kept)
    assert list(found.offset_entries[0]) == [1, 2]
    assert (found.largest.timestamp, found.end_offset, found.producers_offset) == (TIME, 3, 2)
    assert found.epochs == [EpochEntry(0, 0), EpochEntry(1, 1), EpochEntry(2, 2)]
    assert found.producers.entries == {1: ProducerStateEntry(1, 0, 0, 0, 0, TIME, -1, 0)}


# --- producers ----------------------------------------------------------------------------------------------
def folded(data: bytes, base: int, known: Producers) -> tuple[Producers, list[AbortedTxn]]:
    """The same by the other replay, which knows a segment by itself."""
    findings: list[Finding] = []
    fold = ProducerFold("log", findings.append, MAX_BATCH, report_controls=True)
    for window in CheckedWalk(
        BytesSource(data, "log"), findings.append, segment=base, next_base=None, max_batch_bytes=MAX_BATCH
    ).windows():
        fold.step(window)
    return known.after(fold.finish(), findings.append)


@pytest.mark.parametrize("partition", RECORDED)
def test_both_replays_of_producers_agree(partition: str) -> None:
    folder = FIXTURES / partition
    bases = logs(folder)
    known = known_at(folder, bases[0])
    for base in bases:
        data = (folder / name(base)).read_bytes()
        found = recovered(data, base, start=known)
        known, aborted = folded(data, base, known)
        assert (found.producers, found.aborted) == (known, aborted), base


def test_an_open_transaction_from_before_counts() -> None:
    start = Producers.of_snapshot([ProducerStateEntry(9, 0, 0, 90, 0, TIME, -1, 90)], 100)
    found = recovered(log([txn(100, 1), marker(101, 1), marker(102, 9)]), 100, start=start)
    assert found.aborted == [AbortedTxn(0, 1, 100, 101, 90), AbortedTxn(0, 9, 90, 102, 103)]


@pytest.mark.parametrize(
    ("first", "delta", "last"),
    [(-1, 1, -1), (5, 2, 7), (2**31 - 2, 5, 3), (5, -3, -(2**31) + 2), (0, -1, 2**31 - 1), (-(2**31), -1, 2**31 - 1)],
)
def test_the_last_sequence_wraps_as_in_java(first: int, delta: int, last: int) -> None:
    found = recovered(batch(10, producer=(1, 0, first), last_delta=delta))
    assert found.producers.entries[1].last_sequence == last


def test_many_transactions_are_not_remembered() -> None:
    """Commits leave nothing behind, also where one transaction stays open all the time."""
    parts = [txn(0, 99)]
    for n in range(1, 1000, 2):
        parts += [txn(n, 1), marker(n + 1, 1, key=COMMIT)]
    found = recovered(log([*parts, txn(1001, 1), marker(1002, 1)]))
    assert found.aborted == [AbortedTxn(0, 1, 1001, 1002, 0)]


# --- a model ------------------------------------------------------------------------------------------------
class Step(NamedTuple):
    """A batch: its base offset is so much above the last offset, its timestamp so much after the last."""

    ahead: int
    later: int
    records: int
    epoch: int
    legacy: bool = False


STEPS = st.builds(
    Step,
    ahead=st.sampled_from([0, 0, 0, 0, 3, -2, -40]),
    later=st.sampled_from([0, 1, 5, -3, -TIME - 9]),
    records=st.integers(1, 3),
    epoch=st.sampled_from([0, 0, 1, 4, -1]),
    legacy=st.sampled_from([False, False, False, True]),
)


def built(steps: Iterable[Step], base: int) -> list[bytes]:
    offset, parts, latest = base, [], TIME
    for one in steps:
        offset, latest = offset + one.ahead, latest + one.later
        if one.legacy:
            parts.append(message(1, offset, timestamp=latest))
        else:
            records = [Record()] * one.records
            parts.append(batch(offset, records, epoch=one.epoch, base_timestamp=latest))
        offset += 1 if one.legacy else one.records
        latest = latest if latest > 0 else TIME
    return parts


class Model:
    """LogSegment.recover of batches that are whole and have no producers, one by one."""

    def __init__(self, base: int, interval: int) -> None:
        self.base, self.interval = base, interval
        self.entries: list[tuple[int, int]] = []
        self.times: list[tuple[int, int]] = []
        self.epochs: list[EpochEntry] = []
        self.latest = (-1, base)
        self.position = self.indexed = 0
        self.failure = ""

    def run(self, parts: Iterable[bytes]) -> None:
        if not all(self.take(part) for part in parts):
            return
        if self.times and self.latest[1] < self.times[-1][1]:
            self.failure = "InvalidOffsetException"
        elif self.latest[0] > (self.times[-1][0] if self.times else -1):
            self.times.append(self.latest)

    def take(self, part: bytes) -> bool:
        (first,) = struct.unpack_from(">q", part)
        epoch, delta, timestamp = -1, 0, 0
        if part[16] == 2:
            epoch, delta, timestamp = struct.unpack_from(">i7xi8xq", part, 12)
        else:
            (timestamp,) = struct.unpack_from(">q", part, 18)
        if not 0 <= first + delta - self.base < 2**31:
            self.failure = "LogSegmentOffsetOverflowException"
            return False
        if timestamp > self.latest[0]:
            self.latest = (timestamp, first + delta)
        if self.position - self.indexed > self.interval and not self.index(first + delta):
            self.failure = "InvalidOffsetException"
            return False
        self.position += len(part)
        if epoch > max((one.epoch for one in self.epochs), default=-1):
            if first < 0:
                self.failure = "IllegalArgumentException"
                return False
            self.epochs.append(EpochEntry(epoch, first))
        return True

    def index(self, last: int) -> bool:
        if self.entries and last <= self.entries[-1][0]:
            return False
        self.entries.append((last, self.position))
        self.indexed = self.position
        if self.times and self.latest[1] < self.times[-1][1]:
            return False
        if self.latest[0] > (self.times[-1][0] if self.times else -1):
            self.times.append(self.latest)
        return True


@given(
    st.lists(STEPS, max_size=14), st.sampled_from([0, 3, 1000]), st.sampled_from([0, 80, 200, 4096]), st.integers(1, 5)
)
def test_columns_say_what_batch_by_batch_says(steps: list[Step], base: int, interval: int, rows: int) -> None:
    parts = built(steps, base)
    model = Model(base, interval)
    model.run(parts)
    with windows_of(rows=rows):
        found = recovered(log(parts), base, interval)
    assert [*zip(*found.offset_entries, strict=True)] == model.entries
    assert [*zip(*found.time_entries, strict=True)] == model.times
    assert (tuple(found.largest), found.epochs, found.valid_bytes) == (model.latest, model.epochs, model.position)
    assert (found.failure.java_class.rpartition(".")[2] if found.failure else "") == model.failure


# --- what holds for all bytes -------------------------------------------------------------------------------
EDITS = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "zero", "insert", "end"]), st.floats(0, 1), st.integers(0, 7)), max_size=3
)


def edited(data: bytes, edits: Iterable[tuple[str, float, int]]) -> bytes:
    changed = bytearray(data)
    for kind, where, much in edits:
        at = int(where * (len(changed) - 1))
        if kind == "flip" and changed:
            changed[at] ^= 1 << much
        elif kind == "cut":
            del changed[at : at + much + 1]
        elif kind == "zero":
            changed[at : at + 10 * much] = bytes(len(changed[at : at + 10 * much]))
        elif kind == "insert":
            changed[at:at] = b"\x01" * (much + 1)
        elif kind == "end":
            del changed[at:]
    return bytes(changed)


@given(st.sampled_from(sorted(SEGMENTS)), EDITS, st.sampled_from([0, 300, 4096]))
def test_the_valid_part_alone_is_recovered_alike(
    segment: str, edits: list[tuple[str, float, int]], interval: int
) -> None:
    base, right = SEGMENTS[segment]
    data = edited(right, edits)
    found = recovered(data, base, interval)
    again = recovered(data[: found.valid_bytes], base, interval)
    if found.failure is None or not found.failure.escapes:
        assert found.valid_bytes + found.truncated_bytes == len(data)
        assert again == found.replace(truncated_bytes=0, failure=again.failure)
        assert again.failure is None or again.failure.stage == "producers"
    else:
        assert found.truncated_bytes == 0 or found.failure.stage == "time index"
        assert found.valid_bytes <= len(data)


@pytest.mark.parametrize("segment", SEGMENTS)
@pytest.mark.parametrize(("size", "rows"), [(None, 1), (None, 7), (300, 64)])
def test_windows_make_no_difference(segment: str, size: int | None, rows: int) -> None:
    base, data = SEGMENTS[segment]
    found = recovered(data, base, 300)
    with windows_of(size, rows):
        assert recovered(data, base, 300) == found


@pytest.mark.parametrize("segment", ["v2 all codecs", "v0 v1 v2", "epochs", "idempotent"])
def test_batches_that_are_not_held_make_no_difference(segment: str) -> None:
    base, data = SEGMENTS[segment]
    assert recovered(data, base, 300, max_batch_bytes=100) == recovered(data, base, 300)


def test_a_negative_magic_has_a_timestamp() -> None:
    """Kafka reads the header of a message of magic 1 then."""
    one = bytearray(message(1, 0, timestamp=TIME + 3))
    one[16] = 0x80
    assert recovered(with_legacy_crc(bytes(one))).largest == (TIME + 3, 0)
