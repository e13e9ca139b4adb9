"""Transactions that are open in a partition: where they begin, and what they keep readers of committed data from.

Strategy: producers are followed as a broker follows them, from the latest producer snapshot on where there is one. Only
if a transaction is open the log is read once more, from its first offset on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.log_end import last_epoch_and_end
from kdump.broker.producer.replay import ProducerFold, Producers
from kdump.finding import Severity, ignore
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.state.partition_log import START, Cut
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.format.batch.window import Window
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.read_limits import ReadLimits
    from kdump.state.partition_log import PartitionLog, Steps


class OpenTransaction(Value):
    """A transaction without its marker."""

    entry: ProducerStateEntry  # what a broker knows of its producer
    # file, position, length: of its first batch
    file: str
    position: int
    length: int
    since: int  # maxTimestamp of that, ms
    # blocked_records, blocked_bytes: from its first offset to the log end, of all producers
    blocked_records: int
    blocked_bytes: int
    end_offset: int  # of the log
    last_timestamp: int  # the largest of the log from its first offset on, ms


def open_transactions(log: PartitionLog, cut: Cut, limits: ReadLimits) -> Steps[list[OpenTransaction]]:
    """Return the transactions that are open, by first offset.

    Args:
        log: of the partition.
        cut: up to where it counts.
        limits: what is read at most.

    Yields:
        how far it is.

    Source: ProducerStateManager, TransactionsCommand.FindHangingTransactionsCommand.
    """
    found: list[Finding] = []
    end = last_epoch_and_end(log.directory, limits.max_batch_bytes, found.append)[1] if cut.when is None else cut.offset
    producers, start = _begin(log, cut, end, is_damaged=any(one.severity is Severity.ERROR for one in found))
    fold: ProducerFold | None = None
    number = -1
    if start is not None:
        for its_number, window in log.windows(start, cut):
            if its_number != number:
                if fold is not None:
                    producers, _ = producers.after(fold.finish(), ignore)
                number = its_number
                uncompressed = limits.max_uncompressed_bytes
                fold = ProducerFold(log.path(number), ignore, uncompressed, report_controls=False)
            assert fold is not None
            fold.step(window)
            yield log.how_far
    if fold is not None:
        producers, _ = producers.after(fold.finish(), ignore)
    entries = [one for one in producers.entries.values() if one.current_txn_first_offset >= 0]
    entries.sort(key=lambda one: one.current_txn_first_offset)
    return (yield from _measured(log, cut, entries, end)) if entries else []


def _begin(log: PartitionLog, cut: Cut, end: int, *, is_damaged: bool) -> tuple[Producers, Cut | None]:
    """The latest producer snapshot that counts and where to go on, None for nowhere: it is of the log end.

    Where the last log is damaged it is read: what lies behind its last right batch is told.
    """
    directory = log.directory
    found = sorted((base for base, files in directory.by_base.items() if FileKind.SNAPSHOT in files), reverse=True)
    for offset in found:
        if offset > end or (offset not in log.bases and (offset != end or is_damaged)):
            continue
        if cut.when is not None and offset in log.bases and log.bases.index(offset) > cut.segment:
            continue
        file = directory.file(f"{offset:020}.{FileKind.SNAPSHOT.value}", FileKind.SNAPSHOT)
        try:
            snapshot = file.snapshot() if file.is_read else None
            if snapshot is None or snapshot.error is not None:
                continue
            producers = Producers.of_snapshot(snapshot.entries, offset)
        except OSError:
            continue
        if offset == end and not is_damaged:
            return producers, None
        return producers, Cut(log.bases.index(offset), 0, offset)
    return Producers.empty(log.bases[0]), START


class _Measure:
    """Adds up what one transaction blocks."""

    def __init__(self, entry: ProducerStateEntry) -> None:
        self.entry = entry
        self.records = self.bytes = 0
        self.place: tuple[str, int, int, int] | None = None  # path, position, length, maxTimestamp

    def add(self, path: str, window: Window, total: tuple[int, int] | None) -> None:
        """Take batches into account.

        Args:
            path: of their log.
            window: the batches.
            total: what all of them come to, records and bytes.
        """
        first = self.entry.current_txn_first_offset
        if self.place is not None and total is not None:
            self.records += total[0]
            self.bytes += total[1]
            return
        for k in range(window.count):
            if window.cell(k, layout.LAST_OFFSET) < first:
                continue
            if self.place is None and window.cell(k, layout.PRODUCER_ID) == self.entry.producer_id:
                place = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
                self.place = path, *place, window.cell(k, layout.MAX_TIMESTAMP)
            if not window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                self.records += window.cell(k, layout.COUNT)
            self.bytes += window.cell(k, layout.SIZE)


def _measured(log: PartitionLog, cut: Cut, entries: list[ProducerStateEntry], end: int) -> Steps[list[OpenTransaction]]:
    """Read the log from the first of the transactions on."""
    measures = [_Measure(entry) for entry in entries]
    largest = -1
    begin = Cut(log.segment_of(entries[0].current_txn_first_offset), 0, -1)
    for number, window in log.windows(begin, cut):
        if window.cell(window.count - 1, layout.LAST_OFFSET) < entries[0].current_txn_first_offset:
            continue
        counts, flags = window.column(layout.COUNT), window.column(layout.ATTRIBUTES)
        records = sum(n for n, flag in zip(counts, flags, strict=True) if not flag & layout.CONTROL_FLAG)
        total = records, sum(window.column(layout.SIZE))
        largest = max(largest, *window.column(layout.MAX_TIMESTAMP))
        for one in measures:
            first = one.entry.current_txn_first_offset
            one.add(log.path(number), window, total if window.cell(0, layout.BASE_OFFSET) >= first else None)
        yield log.how_far
    found = []
    for one in measures:
        place = one.place or (log.path(begin.segment), 0, 0, one.entry.timestamp)
        blocked = one.records, one.bytes
        found.append(OpenTransaction(one.entry, *place, *blocked, end, largest))
    return found
