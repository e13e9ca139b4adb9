"""Arrow arrays from rows of batches, of many windows and logs at a time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kdump.export.tables import CellType, TableField
from kdump.format.batch import layout
from kdump.format.codec.base import codec_name
from kdump.words.times import LAST

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Made = Callable[["ArrowRows"], pa.Array]

_TWO_32 = 1 << 32
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES = {
    CellType.LONG: pa.int64(),
    CellType.INT: pa.int32(),
    CellType.BOOL: pa.bool_(),
    CellType.TEXT: pa.string(),
    CellType.BYTES: pa.binary(),
    CellType.NUMBERS: pa.list_(pa.field("element", pa.int64())),
    CellType.TEXTS: pa.list_(pa.field("element", pa.string())),
    CellType.HEADERS: pa.list_(pa.field("element", _HEADER)),
    CellType.JSON: pa.string(),
    CellType.TIME: pa.timestamp("us", "UTC"),
}


def schema_of(columns: Iterable[TableField]) -> pa.Schema:
    """Return the Arrow schema of some columns."""
    return pa.schema([pa.field(column.name, TYPES[column.kind]) for column in columns])


def from_rows(rows: Sequence[Mapping[str, object]], columns: Sequence[TableField]) -> pa.RecordBatch:
    """Return rows that were made one by one as a record batch.

    Args:
        rows: values by the name of the column.
        columns: which of them.
    """
    schema = schema_of(as_numbers(columns))
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return with_times(pa.RecordBatch.from_arrays(arrays, schema=schema), columns)


def as_numbers(columns: Iterable[TableField]) -> tuple[TableField, ...]:
    """Return columns with times as numbers, as rows are made and chosen: see `with_times`."""
    return tuple(one.replace(kind=CellType.LONG) if one.kind is CellType.TIME else one for one in columns)


def with_times(batch: pa.RecordBatch, columns: Sequence[TableField]) -> pa.RecordBatch:
    """Return rows with times of the type TIME where the columns have it: null for a number that is no date.

    Args:
        batch: the rows, times as numbers (ms since the epoch).
        columns: of the batch, in order.
    """
    times = [at for at, one in enumerate(columns) if one.kind is CellType.TIME]
    if not times:
        return batch
    arrays = batch.columns
    for at in times:
        is_date = pc.and_(pc.greater_equal(arrays[at], 0), pc.less_equal(arrays[at], LAST))
        arrays[at] = pc.multiply(pc.if_else(is_date, arrays[at], None), 1000).view(TYPES[CellType.TIME])
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


class ArrowRows:
    """Rows of batches, from which columns are made.

    Args:
        flat: rows x layout.BATCH_WIDTH values.
        runs: values of the columns that are the same in many rows, and the number of the first row after these.
    """

    def __init__(self, flat: array[int], runs: Sequence[tuple[Mapping[str, object], int]]) -> None:
        self._flat = flat
        self.count = len(flat) // layout.BATCH_WIDTH
        self.runs = runs
        self._new: pa.Array | None = None
        self.all_new = min(flat[layout.MAGIC :: layout.BATCH_WIDTH], default=layout.MAGIC_V2) >= layout.MAGIC_V2

    def __getitem__(self, column: int) -> pa.Array:
        """One column (layout.POSITION ...)."""
        return longs(self._flat[column :: layout.BATCH_WIDTH])

    def only_new(self, values: pa.Array) -> pa.Array:
        """The values of batches of magic 2; null for the others, which have no such field."""
        if self.all_new:
            return values
        if self._new is None:
            self._new = pc.greater_equal(self[layout.MAGIC], layout.MAGIC_V2)
        return pc.if_else(self._new, values, None)

    def flag(self, bit: int) -> pa.Array:
        """Whether a bit of the attributes is set."""
        return pc.not_equal(pc.bit_wise_and(self[layout.ATTRIBUTES], bit), 0)


def longs(values: array[int]) -> pa.Array:
    """Return int64 values as an array that shares their memory."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def batch_columns(rows: ArrowRows, columns: Sequence[TableField]) -> pa.RecordBatch:
    """Return rows of batches as a record batch.

    Args:
        rows: the batches.
        columns: of the table `batches`.
    """
    arrays = [constant(rows.runs, one) or _BATCHES[one.name](rows) for one in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


def constant(runs: Sequence[tuple[Mapping[str, object], int]], column: TableField) -> pa.Array | None:
    """Return a column that is the same in many rows; None for another one.

    Args:
        runs: values of such columns, and the number of the first row after those that have them.
        column: which.
    """
    if column.name not in runs[0][0]:
        return None
    type_ = TYPES[column.kind]
    if len(runs) == 1:
        return pa.repeat(pa.scalar(runs[0][0][column.name], type_), runs[0][1])
    values = pa.array([constants[column.name] for constants, _ in runs], type_)
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(pa.array([end for _, end in runs], pa.int32()), values))


