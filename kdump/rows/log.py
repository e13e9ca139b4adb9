"""The rows of a log, batch and record: kernels write them, and here is what they hold."""

from __future__ import annotations

from typing import Any

from kdump.row import Kind, Row, column
from kdump.rows.schemas import SchemaUsed

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", "NoTimestampType")


class BatchRow(Row, name="batch"):
    """A batch, or a message of magic 0 or 1; null is what those do not have."""

    file: str = column(Kind.PATH, "the log")
    position: int = column(Kind.POSITION, "in the log")
    size: int = column(Kind.SIZE, "with offset and length, 12 bytes")
    base_offset: int | None = column(
        Kind.OFFSET, "its first one; null for a compressed message of magic 0 or 1: only its inner messages know"
    )
    last_offset: int = column(Kind.OFFSET, "its last one")
    count: int | None = column(Kind.COUNT, "of its records, by its header")
    base_sequence: int | None = column(Kind.NUMBER, "-1 where its producer is not idempotent")
    last_sequence: int | None = column(Kind.NUMBER, "-1 where its producer is not idempotent")
    producer_id: int | None = column(Kind.NUMBER, "-1 where its producer is not idempotent")
    producer_epoch: int | None = column(Kind.NUMBER, "-1 where its producer is not idempotent")
    partition_leader_epoch: int | None = column(Kind.NUMBER, "of the leader that wrote it")
    is_transactional: bool | None = column(Kind.FLAG, "it is in a transaction")
    is_control: bool | None = column(
        Kind.FLAG, "its records are none of a client: the marker of a transaction, or what KRaft writes"
    )
    delete_horizon_ms: int | None = column(
        Kind.TIME, "from then on the cleaner may remove its tombstones or its marker; null where it has set none"
    )
    timestamp_type: str = column(
        Kind.WORD,
        "whose clock the timestamps are of: the producer's, or the broker's; magic 0 has none",
        words=TIMESTAMP_TYPES,
    )
    base_timestamp: int | None = column(Kind.TIME, "of its header; a delete horizon takes its place")
    max_timestamp: int | None = column(Kind.TIME, "of its header")
    magic: int = column(Kind.NUMBER, "its format")
    compresscodec: str = column(Kind.WORD, "none, gzip, snappy, lz4 or zstd; or unknown: and a number")
    attributes: int = column(Kind.NUMBER, "as stored, unsigned")
    crc: int = column(Kind.NUMBER, "as stored")
    isvalid: bool = column(Kind.FLAG, "the bytes have that CRC")


class RecordRow(Row, name="record"):
    """A record."""

    file: str = column(Kind.PATH, "the log")
    batch_position: int = column(Kind.POSITION, "where its batch begins")
    offset: int = column(Kind.OFFSET, "of the record")
    timestamp: int = column(Kind.TIME, "-1 where it has none")
    timestamp_delta: int | None = column(
        Kind.NUMBER, "as stored, also where the timestamp is that of the broker; null in magic 0 and 1"
    )
    timestamp_type: str = column(Kind.WORD, "whose clock the timestamp is of", words=TIMESTAMP_TYPES)
    attributes: int = column(Kind.NUMBER, "of the record, not of its batch")
    key_size: int = column(Kind.SIZE, "-1 for null")
    value_size: int = column(Kind.SIZE, "-1 for null")
    sequence: int | None = column(Kind.NUMBER, "its number from its producer, -1 without one; null in magic 0 and 1")
    headers: list[Any] | None = column(Kind.HEADERS, "in their order; null in magic 0 and 1")
    key: bytes | None = column(Kind.DATA, "its key")
    payload: bytes | None = column(Kind.DATA, "its value")
    control: Any = column(
        Kind.JSON, "what a control record says: its type (COMMIT, ABORT, LEADER_CHANGE ...) and the fields of its value"
    )
    decoded_key: Any = column(Kind.JSON, "what a decoder makes of its key")
    decoded_payload: Any = column(Kind.JSON, "what a decoder makes of its value")
    key_schema: SchemaUsed | None = column(Kind.ROW, "that its key was decoded by; null for none", of=SchemaUsed)
    schema: SchemaUsed | None = column(Kind.ROW, "that its value was decoded by; null for none", of=SchemaUsed)
