"""What the next start of a broker removes though no other file has it: deleted partitions, and logs of `.deleted`.

A broker renames before it removes. A directory TOPIC-N.ID-delete goes file.delete.delay.ms after the start, the files
with `.deleted` go as the partition is loaded. Whoever deleted a topic by mistake, or lost the segments that took the
place of others, has the records here, and nowhere else.

Source: LogManager.loadLog, deleteLogs; LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.log_end import last_epoch_and_end
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import base_name
from kdump.value import TupleValue
from kdump.words.command import command_line, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.words.command import ShellCommand

_LOG = f".{FileKind.LOG.value}"
_DELETED = ".deleted"
_MOST_NAMED = 3  # files that a command names; of more a pattern


class _Records(TupleValue):
    """Intact records of some logs: first and last offset, and their number; None where batches do not tell it."""

    first: int
    last: int
    records: int | None


def awaiting_deletion(directory: PartitionDir, limit: int) -> Iterator[Finding]:
    """Yield what a broker removes at its next start, and no other file has.

    Nothing where a broker runs: what waits there was renamed a moment ago, and on purpose.

    Args:
        directory: of a partition.
        limit: a batch over this is not held in memory.

    Reports: F16, one for a directory that is to be removed, or for each log with `.deleted`; its `count` are the
        intact records.
    """
    if directory.log_dir.is_held or directory.listing.failure is not None:
        return
    whole = [directory.path_of(base, FileKind.LOG) for base in directory.log_bases] if directory.is_leftover else []
    files = list(map(directory.listing.join, _not_replaced(directory)))
    found = [
        (path, _intact(directory, whole if path == directory.path else [path], limit))
        for path in (directory.path, *files)
    ]
    alone = [(path, one) for path, one in found if one is not None and not _is_elsewhere(directory, one, limit)]
    files = [path for path, _ in alone if path != directory.path]
    if len(files) > _MOST_NAMED:
        files = [directory.listing.join(f"*{_LOG}{_DELETED}")]
    read = [directory.path or "."] if directory.log_bases else []
    start = 0 if directory.is_leftover else directory.log_start
    below = ("--below-log-start",) if any(one.first < start for _, one in alone) else ()
    rescue = command_line("salvage", *map(named, [*read, *files]), "--to", "DIR", *below)
    for path, one in alone:
        yield _finding(path, one, rescue, is_directory=path == directory.path)


def _finding(path: str, records: _Records, rescue: ShellCommand, *, is_directory: bool) -> Finding:
    what = "this directory a minute after its start (file.delete.delay.ms)"
    if not is_directory:
        what = "this file when it loads the partition"
    values: dict[str, int | str | None] = {"what": what, "rescue": str(rescue)}
    return Finding(Code.F16, path, offset=records.first, last_offset=records.last, count=records.records, values=values)


def _deleted_logs(directory: PartitionDir) -> Iterator[str]:
    """The names of the logs that were renamed to `.deleted`, by base offset."""
    for name in sorted(directory.listing.names):
        if name.endswith(f"{_LOG}{_DELETED}") and directory.listing.is_regular(name):
            yield name


def _not_replaced(directory: PartitionDir) -> Iterator[str]:
    """Of these names those of logs whose place no other log has taken.

    A compaction replaces some logs, in a row, by one with the base offset of the first; a split by several.
    """
    bases, replaced_from = set(directory.log_bases), -1
    waiting: dict[int, str] = {}
    for name in _deleted_logs(directory):
        base = parse_name(name.removesuffix(_DELETED)).base_offset
        if base is not None:
            waiting[base] = name
    for base in sorted(bases | waiting.keys()):
        if base in bases:
            replaced_from = base if base in waiting else -1
        elif replaced_from < 0:
            yield waiting[base]


def _intact(directory: PartitionDir, logs: Iterable[str], limit: int) -> _Records | None:
    """The records of some logs whose CRC is true; None for none. What cannot be read has none."""
    first, last, count, is_counted = -1, -1, 0, True
    for path in logs:
        opened = directory.cache.open(path, follow=False)
        if isinstance(opened, OpenFailure):
            continue
        base = parse_name(base_name(path).removesuffix(_DELETED)).base_offset
        segment = layout.UNKNOWN if base is None else base
        walk = CheckedWalk(opened, lambda _: None, segment=segment, next_base=None, max_batch_bytes=limit)
        try:
            for window in walk.windows():
                rows = (layout.LAST_OFFSET, layout.COUNT, layout.CRC, layout.COMPUTED_CRC, layout.BASE_OFFSET)
                for its_last, its_count, stored, computed, its_base in zip(*map(window.column, rows), strict=True):
                    if stored != computed or its_last < 0:
                        continue
                    begin = its_base if its_base >= 0 else its_last
                    first, last = begin if first < 0 else min(first, begin), max(last, its_last)
                    count, is_counted = count + its_count, is_counted and its_count >= 0
        except OSError:  # it has vanished meanwhile, or the disk fails: its check says so
            continue
        finally:
            opened.close()
    return None if last < 0 else _Records(first, last, count if is_counted else None)


def _is_elsewhere(directory: PartitionDir, records: _Records, limit: int) -> bool:
    """Whether a partition in use has all these offsets: a broker has moved it to another log directory, say."""
    for log_dir in (directory.log_dir, *directory.log_dir.siblings):
        for path in log_dir.listing.partitions():
            found = parse_partition(base_name(path))
            if found is None or found.state or (found.topic, found.partition) != directory.key:
                continue
            other = PartitionDir(path, LogDir(log_dir.path))
            try:
                if path != directory.path and _has(other, directory.topic_id, records, limit):
                    return True
            finally:
                other.close()
    return False


def _has(other: PartitionDir, topic_id: str | None, records: _Records, limit: int) -> bool:
    if None not in (topic_id, other.topic_id) and topic_id != other.topic_id:
        return False
    if not other.log_bases or other.log_bases[0] > records.first:
        return False
    return last_epoch_and_end(other, limit)[1] > records.last
