"""The verb verify: what paths stand for, in which order it is judged, and by how many processes."""

from __future__ import annotations

from contextlib import closing
from itertools import accumulate
from typing import TYPE_CHECKING

from kdump.checks.directories import DirectoryCheck, duplicates
from kdump.checks.loose import check_loose
from kdump.checks.workers import Workers
from kdump.finding import Finding, Severity
from kdump.item import Progress
from kdump.storage.directory import expanded
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.checks.partition import PartitionCheck
    from kdump.checks.segment import Result
    from kdump.item import Item


class LocalVerify:
    """Judges partitions by processes of this machine."""

    def partitions(self, checks: Sequence[PartitionCheck], options: VerifyOptions) -> Iterator[Iterator[Item]]:
        """Yield for each partition, in order, what is wrong there; each is read to its end before the next.

        Args:
            checks: the partitions.
            options: what was asked for.
        """
        jobs = [job for check in checks for job in check.jobs]
        sizes = [size for check in checks for size in check.sizes]
        done = list(accumulate(sizes, initial=0))
        with Workers(jobs, sizes, options) as workers:
            first = 0
            for check in checks:

                def results(number: int, first: int = first) -> Iterator[Result]:
                    return _progress(workers.of(first + number), done[first + number], done[-1], options)

                yield check.check(results, options)
                first += len(check.jobs)


def verify(paths: Sequence[str], options: VerifyOptions, engine: LocalVerify | None = None) -> Iterator[Item]:
    """Yield what is wrong with files, partition directories and log directories.

    The order is the same for any number of processes: path by path, partition by partition, segment by segment; the
    files of a log directory itself come after its partitions.

    Args:
        paths: as the user wrote them; a pattern where nothing has that name is expanded.
        options: what was asked for.
        engine: judges the partitions.

    Reports: every code but L13; as items of their own, among what was judged.
    """
    directories: list[DirectoryCheck] = []
    for path, is_directory in expanded(paths):
        if not is_directory:
            yield from check_loose(path, options)
        elif (directory := DirectoryCheck(path)).is_broker_directory:
            directories.append(directory)
        else:
            yield OpenFailure(path, "other", f"{path}: neither a partition directory nor a log directory of a broker")
    yield from duplicates(directories)
    checks = [check for directory in directories for check in directory.partitions]
    with closing((engine or LocalVerify()).partitions(checks, options)) as judged:  # type: ignore[type-var]
        for directory in directories:
            told: dict[str, str] = {}
            for _ in directory.partitions:
                yield from _noting(next(judged), told)
            yield from _noting(directory.check(), told)
            if options.starts:
                yield from directory.predict(options, told)


def _noting(items: Iterator[Item], told: dict[str, str]) -> Iterator[Item]:
    """Yield items, and keep the code of the first error of each file."""
    for item in items:
        if isinstance(item, Finding) and item.severity is Severity.ERROR:
            told.setdefault(item.file, item.code.name)
        yield item


def partitions_of(paths: Sequence[str]) -> Iterator[PartitionCheck]:
    """Yield the partitions under some paths, path by path.

    Args:
        paths: as the user wrote them; what is no directory is left out.
    """
    for path, is_directory in expanded(paths):
        if is_directory:
            yield from DirectoryCheck(path).partitions


def _progress(results: Iterator[Result], done: int, total: int, options: VerifyOptions) -> Iterator[Result]:
    """Say how far all segments together have got."""
    for result in results:
        if not isinstance(result, Progress):
            yield result
        elif options.progress:
            yield Progress(done + result.done, total, result.path)
