"""The verb verify: what paths stand for, in which order it is judged, and by how many processes."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from kdump.checks.directories import DirectoryCheck
from kdump.checks.kept_nothing import NOTHING
from kdump.checks.run_steps import RunSteps
from kdump.checks.segment import check_segment
from kdump.checks.step_table import PartitionState, steps_for
from kdump.checks.together import not_together
from kdump.finding import Code, Finding, Severity
from kdump.item import Checked
from kdump.rows.verdict import Loss
from kdump.storage.directory import expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import introduce
from kdump.storage.other_formats import REDPANDA, redpanda_below
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.checks.kept_nothing import NothingKept
    from kdump.checks.kept_segments import KeptSegments
    from kdump.checks.options import VerifyOptions
    from kdump.checks.partition_check import PartitionCheck
    from kdump.checks.segment import Result
    from kdump.item import Item
    from kdump.storage.log_dir import LogDir


class LocalVerify:
    """Judges partitions by processes of this machine.

    Args:
        kept: what segments showed in earlier nights; None where nothing is kept.
    """

    def __init__(self, kept: KeptSegments | None = None) -> None:
        self.kept = kept

    def partitions(self, checks: Sequence[PartitionCheck], options: VerifyOptions) -> Iterator[Iterator[Item]]:
        """Yield for each partition, in order, what is wrong there; each is read to its end before the next.

        Args:
            checks: the partitions.
            options: what was asked for.
        """
        known = [NOTHING if self.kept is None else self.kept.of(check) for check in checks]
        each = list(zip(checks, known, strict=True))
        jobs = [job for check, one in each for at, job in enumerate(check.jobs) if at not in one.unchanged]
        total = None
        if options.progress:
            total = sum(size for check in checks for size in check.sizes) if self.kept is None else self.kept.size

        def judge(at: int) -> Iterator[Result]:
            return check_segment(jobs[at], options)

        with in_order(range(len(jobs)), judge, options.jobs, total=total) as judged:
            segments = iter(judged)
            for check, one in each:
                yield checked(check, one, lambda: next(segments), options)


def checked(
    check: PartitionCheck, known: NothingKept, following: Callable[[], Iterator[Result]], options: VerifyOptions
) -> Iterator[Item]:
    """Yield what is wrong with a partition, and keep what its segments show.

    Args:
        check: the partition.
        known: what its segments showed before.
        following: gives what the next segment shows that is read now.
        options: what was asked for.
    """

    def results(number: int) -> Iterator[Result]:
        return known.results(number) if number in known.unchanged else known.fresh(number, following())

    yield from check.check(results, options)
    known.done()


def verify(
    paths: Sequence[str], options: VerifyOptions, engine: LocalVerify | None = None, *, are_replicas: bool = False
) -> Iterator[Item]:
    """Yield what is wrong with files, partition directories and log directories.

    The order is the same for any number of processes: path by path, partition by partition, segment by segment; the
    files of a log directory itself come after its partitions.

    Args:
        paths: as the user wrote them; a pattern where nothing has that name is expanded.
        options: what was asked for.
        engine: judges the partitions.
        are_replicas: the user says that the same partition under two paths is meant to be there.

    Yields:
        What was judged and found, predictions, and at the end the steps; in place of these, where the paths are
        replicas, what is known of each for the steps.

    Reports: every code but L13; as items of their own, among what was judged.
    """
    options = options.at(paths)
    if options.only_starts:
        from kdump.checks.gate import foresee  # the model of the broker costs time to import

        yield from foresee(paths, options)
        return
    run = RunSteps()
    log_dirs: list[LogDir] = []
    engine = engine or LocalVerify()
    for item, is_of_partition in _judged(paths, options, engine, log_dirs, are_replicas=are_replicas):
        if isinstance(item, PartitionState):
            run.add(item)
            continue
        if isinstance(item, Finding) and not is_of_partition:
            run.see(item)
        yield item
    state = run.state(log_dirs)
    if are_replicas:
        yield state
    else:
        yield from steps_for(state.partitions, state.moves)


def _judged(
    paths: Sequence[str], options: VerifyOptions, engine: LocalVerify, log_dirs: list[LogDir], *, are_replicas: bool
) -> Iterator[tuple[Item, bool]]:
    """Yield the items, and whether their partition has told what to do about them; `log_dirs` gets the directories."""
    directories: list[DirectoryCheck] = []
    empty: list[str] = []  # where one configuration names them, they are told with its disks
    for path, is_directory in expanded(paths):
        if not is_directory:
            from kdump.checks.loose import check_loose

            for item in check_loose(path, options):
                yield item, True
        elif (directory := DirectoryCheck(path, is_log_dir=options.node is not None)).is_broker_directory:
            directories.append(directory)
        else:
            empty.append(path)
            yield from ((item, False) for item in without_files(path) if options.node is None)
    introduce([one.log_dir for one in directories])
    log_dirs += dict.fromkeys(one.log_dir for one in directories)
    for item in _together(directories, empty, options, are_replicas=are_replicas):
        yield item, False
    checks = [check for directory in directories for check in directory.partitions]
    with closing(engine.partitions(checks, options)) as judged:  # type: ignore[type-var]
        known: list[tuple[DirectoryCheck, dict[str, str], dict[str, int]]] = []
        for directory in directories:
            told: dict[str, str] = {}
            lost: dict[str, int] = {}
            for _ in directory.partitions:
                for item in _noting(next(judged), told, lost):
                    yield item, True
            for item in _noting(directory.of_partitions(), told, lost):
                yield item, True
            for item in _noting(directory.check(options), told, lost):
                yield item, False
            known.append((directory, told, lost))
            for item in _foretold(known, options, is_last=len(known) == len(directories), are_replicas=are_replicas):
                yield item, False


def _together(
    directories: list[DirectoryCheck], empty: Sequence[str], options: VerifyOptions, *, are_replicas: bool
) -> Iterator[Item]:
    """Yield what the directories show together, and which of a node have nothing, where nothing else says so."""
    told: set[str] = set()
    for item in not_together(directories, options, are_replicas=are_replicas):
        if isinstance(item, Finding) and item.code is Code.K03:
            told.add(os.path.dirname(item.file))
        yield item
    for path in empty:
        if options.node is not None and path not in told:
            yield from without_files(path)


def _foretold(
    known: Sequence[tuple[DirectoryCheck, dict[str, str], dict[str, int]]],
    options: VerifyOptions,
    *,
    is_last: bool,
    are_replicas: bool,
) -> Iterator[Item]:
    """What is predicted, once all directories are known: what ends a broker in one of them ends it for all."""
    if not (options.predicts and is_last):
        return
    from kdump.checks.predict import of_brokers  # the model of the broker costs time to import

    rows = (row for directory, told, lost in known for row in directory.predict(options, told, lost))
    named = [(one.log_dir, one.partition_dirs) for one, _, _ in known]
    yield from of_brokers(rows, named, options.node, are_replicas=are_replicas)


def without_files(path: str) -> Iterator[Item]:
    """Yield why a directory without files of a broker is not judged, and what is there instead.

    Args:
        path: of the directory.

    Reports: F18.
    """
    found = redpanda_below(path)
    if found is not None:
        yield OpenFailure(found, "type", f"{found}: {REDPANDA}")
        yield Finding(Code.F18, found)
        yield Checked((), 0, 0)
    yield no_kafka_files(path)


def _noting(items: Iterator[Item], told: dict[str, str], lost: dict[str, int]) -> Iterator[Item]:
    """Yield items, and keep the code of the first error of each file, and the last offset that each partition lost."""
    for item in items:
        if isinstance(item, Finding) and item.severity is Severity.ERROR:
            told.setdefault(item.file, item.code.name)
        elif isinstance(item, Loss) and item.counts:
            lost[item.path] = max(lost.get(item.path, -1), item.last_offset)
        yield item


def partitions_of(paths: Sequence[str]) -> Iterator[PartitionCheck]:
    """Yield the partitions under some paths, path by path.

    Args:
        paths: as the user wrote them; what is no directory is left out.
    """
    for path, is_directory in expanded(paths):
        if is_directory:
            yield from DirectoryCheck(path).partitions
