"""Intact batches that verify has something against: what becomes of those that no row of a loss tells of.

Such a batch stays out. Where the line has a hole for its offsets, the row of that loss names it. Where the line has
other batches there, or its copy has parted from the line before, it is told as one of another branch. Where the line
has the same bytes, from another copy, nothing is missing; the bytes of another batch of its own copy do not count.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.finding import Trait
from kdump.format.batch import layout
from kdump.format.checksum import crc32, crc32c
from kdump.rescue.line import Divergent
from kdump.rescue.valid_runs import batches_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.source import Source
    from kdump.rescue.line import Line
    from kdump.rescue.losses import LineLosses
    from kdump.rescue.scanned_log import BadBytes, ReadLog


def unplaced(
    read: Sequence[ReadLog], line: Line, missing: LineLosses, start: int, end: int, max_batch_bytes: int
) -> Iterator[Divergent]:
    """Yield the batches with a true CRC that are neither in the line nor in a row of a loss.

    Args:
        read: the logs, by their numbers.
        line: of them.
        missing: says why offsets are not there.
        start, end: the offsets that have rows, half-open.
        max_batch_bytes: a batch over this is not held in memory.
    """
    out = [(one, place) for one in read for place in one.facts.places if _may_be_intact(place, max_batch_bytes)]
    if not out:
        return
    told = {
        (loss.file, loss.position)
        for first, last in _holes(line, start, end)
        for loss in missing.losses(first, last)
        if loss.file is not None
    }
    known = [
        (one, place, *header)
        for one, place in out
        if (one.log.path, place.position) not in told and (header := _header(one.source, place)) is not None
    ]
    crcs = {crc for _, _, crc, _ in known}
    there = _of_line(line, read, crcs, max_batch_bytes) if known else {}
    own = _of_copies(read, crcs, max_batch_bytes) if known else {}
    for one, place, crc, epoch in known:
        first, last = place.offset, place.last_offset
        offsets = there.get((crc, place.length), [])
        its = one.copy, crc, place.length
        # of equal batches the line has so many as the copy has in place: this is one more
        is_there = len(offsets) > own[its] and (first in offsets or not place.is_exact)
        own[its] += is_there
        if is_there:
            continue
        if first is None or last is None:  # no offset that can be: it is told where it stands
            first = last = max([end for _, end in one.facts.spans], default=one.log.base or 0)
        yield Divergent(one.copy, first, last, epoch, place.records or 0)


def _may_be_intact(place: BadBytes, max_batch_bytes: int) -> bool:
    return place.is_whole and place.length <= max_batch_bytes and not Trait.BAD_CRC.is_among(place.codes)


def _header(source: Source, place: BadBytes) -> tuple[int, int] | None:
    """The CRC of a batch, and its leader epoch, -1 for none; None where the CRC is not right."""
    data = source.read_at(place.position, place.length)
    if len(data) <= layout.LEGACY_ATTRIBUTES_AT:
        return None
    if data[layout.MAGIC_AT] < layout.MAGIC_V2:
        crc = int.from_bytes(data[layout.LEGACY_CRC_AT : layout.LEGACY_CRC_AT + 4], "big")
        return (crc, -1) if crc32(data[layout.MAGIC_AT :]) == crc else None
    crc = int.from_bytes(data[layout.CRC_AT : layout.CRC_AT + 4], "big")
    epoch = int.from_bytes(data[layout.LEADER_EPOCH_AT : layout.LEADER_EPOCH_AT + 4], "big", signed=True)
    return (crc, epoch) if crc32c(data[layout.ATTRIBUTES_AT :]) == crc else None


def _holes(line: Line, start: int, end: int) -> Iterator[tuple[int, int]]:
    """First and last offset of each range that the line does not have."""
    at = start
    for run in line.runs:
        if run.first > at:
            yield at, run.first - 1
        at = max(at, run.last + 1)
    if at < end:
        yield at, end - 1


def _of_line(
    line: Line, read: Sequence[ReadLog], crcs: set[int], max_batch_bytes: int
) -> dict[tuple[int, int], list[int]]:
    """The base offsets of the batches of the line that have one of some CRCs, by CRC and size."""
    found: dict[tuple[int, int], list[int]] = {}
    for run in line.runs:
        for crc, size, offset in _with_crc(read[run.log], run.start, run.end, crcs, max_batch_bytes):
            found.setdefault((crc, size), []).append(offset)
    return found


def _of_copies(read: Sequence[ReadLog], crcs: set[int], max_batch_bytes: int) -> Counter[tuple[int, int, int]]:
    """How many batches with one of some CRCs each copy has in their places: by copy, CRC and size."""
    found: Counter[tuple[int, int, int]] = Counter()
    for one in read:
        for run in one.facts.runs:
            for crc, size, _ in _with_crc(one, run.start, run.end, crcs, max_batch_bytes):
                found[one.copy, crc, size] += 1
    return found


def _with_crc(
    one: ReadLog, position: int, end: int, crcs: set[int], max_batch_bytes: int
) -> Iterator[tuple[int, int, int]]:
    """The batches of a range of a log that have one of some CRCs: CRC, size and base offset."""
    for window in batches_of(one.source, position, end, max_batch_bytes):
        column = window.column(layout.CRC)
        for k in () if crcs.isdisjoint(column) else range(window.count):
            if column[k] in crcs:
                yield column[k], window.cell(k, layout.SIZE), window.cell(k, layout.BASE_OFFSET)
