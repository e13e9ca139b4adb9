"""What the headers of a log say of it as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import _scan, layout

if TYPE_CHECKING:
    from kdump.format.batch.window import Buffer, Window
    from kdump.format.source import Source

_NO_TIME = -1

_ODD = (
    layout.NOT_ABOVE | layout.ODD_MAGIC | layout.ODD_CODEC | layout.ODD_DELTA | layout.ODD_COUNT | layout.OUT_OF_RANGE
)


class Outline(NamedTuple):
    """What the headers of a log say of it as a whole.

    Args:
        largest: the largest timestamp of the batches with the right CRC, ms; -1 for none.
        end_offset: the offset after the last batch; None where there is none.
        is_sound: all bytes belong to batches, and these look right.
    """

    largest: int
    end_offset: int | None
    is_sound: bool


def outline(log: Source, buffer: Buffer, max_batch_bytes: int) -> Outline:
    """Read the headers of a log, as far as a broker could.

    Args:
        log: the log.
        buffer: to read into.
        max_batch_bytes: a batch over this is not held in memory.

    Raises:
        OSError: it cannot be read.
    """
    buffer.source = log
    walk = KafkaWalk(log, log.name, 0, log.size, max_batch_bytes, buffer)
    largest, end, is_sound = _NO_TIME, None, True
    for window in walk.windows():
        largest = max(largest, trusted_time(window))
        end = window.cell(window.count - 1, layout.LAST_OFFSET) + 1
        is_sound = is_sound and looks_right(window)
    return Outline(largest, end, is_sound and walk.failure is None and walk.position == log.size)


def trusted_time(window: Window) -> int:
    """Return the largest timestamp of the batches with the right CRC, -1 for none."""
    times = window.column(layout.MAX_TIMESTAMP)
    if not window.all_trusted:
        right = zip(times, window.column(layout.CRC), window.column(layout.COMPUTED_CRC), strict=True)
        return max((time for time, stored, computed in right if stored == computed), default=_NO_TIME)
    return max(times, default=_NO_TIME)


def looks_right(window: Window) -> bool:
    """Whether the CRC of each batch is right, and its header no reason to look closer."""
    return window.all_trusted and not _scan.suspicions(window.rows, window.count) & _ODD
