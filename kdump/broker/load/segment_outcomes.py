"""What became of each segment of a partition, and what was lost with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.load.disk import FilePart
from kdump.broker.load.outcome import Action, SegmentOutcome
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.record.reader import RecordReader
from kdump.storage.names import log_bases

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.broker.load.disk import Disk
    from kdump.broker.load.swap_recovery import Swapped
    from kdump.format.batch.window import Window
    from kdump.format.source import Source

    Counter = Callable[[Source, int], int]

_BATCH_BYTES = 64 * 1024 * 1024
_RECORD_BYTES = 256 * 1024 * 1024


def fates(disk: Disk, was_split: set[int], swapped: Swapped) -> list[SegmentOutcome]:
    """Return what became of each segment, by base offset.

    Args:
        disk: the files before and afterwards.
        was_split: base offsets of the segments that were split.
        swapped: what compaction had left to be put in place.
    """
    before, after = set(log_bases(disk.before)), set(log_bases(disk.names()))
    found = []
    for base in sorted(before | after):
        name = f"{base:020}.log"
        old = disk.before[name].size if base in before else 0
        action = _action(disk, base, before, after)
        is_elsewhere = base in was_split | swapped.new | swapped.covered
        if is_elsewhere and base in before & after:
            action = Action.SPLIT if base in was_split else Action.REPLACE
        found.append(SegmentOutcome(base, action, disk.size(name), old, is_elsewhere))
    return found


def _action(disk: Disk, base: int, before: set[int], after: set[int]) -> Action:
    if base not in before:
        return Action.CREATE
    if base not in after:
        return Action.DELETE
    name = f"{base:020}.log"
    size, old = disk.size(name), disk.before[name].size
    if size < old:
        return Action.TRUNCATE if size else Action.EMPTY
    indexes = (f"{base:020}{suffix}" for suffix in (".index", ".timeindex", ".txnindex"))
    return Action.REBUILD_INDEX if any(map(disk.is_changed, indexes)) else Action.KEEP


def losses(disk: Disk, segments: list[SegmentOutcome], count: Counter) -> tuple[int, int]:
    """Return the bytes and the records that were cut off or deleted.

    Args:
        disk: the files before and afterwards.
        segments: what became of them.
        count: counts the records of a log from a position on.
    """
    lost = [one for one in segments if one.bytes_lost]
    records = sum(count(disk.before[f"{one.base_offset:020}.log"], one.size) for one in lost)
    return sum(one.bytes_lost for one in lost), records


def count_records(log: Source, start: int) -> int:
    """Count the records of a log from a position on, in batches whose CRC is right.

    Args:
        log: the log.
        start: file position of a batch, bytes.
    """
    walk = CheckedWalk(FilePart(log, start, log.size), lambda _finding: None, max_batch_bytes=_BATCH_BYTES)
    reader = RecordReader(_RECORD_BYTES, max_batch=_BATCH_BYTES)
    return sum(_records(window, reader) for window in walk.windows())


def _records(window: Window, reader: RecordReader) -> int:
    stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
    columns = window.column(layout.MAGIC), window.column(layout.COUNT), window.column(layout.ATTRIBUTES)
    found = 0
    for k, (magic, count, attributes) in enumerate(zip(*columns, strict=True)):
        if stored[k] != computed[k]:
            continue
        if magic >= layout.MAGIC_V2:
            found += max(0, count)
        elif attributes & layout.CODEC_MASK:
            found += sum(chunk.filled for chunk in reader.chunks(window.only(k)))
        else:
            found += 1
    return found
