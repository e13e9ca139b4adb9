"""What salvage has kept and what not, as rows: those of the file beside a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.render.row_lines import RowLines
from kdump.render.salvaged import SalvageSink, SalvageTotals
from kdump.rows.json_lines import name
from kdump.rows.salvaged import Salvaged, SalvageDone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.rows.layout import Layout


class SalvageRows(SalvageSink, RowLines):
    """Writes the rows of each partition, and the summary.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        rows: gives the rows of a file of rows, as JSON has them.
        layout: of the rows.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        error: Callable[[str], object],
        rows: Callable[[str], Iterable[dict[str, Any]]],
        layout: Layout,
    ) -> None:
        self._salvaged = SalvageTotals()
        RowLines.__init__(self, write, error, self._salvaged, layout=layout)
        self._rows = rows

    @takes(SalvageDone)
    def _done(self, done: SalvageDone) -> None:
        for row in self._rows(done.rows):
            if not done.is_new and row["type"] == Salvaged.row_name:  # what it came to in a former run
                row |= {"keptFromFormerRun": True, "changedSince": [name(one) for one in done.changed]}
            self._write(self._layout.fields(str(row.pop("type")), row))
        for step in done.steps:
            self._row(step)
        for finding in done.left:
            self._row(finding)
        for note in done.notes:
            self._error(f"kdump: {note}")
