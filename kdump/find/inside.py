"""The records of the batches that an answer depends on, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.found import find_record
from kdump.format import layout
from kdump.format.chunk import Chunk
from kdump.format.recordchecks import RecordChecks
from kdump.format.records import RecordReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.broker.found import Batch, Found, Refused
    from kdump.finding import Report
    from kdump.log.partition import Partition

_BY_KERNEL = layout.TIMES_VARY | layout.ODD_ORDER | layout.ODD_FIELDS


class Inside:
    """Reads records as far as they can be read, and judges all of those of a batch whichever is wanted.

    Args:
        partition: its segments.
        max_uncompressed_bytes, max_batch_bytes: limits.
        report: takes the findings.

    Reports: those of `RecordChecks`.
    """

    def __init__(self, partition: Partition, max_uncompressed_bytes: int, max_batch_bytes: int, report: Report) -> None:
        self._partition = partition
        self._reader = RecordReader(max_uncompressed_bytes, max_batch=max_batch_bytes)
        self._report = report
        self._checks = RecordChecks("")

    def find(self, batch: Batch, wanted: Callable[[int, int], bool]) -> Found | Refused | None:
        """Return the first record of a batch that is wanted; Refused where its records end early before that.

        Args:
            batch: the batch.
            wanted: decides by timestamp (ms) and offset (absolute).
        """
        rows = batch.window.rows  # what the kernel has noted of it: it may have been read before
        rows[layout.SEEN_MAX_TIMESTAMP], rows[layout.SEEN_DELTA] = layout.UNKNOWN, -1
        rows[layout.SUSPICION] &= ~_BY_KERNEL
        if not batch.window.whole and batch.cell(layout.SIZE) < layout.RECORDS_AT:  # no batch at all: the walk says so
            return find_record(self._reader, batch, wanted)
        self._checks = RecordChecks(self._partition.segment(batch.segment).path)
        return find_record(self._reader, batch, wanted, self._judge)

    def judge(self, batch: Batch) -> None:
        """Report what is wrong with the records of a batch."""
        self.find(batch, lambda _time, _at: False)

    def first_offset(self, batch: Batch) -> Found | Refused | None:
        """Return the first record of a batch."""
        return find_record(self._reader, batch, lambda _time, _at: True)

    def record(self, batch: Batch, offset: int) -> Chunk | None:
        """Return the record with an offset as a chunk of its own, without the batch; None when there is none."""
        width = layout.RECORD_WIDTH
        for chunk in self._reader.chunks(batch.window):
            for at in range(0, chunk.filled * width, width):
                if chunk.rows[at + layout.R_OFFSET] == offset:
                    return Chunk(batch.window, chunk.view, 0, 1, True, chunk.rows[at : at + width], 1)
        return None

    def _judge(self, chunk: Chunk) -> None:
        for finding in self._checks.check(chunk):
            self._report(finding)
