"""Producers and transactions of a log, replayed as a broker does it: a segment at a time, in any order.

Strategy: what a segment takes over from those before it stays open in its result, and `Producers.after` puts it in. Of
batches without transaction only the last one of each producer in a window is looked at: it tells all that the others
did. Only control batches have a record read.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from kdump.broker.producer.end_markers import Marker, read_markers
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
from kdump.format.index.transaction_index import AbortedTxn
from kdump.format.java_values import ABOVE_ALL
from kdump.format.kernels import wire
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable
    from typing import Self

    from kdump.finding import Report
    from kdump.format.batch.window import Window

INHERITED = layout.UNKNOWN  # in a field: as it was before the segment
_NONE = layout.NO_OFFSET
_NO_BATCH = (-1, _NONE, 0)  # last sequence, last offset, offset delta
_UNSEEN = ProducerStateEntry(_NONE, *7 * (INHERITED,))
MOST_PRODUCERS = 250_000  # that are followed at once, and aborted transactions of one segment
_STALE = 64  # ended transactions in the heap, besides as many as are open


class Abort(TupleValue):
    """An ABORT marker."""

    number: int  # of the end markers in the segment, from 0
    producer_id: int  # whose transaction it ends
    first_offset: int  # where that began in the segment, -1 if it did not
    last_offset: int  # base offset of the marker's batch
    other_first_offset: int  # of the earliest other one that began in the segment and is open, -1 for none


class SegmentProducers(Value):
    """The producers in the batches of one segment, independent of the batches before it."""

    file: str  # the log, as the user wrote its path
    # the last state of each producer by its id; INHERITED is what no batch has said. The batch is INHERITED as long as
    # the epoch is as before. A transaction from before continues in one that begins here before the first end marker.
    entries: dict[int, ProducerStateEntry]
    ends: dict[int, int]  # number of the first end marker of each producer that has one
    aborts: list[Abort]  # ABORT markers in file order: those of transactions that began here, and the first end markers
    # the row of the first batch of each producer that is outside of transactions, if none inside comes first
    strays: dict[int, array[int]]
    complete: bool  # every batch was there to be read

    @property
    def has_transactions(self) -> bool:
        """Whether a transaction begins or ends here."""
        return bool(self.ends) or any(one.current_txn_first_offset >= 0 for one in self.entries.values())


class Producers(Value):
    """The state of all producers at one offset.

    Source: ProducerStateManager.
    """

    entries: dict[int, ProducerStateEntry]  # the state of each producer by its id
    complete: bool  # nothing between the start and here was unreadable
    start: int  # offset at which the replay began

    @classmethod
    def empty(cls, start: int = 0) -> Self:
        """Return what is known at the start of a log."""
        return cls({}, True, start)

    @classmethod
    def of_snapshot(cls, entries: Iterable[ProducerStateEntry], offset: int) -> Self:
        """Return what is known at the offset of a producer snapshot."""
        return cls({entry.producer_id: entry for entry in entries}, True, offset)

    def after(self, segment: SegmentProducers, report: Report) -> tuple[Producers, list[AbortedTxn]]:
        """Continue to the end of a segment.

        Args:
            segment: the one that begins here.
            report: takes each finding about a transaction that was open before the segment.

        Returns:
            what is known after it, and the entries that a broker writes to its transaction index.

        Reports: P03, L12.
        """
        complete = self.complete and segment.complete
        entries = dict(self.entries)
        for producer, later in segment.entries.items():
            if len(entries) >= MOST_PRODUCERS and producer not in entries:
                if complete:
                    report(_too_many(segment.file))
                return Producers(entries, False, self.start), self._aborted(segment)
            entry = self.entries.get(producer) or ProducerStateEntry(producer, -1, *_NO_BATCH, -1, -1, _NONE)
            entries[producer] = _joined(entry, later, ended=producer in segment.ends)
            if complete and producer in segment.strays and entry.current_txn_first_offset >= 0:
                report(_stray(segment.file, segment.strays[producer], entry))
        return Producers(entries, complete, self.start), self._aborted(segment)

    def _aborted(self, segment: SegmentProducers) -> list[AbortedTxn]:
        firsts = ((producer, entry.current_txn_first_offset) for producer, entry in self.entries.items())
        first_of = {producer: first for producer, first in firsts if first >= 0}
        # Those that are open from before, the earliest last, each with the number of the marker that ends it.
        waiting = sorted(((first, segment.ends.get(key, ABOVE_ALL)) for key, first in first_of.items()), reverse=True)
        found = []
        for number, producer, begun, last, other in segment.aborts:
            while waiting and waiting[-1][1] <= number:
                waiting.pop()
            first = first_of.get(producer, begun) if segment.ends[producer] == number else begun
            if first >= 0:  # a broker passes over a marker without transaction
                others = [offset for offset in (other, waiting[-1][0] if waiting else _NONE) if offset >= 0]
                found.append(AbortedTxn(0, producer, first, last, min(others, default=wire.add(last, 1))))
        return found


def _joined(entry: ProducerStateEntry, later: ProducerStateEntry, *, ended: bool) -> ProducerStateEntry:
    """Fill in what a segment has left open."""
    if later.producer_epoch not in (entry.producer_epoch, INHERITED):
        entry = ProducerStateEntry(*entry[:2], *_NO_BATCH, *entry[5:])
    if entry.current_txn_first_offset >= 0 and later.current_txn_first_offset >= 0 and not ended:
        later = later._replace(current_txn_first_offset=INHERITED)
    return ProducerStateEntry._make(old if new == INHERITED else new for old, new in zip(entry, later, strict=True))


def _stray(file: str, row: array[int], entry: ProducerStateEntry) -> Finding:
    """A broker throws an InvalidTxnStateException here, and does not load the partition."""
    producer, first = entry.producer_id, entry.current_txn_first_offset
    return _failure(file, row, f"producer {producer} writes outside of its transaction, open since {first}")


def _failure(file: str, row: array[int], why: str) -> Finding:
    first, last = row[layout.BASE_OFFSET], row[layout.LAST_OFFSET]
    place = row[layout.POSITION], row[layout.SIZE]
    return Finding(Code.P03, file, *place, offset=first, last_offset=last, values={"why": why})


def _too_many(file: str) -> Finding:
    why = f"there are more than {MOST_PRODUCERS} producers or aborted transactions: no more were followed"
    return Finding(Code.L12, file, values={"why": why})


def _counts(row: array[int]) -> bool:
    """Whether a batch has a producer and can be trusted."""
    return row[layout.PRODUCER_ID] >= 0 and row[layout.CRC] == row[layout.COMPUTED_CRC]


class ProducerFold:
    """Follows producers and their transactions through one segment.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        max_uncompressed_bytes: of a compressed control batch whose records are larger none is read.
        report_controls: report control records that a broker cannot replay; False where all records are read and
            `RecordChecks` does it.

    Reports: P03, L12.

    Source: ProducerAppendInfo.append, ProducerStateEntry, ProducerStateManager.lastStableOffset.
    """

    def __init__(self, file: str, report: Report, max_uncompressed_bytes: int, *, report_controls: bool) -> None:
        self._report = report
        self._report_controls = report_controls
        self._limit = max_uncompressed_bytes
        self._reader: RecordReader | None = None  # made for the first control batch
        self._found = SegmentProducers(file, {}, {}, [], {}, True)
        self._open: dict[int, int] = {}  # first offset of the transaction of each producer
        self._heap: list[tuple[int, int]] = []  # the same turned around, and some that have ended
        self._markers = self._out_of_order = 0
        self._is_full = False
        self._blamed: set[int] = set()  # producers with a stray batch in the open transaction

    def step(self, window: Window) -> None:
        """Take the next batches; those with a wrong CRC are passed over."""
        bits, trusted = window.suspicions, window.all_trusted
        if not trusted or bits & layout.OUT_OF_RANGE:
            self.gap()
        elif bits & layout.NOT_ABOVE:
            self._out_of_order += sum(bool(one & layout.NOT_ABOVE) for one in window.column(layout.SUSPICION))
        if not bits & layout.HAS_PRODUCER:
            return
        ids, flags = window.column(layout.PRODUCER_ID), window.column(layout.ATTRIBUTES)
        start = 0
        if any(flag & layout.CONTROL_FLAG for flag in set(flags)):
            controls = [k for k, flag in enumerate(flags) if flag & layout.CONTROL_FLAG and _counts(window.row(k))]
            self._reader = self._reader or RecordReader(self._limit, cut=KEPT)
            markers = read_markers(self._reader, window, controls)
            for k in controls:
                self._data_batches(window, ids[start:k], flags[start:k], start, trusted)
                self._control(window.row(k), markers.get(k))
                start = k + 1
        self._data_batches(window, ids[start:], flags[start:], start, trusted)

    def gap(self) -> None:
        """Bytes were lost: any producer may have written there."""
        self._found = self._found.replace(complete=False)

    def finish(self, overlaps: int = 0) -> SegmentProducers:
        """Return what was found.

        Args:
            overlaps: batches out of order of which it is known that nothing is lost before them.
        """
        if self._out_of_order > overlaps:
            self.gap()
        return self._found

    def _data_batches(self, window: Window, ids: array[int], flags: array[int], start: int, trusted: bool) -> None:
        """Take batches from row `start` on.

        Where all are inside of transactions, or all outside, the first and the last of each producer tell all.
        """
        numbers = range(start, start + len(ids))
        rows: Iterable[int] = numbers
        kinds = {flag & layout.TRANSACTIONAL_FLAG for flag in set(flags)}
        if trusted and len(kinds) == 1 and (kinds != {0} or self._open.keys().isdisjoint(ids)):
            first = dict(zip(reversed(ids), reversed(numbers), strict=True))
            rows = sorted({*first.values(), *dict(zip(ids, numbers, strict=True)).values()})
        for k in rows:
            row = window.row(k)
            if _counts(row):
                self._data(row)

    def _has_room(self, producer: int) -> bool:
        """Whether a producer can be followed; what was not followed may be open, so nothing is complete any more."""
        found = self._found
        if producer in found.entries or (len(found.entries) < MOST_PRODUCERS and len(found.aborts) < MOST_PRODUCERS):
            return True
        if not self._is_full:
            self._is_full = True
            self._report(_too_many(found.file))
            self.gap()
        return False

    def _data(self, row: array[int]) -> None:
        if not self._has_room(row[layout.PRODUCER_ID]):
            return
        producer, first, delta = row[layout.PRODUCER_ID], row[layout.BASE_OFFSET], row[layout.LAST_OFFSET_DELTA]
        entry = self._found.entries.get(producer, _UNSEEN)
        transaction = entry.current_txn_first_offset
        if not row[layout.ATTRIBUTES] & layout.TRANSACTIONAL_FLAG:
            self._outside(entry, row)
        elif transaction < 0:
            transaction = self._open[producer] = first
            heappush(self._heap, (first, producer))
        sequence = wire.last_sequence(row[layout.BASE_SEQUENCE], delta)
        batch = sequence, row[layout.LAST_OFFSET], delta, row[layout.MAX_TIMESTAMP]
        self._found.entries[producer] = ProducerStateEntry(
            producer, row[layout.PRODUCER_EPOCH], *batch, entry.coordinator_epoch, transaction
        )

    def _outside(self, entry: ProducerStateEntry, row: array[int]) -> None:
        """A batch outside of transactions: none of its producer may be open."""
        producer = row[layout.PRODUCER_ID]
        if entry.current_txn_first_offset == INHERITED:
            self._found.strays.setdefault(producer, row)
        elif producer in self._open and producer not in self._blamed and self._found.complete:
            self._blamed.add(producer)
            self._report(_stray(self._found.file, row, entry))

    def _control(self, row: array[int], marker: Marker | str | None) -> None:
        producer, epoch = row[layout.PRODUCER_ID], row[layout.PRODUCER_EPOCH]
        if not self._has_room(producer):
            return
        entry = self._found.entries.get(producer, _UNSEEN)
        if row[layout.COUNT] == 0:  # compaction has left it: a broker learns the id, and no more
            self._found.entries[producer] = entry._replace(producer_id=producer)
            return
        if not isinstance(marker, Marker):
            if marker is not None and self._report_controls:
                self._report(_failure(self._found.file, row, marker))
            self.gap()
            return
        number, self._markers = self._markers, self._markers + 1
        first, other = self._open.pop(producer, _NONE), self._oldest()
        is_first = self._found.ends.setdefault(producer, number) == number
        if marker.is_abort and (is_first or first >= 0) and len(self._found.aborts) < MOST_PRODUCERS:
            self._found.aborts.append(Abort(number, producer, first, row[layout.BASE_OFFSET], other))
        self._blamed.discard(producer)
        known = entry[2:5] if entry.producer_epoch in (epoch, INHERITED) else _NO_BATCH
        last = *known, marker.timestamp, marker.coordinator_epoch, _NONE
        self._found.entries[producer] = ProducerStateEntry(producer, epoch, *last)

    def _oldest(self) -> int:
        """The first offset of the earliest open transaction that began in the segment, -1 for none."""
        heap = self._heap
        if len(heap) > 2 * len(self._open) + _STALE:
            heap[:] = [(first, producer) for producer, first in self._open.items()]
            heapify(heap)
        while heap and self._open.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else _NONE
