"""What was found, as answers: the place, or a sentence why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.lookup_results import Batch, Found, Refused
from kdump.format.batch import layout
from kdump.item import Location

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.find.batch_records import Inside
    from kdump.find.query import Query
    from kdump.find.sentences import Sentences
    from kdump.storage.partition_dir import PartitionDir


class Places:
    """Makes the answers of one partition, and has the records judged that they depend on.

    Args:
        partition: its segments.
        inside: judges records.
        sentences: say why there is no answer.
        batch_at: reads a batch again: number of the segment, position.

    Attributes:
        batch: segment and position of the batch of the latest answer, None for none.
        limited: records that were not read may have the answer to the question.
    """

    def __init__(
        self,
        partition: PartitionDir,
        inside: Inside,
        sentences: Sentences,
        batch_at: Callable[[int, int], Batch | Refused | None],
    ) -> None:
        self._partition = partition
        self._inside = inside
        self._sentences = sentences
        self._batch_at = batch_at
        self.batch: tuple[int, int] | None = None
        self.limited = False

    def start(self) -> None:
        """Another question begins."""
        self.batch = None
        self.limited = False

    def record(self, query: Query, found: Found | Refused | None, nothing: str) -> Location:
        """Return a record, or an end of the log, as the answer.

        Args:
            query: the question.
            found: the record; what is needed of its batch is read now, the next lookup takes its buffer.
            nothing: the sentence for None.
        """
        if found is None:
            return Location(query.text, error=nothing)
        if isinstance(found, Refused):
            return self.refused(query, found)
        if found.batch is None:
            return Location(query.text, found.offset, found.timestamp, found.epoch)
        self._inside.judge(found.batch)
        return self._place(query, found.batch, found.offset, found.timestamp)

    def in_batch(self, query: Query, batch: Batch) -> Location:
        """Return the first record of a batch at or after the offset that was asked for; null where there is none."""
        record = self._inside.find(batch, lambda _time, at: at >= query.number)
        found = (record.offset, record.timestamp) if isinstance(record, Found) else (None, None)
        return self._place(query, batch, *found)

    def refused(self, query: Query, refused: Refused) -> Location:
        """Return why there is no answer; what is wrong with the records that are the reason is reported."""
        path = ""
        if refused.place is not None:
            batch = self._batch_at(*refused.place)
            path = self._partition.segment(refused.place[0]).path
            if isinstance(batch, Batch):
                self._inside.judge(batch)
        self.limited |= bool(refused.limit)
        return Location(query.text, error=self._sentences.refused(refused, path))

    def _place(self, query: Query, batch: Batch, offset: int | None, timestamp: int | None) -> Location:
        base, epoch = batch.cell(layout.BASE_OFFSET), batch.cell(layout.LEADER_EPOCH)
        last, position = batch.cell(layout.LAST_OFFSET), batch.cell(layout.POSITION)
        if base < 0 and batch.cell(layout.MAGIC) < layout.MAGIC_V2:
            first = self._inside.first_offset(batch)
            base = first.offset if isinstance(first, Found) else last
        self.batch = (batch.segment, position)
        path = self._partition.segment(batch.segment).path
        return Location(query.text, offset, timestamp, epoch if epoch >= 0 else None, path, position, base, last)
