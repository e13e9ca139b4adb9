"""The metadata log of Kafka 4.4: indexes that a clean shutdown leaves preallocated, and a snapshot beside segment 0."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kdump.cli.main import kdump as group
from kdump.finding import Code, Severity
from tests.support.runs import FIXTURES
from tests.support.verify_runs import findings_of

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.4.0" / "clean" / "node1"
LOG = "__cluster_metadata-0"
BOOTSTRAP = "00000000000000000000-0000000000.checkpoint"
INDEX, TIME_INDEX = "00000000000000000000.index", "00000000000000000000.timeindex"
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A copy of the node."""
    return shutil.copytree(NODE, tmp_path / "node1")


def run(*args: Path | str) -> Any:
    return CliRunner().invoke(group, [str(arg) for arg in args])


def rows(*args: Path | str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*args, "--format", "json").stdout.splitlines()]


# --- preallocated indexes -----------------------------------------------------------------------------------
@pytest.mark.parametrize("marker", [True, False])
def test_zeros_behind_the_entries_of_its_active_indexes_are_no_finding(node: Path, marker: bool) -> None:
    if not marker:
        (node / MARKER).unlink()
    for path in (INDEX, TIME_INDEX):
        assert (node / LOG / path).read_bytes().endswith(bytes(1000))
    assert findings_of(node) == []
    assert findings_of(node / LOG / INDEX) == []


def test_no_entry_at_all_is_no_finding_either(node: Path) -> None:
    (node / LOG / INDEX).write_bytes(bytes(4096))
    (node / LOG / TIME_INDEX).write_bytes(bytes(4092))
    assert {one.severity for one in findings_of(node)} <= {Severity.NOTE}
    assert not {Code.X02, Code.T02} & {one.code for one in findings_of(node)}


def test_the_same_zeros_are_damage_in_another_topic(node: Path) -> None:
    (node / LOG).rename(node / "plain-0")
    found = {(one.code, one.severity) for one in findings_of(node)}
    assert {(Code.X02, Severity.WARNING), (Code.T02, Severity.ERROR)} <= found


def test_zeros_in_a_closed_segment_are_damage(node: Path) -> None:
    (node / LOG / "00000000000000000531.log").touch()
    assert {Code.X02, Code.T02} <= {one.code for one in findings_of(node)}


@pytest.mark.parametrize(("name", "at", "code"), [(INDEX, 7, Code.X04), (TIME_INDEX, 7, Code.T04)])
def test_a_false_entry_is_damage(node: Path, name: str, at: int, code: Code) -> None:
    data = bytearray((node / LOG / name).read_bytes())
    data[at] ^= 1
    (node / LOG / name).write_bytes(data)
    assert (code, Severity.ERROR) in {(one.code, one.severity) for one in findings_of(node)}


def test_every_start_recovers_it_from_its_first_segment_on(node: Path) -> None:
    found = {}
    for marker in (True, False):
        if not marker:
            (node / MARKER).unlink()
        for row in rows("verify", node, "--start", "all"):
            if row["type"] == "prediction":
                assert (row["loads"], row["logEndOffset"], row["bytesLost"]) == (True, 531, 0)
                found[marker, row["start"]] = row["segments"]
    assert len(found) == 6
    assert all(segments == found[True, "clean"] != [] for segments in found.values())


def test_its_indexes_are_sound_for_other_verbs_too(node: Path) -> None:
    done = run("reindex", node / LOG)
    assert (done.exit_code, done.stdout[:14]) == (0, "nothing to do ")
    for args in (("find-offset", "400"), ("find-time", "max")):
        assert run(args[0], node / LOG, args[1], "--scan").stderr == ""
    assert run("retention", node / LOG).exit_code == 0


