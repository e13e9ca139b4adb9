"""The segments of a partition during a load: their logs and offset indexes in their present state."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from kdump.broker.failure import BrokerError
from kdump.broker.lookup_results import Refused
from kdump.broker.segment_reading import SegmentReading
from kdump.format.batch import layout
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.java_values import ARGUMENT
from kdump.format.source import BytesSource
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.broker.load.disk import Disk
    from kdump.broker.load.facts import PartitionFacts
    from kdump.format.batch.window import Window
    from kdump.format.source import Source

_STAGE = "lookup"
_MOST_KEPT = 8  # indexes: each holds pages


class LoadedSegment(Value):
    """The files of one base offset that are read."""

    base_offset: int
    log: Source
    offset_index: OffsetIndex


class LoadedSegments:
    """The segments that a broker has opened.

    Args:
        disk: where their files are.
        facts: of the partition.

    Source: LogSegments.
    """

    def __init__(self, disk: Disk, facts: PartitionFacts) -> None:
        self.bases: list[int] = []  # their base offsets, ascending
        self._disk = disk
        self._facts = facts
        self._indexes: dict[int, tuple[Source | None, OffsetIndex]] = {}
        limits = facts.max_uncompressed_bytes, facts.max_batch_bytes
        self._reading = SegmentReading(self, *limits, lambda _number, _window, _k: None, facts.rules)

    def add(self, base_offset: int) -> None:
        """Open a segment."""
        if base_offset not in self.bases:
            insort(self.bases, base_offset)

    def remove(self, base_offset: int) -> None:
        """Forget a segment."""
        self.bases.remove(base_offset)

    def segment(self, number: int) -> LoadedSegment:
        """Return a segment by its number, as its files are now."""
        base = self.bases[number]
        source = self._disk.get(f"{base:020}.index")
        kept = self._indexes.get(base)
        if kept is None or kept[0] is not source:
            if len(self._indexes) >= _MOST_KEPT:
                self._indexes.clear()
            kept = self._indexes[base] = (source, OffsetIndex(source or BytesSource(b""), base))
        return LoadedSegment(base, self._disk.get(f"{base:020}.log") or BytesSource(b""), kept[1])

    def next_offset(self, number: int) -> int:
        """Return the offset after the last batch of a segment.

        Raises:
            BrokerError: a broker throws when it reads it.

        Source: LogSegment.readNextOffset.
        """
        found = self._reading.next_offset(number)
        if isinstance(found, Refused):
            raise BrokerError(0, _STAGE, found.exception)
        return found

    def position(self, number: int, offset: int) -> int | None:
        """Return where the batch with an offset is, or the first one after it; None when there is none.

        Raises:
            BrokerError: a broker throws when it looks.

        Source: LogSegment.translateOffset.
        """
        found = self._reading.search(number, offset, self.segment(number).offset_index.lookup(offset).position)
        if isinstance(found, Refused):
            raise BrokerError(0, _STAGE, found.exception)
        return None if found is None else found.cell(layout.POSITION)

    def first_offset(self, base: int, window: Window, k: int) -> int:
        """Return the base offset of a batch of a segment, `k` its row.

        Raises:
            BrokerError: a broker throws when it reads the records of a legacy wrapper.
        """
        found = self._reading.first_offset(self.bases.index(base), window, k)
        if isinstance(found, Refused):
            raise BrokerError(0, _STAGE, found.exception)
        return found

    def find(self, offset: int, end: int) -> None:
        """Read at an offset, as a broker does to learn where the first unstable one is.

        Args:
            offset: not below the log start offset; beyond the end there is nothing to find.
            end: log end offset.

        Raises:
            BrokerError: a broker throws.

        Source: UnifiedLog.maybeConvertToOffsetMetadata, LocalLog.read.
        """
        first = max(0, bisect_right(self.bases, offset) - 1)
        for number in range(first, len(self.bases) if offset < end else first):
            if self.position(number, offset) is not None:
                break

    def make_room(self) -> None:
        """Give the indexes of the last segment their full size.

        Raises:
            BrokerError: they have more entries than segment.index.bytes has room for.

        Source: LogSegment.resizeIndexes, AbstractIndex.resize.
        """
        for suffix, entry in ((".index", OffsetIndex.entry_size), (".timeindex", TimeIndex.entry_size)):
            size = self._disk.size(f"{self.bases[-1]:020}{suffix}") // entry * entry
            limit = self._facts.max_index_bytes // entry * entry
            if size > limit:
                raise BrokerError(0, "open", f"{ARGUMENT}: newPosition > limit: ({size} > {limit})")
