"""Nodes that do not start are not called healthy: metadata logs are replayed, snapshots and bootstrap files read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kdump.broker.load.bootstrap import bootstrap_failure
from kdump.broker.load.metadata_replay import MetadataReplay, NotAppliedError
from kdump.broker.releases import rules_of
from kdump.checks.options import VerifyOptions
from kdump.decode.metadata import Frames
from kdump.decode.table import newest, table
from kdump.format.record.control_type import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, control_type
from kdump.format.source import BytesSource
from tests.checks.test_field_cases import Told
from tests.support import metadata_records as records
from tests.support.field_cases import closed, log_dir
from tests.support.partitions import checkpoint, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.partitions import Files

LEVEL = records.feature("metadata.version", 20)
LOG = f"logdir/__cluster_metadata-0/{0:020}.log"
SNAPSHOT = f"__cluster_metadata-0/{4:020}-{3:010}.checkpoint"
STATE = "java.lang.IllegalStateException"


def node(made: Sequence[Record], **more: bytes) -> Files:
    """A log directory with a metadata log of one record a batch, and a topic."""
    quorum = b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    files = segment(0, [batch(n, [one], epoch=3) for n, one in enumerate(made)]) | {"quorum-state": quorum}
    files |= {"leader-epoch-checkpoint": checkpoint((3, 0))}
    files |= {"partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"}
    return log_dir({"__cluster_metadata-0": files, "orders-0": closed(0, end=2)}) | dict(more)


def fence(number: int, epoch: int) -> Record:
    return records.framed(7, 0, struct.pack(">iq", number, epoch))


WRONG: dict[str, tuple[list[Record], str, str]] = {  # the last record, class and message
    "another epoch": ([records.broker(3, epoch=100), fence(3, 999)], STATE, "given epoch, 999, did not match"),
    "no such broker": ([fence(3, 1)], STATE, "Tried to fence broker 3, but that broker was not registered."),
    "gone broker": ([records.broker(3), records.unregister(3), fence(3, 1)], STATE, "was not registered"),
    "no such topic": ([records.partition(0, 5, [1])], "java.lang.NullPointerException", "TopicImage.partitions()"),
    "no such partition": ([records.topic("t", 5), records.change(1, 5, leader=2)], "java.lang.RuntimeException", ":1"),
    "removed twice": (
        [records.topic("t", 5), records.remove_topic(5), records.remove_topic(5)],
        "java.lang.RuntimeException",
        "no such topic found",
    ),
    "no such acl": ([records.framed(19, 0, records.raw(records.uuid(9)))], STATE, "Failed to find existing ACL"),
    "directories": (
        [records.topic("t", 5), records.partition(0, 5, [1, 2], [records.uuid(1)])],
        "org.apache.kafka.common.errors.InvalidReplicaDirectoriesException",
        "do not match",
    ),
    "cut": (
        [Record((LEVEL.value or b"")[:-3], None)],
        "org.apache.kafka.server.common.serialization.MetadataParseException",
        "",
    ),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_record_that_cannot_be_applied_is_an_error_and_ends_the_node(case: str, tmp_path: Path) -> None:
    made, java_class, why = WRONG[case]
    write(tmp_path / "logdir", node([LEVEL, *made, LEVEL]))
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    (found,) = [one for one in told.of("finding") if one["severity"] == "error"]
    assert (found["code"], found["file"], found["offset"]) == ("L21", LOG, len(made))
    assert found["position"] == sum(len(batch(n, [one])) for n, one in enumerate([LEVEL, *made[:-1]]))
    assert java_class in found["message"]
    assert why in found["message"]
    assert {(one["loads"], one["reasonClass"], one["stops"]) for one in told.of("prediction")} == {
        (False, java_class, "broker")
    }
    assert told.exit == 3


def test_a_log_that_a_node_applies_is_sound(tmp_path: Path) -> None:
    made = [LEVEL, records.broker(3, epoch=7), fence(3, 7), records.topic("t", 5), records.partition(0, 5, [3])]
    made += [records.change(0, 5, leader=3), records.remove_topic(5), records.topic("t", 6)]
    write(tmp_path / "logdir", node(made))
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert (told.found(), told.exit) == ([], 0)
    assert all(one["loads"] for one in told.of("prediction"))


@pytest.mark.parametrize(("level", "name", "oldest"), [(20, "3.8-IV0", "3.8"), (25, "4.0-IV3", "4.0"), (99, "", "")])
def test_the_oldest_release_that_reads_the_log_is_one_line(level: int, name: str, oldest: str, tmp_path: Path) -> None:
    made = [LEVEL, records.broker(3, epoch=7), records.feature("metadata.version", level)]
    write(tmp_path / "logdir", node(made))
    line = f"metadata.version is {level} ({name}): Kafka {oldest} is the oldest release that reads it"
    shown = " ".join(run_kdump(["verify", "logdir"], tmp_path).stdout.decode().split())
    assert (line in shown) == bool(oldest)
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    (row,) = (one for one in told.of("prediction") if one["partition"].startswith("__cluster"))
    assert any(line in one for one in row["assumed"]) == bool(oldest)
    (row,) = Told(tmp_path, "cluster", "logdir").of("feature")
    assert (row["featureLevel"], row["oldestRelease"]) == (level, oldest or None)
    text = run_kdump(["cluster", "logdir"], tmp_path).stdout.decode()
    assert (f"{name}: nodes older than Kafka {oldest} end when they load it" in text) == bool(oldest)


# --- snapshots --------------------------------------------------------------------------------------------------------
WHOLE = records.snapshot([LEVEL, records.broker(1), records.topic("t", 5), records.partition(0, 5, [1])], contained=1)
HEADER = len(records.snapshot([], contained=1, is_finished=False))
FOOTER = len(records.snapshot([], contained=1)) - HEADER
SNAPSHOTS: dict[str, tuple[bytes, str | None]] = {  # what a node throws, None where it takes what is left
    "empty": (b"", "java.util.NoSuchElementException"),
    "cut in the header": (WHOLE[: HEADER - 5], "java.util.NoSuchElementException"),
    "three bytes": (WHOLE[:3], "java.lang.NullPointerException"),
    "header alone": (WHOLE[:HEADER], None),
    "no footer": (WHOLE[:-FOOTER], None),
    "cut in the footer": (WHOLE[:-4], None),
    "no header": (WHOLE[HEADER:], STATE),
    "footer alone": (WHOLE[-FOOTER:], STATE),
}


@pytest.mark.parametrize("case", list(SNAPSHOTS))
def test_a_snapshot_without_header_or_footer_is_an_error(case: str, tmp_path: Path) -> None:
    data, java_class = SNAPSHOTS[case]
    write(tmp_path / "logdir", node([LEVEL] * 6, **{SNAPSHOT: data}))
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert "L20" in told.found("error")
    assert {(one["loads"], one["reasonClass"]) for one in told.of("prediction")} == {(java_class is None, java_class)}
    assert told.exit == 3


def test_a_whole_snapshot_begins_the_state(tmp_path: Path) -> None:
    write(tmp_path / "logdir", node([LEVEL] * 4 + [records.change(0, 5, leader=1)], **{SNAPSHOT: WHOLE}))
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert told.found() == []
    assert all(one["loads"] for one in told.of("prediction"))
    source = BytesSource(WHOLE)
    assert (control_type(source, 0), control_type(source, len(WHOLE) - FOOTER)) == (SNAPSHOT_HEADER, SNAPSHOT_FOOTER)


# --- bootstrap.checkpoint ---------------------------------------------------------------------------------------------
ONE = batch(0, [LEVEL])
BOOTSTRAPS: dict[str, tuple[bytes, str | None]] = {  # what a node throws
    "whole": (ONE, None),
    "another crc": (ONE[:17] + b"\0" + ONE[18:], None),
    "empty": (b"", "No FeatureLevelRecord"),
    "cut": (ONE[:-9], "No FeatureLevelRecord"),
    "without a level": (batch(0, [records.topic("t", 5)]), "No FeatureLevelRecord"),
    "level behind others": (batch(0, [records.topic("t", 5)]) + batch(1, [LEVEL]), None),
    "flipped": (ONE[:70] + bytes([ONE[70] ^ 8]) + ONE[71:], "unable to deserialize record at offset 0"),
    "zeros": (bytes(200), "Found record size 0 smaller"),
}


@pytest.mark.parametrize("case", list(BOOTSTRAPS))
def test_a_bootstrap_without_a_readable_level_keeps_the_node_from_starting(case: str, tmp_path: Path) -> None:
    data, why = BOOTSTRAPS[case]
    write(tmp_path / "logdir", node([LEVEL] * 3, **{"bootstrap.checkpoint": data}))
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert ("L20" in told.found("error")) == (why is not None)
    for one in told.of("prediction"):
        assert (one["loads"], why is None or why in one["reason"]) == (why is None, True)
    failure = bootstrap_failure(BytesSource(data), rules_of(), VerifyOptions().limits)
    assert (failure is None) == (why is None)
    if why is not None:
        assert "move it away where the metadata log has records" in told.of("finding")[0]["remedy"]


# --- one delta --------------------------------------------------------------------------------------------------------
def replayed(*made: Record) -> str:
    """What the records come to: empty, or the exception."""
    frames, replay = Frames(table(newest()), "metadata"), MetadataReplay()
    for one in made:
        try:
            replay.take(frames.read(one.value or b""), of_snapshot=False)
        except NotAppliedError as error:
            return str(error)
    return ""


def test_an_aborted_transaction_leaves_nothing() -> None:
    begin, end, abort = (records.framed(number, 0, b"") for number in (23, 24, 25))
    topic, change = records.topic("t", 5), records.partition(0, 5, [1])
    assert replayed(begin, topic, end, change) == ""
    assert "NullPointerException" in replayed(begin, topic, abort, change)
    assert "already in a transaction" in replayed(begin, begin)
    assert "without having seen" in replayed(end)
