"""What lies on disks where the metadata log has something else: M01 to M05."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.state.test_cluster import BASE, METADATA, D, log_dir
from tests.support import metadata_records
from tests.support.metadata_records import uuid
from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.segments import Record

Json = dict[str, Any]
RELEASES = ("kafka-4.3.1", "kafka-4.4.0")


def layout(release: str) -> dict[str, Json]:
    """The directories of the nodes of a real cluster."""
    nodes: dict[str, Json] = json.loads((FIXTURES / "state" / release / "layout.json").read_text("utf-8"))["nodes"]
    return nodes


def volume(root: Path, properties: Mapping[str, str], directories: Mapping[str, str | None]) -> Path:
    """A log.dir with empty partitions of these topic ids."""
    root.mkdir(parents=True)
    (root / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    for name, topic in directories.items():
        (root / name).mkdir()
        if topic is not None:
            (root / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic}")
    return root


def of_node(root: Path, node: Json) -> Path:
    """A node of a real cluster."""
    return volume(root, node["meta.properties"], node["directories"])


def check(metadata: Path, *volumes: Path, exit_status: int | None = None) -> list[Json]:
    """The findings."""
    args = [word for path in volumes for word in ("--check", str(path))]
    run = run_kdump(["cluster", str(metadata), "--format", "json", *args], metadata)
    found = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "finding"]
    assert run.exit == (3 if found else 0) if exit_status is None else run.exit == exit_status, run.stderr
    return found


def codes(found: list[Json]) -> list[tuple[str, str]]:
    """Code and last part of the path of each finding."""
    return [(row["code"], row["file"].rpartition("/")[2]) for row in found]


# --- real clusters --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("release", RELEASES)
def test_what_real_brokers_have_is_right(tmp_path: Path, release: str) -> None:
    """Of each node that the corpus has whole; of the live one too, with the log of the same node as it is later."""
    nodes = [of_node(tmp_path / name, node) for name, node in layout(release).items()]
    assert len(nodes) > 1
    for node in nodes:
        assert check(FIXTURES / release / "clean" / "node1", node) == []


def test_all_nodes_together_are_right(tmp_path: Path) -> None:
    nodes = [of_node(tmp_path / name, node) for name, node in layout("kafka-4.4.0").items() if name.startswith("clean")]
    assert check(FIXTURES / "kafka-4.4.0" / "clean" / "node1", *nodes) == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_stray_a_lost_partition_and_a_wrong_volume_are_one_finding_each(tmp_path: Path, release: str) -> None:
    metadata = FIXTURES / release / "clean" / "node1"
    node = layout(release)["clean/node1"]
    stray = {**node, "directories": {**node["directories"], "gone-3": uuid(5)}}
    assert codes(check(metadata, of_node(tmp_path / "stray", stray))) == [("M01", "gone-3")]
    lost = {**node, "directories": {key: value for key, value in node["directories"].items() if key != "plain-0"}}
    assert codes(check(metadata, of_node(tmp_path / "lost", lost))) == [("M02", "plain-0")]
    wrong = {**node, "meta.properties": {**node["meta.properties"], "node.id": "2"}}
    (finding,) = check(metadata, of_node(tmp_path / "wrong", wrong))
    assert (finding["code"], finding["field"], finding["found"], finding["expected"]) == ("M05", "node.id", 2, 1)
    other = {**node, "meta.properties": {**node["meta.properties"], "directory.id": uuid(6)}}
    (finding,) = check(metadata, of_node(tmp_path / "other", other))
    assert (finding["code"], finding["field"], finding["found"]) == ("M04", "directory.id", uuid(6))
    assert finding["expected"] == node["meta.properties"]["directory.id"]
    topic = {**node, "directories": {**node["directories"], "plain-0": uuid(8)}}
    (finding,) = check(metadata, of_node(tmp_path / "topic", topic))
    assert (finding["code"], finding["found"]) == ("M03", uuid(8))
    assert finding["expected"] == node["directories"]["plain-0"]
    cluster = {**node, "meta.properties": {**node["meta.properties"], "cluster.id": "another"}}
    (finding,) = check(metadata, of_node(tmp_path / "cluster", cluster))
    assert (finding["code"], finding["field"], finding["found"]) == ("M05", "cluster.id", "another")


# --- made clusters --------------------------------------------------------------------------------------------
ONE = {"version": "1", "node.id": "1", "directory.id": D[0]}
ORDERS = {"orders-0": uuid(7)}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A metadata log with orders-0 on brokers 1 and 2."""
    return log_dir(tmp_path / "metadata", BASE)


