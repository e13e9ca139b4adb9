"""A log that is exported, and a piece of one: what planners hand to those who read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from kdump.export.origin import Origin
    from kdump.format.batch.walk import Border


class LogFile(Value):
    """A log that is there."""

    path: str  # of it
    size: int  # bytes, when it was listed
    base_offset: int | None  # from the name; None where it has none
    next_base: int | None  # base offset of the segment after it, None for the last
    origin: Origin  # where it is from


class Split(Value):
    """A piece of a log: the batches that begin in [border.position, stop)."""

    log: LogFile  # the log
    border: Border  # where a batch begins, and what is known of those before it
    stop: int  # bytes; the end of the log when that is where the piece ends

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.border.position
