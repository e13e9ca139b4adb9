"""What the files beside a log say about producers and transactions, compared with the replay of the log."""

from __future__ import annotations

from itertools import accumulate, count
from operator import eq
from typing import TYPE_CHECKING, Any

from kdump.broker.producer.end_markers import open_at_end
from kdump.broker.producer.lost_aborts import WITNESS
from kdump.checks.indexes import most_bytes
from kdump.finding import Capped, Code, Finding
from kdump.format.batch import layout
from kdump.format.index.offset_and_time import INDEX_BYTES, chunks
from kdump.format.index.transaction_index import AbortedTxn, TransactionIndex
from kdump.format.java_values import ABOVE_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.broker.producer.replay import Producers
    from kdump.finding import Report
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.source import Source

_ENTRY_SIZE = 34
_NAMED = 5  # producers in a finding about many
_ZEROS = AbortedTxn(0, 0, 0, 0, 0)
_MARKER_BATCH = layout.RECORDS_AT + 17  # the end marker of a transaction, which comes before its entry


def check_aborted(
    source: Source,
    base_offset: int,
    expected: Sequence[AbortedTxn],
    *,
    complete: bool,
    first_known: int,
    end: int,
    goes_on: Callable[[AbortedTxn], bool] = lambda _: False,
    lost: Sequence[tuple[int, int]] = (),
    log_size: int | None = None,
    report: Report,
) -> None:
    """Judge a transaction index, an entry at a time in the order of last offsets.

    Args:
        source: the .txnindex; an empty source where there is no file.
        base_offset: of the segment.
        expected: what a broker writes for the segment, by the replay.
        complete: the replay has seen everything from `first_known` on; without that only each entry by itself is
            judged.
        first_known: the first offset that the replay has seen, or 0 where it began with a snapshot. Of a transaction
            that began below it nothing is known.
        end: the offset after the segment.
        goes_on: tells of an entry that ends behind the log whether its marker may have been cut off.
        lost: first and last offset of each hole in which an end marker was by this index.
        log_size: of its log, bytes; None where that is not there.
        report: takes each finding.

    Reports: A01-A07, F03, L12.
    """
    index = TransactionIndex(source, base_offset)
    left_over = source.size % _ENTRY_SIZE
    if left_over:
        at = source.size - left_over
        report(Finding(Code.A01, source.name, at, left_over, found=source.size))
    check = _AbortedCheck(
        source.name,
        base_offset,
        expected=expected if complete else None,
        first_known=first_known,
        end=end,
        goes_on=goes_on,
        lost=lost,
        report=report,
    )
    most = most_bytes(log_size, _ENTRY_SIZE, _MARKER_BATCH)
    judged = index.entries
    if source.size > most:  # what lies beyond cannot be entries of this log
        judged = most // _ENTRY_SIZE if source.size <= layout.MAX_INT else INDEX_BYTES // _ENTRY_SIZE
        at = judged * _ENTRY_SIZE
        report(
            Finding(Code.F03, source.name, at, source.size - at, found=source.size, expected=min(most, layout.MAX_INT))
        )
        values = {"why": f"the entries from byte {at} on"}
        report(Finding(Code.L12, source.name, at, source.size - at, values=values))
    for data in chunks(source, _ENTRY_SIZE, 0, judged):
        if not data.strip(b"\0"):
            check.zeros(len(data) // _ENTRY_SIZE)
            continue
        for at, entry in zip(count(0, _ENTRY_SIZE), index.entries_of(data), strict=False):
            check.entry(entry, int.from_bytes(data[at : at + 2], "big", signed=True))
    check.finish()


class _AbortedCheck:
    """Compares entries with what is expected, None where nothing is known; both come in the order of last offsets."""

    def __init__(
        self,
        path: str,
        base: int,
        expected: Sequence[AbortedTxn] | None,
        first_known: int,
        end: int,
        goes_on: Callable[[AbortedTxn], bool],
        lost: Sequence[tuple[int, int]],
        report: Report,
    ) -> None:
        self._goes_on = goes_on
        self._lost = lost
        self._path = path
        self._expected = expected
        self._first_known = first_known
        self._base, self._end = base, end
        self._report = Capped(report)
        self._number = 0  # of entries
        self._next = 0  # in `expected`
        self._last = -1  # last offset of the entry before, as it should be
        firsts = [txn.first_offset for txn in reversed(expected or ())]
        self._begun_after = [ABOVE_ALL, *accumulate(firsts, min)][::-1][1:]  # the earliest that ends after each

    def entry(self, entry: AbortedTxn, version: int) -> None:
        """Take the next entry."""
        if (
            not version
            and entry.last_offset > 0
            and any(first <= entry.last_offset <= last for first, last in self._lost)
        ):
            values = {"producer": entry.producer_id, "last": entry.last_offset}
            self._blame(Code.A07, entry, values=values)
            self._number += 1
            self._last = max(self._last, entry.last_offset)
            return
        expected = self._counterpart(entry)
        if version:
            self._blame(Code.A02, entry, field="version", found=version, expected=0)
        why = self._impossible(entry)
        if why is not None:
            is_witness = entry.version == version == 0 and self._goes_on(entry)
            self._blame(Code.A03, entry, values={"why": why, **({"remedy": WITNESS} if is_witness else {})})
        elif expected is not None:
            self._compare(entry, expected, self._begun_after[self._next - 1])
        elif self._expected is not None and entry.first_offset >= self._first_known:
            self._blame(Code.A05, entry)
        self._number += 1
        if expected is not None:
            self._last = expected.last_offset
        elif self._expected is None and why is None:
            self._last = entry.last_offset

    def finish(self) -> None:
        """There is no next entry."""
        for missing in (self._expected or ())[self._next :]:
            self._missing(missing)
        self._report.close()

    def zeros(self, number: int) -> None:
        """Take so many entries of zeros; one that finds all as the one before did need not be looked at."""
        for left in range(number, 0, -1):
            state, counts = (self._next, self._last), self._report.counts()
            self.entry(_ZEROS, 0)
            new = {code: count - counts.get(code, 0) for code, count in self._report.counts().items()}
            new = {code: count for code, count in new.items() if count}
            if state == (self._next, self._last) and all(map(self._report.is_full, new)):
                for code, count in new.items():
                    self._report.add(code, count * (left - 1))
                self._number += left - 1
                return

    def _counterpart(self, entry: AbortedTxn) -> AbortedTxn | None:
        """The transaction that an entry is about, of whose three numbers one may be wrong; report those before it."""
        if self._expected is None:
            return None
        while self._next < len(self._expected):
            expected = self._expected[self._next]
            is_same = sum(map(eq, entry[1:4], expected[1:4])) >= 2
            if is_same or entry.last_offset >= expected.last_offset:
                self._next += 1
            if is_same:
                return expected
            if entry.last_offset < expected.last_offset:
                return None
            self._missing(expected)
        return None

    def _impossible(self, entry: AbortedTxn) -> str | None:
        """What is wrong with an entry whatever the log has."""
        first, last = entry.first_offset, entry.last_offset
        if first > last:
            return f"the transaction begins at offset {first} and ends at {last}"
        if not self._base <= last < self._end:
            return f"the transaction ends at offset {last}, outside of the segment"
        if last <= self._last:
            return f"the transaction ends at offset {last}, the one before it at {self._last}"
        return None

    def _compare(self, entry: AbortedTxn, expected: AbortedTxn, begun_after: int) -> None:
        """Compare an entry with the same transaction of the replay.

        A follower that takes several batches at once knows of transactions that begin after the marker: where no
        other is open, its last stable offset may be the first offset of one of those.
        """
        first, stable = entry.first_offset, entry.last_stable_offset
        after = expected.last_offset + 1
        is_followers = expected.last_stable_offset == after <= stable < min(self._end, begun_after + 1)
        for field, found, right, is_fine in (
            ("producerId", entry.producer_id, expected.producer_id, False),
            ("lastOffset", entry.last_offset, expected.last_offset, False),
            ("firstOffset", first, expected.first_offset, first < self._first_known),
            ("lastStableOffset", stable, expected.last_stable_offset, is_followers or stable < self._first_known),
        ):
            if found != right and not is_fine:
                self._blame(Code.A06, entry, field=field, found=found, expected=right)

    def _missing(self, txn: AbortedTxn) -> None:
        """An expected entry is not there: its place is before the entry in hand."""
        self._blame(Code.A04, txn, length=0)

    def _blame(self, code: Code, txn: AbortedTxn, length: int = _ENTRY_SIZE, **more: Any) -> None:  # noqa: ANN401
        more.setdefault("values", {"producer": txn.producer_id})
        at, first, last = self._number * _ENTRY_SIZE, txn.first_offset, txn.last_offset
        self._report(Finding(code, self._path, at, length, offset=first, last_offset=last, **more))


def check_snapshot(entries: Sequence[ProducerStateEntry], path: str, replayed: Producers, report: Report) -> None:
    """Compare a producer snapshot with the replay of the log up to its offset.

    A producer that is not in the snapshot has expired. What differs by release or through expiry is not compared:
    timestamps; the last offset where the last batch was an end marker, which 0.11 counted; a coordinator epoch or a
    last batch that the snapshot lacks.

    Args:
        entries: of the snapshot.
        path: of the snapshot, as the user wrote it.
        replayed: what is known at its offset; nothing is said where that is not complete.
        report: takes the finding.

    Reports: S03.
    """
    if not replayed.complete:
        return
    count = 0
    named: list[str] = []
    for entry in entries:
        known = replayed.entries.get(entry.producer_id)
        if (entry.last_offset < replayed.start) if known is None else _agree(entry, known):
            continue
        count += 1
        if len(named) < _NAMED:
            named.append(str(entry.producer_id))
    if count:
        ids = ", ".join(named) + (" ..." if count > len(named) else "")
        report(Finding(Code.S03, path, count=count, values={"why": f"id {ids}"}))


def _agree(stored: ProducerStateEntry, known: ProducerStateEntry) -> bool:
    counts_marker = stored.offset_delta == 0 and stored.last_offset > known.last_offset
    same_batch = stored.last_sequence == known.last_sequence and (
        counts_marker or (stored.last_offset, stored.offset_delta) == (known.last_offset, known.offset_delta)
    )
    return (
        stored.producer_epoch == known.producer_epoch
        and (same_batch or not stored.has_batch)
        and stored.coordinator_epoch in (-1, known.coordinator_epoch)
        and max(stored.current_txn_first_offset, -1) == known.current_txn_first_offset
    )


def open_transactions(producers: Producers, path: str, end: int, *, is_lone: bool) -> Iterator[Finding]:
    """Yield a note for each transaction that is open at the end of a log, the earliest first.

    Args:
        producers: what is known there.
        path: of the log, as the user wrote it.
        end: the log end offset.
        is_lone: nothing says that the log is the last of its partition.

    Reports: P04.
    """
    is_open = [entry for entry in producers.entries.values() if entry.current_txn_first_offset >= 0]
    for entry in sorted(is_open, key=lambda entry: entry.current_txn_first_offset):
        first = entry.current_txn_first_offset
        values: dict[str, int | str | None] = {
            "producer": entry.producer_id,
            "end": open_at_end(is_lone=is_lone),
        }
        yield Finding(Code.P04, path, offset=first, last_offset=end - 1, values=values)
