"""Where an offset leads: what stands there, and which record a consumer gets next.

The walk is that of a broker, from the batch of an answer on; aborted transactions are those of the transaction indexes,
and a reader of committed data stands at the first open transaction. Headers decide first: records are read of batches
that can have the answer.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker.failure import BrokerError
from kdump.broker.log_facts import LogFiles, TooMuchToReadError, first_open
from kdump.compat.kafka_walk import KafkaWalk
from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.window import Buffer
from kdump.format.java_values import MAX_LONG
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.rows.lookup import OffsetContent
from kdump.storage.segment import UnreadableError
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.batch.window import Window
    from kdump.format.read_limits import ReadLimits
    from kdump.storage.partition_dir import PartitionDir


_MOST_READ = 64 * 1024 * 1024  # bytes of logs behind the newest snapshot
_WINDOW = 32 * 1024  # bytes of a log that are read at once: most answers are near
_UNREADABLE = -1


class Lead(TupleValue):
    """Where an offset leads."""

    what: OffsetContent | None  # what stands at it; None where nobody knows
    next: int | None  # of the next record at or behind it; None for none, or where that was not read
    next_committed: int | None  # of the next one that a read_committed consumer gets; None for none yet


NOWHERE = Lead(None, None, None)
"""Nobody knows where it leads, or nothing is there."""


class Leads:
    """Tells where offsets of one partition lead.

    Args:
        partition: its segments.
        limits: what is read of a batch.
        end: returns the end of the log as a broker has it; None where it is not known.
        reads_all: all that lies behind the newest snapshot may be read, to know which transactions are open; else no
            more than 64 MiB of it.
    """

    def __init__(
        self, partition: PartitionDir, limits: ReadLimits, end: Callable[[], int | None], *, reads_all: bool
    ) -> None:
        self._end = end
        self._most = None if reads_all else _MOST_READ
        self._partition = partition
        self._limits = limits
        self._reader = RecordReader(limits.max_uncompressed_bytes, max_batch=limits.max_batch_bytes, cut=KEPT)

    def of(self, number: int, position: int, offset: int) -> Lead:
        """Return where an offset leads.

        Args:
            number: of the segment of a batch, which is the first one that does not end before the offset.
            position: of that batch.
            offset: absolute.
        """
        try:
            return self._of(number, position, offset)
        except (UnreadableError, BrokerError, OSError):
            return NOWHERE

    def _of(self, number: int, position: int, offset: int) -> Lead:
        what: OffsetContent | None = None
        following: int | None = None
        stable = self._stable
        for window, k in self._batches(number, position):
            base, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
            if last < offset:
                continue
            is_first = what is None
            if is_first:
                what = OffsetContent.COMPACTED
            is_true = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
            record = self._record(window.batch(k), offset) if is_true else _UNREADABLE
            if record == _UNREADABLE:  # a consumer comes to its end here
                return Lead(None if is_first and base <= offset else what, following, None)
            if record is None:
                continue
            kind = self._kind(window, k)
            if is_first and record == offset:
                what = kind
            if kind is OffsetContent.CONTROL:
                continue
            following = record if following is None else following
            if stable is None or base >= stable:
                return Lead(what, following, None)
            if kind is OffsetContent.RECORD:
                return Lead(what, following, record)
        return Lead(what, following, None)

    def _batches(self, number: int, position: int) -> Iterator[tuple[Window, int]]:
        """Yield the batches from one on, to the end of the log."""
        for later in range(number, len(self._partition)):
            source = self._files.log(later)
            buffer = Buffer(source, _WINDOW)
            walk = KafkaWalk(source, source.name, position, source.size, self._limits.max_batch_bytes, buffer)
            for window in walk.windows():
                for k in range(window.count):
                    yield window, k
            if walk.failure is not None:
                return
            position = 0

    def _record(self, batch: Window, offset: int) -> int | None:
        """Return the offset of the first record of a batch at or behind an offset; None where it has none.

        It is _UNREADABLE where a record before that is damaged, or beyond a limit.
        """
        width = layout.RECORD_WIDTH
        for chunk in self._reader.chunks(batch):
            for found in chunk.rows[layout.R_OFFSET : chunk.filled * width : width]:
                if found >= offset:
                    return int(found)
            if chunk.problem is not None:
                return _UNREADABLE
        return None

    def _kind(self, window: Window, k: int) -> OffsetContent:
        flags = window.cell(k, layout.ATTRIBUTES) if window.cell(k, layout.MAGIC) >= layout.MAGIC_V2 else 0
        if flags & layout.CONTROL_FLAG:
            return OffsetContent.CONTROL
        if not flags & layout.TRANSACTIONAL_FLAG:
            return OffsetContent.RECORD
        base, producer = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.PRODUCER_ID)
        ranges = self._aborted.get(producer, [])
        at = bisect_right(ranges, (base, MAX_LONG)) - 1
        return OffsetContent.ABORTED if at >= 0 and base <= ranges[at][1] else OffsetContent.RECORD

    @cached_property
    def _aborted(self) -> dict[int, list[tuple[int, int]]]:
        """Aborted transactions by producer: first and last offset, ascending."""
        found: dict[int, list[tuple[int, int]]] = {}
        for one in self._files.aborted(0, MAX_LONG):
            found.setdefault(one.producer_id, []).append((one.first_offset, one.last_offset))
        return {producer: sorted(ranges) for producer, ranges in found.items()}

    @cached_property
    def _files(self) -> LogFiles:
        return LogFiles(self._partition, ignore, self._limits.max_batch_bytes)

    @cached_property
    def _stable(self) -> int | None:
        """The last stable offset, as far as transactions decide it; None where it is not known."""
        end = self._end()
        if end is None:
            return None
        try:
            begun = first_open(self._files, end, self._most)
        except (UnreadableError, BrokerError, OSError, TooMuchToReadError):
            return None
        return MAX_LONG if begun is None else begun.first_offset
