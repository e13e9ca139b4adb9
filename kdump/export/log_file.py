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


class BatchMark(Value):
    """A batch, by which the place behind it is found again without a search."""

    segment: int  # base offset of its segment
    position: int  # of its first byte
    size: int  # bytes
    header: int  # CRC-32 of its header
    inode: int  # of the log; 0 in a store
    epoch: int = -1  # its leader epoch, where the leader-epoch-checkpoint has said the same; else -1


class LogEdge(Value):
    """A place between two batches of the log of a partition."""

    offset: int  # of the next record
    mark: BatchMark | None = None  # the batch before it; None: it is searched for by its offset

    @property
    def first_needed(self) -> int:
        """The lowest offset of the logs that say whether it still holds."""
        return self.offset if self.mark is None else min(self.offset, self.mark.segment)


class Between(Value):
    """A range of the log of a partition; what is read of a stream."""

    first: LogEdge  # where it begins
    last: LogEdge  # where it ends


class Split(Value):
    """A piece of a log: the batches that begin in [border.position, stop)."""

    log: LogFile  # the log
    border: Border  # where a batch begins, and what is known of those before it
    stop: int  # bytes; the end of the log when that is where the piece ends
    between: Between | None = None  # of a stream: the range by offsets, by which it is found again where it is read

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.border.position
