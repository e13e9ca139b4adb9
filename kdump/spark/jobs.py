"""The jobs behind `--engine spark`: verify by partition directory or segment, export by piece of a log.

Both hand work out as plain values, in tasks of about the same size, and take back what the local engine gives: items
of verify, results of parts. While a job runs its stages are told.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kdump.checks import replicas, scrub_segment
from kdump.checks.kept_nothing import NOTHING
from kdump.checks.run import checked
from kdump.checks.scrub import LocalScrub
from kdump.export import job as export_job
from kdump.export.split import SPLIT_SIZE, pack_in_order
from kdump.export.verdicts import unread_of
from kdump.item import Progress
from kdump.spark.errors import NO_KDUMP, SparkFailedError, reason_of
from kdump.spark.gateway import kept_log
from kdump.spark.state import state_items, state_units
from kdump.spark.units import Directory, DirectoryJudge, units_by_segment, units_of
from kdump.storage import guest
from kdump.storage.directory import expanded
from kdump.storage.file_source import OpenFailure
from kdump.storage.sighting import LogDirs, sightings
from kdump.usage.run import PlacedRows, usage_units

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kdump.checks.kept_nothing import NothingKept
    from kdump.checks.kept_segments import KeptSegments
    from kdump.checks.ledger import Ledger
    from kdump.checks.options import VerifyOptions
    from kdump.checks.partition_check import PartitionCheck
    from kdump.checks.scrub import ScrubOptions
    from kdump.checks.scrub_segment import ScrubUnit
    from kdump.checks.segment import Result as SegmentResult
    from kdump.export.job import ExportPart, ExportTarget, Result
    from kdump.export.origin import Origins
    from kdump.export.read import ReadOptions
    from kdump.finding import Finding
    from kdump.format.read_limits import ReadLimits
    from kdump.item import Item
    from kdump.spark.state import StateUnit
    from kdump.spark.units import VerifyUnit
    from kdump.storage.sighting import Sighting
    from kdump.usage.options import UsageOptions
    from kdump.usage.run import UsageUnit

    Judged = tuple[list[Any], list[Finding]]

_OFTEN = 0.25  # seconds between two looks at the stages


class VerifyEngine(replicas.LocalReplicas):
    """Judges partition directories in tasks of Spark.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession, kept: KeptSegments | None = None) -> None:
        super().__init__(kept)
        self._context = spark.sparkContext

    def partitions(self, checks: Sequence[PartitionCheck], options: VerifyOptions) -> Iterator[Iterator[Item]]:
        """Yield for each partition, in order, what is wrong there.

        A large partition is judged by segment: a task has one, and what it says of it is put together here.
        """
        known = [NOTHING if self.kept is None else self.kept.of(check) for check in checks]
        size = SPLIT_SIZE["findings"]
        # what segments show is kept by segment
        each = [
            units_of(check, size) if self.kept is None else units_by_segment(check, one.unchanged)
            for check, one in zip(checks, known, strict=True)
        ]
        units = [unit for some in each for unit in some]
        sizes, many = [unit.size for unit in units], [unit.files for unit in units]
        work = partial(_judge, options=options)
        found = _run(self._context, "verify", units, sizes, SPLIT_SIZE["findings"], work=work, many=many)
        with closing(found):
            results = _Results(found, is_progress_shown=options.progress)
            for check, some, one in zip(checks, each, known, strict=True):
                yield _put_together(check, some, results, options, one)

    def replicas(self, groups: Sequence[Sequence[PartitionCheck]], options: VerifyOptions) -> Iterator[Item]:
        """Yield where the replicas of partitions are not the same; those of a partition meet in one task."""
        units = [[Directory.of(check) for check in checks] for checks in groups]
        sizes = [sum(sum(check.sizes) for check in checks) for checks in groups]
        work = partial(_compare, options=options)
        found = _run(self._context, "replicas", units, sizes, SPLIT_SIZE["findings"], work=work)
        yield from _Results(found, is_progress_shown=options.progress)


def _put_together(
    check: PartitionCheck,
    units: Sequence[VerifyUnit],
    results: _Results,
    options: VerifyOptions,
    known: NothingKept,
) -> Iterator[Item]:
    """What is wrong with a partition, from what its tasks say, and what is known of it."""
    if not units or units[0].base is not None:

        def segment() -> Iterator[SegmentResult]:
            yield from results.progress()
            yield from results.next()[0]

        yield from checked(check, known, segment, options)
        return
    yield from results.progress()
    items, late = results.next()
    check.checkpoint_findings.extend(late)
    yield from items


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
        sizes = [unit.size for unit in units]
        found = _run(self._context, "scrub", units, sizes, SPLIT_SIZE["findings"], work=partial(_scrub, end=end))
        results = _Results(found, is_progress_shown=options.progress)

        def one() -> Iterator[scrub_segment.Result]:
            yield from results.progress()
            yield from results.next()

        with closing(found):
            for _ in units:
                yield one()


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
        yield from _run(self._context, "export", parts, sizes, SPLIT_SIZE["records"], work=work)


