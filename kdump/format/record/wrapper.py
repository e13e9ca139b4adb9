"""The offsets inside a compressed wrapper of magic 0 or 1: its header has the last one only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.batch.window import Window, header_at
from kdump.format.record.reader import RecordReader

if TYPE_CHECKING:
    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source


def first_offset(log: Source, position: int, limits: ReadLimits) -> int | None:
    """Return the first offset of the legacy wrapper at a position, by its records; None where they cannot be read.

    Args:
        log: the log.
        position: bytes.
        limits: what is read at most.
    """
    found = offsets_inside(log, position, limits)
    return None if found is None else found[0]


def offsets_inside(log: Source, position: int, limits: ReadLimits) -> tuple[int, int] | None:
    """Return the first and the last offset inside a legacy wrapper; None where its records cannot be read.

    So it is too where the last one is below the first: what is inside was not written so.

    Those of magic 0 are what they were when it was written; those of magic 1 go by the offset in the header.

    Args:
        log, position, limits: as above.
    """
    row = header_at(log, position)
    if row is None or row[layout.SIZE] > limits.max_batch_bytes:
        return None
    data = log.read_at(position, row[layout.SIZE])
    if len(data) < row[layout.SIZE]:
        return None
    window = Window(memoryview(data), position, row, 1)
    window.fill_crcs()
    found = None
    for chunk in RecordReader.within(limits).chunks(window):
        if chunk.filled:
            last = chunk.rows[(chunk.filled - 1) * layout.RECORD_WIDTH + layout.R_OFFSET]
            found = chunk.rows[layout.R_OFFSET] if found is None else found[0], last
    return None if found is None or found[1] < found[0] else found
