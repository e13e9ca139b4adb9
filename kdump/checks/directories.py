"""The directories that a user names: partition directories and log directories, with all that they leave to judge."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.checks.names import check_names, check_strays
from kdump.checks.owners import owners_differ
from kdump.checks.partition_check import PartitionCheck
from kdump.checks.state_files import check_text
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import TEXT_KINDS, FileKind
from kdump.item import Checked, CheckedFile
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.names import BOOTSTRAP
from kdump.storage.partition_dir import InputDirectory, list_ahead
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.checks.options import VerifyOptions
    from kdump.checks.predict import Foretold
    from kdump.item import Item
    from kdump.storage.directory import FoundFile
    from kdump.storage.partition_dir import PartitionDir

_LOG_DIR_KINDS = tuple(kind for kind in TEXT_KINDS if kind not in (FileKind.EPOCHS, FileKind.PARTITION_METADATA))

_MOST_NAMED = 3  # partitions in a sentence
_WRITE_PROPERTIES = (
    "while the broker is stopped, restore this very file from a backup, or write it again: kdump explain K03 names its "
    "lines"
)
_STOP_JOB = (
    "look for a job that cleans up (find -mtime, tmpwatch, systemd-tmpfiles), stop it, and see where it has put the "
    "files; then repair the log directory, which writes again what can be told"
)


class DirectoryCheck:
    """Judges a directory that the user named: a partition directory, or a log directory.

    Args:
        path: as the user wrote it.
        is_log_dir: a configuration says that it is a log directory.

    Attributes:
        is_broker_directory: a broker may have made it; or it cannot be listed.
    """

    def __init__(self, path: str, *, is_log_dir: bool = False) -> None:
        self._directory = directory = InputDirectory(path, is_log_dir=is_log_dir)
        self.log_dir = directory.log_dir  # the log directory
        list_ahead(directory.partitions)
        self.partitions = [PartitionCheck(one) for one in directory.partitions]  # those that lie there
        self._lost_properties = ""  # path of a meta.properties that something else has taken away, once that is known
        self.is_broker_directory = bool(self.partitions or directory.contents.files or directory.failure)

    @property
    def is_log_dir(self) -> bool:
        """Whether it is a log directory: all partitions that it has are known."""
        return self._directory.is_log_dir

    def of_partitions(self) -> Iterator[Finding]:
        """Yield what the checkpoints of a log directory say of partitions, once these are judged."""
        for check in self.partitions:
            yield from check.checkpoint_findings

    def check(self, options: VerifyOptions) -> Iterator[Item]:
        """Yield what is wrong with the files of a log directory itself.

        Args:
            options: what was asked for.
        """
        if not self._directory.is_log_dir:
            if any(check.checkpoint_findings for check in self.partitions):
                yield Checked((), 0, 0)
            return
        shown: list[CheckedFile] = []
        for file in self._directory.contents.files:
            for one in self._judged(file, options):
                if isinstance(one, CheckedFile):
                    shown.append(one)
                else:
                    yield one
        yield from self._without_properties()
        yield from owners_differ(self._directory.itself)
        yield from check_strays(self._directory.contents, _LOG_DIR_KINDS)
        odd: list[str] = []
        for one in check_names(self._directory.contents):
            if isinstance(one, Finding) and one.code is Code.F11:
                odd.append(one.file)
            else:
                yield one
        if odd:
            from kdump.checks.odd_directory import odd_directories

            yield from odd_directories(odd, self.log_dir, options.max_batch_bytes)
        yield Checked(tuple(shown), 0, 0)

    def _without_properties(self) -> Iterator[Finding | Loss]:
        """A log directory whose broker had a meta.properties, and that has none any more.

        Reports: K03.
        """
        listing, path = self.log_dir.listing, self.log_dir.path_of(FileKind.META_PROPERTIES)
        if listing.error is not None or listing.has(FileKind.META_PROPERTIES.value):
            return
        if self.log_dir.lacks_properties:
            why = "the file is missing, and the metadata log is here: a node ends when it starts without it"
            yield Finding(Code.K03, path, values={"why": why, "remedy": _WRITE_PROPERTIES})
            return
        emptied = [one.directory for one in self.partitions if one.lacks_epochs and one.directory.log_bases[0] > 0]
        without = [one.name for one in emptied]
        if without and any(map(listing.has, (FileKind.RECOVERY_POINT.value, FileKind.REPLICATION.value))):
            files = f"the leader-epoch-checkpoint of {some_of(without, _MOST_NAMED)}"
            why = (
                f"the file is missing, and so is {files}: something outside Kafka removes or moves files, by their age"
            )
            self._lost_properties = path
            values = {"why": why, "remedy": _STOP_JOB}
            yield Finding(Code.K03, path, values=values, severity_override=Severity.WARNING)
            for one in emptied:
                if one.key is None or self.log_dir.offset(FileKind.LOG_START, one.key) is None:  # else it is told there
                    last = one.log_bases[0] - 1
                    place = one.path_of(0, FileKind.LOG), None, None, 0, last
                    yield Loss(one.path, one.name, *place, None, Certainty.UNEXPLAINED, (Code.K03.name,))

    def _judged(self, file: FoundFile, options: VerifyOptions) -> Iterator[Item | CheckedFile]:
        """One file of the log directory itself."""
        if file.name.kind in _LOG_DIR_KINDS:
            yield from check_text(self.log_dir.file(file.name.kind))
        elif os.path.basename(file.path) == BOOTSTRAP:
            from kdump.checks.raft_log import bootstrap_unusable, check_snapshot
            from kdump.storage.raft_snapshots import to_copy

            yield from bootstrap_unusable(file.path, options.rules, options.limits)
            for one in check_snapshot(file.path, options):
                yield to_copy(one) if isinstance(one, Finding) else one

    @property
    def partition_dirs(self) -> list[PartitionDir]:
        """The partitions that lie there."""
        return [one.directory for one in self.partitions]

    def predict(self, options: VerifyOptions, told: Mapping[str, str], lost: Mapping[str, int]) -> Iterator[Foretold]:
        """Yield what the next start of a broker does with the partitions.

        Args:
            options: which starts, and what they hang on.
            told: the code of the first error of each file.
            lost: the last offset that readers have lost, of each partition that has lost some, by its path.
        """
        from kdump.checks.predict import predict  # the model of the broker costs time to import

        directory = self._directory
        if self._lost_properties:
            told = {**told, self._lost_properties: Code.K03.name}
        return predict(self.log_dir, directory.partitions, options, told, lost, is_alone=not directory.is_log_dir)
