"""The order of offsets from batch to batch, and which of two batches is wrong where they disagree.

Strategy: a base offset is outside the CRC, so one wrong bit shows only against the neighbours. The fold keeps the last
good batch and holds back a batch that does not follow it until the next one is there: the two tell whether the held
batch is wrong (it fits neither, or only one of them while the next follows the good one) or offsets are missing. The
last batch of a segment has no next one. Where it reaches into the next segment, which may be a stale one, or over the
end that all other files know, its base offset is wrong only if one bit makes it fit exactly between the good batch and
that offset.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.finding import Code, Finding, Report
from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.format.batch.window import Window


class HeaderFacts(NamedTuple):
    """The fields of one batch that the folds compare.

    Args:
        position, size: bytes.
        first: base offset; None for a compressed legacy wrapper, where it is not known.
        last: last offset.
        epoch: leader epoch; None below magic 2, which has none.
        trusted: its CRC is right.
    """

    position: int
    size: int
    first: int | None
    last: int
    epoch: int | None
    trusted: bool


def header_facts(window: Window, k: int) -> HeaderFacts:
    """Return row k of a window as the folds see it."""
    at = k * layout.BATCH_WIDTH
    rows = window.rows
    legacy = rows[at + layout.MAGIC] < layout.MAGIC_V2
    first: int | None = rows[at + layout.BASE_OFFSET]
    if legacy and rows[at + layout.ATTRIBUTES] & layout.CODEC_MASK:
        first = None
    return HeaderFacts(
        rows[at + layout.POSITION],
        rows[at + layout.SIZE],
        first,
        rows[at + layout.LAST_OFFSET],
        None if legacy else rows[at + layout.LEADER_EPOCH],
        rows[at + layout.CRC] == rows[at + layout.COMPUTED_CRC],
    )


def offsets_at(window: Window, k: int) -> tuple[int | None, int, bool]:
    """Return the offsets of the batch in row k, and whether the first is that after the last right batch before it.

    A compressed legacy wrapper has its last offset only: its first one is None where no right batch lies before it.
    """
    first, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
    if first >= 0 or window.cell(k, layout.MAGIC) >= layout.MAGIC_V2:
        return first, last, False
    before = window.offset_before(k)
    return (before + 1 if layout.UNKNOWN < before < last else None), last, True


def misplaced(window: Window, findings: Iterable[Finding]) -> Iterator[tuple[int, int]]:
    """Yield the batches of a window whose right base offset is known: number of the row, and what is to be added.

    Args:
        window: batches of a log.
        findings: that a checked walk has made about them.
    """
    for finding in findings:
        if isinstance(finding.expected, int):
            for k in _row_of(window, finding):
                yield k, finding.expected - window.cell(k, layout.BASE_OFFSET)


def unplaced(window: Window, findings: Iterable[Finding]) -> set[int]:
    """Return the numbers of the rows of a window whose base offset is wrong while nobody knows the right one.

    Args:
        window: batches of a log.
        findings: that a checked walk has made about them.
    """
    return {k for finding in findings if finding.is_unplaced for k in _row_of(window, finding)}


def _row_of(window: Window, finding: Finding) -> Iterator[int]:
    """The row of the batch whose base offset is wrong by a finding, where it is in the window."""
    if finding.is_misplaced and finding.position is not None:
        k = bisect_left(window.column(layout.POSITION), finding.position, 0, window.count)
        if k < window.count and window.cell(k, layout.POSITION) == finding.position:
            yield k


def put_right(window: Window, findings: Iterable[Finding]) -> dict[int, int]:
    """Give the batches of a window whose right base offset is known that offset, in their rows; the bytes stay.

    Those whose right one nobody knows are marked as out of range: their offsets say nothing.

    Args:
        window: batches of a log.
        findings: that a checked walk has made about them.

    Returns:
        what was added, by number of the row.
    """
    shifts = dict(misplaced(window, findings))
    for k, shift in shifts.items():
        window.shift(k, shift)
    for k in unplaced(window, findings):
        window.mark(k, layout.OUT_OF_RANGE)
    return shifts


LOG_END = "log_end"
"""Among the values of a finding: the end that other files know, by which the last base offset of a log is judged."""


def unknown() -> None:
    """Nobody knows where the log ends."""


class OffsetFold:
    """Judges the offsets of a log's batches in file order.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        segment: base offset of the file, layout.UNKNOWN when it has none.
        next_base: base offset of the next segment; None where there is none, or nobody knows.
        known_end: tells the highest offset at which other files know the last segment to end; None where none does.

    Attributes:
        last: the last offset that is known to be right, None before the first batch.
        when_free: is told the offsets that damage leaves free before a right batch, or that a log lacks at its start:
            first, last (None before a legacy wrapper) and the position of the batch.

    Reports: O01-O04, B07.
    """

    def __init__(
        self,
        file: str,
        report: Report,
        segment: int,
        next_base: int | None,
        known_end: Callable[[], int | None] = unknown,
    ) -> None:
        self._file = file
        self._report = report
        self._segment = segment
        self._next_base = next_base
        self._known_end = known_end
        self._good: HeaderFacts | None = None
        self._held: HeaderFacts | None = None
        self._lost = False  # bytes or a batch that cannot be trusted lie before the next batch
        self._proven = True  # the good batch follows another one, not damage
        self._is_end = False  # of the log: no batch comes any more
        self._end = next_base  # where the last batch must end
        self.when_free: Callable[[int, int | None, int], None] = lambda _first, _last, _position: None

    @property
    def state(self) -> tuple[object, ...]:
        """What it holds."""
        return self._good, self._held, self._lost, self._proven

    def resume(self, state: tuple[Any, ...]) -> None:
        """Go on from what another one held."""
        self._good, self._held, self._lost, self._proven = state

    @property
    def last(self) -> int | None:
        """The last offset that is known to be right."""
        return None if self._good is None else self._good.last

    @property
    def is_settled(self) -> bool:
        """Whether no batch waits for the next one to be judged."""
        return self._held is None

    def is_next(self, first: int) -> bool:
        """Whether a batch with this base offset is the next one, and nothing waits for it."""
        return self._held is None and self._good is not None and first == self._good.last + 1

    def skip(self, last: HeaderFacts, position: int) -> None:
        """Move on to the last of three or more batches that are right, and of which each adjoins the one before it.

        Args:
            last: it.
            position: of the first of them, bytes.
        """
        if self._lost and self._good is not None:
            self.when_free(self._good.last + 1, self._good.last, position)
        self._good, self._held, self._lost, self._proven = last, None, False, True  # by the one right before it

    def after_loss(self) -> None:
        """Expect missing offsets: bytes were lost before the next batch."""
        self._settle(None)
        self._lost = True

    def push(self, one: HeaderFacts) -> None:
        """Take the next batch."""
        if self._held is not None:
            self._settle(one)
        if not one.trusted:
            self._lost = True  # its offsets are as good as its bytes: neither believed nor blamed
            return
        if self._in_range(one) and (self._may_begin(one) if self._good is None else self._may_follow(one)):
            if self._lost or self._good is None:
                self._accept(one)
            else:
                self._good, self._proven = one, True
        else:
            self._held = one
            return
        self._lost = False

    def finish(self) -> None:
        """There is no next batch."""
        self._is_end = True
        if self._held is not None and self._next_base is None:
            self._end = self._known_end()
        self._settle(None)

    def _accept(self, one: HeaderFacts) -> None:
        """The next batch that is right; before it offsets are free where something is lost, or nothing was before."""
        if self._lost or self._good is None:
            first = self._segment if self._good is None else self._good.last + 1
            self.when_free(first, None if one.first is None else one.first - 1, one.position)
        self._good, self._proven = one, not self._lost

    def _in_range(self, one: HeaderFacts) -> bool:
        first = one.last if one.first is None else one.first
        if first < 0 or first + _span(one) > layout.LARGEST_OFFSET:
            return False
        if self._segment == layout.UNKNOWN:
            return True
        return first >= self._segment and one.last - self._segment <= layout.MAX_INT

    def _may_begin(self, one: HeaderFacts) -> bool:
        """Whether nothing speaks against this as the first batch: its offset is that of the file, or not known."""
        return self._lost or one.first in (None, self._segment)

    def _may_follow(self, one: HeaderFacts) -> bool:
        return self._follows(one) and (self._lost or self._adjoins(one))

    def _follows(self, one: HeaderFacts) -> bool:
        return self._good is None or (one.last if one.first is None else one.first) > self._good.last

    def _adjoins(self, one: HeaderFacts) -> bool:
        return self._good is not None and one.first == self._good.last + 1

    def _settle(self, after: HeaderFacts | None) -> None:
        """Judge the held batch by the good one before it and the one after it."""
        held, self._held = self._held, None
        if held is None:
            return
        if not self._in_range(held):
            self._out_of_range(held, after)
        elif self._good is None:
            self._first(held, after)
        elif self._fits_before_the_end(held):
            self._wrong(held, after)
        elif self._adjoins(held) or (self._follows(held) and _is_before(held, after)):
            self._gap(held)
            self._accept(held)
            self._lost = False
        elif self._follows(held) and after is not None and self._follows(after) and self._is_blamed(held, after):
            self._wrong(held, after)  # too high: the next batch follows the good one
        elif self._follows(held):
            self._gap(held)
            self._accept(held)
            self._lost = False
        else:
            self._wrong(held, after)
            if after is not None and not self._follows(after):
                self._accept(held)  # offsets continue from the lower one

    def _first(self, held: HeaderFacts, after: HeaderFacts | None) -> None:
        """Judge the first batch of a log, which lies above the base offset of the file.

        Compaction leaves it so. It is wrong only when the batch after it is not above it and says what it was.
        """
        is_wrong = self._fits_before_the_end(held) or not _is_before(held, after)
        if is_wrong and self._expected(held, after) is not None:
            self._wrong(held, after)
        else:
            self._accept(held)
            self._lost = False

    def _fits_before_the_end(self, held: HeaderFacts) -> bool:
        """Whether one bit of the last batch, which reaches into the next segment, makes it end right before that.

        Or before the end that other files know. No log had an end between two of its batches, but after a truncation.
        """
        if not self._is_end or self._end is None or self._lost or held.first is None:
            return False
        first = self._segment if self._good is None else self._good.last + 1
        fits = first + _span(held) + 1 == self._end and held.first != self._end
        return fits and held.last >= self._end and (first ^ held.first).bit_count() == 1

    def _is_blamed(self, held: HeaderFacts, after: HeaderFacts) -> bool:
        """Whether the held batch is the wrong one of two. A wrapper may hold any offsets: it needs a reason."""
        return held.first is not None or self._expected(held, after) is not None

    def _gap(self, held: HeaderFacts) -> None:
        if self._good is None or self._lost or held.first is None or self._adjoins(held):
            return
        first, last = self._good.last + 1, held.first - 1
        self._report(
            Finding(
                Code.O04,
                self._file,
                held.position,
                0,
                offset=first,
                last_offset=last,
                values={"missing_first": first, "missing_last": last},
            )
        )

    def _out_of_range(self, held: HeaderFacts, after: HeaderFacts | None) -> None:
        first = held.last if held.first is None else held.first
        below = first < max(self._segment, 0)
        if not below and self._adjoins(held):
            self._delta(held, after)
            return
        of_file = f"the base offset {self._segment} of the file"
        if below:
            why = "is negative" if self._segment == layout.UNKNOWN else f"is below {of_file}"
        elif first + _span(held) > layout.LARGEST_OFFSET:
            why = "leaves no offset for what follows its batch"
        else:
            why = f"is too far above {of_file}"
        self._blame(Code.O01 if below else Code.O02, held, after, first, {"why": why})

    def _wrong(self, held: HeaderFacts, after: HeaderFacts | None) -> None:
        first = held.last if held.first is None else held.first
        log_end = None
        if self._good is not None and first <= self._good.last:
            why = f"is not above the last offset {self._good.last} before it"
        elif after is not None:
            why = "lies above the batch after it"
        elif self._next_base is not None:
            why = f"lets its batch reach into the next segment, which begins at {self._next_base}"
        else:
            log_end = self._end
            why = f"lies above the end of the log by its other files, {log_end}, where this batch fits exactly"
        self._blame(Code.O03, held, after, first, {"why": why, LOG_END: log_end})

    def _blame(
        self,
        code: Code,
        held: HeaderFacts,
        after: HeaderFacts | None,
        found: int,
        values: dict[str, int | str | None],
    ) -> None:
        expected = self._expected(held, after)
        self._report(
            Finding(
                code,
                self._file,
                held.position,
                held.size,
                offset=held.first,
                last_offset=_last_of(held),
                field="baseOffset",
                found=found,
                expected=expected,
                values=values,
            )
        )
        # The batch itself is there: its offsets are not missing too.
        if expected is not None and held.first is not None:
            self._accept(held._replace(first=expected, last=expected + _span(held)))
        else:
            self._lost = True

    def _delta(self, held: HeaderFacts, after: HeaderFacts | None) -> None:
        """The base offset follows, the last offset cannot be: lastOffsetDelta is wrong under the right CRC."""
        assert held.first is not None
        expected = after.first - 1 - held.first if after is not None and after.first is not None else None
        self._report(
            Finding(
                Code.B07,
                self._file,
                held.position,
                held.size,
                offset=held.first,
                last_offset=_last_of(held),
                field="lastOffsetDelta",
                found=_span(held),
                expected=expected,
            )
        )
        self._lost = True  # its last offset is not known: those after it are not missing too

    def _expected(self, held: HeaderFacts, after: HeaderFacts | None) -> int | None:
        """The base offset that fits both neighbours; with one only where a single bit differs, or it is the file's.

        Where that one is the batch before it, behind damage, one wrong bit in either looks the same.
        """
        delta = _span(held)
        by_before = None
        if self._good is not None and not self._lost and held.first is not None:
            by_before = self._good.last + 1
        by_after = None
        if after is not None and after.trusted and after.first is not None:
            by_after = after.first - delta - 1
        elif self._fits_before_the_end(held):
            by_after = (self._end or 0) - delta - 1
        if not all(one is None or 0 <= one <= layout.LARGEST_OFFSET - max(0, delta) for one in (by_before, by_after)):
            return None
        if by_before is not None and by_after is not None:
            return by_before if by_before == by_after else None
        one = by_before if by_before is not None and self._proven else by_after
        found = held.last if held.first is None else held.first
        if one is None:
            return None
        is_files = self._good is None and one == self._segment
        return one if is_files or (one ^ found).bit_count() == 1 else None


def _span(one: HeaderFacts) -> int:
    """How far the last offset lies above the first, also where their sum was no long any more; 0 where nobody knows."""
    if one.first is None:
        return 0
    return (one.last - one.first + 2**31) % 2**64 - 2**31  # lastOffsetDelta is an int


def _last_of(one: HeaderFacts) -> int | None:
    """The last offset; None where there is no such number."""
    return one.last if one.first is None or one.first + _span(one) == one.last else None


def _is_before(held: HeaderFacts, after: HeaderFacts | None) -> bool:
    """Whether a batch lies below the next one, or nobody knows."""
    return after is None or not after.trusted or held.last < (after.last if after.first is None else after.first)
