"""Tables without Spark: the same rows however a log is cut, and files that are whole or not there."""

from __future__ import annotations

import csv
import json
import os
import pickle
import random
import shutil
import sys
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.cli.main import kdump
from kdump.export import job
from kdump.export.arrow import from_rows
from kdump.export.log_file import LogFile
from kdump.export.origin import ManifestError, Origins, read_roots
from kdump.export.split import WantedLogs, logs_of, pack, splits_of
from kdump.export.tables import PLACE, STATE_TABLES, TABLES, CellType, columns_of
from kdump.item import Checked, CheckedFile
from kdump.rows import json_lines as jsonl
from kdump.storage.file_source import OpenFailure
from kdump.storage.object_store import RemoteSource
from tests.support.damage_cases import damage_cases
from tests.support.fleet import NODE, fleet, log_dirs, twice
from tests.support.partitions import Files, name, segment, write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import Record, batch
from tests.support.tables import WHOLE, local_table, sorted_rows, split_table, state_table, whole_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import click.testing

SPLIT = ("batches", "records")
ROWS = [name for name in TABLES if name not in (*STATE_TABLES, "unread")]
MORE = [str(FIXTURES / path) for path in ("releases/0.8.2.2", "releases/2.8.2", "damage/intact")]
WHERE = ("cluster", "broker", "host", "logDir")
CLUSTER = "bk62DHJPTQOUKgGAmgTSxQ"
SMALL = [str(NODE / f"{topic}-0") for topic in ("plain", "zstd", "txn", "compact", "__transaction_state")]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Log directories of all kinds."""
    return fleet(tmp_path_factory.mktemp("fleet"))


def export(*args: str | Path) -> click.testing.Result:
    """Run `kdump export`; none of its runs may end with a traceback."""
    run = CliRunner().invoke(kdump, ["export", *map(str, args)])
    assert run.exception is None or isinstance(run.exception, SystemExit), run.exc_info
    return run


# --- pieces -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("table", SPLIT)
def test_the_rows_are_the_same_for_any_size_of_a_piece(table: str, tree: list[str]) -> None:
    whole = split_table(tree, table)
    assert whole.num_rows > 3000
    for size in (4096, 30_000):
        assert split_table(tree, table, size).equals(whole), size


def big(folder: Path, count: int = 600, interval: int | None = 4096) -> Files:
    """A segment of some hundred batches in a partition directory, values of all sizes."""
    random_ = random.Random(3)
    parts = [
        batch(10 * k, [random_.randbytes(random_.choice((0, 10, 200, 900))) for _ in range(10)]) for k in range(count)
    ]
    files = segment(0, parts, interval=interval)
    write(folder, files)
    return files


def cuts(folder: Path, size: int) -> list[int]:
    (log,) = [log for log in logs_of([str(folder)], Origins([]), WantedLogs()) if isinstance(log, LogFile)]
    return [split.border.position for split in splits_of(log, size)]


def test_a_log_is_cut_where_its_index_says(tmp_path: Path) -> None:
    files = big(tmp_path)
    index = files[name(0, "index")]
    positions = {int.from_bytes(index[at + 4 : at + 8], "big") for at in range(0, len(index), 8)}
    found = cuts(tmp_path, 50_000)
    assert len(found) > 5
    assert set(found[1:]) <= positions


@pytest.mark.parametrize("damage", ["missing", "random", "shifted", "zeros", "short"])
def test_without_a_sound_index_the_pieces_are_those_of_a_walk(damage: str, tmp_path: Path) -> None:
    whole = split_table([str(tmp_path)], "batches") if big(tmp_path) else None
    folder = next(path for path in tmp_path.rglob("*.index")).parent
    index = folder / name(0, "index")
    data = index.read_bytes()
    if damage == "missing":
        index.unlink()
    else:
        changed = {
            "random": random.Random(5).randbytes(len(data)),
            "shifted": b"".join(data[at : at + 7] + bytes([(data[at + 7] + 1) % 256]) for at in range(0, len(data), 8)),
            "zeros": bytes(len(data)),
            "short": data[:80],
        }
        index.write_bytes(changed[damage])
    assert len(cuts(tmp_path, 50_000)) > 5
    for size in (4096, 50_000):
        assert split_table([str(tmp_path)], "batches", size).equals(whole)


def test_a_log_inside_a_value_is_not_taken_for_the_log(tmp_path: Path) -> None:
    inner = [batch(10 * k, [b"inside"] * 10) for k in range(40)]
    parts = [batch(10 * k, [b"".join(inner)] + [b"x"] * 9) for k in range(30)]
    files = segment(0, parts, interval=4096)
    # the index points into the value of the first batch, to where a batch with the right CRC begins
    at = b"".join(parts).index(inner[20])
    assert 0 < at < len(parts[0])
    files[name(0, "index")] = (209).to_bytes(4, "big") + at.to_bytes(4, "big") + files[name(0, "index")]
    write(tmp_path, files)
    whole = split_table([str(tmp_path)], "batches")
    assert whole.num_rows == 30
    for size in (4096, 10_000):
        assert split_table([str(tmp_path)], "batches", size).equals(whole)


@given(st.lists(st.integers(0, 200_000_000), min_size=1, max_size=60), st.integers(1, 16))
def test_tasks_are_even(sizes: list[int], least: int) -> None:
    size = 128 * 1024 * 1024
    pieces = [piece for one in sizes for piece in [one // max(1, -(-one // size))] * max(1, -(-one // size))]
    groups = pack(list(range(len(pieces))), pieces, size, least)
    assert sorted(at for group in groups for at in group) == list(range(len(pieces)))
    loads = [sum(pieces[at] + 4 * 1024 * 1024 for at in group) for group in groups]
    assert max(loads) * len(loads) < 1.5 * sum(loads)


def test_tasks_over_a_mixed_tree_are_even_and_many() -> None:
    mixed = [5_000] * 3000 + [1_000_000] * 200 + [128 * 1024 * 1024] * 40
    groups = pack(mixed, mixed, 128 * 1024 * 1024, 2)
    loads = [sum(group) for group in groups]
    assert len(groups) >= 40
    assert max(loads) * len(loads) < 1.5 * sum(loads)


# --- rows ---------------------------------------------------------------------------------------------------
TYPES = {"batches": "batch", "records": "record"}


def lines_of(folder: str, table: str) -> Iterator[dict[str, Any]]:
    """What dump says of the logs in a directory."""
    for log in logs_of([folder], Origins(read_roots([folder])), WantedLogs()):
        assert isinstance(log, LogFile)
        run = run_kdump(["dump", "--format", "json", "--print-data-log", log.path], FIXTURES)
        rows = map(json.loads, run.stdout.splitlines())
        yield from (row for row in rows if row["type"] == TYPES[table])


@pytest.mark.parametrize("table", SPLIT)
@pytest.mark.parametrize(
    "folder",
    [
        *SMALL,
        str(FIXTURES / "releases" / "0.8.2.2"),
        str(FIXTURES / "releases" / "2.8.2"),
        str(FIXTURES / "damage" / "intact"),
    ],
)
def test_the_rows_are_the_json_lines(table: str, folder: str, tmp_path: Path) -> None:
    paths = log_dirs(type(tmp_path)(folder)) if not folder.startswith(str(NODE)) else [folder]
    expected = [line for path in paths for line in lines_of(path, table)]
    target = tmp_path / "out"
    run = export("--table", table, "--file-format", "json", "--to", target, *paths)
    assert run.exit_code in (0, 3), run.output
    found = []
    for file in sorted(target.rglob("*.json")):
        if "_kdump" not in file.parts:
            found += [json.loads(line) for line in file.read_text("ascii").splitlines()]
    assert len(found) == len(expected) > 0
    for row in found:
        assert {column.name: row.pop(column.name) is None for column in PLACE}["logDir"] is False
        assert [row.pop(name, None) for name in ("keySchema", "schema")] == [
            None,
            None,
        ]  # columns, and keys of few lines
        row["file"] = os.path.normpath(row["file"])
    for row in expected:
        row["file"] = os.path.normpath(row["file"])
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_headers_that_are_no_text_are_as_readers_see_them(tmp_path: Path) -> None:
    headers = [(b"plain", b"1"), (b"", None), (b"\xff\xfe", b"\xff"), ("\u00fc".encode(), b"")]
    write(tmp_path, segment(0, [batch(0, [Record(None, None, headers), Record(b"", b"", [])])]))
    row, other = split_table([str(tmp_path)], "records").to_pylist()
    assert row["headers"] == [
        {"key": "plain", "value": b"1"},
        {"key": "", "value": None},
        {"key": "\ufffd\ufffd", "value": b"\xff"},
        {"key": "\u00fc", "value": b""},
    ]
    assert (row["key"], row["payload"], row["keySize"], row["valueSize"]) == (None, None, -1, -1)
    assert (other["key"], other["payload"], other["headers"]) == (b"", b"", [])


def test_only_the_columns_that_are_named_are_read() -> None:
    table = split_table(SMALL, "records", columns=["offset", "topic"])
    assert table.column_names == ["offset", "topic"]
    assert table.equals(split_table(SMALL, "records").select(["offset", "topic"]))


@pytest.mark.parametrize("size", [4096, WHOLE])
def test_ranges_leave_out_rows_and_nothing_else(size: int, tmp_path: Path) -> None:
    big(tmp_path)
    everything = split_table([str(tmp_path)], "records")
    wanted = WantedLogs(offsets=(1234, 2345))
    expected = everything.filter((ds.field("offset") >= 1234) & (ds.field("offset") < 2345))
    assert split_table([str(tmp_path)], "records", size, wanted).equals(expected)
    batches = split_table([str(tmp_path)], "batches", size, wanted).column("baseOffset").to_pylist()
    assert batches == list(range(1230, 2350, 10))


def test_ranges_leave_out_segments_by_name() -> None:
    folder = str(NODE / "zstd-0")
    logs = [log for log in logs_of([folder], Origins([]), WantedLogs()) if isinstance(log, LogFile)]
    assert len(logs) > 3
    some = [log for log in logs_of([folder], Origins([]), WantedLogs(offsets=(300, 400))) if isinstance(log, LogFile)]
    assert [log.base_offset for log in some] == [292]
    times = split_table([folder], "records").column("timestamp").to_pylist()
    late = WantedLogs(times=(sorted(times)[-50], None))
    assert split_table([folder], "records", wanted=late).num_rows == sum(one >= sorted(times)[-50] for one in times)
    assert list(logs_of([folder], Origins([]), WantedLogs(topics=("other",)))) == []
    assert len(list(logs_of([folder], Origins([]), WantedLogs(partitions=("zstd-0",))))) == len(logs)


def test_the_segments_have_the_sums_of_verify(tree: list[str]) -> None:
    items = list(verify(tree, VerifyOptions()))
    rows = whole_table(tree, "segments").to_pylist()
    checked = [item for item in items if isinstance(item, Checked)]
    assert sum(row["batches"] or 0 for row in rows) == sum(one.batches for one in checked)
    assert sum(row["records"] or 0 for row in rows) == sum(one.records for one in checked)
    logs = {file.path: file.size for one in checked for file in one.files if file.path.endswith(".log")}
    assert {row["file"]: row["size"] for row in rows if row["size"] is not None} == logs
    assert {row["status"] for row in rows} == {"SOUND", "WARNING", "DAMAGED"}
    sound = next(row for row in rows if row["file"].endswith("intact/plain-0/00000000000000000000.log"))
    assert (sound["baseOffset"], sound["nextOffset"], sound["status"]) == (0, 123, "SOUND")
    times = [
        (row["baseTimestamp"], row["maxTimestamp"])
        for row in split_table([str(NODE / "plain-0")], "batches").to_pylist()
        if row["lastOffset"] < 123
    ]
    assert (sound["firstTimestamp"], sound["maxTimestamp"]) == (times[0][0], max(latest for _, latest in times))


def test_what_is_no_log_is_left_out_and_said(tmp_path: Path) -> None:
    fleet(tmp_path / "fleet", every=1000)
    junk = tmp_path / "fleet" / "junk"
    target = tmp_path / "out"
    fifo = junk / "orders-0" / name(2000)
    run = export("--to", target, "--table", "batches", junk, fifo, tmp_path / "nowhere.log")
    assert run.exit_code == 6, run.output  # the random bytes are damage, and a FIFO is not read
    assert f"{fifo}: no writer came to this FIFO" in run.stderr
    assert "no such file" in run.stderr
    assert "; kdump verify tells them" in run.stderr


# --- where rows are from ------------------------------------------------------------------------------------
def test_a_manifest_says_whose_a_log_directory_is(tmp_path: Path) -> None:
    entries = [("b1", "/data/a", "one"), ("b1", "/data/b", "two"), ("b2", "/data/a", "three")]
    for _, _, folder in entries:
        write(tmp_path / folder / "t-0", segment(0, [batch(0)]))
    rows = [{"host": host, "log.dir": log_dir, "path": path} for host, log_dir, path in entries]
    with (tmp_path / "m.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["path", "log.dir", "host"])
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "m.json").write_text(json.dumps(rows))
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for kind in ("csv", "json", "jsonl"):
        table = split_table([str(tmp_path / f"m.{kind}")], "batches")
        found = [(row["host"], row["logDir"], row["topic"], row["partition"]) for row in table.to_pylist()]
        assert found == [(host, log_dir, "t", 0) for host, log_dir, _ in entries]


@pytest.mark.parametrize("table", [name for name in TABLES if name != "replicaDiffs"])
def test_every_table_begins_with_where_its_rows_are_from(table: str, tmp_path: Path) -> None:
    """What meta.properties says counts, and a manifest where it says nothing."""
    node, bare = tmp_path / "node", tmp_path / "bare"
    shutil.copytree(NODE, node)
    twice(node)
    shutil.copytree(node, bare)
    (bare / "meta.properties").unlink()
    for one in (node, bare):
        (one / "plain-0" / f"{9999:020}.log").symlink_to(tmp_path / "nowhere")
    with (node / "txn-0" / f"{0:020}.log").open("r+b") as log, (bare / "txn-0" / f"{0:020}.log").open("r+b") as other:
        for file in (log, other):
            file.seek(500)
            file.write(b"X")
    told: dict[str, object] = {"cluster": "other", "broker": 7, "host": "h"}
    places: list[tuple[dict[str, object], Path, tuple[object, ...]]] = [
        ({}, node, (CLUSTER, 1, None)),
        ({}, bare, (None, None, None)),
        (told, node, (CLUSTER, 1, "h")),
        (told, bare, ("other", 7, "h")),
    ]
    for said, path, expected in places:
        (tmp_path / "m.json").write_text(json.dumps([{**said, "path": str(path)}]))
        found = local_table([str(tmp_path / "m.json")], table)
        assert found.column_names[:4] == list(WHERE)
        rows = set(zip(*(found.column(name).to_pylist() for name in WHERE), strict=True))
        assert rows == {(*expected, str(path))}, (said, path)


# --- tables of whole partitions, and of several replicas ------------------------------------------------------
def exported(target: Path, *args: str | Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a table of JSON lines, and the summary of the export."""
    run = export("--format", "json", "--to", target, *args)
    files = [path for path in sorted(target.rglob("*.json")) if "_kdump" not in path.parts]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()], json.loads(run.stdout)


