"""Which partitions lie under the paths of a user, and which of several copies of one is read."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kdump.broker.log_end import last_epoch_and_end
from kdump.broker.missing.lost_holes import lost_holes
from kdump.finding import Finding, Severity
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.format.read_limits import ReadLimits
from kdump.rows.coordinators import CopyChosen
from kdump.storage.directory import expanded, no_kafka_files
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import parent, real
from kdump.storage.segment import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.state_file import StateFile

_T = TypeVar("_T")


def told_once(items: Iterable[_T]) -> Iterator[_T]:
    """Yield items, but what was found twice only once: more than one partition may need the same log."""
    told: set[object] = set()
    for item in items:
        if isinstance(item, Finding):
            what: object = item.code, item.file, item.position, item.offset, item.message
        elif isinstance(item, OpenFailure):
            what = item.path, item.sentence
        else:
            yield item
            continue
        if what not in told:
            told.add(what)
            yield item


class Copies:
    """The partitions under some paths, each with its copies.

    Args:
        paths: partition directories and log directories, as the user wrote them.
        report: takes what cannot be read, and what is wrong with checkpoints.

    Attributes:
        partitions: the directories by topic and number, in order.
        log_dirs: the log directories that they are in, by path, in order.
    """

    def __init__(self, paths: Iterable[str], report: Callable[[Finding | OpenFailure], None]) -> None:
        self._report = report
        self.log_dirs: dict[str, LogDir] = {}
        found: dict[tuple[str, int], dict[str, PartitionDir]] = {}
        for path, is_directory in expanded(paths):
            if not is_directory:
                self._no_directory(path)
                continue
            directory = InputDirectory(path, parent)
            for one in [] if directory.is_partition else directory.contents.skipped:
                why = "permission" if one.path == path else "skipped"
                report(OpenFailure(one.path, why, one.sentence))
            directory.log_dir.on_read = partial(_told, report)
            self.log_dirs.setdefault(directory.log_dir.path, directory.log_dir)
            if not (directory.partitions or directory.contents.files or directory.contents.skipped):
                report(no_kafka_files(path))
            for kind in (FileKind.LOG_START, FileKind.CLEANER) if directory.partitions else ():
                directory.log_dir.file(kind)  # here and not in each process that needs it
            for partition in directory.partitions:
                if partition.parsed is not None and not partition.parsed.state and partition.key is not None:
                    found.setdefault(partition.key, {})[real(partition.path)] = partition
            if directory.is_partition and directory.partitions[0].key is None:
                why = f"{path}: its name is not that of a partition directory (TOPIC-N)"
                report(OpenFailure(path, "other", why))
        self.partitions = {key: list(found[key].values()) for key in sorted(found)}

    def of_topic(self, topic: str) -> list[int]:
        """Return the numbers of the partitions of a topic, ascending."""
        return [number for name, number in self.partitions if name == topic]

    def size(self, key: tuple[str, int]) -> int:
        """Return the bytes of a partition's log, of the largest of its copies.

        Args:
            key: topic and partition.
        """
        return max(one.log_bytes for one in self.partitions[key])

    def choose(self, key: tuple[str, int], limit: int) -> tuple[PartitionDir, CopyChosen | None]:
        """Return the copy with the highest leader epoch, then log end, then no damage; and what there is to say of it.

        Args:
            key: topic and partition.
            limit: a batch over this is not held in memory.
        """
        copies = self.partitions[key]
        if len(copies) == 1:
            return copies[0], None
        ranks = [last_epoch_and_end(one, limit) for one in copies]
        equal = [number for number, rank in enumerate(ranks) if rank == max(ranks)]
        sound = (number for number in equal if len(equal) == 1 or _is_sound(copies[number], limit))
        best = next(sound, equal[0])
        others = tuple(one.path for number, one in enumerate(copies) if number != best)
        return copies[best], CopyChosen("{}-{}".format(*key), copies[best].path, *ranks[best], others)

    def _no_directory(self, path: str) -> None:
        source = open_source(path)  # knows links that lead nowhere
        if isinstance(source, OpenFailure):
            self._report(source)
            return
        source.close()
        self._report(OpenFailure(path, "other", f"{path}: name a partition directory or a log directory, not a file"))


def _told(report: Callable[[Finding | OpenFailure], None], file: StateFile) -> None:
    """Report what is wrong with a checkpoint, or why it cannot be read."""
    if file.failure is not None and not file.is_missing:
        report(file.failure)
    for finding in file.findings:
        report(finding)


def _is_sound(directory: PartitionDir, limit: int) -> bool:
    """Whether all batches of a copy are there and can be trusted: of equal copies a damaged one is not read."""
    lost = evidence_of(directory)
    if lost.logs or lost.before_salvage:
        return False
    errors: list[Finding] = []

    def see(finding: Finding) -> None:
        if finding.severity is Severity.ERROR:
            errors.append(finding)

    for base in directory.log_bases:
        source = directory.cache.open(directory.path_of(base, FileKind.LOG), follow=False)
        if isinstance(source, OpenFailure):
            return False
        try:
            following = directory.next_base(base)
            for _ in CheckedWalk(source, see, segment=base, next_base=following, max_batch_bytes=limit).windows():
                if errors:
                    return False
        except OSError:
            return False
        if errors:
            return False
    with suppress(UnreadableError, OSError):
        return not lost_holes(directory, ReadLimits(limit)).is_any
    return False
