"""The files of a partition, read as far as retention and compaction ask for them.

Strategy: names are listed once; of a segment that is only judged by its time the log is read once, by its headers, and
12 bytes of its time index.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.cleaner import LastRecord
from kdump.broker.outline import Outline, outline
from kdump.broker.retention import ActiveSegment, LogFacts, SegmentFacts
from kdump.finding import Code, Finding, Severity
from kdump.format import layout
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.txnindex import TransactionIndex
from kdump.format.walk import CheckedWalk
from kdump.log.names import log_bases, parse_partition
from kdump.log.partition import UnreadableError
from kdump.log.source import DoorProblem, FileSource, open_source
from kdump.retention.producers import producers_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kdump.format.snapshot import ProducerStateEntry
    from kdump.format.source import Source
    from kdump.format.txnindex import AbortedTxn
    from kdump.format.window import Buffer
    from kdump.log.checkpoints import LogDirectory

_TIME_SLOT = 12
_NO_TIME = -1


class PartitionFiles:
    """A partition directory.

    Args:
        path: of the directory, as the user wrote it.
        around: its log directory.
        report: takes what is wrong.
        buffer: to read logs into.
        max_batch_bytes: a larger batch is not held in memory.

    Attributes:
        name: of the directory.
        topic: None where the name tells none.
        bases: base offsets, ascending; empty where there is no segment.

    Reports: B01-B04, K03, L01-L12 and all that the checked walk does, for logs that a quick look finds damaged; F08.

    Raises:
        UnreadableError: what cannot be left out cannot be read.
    """

    def __init__(
        self,
        path: str,
        around: LogDirectory,
        report: Callable[[Finding | DoorProblem], None],
        buffer: Buffer,
        max_batch_bytes: int,
    ) -> None:
        self.path = path
        self.name = os.path.basename(os.path.abspath(path))
        parsed = parse_partition(self.name)
        self.topic = parsed.topic if parsed is not None else None
        self._key = (parsed.topic, parsed.partition) if parsed is not None else None
        self._prefix = os.path.join(path, "")
        self._around = around
        self._report = report
        self._buffer = buffer
        self._limit = max_batch_bytes
        try:
            self._names = frozenset(os.listdir(path))
        except OSError as error:
            raise UnreadableError(
                DoorProblem(path, "permission", f"{path}: cannot be listed: {error.strerror}")
            ) from None
        self.bases = log_bases(self._names)
        self._outlines: dict[int, Outline | None] = {}
        self._open: tuple[int, FileSource] | None = None
        self._status: dict[int, tuple[int, int]] = {}  # size in bytes, time in ms

    def file(self, number: int, suffix: str) -> str:
        """Return the path of a file of a segment."""
        return f"{self._prefix}{self.bases[number]:020}.{suffix}"

    def has(self, number: int, suffix: str) -> bool:
        """Whether a segment has such a file."""
        return f"{self.bases[number]:020}.{suffix}" in self._names

    # --- the log as a whole -----------------------------------------------------------------------------------
    def facts(
        self, start: int | None, watermark: int | None, largest: Mapping[int, int], *, timeless: bool = False
    ) -> LogFacts:
        """Return the log as a broker has it.

        Args:
            start: the log start offset; None for what the checkpoint says.
            watermark: the high watermark; None for the end.
            largest: by number of a segment the largest timestamp of its data, where that is known.
            timeless: leave times out that only the data tells, and do not read it for them.
        """
        offset = self._around.log_starts.get(self._key, 0) if start is None and self._key else start or 0
        first = max(offset, self.bases[0])
        end = self._end_offset()
        if first > end:
            values: dict[str, int | str | None] = {"partition": self.name, "end": end}
            self._report(
                Finding(Code.K02, self.path, field="logStartOffset", found=first, expected=end, values=values)
            )
            end = first
        segments = [self._segment(number, largest.get(number), timeless=timeless) for number in range(len(self.bases))]
        return LogFacts(segments, first, end, end if watermark is None else min(max(watermark, first), end))

    def _end_offset(self) -> int:
        last = len(self.bases) - 1
        seen = self.outline(last)
        if seen is None:
            raise UnreadableError(self._unread(last))
        return self.bases[last] if seen.end_offset is None else seen.end_offset

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
            return SegmentFacts(self.bases[number], size, largest, "index", in_data)
        return SegmentFacts(self.bases[number], size, modified, "mtime", in_data)

    def _size_and_time(self, number: int) -> tuple[int, int]:
        """Return size (bytes) and time (ms) of a log, as they were when it was looked at first."""
        found = self._status.get(number)
        if found is None:
            path = self.file(number, "log")
            try:
                status = os.stat(path)
            except OSError as error:
                raise UnreadableError(DoorProblem(path, "other", f"{path}: {error.strerror}")) from None
            found = self._status[number] = status.st_size, status.st_mtime_ns // 1_000_000
        return found

    def modified(self, number: int) -> int:
        """Return the time of a log, ms."""
        return self._size_and_time(number)[1]

    def _is_open(self, number: int) -> bool:
        """Whether a broker has not closed the segment: what its time index lacks it has in memory."""
        return number == len(self.bases) - 1 and not self._around.is_clean

    def _is_recovered(self, number: int) -> bool:
        """Whether the time index is not what counts: a broker makes it anew when it starts, or knows better."""
        if not self.has(number, "index") or self._is_open(number):
            return True
        points = self._around.recovery_points
        if self._around.is_clean or points is None:
            return False
        point = points.get(self._key, 0) if self._key else 0
        following = self.bases[number + 1] if number + 1 < len(self.bases) else point + 1
        return following > point

    def _last_time(self, number: int) -> int:
        """The timestamp of the last entry of the time index, -1 without one."""
        if not self.has(number, "timeindex"):
            return _NO_TIME
        with self._opened(number, "timeindex") as source:
            if self._is_open(number):
                index = TimeIndex(source, self.bases[number])
                index.trim()
                return index.last_entry().timestamp
            entries = source.size // _TIME_SLOT
            if not entries:
                return _NO_TIME
            return int.from_bytes(source.read_at((entries - 1) * _TIME_SLOT, 8), "big", signed=True)

    # --- one file ---------------------------------------------------------------------------------------------
    def _opened(self, number: int, suffix: str) -> FileSource:
        source = open_source(self.file(number, suffix), follow=False)
        if isinstance(source, DoorProblem):
            raise UnreadableError(source)
        return source

    def _unread(self, number: int) -> DoorProblem:
        path = self.file(number, "log")
        return DoorProblem(path, "other", f"{path}: without it the end of the log is not known")

    def outline(self, number: int) -> Outline | None:
        """Return what the headers of a log say; None, and a problem is reported, where it cannot be read."""
        if number not in self._outlines:
            source = open_source(self.file(number, "log"), follow=False)
            if isinstance(source, DoorProblem):
                self._report(source)
                self._outlines[number] = None
                return None
            with source:
                try:
                    self._status.setdefault(number, (source.size, source.modified))
                    found = outline(source, self._buffer, self._limit)
                    self._outlines[number] = found
                    if not found.is_sound:
                        self.explain(source, number)
                except OSError as error:
                    self._report(DoorProblem(source.name, "read", f"{source.name}: cannot be read: {error.strerror}"))
                    self._outlines[number] = None
        return self._outlines[number]

    def explain(self, source: Source, number: int) -> None:
        """Report what is wrong with a log."""
        walk = CheckedWalk(source, self._report, segment=self.bases[number], max_batch_bytes=self._limit)
        for _ in walk.windows():
            pass

    def first_timestamp(self, number: int) -> int:
        """Return the largest timestamp of the first batch of a segment, -1 where there is none."""
        head = self.log(number).read_at(0, layout.RECORDS_AT)
        if len(head) <= layout.HEADER_UP_TO_MAGIC or head[layout.MAGIC_AT] == 0:
            return _NO_TIME
        is_new = head[layout.MAGIC_AT] >= layout.MAGIC_V2
        at = layout.MAX_TIMESTAMP_AT if is_new else layout.LEGACY_TIMESTAMP_AT
        return int.from_bytes(head[at : at + 8], "big", signed=True) if len(head) >= at + 8 else _NO_TIME

    def active(self) -> ActiveSegment:
        """Return what counts of the last segment when something is appended."""
        last = len(self.bases) - 1
        entries = [self._entries(last, "index", 8), self._entries(last, "timeindex", _TIME_SLOT)]
        return ActiveSegment(self.bases[last], self._size_and_time(last)[0], *entries, self.first_timestamp(last))

    def _entries(self, number: int, suffix: str, slot: int) -> int:
        if not self.has(number, suffix):
            return 0
        with self._opened(number, suffix) as source:
            if not self._is_open(number):
                return source.size // slot
            index = (OffsetIndex if slot == 8 else TimeIndex)(source, self.bases[number])
            index.trim()
            return index.entries

    def index_size(self, number: int, suffix: str) -> int:
        """Return the size of an index, bytes; 0 without one."""
        if not self.has(number, suffix):
            return 0
        slot = 8 if suffix == "index" else _TIME_SLOT
        with self._opened(number, suffix) as source:
            return source.size // slot * slot

    # --- what the cleaner reads -------------------------------------------------------------------------------
    def log(self, number: int) -> Source:
        """Return the log; it stays open until the next is asked for.

        Raises:
            UnreadableError: it cannot be opened.
        """
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = number, self._opened(number, "log")
        return self._open[1]

    def close(self) -> None:
        """Close what is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def position(self, number: int, offset: int) -> int:
        """Return where the offset index says to look for an offset."""
        if not self.has(number, "index"):
            return 0
        with self._opened(number, "index") as source:
            return OffsetIndex(source, self.bases[number]).lookup(offset).position

    def aborted(self, number: int, upper_bound: int) -> Iterator[AbortedTxn]:
        """Return the aborted transactions from a segment on that begin below an offset.

        Source: LocalLog.collectAbortedTransactions, TransactionIndex.collectAbortedTxns.
        """
        start = self.log_start
        for later in range(number, len(self.bases)):
            if not self.has(later, "txnindex"):
                continue
            with self._opened(later, "txnindex") as source:
                for one in TransactionIndex(source, self.bases[later]):
                    if one.last_offset >= start and one.first_offset < upper_bound:
                        yield one
                    if one.last_stable_offset >= upper_bound:
                        return

    log_start = 0
    """The log start offset; set before `aborted` is asked."""

    @property
    def checkpoint(self) -> int | None:
        """The entry of the partition in cleaner-offset-checkpoint."""
        return self._around.first_dirty.get(self._key) if self._key else None

    def producers(self, end_offset: int) -> dict[int, ProducerStateEntry]:
        """Return what a broker knows of producers at the end of the log."""
        is_copy = self._around.recovery_points is None and not self._around.is_clean
        return producers_at(self, self._names, end_offset, replay=not (is_copy or self._around.is_clean))

    def check_names(self) -> None:
        """Report the files that change the segments when a broker starts."""
        for name in sorted(name for name in self._names if name.endswith(".swap")):
            why = "compaction or a split was about to finish: a broker puts it in the place of what it covers"
            self._report(
                Finding(
                    Code.F08,
                    os.path.join(self.path, name),
                    values={"why": why},
                    severity_override=Severity.WARNING,
                )
            )


def last_records(
    producers: Mapping[int, ProducerStateEntry], now: int, expiration: int
) -> dict[int, LastRecord]:
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
