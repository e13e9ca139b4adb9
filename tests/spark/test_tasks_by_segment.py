"""A large partition is judged by segment: the answers are those of the local engine."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

from kdump.checks.job import SegmentSummary
from kdump.checks.options import VerifyOptions
from kdump.checks.run import partitions_of, verify
from kdump.export.split import SPLIT_SIZE, pack_in_order
from kdump.item import Progress
from kdump.spark.jobs import VerifyEngine
from kdump.spark.units import DirectoryJudge, units_of
from tests.support.fleet import NODE
from tests.support.runs import FIXTURES
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAMAGE = sorted(FIXTURES.glob("damage/*/*/logdir"))


def sparse(folder: Path, count: int) -> Path:
    """A partition of logs of a GiB each, of which a block is on the disk."""
    folder.mkdir(parents=True)
    for base in range(count):
        with (folder / f"{base:020}.log").open("wb") as log:
            log.write(batch(base))
            log.truncate(1 << 30)
    return folder


def test_a_log_of_a_large_partition_is_a_task(tmp_path: Path) -> None:
    (check,) = partitions_of([str(sparse(tmp_path / "t-0", 256))])
    units = units_of(check, SPLIT_SIZE["findings"])
    assert len(units) == 256
    assert {unit.base for unit in units} == set(range(256))
    groups = pack_in_order(units, [one.size for one in units], SPLIT_SIZE["findings"], 2)
    assert len(groups) >= 256
    assert [one for group in groups for one in group] == units


def test_a_small_partition_is_one_task() -> None:
    for check in partitions_of([str(NODE)]):
        (unit,) = units_of(check, SPLIT_SIZE["findings"])
        assert unit.base is None
        assert unit.size == sum(check.sizes)


def test_tasks_are_as_many_as_there_are_files_to_open() -> None:
    groups = pack_in_order(list(range(100_000)), [0] * 100_000, SPLIT_SIZE["findings"], 2)
    assert len(groups) >= 300
    assert max(map(len, groups)) <= 300


@pytest.mark.parametrize("least", [1, 2, 7])
def test_groups_in_order_are_about_even(least: int) -> None:
    random_ = random.Random(least)
    sizes = [random_.randint(0, 1 << 27) for _ in range(200)]
    groups = pack_in_order(list(range(200)), sizes, 1 << 28, least)
    assert [one for group in groups for one in group] == list(range(200))
    assert max(sum(sizes[one] for one in group) for group in groups) < 2 << 28


def test_a_segment_that_is_gone_is_not_read(tmp_path: Path) -> None:
    shutil.copytree(NODE / "zstd-0", tmp_path / "zstd-0")
    (check,) = partitions_of([str(tmp_path / "zstd-0")])
    units = units_of(check, 1)
    assert len(units) == len(check.jobs) > 3
    shutil.rmtree(tmp_path / "zstd-0")
    *_, last = DirectoryJudge(VerifyOptions()).unit(units[0], [])
    assert isinstance(last, SegmentSummary)
    assert not last.is_read


def test_verify_by_segment_says_what_the_local_engine_says(
    spark: SparkSession, tree: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [*tree, *map(str, DAMAGE[::9])]
    local = list(verify(paths, VerifyOptions()))
    monkeypatch.setitem(SPLIT_SIZE, "findings", 1)
    there = list(verify(paths, VerifyOptions(progress=True), VerifyEngine(spark)))
    assert [one for one in there if not isinstance(one, Progress)] == local


def test_only_the_jobs_of_a_run_are_cancelled(spark: SparkSession, tree: list[str]) -> None:
    context = spark.sparkContext
    other = context.parallelize(range(2), 2)
    items = verify(tree, VerifyOptions(progress=True), VerifyEngine(spark))
    next(item for item in items if isinstance(item, Progress))
    items.close()  # type: ignore[attr-defined]
    assert other.sum() == 1
    assert not context.statusTracker().getActiveJobsIds()
