"""What verify says as tables, read by segment in two stages: the rows are those of the local engine."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import kdump.spark
from kdump.export.tables import TABLES
from kdump.spark.by_segment import _AT, _NUMBER, _UNIT, SegmentParts, _Merge
from kdump.spark.errors import UnreadError
from kdump.spark.source_options import OptionError
from tests.support.fleet import NODE, log_dirs
from tests.support.runs import FIXTURES
from tests.support.tables import local_table, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

WHOLE = ["findings", "segments", "losses", "duplicates", "partitionSummary"]
PLACES = sorted({*log_dirs(FIXTURES / "releases"), *log_dirs(FIXTURES / "kafka-4.3.1"), *log_dirs(FIXTURES / "damage")})


def both_stages(paths: Sequence[str], table: str, **options: str) -> pa.Table:
    """The rows of both stages, without a session."""
    source = SegmentParts({"paths": json.dumps(list(paths)), "table": table, "splitSize": "1", **options})
    reader = source.reader(source.schema())
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    columns = source.schema().names[4:]
    if not batches:
        return pa.table({name: [] for name in columns})
    handed = pa.Table.from_batches(batches)
    order = [(name, "ascending") for name in (_UNIT, _AT, _NUMBER)]
    made = list(_Merge()(iter(handed.sort_by(order).to_batches(7))))
    return pa.Table.from_batches(made, schema=handed.select(columns).schema)


@pytest.mark.parametrize("table", WHOLE)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.removeprefix(f"{FIXTURES}/"))
def test_both_stages_say_what_the_local_engine_says(table: str, place: str) -> None:
    found = both_stages([place], table, mode="permissive")
    assert sorted_rows(found) == sorted_rows(local_table([place], table))


@pytest.mark.parametrize("table", WHOLE)
def test_the_rows_of_spark_are_those_of_the_local_engine(table: str, spark: SparkSession, tree: list[str]) -> None:
    frame = kdump.spark.judged(tree, table, {"mode": "permissive", "splitSize": "1"}, spark)
    found, local = frame.toArrow(), local_table(tree, table)
    assert found.schema.names == [column.name for column in TABLES[table]]
    assert sorted_rows(found) == sorted_rows(local)
    assert sorted_rows(frame.toArrow()) == sorted_rows(local)  # again


def test_a_table_of_one_stage_is_refused_with_what_reads_it(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="the table batches is read by spark"):
        kdump.spark.judged([str(NODE)], "batches", spark=spark)


@pytest.mark.parametrize("table", WHOLE)
def test_no_table_is_empty_where_a_task_does_not_see_the_files(table: str, tmp_path: Path) -> None:
    place = tmp_path / "node"
    shutil.copytree(NODE, place)
    source = SegmentParts({"path": str(place), "table": table, "splitSize": "1"})
    reader = source.reader(source.schema())
    tasks = reader.partitions()
    assert len(tasks) > 20
    shutil.rmtree(place)
    with pytest.raises(UnreadError, match=str(place)):
        [batch for task in tasks for batch in reader.read(task)]
