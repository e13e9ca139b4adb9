"""ProducerStateManager during an append: producers and transactions, batch by batch.

`kdump.broker.producer.replay` replays segments in any order and never fails; here is the other replay, which throws
what a broker throws. Of batches between two end markers only the first and the last of each producer are looked at,
where that tells all that the others did.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kdump.broker.failure import BrokerError
from kdump.broker.producer.end_markers import Marker, marker_error, read_markers
from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.compat.kafka_record import OUT_OF_BOUNDS
from kdump.format.batch import _scan, layout
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
from kdump.format.index.transaction_index import AbortedTxn
from kdump.format.java_values import ARGUMENT
from kdump.format.kernels import wire
from kdump.format.record.chunk import KEPT

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable

    from kdump.broker.producer.replay import Producers
    from kdump.format.batch.window import Window

_STAGE = "producers"
_NONE = layout.NO_OFFSET
_NO_BATCH = (-1, _NONE, 0)  # last sequence, last offset, offset delta
_FEW = 2  # batches that are taken one by one
_STALE = 64  # offsets in the heap of transactions that have ended, besides as many as are ongoing
_WRONG_STATE = "org.apache.kafka.common.errors.InvalidTxnStateException"


class StateManager:
    """A broker's producers at one offset.

    Args:
        producers: what is known at the start.
        offset: where that is.
        partition: its name, for messages.
        txn_index: path of the transaction index, for messages; None where none is written, as in a load.
        max_uncompressed_bytes, max_batch_bytes: of a control batch; over them a broker is said to run out of memory.

        keeps_ends: transactions end at `finish` only, as in a load: a broker does not see before that two have begun at
            one offset. Where offsets ascend it makes no difference.

    Attributes:
        first_completed: the lowest first offset of a transaction that has ended, None when none has.

    Source: ProducerStateManager, ProducerAppendInfo, LogSegment.updateProducerState.
    """

    def __init__(
        self,
        producers: Producers,
        offset: int,
        partition: str,
        txn_index: str | None,
        max_uncompressed_bytes: int,
        max_batch_bytes: int,
        *,
        keeps_ends: bool = False,
    ) -> None:
        self.offset = offset  # after the last batch of magic 2: what a producer snapshot would be called
        self.aborted: list[AbortedTxn] = []  # the entries of the transaction index
        self.first_completed: int | None = None
        self._start = producers
        self._entries = dict(producers.entries)
        self._partition = partition
        self._txn_index = txn_index
        self._reader: KafkaRecordReader | None = None  # made for the first control batch
        self._ends: list[tuple[int, int, int, bool]] | None = [] if keeps_ends else None
        self._limits = max_uncompressed_bytes, max_batch_bytes
        self._open: dict[int, int] = {}  # first offset of the open transaction of each producer
        self._ongoing: dict[int, int] = {}  # producer by first offset, as a broker has it: one for each offset
        self._heap: list[int] = []  # the offsets in `_ongoing`, and some that are no longer there
        for producer, entry in producers.entries.items():
            if entry.current_txn_first_offset >= 0:
                self._begin(producer, entry.current_txn_first_offset)
            if not entry.has_batch:  # what a snapshot says of it then means nothing
                self._entries[producer] = ProducerStateEntry(*entry[:2], *_NO_BATCH, *entry[5:])

    def producers(self) -> Producers:
        """Return what is known now."""
        return self._start.replace(entries=dict(self._entries))

    def step(self, window: Window, stop: int) -> None:
        """Take the first `stop` batches of a window.

        Raises:
            BrokerError: a batch of which a broker throws; the ones before it have been taken, it has not, or as far as
                a broker takes it before it throws.
        """
        try:
            if _scan.suspicions(window.rows, stop) & layout.HAS_PRODUCER:
                self._batches(window, stop)
        except BrokerError as error:
            stop = error.row
            raise
        finally:
            magics = window.column(layout.MAGIC)
            while stop and magics[stop - 1] < layout.MAGIC_V2:
                stop -= 1
            if stop:
                self.offset = wire.add(window.cell(stop - 1, layout.LAST_OFFSET), 1)

    def _batches(self, window: Window, stop: int) -> None:
        ids, flags = window.column(layout.PRODUCER_ID)[:stop], window.column(layout.ATTRIBUTES)[:stop]
        start = 0
        if any(flag & layout.CONTROL_FLAG for flag in set(flags)):
            controls = [k for k, flag in enumerate(flags) if flag & layout.CONTROL_FLAG and ids[k] >= 0]
            self._reader = self._reader or KafkaRecordReader(self._limits[0], max_batch=self._limits[1], cut=KEPT)
            markers = read_markers(self._reader, window, controls)
            for k in controls:
                if start < k:
                    self._data_batches(window, ids[start:k], flags[start:k], start)
                self._control(window, k, markers.get(k))
                start = k + 1
        self._data_batches(window, ids[start:], flags[start:], start)

    def _data_batches(self, window: Window, ids: array[int], flags: array[int], start: int) -> None:
        """Take batches from row `start` on, control batches without producer among them."""
        numbers = range(start, start + len(ids))
        rows: Iterable[int] = numbers
        kinds = {flag & layout.TRANSACTIONAL_FLAG for flag in set(flags)} if len(ids) > _FEW else ()
        if len(kinds) == 1 and (0 not in kinds or self._open.keys().isdisjoint(ids)):
            first = dict(zip(reversed(ids), reversed(numbers), strict=True))
            rows = sorted({*first.values(), *dict(zip(ids, numbers, strict=True)).values()})
        for k in rows:
            if ids[k - start] >= 0:
                self._data(k, window.row(k))

    def _data(self, k: int, row: array[int]) -> None:
        """Source: ProducerAppendInfo.appendDataBatch."""
        producer, first, delta = row[layout.PRODUCER_ID], row[layout.BASE_OFFSET], row[layout.LAST_OFFSET_DELTA]
        entry = self._entry(producer)
        is_transactional = row[layout.ATTRIBUTES] & layout.TRANSACTIONAL_FLAG
        if producer in self._open and not is_transactional:
            where = f"at offset (offset={first}, segment=[-1:-1]) in partition {self._partition}"
            why = f"{_WRONG_STATE}: Expected transactional write from producer {producer} {where}"
            raise BrokerError(k, _STAGE, why)
        if is_transactional and producer not in self._open:
            self._begin(producer, first)
        batch = (
            wire.last_sequence(row[layout.BASE_SEQUENCE], delta),
            row[layout.LAST_OFFSET],
            delta,
            row[layout.MAX_TIMESTAMP],
        )
        self._entries[producer] = ProducerStateEntry(
            producer, row[layout.PRODUCER_EPOCH], *batch, entry.coordinator_epoch, self._open.get(producer, _NONE)
        )

    def _control(self, window: Window, k: int, marker: Marker | str | None) -> None:
        """Source: ProducerAppendInfo.appendEndTxnMarker, ProducerStateEntry.update."""
        row = window.row(k)
        producer, epoch = row[layout.PRODUCER_ID], row[layout.PRODUCER_EPOCH]
        entry = self._entry(producer)
        if row[layout.SIZE] < layout.RECORDS_AT:  # a message with a high magic: there is no count in it
            raise BrokerError(k, _STAGE, OUT_OF_BOUNDS)
        if row[layout.COUNT] == 0:  # compaction has left it: a broker learns the id, and no more
            self._entries[producer] = entry
            return
        if not isinstance(marker, Marker):
            assert self._reader is not None
            raise BrokerError(k, _STAGE, marker_error(self._reader, window, k))
        known = entry[2:5] if entry.producer_epoch == epoch else _NO_BATCH
        last = *known, marker.timestamp, marker.coordinator_epoch, _NONE
        self._entries[producer] = ProducerStateEntry(producer, epoch, *last)
        first = self._open.pop(producer, None)
        if first is not None:
            self._complete(k, producer, first, row[layout.BASE_OFFSET], marker.is_abort)

    def _complete(self, k: int, producer: int, first: int, last: int, is_abort: bool) -> None:
        """A transaction ends. Source: LogSegment.updateTxnIndex, TransactionIndex.append, completeTxn."""
        owner = self._ongoing.get(first)
        if owner == producer and self._ends is None:  # it does not count for the last stable offset; a later one does
            del self._ongoing[first]
        if is_abort and self._txn_index is not None:
            stable = self._oldest()
            if self.aborted and self.aborted[-1].last_offset >= last:
                why = "The last offset of appended transactions must increase sequentially, but"
                after = f"{last} is not greater than current last offset {self.aborted[-1].last_offset}"
                raise BrokerError(k, "transaction index", f"{ARGUMENT}: {why} {after} of index {self._txn_index}")
            self.aborted.append(AbortedTxn(0, producer, first, last, wire.add(last, 1) if stable is None else stable))
        ended = producer, first, last, is_abort
        if self._ends is None:
            self._end(k, ended, is_known=owner is not None)
        else:
            self._ends.append(ended)

    def finish(self) -> None:
        """Let the transactions end, where that was kept for now.

        Raises:
            BrokerError: one of them is not known any more.
        """
        for ended in self._ends or ():
            self._end(0, ended, is_known=ended[1] in self._ongoing)

    def _end(self, k: int, ended: tuple[int, int, int, bool], *, is_known: bool) -> None:
        """Source: ProducerStateManager.completeTxn."""
        producer, first, last, is_abort = ended
        if not is_known:
            what = f"producerId={producer}, firstOffset={first}, lastOffset={last}, isAborted={str(is_abort).lower()}"
            why = f"Attempted to complete transaction CompletedTxn[{what}] on partition {self._partition}"
            raise BrokerError(k, _STAGE, f"{ARGUMENT}: {why} which was not started")
        self._ongoing.pop(first, None)
        self.first_completed = first if self.first_completed is None else min(first, self.first_completed)

    def _begin(self, producer: int, first: int) -> None:
        self._open[producer] = first
        self._ongoing[first] = producer
        heappush(self._heap, first)
        if len(self._heap) > 2 * len(self._ongoing) + _STALE:
            self._heap = sorted(self._ongoing)

    def _oldest(self) -> int | None:
        """The first offset of the earliest ongoing transaction. Source: ProducerStateManager.lastStableOffset."""
        while self._heap and self._heap[0] not in self._ongoing:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _entry(self, producer: int) -> ProducerStateEntry:
        return self._entries.get(producer) or ProducerStateEntry(producer, -1, *_NO_BATCH, -1, -1, _NONE)
