"""What carve finds, as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.rows.carved import CarvedRun
from kdump.rows.json_lines import row_json, summary_json
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.item import Item
    from kdump.tally import Tally


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
            self._write(f"{row_json(item)}\n")
            return
        self._tally.see(item)
        if isinstance(item, Finding):
            self._write(f"{row_json(item)}\n")
        elif isinstance(item, OpenFailure):
            self._error(f"kdump: {item.sentence}")

    def end(self, status: int) -> None:
        """Write the summary."""
        self._write(f"{summary_json(self._tally.totals(), self._tally.unchecked, status)}\n")
