"""The items of verify as JSON lines: each finding as soon as it is known, one summary at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.rows.json_lines import row_json, summary_json
from kdump.rows.verdict import Loss, Prediction, Step
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.item import Item
    from kdump.tally import Tally


class VerifyJson:
    """Writes findings and the summary as JSON lines.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
        wanted: tells what is shown when little is to be shown; None for everything. The summary always is.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        error: Callable[[str], None],
        tally: Tally,
        *,
        wanted: Callable[[Item], bool] | None,
    ) -> None:
        self._write = write
        self._error = error
        self._tally = tally
        self._wanted = wanted

    def __call__(self, item: Item) -> None:
        """Write one item."""
        self._tally.see(item)
        if isinstance(item, Prediction | Loss | Step) and self._wanted is None:
            self._write(f"{row_json(item)}\n")
        if not isinstance(item, Finding | OpenFailure) or not (self._wanted is None or self._wanted(item)):
            return
        if isinstance(item, Finding):
            self._write(f"{row_json(item)}\n")
        else:
            self._error(f"kdump: {item.sentence}")

    def end(self, status: int) -> None:
        """Write the summary."""
        self._write(f"{summary_json(self._tally.totals(), self._tally.unchecked, status)}\n")