def verified(*args: str | Path) -> list[dict[str, Any]]:
    told = run_kdump(["verify", "--format", "json", *map(str, args)], FIXTURES).stdout.splitlines()
    return [json.loads(line) for line in told]


def test_a_partition_summary_adds_up_to_that_of_verify(tree: list[str], tmp_path: Path) -> None:
    rows, _ = exported(tmp_path / "out", "--table", "partitionSummary", *tree)
    summary = verified(*tree)[-1]
    for key in ("batches", "records", "errors", "warnings", "offsetsLost", "recordsLost"):
        assert sum(row[key] for row in rows) == summary[key], key
    assert sum(row["unread"] for row in rows) == len(summary["unchecked"]) > 0
    assert {row["logDir"] for row in rows} <= set(tree)
    assert len({(row["logDir"], row["topic"], row["partition"]) for row in rows}) == len(rows) > 20
    assert {row["status"] for row in rows} == {"SOUND", "WARNING", "DAMAGED", "LOST"}


def test_a_checkpoint_that_is_ahead_counts_for_its_partition(tmp_path: Path) -> None:
    shutil.copytree(NODE, tmp_path / "node")
    (tmp_path / "node" / "log-start-offset-checkpoint").write_text("0\n2\ntiered 0 141\nplain 0 999999\n")
    rows, _ = exported(tmp_path / "out", "--table", "partitionSummary", tmp_path / "node")
    assert [(row["topic"], row["errors"], row["status"]) for row in rows if row["errors"]] == [("plain", 1, "DAMAGED")]


