"""The jobs behind `--engine spark`: verify by partition directory, export by piece of a log.

Both hand work out as plain values, in tasks of about the same size, and take back what the local engine gives: items
of verify, results of parts. While a job runs its stages are told.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from kdump.checks import replicas, scrub_segment
from kdump.checks.scrub import LocalScrub
from kdump.export import job as export_job
from kdump.export.split import SPLIT_SIZE, pack
from kdump.export.verdicts import unread_of
from kdump.item import Progress
from kdump.spark.errors import NO_KDUMP, SparkFailedError, reason_of
from kdump.spark.gateway import kept_log
from kdump.spark.state import state_items, state_units
from kdump.spark.units import Directory, DirectoryJudge
from kdump.storage import guest
from kdump.storage.directory import expanded
from kdump.storage.file_source import OpenFailure
from kdump.storage.sighting import LogDirs, sightings
from kdump.usage.run import PlacedRows, usage_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kdump.checks.ledger import Ledger
    from kdump.checks.options import VerifyOptions
    from kdump.checks.partition_check import PartitionCheck
    from kdump.checks.scrub import ScrubOptions
    from kdump.checks.scrub_segment import ScrubUnit
    from kdump.export.job import ExportPart, ExportTarget, Result
    from kdump.export.origin import Origins
    from kdump.export.read import ReadOptions
    from kdump.finding import Finding
    from kdump.format.read_limits import ReadLimits
    from kdump.item import Item
    from kdump.spark.state import StateUnit
    from kdump.storage.sighting import Sighting
    from kdump.usage.options import UsageOptions
    from kdump.usage.run import UsageUnit

    Judged = tuple[int, list[Item], list[Finding]]

_OFTEN = 0.25  # seconds between two looks at the stages


class VerifyEngine(replicas.LocalReplicas):
    """Judges partition directories in tasks of Spark.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def partitions(self, checks: Sequence[PartitionCheck], options: VerifyOptions) -> Iterator[Iterator[Item]]:
        """Yield for each partition, in order, what is wrong there."""
        units = list(enumerate(map(Directory.of, checks)))
        sizes = [sum(check.sizes) for check in checks]
        results: dict[int, tuple[list[Item], list[Finding]]] = {}

        def all_results() -> Iterator[Item]:
            work = partial(_judge, options=options)
            for one in _run(self._context, "verify", units, sizes, SPLIT_SIZE["findings"], work):
                if isinstance(one, Progress):
                    if options.progress:
                        yield one
                else:
                    number, items, late = one
                    results[number] = (items, late)

        for number, check in enumerate(checks):
            yield self._of(number, check, results, all_results)

    def _of(
        self,
        number: int,
        check: PartitionCheck,
        results: dict[int, tuple[list[Item], list[Finding]]],
        run: Callable[[], Iterator[Item]],
    ) -> Iterator[Item]:
        if number not in results:
            yield from run()
        items, late = results.pop(number)
        check.checkpoint_findings.extend(late)
        yield from items

    def replicas(self, groups: Sequence[Sequence[PartitionCheck]], options: VerifyOptions) -> Iterator[Item]:
        """Yield where the replicas of partitions are not the same; those of a partition meet in one task."""
        units = list(enumerate([Directory.of(check) for check in checks] for checks in groups))
        sizes = [sum(sum(check.sizes) for check in checks) for checks in groups]
        found: dict[int, list[Item]] = {}
        work = partial(_compare, options=options)
        for one in _run(self._context, "replicas", units, sizes, SPLIT_SIZE["findings"], work):
            if not isinstance(one, Progress):
                found[one[0]] = one[1]
            elif options.progress:
                yield one
        for number in range(len(units)):
            yield from found[number]


