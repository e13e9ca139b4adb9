"""The checked walk: every byte of a log belongs to a batch or to a reported gap, whatever the bytes are.

Strategy: the scan follows the chain of lengths as Kafka does, a window at a time. A batch with the right CRC proves
its own end, so nearly every window passes on as it is. Where a CRC is wrong or a length makes no sense the boundary
is unconfirmed, and `_judge` decides: the length is confirmed after all (a batch that cannot be trusted), the length
was wrong and the CRC tells the right one (a batch that can be trusted), or framing is lost (a gap up to the next batch
that `Resync` finds). In the rows that come out a magic or a size is what the CRC has proven; the finding says what the
file has. Offsets and epochs are as stored.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Report
from kdump.format import _scan, layout
from kdump.format.checks import Checks
from kdump.format.checksum import crc32
from kdump.format.gaps import BUDGET_SPENT, describe_gap, length_finding
from kdump.format.resync import Resync
from kdump.format.window import ROWS, WINDOW_SIZE, Buffer, Window, crc_of_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.source import Source

_AFTER_DAMAGE = 4096  # bytes of the first window after damage: what follows may be damaged too


@dataclass(frozen=True, slots=True)
class Border:
    """What a walk must know of the range before its own.

    Args:
        position: a confirmed boundary, where the walk begins.
        last_offset, epoch: of the last batch before it, layout.UNKNOWN for none.
        floor: the last offset that is known to be right.
    """

    position: int = 0
    last_offset: int = layout.UNKNOWN
    epoch: int = layout.UNKNOWN
    floor: int = layout.UNKNOWN


class CheckedWalk:
    """Walks a log from one confirmed boundary on.

    Args:
        source: the log.
        report: takes each finding, before the batches after it are handed out.
        segment: base offset of the file, layout.UNKNOWN when it has none.
        hints: makes the positions that the offset index has, ascending; asked for only after damage.
        max_batch_bytes: a batch over this is not held in memory: its window is not `whole`.
        border: where to begin.

    Attributes:
        border: where the walk has got to.
        checks: the folds over the batches.

    Reports: F10, L01-L09, L12, B01-B04 and what `Checks` reports.
    """

    def __init__(
        self,
        source: Source,
        report: Report,
        *,
        segment: int = layout.UNKNOWN,
        hints: Callable[[], Sequence[int]] = tuple,
        max_batch_bytes: int,
        border: Border | None = None,
    ) -> None:
        self._source = source
        self._report = report
        self._segment = segment
        self._limit = max_batch_bytes
        self._buffer = Buffer(source)
        self._window_size = WINDOW_SIZE
        self._resync = Resync(source, hints)
        self.border = border or Border(floor=layout.UNKNOWN if segment == layout.UNKNOWN else segment - 1)
        self.checks = Checks(source.name, report, segment)

    def windows(self, stop: int | None = None) -> Iterator[Window]:
        """Yield the batches that begin before `stop`, in windows.

        Args:
            stop: file position; None for the end of the log. A gap or a batch that reaches over it belongs to this
                call: the next one goes on at `border.position`.
        """
        end = self._source.size if stop is None else min(stop, self._source.size)
        while self.border.position < end:
            for window in self._stretch(end):
                if window.count:
                    self.checks.step(window)
                    yield window
        if self.border.position >= self._source.size:
            self._say_what_was_not_searched()
            self.checks.finish()

    def _say_what_was_not_searched(self) -> None:
        """The budget of the search was spent: batches may begin where none was looked for."""
        start = self._resync.spent_from
        if start is not None:
            length = self._source.size - start
            self._report(Finding(Code.L12, self._source.name, start, length, values={"why": BUDGET_SPENT}))

    def _stretch(self, stop: int) -> Iterator[Window]:
        """Read one window from the border on and hand out what can be, at least one batch or gap."""
        position = self.border.position
        length = self._buffer.load(position, window=self._window_size)
        self._window_size = min(2 * self._window_size, WINDOW_SIZE)
        window, _, status = self._scan(position, length)
        rows = self._confirmed_rows(window, self._before(window, stop))
        if rows:
            self._advance(window, rows)
            yield Window(window.view, position, window.rows, rows)
        elif window.count:
            yield from self._judge(window)
        elif status == layout.MORE:
            yield from self._large()
        else:
            yield from self._lost(status)

    def _scan(self, position: int, length: int) -> tuple[Window, int, int]:
        border = array("q", [self.border.last_offset, self.border.epoch])
        buffer = self._buffer
        count, at, status = _scan.scan(
            buffer.view, length, 0, position, self._source.size, self._segment, buffer.rows, ROWS, border
        )
        window = Window(buffer.view, position, buffer.rows, count)
        window.fill_crcs()
        return window, at, status

    def _before(self, window: Window, stop: int) -> int:
        """How many of the rows begin before `stop`."""
        positions = window.column(layout.POSITION)
        if not positions or positions[-1] < stop:
            return window.count
        return sum(position < stop for position in positions)

    def _confirmed_rows(self, window: Window, rows: int) -> int:
        """How many of the first rows have the right CRC, or a row after them that confirms their length."""
        stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
        if stored == computed:
            self._unknown_magics(window, rows)
            return rows
        k = 0
        while k < rows and (stored[k] == computed[k] or self._next_row_confirms(window, k)):
            k += 1
        self._unknown_magics(window, k)
        for row in range(k):
            if stored[row] != computed[row]:
                self._report_crc(window, row)
        return k

    def _next_row_confirms(self, window: Window, k: int) -> bool:
        """Whether the row after a batch with a wrong CRC shows that its length is right.

        It does when it is right itself and the offsets go on there, or when it makes sense and no batch can begin
        before it: that was searched for already.
        """
        if k + 1 >= window.count or window.cell(k, layout.MAGIC) != layout.MAGIC_V2:
            return False
        after = window.cell(k + 1, layout.POSITION)
        is_right = window.cell(k + 1, layout.CRC) == window.cell(k + 1, layout.COMPUTED_CRC)
        if is_right and window.cell(k + 1, layout.BASE_OFFSET) == window.cell(k, layout.LAST_OFFSET) + 1:
            return True
        return self._resync.nothing_between(window.cell(k, layout.POSITION), after) and _scan.plausible(
            window.view, after - window.origin, after, self._source.size, self.border.floor
        )

    def _unknown_magics(self, window: Window, rows: int) -> None:
        """Magic 3 to 127 with the CRC of magic 2: the one byte is wrong."""
        if not _scan.suspicions(window.rows, rows) & layout.ODD_MAGIC:
            return
        for k in range(rows):
            magic = window.cell(k, layout.MAGIC)
            if magic > layout.MAGIC_V2 and window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC):
                self._report(self._batch_finding(Code.B03, window, k, field="magic", found=magic, expected=2))
                window.rows[k * layout.BATCH_WIDTH + layout.MAGIC] = layout.MAGIC_V2

    def _batch_finding(
        self, code: Code, window: Window, k: int, *, field: str, found: int, expected: int | None
    ) -> Finding:
        size = window.cell(k, layout.SIZE)
        return Finding(
            code,
            self._source.name,
            window.cell(k, layout.POSITION),
            size,
            offset=window.cell(k, layout.BASE_OFFSET),
            last_offset=window.cell(k, layout.LAST_OFFSET),
            field=field,
            found=found,
            expected=expected,
        )

    def _report_crc(self, window: Window, k: int) -> None:
        legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2
        values: dict[str, int | str | None] = {
            "next_offset": window.cell(k, layout.LAST_OFFSET) + 1,
            "why": f"stored {window.cell(k, layout.CRC):#010x}, computed {window.cell(k, layout.COMPUTED_CRC):#010x}",
        }
        finding = self._batch_finding(
            Code.B02 if legacy else Code.B01,
            window,
            k,
            field="crc",
            found=window.cell(k, layout.CRC),
            expected=window.cell(k, layout.COMPUTED_CRC),
        )
        count = None if legacy else window.cell(k, layout.COUNT)
        self._report(replace(finding, count=count, values=values))

    def _advance(self, window: Window, rows: int) -> None:
        """Move the border to the end of the row before `rows`."""
        k = rows - 1
        border = self.border
        position = window.cell(k, layout.POSITION) + window.cell(k, layout.SIZE)
        while k >= 0 and window.cell(k, layout.CRC) != window.cell(k, layout.COMPUTED_CRC):
            k -= 1
        if k < 0:
            self.border = replace(border, position=position)
            return
        self.border = Border(
            position,
            window.cell(k, layout.LAST_OFFSET),
            window.cell(k, layout.LEADER_EPOCH),
            self._floor(window, k),
        )

    def _floor(self, window: Window, last: int) -> int:
        """The last offset that is known to be right.

        One batch alone proves nothing: its base offset is outside the CRC. It is believed when it adjoins the batch
        before it, or when a later batch lies above it.
        """
        odd = layout.NOT_ABOVE | layout.GAP | layout.OUT_OF_RANGE
        alone = last == 0 and self.border.last_offset == layout.UNKNOWN
        alone = alone or window.cell(last, layout.BASE_OFFSET) < 0  # a wrapper: it may hold any offsets up to its own
        if not alone and not window.cell(last, layout.SUSPICION) & odd:
            return max(self.border.floor, window.cell(last, layout.LAST_OFFSET))
        legacy = window.cell(last, layout.MAGIC) < layout.MAGIC_V2
        above = window.cell(last, layout.LAST_OFFSET if legacy else layout.BASE_OFFSET)
        for k in range(last - 1, -1, -1):
            trusted = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
            if trusted and window.cell(k, layout.LAST_OFFSET) < above:
                return max(self.border.floor, window.cell(k, layout.LAST_OFFSET))
        return self.border.floor

    def _judge(self, window: Window) -> Iterator[Window]:
        """Decide about the first batch of a window, whose CRC is wrong."""
        position, size = window.cell(0, layout.POSITION), window.cell(0, layout.SIZE)
        end = position + size
        magic = window.cell(0, layout.MAGIC)
        if magic < layout.MAGIC_V2 and self._is_v2(position, size):
            self._report(self._batch_finding(Code.B04, window, 0, field="magic", found=magic, expected=2))
            yield from self._hand_out(position, size, layout.MAGIC_V2)
            return
        self._window_size = _AFTER_DAMAGE
        if self._resync.nothing_between(position, end) and self._begins(end):
            self._report_crc(window, 0)
            yield from self._hand_out(position, size, magic)
            return
        boundary = self._resync.after(position, self.border.floor)
        right = self._legacy_magic(position, size)
        if right is not None:
            self._report_legacy_magic(window, magic, right)
            yield from self._hand_out(position, size, right)
        elif boundary.magic is not None and boundary.position != end:
            yield from self._right_length(position, boundary.position, boundary.magic)
        elif boundary.position < end and not boundary.spent:
            self._gap(position, boundary.position, layout.FULL)
        elif end in (self._source.size, boundary.position) or self._begins(end):
            self._report_crc(window, 0)
            yield from self._hand_out(position, size, magic)
        else:
            self._gap(position, boundary.position, layout.FULL, spent=boundary.spent)

    def _begins(self, position: int) -> bool:
        """Whether the next batch seems to begin at a position: its header makes sense or its CRC is right."""
        header = self._source.read_at(position, layout.RECORDS_AT).ljust(layout.RECORDS_AT, b"\0")
        return _scan.plausible(header, 0, position, self._source.size, self.border.floor) or self._resync.is_batch(
            position
        )

    def _is_v2(self, position: int, size: int) -> bool:
        if size < layout.RECORDS_AT:
            return False
        stored = int.from_bytes(self._source.read_at(position + layout.CRC_AT, 4), "big")
        return stored == crc_of_range(self._source, position + layout.ATTRIBUTES_AT, position + size, layout.MAGIC_V2)

    def _legacy_magic(self, position: int, size: int) -> int | None:
        """The magic 0 or 1 under which the CRC of a message is right, though it is not the one that it carries."""
        if size > WINDOW_SIZE:
            return None
        data = self._source.read_at(position, size)
        stored = int.from_bytes(data[layout.LEGACY_CRC_AT : layout.MAGIC_AT], "big")
        body = data[layout.MAGIC_AT + 1 :]
        return next((magic for magic in (0, 1) if crc32(bytes([magic]) + body) == stored), None)

    def _report_legacy_magic(self, window: Window, found: int, right: int) -> None:
        finding = self._batch_finding(Code.B02, window, 0, field="magic", found=found, expected=right)
        self._report(replace(finding, values={"why": f"it is right for magic {right}, and the message says {found}"}))

    def _large(self) -> Iterator[Window]:
        """A batch that is larger than a window."""
        position = self.border.position
        header = bytes(self._buffer.view[: layout.RECORDS_AT])
        size = int.from_bytes(header[8:12], "big", signed=True) + layout.LOG_OVERHEAD
        magic = int.from_bytes(header[16:17], "big", signed=True)
        start = position + (layout.ATTRIBUTES_AT if magic >= layout.MAGIC_V2 else layout.MAGIC_AT)
        at = layout.CRC_AT if magic >= layout.MAGIC_V2 else layout.LEGACY_CRC_AT
        crc = crc_of_range(self._source, start, position + size, magic)
        if crc == int.from_bytes(header[at : at + 4], "big"):
            yield from self._hand_out(position, size, magic)
            return
        rows = array("q", bytes(8 * layout.BATCH_WIDTH))
        _scan.header_row(header, 0, position, size, magic, rows)
        rows[layout.COMPUTED_CRC] = crc
        yield from self._judge(Window(memoryview(header), position, rows, 1, whole=False))

    def _lost(self, status: int) -> Iterator[Window]:
        """Bytes that the scan does not take for a batch: a length without sense, or the end."""
        position = self.border.position
        self._window_size = _AFTER_DAMAGE
        boundary = self._resync.after(position, self.border.floor)
        if boundary.magic is not None:
            yield from self._right_length(position, boundary.position, boundary.magic)
        else:
            self._gap(position, boundary.position, status, spent=boundary.spent)

    def _right_length(self, position: int, end: int, magic: int) -> Iterator[Window]:
        """A batch whose CRC tells that it ends at `end`, whatever its length field says."""
        header = self._source.read_at(position, layout.RECORDS_AT)
        self._report(length_finding(self._source, header, position, end))
        stored = header[layout.MAGIC_AT]
        if magic == layout.MAGIC_V2 and stored != magic:
            code = Code.B03 if layout.MAGIC_V2 < stored < 128 else Code.B04
            found = stored - 256 if stored > 127 else stored
            self._report(
                Finding(
                    code,
                    self._source.name,
                    position,
                    end - position,
                    field="magic",
                    found=found,
                    expected=magic,
                )
            )
        yield from self._hand_out(position, end - position, magic)

    def _hand_out(self, position: int, size: int, magic: int) -> Iterator[Window]:
        """Hand out one batch of a known size and magic."""
        whole = size <= self._limit
        self._buffer.load(position, size if whole else 0)
        view, rows = self._buffer.view, self._buffer.rows
        _scan.header_row(view, 0, position, size, magic, rows)
        start = position + (layout.ATTRIBUTES_AT if magic >= layout.MAGIC_V2 else layout.MAGIC_AT)
        rows[layout.COMPUTED_CRC] = (
            crc_of_range(self._source, start, position + size, magic)
            if magic >= layout.MAGIC_V2
            else crc_of_range(self._source, start + 1, position + size, magic, crc32(bytes([magic & 0xFF])))
        )
        border = array("q", [self.border.last_offset, self.border.epoch])
        _scan.suspect(rows, 1, self._segment, border)
        window = Window(view, position, rows, 1, whole)
        self._unknown_magics(window, 1)
        self._advance(window, 1)
        yield window

    def _gap(self, position: int, end: int, status: int, *, spent: bool = False) -> None:
        """Report bytes that belong to no batch, and go on after them."""
        self._report(describe_gap(self._source, position, end, status, self.border.floor, spent=spent))
        self.checks.gap()
        self.border = replace(self.border, position=end)
