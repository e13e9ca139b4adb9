"""The segments of a result: batches byte by byte, and beside them what a broker's recovery makes of them."""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING

from kdump.broker.failure import BrokerError
from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.broker.load.index_builder import IndexBuilder
from kdump.broker.producer.producer_append import StateManager
from kdump.broker.producer.producer_state_manager import in_java_order
from kdump.broker.producer.replay import Producers
from kdump.format.batch import _scan, layout
from kdump.format.batch.window import Window
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.format.checkpoint.producer_snapshot import encode_snapshot
from kdump.format.index.offset_and_time import INDEX_BYTES, OffsetIndex, TimeIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source
    from kdump.storage.fsops import FileOps

_PIECE = 1024 * 1024
_SNAPSHOTS = 2  # a broker keeps those of the last two segments, and the one at the end


class Settings(TupleValue):
    """How segments are written."""

    segment_bytes: int  # of a log at most
    interval: int  # index.interval.bytes
    limits: ReadLimits  # for reading control records
    # mode, owner: rights, and user and group, that the files are to have
    mode: int
    owner: tuple[int, int]
    is_new_topic: bool = False  # no producer has written to it yet: ids and sequences of those that wrote say nothing


class _Segment:
    """The segment in hand; it has a file from its first batch on."""

    def __init__(self, base: int, settings: Settings, producers: Producers, partition: str) -> None:
        path = f"{base:020}"
        self.base = base
        self.log: int | None = None
        self.size = 0
        self.indexes = IndexBuilder(base, settings.interval, INDEX_BYTES, path)
        limits = settings.limits
        self.states = StateManager(
            producers, base, partition, f"{path}.txnindex", limits.max_uncompressed_bytes, limits.max_batch_bytes
        )


