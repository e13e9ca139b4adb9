"""What a broker deletes and rolls, as 4.3.1 did it; configuration; how it is said; what damage does to it."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.config import DEFAULTS, Config, check_name
from kdump.broker.log_facts import LogFiles, LogReader
from kdump.broker.releases import rules_of
from kdump.broker.remote_copy import remote_copy
from kdump.broker.retention import Append, RetentionFacts, SegmentFacts, delete, first_deleted, rolling
from kdump.finding import Finding
from kdump.format.batch.window import Buffer
from kdump.format.source import BytesSource
from kdump.item import Progress
from kdump.render.retention_rows import retained_fields
from kdump.retention.run import retention
from kdump.rows.json_lines import line
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support import metadata_records
from tests.support.cleaner_cases import (
    CLEANUP,
    LIMIT,
    cases,
    cases_of,
    codes,
    options,
    recorded,
    retained,
    run,
    set_up,
)  # fmt: skip
from tests.support.partitions import checkpoint, name, segment, write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import Record, batch
from tests.support.terminal import run_in_terminal

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600_000
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
ORDERS = CLEANUP / "partitions" / "order" / "logdir"


def unexpected(one: Finding | OpenFailure) -> None:
    """Nothing is wrong here."""
    raise AssertionError(one)


# --- as Kafka did it ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("file", recorded("deletion"))
def test_the_segments_that_kafka_deleted_are_deleted_for_its_reasons(file: str, tmp_path: Path) -> None:
    for case in cases("deletion", file):
        place, config = set_up(case, tmp_path / "d")
        start = case.get("delete_records_to")
        found = retained(
            run(place, config, case.get("clock_ms", 0), high_watermark=case.get("hw"), log_start_offset=start)
        )
        row: dict[str, Any] = retained_fields(found)
        expected = case["result"]
        assert row["highWatermark"] == expected["high_watermark"], case["id"]
        for mine, kafka in zip(row["segments"], expected["segments"], strict=True):
            assert (mine["baseOffset"], mine["size"]) == (kafka["base"], kafka["size"]), case["id"]
            assert (mine["largestTimestamp"], mine["from"]) == (kafka["largestTimestamp"], kafka["from"]), case["id"]
            assert mine["maxInData"] == kafka.get("max_in_data", mine["maxInData"]), case["id"]
        if case["kind"] == "first":
            clocks = [one["clock_ms"] for one in expected["first_deleted"]]
            assert [one["firstDeletedAt"] for one in row["segments"]] == clocks, case["id"]
            continue
        gone = [[one["baseOffset"], one["reason"]] for one in row["segments"] if one["deleted"]]
        assert gone == expected["deleted"], case["id"]
        assert [row["rolledTo"]] == (expected["rolled_to"] or [None]), case["id"]
        assert row["logStartOffset"] == expected["log_start_offset"], case["id"]
        assert row["logEndOffset"] == expected["log_end_offset"], case["id"]
        assert row["logStartOffsetAfter"] == expected["log_start_offset_after"], case["id"]


@pytest.mark.parametrize("case", cases_of("rolling.jsonl"), ids=lambda case: case["id"])
def test_an_append_rolls_where_kafka_rolled(case: dict[str, Any], tmp_path: Path) -> None:
    place, config = set_up(case, tmp_path / "d")
    (partition,) = [path for path in place.iterdir() if path.is_dir()]
    files = LogFiles(PartitionDir(str(partition), LogDir(str(place))), unexpected, LIMIT)
    active = LogReader(files, Buffer(BytesSource(b""), 1 << 16)).active().replace(opened_at=case["opened_at"])
    expected = case["result"]
    append = Append(expected["append_bytes"], case["append"]["timestamp"], expected["append_last_offset"])
    found = rolling(active, append, Config(config).of_topic(None), case["clock_ms"])
    conditions = expected["conditions"]
    assert found.size == conditions["size"]
    assert found.time == conditions["time"]
    assert found.index_full == conditions["index_full"]
    assert found.timeindex_full == conditions["timeindex_full"]
    assert found.offset_overflow == conditions["offset_overflow"]
    assert found.rolls == expected["should_roll"]


def test_when_a_segment_without_timestamps_was_opened_is_on_no_disk(tmp_path: Path) -> None:
    (case,) = [one for one in cases_of("rolling.jsonl") if one["id"] == "rolling-8"]
    place, config = set_up(case, tmp_path / "d")
    assert retained(run(place, config, case["clock_ms"])).rolling.rolls is None


# --- the rules one by one -------------------------------------------------------------------------------------
def log(*segments: tuple[int, int, int], start: int = 0, watermark: int = 300) -> RetentionFacts:
    """Segments of base offset, size and largest timestamp; the log ends at 300."""
    return RetentionFacts([SegmentFacts(*one, "index", one[2]) for one in segments], start, 300, watermark)


def configured(**given: str) -> Any:
    return Config({key.replace("_", "."): value for key, value in given.items()}).of_topic("t")


NEWEST = "a broker of Kafka 4.4, the newest known; --broker names another"
THREE = ((0, 100, 10), (100, 100, 20), (200, 100, 30))


def test_a_young_segment_protects_all_after_it() -> None:
    young_first = log((0, 100, 1000), (100, 100, 20), (200, 100, 30))
    assert delete(young_first, configured(retention_ms="100"), 500).reasons == []
    assert first_deleted(young_first, configured(retention_ms="100"), 500) == [1101, 1101, 1101]


def test_the_age_must_be_more_than_retention_ms() -> None:
    assert len(delete(log(*THREE), configured(retention_ms="100"), 110).reasons) == 0
    assert len(delete(log(*THREE), configured(retention_ms="100"), 111).reasons) == 1


def test_what_goes_by_size_leaves_at_least_retention_bytes() -> None:
    assert delete(log(*THREE), configured(retention_bytes="201", retention_ms="-1"), 0).reasons == []
    assert delete(log(*THREE), configured(retention_bytes="200", retention_ms="-1"), 0).reasons == ["size"]


def test_what_goes_whatever_the_clock_says_goes_now() -> None:
    config = configured(retention_bytes="200", retention_ms="100")
    assert first_deleted(log(*THREE), config, 50) == [50, 121, 131]


def test_a_time_beyond_all_clocks_is_never() -> None:
    assert first_deleted(log(*THREE), configured(retention_ms=str(2**63 - 1)), 0) == [None, None, None]


def test_what_lies_below_the_log_start_goes_without_a_policy_too() -> None:
    found = delete(log(*THREE, start=150), configured(cleanup_policy=""), 10**15)
    assert (found.reasons, found.start_offset) == (["log start offset"], 150)


def test_when_all_goes_an_empty_segment_is_rolled() -> None:
    found = delete(log(*THREE), configured(retention_ms="0"), 10**6)
    assert (len(found.reasons), found.rolled_to, found.start_offset) == (3, 300, 300)


def test_jitter_makes_it_unknown_whether_time_rolls(tmp_path: Path) -> None:
    config = Config({"segment.ms": "1000", "segment.jitter.ms": "600"}).of_topic(None)
    files = write(tmp_path, segment(0, [batch(0, [Record(b"k")], base_timestamp=5000)]))
    reader = LogReader(LogFiles(PartitionDir(str(files), LogDir(str(tmp_path))), unexpected, LIMIT), BUFFER)
    answers = [rolling(reader.active(), Append(70, 5000 + age, 1), config, 0).rolls for age in (400, 401, 1000, 1001)]
    assert answers == [False, None, None, True]


BUFFER = Buffer(BytesSource(b""), 1 << 16)


# --- where a time comes from ----------------------------------------------------------------------------------
def partition(tmp_path: Path, *, clean: bool = True, **more: bytes) -> Path:
    """A log.dir with two segments, the data of both from 2023-11-14."""
    files = {**segment(0, [batch(0, [Record(b"a")], base_timestamp=1_700_000_000_000)]),
             **segment(1, [batch(1, [Record(b"b")], base_timestamp=1_700_000_001_000)])}  # fmt: skip
    write(tmp_path / "t-0", files)
    write(tmp_path, {key.replace("_", "-"): data for key, data in more.items()})
    if clean:
        write(tmp_path, {".kafka_cleanshutdown": b""})
    return tmp_path


def times(place: Path) -> list[tuple[int, str]]:
    return [(one.largest, one.source) for one in retained(run(place, {}, 0)).log.segments]


def test_after_a_crash_what_lies_above_the_recovery_point_is_judged_by_its_data(tmp_path: Path) -> None:
    place = partition(tmp_path, clean=False, recovery_point_offset_checkpoint=checkpoint(("t", 0, 1)))
    (place / "t-0" / name(0, "timeindex")).write_bytes(bytes(12))
    (place / "t-0" / name(1, "timeindex")).write_bytes(bytes(24))
    assert times(place) == [(0, "index"), (1_700_000_001_000, "index")]
    write(place, {"recovery-point-offset-checkpoint": checkpoint()})
    assert times(place) == [(1_700_000_000_000, "index"), (1_700_000_001_000, "index")]


def test_a_missing_offset_index_makes_the_time_index_anew(tmp_path: Path) -> None:
    place = partition(tmp_path)
    (place / "t-0" / name(0, "timeindex")).write_bytes(bytes(12))
    assert times(place)[0] == (0, "index")
    (place / "t-0" / name(0, "index")).unlink()
    assert times(place)[0] == (1_700_000_000_000, "index")


@pytest.mark.parametrize(
    ("entries", "now", "code"),
    [
        (bytes(12), 1_700_000_000_001, "T02"),
        ((1_800_000_000_000).to_bytes(8, "big") + bytes(4), 1_700_604_800_001, "T04"),
        ((1_600_000_000_000).to_bytes(8, "big") + bytes(4), 1_700_000_000_001, "T05"),
        (b"", 1_700_604_800_001, "T05"),
    ],
    ids=["zeros", "too-late", "too-early", "empty"],
)
def test_a_wrong_time_is_a_finding_where_it_changes_what_goes(
    entries: bytes, now: int, code: str, tmp_path: Path
) -> None:
    place = partition(tmp_path)
    (place / "t-0" / name(0, "timeindex")).write_bytes(entries)
    os.utime(place / "t-0" / name(0), ns=(1_800_000_000 * 10**9,) * 2)
    assert codes(run(place, {"retention.ms": str(7 * 24 * HOUR)}, now)) == [code]
    assert codes(run(place, {"retention.ms": "-1"}, now)) == []


def test_a_segment_without_timestamps_misleads_nobody(tmp_path: Path) -> None:
    place = write(tmp_path / "t-0", segment(0, [batch(0, [Record(b"a")], base_timestamp=-1)]))
    found = run(place, {"retention.ms": "0"}, 10**15)
    assert codes(found) == []
    assert retained(found).log.segments[0].max_in_data == -1


# --- configuration --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 168 * HOUR),
        ({"log.retention.hours": "2"}, 2 * HOUR),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-7"}, -1),
        ({"log.retention.ms": "4", "retention.ms": "5"}, 5),
        ({"log.retention.hours": str(2**62)}, 2**63 - 1),
    ],
)
def test_the_topic_wins_over_the_broker_and_the_finer_unit_over_the_coarser(
    given: dict[str, str], retention_ms: int
) -> None:
    assert Config(given).of_topic("t").retention_ms == retention_ms


@pytest.mark.parametrize(
    "given",
    [
        {"retention.ms": "soon"},
        {"retention.ms": "-2"},
        {"cleanup.policy": "drop"},
        {"min.cleanable.dirty.ratio": "2"},
        {"segment.bytes": "0"},
        {"message.timestamp.type": "create"},
        {"retention.bytes": "9223372036854775808"},
        {"min.cleanable.dirty.ratio": "nan"},
        {"min.cleanable.dirty.ratio": "0_1"},
    ],
)
def test_a_value_that_no_broker_takes_is_refused_in_one_sentence(given: dict[str, str]) -> None:
    ((key, text),) = given.items()
    with pytest.raises(ValueError, match="wanted") as refused:
        Config(given)
    assert str(refused.value).startswith(f"{key}={text}: ")


def test_policies_are_words_with_commas_and_blanks() -> None:
    both = Config({"cleanup.policy": " compact , delete "}).of_topic(None)
    assert both.compact
    assert both.delete
    neither = Config({"cleanup.policy": ""}).of_topic(None)
    assert not neither.compact
    assert not neither.delete


def test_topics_of_brokers_are_taken_as_brokers_make_them() -> None:
    config = Config({"log.cleanup.policy": "delete"})
    assert config.of_topic("__consumer_offsets").compact
    assert config.of_topic("__consumer_offsets").segment_bytes == 104_857_600
    assert "cleanup.policy=compact" in config.assumed("__consumer_offsets")
    assert not Config({"cleanup.policy": "delete"}).of_topic("__consumer_offsets").compact
    assert config.assumed("orders") == ""


def test_where_nobody_gives_a_setting_the_defaults_that_are_taken_are_said(tmp_path: Path) -> None:
    assert Config({}).assumed("orders") == DEFAULTS
    assert DEFAULTS.endswith(": retention.ms=604800000 retention.bytes=-1")
    assert Config({"retention.ms": "1"}).assumed("orders") == ""
    place, at = partition(tmp_path), ["--now", "0"]
    _, out, err = kdump(str(place), *at, "--format", "json", cwd=tmp_path)
    assert (json.loads(out.splitlines()[0])["assumed"], err) == ([NEWEST, DEFAULTS], "")
    told = f"{DEFAULTS}; give them by --config or --set, or name __cluster_metadata-0 among the paths"
    _, out, err = kdump(str(place), *at, cwd=tmp_path)
    assert "cleanup.policy=unknown  retention.ms=604800000  retention.bytes=-1  (else Kafka's defaults)" in out
    assert told in err
    seen = run_in_terminal(["retention", str(place), *at], tmp_path).raw
    assert told in " ".join(seen.split())
    seen = run_in_terminal(["retention", str(place), *at, "--set", "retention.ms=1"], tmp_path).raw
    assert "defaults" not in seen


def test_a_mistyped_setting_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'retention\.ms'"):
        check_name("retention.msec")


# --- tiered storage: what Kafka's own classes did is in tests/support/tiered_retention.py ----------------------
def tiered(**given: str) -> Any:
    return configured(remote_storage_enable="true", **given)


def test_a_segment_that_remote_storage_does_not_have_never_goes() -> None:
    copied = log(*THREE).replace(remote=99)
    assert delete(copied, tiered(local_retention_ms="100"), 500).reasons == ["time, largest record timestamp"]
    assert delete(copied.replace(remote=98), tiered(local_retention_ms="100"), 500).reasons == []
    assert first_deleted(copied, tiered(local_retention_ms="100"), 500) == [111, None, None]


def test_where_nothing_is_copied_the_whole_log_is_on_this_disk() -> None:
    disabled = tiered(local_retention_ms="1", retention_ms="1000", remote_log_copy_disable="true")
    assert delete(log(*THREE), disabled, 500).reasons == []
    assert not tiered(cleanup_policy="compact").is_tiered


def test_a_tiered_log_begins_where_it_did_and_its_active_segment_is_rolled_to_be_copied() -> None:
    found = delete(log(*THREE).replace(remote=199), tiered(local_retention_bytes="0"), 0)
    assert (found.reasons, found.start_offset, found.local_start_offset) == (["size", "size"], 0, 200)
    assert found.rolled_to == 300


def test_no_policy_deletes_a_tiered_log_from_this_disk() -> None:
    found = delete(log(*THREE).replace(remote=99), tiered(cleanup_policy="", local_retention_bytes="0"), 0)
    assert found.reasons == ["size"]


def rows_of_tiered(tmp_path: Path, *more: str) -> dict[str, Any]:
    """The row of two segments of a tiered topic, the first with base offset 0, the second with 1."""
    given = "--set", "remote.storage.enable=true", "--set", "retention.ms=-1", "--now", "1700000002000"
    _, out, _ = kdump(str(partition(tmp_path)), *given, *more, "--format", "json", cwd=tmp_path)
    row: dict[str, Any] = json.loads(out.splitlines()[0])
    return row


@pytest.mark.parametrize(
    ("lag", "highest"), [("0", 0), ("2000", 0), ("2001", -1), ("-1", -1)], ids=["none", "behind", "not-yet", "never"]
)
def test_from_4_4_on_a_segment_is_copied_when_it_lags_behind(lag: str, highest: int, tmp_path: Path) -> None:
    lags = "--set", f"remote.copy.lag.ms={lag}", "--set", "remote.copy.lag.bytes=-1"
    row = rows_of_tiered(tmp_path / "a", *lags)
    assert (row["highestRemoteOffset"], [one["copied"] for one in row["segments"]]) == (highest, [highest == 0, False])
    assert "what remote storage has is in no file of a partition" in row["assumed"][-1]
    assert rows_of_tiered(tmp_path / "b", *lags, "--broker", "4.3")["highestRemoteOffset"] == 0


def test_of_a_segment_that_begins_at_the_highest_remote_offset_releases_count_differently(tmp_path: Path) -> None:
    known = "--highest-remote-offset", "1"
    new, old = rows_of_tiered(tmp_path / "a", *known), rows_of_tiered(tmp_path / "b", *known, "--broker", "4.3")
    assert (new["localOnlySegments"], old["localOnlySegments"]) == (0, 1)
    assert not any("remote" in one for one in new["assumed"])


def test_text_says_what_remote_storage_has(tmp_path: Path) -> None:
    given = "--set", "remote.storage.enable=true", "--set", "local.retention.ms=1", "--set", "retention.ms=5"
    now = "--now", "1700000002000"
    _, out, _ = kdump(str(partition(tmp_path)), *given, *now, "--highest-remote-offset", "-1", cwd=tmp_path)
    said = " ".join(out.split())
    assert "0: stays: remote storage does not have it" in said
    assert "remote storage has nothing; 2 segments, 144 B, only on this disk" in said


def test_nothing_is_copied_of_a_topic_that_is_not_tiered(tmp_path: Path) -> None:
    place = partition(tmp_path)
    files = LogFiles(PartitionDir(str(place / "t-0"), LogDir(str(place))), unexpected, LIMIT)
    assert remote_copy(files, log(*THREE), configured(), rules_of(), 0) is None


# --- the command ----------------------------------------------------------------------------------------------
def kdump(*args: str, cwd: Path) -> tuple[int, str, str]:
    found = run_kdump(["retention", *args], cwd)
    return found.exit, found.stdout.decode(), found.stderr.decode()


def test_text_has_a_line_for_each_segment_and_says_why_it_goes(tmp_path: Path) -> None:
    place = partition(tmp_path)
    code, out, err = kdump(str(place), "--set", "retention.ms=1000", "--now", "1700000001500", cwd=tmp_path)
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "0: goes now: time, largest record timestamp: 2023-11-14T22:13:20.000Z is 1500 ms old" in said
    assert "1: stays: until 2023-11-14T22:13:22.001Z, 1 s after 2023-11-14T22:13:21.000Z" in said
    assert out.splitlines()[-1] == "1 partition, 2 segments: 1 segment would go now, 72 B"


def test_json_has_exactly_the_keys_of_a_row(tmp_path: Path) -> None:
    given = "--now", "0", "--format", "json", "--pass", "--set", "cleanup.policy=delete"
    code, out, _ = kdump(str(partition(tmp_path)), *given, cwd=tmp_path)
    row, cleaned = map(json.loads, out.splitlines())
    assert code == 0
    assert list(row) == [
        "type", "partition", "now", "logStartOffset", "logEndOffset", "highWatermark", "logStartOffsetAfter",
        "rolledTo", "localLogStartOffset", "localLogStartOffsetAfter", "highestRemoteOffset", "copyableUpTo",
        "localOnlySegments", "localOnlySize", "assumed", "policy", "segments",
    ]  # fmt: skip
    assert list(row["segments"][0]) == [
        "baseOffset", "size", "largestTimestamp", "from", "maxInData", "deleted", "reason", "firstDeletedAt",
        "copied",
    ]  # fmt: skip
    assert list(cleaned) == [
        "type", "partition", "now", "firstDirtyOffset", "firstUncleanableOffset", "why", "cleanUntilOffset",
        "cleanBytes", "cleanableBytes", "totalBytes", "dirtyRatio", "mustCompactNow", "chosen", "assumed", "endOffset",
        "segments",
    ]  # fmt: skip
    assert out.splitlines()[0] == line(row.pop("type"), row)


def test_settings_come_from_a_file_and_from_the_command_line_which_wins(tmp_path: Path) -> None:
    place = partition(tmp_path / "d")
    write(tmp_path, {"server.properties": b"# a broker\nlog.retention.ms : 1\nzookeeper.connect=x\n"})
    _, out, _ = kdump(str(place), "--config", "server.properties", cwd=tmp_path)
    assert "retention.ms=1 " in out
    _, out, _ = kdump(str(place), "--config", "server.properties", "--set", "log.retention.ms=2", cwd=tmp_path)
    assert "retention.ms=2 " in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--set", "retention.ms"], "--set wants NAME=VALUE"),
        (["--set", "retention.msec=1"], "did you mean 'retention.ms'"),
        (["--set", "retention.ms=x"], "is wanted"),
        (["--set", "retention.ms=9223372036854775808"], "a whole number from -1 to 9223372036854775807"),
        (["--config", "none"], "no such file: none"),
        (["--config", "bad"], "Malformed"),
        (["--config", "."], "is a directory"),
        (["--now", "soon"], "is not a valid time"),
        (["--now", "max"], "is not a valid time"),
        (["--high-watermark", "-1"], "--high-watermark"),
    ],
)
def test_a_mistake_in_the_use_is_one_line_and_opens_nothing(args: list[str], said: str, tmp_path: Path) -> None:
    write(tmp_path, {"bad": rb"retention.ms=\u00"})
    code, out, err = kdump("there-is-no-such", *args, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]


# --- damage ---------------------------------------------------------------------------------------------------
def test_a_damaged_log_is_a_finding_and_is_judged_all_the_same(tmp_path: Path) -> None:
    place = partition(tmp_path)
    log_file = place / "t-0" / name(0)
    log_file.write_bytes(log_file.read_bytes()[:-1] + b"\xff")
    found = run(place, {}, 0)
    assert codes(found) == ["B01"]
    assert retained(found).log.segments[0].max_in_data == -1
    known = str(place), "--set", "cleanup.policy=delete"
    assert kdump(*known, cwd=tmp_path)[0] == 3
    assert kdump(*known, "--fail-on", "never", cwd=tmp_path)[0] == 0
    assert kdump(str(place), cwd=tmp_path)[0] == 6


def test_a_finding_is_written_of_every_partition_that_has_it(tmp_path: Path) -> None:
    for number in range(6):
        shutil.copytree(FIXTURES / "log-l02-torn-batch", tmp_path / f"orders-{number}")
    done = run_kdump(["retention", ".", "--set", "cleanup.policy=delete"], tmp_path)
    lines = done.stdout.decode().splitlines()
    torn = [line for line in lines if line.startswith("error L02 ")]
    assert [line.split()[3].partition(":")[0] for line in torn] == [
        f"./orders-{number}/00000000000000000000.log" for number in range(6)
    ]
    of_partition = [line.split()[0] for line in lines if line.startswith(("error", "orders-"))]
    assert of_partition == [word for number in range(6) for word in ("error", f"orders-{number}")]


@pytest.mark.parametrize("tail", [b"\0" * 100, b"garbage", bytes(61)], ids=["zeros", "short", "header"])
def test_bytes_behind_the_last_batch_are_a_finding(tail: bytes, tmp_path: Path) -> None:
    place = partition(tmp_path)
    log_file = place / "t-0" / name(1)
    log_file.write_bytes(log_file.read_bytes() + tail)
    found = run(place, {}, 0)
    assert codes(found)
    assert retained(found).log.end_offset == 2


def test_a_log_start_beyond_the_end_is_said(tmp_path: Path) -> None:
    place = partition(tmp_path, log_start_offset_checkpoint=checkpoint(("t", 0, 99)))
    assert codes(run(place, {}, 0)) == ["K02"]
    assert codes(run(place, {"cleanup.policy": "compact"}, 0, compaction=True)) == ["K02"]


def test_a_malformed_checkpoint_is_a_finding(tmp_path: Path) -> None:
    place = partition(tmp_path, log_start_offset_checkpoint=b"0\n1\nt 0\n", cleaner_offset_checkpoint=b"1\n0\n")
    assert codes(run(place, {}, 0, compaction=True)) == ["K03", "K03"]


def test_what_a_broker_is_about_to_throw_away_is_not_judged(tmp_path: Path) -> None:
    place = partition(tmp_path)
    (place / "t-0").rename(place / f"t-0.{'a' * 32}-delete")
    (skipped,) = run(place, {}, 0)
    assert isinstance(skipped, OpenFailure)
    assert kdump(str(place), cwd=tmp_path)[0] == 0


def test_an_unfinished_swap_is_a_warning(tmp_path: Path) -> None:
    place = partition(tmp_path)
    (place / "t-0" / f"{name(0)}.swap").write_bytes(b"")
    assert codes(run(place, {}, 0)) == ["F08"]
    known = str(place), "--set", "cleanup.policy=delete"
    assert kdump(*known, "--fail-on", "warning", cwd=tmp_path)[0] == 4


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none", 10),
        ("dangling", 10),
        ("loop", 5),
        ("t-0/00000000000000000000.log", 5),
        ("empty", 10),
        (".", 0),
        ("t-0", 0),
    ],
)
def test_exit_codes_are_those_of_the_other_commands(path: str, code: int, tmp_path: Path) -> None:
    place = partition(tmp_path)
    if path == "empty":
        (place / "empty").mkdir()
    if path in ("dangling", "loop"):
        (place / path).symlink_to("nowhere" if path == "dangling" else path)
    found, _, err = kdump(path, "--set", "retention.ms=-1", cwd=place)
    assert found == code
    assert len(err.splitlines()) == (0 if code == 0 else 1)


@pytest.mark.parametrize("path", [".", "t-0"])
def test_without_a_policy_nobody_says_what_goes(path: str, tmp_path: Path) -> None:
    place = partition(tmp_path)
    code, out, _ = kdump(path, "--now", "1900000000000", "--format", "json", "--compaction", cwd=place)
    row, compaction = map(json.loads, out.splitlines())
    assert code == 5
    assert (row["policy"], row["logStartOffsetAfter"], row["rolledTo"]) == (None, None, None)
    assert {(one["deleted"], one["reason"], one["firstDeletedAt"]) for one in row["segments"]} == {(None, None, None)}
    assert compaction["chosen"] is None
    code, out, err = kdump(path, "--now", "1900000000000", "--pass", cwd=place)
    assert (code, len(err.splitlines())) == (5, 1)
    assert "goes now" not in out
    assert "stays" not in out
    assert "not known whether it goes" in out
    seen = run_in_terminal(["retention", path, "--now", "1900000000000"], place).raw
    assert "not known what goes" in seen
    assert "none goes" not in seen


@pytest.mark.parametrize("how", [("--set", "log.cleanup.policy=compact"), ("--config", "broker")])
def test_a_policy_of_the_broker_is_known_too(how: tuple[str, str], tmp_path: Path) -> None:
    place = partition(tmp_path)
    write(place, {"broker": b"log.cleanup.policy=compact\n"})
    code, out, _ = kdump("t-0", "--format", "json", *how, cwd=place)
    assert (code, json.loads(out.splitlines()[0])["policy"]) == (0, ["compact"])


def test_what_the_cluster_does_not_have_is_not_known(tmp_path: Path) -> None:
    """The metadata log of the log.dir says that the topic was deleted."""
    place = partition(tmp_path)
    records = [metadata_records.topic("t", 0)], [metadata_records.remove_topic(0)]
    write(place, {f"__cluster_metadata-0/{name(0)}": metadata_records.log(*records)})
    code, out, err = kdump("t-0", "--now", "1900000000000", cwd=place)
    assert code == 5
    assert "cleanup.policy of t-0 is not known" in err
    assert "cleanup.policy is not known" in out


def test_a_file_that_cannot_be_read_does_not_keep_the_others_from_being_judged(tmp_path: Path) -> None:
    place = partition(tmp_path)
    write(place / "u-0", segment(0, [batch(0, [Record(b"a")])]))
    unread = place / "t-0" / name(0, "timeindex")
    unread.unlink()
    os.mkfifo(unread)
    code, out, err = kdump(str(place), cwd=tmp_path)
    assert code == 5
    assert "u-0   1 segment" in out
    assert "a FIFO" in err
    inner = place / "t-0" / name(0)
    unread.unlink()
    inner.unlink()
    inner.symlink_to(place / "u-0" / name(0))
    items = run(place, {}, 0)
    assert [item.kind for item in items if isinstance(item, OpenFailure)] == ["symlink"]
    assert not [item for item in items if isinstance(item, Finding)]


def test_cases_of_kafka_are_not_misled(tmp_path: Path) -> None:
    """No log of which the time index is as Kafka wrote it gets a finding."""
    for file in recorded("deletion"):
        case = next((one for one in cases("deletion", file) if one["kind"] == "delete" and not one.get("edits")), None)
        if case is not None:
            place, config = set_up(case, tmp_path / "d")
            assert codes(run(place, config, case["clock_ms"])) == [], case["id"]


def test_progress_of_a_pass_grows_while_a_partition_is_read(tmp_path: Path) -> None:
    batches = [batch(n, [Record(bytes(20_000), b"%d" % (n % 7))]) for n in range(200)]
    place = write(tmp_path / "t-0", {name(0): b"".join(batches), name(200): batch(200)})
    size = sum(log.stat().st_size for log in place.glob("*.log"))
    asked = options({"cleanup.policy": "compact"}, 1_800_000_000_000, progress=True, compaction=True, clean=True)
    far = [one for one in retention([str(place)], asked) if isinstance(one, Progress)]
    assert {one.total for one in far} == {2 * size}
    assert [one.done for one in far] == sorted(one.done for one in far)
    assert far[-1].done == 2 * size
    assert len({one.done for one in far if one.done < size}) > 3, "while the offset map is made"
    assert len({one.done for one in far if size < one.done < 2 * size}) > 3, "while segments are filtered"


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_counts_the_bytes_of_the_logs_under_all_paths(jobs: int) -> None:
    """A partition that its topic's deletion left behind is not looked at, and does not count."""
    asked = options({}, 0, progress=True, jobs=jobs)
    places = [NODE / "plain-0", NODE / "wide-0", NODE]
    looked = [path for path in NODE.iterdir() if re.fullmatch(r"[^.]+-\d+", path.name)]
    bytes_of = {path: sum(log.stat().st_size for log in path.glob("*.log")) for path in looked}
    far = [one for one in retention([str(path) for path in places], asked) if isinstance(one, Progress)]
    total = bytes_of[places[0]] + bytes_of[places[1]] + sum(bytes_of.values())
    assert {one.total for one in far} == {total}
    assert [one.done for one in far] == sorted(one.done for one in far)
    assert far[-1].done == total
    if jobs == 1:
        assert [one.done for one in far[:2]] == [bytes_of[places[0]], bytes_of[places[0]] + bytes_of[places[1]]]
    assert not [one for one in retention([str(NODE)], asked.replace(progress=False)) if isinstance(one, Progress)]
