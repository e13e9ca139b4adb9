"""The checked walk: every byte of a log belongs to a batch or to a reported gap, however damaged the log is.

Strategy: the scan follows the chain of lengths as Kafka does, a window at a time. A batch is trusted when its CRC is
right: that proves its end too, so nearly every window passes unchanged. Where a CRC is wrong or a length is not
plausible, `Judge` (framing) decides: a batch that is not trusted, a trusted batch with a wrong length, or a gap. In the
rows that come out a magic or a size is what the CRC has proven; the finding says what the file has. Offsets and epochs
are as stored.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from functools import cached_property, partial
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Report
from kdump.format.batch import _scan, layout
from kdump.format.batch.base_offset.fold import unknown
from kdump.format.batch.base_offset.right import put_right
from kdump.format.batch.header_checks import HeaderChecks
from kdump.format.batch.resync import Resync
from kdump.format.batch.window import WINDOW_SIZE, Buffer, Window, crc_of_range
from kdump.format.checksum import crc32, crc32c
from kdump.format.kernels import wire
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.batch.base_offset.header import LogEnd
    from kdump.format.batch.epoch_order import EpochsAround
    from kdump.format.batch.framing import FrameVerdict, Judge
    from kdump.format.source import Source

_OFFSETS = layout.NOT_ABOVE | layout.GAP | layout.OUT_OF_RANGE
_BEYOND = 64 * 1024  # bytes that are read beyond the end of what is asked for: the last batch may reach there
_AFTER_DAMAGE = 4096  # bytes of the first window after damage: what follows may be damaged too


class Border(Value):
    """The state of the log before the range of a walk."""

    position: int = 0  # a confirmed boundary, where the walk begins
    # last_offset, epoch: of the last batch before it, layout.UNKNOWN for none
    last_offset: int = layout.UNKNOWN
    epoch: int = layout.UNKNOWN
    floor: int = layout.UNKNOWN  # the last offset that is known to be right


class WalkState(Value):
    """Where a walk is: what another one needs to go on as if it were the same."""

    border: Border  # where it has got to
    window_size: int  # bytes that it reads next
    folds: tuple[object, ...]  # what the folds over offsets and epochs hold
    # the epoch and the next sequence of each producer, the one that wrote last at the end
    producers: dict[int, tuple[int, int]]
    resync: tuple[object, ...]  # what the search after damage has found and spent
    ended: bool = False  # the log was walked to its end


def _span_at(log: Source, position: int) -> int | None:
    """How far the last offset of the legacy wrapper at a position lies above its first one; None for nobody knows."""
    from kdump.format.read_limits import ReadLimits
    from kdump.format.record.wrapper import offsets_inside  # few logs are that old, and hardly one is odd

    found = offsets_inside(log, position, ReadLimits())
    return None if found is None else found[1] - found[0]


class CheckedWalk:
    """Walks a log from one confirmed boundary on.

    Args:
        source: the log.
        report: takes each finding, before the batches after it are handed out.
        segment: base offset of the file, layout.UNKNOWN when it has none.
        next_base: base offset of the next segment; None where there is none, or nobody knows.
        known_end: tells the highest offset at which other files know the last segment to end; asked for where its last
            batch does not follow.
        hints: makes the positions that the offset index has, ascending; asked for only after damage.
        max_batch_bytes: a batch over this is not held in memory: its window is not `whole`.
        border: where to begin.
        resync: look for batches after damage; otherwise it reaches to the end of the log.
        around: what lies around the log says of leader epochs; None where nobody knows.

    Attributes:
        border: where the walk has got to.
        checks: the folds over the batches.

    Reports: F10, L01-L09, L12, B01-B04 and what `HeaderChecks` reports.
    """

    def __init__(
        self,
        source: Source,
        report: Report,
        *,
        segment: int = layout.UNKNOWN,
        next_base: int | None,
        known_end: Callable[[], LogEnd | None] = unknown,
        hints: Callable[[], Sequence[int]] = tuple,
        max_batch_bytes: int,
        border: Border | None = None,
        resync: bool = True,
        around: EpochsAround | None = None,
    ) -> None:
        self._source = source
        self._report = report
        self._segment, self._next_base = segment, next_base
        self._limit = max_batch_bytes
        self._buffer = Buffer(source)
        self._window_size = WINDOW_SIZE
        self._resync = Resync(source, hints, search=resync)
        self._fresh = self._resync.state
        self.border = border or Border(floor=layout.UNKNOWN if segment == layout.UNKNOWN else segment - 1)
        self.checks = HeaderChecks(
            source.name, report, segment, next_base, known_end, around, span_of=partial(_span_at, source)
        )
        self._ended = False

    @cached_property
    def _judge(self) -> Judge:
        from kdump.format.batch.framing import Judge  # few logs have damage that must be judged

        return Judge(self._source, self._report, self._resync, self._segment, self._next_base)

    @property
    def state(self) -> WalkState:
        """Where the walk is."""
        folds, producers = self.checks.state
        return WalkState(self.border, self._window_size, folds, producers, self._resync.state, self._ended)

    @property
    def met_damage(self) -> bool:
        """Whether a batch was searched for, or tried: what comes next hangs on what was spent before."""
        return self._resync.state != self._fresh

    def resume(self, state: WalkState) -> None:
        """Go on from where another walk over the same log was."""
        self.border, self._window_size, self._ended = state.border, state.window_size, state.ended
        self.checks.resume(state.folds, state.producers)
        self._resync.resume(state.resync)

    def go_to(self, border: Border) -> None:
        """Go on at another place: what lies between is not read.

        Args:
            border: where, and what is known of the log before it.
        """
        self.checks.gap()
        self.border = border

    def run_up(self, start: int, stop: int) -> WalkState:
        """Walk up to a position to know what the batches before it leave; of their producers nothing is known then.

        What is reported on the way is told by who reads that range.

        Args:
            start: where a batch begins, some batches before `stop`.
            stop: file position; the walk then is at the first batch that begins there or later.
        """
        self.border = self.border.replace(position=start)
        self.checks.offsets.after_loss()  # what is before it is not known
        self.checks.follow_producers, follows = False, self.checks.follow_producers
        for _ in self.windows(stop):
            pass
        self.checks.follow_producers = follows
        self.checks.forget_producers()
        return self.state

    def adopt(self, before: WalkState, state: WalkState) -> bool:
        """Take what is known of all before, if that is what the run-up has shown; else nothing that was read counts.

        Args:
            before: what `run_up` has returned.
            state: of the walk over all that lies before.
        """
        place = (state.border, state.window_size, state.folds, state.ended)
        if self.met_damage or place != (before.border, before.window_size, before.folds, before.ended):
            return False
        self._resync.resume(state.resync)
        return self.checks.adopt_producers(state.producers)

    def windows(self, stop: int | None = None) -> Iterator[Window]:
        """Yield the batches that begin before `stop`, in windows.

        Args:
            stop: file position; None for the end of the log. A gap or a batch that reaches over it belongs to this
                call: the next one continues at `border.position`.
        """
        end = self._source.size if stop is None else min(stop, self._source.size)
        while self.border.position < end:
            for window in self._stretch(end):
                if window.count:
                    self.checks.step(window)
                    yield window
        if self.border.position >= self._source.size and not self._ended:
            self._ended = True
            self._say_what_was_not_searched()
            self.checks.finish()

    def _say_what_was_not_searched(self) -> None:
        """The budget of the search was spent: batches may begin where none was looked for."""
        start = self._resync.spent_from
        if start is not None:
            from kdump.format.batch.gap import BUDGET_SPENT, NOT_SEARCHED, not_searched

            length = self._source.size - start
            why = BUDGET_SPENT if self._resync.searches else NOT_SEARCHED
            self._report(Finding(Code.L12, self._source.name, start, length, values=not_searched(why)))

    def _stretch(self, stop: int) -> Iterator[Window]:
        """Read one window from the border on and hand out what can be, at least one batch or gap."""
        position = self.border.position
        length = self._buffer.load(position, window=min(self._window_size, stop - position + _BEYOND))
        self._window_size = min(2 * self._window_size, WINDOW_SIZE)
        window, _, status = self._scan(position, length)
        rows = self._confirmed_rows(window, self._before(window, stop))
        if rows:
            if rows < window.count:
                window = window.first(rows)
            self._advance(window)
            yield window
        elif window.count:
            yield from self._settle(self._judge.batch(window, self.border.floor, self.border.last_offset))
        elif status == layout.MORE:
            yield from self._large()
        else:
            yield from self._settle(self._judge.no_batch(position, status, self.border.floor, self.border.last_offset))

    def _scan(self, position: int, length: int) -> tuple[Window, int, int]:
        border, buffer = array("q", (self.border.last_offset, self.border.epoch)), self._buffer
        count, at, status = _scan.scan(
            buffer.view,
            length,
            0,
            origin=position,
            end=self._source.size,
            segment=self._segment,
            rows=buffer.rows,
            capacity=buffer.capacity,
            border=border,
        )
        window = Window(buffer.view, position, buffer.rows, count, before=self.border.last_offset)
        window.fill_crcs()
        return window, at, status

    def _before(self, window: Window, stop: int) -> int:
        """The number of rows that begin before `stop`."""
        if not window.count or window.cell(window.count - 1, layout.POSITION) < stop:
            return window.count
        return sum(position < stop for position in window.column(layout.POSITION))

    def _confirmed_rows(self, window: Window, rows: int) -> int:
        """The number of first rows with the right CRC, or with a row after them that confirms their length."""
        if window.all_trusted:
            if window.suspicions & layout.ODD_MAGIC:
                self._unknown_magics(window, rows)
            return rows
        stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
        k = 0
        while k < rows and (stored[k] == computed[k] or self._next_row_confirms(window, k)):
            k += 1
        self._unknown_magics(window, k)
        for row in range(k):
            if stored[row] != computed[row]:
                self._judge.wrong_crc(window, row)
        return k

    def _next_row_confirms(self, window: Window, k: int) -> bool:
        """Whether the row after a batch with a wrong CRC shows that its length is right.

        It does when it is right itself and the offsets continue there, or when it makes sense and no batch can begin
        before it: that was searched for already.
        """
        magic = window.cell(k, layout.MAGIC)
        if k + 1 >= window.count or magic > layout.MAGIC_V2 or (magic < layout.MAGIC_V2 and _is_v2(window, k)):
            return False
        after = window.cell(k + 1, layout.POSITION)
        is_right = window.cell(k + 1, layout.CRC) == window.cell(k + 1, layout.COMPUTED_CRC)
        goes_on = window.cell(k + 1, layout.BASE_OFFSET) == window.cell(k, layout.LAST_OFFSET) + 1
        if magic == layout.MAGIC_V2 and is_right and goes_on:
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
                self._judge.unknown_magic(window, k)

    def _advance(self, window: Window) -> None:
        """Move the border to the end of a window."""
        k = window.count - 1
        border = self.border
        position = window.end(window.count)
        if not window.all_trusted:
            while k >= 0 and window.cell(k, layout.CRC) != window.cell(k, layout.COMPUTED_CRC):
                k -= 1
            if k < 0:
                self.border = border.replace(position=position)
                return
        last = window.cell(k, layout.LAST_OFFSET)
        self.border = Border(position, last, window.cell(k, layout.LEADER_EPOCH), self._floor(window, k + 1))

    def _floor(self, window: Window, rows: int) -> int:
        """The last offset that is known to be right after some rows, of which the last is trusted.

        One batch alone proves nothing: its base offset is outside the CRC. It is believed when it adjoins the batch
        before it, or when the batch after it lies above it.
        """
        believed, before = self.border.floor, self.border.last_offset
        start = 0
        if window.all_trusted and not window.suspicions & _OFFSETS:
            start = max(rows - 2, 0)  # they ascend without a gap: the last two say what all say
            before = window.cell(start - 1, layout.LAST_OFFSET) if start else before
            after, first = window.cell(start, layout.LAST_OFFSET) + 1, window.cell(rows - 1, layout.BASE_OFFSET)
            if start and first == after and not window.suspicions & layout.ODD_DELTA:
                return max(believed, window.cell(rows - 1, layout.LAST_OFFSET))
        for k in range(start, rows):
            if window.cell(k, layout.CRC) != window.cell(k, layout.COMPUTED_CRC):
                continue
            first, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
            if before != layout.UNKNOWN:
                is_wrapper = window.cell(k, layout.MAGIC) < layout.MAGIC_V2  # it may hold any offsets up to its own
                if before < (last if is_wrapper else first):
                    believed = max(believed, before)
                if first == before + 1 and not window.cell(k, layout.SUSPICION) & layout.OUT_OF_RANGE:
                    believed = max(believed, last)
            before = last
        return believed

    def _large(self) -> Iterator[Window]:
        """A batch that is larger than a window."""
        position = self.border.position
        header = bytes(self._buffer.view[: layout.RECORDS_AT])
        size = wire.i32(header, layout.SIZE_AT) + layout.LOG_OVERHEAD
        magic = int.from_bytes(header[layout.MAGIC_AT : layout.MAGIC_AT + 1], "big", signed=True)
        start = position + (layout.ATTRIBUTES_AT if magic >= layout.MAGIC_V2 else layout.MAGIC_AT)
        at = layout.CRC_AT if magic >= layout.MAGIC_V2 else layout.LEGACY_CRC_AT
        crc = crc_of_range(self._source, start, position + size, magic)
        if crc == wire.u32(header, at):
            yield from self._hand_out(position, size, magic)
            return
        rows = array("q", bytes(8 * layout.BATCH_WIDTH))
        _scan.header_row(header, 0, position, size, magic, rows)
        rows[layout.COMPUTED_CRC] = crc
        window = Window(memoryview(header), position, rows, 1, has_record_bytes=False, before=self.border.last_offset)
        yield from self._settle(self._judge.batch(window, self.border.floor, self.border.last_offset))

    def _settle(self, verdict: FrameVerdict) -> Iterator[Window]:
        """Hand out a batch, or pass over a gap; what follows may be damaged too."""
        position = self.border.position
        self._window_size = _AFTER_DAMAGE
        if verdict.magic is not None:
            yield from self._hand_out(position, verdict.end - position, verdict.magic)
        else:
            self.checks.gap()
            self.border = self.border.replace(position=verdict.end)

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
        window = Window(view, position, rows, 1, whole, before=self.border.last_offset)
        self._unknown_magics(window, 1)
        self._advance(window)
        yield window


def settled_windows(walk: CheckedWalk, found: list[Finding], stop: int | None = None) -> Iterator[Window]:
    """Yield the batches of a walk when all is found about their offsets.

    The last batches of a window may be judged by those after it: they are handed out alone, once these are read.

    Args:
        found: takes what the walk reports; of that it has, with each window, what is about this and what lies before
            it, until somebody clears it.
        stop: file position; None for the end of the log.

    Raises:
        OSError: the log cannot be read further; the batches before that are handed out first.
    """
    windows, error = walk.windows(stop), None
    held: deque[Window] = deque()  # one batch each
    window: Window | None = None
    while error is None:
        try:
            window = next(windows, None)
            if window is None and stop is not None:
                _read_on(walk)  # the batches behind what is asked for
                found[:] = [one for one in found if (one.position or 0) < stop]
        except OSError as failed:
            window, error = None, failed
        edge = walk.checks.offsets.first_undecided_position if window is not None else None
        while held and (edge is None or held[0].cell(0, layout.POSITION) < edge):
            yield from _with_its_own(held.popleft(), found)
        if window is None:
            break
        k = window.count if edge is None else bisect_left(window.column(layout.POSITION), edge, 0, window.count)
        late = [window.batch_copy(row) for row in range(k, window.count)]
        if k:
            yield from _with_its_own(window.slice(0, k), found)
        held.extend(late)
    if error is not None:
        raise error


def right_windows(
    walk: CheckedWalk, found: list[Finding], stop: int | None = None
) -> Iterator[tuple[Window, dict[int, int]]]:
    """Yield the batches of a walk with their right base offsets, and what was added to them, by number of the row.

    Args:
        walk, found, stop: as of `settled_windows`.

    Raises:
        OSError: the log cannot be read further; the batches before that are handed out first.
    """
    for window in settled_windows(walk, found, stop):
        yield window, put_right(window, found)


def _read_on(walk: CheckedWalk) -> None:
    """Read on until no batch waits for those behind it."""
    before = -1
    while not walk.checks.offsets.is_settled and walk.border.position > before:
        before = walk.border.position
        for _ in walk.windows(before + 1):
            pass


def _with_its_own(window: Window, found: list[Finding]) -> Iterator[Window]:
    """Hand out a window with what was found of its batches and before them."""
    position = window.cell(window.count - 1, layout.POSITION)
    later = [one for one in found if (one.position or 0) > position]
    found[:] = [one for one in found if (one.position or 0) <= position]
    yield window
    found += later


def _is_v2(window: Window, k: int) -> bool:
    """Whether the batch in row k, which says magic 0 or 1, has the CRC of magic 2."""
    start, size = window.cell(k, layout.POSITION) - window.origin, window.cell(k, layout.SIZE)
    if size < layout.RECORDS_AT:
        return False
    stored = wire.u32(window.view, start + layout.CRC_AT)
    return stored == crc32c(window.view[start + layout.ATTRIBUTES_AT : start + size])
