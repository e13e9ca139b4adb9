"""What the headers of a log say of it as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.cleaner import trusted_time
from kdump.format import layout
from kdump.format.kafkawalk import KafkaWalk

if TYPE_CHECKING:
    from kdump.format.source import Source
    from kdump.format.window import Buffer


class Outline(NamedTuple):
    """What the headers of a log say of it as a whole.

    Args:
        largest: the largest timestamp of the batches with the right CRC, ms; -1 for none.
        end_offset: the offset after the last batch; None where there is none.
        is_sound: all bytes belong to batches, and all of these have the right CRC.
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
    largest, end, is_sound = -1, None, True
    for window in walk.windows():
        largest = max(largest, trusted_time(window))
        end = window.cell(window.count - 1, layout.LAST_OFFSET) + 1
        is_sound = is_sound and window.all_trusted
    return Outline(largest, end, is_sound and walk.failure is None and walk.position == log.size)
