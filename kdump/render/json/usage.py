"""What uses the space, as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.finding import Finding
from kdump.item import Growth, Usage
from kdump.render.json.lines import finding_json, line, name, safe_text, summary_json, text_or_bytes
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.item import Item
    from kdump.render.tally import Tally


def usage_fields(one: Usage) -> dict[str, Any]:
    """Return the keys and values of a name."""
    free = one.freeable
    return {
        "by": one.by,
        "name": _named(one.name),
        "bytes": one.size,
        "logBytes": one.log_size,
        "indexBytes": one.index_size,
        "otherBytes": one.other_size,
        "leftoverBytes": one.leftover_size,
        "allocatedBytes": one.allocated,
        "files": one.files,
        "segments": one.segments,
        "batches": one.batches,
        "records": one.records,
        "keyBytes": one.key_size,
        "valueBytes": one.value_size,
        "uncompressedBytes": one.uncompressed,
        "firstTimestamp": one.first_timestamp,
        "maxTimestamp": one.max_timestamp,
        "supersededRecords": one.superseded,
        "supersededBytes": one.superseded_size,
        "exact": one.exact,
        "errorBytes": one.error,
        "freeable": None
        if free is None
        else {
            "bytes": free.size,
            "segments": free.segments,
            "nextAt": free.next_at,
            "nextBytes": free.next_size,
            "why": free.why,
        },
        "compactionWaits": [safe_text(why) for why in one.waits],
        "assumed": [safe_text(what) for what in one.assumed],
    }


def usage_json(one: Usage) -> str:
    """Return the line of a name."""
    return line("usage", usage_fields(one))


def growth_json(one: Growth) -> str:
    """Return the line of a growth."""
    return line(
        "growth",
        {
            "name": _named(one.name),
            "bytesPerDay": one.per_day,
            "fromTimestamp": one.from_timestamp,
            "toTimestamp": one.to_timestamp,
            "setAsideBatches": one.set_aside,
            "fullAt": one.full_at,
            "daysLeft": one.days_left,
        },
    )


def _named(what: str | bytes | None) -> object:
    if what is None:
        return None
    return text_or_bytes(what) if isinstance(what, bytes) else name(what)


class UsageJson:
    """Writes rows, findings and the summary.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
    """

    def __init__(self, write: Callable[[str], None], error: Callable[[str], None], tally: Tally) -> None:
        self._write = write
        self._error = error
        self._tally = tally

    def __call__(self, item: Item) -> None:
        """Write one item."""
        self._tally.see(item)
        if isinstance(item, Usage):
            self._write(f"{usage_json(item)}\n")
        elif isinstance(item, Growth):
            self._write(f"{growth_json(item)}\n")
        elif isinstance(item, Finding):
            self._write(f"{finding_json(item)}\n")
        elif isinstance(item, OpenFailure):
            self._error(f"kdump: {item.sentence}")

    def end(self, status: int) -> None:
        """Write the summary."""
        self._write(f"{summary_json(self._tally.totals(), self._tally.unchecked, status)}\n")
