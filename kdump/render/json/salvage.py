"""What salvage has kept and what not, as JSON lines: in the file beside a partition, and on stdout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.render.json.lines import JsonLines
from kdump.render.salvaged import SalvageSink, SalvageTotals
from kdump.rows.json_lines import line, name
from kdump.rows.salvaged import SalvageDone
from kdump.rows.verdict import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _former(text: str, changed: Iterable[str]) -> str:
    """Return the line of what a partition came to in a former run, and that it was one.

    Args:
        text: the line, as it was written then.
        changed: the logs and directories of the sources that changed since.
    """
    row = {**json.loads(text), "keptFromFormerRun": True, "changedSince": [name(one) for one in changed]}
    return line(str(row.pop("type")), row)


class SalvageJson(SalvageSink, JsonLines):
    """Writes the rows of each partition, and the summary, as JSON lines.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        rows: gives the lines of a file of rows.
    """

    def __init__(
        self, write: Callable[[str], object], error: Callable[[str], object], rows: Callable[[str], Iterable[str]]
    ) -> None:
        self._salvaged = SalvageTotals()
        JsonLines.__init__(self, write, error, self._salvaged)
        self._rows = rows

    @takes(SalvageDone)
    def _done(self, done: SalvageDone) -> None:
        for text in self._rows(done.rows):
            is_last = not done.is_new and text.startswith('{"type":"salvage"')
            self._write(f"{_former(text, done.changed) if is_last else text}\n")
        for finding in done.left:
            self._row(finding)
        for note in done.notes:
            self._error(f"kdump: {note}")

    def end(self, status: int) -> None:
        """Write what to do where not all could be read, or was named, and the summary."""
        steps = dict.fromkeys((one.command, one.why) for _, some in self._salvaged.not_complete for one in some)
        for number, (command, why) in enumerate(steps, 1):
            self._row(Step(number, command, why))
        super().end(status)