def replicas_of(folder: Path) -> list[Path]:
    return [folder / path for path in json.loads((folder / "expect.json").read_text())["paths"]]


@pytest.mark.parametrize("kind", ["d01-differs", "d02-lacks", "d03-short"])
def test_replica_diffs_are_what_verify_tells(kind: str, tmp_path: Path) -> None:
    paths = replicas_of(FIXTURES / f"replica-{kind}")
    rows, summary = exported(tmp_path / "out", "--table", "replicaDiffs", *paths)
    told = [row for row in verified("--replicas", *paths) if row.get("code") in ("D01", "D02", "D03")]
    assert len(rows) == len(told) == 1
    (row,), (finding,) = rows, told
    assert row["kind"] == kind.partition("-")[2]
    assert row["offset"] == finding["offset"]
    assert finding["lastOffset"] in (None, row["lastOffset"])
    assert row["offset"] <= row["lastOffset"]
    assert row["certainty"] == "intact"
    assert len(row["brokers"]) == len(row["leaderEpochs"]) == 2
    assert (row["leaderEpochs"][0] is None) == (kind != "d01-differs")
    assert row["leaderEpochs"][1] is not None
    assert summary["exit"] == verified("--replicas", *paths)[-1]["exit"]
    assert row["logDir"] == str(paths[1])


