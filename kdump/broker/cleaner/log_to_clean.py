"""What one pass of the log cleaner is to do, with what, and how it fails."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol

from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.source import Source


class CleaningError(Exception):
    """The pass fails here: a broker marks the partition as uncleanable.

    Attributes:
        why: what the cleaner throws, or what of ours kept the records from being read.
        number, position: of the segment, and the byte of the batch.
        limit: it is a limit of ours.
    """

    def __init__(self, why: str, number: int, position: int, *, limit: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.number = number
        self.position = position
        self.limit = limit


class LastRecord(Value):
    """What a broker knows of an active producer: its last offset with data, None for none, and its epoch."""

    offset: int | None
    epoch: int


class Logs(Protocol):
    """Gives what the cleaner reads, by the number of a segment."""

    def log(self, number: int) -> Source:
        """Return the log; it stays open until the next is asked for."""

    def position(self, number: int, offset: int) -> int:
        """Return where the offset index says to look for an offset."""

    def aborted(self, number: int, upper_bound: int) -> Iterable[AbortedTxn]:
        """Return the aborted transactions from a segment on that begin below an offset."""


class Round(Value):
    """What one pass is to do.

    Args:
        bases: base offsets of all segments.
        modified: times of their .log files, ms.
        first_dirty_offset, end: of the part that is to be cleaned; `end` is the base offset of a segment.
        now: the clock, ms.
        delete_retention_ms: of the topic.
        producers: the active ones by their id.
        max_uncompressed_bytes, max_batch_bytes: limits; a pass ends at a batch over them.
    """

    bases: list[int]
    modified: list[int]
    first_dirty_offset: int
    end: int
    now: int
    delete_retention_ms: int
    producers: Mapping[int, LastRecord]
    max_uncompressed_bytes: int
    max_batch_bytes: int

    @property
    def legacy_horizon(self) -> int:
        """Up to which time of its file a segment loses its tombstones of magic 0 and 1."""
        clean = bisect_right(self.bases, self.first_dirty_offset - 1)
        return self.modified[clean - 1] - self.delete_retention_ms if clean else 0
