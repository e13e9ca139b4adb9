"""What the user names as sources, as copies of partitions: their logs, and what lies beside them."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.awaiting_deletion import awaiting_deletion, has_logs, logs_awaiting_deletion
from kdump.broker.load.swapped_dir import once_swapped
from kdump.format.batch.epoch_order import EpochsAround
from kdump.format.checkpoint.text_lines import Property
from kdump.format.java_values import MAX_LONG
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.rows.carved import CarvedRun
from kdump.rows.read_back import rule_of
from kdump.storage.directory import DirectoryListing, no_kafka_files
from kdump.storage.epochs_beside import EpochsBeside, Paths
from kdump.storage.evidence import evidence_of, no_logs
from kdump.storage.file_source import OpenFailure, first_line
from kdump.storage.json_rows import name_of, rows_in
from kdump.storage.json_rules import BadValueError
from kdump.storage.log_dir import LogDir, introduce
from kdump.storage.misplaced import misplaced_in
from kdump.storage.names import parse_name, parse_partition, run_base
from kdump.storage.open_files import OpenFileCache, open_source
from kdump.storage.own_files import why_not_of_owner
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import base_name, is_dir, is_remote, parent, real
from kdump.storage.refusal import RefusedError
from kdump.storage.segment import Segment, UnreadableError
from kdump.value import TupleValue, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from kdump.broker.load.swapped_dir import SwappedDir
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.storage.misplaced import Misplaced

_RUNS = "carve.jsonl"
_WITHOUT_LIST = "look into it, and move it away: without it, name runs as files with --name"
_CONTENT = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
_CHUNK = 1024 * 1024
_LONGEST_NAME = 255  # bytes of a name of a directory
_TOPIC = pattern(r"[a-zA-Z0-9._-]{1,249}")


def is_partition_name(name: str) -> bool:
    """Tell whether Kafka accepts a name, TOPIC-N, for a partition directory that is in use. Source: Topic.validate."""
    found = parse_partition(name)
    if found is None or found.state or str(found.partition) != name.rpartition("-")[2]:
        return False
    return _TOPIC.fullmatch(found.topic) is not None and found.topic not in (".", "..")


def partition_name(directory: str) -> str | None:
    """Return the name of the partition, TOPIC-N, that a directory is or was, None where its name does not tell it.

    What a broker puts behind the name of one that it is to delete, or does not serve, does not count. Where that made
    the name too long, the broker has cut the topic.

    Args:
        directory: its path.

    Source: LocalLog.logDirNameWithSuffixCappedLength.
    """
    name = base_name(directory)
    found = parse_partition(name)
    if found is None or (found.state and len(name) >= _LONGEST_NAME):
        return None
    bare = found.topic_partition if found.state else name
    return bare if is_partition_name(bare) else None


class SourceLog(TupleValue):
    """A log of a copy."""

    path: str  # of it
    # base offset by its name, or of the segment that it is under another name; None for a run of carve, and where
    # nothing tells it
    base: int | None
    next_base: int | None  # base offset of the segment after it in its directory
    source: str  # the path that the user named
    misplaced: Misplaced | None = None  # what is known of a log under the name of another segment
    # the image that a run was found in, and position and length of each stretch there; None where nothing tells it
    extents: tuple[str, tuple[tuple[int, int], ...]] | None = None


class Copy:
    """One copy of a partition.

    Args:
        directory: that its logs lie in.
        logs: in the order of their names.
        name: of the partition, None where none is told.
        is_carved: the logs are runs of carve: nothing that lies beside them is theirs.
        is_aside: the logs have names that no broker serves (`.deleted`): what the log was once.
        swapped: what the directory is once its swaps are finished, where there are some.

    Attributes:
        swapped: paths of the `.swap` logs that are read as the logs that they become.
        today: its directory as it lies, without what a start makes of it.
        is_to_be_replaced: it is what a directory is today, and a start replaces logs of it.
        is_one_log: it is of runs that were told apart from those of other copies: each lies behind the one before.
        firsts: by run, its first offset, where its name tells a wrong one.
    """

    is_one_log = False

    def __init__(
        self,
        directory: PartitionDir,
        logs: Sequence[SourceLog],
        name: str | None,
        *,
        is_carved: bool = False,
        is_aside: bool = False,
        swapped: SwappedDir | None = None,
    ) -> None:
        self.path = directory.path  # of the directory
        self.swapped = () if swapped is None or directory is not swapped.directory else swapped.put
        self.is_aside = is_aside
        self.today = directory if swapped is None else swapped.today
        self.is_to_be_replaced = swapped is not None and directory is not swapped.directory
        self.directory = directory
        self.logs = list(logs)
        self.name = name
        self.is_carved = is_carved
        self.firsts: Mapping[str, int] = {}

    def with_logs(self, logs: Sequence[SourceLog]) -> Copy:
        """Return the copy that some runs of an image are, which are of another one than the rest."""
        return Copy(self.directory, logs, self.name, is_carved=self.is_carved)

    @property
    def source(self) -> str:
        """The path that the user named; of several the first."""
        return self.logs[0].source

    @property
    def key(self) -> tuple[str, int] | None:
        """Topic and partition, as the checkpoints of its log directory name it."""
        parsed = parse_partition(base_name(self.path))
        return None if parsed is None or parsed.state else (parsed.topic, parsed.partition)

    @property
    def epochs(self) -> Sequence[EpochEntry]:
        """The entries of a sound leader-epoch-checkpoint, ascending."""
        return () if self.is_carved else self.directory.sound_epochs

    def epochs_around(self, log: SourceLog, other: Copy) -> EpochsAround:
        """Return what lies around a log says of leader epochs.

        Args:
            log: of this copy.
            other: the copy whose leader-epoch-checkpoint tells of it: this one, or another.
        """
        own = None if other is self else self.epochs
        # logs that a broker serves, or logs under wrong names, may lie under the names of those beside
        if self.is_one_log or self.is_aside or self._has_misplaced:
            logs, floor = self._by_offset, 0 if self.is_carved else self.directory.log_start
            at = self._places[log.path]
            before, behind = range(at - 1, -1, -1), range(at + 1, len(logs))
            sides = (Paths(lambda k: logs[k].path, before), Paths(lambda k: logs[k].path, behind))
            return EpochsBeside(log.path, *sides, entries=other.epochs, floor=floor, own=own)
        if self.is_carved or log.base is None:
            return EpochsAround(other.epochs, own=own)
        return self.directory.epochs_around(log.base, other.epochs, own)

    @cached_property
    def _has_misplaced(self) -> bool:
        return any(log.misplaced is not None for log in self.logs)

    @cached_property
    def _by_offset(self) -> list[SourceLog]:
        """Its logs by their first offsets: runs have names by their place in the image."""
        if not self.is_carved:
            return self.logs
        return sorted(self.logs, key=lambda log: self.firsts.get(log.path, run_base(base_name(log.path)) or 0))

    @cached_property
    def _places(self) -> dict[str, int]:
        """Which of them a path is, by their first offsets."""
        return {log.path: number for number, log in enumerate(self._by_offset)}

    @cached_property
    def _epoch_starts(self) -> list[int]:
        return [one.start_offset for one in self.epochs]

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch that the leader-epoch-checkpoint has for an offset, None where it has none."""
        at = bisect_right(self._epoch_starts, offset) - 1
        return self.epochs[at].epoch if at >= 0 else None

    @cached_property
    def topic_id(self) -> str | None:
        """By a sound partition.metadata."""
        file = self.directory.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA)
        if self.is_carved or not file.is_read or file.findings:
            return None
        values = [str(one.value) for one in file.entries if isinstance(one, Property)]
        return values[1] if len(values) > 1 else None

    def metadata(self) -> bytes | None:
        """Return the bytes of a sound partition.metadata."""
        file = self.directory.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA)
        return None if self.topic_id is None or file.source is None else file.source.read_at(0, file.source.size)

    def checkpoint(self, kind: FileKind) -> tuple[int | None, bool]:
        """Return what a checkpoint of its log directory has for the partition, and whether that file is sound."""
        if self.key is None or self.is_carved:
            return None, True
        file = self.directory.log_dir.file(kind)
        return self.directory.log_dir.offset(kind, self.key), not file.findings

    def segment(self, log: SourceLog, cache: OpenFileCache) -> Segment:
        """Return the files of a log."""
        files = {} if log.misplaced is None else log.misplaced.files
        return Segment(log.path, 0 if log.base is None else log.base, cache, follow=True, files=files)

    @cached_property
    def bases(self) -> list[int]:
        """Base offsets of the segments in its directory, also of those that are not read; none of runs.

        A log under the name of another segment counts as what it is.
        """
        moved = {} if self.is_carved else misplaced_in(self.directory)
        return sorted(moved[name].base if name in moved else name for name in self._names)

    @property
    def _names(self) -> list[int]:
        """The same by the names of the logs."""
        return [] if self.is_carved else self.directory.listing.regular_bases

    @property
    def lost_logs(self) -> list[tuple[int, int]]:
        """First and last offset of each log that is not in its directory though its indexes are; none of runs."""
        return [] if self.is_carved else evidence_of(self.directory).ranges

    @property
    def unread(self) -> int:
        """The number of segments in its directory that the user did not name where others were named, as files."""
        names = {os.path.basename(log.path) for log in self.logs}
        paths = (self.directory.path_of(name, FileKind.LOG) for name in self._names)
        return sum(os.path.basename(path) not in names for path in paths)

    @property
    def is_whole(self) -> bool:
        """Whether all segments of a directory are read: a log alone, moved somewhere, does not tell."""
        return (
            not self.is_carved
            and not self.unread
            and (len(self.bases) > 1 or any(is_dir(one.source) for one in self.logs))
        )

    @property
    def is_empty(self) -> bool:
        """Whether it has one log, that is empty, and nothing beside it tells of a record."""
        if self.is_carved or len(self.logs) != 1 or self.logs[0].base is None:
            return False
        base = self.logs[0].base
        start, _ = self.checkpoint(FileKind.LOG_START)
        known = [base, self.known_end(base), start or 0, *(one.start_offset for one in self.directory.epochs)]
        for name in self.directory.listing.files:
            found = parse_name(name)
            if found.is_live or found.suffixes == ("swap",):
                known.append(found.base_offset or 0)
                if found.kind in _CONTENT and not _is_blank(self.directory.listing.join(name)):
                    return False
        return max(known) == base

    def known_end(self, end: int) -> int:
        """Return the offset up to which the files beside the logs know of records.

        Args:
            end: the log end offset by the batches.
        """
        if self.is_carved:
            return end
        known = [end, *(last + 1 for _, last in self.lost_logs), *self._epoch_starts]
        for kind in (FileKind.RECOVERY_POINT, FileKind.REPLICATION):
            offset, is_sound = self.checkpoint(kind)
            if offset is not None and is_sound:
                known.append(offset)
        known += [offset for offset, _ in self.snapshots(end + 1, MAX_LONG)]
        if self.logs and self.logs[-1].base is not None:
            with OpenFileCache() as cache, suppress(OSError, UnreadableError):
                segment = self.segment(self.logs[-1], cache)
                known.extend((finding.last_offset or -1) + 1 for finding in segment.check_end(end - 1, None))
        return max(known)

    def snapshots(self, first: int, last: int) -> Iterator[tuple[int, Sequence[ProducerStateEntry]]]:
        """Yield the sound producer snapshots at some offsets, ascending, each with its offset.

        Args:
            first, last: of the offsets, inclusive.
        """
        named = self._snapshot_names
        for offset, name in named[bisect_left(named, (first, "")) :]:
            if offset > last:
                return
            snapshot = self.directory.file(name, FileKind.SNAPSHOT).snapshot()
            if snapshot is not None and snapshot.error is None:
                yield offset, snapshot.entries

    @cached_property
    def _snapshot_names(self) -> list[tuple[int, str]]:
        """The names of snapshots, each with its offset, ascending."""
        named = ((parse_name(name), name) for name in self.directory.listing.files)
        return sorted(
            (parsed.base_offset, name)
            for parsed, name in named
            if parsed.kind is FileKind.SNAPSHOT and parsed.is_live and parsed.base_offset is not None
        )