def _judge(group: list[VerifyUnit], options: VerifyOptions) -> Iterator[Judged]:
    judge = DirectoryJudge(options)
    for unit in group:
        late: list[Finding] = []
        yield list(judge.unit(unit, late)), late


def _scrub(group: list[ScrubUnit], end: float | None) -> Iterator[list[scrub_segment.Result]]:
    is_first = True

    def is_over() -> bool:
        return end is not None and not is_first and time.time() >= end

    for unit in group:
        if is_over():
            yield [scrub_segment.ScrubOutcome(left_out=scrub_segment.NO_TIME)]
            continue
        found = scrub_segment.scrub_segment(unit, is_over)
        yield [one for one in found if not isinstance(one, Progress)]
        is_first = False


def _compare(group: list[list[Directory]], options: VerifyOptions) -> Iterator[list[Item]]:
    judge = DirectoryJudge(options)
    for directories in group:
        yield list(judge.replicas(directories))


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
    yield from _Results(_run(spark.sparkContext, table, units, sizes, SPLIT_SIZE[table], work=work))


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
    work, sizes = partial(_place, options=options.replace(progress=False)), [unit.size for unit in units]
    yield from _Results(_run(spark.sparkContext, "usage", units, sizes, SPLIT_SIZE["usage"], work=work))


def unread(spark: SparkSession, paths: Sequence[str], origins: Origins) -> Iterator[Any]:
    """Yield what cannot be opened, here or where the tasks run.

    Args:
        spark: the session.
        paths: as the user wrote them.
        origins: tells where files are from.
    """
    units = list(sightings(expanded(paths), origins.log_dirs))
    many = [1 if isinstance(unit, OpenFailure) else max(1, len(unit.logs)) for unit in units]
    work, none = partial(_look, origins=origins), [0] * len(units)
    yield from _Results(_run(spark.sparkContext, "unread", units, none, SPLIT_SIZE["unread"], work=work, many=many))


def _look(share: Sequence[Sighting | OpenFailure], origins: Origins) -> Iterator[list[Any]]:
    log_dirs = LogDirs()
    for unit in share:
        yield list(unread_of(unit, log_dirs, origins))


def _place(share: Sequence[UsageUnit], options: UsageOptions) -> Iterator[list[Any]]:
    rows = PlacedRows(options)
    for unit in share:
        yield list(rows.of(unit))


def _fold(share: Sequence[StateUnit], limits: ReadLimits) -> Iterator[list[Any]]:
    for unit in share:
        yield list(state_items(unit, limits))


class _Results:
    """What the tasks of a job give for each unit, in order, one at a time.

    Args:
        found: how far the job is, and then its results.
        is_progress_shown: hand on how far it is.
    """

    def __init__(self, found: Iterator[Any], *, is_progress_shown: bool = True) -> None:
        self._found = found
        self._is_progress_shown = is_progress_shown
        self._held: list[Any] = []

    def progress(self) -> Iterator[Progress]:
        """Yield how far the job is, until there is a result."""
        while not self._held:
            one = next(self._found)
            if not isinstance(one, Progress):
                self._held.append(one)
            elif self._is_progress_shown:
                yield one

    def next(self) -> Any:  # noqa: ANN401 (what the work gives)
        """Return the next result."""
        for _ in self.progress():
            pass
        return self._held.pop()

    def __iter__(self) -> Iterator[Any]:
        """Yield the items of all results, and how far the job is."""
        for one in self._found:
            if not isinstance(one, Progress):
                yield from one
            elif self._is_progress_shown:
                yield one


def _run(
    context: SparkContext,
    name: str,
    things: Sequence[Any],
    sizes: list[int],
    size: int,
    *,
    work: Callable[[Any], Iterator[Any]],
    many: Sequence[int] | None = None,
) -> Generator[Any]:
    """Yield how far a job is while it runs, and then what its tasks give, in the order of the things.

    What tasks give stays with the executors until it is asked for: the driver holds that of one task.

    Args:
        context: of Spark.
        name: of the job.
        things: what is to be done.
        sizes: bytes of each.
        size: bytes that a task should have.
        work: done in a task for its share of the things; yields one result for each.
        many: files that are opened for each; one for each without it.
    """
    from pyspark import StorageLevel

    groups = pack_in_order(list(things), sizes, size, context.defaultParallelism, many)
    if not groups:
        return
    read_policy = guest.of_each(context.defaultParallelism)
    tasks = context.parallelize(groups, len(groups)).flatMap(partial(_there, os.getcwd(), read_policy, work))
    failed: list[Exception] = []
    tag = f"kdump-{uuid4().hex}"

    def collect() -> None:
        try:
            context.addJobTag(tag)
            context.setJobDescription(f"kdump {name}")
            tasks.persist(StorageLevel.MEMORY_AND_DISK).count()
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
        if not failed:
            try:
                yield from tasks.toLocalIterator(prefetchPartitions=True)
            except Exception as error:  # of Py4J, or of the socket that the results come by
                failed.append(error)
        if failed:
            raise SparkFailedError(_sentence(name, failed[0]))
    finally:
        if thread.is_alive():
            context.cancelJobsWithTag(tag)
            thread.join()
        with suppress(Exception):  # the session may have ended
            tasks.unpersist()


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
