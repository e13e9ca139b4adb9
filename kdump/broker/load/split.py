"""LocalLog.splitOverflowedSegment: several segments from one whose offsets do not fit its indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.failure import CORRUPT, BrokerError
from kdump.broker.load.disk import FilePart
from kdump.broker.load.recover import recover
from kdump.broker.producer.replay import Producers
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex, has_room
from kdump.format.java_values import ARGUMENT
from kdump.format.source import BytesSource

if TYPE_CHECKING:
    from kdump.broker.load.disk import Disk
    from kdump.broker.load.facts import PartitionFacts
    from kdump.broker.load.segments import LoadedSegments
    from kdump.format.source import Source

_STAGE = "split"
_STATE = "java.lang.IllegalStateException"


def split(
    disk: Disk, segments: LoadedSegments, base: int, facts: PartitionFacts, *, keeps_old: bool = True
) -> list[int]:
    """Make several segments of one.

    Args:
        disk: the files; changed.
        segments: those that are open, this one among them.
        base: of the segment.
        facts: of the partition.
        keeps_old: its files are put aside for deletion; a segment that was just being opened is only replaced.

    Returns:
        the base offsets of the new ones.

    Raises:
        BrokerError: a broker throws, as where the last offset of the segment is not too far.

    Source: LocalLog.splitOverflowedSegment, LogSegment.hasOverflow, appendFromFile.
    """
    end = segments.next_offset(segments.bases.index(base))
    if end <= base or has_room(base, end - 1):
        path = f"{facts.path}/{base:020}.log"
        what = f"Split operation is only permitted for segments with overflow, and the problem path is {path}"
        raise BrokerError(0, _STAGE, f"{ARGUMENT}: {what}")
    stem = f"{base:020}"
    log = disk.get(f"{stem}.log") or BytesSource(b"")
    pieces = _pieces(log, segments, base, facts)
    for suffix in (".log", ".index", ".timeindex", ".txnindex") if keeps_old else ():
        disk.rename(f"{stem}{suffix}", f"{stem}{suffix}.deleted")
    for new, start, stop in pieces:
        piece = FilePart(log, start, stop)
        built = recover(piece, new, facts.interval, Producers.empty(), max_index_bytes=facts.max_index_bytes)
        if built.failure is not None and built.failure.escapes:
            raise BrokerError(0, _STAGE, built.failure.exception)
        disk.put(f"{new:020}.log", piece)
        disk.write(f"{new:020}.index", built.index())
        disk.write(f"{new:020}.timeindex", built.timeindex())
    if not keeps_old and base not in (new for new, _, _ in pieces):
        _fill_up(disk, stem, facts.max_index_bytes)
    return [new for new, _, _ in pieces]


def _fill_up(disk: Disk, stem: str, max_bytes: int) -> None:
    """Leave the indexes of a segment as a recovery left them that has ended half-way: with room for more."""
    for suffix, entry in ((".index", OffsetIndex.entry_size), (".timeindex", TimeIndex.entry_size)):
        source = disk.get(f"{stem}{suffix}")
        data = b"" if source is None else source.read_at(0, source.size)
        disk.write(f"{stem}{suffix}", data.ljust(max_bytes // entry * entry, b"\0"))


def _pieces(log: Source, segments: LoadedSegments, base: int, facts: PartitionFacts) -> list[tuple[int, int, int]]:
    """Return base offset, start and end (bytes) of each new segment: as many batches as its offsets fit."""
    pieces: list[tuple[int, int, int]] = []
    walk = KafkaWalk(log, log.name, 0, log.size, facts.max_batch_bytes)
    for window in walk.windows():
        magics = window.column(layout.MAGIC)
        for k, last in enumerate(window.column(layout.LAST_OFFSET)):
            if not 0 <= magics[k] <= layout.MAGIC_V2:  # it is appended, so it is looked at
                raise BrokerError(0, _STAGE, f"{CORRUPT}: Invalid magic found in record: {magics[k]}")
            start, stop = window.cell(k, layout.POSITION), window.end(k + 1)
            if pieces and has_room(pieces[-1][0], last):
                pieces[-1] = (*pieces[-1][:2], stop)
                continue
            first = segments.first_offset(base, window, k)
            if not has_room(first, last):
                where = f"from position {start} in LogSegment(baseOffset={log.name})"
                raise BrokerError(0, _STAGE, f"{_STATE}: Failed to append records {where}")
            pieces.append((first, start, stop))
    if walk.failure is not None:
        raise BrokerError(0, _STAGE, walk.failure)
    if walk.position < log.size:  # too few bytes for a batch
        raise BrokerError(0, _STAGE, "java.util.NoSuchElementException")
    return pieces
