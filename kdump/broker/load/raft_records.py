"""How a node reads a snapshot of its metadata log: batch by batch, and it ends at the first that is damaged.

What is too short to be a batch ends it in silence: a snapshot that was cut is taken for what is left of it.

Source: RecordsIterator, ByteBufferLogInputStream, DefaultRecordBatch.ensureValid; Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.failure import CORRUPT
from kdump.format.batch import layout
from kdump.format.kernels import wire
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
            return None
        if magic == layout.MAGIC_V2:
            stored = wire.u32(header, layout.CRC_AT)
            computed = crc32c_of(snapshot, position + layout.ATTRIBUTES_AT, end)
            if stored != computed:
                return f"{CORRUPT}: Record is corrupt (stored crc = {stored}, computed crc = {computed})"
        position = end
    return None
