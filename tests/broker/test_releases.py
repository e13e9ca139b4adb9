"""Brokers of the releases differ where one table says so, and nowhere else."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.load.release_refusal import refusal
from kdump.broker.lookup_results import Refused
from kdump.broker.releases import RELEASES, TABLE, Rules, rules_of
from kdump.broker.segment_reading import SegmentReading
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES, ReadLimits
from kdump.format.source import BytesSource
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support.cleaner_cases import base_of, cases, compacted, retained, run, set_up
from tests.support.partitions import checkpoint, name
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import GZIP, Record, batch, wrapper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NODE = FIXTURES / "kafka-4.4.0" / "clean" / "node1"
PARSE = "org.apache.kafka.server.common.serialization.MetadataParseException"
ILLEGAL = "java.lang.IllegalArgumentException"


def rows(args: Sequence[object], cwd: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_kdump([*map(str, args), "--format", "json"], cwd).stdout.splitlines()]


def predictions(args: Sequence[object], cwd: Path) -> list[dict[str, Any]]:
    return [row for row in rows(["verify", *args], cwd) if row["type"] == "prediction"]


def test_every_rule_has_releases_and_a_source() -> None:
    assert set(TABLE) | {"release"} == set(Rules.__annotations__)
    for field, rule in TABLE.items():
        assert rule.source, field
        assert RELEASES[0] in rule.values, field
        assert set(rule.values) <= set(RELEASES), field
        assert len(set(rule.values.values())) > 1, f"{field}: the same in all releases is no rule"


def test_the_newest_release_is_taken_and_said(tmp_path: Path) -> None:
    tree = shutil.copytree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logs")
    assert (
        "a broker of Kafka 4.4, the newest known; --broker names another"
        in predictions(["--start", "clean", tree], tmp_path)[0]["assumed"]
    )
    named = predictions(["--start", "clean", "--broker", "4.4", tree], tmp_path)[0]
    assert not any("newest" in one for one in named["assumed"])
    assert rules_of() == rules_of("4.4")


@pytest.mark.parametrize(
    ("version", "refusing"),
    [(b"\0\1", ["4.4"]), (b"\xff\xfe", ["4.4"]), (b"\x80\0", ["4.4"]), (b"\1\0", list(RELEASES))],
    ids=["0001", "fffe", "8000", "0100"],
)
def test_what_version_of_an_aborted_transaction_a_release_loads(
    version: bytes, refusing: list[str], tmp_path: Path
) -> None:
    tree = shutil.copytree(FIXTURES / "damage" / "intact" / "txn" / "logdir", tmp_path / "logs")
    index = next(path for path in sorted(tree.glob("*-0/*.txnindex")) if path.stat().st_size)
    data = index.read_bytes()
    index.write_bytes(version + data[2:])
    found = [
        release
        for release in RELEASES
        if not predictions(["--start", "clean", "--broker", release, index.parent], tmp_path)[0]["loads"]
    ]
    assert found == refusing


# What nodes of 4.3.1, 4.2.1 and 3.9.2 did with such a directory of 4.4.0.
@pytest.mark.parametrize(("release", "java_class"), [("3.9", PARSE), ("4.2", PARSE), ("4.3", ILLEGAL), ("4.4", None)])
def test_a_rollback_ends_at_records_and_levels_that_the_release_has_not(
    release: str, java_class: str | None, tmp_path: Path
) -> None:
    tree = shutil.copytree(NODE, tmp_path / "node1")
    for row in predictions(["--start", "all", "--broker", release, tree], tmp_path):
        assert row["reasonClass"] == java_class
        assert row["stops"] == (None if java_class is None else "broker")


def test_a_rollback_names_the_level_that_is_too_new(tmp_path: Path) -> None:
    row = predictions(["--start", "clean", "--broker", "4.3", NODE], tmp_path)[0]
    assert "metadata.version 33 (4.4-IV2) is not one of Kafka 4.3, which has 7 to 30" in row["reason"]


# What nodes did with a directory that the storage tool of 4.4.0 has just formatted.
@pytest.mark.parametrize(
    ("level", "release", "java_class"),
    [
        ("4.3", "3.9", ILLEGAL),
        ("4.3", "4.2", "java.lang.RuntimeException"),
        ("4.3", "4.3", None),
        ("3.9", "3.9", None),
        ("3.9", "4.2", None),
        ("3.9", "4.4", None),
    ],
)
def test_what_a_release_makes_of_a_directory_that_a_newer_tool_formatted(
    level: str, release: str, java_class: str | None, tmp_path: Path
) -> None:
    tree = shutil.copytree(FIXTURES / "kafka-4.4.0" / "formatted" / level, tmp_path / "data")
    (row,) = predictions(["--start", "clean", "--broker", release, tree], tmp_path)
    assert row["reasonClass"] == java_class


def test_a_refusal_knows_the_record() -> None:
    log_dir = LogDir(str(NODE))
    directory = PartitionDir(str(NODE / "__cluster_metadata-0"), log_dir)
    limits = ReadLimits(MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES)
    found = refusal(directory, rules_of("4.2"), limits)
    assert found is not None
    assert found.exception == f"{PARSE}: Failed to deserialize record with type 0"
    assert found.path.endswith("00000000000000000359-0000000001.checkpoint")
    assert refusal(directory, rules_of("4.4"), limits) is None
    directory.close()


@pytest.mark.parametrize("release", RELEASES)
def test_a_version_of_meta_properties_that_nobody_knows_ends_a_broker_of_any_release(
    release: str, tmp_path: Path
) -> None:
    tree = shutil.copytree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logs")
    for version, known in ((0, True), (1, True), (2, False)):
        node = "broker.id" if version == 0 else "node.id"
        (tree / "meta.properties").write_text(f"version={version}\n{node}=1\ncluster.id=abc\n")
        found = predictions(["--start", "clean", "--broker", release, tree], tmp_path)
        assert {one["loads"] for one in found} == {known}, version
        if not known:
            assert {(one["stops"], one["reasonClass"]) for one in found} == {("logdir", "java.lang.RuntimeException")}


def of_coordinator(tmp_path: Path, topic: str, *records: Record) -> Path:
    folder = tmp_path / "logs" / f"{topic}-0"
    folder.mkdir(parents=True)
    (folder / name(0)).write_bytes(batch(0, records))
    return folder


def said(folder: Path, release: str) -> list[str]:
    (row,) = predictions(["--start", "clean", "--broker", release, folder], folder.parent)
    assert row["loads"]
    return [one for one in row["assumed"] if "coordinator" in one]


def test_records_that_a_release_does_not_know_are_passed_over_by_its_coordinator(tmp_path: Path) -> None:
    of_share = Record(b"\0\0\0\1", key=b"\0\x0b\0\1g")
    folder = of_coordinator(tmp_path, "__consumer_offsets", of_share, of_share)
    assert said(folder, "3.9") == [
        "2 records of type 11 (ShareGroupMetadata), the first at offset 0: a coordinator of Kafka 3.9 passes over them"
    ]
    assert said(folder, "4.2") == said(folder, "4.4") == []
    shared = of_coordinator(tmp_path / "b", "__share_group_state", Record(b"\0\0", key=b"\0\0\0\1g"))
    assert said(shared, "3.9") == [
        "Kafka 3.9 has no coordinator of __share_group_state: what is in __share_group_state-0 is not read"
    ]


@pytest.mark.parametrize(
    ("topic", "key", "version"), [("__consumer_offsets", b"\0\1\0\1g", 5), ("__transaction_state", b"\0\0\0\1t", 2)]
)
def test_a_coordinator_does_not_serve_what_has_a_value_of_a_version_that_it_does_not_know(
    topic: str, key: bytes, version: int, tmp_path: Path
) -> None:
    known, unknown = (Record(v.to_bytes(2, "big") + bytes(20), key=key) for v in (version - 1, version))
    folder = of_coordinator(tmp_path, topic, known, unknown)
    for release in RELEASES:
        (one,) = said(folder, release)
        assert one.startswith(f"offset 1: version {version} of ")
        assert one.endswith(f"its coordinator ends the load of {topic}-0 there and does not serve it")


# --- read -----------------------------------------------------------------------------------------------------
def partition(tmp_path: Path, *logs: bytes) -> Path:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    (folder / name(0)).write_bytes(b"".join(logs))
    return folder


def answer(args: Sequence[object], cwd: Path) -> dict[str, Any]:
    return next(row for row in rows(args, cwd) if row["type"] == "location")


@pytest.mark.parametrize(("release", "reads"), [("3.9", False), ("4.2", True), ("4.4", True)])
def test_from_4_2_on_a_search_for_an_offset_reads_what_is_in_legacy_wrappers(release: str, reads: bool) -> None:
    damaged = bytearray(wrapper(1, 0, (b"a", b"b")))
    damaged[-6] ^= 0xFF  # of what gzip has at the end
    log = BytesSource(bytes(damaged), "log")
    segments = Segments([0], log)
    reading = SegmentReading(segments, 1 << 20, 1 << 20, lambda _number, _window, _k: None, rules_of(release))
    assert isinstance(reading.search(0, 0, 0), Refused) is reads


class Segments:
    """Segments of one log for a reader."""

    def __init__(self, bases: list[int], log: BytesSource) -> None:
        self.bases = bases
        self._log = log

    def segment(self, number: int) -> Any:
        return type("One", (), {"log": self._log, "base_offset": self.bases[number]})()


@pytest.mark.parametrize(("release", "fails"), [("4.3", False), ("4.4", True)])
def test_from_4_4_on_a_search_by_time_is_bounded_by_the_size_of_records(
    release: str, fails: bool, tmp_path: Path
) -> None:
    records = [Record(bytes(50)), Record(bytes(5000), timestamp=10)]
    folder = partition(
        tmp_path, batch(0, records, codec=GZIP, base_timestamp=1_700_000_000_000, max_timestamp=1_700_000_000_010)
    )
    bound = "max.decompressed.message.bytes=1000"
    found = answer(["find-time", folder, 1_700_000_000_005, "--broker", release, "--set", bound], tmp_path)
    if fails:
        assert "exceeds the configured maximum record size of 1000" in json.dumps(found)
    else:
        assert found["offset"] == 1
    first = answer(["find-time", folder, 1_700_000_000_000, "--broker", release, "--set", bound], tmp_path)
    assert first["offset"] == 0, "read one by one, the first is there"


# --- clean ----------------------------------------------------------------------------------------------------
def test_the_cleaner_of_4_4_keeps_an_empty_batch_at_the_high_watermark(tmp_path: Path) -> None:
    """By what was given, else by the checkpoint: as the cleaners of 4.3.1 and 4.4.0 do (cleaner_passes.py)."""
    case = next(one for one in cases("compaction", "d-txn") if one["id"] == "d-txn-50")
    place, config = set_up(case, tmp_path / "d")
    config["min.cleanable.dirty.ratio"] = "0"

    def left(release: str, mark: int | None = None) -> list[tuple[int, ...]]:
        asked = {"compaction": True, "clean": True, "high_watermark": mark}
        row = compacted(run(place, config, case["passes"][0]["now"], release=release, **asked))
        assert row.cleaned
        return [batch for segment in row.cleaned for batch in segment.batch_rows]

    log = retained(run(place, config, 0)).log
    active, end = log.segments[-1].base_offset, log.end_offset
    assert left("4.3", end) == left("4.3", active) == left("4.4", active)
    assert len(left("4.4", end)) == len(left("4.3", end)) - 1
    topic, _, number = base_of(case["from"])["partition"].rpartition("-")
    (place / "replication-offset-checkpoint").write_bytes(checkpoint((topic, int(number), active)))
    assert left("4.4") == left("4.4", active)
    (place / "replication-offset-checkpoint").write_bytes(checkpoint((topic, int(number), end)))
    assert left("4.4") == left("4.4", end)
