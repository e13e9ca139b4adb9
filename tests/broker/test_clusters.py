"""With the metadata log among the paths, what a broker does is asked with the cluster's own configurations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.broker.clusters import cluster_settings
from kdump.broker.config import ClusterSettings, Config
from kdump.format.read_limits import ReadLimits
from kdump.storage.log_dir import LogDir
from tests.support import metadata_records
from tests.support.metadata_records import uuid
from tests.support.partitions import name as file_name
from tests.support.partitions import write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import TIME, batch

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
DAY = 86_400_000
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A log.dir of broker 1 with a metadata log and two topics, one with a retention of its own."""
    config = metadata_records.config
    records = [
        metadata_records.feature("metadata.version", 25),
        metadata_records.broker(1, [uuid(1)]),
        *(metadata_records.topic(name, number) for number, name in enumerate(("short", "plain"))),
        *(metadata_records.partition(0, number, [1], [uuid(1)]) for number in range(2)),
        config(2, "short", "retention.ms", "1000"),
        config(4, "", "log.retention.ms", str(3 * DAY)),
        config(4, "1", "log.retention.ms", str(2 * DAY)),
        config(4, "2", "log.retention.ms", "5"),
    ]
    files = {
        f"__cluster_metadata-0/{file_name(0)}": metadata_records.log(records),
        "meta.properties": f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={uuid(1)}\n".encode(),
    }
    for topic in ("short", "plain", "unknown"):
        files[f"{topic}-0/{file_name(0)}"] = batch(0)
        files[f"{topic}-0/{file_name(1)}"] = batch(1)
    return write(tmp_path, files)


def retained(path: Path, *args: str) -> dict[str, Json]:
    """The rows of `kdump retention` by partition."""
    run = run_kdump(["retention", ".", "--now", str(TIME + DAY), "--format", "json", *args], path)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    return {row["partition"]: row for row in found if row["type"] == "retention"}


def goes_at(row: Json) -> int:
    """After how many ms the first segment goes."""
    return int(row["segments"][0]["firstDeletedAt"]) - TIME - 1


NEWEST = "a broker of Kafka 4.4, the newest known; --broker names another"
SOURCE = "./__cluster_metadata-0 up to offset 9"


def test_a_topic_has_its_configuration_and_that_of_its_broker(node: Path) -> None:
    found = retained(node)
    assert {name: goes_at(found[name]) for name in ("short-0", "plain-0", "unknown-0")} == {
        "short-0": 1000,
        "plain-0": 2 * DAY,
        "unknown-0": 2 * DAY,
    }
    assert found["short-0"]["assumed"] == [NEWEST, f"settings of topic and brokers from {SOURCE}"]
    assert found["unknown-0"]["assumed"] == [NEWEST, f"settings of the brokers from {SOURCE}"]


def test_without_a_broker_id_that_of_all_brokers_counts(node: Path) -> None:
    (node / "meta.properties").unlink()
    assert goes_at(retained(node)["plain-0"]) == 3 * DAY


def test_what_the_user_says_of_topics_wins(node: Path) -> None:
    found = retained(node, "--set", "retention.ms=7")
    assert {goes_at(found[name]) for name in ("short-0", "plain-0")} == {7}


def test_what_the_user_sets_of_the_broker_wins_over_the_brokers_configuration_and_a_file_does_not(node: Path) -> None:
    found = retained(node, "--set", "log.retention.ms=7")
    assert (goes_at(found["short-0"]), goes_at(found["plain-0"])) == (1000, 7)
    (node / "server.properties").write_text("log.retention.ms=7\n")
    found = retained(node, "--config", "server.properties")
    assert (goes_at(found["short-0"]), goes_at(found["plain-0"])) == (1000, 2 * DAY)


def test_a_partition_alone_has_the_metadata_log_of_its_log_dir(node: Path) -> None:
    run = run_kdump(["retention", "short-0", "--now", str(TIME + DAY), "--format", "json"], node)
    (row,) = [json.loads(line) for line in run.stdout.splitlines()]
    assert goes_at(row) == 1000
    assert row["assumed"] == [NEWEST, "settings of topic and brokers from __cluster_metadata-0 up to offset 9"]


def test_du_frees_what_the_cluster_lets_go(node: Path) -> None:
    run = run_kdump(["du", ".", "--now", str(TIME + DAY), "--format", "json"], node)
    found = {row["name"]: row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "usage"}
    assert (found["short"]["freeable"]["segments"], found["plain"]["freeable"]["segments"]) == (2, 0)
    assert found["short"]["assumed"] == [NEWEST, f"settings of topic and brokers from {SOURCE}"]


def test_a_start_has_the_interval_of_the_topic() -> None:
    """The topic `dense` has index.interval.bytes=128; what another topic has is told by its indexes."""
    run = run_kdump(["verify", "--start", "full", "--format", "json", "kafka-4.3.1/clean/node1"], FIXTURES)
    found = {
        row["partition"].rpartition("/")[2]: row
        for row in map(json.loads, run.stdout.splitlines())
        if row["type"] == "prediction"
    }
    source = "settings of topic and brokers from kafka-4.3.1/clean/node1/__cluster_metadata-0 up to offset 556"

    assert found["dense-0"]["assumed"] == [source, NEWEST]
    assert found["plain-0"]["assumed"][0] == source
    assert len(found["plain-0"]["assumed"]) == 3


def test_the_library_has_it_too(node: Path) -> None:
    rows = kdump.verify(node, start="clean").predictions
    (row,) = [one for one in rows if one.partition.endswith("short-0")]
    assert any("settings of topic and brokers" in what for what in row.assumed)


def test_a_topic_of_kafkas_own_is_not_guessed_where_it_is_known() -> None:
    found = cluster_settings([str(NODE)], ReadLimits(1 << 30, 1 << 30))
    here = Config({}).within(found).on("__consumer_offsets", LogDir(str(NODE)))
    assert "taken as brokers make it" not in here.assumed("__consumer_offsets")
    assert here.of_topic("__consumer_offsets").segment_bytes == 104_857_600
    assert here.of_topic("__consumer_offsets").compact
    assert "taken as brokers make it" in Config({}).assumed("__consumer_offsets")


def test_a_value_that_nobody_knows_is_passed_over_and_told() -> None:
    found = ClusterSettings("the log", {"t": {"retention.ms": "forever", "retention.bytes": "5"}}, {})
    here = Config({}).within([found]).on("t", LogDir(str(NODE)))
    assert (here.of_topic("t").retention_ms, here.of_topic("t").retention_bytes) == (7 * DAY, 5)
    assert "retention.ms=forever there is passed over" in here.assumed("t")