# --- the snapshot beside segment 0 --------------------------------------------------------------------------
def test_bootstrap_records_are_control_and_metadata_records(node: Path) -> None:
    found = rows("dump", "--print-data-log", node / LOG / BOOTSTRAP)
    records = [row for row in found if row["type"] == "record"]
    assert [row["control"]["type"] for row in records if row["control"]] == [
        "SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS", "SNAPSHOT_FOOTER",
    ]  # fmt: skip
    levels = {
        row["decodedPayload"]["data"]["name"]: row["decodedPayload"]["data"]["featureLevel"]
        for row in records
        if row["decodedPayload"] and row["decodedPayload"]["type"] == "FEATURE_LEVEL_RECORD"
    }
    assert levels["metadata.version"] == 33
    assert levels["share.version"] == 2


def test_damage_in_a_snapshot_is_found(node: Path) -> None:
    path = node / LOG / BOOTSTRAP
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    assert [(one.code, one.file) for one in findings_of(node)] == [(Code.B01, str(path))]


# --- a snapshot that lies beyond the log (starts of Kafka 4.3.1) -----------------------------------------------
SNAPSHOT = "00000000000000000359-0000000001.checkpoint"


def with_damage(node: Path, at: int = 3000) -> Path:
    path = node / LOG / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    return node


def cut(node: Path) -> Path:
    done = run("truncate", with_damage(node) / LOG, "--at-damage", "--apply", "--quarantine", node.parent / "q")
    assert done.exit_code == 0, done.output
    assert f"the snapshot {SNAPSHOT} has what offsets below 359 had done" in done.output
    return node


def test_a_snapshot_beyond_the_end_of_the_log_is_told(node: Path) -> None:
    (found,) = (one for one in findings_of(cut(node)) if one.severity is not Severity.NOTE)
    assert (found.code, found.file) == (Code.S02, str(node / LOG / SNAPSHOT))
    assert (found.severity, found.found, found.offset, found.last_offset) == (Severity.WARNING, 359, 21, 358)
    assert "empties the log and goes on at offset 359" in found.message


def test_a_log_that_a_snapshot_lies_beyond_is_emptied_and_goes_on_at_its_offset(node: Path) -> None:
    for row in rows("verify", cut(node), "--start", "all"):
        if row["type"] == "prediction":
            assert (row["loads"], row["logStartOffset"], row["logEndOffset"]) == (True, 359, 359)
            assert (row["bytesLost"], row["recordsLost"], row["reusedOffsets"]) == (2557, 0, None)
            assert [(one["baseOffset"], one["action"]) for one in row["segments"]] == [(0, "delete"), (359, "create")]
            assert "is ahead of the log" in " ".join(row["assumed"])


def test_offsets_below_the_snapshot_are_neither_lost_nor_given_out_again(node: Path) -> None:
    found = [row for row in rows("verify", with_damage(node), "--start", "all") if row["type"] == "prediction"]
    assert len(found) == 3
    for row in found:
        assert (row["logEndOffset"], row["recordsLost"], row["reusedOffsets"]) == (359, 172, [359, 530])


def test_a_snapshot_that_the_log_reaches_is_no_finding(node: Path) -> None:
    assert not [one for one in findings_of(with_damage(node, 34000)) if one.code is Code.S02]


# --- a snapshot that is damaged ---------------------------------------------------------------------------------
def with_bad_snapshot(node: Path, name: str = SNAPSHOT) -> Path:
    data = bytearray((node / LOG / name).read_bytes())
    data[-200] ^= 1
    (node / LOG / name).write_bytes(data)
    return node


def advice(*args: Path | str) -> str:
    found = rows("verify", *args)
    (finding,) = (one for one in found if one["type"] == "finding" and one["severity"] == "error")
    assert finding["code"] == "B01"
    steps = (one["why"] for one in found if one["type"] == "step" and one["rank"] == "recommended")
    (step,) = (one for one in steps if finding["remedy"] in one)
    assert "consumer" not in step
    return str(step)


def test_a_damaged_snapshot_is_copied_or_moved_away_where_other_files_have_the_same(node: Path) -> None:
    said = advice(with_bad_snapshot(node))
    assert "copy the file of this name, or a newer snapshot, from another controller or broker" in said
    assert f"or move this one away: the snapshot {BOOTSTRAP} and the log behind it have all that is in it" in said
    (node / LOG / BOOTSTRAP).unlink()
    assert "the log has all that is in it" in advice(node)


