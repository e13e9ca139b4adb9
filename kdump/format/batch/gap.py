"""What lies in a gap: a stretch of a log in which no batch could be confirmed.

Strategy: damage of several kinds lies side by side, and each says something else about what is lost: zeros, where
nothing is left; a header that still stands, with the offsets and the number of records that its batch had; bytes that
are neither. So a gap is cut where its parts differ, each part is a gap with a finding of its own, and each has the
offsets that its header says, or those that the batches and headers around leave free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Trait
from kdump.format.batch import _scan, layout
from kdump.format.batch.resync import header_makes_sense
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.source import Source

BUDGET_SPENT = "the search for intact batches had read four times the size of the file"
NOT_SEARCHED = "after damage nothing was searched for (--no-resync)"
_REMEDIES = {
    BUDGET_SPENT: "kdump carve searches any bytes for batches",
    NOT_SEARCHED: "search it too: leave out --no-resync",
}
_STEP = 1024 * 1024
_HOLE = 64  # zero bytes in a row that are a hole and no accident
_NO_HEADER = 17  # zero bytes where a batch should begin that leave nothing of it: up to its magic
MOST_IN_BYTE = 40
"""Messages that a byte of a wrapper can have: each has 26 bytes, and gzip makes one of 1032 at best."""
_MOST_PARTS = 64  # of one gap; what is behind them is one more
_LOOKS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
    (b"\x7fELF", "a program"),
    (b"SQLite", "SQLite"),
)


class StandingHeader(Value):
    """A header in a gap in which every field makes sense: of magic 2, or that of an older batch that is torn."""

    position: int  # of its first byte
    end: int | None  # where its batch ended, by its length; None where the length makes no sense
    # first, last: its offsets
    first: int
    last: int
    # of its records; None where that part of it is gone, and for an old wrapper, which does not tell it
    count: int | None
    length: int = layout.RECORDS_AT  # of the header itself, bytes

    def up_to(self, stop: int) -> StandingHeader | None:
        """The header when zeros begin at a position; None where too little of it is left."""
        length = stop - self.position
        if length >= self.length:
            return self
        return self.replace(count=None) if length >= layout.LAST_OFFSET_DELTA_AT + 4 else None


class _Part(Value):
    """Bytes of one kind."""

    # start, end: file positions, half-open
    start: int
    end: int
    is_zero: bool  # nothing but zeros
    header: StandingHeader | None = None  # that stands at the start of them; None for none
    unreadable: str | None = None  # why the disk could not read them; None where it could


class Gap:
    """One stretch without a batch.

    Args:
        source: the log.
        position, end: the bytes, half-open.
        status: why the scan stopped here (layout.END ...), layout.FULL when it had read a header with a wrong CRC.
        floor: the last offset that is known to be right.
        after: the last offset that a batch before it has, layout.UNKNOWN for none.
        next_base: base offset of the next segment; None where there is none, or nobody knows.
    """

    def __init__(
        self,
        source: Source,
        position: int,
        end: int,
        status: int,
        floor: int,
        after: int,
        next_base: int | None = None,
    ) -> None:
        self._source = source
        self._start = position
        self._end = end
        self._status = status
        self._floor = floor
        self._next_base = next_base if end == source.size else None
        self._next = self._next_offset()
        is_sound = after != layout.UNKNOWN and (self._next is None or after < self._next)
        self._first = (after if is_sound else floor) + 1 if is_sound or floor != layout.UNKNOWN else None

    def _next_offset(self) -> int | None:
        """The first offset of the batch that the gap ends before; None where its header does not say it."""
        header = self._source.read_at(self._end, layout.RECORDS_AT)
        if len(header) <= layout.HEADER_UP_TO_MAGIC:
            return None
        offset = int.from_bytes(header[:8], "big", signed=True)
        is_wrapper = header[layout.MAGIC_AT] < layout.MAGIC_V2 and header[layout.LEGACY_ATTRIBUTES_AT] & 7
        return None if offset <= self._floor or is_wrapper else offset

    def findings(self, *, spent: bool, searched: bool) -> Iterator[Finding]:
        """Yield the findings, one for each part; the parts adjoin each other and are the gap.

        Args:
            spent: the search for the end of the gap was cut short.
            searched: there was a search: what reaches to the end of the file does so because no batch was found.

        Reports: F06, F10, L01-L06, L08, L09, L12.
        """
        at_end = searched and self._end == self._source.size
        if spent or not searched:
            whole = self._whole()
            [free] = self._offsets([whole])
            code, values = self._code(whole, at_end=spent)
            if spent and code is not Code.F10:  # where not even the first bytes are a header, no budget makes it a log
                code, values = Code.L12, not_searched(BUDGET_SPENT)
            yield self._finding(whole, code, values, free)
            for start, end, why in self._source.unreadable(self._start, self._end):
                yield Finding(Code.F06, self._source.name, start, end - start, values={"why": why})
            return
        parts = self._parts()
        offsets = self._offsets(parts)
        for part, free in zip(parts, offsets, strict=True):
            yield self._finding(part, *self._code(part, at_end=at_end), free)

    @property
    def _last_free(self) -> int | None:
        """The last offset before the batch behind the gap, or before the next segment where the gap ends the log."""
        after = self._next_base if self._next is None else self._next
        return None if after is None else after - 1

    def _whole(self) -> _Part:
        is_zero = zeros_until(self._source, self._start, self._end) == self._end
        return _Part(self._start, self._end, is_zero, None if is_zero else self._header_at(self._start))

    # --- parts ----------------------------------------------------------------------------------------------
    def _parts(self) -> list[_Part]:
        """Cut the gap where zeros begin and end, where a header stands, and where the disk could not read."""
        found: list[_Part] = []
        at = self._start
        while at < self._end and len(found) < _MOST_PARTS:
            bad = next(iter(self._source.unreadable(at, self._end)), (self._end, self._end, ""))
            if bad[0] == at < bad[1]:
                found.append(_Part(at, bad[1], False, unreadable=bad[2]))
                at = bad[1]
                continue
            is_first = at == self._start
            header = self._header_at(at)
            zeros = zeros_until(self._source, at, bad[0]) if header is None else at
            is_tail = zeros == self._end
            if zeros - at >= (_NO_HEADER if is_first else _HOLE) or (is_tail and zeros > at):
                found.append(_Part(at, zeros, True))
                at = zeros
                continue
            stop = min(self._next_zeros(at), bad[0])
            inner = self._next_header(at + 1, stop)
            stop = stop if inner is None else inner
            found.append(_Part(at, stop, False, None if header is None else header.up_to(stop)))
            at = stop
        if at < self._end:
            found[-1] = found[-1].replace(end=self._end, is_zero=False)
        return found

    def _next_zeros(self, start: int) -> int:
        """The next position where many zeros begin, or all bytes up to the end are zero; the end for none."""
        hole, at = bytes(_HOLE), start
        while at < self._end:
            part = self._source.read_at(at, min(_STEP, self._end - at))
            if not part:
                break
            place = part.find(hole)
            if place >= 0:
                return max(at + place, start + 1)
            at += max(1, len(part) - _HOLE + 1) if at + len(part) < self._end else len(part)
        return self._end

    def _header_at(self, position: int) -> StandingHeader | None:
        """The header that stands at a position: it fits between the batches around; its length may be wrong."""
        header = self._source.read_at(position, layout.RECORDS_AT)
        if len(header) > layout.LEGACY_ATTRIBUTES_AT and header[layout.MAGIC_AT] < layout.MAGIC_V2:
            return self._torn_legacy(position, header)
        if len(header) < layout.RECORDS_AT or header[layout.MAGIC_AT] != layout.MAGIC_V2:
            return None
        if position != self._start or not header_makes_sense(header, layout.MAGIC_V2, self._floor):
            return None
        return self._fitting(position, header)

    def _fitting(self, position: int, header: bytes) -> StandingHeader | None:
        first = int.from_bytes(header[:8], "big", signed=True)
        size = int.from_bytes(header[8:12], "big", signed=True) + layout.LOG_OVERHEAD
        delta = int.from_bytes(header[layout.LAST_OFFSET_DELTA_AT :][:4], "big", signed=True)
        count = int.from_bytes(header[layout.COUNT_AT :][:4], "big", signed=True)
        if delta < 0 or not 0 <= count <= delta + 1:
            return None
        if self._first is not None and first < self._first:
            return None
        if self._next is not None and first + delta >= self._next:
            return None
        end = position + size if size >= layout.RECORDS_AT else None
        return StandingHeader(position, end, first, first + delta, count)

    def _torn_legacy(self, position: int, header: bytes) -> StandingHeader | None:
        """The header of a message of magic 0 or 1 that the end of the file cuts: a wrapper has its last offset."""
        is_torn = position == self._start and self._status == layout.PAST_END and self._end == self._source.size
        if not is_torn or not header_makes_sense(header, header[layout.MAGIC_AT], self._floor):
            return None
        last = int.from_bytes(header[: layout.SIZE_AT], "big", signed=True)
        size = int.from_bytes(header[layout.SIZE_AT : layout.LOG_OVERHEAD], "big", signed=True)
        is_wrapper = header[layout.LEGACY_ATTRIBUTES_AT] & layout.CODEC_MASK
        first = last if not is_wrapper or self._first is None else self._first
        if first < (self._first or 0) or not first <= last <= first + MOST_IN_BYTE * size:
            return None
        end, count = position + layout.LOG_OVERHEAD + size, None if is_wrapper else 1
        return StandingHeader(position, end, first, last, count, layout.LEGACY_ATTRIBUTES_AT + 1)

    def _next_header(self, start: int, stop: int) -> int | None:
        """The next place in [start, stop) where a whole header stands whose batch ends in the gap."""
        source, floor = self._source, (self._floor if self._first is None else self._first - 1)
        buffer = memoryview(bytearray(_STEP + layout.RECORDS_AT))
        while start < stop:
            length = min(_STEP, stop - start)
            held = source.read_into(start, buffer[: length + layout.RECORDS_AT])
            buffer[held:] = bytes(len(buffer) - held)
            at = 0
            while (at := _scan.candidate(buffer, at, length, start, self._end, floor)) < length:
                header = bytes(buffer[at : at + layout.RECORDS_AT])
                if header[layout.MAGIC_AT] == layout.MAGIC_V2 and self._fitting(start + at, header) is not None:
                    return start + at
                at += 1
            start += length
        return None

    # --- what is said of them -------------------------------------------------------------------------------
    def _offsets(self, parts: list[_Part]) -> list[tuple[int | None, int | None]]:
        """The offsets that each part had: its header's, or those that the headers and batches around leave free."""
        found: list[tuple[int | None, int | None]] = []
        low, over = self._first, None
        for number, part in enumerate(parts):
            if part.header is not None:
                over, low = part.header, part.header.last + 1
                found.append((over.first, over.last))
                continue
            after = (one.header.first - 1 for one in parts[number:] if one.header is not None)
            high = next(after, self._last_free)
            begins = low
            if over is not None and over.end is not None and part.start < over.end:  # bytes of that batch
                begins, high = over.first, over.last if part.end <= over.end else high
            is_free = begins is None or high is None or begins <= high
            found.append((begins, high) if is_free else (None, None))
        return found

    def _finding(
        self,
        part: _Part,
        code: Code,
        values: dict[str, int | str | None],
        offsets: tuple[int | None, int | None],
    ) -> Finding:
        found = None
        if Trait.BATCH_LENGTH in code.traits:
            found = int.from_bytes(self._source.read_at(part.start + layout.SIZE_AT, 4), "big", signed=True)
        if Trait.UNFINISHED in code.traits and self._source.is_growing:
            code, values = Code.V03, {}
        header = part.header
        if header is not None:
            offsets = header.first, header.last
            values = {**values, "batchEnd": header.end}
        if any(one is not None and one > layout.LARGEST_OFFSET for one in offsets):  # behind the largest none can be
            offsets = None, None
        return Finding(
            code,
            self._source.name,
            part.start,
            part.end - part.start,
            gap=True,
            offset=offsets[0],
            last_offset=None if offsets[0] is None else offsets[1],
            field="batchLength" if found is not None else None,
            found=found,
            count=None if header is None else header.count,
            values=values,
            by_neighbours=header is None,
        )

    def _code(self, part: _Part, *, at_end: bool) -> tuple[Code, dict[str, int | str | None]]:
        source, position, end = self._source, part.start, part.end
        if part.unreadable is not None:
            return Code.F06, {"why": part.unreadable}
        is_first = position == self._start
        reaches_end = at_end and end == source.size
        if is_first and reaches_end and end - position < layout.SIZE_AT:
            return Code.L01, {}  # zeros or not: an offset begins with zeros
        if part.is_zero:
            return (Code.L03 if reaches_end else Code.L04), {}
        if not is_first:
            return self._foreign(part)
        header = source.read_at(position, min(end - position, layout.RECORDS_AT))
        sane = len(header) > layout.MAGIC_AT and header_makes_sense(header, header[layout.MAGIC_AT], self._floor)
        if not sane and position == 0 and reaches_end and end > layout.RECORDS_AT:
            looks = next((name for start, name in _LOOKS if header.startswith(start)), None)
            return Code.F10, {"looks": f" (it looks like {looks})" if looks else ""}
        if reaches_end and end - position <= layout.HEADER_UP_TO_MAGIC:
            return Code.L01, {}
        if not sane:
            return self._foreign(part)
        size = int.from_bytes(header[8:12], "big", signed=True)
        missing = position + layout.LOG_OVERHEAD + size - end
        if at_end and self._status == layout.PAST_END and reaches_end:
            return Code.L02, {"missing": missing, "where": "the end of the file"}
        if at_end and missing > 0 and self._only_zeros_from(end):
            return Code.L02, {"missing": missing, "where": "the start of the zeros"}
        known = {layout.PAST_END: Code.L08, layout.TOO_SMALL: Code.L05, layout.SHORT_V2: Code.L06}
        code = known.get(self._status, Code.L09)
        return self._foreign(part) if code is Code.L09 else (code, {})

    def _only_zeros_from(self, position: int) -> bool:
        """Whether the gap reaches to the end of the file with nothing but zeros."""
        return self._end == self._source.size and zeros_until(self._source, position, self._end) == self._end

    def _foreign(self, part: _Part) -> tuple[Code, dict[str, int | str | None]]:
        header = part.header
        if header is None:
            return Code.L09, {}
        offsets = str(header.first) if header.first == header.last else f"{header.first}..{header.last}"
        return Code.L09, {"also": f"but a header of offsets {offsets} stands here"}


def not_searched(why: str) -> dict[str, int | str | None]:
    """Return what L12 says of bytes in which no batch was looked for.

    Args:
        why: BUDGET_SPENT or NOT_SEARCHED.
    """
    return {"why": why, "remedy": _REMEDIES[why]}


def is_unsearched(finding: Finding) -> bool:
    """Tell whether a finding is about bytes in which no batch was looked for: L12 is of other limits too."""
    return finding.code is Code.L12 and finding.values.get("why") in _REMEDIES


def zeros_until(source: Source, position: int, end: int) -> int:
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
