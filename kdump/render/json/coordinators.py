"""What groups, transactions and the metadata log came to, as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.render.text.coordinators import copies_line
from kdump.row import Row
from kdump.rows.coordinators import ClusterRow, CopyChosen, Remark
from kdump.rows.json_lines import line, row_json, safe_text, summary_json
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.tally import Tally


def coordinator_json(item: object) -> str | None:
    """Return the line of a row, None for what is none."""
    if isinstance(item, Row):
        return row_json(item)
    return line(item.kind, item.fields) if isinstance(item, ClusterRow) else None


class CoordinatorJson:
    """Writes rows and findings as JSON lines, and a summary.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
    """

    def __init__(self, write: Callable[[str], None], error: Callable[[str], None], tally: Tally) -> None:
        self._write = write
        self._error = error
        self._tally = tally

    def __call__(self, item: object) -> None:
        """Write one item."""
        self._tally.see(item)
        made = row_json(item) if isinstance(item, Finding) else coordinator_json(item)
        if made is not None:
            self._write(f"{made}\n")
        elif isinstance(item, OpenFailure):
            self._error(f"kdump: {item.sentence}")
        elif isinstance(item, CopyChosen):
            self._error(safe_text(copies_line(item)))
        elif isinstance(item, Remark):
            self._error(safe_text(f"kdump: {item.sentence}"))

    def end(self, status: int) -> None:
        """Write the summary."""
        self._write(f"{summary_json(self._tally.totals(), self._tally.unchecked, status)}\n")
