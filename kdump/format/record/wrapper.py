"""The first offset of a compressed wrapper of magic 0 or 1: its header has the last one only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.record.reader import RecordReader
from kdump.format.source import BytesSource

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
    header = log.read_at(position, layout.LOG_OVERHEAD)
    size = int.from_bytes(header[layout.SIZE_AT :], "big", signed=True) + layout.LOG_OVERHEAD
    if not layout.LOG_OVERHEAD < size <= limits.max_batch_bytes:
        return None
    data = log.read_at(position, size)
    walk = CheckedWalk(BytesSource(data, log.name), ignore, next_base=None, max_batch_bytes=limits.max_batch_bytes)
    reader = RecordReader.within(limits)
    for window in walk.windows():
        for chunk in reader.chunks(window.batch(0)):
            return chunk.rows[layout.R_OFFSET] if chunk.filled else None
    return None
