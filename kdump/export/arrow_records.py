"""Arrow arrays from the records of a chunk: columns of the kernels, and one copy of keys and values."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kdump.export import _columns
from kdump.export.arrow import TYPES, constant, longs, schema_of, timestamp_type
from kdump.export.tables import CellType, TableField
from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kdump.format.record.chunk import Chunk

_HEADER = list(TYPES[CellType.HEADERS].value_type)
MOST_BYTES = 2**30  # of records in one record batch: its offsets are int32, and others may be joined to it


def parts(chunk: Chunk) -> Iterator[Chunk]:
    """Yield the records of a chunk in parts of at most MOST_BYTES bytes, or of one record.

    Args:
        chunk: the records; there is at least one.
    """
    first = 0
    while first < chunk.filled:
        last = _columns.rows_within(chunk.rows, first, chunk.filled, MOST_BYTES)
        if last - first == chunk.filled:
            yield chunk
        else:
            rows = chunk.rows[first * layout.RECORD_WIDTH : last * layout.RECORD_WIDTH]
            yield chunk.replace(rows=rows, filled=last - first)
        first = last


class Records:
    """The record rows of a chunk, from which columns are made.

    Args:
        chunk: the records and their batches.
        constants: value of each column that is the same in all rows.
        decode: makes the columns of decoders, by name; values are JSON.
    """

    def __init__(
        self,
        chunk: Chunk,
        constants: Mapping[str, object],
        decode: Callable[[Chunk], Mapping[str, Sequence[str | None]]],
    ) -> None:
        self._chunk = chunk
        self.count = chunk.filled
        self._constants = constants
        self._decode = decode
        self._decoded: Mapping[str, Sequence[str | None]] | None = None
        magics = chunk.window.column(layout.MAGIC)[chunk.first : chunk.last]
        self._has_old = min(magics) < layout.MAGIC_V2

    def columns(self, columns: Sequence[TableField]) -> pa.RecordBatch:
        """Return the rows as a record batch.

        Args:
            columns: of the table `records`.
        """
        arrays = [constant([(self._constants, self.count)], one) or self._made(one) for one in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))

    def _made(self, column: TableField) -> pa.Array:
        if column.kind is CellType.JSON:
            if self._decoded is None:
                self._decoded = self._decode(self._chunk)
            return pa.array(self._decoded.get(column.name) or [None] * self.count, pa.string())
        return _RECORDS[column.name](self)

    def cell(self, column: int) -> pa.Array:
        """One column (layout.R_OFFSET ...)."""
        return longs(self._chunk.rows[column : self.count * layout.RECORD_WIDTH : layout.RECORD_WIDTH])

    def whole_size(self, column: int) -> pa.Array:
        """Sizes of keys or values, of what was cut too."""
        cut = self._chunk.cut
        if cut is not None:
            return longs(array("q", [max(-1, cut.key_size if column == layout.R_KEY_SIZE else cut.value_size)]))
        return _size(self.cell(column))

    def of_batch(self, column: int) -> pa.Array:
        """One column (layout.POSITION ...) of the batch of each record."""
        values = array("q", bytes(8 * self.count))
        _columns.of_batches(self._chunk.rows, self.count, self._chunk.window.rows, column, values)
        return longs(values)

    def only_new(self, values: pa.Array) -> pa.Array:
        """The values of records of magic 2, null for others."""
        if not self._has_old:
            return values
        return pc.if_else(pc.greater_equal(self.of_batch(layout.MAGIC), layout.MAGIC_V2), values, None)

    def deltas(self) -> pa.Array:
        """The timestamp deltas as stored."""
        return self.only_new(self.cell(layout.R_TIME_DELTA))

    def field(self, place: int, size: int) -> pa.Array:
        """Keys or values."""
        rows, count = self._chunk.rows, self.count
        offsets, bits = array("i", bytes(4 * (count + 1))), bytearray(count // 8 + 1)
        target = bytearray(max(1, _columns.field_bytes(rows, count, size)))
        nulls = _columns.copy_field(
            self._chunk.view, rows, count, place=place, size=size, offsets=offsets, bits=bits, target=target
        )
        return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(one) for one in (bits, offsets, target)], nulls)

    def headers(self) -> pa.Array:
        """Lists of headers; keys that are not UTF-8 as Java's readers see them."""
        chunk, count = self._chunk, self.count
        headers, key_bytes, value_bytes = _columns.header_room(chunk.view, chunk.rows, count)
        lists = array("i", bytes(4 * (count + 1)))
        key_offsets, value_offsets = (array("i", bytes(4 * (headers + 1))) for _ in range(2))
        keys, values, bits = bytearray(key_bytes + 1), bytearray(value_bytes + 1), bytearray(headers // 8 + 1)
        nulls = _columns.copy_headers(
            chunk.view,
            chunk.rows,
            count,
            lists=lists,
            key_offsets=key_offsets,
            keys=keys,
            value_offsets=value_offsets,
            bits=bits,
            values=values,
        )
        buffers = [pa.py_buffer(one) for one in (bits, value_offsets, values)]
        pairs = pa.StructArray.from_arrays(
            [
                _text(headers, pa.py_buffer(key_offsets), pa.py_buffer(keys)),
                pa.Array.from_buffers(pa.binary(), headers, buffers, nulls),
            ],
            fields=_HEADER,
        )
        found = pa.Array.from_buffers(TYPES[CellType.HEADERS], count, [None, pa.py_buffer(lists)], children=[pairs])
        return self.only_new(found)


def _size(column: pa.Array) -> pa.Array:
    """A size; -1 for null, whatever negative number says so."""
    return pc.max_element_wise(column, pa.scalar(-1, pa.int64()))


def _text(count: int, *buffers: pa.Buffer) -> pa.Array:
    """Strings; what is not UTF-8 is replaced as Java does."""
    text = pa.Array.from_buffers(pa.string(), count, [None, *buffers])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        from kdump.decode.java_text import java_utf8

        raw = pa.Array.from_buffers(pa.binary(), count, [None, *buffers]).to_pylist()
        return pa.array([java_utf8(one).decode("utf-8") for one in raw], pa.string())
    return text


_RECORDS: dict[str, Callable[[Records], pa.Array]] = {
    "batchPosition": lambda rows: rows.of_batch(layout.POSITION),
    "offset": lambda rows: rows.cell(layout.R_OFFSET),
    "timestamp": lambda rows: rows.cell(layout.R_TIMESTAMP),
    "timestampDelta": Records.deltas,
    "timestampType": lambda rows: timestamp_type(rows.of_batch(layout.MAGIC), rows.of_batch(layout.ATTRIBUTES)),
    "attributes": lambda rows: rows.cell(layout.R_ATTRIBUTES),
    "keySize": lambda rows: rows.whole_size(layout.R_KEY_SIZE),
    "valueSize": lambda rows: rows.whole_size(layout.R_VALUE_SIZE),
    "sequence": lambda rows: rows.only_new(rows.cell(layout.R_SEQUENCE)),
    "headers": Records.headers,
    "key": lambda rows: rows.field(layout.R_KEY_AT, layout.R_KEY_SIZE),
    "payload": lambda rows: rows.field(layout.R_VALUE_AT, layout.R_VALUE_SIZE),
}
