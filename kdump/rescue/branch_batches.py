"""The batches of one copy as a branch: one behind the other, without what the copy has twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.rescue.line import Candidate
from kdump.rescue.partings import BranchBatch
from kdump.rescue.valid_runs import batches_of, first_offset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.read_limits import ReadLimits
    from kdump.rescue.line import Line
    from kdump.rescue.scanned_log import ReadLog


class CopyBatches:
    """Goes through the batches of a copy, read again each time.

    Args:
        line: of the copy alone.
        read: all logs, by their numbers.
        limits: for reading.
    """

    def __init__(self, line: Line, read: Sequence[ReadLog], limits: ReadLimits) -> None:
        self._line = line
        self._read = read
        self._limit = limits.max_batch_bytes

    def __iter__(self) -> Iterator[BranchBatch]:
        """Read the batches of the copy again."""
        for run in self._line.runs:
            one = self._read[run.log]
            for window in batches_of(one.source, run.start, run.end, self._limit):
                for k in range(window.count):
                    first, last = first_offset(window, k, one.facts.wrappers), window.cell(k, layout.LAST_OFFSET)
                    epoch, crc = window.cell(k, layout.LEADER_EPOCH), window.cell(k, layout.CRC)
                    side = Candidate(
                        one.copy, run.log, window.cell(k, layout.POSITION), first, last, epoch=epoch, crc=crc
                    )
                    yield BranchBatch(first, last, epoch, (crc, window.cell(k, layout.SIZE)), side)