class ScrubEngine(LocalScrub):
    """Reads closed segments in tasks of Spark; the ledger is a directory.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def ledger(self, path: str) -> Ledger:
        """Return the ledger, held by this run."""
        from kdump.spark.ledger_files import LedgerFiles

        return LedgerFiles(path)

    @contextmanager
    def judged(
        self, units: Iterator[ScrubUnit], options: ScrubOptions, end: float | None, total: int
    ) -> Iterator[Iterator[Iterator[scrub_segment.Result]]]:
        """Give the results of each unit, in order; the job runs when the first is asked for."""
        yield self._each(list(units), options, None if end is None else time.time() + end - time.monotonic())

    def _each(
        self, units: list[ScrubUnit], options: ScrubOptions, end: float | None
    ) -> Iterator[Iterator[scrub_segment.Result]]:
        results: dict[int, list[scrub_segment.Result]] = {}
        work = partial(_scrub, end=end)

        def first() -> Iterator[scrub_segment.Result]:
            sizes = [unit.size for unit in units]
            for one in _run(self._context, "scrub", list(enumerate(units)), sizes, SPLIT_SIZE["findings"], work):
                if not isinstance(one, Progress):
                    results[one[0]] = one[1]
                elif options.progress:
                    yield one
            yield from results.pop(0)

        for number in range(len(units)):
            yield iter(results.pop(number)) if number else first()


class ExportEngine(export_job.LocalExport):
    """Writes parts in tasks of Spark.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def write(
        self, parts: Sequence[ExportPart], target: ExportTarget, options: ReadOptions
    ) -> Iterator[Result | Progress]:
        """Yield what becomes of each part, and how far all are."""
        sizes = [part.split.size for part in parts]
        work = partial(_write, target=target, options=options)
        yield from _run(self._context, "export", parts, sizes, SPLIT_SIZE["records"], work)


def _judge(group: list[tuple[int, Directory]], options: VerifyOptions) -> Iterator[Judged]:
    judge = DirectoryJudge(options)
    for number, directory in group:
        late: list[Finding] = []
        yield number, list(judge.partition(directory, late)), late


def _scrub(group: list[tuple[int, ScrubUnit]], end: float | None) -> Iterator[tuple[int, list[scrub_segment.Result]]]:
    is_first = True

    def is_over() -> bool:
        return end is not None and not is_first and time.time() >= end

    for number, unit in group:
        if is_over():
            yield number, [scrub_segment.ScrubOutcome(left_out=scrub_segment.NO_TIME)]
            continue
        found = scrub_segment.scrub_segment(unit, is_over)
        yield number, [one for one in found if not isinstance(one, Progress)]
        is_first = False


def _compare(group: list[tuple[int, list[Directory]]], options: VerifyOptions) -> Iterator[tuple[int, list[Item]]]:
    judge = DirectoryJudge(options)
    for number, directories in group:
        yield number, list(judge.replicas(directories))


def _write(group: list[ExportPart], target: ExportTarget, options: ReadOptions) -> Iterator[Result]:
    for part in group:
        yield export_job.write_part(part, target, options)


def folded(spark: SparkSession, table: str, paths: Sequence[str], limits: ReadLimits) -> Iterator[Any]:
    """Yield what internal topics come to, a task for each partition.

    Args:
        spark: the session.
        table: groups, commits, transactions or open.
        paths: as the user wrote them.
        limits: what is read at most.
    """
    units, problems = state_units(table, paths)
    yield from problems
    sizes = [unit.size for unit in units]
    work = partial(_fold, limits=limits)
    found: dict[int, list[Any]] = {}
    for one in _run(spark.sparkContext, table, list(enumerate(units)), sizes, SPLIT_SIZE[table], work):
        if isinstance(one, Progress):
            yield one
        else:
            found[one[0]] = one[1]
    for number in range(len(units)):
        yield from found[number]


def placed(spark: SparkSession, paths: Sequence[str], options: UsageOptions) -> Iterator[Any]:
    """Yield what uses the space, by partition: the rows of the local engine.

    Args:
        spark: the session.
        paths: as the user wrote them.
        options: what was asked for.
    """
    units: list[UsageUnit] = []
    for unit in usage_units(paths):
        if isinstance(unit, OpenFailure):
            yield unit
        else:
            units.append(unit)
    work = partial(_place, options=options.replace(progress=False))
    found: dict[int, list[Any]] = {}
    sizes = [unit.size for unit in units]
    for one in _run(spark.sparkContext, "usage", list(enumerate(units)), sizes, SPLIT_SIZE["usage"], work):
        if isinstance(one, Progress):
            yield one
        else:
            found[one[0]] = one[1]
    for number in range(len(units)):
        yield from found[number]


