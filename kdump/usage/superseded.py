"""Which records a newer one of the same key replaces: the offset map of the cleaner, over a whole partition."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.broker.cleaner import _cleaning
from kdump.format.batch import layout

if TYPE_CHECKING:
    from kdump.format.record.chunk import Chunk

_SLOTS = 5 << 20  # 24 bytes each
_LOAD = 0.8
_MAX_LONG = 2**63 - 1


class KeyMap:
    """The last offset of each key of a partition.

    Args:
        slots: room; four fifths of it are used.

    Attributes:
        is_full: there are more keys: records of those that came too late count as the newest.
    """

    def __init__(self, slots: int = _SLOTS) -> None:
        self._slots = slots
        self._table = array("q", bytes(24)) * slots
        self._most = int(slots * _LOAD)
        self._state = array("q", (0, -1))
        self.is_full = False

    def put(self, chunk: Chunk) -> None:
        """Learn the keys of a chunk; those of control records do not count."""
        if chunk.filled and not self.is_full:
            done = _cleaning.put(
                chunk.view,
                chunk.rows,
                chunk.filled,
                _flags(chunk),
                0,
                self._table,
                self._slots,
                self._most,
                self._state,
            )
            self.is_full = done < chunk.filled

    def superseded(self, chunk: Chunk) -> list[int]:
        """Return which records of a chunk a newer one replaces, as numbers of its rows."""
        count = chunk.filled
        if not count:
            return []
        keep = bytearray(count)
        stats = array("q", bytes(8 * layout.S_WIDTH * chunk.window.count))
        _cleaning.judge(chunk.view, chunk.rows, count, _flags(chunk), self._table, self._slots, _MAX_LONG, keep, stats)
        sizes = chunk.rows[layout.R_KEY_SIZE : count * layout.RECORD_WIDTH : layout.RECORD_WIDTH]
        return [i for i, (kept, size) in enumerate(zip(keep, sizes, strict=True)) if not kept and size >= 0]


def _flags(chunk: Chunk) -> array[int]:
    """Control batches are kept; all others are judged."""
    attributes = chunk.window.column(layout.ATTRIBUTES)
    return array("q", [layout.KEEP_RECORDS if one & layout.CONTROL_FLAG else 0 for one in attributes])