def test_the_snapshot_that_a_shorter_log_needs_is_not_moved_away(node: Path) -> None:
    said = advice(with_bad_snapshot(cut(node)))
    assert "nothing else here has all that is in it" in said
    assert "move" not in said


def test_an_older_snapshot_that_is_damaged_is_not_needed(node: Path) -> None:
    assert f"no broker reads it while {SNAPSHOT} is here" in advice(with_bad_snapshot(node, BOOTSTRAP))
    assert {row["loads"] for row in rows("verify", node, "--start", "all") if row["type"] == "prediction"} == {True}


def test_a_damaged_snapshot_that_is_named_alone_is_copied(node: Path) -> None:
    assert "from another controller or broker" in advice(with_bad_snapshot(node) / LOG / SNAPSHOT)


def test_a_node_ends_where_its_newest_snapshot_has_a_wrong_crc(node: Path) -> None:
    for row in rows("verify", with_bad_snapshot(node), "--start", "all"):
        if row["type"] == "prediction":
            assert (row["loads"], row["stops"], row["bytesLost"]) == (False, "broker", 0)
            assert row["reasonClass"] == "org.apache.kafka.common.errors.CorruptRecordException"
            assert row["cause"] == {"code": "B01", "file": str(node / LOG / SNAPSHOT)}


def test_damage_of_the_log_that_a_snapshot_covers_is_told_with_the_snapshot(node: Path) -> None:
    (found,) = (one for one in findings_of(with_damage(node)) if one.code is Code.B01)
    assert found.remedy.endswith(f"; the snapshot {SNAPSHOT} has what these records had done")
    (found,) = (one for one in findings_of(with_damage(node, 34000)) if one.offset and one.offset > 359)
    assert "snapshot" not in found.remedy
    assert "consumer" not in found.remedy


# --- the bootstrap snapshot of a log directory ------------------------------------------------------------------
@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    """A log directory with the snapshot that it was formatted with, and nothing but the metadata log."""
    node = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
    (tmp_path / "formatted").mkdir()
    for name in ("bootstrap.checkpoint", "meta.properties"):
        shutil.copy(node / name, tmp_path / "formatted")
    shutil.copytree(node / LOG, tmp_path / "formatted" / LOG)
    return tmp_path / "formatted"


def test_the_bootstrap_snapshot_of_a_log_directory_is_judged_with_it(formatted: Path) -> None:
    assert findings_of(formatted) == []
    lines = run("verify", formatted, "--format", "lines").stdout.splitlines()
    assert f"SOUND\t{formatted}/bootstrap.checkpoint" in lines


@pytest.mark.parametrize(("harm", "code"), [("torn", "L02"), ("bit", "B01")])
def test_a_damaged_bootstrap_snapshot_is_copied_from_the_same_cluster(formatted: Path, harm: str, code: str) -> None:
    path = formatted / "bootstrap.checkpoint"
    data = bytearray(path.read_bytes())
    data[200] ^= harm == "bit"
    path.write_bytes(data[: len(data) - 20 * (harm == "torn")])
    told = []
    for verb, given in (("verify", formatted), ("verify", path), ("dump", path), ("dump", formatted)):
        found = [one for one in rows(verb, given) if one["type"] == "finding" and one["severity"] == "error"]
        told += [(one["code"], one["file"], one["remedy"]) for one in found]
    copy = "copy the file of this name from another controller or broker of the same cluster, or from a backup"
    assert told == [(code, str(path), f"while the broker is stopped, {copy}")] * 4
    (step,) = (one["why"] for one in rows("verify", formatted) if one["type"] == "step")
    assert step.endswith(copy)
    assert run("verify", formatted).exit_code == 3


def test_dump_mends_a_snapshot_of_the_metadata_log_by_a_copy_too(node: Path) -> None:
    found = [one for one in rows("dump", with_bad_snapshot(node) / LOG / SNAPSHOT) if one["type"] == "finding"]
    assert [one["code"] for one in found] == ["B01"]
    assert "copy the file of this name, or a newer snapshot, from another controller" in found[0]["remedy"]
