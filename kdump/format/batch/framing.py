"""Decide where the chain of lengths breaks: is it a batch with a wrong length, or a gap?

Strategy: the length of a batch is confirmed when a batch begins where it says, or the log ends there. Where it is not,
the search of `Resync` tells either the true end (the CRC of the batch is right up to there, so only its length is
wrong) or the next batch after what is lost. A magic is a byte outside the CRC too (legacy: inside): it is tried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.resync import header_makes_sense
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
    """The verdict about the bytes up to `end`.

    Args:
        end: file position, exclusive.
        magic: of the batch that they are; None for a gap.
    """

    end: int
    magic: int | None


class Judge:
    """Decides and reports.

    Args:
        source: the log.
        report: takes each finding.
        resync: searches the log.

    Reports: F10, L01-L09, L12, B01-B04.
    """

    def __init__(self, source: Source, report: Report, resync: Resync) -> None:
        self._source = source
        self._report = report
        self._resync = resync

    def wrong_crc(self, window: Window, k: int) -> None:
        """Report the batch in row k, whose length is right and whose CRC is not."""
        legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2
        stored, computed = window.cell(k, layout.CRC), window.cell(k, layout.COMPUTED_CRC)
        code = Code.B02 if legacy else Code.B01
        finding = self._of_batch(code, window, k, field="crc", found=stored, expected=computed)
        values: dict[str, int | str | None] = {
            "why": f"stored {stored:#010x}, computed {computed:#010x}",
        }
        self._report(finding.replace(count=None if legacy else window.cell(k, layout.COUNT), values=values))

    def unknown_magic(self, window: Window, k: int) -> None:
        """Report a magic of 3 to 127 under which the CRC of magic 2 is right, and put the row right."""
        magic = window.cell(k, layout.MAGIC)
        self._report(self._of_batch(Code.B03, window, k, field="magic", found=magic, expected=layout.MAGIC_V2))
        window.rows[k * layout.BATCH_WIDTH + layout.MAGIC] = layout.MAGIC_V2

    def batch(self, window: Window, floor: int) -> FrameVerdict:
        """Decide about the first batch of a window, whose CRC is wrong and whose length nothing confirms.

        Args:
            window: its header is there, its bytes need not be.
            floor: the last offset that is known to be right.
        """
        position, end, magic = window.cell(0, layout.POSITION), window.end(1), window.cell(0, layout.MAGIC)
        if magic < layout.MAGIC_V2 and self._is_v2(position, end):
            finding = self._of_batch(Code.B04, window, 0, field="magic", found=magic, expected=layout.MAGIC_V2)
            self._report(finding.replace(offset=None, last_offset=None))  # they were read as another magic
            return FrameVerdict(end, layout.MAGIC_V2)
        if self._resync.nothing_between(position, end) and self._begins(end, floor):
            self.wrong_crc(window, 0)
            return FrameVerdict(end, magic)
        legacy = self._legacy_magic(position, end)
        if legacy is not None:
            finding = self._of_batch(Code.B02, window, 0, field="magic", found=magic, expected=legacy)
            why = f"it is right for magic {legacy}, and the message says {magic}"
            self._report(finding.replace(offset=None, last_offset=None, values={"why": why}))
            return FrameVerdict(end, legacy)
        boundary = self._resync.after(position, floor)
        if boundary.magic is not None and boundary.position != end:
            return self._right_length(position, boundary.position, boundary.magic)
        swallows = boundary.position < end and not boundary.spent
        if not swallows and (end in (self._source.size, boundary.position) or self._begins(end, floor)):
            self.wrong_crc(window, 0)
            return FrameVerdict(end, magic)
        return self._gap(position, boundary.position, layout.FULL, floor, spent=boundary.spent)

    def no_batch(self, position: int, status: int, floor: int) -> FrameVerdict:
        """Decide about bytes that the scan does not take for a batch: a length without sense, or the end.

        Args:
            position: where they begin.
            status: why the scan stopped there (layout.END ...).
            floor: the last offset that is known to be right.
        """
        boundary = self._resync.after(position, floor)
        if boundary.magic is not None:
            return self._right_length(position, boundary.position, boundary.magic)
        return self._gap(position, boundary.position, status, floor, spent=boundary.spent)

    def _of_batch(self, code: Code, window: Window, k: int, *, field: str, found: int, expected: int | None) -> Finding:
        return Finding(
            code,
            self._source.name,
            window.cell(k, layout.POSITION),
            window.cell(k, layout.SIZE),
            offset=window.cell(k, layout.BASE_OFFSET),
            last_offset=window.cell(k, layout.LAST_OFFSET),
            field=field,
            found=found,
            expected=expected,
        )

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
            self._report(Finding(code, file, position, length, field="magic", found=stored, expected=magic))
        return FrameVerdict(end, magic)

    def _gap(self, position: int, end: int, status: int, floor: int, *, spent: bool) -> FrameVerdict:
        self._report(
            describe_gap(self._source, position, end, status, floor, spent=spent, searched=self._resync.searches)
        )
        return FrameVerdict(end, None)


NOT_SEARCHED = "after damage nothing was searched for (--no-resync)"
BUDGET_SPENT = "the search for intact batches had read four times the size of the file"
_STEP = 1024 * 1024
_HOLE = 64  # zero bytes in a row that are a hole and no accident
_LOOKS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
    (b"\x7fELF", "a program"),
    (b"SQLite", "SQLite"),
)


def describe_gap(
    source: Source, position: int, end: int, status: int, floor: int, *, spent: bool, searched: bool = True
) -> Finding:
    """Return the one finding of a gap.

    Args:
        source: the log.
        position, end: the bytes, half-open.
        status: why the scan stopped here (layout.END ...), layout.FULL when it had read a header with a wrong CRC.
        floor: the last offset that is known to be right.
        spent: the search for the end of the gap was cut short.
        searched: there was a search: what reaches to the end of the file does so because no batch was found.

    Reports: F10, L01-L06, L08, L09, L12.
    """
    code, values = _code(source, position, end, status, floor, searched=searched)
    found = None
    if code in (Code.L05, Code.L06, Code.L08):
        found = wire.i32(source.read_at(position + layout.SIZE_AT, 4), 0)
    if spent:
        code, found = Code.L12, None
        values = {"why": BUDGET_SPENT}
    return Finding(
        code,
        source.name,
        position,
        end - position,
        gap=True,
        field="batchLength" if found is not None else None,
        found=found,
        values=values,
    )


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
    return Finding(
        code,
        source.name,
        position,
        end - position,
        offset=wire.i64(header, layout.OFFSET_AT),
        field="batchLength",
        found=found,
        expected=expected,
    )


def _code(
    source: Source, position: int, end: int, status: int, floor: int, *, searched: bool
) -> tuple[Code, dict[str, int | str | None]]:
    header = source.read_at(position, min(end - position, layout.RECORDS_AT))
    zeros = _zeros_until(source, position, end)
    at_end = searched and end == source.size
    if at_end and end - position < layout.SIZE_AT:
        return Code.L01, {}  # zeros or not: an offset begins with zeros
    if zeros == end or (at_end and _zeros_to_the_end(source, position)):
        return (Code.L03 if at_end else Code.L04), {}
    sane = len(header) > layout.MAGIC_AT and header_makes_sense(header, header[layout.MAGIC_AT], floor)
    if not sane and position == 0 and at_end and end > layout.RECORDS_AT:
        looks = next((name for start, name in _LOOKS if header.startswith(start)), None)
        return Code.F10, {"looks": f" (it looks like {looks})" if looks else ""}
    if at_end and end - position <= layout.HEADER_UP_TO_MAGIC:
        return Code.L01, {}
    if zeros - position >= _HOLE or _has_hole(source, position, end):
        return Code.L04, {}
    if sane and status == layout.PAST_END and at_end:
        size = wire.i32(header, layout.SIZE_AT)
        return Code.L02, {"missing": position + layout.LOG_OVERHEAD + size - end}
    if sane:
        known = {layout.PAST_END: Code.L08, layout.TOO_SMALL: Code.L05, layout.SHORT_V2: Code.L06}
        return known.get(status, Code.L09), {}
    return Code.L09, {}


def _zeros_until(source: Source, position: int, end: int) -> int:
    """The first position in [position, end) whose byte is not zero; holes are not read."""
    while position < end:
        position = min(source.next_data(position), end)
        part = source.read_at(position, min(_STEP, end - position))
        if not part:
            return end
        at = _scan.zeros_until(part, 0, len(part))
        position += at
        if at < len(part):
            return position
    return end


def _zeros_to_the_end(source: Source, position: int) -> bool:
    """Whether the file ends with enough zeros to be a hole."""
    return source.size - position >= _HOLE and not any(source.read_at(source.size - _HOLE, _HOLE))


def _has_hole(source: Source, position: int, end: int) -> bool:
    """Whether zeros stand somewhere in the first bytes of the gap, where a sector may have been lost."""
    return bytes(_HOLE) in source.read_at(position, min(_STEP, end - position))
