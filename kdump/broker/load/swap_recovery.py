"""The first step of a load: complete or discard the .cleaned and .swap files of compaction or of a split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.load.disk import Disk
from kdump.broker.load.segments import LoadedSegments
from kdump.broker.producer.producer_state_manager import offset_of
from kdump.format.index.offset_and_time import OffsetIndex
from kdump.format.java_values import ABOVE_ALL
from kdump.format.source import BytesSource
from kdump.storage.names import java_name
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.broker.load.facts import PartitionFacts

_DELETED, _CLEANED, _SWAP = ".deleted", ".cleaned", ".swap"
_KRAFT_DELETED = ".checkpoint.deleted"


class Swapped(Value):
    """The segments that took the place of others."""

    new: set[int]  # base offsets of the segments that came
    covered: set[int]  # of those that went


NOTHING = Swapped(set(), set())


def finish(disk: Disk, facts: PartitionFacts) -> Swapped:
    """Remove temporary files, and put finished ones into their place.

    Args:
        disk: the files; changed.
        facts: of the partition.

    Raises:
        BrokerError: a name tells no offset, or a log that is to be swapped in cannot be read.

    Source: LogLoader.load, removeTempFilesAndCollectSwapFiles.
    """
    for name in disk.names():
        if name.endswith(_DELETED) and not name.endswith(_KRAFT_DELETED):
            disk.delete(name)
    cleaned = [name for name in disk.names() if name.endswith(_CLEANED)]
    unfinished = min((offset_of(name) for name in cleaned), default=ABOVE_ALL)
    for name in [name for name in disk.names() if name.endswith(_SWAP)]:
        if offset_of(name) >= unfinished:
            disk.delete(name)
    for name in cleaned:
        disk.delete(name)
    return _swap(disk, facts)


def _swap(disk: Disk, facts: PartitionFacts) -> Swapped:
    new = {offset_of(name) for name in disk.names() if name.endswith(f".log{_SWAP}")}
    covered: set[int] = set()
    if new:
        end = max(_next_offset(disk, facts, base) for base in sorted(new))
        for name in disk.names():
            offset = None if name.endswith(_SWAP) else java_name(name).base_offset
            if offset is not None and min(new) <= offset < end:
                disk.delete(name)
                covered.add(offset)
    for name in [name for name in disk.names() if name.endswith(_SWAP)]:
        disk.rename(name, name.removesuffix(_SWAP))
    return Swapped(new, covered)


def _next_offset(disk: Disk, facts: PartitionFacts, base: int) -> int:
    """Read the end of a log that is to be swapped in; a broker makes the index that it lacks, full of zeros."""
    stem = f"{base:020}"
    log, index = disk.get(f"{stem}.log{_SWAP}"), disk.get(f"{stem}.index{_SWAP}")
    if index is None:
        entry = OffsetIndex.entry_size
        disk.write(f"{stem}.index{_SWAP}", bytes(facts.max_index_bytes // entry * entry))
    files = {f"{stem}.log": log or BytesSource(b""), f"{stem}.index": index or BytesSource(b"")}
    alone = LoadedSegments(Disk(files, wants_contents=True), facts)
    alone.add(base)
    return alone.next_offset(0)
