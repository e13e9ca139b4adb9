"""A window of a log: its bytes, and the headers of its batches in columns."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.format.batch import _scan, layout
from kdump.format.checksum import crc32, crc32c
from kdump.format.java_values import as_long
from kdump.format.kernels import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.source import Source

WINDOW_SIZE = 1024 * 1024  # bytes read at once: large enough for few calls, small enough to stay in a cache
HEADERS_WINDOW = 256 * 1024  # bytes read at once for headers alone
ROWS = 4096  # batch rows filled at once, fewer where the file cannot have so many
_SMALLEST_BATCH = layout.LOG_OVERHEAD + layout.MIN_SIZE_V0
_PAST_END = bytes(layout.RECORDS_AT)
_IS_COMPILED = _scan.is_compiled()
_STEP = 1024 * 1024  # bytes read at once where a CRC runs over what is not kept


class Window:
    """Some batches of a log, one row each, with the bytes that they lie in.

    Args:
        view: the bytes; the first is at file position `origin`. Valid until the next window is asked for.
        origin: file position.
        rows: count x layout.BATCH_WIDTH values. Valid until the next window is asked for.
        count: rows.
        has_record_bytes: the bytes of the batches are all in `view`. False for one batch that is over the limit: its
            header and its CRC are known, its records are not read.
        before: last offset of the last batch before the window that has the right CRC; layout.UNKNOWN for none.
    """

    __slots__ = ("_all_trusted", "_before", "_suspicions", "count", "has_record_bytes", "origin", "rows", "view")

    def __init__(
        self,
        view: memoryview,
        origin: int,
        rows: array[int],
        count: int,
        has_record_bytes: bool = True,
        *,
        before: int = layout.UNKNOWN,
    ) -> None:
        self.view = view
        self.origin = origin
        self.rows = rows
        self.count = count
        self.has_record_bytes = has_record_bytes
        self._all_trusted: bool | None = None  # found when it is asked for, by many
        self._suspicions: int | None = None
        self._before: int | None = before  # the offset before the first row; None where rows do not adjoin

    def column(self, column: int) -> array[int]:
        """Return one column (layout.POSITION ...) of all rows."""
        return self.rows[column : self.count * layout.BATCH_WIDTH : layout.BATCH_WIDTH]

    def cell(self, row: int, column: int) -> int:
        """Return one value."""
        return self.rows[row * layout.BATCH_WIDTH + column]

    def stored_offset(self, k: int) -> int:
        """Return what the offset field of a batch says: its base offset, or the last offset of a legacy wrapper."""
        return self.cell(k, layout.LAST_OFFSET if self.is_wrapper(k) else layout.BASE_OFFSET)

    def is_wrapper(self, k: int) -> bool:
        """Tell whether a batch is a compressed message of magic 0 or 1: its first offset is not known."""
        is_compressed = self.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK
        return self.cell(k, layout.MAGIC) < layout.MAGIC_V2 and bool(is_compressed)

    def shift(self, k: int, by: int) -> None:
        """Put the offsets of a batch right, as its row has them: they are in range then. Its bytes stay.

        Args:
            k: number of the row.
            by: what is added.
        """
        row = k * layout.BATCH_WIDTH
        columns = (layout.LAST_OFFSET,) if self.is_wrapper(k) else (layout.BASE_OFFSET, layout.LAST_OFFSET)
        for at in columns:
            self.rows[row + at] = as_long(self.rows[row + at] + by)
        self.rows[row + layout.SUSPICION] &= ~layout.OUT_OF_RANGE
        self._suspicions = None

    def mark(self, k: int, bit: int) -> None:
        """Mark a batch, as the scan does what is odd.

        Args:
            k: number of the row.
            bit: layout.OUT_OF_RANGE ...
        """
        self.rows[k * layout.BATCH_WIDTH + layout.SUSPICION] |= bit
        self._suspicions = None

    def row(self, k: int) -> array[int]:
        """Return one row, as an array of its own."""
        return self.rows[k * layout.BATCH_WIDTH : (k + 1) * layout.BATCH_WIDTH]

    def batch(self, k: int) -> Window:
        """Return one batch alone, with a row of its own; its bytes are valid as long as those of this window."""
        return Window(self.view, self.origin, self.row(k), 1, self.has_record_bytes, before=self.offset_before(k))

    def batch_copy(self, k: int) -> Window:
        """Return one batch alone, with a row and bytes of its own: it stays valid when the next window is read."""
        start = self.cell(k, layout.POSITION) - self.origin
        size = self.cell(k, layout.SIZE) if self.has_record_bytes else layout.RECORDS_AT
        view = memoryview(bytes(self.view[start : start + size]) + _PAST_END)
        return Window(view, self.origin + start, self.row(k), 1, self.has_record_bytes, before=self.offset_before(k))

    def header_only(self, k: int) -> Window:
        """Return one batch alone without its bytes, for those who read its row only."""
        return Window(
            memoryview(b""), self.cell(k, layout.POSITION), self.row(k), 1, False, before=self.offset_before(k)
        )

    def slice(self, start: int, stop: int) -> Window:
        """Return rows [start, stop) while they are valid: this window where that is all."""
        if not start and stop == self.count:
            return self
        rows = self.rows[start * layout.BATCH_WIDTH : stop * layout.BATCH_WIDTH]
        before = self.offset_before(start)
        return Window(self.view, self.origin, rows or self.rows, stop - start, self.has_record_bytes, before=before)

    def some(self, rows: array[int], count: int) -> Window:
        """Return some of its batches, which need not adjoin each other.

        Args:
            rows: of them; those behind `count` are not looked at.
            count: how many.
        """
        some = Window(self.view, self.origin, rows or self.rows, count, self.has_record_bytes)
        some._before = None
        return some

    def first(self, rows: int) -> Window:
        """Return the first rows, without a copy of them: both windows show what is written to them later."""
        return Window(self.view, self.origin, self.rows, rows, self.has_record_bytes, before=self.offset_before(0))

    def offset_before(self, k: int) -> int:
        """Return the last offset of the last batch before row k that has the right CRC; layout.UNKNOWN for none.

        It hangs on the log only, not on where the window begins.
        """
        if self._before is None:  # what lies before a row is not in this window
            return layout.UNKNOWN
        return _scan.last_trusted_offset(self.rows, k, self._before)

    @property
    def all_trusted(self) -> bool:
        """Whether each batch has the right CRC, when this was asked first."""
        if self._all_trusted is None:
            self._all_trusted = _scan.are_trusted(self.rows, self.count)
        return self._all_trusted

    @property
    def suspicions(self) -> int:
        """All bits that any batch carried when this was asked first: those of the headers."""
        if self._suspicions is None:
            self._suspicions = _scan.suspicions(self.rows, self.count)
        return self._suspicions

    def end(self, rows: int) -> int:
        """Return the position after the last of the first `rows` batches."""
        last = rows - 1
        return self.cell(last, layout.POSITION) + self.cell(last, layout.SIZE)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield position and size (bytes) of each batch."""
        return zip(self.column(layout.POSITION), self.column(layout.SIZE), strict=True)

    def fill_crcs(self) -> None:
        """Compute the CRC of each batch into its column."""
        _scan.fill_crcs(self.view, self.origin, self.rows, self.count, crc32, crc32c)


