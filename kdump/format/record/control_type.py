"""What a control batch says, by the key of its first record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.codec.signatures import VARINT_BYTES, VARLONG_BYTES, varint
from kdump.format.kernels import wire

if TYPE_CHECKING:
    from kdump.format.source import Source

SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4
"""Types of control records. Source: ControlRecordType."""


def control_type(source: Source, position: int) -> int:
    """Return the type of a control batch's first record, -1 for none.

    Args:
        source: has the batch.
        position: where it begins.

    Source: ControlRecordType.parse.
    """
    data = memoryview(source.read_at(position + layout.RECORDS_AT, min(64, source.size - position - layout.RECORDS_AT)))
    _, at = varint(data, 0, VARINT_BYTES)
    _, at = varint(data, at + 1, VARLONG_BYTES)
    _, at = varint(data, at, VARINT_BYTES)
    size, at = varint(data, at, VARINT_BYTES)
    return wire.i16(data, at + 2) if size >= layout.CONTROL_KEY_SIZE and at + 4 <= len(data) else -1
