"""`dump` of the small files beside a log: indexes, producer snapshots, text files."""

from __future__ import annotations

import os
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kdump.compat.kafka_walk import KafkaWalk
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.window import Buffer, header_at
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex, TimestampOffset
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.kinds import FileKind
from kdump.item import Complaint, ComplaintKind, IndexEmpty, IndexPassed, OffsetEntries, SanityFailed, TimeEntries
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.input_file import InputFile
    from kdump.format.batch.window import Window
    from kdump.format.source import Source
    from kdump.item import Item

_WINDOW = 8 * 1024  # bytes of the log read at once: an index points some 4 KB before what is wanted
_WALKS = 8  # how often the log is walked, all in all, for the entries of an index
_LEAST_WALKED = 16 * 1024 * 1024  # bytes that may be walked of any log
_SAMPLE = 1024 * 1024  # bytes that are shown of a file that is too large for any broker


class CheckedIndexes:
    """Reads the indexes of one segment.

    Args:
        log: the segment's log; None where it is not there: entries are shown without checks.
        options: what was asked for.
        absolute: absolute path of the index, for complaints.
    """

    def __init__(self, log: Source | None, options: DumpOptions, absolute: str) -> None:
        self._log = log
        self._options = options
        self._absolute = absolute
        self._chain = _Chain(log, options.max_batch_bytes)

    def offset_index(self, index: OffsetIndex, path: str) -> Iterator[Item]:
        """Yield entries and true complaints.

        Args:
            index: the index.
            path: as the user wrote it.
        """
        if index.entries == 0:
            yield IndexEmpty(path)
            return
        if self._options.index_sanity_check:
            yield self._sanity(index, path)
            return
        before = number = 0
        first = True
        for offsets, positions in index.columns():
            count = _until_zeros(offsets, index.base_offset, first=first)
            first = False
            if self._log is not None:
                for i, (offset, position) in enumerate(zip(offsets[:count], positions[:count], strict=True), number):
                    if (offset, position) == (index.base_offset, 0):
                        continue  # never written
                    found = self._unsound(offset, position, before)
                    if self._chain.is_spent:
                        yield from self._not_checked(path, i * index.entry_size, index.size)
                        self._log = None
                        break
                    if found is not None:
                        entry = Finding(Code.X04, path, i * index.entry_size, index.entry_size, offset=offset)
                        finding = self._mismatch(entry.replace(found=position), position)
                        yield Complaint(ComplaintKind.MISMATCH, self._absolute, offset, found, finding)
                    else:
                        before = position
            if not self._options.verify_index_only:
                yield OffsetEntries(offsets[:count], positions[:count])
            if count < len(offsets):
                return
            number += count

    def _mismatch(self, entry: Finding, position: int) -> Finding:
        """The finding for an entry of the offset index that points to the wrong batch."""
        assert self._log is not None
        header = _header(self._log, position)
        if header is None:
            return entry
        return entry.replace(code=Code.X05, values={"base": header[layout.BASE_OFFSET]})

    def _sanity(self, index: OffsetIndex | TimeIndex, path: str) -> Item:
        """The check that brokers had; what fails it is said in the broker's words."""
        complaint = index.sanity_check()
        if complaint is None:
            return IndexPassed(path)
        return SanityFailed(complaint.replace("{file}", self._absolute), self._insane(index, path))

    def _insane(self, index: OffsetIndex | TimeIndex, path: str) -> Finding:
        """What the check that brokers had does not like: the size, or the last entry."""
        is_time = isinstance(index, TimeIndex)
        size, left_over = index.entry_size, index.size % index.entry_size
        if left_over:
            code = Code.T01 if is_time else Code.X01
            return Finding(code, path, index.size - left_over, left_over, found=index.size)
        at = (index.entries - 1) * size
        last, first = index.last_entry(), index.entry(0)
        if isinstance(last, TimestampOffset):
            values = _before(TimestampOffset(*first))
            return Finding(Code.T03, path, at, size, offset=last.offset, found=last.timestamp, values=values)
        values = {"other": index.base_offset, "position": 0, "side": "before"}
        return Finding(Code.X03, path, at, size, offset=last.offset, found=last.position, values=values)

    def _unsound(self, offset: int, position: int, before: int) -> int | None:
        """The offset that a lookup of `offset` would begin at, where that is not right; None for a sound entry."""
        assert self._log is not None
        header = _header(self._log, position)
        if header is not None and header[layout.LAST_OFFSET] == offset:
            return None
        if header is None or not before <= position:
            return -1
        chain = self._chain
        if not chain.goes_on(before, position):
            chain.begin(before)
        while not chain.is_over and chain.at < position:
            chain.advance()
        if chain.at != position or (position > before and chain.previous >= offset):
            return header[layout.LAST_OFFSET]
        chain.start = position  # the next question is asked from here on
        return None

    def time_index(self, index: TimeIndex, offsets: OffsetIndex | None, path: str) -> Iterator[Item]:
        """Yield entries and true complaints.

        Args:
            index: the index.
            offsets: the offset index of the segment; None where it is not there.
            path: as the user wrote it.
        """
        if self._options.index_sanity_check:
            yield self._sanity(index, path)
            return
        previous, number = TimestampOffset(-1, index.base_offset), 0
        first = True
        for timestamps, targets in index.columns():
            count = _until_zeros(targets, index.base_offset, first=first)
            first = False
            for i, (timestamp, target) in enumerate(zip(timestamps[:count], targets[:count], strict=True), number):
                if (timestamp, target) == (0, index.base_offset):
                    continue  # never written
                entry = partial(_entry, path, i * index.entry_size, index.entry_size, target, timestamp)
                if previous.timestamp >= timestamp:
                    finding = entry().replace(values=_before(previous))
                    yield Complaint(ComplaintKind.UNORDERED, self._absolute, timestamp, previous.timestamp, finding)
                previous = TimestampOffset(timestamp, target)
                if self._log is not None and offsets is not None:
                    yield from self._time_entry(entry, timestamp, target, offsets.lookup(target).position)
                    if self._chain.is_spent:
                        yield from self._not_checked(path, i * index.entry_size, index.size)
                        self._log = None
            if not self._options.verify_index_only:
                yield TimeEntries(timestamps[:count], targets[:count])
            if count < len(targets):
                return
            number += count

    def _time_entry(self, entry: Callable[[], Finding], timestamp: int, target: int, position: int) -> Iterator[Item]:
        assert self._log is not None
        header = _header(self._log, position)
        if header is None and position:
            return  # the offset index is wrong, and says so itself
        chain = self._chain
        if header is not None and header[layout.LAST_OFFSET] >= target:  # as nearly always: no other batch is asked
            last, largest = header[layout.LAST_OFFSET], _largest(header)
        else:
            if chain.start != position or target < chain.target:
                chain.begin(position)
            chain.target = target
            while not chain.is_over and chain.last < target:
                chain.advance()
            if chain.is_spent:
                return
            last, largest = chain.last, chain.largest
            if chain.is_over:
                last = -1
        if last >= target:
            if last == target and largest not in (None, timestamp):
                finding = entry().replace(code=Code.T04, expected=largest, values={"largest": largest})
                yield Complaint(ComplaintKind.TIMESTAMP, self._absolute, timestamp, largest or 0, finding)
        elif chain.reached_end:
            finding = entry().replace(code=Code.T04, values={"largest": "no record"})
            yield Complaint(ComplaintKind.NOT_FOUND, self._absolute, target, -1, finding)

    def _not_checked(self, path: str, at: int, size: int) -> Iterator[Finding]:
        """What is said of the entries that are left where those before them led back and forth too often."""
        why = (
            f"the entries from byte {at} on were not compared with the log, which was walked {_WALKS} times for others"
        )
        yield Finding(Code.L12, path, at, size - at, values={"why": why})


