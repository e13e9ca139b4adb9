"""Intact batches that stay out though nothing of another branch is there: which of them a row has to tell of.

These are batches that verify has something against, those of logs that are another partition's, and those that reach
into the next log of their copy. Where the line has a hole for their offsets, the row of that loss names them. Where the
line has other batches there, or their copy has parted from the line before, they are told as those of another branch.
Where the line has the same bytes, from another copy, nothing is missing; the bytes of another batch of their own copy
do not count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from kdump.finding import Trait
from kdump.format.batch import layout
from kdump.format.batch.header_judge import OFFSET_BITS, one_bit_from
from kdump.format.checksum import crc32, crc32c
from kdump.rescue.compacted import has_all_of
from kdump.rescue.line import Divergent
from kdump.rescue.valid_runs import batches_of, first_offset
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source
    from kdump.rescue.line import Line
    from kdump.rescue.losses import LineLosses
    from kdump.rescue.scanned_log import BadBytes, ReadLog


class _Out(TupleValue):
    """A batch that stays out."""

    copy: int
    # first, last: offsets; None where no header can be right
    first: int | None
    last: int | None
    is_exact: bool  # they are its own
    epoch: int  # -1 for none
    records: int
    # crc, size: what its bytes are known by
    crc: int
    size: int
    behind: int  # an offset where it stands, where it has none itself
    # source, position: where it can be read
    source: Source
    position: int
    is_in_place: bool = False  # its copy has it among its batches
    is_moved: bool = False  # its base offset is wrong
    beside: tuple[int, ...] = ()  # the first offsets with which it would adjoin what lies beside it

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield first and last offset as they are; where its base offset is wrong those beside it and one bit away."""
        if self.first is None or self.last is None:
            return
        yield self.first, self.last
        yield from ((first, self.last + first - self.first) for first in self.beside)
        stored = self.last if self.epoch < 0 else self.first  # magic 0 and 1 have no epoch
        for other in one_bit_from(stored, OFFSET_BITS) if self.is_moved else ():
            yield self.first + other - stored, self.last + other - stored


class _InLine(TupleValue):
    """A batch of the line."""

    # first, last: offsets
    first: int
    last: int
    # source, position: where it can be read
    source: Source
    position: int
    epoch: int
    crc: int


def unplaced(
    read: Sequence[ReadLog],
    foreign: Sequence[ReadLog],
    line: Line,
    missing: LineLosses,
    span: tuple[int, int],
    limits: ReadLimits,
) -> Iterator[Divergent]:
    """Yield the batches with a true CRC that are neither in the line nor in a row of a loss, neighbours together.

    Args:
        read: the logs, by their numbers.
        foreign: those of other partitions.
        line: of the logs.
        missing: says why offsets are not there.
        span: the offsets that have rows, half-open.
        limits: for reading: a batch over them is not held in memory.
    """
    if not foreign and not line.beyond and not any(one.facts.places for one in read):
        return
    told, max_batch_bytes = _Told(line, missing, span), limits.max_batch_bytes
    out = [
        *(one for log in (*read, *foreign) for one in _damaged(log, told, max_batch_bytes)),
        *(one for log in foreign for one in _foreign(log, told, max_batch_bytes)),
        *(
            one
            for beyond in line.beyond
            for one in _of_run(read[beyond.log], beyond.start, beyond.end, max_batch_bytes)
        ),
    ]
    crcs = {one.crc for one in out}
    there = _of_line(line, read, crcs, max_batch_bytes) if out else {}
    own = _of_copies(read, crcs, max_batch_bytes) if out else Counter()
    own.subtract((one.copy, one.crc, one.size) for one in out if one.is_in_place)
    left = [one for one in out if not _is_there(one, there, own)]
    wanted = sorted({first for one in left for first, _ in one.places()})
    larger = _at(line, read, wanted, max_batch_bytes)
    yield from _joined(one for one in left if not _has_larger(one, larger, limits))


def _is_there(one: _Out, there: dict[tuple[int, int], list[int]], own: Counter[tuple[int, int, int]]) -> bool:
    """Whether the line has the bytes of a batch: of equal ones so many as its copy has in place, this is one more."""
    offsets, its = there.get((one.crc, one.size), []), (one.copy, one.crc, one.size)
    found = len(offsets) > own[its] and (one.first in offsets or not one.is_exact)
    own[its] += found
    return found


def _has_larger(one: _Out, larger: Sequence[_InLine], limits: ReadLimits) -> bool:
    """Whether the line has all the records of a batch in one of its place and epoch: a cleaner has been there.

    That keeps the offsets of a batch, but for a compressed message of magic 0 or 1, which has those of what is left.
    """
    for first, last in one.places():
        k = bisect_right(larger, first, key=lambda its: its.first) - 1
        if k < 0 or larger[k].epoch != one.epoch or larger[k].crc == one.crc:
            continue
        its = larger[k]
        is_there = (first, last) == (its.first, its.last) if its.epoch >= 0 else last <= its.last
        by = first - (one.first or 0)
        if is_there and has_all_of((its.source, its.position), (one.source, one.position), limits, by):
            return True
    return False


