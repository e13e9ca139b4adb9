"""What other files say of the offsets and the end of a log: logs that are gone, and ends that are cut off.

No broker takes away a log alone: one that removes a segment first renames all its files to `.deleted`, the log before
the others. None goes back behind an offset that its indexes, snapshots and checkpoints know. And one that deletes the
first segments raises the leader-epoch-checkpoint to the new log start offset: where that still begins lower after a
clean shutdown, others have taken them. Source: UnifiedLog.maybeIncrementLogStartOffset,
LeaderEpochFileCache.truncateFromStartAsyncFlush; LogManager.checkpointLogStartOffsetsInDir (a tiered log, which begins
below its first segment, has an entry in the log-start-offset-checkpoint).
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Flag, auto
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.base_offset.header import LogEnd
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.kinds import FileKind
from kdump.ranges import RangeSet
from kdump.storage.file_source import OpenFailure, first_line
from kdump.storage.misplaced import misplaced_in
from kdump.storage.names import SALVAGE_ROWS, parse_name
from kdump.storage.open_files import open_source
from kdump.storage.paths import exists, is_remote
from kdump.storage.segment import Segment, cut_off
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.storage.json_rules import Rule
    from kdump.storage.partition_dir import PartitionDir

_INDEXES: dict[FileKind, type[OffsetIndex | TimeIndex]] = {FileKind.INDEX: OffsetIndex, FileKind.TIMEINDEX: TimeIndex}
_LOST = ("lost", "doubtful")
_ON_ITS_WAY = ("deleted", "swap")
_SNAPSHOT, _CHECKPOINT = "a producer snapshot is of offset", "a checkpoint of the log.dir has offset"
_REMOVED = "there is no log for it: a broker removes it"
_RESTORE = "restore from another replica; do not start the broker before that: it"
_REMEDY = f"{_RESTORE} removes this file, the only evidence"
_ONLY = "only_witness"  # among the values of a finding: a start takes away what alone tells of a lost log


class Witness(Flag):
    """What knows at which offset a log ends, besides its batches."""

    SNAPSHOTS = auto()
    LOST_LOGS = auto()
    CHECKPOINTS = auto()
    EPOCHS = auto()
    INDEXES = auto()


BESIDE = Witness.SNAPSHOTS | Witness.LOST_LOGS | Witness.CHECKPOINTS | Witness.INDEXES
"""What tells where the last log of a partition ends, besides its batches."""


class KnownEnd(TupleValue):
    """An offset that a log has reached, and the name of the code that says so where the log has not."""

    offset: int
    code: str


class LostBehind(TupleValue):
    """Offsets that a log had behind its last batch."""

    # first, last: inclusive
    first: int
    last: int
    finding: Finding | None  # what is wrong where no log is lost, else None
    # more than a checkpoint of the log.dir shows it, which is above the end after a truncation too
    is_sure: bool = True


class LogEvidence:
    """What the other files of a partition say of its logs: an answer from what is left of these alone may be wrong.

    Args:
        directory: the partition.

    Attributes:
        logs: base offset of each log that is lost, and the last offset that its indexes have; of those that the
            leader-epoch-checkpoint shows, as if they were one, up to the first log that is known.
    """

    def __init__(self, directory: PartitionDir) -> None:
        self._directory = directory
        self.logs = self._lost_logs()

    def ends(self, by: Witness, behind: int = -1) -> Iterator[KnownEnd]:
        """Yield offsets that the log has reached.

        Args:
            by: whom to ask, but for the indexes: these are of one log.
            behind: of the lost logs only those with a base offset above this.
        """
        directory = self._directory
        if Witness.SNAPSHOTS in by:
            for file in directory.contents.files:
                if file.name.kind is FileKind.SNAPSHOT:
                    yield KnownEnd(file.name.base_offset or 0, Code.S02.name)
        if Witness.LOST_LOGS in by:
            for base, last in self.logs.items():
                if base > behind:
                    yield KnownEnd(last + 1, Code.F08.name)
        if Witness.CHECKPOINTS in by and directory.key is not None:
            for kind in (FileKind.RECOVERY_POINT, FileKind.REPLICATION):
                offset = directory.log_dir.offset(kind, directory.key)
                if offset is not None:
                    yield KnownEnd(offset, Code.K01.name)
        if Witness.EPOCHS in by:
            for entry in directory.sound_epochs:
                yield KnownEnd(entry.start_offset, Code.K04.name)

    def end(self, by: Witness, last: Segment | None = None) -> LogEnd | None:
        """Return the highest offset at which other files know the log to end, None where none does.

        Args:
            by: whom to ask.
            last: the last log that is here: its indexes count, and the lost logs behind it.
        """
        ends = self.ends(by, -1 if last is None else last.base_offset)
        return highest_end(ends, last if Witness.INDEXES in by else None)

    @property
    def end_without_logs(self) -> int:
        """Where a log of which nothing is left ended at least; 0 where nothing tells."""
        end = self.end(Witness.SNAPSHOTS | Witness.CHECKPOINTS | Witness.EPOCHS)
        return 0 if end is None else end.offset

    def _lost_logs(self) -> dict[int, int]:
        """The base offsets of logs that are not here though their indexes have entries, and the last of those.

        What lies below the log start offset is nobody's loss, what lies where a broker has closed the log in order,
        with that end, was never in it, and a log that is here under another name is not lost.
        """
        directory = self._directory
        if directory.listing.failure is not None:  # nobody knows what is there
            return {}
        found: dict[int, int] = {}
        for base, files in sorted(directory.by_base.items()):
            if FileKind.LOG in files or not _INDEXES.keys() & files or directory.is_leftover:
                continue
            log = f"{base:020}.{FileKind.LOG.value}"
            if any(map(directory.listing.has, (log, *(f"{log}.{suffix}" for suffix in _ON_ITS_WAY)))):
                continue
            if directory.closed_at is not None and base >= directory.closed_at:
                continue
            if any(one.base == base for one in misplaced_in(directory).values()):
                continue
            last = _last_entry(directory, base, files)
            if last is not None and last >= directory.log_start:
                found[base] = last
        if not found and not directory.log_bases:
            return self._without_any()
        first = min((*found, *directory.log_bases), default=0)
        begin = self.begin_by_epochs(first) if directory.was_closed else None
        return found if begin is None else {begin: first - 1, **found}

    def _without_any(self) -> dict[int, int]:
        """All logs of a partition that has none, as if they were one: as far as its snapshots and checkpoints go."""
        directory = self._directory
        if directory.is_leftover or directory.log_dir.is_held or list(_on_their_way(directory)):
            return {}
        begin = directory.log_start
        if not begin and directory.sound_epochs:
            begin = directory.sound_epochs[0].start_offset
        end = self.end_without_logs
        return {begin: end - 1} if begin < end else {}

    def begin_by_epochs(self, first: int) -> int | None:
        """Return where the log begins by the leader-epoch-checkpoint, where that is below the first log that is known.

        A broker that is killed right after it has deleted segments can leave it behind so. None where it may be lower
        in order: a tiered log goes on below its first segment. None too where the first segment is here under another
        name.

        Args:
            first: base offset of the first log.
        """
        directory = self._directory
        if directory.key is None or directory.is_leftover or not directory.sound_epochs:
            return None
        begin = directory.sound_epochs[0].start_offset
        if begin >= first:
            return None
        starts = directory.log_dir.file(FileKind.LOG_START)
        is_known = starts.failure is None and not starts.findings and directory.key not in starts.offsets
        is_here = any(begin <= base < first for base in _on_their_way(directory))
        return begin if is_known and not is_here and not misplaced_in(directory) else None

    @property
    def _rows(self) -> str:
        """The path that the rows of salvage have."""
        return self._directory.path.rstrip("/") + SALVAGE_ROWS

    @property
    def before_salvage(self) -> RangeSet:
        """The offsets that were lost when salvage made the partition, as far as its rows could be read."""
        return self._salvaged[0]

    @property
    def rows_unread(self) -> OpenFailure | None:
        """Why rows of salvage that lie beside the partition do not count; None where they do, or none are there.

        Who judges holes by them says so: what was lost before would pass for compacted away.
        """
        return self._salvaged[1]

    @cached_property
    def _salvaged(self) -> tuple[RangeSet, OpenFailure | None]:
        found = RangeSet()
        if _is_absent(self._rows):  # it was not made by salvage
            return found, None
        source = open_source(self._rows, follow=False)
        if isinstance(source, OpenFailure):
            return found, None if source.missing else self._unread(source.kind, source.sentence)
        from kdump.storage.json_rows import rows_in
        from kdump.storage.json_rules import BadValueError
        from kdump.storage.own_files import why_not_of_owner

        with source:
            try:
                if not is_remote(self._rows):
                    why = why_not_of_owner(self._rows, source.status, os.stat(self._directory.path))
                    if why is not None:
                        return found, self._unread("other", why)
                for _, row in rows_in(source.read_at, _rules()):
                    if row["certainty"] in _LOST:
                        found.add(row["offset"], row["lastOffset"])
            except BadValueError as error:
                return found, self._unread("other", f"{self._rows}: {error}, and no row that salvage writes")
            except OSError as error:
                return found, self._unread("read", f"{self._rows}: cannot be read to its end: {first_line(error)}")
        return found, None

    def _unread(self, kind: str, why: str) -> OpenFailure:
        means = f"what was lost when salvage made {self._directory.path} is not known from it"
        return OpenFailure(self._rows, kind, f"{why}; {means}")

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The offsets of each log that is lost, inclusive: up to the next log, else up to its last known one."""
        bases = sorted((*self.logs, *self._directory.log_bases))
        end = 0 if self._directory.log_bases else self.end_without_logs
        return [
            (base, next((one - 1 for one in bases if one > base), max(last, end - 1)))
            for base, last in self.logs.items()
        ]

    def has_index(self, base: int) -> bool:
        """Whether an index of a lost log is here; else the leader-epoch-checkpoint shows that it was."""
        return bool(_INDEXES.keys() & self._directory.by_base.get(base, {}))

    def findings(self, first: int = 0, end: int | None = None) -> Iterator[Finding]:
        """Yield one for each log that is lost.

        Args:
            first, end: only logs with a base offset in this half-open range; None for no end.

        Reports: F08.
        """
        for base, until in self.ranges if self.logs else ():
            if base < first or (end is not None and base >= end):
                continue
            why = f"its indexes have entries up to offset {self.logs[base]}"
            witness, is_only = "removes its indexes, the only evidence", True
            if not (self.has_index(base) or self._directory.log_bases):
                why = f"there is none, and snapshots and checkpoints know offsets up to {until}"
                witness, is_only = "makes an empty log", False
            elif not self.has_index(base):
                why = f"{FileKind.EPOCHS.value} begins at offset {base}, and no broker has raised it to {until + 1}"
                witness = f"raises {FileKind.EPOCHS.value}, the only evidence"
            values: dict[str, int | str | None] = {
                "why": f"the log is missing: {why}",
                "remedy": f"{_RESTORE} {witness}",
            }
            if is_only:
                values[_ONLY] = 1
            path, severity = self._directory.path_of(base, FileKind.LOG), Severity.ERROR
            yield Finding(Code.F08, path, offset=base, last_offset=until, values=values, severity_override=severity)

    def at_end(self, end: int) -> Iterator[Finding]:
        """Yield what is wrong where other files know the log to have gone on.

        Args:
            end: the log end offset.

        Reports: O07.
        """
        bases = self._directory.log_bases
        if bases:
            size = self._directory.listing.size(f"{bases[-1]:020}.{FileKind.LOG.value}")
            with suppress(OSError):
                behind = self.behind(bases[-1], end, size)
                if behind is not None and behind.finding is not None:
                    yield behind.finding

    def behind(self, base: int, end: int, size: int) -> LostBehind | None:
        """Return what was behind the last batch of a log, None where nothing shows that something was.

        Args:
            base: base offset of the log.
            end: the offset after its last batch.
            size: of the log, bytes.

        Reports: O07.

        Raises:
            OSError: its index cannot be read.
        """
        directory, following = self._directory, self._directory.next_base(base)
        lost = [one for one in self.logs if one > base and (following is None or one < following)]
        is_written = following is None and directory.log_dir.is_held  # what is read now is older than the other files
        known: list[tuple[int, str, str]] = []
        if not is_written:
            path, files = directory.path_of(base, FileKind.LOG), directory.files_of(base)
            segment = Segment(path, base, directory.cache, follow=False, files=files)
            index_end = segment.index_end(size)
            if index_end is not None and (following is None or index_end < following):
                known.append((index_end + 1, f"its index extends to {index_end}", Code.X07.name))
        if following is None and not is_written:
            for offset, code in self.ends(Witness.SNAPSHOTS | Witness.CHECKPOINTS):
                known.append((offset, f"{_SNAPSHOT if code == Code.S02.name else _CHECKPOINT} {offset}", code))
        reached, why, _ = max(known, default=(end, "", Code.X07.name), key=lambda one: one[:2])
        is_sure = any(offset > end and code != Code.K01.name for offset, _, code in known)
        is_cut = reached > end
        if not (is_cut or lost):
            return None
        last = following - 1 if following is not None else max([reached, *(self.logs[one] + 1 for one in lost)]) - 1
        until = min(lost) - 1 if lost else last
        if not is_cut or until < end:  # what is behind it is the lost log
            return LostBehind(min(lost), last, None)
        return LostBehind(end, last, cut_off(directory.path_of(base, FileKind.LOG), size, end, until, why), is_sure)


