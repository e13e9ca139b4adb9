"""Which records a newer one of the same key replaces: the offset map of the cleaner, over a whole partition."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.broker.cleaner import _cleaning
from kdump.format.batch import layout
from kdump.format.java_values import MAX_LONG
from kdump.format.record.chunk import KEPT

if TYPE_CHECKING:
    from kdump.format.record.chunk import Chunk

_SLOTS = (1 << 16, 1 << 18, 1 << 20, 5 << 20)  # 24 bytes each; it grows from one to the next
_LOAD = 0.8


class KeyMap:
    """The last offset of each key of a partition.

    Args:
        sizes: room, ascending; four fifths of it are used.
    """

    def __init__(self, sizes: tuple[int, ...] = _SLOTS) -> None:
        self._slots, *self._more = sizes
        self._table = array("q", bytes(24)) * self._slots
        self._state = array("q", (0, -1))
        self.is_full = False  # there are more keys: records of those that came too late count as the newest

    def put(self, chunk: Chunk) -> None:
        """Learn the keys of a chunk; those of control records do not count."""
        if not chunk.filled or self.is_full or _has_cut_key(chunk):
            return
        flags = _flags(chunk)
        while True:
            most = int(self._slots * _LOAD)
            if self._state[0] + chunk.filled > most and self._more:
                self._grow()
                continue
            done = _cleaning.put(
                chunk.view,
                chunk.rows,
                chunk.filled,
                flags=flags,
                start_offset=0,
                table=self._table,
                slots=self._slots,
                most=most,
                state=self._state,
            )
            self.is_full = done < chunk.filled
            return

    def _grow(self) -> None:
        slots = self._more.pop(0)
        table = array("q", bytes(24)) * slots
        _cleaning.move(self._table, self._slots, table, slots)
        self._table, self._slots = table, slots

    def kept(self, chunk: Chunk) -> bytearray:
        """Return for each record of a chunk 0 where a newer one replaces it, or where it has no key, else 1."""
        count = chunk.filled
        keep = bytearray(count)
        if _has_cut_key(chunk):
            keep[0] = 1
        elif count:
            stats = array("q", bytes(8 * layout.S_WIDTH * chunk.window.count))
            _cleaning.judge(
                chunk.view,
                chunk.rows,
                count,
                flags=_flags(chunk),
                table=self._table,
                slots=self._slots,
                latest=MAX_LONG,
                keep=keep,
                stats=stats,
            )
        return keep


def _has_cut_key(chunk: Chunk) -> bool:
    """Whether the one record has a key of which only the first bytes are there: nothing is known of newer ones."""
    return chunk.cut is not None and chunk.cut.key_size > KEPT


def _flags(chunk: Chunk) -> array[int]:
    """Control batches are kept; all others are judged."""
    attributes = chunk.window.column(layout.ATTRIBUTES)
    return array("q", [layout.KEEP_RECORDS if one & layout.CONTROL_FLAG else 0 for one in attributes])