def _plain(column: int, *, new: bool = True) -> Made:
    return lambda rows: rows.only_new(rows[column]) if new else rows[column]


def _flag(bit: int) -> Made:
    return lambda rows: rows.only_new(rows.flag(bit))


def _base_offset(rows: ArrowRows) -> pa.Array:
    """That of a legacy wrapper is known only after decompression."""
    base = rows[layout.BASE_OFFSET]
    return base if rows.all_new else pc.coalesce(rows.only_new(base), pc.if_else(pc.less(base, 0), None, base))


def _last_sequence(rows: ArrowRows) -> pa.Array:
    """As wire.last_sequence: after 2^31-1 comes 0, and what no broker writes wraps as Java's int does."""
    first, delta = rows[layout.BASE_SEQUENCE], rows[layout.LAST_OFFSET_DELTA]
    last = pc.add(first, delta)
    begins_again = pc.greater(first, _int32(pc.subtract(layout.MAX_INT, delta)))
    last = _int32(pc.if_else(begins_again, pc.subtract(last, layout.MAX_INT + 1), last))
    return rows.only_new(pc.if_else(pc.equal(first, -1), first, last))


def _int32(value: pa.Array) -> pa.Array:
    """As wire.int32, of numbers that are less than 2^32 beyond it."""
    value = pc.if_else(pc.greater(value, layout.MAX_INT), pc.subtract(value, _TWO_32), value)
    return pc.if_else(pc.less(value, -layout.MAX_INT - 1), pc.add(value, _TWO_32), value)


def _horizon(rows: ArrowRows) -> pa.Array:
    return rows.only_new(pc.if_else(rows.flag(layout.DELETE_HORIZON_FLAG), rows[layout.BASE_TIMESTAMP], None))


def _max_timestamp(rows: ArrowRows) -> pa.Array:
    latest = rows[layout.MAX_TIMESTAMP]
    return latest if rows.all_new else pc.if_else(pc.equal(rows[layout.MAGIC], 0), None, latest)


@cache
def _codecs() -> pa.Array:
    return pa.array([codec_name(number) for number in range(layout.CODEC_MASK + 1)])


def _codec(rows: ArrowRows) -> pa.Array:
    return _codecs().take(pc.bit_wise_and(rows[layout.ATTRIBUTES], layout.CODEC_MASK))


def timestamp_type(magic: pa.Array, attributes: pa.Array) -> pa.Array:
    """Return what the timestamps of batches mean.

    Args:
        magic, attributes: of the batches.
    """
    appended = pc.not_equal(pc.bit_wise_and(attributes, layout.TIMESTAMP_TYPE_FLAG), 0)
    return pc.if_else(pc.equal(magic, 0), "NoTimestampType", pc.if_else(appended, "LogAppendTime", "CreateTime"))


_BATCHES: dict[str, Made] = {
    "position": _plain(layout.POSITION, new=False),
    "size": _plain(layout.SIZE, new=False),
    "baseOffset": _base_offset,
    "lastOffset": _plain(layout.LAST_OFFSET, new=False),
    "count": _plain(layout.COUNT),
    "baseSequence": _plain(layout.BASE_SEQUENCE),
    "lastSequence": _last_sequence,
    "producerId": _plain(layout.PRODUCER_ID),
    "producerEpoch": _plain(layout.PRODUCER_EPOCH),
    "partitionLeaderEpoch": _plain(layout.LEADER_EPOCH),
    "isTransactional": _flag(layout.TRANSACTIONAL_FLAG),
    "isControl": _flag(layout.CONTROL_FLAG),
    "deleteHorizonMs": _horizon,
    "timestampType": lambda rows: timestamp_type(rows[layout.MAGIC], rows[layout.ATTRIBUTES]),
    "baseTimestamp": _plain(layout.BASE_TIMESTAMP),
    "maxTimestamp": _max_timestamp,
    "magic": _plain(layout.MAGIC, new=False),
    "compresscodec": _codec,
    "attributes": _plain(layout.ATTRIBUTES, new=False),
    "crc": _plain(layout.CRC, new=False),
    "isvalid": lambda rows: pc.equal(rows[layout.CRC], rows[layout.COMPUTED_CRC]),
}