def highest_end(known: Iterable[tuple[int, str]], last: Segment | None) -> LogEnd | None:
    """Return the highest offset at which a log is known to end, None where nothing tells.

    Args:
        known: what other files say; an offset that no record can have does not count.
        last: the last log, whose indexes count too; None for none.
    """
    ends = [offset for offset, _ in known if offset <= layout.LARGEST_OFFSET]
    with suppress(OSError):  # an index has vanished meanwhile
        ends += [] if last is None else [last.entries_end() or 0]
    return LogEnd(max(ends), ends.count(max(ends))) if ends else None


def _on_their_way(directory: PartitionDir) -> Iterator[int]:
    """The base offsets of logs that a broker was about to remove, or to put in place."""
    for name in directory.listing.names:
        if name.endswith(tuple(f"{FileKind.LOG.value}.{suffix}" for suffix in _ON_ITS_WAY)):
            base = parse_name(name.rpartition(".")[0]).base_offset
            if base is not None:
                yield base


def _is_absent(path: str) -> bool:
    """Whether surely no file is there: where that cannot be told, opening it says why."""
    if is_remote(path):
        return not exists(path)
    try:
        os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _rules() -> dict[str, Rule]:
    """What counts of the rows beside a partition."""
    from kdump.storage.json_rows import COUNT
    from kdump.storage.json_rules import fields, text

    return {"loss": fields({"certainty": text, "offset": COUNT, "lastOffset": COUNT}, more=True)}


