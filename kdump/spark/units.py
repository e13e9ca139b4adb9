"""One task of verify: whole partition directories, judged as the local engine does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.job import SegmentSummary
from kdump.checks.loose import check_loose
from kdump.checks.partition_check import PartitionCheck
from kdump.checks.replicas import compare_all
from kdump.checks.segment import check_segment
from kdump.export.split import is_large
from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.misplaced import know_misplaced, misplaced_in
from kdump.storage.partition_dir import PartitionDir
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from kdump.checks.options import VerifyOptions
    from kdump.checks.segment import Result
    from kdump.finding import Finding
    from kdump.item import Item
    from kdump.storage.misplaced import Misplaced

    Shown = Callable[[int], Iterator[Result] | None]


_NONE: Mapping[int, Misplaced] = {}


class Directory(Value):
    """A partition directory, and the log directory around it."""

    path: str
    around: str

    @classmethod
    def of(cls, check: PartitionCheck) -> Directory:
        """Return that of a check."""
        return cls(check.path, check.directory.log_dir.path)


class VerifyUnit(Value):
    """What one task judges at least: a partition directory, or one segment of a large one."""

    directory: Directory
    base: int | None  # base offset of the segment; None for all of them, and the rest of the directory
    size: int  # of the logs, bytes
    files: int  # how many logs
    misplaced: Mapping[int, Misplaced] = _NONE  # of a segment: the logs that bear the name of another


def units_of(check: PartitionCheck, size: int) -> list[VerifyUnit]:
    """Return what tasks judge of a partition: all of it, or where it is large each segment.

    Args:
        check: the partition.
        size: bytes that a task should have.
    """
    if not is_large(check.sizes, size):
        return [VerifyUnit(Directory.of(check), None, sum(check.sizes), max(1, len(check.sizes)))]
    return units_by_segment(check)


def units_by_segment(check: PartitionCheck, known: Collection[int] = ()) -> list[VerifyUnit]:
    """Return what tasks judge of a partition, a segment each.

    Args:
        check: the partition.
        known: numbers of segments of which it is known what they show.
    """
    directory, misplaced = Directory.of(check), misplaced_in(check.directory)
    each = enumerate(zip(check.jobs, check.sizes, strict=False))
    return [VerifyUnit(directory, job.base_offset, one, 1, misplaced) for at, (job, one) in each if at not in known]


class DirectoryJudge:
    """Judges partition directories; what lies around them is read once.

    Args:
        options: what was asked for.
    """

    def __init__(self, options: VerifyOptions) -> None:
        self._options = options.replace(jobs=1, progress=False)
        self._around: dict[str, LogDir] = {}
        self._held: tuple[Directory, PartitionCheck] | None = None  # whose segments are judged one by one
        self._shown: Shown | None = None  # what is known of the segments of the next partition
        self._misplaced = _NONE

    def _check(self, directory: Directory) -> PartitionCheck:
        if directory.around not in self._around:
            self._around[directory.around] = LogDir(directory.around)
        return PartitionCheck(PartitionDir(directory.path, self._around[directory.around]))

    def knows(self, shown: Shown, misplaced: Mapping[int, Misplaced]) -> None:
        """Take what other tasks have said of the segments of the partition that is judged next.

        Args:
            shown: by base offset; None for a segment that is to be read here. It is asked in the order of offsets.
            misplaced: the logs of the partition that bear the name of another.
        """
        self._shown, self._misplaced = shown, misplaced

    def partition(self, directory: Directory, late: list[Finding]) -> Iterator[Item]:
        """Yield what is wrong with a partition.

        Args:
            directory: of it.
            late: takes what belongs to the files of the log directory.
        """
        check, shown = self._check(directory), self._shown
        if shown is not None:
            know_misplaced(check.directory, self._misplaced)
        self._shown = None

        def results(number: int) -> Iterator[Result]:
            job = check.jobs[number]
            known = None if shown is None else shown(job.base_offset)
            found = check_segment(job, self._options) if known is None else known
            return (one for one in found if not isinstance(one, Progress))

        yield from check.check(results, self._options)
        late.extend(check.checkpoint_findings)

    def unit(self, unit: VerifyUnit, late: list[Finding]) -> Iterator[Item | Result]:
        """Yield what is wrong with a partition, or what a segment of it shows.

        Args:
            unit: which.
            late: takes what belongs to the files of the log directory.
        """
        if unit.base is None:
            yield from self.partition(unit.directory, late)
            return
        if self._held is None or self._held[0] != unit.directory:
            self._held = unit.directory, self._check(unit.directory)
            know_misplaced(self._held[1].directory, unit.misplaced)
        check = self._held[1]
        job = next((job for job in check.jobs if job.base_offset == unit.base), None)
        if job is None:
            path = check.directory.path_of(unit.base, FileKind.LOG)
            yield OpenFailure(path, "missing", f"no such file: {path}: removed since it was listed")
            yield SegmentSummary.not_read(unit.base)
            return
        yield from (one for one in check_segment(job, self._options) if not isinstance(one, Progress))

    def replicas(self, directories: list[Directory]) -> Iterator[Item]:
        """Yield where the replicas of a partition are not the same.

        Args:
            directories: of the replicas.
        """
        return compare_all([self._check(one) for one in directories], self._options)

    def loose(self, path: str) -> Iterator[Item]:
        """Yield what is wrong with one file."""
        return check_loose(path, self._options)
