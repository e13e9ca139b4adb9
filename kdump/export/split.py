"""Splits of logs: which batches each task reads, so that all splits together are the log.

A piece owns the batches that begin in it, and begins where a batch does. That is decided once, when the pieces are
made: at an entry of the offset index, where the batch there has the right CRC, fits the offsets of the index, and is
what the headers from the entry before lead to. Without an index that can be trusted the log is walked, and its pieces
begin where the walk came by. So a piece never has to guess, and what it reads is what a walk through the whole reads.
Pieces are packed into tasks of about the same size, so that all end at about the same time.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kdump.export.log_file import LogFile, Split
from kdump.export.pruned import sought
from kdump.export.tables import STATE_TABLES
from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.resync import Resync
from kdump.format.batch.walk import Border, CheckedWalk
from kdump.format.index.offset_and_time import OffsetIndex
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.format.record.selection import Selection
from kdump.storage.directory import A_LINK, NO_FILE, expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.open_files import OpenFileCache, open_source
from kdump.storage.partition_dir import InputDirectory, list_ahead
from kdump.storage.paths import above, is_remote
from kdump.storage.segment import Segment, sibling
from kdump.value import Value

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.export.origin import Origin, Origins
    from kdump.format.batch.base_offset.header import LogEnd
    from kdump.format.source import Source
    from kdump.storage.directory import Contents
    from kdump.storage.file_source import FileSource
    from kdump.storage.partition_dir import PartitionDir

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
_MOST_OPENED = 256  # files that a group should open
_EVEN = 1.4  # the largest task over the mean of all


class WantedLogs(Value):
    """The rows that are asked for."""

    topics: tuple[str, ...] | None = None  # names, or patterns of a shell; None for all
    partitions: tuple[str, ...] | None = None  # names of the form topic-0, or patterns; None for all
    offsets: tuple[int | None, int | None] = (None, None)  # half-open; None for no bound
    times: tuple[int | None, int | None] = (None, None)  # ms since the epoch, half-open; None for no bound
    keys: tuple[bytes, ...] = ()  # keys of records; none for any
    patterns: tuple[re.Pattern[str], ...] = ()  # one is found in the key of a record; none for any

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
        """Whether a log may have rows that are asked for, by its name."""
        first, last = self.offsets
        if first is not None and log.next_base is not None and log.next_base <= first:
            return False
        if last is not None and log.base_offset is not None and log.base_offset >= last:
            return False
        return not self._is_empty and self.has_place(log.origin)

    @property
    def _is_empty(self) -> bool:
        """Whether a range ends where it begins, or before."""
        return any(None not in one and one[0] >= one[1] for one in (self.offsets, self.times))  # type: ignore[operator]

    @property
    def is_part(self) -> bool:
        """Whether records are asked for by their offset or their key: a part of those of a batch."""
        return self.offsets != (None, None) or bool(self.keys or self.patterns)

    @property
    def selection(self) -> Selection:
        """The same as conditions on batches and records."""
        (first, last), (earliest, latest) = self.offsets, self.times
        return Selection(first, last, earliest, latest, keys=self.keys, patterns=self.patterns)


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


def logs_of(paths: Sequence[str], origins: Origins, wanted: WantedLogs) -> Iterator[LogFile | OpenFailure]:
    """Yield the logs under some paths, in order, and the paths that lead to none.

    Args:
        paths: as the user wrote them: files, partition directories, log directories, patterns.
        origins: tells where they are from.
        wanted: leaves out what has no row that is asked for.
    """
    for path, is_directory in expanded(paths):
        if not is_directory:
            yield from _log(path, origins, wanted)
            continue
        directory = InputDirectory(path)
        contents = directory.contents
        unread = any(one.is_out_of_reach for one in contents.skipped)
        if directory.is_log_dir and not (directory.partitions or contents.files or unread):
            yield no_kafka_files(path)
        if directory.is_log_dir:
            yield from not_followed(contents)
        origins.log_dirs.saw(directory.itself.listing)
        here = [(one, origins.of(one.path)) for one in directory.partitions]
        asked = [(one, origin) for one, origin in here if wanted.has_place(origin)]
        list_ahead([one for one, _ in asked])
        for one, origin in asked:
            origins.log_dirs.saw(one.listing)
            yield from not_followed(one.contents)
            yield from logs_in(one, origin, wanted)


def logs_in(directory: PartitionDir, origin: Origin, wanted: WantedLogs) -> Iterator[LogFile | OpenFailure]:
    """Yield the logs of a partition directory; what a store has listed is not asked for again.

    Args:
        directory: the directory.
        origin: where it is from.
        wanted: leaves out what has no row that is asked for.
    """
    files = [file for file in directory.contents.files if file.name.kind is FileKind.LOG]
    ends = [file.name.base_offset for file in files[1:]]
    for file, end in zip(files, [*ends, None], strict=True):
        log = LogFile(file.path, 0, file.name.base_offset, end, origin)
        if not wanted.may_have(log):
            continue
        if is_remote(file.path):
            yield log.replace(size=directory.listing.size(os.path.basename(file.path)))
            continue
        source = open_source(file.path, follow=False)
        if isinstance(source, OpenFailure):
            yield source
        else:
            source.close()
            yield log.replace(size=source.size)


def not_followed(found: Contents) -> Iterator[OpenFailure]:
    """Yield the files that may have rows, but are not followed.

    Args:
        found: what a directory has.
    """
    for one in found.skipped:
        name = parse_name(os.path.basename(one.path))
        is_log = name.is_live and name.kind is FileKind.LOG
        is_wanted = is_log or parse_partition(os.path.basename(one.path)) is not None
        if one.is_out_of_reach or (one.reason in (A_LINK, NO_FILE) and is_wanted):
            yield OpenFailure(one.path, "permission" if one.is_out_of_reach else "symlink", one.sentence)


def _log(path: str, origins: Origins, wanted: WantedLogs) -> Iterator[LogFile | OpenFailure]:
    """A log that the user named."""
    source = open_source(path)
    if isinstance(source, OpenFailure):
        yield source
        return
    source.close()
    log = LogFile(path, source.size, parse_name(os.path.basename(path)).base_offset, None, origins.of(path))
    if wanted.may_have(log):
        yield log


def splits_of(log: LogFile, size: int, wanted: WantedLogs | None = None) -> list[Split]:
    """Return the pieces of a log.

    Args:
        log: the log.
        size: bytes that a piece should have; it ends at the first batch that begins there or later.
        wanted: what is asked for: the pieces are of what can have it, by its offsets.
    """
    base = layout.UNKNOWN if log.base_offset is None else log.base_offset
    start = Border(floor=layout.UNKNOWN if base == layout.UNKNOWN else base - 1)
    borders, end = [start], log.size
    if log.size > size:
        source = open_source(log.path)
        if not isinstance(source, OpenFailure):
            with source:
                try:
                    if wanted is not None:
                        borders[0], end = sought(source, log, wanted.selection, start, end)
                    begin = borders[0].position
                    pieces = -(-(end - begin) // max(1, size))
                    targets = [begin + (end - begin) * k // pieces for k in range(1, pieces)]
                    borders += [one for one in cut(source, log, start, targets) if begin < one.position < end]
                except OSError:
                    borders, end = [start], log.size
    stops = [border.position for border in borders[1:]]
    return [Split(log, border, stop) for border, stop in zip(borders, [*stops, end], strict=True)]


def cut(source: FileSource, log: LogFile, start: Border, targets: Sequence[int]) -> list[Border]:
    """Return borders at or after each of some positions; fewer where they fall together.

    Args:
        source: the log.
        log: the same.
        start: where a walk may begin that is needed where no index tells.
        targets: positions.

    Raises:
        OSError: the log or its index cannot be read.
    """
    if not targets:
        return []
    with _index_beside(log) as index:
        found = None if index is None else _by_index(source, index, targets)
    if found is not None:
        return found
    return _by_walk(source, log, start, targets) if source.is_near else []


def end_of_index(source: FileSource, log: LogFile) -> Border:
    """Return a border that the offset index tells near the end of a log; that of its beginning where it tells none.

    Args:
        source: the log.
        log: the same.

    Raises:
        OSError: the log or its index cannot be read.
    """
    with _index_beside(log) as index:
        if index is not None and index.entries:
            position = index.last_entry().position
            found = _by_index(source, index, [position]) if 0 < position < source.size else None
            if found:
                return found[-1]
    return Border(floor=(log.base_offset or 0) - 1)


@contextmanager
def _index_beside(log: LogFile) -> Iterator[OffsetIndex | None]:
    """The offset index of a log, None where it has none."""
    base = log.base_offset
    beside = None if base is None else open_source(sibling(log.path, "index"))
    if base is None or beside is None or isinstance(beside, OpenFailure):
        yield None
        return
    with beside:
        index = OffsetIndex(beside, base)
        index.trim()
        yield index


def _by_index(source: Source, index: OffsetIndex, targets: Sequence[int]) -> list[Border] | None:
    """Borders at entries of the index; None where one of them is not what it says."""
    resync = Resync(source, tuple)
    found: list[Border] = []
    interval = (targets[-1] - targets[0]) // (len(targets) - 1) if len(targets) > 1 else source.size - targets[0]
    for target in targets:
        low = index.from_position(target)
        if low == index.entries:
            # after its last entry an index is silent for one interval: more than that, and it is not the whole index
            if index.entries == 0 or source.size - index.last_entry().position > interval:
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


def _by_walk(source: Source, log: LogFile, start: Border, targets: Sequence[int]) -> list[Border]:
    """Borders where a walk from one place on comes by."""
    base, hints = layout.UNKNOWN if log.base_offset is None else log.base_offset, hints_beside(log)
    walk = CheckedWalk(
        source, ignore, segment=base, next_base=None, hints=lambda: hints, max_batch_bytes=MAX_BATCH_BYTES, border=start
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


def pack(
    things: list[_T], sizes: list[int], size: int, least: int, many: Sequence[int] | None = None
) -> list[list[_T]]:
    """Return things in groups, each group in their order.

    The largest goes first, each to the group that has least. Where one thing is larger than the mean, groups are
    joined until none is much larger than the mean: the others would only wait for it.

    Args:
        things: what is to be done.
        sizes: bytes of each.
        size: bytes that a group should have.
        least: groups to make even so, if there are as many things.
        many: files that are opened for each; one for each without it.
    """
    if not things:
        return []
    costs = _costs(sizes, many)
    count = min(len(things), max(_groups(sizes, costs, size), least))
    while True:
        groups, loads = _filled(costs, count)
        if count == 1 or max(loads) * count <= _EVEN * sum(loads):
            return [[things[at] for at in sorted(group)] for group in groups]
        count -= max(1, count // 16)


def pack_in_order(
    things: list[_T], sizes: list[int], size: int, least: int, many: Sequence[int] | None = None
) -> list[list[_T]]:
    """Return things in groups, one behind the other in their order.

    Args:
        things: what is to be done.
        sizes: bytes of each.
        size: bytes that a group should have.
        least: groups to make even so, about, if there are as many things.
        many: files that are opened for each; one for each without it.
    """
    costs = _costs(sizes, many)
    share = sum(costs) / max(1, _groups(sizes, costs, size), least)
    groups: list[list[_T]] = []
    load = 0
    for one, cost in zip(things, costs, strict=True):
        if not groups or load + cost / 2 > share:
            groups.append([])
            load = 0
        groups[-1].append(one)
        load += cost
    return groups


def is_large(sizes: Sequence[int], size: int) -> bool:
    """Tell whether logs are more than one task should have, by their bytes or by their number; one log is not.

    Args:
        sizes: of the logs, bytes.
        size: bytes that a task should have.
    """
    return len(sizes) > 1 and _groups(sizes, _costs(sizes, None), size) > 1


def _costs(sizes: Sequence[int], many: Sequence[int] | None) -> list[int]:
    """What reading costs: bytes, and bytes that could be read while files are opened."""
    return [one + _OPEN_COST * (1 if many is None else many[at]) for at, one in enumerate(sizes)]


def _groups(sizes: Sequence[int], costs: Sequence[int], size: int) -> int:
    """How many groups there should be, by bytes and by files that are opened."""
    opened = (sum(costs) - sum(sizes)) // _OPEN_COST
    return max(-(-sum(sizes) // max(1, size)), -(-opened // _MOST_OPENED))


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