def made(root: Path, *records: Record) -> Path:
    """A metadata log with more records."""
    return log_dir(root / "metadata", [*BASE, *records])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("orders-1", "topic orders has no partition 1"),
        ("other-0", "the cluster has no topic other"),
        ("orders-0.0123456789abcdef0123456789abcdef-stray", "set it aside"),
    ],
)
def test_what_the_cluster_does_not_have_is_a_stray(cluster: Path, tmp_path: Path, name: str, why: str) -> None:
    (finding,) = check(cluster, volume(tmp_path / "d", ONE, {**ORDERS, name: None}))
    assert (finding["code"], finding["severity"]) == ("M01", "error")
    assert why in finding["message"]


def test_what_another_broker_has_is_a_stray(tmp_path: Path) -> None:
    metadata = made(tmp_path, metadata_records.partition(1, 7, [2], [D[1]]))
    (finding,) = check(metadata, volume(tmp_path / "d", ONE, {**ORDERS, "orders-1": uuid(7)}))
    assert "its replicas are on broker 2, not on broker 1" in finding["message"]


@pytest.mark.parametrize(
    "name", ["x-0.0123456789abcdef0123456789abcdef-delete", "x-0.0123456789abcdef0123456789abcdef-future", METADATA]
)
def test_leftovers_and_the_metadata_log_are_no_strays(cluster: Path, tmp_path: Path, name: str) -> None:
    assert check(cluster, volume(tmp_path / "d", ONE, {**ORDERS, name: None})) == []


def test_a_partition_is_missing_only_from_a_directory_that_was_given(tmp_path: Path) -> None:
    other = uuid(300)
    metadata = log_dir(
        tmp_path / "metadata",
        [metadata_records.broker(1, [D[0], other]), metadata_records.topic("orders", 7)],
        [
            metadata_records.partition(0, 7, [1], [other]),
            metadata_records.partition(1, 7, [1], [metadata_records.MIGRATING]),
        ],
    )
    first = volume(tmp_path / "d0", ONE, {})
    assert check(metadata, first) == []
    second = volume(tmp_path / "d1", {**ONE, "directory.id": other}, {})
    assert codes(check(metadata, first, second)) == [("M02", "orders-0")]


def test_a_partition_in_the_other_directory_of_its_broker_is_one_finding(tmp_path: Path) -> None:
    other = uuid(300)
    metadata = log_dir(
        tmp_path / "metadata",
        [metadata_records.broker(1, [D[0], other]), metadata_records.topic("orders", 7)],
        [metadata_records.partition(0, 7, [1], [other])],
    )
    first, second = volume(tmp_path / "d0", ONE, ORDERS), volume(tmp_path / "d1", {**ONE, "directory.id": other}, {})
    (finding,) = check(metadata, first, second)
    assert (finding["code"], finding["found"], finding["expected"]) == ("M04", D[0], other)
    (second / "orders-0.0123456789abcdef0123456789abcdef-future").mkdir()
    assert check(metadata, first, second) == []


@pytest.mark.parametrize(("replicas", "count"), [([1], 1), ([2], 0)])
def test_a_broker_with_one_directory_has_there_what_has_no_directory_yet(
    tmp_path: Path, replicas: Sequence[int], count: int
) -> None:
    unassigned = "A" * 21 + "Q"
    metadata = made(tmp_path, metadata_records.partition(1, 7, replicas, [unassigned]))
    assert len(check(metadata, volume(tmp_path / "d", ONE, ORDERS))) == count


def test_a_volume_that_no_broker_has_is_not_looked_into(cluster: Path, tmp_path: Path) -> None:
    (finding,) = check(cluster, volume(tmp_path / "d", {**ONE, "node.id": "9", "directory.id": uuid(1)}, {"x-0": None}))
    assert (finding["code"], finding["found"]) == ("M05", 9)


@pytest.mark.parametrize("text", ["", "version=1\nnode.id=one\n", None])
def test_a_directory_that_does_not_say_whose_it_is_is_not_checked(
    cluster: Path, tmp_path: Path, text: str | None
) -> None:
    path = volume(tmp_path / "d", ONE, ORDERS)
    if text is None:
        (path / "meta.properties").unlink()
    else:
        (path / "meta.properties").write_text(text)
    run = run_kdump(["cluster", str(cluster), "--check", str(path)], tmp_path)
    assert run.exit in (5, 6)
    assert b"its broker is unknown" in run.stderr


def test_a_path_that_is_no_directory_is_told(cluster: Path, tmp_path: Path) -> None:
    assert run_kdump(["cluster", str(cluster), "--check", "nowhere"], tmp_path).exit == 10
    assert run_kdump(["cluster", str(cluster), "--check", str(cluster / METADATA)], tmp_path).exit == 5


def test_a_directory_that_is_right_is_said_to_be(cluster: Path, tmp_path: Path) -> None:
    run = run_kdump(["cluster", str(cluster), "--check", str(volume(tmp_path / "d", ONE, ORDERS))], tmp_path)
    assert run.exit == 0
    assert b"d: broker 1: 1 partition is where the cluster has it" in run.stderr