def evidence_of(directory: PartitionDir) -> LogEvidence:
    """Return what the other files of a partition say; they are looked at once.

    Args:
        directory: the partition.
    """
    found = directory.learnt.get(LogEvidence)
    if not isinstance(found, LogEvidence):
        found = directory.learnt[LogEvidence] = LogEvidence(directory)
    return found


def no_logs(directory: PartitionDir, kind: str) -> OpenFailure:
    """Return why nothing can be read of a partition of which no log is left, with what is lost.

    Args:
        directory: of the partition; its other files know of offsets.
        kind: of the failure.
    """
    lost = " and ".join(f"{first}..{last}" for first, last in evidence_of(directory).ranges)
    why = f"no log of it is here, and its other files know of offsets {lost}"
    return OpenFailure(directory.path, kind, f"{directory.path}: {why}")


def _last_entry(directory: PartitionDir, base: int, files: dict[FileKind, str]) -> int | None:
    """The last offset that the indexes of a segment have, None where they have none below the next segment."""
    bound = directory.next_base(base)
    offsets = []
    for kind, index_of in _INDEXES.items():
        source = directory.cache.open(files[kind], follow=False) if kind in files else None
        if source is None or isinstance(source, OpenFailure):
            continue
        try:
            index = index_of(source, base)
            index.trim()
            offsets += [index.entry(index.entries - 1).offset] if index.entries else []
        except OSError:  # it has vanished meanwhile, or its check says so
            continue
        finally:
            source.close()
    return max((one for one in offsets if one >= base and (bound is None or one < bound)), default=None)


