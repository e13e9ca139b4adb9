"""Batches and records as columns, chunk by chunk, for callers who count, filter or sum with numpy.

Each chunk has copies of its own, so it stays valid; no column is copied out of it before it is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from kdump.api import _rows
from kdump.decode.java_text import java_text
from kdump.format.batch import layout

if TYPE_CHECKING:
    from array import array
    from typing import Self

    from kdump.api._rows import Record
    from kdump.format.record.chunk import Chunk


class _Column:
    """One column of int64 values, as a memoryview with a stride: `numpy.asarray` takes it as it is."""

    def __init__(self, number: int) -> None:
        self._number = number

    @overload
    def __get__(self, rows: None, owner: type) -> Self: ...
    @overload
    def __get__(self, rows: _Rows, owner: type) -> memoryview[int]: ...
    def __get__(self, rows: _Rows | None, owner: type) -> Self | memoryview[int]:
        if rows is None:
            return self
        return rows.flat[self._number : len(rows) * rows.width : rows.width]


class _Rows:
    """Rows of int64 values in one buffer.

    Attributes:
        file: the log, as its path was given or below the directory that was given.
        flat: the buffer.
        width: values in a row.
    """

    width = 1

    def __init__(self, file: str, rows: array[int]) -> None:
        self.file = file
        self.flat = memoryview(rows).toreadonly()  # a kernel believes what stands in them

    def __len__(self) -> int:
        return len(self.flat) // self.width


class BatchColumns(_Rows):
    """Some batches of one log. What batches of magic 0 and 1 do not have is -1."""

    width = layout.BATCH_WIDTH

    position = _Column(layout.POSITION)
    size = _Column(layout.SIZE)
    base_offset = _Column(layout.BASE_OFFSET)
    last_offset = _Column(layout.LAST_OFFSET)
    count = _Column(layout.COUNT)
    base_sequence = _Column(layout.BASE_SEQUENCE)
    producer_id = _Column(layout.PRODUCER_ID)
    producer_epoch = _Column(layout.PRODUCER_EPOCH)
    partition_leader_epoch = _Column(layout.LEADER_EPOCH)
    base_timestamp = _Column(layout.BASE_TIMESTAMP)
    max_timestamp = _Column(layout.MAX_TIMESTAMP)
    magic = _Column(layout.MAGIC)
    attributes = _Column(layout.ATTRIBUTES)
    crc = _Column(layout.CRC)
    computed_crc = _Column(layout.COMPUTED_CRC)


class RecordColumns(_Rows):
    """Some records of one log, with the bytes that they lie in."""

    width = layout.RECORD_WIDTH

    batch = _Column(layout.R_BATCH)
    offset = _Column(layout.R_OFFSET)
    timestamp = _Column(layout.R_TIMESTAMP)
    sequence = _Column(layout.R_SEQUENCE)
    attributes = _Column(layout.R_ATTRIBUTES)
    key_at = _Column(layout.R_KEY_AT)
    key_size = _Column(layout.R_KEY_SIZE)
    value_at = _Column(layout.R_VALUE_AT)
    value_size = _Column(layout.R_VALUE_SIZE)
    header_count = _Column(layout.R_HEADER_COUNT)

    def __init__(self, file: str, rows: array[int], data: bytes, batches: BatchColumns) -> None:
        super().__init__(file, rows)
        self._data = data
        self._batches = batches

    @property
    def data(self) -> bytes:
        """The bytes that `key_at` and `value_at` are places in."""
        return self._data

    @property
    def batches(self) -> BatchColumns:
        """The batches of these records, and no others; `batch` is a row of it."""
        return self._batches

    def __getitem__(self, row: int) -> Record:
        """Return one record."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        at = row % len(self) * self.width
        return _rows.records(
            memoryview(self.data), self.flat[at : at + self.width], 1, self.batches.flat, self.file, java_text
        )[0]


def batch_columns(file: str, chunk: Chunk) -> BatchColumns:
    """Return a copy of the batches of a chunk that no chunk before it has had."""
    width = layout.BATCH_WIDTH
    return BatchColumns(file, chunk.window.rows[(chunk.first + chunk.begun) * width : chunk.last * width])


def record_columns(file: str, chunk: Chunk) -> RecordColumns:
    """Return a copy of the records of a chunk that has some, with their batches."""
    count, width = chunk.filled, layout.BATCH_WIDTH
    rows = chunk.rows[: count * layout.RECORD_WIDTH]
    low, high = _rows.extent(rows, count)
    _rows.rebase(rows, count, low, chunk.first)
    batches = BatchColumns(file, chunk.window.rows[chunk.first * width : chunk.last * width])
    return RecordColumns(file, rows, bytes(chunk.view[low:high]), batches)


def record_list(file: str, chunk: Chunk) -> list[Record]:
    """Return the records of a chunk."""
    if not chunk.filled:
        return []
    return _rows.records(chunk.view, chunk.rows, chunk.filled, chunk.window.rows, file, java_text)
