"""What `kdump repair` mends of small files, for the steps: no more is told than its plan makes.

Its plan reads all and asks the model of a broker; here the facts that decide it are asked, which verify has at hand:
whether the logs can be read to their ends, who knows a topic id, and who a node's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.kinds import OFFSET_KINDS, FileKind
from kdump.storage.identity import ID_OPTIONS, UndeterminedError, topic_id_by_others, unknown_ids
from kdump.storage.names import METADATA_LOG
from kdump.storage.paths import real
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir

_MOST = 1000  # findings that wait
_OFFSET_FILES = frozenset(one.value for one in OFFSET_KINDS)
_BY_LOADS = FileKind.RECOVERY_POINT.value, FileKind.LOG_START.value  # what a load goes by
_WITHOUT_LINES = "keeps the lines that can be read, and says what a broker does without the others"
_WITHOUT_ENTRY = "takes out this entry, which no broker must follow, and no other"
_BY_OTHERS = "writes the file again, by what it says itself and the other log directories of the broker"
_BY_USER = "writes the file again; nothing here tells its {what}: other brokers have it, or the settings"


class FileRepair(Value):
    """How `kdump repair` mends a file of a log directory."""

    paths: tuple[str, ...]  # what it is given
    flags: tuple[str, ...]
    remedy: str  # what it does


class Mended(Value):
    """What becomes of the small files of a partition by `kdump repair`."""

    kinds: tuple[str, ...] = ()  # of repair
    mends_start: bool = False  # one of them keeps the partition from loading
    beside: tuple[str, ...] = ()  # the metadata log that tells the topic id, where it lies in another log directory
    left: tuple[Finding, ...] = ()  # what is not mended


class SmallFiles:
    """Takes what is wrong with the small files of a partition, until all that is known which decides what mends it.

    Args:
        directory: the partition.
        options: whom the cluster's metadata log is asked of.
    """

    def __init__(self, directory: PartitionDir, options: VerifyOptions) -> None:
        self._directory = directory
        self._options = options
        self._epochs: list[Finding] = []  # the leader-epoch-checkpoint is wrong itself
        self._against: list[Finding] = []  # it has other epochs than batches
        self._metadata: list[Finding] = []
        self._has_wrong_epochs = False

    def see(self, finding: Finding) -> None:
        """Look at an error or a warning, whoever takes it."""
        self._has_wrong_epochs |= Trait.EPOCH_OF_BATCH in finding.code.traits

    def takes(self, finding: Finding) -> bool:
        """Take a finding that no command for a log mends; tell whether it is one that must wait.

        Args:
            finding: an error or a warning.
        """
        # an epoch that begins above the end of the log is the witness of that end, and stays
        is_of_file = finding.code is Code.K04 and finding.offset is None
        kinds = (
            self._epochs if is_of_file else self._metadata if finding.code is Code.K05 else
            self._against if finding.code is Code.E03 else None
        )  # fmt: skip
        if kinds is None or finding.because is not None or len(kinds) == _MOST:
            return False
        kinds.append(finding)
        return True

    def settled(self, *, are_read: bool, is_sound: bool) -> Mended:
        """Return what `kdump repair` mends.

        Args:
            are_read: all logs can be read to their ends, but for what was about to be appended.
            is_sound: they are not damaged, and their headers neither.
        """
        kinds: list[str] = []
        left: list[Finding] = []
        mends_epochs = are_read if self._epochs else bool(self._against) and is_sound and self._is_contradicted
        if mends_epochs:
            kinds.append("epochs")
        else:
            left += self._epochs
        if not (mends_epochs and is_sound):
            left += self._against
        known, where = self._topic_id() if self._metadata else (False, ())
        if known:
            kinds.append("partition-metadata")
        else:
            left += self._metadata
        is_error = any(one.severity is Severity.ERROR for one in self._epochs) and mends_epochs
        return Mended(tuple(kinds), is_error or known, where, tuple(left))

    @property
    def all(self) -> Mended:
        """All of it, where nothing is mended in place."""
        return Mended(left=(*self._epochs, *self._against, *self._metadata))

    @property
    def _is_contradicted(self) -> bool:
        """Whether the file is wrong, and not the batches; repair goes by the same."""
        if self._has_wrong_epochs:
            return False
        from kdump.format.checkpoint.contradicted import contradicts_batches  # few partitions need it
        from kdump.storage.file_source import FileSource

        directory = self._directory
        logs = (FileSource(directory.path_of(base, FileKind.LOG), follow=False) for base in directory.log_bases)
        try:
            return contradicts_batches(directory.epochs, directory.log_start, logs)
        except OSError:  # it is said where the log is judged
            return False

    def _topic_id(self) -> tuple[bool, tuple[str, ...]]:
        """Whether somebody knows the topic id, and the metadata log of another directory that does."""
        directory = self._directory
        if directory.parsed is None:
            return False, ()
        cluster = self._options.policies_for(directory).cluster(directory.log_dir)
        try:
            topic_id_by_others(directory, [directory.log_dir], None if cluster is None else cluster.ids)
        except UndeterminedError:
            return False, ()
        is_elsewhere = cluster is not None and cluster.log_dir != real(directory.log_dir.path)
        return True, (os.path.join(cluster.log_dir, METADATA_LOG),) if cluster is not None and is_elsewhere else ()


def file_repair(
    finding: Finding, file: str, log_dirs: Sequence[LogDir], unsafe: Collection[str] = ()
) -> FileRepair | None:
    """Return how `kdump repair` mends a file of a log directory; None where it leaves it alone.

    Args:
        finding: what is wrong with it, or with one like it.
        file: its path.
        log_dirs: those that the user has named.
        unsafe: real paths of those in which a start without entries would cut what can be read.
    """
    directory, name = os.path.split(file)
    where = directory or "."
    log_dir = next((one for one in log_dirs if real(one.path) == real(where)), None)
    if log_dir is None:
        return None
    if finding.code is Code.K03 and name in _OFFSET_FILES:
        is_unsafe = name in _BY_LOADS and real(where) in unsafe
        return None if is_unsafe else FileRepair((where,), ("--only", "checkpoint"), _WITHOUT_LINES)
    if Trait.WRONG_ENTRY in finding.code.traits and not log_dir.file(FileKind(name)).findings:
        return FileRepair((where,), ("--only", "checkpoint"), _WITHOUT_ENTRY)
    if finding.code is Code.K03 and name == FileKind.META_PROPERTIES.value:
        others = [one for one in log_dirs if one is not log_dir]
        unknown = unknown_ids(log_dir, others)
        if unknown is None:
            return None
        flags = ("--only", "meta-properties", *(word for one in unknown for word in ID_OPTIONS[one]))
        paths = (where, *(one.path for one in others))
        return FileRepair(paths, flags, _BY_USER.format(what=" and ".join(unknown)) if unknown else _BY_OTHERS)
    return None
