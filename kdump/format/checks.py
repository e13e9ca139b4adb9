"""The folds that judge batches by their headers and their neighbours, fed by one walk.

Strategy: the scan has marked every header that breaks a cheap rule. Of a window without marks the folds look at the
last row only, when it goes on where they are; else at the first rows too, which settle what they hold. Of the others
they look at each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.format import _scan, layout
from kdump.format.epochs import EpochFold
from kdump.format.headers import check_header
from kdump.format.offsets import OffsetFold
from kdump.format.sequences import SequenceFold

if TYPE_CHECKING:
    from kdump.finding import Report
    from kdump.format.window import Window

_ORDER = layout.NOT_ABOVE | layout.GAP | layout.OUT_OF_RANGE | layout.EPOCH_CHANGES
_HEADER = layout.ODD_CODEC | layout.ODD_ATTRIBUTES | layout.ODD_DELTA | layout.ODD_COUNT | layout.ODD_FLAGS


_SEAM = 2  # rows after which nothing of the window before is in doubt


class Element(NamedTuple):
    """What the folds look at of one batch.

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


def element(window: Window, k: int) -> Element:
    """Return row k of a window as an element."""
    at = k * layout.BATCH_WIDTH
    rows = window.rows
    legacy = rows[at + layout.MAGIC] < layout.MAGIC_V2
    first: int | None = rows[at + layout.BASE_OFFSET]
    if legacy and rows[at + layout.ATTRIBUTES] & layout.CODEC_MASK:
        first = None
    return Element(
        rows[at + layout.POSITION],
        rows[at + layout.SIZE],
        first,
        rows[at + layout.LAST_OFFSET],
        None if legacy else rows[at + layout.LEADER_EPOCH],
        rows[at + layout.CRC] == rows[at + layout.COMPUTED_CRC],
    )


def _one_format(window: Window) -> bool:
    """Whether all batches have leader epochs, or none: the scan compares only those that have one."""
    lowest, highest = _scan.extremes(window.rows, window.count, layout.MAGIC)
    return lowest >= layout.MAGIC_V2 or highest < layout.MAGIC_V2


class Checks:
    """All folds over the headers of one log.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        segment: base offset of the file, layout.UNKNOWN when it has none.

    Attributes:
        follow_producers: look at sequences; off for topics where they say nothing.

    Reports: B05-B09, B11, O01-O05, E01-E03, P01, P02.
    """

    def __init__(self, file: str, report: Report, segment: int) -> None:
        self._file = file
        self._report = report
        self.offsets = OffsetFold(file, report, segment)
        self.epochs = EpochFold(file, report)
        self._sequences = SequenceFold(file, report)
        self.follow_producers = True

    def step(self, window: Window) -> None:
        """Take the next batches."""
        bits = window.suspicions
        if bits & _HEADER:
            self._headers(window)
        all_trusted = window.all_trusted
        if self.follow_producers and (bits & (layout.HAS_PRODUCER | layout.GAP) or not all_trusted):
            self._sequences.step(window)
        start = 0
        if window.count > _SEAM and not bits & _ORDER and all_trusted and _one_format(window):
            start = window.count - 1
            last = element(window, start)
            goes_on = self.offsets.is_next(window.cell(0, layout.BASE_OFFSET)) and self.epochs.is_same(last.epoch)
            if goes_on and last.first is not None:
                self._skip(last)
                return
            for k in range(_SEAM):
                self._push(element(window, k))
            self._skip(element(window, start - 1))
        for k in range(start, window.count):
            self._push(element(window, k))

    def _push(self, one: Element) -> None:
        self.offsets.push(one)
        self.epochs.push(one)

    def _skip(self, one: Element) -> None:
        self.offsets.skip(one)
        self.epochs.skip(one)

    def gap(self) -> None:
        """A gap of bytes: what comes next may leave out offsets and sequences."""
        self.offsets.after_loss()
        self._sequences.forget()

    def finish(self) -> None:
        """Settle what waits for a next batch: there is none."""
        self.offsets.finish()
        self.epochs.finish()

    def _headers(self, window: Window) -> None:
        for k, bits in enumerate(window.column(layout.SUSPICION)):
            if bits & _HEADER and window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC):
                for finding in check_header(self._file, window, k):
                    self._report(finding)