class Found(TupleValue):
    """What the sources come to: copies, and what cannot be read or is passed over."""

    copies: list[Copy]
    problems: list[OpenFailure]


TOO, ALONE = "too", "alone"
"""Which logs that a broker is to remove are read: beside those that it serves, or only these."""


def find_copies(sources: Iterable[str], deleted: str | None = None, limit: int = MAX_BATCH_BYTES) -> Found:
    """Return the copies of partitions that the sources have.

    Args:
        sources: partition directories, logs, directories of runs, or log directories, as the user wrote them.
        deleted: TOO or ALONE; None where they are not read.
        limit: a batch over this is not held in memory.

    Raises:
        RefusedError: the list beside runs may be that of somebody else.
    """
    copies: list[Copy] = []
    problems: list[OpenFailure] = []
    log_dirs: dict[str, LogDir] = {}
    aside: list[Copy] = []
    bare: list[PartitionDir] = []
    copies_of = partial(_of_partition, deleted=deleted, limit=limit)
    seen: set[str] = set()
    for source in sources:
        if real(source) in seen:
            continue
        seen.add(real(source))
        if not is_dir(source):
            for copy in _of_file(source, log_dirs, problems):
                _join(copies, copy)
            continue
        listing = DirectoryListing(source)
        if listing.failure is not None:
            problems.append(listing.failure)
        elif _runs_of(listing) or has_logs(listing):
            problems += _missed(listing, is_partition=True)
            directory = PartitionDir(source, _log_dir(source, log_dirs), listing)
            found = [*copies_of(directory, source), *_of_runs(directory, source)]
            copies += found
            bare += [] if found else [directory]
        else:
            copies.extend(
                _of_log_dir(
                    source, listing, known=log_dirs, problems=problems, aside=aside, bare=bare, copies_of=copies_of
                )
            )
    copies.extend(_alone(aside, {copy.name for copy in copies}, problems))
    introduce(log_dirs.values())
    for directory in bare if deleted is None else ():
        problems += _left(directory, limit)
    return Found(copies, problems)


