"""What a lookup gives: a batch, a record, or what a broker throws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format import layout
from kdump.format.window import Window
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.format.records import RecordReader

NO_TIMESTAMP = -1


class Refused(Value):
    """The broker throws: class and message, as Java prints them."""

    exception: str


class Batch:
    """A batch that was met.

    Args:
        segment: number of its segment in the partition.
        window, k: where it is.

    Attributes:
        segment: the same.
        window: the batch alone, with its bytes; valid until the next lookup.
    """

    __slots__ = ("segment", "window")

    def __init__(self, segment: int, window: Window, k: int) -> None:
        row = window.rows[k * layout.BATCH_WIDTH : (k + 1) * layout.BATCH_WIDTH]
        self.segment = segment
        self.window = Window(window.view, window.origin, row, 1, window.whole)

    def cell(self, column: int) -> int:
        """Return one value of the batch's row."""
        return self.window.rows[column]


class Found(Value):
    """A record that answers a question about time; `offset` alone for a question about the log's ends.

    Args:
        timestamp: ms; -1 for the ends of a log.
        offset: absolute.
        epoch: leader epoch, None when there is none.
        batch: where the record is; None for the ends of a log.
    """

    timestamp: int
    offset: int
    epoch: int | None
    batch: Batch | None = None


def find_record(reader: RecordReader, batch: Batch, wanted: Callable[[int, int], bool]) -> Found | Refused | None:
    """Return the first record of a batch that is wanted; Refused where its records end early before that.

    Args:
        reader: reads the records.
        batch: the batch.
        wanted: decides by timestamp (ms) and offset (absolute).
    """
    width = layout.RECORD_WIDTH
    for chunk in reader.chunks(batch.window):
        rows, stop = chunk.rows, chunk.filled * width
        pairs = zip(rows[layout.R_TIMESTAMP : stop : width], rows[layout.R_OFFSET : stop : width], strict=True)
        for time, offset in pairs:
            if wanted(time, offset):
                epoch = batch.cell(layout.LEADER_EPOCH)
                return Found(time, offset, epoch if epoch >= 0 else None, batch)
        if chunk.problem is not None:
            return Refused(chunk.problem.java)
    return None