class _Chain:
    """The batches of a log from a position on, for questions that mostly begin where the one before has ended.

    What has to be walked again is counted: an index that leads back and forth costs some walks, not one an entry.

    Args:
        log: the log; None where nothing is asked.
        max_batch_bytes: a batch over this is not held.

    Attributes:
        start: where it begins; -1 for nowhere.
        target: the offset that was looked for last.
        at, last, largest: position and last offset of the batch in hand, and its largest timestamp (ms), None where it
            has none.
        previous: last offset of the batch before it; -1 for none.
    """

    def __init__(self, log: Source | None, max_batch_bytes: int) -> None:
        self._log = log
        self._limit = max_batch_bytes
        self._left = 0 if log is None else _WALKS * log.size + _LEAST_WALKED
        self._buffer = None if log is None else Buffer(log, _WINDOW)
        self._batches: Iterator[tuple[Window, int]] = iter(())
        self._walk: KafkaWalk | None = None
        self.start = self.at = self.previous = -1
        self.target = self.last = 0
        self.largest: int | None = None
        self.is_over = False  # there is no further batch, and the one in hand is the last

    @property
    def is_spent(self) -> bool:
        """Whether the log was walked as often as it may be."""
        return self._left < 0

    @property
    def reached_end(self) -> bool:
        """Whether the batches end where the log does."""
        walk = self._walk
        return walk is not None and walk.failure is None and self._log is not None and walk.position == self._log.size

    def goes_on(self, start: int, position: int) -> bool:
        """Whether what lies at a position is known from the batches after `start`, or lies further on."""
        return self.start == start and self.at <= position

    def begin(self, start: int) -> None:
        """Begin at a position."""
        assert self._log is not None
        self._left -= _WINDOW
        self._walk = KafkaWalk(self._log, "", start, self._log.size, self._limit, self._buffer)
        self._batches = ((window, k) for window in self._walk.windows() for k in range(window.count))
        self.start, self.at, self.last, self.is_over = start, -1, -1, False
        self.advance()

    def advance(self) -> None:
        """Take the next batch in hand."""
        found = None if self.is_spent else next(self._batches, None)
        if found is None:
            self.is_over = True
            return
        window, k = found
        self._left -= window.cell(k, layout.SIZE)
        self.previous, self.last = self.last, window.cell(k, layout.LAST_OFFSET)
        self.at = window.cell(k, layout.POSITION)
        self.largest = _largest(window.row(k))


