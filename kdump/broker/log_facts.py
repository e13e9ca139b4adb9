"""A log as a broker has it, from the files of its partition.

Strategy: of a segment the log is read once, by its headers, and 12 bytes of its time index. A pass of the cleaner reads
logs whole; what it has seen of their times is not read again. What a broker knows of producers at the end of a log is
the newest snapshot, and what was written after it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.cleaner.cleaner import LastRecord
from kdump.broker.cleaner.cleaner_manager import cleanable
from kdump.broker.failure import BrokerError
from kdump.broker.producer.producer_append import StateManager
from kdump.broker.producer.replay import Producers
from kdump.broker.retention import ActiveSegment, RetentionFacts, SegmentFacts
from kdump.broker.segment_reading import Outline, outline
from kdump.compat.kafka_walk import KafkaWalk
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.batch.window import HEADERS_WINDOW, Buffer, header_at
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.format.source import BytesSource
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import SWAP
from kdump.storage.segment import UnreadableError
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kdump.broker.cleaner.cleaner_manager import Cleanable
    from kdump.broker.config import TopicConfig
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.source import Source
    from kdump.storage.open_files import CachedFile
    from kdump.storage.partition_dir import PartitionDir

_NO_TIME = -1


class LogFiles:
    """The files of the segments of a partition, as retention and the cleaner read them.

    Args:
        directory: of the partition.
        report: takes what is wrong.
        max_batch_bytes: a larger batch is not held in memory.

    Attributes:
        path, name, log_dir: of the directory.

    Reports: F08, and all that the checked walk does.

    Raises:
        UnreadableError: what cannot be left out cannot be read.
    """

    def __init__(
        self, directory: PartitionDir, report: Callable[[Finding | OpenFailure], None], max_batch_bytes: int
    ) -> None:
        directory.demand_listing()
        self.directory = directory
        self.path = directory.path
        self.name = directory.name
        self.key = directory.key  # topic and partition; None where the name tells none
        self.topic = self.key[0] if self.key is not None else None  # None where the name tells none
        self.log_dir = directory.log_dir
        self.bases = directory.bases  # base offsets, ascending; empty where there is no segment
        self.report = report
        self.max_batch_bytes = max_batch_bytes
        self.log_start = 0  # the log start offset, for `aborted`
        self._explained: set[int] = set()

    def file(self, number: int, kind: FileKind) -> str:
        """Return the path of a file of a segment."""
        return self.directory.path_of(self.bases[number], kind)

    def has(self, number: int, kind: FileKind) -> bool:
        """Whether a segment has such a file."""
        return self.directory.has(self.bases[number], kind)

    # --- one file ---------------------------------------------------------------------------------------------
    def opened(self, number: int, kind: FileKind) -> CachedFile:
        """Open a file of a segment.

        Raises:
            UnreadableError: it cannot be.
        """
        source = self.directory.cache.open(self.file(number, kind), follow=False)
        if isinstance(source, OpenFailure):
            raise UnreadableError(source)
        return source

    def explain(self, source: Source, number: int) -> None:
        """Report what is wrong with a log, once."""
        if number in self._explained:
            return
        self._explained.add(number)
        base = self.bases[number]
        walk = CheckedWalk(
            source,
            self.report,
            segment=base,
            next_base=self.directory.next_base(base),
            max_batch_bytes=self.max_batch_bytes,
        )
        for _ in walk.windows():
            pass

    def first_timestamp(self, number: int) -> int:
        """Return the largest timestamp of the first batch of a segment, -1 where there is none."""
        header = header_at(self.log(number), 0)
        return _NO_TIME if header is None else header[layout.MAX_TIMESTAMP]

    def index_size(self, number: int, kind: FileKind) -> int:
        """Return the bytes of the whole entries of an index; 0 without one."""
        if not self.has(number, kind):
            return 0
        slot = OffsetIndex.entry_size if kind is FileKind.INDEX else TimeIndex.entry_size
        return self.opened(number, kind).size // slot * slot

    # --- what the cleaner reads -------------------------------------------------------------------------------
    def log(self, number: int) -> CachedFile:
        """Return the log.

        Raises:
            UnreadableError: it cannot be opened.
        """
        return self.opened(number, FileKind.LOG)

    def position(self, number: int, offset: int) -> int:
        """Return where the offset index says to look for an offset."""
        if not self.has(number, FileKind.INDEX):
            return 0
        return OffsetIndex(self.opened(number, FileKind.INDEX), self.bases[number]).lookup(offset).position

    def aborted(self, number: int, upper_bound: int) -> Iterator[AbortedTxn]:
        """Return the aborted transactions from a segment on that begin below an offset.

        Source: LocalLog.collectAbortedTransactions, TransactionIndex.collectAbortedTxns.
        """
        for later in range(number, len(self.bases)):
            if not self.has(later, FileKind.TXNINDEX):
                continue
            for one in TransactionIndex(self.opened(later, FileKind.TXNINDEX), self.bases[later]):
                if one.last_offset >= self.log_start and one.first_offset < upper_bound:
                    yield one
                if one.last_stable_offset >= upper_bound:
                    return

    def check_names(self) -> None:
        """Report the files that change the segments when a broker starts."""
        for name in sorted(name for name in self.directory.listing.names if name.endswith(".swap")):
            path = self.directory.listing.join(name)
            self.report(Finding(Code.F08, path, values={"why": SWAP}, severity_override=Severity.WARNING))


class LogReader:
    """Reads a log.

    Args:
        files: of the partition, at least one segment.
        buffer: to read logs into.

    Reports: K02; what is wrong with a log that a quick look finds damaged.

    Raises:
        UnreadableError: from each method: what cannot be left out cannot be read.
    """

    def __init__(self, files: LogFiles, buffer: Buffer | None = None) -> None:
        self.files = files
        self._buffer = Buffer(BytesSource(b""), HEADERS_WINDOW) if buffer is None else buffer
        self._outlines: dict[int, Outline | None] = {}
        self._status: dict[int, tuple[int, int]] = {}  # size in bytes, time in ms
        self._is_told = False

    def know(self, number: int, seen: Outline) -> None:
        """Take what the headers of a log say from somebody who has read them.

        Args:
            number: of the segment.
            seen: what they say.
        """
        self._outlines[number] = seen

    def facts(
        self,
        start: int | None,
        watermark: int | None,
        largest: Mapping[int, int],
        *,
        timeless: bool = False,
        is_tiered: bool = False,
    ) -> RetentionFacts:
        """Return the log as a broker has it.

        Args:
            start: the log start offset, at most the end; None for what the checkpoint says.
            watermark: the high watermark; None for the end.
            largest: by number of a segment the largest timestamp of its data, where that is known.
            timeless: leave times out that only the data tells, and do not read it for them.
            is_tiered: the log begins in remote storage, below its first segment here.
        """
        end = self.end_offset()
        offset = self.files.directory.log_start if start is None else min(start, end)  # no DeleteRecords goes further
        first = offset if is_tiered else max(offset, self.files.bases[0])
        if first > end and not self._is_told:
            self._is_told = True
            values: dict[str, int | str | None] = {"partition": self.files.name, "end": end}
            self.files.report(
                Finding(Code.K02, self.files.path, field="logStartOffset", found=first, expected=end, values=values)
            )
        end = max(first, end)
        segments = [
            self._segment(number, largest.get(number), timeless=timeless) for number in range(len(self.files.bases))
        ]
        return RetentionFacts(segments, first, end, end if watermark is None else min(max(watermark, first), end))

    def end_offset(self) -> int:
        """Return the end of the log.

        Raises:
            UnreadableError: its last segment cannot be read.
        """
        last = len(self.files.bases) - 1
        seen = self.outline(last)
        if seen is None:
            path = self.files.file(last, FileKind.LOG)
            raise UnreadableError(OpenFailure(path, "other", f"{path}: without it the end of the log is not known"))
        return self.files.bases[last] if seen.end_offset is None else seen.end_offset

    def _segment(self, number: int, known: int | None, *, timeless: bool) -> SegmentFacts:
        is_recovered = self._is_recovered(number)
        in_data = known
        if in_data is None and not timeless:
            seen = self.outline(number)
            in_data = None if seen is None else seen.largest
        size, modified = self._size_and_time(number)
        if is_recovered:
            largest = max(
                self._last_time(number) if self._is_open(number) else _NO_TIME,
                _NO_TIME if in_data is None else in_data,
            )
        else:
            largest = self._last_time(number)
        if largest >= 0:
            return SegmentFacts(self.files.bases[number], size, largest, "index", in_data)
        return SegmentFacts(self.files.bases[number], size, modified, "mtime", in_data)

    def _size_and_time(self, number: int) -> tuple[int, int]:
        """Return size (bytes) and time (ms) of a log, as they were when it was looked at first."""
        found = self._status.get(number)
        if found is None:
            path = self.files.file(number, FileKind.LOG)
            try:
                found = self.files.directory.listing.status(os.path.basename(path))
            except OSError as error:
                raise UnreadableError(OpenFailure(path, "other", f"{path}: {error.strerror}")) from None
            self._status[number] = found
        return found

    def modified(self, number: int) -> int:
        """Return the time of a log, ms."""
        return self._size_and_time(number)[1]

    def _is_open(self, number: int) -> bool:
        """Whether a broker has not closed the segment: what its time index lacks it has in memory."""
        return number == len(self.files.bases) - 1 and not self.files.directory.was_closed

    def _is_recovered(self, number: int) -> bool:
        """Whether the time index is not what counts: a broker rebuilds it at start, or knows better."""
        if not self.files.has(number, FileKind.INDEX) or self._is_open(number):
            return True
        log_dir, key = self.files.log_dir, self.files.key
        if self.files.directory.was_closed or not log_dir.file(FileKind.RECOVERY_POINT).is_read:
            return False
        point = 0 if key is None else log_dir.offset(FileKind.RECOVERY_POINT, key) or 0
        following = self.files.bases[number + 1] if number + 1 < len(self.files.bases) else point + 1
        return following > point

    def _last_time(self, number: int) -> int:
        """The timestamp of the last entry of the time index, -1 without one."""
        if not self.files.has(number, FileKind.TIMEINDEX):
            return _NO_TIME
        source = self.files.opened(number, FileKind.TIMEINDEX)
        index = TimeIndex(source, self.files.bases[number])
        if self._is_open(number):
            index.trim()
        return index.last_entry().timestamp

    def outline(self, number: int) -> Outline | None:
        """Return what the headers of a log say; None, and a problem is reported, where it cannot be read."""
        if number not in self._outlines:
            source = self.files.directory.cache.open(self.files.file(number, FileKind.LOG), follow=False)
            if isinstance(source, OpenFailure):
                self.files.report(source)
                self._outlines[number] = None
                return None
            try:
                self._status.setdefault(number, (source.size, source.modified))
                found = outline(source, self._buffer, self.files.max_batch_bytes)
                self._outlines[number] = found
                following = self.files.directory.next_base(self.files.bases[number])
                if not found.is_sound or (following is not None and (found.end_offset or 0) > following):
                    self.files.explain(source, number)
            except OSError as error:
                self.files.report(OpenFailure(source.name, "read", f"{source.name}: cannot be read: {error.strerror}"))
                self._outlines[number] = None
        return self._outlines[number]

    def active(self) -> ActiveSegment:
        """Return what counts of the last segment when something is appended."""
        last = len(self.files.bases) - 1
        offsets, times = self._entries(last, FileKind.INDEX), self._entries(last, FileKind.TIMEINDEX)
        size = self._size_and_time(last)[0]
        return ActiveSegment(self.files.bases[last], size, offsets, times, self.files.first_timestamp(last))

    def _entries(self, number: int, kind: FileKind) -> int:
        if not self.files.has(number, kind):
            return 0
        source, base = self.files.opened(number, kind), self.files.bases[number]
        index = OffsetIndex(source, base) if kind is FileKind.INDEX else TimeIndex(source, base)
        if self._is_open(number):
            index.trim()
        return index.entries


def producers_at(files: LogFiles, end_offset: int) -> Mapping[int, ProducerStateEntry]:
    """Return what a broker knows of producers.

    Without a snapshot a broker reads the whole log after an unclean stop, and nothing after a clean one. A directory
    without the files of its log directory around it is a copy, and taken as after a clean one.

    Args:
        files: the partition.
        end_offset: of the log.

    Source: UnifiedLog.rebuildProducerState, ProducerStateManager.truncateAndReload.
    """
    log_dir = files.log_dir
    start, known = _newest(files, end_offset)
    if start is None:
        if files.directory.was_closed or not log_dir.file(FileKind.RECOVERY_POINT).is_read:
            return {}
        start, known = files.bases[0], Producers.empty(files.bases[0])
    if start < end_offset:
        known = _replayed(files, known, start)
    return known.entries


class FirstOpen(TupleValue):
    """The transaction without an end that began first: its first offset is the last stable one."""

    producer_id: int
    first_offset: int


def earliest_open(producers: Mapping[int, ProducerStateEntry]) -> FirstOpen | None:
    """Return what keeps readers of committed data waiting, and the cleaner; None for nothing.

    Args:
        producers: by their id, at the end of a log.

    Source: ProducerStateManager.firstUnstableOffset.
    """
    opened = [one for one in producers.values() if one.current_txn_first_offset >= 0]
    first = min(opened, key=lambda one: one.current_txn_first_offset, default=None)
    return None if first is None else FirstOpen(first.producer_id, first.current_txn_first_offset)


def waits_for(reader: LogReader) -> FirstOpen | None:
    """Return the transaction at whose first offset a read_committed consumer stands; None for none.

    The newest snapshot is gone on from, as a broker does it; where there is none the whole log tells.

    Args:
        reader: of the log.

    Raises:
        OSError: a snapshot, or a log behind it, cannot be read.
        UnreadableError: a log cannot be.
    """
    return first_open(reader.files, reader.end_offset())


class TooMuchToReadError(Exception):
    """So much of a log lies behind its newest snapshot that it is not read."""


def first_open(files: LogFiles, end: int, most: int | None = None) -> FirstOpen | None:
    """Return the transaction at whose first offset a read_committed consumer stands; None for none.

    Args:
        files: of the partition.
        end: of the log, an offset.
        most: bytes of logs that may be read; None for all.

    Raises:
        OSError: a snapshot, or a log behind it, cannot be read.
        UnreadableError: a log cannot be.
        TooMuchToReadError: more than that would be read.
    """
    start, known = _newest(files, end)
    if start is None:
        start, known = files.bases[0], Producers.empty(files.bases[0])
    if start == end:
        return earliest_open(known.entries)
    if most is not None:
        number, position = _place(files, start)
        if sum(files.log(one).size for one in range(number, len(files.bases))) - position > most:
            raise TooMuchToReadError
    return earliest_open(_replayed(files, known, start).entries)


def _place(files: LogFiles, offset: int) -> tuple[int, int]:
    """The segment in which to look for an offset, and the position there."""
    number = max((number for number, base in enumerate(files.bases) if base <= offset), default=0)
    return number, files.position(number, offset)


def _newest(files: LogFiles, end_offset: int) -> tuple[int | None, Producers]:
    """The newest snapshot that can be read. Source: ProducerStateManager.loadFromSnapshot."""
    listing = files.directory.listing
    parsed = ((listing.name_of(name), name) for name in listing.names if name.endswith(".snapshot"))
    offsets = {one.base_offset: name for one, name in parsed if one.is_live and one.kind is FileKind.SNAPSHOT}
    for offset in sorted((one for one in offsets if one is not None and one <= end_offset), reverse=True):
        file = files.directory.file(offsets[offset], FileKind.SNAPSHOT)
        if file.error is not None:
            raise file.error
        snapshot = file.snapshot()
        if snapshot is not None and snapshot.error is None:
            return offset, Producers.of_snapshot(snapshot.entries, offset)
    return None, Producers.empty()


def _replayed(files: LogFiles, known: Producers, start: int) -> Producers:
    """Replay from a snapshot to the end of the log, as far as a broker gets."""
    manager = StateManager(known, start, files.name, "", MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES)
    first, position = _place(files, start)
    try:
        for number in range(first, len(files.bases)):
            log = files.log(number)
            for window in KafkaWalk(log, log.name, position, log.size, MAX_BATCH_BYTES).windows():
                ends = window.column(layout.LAST_OFFSET)
                skipped = next((k for k, last in enumerate(ends) if last >= start), len(ends))
                count = window.count - skipped
                if count:
                    manager.step(window.slice(skipped, window.count), count)
            position = 0
    except BrokerError:
        pass  # a broker does not load the log; verify says so
    return manager.producers()


def last_records(producers: Mapping[int, ProducerStateEntry], now: int, expiration: int) -> dict[int, LastRecord]:
    """Return the active producers: those that a broker has not forgotten.

    Args:
        producers: by their id.
        now: the clock, ms.
        expiration: producer.id.expiration.ms.

    Source: ProducerStateManager.isProducerExpired, UnifiedLog.lastRecordsOfActiveProducers.
    """
    return {
        producer: LastRecord(one.last_offset if one.has_batch else None, one.producer_epoch)
        for producer, one in producers.items()
        if one.current_txn_first_offset >= 0 or now - one.timestamp < expiration
    }


def cleanable_part(
    files: LogFiles, log: RetentionFacts, producers: Mapping[int, ProducerStateEntry], config: TopicConfig, now: int
) -> Cleanable:
    """Return what the cleaner may clean of a log, and why no more.

    Args:
        files: of the partition.
        log: the log.
        producers: at its end.
        config: of its topic.
        now: the clock, ms.
    """
    opened = earliest_open(producers)
    stable = log.high_watermark if opened is None else min(log.high_watermark, opened.first_offset)
    checkpoint = files.log_dir.offset(FileKind.CLEANER, files.key) if files.key is not None else None
    return cleanable(log, checkpoint, stable, config, now, files.first_timestamp)
