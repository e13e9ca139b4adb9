"""End markers of transactions: how a broker reads control batches, and what it throws if it cannot."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.java_values import ARGUMENT, INVALID
from kdump.format.record.reader import key_and_value
from kdump.format.record.record_checks import control_problem
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.format.batch.window import Window
    from kdump.format.record.reader import RecordReader


LARGEST_MARKER = 100
"""Bytes of a batch: what is larger is no marker, whatever its header says; those of today have 78."""


def open_at_end(*, is_lone: bool) -> str:
    """Return of what end a transaction is open, as P04 says it.

    Args:
        is_lone: nothing says that the log is the last of its partition.
    """
    if is_lone:
        return "this segment: a later one, which is not here, may end it"
    return "the log: readers of committed data stop before it"


class Marker(TupleValue):
    """A transaction marker; `timestamp` is ms."""

    is_abort: bool
    timestamp: int
    coordinator_epoch: int


def read_markers(reader: RecordReader, window: Window, numbers: Sequence[int]) -> dict[int, Marker | str]:
    """Read the first record of each control batch, all that a broker looks at.

    Args:
        reader: reads records.
        window: where the batches are.
        numbers: their rows.

    Returns:
        by row the marker, or why a broker cannot replay it; nothing for a batch of which no record can be read.

    Source: ProducerAppendInfo.append, EndTransactionMarker.deserialize.
    """
    width = layout.BATCH_WIDTH
    rows = array("q", b"".join(window.rows[k * width : (k + 1) * width].tobytes() for k in numbers))
    found: dict[int, Marker | str] = {}
    for chunk in reader.chunks(window.some(rows, len(numbers))):
        for at in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
            record = chunk.rows[at : at + layout.RECORD_WIDTH]
            k = numbers[record[layout.R_BATCH]]
            if k not in found:
                found[k] = _marker(*key_and_value(chunk.view, record), record[layout.R_TIMESTAMP])
    return found


def _marker(key: bytes | None, value: bytes | None, timestamp: int) -> Marker | str:
    why = control_problem(key, value)
    if why is not None:
        return why
    assert key is not None
    assert value is not None
    return Marker(key[3] == 0, timestamp, int.from_bytes(value[2 : layout.MARKER_SIZE], "big", signed=True))


_TYPES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
_UNDERFLOW = "java.nio.BufferUnderflowException"
_NULL = "java.lang.NullPointerException: Cannot invoke"


def marker_error(reader: RecordReader, window: Window, k: int) -> str:
    """Return the exception for a control batch of a producer, class and message as Java prints them.

    Args:
        reader: reads as Kafka does.
        window, k: where the batch is; it has records, and `read_markers` found no marker in it.

    Source: ProducerAppendInfo.append, DefaultRecordBatch.iterator, EndTransactionMarker.deserialize.
    """
    row = window.row(k)
    codec = row[layout.ATTRIBUTES] & layout.CODEC_MASK
    if codec > layout.CODEC_ZSTD:
        return f"{ARGUMENT}: Unknown compression type id: {codec}"
    for chunk in reader.chunks(window.batch(k)):
        if chunk.filled:
            return _marker_error(*key_and_value(chunk.view, chunk.rows))
        if chunk.problem is not None:
            return chunk.problem.java
    raise AssertionError("a batch with records has a record or a problem")


def _marker_error(key: bytes | None, value: bytes | None) -> str:
    """Source: ControlRecordType.parse, EndTransactionMarker.deserializeValue, EndTxnMarker.read."""
    if key is None:
        return f'{_NULL} "java.nio.ByteBuffer.duplicate()" because "key" is null'
    if len(key) < layout.CONTROL_KEY_SIZE:
        need = f"Must have at least {layout.CONTROL_KEY_SIZE} bytes, but found only {len(key)}"
        return f"{INVALID}: Invalid value size found for control record key. {need}"
    version, kind = (int.from_bytes(key[at : at + 2], "big", signed=True) for at in (0, 2))
    if version < 0:
        return f"{INVALID}: Invalid version found for control record: {version}. May indicate data corruption"
    if kind not in (0, 1):
        name = _TYPES[kind] if 0 <= kind < len(_TYPES) else "UNKNOWN"
        return f"{ARGUMENT}: Invalid control record type for end transaction marker {name}"
    if value is None:
        return f'{_NULL} "java.nio.ByteBuffer.getShort()" because "value" is null'
    version = int.from_bytes(value[:2], "big", signed=True)
    if len(value) >= 2 and version < 0:
        return f"{INVALID}: Invalid version found for end transaction marker: {version}. May indicate data corruption"
    return _UNDERFLOW
