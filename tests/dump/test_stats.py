"""`dump --stats` against what the records say one by one; `partition-for` against Kafka's own classes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kdump.dump import stats
from kdump.format.java_values import coordinator_partition
from tests.render.test_json import CLEAN, ZERO, batch_of, rows, whole
from tests.support.runs import FIXTURES, run_kdump

NODE = CLEAN / "node1"
TREES = [NODE, *(FIXTURES / "releases" / release / "logs" for release in ("0.9.0.1", "0.11.0.3", "3.9.2"))]


def stats_of(path: str, *options: str, cwd: Path = FIXTURES, exits: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
    found = rows(["dump", "--stats", "--format", "json", *options, path], cwd, exits=exits)
    assert {row["type"] for row in found} <= {"stats", "finding", "summary"}
    return [row for row in found if row["type"] == "stats"]


def one_by_one(tree: Path) -> dict[str, tuple[list[Any], list[Any], list[Any]]]:
    """Return segments, batches and records of each directory that has a log."""
    found: dict[str, tuple[list[Any], list[Any], list[Any]]] = {}
    for row in whole(tree, "--print-data-log"):
        if row["type"] in ("segment", "batch", "record") and row["file"].endswith(".log"):
            three = found.setdefault(str(Path(row["file"]).parent), ([], [], []))
            three[("segment", "batch", "record").index(row["type"])].append(row)
    return found


def ended(row: dict[str, Any]) -> str | None:
    return row["control"]["type"] if row["control"] and row["control"]["type"] in ("COMMIT", "ABORT") else None


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: str(tree.relative_to(FIXTURES)))
def test_figures_are_those_of_the_records(tree: Path) -> None:
    expected = one_by_one(tree)
    found = stats_of(str(tree))
    assert [row["path"] for row in found] == list(expected)
    for row in found:
        segments, batches, records = expected[row["path"]]
        assert row["complete"]
        assert (row["files"], row["bytes"]) == (len(segments), sum(one["size"] for one in segments))
        assert (row["batches"], row["records"]) == (len(batches), len(records))
        offsets = [one["offset"] for one in records]
        bases = [one["baseOffset"] for one in batches if one["baseOffset"] is not None]
        assert row["firstOffset"] == min(offsets + bases, default=None)
        assert row["lastOffset"] == max((one["lastOffset"] for one in batches), default=None)
        times = [one["timestamp"] for one in records if one["timestamp"] != -1]
        assert (row["minTimestamp"], row["maxTimestamp"]) == (min(times, default=None), max(times, default=None))
        codecs = Counter(one["compresscodec"] for one in batches)
        assert {one["compresscodec"]: one["batches"] for one in row["codecs"]} == codecs
        assert sum(one["bytes"] for one in row["codecs"]) == sum(one["size"] for one in batches)
        assert sum(one["records"] for one in row["codecs"]) == len(records)
        producers = {one["producerId"] for one in batches} - {None, -1}
        assert row["producers"] == len(producers)
        assert row["controlBatches"] == sum(one["isControl"] is True for one in batches)
        data = [one for one in records if not one["control"]]
        for name, size in (("keys", "keySize"), ("values", "valueSize")):
            sizes = [one[size] for one in data]
            there = [one for one in sizes if one >= 0]
            assert (row[name]["count"], row[name]["nulls"]) == (len(there), sizes.count(-1))
            assert row[name]["bytes"] == sum(there)
            assert row[name]["minSize"] == min(there, default=None)
            assert row[name]["maxSize"] == max(there, default=None)
            below = 0
            for step in row[name]["histogram"]:
                below += step["count"]
                assert below == sum(one <= step["upTo"] for one in there)
            assert below == len(there)
        largest = max((max(one["keySize"], 0) + max(one["valueSize"], 0) for one in data), default=None)
        of_size = [one["offset"] for one in data if max(one["keySize"], 0) + max(one["valueSize"], 0) == largest]
        assert row["largestRecord"] == ({"offset": of_size[0], "size": largest} if of_size else None)
        assert row["largestBatch"] == ({"offset": _first(batches), "size": _size(batches)} if batches else None)
        assert row["tombstones"] == sum(one["keySize"] >= 0 > one["valueSize"] for one in data)


def _size(batches: list[Any]) -> int:
    return max(int(one["size"]) for one in batches)


def _first(batches: list[Any]) -> int:
    """The offset of the first of the largest batches; a compressed message of old formats has that of its last."""
    (found, *_) = [one for one in batches if one["size"] == _size(batches)]
    return int(found["lastOffset"] if found["baseOffset"] is None else found["baseOffset"])


@pytest.mark.parametrize("topic", ["txn-0", "txnspan-0", "compacttxn-0", "plain-0"])
def test_transactions_are_those_of_the_markers(topic: str) -> None:
    (row,) = stats_of(str(NODE / topic))
    _, batches, records = one_by_one(NODE)[str(NODE / topic)]
    producer_at = {(one["file"], one["position"]): one for one in batches}
    marks = [(one, ended(one)) for one in records if ended(one)]
    kinds = Counter(kind for _, kind in marks)
    found = row["transactions"]
    assert (found["committed"]["count"], found["aborted"]["count"]) == (kinds["COMMIT"], kinds["ABORT"])
    data = [one for one in batches if one["isTransactional"] and not one["isControl"]]
    counted = [found["committed"], found["aborted"], *found["open"]]
    assert sum(one["batches"] for one in counted) == len(data)
    assert sum(one["bytes"] for one in counted) == sum(one["size"] for one in data)
    assert found["openCount"] == len(found["open"])
    for one in found["open"]:
        markers = [mark for mark, _ in marks if mark["offset"] >= one["firstOffset"]]
        of_them = [producer_at[mark["file"], mark["batchPosition"]]["producerId"] for mark in markers]
        assert one["producerId"] not in of_them
        assert one["ageMs"] == row["maxTimestamp"] - one["firstTimestamp"]
    for one in (found["committed"], found["aborted"]):
        if one["minDurationMs"] is not None:
            assert 0 <= one["minDurationMs"] <= one["averageDurationMs"] <= one["maxDurationMs"]


def test_epochs_follow_each_other_through_the_log() -> None:
    (row,) = stats_of(str(NODE / "epochs-0"))
    assert [run["epoch"] for run in row["epochs"]] == sorted(run["epoch"] for run in row["epochs"])
    assert row["epochChanges"] == len(row["epochs"]) - 1 > 0
    assert (row["epochs"][0]["firstOffset"], row["epochs"][-1]["lastOffset"]) == (row["firstOffset"], row["lastOffset"])
    assert sum(run["batches"] for run in row["epochs"]) == row["batches"]


def test_text_and_json_say_the_same() -> None:
    text = run_kdump(["dump", "--stats", "txn-0"], NODE)
    (row,) = stats_of("txn-0", cwd=NODE)
    lines = text.stdout.decode().splitlines()
    assert lines[0] == "Stats of txn-0"
    for name in ("files", "bytes", "batches", "records", "controlBatches", "tombstones", "producers"):
        assert f"{name}: {row[name]}" in lines[1]
    assert any(line.startswith(f"maxTimestamp: {row['maxTimestamp']} (") for line in lines)
    for one in row["codecs"]:
        assert " ".join(f"{name}: {value}" for name, value in one.items()) in lines
    assert f"largest record: offset: {row['largestRecord']['offset']} size: {row['largestRecord']['size']}" in lines
    for name in ("keys", "values"):
        for step in row[name]["histogram"]:
            assert f"{name}: upTo: {step['upTo']} count: {step['count']}" in lines


def test_what_could_not_be_read_makes_figures_not_complete(tmp_path: Path) -> None:
    log = bytearray((NODE / "gzip-0" / sorted((NODE / "gzip-0").glob("*.log"))[0].name).read_bytes())
    log[200] ^= 0xFF
    (tmp_path / ZERO).write_bytes(log)
    (row,) = stats_of(ZERO, cwd=tmp_path, exits=(3, 6))
    assert row["complete"] is False
    run = run_kdump(["dump", "--stats", ZERO], tmp_path)
    assert b"\nnot complete: " in run.stdout
    assert b"error " in run.stderr


def test_limits_are_said_and_bound_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.checked import CheckedDump
    from kdump.rows.stats import Figures

    monkeypatch.setattr(stats, "MOST_PRODUCERS", 2)
    monkeypatch.setattr(stats, "MOST_EPOCHS", 1)
    monkeypatch.setattr(stats, "MOST_OPEN", 0)
    taken: list[Figures] = []

    class Taken:
        def __call__(self, item: object) -> None:
            taken.extend([item] if isinstance(item, Figures) else [])

        def end(self, *, dead: bool) -> None:
            assert not dead

    sink = stats.FiguresSink(Taken())  # type: ignore[arg-type]
    for item in CheckedDump(DumpOptions(deep=True)).files([str(NODE / "txn-0")]):
        sink(item)
    sink.end(dead=False)
    (figures,) = taken
    assert (figures.producers <= 2, len(figures.epochs), figures.transactions.open_count) == (True, 1, 0)
    assert figures.epoch_changes == 2
    assert figures.complete is False


def test_an_empty_log_has_figures_too(tmp_path: Path) -> None:
    (tmp_path / ZERO).write_bytes(b"")
    (row,) = stats_of(ZERO, cwd=tmp_path)
    assert (row["files"], row["batches"], row["firstOffset"], row["codecs"]) == (1, 0, None, [])


def test_a_marker_without_data_is_counted_and_has_no_duration(tmp_path: Path) -> None:
    (tmp_path / ZERO).write_bytes(batch_of((b"k", b"v")))
    (row,) = stats_of(ZERO, cwd=tmp_path)
    assert row["transactions"]["committed"]["averageDurationMs"] is None


# --- partition-for: Utils.abs(id.hashCode()) % partitions of Kafka 4.3.1, run on Java 17 ----------------------
ANSWERS = [
    ("", 0, 0, 0),
    ("my-group", 12, 1, 1906497762),
    ("grp-classic", 46, 4, 69138346),
    ("polygenelubricants", 0, 0, 0),  # its hash is -2^31
    ("a\U0001f600", 16, 0, 1866116),
    ("\U0001f600\u6f22\u5b57", 22, 6, 1704661272),
    ("x" * 300, 14, 4, 1757771264),
    ("console-consumer-12345", 6, 6, 158455506),
    ("txn-\0\uffff", 20, 6, 859777470),
]


@pytest.mark.parametrize(("id_", "of_50", "of_7", "of_most"), ANSWERS)
def test_the_partition_is_that_of_kafka(id_: str, of_50: int, of_7: int, of_most: int) -> None:
    assert [coordinator_partition(id_, count) for count in (50, 7, 2**31 - 1)] == [of_50, of_7, of_most]


def test_groups_of_a_real_broker_lie_where_they_should() -> None:
    """The topic of this broker has three partitions."""
    seen = 0
    for partition in range(3):
        for row in whole(NODE, "--print-data-log"):
            if row["type"] == "record" and f"__consumer_offsets-{partition}/" in row["file"]:
                key = row["decodedKey"]
                data = key["data"] if isinstance(key, dict) else {}
                group = data.get("group") or data.get("groupId")
                if group:
                    assert coordinator_partition(group, 3) == partition
                    seen += 1
    assert seen > 50


def test_partition_for_prints_the_number_alone_and_says_what_it_assumes() -> None:
    run = run_kdump(["partition-for", "my-group"], NODE)
    assert (run.exit, run.stdout) == (0, b"12\n")
    assert run.stderr == b"kdump: of 50 partitions, Kafka's default: --partitions N for a topic with others\n"
    run = run_kdump(["partition-for", "my-group", "--partitions", "7"], NODE)
    assert (run.stdout, run.stderr) == (b"1\n", b"")
    found = json.loads(run_kdump(["partition-for", "--format", "json", "a\U0001f600"], NODE).stdout)
    assert found == {"type": "coordinator", "id": "a\U0001f600", "partition": 16, "partitions": 50}


@pytest.mark.parametrize("count", ["0", "-1", "2147483648", "many"])
def test_a_topic_has_a_number_of_partitions_that_kafka_could_make(count: str) -> None:
    run = run_kdump(["partition-for", "g", "--partitions", count], NODE)
    assert (run.exit, run.stdout) == (2, b"")


def test_an_id_that_is_not_utf8_is_wrong_use() -> None:
    run = run_kdump(["partition-for", "\udcff"], NODE)
    assert (run.exit, run.stdout) == (2, b"")
    assert b"Traceback" not in run.stderr
