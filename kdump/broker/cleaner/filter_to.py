"""MemoryRecords.filterTo: the batches of one window without the records that the cleaner removes.

Uncompressed batches go through a kernel, many at once. One that is compressed, a wrapper, or larger than a chunk of
records is looked at by itself: its records are read once more when some of them are rewritten.

Source: MemoryRecords.filterTo, buildRetainedRecordsInto, Kafka 4.3.1.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol

from kdump.broker.cleaner import _cleaning
from kdump.format.batch import layout
from kdump.format.codec.compress import Compressor
from kdump.format.kernels import wire
from kdump.format.record.cut_record import encoded, varint
from kdump.format.record.reader import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment
    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Chunk, CutRecord

_OVERRUN = "java.lang.IllegalArgumentException: newLimit > capacity"
_IMPOSSIBLE = "java.lang.IllegalStateException: Empty batches are only supported for magic v2 and above"


class CleaningError(Exception):
    """The pass fails here: a broker marks the partition as uncleanable.

    Attributes:
        number, position: of the segment, and the byte of the batch.
    """

    def __init__(self, why: str, number: int, position: int, *, limit: bool = False) -> None:
        super().__init__(why)
        self.why = why  # what the cleaner throws, or what of ours kept the records from being read
        self.number = number
        self.position = position
        self.limit = limit  # it is a limit of ours


class Pass(Protocol):
    """The pass that a filter works for: it reads records, judges them, and takes the new batches."""

    def chunks(self, window: Window, number: int, flags: array[int] | None = None) -> Iterator[Chunk]:
        """Yield the records of a window of a segment; what is decided of its batches says which are not read."""

    def again(self, window: Window, k: int) -> Iterator[Chunk]:
        """Read the records of one batch once more."""

    def judge(self, chunk: Chunk, flags: array[int], stats: array[int], target: CleanedSegment) -> memoryview:
        """Tell which records of a chunk are retained; valid until the next call."""

    @property
    def horizon(self) -> int:
        """The delete horizon that tombstones get now, ms since the epoch."""

    def room(self, size: int) -> tuple[memoryview, array[int]]:
        """Return a buffer for at least `size` bytes of batches, and one for a row about each."""

    def write_batches(self, data: memoryview, made: array[int], count: int) -> None:
        """Write new batches, with their CRCs."""


class WindowFilter:
    """Filters one window.

    Args:
        cleaner: the pass.
        target: the new segment.
        window: the batches.
        flags: what is decided of each.
        number: of the segment.
    """

    def __init__(self, cleaner: Pass, target: CleanedSegment, window: Window, flags: array[int], number: int) -> None:
        self._cleaner = cleaner
        self._target = target
        self._window = window
        self._flags = flags
        self._number = number
        self._stats = array("q", bytes(8 * layout.S_WIDTH * window.count))

    def run(self) -> None:
        """Filter it."""
        window = self._window
        kept = bytearray()  # of the records of the batch that continues in the next chunk
        going_on: int | None = None
        for chunk in self._cleaner.chunks(window, self._number, self._flags):
            keep = self._cleaner.judge(chunk, self._flags, self._stats, self._target)
            self._check_values(chunk, keep)
            first, at = chunk.first, 0
            if going_on is not None and not chunk.begun:  # a wrapper does not say which chunk is its last
                self._filter_one(going_on, kept)
                kept.clear()
            going_on = None
            codec = window.cell(first, layout.ATTRIBUTES) & layout.CODEC_MASK
            if codec or chunk.begun:
                numbers = chunk.rows[layout.R_BATCH : chunk.filled * layout.RECORD_WIDTH : layout.RECORD_WIDTH]
                at = chunk.filled if codec else bisect_right(numbers, first)
                kept += keep[:at]
                if chunk.done or chunk.last > first + 1:
                    self._filter_one(first, kept, None if chunk.begun else chunk)
                    kept.clear()
                else:
                    going_on = first
                first += 1
            whole = chunk.last if chunk.done else chunk.last - 1
            if first < whole:
                at = self._filter_run(chunk, first, whole, at, keep)
            if first < chunk.last and not chunk.done:
                kept += keep[at : chunk.filled]
                going_on = chunk.last - 1
        if going_on is not None:
            self._filter_one(going_on, kept)
        self._target.add_tombstones(self._stats)

    def _check_values(self, chunk: Chunk, keep: memoryview) -> None:
        """Fail as a broker does where it copies a value that reaches past its message."""
        row = _cleaning.unreadable(chunk.rows, chunk.filled, keep)
        if row < chunk.filled:
            batch = chunk.rows[row * layout.RECORD_WIDTH + layout.R_BATCH]
            raise CleaningError(_OVERRUN, self._number, self._window.cell(batch, layout.POSITION))

    def _filter_run(self, chunk: Chunk, first: int, last: int, at: int, keep: memoryview) -> int:
        """Write what comes of uncompressed batches whose records are all in the chunk."""
        window, cleaner = self._window, self._cleaner
        need = 0
        while first < last:
            out, made = cleaner.room(need)
            after, at, size, count = _cleaning.rewrite(
                window.view,
                window.origin,
                window.rows,
                first=first,
                last=last,
                rows=chunk.rows,
                start=at,
                n=chunk.filled,
                keep=keep,
                flags=self._flags,
                stats=self._stats,
                horizon=cleaner.horizon,
                target=out,
                made=made,
            )
            self._target.add_batches(made, count, size)
            cleaner.write_batches(out[:size], made, count)
            if after == first:
                if _cleaning.outcome(window.rows, first, self._stats, self._flags[first], 0, made) == layout.IMPOSSIBLE:
                    raise self._impossible(first)
                need = window.cell(first, layout.SIZE) + (ROWS + 8) * layout.RECORDS_AT
            first = after
        return at

    def _filter_one(self, k: int, kept: bytearray, chunk: Chunk | None = None) -> None:
        """Write what comes of one batch; its records are read once more unless they are all in one chunk."""
        window, cleaner, stats = self._window, self._cleaner, self._stats
        size = window.cell(k, layout.SIZE)
        _, made = cleaner.room(0)
        what = _cleaning.outcome(window.rows, k, stats, self._flags[k], cleaner.horizon, made)
        if what == layout.GONE:
            return
        if what == layout.IMPOSSIBLE:
            raise self._impossible(k)
        if what == layout.ITSELF:
            start = window.cell(k, layout.POSITION) - window.origin
            self._target.add_batches(made, 1, size)
            cleaner.write_batches(window.view[start : start + size], made, 1)
            return
        records = self._encoded(k, kept, made, chunk) if what == layout.ANOTHER else [b""]
        parts = [bytes(layout.RECORDS_AT), *records]
        size = sum(map(len, parts))
        data = memoryview(bytearray(b"".join(parts)))
        _cleaning.write_header(window.rows, k, stats, made, size, data)
        made[layout.M_AT] = 0
        self._target.add_batches(made, 1, size)
        cleaner.write_batches(data, made, 1)

    def _encoded(self, k: int, kept: bytearray, made: array[int], only: Chunk | None) -> Iterator[bytes]:
        """The records of a batch that stay, as they are written, compressed as before."""
        codec = self._window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK
        packer = Compressor(codec) if codec else None
        base, time = made[layout.M_BASE], made[layout.M_HORIZON]
        if time < 0:
            time = self._stats[k * layout.S_WIDTH + layout.S_FIRST_TIME]
        done = need = 0
        for chunk in (only,) if only is not None else self._cleaner.again(self._window, k):
            keep = memoryview(kept)[done : done + chunk.filled]
            if chunk.cut is not None:
                for part in _large(chunk, chunk.cut, base, time) if keep[0] else ():
                    yield packer.add(bytes(part)) if packer else bytes(part)
                done += chunk.filled
                continue
            row = 0
            while row < chunk.filled:
                out, _ = self._cleaner.room(need)
                row, size = _cleaning.encode(
                    chunk.view,
                    chunk.rows,
                    row,
                    n=chunk.filled,
                    keep=keep,
                    base_offset=base,
                    base_timestamp=time,
                    target=out,
                )
                data = bytes(out[:size])
                yield packer.add(data) if packer else data
                need = 2 * len(out) if not size and row < chunk.filled else 0
            done += chunk.filled
        if packer is not None:
            yield packer.finish()

    def _impossible(self, k: int) -> CleaningError:
        return CleaningError(_IMPOSSIBLE, self._number, self._window.cell(k, layout.POSITION))


def _large(chunk: Chunk, cut: CutRecord, base_offset: int, base_timestamp: int) -> Iterator[bytes | memoryview]:
    """One large record as magic 2 has it, in pieces. Source: DefaultRecord.writeTo."""
    time = wire.subtract(chunk.rows[layout.R_TIMESTAMP], base_timestamp)
    delta = wire.int32(wire.subtract(chunk.rows[layout.R_OFFSET], base_offset))
    head = b"\0" + varint(time) + varint(delta)  # no attributes
    yield varint(len(head) + sum(map(len, encoded(cut)))) + head
    yield from encoded(cut)