def _join(copies: list[Copy], copy: Copy) -> None:
    """Logs that the user named one by one are of one copy where they lie in one directory."""
    for other in copies:
        if (real(other.path), *_kind(other)) == (real(copy.path), *_kind(copy)):
            logs = sorted([*other.logs, *copy.logs], key=lambda log: (-1 if log.base is None else log.base, log.path))
            afters = [log.base for log in logs[1:]] + [None]
            other.logs = [
                log._replace(next_base=after if after is not None and after > (log.base or 0) else log.next_base)
                for log, after in zip(logs, afters, strict=True)
            ]
            return
    copies.append(copy)


def _kind(copy: Copy) -> tuple[str | None, bool, bool]:
    return copy.name, copy.is_carved, copy.is_aside


def _log_dir(path: str, known: dict[str, LogDir]) -> LogDir:
    where = parent(path)
    return known.setdefault(real(where), LogDir(where))


def _is_blank(path: str) -> bool:
    """Whether a file has no byte but zeros, as the indexes of an active segment have."""
    opened = open_source(path)
    if isinstance(opened, OpenFailure):
        return False
    with opened:
        return not any(any(opened.read_at(at, _CHUNK)) for at in range(0, opened.size, _CHUNK))


def _logs_of(directory: PartitionDir, source: str) -> list[SourceLog]:
    """The logs of a directory in the order of their offsets, whatever their names."""
    moved, listing = misplaced_in(directory), directory.listing
    logs = sorted((moved[name].base if name in moved else name, name) for name in listing.regular_bases)
    afters = [base for base, _ in logs[1:]]
    return [
        SourceLog(directory.path_of(name, FileKind.LOG), base, after, source, moved.get(name))
        for (base, name), after in zip(logs, [*afters, None], strict=False)  # without a log there is none after it
    ]


