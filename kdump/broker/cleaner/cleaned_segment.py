"""The state of a cleaner pass: its offset map, and the facts of each new segment.

Both are compact: 24 bytes a slot of the map, as in the broker; lists of batches and offsets as packed columns.
"""

from __future__ import annotations

import zlib
from array import array
from typing import TYPE_CHECKING

from kdump.broker.cleaner import _cleaning
from kdump.format.batch import layout
from kdump.format.record.reader import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Chunk

SLOT = 24  # bytes: MD5 of a key, and its offset
_PACKED = 8192  # numbers that are packed at once
_PACK_LEVEL = 1


class OffsetMap:
    """The latest offset of each key.

    Args:
        memory: bytes.
        load: how much of it may be filled, from 0 to 1.

    Source: SkimpyOffsetMap.
    """

    def __init__(self, memory: int, load: float) -> None:
        self._slots = memory // SLOT
        self._most = int(self._slots * load)
        self._is_too_small = self._slots * load <= 1
        self._table = memoryview(bytearray(max(SLOT, SLOT * self._slots))).cast("q")
        self._state = array("q", [0, -1])
        self.latest = -1  # last offset that the map covers, -1 before the first

    @property
    def keys(self) -> int:
        """The number of keys."""
        return self._state[0]

    @property
    def is_too_small(self) -> bool:
        """Whether a cleaner refuses to work with it."""
        return self._is_too_small

    def put(self, chunk: Chunk, flags: array[int], start_offset: int) -> int | None:
        """Put the keys of records in; return the row of the batch in which the map is full, None when it is not.

        Args:
            chunk: the records.
            flags: of each batch of the window (layout.DROP_RECORDS ...).
            start_offset: records below it do not count.
        """
        row = _cleaning.put(
            chunk.view,
            chunk.rows,
            chunk.filled,
            flags=flags,
            start_offset=start_offset,
            table=self._table,
            slots=self._slots,
            most=self._most,
            state=self._state,
        )
        return None if row == chunk.filled else chunk.rows[row * layout.RECORD_WIDTH + layout.R_BATCH]

    def judge(self, chunk: Chunk, flags: array[int], keep: memoryview, stats: array[int]) -> None:
        """Tell which records stay, see `_cleaning.judge`."""
        _cleaning.judge(
            chunk.view,
            chunk.rows,
            chunk.filled,
            flags=flags,
            table=self._table,
            slots=self._slots,
            latest=self.latest,
            keep=keep,
            stats=stats,
        )

    def covers(self, offset: int) -> None:
        """All up to an offset is in the map."""
        self.latest = offset

    def stop(self, offset: int) -> None:
        """The map is full: the last offset is that of the last record, of the last batch, or of the segment before."""
        self.latest = max(self.latest, self._state[1], offset)


class Packed:
    """Numbers in rows, packed as they come."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._pieces: list[bytes] = []
        self._last = array("q")

    def add(self, numbers: array[int]) -> None:
        """Add some rows."""
        self._last.extend(numbers)
        if len(self._last) >= _PACKED:
            self._pieces.append(zlib.compress(self._last, _PACK_LEVEL))
            del self._last[:]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield the rows."""
        for piece in self._pieces:
            yield from _rows(array("q", zlib.decompress(piece)), self.width)
        yield from _rows(self._last, self.width)


def _rows(numbers: array[int], width: int) -> Iterator[tuple[int, ...]]:
    return zip(*[iter(numbers)] * width, strict=True)


