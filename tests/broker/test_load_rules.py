"""Rules of a broker's load that show only where two things are wrong at once, one small partition each.

What is expected here is what Kafka 4.3.1 did with these files (LogManager.loadLogs, then shutdown): found by comparing
thousands of damaged directories, and made small.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kdump.broker.config import Config
from kdump.broker.load.facts import PartitionFacts, Start
from kdump.broker.load.log_loader import load
from kdump.broker.load.log_manager import LoadSettings
from kdump.format.source import BytesSource
from kdump.rows.verdict import Prediction
from tests.support.partitions import below, checkpoint, marker, name, offset_index, segment, snapshot, write
from tests.support.segments import GZIP, TIME, TRANSACTIONAL, Record, batch, with_legacy_crc, wrapper
from tests.support.verify_runs import items_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.partitions import Files

NOW = 1_700_000_000_000
INTERVAL, INDEX_BYTES = 300, 4096
ARGUMENT = "java.lang.IllegalArgumentException"
FAR = 2**31 + 5
LARGEST = 2**63 - 1
_NOTHING: Mapping[str, Any] = MappingProxyType({})
EPOCHS = "leader-epoch-checkpoint"


class Rule(NamedTuple):
    """A partition t-0, and what becomes of it.

    Args:
        files: of the partition.
        start: how the broker starts.
        stops: class of the exception, "logdir" in front where only the log directory goes offline; empty: it loads.
        end: log end offset.
        logs: base offset and size of each log afterwards.
        left: content of some files afterwards, None for one that is gone.
        beside: files of the log directory.
        index_bytes: segment.index.bytes.
    """

    files: Files
    start: Start
    stops: str = ""
    end: int = 0
    logs: tuple[tuple[int, int], ...] = ()
    left: Mapping[str, bytes | None] = _NOTHING
    beside: Mapping[str, bytes] = _NOTHING
    index_bytes: int = INDEX_BYTES


def small(base: int = 0, count: int = 3) -> list[bytes]:
    return [batch(base + k, [Record(b"k", bytes(300))]) for k in range(count)]


def txn(offset: int, producer: int) -> bytes:
    return batch(offset, flags=TRANSACTIONAL, producer=(producer, 0, 0))


def log_of(parts: list[bytes], base: int = 0) -> Files:
    return segment(base, parts, interval=INTERVAL)


PLAIN = log_of(small())
SIZE = len(PLAIN[name(0)])
OPEN = log_of([*small(), txn(3, 7)])
WRAPPED = [wrapper(1, 3 * k, [b"a", b"b", b"c"], codec=GZIP) for k in range(2)]
TWO_BEGIN = [txn(0, 7), txn(0, 8), marker(1, (7, 0), commit=True), marker(2, (8, 0), commit=True), *small(3, 2)]
TWICE = [txn(0, 7), marker(1, (7, 0), commit=True)]


def with_magic(data: bytes, magic: int) -> bytes:
    return data[:16] + bytes([magic]) + data[17:]


def with_codec(data: bytes, codec: int) -> bytes:
    return with_legacy_crc(data[:17] + bytes([codec]) + data[18:])


RULES = {
    "index-has-more-entries-than-room": Rule(
        log_of(small(count=9)), Start.CLEAN, stops=f"{ARGUMENT}: newPosition > limit: (64 > 40)", index_bytes=40
    ),
    "index-of-an-earlier-segment-may-be-larger": Rule(
        log_of(small(count=9)) | log_of(small(9, 1), 9),
        Start.CLEAN,
        end=10,
        logs=((0, 9 * len(small()[0])), (9, len(small()[0]))),
        index_bytes=40,
    ),
    "negative-position-counts-as-the-start": Rule(
        PLAIN | {name(0, "index"): offset_index(0, (1, -5))}, Start.CLEAN, end=3, logs=((0, SIZE),)
    ),
    "last-offset-behind-the-largest-long-still-has-a-number-in-the-indexes": Rule(
        {name(LARGEST): batch(LARGEST, [b"a", b"b"]) + bytes(100)},
        Start.CLEAN,
        end=0,
        logs=((0, 0),),
        left={
            f"{name(LARGEST)}.deleted": batch(LARGEST, [b"a", b"b"]),
            f"{name(LARGEST, 'index')}.deleted": b"",
            f"{name(LARGEST, 'timeindex')}.deleted": TIME.to_bytes(8, "big") + (1).to_bytes(4, "big"),
        },
    ),
    "recovery-point-of-the-highest-offset-recovers-nothing": Rule(
        PLAIN | {name(0): PLAIN[name(0)] + b"abc"},
        Start.UNCLEAN,
        end=3,
        logs=((0, SIZE + 3),),
        beside={"recovery-point-offset-checkpoint": checkpoint(("t", 0, 2**63 - 1))},
    ),
    "metadata-that-is-not-utf-8-takes-the-directory-offline": Rule(
        PLAIN | {"partition.metadata": b"version: 0\ntopic_id: \xff\n"}, Start.CLEAN, stops="logdir java.nio.charset."
    ),
    "recovery-points-that-are-not-utf-8-take-the-directory-offline": Rule(
        PLAIN,
        Start.UNCLEAN,
        stops="logdir java.nio.charset.",
        beside={"recovery-point-offset-checkpoint": b"\xff\n"},
    ),
    "partition-that-ends-the-broker-counts-more-than-an-offline-directory": Rule(
        PLAIN | {"x.log": b""},
        Start.UNCLEAN,
        stops="java.lang.NumberFormatException",
        beside={"recovery-point-offset-checkpoint": b"what\n"},
    ),
    "open-transaction-ends-the-broker-when-the-directory-is-offline": Rule(
        OPEN,
        Start.UNCLEAN,
        stops="org.apache.kafka.common.errors.KafkaStorageException: The log dir ",
        beside={"log-start-offset-checkpoint": b"what\n"},
    ),
    "open-transaction-beyond-the-end-is-not-looked-for": Rule(
        OPEN | {f"{4:020}.snapshot": snapshot((7, 0, 0, 90, 0, NOW, 0, 90))},
        Start.CLEAN,
        end=4,
        logs=((0, len(OPEN[name(0)])),),
    ),
    "epochs-that-were-emptied-are-written": Rule(
        PLAIN | {EPOCHS: b"0\n1\n5 90", f"{EPOCHS}.tmp": b"x"},
        Start.CLEAN,
        end=3,
        logs=((0, SIZE),),
        left={EPOCHS: checkpoint(), f"{EPOCHS}.tmp": None},
    ),
    "epoch-file-without-a-last-line-end-is-written-anew": Rule(
        PLAIN | {EPOCHS: b"0\n1\n0 0"}, Start.CLEAN, end=3, logs=((0, SIZE),), left={EPOCHS: checkpoint((0, 0))}
    ),
    "empty-epochs-stay-as-they-are": Rule(
        PLAIN | {EPOCHS: b"0\n0"}, Start.CLEAN, end=3, logs=((0, SIZE),), left={EPOCHS: b"0\n0"}
    ),
    "log-start-beyond-the-end-writes-empty-epochs": Rule(
        PLAIN | {EPOCHS: b""},
        Start.CLEAN,
        end=9,
        logs=((9, 0),),
        left={EPOCHS: checkpoint()},
        beside={"log-start-offset-checkpoint": checkpoint(("t", 0, 9))},
    ),
    "segment-that-is-just-being-opened-is-not-put-aside-when-it-is-split": Rule(
        {name(0): b"".join([*small(), batch(FAR)])},
        Start.CLEAN,
        end=FAR + 1,
        logs=((0, SIZE), (FAR, len(batch(FAR)))),
        left={f"{name(0)}.deleted": None},
    ),
    "split-looks-at-the-magic": Rule(
        {name(1): b"".join([*small(1, 1), with_magic(batch(2), 10), batch(FAR)])},
        Start.CLEAN,
        stops="org.apache.kafka.common.errors.CorruptRecordException: Invalid magic found in record: 10",
    ),
    "split-of-a-log-with-a-few-more-bytes": Rule(
        {name(0): b"".join([*small(), batch(FAR), b"abc"])},
        Start.CLEAN,
        stops="java.util.NoSuchElementException",
    ),
    "split-asks-a-wrapper-for-its-first-offset": Rule(
        {name(3): b"".join([wrapper(1, 3, [b"a", b"b"]), batch(FAR)])},
        Start.CLEAN,
        end=FAR + 1,
        logs=((3, len(wrapper(1, 3, [b"a", b"b"]))), (FAR, len(batch(FAR)))),
    ),
    "codec-that-is-not-known-in-a-wrapper": Rule(
        {
            name(0): WRAPPED[0] + with_codec(WRAPPED[1], 7),
            name(0, "index"): offset_index(0, (5, len(WRAPPED[0]))),
            name(0, "timeindex"): b"",
        },
        Start.CLEAN,
        stops=f"{ARGUMENT}: Unknown compression type id: 7",
    ),
    "transactions-that-begin-at-one-offset": Rule(
        log_of(TWO_BEGIN) | log_of(small(5, 1), 5),
        Start.FULL,
        stops=f"{ARGUMENT}: Attempted to complete transaction CompletedTxn[producerId=",
    ),
    "transaction-that-is-there-twice": Rule(
        log_of([*TWICE, *TWICE, *small(2, 2)]) | log_of(small(4, 1), 4) | {f"{4:020}.snapshot": b"bad"},
        Start.CLEAN,
        stops=f"{ARGUMENT}: Attempted to complete transaction CompletedTxn[producerId=7, firstOffset=0, lastOffset=1, "
        "isAborted=false] on partition t-0 which was not started",
    ),
    "producers-of-one-bucket-have-the-last-one-first-after-a-replay": Rule(
        log_of([batch(k, producer=(one, 0, 0)) for k, one in enumerate((2, 18, 34))])
        | log_of(small(3, 1), 3)
        | {f"{3:020}.snapshot": b"bad"},
        Start.CLEAN,
        end=4,
        logs=((0, 3 * len(batch(0))), (3, len(small()[0]))),
        left={
            f"{3:020}.snapshot": snapshot(*((one, 0, 0, k, 0, NOW, -1, -1) for k, one in ((2, 34), (1, 18), (0, 2))))
        },
    ),
}


def log_dir(rule: Rule, root: Path) -> Path:
    marks = {".kafka_cleanshutdown": b""} if rule.start is Start.CLEAN else {}
    return write(root / "logs", {**marks, **rule.beside, **below("t-0", rule.files)})


def settings(rule: Rule) -> LoadSettings:
    return LoadSettings(NOW, Config({"segment.index.bytes": str(rule.index_bytes)}), INTERVAL)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_broker_keeps_to_its_rule(rule: Rule, tmp_path: Path) -> None:
    items = items_of(log_dir(rule, tmp_path), starts=(rule.start,), settings=settings(rule))
    (row,) = (item for item in items if isinstance(item, Prediction))
    if rule.stops:
        stops, _, why = rule.stops.rpartition("logdir ")
        assert row.stops == (stops + "logdir" if "logdir" in rule.stops else "broker")
        java_class, _, message = why.partition(":")
        assert (row.reason_class or "").startswith(java_class)
        assert message.strip() in (row.reason or "")
    else:
        assert (row.loads, row.reason, row.log_end_offset) == (True, None, rule.end)
        assert [(one.base_offset, one.size) for one in row.segments if one.action != "delete"] == list(rule.logs)


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.left])
def test_broker_leaves_these_files(rule: Rule) -> None:
    sources = {file: BytesSource(data, f"logs/t-0/{file}") for file, data in rule.files.items()}
    start = 9 if "log-start-offset-checkpoint" in rule.beside else 0
    facts = PartitionFacts("logs/t-0", "t", 0, "", sources, INTERVAL, NOW, start, max_index_bytes=rule.index_bytes)
    disk = load(facts, rule.start, wants_contents=True).disk
    for file, data in rule.left.items():
        source = disk.get(file)
        assert (None if source is None else source.read_at(0, source.size)) == data, file