def _runs_of(listing: DirectoryListing) -> list[str]:
    return sorted(name for name in listing.names if run_base(name) is not None and listing.is_regular(name))


def _of_partition(today: PartitionDir, source: str, *, deleted: str | None, limit: int) -> Iterator[Copy]:
    """The logs of a directory as one copy, with those that wait to be put in place (`.swap`) in their places.

    Where one of these lacks something of what it is to replace, that is one more copy: it has what is lost in the
    other. Those that a broker is to remove are what the log was once, as another copy is.
    """
    swapped, name = once_swapped(today), partition_name(today.path)
    for directory in () if deleted == ALONE else (swapped.directory, today)[: 1 + _lacks_some(swapped, limit)]:
        logs = _logs_of(directory, source)
        if logs:
            yield Copy(directory, logs, name, swapped=swapped)
    if deleted is not None:
        found = [one for one in logs_awaiting_deletion(today, limit) if one.file not in swapped.replaced]
        bases = [parse_name(base_name(one.file)).base_offset for one in found]
        ends = [one.last_offset or 0 for one in found]
        afters = [
            after if base is not None and after is not None and base < after > end else None
            for base, after, end in zip(bases, [*bases[1:], None], ends, strict=False)
        ]
        logs = [SourceLog(one.file, base, after, source) for one, base, after in zip(found, bases, afters, strict=True)]
        if logs:
            yield Copy(today, logs, name, is_aside=True)


