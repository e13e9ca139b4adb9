"""What sinks for plain text share: findings as lines, of which those that repeat are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.item import PartitionChecked
from kdump.render.sink import Sink
from kdump.render.text.findings import FindingLines

if TYPE_CHECKING:
    from collections.abc import Callable


class TextLines(Sink):
    """Writes findings to stderr, four of each code in a partition, and counts the rest.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
    """

    def __init__(self, write: Callable[[str], Any], error: Callable[[str], Any]) -> None:
        super().__init__(write, error)
        self._findings = FindingLines(error)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._findings(finding)

    @takes(PartitionChecked)
    def _end_of_partition(self, _item: object = None) -> None:
        """Say how many findings were left out."""
        self._findings.end_of_file()

    def end(self, _status: int) -> None:
        """Say how many findings were left out."""
        self._end_of_partition()