def end_beside(directory: PartitionDir, segment: Segment) -> LogEnd | None:
    """Return where the other files of a partition know its last log to end; None where a broker is writing.

    Args:
        directory: of the partition.
        segment: the last one.
    """
    if directory.log_dir.is_held:  # the files beside a log are older than it then
        return None
    return evidence_of(directory).end(BESIDE, segment)


def without_log(path: str, last: int | None) -> Finding:
    """Return what is wrong with a file of a segment whose log is not here.

    Args:
        path: the file.
        last: the last offset that the indexes have where the log is lost; None where it is not.
    """
    if last is None:
        return Finding(Code.F08, path, values={"why": _REMOVED}, severity_override=Severity.WARNING)
    why = f"its log is missing: the indexes have entries up to offset {last}"
    values: dict[str, int | str | None] = {"why": why, "remedy": _REMEDY, _ONLY: 1}
    return Finding(Code.F08, path, values=values, severity_override=Severity.ERROR)


def shows_lost_log(finding: Finding) -> bool:
    """Tell whether a finding is about a log that is lost, or one of its indexes."""
    return finding.code is Code.F08 and str(finding.values.get("remedy")).startswith(_RESTORE)


def is_of_witness(finding: Finding) -> bool:
    """Tell whether a finding is about a lost log of which nothing tells any more once a broker has started."""
    return shows_lost_log(finding) and _ONLY in finding.values
