"""A partition as a broker has it loaded: its segments with their indexes, and where it begins.

Strategy: listing a directory of thousands of segments looks at names only. A segment is opened when it is asked for
and kept open, the latest used up to a bound; what a lookup needs of the others (their largest timestamp) is kept.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.checkpoint.checkpoint_file import EpochEntry, TopicPartitionOffset, read_checkpoint
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.kinds import FileKind
from kdump.format.source import BytesSource
from kdump.storage.file_source import DoorProblem, FileSource, open_source
from kdump.storage.names import log_bases, parse_partition
from kdump.storage.paths import parent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.finding import Report
    from kdump.format.source import Source

_MOST_OPEN = 128  # segments: three files each
_SWAP = (
    "compaction or a split was about to finish: a broker puts it in the place of what it covers when it starts, "
    "and may answer otherwise then"
)
_CLEANED = "compaction or a split is at work, or did not finish: a broker throws it away when it starts"
_UNFINISHED = {".swap": (Severity.WARNING, _SWAP), ".cleaned": (Severity.NOTE, _CLEANED)}


class UnreadableError(Exception):
    """A file of the partition cannot be opened; `problem` says why."""

    def __init__(self, problem: DoorProblem) -> None:
        super().__init__(problem.sentence)
        self.problem = problem


class Segment:
    """The files of one base offset, open for reading.

    Args:
        path: of the log, as the user wrote it.
        base_offset: from its name.
        is_open: a broker has not closed it: it may be at work, or have crashed. Zeros at the end of the indexes are
            no entries then, and the time index lacks its last one.

    Attributes:
        log: the log.
        offset_index, time_index: without entries where there is no file.
        has_index: the offset index is there; a broker recovers the segment when it is not.
        modified: ms since the epoch, of the log.

    Raises:
        UnreadableError: one of the files cannot be opened.
    """

    def __init__(self, path: str, base_offset: int, *, is_open: bool) -> None:
        self.path = path
        self.base_offset = base_offset
        self.is_open = is_open
        self._files: list[FileSource] = []
        self.log: FileSource = self._open(path)
        self.modified = self.log.modified
        stem = path.removesuffix(".log")
        index, time = self._index(f"{stem}.index"), self._index(f"{stem}.timeindex")
        self.has_index = index is not None
        self.offset_index = OffsetIndex(index or BytesSource(b"", f"{stem}.index"), base_offset)
        self.time_index = TimeIndex(time or BytesSource(b"", f"{stem}.timeindex"), base_offset)
        if is_open:
            self.offset_index.trim()
            self.time_index.trim()

    def _open(self, path: str) -> FileSource:
        opened = open_source(path)
        if isinstance(opened, DoorProblem):
            self.close()
            raise UnreadableError(opened)
        self._files.append(opened)
        return opened

    def _index(self, path: str) -> Source | None:
        return self._open(path) if os.path.lexists(path) else None

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


class Partition:
    """The segments of one partition directory, or one segment alone.

    Args:
        path: of the directory, or of one log, as the user wrote it.
        report: takes what is wrong with the checkpoint files that are read.

    Attributes:
        bases: base offsets, ascending.
        name: topic and partition, from the name of the directory; the path where one log is asked.
        log_start: of the checkpoint, 0 when it has none.
        start_offset: the log start offset that a broker has after loading.
        start_file: the checkpoint that it may come from.
        epochs: of the leader-epoch-checkpoint, as the file has them.

    Raises:
        UnreadableError: the directory or a checkpoint cannot be read, or there is no segment.

    Reports: F08, K03.
    """

    def __init__(self, path: str, report: Report) -> None:
        self.path = path
        self._report = report
        self._open: OrderedDict[int, Segment] = OrderedDict()
        self._latest: tuple[int, Segment] | None = None
        is_directory = os.path.isdir(path)
        directory = path if is_directory else os.path.dirname(path) or "."
        names = _list(path) if is_directory else [os.path.basename(path)]
        self.bases = log_bases(names)
        self._is_directory = is_directory
        if not self.bases:
            raise UnreadableError(_no_segment(path, is_directory))
        above = parent(directory)
        self.name = os.path.basename(os.path.abspath(directory)) if is_directory else path
        named = parse_partition(self.name)
        is_clean = os.path.exists(os.path.join(above, FileKind.CLEAN_SHUTDOWN.value))
        self._was_closed = is_clean and (named is None or not (named.state == "delete" or named.is_raft_log))
        self.epochs: Sequence[EpochEntry] = ()
        self.log_start = 0
        self.start_offset = self.bases[0]
        self.start_file = os.path.join(above, FileKind.LOG_START.value)
        if is_directory:
            self._check_names(names)
            self.log_start = self._log_start(above)
            self.start_offset = max(self.start_offset, self.log_start)
            self.epochs = [
                entry for entry in self._entries(directory, FileKind.EPOCHS) if isinstance(entry, EpochEntry)
            ]

    def __len__(self) -> int:
        return len(self.bases)

    def segment(self, number: int) -> Segment:
        """Return a segment, opened at most once while it is in use.

        Raises:
            UnreadableError: one of its files cannot be opened.
        """
        if self._latest is not None and self._latest[0] == number:
            return self._latest[1]
        segment = self._open.get(number)
        if segment is None:
            base = self.bases[number]
            path = os.path.join(self.path, f"{base:020}.log") if self._is_directory else self.path
            is_open = not self._was_closed and number == len(self.bases) - 1
            segment = self._open[number] = Segment(path, base, is_open=is_open)
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(number)
        self._latest = number, segment
        return segment

    def floor(self, offset: int) -> int:
        """Return the number of the last segment whose base is at or below an offset, -1 when there is none."""
        return bisect_right(self.bases, offset) - 1

    def close(self) -> None:
        """Close all files."""
        for segment in self._open.values():
            segment.close()
        self._open.clear()
        self._latest = None

    def _check_names(self, names: list[str]) -> None:
        """Report the files that change the segments when a broker starts; the answers are those of what is here now."""
        for name in sorted(one for one in names if one.endswith(tuple(_UNFINISHED))):
            severity, why = _UNFINISHED[os.path.splitext(name)[1]]
            path = os.path.join(self.path, name)
            self._report(Finding(Code.F08, path, values={"why": why}, severity_override=severity))

    def _log_start(self, parent: str) -> int:
        """What the log-start-offset-checkpoint of the log.dir says about this partition, 0 when nothing."""
        topic, _, number = self.name.rpartition("-")
        found = 0
        for entry in self._entries(parent, FileKind.LOG_START):
            if isinstance(entry, TopicPartitionOffset) and (entry.topic, str(entry.partition)) == (topic, number):
                found = entry.offset
        return found

    def _entries(self, directory: str, kind: FileKind) -> Sequence[object]:
        path = os.path.join(directory, kind.value)
        if not os.path.lexists(path):
            return ()
        opened = open_source(path)
        if isinstance(opened, DoorProblem):
            raise UnreadableError(opened)
        with opened:
            return list(read_checkpoint(kind, opened, self._report).entries)


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError as error:
        sentence = f"{path}: cannot be listed: {error.strerror}"
        raise UnreadableError(DoorProblem(path, "permission", sentence)) from None


def _no_segment(path: str, is_directory: bool) -> DoorProblem:
    if is_directory:
        sentence = f"{path}: no segment is here; name a partition directory, or a log.dir with --topic-partition"
        return DoorProblem(path, "other", sentence)
    opened = open_source(path)
    if isinstance(opened, DoorProblem):
        return opened
    opened.close()
    return DoorProblem(path, "other", f"{path}: the name tells no base offset: a segment is named <20 digits>.log")
