"""One pass of LogCleaner, simulated: the retained records, and the segments that they make.

Strategy: each byte is read once for the offset map and once to be filtered, a window at a time. Records are columns all
the way; a batch is looked at by itself only where it is compressed, legacy and wrapped, larger than a chunk of records,
or has a producer. CRCs decide nothing here, as in the cleaner.

Source: Cleaner.doClean, buildOffsetMap, cleanInto; MemoryRecords.filterTo, Kafka 4.3.1.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from kdump.broker.cleaner.cleaned_segment import CleanedSegment, OffsetMap
from kdump.broker.cleaner.filter_to import CleaningError, WindowFilter
from kdump.broker.cleaner.tombstones import REMOVED, legacy_horizon, tombstone_of
from kdump.broker.failure import CORRUPT
from kdump.broker.lookup_results import limit_of
from kdump.broker.producer.end_markers import Marker, read_markers
from kdump.broker.segment_reading import looks_right, trusted_time
from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import _scan, layout
from kdump.format.batch.window import Buffer, Window
from kdump.format.checksum import crc32c
from kdump.format.kernels import wire
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import ROWS
from kdump.item import Progress
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.record.chunk import Chunk
    from kdump.format.source import Source


class LastRecord(Value):
    """The last record of an active producer: its last offset with data, None for none, and its epoch."""

    offset: int | None
    epoch: int


class Logs(Protocol):
    """Gives what the cleaner reads, by the number of a segment."""

    def log(self, number: int) -> Source:
        """Return the log; it stays open until the next is asked for."""

    def position(self, number: int, offset: int) -> int:
        """Return where the offset index says to look for an offset."""

    def aborted(self, number: int, upper_bound: int) -> Iterable[AbortedTxn]:
        """Return the aborted transactions from a segment on that begin below an offset."""


class LogToClean(Value):
    """The task of one pass."""

    bases: list[int]  # base offsets of all segments
    modified: list[int]  # times of their .log files, ms
    # first_dirty_offset, end: of the part that is to be cleaned; `end` is the base offset of a segment
    first_dirty_offset: int
    end: int
    now: int  # the clock, ms
    delete_retention_ms: int  # of the topic
    kept_end: int  # an empty batch that ends there is kept, as the rules of the release have it
    max_record: int | None  # bytes that a record of a compressed batch may claim; None where nothing bounds it
    producers: Mapping[int, LastRecord]  # the active ones by their id
    # max_uncompressed_bytes, max_batch_bytes: limits; a pass ends at a batch over them
    max_uncompressed_bytes: int
    max_batch_bytes: int

    @property
    def legacy_horizon(self) -> int:
        """Up to which time of its file a segment loses its tombstones of magic 0 and 1."""
        return legacy_horizon(self.bases, self.modified, self.first_dirty_offset, self.delete_retention_ms)


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


_OUTPUT = 1 << 20  # bytes of batches that are written at once, unless one needs more
_NO_TIME = -1
_MAGICS = frozenset((0, 1, 2))
_HELD_APART = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG


class Cleaner:
    """Does one pass.

    Args:
        log_to_clean: what is to be done.
        logs: the files.
        offset_map: an empty one.
        collect: keep the batches and the offsets of the records, for whoever lists them.
        write: takes the bytes of each new segment; None where nobody wants them.

    Attributes:
        largest: by number of a segment that was read to its end the largest timestamp of its batches; -1 for none.

    Yields:
        from each method how far the pass is, the bytes that were read up to then.

    Raises:
        CleaningError, OSError: from each method.
    """

    def __init__(
        self,
        log_to_clean: LogToClean,
        logs: Logs,
        offset_map: OffsetMap,
        *,
        collect: bool,
        write: Callable[[bytes | memoryview], None] | None = None,
    ) -> None:
        self._pass = log_to_clean
        self._logs = logs
        self._map = offset_map
        self._collect = collect
        self._write = write
        self._read = 0  # bytes
        self._buffer: Buffer | None = None
        limits = log_to_clean.max_uncompressed_bytes
        packed, bound = log_to_clean.max_batch_bytes, log_to_clean.max_record
        self._reader = KafkaRecordReader(limits, max_batch=packed, cut=KEPT, streams=True, max_record=bound)
        self._again = KafkaRecordReader(limits, max_batch=packed, cut=KEPT, streams=True, max_record=bound)
        self._markers = KafkaRecordReader(limits, max_batch=packed, cut=KEPT)
        self._transactions = CleanedTransactions()
        self._keep = memoryview(bytearray(ROWS))
        self._out = memoryview(bytearray(_OUTPUT))
        self._made = array("q", bytes(8 * layout.M_WIDTH)) * 4096
        self.largest: dict[int, int] = {}
        self.odd: set[int] = set()  # numbers of segments in which something does not look right

    # --- the offset map ---------------------------------------------------------------------------------------
    def build_map(self) -> Generator[Progress, None, int]:
        """Fill the offset map from the dirty part; return the first offset that it does not cover."""
        start, end, bases = self._pass.first_dirty_offset, self._pass.end, self._pass.bases
        first = max(bisect_right(bases, start) - 1, 0)
        dirty = range(first, bisect_right(bases, end - 1)) if start < end else range(0)
        transactions = CleanedTransactions()
        if dirty:
            transactions.add(self._logs.aborted(first, end))
        for number in dirty:
            after = bases[number + 1] if number + 1 in dirty else end
            position = self._logs.position(number, start)
            before = _NO_TIME  # last offset of the batch before
            for window in self._windows(number, position):
                flags = self._flags(window, transactions)
                for chunk in self.chunks(window, number, flags):
                    full = self._map.put(chunk, flags, start)
                    if full is not None:
                        last = window.cell(full - 1, layout.LAST_OFFSET) if full else before
                        self._map.stop(last if last >= start else _NO_TIME)
                        return self._map.latest + 1
                before = window.cell(window.count - 1, layout.LAST_OFFSET)
                yield self._progress(number)
            self._map.covers(after - 1)
        return self._map.latest + 1

    def _windows(self, number: int, position: int = 0) -> Iterator[Window]:
        """The batches of a segment as the cleaner takes them; it fails where they end before the file does."""
        log = self._logs.log(number)
        if self._buffer is None:
            self._buffer = Buffer(log)
        self._buffer.source = log
        walk = KafkaWalk(log, log.name, position, log.size, self._pass.max_batch_bytes, self._buffer)
        largest, done = _NO_TIME, position
        for window in walk.windows():
            magics = window.column(layout.MAGIC)
            if not _MAGICS.issuperset(magics):
                odd = next(k for k, magic in enumerate(magics) if magic not in _MAGICS)
                why = f"{CORRUPT}: Invalid magic found in record: {magics[odd]}"
                raise CleaningError(why, number, window.cell(odd, layout.POSITION))
            largest = max(largest, trusted_time(window))
            if not looks_right(window):
                self.odd.add(number)
            self._read += window.end(window.count) - done
            done = window.end(window.count)
            yield window
        if walk.failure is not None or walk.position < log.size:
            why = walk.failure or f"{CORRUPT}: Log segment may be corrupt, {log.size - walk.position} bytes left"
            raise CleaningError(why, number, walk.position)
        if position == 0:
            self.largest[number] = largest

    def _progress(self, number: int) -> Progress:
        return Progress(self._read, 0, self._logs.log(number).name)

    def chunks(self, window: Window, number: int, flags: array[int] | None = None) -> Iterator[Chunk]:
        """Yield the records of a window; the pass fails at the first that cannot be read where a broker reads it."""
        for chunk in self._reader.chunks(window):
            problem = chunk.problem
            if problem is not None and not (flags is not None and _passed_over(window, problem.batch, flags)):
                raise _unread(chunk, number)
            if chunk.cut is not None and chunk.cut.key_size > KEPT:
                why = f"the key of a record has {chunk.cut.key_size} bytes: more than {KEPT} are not compared"
                raise CleaningError(why, number, window.cell(chunk.first, layout.POSITION), limit=True)
            yield chunk

    def _flags(self, window: Window, transactions: CleanedTransactions) -> array[int]:
        """The flag of each batch for the offset map: aborted and control batches are passed over."""
        flags = array("q", bytes(8 * window.count))
        for k, can_go in self._transactional(window, transactions):
            is_control = window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
            flags[k] = layout.DROP_RECORDS if is_control or can_go else 0
        return flags

    def _transactional(self, window: Window, transactions: CleanedTransactions) -> Iterator[tuple[int, bool]]:
        """Yield the batches with a part in transactions, and whether what is left of that allows them to go."""
        flags = window.column(layout.ATTRIBUTES)
        if not any(flag & _HELD_APART for flag in set(flags)):
            return
        rows = [k for k, flag in enumerate(flags) if flag & _HELD_APART and window.cell(k, layout.MAGIC) == 2]
        controls = [k for k in rows if flags[k] & layout.CONTROL_FLAG]
        markers = read_markers(self._markers, window, controls)
        for k in rows:
            producer, last = window.cell(k, layout.PRODUCER_ID), window.cell(k, layout.LAST_OFFSET)
            if flags[k] & layout.CONTROL_FLAG:
                yield k, transactions.control(producer, last, markers.get(k))
            else:
                yield k, transactions.data(producer, last)

    # --- what stays -------------------------------------------------------------------------------------------
    def clean(self, group: range) -> Generator[Progress, None, CleanedSegment]:
        """Filter some segments into one."""
        target = CleanedSegment(self._pass.bases[group[0]], collect=self._collect)
        for number in group:
            after = number + 1
            upper = self._pass.bases[after] if after < len(self._pass.bases) else self._pass.end
            self._transactions.add(self._logs.aborted(number, upper))
            old = self._pass.modified[number] <= self._pass.legacy_horizon
            for window in self._windows(number):
                WindowFilter(self, target, window, self._decide(window, drop_legacy=old), number).run()
                yield self._progress(number)
        return target

    def untouched(self, number: int) -> Generator[Progress, None, CleanedSegment]:
        """List a segment that the pass does not touch."""
        target = CleanedSegment(self._pass.bases[number], collect=self._collect)
        for window in self._windows(number):
            stats = array("q", bytes(8 * layout.S_WIDTH * window.count))
            flags = array("q", [layout.KEEP_RECORDS]) * window.count
            for chunk in self.chunks(window, number):
                self.judge(chunk, flags, stats, target)
            target.add_as_is(window, stats)
            yield self._progress(number)
        return target

    def _decide(self, window: Window, *, drop_legacy: bool) -> array[int]:
        """The decision about each batch before its records are read."""
        flags = array("q", bytes(8 * window.count))
        now = self._pass.now
        magics, attributes = window.column(layout.MAGIC), window.column(layout.ATTRIBUTES)
        if min(magics) < layout.MAGIC_V2 or any(flag & layout.DELETE_HORIZON_FLAG for flag in set(attributes)):
            for k, flag in enumerate(attributes):
                horizon = window.cell(k, layout.BASE_TIMESTAMP)
                if tombstone_of(magics[k], flag, horizon, now, drop_legacy=drop_legacy) == REMOVED:
                    flags[k] = layout.DROP_TOMBSTONES
        for k, can_go in self._transactional(window, self._transactions):
            if not window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                flags[k] |= layout.DROP_RECORDS if can_go else 0
            elif can_go and flags[k] & layout.DROP_TOMBSTONES:
                flags[k] |= layout.DROP_RECORDS
            else:
                flags[k] |= layout.KEEP_RECORDS | (layout.NEEDS_HORIZON if can_go else 0)
        self._retain_for_producers(window, flags)
        ends = window.column(layout.LAST_OFFSET)
        if max(ends) >= self._pass.kept_end - 1:
            for k, last in enumerate(ends):
                if last == self._pass.kept_end - 1:
                    flags[k] |= layout.KEEP_EMPTY
        return flags

    def _retain_for_producers(self, window: Window, flags: array[int]) -> None:
        """Retain the last batch of each active producer, even if empty (RETAIN_EMPTY)."""
        producers = self._pass.producers
        if not producers or not _scan.suspicions(window.rows, window.count) & layout.HAS_PRODUCER:
            return
        for k, producer in enumerate(window.column(layout.PRODUCER_ID)):
            last = producers.get(producer) if producer >= 0 else None
            if last is None:
                continue
            if last.offset is None:
                is_control = window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
                stays = is_control and window.cell(k, layout.PRODUCER_EPOCH) == last.epoch
            else:
                stays = window.cell(k, layout.LAST_OFFSET) == last.offset
            flags[k] |= layout.KEEP_EMPTY if stays else 0

    def judge(self, chunk: Chunk, flags: array[int], stats: array[int], target: CleanedSegment) -> memoryview:
        """Tell which records of a chunk stay; valid until the next call."""
        assert chunk.filled <= len(self._keep)
        self._map.judge(chunk, flags, self._keep, stats)
        target.add_records(chunk, self._keep)
        return self._keep

    @property
    def horizon(self) -> int:
        """The delete horizon that tombstones get now, ms."""
        return wire.add(self._pass.now, self._pass.delete_retention_ms)  # as Java adds

    def again(self, window: Window, k: int) -> Iterator[Chunk]:
        """Read the records of one batch once more."""
        return self._again.chunks(window.batch(k))

    def room(self, size: int) -> tuple[memoryview, array[int]]:
        """Return where to write at least so many bytes of batches, and room for what is said of each."""
        if len(self._out) < size:
            self._out = memoryview(bytearray(size))
        elif len(self._out) > _OUTPUT and size <= _OUTPUT:
            self._out = memoryview(bytearray(_OUTPUT))
        return self._out, self._made

    def write_batches(self, data: memoryview, made: array[int], count: int) -> None:
        """Hand written batches on, with their CRCs."""
        if self._write is None:
            return
        for i in range(count):
            at = made[i * layout.M_WIDTH + layout.M_AT]
            if at >= 0:
                end = at + layout.LOG_OVERHEAD + wire.u32(data, at + layout.SIZE_AT)
                crc = crc32c(data[at + layout.ATTRIBUTES_AT : end])
                data[at + layout.CRC_AT : at + layout.ATTRIBUTES_AT] = crc.to_bytes(4, "big")
        self._write(data)


def _passed_over(window: Window, k: int, flags: array[int]) -> bool:
    """Whether a broker drops a batch without a look at its records. Source: MemoryRecords.filterTo."""
    is_control = window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
    return not is_control and flags[k] & (layout.DROP_RECORDS | layout.KEEP_EMPTY) == layout.DROP_RECORDS


def _unread(chunk: Chunk, number: int) -> CleaningError:
    problem = chunk.problem
    assert problem is not None
    position = chunk.window.cell(problem.batch, layout.POSITION)
    limit = limit_of(chunk.window, problem)
    return CleaningError(f"the batch is over {limit}" if limit else problem.java, number, position, limit=bool(limit))
