"""What carve finds, as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.item import CarvedRun
from kdump.render.json.lines import finding_json, line, name, safe_text, summary_json
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.item import Item
    from kdump.render.tally import Tally


def run_json(one: CarvedRun) -> str:
    """Return the line of a one."""
    return line(
        "run",
        {
            "file": name(one.file),
            "image": name(one.image),
            "position": one.extents[0][0],
            "length": sum(length for _, length in one.extents),
            "batches": one.batches,
            "records": one.records,
            "offset": one.offset,
            "lastOffset": one.last_offset,
            "epochs": list(one.epochs),
            "producerIds": list(one.producer_ids),
            "firstTimestamp": one.first_timestamp,
            "maxTimestamp": one.max_timestamp,
            "extents": [list(extent) for extent in one.extents],
            "kind": one.kind,
            "topicPartition": None if one.partition is None else f"{one.partition[0]}-{one.partition[1]}",
            "evidence": [safe_text(sentence) for sentence in one.evidence],
        },
    )


class CarveJson:
    """Writes runs, findings and the summary.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
    """

    def __init__(self, write: Callable[[str], None], error: Callable[[str], None], tally: Tally) -> None:
        self._write = write
        self._error = error
        self._tally = tally

    def __call__(self, item: CarvedRun | Item) -> None:
        """Write one item."""
        if isinstance(item, CarvedRun):
            self._write(f"{run_json(item)}\n")
            return
        self._tally.see(item)
        if isinstance(item, Finding):
            self._write(f"{finding_json(item)}\n")
        elif isinstance(item, OpenFailure):
            self._error(f"kdump: {item.sentence}")

    def end(self, status: int) -> None:
        """Write the summary."""
        self._write(f"{summary_json(self._tally.totals(), self._tally.unchecked, status)}\n")
