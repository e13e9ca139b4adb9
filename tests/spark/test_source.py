"""The data source on real Spark: the rows are those of the local engine."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import kdump.spark
from kdump.export.tables import SPLIT_TABLES, STATE_TABLES, TABLES
from kdump.spark.errors import UnreadError
from kdump.spark.source import KafkaSegments, WholeReader, _SplitReader
from kdump.spark.source_options import SLOTS
from tests.support.fleet import NODE, OLD, twice
from tests.support.runs import FIXTURES
from tests.support.tables import local_table, sorted_rows, split_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSourceReader, InputPartition


def table_of(spark: SparkSession, paths: Sequence[str], table: str, **options: object) -> DataFrame:
    reader = spark.read.format("kafka-segments").option("table", table)
    return reader.options(**{name: str(value) for name, value in options.items()}).load(list(paths))


def rows_of(frame: DataFrame) -> pa.Table:
    return frame.toArrow()


@pytest.mark.parametrize("table", STATE_TABLES)
def test_what_internal_topics_come_to_is_that_of_the_local_engine(table: str, spark: SparkSession) -> None:
    """Of two copies of a partition one counts, wherever the tasks run."""
    paths = [str(NODE), str(NODE.parents[1] / "live" / "node1")]
    found, local = rows_of(table_of(spark, paths, table)), local_table(paths, table)
    assert found.num_rows > 2
    assert sorted_rows(found) == sorted_rows(local)
    assert table_of(spark, paths, table).rdd.getNumPartitions() > 1


@pytest.mark.parametrize("table", [name for name in TABLES if name not in STATE_TABLES])
def test_the_rows_are_those_of_the_local_engine(table: str, spark: SparkSession, tree: list[str]) -> None:
    found = rows_of(table_of(spark, tree, table, mode="permissive"))
    local = local_table(tree, table)
    assert found.schema.names == local.schema.names == [column.name for column in TABLES[table]]
    assert found.num_rows > {"unread": 1, "losses": 10, "duplicates": 0}.get(table, 40)
    assert sorted_rows(found) == sorted_rows(local)


@pytest.mark.parametrize("table", ["replicaDiffs", "losses"])
def test_replicas_meet_in_one_task(table: str, spark: SparkSession, tmp_path: Path) -> None:
    paths: list[str] = []
    for folder in sorted(FIXTURES.glob("replica-*")):
        for path in json.loads((folder / "expect.json").read_text())["paths"]:
            place = tmp_path / folder.name / path
            shutil.copytree(folder / path, place)
            (place / "meta.properties").write_text(f"version=1\nnode.id={len(paths)}\ncluster.id={folder.name}\n")
            paths.append(str(place))
    found = rows_of(table_of(spark, paths, table, minPartitions=4))
    assert found.num_rows > 0
    assert sorted_rows(found) == sorted_rows(local_table(paths, table))
    if table == "losses":
        assert any(found.column("elsewhere").to_pylist())


def test_times_are_timestamps_and_columns_have_comments(spark: SparkSession) -> None:
    path = [str(NODE / "plain-0")]
    plain, dated = (table_of(spark, path, "batches", timestamps=word) for word in ("false", "true"))
    assert dict(plain.dtypes)["maxTimestamp"] == "bigint"
    assert dict(dated.dtypes)["maxTimestamp"] == "timestamp"
    dated.createOrReplaceTempView("dated")
    comments = {row.col_name: row.comment for row in spark.sql("DESCRIBE dated").collect()}
    assert comments == {one.name: one.doc for one in TABLES["batches"]}
    found = dated.selectExpr("baseOffset", "unix_millis(maxTimestamp) AS maxTimestamp").toArrow()
    assert sorted_rows(found) == sorted_rows(rows_of(plain.select("baseOffset", "maxTimestamp")))


@pytest.mark.parametrize("table", SPLIT_TABLES)
@pytest.mark.parametrize("size", ["4k", "1m", "1g"])
def test_the_rows_are_the_same_for_any_split_size(table: str, size: str, spark: SparkSession) -> None:
    paths = [str(NODE / "zstd-0"), str(NODE / "plain-0"), *map(str, sorted(OLD.glob("*/*/*-0"))[:6])]
    found = rows_of(table_of(spark, paths, table, splitSize=size))
    assert sorted_rows(found) == sorted_rows(local_table(paths, table))


def test_a_large_segment_is_read_by_many_tasks(spark: SparkSession, large: Path) -> None:
    frame = table_of(spark, [str(large)], "records", splitSize="4m", columns="offset,valueSize", minPartitions=8)
    assert frame.rdd.getNumPartitions() >= 8
    local = split_table([str(large)], "records", columns=["offset", "valueSize"])
    assert sorted(frame.toArrow().column("offset").to_pylist()) == list(range(48_000))
    assert frame.agg({"valueSize": "sum"}).collect()[0][0] == sum(local.column("valueSize").to_pylist())


def test_the_tasks_over_a_mixed_tree_are_even(tree: list[str], large: Path) -> None:
    options = {"paths": json.dumps([*tree, str(large)]), "splitsize": "8m", "table": "batches", "minpartitions": "2"}
    options["mode"] = "permissive"
    source = KafkaSegments(options)
    tasks = source.reader(source.schema()).partitions()
    loads = [sum(split.size for _, splits in task.value for split in splits) for task in tasks]
    assert len(loads) >= 4
    assert max(loads) * len(loads) < 1.5 * sum(loads)


def test_there_are_as_many_tasks_as_can_run_at_a_time(spark: SparkSession) -> None:
    environment = spark.sparkContext.environment
    assert environment[SLOTS] == "2"
    environment[SLOTS] = "5"
    try:
        spark.dataSource.register(KafkaSegments)
        assert table_of(spark, [str(NODE)], "batches").rdd.getNumPartitions() == 5
    finally:
        kdump.spark.register(spark)
    assert environment[SLOTS] == "2"


def test_no_filter_is_pushed_and_a_view_may_be_used_twice(spark: SparkSession) -> None:
    for reader in (_SplitReader, WholeReader):
        assert "pushFilters" not in vars(reader)
    table_of(spark, [str(NODE)], "batches").createOrReplaceTempView("twice")
    counts = {row[0]: row[1] for row in spark.sql("SELECT topic, count(*) FROM twice GROUP BY topic").collect()}
    one, other = counts["plain"], counts["zstd"]
    both = "SELECT topic FROM twice WHERE topic = 'plain' UNION ALL SELECT topic FROM twice WHERE topic = 'zstd'"
    found = sorted(row[0] for row in spark.sql(both).collect())
    assert found == ["plain"] * one + ["zstd"] * other
    join = "SELECT count(*) FROM twice a JOIN twice b ON a.topic = 'plain' AND b.topic = 'zstd'"
    assert spark.sql(join).collect()[0][0] == one * other
    view = spark.table("twice")
    assert view.where("topic = 'plain'").count() == one
    assert view.count() == sum(counts.values())


def test_options_of_a_view_in_sql_select_as_the_local_engine_does(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW some USING `kafka-segments` OPTIONS "
        f"(path '{NODE}', table 'records', columns 'topic,offset,timestamp', topics 'plain,zstd', fromOffset '100')"
    )
    local = split_table([str(NODE / "plain-0"), str(NODE / "zstd-0")], "records", columns=["offset"])
    expected = sum(offset >= 100 for offset in local.column("offset").to_pylist())
    assert spark.sql("SELECT count(*), min(offset) FROM some").collect()[0] == (expected, 100)
    assert spark.table("some").columns == ["topic", "offset", "timestamp"]


def test_records_of_internal_topics_are_decoded(spark: SparkSession) -> None:
    frame = table_of(spark, [str(NODE)], "records", topics="__consumer_offsets", decoder="auto")
    groups = frame.selectExpr("get_json_object(decodedKey, '$.data.group') AS name").distinct().toArrow()
    assert {"grp-alive", "grp-new", "str-app"} <= set(groups.column("name").to_pylist())
    bare = table_of(spark, [str(NODE)], "records", topics="__consumer_offsets", decoder="none")
    assert bare.where("decodedKey IS NOT NULL").count() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "rows"}, "no table 'rows': there are batches, records, findings, segments"),
        ({"columns": "position,colour"}, "no column 'colour' in batches"),
        ({"splitsize": "many"}, "option splitSize: 'many': is not a number of bytes"),
        ({"topics": "nope"}, "option topics: nothing is 'nope'; here are plain"),
        ({"colums": "offset"}, "no option 'colums'"),
        ({"mode": "lenient"}, "option mode: 'lenient': is none: there are failfast, permissive"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(options: dict[str, str], said: str, spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=said):
        spark.read.format("kafka-segments").options(**options).load(str(NODE / "plain-0")).count()


@pytest.mark.parametrize("table", TABLES)
def test_a_path_that_is_not_there_is_said_in_a_line(table: str, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=r"no such file: .*nowhere"):
        table_of(spark, [str(NODE), str(tmp_path / "nowhere")], table).count()


def test_a_directory_without_kafka_files_is_no_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    """As a volume that is not mounted looks."""
    for table in (*SPLIT_TABLES, "findings", "unread", "usage"):
        with pytest.raises(PySparkException, match="no Kafka files"):
            table_of(spark, [str(tmp_path)], table).count()
        assert table_of(spark, [str(tmp_path)], table, mode="permissive").count() == (table == "unread")
    assert KafkaSegments.name() == "kafka-segments"


def test_a_host_that_is_missing_does_not_end_the_others(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"host": "one", "path": str(NODE)}, {"host": "two", "path": "nowhere"}]
    (tmp_path / "fleet.json").write_text(json.dumps(rows))
    path = [str(tmp_path / "fleet.json")]
    assert table_of(spark, path, "segments", mode="permissive").select("host").distinct().collect() == [("one",)]
    (row,) = table_of(spark, path, "unread", mode="permissive").collect()
    assert (row.host, row.phase, row.file) == ("two", "plan", str(tmp_path / "nowhere"))
    assert "no such file" in row.reason


def test_a_table_of_the_catalog_is_refused_with_what_does_it(spark: SparkSession) -> None:
    """Spark would make it, and hand its readers no path."""
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE kept USING `kafka-segments` OPTIONS (path '{NODE / 'plain-0'}', table 'batches')")


# --- what the planner saw, and a task does not --------------------------------------------------------------
def planned(paths: Sequence[str], table: str, **options: str) -> tuple[DataSourceReader, list[InputPartition]]:
    """A reader and its tasks, as the driver makes them, sent once over."""
    source = KafkaSegments({"paths": json.dumps(list(paths)), "table": table, **options})
    reader = source.reader(source.schema())
    tasks = list(reader.partitions())
    sent: tuple[DataSourceReader, list[InputPartition]] = pickle.loads(pickle.dumps((reader, tasks)))
    return sent


def done(reader: DataSourceReader, tasks: Sequence[InputPartition]) -> list[dict[str, object]]:
    """The rows of all tasks."""
    batches: list[Any] = [batch for task in tasks for batch in reader.read(task)]
    return [row for batch in batches for row in batch.to_pylist()]


def _hide(place: Path, how: str) -> None:
    if how == "empty":
        shutil.rmtree(place)
        place.mkdir()
    elif how == "gone":
        shutil.rmtree(place)
    elif how == "another":
        (place / "meta.properties").write_text("version=1\nnode.id=9\ndirectory.id=other\n")
    elif how == "a directory":
        for log in place.glob("*-*/*.log"):
            log.unlink()
            log.mkdir()
    else:
        for log in place.glob("*-*/*.log"):
            log.unlink()
            os.mkfifo(log)


@pytest.mark.parametrize("how", ["empty", "gone", "another", "a directory", "a FIFO"])
@pytest.mark.parametrize("table", TABLES)
def test_no_table_is_empty_where_a_task_does_not_see_the_files(table: str, how: str, tmp_path: Path) -> None:
    node = tmp_path / "node"
    shutil.copytree(NODE, node)
    twice(node)
    reader, tasks = planned([str(node)], table)
    lenient, same = planned([str(node)], table, mode="permissive")
    assert table in ("unread", "replicaDiffs") or done(reader, tasks)
    logs = {str(log): log.stat().st_size for log in node.glob("*-*/*.log")}
    _hide(node, how)
    with pytest.raises(UnreadError, match=str(tmp_path)):
        done(reader, tasks)
    rows = done(lenient, same)
    if table == "unread":
        assert {row["file"]: row["bytes"] for row in rows if str(row["file"]).endswith(".log")} == logs
        assert {row["phase"] for row in rows} == {"read"}
    elif table == "segments":
        assert {row["file"]: row["status"] for row in rows} == dict.fromkeys(logs, "UNREAD")


@pytest.mark.parametrize("has_id", [True, False])
def test_a_log_that_was_removed_since_does_not_end_the_work(has_id: bool, tmp_path: Path) -> None:
    node, gone = tmp_path / "node", tmp_path / "node" / "plain-0" / f"{0:020}.log"
    shutil.copytree(NODE, node)
    if not has_id:
        (node / "meta.properties").unlink()
    shutil.copy(gone, gone.with_name(f"{10**6:020}.log"))
    plans = {table: planned([str(node)], table) for table in TABLES}
    size = gone.stat().st_size
    gone.unlink()
    rows = {table: done(*plan) for table, plan in plans.items()}
    assert [(row["file"], row["bytes"]) for row in rows["unread"]] == [(str(gone), size)]
    assert [row["file"] for row in rows["findings"] if row["code"] == "V02"] == [str(gone)]
    assert [row["status"] for row in rows["segments"] if row["file"] == str(gone)] == ["UNREAD"]
    assert rows["batches"]
    assert all(row["file"] != str(gone) for table in SPLIT_TABLES for row in rows[table])


def test_another_date_in_the_properties_is_the_same_directory(tmp_path: Path) -> None:
    node = tmp_path / "node"
    shutil.copytree(NODE, node)
    reader, tasks = planned([str(node)], "batches")
    count = len(done(reader, tasks))
    lines = (node / "meta.properties").read_text().splitlines()
    (node / "meta.properties").write_text("\n".join(["#Thu Jan 01 00:00:00 UTC 2026", *reversed(lines)]))
    assert len(done(reader, tasks)) == count > 0


# --- workers that die ---------------------------------------------------------------------------------------
def workers() -> list[int]:
    """The processes that run Python for tasks: children of the daemon, which has the same command line."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"kdump.spark.daemon" in (folder / "cmdline").read_bytes():
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    return [child for child, parent in parents.items() if parent in parents]


def test_a_worker_that_is_killed_changes_nothing(spark: SparkSession, large: Path) -> None:
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.is_set() and len(killed) < 2:
            stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numCompletedTasks >= 1 for stage in stages):
                for pid in workers()[:2]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            time.sleep(0.01)

    frame = table_of(spark, [str(large)], "records", splitSize="1m", minPartitions=24)
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        found = frame.toArrow()
    finally:
        over.set()
        thread.join()
    assert killed
    assert sorted_rows(found) == sorted_rows(local_table([str(large)], "records"))
