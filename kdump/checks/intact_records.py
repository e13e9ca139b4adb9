"""How much of a partition is intact and readable, as far as its items tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.item import PartitionChecked, SegmentChecked
from kdump.ranges import RangeSet
from kdump.rows.steps import Amount
from kdump.rows.verdict import Certainty, Loss

if TYPE_CHECKING:
    from kdump.item import Item

_MOST = 10_000  # ranges that are held; with more the offsets are not counted


class IntactRecords:
    """Counts the records that readers of a partition get.

    Attributes:
        size: of its logs, bytes; None where not all of it was judged.
    """

    def __init__(self) -> None:
        self.size: int | None = None
        self._by_log: dict[str, int | None] = {}  # records of each log, in order; None for not counted
        self._doubtful: list[tuple[str, int | None, int | None]] = []  # log, position, records that nobody gets
        self._gaps: set[tuple[str, int | None]] = set()  # log and position of bytes that are in no batch
        self._gone: RangeSet | None = RangeSet()  # offsets that nobody gets; None for too many ranges
        self._start: int | None = None  # the log start offset
        self._end: int | None = None  # the log end offset by the data

    def see(self, item: Item) -> None:
        """Take one item."""
        if isinstance(item, SegmentChecked):
            self._by_log[item.path] = item.records if item.is_read else None
        elif isinstance(item, Loss):
            if self._gone is not None:
                self._gone.add(item.offset, item.last_offset)
                self._gone = self._gone if len(self._gone) < _MOST else None
            if item.certainty is Certainty.DOUBTFUL and item.file is not None and len(self._doubtful) < _MOST:
                self._doubtful.append((item.file, item.position, item.records))
        elif isinstance(item, Finding):
            if item.gap and len(self._gaps) < _MOST:
                self._gaps.add((item.file, item.position))
        elif isinstance(item, PartitionChecked):
            self.size, self._start, self._end = item.size, item.start_offset, item.end_offset

    @property
    def intact(self) -> Amount:
        """What readers get."""
        return Amount(self.offsets(self._end), self._records(None, None))

    def before(self, log: str, end: int, records: int | None) -> Amount:
        """What readers get of what lies before a place.

        Args:
            log: path of the log with the place.
            end: the log end offset before it.
            records: in the log, before it.
        """
        return Amount(self.offsets(end), self._records(log, records))

    def offsets(self, end: int | None, start: int | None = None) -> int | None:
        """Return how many offsets readers get below an end; None where that is not known."""
        if end is None or self._start is None or self._end is None or self._gone is None:
            return None
        first, last = max(self._start, start or 0), min(end, self._end) - 1
        gone = sum(min(last, high) - max(first, low) + 1 for low, high in self._gone.over(first, last))
        return max(0, last - first + 1 - gone)

    def _records(self, until: str | None, of_last: int | None) -> int | None:
        """Records of the logs up to one, of which only some count."""
        if self._end is None or max(len(self._doubtful), len(self._gaps)) >= _MOST:
            return None
        of_log: dict[str, int | None] = {}
        for file, position, count in self._doubtful:
            before = of_log.get(file, 0)
            if (file, position) not in self._gaps:
                of_log[file] = None if before is None or count is None else before + count
        total = 0
        for log, records in self._by_log.items():
            if log == until:
                return None if of_last is None else total + of_last
            doubtful = of_log.get(log, 0)
            if records is None or doubtful is None:
                return None
            total += records - doubtful
        return total
