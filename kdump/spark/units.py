"""One task of verify: whole partition directories, judged as the local engine does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.loose import check_loose
from kdump.checks.partition_check import PartitionCheck
from kdump.checks.replicas import compare_all
from kdump.checks.segment import check_segment
from kdump.item import Progress
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.checks.options import VerifyOptions
    from kdump.checks.segment import Result
    from kdump.finding import Finding
    from kdump.item import Item


class Directory(Value):
    """A partition directory, and the log directory around it."""

    path: str
    around: str

    @classmethod
    def of(cls, check: PartitionCheck) -> Directory:
        """Return that of a check."""
        return cls(check.path, check.directory.log_dir.path)


class DirectoryJudge:
    """Judges partition directories; what lies around them is read once.

    Args:
        options: what was asked for.
    """

    def __init__(self, options: VerifyOptions) -> None:
        self._options = options.replace(jobs=1, progress=False)
        self._around: dict[str, LogDir] = {}

    def _check(self, directory: Directory) -> PartitionCheck:
        if directory.around not in self._around:
            self._around[directory.around] = LogDir(directory.around)
        return PartitionCheck(PartitionDir(directory.path, self._around[directory.around]))

    def partition(self, directory: Directory, late: list[Finding]) -> Iterator[Item]:
        """Yield what is wrong with a partition.

        Args:
            late: takes what belongs to the files of the log directory.
        """
        check = self._check(directory)

        def results(number: int) -> Iterator[Result]:
            found = check_segment(check.jobs[number], self._options)
            return (one for one in found if not isinstance(one, Progress))

        yield from check.check(results, self._options)
        late.extend(check.checkpoint_findings)

    def replicas(self, directories: list[Directory]) -> Iterator[Item]:
        """Yield where the replicas of a partition are not the same.

        Args:
            directories: of the replicas.
        """
        return compare_all([self._check(one) for one in directories], self._options)

    def loose(self, path: str) -> Iterator[Item]:
        """Yield what is wrong with one file."""
        return check_loose(path, self._options)
