"""What sinks of tables share: the paper, how names are shown, and what becomes of findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.finding import Finding, Severity
from kdump.item import PartitionChecked
from kdump.render.report.columns import write_sentence
from kdump.render.report.styled import Text
from kdump.render.sink import Sink
from kdump.render.text.findings import FindingLines
from kdump.words.escape import escape
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.render.report.styled import Paper


class TableSink(Sink):
    """Writes tables and sentences.

    Args:
        paper: what they are written on.
        error: takes one line for stderr.
        raw: write names as they are.
        notes: list findings of severity note; else they are counted.
    """

    def __init__(self, paper: Paper, error: Callable[[str], None], *, raw: bool, notes: bool) -> None:
        super().__init__(paper.line, error)
        self._paper = paper
        self._lists_notes = notes
        self._notes = 0
        self._findings = FindingLines(error)
        self._safe: Callable[[str], str] = str if raw else escape

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        if finding.severity is Severity.NOTE and not self._lists_notes:
            self._notes += 1 + (finding.more or 0)
        else:
            self._show_finding(finding)

    def _show_finding(self, finding: Finding) -> None:
        """Write a finding where commentary goes, as it is no part of the answer: four of each code in a partition."""
        self._findings(finding)

    @takes(PartitionChecked)
    def _end_of_partition(self, _item: object = None) -> None:
        """Say how many findings were left out."""
        self._findings.end_of_file()

    def _conclude(self) -> None:
        """Say how many findings were left out, and how many notes were not listed."""
        self._end_of_partition()
        if self._notes:
            write_sentence(self._paper, Text(f"{counted(self._notes, 'note')} (--notes lists them)"))