def header_at(source: Source, position: int) -> array[int] | None:
    """Return the header at a position as a row, with the length and the magic that it says; no CRC is computed.

    Args:
        source: the log.
        position: of the header.

    Returns:
        BATCH_WIDTH columns; None where the file ends before the header does.
    """
    header = source.read_at(position, layout.RECORDS_AT)
    if len(header) <= layout.HEADER_UP_TO_MAGIC:
        return None
    magic = int.from_bytes(header[layout.MAGIC_AT : layout.MAGIC_AT + 1], "big", signed=True)
    if len(header) < (layout.RECORDS_AT if magic >= layout.MAGIC_V2 else _SMALLEST_BATCH):
        return None
    row = array("q", bytes(8 * layout.BATCH_WIDTH))
    size = layout.LOG_OVERHEAD + wire.i32(header, layout.SIZE_AT)
    _scan.header_row(header.ljust(layout.RECORDS_AT, b"\0"), 0, position, size, magic, row)
    return row


def crc_of_range(source: Source, start: int, end: int, magic: int, value: int = 0) -> int:
    """Compute the CRC that a batch's magic asks for over [start, end), without keeping the bytes.

    Args:
        source: the log.
        start, end: file positions, half-open.
        magic: 2 and above: CRC-32C; below: CRC-32.
        value: the CRC of the bytes before `start`, to continue from.
    """
    checksum = crc32c if magic >= layout.MAGIC_V2 else crc32
    while start < end:
        part = source.read_at(start, min(_STEP, end - start))
        if not part:
            break
        value = checksum(part, value)
        start += len(part)
    return value


class Buffer:
    """The bytes of a log around a moving position, in one reused buffer.

    Args:
        source: the log.
        window: bytes that are read at once, unless a batch needs more.
    """

    def __init__(self, source: Source, window: int | None = None) -> None:
        self.source = source  # the log; another one can be put in its place before a `load`
        self._held: tuple[Source, int, int] = source, 0, 0  # of which log, position, how many bytes
        self._window = window or WINDOW_SIZE
        size = self._window if window else min(WINDOW_SIZE, source.size)
        self._bytes = bytearray(size + layout.RECORDS_AT)
        self.view = memoryview(self._bytes)  # the buffer; `load` says how much of it counts
        self.capacity = min(ROWS, size // _SMALLEST_BATCH + 1)  # how many
        self.rows = array("q", bytes(8 * layout.BATCH_WIDTH)) * self.capacity  # room for batch rows

    def load(self, position: int, need: int = 0, window: int | None = None) -> int:
        """Read from `position` on: `window` bytes, or `need` bytes where that is more.

        Returns:
            How many bytes of `view` hold the log now. The bytes after them are zero for the length of a header.
        """
        wanted = min(max(window or self._window, need), self.source.size - position)
        kept = self._kept(position, wanted)
        if wanted + layout.RECORDS_AT > len(self._bytes):
            self._replace(wanted, kept)
        elif len(self._bytes) > 4 * WINDOW_SIZE and wanted <= WINDOW_SIZE:
            self._replace(WINDOW_SIZE, kept)
        else:
            self.view[: len(kept)] = kept
        self._held = self.source, position, 0  # nothing, should the read fail
        length = len(kept) + self.source.read_into(position + len(kept), self.view[len(kept) : wanted])
        self._held = self.source, position, length
        if not _IS_COMPILED:
            from kdump.format.kernels.interpreted import count  # compiled, there is nothing to say

            count(length - len(kept))
        self.view[length : length + layout.RECORDS_AT] = _PAST_END
        return length

    def _kept(self, position: int, wanted: int) -> bytes:
        """The wanted bytes that are already in the buffer: a log is read once, however its windows end."""
        source, origin, length = self._held
        if source is not self.source or not origin <= position < origin + length:
            return b""
        start = position - origin
        return bytes(self.view[start : min(length, start + wanted)])

    def _replace(self, size: int, kept: bytes) -> None:
        self._bytes = bytearray(size + layout.RECORDS_AT)
        self.view = memoryview(self._bytes)
        self.view[: len(kept)] = kept
