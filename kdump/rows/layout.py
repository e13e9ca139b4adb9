"""How rows are written for programs: as JSON, or as lines of facts. What one of them has, the other has too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.rows.fact_lines import facts, row_facts
from kdump.rows.json_lines import line, row_json
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.row import Row


class Layout(Value):
    """A layout for programs."""

    row: Callable[[Row], str]  # returns the lines of a row, with their ends
    fields: Callable[[str, dict[str, object]], str]  # the same of a type, and of keys and values as JSON has them


JSON = Layout(lambda row: f"{row_json(row)}\n", lambda type_, fields: f"{line(type_, fields)}\n")
LINES = Layout(row_facts, facts)
LAYOUTS = {"json": JSON, "lines": LINES}
