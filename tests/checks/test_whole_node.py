"""What only the disks of one node show together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kdump.broker.config import TopicPlace
from kdump.broker.lost_directories import of_lost_directories
from kdump.broker.strays import stray_of
from kdump.checks.whole_node import directory_ids_twice
from kdump.finding import Code
from kdump.storage.names import PartitionName, parse_partition
from tests.checks.test_field_cases import Told
from tests.checks.test_metadata_replay import LEVEL, node
from tests.support import metadata_records as records
from tests.support.field_cases import closed, log_dir
from tests.support.partitions import write

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND, NEW = (records.uuid(number) for number in (101, 102, 103))
ASSIGNED = [
    LEVEL,
    records.broker(1, [FIRST, SECOND]),
    records.topic("orders", 5),
    records.partition(0, 5, [1], [FIRST]),
    records.partition(1, 5, [1], [SECOND]),
    records.partition(2, 5, [1, 2], [SECOND, NEW]),
]


def properties(directory: str) -> bytes:
    return f"version=1\ncluster.id=C\nnode.id=1\ndirectory.id={directory}\n".encode()


def broker(root: Path, second: dict[str, bytes] | None, *, first: str = FIRST) -> None:
    """A node of two disks; the metadata log lies on the first."""
    topic_id = f"version: 0\ntopic_id: {records.uuid(5)}".encode()
    files = node(ASSIGNED) | {"meta.properties": properties(first), "orders-0/partition.metadata": topic_id}
    write(root / "one", files)
    (root / "two").mkdir()
    if second is not None:
        write(root / "two", second)
    settings = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
    (root / "server.properties").write_text(f"{settings}log.dirs={root}/one,{root}/two\n")


def told(root: Path) -> Told:
    return Told(root, "verify", "--start", "auto", "server.properties")


def of_code(found: Told, code: str) -> list[str]:
    return [one["message"] for one in found.of("finding") if one["code"] == code]


@pytest.mark.parametrize("is_formatted", [False, True])
def test_the_partitions_of_a_disk_that_is_gone_are_named(is_formatted: bool, tmp_path: Path) -> None:
    broker(tmp_path, {"meta.properties": properties(NEW)} if is_formatted else None)
    found = told(tmp_path)
    lost = of_code(found, "M02")
    assert [SECOND in one for one in lost] == [True, True]
    assert "it has no other replica" in lost[0]
    assert "broker 2 should have it too" in lost[1]
    assert len(of_code(found, "K03")) == (not is_formatted)
    assert {one["loads"] for one in found.of("prediction")} == {is_formatted}
    assert (found.exit, found.of("summary")[0]["unchecked"]) == (3, [])  # an empty disk is judged, not passed over
    run = Told(tmp_path, "cluster", "one", "--check", "one", "--check", "two")
    assert len(of_code(run, "M02")) == 2


@pytest.mark.parametrize(
    ("file", "text", "code", "why"),
    [
        ("orders-0/partition.metadata", f"version: 0\ntopic_id: {records.uuid(6)}", "M03", "the cluster has"),
        ("meta.properties", f"version=1\ncluster.id=C\nnode.id=2\ndirectory.id={FIRST}\n", "M01", "not on broker 2"),
    ],
)
def test_a_partition_that_the_cluster_has_elsewhere_is_set_aside(
    file: str, text: str, code: str, why: str, tmp_path: Path
) -> None:
    broker(tmp_path, {"meta.properties": properties(SECOND)})
    (tmp_path / "one" / file).write_text(text)
    found = Told(tmp_path, "verify", "--start", "auto", "one")
    (row,) = (one for one in found.of("prediction") if one["partition"] == "orders-0")
    assert (row["loads"], row["stops"], row["reasonClass"], row["cause"]["code"]) == (False, None, None, code)
    assert row["reason"].startswith("the broker renames the directory to -stray: ")
    assert why in row["reason"]
    assert any("since the metadata log that is here was written" in one for one in row["assumed"])
    assert Told(tmp_path, "verify", "--fail-on", "loss", "one").exit == 3


def test_a_directory_with_the_topic_id_of_another_topic_keeps_its_name_and_is_not_served(tmp_path: Path) -> None:
    """LogManager asks for the id alone; the partition is refused when the topic of its name asks for it."""
    broker(tmp_path, {"meta.properties": properties(SECOND)})
    (tmp_path / "one" / "orders-0").rename(tmp_path / "one" / "payments-0")
    found = Told(tmp_path, "verify", "--start", "auto", "one")
    (row,) = (one for one in found.of("prediction") if one["partition"] == "payments-0")
    assert (row["loads"], row["stops"], row["cause"]["code"]) == (False, None, "M01")
    assert row["reason"].startswith("the broker keeps the directory and does not serve it: the cluster has no topic ")
    assert "that of orders" in row["reason"]
    assert Told(tmp_path, "verify", "--fail-on", "loss", "one").exit == 3


def test_verify_says_what_the_metadata_log_here_has_elsewhere_and_not_what_it_misses(tmp_path: Path) -> None:
    """A copy may have some partitions of a directory and no others; a wrong id or broker is never so on purpose."""
    broker(tmp_path, {"meta.properties": properties(SECOND)})
    found = Told(tmp_path, "verify", "one", "two")
    assert found.found() == []
    (tmp_path / "one" / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {records.uuid(6)}")
    found = Told(tmp_path, "verify", "one")
    assert (found.found("warning"), found.exit) == (["M03"], 0)
    (row,) = (one for one in found.of("finding") if one["code"] == "M03")
    assert (row["found"], row["expected"]) == (records.uuid(6), records.uuid(5))
    (tmp_path / "one" / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {records.uuid(5)}")
    (tmp_path / "one" / "meta.properties").write_bytes(properties(FIRST).replace(b"node.id=1", b"node.id=2"))
    assert Told(tmp_path, "verify", "one").found("warning") == ["M01"]


def test_two_spellings_of_a_number_are_one_partition(tmp_path: Path) -> None:
    """Kafka reads the number: with orders-00 beside orders-0 a broker ends."""
    files = log_dir({"orders-0": closed(0, end=2)})
    write(tmp_path / "logdir", files | {k.replace("orders-0", "orders-00"): v for k, v in files.items() if "-0/" in k})
    found = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert of_code(found, "F12") != []
    assert {one["reasonClass"] for one in found.of("prediction")} == {"java.lang.IllegalStateException"}


def test_a_metadata_log_without_meta_properties_is_an_error_and_old_files_that_are_gone_a_warning(
    tmp_path: Path,
) -> None:
    broker(tmp_path, None)
    (tmp_path / "one" / "meta.properties").unlink()
    found = Told(tmp_path, "verify", "--start", "auto", "one")
    assert (len(of_code(found, "K03")), found.exit) == (1, 3)
    assert {one["stops"] for one in found.of("prediction")} == {"broker"}
    files = log_dir({"orders-0": closed(4, end=6, epoch=2), "orders-1": closed(4, end=6, epoch=2)})
    gone = ("meta.properties", "leader-epoch-checkpoint", "partition.metadata")
    write(tmp_path / "logdir", {name: data for name, data in files.items() if not name.endswith(gone)})
    found = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert {one["reasonClass"] for one in found.of("prediction")} == {"java.lang.RuntimeException"}
    (told_of_job,) = of_code(found, "K03")
    assert "the leader-epoch-checkpoint of orders-0, orders-1: something outside Kafka" in told_of_job
    assert found.found("error") == []
    taken = [(one["partition"], one["offset"], one["lastOffset"], one["certainty"]) for one in found.of("loss")]
    assert taken == [("orders-0", 0, 3, "unexplained"), ("orders-1", 0, 3, "unexplained")]
    assert (found.of("summary")[0]["offsetsUnexplained"], found.exit) == (8, 0)


def test_an_empty_directory_beside_a_node_with_zookeeper_is_said_to_have_nothing(tmp_path: Path) -> None:
    broker(tmp_path, None)
    (tmp_path / "one" / "meta.properties").write_bytes(b"version=0\ncluster.id=C\nbroker.id=1\n")
    (tmp_path / "server.properties").write_text(f"broker.id=1\nlog.dirs={tmp_path}/one,{tmp_path}/two\n")
    found = told(tmp_path)
    assert [one["reason"] for one in found.of("summary")[0]["unchecked"]] == ["no Kafka files here"]


def test_a_node_with_all_its_disks_lacks_nothing(tmp_path: Path) -> None:
    parts = {"orders-1": closed(0, end=2), "orders-2": closed(0, end=2)}
    broker(tmp_path, log_dir(parts) | {"meta.properties": properties(SECOND)})
    assert of_code(told(tmp_path), "M02") == []


def test_one_directory_id_twice_is_a_copy_of_a_volume(tmp_path: Path) -> None:
    broker(tmp_path, log_dir({"orders-1": closed(0, end=2)}) | {"meta.properties": properties(FIRST)})
    found = told(tmp_path)
    (copied,) = of_code(found, "K11")
    assert "Duplicate directory ID" in copied
    assert {one["loads"] for one in found.of("prediction")} == {False}
    assert found.exit == 3
    assert directory_ids_twice([], None) is not None


def test_where_all_log_directories_are_of_another_broker_the_configuration_may_be_wrong(tmp_path: Path) -> None:
    broker(tmp_path, log_dir({"orders-1": closed(0, end=2)}) | {"meta.properties": properties(SECOND)})
    for one in tmp_path.glob("*/meta.properties"):
        one.write_text(re.sub("node.id=.*", "node.id=77", one.read_text()))
    (wrong,) = of_code(told(tmp_path), "K11")
    assert (
        "all log directories here are of broker 77: the configuration is another broker's, or the volumes are" in wrong
    )


def test_a_bare_directory_of_the_metadata_log_is_the_one_to_move(tmp_path: Path) -> None:
    broker(tmp_path, {"meta.properties": properties(SECOND), "__cluster_metadata-0/partition.metadata": b""})
    found = told(tmp_path)
    (twice,) = [one for one in found.of("finding") if one["code"] == "F12"]
    assert twice["remedy"].startswith(f"move {tmp_path}/two/__cluster_metadata-0 out")
    assert {one["reasonClass"] for one in found.of("prediction")} == {"org.apache.kafka.common.KafkaException"}


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_without_the_settings_too_a_metadata_log_in_two_directories_ends_the_node(
    order: tuple[str, str], tmp_path: Path
) -> None:
    broker(tmp_path, {"meta.properties": properties(SECOND), "__cluster_metadata-0/partition.metadata": b""})
    found = Told(tmp_path, "verify", "--start", "auto", *order)
    rows = found.of("prediction")
    assert {(one["loads"], one["stops"], one["cause"]["code"]) for one in rows} == {(False, "broker", "F12")}
    assert {one["reasonClass"] for one in rows} == {"org.apache.kafka.common.KafkaException"}
    assert all("unexpected metadata location in data directory `two/__cluster" in one["reason"] for one in rows)
    other = properties(SECOND).replace(b"node.id=1", b"node.id=2")
    (tmp_path / "two" / "meta.properties").write_bytes(other)  # of another node: each has one
    assert {one["cause"] for one in Told(tmp_path, "verify", "--start", "auto", "one").of("prediction")} == {None}


def named(name: str) -> PartitionName:
    found = parse_partition(name)
    assert found is not None
    return found


def test_one_judgement_says_what_is_a_stray() -> None:
    here = named("orders-0")
    mine, other = TopicPlace("orders", "A", (1, 2)), TopicPlace("payments", "B", (1,))
    assert stray_of(here, "A", mine, mine, 1) is None
    assert stray_of(here, None, None, mine, 1) is None
    cases: list[tuple[str, TopicPlace | None, TopicPlace | None, Code, bool]] = [
        ("C", None, None, Code.M01, True),
        ("C", None, mine, Code.M03, True),
        ("A", TopicPlace("orders", "A", None), TopicPlace("orders", "A", None), Code.M01, True),
        ("A", TopicPlace("orders", "A", (2,)), TopicPlace("orders", "A", (2,)), Code.M01, True),
        ("B", TopicPlace("payments", "B", (2,)), mine, Code.M03, True),
        ("B", other, mine, Code.M03, False),  # Kafka asks for the id alone
        ("B", other, None, Code.M01, False),
    ]
    for own, by_id, by_name, code, is_renamed in cases:
        found = stray_of(here, own, by_id, by_name, 1)
        assert found is not None
        assert (found.code, found.is_renamed) == (code, is_renamed)
    assert list(of_lost_directories(1, ["a"], ["a"], [("t", 0, [1], ["a"])], held=(), place="x")) == []