def test_replicas_of_two_clusters_are_not_compared(tmp_path: Path) -> None:
    one, other = replicas_of(FIXTURES / "replica-d01-differs")
    paths = []
    for cluster in "ab":
        for broker, source in ((1, one), (2, other)):
            place = tmp_path / f"{cluster}{broker}"
            shutil.copytree(source, place)
            (place / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id={cluster}\n")
            paths.append(place)
    rows, _ = exported(tmp_path / "out", "--table", "replicaDiffs", *paths)
    assert [(row["cluster"], row["broker"], row["brokers"]) for row in rows] == [("a", 2, [2, 1]), ("b", 2, [2, 1])]


def test_losses_say_which_replicas_over_all_paths_have_what_one_has_lost(tmp_path: Path) -> None:
    paths = []
    for broker in (1, 2, 3):
        place = tmp_path / f"b{broker}"
        write(place / "t-0", segment(0, [batch(8 * k, [b"x" * 50] * 8) for k in range(20)]))
        (place / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=c\n")
        paths.append(place)
    for place in paths[:2]:
        log = place / "t-0" / name(0)
        data = bytearray(log.read_bytes())
        data[2000] ^= 1
        log.write_bytes(data)
    rows, summary = exported(tmp_path / "out", "--table", "losses", *paths)
    told = [row for row in verified("--replicas", *paths) if row["type"] == "loss"]
    assert [row["elsewhere"] for row in rows] == [[str(paths[2] / "t-0")]] * 2
    assert [row["elsewhere"] for row in told] == [row["elsewhere"] for row in rows]
    assert summary["exit"] == 3
    alone, _ = exported(tmp_path / "alone", "--table", "losses", paths[0])
    assert [row["elsewhere"] for row in alone] == [[]]


@pytest.mark.parametrize("odd", ["node.id=-1", "node.id=2147483648", f"node.id={'9' * 5000}", "node.id=\u0661"])
def test_a_meta_properties_with_odd_values_makes_rows_all_the_same(odd: str, tmp_path: Path) -> None:
    write(tmp_path / "ld" / "t-0", segment(0, [batch(0)]))
    (tmp_path / "ld" / "meta.properties").write_text(f"version=1\ncluster.id=\\ud800x\n{odd}\n", "utf-8")
    (row,) = split_table([str(tmp_path / "ld")], "batches").to_pylist()
    assert (row["cluster"], row["broker"]) == ("\\ud800x", None)


def test_a_log_directory_that_is_named_as_a_partition_has_no_topic(tmp_path: Path) -> None:
    place = tmp_path / "kafka-0"
    shutil.copytree(NODE, place)
    origins = Origins(read_roots([str(place)]))
    assert origins.of(str(place / "meta.properties")).topic is None
    assert origins.of(str(place / "plain-0" / f"{0:020}.log")).topic == "plain"
    again = pickle.loads(pickle.dumps(origins))
    shutil.rmtree(place)
    assert again.of(str(place)).columns() == {**dict.fromkeys((*WHERE, "topic", "partition")), "cluster": CLUSTER} | {
        "broker": 1,
        "logDir": str(place),
    }


def test_times_are_dates_where_they_can_be(tmp_path: Path) -> None:
    last = 253_402_300_799_999
    times = [-1, 0, 1_700_000_000_123, last, last + 1, 2**63 - 1, -(2**63)]
    columns = columns_of("segments", ["file", "maxTimestamp"], has_timestamps=True)
    rows = [{"file": "f", "maxTimestamp": one} for one in (*times, None)]
    found = from_rows(rows, columns).column("maxTimestamp")
    assert str(found.type) == "timestamp[us, tz=UTC]"
    assert pc.cast(found, pa.int64()).to_pylist() == [None, 0, 1_700_000_000_123_000, last * 1000, *[None] * 4]
    write(tmp_path, segment(0, [batch(0, base_timestamp=1_700_000_000_123), batch(1, base_timestamp=-1)]))
    for table, time in (("batches", "baseTimestamp"), ("records", "timestamp")):
        plain = split_table([str(tmp_path)], table)
        wanted = WantedLogs(times=(None, 1_800_000_000_000))
        dated = split_table([str(tmp_path)], table, wanted=wanted, has_timestamps=True)
        assert plain.column(time).to_pylist()[0] == 1_700_000_000_123
        assert [one and one.timestamp() for one in dated.column(time).to_pylist()] == [1_700_000_000.123, None]
        assert dated.drop_columns(dates(table)).equals(plain.drop_columns(dates(table)))


def dates(table: str) -> list[str]:
    """The columns of a table with times."""
    return [one.name for one in columns_of(table, has_timestamps=True) if one.kind is CellType.TIME]


@pytest.mark.parametrize("broker", ["x", -1, 2**31, "9" * 30])
def test_a_broker_of_a_manifest_is_a_number(broker: object, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps([{"path": "a", "broker": broker}]))
    with pytest.raises(ManifestError, match="row 1: broker is not the number of a broker"):
        read_roots([str(tmp_path / "m.json")])


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "host,path\nb1,\n", "\xff\xfe"])
def test_a_manifest_that_is_none_is_one_clear_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(ManifestError, match=r"m\.csv"):
        read_roots([str(tmp_path / "m.csv")])
    run = export("--to", tmp_path / "out", tmp_path / "m.csv")
    assert run.exit_code == 2
    assert run.stderr.count("\n") == 1


