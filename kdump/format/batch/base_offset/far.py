"""Batches that lie further above the base offset of their segment than an index can say, and are right.

Kafka before 1.1.1 compacted segments so (KAFKA-6264): a broker serves such batches, and splits the segment when it
recovers it. They are right where the next segment begins behind them, or other files know the log to end there; where
the leader epoch checkpoint begins their epoch at them; or where several of them adjoin each other behind one that is
not far. Source: LogSegment.canConvertToRelativeOffset, UnifiedLog.splitOverflowedSegment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.batch.base_offset.header import header_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.format.batch.base_offset.header import HeaderFacts
    from kdump.format.batch.window import Window

_SURE = 3  # so many that adjoin each other are right


class Far:
    """Knows which batches of a segment may lie far above its base.

    Args:
        segment: base offset of the file.
        end: base offset of the next segment, or where other files know the log to end; layout.UNKNOWN where none does.
        begins: tells whether the leader epoch checkpoint begins an epoch at an offset.
    """

    def __init__(self, segment: int, end: int, begins: Callable[[int | None, int | None], bool]) -> None:
        self._segment, self._near = segment, segment + layout.MAX_INT
        self._end, self._begins = end, begins

    def accept(self, window: Window, reach: int) -> tuple[int, list[HeaderFacts]]:
        """Take the far batches of a window that are right: their rows are not out of range afterwards.

        Args:
            window: the next batches of the log.
            reach: how far above the base batches before them lie that were taken; 0 for none.

        Returns:
            the reach behind them; and those that are far behind one that is not.
        """
        begins = []
        for k in range(window.count):
            last = self._far_offset(window, k)
            if last is None:
                continue
            if last < self._end or (reach and self._goes_on(window, k)) or self._is_borne(window, k):
                window.shift(k, 0)
                reach = max(reach, last - self._segment)
                if window.offset_before(k) <= self._near:
                    begins.append(header_facts(window, k))
        return reach, begins

    def _far_offset(self, window: Window, k: int) -> int | None:
        """The last offset of a batch that is out of range because it is far; None for any other one."""
        last = window.cell(k, layout.LAST_OFFSET)
        if not window.cell(k, layout.SUSPICION) & layout.OUT_OF_RANGE or window.cell(k, layout.BASE_OFFSET) < 0:
            return None
        is_true = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
        return last if is_true and self._near < last <= layout.LARGEST_OFFSET else None

    def _goes_on(self, window: Window, k: int) -> bool:
        """Whether a batch adjoins a far one that was taken."""
        before = window.offset_before(k)
        return before > self._near and window.cell(k, layout.BASE_OFFSET) == before + 1

    def _is_borne(self, window: Window, k: int) -> bool:
        """Whether something but the end of the log says that a batch is where it belongs."""
        epoch, base = window.cell(k, layout.LEADER_EPOCH), window.cell(k, layout.BASE_OFFSET)
        return self._begins(epoch, base) or self._is_run(window, k)

    def _is_run(self, window: Window, k: int) -> bool:
        """Whether several far batches adjoin each other, of which this is the first, behind one that is not far."""
        last = window.offset_before(k)
        if not (self._segment <= last <= self._near) or k + _SURE > window.count:
            return False
        for j in range(k, k + _SURE):
            if self._far_offset(window, j) is None or (j > k and window.cell(j, layout.BASE_OFFSET) != last + 1):
                return False
            last = window.cell(j, layout.LAST_OFFSET)
        return True
