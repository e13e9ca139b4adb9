"""verify --scrub with Spark: the same rules and the same words, and a ledger of Parquet files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from kdump.checks.ledger import Known, LedgerError, Listed
from kdump.checks.scrub import ScrubOptions, scrub
from kdump.finding import Finding
from kdump.spark.jobs import ScrubEngine
from kdump.spark.ledger_files import LedgerFiles
from kdump.storage import guest
from tests.support.partitions import name
from tests.support.scrubs import closed, left, log_dir, read, rot, rotten, run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kdump.item import Item

ALL = [f"{topic}-0/{name(base)}" for topic in "ab" for base in (0, 5, 10)]


def spark_run(spark: SparkSession, ledger: Path, logs: Path, **options: Any) -> list[Item]:
    return list(scrub([str(logs)], ScrubOptions(str(ledger), **options), ScrubEngine(spark)))


def said(items: list[Item]) -> list[tuple[Any, ...]]:
    found = [one for one in items if isinstance(one, Finding)]
    return [(one.code, one.file, one.position, one.length, one.because) for one in found]


def test_spark_finds_what_this_machine_finds(spark: SparkSession, tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs")
    local, there = tmp_path / "ledger", tmp_path / "ledgers"
    assert read(spark_run(spark, there, logs)) == read(run(local, logs)) == ALL
    rot(closed(logs)[1], mend=True)
    rot(closed(logs)[4])
    os.truncate(closed(logs)[2], 69)
    for _ in range(2):
        items = spark_run(spark, there, logs)
        said = [
            (one.code, one.file, one.position, one.length, one.because) for one in items if isinstance(one, Finding)
        ]
        here = run(local, logs)
        assert said == [
            (one.code, one.file, one.position, one.length, one.because) for one in here if isinstance(one, Finding)
        ]
        assert len(rotten(items)) == 2
        assert read(items) == read(here)
    assert len(list(there.glob("run-*.parquet"))) == 3
    accepted = closed(logs)[1]
    assert [one.file for one in rotten(spark_run(spark, there, logs, accept=(str(accepted),)))] == [
        str(closed(logs)[4])
    ]
    closed(logs)[4].unlink()
    assert rotten(spark_run(spark, there, logs)) == []


def test_what_was_not_reached_comes_first(spark: SparkSession, tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs")
    there = tmp_path / "ledgers"
    first = spark_run(spark, there, logs, seconds=1e-9)
    assert first
    missed = left(first)
    assert len(missed) + len(read(first)) == len(ALL)
    second = read(spark_run(spark, there, logs))
    assert sorted(second) == ALL
    assert [str(logs / one) for one in second[: len(missed)]] == missed


def test_tasks_share_the_rate_of_the_user(spark: SparkSession, tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs", value=9000, batches=20)
    guest.be(rate=10**9, keeps_cache=True, idle=True)
    try:
        assert guest.of_each(4) == {"rate": 250_000_000, "keeps_cache": True, "idle": True}
        assert len(read(spark_run(spark, tmp_path / "ledgers", logs))) == len(closed(logs))
    finally:
        guest.be()


# --- the files, without Spark ---------------------------------------------------------------------------------
KNOWN = Known(1, 2**64 - 2, 3, 4, 5, b"abcd", 6)


def entered(path: Path, *paths: bytes) -> LedgerFiles:
    ledger = LedgerFiles(str(path))
    ledger.enter([Listed(one, os.fsdecode(one), 0, 9, 1, 2, 3) for one in paths])
    return ledger


def test_each_run_adds_a_file_with_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "ledgers"
    first = entered(path, b"/l/a", b"/l/b")
    for turn in first.begin():
        first.keep(turn.number, KNOWN)
        first.took_turn(turn.number, is_left=turn.is_left)
    first.end()
    first.close()
    second = entered(path, b"/l/b", b"/l/c")
    second.forget("/l")
    turns = list(second.begin())
    assert [turn.path for turn in turns] == ["/l/c", "/l/b"]
    assert [second.known(turn.number) for turn in turns] == [None, KNOWN]
    second.saw(turns[1].number, KNOWN.replace(seen=7))
    second.took_turn(turns[1].number, is_left=False)
    second.end()
    second.close()
    files = sorted(path.glob("run-*.parquet"))
    rows = {row["path"]: row for row in pq.read_table(files[1]).to_pylist()}
    assert {one: (row["gone"], row["crcs"], row["seen"]) for one, row in rows.items()} == {
        b"/l/a": (True, None, None),
        b"/l/b": (False, None, 7),
        b"/l/c": (False, None, None),
    }
    third = entered(path, b"/l/a", b"/l/b", b"/l/c")
    turns = list(third.begin())
    assert [(turn.path, third.known(turn.number), turn.is_left) for turn in turns] == [
        ("/l/c", None, True),
        ("/l/a", None, False),
        ("/l/b", KNOWN.replace(seen=7), False),
    ]
    third.close()
    assert sorted(path.glob("*")) == files  # it was not ended: as a run that was killed


def test_a_second_run_is_locked_out_and_other_directories_are_refused(tmp_path: Path) -> None:
    first = LedgerFiles(str(tmp_path / "ledgers"))
    with pytest.raises(LedgerError) as error:
        LedgerFiles(str(tmp_path / "ledgers"))
    assert error.value.is_locked
    first.close()
    with pytest.raises(LedgerError) as error:
        LedgerFiles(str(tmp_path))
    assert error.value.is_refused
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(LedgerError) as error:
        LedgerFiles(str(tmp_path / "file"))
    assert error.value.is_refused