# --- files --------------------------------------------------------------------------------------------------
def read_back(target: Path, kind: str) -> pa.Table:
    """The rows of an export, as readers get them."""
    if kind == "parquet":
        return pq.read_table(target)
    return ds.dataset(target, format=kind, partitioning="hive").to_table()


@pytest.mark.parametrize("table", ROWS)
def test_parquet_read_back_has_the_rows(table: str, tree: list[str], tmp_path: Path) -> None:
    run = export("--table", table, "--to", tmp_path / "out", *tree)
    assert run.exit_code == 6, run.output  # damage, and a FIFO and a link among the logs
    local = split_table(tree, table) if table in SPLIT else whole_table(tree, table)
    found = read_back(tmp_path / "out", "parquet")
    topics, partitions = pa.string(), pa.int32()
    at = found.schema.get_field_index
    found = found.set_column(at("topic"), "topic", found.column("topic").cast(topics))
    found = found.set_column(at("partition"), "partition", found.column("partition").cast(partitions))
    assert sorted_rows(found.select(local.column_names)) == sorted_rows(local)


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2, 2**63 - 3])
def test_no_segment_ends_behind_the_largest_offset(offset: int, tmp_path: Path) -> None:
    write(tmp_path / "plain-0", {name(offset - 1): batch(offset - 1, [b"a"]) + batch(offset, [b"b"])})
    run = export("--table", "segments", "--to", tmp_path / "out", tmp_path / "plain-0")
    assert run.exit_code == (3 if offset == 2**63 - 1 else 0), run.output
    ends = read_back(tmp_path / "out", "parquet").column("nextOffset").to_pylist()
    assert ends == [min(offset + 1, 2**63 - 1)]  # the batch after which none can come is O02, and does not count


