"""What `kdump verify --start` says of the next start: rows, sentences, what one partition does to its neighbours."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kdump.broker.config import Config
from kdump.broker.load.facts import Start
from kdump.broker.load.log_manager import LoadSettings
from kdump.cli.main import kdump as group
from kdump.render.text.verify import prediction_sentences
from kdump.rows.fact_lines import row_facts
from kdump.rows.verdict import Prediction, SegmentFate
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support.partitions import below, checkpoint, name, segment, write
from tests.support.runs import FIXTURES, copy_tree
from tests.support.segments import batch
from tests.support.verify_runs import items_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from click.testing import Result

KEYS = [
    "type",
    "partition",
    "start",
    "as",
    "broker",
    "loads",
    "stops",
    "reason",
    "reasonClass",
    "logStartOffset",
    "logEndOffset",
    "bytesLost",
    "recordsLost",
    "hiddenRecords",
    "reusedOffsets",
    "bytesRead",
    "cause",
    "assumed",
    "segments",
]
FATES = (SegmentFate(0, "truncate", 5000), SegmentFate(90, "delete", 0))
ROW = Prediction(
    path="logs/t-0",
    partition="t-0",
    start="full",
    broker="4.4",
    loads=True,
    stops=None,
    reason=None,
    reason_class=None,
    log_start_offset=0,
    log_end_offset=40,
    bytes_lost=1_000_000,
    records_lost=7,
    assumed=(),
    segments=FATES,
)


NO_OP = b"\x01\x14\x00\x00"  # NoOpRecord v0


def partition(bases: tuple[int, ...] = (0, 2, 4), values: Sequence[bytes] = (b"value",)) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for base in bases:
        files |= segment(base, [batch(base, values), batch(base + 1, values)])
    return files


def log_dir(root: Path, **partitions: dict[str, bytes]) -> Path:
    files = {".kafka_cleanshutdown": b""}
    for directory, inner in partitions.items():
        files |= below(directory.replace("_", "-"), inner)
    return write(root / "logs", files)


def predicted(*paths: Path, start: tuple[Start, ...] = tuple(Start)) -> list[Prediction]:
    options = LoadSettings(1_700_000_000_000, Config({}), 4096)
    return [item for item in items_of(*paths, starts=start, settings=options) if isinstance(item, Prediction)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["verify", *arguments])


def with_flipped_end(files: dict[str, bytes], base: int) -> dict[str, bytes]:
    data = files[name(base)]
    return {**files, name(base): data[:-1] + bytes([data[-1] ^ 1])}


# --- rows ---------------------------------------------------------------------------------------------------
def test_json_row_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=with_flipped_end(partition(), 2))
    rows = [json.loads(line) for line in run("--format", "json", "--start", "full", str(logs)).stdout.splitlines()]
    found = [row for row in rows if row["type"] == "prediction"]
    assert len(found) == 1
    assert list(found[0]) == KEYS
    size = len(batch(0))
    assert found[0]["segments"] == [
        {"baseOffset": 0, "action": "keep", "size": 2 * size},
        {"baseOffset": 2, "action": "truncate", "size": size},
        {"baseOffset": 4, "action": "delete", "size": 0},
    ]
    assert (found[0]["logEndOffset"], found[0]["bytesLost"], found[0]["recordsLost"]) == (3, 3 * size, 2)
    assert rows[-1]["type"] == "summary"


def test_a_directory_that_a_broker_takes_for_a_stray_is_never_told_as_left_alone() -> None:
    """Nobody reads `assumed` on a terminal: that all is kept would be all that is seen."""
    why = "the broker renames the directory to -stray: partition.metadata is missing"
    row = ROW.replace(loads=False, reason=why, segments=(), bytes_lost=0, records_lost=0, is_stray=True)
    assert not row.changes_nothing
    assert row.takes_intact
    assert prediction_sentences(row, None) == [why]


def test_lines_have_what_becomes_of_each_segment() -> None:
    head, *segments = row_facts(ROW).splitlines()
    assert head.startswith('prediction partition=t-0 start=full broker="4.4" loads=true logStartOffset=0 ')
    assert segments[0] == "prediction.segments partition=t-0 baseOffset=0 action=truncate size=5000"
    assert len(segments) == len(ROW.segments)


def test_sentence_says_the_loss_last() -> None:
    assert prediction_sentences(ROW, 100) == [
        "loads, end offset 40 (was 100): cuts segment 0 at byte 5000, deletes segment 90",
        "60 offsets, 1.0 MB (7 records) lost",
    ]


def test_torn_end_is_said_with_the_offsets_that_are_given_out_again(tmp_path: Path) -> None:
    files = partition()
    last = files[name(4)]
    logs = log_dir(tmp_path, t_0={**files, name(4): last[:-7]})
    at = len(batch(4))
    again = "offset 5 will be reused for new records"
    clean, unclean, full = predicted(logs)
    kept = f"keeps the torn batch at byte {at} of segment 4, and appends behind it; consumers stop there"
    assert prediction_sentences(clean, 5) == [f"loads, end offset 5 (was 6): {kept}", again]
    for row in (unclean, full):
        first, lost, given_out = prediction_sentences(row, 5)
        assert first == f"loads, end offset 5 (was 6): cuts segment 4 at byte {at}"
        assert lost.startswith("1 offset, ")
        assert given_out == again
    assert [row.reused_offsets for row in (clean, unclean, full)] == [(5, 5)] * 3
    assert " reusedOffsets=[5,5]" in row_facts(clean)


def test_a_torn_end_is_not_where_the_log_ended_where_a_checkpoint_knows_more(tmp_path: Path) -> None:
    files = partition()
    logs = log_dir(tmp_path, t_0={**files, name(4): files[name(4)][:-7]})
    (logs / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    for row in predicted(logs):
        assert row.reused_offsets == (5, 8)
        sentences = prediction_sentences(row, 5)
        assert sentences[-1] == "offsets 5..8 will be reused for new records"
        assert " (was 9): " in sentences[0]


def test_offsets_of_a_damaged_end_are_given_out_again_too(tmp_path: Path) -> None:
    clean, *others = predicted(log_dir(tmp_path, t_0=with_flipped_end(partition(), 4)))
    assert (clean.log_end_offset, clean.reused_offsets) == (6, None)
    assert [(row.log_end_offset, row.reused_offsets) for row in others] == [(5, (5, 5))] * 2


def test_a_number_that_is_wrong_under_a_wrong_crc_is_no_offset_that_was_there(tmp_path: Path) -> None:
    spoiled = bytearray(batch(5))
    spoiled[23] = 88  # lastOffsetDelta, the high byte
    for row in predicted(log_dir(tmp_path, t_0={**partition(), name(4): batch(4) + bytes(spoiled) + batch(6)})):
        assert row.reused_offsets == (None if row.start == "clean" else (5, 6))


@pytest.mark.parametrize("stored", [300, 2**40], ids=["in range", "out of range"])
def test_offsets_behind_a_wrong_base_offset_were_never_there(stored: int, tmp_path: Path) -> None:
    """A broker hides the batch, as it goes by what is stored; no offset up to that one was given out before."""
    files = partition()
    moved = stored.to_bytes(8, "big") + batch(4)[8:]
    for row in predicted(log_dir(tmp_path, t_0={**files, name(4): moved + batch(5)}), start=(Start.CLEAN,)):
        assert (row.log_end_offset, row.hidden_records, row.reused_offsets) == (6, 1, None)
        assert prediction_sentences(row, 6)[-1] == "HIDES 1 record"
    cut = {**files, name(2): batch(2)[:-1] + b"!" + batch(3), name(4): moved + batch(5)}
    (full,) = predicted(log_dir(tmp_path / "cut", t_0=cut), start=(Start.FULL,))
    assert (full.log_end_offset, full.reused_offsets) == (2, (2, 5))


def test_an_end_that_only_other_files_tell_of_was_there(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0={**partition(), name(4): batch(4)})
    (logs / "replication-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    for row in predicted(logs):
        assert (row.log_end_offset, row.reused_offsets, row.changes_nothing) == (5, (5, 5), False)
        assert prediction_sentences(row, 5)[0].startswith("loads, end offset 5 (was 6): ")


def test_torn_end_is_not_counted_among_partitions_that_are_left_alone(tmp_path: Path) -> None:
    files = partition()
    logs = log_dir(tmp_path, t_0={**files, name(4): files[name(4)][:-7]}, t_1=partition())
    assert {row.partition: row.changes_nothing for row in predicted(logs, start=(Start.CLEAN,))} == {
        "t-0": False,
        "t-1": True,
    }


def test_sentence_of_many_segments_is_short() -> None:
    fates = tuple(SegmentFate(n, "delete", 0) for n in range(1000))
    assert len(prediction_sentences(ROW.replace(segments=fates), None)[0]) < 120


def test_name_cannot_write_to_the_terminal() -> None:
    row = ROW.replace(partition="\x1b[2J-0", loads=False, stops="broker", reason="of \x1b]0;x\x07", reason_class="X")
    assert "\x1b" not in row_facts(row) + "".join(prediction_sentences(row, None))


def test_predictions_do_not_change_the_exit_status(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=partition((0, 2)), u_0={**partition(), "x.snapshot": b""})
    assert run(str(logs)).exit_code == run("--start", "all", str(logs)).exit_code
    sound = log_dir(tmp_path / "sound", t_0=partition())
    (sound / "not a partition").mkdir()
    assert run("--start", "all", str(sound)).exit_code == run(str(sound)).exit_code


def test_quiet_leaves_predictions_out(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=with_flipped_end(partition(), 2))
    shown = run("--quiet", "--start", "all", str(logs)).stdout
    assert not [line for line in shown.splitlines() if line.startswith("prediction")]


def test_nothing_on_the_disk_is_touched(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=with_flipped_end(partition(), 2))
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in logs.rglob("*")}
    predicted(logs)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in logs.rglob("*")} == before


def test_several_processes_say_the_same(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=with_flipped_end(partition(), 2), t_1=partition())
    now = "1700000000000"
    assert (
        run("--start", "all", "--now", now, str(logs)).stdout
        == run("--start", "all", "--now", now, "-j", "2", str(logs)).stdout
    )


# --- what takes others with it ------------------------------------------------------------------------------
def test_partition_that_ends_the_broker_takes_all_of_its_log_directory_with_it(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=partition(), t_1={**partition(), "x.log": b""})
    rows = predicted(logs)
    assert len(rows) == 6
    assert {(row.loads, row.stops, row.reason_class) for row in rows} == {
        (False, "broker", "java.lang.NumberFormatException")
    }
    assert all("t-1" in (row.reason or "") for row in rows)


def test_partition_named_alone_is_not_judged_by_its_neighbours(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=partition(), t_1={**partition(), "x.log": b""})
    rows = predicted(logs / "t-0")
    assert [row.loads for row in rows] == [True] * 3
    assert all("the other partitions of the log directory can be loaded" in row.assumed for row in rows)


def test_checkpoint_of_epochs_that_cannot_be_read_takes_the_directory_offline(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0={**partition(), "leader-epoch-checkpoint": b"what is this\n"}, t_1=partition())
    rows = predicted(logs, start=(Start.CLEAN,))
    assert {(row.partition, row.stops, row.reason_class) for row in rows} == {
        ("t-0", "logdir", "java.io.IOException"),
        ("t-1", "logdir", "java.io.IOException"),
    }


@pytest.mark.parametrize("file", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_checkpoint_of_offsets_that_cannot_be_read_takes_the_directory_offline(file: str, tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=partition())
    (logs / file).write_bytes(b"0\n1\nhello\n")
    rows = predicted(logs)
    assert {(row.loads, row.stops, row.reason_class) for row in rows} == {(False, "logdir", "java.io.IOException")}
    assert all(file in (row.reason or "") for row in rows)


def test_a_high_watermark_that_cannot_be_read_takes_the_directory_offline_once_its_logs_are_loaded(
    tmp_path: Path,
) -> None:
    """Kafka reads it when it makes the first replica a leader or a follower; the cut before it is done."""
    logs = log_dir(tmp_path, t_0=with_flipped_end(partition(), 2))
    (logs / "replication-offset-checkpoint").write_bytes(bytes(16))
    (row,) = predicted(logs, start=(Start.FULL,))
    assert (row.loads, row.stops, row.reason_class) == (False, "logdir", "java.io.IOException")
    assert row.bytes_lost > 0
    (logs / "t-0").rename(logs / f"t-0.{32 * 'a'}-stray")
    assert all(row.loads for row in predicted(logs, start=(Start.CLEAN,)))


def test_indexes_without_a_log_are_told_to_be_removed(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=partition())
    (logs / "t-0" / name(100, "index")).write_bytes(b"")
    (row,) = predicted(logs, start=(Start.CLEAN,))
    assert row.orphans == (name(100, "index"),)
    assert prediction_sentences(row, None)[0].endswith(f"removes {name(100, 'index')}, whose log is gone")
    assert not row.changes_nothing


def test_directory_of_another_name_ends_the_broker_before_anything_is_cut(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=with_flipped_end(partition(), 2))
    (logs / "lost+found").mkdir()
    rows = predicted(logs)
    assert {(row.loads, row.stops, row.bytes_lost) for row in rows} == {(False, "broker", 0)}


def test_directory_that_waits_for_its_deletion_has_no_row_but_can_end_the_broker(tmp_path: Path) -> None:
    deleted = "u-0." + 32 * "a" + "-delete"
    logs = log_dir(tmp_path, t_0=partition())
    write(logs, below(deleted, partition()))
    assert {(row.partition, row.loads) for row in predicted(logs)} == {("t-0", True)}
    write(logs, below(deleted, {"x.log": b""}))
    assert {(row.partition, row.loads) for row in predicted(logs)} == {("t-0", False)}


def test_metadata_log_is_recovered_whole_at_every_start(tmp_path: Path) -> None:
    logs = log_dir(tmp_path)
    write(logs, below("__cluster_metadata-0", with_flipped_end(partition(values=[NO_OP]), 2)))
    rows = predicted(logs)
    assert [row.log_end_offset for row in rows] == [3, 3, 3]


def test_recovery_point_decides_what_an_unclean_start_looks_at(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=with_flipped_end(partition(), 2))
    ends = {}
    for point in (0, 3, 4):
        (logs / "recovery-point-offset-checkpoint").write_bytes(checkpoint(("t", 0, point)))
        ends[point] = [row.log_end_offset for row in predicted(logs)]
    assert ends == {0: [6, 3, 3], 3: [6, 3, 3], 4: [6, 6, 3]}


def test_partition_that_cannot_be_read_has_no_row_and_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = log_dir(tmp_path, t_0=partition(), t_1=partition())

    def broken(directory: PartitionDir) -> Any:
        if directory.path.endswith("t-0"):
            raise OSError(5, os.strerror(5), directory.path)
        return sources(directory)

    sources = PartitionDir.sources
    monkeypatch.setattr(PartitionDir, "sources", broken)
    settings = LoadSettings(0, Config({}), 4096)
    found = items_of(logs, starts=(Start.CLEAN,), settings=settings)
    assert [item.partition for item in found if isinstance(item, Prediction)] == ["t-1"]
    assert [item.kind for item in found if isinstance(item, OpenFailure)] == ["read"]


def test_file_that_becomes_shorter_meanwhile_ends_nothing(tmp_path: Path) -> None:
    directory = log_dir(tmp_path, t_0=partition()) / "t-0"
    source = PartitionDir(str(directory), LogDir(str(tmp_path))).sources()[name(2)]
    os.truncate(directory / name(2), 20)
    with pytest.raises(OSError, match="shorter"):
        source.read_at(0, 100)


# --- options ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("option", [("--now", "5"), ("--index-interval-bytes", "5")])
def test_option_that_only_predictions_need_is_refused_without_them(option: tuple[str, str], tmp_path: Path) -> None:
    result = run(*option, str(tmp_path))
    assert result.exit_code == 2
    assert "--start" in result.stderr


def test_interval_is_the_option_else_the_configuration_else_what_the_indexes_tell(tmp_path: Path) -> None:
    logs = log_dir(tmp_path, t_0=segment(0, [batch(n) for n in range(40)], interval=600))
    config = tmp_path / "server.properties"
    config.write_text("# a broker\nlog.index.interval.bytes = 700\n")
    given: list[tuple[str, ...]] = [
        ("--index-interval-bytes", "600", "--config", str(config)),
        ("--config", str(config)),
        (),
    ]
    said = [run("--start", "full", "--format", "lines", *options, str(logs)).stdout for options in given]
    rows = ["\n".join(line for line in text.splitlines() if line.startswith("prediction")) for text in said]
    assert "index.interval.bytes" not in rows[0]
    assert "rebuild-index" not in rows[0]
    assert "index.interval.bytes" not in rows[1]
    assert " baseOffset=0 action=rebuild-index " in rows[1]
    assert re.search(r'assumed=\["index.interval.bytes=\d+ \(by the stored indexes\)",', rows[2])
    assert "rebuild-index" not in rows[2]


@pytest.mark.parametrize("text", ["", "nothing", "max", "latest"])
def test_clock_that_is_no_time_is_refused(text: str, tmp_path: Path) -> None:
    assert run("--start", "all", "--now", text, str(tmp_path)).exit_code == 2


def test_refused_options_do_not_drive_the_terminal(tmp_path: Path) -> None:
    config = tmp_path / "\x1b[31m"
    config.write_text("index.interval.bytes=x")
    for args in (["--now", "\x1b[31m"], ["--config", str(config)]):
        refused = run("--start", "all", *args, str(tmp_path))
        assert refused.exit_code == 2
        assert "\\x1b[31m" in refused.stderr
        assert "\x1b" not in refused.stderr


def test_configuration_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("index.interval.bytes=many\n")
    for path in (tmp_path, tmp_path / "gone", tmp_path / "bad"):
        result = run("--start", "all", "--config", str(path), str(tmp_path))
        assert result.exit_code == 2
        assert "--config" in result.stderr


def starts_of(root: Path) -> list[dict[str, Any]]:
    run = CliRunner().invoke(group, ["verify", "--start", "clean", "--format", "json", str(root)])
    return [json.loads(line) for line in run.stdout.splitlines()]


def of_a_broker(root: Path) -> Path:
    return copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir", root)


def row_of(root: Path) -> dict[str, Any]:
    (row,) = (one for one in starts_of(root) if one["type"] == "prediction")
    return row


def test_a_kraft_broker_takes_a_partition_without_a_topic_id_for_a_stray(tmp_path: Path) -> None:
    root = of_a_broker(tmp_path / "logs")
    metadata = root / "plain-0" / "partition.metadata"
    assert row_of(root)["loads"]
    metadata.unlink()
    row = row_of(root)
    assert (row["loads"], row["stops"], row["reasonClass"]) == (False, None, None)
    assert row["reason"] == "the broker renames the directory to -stray: partition.metadata is missing"
    assert row["cause"]["code"] == "K05"
    assert row["cause"]["file"].endswith("plain-0/partition.metadata")
    properties = root / "meta.properties"
    properties.write_text(properties.read_text().replace("version=1", "version=0"))
    assert "stray" not in (row_of(root)["reason"] or "")


def test_a_log_directory_without_meta_properties_is_assumed_to_have_a_sister(tmp_path: Path) -> None:
    root = of_a_broker(tmp_path / "logs")
    (root / "meta.properties").unlink()
    assert "another log.dir of the broker has meta.properties" in " ".join(row_of(root)["assumed"])
    assert "meta.properties" not in " ".join(row_of(root / "plain-0")["assumed"])


@pytest.mark.parametrize(("text", "stops"), [("", "broker"), ("version: 0\n", "broker"), ("x\n", "logdir")])
def test_the_finding_of_partition_metadata_says_what_the_prediction_says(text: str, stops: str, tmp_path: Path) -> None:
    root = of_a_broker(tmp_path / "logs")
    (root / "plain-0" / "partition.metadata").write_text(text)
    assert row_of(root)["stops"] == stops
    found = [one for one in starts_of(root) if one.get("code") == "K05"]
    assert found
    assert {"a broker ends" in one["remedy"] for one in found} == {stops == "broker"}


# --- meta.properties and quorum-state (each as a broker of 4.3.1 has started on it) --------------------------------
BAD_PROPERTIES = ["version=1\n", "version=7\n", "version=zzz\n", "a=\\u12x4\n"]
NO_NODE = ["", "garbage\n", "node.id=1\ncluster.id=x\n", "\0\0\0"]
METADATA_NODE = FIXTURES / "kafka-4.4.0" / "clean" / "node1"


def rows_of(root: Path) -> list[dict[str, Any]]:
    run = CliRunner().invoke(group, ["verify", "--start", "all", "--format", "json", str(root)])
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.exit_code == 3
    return [one for one in rows if one["type"] == "prediction"]


@pytest.mark.parametrize("text", BAD_PROPERTIES)
def test_meta_properties_that_cannot_be_read_take_the_log_directory_offline(text: str, tmp_path: Path) -> None:
    root = of_a_broker(tmp_path / "logs")
    (root / "meta.properties").write_text(text)
    (root / "lost+found").mkdir()  # which ends a broker that looks at the directory
    for row in rows_of(root):
        assert (row["loads"], row["stops"], row["bytesLost"]) == (False, "logdir", 0)
        assert row["cause"] == {"code": "K03", "file": str(root / "meta.properties")}
        assert row["reasonClass"].startswith("java.lang.")


@pytest.mark.parametrize("text", BAD_PROPERTIES)
def test_meta_properties_beside_the_metadata_log_end_the_broker(text: str, tmp_path: Path) -> None:
    root = copy_tree(METADATA_NODE, tmp_path / "logs")
    (root / "meta.properties").write_text(text)
    assert {(row["loads"], row["stops"], row["cause"]["code"]) for row in rows_of(root)} == {(False, "broker", "K03")}


@pytest.mark.parametrize("text", NO_NODE)
def test_meta_properties_without_a_node_are_an_error_and_end_the_broker(text: str, tmp_path: Path) -> None:
    root = of_a_broker(tmp_path / "logs")
    (root / "meta.properties").write_text(text)
    assert [one["code"] for one in starts_of(root) if one["type"] == "finding"] == ["K03"]
    for row in rows_of(root):
        assert (row["loads"], row["stops"], row["reasonClass"]) == (False, "broker", "java.lang.RuntimeException")
        assert "node ID not found" in row["reason"]


def test_zeros_behind_sound_meta_properties_are_told_and_keep_nothing_from_loading(tmp_path: Path) -> None:
    root = of_a_broker(tmp_path / "logs")
    with (root / "meta.properties").open("ab") as file:
        file.write(bytes(3))
    assert {row["loads"] for row in rows_of(root)} == {True}


@pytest.mark.parametrize(
    ("text", "thrown"),
    [
        ("{", "java.io.UncheckedIOException"),
        ("", "java.io.UncheckedIOException"),
        ('{"data_version":7}', "java.lang.IllegalStateException"),
    ],
)
def test_a_quorum_state_that_cannot_be_read_ends_the_broker(text: str, thrown: str, tmp_path: Path) -> None:
    root = copy_tree(METADATA_NODE, tmp_path / "logs")
    path = root / "__cluster_metadata-0" / "quorum-state"
    path.write_text(text)
    for row in rows_of(root):
        assert (row["loads"], row["stops"], row["reasonClass"]) == (False, "broker", thrown)
        assert row["cause"] == {"code": "K03", "file": str(path)}


def test_the_html_page_says_that_a_broker_does_not_start_for_meta_properties(tmp_path: Path) -> None:
    root = copy_tree(METADATA_NODE, tmp_path / "logs")
    (root / "meta.properties").write_text("")
    page = CliRunner().invoke(group, ["verify", "--start", "all", "--format", "html", "--now", "0", str(root)]).stdout
    assert "the broker ends because of" in page
    assert "node ID not found" in page
