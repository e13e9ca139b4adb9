"""Transactions as the cleaner meets them: which were aborted, and of which nothing is left but the end marker."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kdump.broker.producer.end_markers import Marker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.index.transaction_index import AbortedTxn


class CleanedTransactions:
    """Follows transactions from batch to batch.

    Source: CleanedTransactionMetadata.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int]] = []  # first offset and producer of aborted transactions
        self._aborted: dict[int, bool] = {}  # ongoing ones by producer: whether a batch of it was met
        self._committed: set[int] = set()  # producers with batches in a transaction that was not aborted

    def add(self, aborted: Iterable[AbortedTxn]) -> None:
        """Take aborted transactions that may come."""
        for one in aborted:
            heappush(self._waiting, (one.first_offset, one.producer_id))

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            self._aborted.setdefault(heappop(self._waiting)[1], False)

    def control(self, producer: int, last_offset: int, marker: Marker | str | None) -> bool:
        """Take a control batch; return whether nothing is left of its transaction.

        Args:
            producer: its id.
            last_offset: of the batch.
            marker: what it holds: an end marker, something else, or nothing.
        """
        self._begin_up_to(last_offset)
        if marker is None:
            return True
        if not isinstance(marker, Marker):
            return False
        if marker.is_abort:
            return not self._aborted.pop(producer, False)
        was_met = producer in self._committed
        self._committed.discard(producer)
        return not was_met

    def data(self, producer: int, last_offset: int) -> bool:
        """Take a batch inside of a transaction; return whether that was aborted."""
        self._begin_up_to(last_offset)
        if producer in self._aborted:
            self._aborted[producer] = True
            return True
        self._committed.add(producer)
        return False
