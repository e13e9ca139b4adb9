"""Nights on Spark are those of one machine, and a table is read by the list of its present state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kdump.spark
from kdump.cli.main import kdump as command
from kdump.nights.present import NotThisStoreError
from kdump.spark.tables import NoTableError
from tests.support.nights import CHANGES, files_of, last_run, node, on_disk, rest, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")
SPARK = ("--engine", "spark")
VERBS = {"verify": ("verify", "--quiet"), **{one: ("export", "--table", one) for one in ("records", "findings")}}


def night(verb: str, data: Path, store: Path, *more: str) -> Any:
    """One run that keeps a store; none may end with a traceback."""
    run = CliRunner().invoke(command, [*VERBS[verb], str(data), "--to", str(store), "--update", *more])
    assert run.exception is None or isinstance(run.exception, SystemExit), run.exc_info
    return run


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("verb", VERBS)
def test_the_second_night_on_spark_has_the_tables_of_a_fresh_local_run(tmp_path: Path, change: str, verb: str) -> None:
    data = node(tmp_path / "data")
    night(verb, data, tmp_path / "store", *SPARK)
    CHANGES[change](data)
    rest()
    second = night(verb, data, tmp_path / "store", "--prune", *SPARK)
    fresh = night(verb, data, tmp_path / "fresh")
    assert rows_of(tmp_path / "store") == rows_of(tmp_path / "fresh")
    assert (second.exit_code, second.stdout) == (fresh.exit_code, fresh.stdout)
    assert on_disk(tmp_path / "store") == files_of(tmp_path / "store")
    assert 0 < last_run(tmp_path / "store")["files"] < last_run(tmp_path / "fresh")["files"] or change == "deletion"


@pytest.mark.parametrize("verb", VERBS)
def test_engines_take_turns_at_one_store(tmp_path: Path, verb: str) -> None:
    data = node(tmp_path / "data")
    night(verb, data, tmp_path / "store")
    before = on_disk(tmp_path / "store")
    night(verb, data, tmp_path / "store", *SPARK)
    assert last_run(tmp_path / "store")["files"] == 0
    assert on_disk(tmp_path / "store") == before


@pytest.mark.parametrize("verb", VERBS)
def test_the_figures_of_spark_are_those_of_one_machine(tmp_path: Path, verb: str) -> None:
    data = node(tmp_path / "data")
    CHANGES["damage"](data)
    rest()
    found = []
    for at, engine in enumerate((SPARK, ())):
        file = tmp_path / f"{at}.prom"
        night(verb, data, tmp_path / str(at), "--metrics", str(file), *engine)
        found.append([line for line in file.read_text().splitlines() if "seconds" not in line])
    assert found[0] == found[1]
    assert any('code="B01"' in line for line in found[0])


def test_a_table_is_read_by_the_list(tmp_path: Path, spark: SparkSession) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night("verify", data, store)
    by_list = kdump.spark.table(str(store / "segments"), spark=spark)
    assert by_list.columns[:6] == ["cluster", "broker", "host", "logDir", "topic", "partition"]
    assert {(row.topic, row.partition) for row in by_list.collect()} == {("a", 0), ("b", 0), ("c", 0)}
    assert kdump.spark.table(str(store), "segments").count() == by_list.count() == 12
    assert kdump.spark.table(str(store), "losses").count() == 0
    left = store / files_of(store)[0]
    (left.parent / f"{'0' * 16}-left.parquet").write_bytes(left.read_bytes())
    assert kdump.spark.table(str(store), "partitionSummary").count() == 3
    with pytest.raises(NoTableError, match="name one"):
        kdump.spark.table(str(store))
    with pytest.raises(NoTableError, match="no table records2"):
        kdump.spark.table(str(tmp_path / "store"), "records2")
    with pytest.raises(NotThisStoreError):
        kdump.spark.table(str(data))


def test_the_only_table_of_a_directory_needs_no_name(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night("records", data, store, "--columns", "topic,offset")
    rows = kdump.spark.table(str(store)).collect()
    assert sorted({(row.topic, row.offset) for row in rows})[:2] == [("a", 0), ("a", 1)]
    assert len(rows) == 60


def test_the_tables_of_several_hosts_are_one(tmp_path: Path) -> None:
    for number, host in enumerate(("one", "two"), 1):
        data = node(tmp_path / host, number=number)
        night("verify", data, tmp_path / "store", "--host", host)
    rows = kdump.spark.table(str(tmp_path / "store"), "segments").collect()
    assert {(row.host, row.broker) for row in rows} == {("one", 1), ("two", 2)}
    assert len(rows) == 24
    alone = kdump.spark.table(str(tmp_path / "store" / "host=two" / "segments")).collect()
    assert {row.host for row in alone} == {"two"}
