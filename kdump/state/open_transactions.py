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


def _measured(log: PartitionLog, cut: Cut, entries: list[ProducerStateEntry], end: int) -> Steps[list[OpenTransaction]]:
    """Read the log from the first of the transactions on.

    What a transaction blocks is all that comes from its first offset on: so all is added up once, and what came before
    the offset of each is taken away. Each begins with a batch of its producer.
    """
    firsts = [one.current_txn_first_offset for one in entries]  # ascending
    before: list[tuple[int, int]] = []  # records and bytes below the first offset of each, as far as it was reached
    waiting: dict[int, list[int]] = {}  # by producer: the entries whose first batch was not met yet
    for number, one in enumerate(entries):
        waiting.setdefault(one.producer_id, []).append(number)
    places: list[tuple[str, int, int, int] | None] = [None] * len(entries)  # path, position, length, maxTimestamp
    records = size = 0
    largest = -1
    begin = Cut(log.segment_of(firsts[0]), 0, -1)
    for segment, window in log.windows(begin, cut):
        lasts = window.column(layout.LAST_OFFSET)
        if lasts[-1] < firsts[0]:
            continue
        columns = (layout.COUNT, layout.ATTRIBUTES, layout.SIZE, layout.PRODUCER_ID)
        rows = zip(lasts, *map(window.column, columns), strict=True)
        largest = max(largest, *window.column(layout.MAX_TIMESTAMP))
        for k, (last, count, flags, length, producer) in enumerate(rows):
            while len(before) < len(firsts) and firsts[len(before)] <= last:
                before.append((records, size))
            if last < firsts[0]:
                continue
            records += 0 if flags & layout.CONTROL_FLAG else count
            size += length
            for number in waiting.pop(producer, ()) if producer in waiting else ():
                if firsts[number] <= last:
                    at, newest = window.cell(k, layout.POSITION), window.cell(k, layout.MAX_TIMESTAMP)
                    places[number] = log.path(segment), at, length, newest
                else:
                    waiting.setdefault(producer, []).append(number)
        yield log.how_far
    before += [(records, size)] * (len(entries) - len(before))
    found = []
    for entry, place, (less_records, less_size) in zip(entries, places, before, strict=True):
        where = place or (log.path(begin.segment), 0, 0, entry.timestamp)
        found.append(OpenTransaction(entry, *where, records - less_records, size - less_size, end, largest))
    return found
