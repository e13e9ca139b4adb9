"""The right offsets of a window's batches, by what a checked walk has found about them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.finding import Finding
    from kdump.format.batch.window import Window


def misplaced(window: Window, findings: Iterable[Finding]) -> Iterator[tuple[int, int]]:
    """Yield the batches of a window whose right base offset is known: number of the row, and what is to be added.

    Args:
        window: batches of a log.
        findings: that a checked walk has made about them.
    """
    for finding in findings:
        if isinstance(finding.expected, int):
            for k in _row_of(window, finding):
                yield k, finding.expected - window.stored_offset(k)


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
