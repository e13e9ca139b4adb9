"""What groups, transactions and the metadata log came to, as JSON lines."""

from __future__ import annotations

from kdump.dispatch import takes
from kdump.render.coordinators import CoordinatorSink
from kdump.render.json.lines import JsonLines
from kdump.row import Row
from kdump.rows.coordinators import ClusterRow
from kdump.rows.json_lines import line, row_json


def coordinator_json(item: object) -> str | None:
    """Return the line of a row, None for what is none."""
    if isinstance(item, Row):
        return row_json(item)
    return line(item.kind, item.fields) if isinstance(item, ClusterRow) else None


class CoordinatorJson(CoordinatorSink, JsonLines):
    """Writes rows and findings as JSON lines, and a summary."""

    @takes(ClusterRow)
    def _cluster(self, row: ClusterRow) -> None:
        self._write(f"{line(row.kind, row.fields)}\n")
