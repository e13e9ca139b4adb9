"""What sinks of tables share: the terminal, how names are shown, and findings in the colour of their severity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.render.sink import Sink
from kdump.render.terminal.columns import write_finding
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console


class TableSink(Sink):
    """Writes to a terminal.

    Args:
        console: the terminal.
        error: takes one line for stderr.
        raw: write names as they are.
    """

    def __init__(self, console: Console, error: Callable[[str], None], *, raw: bool) -> None:
        super().__init__(console.print, error)
        self._console = console
        self._safe: Callable[[str], str] = str if raw else escape

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        write_finding(self._console, finding)
