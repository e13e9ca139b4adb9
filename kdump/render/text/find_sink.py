"""Answers of find as text: the answer on stdout, the commentary on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.render.commentary import say
from kdump.render.escape import escape
from kdump.render.text.dump_sink import text_writer
from kdump.render.text.findings import FindingLines
from kdump.render.text.location import location_line

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.format.record.chunk import Chunk
    from kdump.item import Location


class FindText:
    """Writes answers as text.

    Args:
        path: of the partition, where what was left out is counted.
        many: there are many questions: each answer begins with its own, and one line of stdout belongs to each.
        careful: stdout is a terminal: nothing may drive it.
    """

    def __init__(self, path: str, *, many: bool, careful: bool) -> None:
        self._path = path
        self._many = many
        self._careful = careful
        self._writer = text_writer(careful=careful)
        self._findings = FindingLines(self._error)

    def location(self, location: Location) -> None:
        """Write an answer; nothing that was found goes to stderr where it was the one question."""
        if location.error is not None and not self._many:
            self._error(f"kdump: {escape(location.error)}")
            return
        line = location_line(location, with_query=self._many)
        self._writer.text(f"{escape(line) if self._careful else line}\n")

    def finding(self, finding: Finding) -> None:
        """Write a finding to stderr, unless there were many like it."""
        self._findings(finding)

    def chunk(self, _file: str, chunk: Chunk) -> None:
        """Write a batch or a record in dump's layout."""
        self._writer.chunk(chunk)

    def flush(self) -> None:
        """Write out what is held: another program may wait for the answer."""
        self._writer.flush()
        sys.stdout.flush()

    def end(self) -> None:
        """Write out what is held, and how many findings were left out."""
        self._findings.end_of_file(self._path)
        self.flush()

    def _error(self, line: str) -> None:
        self._writer.flush()
        say(line)
