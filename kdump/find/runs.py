"""What is kept of the batches of a segment: runs, with the highest offset and time of each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kdump.format.batch import _scan, layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.format.batch.window import Window


class Run(NamedTuple):
    """Some true batches in a row, without anything between them.

    Args:
        position, end: bytes, half-open.
        first, last: the lowest and the highest offset that the batches claim.
        max_timestamp: of their records, ms; of a batch whose records are over a limit what its header says.
        magic: of one batch alone whose magic or length the file has wrong and the CRC has proven; its size is that of
            the run. None for batches that can be read as they are.
    """

    position: int
    end: int
    first: int
    last: int
    max_timestamp: int
    magic: int | None = None


class Runs:
    """The runs of a segment, with what finds one fast.

    Args:
        runs: in the order of the log.

    Attributes:
        runs: the same.
        ascend: no run begins below the end of one before it.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        self._lasts = array("q", accumulate((run.last for run in self.runs), max))
        self._times = array("q", accumulate((run.max_timestamp for run in self.runs), max))
        self.ascend = all(run.first > last for run, last in zip(self.runs[1:], self._lasts, strict=False))

    def reaching(self, offset: int) -> int:
        """Return the number of the first run with a last offset at or above this one."""
        return bisect_left(self._lasts, offset)

    def at_time(self, timestamp: int) -> Iterator[Run]:
        """Yield the runs that reach up to a time (ms since the epoch)."""
        return (run for run in self.runs[bisect_left(self._times, timestamp) :] if run.max_timestamp >= timestamp)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp, -1 for none."""
        return self._times[-1] if self.runs else -1


def proven_magic(window: Window) -> int | None:
    """Return the magic of a batch that the file has with another magic or length; None for all others.

    The checked walk hands such a batch out alone.
    """
    if window.count != 1:
        return None
    at = window.cell(0, layout.POSITION) - window.origin
    size = int.from_bytes(window.view[at + layout.SIZE_AT : at + layout.LOG_OVERHEAD], "big", signed=True)
    magic = int.from_bytes(window.view[at + layout.MAGIC_AT : at + layout.MAGIC_AT + 1], "big", signed=True)
    has = size + layout.LOG_OVERHEAD, magic
    proven = window.cell(0, layout.SIZE), window.cell(0, layout.MAGIC)
    return None if has == proven else proven[1]


def true_rows(window: Window) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows with the right CRC and offsets that can be those of the segment."""
    if window.all_trusted and not _scan.suspicions(window.rows, window.count) & layout.OUT_OF_RANGE:
        yield 0, window.count
        return
    start = 0
    for k in range(window.count):
        is_trusted = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
        if not is_trusted or window.cell(k, layout.SUSPICION) & layout.OUT_OF_RANGE:
            if start < k:
                yield start, k
            start = k + 1
    if start < window.count:
        yield start, window.count
