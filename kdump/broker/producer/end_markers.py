"""Transaction markers: what a broker reads of control batches when it replays a log."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from kdump.format.batch import layout
from kdump.format.batch.window import Window
from kdump.format.record.reader import key_and_value
from kdump.format.record.record_checks import control_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.format.record.reader import RecordReader


class Marker(NamedTuple):
    """What counts of a transaction marker; `timestamp` is ms."""

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
    for chunk in reader.chunks(Window(window.view, window.origin, rows, len(numbers), window.whole)):
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
