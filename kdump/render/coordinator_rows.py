"""What groups, transactions and the metadata log came to, as rows for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.render.coordinators import CoordinatorSink
from kdump.render.row_lines import RowLines
from kdump.row import Row
from kdump.rows.coordinators import ClusterRow

if TYPE_CHECKING:
    from kdump.rows.layout import Layout


def written(row: Row | ClusterRow, layout: Layout) -> str:
    """Return the lines of a row, with their ends."""
    return layout.fields(row.kind, row.fields) if isinstance(row, ClusterRow) else layout.row(row)


class CoordinatorRows(CoordinatorSink, RowLines):
    """Writes rows and findings, and a summary."""

    @takes(Row, ClusterRow)
    def _row(self, row: Row | ClusterRow) -> None:
        self._write(written(row, self._layout))
