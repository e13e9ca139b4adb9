"""What Kafka 4.3.1 did with sixty damaged nodes, and what `--start auto` says of them: tests/support/node_starts.py.

`fixtures/nodes/starts.jsonl` has what its classes did; the nodes are made again, by the same numbers, of the partitions
in `sources.txt`: those that the fixtures had then.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from kdump.broker.load.properties_ensemble import ensemble_cause
from kdump.broker.load.raft_records import records_failure
from kdump.format.source import BytesSource
from kdump.storage.server_properties import NodeSettings
from tests.support.node_starts import SEED, Node, Started, differences, foretold, make_node
from tests.support.partitions import below, meta, name, segment, write
from tests.support.runs import FIXTURES
from tests.support.segments import CONTROL, Record, batch

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [json.loads(line) for line in (FIXTURES / "nodes" / "starts.jsonl").read_text("utf-8").splitlines()]
SOURCES = [FIXTURES / line for line in (FIXTURES / "nodes" / "sources.txt").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["run"]))
def test_what_is_foretold_is_what_kafka_did(row: dict[str, object], tmp_path: Path) -> None:
    node = make_node(tmp_path, random.Random(f"{SEED} {row.pop('run')}"), SOURCES)
    logs = {path: tuple(ends) for path, ends in row.pop("logs").items()}  # type: ignore[attr-defined]
    did = Started(logs=logs, **row)  # type: ignore[arg-type]
    for is_gate in (False, True):
        assert list(differences(did, foretold(node, is_gate=is_gate), node)) == []


def test_the_recorded_nodes_are_of_all_sorts() -> None:
    assert sum(bool(row["ends"]) for row in ROWS) >= 10
    assert sum(bool(row["strays"]) for row in ROWS) >= 2
    assert sum(not row["ends"] and not row["offline"] for row in ROWS) >= 10


# --- kinds of nodes of their own, which its classes started too -----------------------------------------------
ONE = {**segment(0, [batch(0, [b"a", b"b"])]), "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAw\n"}
WITHOUT_ID = segment(0, [batch(0, [b"a"])])
CONFIG = "process.roles=broker\nnode.id=1\nlog.dirs={0}/a,{0}/b\n"


def node_of(root: Path, files: dict[str, bytes]) -> Node:
    """A node of two directories."""
    ids = {"a": b"directory.id=BSKU5asYTV60pAFfbdfcDw\n", "b": b"directory.id=CSKU5asYTV60pAFfbdfcDw\n"}
    write(root, {**{f"{one}/meta.properties": meta(1) + own for one, own in ids.items()}, **files})
    (root / "server.properties").write_text(CONFIG.format(root))
    return Node(root / "server.properties", [root / "a", root / "b"])


ODD_NODES = {
    "a log file in a log.dir itself": (
        {"b/meta.properties": b"version=1\n", f"b/{name(7)}": b"no log at all", **below("a/t-0", ONE)},
        Started("", ["b"], {"a/t-0": (0, 2)}, []),
    ),
    "a stray where the directory is offline already": (
        {"b/log-start-offset-checkpoint": b"0\n1\n\xff 0 0\n", **below("b/t-0", WITHOUT_ID), **below("a/u-0", ONE)},
        Started("org.apache.kafka.common.errors.KafkaStorageException", [], {}, []),
    ),
    "a future copy without a topic id": (
        {**below(f"a/t-0.{'0' * 32}-future", WITHOUT_ID), **below("b/t-0", ONE)},
        Started("", [], {"b/t-0": (0, 2)}, [f"a/t-0.{'0' * 32}-future"]),
    ),
    "the id of the metadata log with other last bits": (
        {
            **below(
                "a/__cluster_metadata-0", {"partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAc\n"}
            ),
            **below("a/t-0", ONE),
        },
        Started("", [], {"a/__cluster_metadata-0": (0, 0), "a/t-0": (0, 2)}, []),
    ),
    "a partition in two directories": (
        {**below("a/t-0", ONE), **below("b/t-0", ONE), **below("b/u-0", ONE)},
        Started("java.lang.IllegalStateException", [], {}, []),
    ),
    "a partition in two directories, one of them a stray": (
        {**below("a/t-0", ONE), **below("b/t-0", WITHOUT_ID)},
        Started("", [], {"a/t-0": (0, 2)}, ["b/t-0"]),
    ),
}


@pytest.mark.parametrize("kind", ODD_NODES)
@pytest.mark.parametrize("is_gate", [False, True])
def test_a_node_of_its_own_kind_starts_as_it_does_in_kafka(kind: str, is_gate: bool, tmp_path: Path) -> None:
    files, did = ODD_NODES[kind]
    node = node_of(tmp_path, files)
    assert list(differences(did, foretold(node, is_gate=is_gate), node)) == []


# --- the meta.properties of all directories -------------------------------------------------------------------
OTHER = "another-cluster-0000"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"a": meta(1), "b": meta(1)}, ""),
        ({"a": meta(1), "b": meta(1, OTHER)}, "Invalid cluster.id"),
        ({"a": meta(1), "b": meta(2)}, "Stored node id 2 doesn't match previous node id 1"),
        ({"a": meta(2), "b": meta(2)}, "Stored node id 2 doesn't match previous node id 1"),
        ({"a": meta(1)}, "No `meta.properties` found in"),
        ({}, "No readable meta.properties files found."),
        ({"a": b"version=1\n", "b": meta(1)}, "Encountered I/O error in metadata log directory"),
        ({"a": meta(1), "b": b"version=1\n"}, ""),
        ({"a": meta(1), "b": b"version=0\n"}, "Error: node ID not found in"),
        ({"a": meta(1), "b": b"version=0\nbroker.id=1\n"}, "Error: cluster ID not found in"),
        ({one: meta(1) + b"directory.id=BSKU5asYTV60pAFfbdfcDw\n" for one in "ab"}, "Duplicate directory ID"),
        ({"a": meta(1), "b": meta(1) + b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"}, "Invalid reserved directory ID"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_node_ends_where_its_directories_do_not_fit(files: dict[str, bytes], why: str, tmp_path: Path) -> None:
    for one in "ab":
        (tmp_path / one).mkdir()
    write(tmp_path, {f"{one}/meta.properties": data for one, data in files.items()})
    settings = NodeSettings("", {"node.id": "1", "log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    cause = ensemble_cause([], settings)
    assert (cause.exception if cause else "").partition(": ")[2].startswith(why)
    assert (cause is None) == (why == "")


def test_a_metadata_log_outside_of_its_directory_ends_a_node(tmp_path: Path) -> None:
    write(tmp_path, {f"{one}/meta.properties": meta(1) for one in "ab"} | {"b/__cluster_metadata-0/x": b""})
    settings = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
    cause = ensemble_cause([], NodeSettings("", settings))
    assert cause is not None
    assert "unexpected metadata location" in cause.exception
    assert ensemble_cause([], NodeSettings("", {**settings, "metadata.log.dir": f"{tmp_path}/b"})) is None


# --- a snapshot of the metadata log ---------------------------------------------------------------------------
def test_a_node_ends_at_damage_of_a_snapshot_and_takes_a_cut_one_for_what_is_left() -> None:
    header = Record(b"\0\0" + bytes(9), b"\0\0\0\3")
    whole = batch(0, [header], flags=CONTROL) + batch(1, [b"b"])
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    for data, why in (
        (whole, None),
        (whole[:-5], None),
        (whole[: len(whole) // 2 + 40], None),
        (b"", "NoSuchElementException: No value present"),
        (batch(0, [b"a"]), "First batch is not a control batch"),
        (flipped, "Record is corrupt"),
        (whole + bytes(20), "Record size 0 is less than the minimum record overhead (14)"),
        (whole + bytes(8) + b"\0\0\0\x40" + bytes(4) + b"\x07" + bytes(80), "Invalid magic found in record: 7"),
    ):
        failure = records_failure(BytesSource(data))
        assert (failure is None) == (why is None), data
        assert why is None or why in str(failure)
