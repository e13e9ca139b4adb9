"""Rows for programs, those of any verb, and one summary at the end: JSON, or lines of facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.render.sink import Sink
from kdump.row import Row
from kdump.rows.layout import JSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.rows.layout import Layout
    from kdump.tally import RunTotals


class RowLines(Sink):
    """Writes each row as soon as it is known, findings among them, and the summary.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up; None for no summary.
        wanted: tells what is shown when little is to be shown; None for everything. The summary always is.
        layout: of the rows.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        error: Callable[[str], object],
        tally: RunTotals | None,
        wanted: Callable[[Any], bool] | None = None,
        layout: Layout = JSON,
    ) -> None:
        super().__init__(write, error, tally, wanted)
        self._totals = tally
        self._layout = layout

    @takes(Row)
    def _row(self, row: Row) -> None:
        self._write(self._layout.row(row))

    def end(self, status: int) -> None:
        """Write the summary."""
        if self._totals is not None:
            self._row(self._totals.summary(status))
