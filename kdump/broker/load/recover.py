"""LogSegment.recover: where a broker cuts a log, and the indexes that it writes.

A pure function over facts: nothing is written. The batches come in columns; only an index entry, a leader epoch or an
end marker is looked at by itself. The folds of a window run one after the other, so what a broker throws is found by
the earliest batch: what came after it is taken back.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.broker.failure import CORRUPT, BrokerError, Failure
from kdump.broker.load.index_builder import IndexBuilder
from kdump.broker.producer.producer_append import StateManager
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import _scan, layout
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.format.index.offset_and_time import INDEX_BYTES, OffsetIndex, TimeIndex, TimestampOffset, has_room
from kdump.format.index.transaction_index import AbortedTxn, TransactionIndex
from kdump.format.java_values import ARGUMENT
from kdump.format.kernels import wire
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.broker.producer.replay import Producers
    from kdump.format.batch.window import Window
    from kdump.format.source import Source

NO_EPOCH = -1
_KAFKA = "org.apache.kafka.common.KafkaException"
OVERFLOW = "org.apache.kafka.storage.internals.log.LogSegmentOffsetOverflowException"

Columns = tuple["array[int]", "array[int]"]


class Recovered(Value):
    """A segment after its recovery."""

    base_offset: int  # of the segment
    valid_bytes: int  # of the log, up to where all is well; what a broker keeps, unless it throws
    truncated_bytes: int  # that a broker cuts off
    offset_entries: Columns  # columns of the offset index: offset (absolute), position
    time_entries: Columns  # columns of the time index: timestamp (ms), offset (absolute)
    aborted: list[AbortedTxn]  # the entries of the transaction index
    epochs: list[EpochEntry]  # the leader epochs that were assigned on the way, in order
    producers: Producers  # what is known of producers afterwards
    producers_offset: int  # at which that is known: a snapshot that is taken now has this name
    # after the last batch of the valid bytes, the base offset if there is none. A broker that reads it by the new index
    # (LogSegment.readNextOffset) can find less where offsets fall after the last entry.
    end_offset: int
    # the largest timestamp, with the last offset of its batch; -1 with the base offset if there is none
    largest: TimestampOffset
    # what ended the recovery before the end of the log, None if nothing did. When it `escapes` all is as it was then:
    # nothing is cut, and the largest timestamp is not in the time index; only where just that cannot be appended the
    # log is cut.
    failure: Failure | None

    def index(self) -> bytes:
        """Return the bytes of the .index file."""
        return OffsetIndex.encode(zip(*self.offset_entries, strict=True), self.base_offset)

    def timeindex(self) -> bytes:
        """Return the bytes of the .timeindex file."""
        return TimeIndex.encode(zip(*self.time_entries, strict=True), self.base_offset)

    def txnindex(self) -> bytes:
        """Return the bytes of the .txnindex file; a broker makes none for no bytes, and leaves an empty one."""
        return TransactionIndex.encode(self.aborted)


def recover(
    log: Source,
    base_offset: int,
    interval: int,
    producers: Producers,
    *,
    latest_epoch: int = NO_EPOCH,
    partition: str = "{partition}",
    modified: int = 0,
    max_index_bytes: int = INDEX_BYTES,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
) -> Recovered:
    """Recover a segment as a broker does.

    Args:
        log: the segment; messages have its name, and the same with other suffixes for the indexes.
        base_offset: of the segment, from the name of the file.
        interval: index.interval.bytes.
        producers: what is known of producers at the base offset.
        latest_epoch: of the leader epoch cache, -1 for none.
        partition: name of the partition, for messages.
        modified: time of the file in ms, for messages.
        max_index_bytes: segment.index.bytes.
        max_batch_bytes, max_uncompressed_bytes: of a control batch over them the records are not read: a broker is
            said to run out of memory there. A larger batch without control records is read in parts.

    Raises:
        OSError: the log cannot be read.

    Source: LogSegment.recover, Kafka 4.3.1.
    """
    path = log.name.removesuffix(".log")
    indexes = IndexBuilder(base_offset, interval, max_index_bytes, path)
    limits = max_uncompressed_bytes, max_batch_bytes
    states = StateManager(producers, base_offset, partition, f"{path}.txnindex", *limits)
    recovery = _Recovery(log, base_offset, indexes, states, latest_epoch, modified)
    recovery.run(max_batch_bytes)
    return recovery.result()


class _Recovery:
    """One run over a segment."""

    def __init__(
        self,
        log: Source,
        base_offset: int,
        indexes: IndexBuilder,
        states: StateManager,
        latest_epoch: int,
        modified: int,
    ) -> None:
        self._log = log
        self._base = base_offset
        self._indexes = indexes
        self._states = states
        self._latest = latest_epoch
        self._modified = modified
        self._epochs: list[EpochEntry] = []
        self._valid = 0
        self._truncated = 0
        self._end = base_offset
        self._failure: Failure | None = None

    def run(self, max_batch_bytes: int) -> None:
        log = self._log
        if log.size > layout.MAX_INT:
            what = f"The size of segment {log.name} ({log.size}) is larger than the maximum allowed segment size of"
            self._failure = Failure("open", f"{_KAFKA}: {what} {layout.MAX_INT}", 0)
            return
        walk = KafkaWalk(log, log.name, 0, log.size, max_batch_bytes)
        for window in walk.windows():
            self._step(window)
            if self._failure is not None:
                break
        else:
            if walk.failure is not None:
                self._failure = Failure("framing", self._framing(walk.failure), walk.position)
        if self._failure is None or not self._failure.escapes:
            self._finish()

    def _finish(self) -> None:
        """Cut the log, and add the largest timestamp."""
        self._truncated = self._log.size - self._valid
        error = _caught(self._indexes.finish)
        if error is not None:
            self._failure = Failure(error.stage, error.exception, self._valid)

    def result(self) -> Recovered:
        indexes, states = self._indexes, self._states
        return Recovered(
            self._base,
            self._valid,
            self._truncated,
            offset_entries=(indexes.offsets, indexes.positions),
            time_entries=(indexes.timestamps, indexes.time_offsets),
            aborted=states.aborted,
            epochs=self._epochs,
            producers=states.producers(),
            producers_offset=states.offset,
            end_offset=self._end,
            largest=indexes.largest,
            failure=self._failure,
        )

    def _step(self, window: Window) -> None:
        """Take a window, up to the first batch of which a broker throws."""
        if not window.has_record_bytes:
            _scan.suspect(window.rows, 1, layout.UNKNOWN, array("q", [layout.UNKNOWN] * layout.BORDER_WIDTH))
        before = self._indexes.mark()
        error = self._index(window)
        stop = kept = window.count if error is None else error.row
        epochs = self._new_epochs(window, stop)
        unfit = next((k for k, entry in epochs if entry.start_offset < 0), stop)
        late = _caught(lambda: self._states.step(window, unfit))
        if late is None and unfit < stop:
            entry = dict(epochs)[unfit]
            what = f"EpochEntry[epoch={entry.epoch}, startOffset={entry.start_offset}]"
            late = BrokerError(unfit, "epochs", f"{ARGUMENT}: Received invalid partition leader epoch entry {what}")
        if late is not None:  # its bytes and its index entry count already
            error, kept = late, late.row + 1
            self._indexes.restore(before)
            self._indexes.step(window, kept)
        self._epochs += [entry for k, entry in epochs if k < kept and k != unfit]
        self._latest = max((entry.epoch for entry in self._epochs[-1:]), default=self._latest)
        if kept:
            self._valid, self._end = window.end(kept), wire.add(window.cell(kept - 1, layout.LAST_OFFSET), 1)
        if error is not None:
            self._failure = Failure(error.stage, error.exception, window.cell(error.row, layout.POSITION))

    def _index(self, window: Window) -> BrokerError | None:
        """Put batches into the indexes, up to the first that is damaged, out of range, or does not fit."""
        trusted = _trusted_rows(window)
        stop = self._rows_in_range(window, trusted)
        error = _caught(lambda: self._indexes.step(window, stop))
        if error is not None or stop == window.count:
            return error
        return _damaged(window, stop) if stop == trusted else self._overflow(window, stop)

    def _rows_in_range(self, window: Window, stop: int) -> int:
        """Source: AbstractIndex.canAppendOffset."""
        lasts = window.column(layout.LAST_OFFSET)[:stop]
        if not stop or (self._base <= min(lasts) and max(lasts) <= self._base + layout.MAX_INT):
            return stop
        return next((k for k, last in enumerate(lasts) if not has_room(self._base, last)), stop)

    def _overflow(self, window: Window, k: int) -> BrokerError:
        facts = f"baseOffset={self._base}, size={self._log.size}, lastModifiedTime={self._modified}"
        segment = f"LogSegment({facts}, largestRecordTimestamp={self._indexes.largest.timestamp})"
        offset = window.cell(k, layout.LAST_OFFSET)
        return BrokerError(k, "offset", f"{OVERFLOW}: Detected offset overflow at offset {offset} in segment {segment}")

    def _new_epochs(self, window: Window, stop: int) -> list[tuple[int, EpochEntry]]:
        """Return row and entry of each leader epoch above all before."""
        epochs, latest = window.column(layout.LEADER_EPOCH)[:stop], self._latest
        found: list[tuple[int, EpochEntry]] = []
        if stop and max(epochs) > latest:
            for k, epoch in enumerate(epochs):
                if epoch > latest:
                    latest = epoch
                    found.append((k, EpochEntry(epoch, window.cell(k, layout.BASE_OFFSET))))
        return found

    def _framing(self, failure: str) -> str:
        """The failure of the walk; a broker sees that a batch is too small before it reads a header past its end."""
        if not failure.startswith(_KAFKA):
            return failure
        field = self._log.read_at(self._valid + layout.SIZE_AT, 4)
        return _too_small(wire.i32(field, 0) + layout.LOG_OVERHEAD)


def _trusted_rows(window: Window) -> int:
    """The number of batches before the first with a wrong CRC, or shorter than its header."""
    stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
    if stored == computed:
        return window.count
    return next(k for k in range(window.count) if stored[k] != computed[k])


def _damaged(window: Window, k: int) -> BrokerError:
    """Source: DefaultRecordBatch.ensureValid, LegacyRecord.ensureValid."""
    size = window.cell(k, layout.SIZE)
    if window.cell(k, layout.MAGIC) >= layout.MAGIC_V2 and size < layout.RECORDS_AT:
        return BrokerError(k, "ensureValid", _too_small(size))
    stored, computed = window.cell(k, layout.CRC), window.cell(k, layout.COMPUTED_CRC)
    why = f"{CORRUPT}: Record is corrupt (stored crc = {stored}, computed crc = {computed})"
    return BrokerError(k, "ensureValid", why)


def _too_small(size: int) -> str:
    least = f"smaller than the minimum allowed overhead {layout.RECORDS_AT}"
    return f"{CORRUPT}: Record batch is corrupt (the size {size} is {least})"


def _caught(step: Callable[[], None]) -> BrokerError | None:
    try:
        step()
    except BrokerError as error:
        return error
    return None
