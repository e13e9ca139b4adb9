"""What a schema registry has, as rows for programs."""

from __future__ import annotations

from kdump.render.coordinators import CoordinatorSink
from kdump.render.row_lines import RowLines


class SchemaRows(CoordinatorSink, RowLines):
    """Writes rows and findings, and a summary."""