def _lacks_some(swapped: SwappedDir, limit: int) -> bool:
    """Whether what is put in place is damaged, or lacks what compaction has not taken out of what it replaces."""
    if not swapped.replaced:
        return False
    removed = logs_awaiting_deletion(swapped.today, limit)
    return bool(swapped.damaged()) or any(one.file in swapped.replaced for one in removed)


def _of_runs(directory: PartitionDir, source: str) -> Iterator[Copy]:
    listing = directory.listing
    runs = _runs_of(listing)
    by_name: dict[str | None, list[SourceLog]] = {}
    told = _told(listing, runs[0]) if runs else {}
    for run in runs:
        row = told.get(run, _NOTHING_TOLD)
        if row.kind == "log":
            log = SourceLog(listing.join(run), None, None, source, extents=row.extents)
            by_name.setdefault(row.partition, []).append(log)
    for one, some in sorted(by_name.items(), key=lambda pair: pair[0] or ""):
        yield Copy(directory, some, one, is_carved=True)


class _ToldOfRun(TupleValue):
    """What the list beside runs says of one."""

    partition: str | None  # that it belongs to, None where nothing tells
    kind: str  # "log", or what else it is
    extents: tuple[str, tuple[tuple[int, int], ...]] | None  # as in `SourceLog`


_NOTHING_TOLD = _ToldOfRun(None, "log", None)


def _told(listing: DirectoryListing, run: str) -> dict[str, _ToldOfRun]:
    """What the list beside the runs says of each.

    Raises:
        RefusedError: it is not as trusted as the runs, and would say what goes into which partition.
    """
    path = listing.join(_RUNS)
    if not is_remote(path) and os.path.lexists(path):
        try:
            found_rows, found_run = os.stat(path, follow_symlinks=False), os.stat(listing.join(run))
        except OSError:
            return {}
        why = why_not_of_owner(path, found_rows, found_run)
        if why is not None:
            raise RefusedError(f"{why}; {_WITHOUT_LIST}")
    opened = open_source(path, follow=False)
    if isinstance(opened, OpenFailure):
        if not opened.missing:
            raise RefusedError(f"{opened.sentence}; it says which partition each run belongs to")
        return {}
    names, found = set(listing.names), dict[str, _ToldOfRun]()
    with opened:
        try:
            for _, row in rows_in(opened.read_at, {CarvedRun.row_name: rule_of(CarvedRun)}):
                file = os.path.basename(str(name_of(row["file"])))
                if file in names:
                    extents = tuple((position, length) for position, length in row["extents"])
                    image = str(name_of(row["image"]))
                    found[file] = _ToldOfRun(
                        name_of(row["topicPartition"]), row["kind"], (image, extents) if extents else None
                    )
        except BadValueError as error:
            raise RefusedError(f"{path}: {error}, and no row that carve writes; {_WITHOUT_LIST}") from None
        except OSError as error:
            raise RefusedError(f"{path}: cannot be read to its end: {first_line(error)}; {_WITHOUT_LIST}") from None
    return found


def _no_partition(source: str) -> OpenFailure:
    return OpenFailure(source, "missing", f"{source}: no partition in this log.dir; see whether its volume is mounted")


