"""JSON lines: one object a line, ASCII only, `type` first, Kafka's names."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING

from kdump.format import layout
from kdump.format.records import headers, key_and_value, timestamp_delta
from kdump.render.escape import escape

if TYPE_CHECKING:
    from array import array

    from kdump.finding import Finding
    from kdump.format.chunk import Chunk
    from kdump.format.window import Window
    from kdump.item import Location, Prediction

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def line(type_: str, fields: dict[str, object]) -> str:
    """Return one line, without its end."""
    return json.dumps({"type": type_, **fields}, separators=(",", ":"))


def finding_json(finding: Finding) -> str:
    """Return the line of a finding."""
    return line(
        "finding",
        {
            "code": finding.code.name,
            "name": finding.code.slug,
            "severity": finding.severity.value,
            "file": name(finding.file),
            "position": finding.position,
            "length": finding.length,
            "gap": finding.gap,
            "offset": finding.offset,
            "lastOffset": finding.last_offset,
            "field": finding.field,
            "expected": _value(finding.expected),
            "found": _value(finding.found),
            "message": text(finding.message),
            "remedy": text(finding.remedy),
            "count": finding.count,
        },
    )


def location_json(location: Location) -> str:
    """Return the line of an answer."""
    return line(
        "location",
        {
            "query": text(location.query.strip()),
            "offset": location.offset,
            "timestamp": location.timestamp,
            "leaderEpoch": location.leader_epoch,
            "file": None if location.file is None else name(location.file),
            "position": location.position,
            "baseOffset": location.base_offset,
            "lastOffset": location.last_offset,
            "error": _value(location.error),
        },
    )


def prediction_json(one: Prediction) -> str:
    """Return the line of what a broker does with a partition."""
    segments = [{"baseOffset": it.base_offset, "action": it.action, "size": it.size} for it in one.segments]
    return line(
        "prediction",
        {
            "partition": name(one.partition),
            "start": one.start,
            "loads": one.loads,
            "stops": one.stops,
            "reason": _value(one.reason),
            "reasonClass": one.reason_class,
            "logStartOffset": one.log_start_offset,
            "logEndOffset": one.log_end_offset,
            "bytesLost": one.bytes_lost,
            "recordsLost": one.records_lost,
            "assumed": [text(what) for what in one.assumed],
            "segments": segments,
        },
    )


def summary_json(totals: dict[str, int], unchecked: list[tuple[str | None, str]], status: int) -> str:
    """Return the line that ends a run.

    Args:
        totals: numbers by name.
        unchecked: what was not read, and why; None for all files.
        status: the exit status.
    """
    left_out = [{"file": None if path is None else name(path), "reason": text(why)} for path, why in unchecked]
    return line("summary", {**totals, "unchecked": left_out, "exit": status})


def batch_json(file: str, window: Window, k: int) -> str:
    """Return the line of row k of a window; magic 0 and 1 have the same keys, null where they have no such field."""
    cell = window.row(k)
    new = cell[layout.MAGIC] >= layout.MAGIC_V2
    attributes, sequence = cell[layout.ATTRIBUTES], cell[layout.BASE_SEQUENCE]
    codec = attributes & layout.CODEC_MASK
    horizon = new and attributes & layout.DELETE_HORIZON_FLAG
    last_sequence = layout.increment_sequence(sequence, cell[layout.LAST_OFFSET_DELTA]) if sequence >= 0 else sequence
    values: dict[str, object] = {
        "file": name(file),
        "position": cell[layout.POSITION],
        "size": cell[layout.SIZE],
        "baseOffset": cell[layout.BASE_OFFSET] if new or cell[layout.BASE_OFFSET] >= 0 else None,
        "lastOffset": cell[layout.LAST_OFFSET],
        "count": cell[layout.COUNT] if new else None,
        "baseSequence": sequence if new else None,
        "lastSequence": last_sequence if new else None,
        "producerId": cell[layout.PRODUCER_ID] if new else None,
        "producerEpoch": cell[layout.PRODUCER_EPOCH] if new else None,
        "partitionLeaderEpoch": cell[layout.LEADER_EPOCH] if new else None,
        "isTransactional": bool(attributes & layout.TRANSACTIONAL_FLAG) if new else None,
        "isControl": bool(attributes & layout.CONTROL_FLAG) if new else None,
        "deleteHorizonMs": cell[layout.BASE_TIMESTAMP] if horizon else None,
        "timestampType": timestamp_type(cell),
        "baseTimestamp": cell[layout.BASE_TIMESTAMP] if new else None,
        "maxTimestamp": cell[layout.MAX_TIMESTAMP] if cell[layout.MAGIC] else None,
        "magic": cell[layout.MAGIC],
        "compresscodec": _CODECS[codec] if codec < len(_CODECS) else f"unknown:{codec}",
        "attributes": attributes,
        "crc": cell[layout.CRC],
        "isvalid": cell[layout.CRC] == cell[layout.COMPUTED_CRC],
    }
    return line("batch", values)


def timestamp_type(batch: array[int]) -> str:
    """Return what the timestamps of a batch row mean."""
    if batch[layout.MAGIC] == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch[layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG else "CreateTime"


def record_json(file: str, chunk: Chunk, i: int, control: dict[str, object] | None) -> str:
    """Return the line of record row i of a chunk, with key and payload.

    Args:
        file: the log.
        chunk: the record and its batch.
        i: row.
        control: what a control record says, None for another.
    """
    row = chunk.rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH]
    k = row[layout.R_BATCH]
    batch = chunk.window.row(k)
    new = batch[layout.MAGIC] >= layout.MAGIC_V2
    key, value = key_and_value(chunk.view, row)
    pairs = [{"key": text_or_bytes(name), "value": text_or_bytes(data)} for name, data in headers(chunk.view, row)]
    values: dict[str, object] = {
        "file": name(file),
        "batchPosition": batch[layout.POSITION],
        "offset": row[layout.R_OFFSET],
        "timestamp": row[layout.R_TIMESTAMP],
        "timestampDelta": timestamp_delta(chunk.view, row) if new else None,
        "timestampType": timestamp_type(batch),
        "attributes": row[layout.R_ATTRIBUTES] & 0xFF,
        "keySize": max(-1, row[layout.R_KEY_SIZE]),
        "valueSize": max(-1, row[layout.R_VALUE_SIZE]),
        "sequence": row[layout.R_SEQUENCE] if new else None,
        "headers": pairs if new else None,
        "key": text_or_bytes(key),
        "payload": text_or_bytes(value),
        "control": control,
    }
    return line("record", values)


def text_or_bytes(data: bytes | None) -> object:
    """Return bytes as JSON has them: a string when they are UTF-8, else an object with Base64; null stays null."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def name(path: str) -> object:
    """Return a path as JSON has it: it is bytes too, and not always UTF-8."""
    return path if path.isascii() else text_or_bytes(os.fsencode(path))


def _value(value: int | str | None) -> int | str | None:
    return text(value) if isinstance(value, str) else value


def text(words: str) -> str:
    """Return text for people; bytes in it that were not UTF-8 are made visible, as not all who read JSON take them."""
    if words.isascii():
        return words
    return "".join([escape(char) if "\ud800" <= char <= "\udfff" else char for char in words])
