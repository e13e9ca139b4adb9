"""What a broker throws where the end marker of a transaction cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format import layout
from kdump.format.javavalues import ARGUMENT
from kdump.format.kafkastream import INVALID
from kdump.format.records import key_and_value

if TYPE_CHECKING:
    from kdump.format.records import RecordReader
    from kdump.format.window import Window

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
    for chunk in reader.chunks(window.only(k)):
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