def unread(spark: SparkSession, paths: Sequence[str], origins: Origins) -> Iterator[Any]:
    """Yield what cannot be opened, here or where the tasks run.

    Args:
        spark: the session.
        paths: as the user wrote them.
        origins: tells where files are from.
    """
    units = list(sightings(expanded(paths), origins.log_dirs))
    sizes = [0 if isinstance(unit, OpenFailure) else len(unit.logs) for unit in units]
    found: dict[int, list[Any]] = {}
    work = partial(_look, origins=origins)
    for one in _run(spark.sparkContext, "unread", list(enumerate(units)), sizes, SPLIT_SIZE["unread"], work):
        if isinstance(one, Progress):
            yield one
        else:
            found[one[0]] = one[1]
    for number in range(len(units)):
        yield from found[number]


def _look(share: Sequence[tuple[int, Sighting | OpenFailure]], origins: Origins) -> Iterator[tuple[int, list[Any]]]:
    log_dirs = LogDirs()
    for number, unit in share:
        yield number, list(unread_of(unit, log_dirs, origins))


def _place(share: Sequence[tuple[int, UsageUnit]], options: UsageOptions) -> Iterator[tuple[int, list[Any]]]:
    rows = PlacedRows(options)
    for number, unit in share:
        yield number, list(rows.of(unit))


def _fold(share: Sequence[tuple[int, StateUnit]], limits: ReadLimits) -> Iterator[tuple[int, list[Any]]]:
    for number, unit in share:
        yield number, list(state_items(unit, limits))


def _run(
    context: SparkContext,
    name: str,
    things: Sequence[Any],
    sizes: list[int],
    size: int,
    work: Callable[[Any], Iterator[Any]],
) -> Iterator[Any]:
    """Yield how far a job is while it runs, and then what its tasks give.

    Args:
        context: of Spark.
        name: of the job.
        things: what is to be done.
        sizes: bytes of each.
        size: bytes that a task should have.
        work: done in a task for its share of the things.
    """
    groups = pack(list(things), sizes, size, context.defaultParallelism)
    if not groups:
        return
    results: list[Any] = []
    failed: list[Exception] = []

    def collect() -> None:
        try:
            context.setJobDescription(f"kdump {name}")
            tasks = context.parallelize(groups, len(groups))
            read_policy = guest.of_each(context.defaultParallelism)
            results.extend(tasks.flatMap(partial(_there, os.getcwd(), read_policy, work)).collect())
        except Exception as error:
            failed.append(error)

    thread = Thread(target=collect, name=f"kdump {name}", daemon=True)
    thread.start()
    total = sum(sizes)
    try:
        while thread.is_alive():
            thread.join(_OFTEN)
            done, stage = _stage(context)
            if stage:
                yield Progress(total * done // len(groups), total, stage)
    finally:
        if thread.is_alive():
            context.cancelAllJobs()
            thread.join()
    if failed:
        raise SparkFailedError(_sentence(name, failed[0]))
    yield from results


def _sentence(name: str, error: Exception) -> str:
    """One line about a job that has failed, and where more stands."""
    log = kept_log()
    more = f"; what its Python workers printed: {log}" if log else ""
    reason = reason_of(str(error)) or type(error).__name__
    if NO_KDUMP.search(reason):
        reason += ": kdump must be installed for the Python of every executor, or be shipped to them"
    return f"the Spark job '{name}' failed: {reason}{more}"


def _there(
    directory: str,
    read_policy: dict[str, Any],
    work: Callable[[Any], Iterator[Any]],
    group: Any,  # noqa: ANN401
) -> Iterator[Any]:
    """Do work where the user is, as relative paths begin there, and with the read policy of the user's process."""
    guest.be(**read_policy)
    with suppress(OSError):  # there is no such directory on this machine
        os.chdir(directory)
    return work(group)


def _stage(context: SparkContext) -> tuple[int, str]:
    """The finished tasks of the running stage, and its name."""
    tracker = context.statusTracker()
    for id_ in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(id_)
        if stage is not None:
            done = stage.numCompletedTasks
            return done, f"stage {id_}: {done} of {stage.numTasks} tasks, {stage.numActiveTasks} running"
    return 0, ""
