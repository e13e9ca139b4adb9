"""The sink of `dump --stats` as text: statistics on stdout, findings on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.format.record.chunk import Chunk
from kdump.item import Complaint, FileStart, OffsetEntries, SanityFailed, TimeEntries
from kdump.render.dump_sink import DumpSink
from kdump.render.figures import figures_text
from kdump.render.text.findings import FindingLines
from kdump.rows.stats import Figures
from kdump.storage.file_source import OpenFailure
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.item import Item


class StatsLines(DumpSink):
    """Writes figures as text.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr, after all that stdout got.
        careful: stdout is a terminal: no name may drive it.
        listed: tells which findings and failures are said.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        error: Callable[[str], None],
        *,
        careful: bool,
        listed: Callable[[object], bool] = lambda _item: True,
    ) -> None:
        super().__init__(listed)
        self._write = write
        self._error = error
        self._careful = careful
        self._findings = FindingLines(error)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._findings(finding)

    @takes(Complaint, SanityFailed, always=True)
    def _complaint(self, complaint: Complaint | SanityFailed) -> None:
        if complaint.finding is not None:
            self._findings(complaint.finding)

    @takes(FileStart, always=True)
    def _file(self, _file: FileStart) -> None:
        """Say how many findings were left out of the file before."""
        self._findings.end_of_file()

    @takes(OpenFailure)
    def _problem(self, problem: OpenFailure) -> None:
        self._error(f"kdump: {escape(problem.sentence)}")

    @takes(Figures, always=True)
    def _figures(self, figures: Figures) -> None:
        for text in figures_text(figures):
            self._write(f"{escape(text) if self._careful else text}\n")

    @property
    def state(self) -> object:
        """What was shown so far, as far as what comes next hangs on it."""
        return self._findings.found

    def resume(self, state: Any) -> None:  # noqa: ANN401 (what `state` was)
        """Go on from what another sink has shown."""
        self._findings.found = state

    def is_bulk(self, item: Item) -> bool:
        """Tell whether nothing is written of an item."""
        return isinstance(item, Chunk | OffsetEntries | TimeEntries)

    def end(self, *, dead: bool) -> None:
        """Write how many findings were left out.

        Args:
            dead: for sinks that mirror Kafka's tool; here nothing dies.
        """
        assert not dead
        self._findings.end_of_file()
