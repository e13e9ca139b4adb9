"""Rules that one header of a batch with the right CRC can break by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.batch.window import Window

_UNUSED_LEGACY = 0xF0


def check_header(file: str, window: Window, k: int) -> Iterator[Finding]:
    """Yield what is wrong with the header in row k, which the scan has marked.

    Args:
        file: the path as the user wrote it.
        window: where the batch is.
        k: its row.

    Reports: B05-B09, B11, C07.

    Source: DefaultRecordBatch, LegacyRecord, CompressionType.forId, Kafka 4.3.
    """
    bits = window.cell(k, layout.SUSPICION)
    attributes = window.cell(k, layout.ATTRIBUTES)
    legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2

    def finding(code: Code, field: str, found: int, **more: Any) -> Finding:  # noqa: ANN401 (fields of a Finding)
        return _finding(file, window, k, code, field=field, found=found, **more)

    codec = attributes & layout.CODEC_MASK
    if bits & layout.ODD_CODEC and (not legacy or codec > layout.CODEC_ZSTD):
        yield finding(Code.B05, "compresscodec", codec)
    if bits & layout.ODD_ATTRIBUTES:
        unused = attributes & (_UNUSED_LEGACY if legacy else layout.ATTRIBUTES_UNUSED_V2)
        yield finding(Code.B06, "attributes", unused)
    delta, count = window.cell(k, layout.LAST_OFFSET_DELTA), window.cell(k, layout.COUNT)
    if bits & layout.ODD_DELTA:
        yield finding(Code.B07, "lastOffsetDelta", delta)
    elif bits & layout.ODD_COUNT and count == 0:
        left = window.cell(k, layout.SIZE) - layout.RECORDS_AT
        yield finding(Code.B09, "count", left)
    elif bits & layout.ODD_COUNT:
        yield finding(Code.B08, "count", count)
    if bits & layout.ODD_FLAGS:
        yield from _flags(finding, window, k)


def _finding(file: str, window: Window, k: int, code: Code, **more: Any) -> Finding:  # noqa: ANN401 (as above)
    position, size = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
    first, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
    return Finding(code, file, position, size, offset=first, last_offset=last, **more)


def _flags(finding: Callable[..., Finding], window: Window, k: int) -> Iterator[Finding]:
    """Flags that do not go together. Control batches of the Raft layer have no producer id: that alone is no fault."""
    attributes = window.cell(k, layout.ATTRIBUTES)
    if window.cell(k, layout.PRODUCER_ID) < 0:
        if attributes & layout.TRANSACTIONAL_FLAG:
            yield finding(Code.B11, "isTransactional", 1, values={"why": "transactional, but without a producer id"})
        elif not _is_raft_control(window, k):
            why = "a control batch without a producer id whose record is no control record"
            yield finding(Code.B11, "isControl", 1, values={"why": why})
    horizon = window.cell(k, layout.BASE_TIMESTAMP)
    if attributes & layout.DELETE_HORIZON_FLAG and horizon <= window.cell(k, layout.MAX_TIMESTAMP):
        why = f"the delete horizon {horizon} is not after the records (up to {window.cell(k, layout.MAX_TIMESTAMP)})"
        yield finding(Code.B11, "deleteHorizonMs", horizon, values={"why": why}, severity_override=Severity.WARNING)


def _is_raft_control(window: Window, k: int) -> bool:
    """Whether the first record of an uncompressed batch has the 4-byte key of a control record of the Raft layer."""
    if not window.whole or not window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
        return True
    start = window.cell(k, layout.POSITION) - window.origin + layout.RECORDS_AT
    body = bytes(window.view[start : start + 32])
    at = next((i for i, byte in enumerate(body) if byte < 0x80), len(body))  # length
    # attributes, timestamp delta and offset delta of the first record are one byte each: it is 0 ms after the base
    key_at = at + 1 + 3
    return len(body) >= key_at + 5 and body[key_at] == 8 and body[key_at + 1 : key_at + 3] == b"\0\0"
