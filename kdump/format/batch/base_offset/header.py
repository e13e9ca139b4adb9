"""What is compared of a batch, and what lies before the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.value import TupleValue

if TYPE_CHECKING:
    from kdump.format.batch.window import Window


class HeaderFacts(TupleValue):
    """The fields of one batch that the folds compare."""

    # position, size: bytes
    position: int
    size: int
    first: int | None  # base offset; None for a compressed legacy wrapper, where it is not known
    last: int  # last offset
    epoch: int | None  # leader epoch; None below magic 2, which has none
    trusted: bool  # its CRC is right
    lacks_records: bool = False  # it has fewer records than offsets: a cleaner was at work
    is_wrapper: bool = False  # the first offset is not in the header of a legacy wrapper, but known by what is inside

    def field(self, first: int) -> int:
        """Return what the offset field of the header says where the batch has a base offset."""
        return first + self.span if self.is_wrapper else first

    def first_by(self, field: int) -> int:
        """Return the base offset that it has where the offset field of its header says this."""
        return field - self.span if self.is_wrapper else field

    @property
    def stored(self) -> int:
        """What the offset field of its header says."""
        return self.last if self.is_wrapper or self.first is None else self.first

    @property
    def begin(self) -> int:
        """The first offset that is known of it."""
        return self.last if self.first is None else self.first

    @property
    def span(self) -> int:
        """How far the last offset lies above the first, also where their sum was no long any more; 0 for a wrapper."""
        if self.first is None:
            return 0
        return (self.last - self.first + 2**31) % 2**64 - 2**31  # lastOffsetDelta is an int

    @property
    def true_last(self) -> int | None:
        """The last offset; None where there is no such number."""
        return self.last if self.first is None or self.first + self.span == self.last else None

    def is_above(self, before: HeaderFacts) -> bool:
        """Tell whether it lies above another one."""
        return self.begin > before.last


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
        lacks_records=not legacy and rows[at + layout.COUNT] <= rows[at + layout.LAST_OFFSET_DELTA],
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


class Waiting(TupleValue):
    """A batch that waits for those behind it to be judged."""

    batch: HeaderFacts  # its header
    is_lost: bool  # bytes are lost, or not to be trusted, between it and the batch before it
    may_be: bool  # its offsets can be those of its log
    may_be_right: bool = False  # it is wrong, or as likely another one
    is_borne: bool = False  # the header of a damaged batch beside it bears it out
    damaged: HeaderFacts | None = None  # the batch right before it, where its CRC is wrong


class Before(TupleValue):
    """What lies before the next batch."""

    segment: int  # base offset of the file, layout.UNKNOWN when it has none
    good: HeaderFacts | None = None  # the last batch whose offsets are right; None for none
    is_open: bool = False  # behind it lies something of which nobody knows how many offsets it had
    is_proven: bool = True  # it follows another right one, not damage

    @property
    def last(self) -> int | None:
        """The last offset that is right; None before the first batch."""
        return None if self.good is None else self.good.last

    @property
    def floor(self) -> int | None:
        """The last offset before the next batch: of the good one, or of the segment before; None where none is known.

        Where the name is above the first batch of a segment, the one before it has ended there.
        """
        if self.good is not None:
            return self.good.last
        return None if self.segment == layout.UNKNOWN else self.segment - 1

    def is_above(self, one: HeaderFacts) -> bool:
        """Tell whether it reaches to where a batch begins, or beyond: that one begins among the offsets before it."""
        return self.floor is not None and one.begin <= self.floor

    def adjoins(self, one: HeaderFacts) -> bool:
        """Tell whether a batch begins where the good one ends."""
        return self.good is not None and not self.is_open and one.first == self.good.last + 1

    def leads_to(self, one: HeaderFacts) -> bool:
        """Tell whether nothing speaks against a batch as the next one, or as the first one of the log."""
        if self.good is None:
            return not self.is_open and one.first == self.segment
        return self.adjoins(one)

    def may_have(self, one: HeaderFacts, reach: int) -> bool:
        """Tell whether the offsets of a batch can be those of the segment.

        Args:
            one: the batch.
            reach: how far above its base the segment is known to go; 0 where nobody has asked.
        """
        if one.begin < 0 or one.begin + one.span > layout.LARGEST_OFFSET:
            return False
        return self.segment == layout.UNKNOWN or 0 <= one.last - self.segment <= max(layout.MAX_INT, reach)


class LogEnd(TupleValue):
    """Where other files know a log to end, and how many of them say just that."""

    offset: int
    files: int = 1


class Ends(TupleValue):
    """Where a log goes on, or ends."""

    next_base: int | None  # base offset of the next segment; None where there is none, or nobody knows
    known: int | None = None  # where no batch comes any more: the next base, or where other files know the log to end
    filled: int | None = None  # the same, where the last batches fill the log up to there; else None
    files: int = 0  # how many other files know it to end there
    is_borne: bool = False  # its last batch fills it from where the leader-epoch-checkpoint begins the epoch of that
