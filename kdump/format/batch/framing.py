"""Decide where the chain of lengths breaks: is it a batch with a wrong length, or a gap?

Strategy: the length of a batch is confirmed when a batch begins where it says, or the log ends there. Where it is not,
the search of `Resync` tells either the true end (the CRC of the batch is right up to there, so only its length is
wrong) or the next batch after what is lost. A magic is a byte outside the CRC too (legacy: inside): it is tried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.base_offset.header import offsets_at
from kdump.format.batch.gap import Gap
from kdump.format.batch.window import WINDOW_SIZE, crc_of_range
from kdump.format.checksum import crc32
from kdump.format.kernels import wire
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.finding import Report
    from kdump.format.batch.resync import Resync
    from kdump.format.batch.window import Window
    from kdump.format.source import Source


class FrameVerdict(Value):
    """The verdict about the bytes up to `end`."""

    end: int  # file position, exclusive
    magic: int | None  # of the batch that they are; None for a gap


class Judge:
    """Decides and reports.

    Args:
        source: the log.
        report: takes each finding.
        resync: searches the log.
        segment: base offset of the file, layout.UNKNOWN when it has none.
        next_base: base offset of the next segment; None where there is none, or nobody knows.

    Reports: F06, F10, L01-L09, L12, B01-B04.
    """

    def __init__(
        self, source: Source, report: Report, resync: Resync, segment: int, next_base: int | None = None
    ) -> None:
        self._source = source
        self._report = report
        self._resync = resync
        self._segment, self._next_base = segment, next_base
        self._distrusted = layout.UNKNOWN, layout.UNKNOWN  # where the last batch with a wrong CRC ends, its last offset

    def wrong_crc(self, window: Window, k: int) -> None:
        """Report the batch in row k, whose length is right and whose CRC is not."""
        legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2
        self._distrusted = window.end(k + 1), window.cell(k, layout.LAST_OFFSET)
        if self._source.unreadable(window.cell(k, layout.POSITION), window.end(k + 1)):
            self._unreadable(window, k, _records_of(window, k))
            return
        stored, computed = window.cell(k, layout.CRC), window.cell(k, layout.COMPUTED_CRC)
        code = Code.B02 if legacy else Code.B01
        finding = self._of_batch(code, window, k, field="crc", found=stored, expected=computed)
        values: dict[str, int | str | None] = {
            "why": f"stored {stored:#010x}, computed {computed:#010x}",
        }
        following = _offset_behind(window, k, self._segment)
        if following is not None:
            values["once"] = f"at offset {following}"
        self._report(finding.replace(count=_records_of(window, k), values=values))

    def _unreadable(self, window: Window, k: int, count: int | None) -> None:
        """Report what the disk could not read of a batch: nobody knows whether its CRC is right."""
        start, end = window.cell(k, layout.POSITION), window.end(k + 1)
        first, last, is_after = offsets_at(window, k)
        for number, (begin, stop, why) in enumerate(self._source.unreadable(start, end)):
            finding = Finding(Code.F06, self._source.name, begin, stop - begin, values={"why": why})
            if not number:  # what is lost is told once
                values: dict[str, int | str | None] = {"why": why, "batchStart": start, "batchEnd": end}
                finding = finding.replace(offset=first, last_offset=last, count=count, by_neighbours=is_after)
                finding = finding.replace(values=values)
            self._report(finding)

    def unknown_magic(self, window: Window, k: int) -> None:
        """Report a magic of 3 to 127 under which the CRC of magic 2 is right, and put the row right."""
        magic = window.cell(k, layout.MAGIC)
        self._report(self._of_batch(Code.B03, window, k, field="magic", found=magic, expected=layout.MAGIC_V2))
        window.rows[k * layout.BATCH_WIDTH + layout.MAGIC] = layout.MAGIC_V2

    def batch(self, window: Window, floor: int, last: int) -> FrameVerdict:
        """Decide about the first batch of a window, whose CRC is wrong and whose length nothing confirms.

        Args:
            window: its header is there, its bytes need not be.
            floor: the last offset that is known to be right.
            last: of the last batch before it whose CRC is right.
        """
        position, end, magic = window.cell(0, layout.POSITION), window.end(1), window.cell(0, layout.MAGIC)
        if magic < layout.MAGIC_V2 and self._is_v2(position, end):
            finding = self._of_batch(Code.B04, window, 0, field="magic", found=magic, expected=layout.MAGIC_V2)
            ends = offsets_of(self._source.read_at(position, layout.RECORDS_AT), layout.MAGIC_V2)
            finding = finding.replace(offset=ends[0], last_offset=ends[1], by_neighbours=False)
            self._report(finding)  # its offsets were read as those of another magic
            return FrameVerdict(end, layout.MAGIC_V2)
        if self._resync.nothing_between(position, end) and self._begins(end, floor):
            self.wrong_crc(window, 0)
            return FrameVerdict(end, magic)
        legacy = self._legacy_magic(position, end)
        if legacy is not None:
            finding = self._of_batch(Code.B02, window, 0, field="magic", found=magic, expected=legacy)
            why = f"it is right for magic {legacy}, and the message says {magic}"
            ends = offsets_of(self._source.read_at(position, layout.RECORDS_AT), legacy)
            finding = finding.replace(offset=ends[0], last_offset=ends[1], by_neighbours=False)
            self._report(finding.replace(values={"why": why}))
            return FrameVerdict(end, legacy)
        boundary = self._resync.after(position, floor)
        if boundary.magic is not None and boundary.position != end:
            return self._right_length(position, boundary.position, boundary.magic)
        swallows = boundary.position < end and not boundary.spent
        if not swallows and (end in (self._source.size, boundary.position) or self._begins(end, floor)):
            self.wrong_crc(window, 0)
            return FrameVerdict(end, magic)
        return self._gap(position, boundary.position, layout.FULL, floor, last, spent=boundary.spent)

    def no_batch(self, position: int, status: int, floor: int, last: int) -> FrameVerdict:
        """Decide about bytes that the scan does not take for a batch: a length without sense, or the end.

        Args:
            position: where they begin.
            status: why the scan stopped there (layout.END ...).
            floor: the last offset that is known to be right.
            last: of the last batch before them whose CRC is right.
        """
        boundary = self._resync.after(position, floor)
        if boundary.magic is not None:
            return self._right_length(position, boundary.position, boundary.magic)
        return self._gap(position, boundary.position, status, floor, last, spent=boundary.spent)

    def _of_batch(self, code: Code, window: Window, k: int, *, field: str, found: int, expected: int | None) -> Finding:
        place = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
        first, last, is_after = offsets_at(window, k)
        about = {"field": field, "found": found, "expected": expected}
        finding = Finding(code, self._source.name, *place, offset=first, last_offset=last, **about)  # type: ignore[arg-type]
        return finding.replace(by_neighbours=is_after)

    def _begins(self, position: int, floor: int) -> bool:
        """Whether the next batch seems to begin at a position: its header makes sense or its CRC is right."""
        header = self._source.read_at(position, layout.RECORDS_AT).ljust(layout.RECORDS_AT, b"\0")
        makes_sense = _scan.plausible(header, 0, position, self._source.size, floor)
        return makes_sense or self._resync.is_batch(position)

    def _is_v2(self, position: int, end: int) -> bool:
        if end - position < layout.RECORDS_AT:
            return False
        stored = wire.u32(self._source.read_at(position + layout.CRC_AT, 4), 0)
        return stored == crc_of_range(self._source, position + layout.ATTRIBUTES_AT, end, layout.MAGIC_V2)

    def _legacy_magic(self, position: int, end: int) -> int | None:
        """The magic 0 or 1 under which the CRC of a message is right, though it is not the one that it carries."""
        if end - position > WINDOW_SIZE:
            return None
        data = self._source.read_at(position, end - position)
        stored = wire.u32(data, layout.LEGACY_CRC_AT)
        body = data[layout.MAGIC_AT + 1 :]
        return next((magic for magic in (0, 1) if crc32(bytes([magic]) + body) == stored), None)

    def _right_length(self, position: int, end: int, magic: int) -> FrameVerdict:
        """A batch whose CRC tells that it ends at `end`, whatever its length field says."""
        header = self._source.read_at(position, layout.RECORDS_AT)
        self._report(length_finding(self._source, header, position, end))
        stored = int.from_bytes(header[layout.MAGIC_AT : layout.MAGIC_AT + 1], "big", signed=True)
        if magic == layout.MAGIC_V2 != stored:
            code = Code.B03 if stored > magic else Code.B04
            file, length = self._source.name, end - position
            first, last = offsets_of(header, magic)
            found = Finding(code, file, position, length, field="magic", found=stored, expected=magic)
            self._report(found.replace(offset=first, last_offset=last))
        return FrameVerdict(end, magic)

    def _gap(self, position: int, end: int, status: int, floor: int, last: int, *, spent: bool) -> FrameVerdict:
        at, distrusted = self._distrusted
        after = max(floor, last, distrusted if at == position else layout.UNKNOWN)
        gap = Gap(self._source, position, end, status=status, floor=floor, after=after, next_base=self._next_base)
        for finding in gap.findings(spent=spent, searched=self._resync.searches):
            self._report(finding)
        return FrameVerdict(end, None)


def length_finding(source: Source, header: bytes, position: int, end: int) -> Finding:
    """Return the finding of a batch whose CRC tells another length than its header."""
    found = wire.i32(header, layout.SIZE_AT)
    expected = end - position - layout.LOG_OVERHEAD
    if found < layout.MIN_SIZE_V0:
        code = Code.L05
    elif found < layout.MIN_SIZE_V2 and header[layout.MAGIC_AT] == layout.MAGIC_V2:
        code = Code.L06
    elif position + layout.LOG_OVERHEAD + found > source.size:
        code = Code.L08
    else:
        code = Code.L07
    first, last = offsets_of(header, min(header[layout.MAGIC_AT], layout.MAGIC_V2))
    return Finding(
        code,
        source.name,
        position,
        end - position,
        offset=first,
        last_offset=last,
        field="batchLength",
        found=found,
        expected=expected,
    )


def offsets_of(header: bytes, magic: int) -> tuple[int | None, int | None]:
    """Return the first and the last offset of a batch, added as Java adds; a legacy wrapper does not say its first.

    Args:
        header: 61 bytes, or as many as there are.
        magic: how to read it.
    """
    offset = int.from_bytes(header[:8], "big", signed=True)
    if magic < layout.MAGIC_V2:
        is_wrapper = bool(header[layout.LEGACY_ATTRIBUTES_AT] & layout.CODEC_MASK)
        return (None if is_wrapper else offset), offset
    delta = header[layout.LAST_OFFSET_DELTA_AT : layout.LAST_OFFSET_DELTA_AT + 4]
    return offset, wire.add(offset, int.from_bytes(delta, "big", signed=True))


def _records_of(window: Window, k: int) -> int | None:
    """The records that a header under a wrong CRC tells; None where they cannot be in its offsets, or in its bytes."""
    count, delta = window.cell(k, layout.COUNT), window.cell(k, layout.LAST_OFFSET_DELTA)
    fits = 0 < count <= delta + 1 or (not count and window.cell(k, layout.SIZE) == layout.RECORDS_AT)
    return count if window.cell(k, layout.MAGIC) >= layout.MAGIC_V2 and fits else None


def _offset_behind(window: Window, k: int, segment: int) -> int | None:
    """The offset behind a batch with a wrong CRC; None where its header cannot be trusted with it.

    A consumer that skips to it passes over the batch only: the number of records and the offsets must tell the same,
    and the batch must follow the last right one, or begin its segment with the offset in the name of the file.
    """
    count, delta = window.cell(k, layout.COUNT), window.cell(k, layout.LAST_OFFSET_DELTA)
    first, before = window.cell(k, layout.BASE_OFFSET), window.offset_before(k)
    is_first = window.cell(k, layout.POSITION) == 0 and first == segment
    is_sure = count == delta + 1 > 0 and (is_first or before == first - 1 != layout.UNKNOWN)
    return first + count if is_sure and window.cell(k, layout.MAGIC) >= layout.MAGIC_V2 else None