def _of_log_dir(
    source: str,
    listing: DirectoryListing,
    known: dict[str, LogDir],
    problems: list[OpenFailure],
    aside: list[Copy],
    bare: list[PartitionDir],
    copies_of: Callable[[PartitionDir, str], Iterator[Copy]],
) -> Iterator[Copy]:
    log_dir = known.setdefault(real(source), LogDir(source))
    partitions = listing.partitions()
    missed = _missed(listing, is_partition=False)
    problems += missed
    if not partitions and not missed:
        alone = PartitionDir(source, _log_dir(source, known), listing) if is_partition_name(base_name(source)) else None
        if alone is not None and evidence_of(alone).logs:
            problems.append(no_logs(alone, "missing"))
        elif listing.contents(is_partition=False).files:
            problems.append(_no_partition(source))
        else:
            problems.append(no_kafka_files(source))
    for path in partitions:
        inner = DirectoryListing(path)
        if inner.failure is not None:
            problems.append(inner.failure)
            continue
        problems += _missed(inner, is_partition=True)
        name = base_name(path)
        directory = PartitionDir(path, log_dir, inner)
        copies = list(copies_of(directory, source))
        if copies and is_partition_name(name):
            yield from copies
        elif copies:
            aside += copies
        elif is_partition_name(name) and evidence_of(directory).logs:
            problems.append(no_logs(directory, "missing"))
        else:
            bare.append(directory)


def _left(directory: PartitionDir, limit: int) -> Iterator[OpenFailure]:
    """Say what a partition without logs has that a broker removes."""
    unread: list[OpenFailure] = []
    for one in islice(awaiting_deletion(directory, limit, unread.append), 1):
        sentence = f"no log of it is here; {base_name(one.file)} has {one.message}: {one.remedy}"
        yield OpenFailure(directory.path, "skipped", f"{directory.path}: {sentence}")
    yield from unread


def _missed(listing: DirectoryListing, *, is_partition: bool) -> list[OpenFailure]:
    """What a broker would load from a directory, and nobody reads here: it may be all that there is of a partition."""
    skipped = listing.contents(is_partition=is_partition).skipped
    return [OpenFailure(one.path, "symlink", one.sentence) for one in skipped if one.is_missed]


def _alone(aside: Sequence[Copy], names: Container[str | None], problems: list[OpenFailure]) -> Iterator[Copy]:
    """Yield those copies that a broker serves no more, but that are all that there is of a partition.

    Args:
        aside: the copies that lie in a log directory and have no name of a partition that is served.
        names: of partitions that have other copies.
        problems: gets what is said of those that stay out.
    """
    counts = Counter(name for _, name in {(copy.path, copy.name) for copy in aside})
    told: set[str] = set()
    for copy in aside:
        found = parse_partition(base_name(copy.path))
        is_wanted = found is not None and found.state in _WITHOUT_OTHER
        if is_wanted and copy.name is not None and counts[copy.name] == 1 and copy.name not in names:
            yield copy
            continue
        if copy.path in told:
            continue
        told.add(copy.path)
        how = "name it alone" if copy.name is not None else "name it alone, with --name"
        problems.append(OpenFailure(copy.path, "skipped", f"{copy.path}: {_why_out(base_name(copy.path))}: {how}"))


_WITHOUT_OTHER = ("delete", "stray")  # what a broker does with a directory that need not be elsewhere
_OUT = {
    "delete": "a broker was about to delete it (-delete)",
    "stray": "a broker took it for a stray (-stray)",
    "future": "a copy on its way to another log directory, not finished (-future)",
}


def _why_out(name: str) -> str:
    """Say why a directory is not taken with its log directory."""
    found = parse_partition(name)
    state = "" if found is None else found.state
    return _OUT.get(state, "not the name of a partition that a broker serves, TOPIC-N")


def _of_file(source: str, known: dict[str, LogDir], problems: list[OpenFailure]) -> Iterator[Copy]:
    opened = open_source(source)
    if isinstance(opened, OpenFailure):
        problems.append(opened)
        return
    opened.close()
    folder, name = os.path.split(source)
    directory = PartitionDir(folder or ".", _log_dir(folder or ".", known))
    parsed = parse_name(name)
    is_carved = run_base(name) is not None
    base = parsed.base_offset if parsed.kind is FileKind.LOG else None
    told = _told(directory.listing, name).get(name, _NOTHING_TOLD) if is_carved else _NOTHING_TOLD
    partition = told.partition if is_carved else partition_name(folder or ".")
    is_aside = parsed.is_exact and bool(parsed.suffixes)
    log = SourceLog(source, base, None, source, extents=told.extents)
    yield Copy(directory, [log], partition, is_carved=is_carved, is_aside=is_aside)