def _until_zeros(offsets: array[int], base_offset: int, *, first: bool) -> int:
    """The number of entries before the zero tail of a file that was never trimmed."""
    for i, offset in enumerate(offsets):
        if offset == base_offset and not (first and i == 0):
            return i
    return len(offsets)


def _header(log: Source, position: int) -> array[int] | None:
    """The header of the batch at a position, as a row; None where no batch can be."""
    row = header_at(log, position) if position >= 0 else None
    size = 0 if row is None else row[layout.SIZE]
    is_batch = size >= layout.LOG_OVERHEAD + layout.MIN_SIZE_V0 and position + size <= log.size
    return row if is_batch else None


def _largest(header: array[int]) -> int | None:
    """The largest timestamp (ms) of a batch; None where it has none."""
    return header[layout.MAX_TIMESTAMP] if header[layout.MAGIC] > 0 and header[layout.COUNT] != 0 else None


def _entry(path: str, at: int, size: int, target: int, timestamp: int) -> Finding:
    """A finding about an entry of a time index."""
    return Finding(Code.T03, path, at, size, offset=target, found=timestamp)


def _before(entry: TimestampOffset) -> dict[str, int | str | None]:
    """The values of a finding for the entry that another one should not come after."""
    return {"other": entry.timestamp, "other_offset": entry.offset, "side": "before"}


def dump_state(file: InputFile, source: Source, options: DumpOptions) -> Iterator[Item]:
    """Yield what is in a small file, with complaints and findings.

    Args:
        file: no log and no KRaft snapshot.
        source: the same, open.
        options: what was asked for.

    Reports: X03-X05, T03, T04 (as complaints), A02, S01, K03-K05.
    """
    kind, path = file.kind, file.path
    if kind is FileKind.TXNINDEX:
        yield from _transactions(path, source, file.base or 0)
    elif kind is FileKind.SNAPSHOT:
        yield from _snapshot(path, source)
    elif kind in (FileKind.INDEX, FileKind.TIMEINDEX):
        yield from _index(file, source, options)
    else:
        yield from _text(kind, source)


def _index(file: InputFile, source: Source, options: DumpOptions) -> Iterator[Item]:
    base = file.base or 0
    checked = CheckedIndexes(_beside(file, FileKind.LOG), options, os.path.abspath(file.path))
    if source.size > layout.MAX_INT:  # a broker cannot even open it
        yield from _too_large(file.path, source.size)
    if file.kind is FileKind.INDEX:
        yield from checked.offset_index(OffsetIndex(source, base), file.path)
        return
    beside = _beside(file, FileKind.INDEX)
    offsets = None if beside is None else OffsetIndex(beside, base)
    yield from checked.time_index(TimeIndex(source, base), offsets, file.path)


def _too_large(path: str, size: int) -> Iterator[Finding]:
    """What is said of a file that no broker can have made, and of which the first entries are shown."""
    at = layout.MAX_INT
    yield Finding(Code.F03, path, at, size - at, found=size, expected=at)
    yield Finding(Code.L12, path, at, size - at, values={"why": "only its first entries"})


def _beside(file: InputFile, kind: FileKind) -> Source | None:
    """Another file of the same segment, where there is one."""
    found = file.segment.file(kind)
    return None if isinstance(found, OpenFailure) else found


def _transactions(path: str, source: Source, base: int) -> Iterator[Item]:
    index = TransactionIndex(source, base)
    if source.size > layout.MAX_INT:
        yield from islice(index.all_entries(), _SAMPLE // index.entry_size)
        yield from _too_large(path, source.size)
        return
    yield from index
    if index.error is not None:  # what follows is not shown, as no broker reads it
        txn, size = index.entry(index.readable), index.entry_size
        finding = Finding(Code.A02, path, index.readable * size, size, field="version", found=txn.version, expected=0)
        yield finding.replace(offset=txn.first_offset, last_offset=txn.last_offset)


def _snapshot(path: str, source: Source) -> Iterator[Item]:
    from kdump.format.checkpoint.producer_snapshot import ENTRY_SIZE, THROWN_AWAY, read_snapshot

    snapshot = read_snapshot(source)
    if source.size > layout.MAX_INT:
        yield from islice(snapshot.salvaged, _SAMPLE // ENTRY_SIZE)
        yield from _too_large(path, source.size)
    else:
        yield from snapshot.salvaged
    if snapshot.error is not None:
        yield Finding(Code.S01, path, 0, source.size, values={"why": snapshot.error, "does": THROWN_AWAY})


def _text(kind: FileKind, source: Source) -> Iterator[Item]:
    from kdump.format.checkpoint.checkpoint_file import read_checkpoint

    findings: list[Finding] = []
    yield read_checkpoint(kind, source, findings.append)
    yield from findings
