"""Splits of logs: which batches each task reads, so that all splits together are the log.

A piece owns the batches that begin in it, and begins where a batch does. That is decided once, when the pieces are
made: at an entry of the offset index, where the batch there has the right CRC, fits the offsets of the index, and is
what the headers from the entry before lead to. Without an index that can be trusted the log is walked, and its pieces
begin where the walk came by. So a piece never has to guess, and what it reads is what a walk through the whole reads.
Pieces are packed into tasks of about the same size, so that all end at about the same time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from kdump.export.tables import STATE_TABLES
from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.resync import Resync
from kdump.format.batch.walk import Border, CheckedWalk
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.storage.directory import A_LINK, NO_FILE, expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.open_files import OpenFileCache, open_source
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import above
from kdump.storage.segment import Segment, sibling
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.export.origin import Origin, Origins
    from kdump.format.batch.base_offset.header import LogEnd
    from kdump.format.source import Source
    from kdump.storage.directory import Contents
    from kdump.storage.file_source import FileSource

_MB = 1024 * 1024
SPLIT_SIZE = {
    "batches": 512 * _MB,
    "records": 128 * _MB,
    "findings": 512 * _MB,
    "segments": 512 * _MB,
    "losses": 512 * _MB,
    "replicaDiffs": 512 * _MB,
    "partitionSummary": 512 * _MB,
    "duplicates": 512 * _MB,
    "usage": 512 * _MB,
    "unread": 16384 * _MB,
    **dict.fromkeys(STATE_TABLES, 512 * _MB),
}
"""Bytes that a task should have, by table."""
_OF_PATTERNS = frozenset("*?[")  # of the patterns of a shell
_HOPS = 4096  # headers from one entry of an index to the next
_T = TypeVar("_T")
_OPEN_COST = 4 * 1024 * 1024  # bytes that could be read while a file is opened
_EVEN = 1.4  # the largest task over the mean of all


class LogFile(Value):
    """A log that is there."""

    path: str  # of it
    size: int  # bytes, when it was listed
    base_offset: int | None  # from the name; None where it has none
    next_base: int | None  # base offset of the segment after it, None for the last
    origin: Origin  # where it is from


class Split(Value):
    """A piece of a log: the batches that begin in [border.position, stop)."""

    log: LogFile  # the log
    border: Border  # where a batch begins, and what is known of those before it
    stop: int  # bytes; the end of the log when that is where the piece ends

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.border.position


class WantedLogs(Value):
    """The rows that are asked for."""

    topics: tuple[str, ...] | None = None  # names, or patterns of a shell; None for all
    partitions: tuple[str, ...] | None = None  # names of the form topic-0, or patterns; None for all
    offsets: tuple[int | None, int | None] = (None, None)  # half-open; None for no bound
    times: tuple[int | None, int | None] = (None, None)  # ms since the epoch, half-open; None for no bound

    @property
    def is_all(self) -> bool:
        """Whether rows of any topic and partition are asked for, and those of none."""
        return self.topics is None and self.partitions is None

    def has_place(self, origin: Origin) -> bool:
        """Whether rows from a place are asked for."""
        return self._has(origin.topic, origin.partition)

    def has_row(self, row: Mapping[str, object]) -> bool:
        """Whether a row is asked for, by its own topic and partition."""
        return self._has(row["topic"], row["partition"])

    def _has(self, topic: object, partition: object) -> bool:
        if self.is_all:
            return True
        if topic is None or not is_one_of(str(topic), self.topics):
            return False
        return is_one_of(f"{topic}-{partition}", self.partitions)

    def may_have(self, log: LogFile) -> bool:
        """Whether a log may have rows that are asked for, by its name, and by its time index once it is closed."""
        first, last = self.offsets
        if not self.has_place(log.origin):
            return False
        if first is not None and log.next_base is not None and log.next_base <= first:
            return False
        if last is not None and log.base_offset is not None and log.base_offset >= last:
            return False
        earliest = self.times[0]
        if earliest is None or log.next_base is None or log.base_offset is None:
            return True
        latest = _latest(log.path, log.base_offset)
        return latest is None or latest >= earliest


def is_one_of(name: str, asked: tuple[str, ...] | None) -> bool:
    """Tell whether a name is asked for.

    Args:
        name: of a topic, or TOPIC-N.
        asked: names and patterns of a shell, whose characters no name of a topic has; None for all.
    """
    if asked is None or name in asked:
        return True
    from fnmatch import fnmatchcase  # few ask by a pattern

    return any(fnmatchcase(name, one) for one in asked if not _OF_PATTERNS.isdisjoint(one))


def _latest(path: str, base: int) -> int | None:
    """The largest timestamp of a closed segment by its time index; None where that cannot be relied on."""
    source = open_source(sibling(path, "timeindex"), follow=False)
    if isinstance(source, OpenFailure):
        return None
    with source:
        try:
            index = TimeIndex(source, base)
            if not index.entries or index.sanity_check() is not None:
                return None
            latest = index.last_entry().timestamp
        except OSError:
            return None
    return latest if latest > 0 else None


def logs_of(paths: Sequence[str], origins: Origins, wanted: WantedLogs) -> Iterator[LogFile | OpenFailure]:
    """Yield the logs under some paths, in order, and the paths that lead to none.

    Args:
        paths: as the user wrote them: files, partition directories, log directories, patterns.
        origins: tells where they are from.
        wanted: leaves out what has no row that is asked for.
    """
    for path, is_directory in expanded(paths):
        if not is_directory:
            yield from _logs([path], origins, wanted)
            continue
        directory = InputDirectory(path)
        contents = directory.contents
        unread = any(one.is_out_of_reach for one in contents.skipped)
        if directory.is_log_dir and not (directory.partitions or contents.files or unread):
            yield no_kafka_files(path)
        if directory.is_log_dir:
            yield from _not_followed(contents)
        for one in directory.partitions:
            if wanted.has_place(origins.of(one.path)):
                yield from _not_followed(one.contents)
                logs = [file.path for file in one.contents.files if file.name.kind is FileKind.LOG]
                yield from _logs(logs, origins, wanted, follow=False)


def _not_followed(found: Contents) -> Iterator[OpenFailure]:
    """Files that may have rows, but are not followed."""
    for one in found.skipped:
        name = parse_name(os.path.basename(one.path))
        is_log = name.is_live and name.kind is FileKind.LOG
        is_wanted = is_log or parse_partition(os.path.basename(one.path)) is not None
        if one.is_out_of_reach or (one.reason in (A_LINK, NO_FILE) and is_wanted):
            yield OpenFailure(one.path, "permission" if one.is_out_of_reach else "symlink", one.sentence)


def _logs(
    paths: Sequence[str], origins: Origins, wanted: WantedLogs, *, follow: bool = True
) -> Iterator[LogFile | OpenFailure]:
    bases = [parse_name(os.path.basename(path)).base_offset for path in paths]
    for at, path in enumerate(paths):
        source = open_source(path, follow=follow)
        if isinstance(source, OpenFailure):
            yield source
            continue
        source.close()
        log = LogFile(path, source.size, bases[at], bases[at + 1] if at + 1 < len(bases) else None, origins.of(path))
        if wanted.may_have(log):
            yield log


def splits_of(log: LogFile, size: int) -> list[Split]:
    """Return the pieces of a log.

    Args:
        log: the log.
        size: bytes that a piece should have; it ends at the first batch that begins there or later.
    """
    base = layout.UNKNOWN if log.base_offset is None else log.base_offset
    start = Border(floor=layout.UNKNOWN if base == layout.UNKNOWN else base - 1)
    pieces = -(-log.size // max(1, size))
    borders = [start]
    if pieces > 1:
        source = open_source(log.path)
        if not isinstance(source, OpenFailure):
            with source:
                targets = [log.size * k // pieces for k in range(1, pieces)]
                try:
                    borders += _cuts(source, log, base, targets)
                except OSError:
                    borders = [start]
    stops = [border.position for border in borders[1:]]
    return [Split(log, border, stop) for border, stop in zip(borders, [*stops, log.size], strict=True)]


def _cuts(source: FileSource, log: LogFile, base: int, targets: Sequence[int]) -> list[Border]:
    """Borders at or after each of some positions; fewer where they fall together."""
    beside = open_source(sibling(log.path, "index")) if base != layout.UNKNOWN else None
    if beside is not None and not isinstance(beside, OpenFailure):
        with beside:
            index = OffsetIndex(beside, base)
            index.trim()
            found = _by_index(source, index, targets)
        if found is not None:
            return found
    return _by_walk(source, base, targets, hints_beside(log)) if source.is_near else []


def _by_index(source: Source, index: OffsetIndex, targets: Sequence[int]) -> list[Border] | None:
    """Borders at entries of the index; None where one of them is not what it says."""
    resync = Resync(source, tuple)
    found: list[Border] = []
    for target in targets:
        low, high = 0, index.entries
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if index.entry(middle).position < target else (low, middle)
        if low == index.entries:
            # after its last entry an index is silent for one interval: more than that, and it is not the whole index
            if index.entries == 0 or source.size - index.last_entry().position > source.size // (len(targets) + 1):
                return None
            break
        here = index.entry(low)
        before = index.entry(low - 1) if low else None
        if found and here.position <= found[-1].position:
            continue
        offset = wire.i64(source.read_at(here.position, 8), 0)
        above = index.base_offset - 1 if before is None else before.offset
        if not (above < offset <= here.offset and resync.is_batch(here.position, above)):
            return None
        if not _leads_to(source, 0 if before is None else before.position, here.position):
            return None
        found.append(Border(here.position, floor=offset - 1))
    return found


def _leads_to(source: Source, start: int, stop: int) -> bool:
    """Whether the lengths of the batches from one position on lead to another."""
    for _ in range(_HOPS):
        if start >= stop:
            return start == stop
        header = source.read_at(start + layout.SIZE_AT, 4)
        size = wire.i32(header, 0)
        if size < layout.MIN_SIZE_V0:
            return False
        start += layout.LOG_OVERHEAD + size
    return False


def _by_walk(source: Source, base: int, targets: Sequence[int], hints: Sequence[int]) -> list[Border]:
    """Borders where a walk through the whole log comes by."""
    walk = CheckedWalk(
        source, ignore, segment=base, next_base=None, hints=lambda: hints, max_batch_bytes=MAX_BATCH_BYTES
    )
    walk.checks.follow_producers = False
    found: list[Border] = []
    for target in targets:
        for _ in walk.windows(target):
            pass
        if walk.border.position >= source.size:
            break
        if not found or walk.border.position > found[-1].position:
            found.append(walk.border)
    return found


def hints_beside(log: LogFile) -> Sequence[int]:
    """Return the positions that the offset index beside a log has, as far as they ascend."""
    if log.base_offset is None:
        return ()
    with OpenFileCache() as cache:
        return Segment(log.path, log.base_offset, cache).hints()


def end_beside(log: LogFile) -> LogEnd | None:
    """Return where other files know the last log of a partition to end, None where none does."""
    name = parse_name(os.path.basename(log.path))
    if log.next_base is not None or log.base_offset is None or not name.is_live:
        return None
    from kdump.storage import evidence  # few logs make anybody ask
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir

    folder = os.path.dirname(log.path) or os.curdir
    directory = PartitionDir(folder, LogDir(above(folder)))
    with OpenFileCache() as cache:
        return evidence.end_beside(directory, Segment(log.path, log.base_offset, cache))


def pack(things: list[_T], sizes: list[int], size: int, least: int) -> list[list[_T]]:
    """Return things in groups, each group in their order.

    The largest goes first, each to the group that has least. Where one thing is larger than the mean, groups are
    joined until none is much larger than the mean: the others would only wait for it.

    Args:
        things: what is to be done.
        sizes: bytes of each.
        size: bytes that a group should have.
        least: groups to make even so, if there are as many things.
    """
    if not things:
        return []
    costs = [one + _OPEN_COST for one in sizes]
    count = min(len(things), max(-(-sum(sizes) // max(1, size)), least))
    while True:
        groups, loads = _filled(costs, count)
        if count == 1 or max(loads) * count <= _EVEN * sum(loads):
            return [[things[at] for at in sorted(group)] for group in groups]
        count -= max(1, count // 16)


def _filled(costs: list[int], count: int) -> tuple[list[list[int]], list[int]]:
    from heapq import heapify, heapreplace

    heap = [(0, number) for number in range(count)]
    heapify(heap)
    groups: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for at in sorted(range(len(costs)), key=lambda at: -costs[at]):
        load, number = heap[0]
        groups[number].append(at)
        loads[number] = load + costs[at]
        heapreplace(heap, (loads[number], number))
    return groups, loads
