"""The transactions of the logs of a directory, folded: from the first batch of a producer to its marker."""

from __future__ import annotations

from bisect import bisect_left
from heapq import nsmallest
from typing import TYPE_CHECKING

from kdump.figures import EndedTransactions, OpenTransaction
from kdump.format.batch import layout
from kdump.format.record.reader import key_and_value

if TYPE_CHECKING:
    from array import array

    from kdump.format.record.chunk import Chunk

MOST_OPEN = 100_000  # open transactions that are followed
MOST_SHOWN = 1000  # of them
_TYPE_AT = 2  # in the key of a marker
_ABORT, _COMMIT = b"\0\0", b"\0\1"


class Transactions:
    """Follows transactions.

    Attributes:
        committed, aborted: those that ended.
        complete: all open ones could be followed.
    """

    def __init__(self) -> None:
        self.committed, self.aborted = Ended(), Ended()
        self.complete = True
        self._open: dict[int, list[int]] = {}  # by producer: the fields of OpenTransaction without its id
        self._marked: tuple[int, int] | None = None  # the control batch whose marker was read

    @property
    def open_count(self) -> int:
        """How many are open."""
        return len(self._open)

    def oldest(self) -> tuple[OpenTransaction, ...]:
        """Return the open ones that began first."""
        oldest = nsmallest(MOST_SHOWN, self._open.items(), key=lambda one: one[1][1])
        return tuple(OpenTransaction(producer, *fields) for producer, fields in oldest)

    def add(self, chunk: Chunk) -> None:
        """Take the batches of a chunk into account."""
        width = layout.RECORD_WIDTH
        batches = chunk.rows[layout.R_BATCH : chunk.filled * width : width]
        for k in range(chunk.first, chunk.last):
            batch = chunk.window.row(k)
            attributes = batch[layout.ATTRIBUTES]
            if batch[layout.MAGIC] < layout.MAGIC_V2 or not attributes & layout.TRANSACTIONAL_FLAG:
                continue
            if not attributes & layout.CONTROL_FLAG:
                if k > chunk.first or not chunk.begun:
                    self._data(batch)
                continue
            i = bisect_left(batches, k)
            this = batch[layout.POSITION], batch[layout.BASE_OFFSET]
            if i < chunk.filled and batches[i] == k and this != self._marked:
                self._marked = this
                self._marker(batch, chunk.view, chunk.rows[i * width : (i + 1) * width])

    def _data(self, batch: array[int]) -> None:
        producer = batch[layout.PRODUCER_ID]
        fields = self._open.get(producer)
        if fields is None:
            if len(self._open) >= MOST_OPEN:
                self.complete = False
                return
            first = batch[layout.BASE_OFFSET], batch[layout.BASE_TIMESTAMP]
            self._open[producer] = fields = [batch[layout.PRODUCER_EPOCH], *first, 0, 0, 0]
        fields[3] += 1
        fields[4] += batch[layout.COUNT]
        fields[5] += batch[layout.SIZE]

    def _marker(self, batch: array[int], view: memoryview, record: array[int]) -> None:
        key, _ = key_and_value(view, record)
        kind = (key or b"")[_TYPE_AT : _TYPE_AT + 2]
        if kind not in (_ABORT, _COMMIT):
            return
        ended = self.aborted if kind == _ABORT else self.committed
        ended.add(self._open.pop(batch[layout.PRODUCER_ID], None), record[layout.R_TIMESTAMP])


class Ended:
    """Adds up transactions that ended in one way."""

    def __init__(self) -> None:
        self._count = self._batches = self._records = self._size = self._timed = self._total = 0
        self._shortest: int | None = None
        self._longest: int | None = None

    def add(self, fields: list[int] | None, timestamp: int) -> None:
        """Take a transaction into account.

        Args:
            fields: of OpenTransaction without its id; None where its data is not there.
            timestamp: of its marker, ms.
        """
        self._count += 1
        if fields is None:
            return
        _, _, begun, batches, records, size = fields
        self._batches += batches
        self._records += records
        self._size += size
        took = timestamp - begun
        self._timed += 1
        self._total += took
        self._shortest = took if self._shortest is None else min(self._shortest, took)
        self._longest = took if self._longest is None else max(self._longest, took)

    def figures(self) -> EndedTransactions:
        """Return what all that was added comes to."""
        totals = self._count, self._batches, self._records, self._size, self._timed
        return EndedTransactions(*totals, self._shortest, self._longest, self._total)
