"""What to say about bytes that are not a batch, and about a length that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.resync import header_makes_sense

if TYPE_CHECKING:
    from kdump.format.source import Source

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
        found = int.from_bytes(source.read_at(position + layout.SIZE_AT, 4), "big", signed=True)
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
    found = int.from_bytes(header[8:12], "big", signed=True)
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
        offset=int.from_bytes(header[:8], "big", signed=True),
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
        size = int.from_bytes(header[8:12], "big", signed=True)
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
    """Whether the file ends with zeros that are no accident."""
    return source.size - position >= _HOLE and not any(source.read_at(source.size - _HOLE, _HOLE))


def _has_hole(source: Source, position: int, end: int) -> bool:
    """Whether zeros stand somewhere in the first bytes of the gap, where a sector may have been lost."""
    return bytes(_HOLE) in source.read_at(position, min(_STEP, end - position))
