"""How a node reads a snapshot of its metadata log: batch by batch, and it ends at the first that is damaged.

What is too short to be a batch ends it in silence: a snapshot that was cut is taken for what is left, as long as its
header is there.

Source: RecordsIterator, RecordsSnapshotReader, ByteBufferLogInputStream, DefaultRecordBatch.ensureValid; Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.failure import CORRUPT
from kdump.format.batch import layout
from kdump.format.kernels import wire
from kdump.format.record.control_type import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, control_type
from kdump.format.source import crc32c_of

if TYPE_CHECKING:
    from kdump.format.source import Source

_LEAST = 14  # bytes behind the length. Source: LegacyRecord.RECORD_OVERHEAD_V0


def records_failure(snapshot: Source) -> str | None:
    """Return what a node throws that reads a snapshot, class and message; None where it reads all that it sees.

    Args:
        snapshot: the file.

    Raises:
        OSError: it cannot be read.
    """
    if snapshot.size < _FIRST:
        return _EMPTY if not snapshot.size else _SHORT
    position = 0
    while snapshot.size - position >= layout.LOG_OVERHEAD:
        header = snapshot.read_at(position, layout.RECORDS_AT)
        length = wire.i32(header, layout.SIZE_AT)
        if length < _LEAST:
            return f"{CORRUPT}: Record size {length} is less than the minimum record overhead ({_LEAST})"
        if len(header) <= layout.MAGIC_AT:
            return None
        magic, end = header[layout.MAGIC_AT], position + layout.LOG_OVERHEAD + length
        if magic > layout.MAGIC_V2:
            return f"{CORRUPT}: Invalid magic found in record: {magic - 256 if magic > 127 else magic}"
        if end > snapshot.size or len(header) < layout.RECORDS_AT:
            return None if position else _EMPTY
        if magic == layout.MAGIC_V2:
            wrong = _crcs(snapshot, header, position, end)
            if wrong is not None:
                return "{}: Record is corrupt (stored crc = {}, computed crc = {})".format(CORRUPT, *wrong)
        if not position and (control := _control(snapshot, header, 0)) != SNAPSHOT_HEADER:
            return _NO_HEADER if control is None else _OTHER
        position = end
    return None


def ends_of(snapshot: Source) -> tuple[bool, bool]:
    """Tell whether a snapshot has its header as the first batch, and its footer as the last.

    Args:
        snapshot: the file.

    Raises:
        OSError: it cannot be read.
    """
    position, first, last = 0, False, False
    while snapshot.size - position >= layout.RECORDS_AT:
        header = snapshot.read_at(position, layout.RECORDS_AT)
        length = wire.i32(header, layout.SIZE_AT)
        end = position + layout.LOG_OVERHEAD + length
        if length < _LEAST or end > snapshot.size:
            break
        control = _control(snapshot, header, position)
        is_damaged = control is not None and _crcs(snapshot, header, position, end) is not None  # that is told apart
        first = control == SNAPSHOT_HEADER or is_damaged if not position else first
        last = control == SNAPSHOT_FOOTER or is_damaged
        position = end
    return first, last


def _crcs(snapshot: Source, header: bytes, position: int, end: int) -> tuple[int, int] | None:
    """The CRC that a batch has, and the one that it should have, where they differ."""
    stored, computed = wire.u32(header, layout.CRC_AT), crc32c_of(snapshot, position + layout.ATTRIBUTES_AT, end)
    return None if stored == computed else (stored, computed)


def _control(snapshot: Source, header: bytes, position: int) -> int | None:
    """The type of the first record of a control batch; None of a batch that is none."""
    is_control = wire.i16(header, layout.ATTRIBUTES_AT) & layout.CONTROL_FLAG
    is_new = header[layout.MAGIC_AT] == layout.MAGIC_V2
    return control_type(snapshot, position) if is_new and is_control else None


_FIRST = 17  # bytes up to the magic. Source: Records.HEADER_SIZE_UP_TO_MAGIC
_EMPTY = "java.util.NoSuchElementException: No value present"
_SHORT = (
    'java.lang.NullPointerException: Cannot invoke "java.lang.Integer.intValue()" because the return value of '
    '"org.apache.kafka.common.record.internal.MemoryRecords.firstBatchSize()" is null'
)
_NO_HEADER = "java.lang.IllegalStateException: First batch is not a control batch with at least one record"
_OTHER = "java.lang.IllegalStateException: First control record is not a snapshot header"