class SegmentWriter:
    """Writes the batches of a line into segments.

    Args:
        directory: descriptor of the directory that they go into.
        partition: its name, for messages.
        settings: how.
        log_start: log start offset: there and below it no snapshot counts.
        ops: makes the calls.
        refused: is given each batch of which a broker throws, as window and row: it stays out.

    Attributes:
        batches, size, segments: what was written.
    """

    def __init__(
        self,
        directory: int,
        partition: str,
        settings: Settings,
        log_start: int,
        ops: FileOps,
        refused: Callable[[Window, int, str], None],
    ) -> None:
        self.batches = self.size = self.segments = 0
        self.end = log_start  # the offset after the last batch
        self.first_base = 0  # base offset of the first segment
        self._directory = directory
        self._partition = partition
        self._settings = settings
        self._log_start = log_start
        self._ops = ops
        self._refused = refused
        self._producers = Producers.empty(log_start)
        self._snapshots: list[tuple[int, bytes]] = []
        self._epochs = EpochCache(())
        self._segment: _Segment | None = None
        self._source_base = -1  # base offset of the source's segment that the one in hand was begun for

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the batches, below 0 for none."""
        return self._epochs.latest

    @property
    def producers(self) -> Producers:
        """What is known of producers after the last batch."""
        return self._producers if self._segment is None else self._segment.states.producers()

    def write(
        self, window: Window, first_of: Callable[[int], int], source_base: int | None, source: Source
    ) -> list[tuple[int, int]]:
        """Write batches that lie one behind the other.

        Args:
            window: the batches; their CRCs are right.
            first_of: tells the first offset of a row; no last offset lies more than 2^31-1 above it.
            source_base: base offset by the name of the log that they are from.
            source: that log, for a batch that is not held whole.

        Returns:
            the rows that were written, as half-open ranges.
        """
        self._begin(window, first_of(0), source_base)
        written: list[tuple[int, int]] = []
        start = 0
        while start < window.count:
            stop = self._fitting(window, start)
            count, error = self._append(window, start, stop, source) if stop > start else (0, None)
            if count:
                written.append((start, start + count))
            start += count
            if error is not None:
                self._refused(window, start, error.exception)
                start += 1
            elif not count:  # the segment, or one of its indexes, is full
                self._close()
                self._open(self._name(first_of(start), window.cell(start, layout.LAST_OFFSET)))
        return written

    # --- segments -------------------------------------------------------------------------------------------
    def _begin(self, window: Window, first: int, source_base: int | None) -> None:
        """Begin a segment where the source has begun one, if an index of that base can have the first batch."""
        base = first if source_base is None or source_base > first else source_base
        if window.cell(0, layout.LAST_OFFSET) - base > layout.MAX_INT:
            base = first
        if self._segment is None:
            self._source_base = base
            self._open(base)
        elif source_base is not None and self._source_base < source_base <= max(first, self.end):
            self._close()
            self._source_base = source_base
            is_here = self.end <= source_base <= first
            self._open(base if is_here else self._name(first, window.cell(0, layout.LAST_OFFSET)))

    def _name(self, first: int, last: int) -> int:
        """The name of a new segment: the end so far, where its first batch begins below. Source: LocalLog.roll."""
        return self.end if first < self.end <= last else first

    def _open(self, base: int) -> None:
        self._segment = _Segment(base, self._settings, self._producers, self._partition)

    def _create(self, segment: _Segment) -> int:
        segment.log = self._ops.create(self._directory, f"{segment.base:020}.log")
        if segment.base > self._log_start and self.batches:
            self._snapshot(segment.base)
        if not self.segments:
            self.first_base = segment.base
        self.segments += 1
        return segment.log

    def _fitting(self, window: Window, start: int) -> int:
        """Return up to which row batches go into the segment in hand; an empty one takes a batch of any size."""
        segment = self._segment
        assert segment is not None
        room = self._settings.segment_bytes - segment.size
        begin = window.cell(start, layout.POSITION)
        stop = window.count
        if window.end(stop) - begin > room:
            ends = (position + size for position, size in window.ranges())
            stop = next((k for k, end in enumerate(ends) if k >= start and end - begin > room), stop)
        if not segment.size:
            stop = max(stop, start + 1)
        if window.cell(window.count - 1, layout.LAST_OFFSET) - segment.base > layout.MAX_INT:
            lasts = window.column(layout.LAST_OFFSET)
            stop = next((k for k in range(start, stop) if lasts[k] - segment.base > layout.MAX_INT), stop)
        return stop

    def _append(self, window: Window, start: int, stop: int, source: Source) -> tuple[int, BrokerError | None]:
        """Append rows as far as a broker takes them; return how many, and what it throws of the next."""
        segment = self._segment
        assert segment is not None
        part = _moved(window, start, stop, segment.size - window.cell(start, layout.POSITION))
        mark = segment.indexes.mark()
        try:
            segment.indexes.step(part, part.count)
        except BrokerError:
            if not segment.size:
                raise
            segment.indexes.restore(mark)
            return 0, None
        count, error = part.count, None
        try:
            segment.states.step(part, count)
        except BrokerError as caught:
            count, error = caught.row, caught
            segment.indexes.restore(mark)
            segment.indexes.step(part, count)
        if count:
            self._put(segment, window, start, start + count, source)
            self._learn(part, count)
            self.batches += count
            self.end = part.cell(count - 1, layout.LAST_OFFSET) + 1
        return count, error

    def _put(self, segment: _Segment, window: Window, start: int, stop: int, source: Source) -> None:
        position, end = window.cell(start, layout.POSITION), window.end(stop)
        log = self._create(segment) if segment.log is None else segment.log
        if window.has_record_bytes:
            self._ops.write(log, window.view[position - window.origin : end - window.origin], segment.size)
        else:
            header = window.view[position - window.origin :][: layout.RECORDS_AT]
            self._ops.write(log, header, segment.size)
            for at in range(position + len(header), end, _PIECE):
                data = source.read_at(at, min(_PIECE, end - at))
                self._ops.write(log, data, segment.size + at - position)
        segment.size += end - position
        self.size += end - position

    def _learn(self, part: Window, count: int) -> None:
        if _scan.extremes(part.rows, count, layout.LEADER_EPOCH)[1] <= self._epochs.latest:
            return
        for k in range(count):
            epoch = part.cell(k, layout.LEADER_EPOCH)
            if epoch > self._epochs.latest:
                self._epochs.assign(EpochEntry(epoch, part.cell(k, layout.BASE_OFFSET)))

    def _close(self) -> None:
        segment = self._segment
        if segment is None:
            return
        self._segment = None
        self._producers = segment.states.producers()
        if segment.log is None:
            return
        self._dress(segment.log)
        self._ops.sync(segment.log)
        os.close(segment.log)
        name = f"{segment.base:020}"
        indexes = segment.indexes
        indexes.finish()
        offsets = OffsetIndex.encode(zip(indexes.offsets, indexes.positions, strict=True), segment.base)
        times = TimeIndex.encode(zip(indexes.timestamps, indexes.time_offsets, strict=True), segment.base)
        self.put_file(f"{name}.index", offsets)
        self.put_file(f"{name}.timeindex", times)
        if segment.states.aborted:
            self.put_file(f"{name}.txnindex", TransactionIndex.encode(segment.states.aborted))

    # --- other files ----------------------------------------------------------------------------------------
    def _snapshot(self, offset: int) -> None:
        self._snapshots = [*self._snapshots[-_SNAPSHOTS + 1 :], (offset, self._encoded_producers())]

    def _encoded_producers(self) -> bytes:
        """A snapshot; of a new topic it has those with an open transaction.

        Another cluster gives the same producer ids again, and a broker that knows one takes batches with the sequences
        of what it wrote last for duplicates: it says that they are written, and drops them.
        """
        entries = in_java_order(self._producers.entries)
        if self._settings.is_new_topic:
            entries = [one for one in entries if one.current_txn_first_offset >= 0]
        return encode_snapshot(entries)

    def finish(self) -> None:
        """Write what a broker has beside the segments, of which there is one at least."""
        if self._segment is not None and not self.segments:
            self._create(self._segment)
        self._close()
        for offset, data in [*self._snapshots, (self.end, self._encoded_producers())]:
            self.put_file(f"{offset:020}.snapshot", data)
        epochs = self._epochs
        epochs.truncate_from_start(self._log_start)
        self.put_file("leader-epoch-checkpoint", epochs.file())

    def put_file(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        self._put_pieces(name, [data])

    def copy_file(self, name: str, source: Source) -> None:
        """Write a whole file as another one is.

        Args:
            name: of the new one.
            source: the other one.

        Raises:
            OSError: it cannot be read.
        """
        self._put_pieces(name, (source.read_at(at, _PIECE) for at in range(0, source.size, _PIECE)))

    def _put_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        fd, at = self._ops.create(self._directory, name), 0
        try:
            for data in pieces:
                self._ops.write(fd, data, at)
                at += len(data)
            self._dress(fd)
            self._ops.sync(fd)
        finally:
            os.close(fd)

    def _dress(self, fd: int) -> None:
        dress(fd, self._settings, self._ops)

    def abandon(self) -> None:
        """Close what is open."""
        if self._segment is not None and self._segment.log is not None:
            os.close(self._segment.log)
        self._segment = None


def dress(fd: int, settings: Settings, ops: FileOps) -> None:
    """Give a new file or directory the owner and the rights of the source, as far as that is allowed."""
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != settings.owner and os.geteuid() == 0:
        ops.own(fd, *settings.owner)
    ops.permit(fd, settings.mode)


def _moved(window: Window, start: int, stop: int, shift: int) -> Window:
    """Rows [start, stop) at the positions that they have in the result."""
    width = layout.BATCH_WIDTH
    if not shift and stop - start == window.count:
        return window
    rows = window.rows[start * width : stop * width]
    if shift:
        rows[layout.POSITION :: width] = array("q", [at + shift for at in rows[layout.POSITION :: width]])
    return Window(window.view, window.origin + shift, rows, stop - start, window.has_record_bytes)
