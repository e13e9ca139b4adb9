"""The first batch of a log whose timestamp is in a wrong unit: seconds, microseconds or nanoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.words.time_units import in_its_unit, unit_of

if TYPE_CHECKING:
    from kdump.format.source import Source


def wrong_unit(log: Source, max_batch_bytes: int) -> tuple[int, int, int, int] | None:
    """Return position, size, base offset and timestamp of the first batch in a wrong unit; None for none.

    Args:
        log: of a segment.
        max_batch_bytes: a batch over this is not held in memory.

    Raises:
        OSError: it cannot be read.
    """
    for window in KafkaWalk(log, log.name, 0, log.size, max_batch_bytes).windows():
        for k, time in enumerate(window.column(layout.MAX_TIMESTAMP)):
            is_true = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
            if unit_of(time) is not None and is_true:
                place = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
                return *place, window.cell(k, layout.BASE_OFFSET), time
    return None


def unit_sentence(offset: int, timestamp: int) -> str:
    """Return what is said of a log: since when its timestamps are not in milliseconds, and what they look like."""
    return f"from offset {offset} on timestamps are not in milliseconds: {timestamp} {in_its_unit(timestamp)}"