class CleanedSegment:
    """A segment as a pass leaves it.

    Args:
        base_offset: of the segment.
        collect: keep the lists; the numbers are kept in any case.

    Attributes:
        size: of the .log, bytes.
        batches, records: how many.
        tombstones: how many records without a value.
        horizons: the first and the last time at which tombstones can go, ms; None for none.
        markers: end markers that have such a time.
        batch_rows: base offset, last offset, count (-1 below magic 2), delete horizon (-1 for none) of each batch.
        runs: first and last offset of records that follow each other.
    """

    def __init__(self, base_offset: int, *, collect: bool) -> None:
        self.base_offset = base_offset
        self.size = self.batches = self.records = self.tombstones = self.markers = 0
        self.horizons: tuple[int, int] | None = None
        self.marker_horizons: tuple[int, int] | None = None  # the same of them
        self.batch_rows = Packed(4)
        self._collect = collect
        self._runs = Packed(2)
        self._open = array("q", bytes(16 * (ROWS + 1)) if collect else b"")  # the last run may continue
        self._filled = 0

    def add_records(self, chunk: Chunk, keep: memoryview) -> None:
        """Take the offsets of records that stay."""
        if not self._collect:
            return
        self._filled = _cleaning.add_runs(chunk.rows, chunk.filled, keep, self._open, self._filled)
        if self._filled > 1:
            done = 2 * (self._filled - 1)
            self._runs.add(self._open[:done])
            self._open[:2] = self._open[done : done + 2]
            self._filled = 1

    @property
    def runs(self) -> Iterator[tuple[int, ...]]:
        """Yield first and last offset of each run."""
        yield from self._runs
        if self._filled:
            yield self._open[0], self._open[1]

    def add_batches(self, made: array[int], count: int, size: int) -> None:
        """Take batches that are written.

        Args:
            made: M_WIDTH numbers for each.
            count: how many.
            size: of all, bytes.
        """
        if not count:
            return
        self.size += size
        self.batches += count
        columns = [made[column : count * layout.M_WIDTH : layout.M_WIDTH] for column in range(layout.M_WIDTH)]
        self.records += sum(columns[layout.M_COUNT])
        if max(columns[layout.M_HORIZON]) >= 0:
            self._add_horizons(columns)
        if self._collect:
            self._add_rows(columns[: layout.M_AT])

    def _add_rows(self, columns: list[array[int]]) -> None:
        rows = array("q", bytes(8 * 4 * len(columns[0])))
        for number, column in enumerate(columns):
            rows[number::4] = column
        self.batch_rows.add(rows)

    def _add_horizons(self, columns: list[array[int]]) -> None:
        both = zip(columns[layout.M_HORIZON], columns[layout.M_CONTROL], strict=True)
        for horizon, is_control in both:
            if horizon < 0:
                continue
            if is_control:
                self.markers += 1
                self.marker_horizons = _widened(self.marker_horizons, horizon)
            else:
                self.horizons = _widened(self.horizons, horizon)

    def add_tombstones(self, stats: array[int]) -> None:
        """Take what is known of the batches of a window, for the tombstones that stay."""
        self.tombstones += sum(stats[layout.S_TOMBSTONES :: layout.S_WIDTH])

    def add_as_is(self, window: Window, stats: array[int]) -> None:
        """Take batches that nothing touches, with what is known of their records."""
        self.size += sum(window.column(layout.SIZE))
        self.batches += window.count
        self.records += sum(stats[layout.S_KEPT :: layout.S_WIDTH])
        self.add_tombstones(stats)
        if not self._collect:
            return
        bases, flags = window.column(layout.BASE_OFFSET), window.column(layout.ATTRIBUTES)
        horizons = array("q", [-1]) * window.count
        for k, magic in enumerate(window.column(layout.MAGIC)):
            if magic < layout.MAGIC_V2 and flags[k] & layout.CODEC_MASK:
                bases[k] = stats[k * layout.S_WIDTH + layout.S_FIRST_OFFSET]
            elif magic == layout.MAGIC_V2 and flags[k] & layout.DELETE_HORIZON_FLAG:
                horizons[k] = window.cell(k, layout.BASE_TIMESTAMP)
        self._add_rows([bases, window.column(layout.LAST_OFFSET), window.column(layout.COUNT), horizons])


def _widened(span: tuple[int, int] | None, value: int) -> tuple[int, int]:
    return (value, value) if span is None else (min(span[0], value), max(span[1], value))