def _joined(out: Iterable[_Out]) -> Iterator[Divergent]:
    """Batches as rows: those of one copy and epoch whose offsets go on are one."""
    row: Divergent | None = None
    for one in out:
        first, last = (one.behind, one.behind) if one.first is None or one.last is None else (one.first, one.last)
        if row is not None and (row.copy, row.last + 1, row.epoch) == (one.copy, first, one.epoch):
            row = row._replace(last=last, records=row.records + one.records)
            continue
        if row is not None:
            yield row
        row = Divergent(one.copy, first, last, one.epoch, one.records)
    if row is not None:
        yield row


class _Told:
    """The rows of losses: which places of logs they name."""

    def __init__(self, line: Line, missing: LineLosses, span: tuple[int, int]) -> None:
        self._line, self._missing, self._span = line, missing, span
        self._places: set[tuple[str, int | None]] | None = None

    def has(self, path: str, position: int) -> bool:
        """Tell whether a row names a place."""
        if self._places is None:
            losses = (
                loss for first, last in _holes(self._line, *self._span) for loss in self._missing.losses(first, last)
            )
            self._places = {(loss.file, loss.position) for loss in losses if loss.file is not None}
        return (path, position) in self._places


def _damaged(one: ReadLog, told: _Told, max_batch_bytes: int) -> Iterator[_Out]:
    """The batches of a log that verify has something against, and that no row of a loss names."""
    for place in one.facts.places:
        if not _may_be_intact(place, max_batch_bytes) or told.has(one.log.path, place.position):
            continue
        header = _header(one.source, place)
        if header is not None:
            behind = max([end for _, end in one.facts.spans], default=one.log.base or 0)
            offsets, records = (place.offset, place.last_offset), place.records or 0
            known = header[1], records, header[0], place.length, behind
            is_moved = Trait.MISPLACED.is_among(place.codes)
            beside = tuple(_beside(one, place)) if is_moved else ()
            yield _Out(
                one.copy, *offsets, place.is_exact, *known, one.source, place.position, is_moved=is_moved, beside=beside
            )


def _beside(one: ReadLog, place: BadBytes) -> Iterator[int]:
    """The base offsets with which a batch would begin its log, or adjoin the batch before it or the one behind."""
    if not place.position and one.log.base is not None:
        yield one.log.base
    runs, end = one.facts.runs, place.position + place.length
    yield from (last + 1 for last, stop in zip(runs.lasts, runs.ends, strict=True) if stop == place.position)
    if place.offset is not None and place.last_offset is not None:
        span = place.last_offset - place.offset
        yield from (
            first - span - 1
            for first, start in zip(runs.firsts, runs.starts, strict=True)
            if first > span and start == end
        )


def _foreign(one: ReadLog, told: _Told, max_batch_bytes: int) -> Iterator[_Out]:
    """The batches of a log that is another partition's, where no row of a loss names it."""
    if not told.has(one.log.path, 0):
        for run in one.facts.runs:
            yield from (
                out._replace(is_exact=True, is_in_place=False)
                for out in _of_run(one, run.start, run.end, max_batch_bytes)
            )


def _of_run(one: ReadLog, start: int, end: int, max_batch_bytes: int) -> Iterator[_Out]:
    """The batches of a range of bytes, whose offsets are wrong."""
    wrappers = one.facts.wrappers
    for window in batches_of(one.source, start, end, max_batch_bytes):
        for k in range(window.count):
            first, last = first_offset(window, k, wrappers), window.cell(k, layout.LAST_OFFSET)
            records = wrappers.count(window.cell(k, layout.COUNT), window.cell(k, layout.POSITION))
            epoch, crc, size = (window.cell(k, field) for field in (layout.LEADER_EPOCH, layout.CRC, layout.SIZE))
            known = epoch, records, crc, size, first, one.source, window.cell(k, layout.POSITION)
            yield _Out(one.copy, first, last, False, *known, is_in_place=True, is_moved=True)


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


def _at(line: Line, read: Sequence[ReadLog], wanted: Sequence[int], max_batch_bytes: int) -> list[_InLine]:
    """The batches of the line that have one of some offsets, which ascend; these ascend too."""
    found: list[_InLine] = []
    for run in line.runs if wanted else ():
        at = bisect_left(wanted, run.first)
        if at == len(wanted) or wanted[at] > run.last:
            continue
        one = read[run.log]
        for window in batches_of(one.source, run.start, run.end, max_batch_bytes):
            for k in range(window.count):
                first, last = first_offset(window, k, one.facts.wrappers), window.cell(k, layout.LAST_OFFSET)
                at = bisect_left(wanted, first)
                if at < len(wanted) and wanted[at] <= last:
                    fields = (layout.POSITION, layout.LEADER_EPOCH, layout.CRC)
                    position, epoch, crc = (window.cell(k, field) for field in fields)
                    found.append(_InLine(first, last, one.source, position, epoch, crc))
    return sorted(found, key=lambda its: (its.first, its.last))


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
