"""The results of a lookup: a batch, a record, or an exception of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.record.chunk import OVER_LIMIT
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Chunk, RecordProblem
    from kdump.format.record.reader import RecordReader

NO_TIMESTAMP = -1


class Refused(Value):
    """There is no answer: the broker throws, or what it answers was not looked at."""

    exception: str  # class and message, as Java prints them
    # number of the segment and position of the batch whose records are the reason; None for another reason
    place: tuple[int, int] | None = None
    limit: str = ""  # the option of ours that kept those records from being read; empty when the broker throws


class FoundBatch:
    """A batch that was met.

    Args:
        segment: number of its segment in the partition.
        window, k: where it is.
    """

    __slots__ = ("segment", "window")

    def __init__(self, segment: int, window: Window, k: int) -> None:
        self.segment = segment
        self.window = window.batch(k)  # the batch alone, with its bytes; valid until the next lookup

    def cell(self, column: int) -> int:
        """Return one value of the batch's row."""
        return self.window.rows[column]


class FoundRecord(Value):
    """A record that answers a question about time; `offset` alone for a question about the log's ends."""

    timestamp: int  # ms; -1 for the ends of a log
    offset: int  # absolute
    epoch: int | None  # leader epoch, None when there is none
    batch: FoundBatch | None = None  # where the record is; None for the ends of a log


def find_record(
    reader: RecordReader,
    batch: FoundBatch,
    wanted: Callable[[int, int], bool],
    judge: Callable[[Chunk], None] | None = None,
) -> FoundRecord | Refused | None:
    """Return the first record of a batch that is wanted; Refused where its records end early before that.

    Args:
        reader: reads the records.
        batch: the batch.
        wanted: decides by timestamp (ms) and offset (absolute).
        judge: is shown all of the records; None: what comes after the record is not read.
    """
    found: FoundRecord | Refused | None = None
    for chunk in reader.chunks(batch.window):
        if found is None:
            found = _first(chunk, batch, wanted)
        if judge is not None:
            judge(chunk)
        elif found is not None:
            return found
    return found


def _first(chunk: Chunk, batch: FoundBatch, wanted: Callable[[int, int], bool]) -> FoundRecord | Refused | None:
    width = layout.RECORD_WIDTH
    rows, stop = chunk.rows, chunk.filled * width
    pairs = zip(rows[layout.R_TIMESTAMP : stop : width], rows[layout.R_OFFSET : stop : width], strict=True)
    for time, offset in pairs:
        if wanted(time, offset):
            epoch = batch.cell(layout.LEADER_EPOCH)
            return FoundRecord(time, offset, epoch if epoch >= 0 else None, batch)
    problem = chunk.problem
    if problem is None:
        return None
    limit = limit_of(batch.window, problem)
    return Refused(problem.java, (batch.segment, batch.cell(layout.POSITION)), limit)


def limit_of(window: Window, problem: RecordProblem) -> str:
    """Return the option that kept records from being read; empty where they are damaged.

    Args:
        window: where the batch is.
        problem: why its records end early.
    """
    if problem.status == OVER_LIMIT:  # or too short to be a batch
        return "--max-batch-bytes" if window.cell(problem.batch, layout.SIZE) >= layout.RECORDS_AT else ""
    return "--max-uncompressed-bytes" if problem.codec is not None and problem.codec.code is Code.C03 else ""