@pytest.mark.parametrize("table", STATE_TABLES)
def test_what_internal_topics_come_to_is_laid_out_by_the_place_of_each_row(table: str, tmp_path: Path) -> None:
    run = export("--table", table, "--to", tmp_path / "out", NODE)
    assert run.exit_code == 0, run.output
    local = state_table([str(NODE)], table)
    found = read_back(tmp_path / "out", "parquet")
    names = [name for name in local.column_names if name not in ("topic", "partition")]
    assert local.num_rows > 2
    assert sorted_rows(found.select(names)) == sorted_rows(local.select(names))
    places = {f"topic={row['topic']}/partition={row['partition']}" for row in local.to_pylist()}
    assert {str(path.parent.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.parquet")} == places


def test_the_table_usage_has_the_rows_of_du_by_partition(tmp_path: Path) -> None:
    run = export("--table", "usage", "--file-format", "json", "--to", tmp_path / "out", "-j", "3", NODE)
    assert run.exit_code == 0, run.output
    found = {}
    for file in sorted((tmp_path / "out").rglob("*.json")):
        if "_kdump" not in file.parts:
            for row in map(json.loads, file.read_text("ascii").splitlines()):
                assert [row.pop(name) for name in WHERE] == [CLUSTER, 1, None, str(NODE)]
                place = row.pop("topic"), row.pop("partition")
                assert row["name"] == (None if place == (None, None) else f"{place[0]}-{place[1]}")
                found[row["name"]] = row
    told = run_kdump(["du", "--by", "partition", "--format", "json", str(NODE)], FIXTURES).stdout.splitlines()
    rows = [row for row in map(json.loads, told) if row["type"] == "usage"]
    assert len(rows) == len(found) > 20
    for row in rows:
        assert found[row["name"]] == row


def test_csv_read_back_has_the_rows(tmp_path: Path) -> None:
    run = export("--file-format", "csv", "--to", tmp_path / "out", *SMALL)
    assert run.exit_code == 0
    rows = []
    for file in (tmp_path / "out").rglob("*.csv"):
        with file.open(newline="", encoding="utf-8") as lines:
            rows += list(csv.DictReader(lines))
    local = split_table(SMALL, "records").to_pylist()
    assert len(rows) == len(local)
    assert sum(int(row["offset"]) for row in rows) == sum(row["offset"] for row in local)
    text = {(row["file"], int(row["offset"])): row["payload"] for row in rows}
    for row in local:
        shown = jsonl.text_or_bytes(row["payload"])
        expected = (
            "" if shown is None else shown if isinstance(shown, str) else json.dumps(shown, separators=(",", ":"))
        )
        assert text[row["file"], row["offset"]] == expected


def files_of(target: Path) -> dict[str, bytes]:
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_an_export_that_was_killed_goes_on_without_doing_twice(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, whole = tmp_path / "out", tmp_path / "whole"
    assert export("--file-format", kind, "--to", whole, *SMALL).exit_code == 0
    writing = job.write_part
    calls: list[str] = []

    def killed(part: job.ExportPart, *args: Any) -> job.Result:
        calls.append(part.name)
        if len(calls) == 4:
            leaving = target / part.folder / f".{part.name}.{kind}.0badcafe.tmp"
            leaving.parent.mkdir(parents=True, exist_ok=True)
            leaving.write_bytes(b"half")
            raise KeyboardInterrupt
        return writing(part, *args)

    monkeypatch.setattr(job, "write_part", killed)
    run = CliRunner().invoke(kdump, ["export", "--file-format", kind, "--to", str(target), *SMALL])
    assert run.exit_code != 0
    assert len(calls) == 4
    again = export("--file-format", kind, "--to", target, *SMALL)
    assert again.exit_code == 0, again.output
    assert len(set(calls[4:]) & set(calls[:3])) == 0
    ours = {name: data for name, data in files_of(target).items() if "_kdump" not in name}
    assert ours == {name: data for name, data in files_of(whole).items() if "_kdump" not in name}
    calls.clear()
    assert export("--file-format", kind, "--to", target, *SMALL).stdout == again.stdout
    assert calls == []


def test_an_export_of_findings_is_begun_anew(tmp_path: Path, tree: list[str]) -> None:
    for _ in range(2):
        export("--table", "findings", "--to", tmp_path / "out", *tree)
        assert read_back(tmp_path / "out", "parquet").num_rows == whole_table(tree, "findings").num_rows


def test_nothing_is_written_over_something_else(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert export("--to", target, *SMALL).exit_code == 0
    before = files_of(target)
    for args in (["--table", "batches"], ["--columns", "offset"], ["--file-format", "csv"]):
        run = export(*args, "--to", target, *SMALL)
        assert (run.exit_code, run.stderr.count("\n")) == (2, 1)
        assert f"holds an export of something else: table records (parquet) of {SMALL[0]}, " in run.stderr
    assert "; other paths are asked for now; name" in export("--to", target, *SMALL[1:]).stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    assert export("--to", tmp_path / "full", *SMALL).exit_code == 2
    (tmp_path / "file").write_text("mine")
    assert export("--to", tmp_path / "file", *SMALL).exit_code == 2
    assert files_of(target) == before


def test_nothing_is_written_into_what_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write(folder / "t-0", segment(0, [batch(0)]))
    before = files_of(folder)
    assert export("--to", folder / "out", folder).exit_code == 12
    assert files_of(folder) == before
    run = CliRunner().invoke(kdump, ["verify", "--out", str(folder / "out"), str(folder)])
    assert run.exit_code == 12
    assert files_of(folder) == before


@pytest.mark.parametrize("table", ["records", "findings"])
@pytest.mark.parametrize("text", ["{", "{}", "[]", "3", '{"asked": 1, "parts": [3], "problems": []}'])
def test_state_that_is_none_is_one_clear_line(text: str, table: str, tmp_path: Path) -> None:
    (tmp_path / "out" / "_kdump").mkdir(parents=True)
    (tmp_path / "out" / "_kdump" / "plan.json").write_text(text)
    run = export("--table", table, "--to", tmp_path / "out", *SMALL)
    assert (run.exit_code, run.stderr.count("\n")) == (2, 1)
    assert "the plan in it cannot be read" in run.stderr
    assert export("--table", table, "--to", tmp_path / "whole", *SMALL).exit_code == 0
    (tmp_path / "whole" / "_kdump" / "x.done").write_text(text)
    run = export("--table", table, "--to", tmp_path / "whole", *SMALL)
    assert (run.exit_code, run.stderr.count("\n")) == (2, 1)
    assert "x.done: this note cannot be read" in run.stderr


def test_a_directory_without_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert export("--to", "", *SMALL).exit_code == 2
    assert CliRunner().invoke(kdump, ["verify", "--out", "", *SMALL]).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_what_was_missing_is_looked_for_again(tmp_path: Path) -> None:
    assert export("--to", tmp_path / "out", tmp_path / "logs").exit_code == 10
    write(tmp_path / "logs" / "t-0", segment(0, [batch(0)]))
    run = export("--to", tmp_path / "out", tmp_path / "logs")
    assert run.exit_code == 0, run.output
    assert '"rows":1,' in run.stdout


@pytest.mark.parametrize("table", ["records", "findings", "commits", "usage"])
def test_an_export_of_what_is_not_there_leaves_nothing(table: str, tmp_path: Path) -> None:
    target, made = tmp_path / "out", tmp_path / "made"
    made.mkdir()
    for directory in (target, made):
        assert export("--table", table, "--to", directory, tmp_path / "nothing").exit_code == 10
    assert list(tmp_path.iterdir()) == [made]
    assert not list(made.iterdir())
    assert export("--to", target, *SMALL).exit_code == 0


@pytest.mark.parametrize(("table", "status"), [("records", 10), ("segments", 10), ("findings", 10), ("usage", 10)])
def test_a_directory_without_kafka_files_is_said_with_those_below_it(table: str, status: int, tmp_path: Path) -> None:
    write(tmp_path / "above" / "logs" / "t-0", segment(0, [batch(0)]))
    run = export("--table", table, "--to", tmp_path / "out", tmp_path / "above")
    told = f"kdump: {tmp_path / 'above'}: no Kafka files here; did you mean {tmp_path / 'above' / 'logs'}?"
    assert told in run.output.splitlines()
    assert run.exit_code == status
    assert not (tmp_path / "out").exists()


def test_paths_inside_others_have_their_rows_once(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "t-0"
    write(folder, segment(0, [batch(0)]))
    run = export("--to", tmp_path / "out", tmp_path / "logs", folder, folder / name(0), folder / ".." / "t-0")
    assert '"files":1,"rows":1,' in run.stdout
    assert read_back(tmp_path / "out", "parquet").num_rows == 1


@pytest.mark.parametrize("table", ["batches", "segments"])
def test_what_may_have_rows_and_is_not_read_is_said(table: str, tmp_path: Path) -> None:
    write(tmp_path / "logs" / "t-0", segment(0, [batch(0)]))
    (tmp_path / "logs" / "u-0").symlink_to("t-0")
    os.mkfifo(tmp_path / "logs" / "t-0" / name(7))
    (tmp_path / "empty").mkdir()
    run = export("--table", table, "--to", tmp_path / "out", tmp_path / "logs", tmp_path / "empty")
    assert run.exit_code == 5, run.output
    for left_out in ("logs/u-0: not read", f"t-0/{name(7)}: not read", "empty: n"):
        assert left_out in run.stderr


def test_parquet_with_the_columns_of_the_directories_alone_is_refused(tmp_path: Path) -> None:
    assert export("--columns", "topic,partition", "--to", tmp_path / "out", *SMALL).exit_code == 2
    assert not (tmp_path / "out").exists()
    assert export("--columns", "topic", "--file-format", "csv", "--to", tmp_path / "out", *SMALL).exit_code == 0


def test_a_column_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    run = export("--columns", "offset,colour", "--to", tmp_path / "out", *SMALL)
    assert run.exit_code == 2
    assert "no column 'colour' in records: there are cluster, broker, host, logDir" in run.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("missing", ["pyarrow", "pyspark", "pandas"])
def test_a_missing_package_is_one_sentence_with_the_command_that_helps(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    run = export("--engine", "spark", "--to", tmp_path / "out", *SMALL)
    assert run.exit_code == 2
    assert run.stderr.count("\n") == 1
    assert missing in run.stderr
    assert "pip install 'kafka-kdump[" in run.stderr
    assert not (tmp_path / "out").exists()


def test_verify_writes_tables_besides(tree: list[str], tmp_path: Path) -> None:
    plain = CliRunner().invoke(kdump, ["verify", *tree])
    run = CliRunner().invoke(kdump, ["verify", "--out", str(tmp_path / "out"), *tree])
    assert (run.exit_code, run.stdout) == (plain.exit_code, plain.stdout)
    for table in ("findings", "segments"):
        assert read_back(tmp_path / "out" / table, "parquet").num_rows == whole_table(tree, table).num_rows
    summary = pq.read_table(tmp_path / "out" / "summary").to_pylist()
    findings = whole_table(tree, "findings").to_pylist()
    assert sum(row["errors"] for row in summary) == sum(row["severity"] == "error" for row in findings)
    assert {row["logDir"] for row in summary} >= {row["logDir"] for row in findings}


# --- stores -------------------------------------------------------------------------------------------------
def test_a_store_is_read_by_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fsspec.filesystem("memory")
    log = NODE / "plain-0" / name(0)
    data = log.read_bytes() + random.Random(1).randbytes(40_000_000)
    store.pipe_file("/logs/t-0/big.bin", data)
    asked: list[int] = []
    reading = store.cat_file
    with RemoteSource("memory://logs/t-0/big.bin") as source:
        opened = source._file

        class Counting:
            def read_at(self, size: int, position: int) -> bytes:
                asked.append(size)
                return bytes(opened.read_at(size, position))

            def close(self) -> None:
                opened.close()

        source._file = Counting()
        assert source.size == len(data)
        for position in (0, 100, 5_000_000, 39_000_000):
            assert source.read_at(position, 1000) == data[position : position + 1000]
    assert reading
    assert asked
    assert max(asked) <= 8 * 1024 * 1024


@pytest.mark.parametrize("table", [name for name in ROWS if name not in ("usage", "replicaDiffs")])
def test_a_store_has_the_rows_of_the_same_files_here(table: str, tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    case = next(one for one in damage_cases(FIXTURES / "damage") if one.name == "b01-payload-mid-last")
    tree = case.build(tmp_path / "logdir")
    twice(tree)
    root = f"/{tmp_path.name}-{table}/logdir"
    for path in tree.rglob("*"):
        if path.is_file():
            store.pipe_file(f"{root}/{path.relative_to(tree)}", path.read_bytes())
    here = split_table([str(tree)], table, 4096) if table in SPLIT else whole_table([str(tree)], table)
    url = f"memory:/{root}"
    there = split_table([url], table, 4096) if table in SPLIT else whole_table([url], table)
    assert here.num_rows > 0
    assert [row.replace(url, str(tree)) for row in sorted_rows(there)] == sorted_rows(here)
    assert [item for item in verify([f"{url}/nothing"], VerifyOptions()) if isinstance(item, OpenFailure)]
    assert [item for item in verify([url], VerifyOptions()) if isinstance(item, CheckedFile | Checked)]


@pytest.mark.parametrize("delta", [0, 1, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("base", [0, 5, -1, -2, 2**31 - 1, -(2**31)])
def test_last_sequence_is_that_of_dump_whatever_a_header_claims(tmp_path: Path, base: int, delta: int) -> None:
    log = write(tmp_path, {name(0): batch(0, producer=(7, 0, base), last_delta=delta)}) / name(0)
    dumped = run_kdump(["dump", "--format", "json", str(log)], tmp_path).stdout
    shown = [json.loads(line) for line in dumped.splitlines()]
    assert export("--table", "batches", "--to", tmp_path / "out", log).exit_code in {0, 3}
    exported = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    assert [row["lastSequence"] for row in exported] == [row["lastSequence"] for row in shown if row["type"] == "batch"]
    assert exported


# --- what is not exported is said ---------------------------------------------------------------------------
def test_logs_that_are_newer_than_the_plan_are_told(tmp_path: Path) -> None:
    """An export goes on by its plan, whatever came meanwhile: status 5, and how many logs that concerns."""
    node, target = tmp_path / "node", tmp_path / "out"
    shutil.copytree(NODE / "plain-0", node / "plain-0")
    assert export("--to", target, node).exit_code == 0
    assert export("--to", target, node).exit_code == 0
    log = node / "plain-0" / f"{0:020}.log"
    shutil.copytree(NODE / "zstd-0", node / "zstd-0")
    log.write_bytes(log.read_bytes() + log.read_bytes()[:100])
    done = export("--to", target, node)
    assert done.exit_code == 5
    (unchecked,) = json.loads(done.stdout)["unchecked"]
    assert f"5 logs are newer than the plan in {target} (4 new, 1 longer)" in unchecked["reason"]
    assert "5 logs are newer than the plan" in done.stderr


def test_a_log_that_became_shorter_since_the_plan_is_told(tmp_path: Path) -> None:
    node, target = tmp_path / "plain-0", tmp_path / "out"
    shutil.copytree(NODE / "plain-0", node)
    log = node / f"{0:020}.log"
    size = log.stat().st_size
    assert export("--to", target, node).exit_code == 0
    for note in (target / "_kdump").glob("*.done"):  # as after an interruption
        note.unlink()
    with log.open("r+b") as file:
        file.truncate(size // 2)
    done = export("--to", target, node)
    assert done.exit_code in (5, 6)
    assert f"has {size // 2} bytes, and had {size} when the work was planned" in done.stderr


def test_what_cannot_be_opened_is_a_table(tmp_path: Path) -> None:
    node, target = tmp_path / "node", tmp_path / "out"
    shutil.copytree(NODE / "plain-0", node / "plain-0")
    os.mkfifo(node / "plain-0" / f"{9999:020}.log")
    paths = node, tmp_path / "nowhere"
    done = export("--table", "unread", "--file-format", "json", "--to", target, *paths)
    assert done.exit_code == 5
    files = [path for path in target.rglob("*.json") if "_kdump" not in path.parts]
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert sorted((row["type"], row["phase"], row["topic"], os.path.basename(row["file"])) for row in rows) == [
        ("unread", "plan", None, "nowhere"),
        ("unread", "read", "plain", f"{9999:020}.log"),
    ]


def test_a_path_of_a_manifest_has_its_host_whatever_it_leads_to(tmp_path: Path) -> None:
    """A log directory itself, one that is missing, and a log."""
    log = NODE / "plain-0" / f"{0:020}.log"
    rows = [{"host": str(k), "path": str(path)} for k, path in enumerate((NODE, tmp_path / "nowhere", log))]
    (tmp_path / "fleet.json").write_text(json.dumps(rows))
    origins = Origins(read_roots([str(tmp_path / "fleet.json")]))
    found = [origins.of(str(path)) for path in (NODE, tmp_path / "nowhere", log, NODE / "zstd-0" / log.name)]
    assert [one.host for one in found] == ["0", "1", "2", "0"]
    assert [one.log_dir for one in found] == [str(NODE), str(tmp_path / "nowhere"), str(NODE), str(NODE)]
    assert [(one.topic, one.partition) for one in found[2:]] == [("plain", 0), ("zstd", 0)]
