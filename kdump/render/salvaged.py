"""What a run of salvage comes to, and what it says on stderr in every layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.finding import Finding, Severity
from kdump.render.sink import Sink
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from kdump.storage.file_source import OpenFailure
from kdump.tally import RunTotals

if TYPE_CHECKING:
    from kdump.rows.steps import Step


class SalvageTotals(RunTotals):
    """What a run comes to; files and bytes are those of the logs that were written."""

    def __init__(self) -> None:
        super().__init__()
        self.not_complete: list[tuple[str, tuple[Step, ...]]] = []
        self.with_losses: list[str] = []
        self.refused: list[str] = []

    @takes(SalvageDone)
    def _done(self, done: SalvageDone) -> None:
        found = done.salvaged
        self.partitions += 1
        self.files += found.segments
        self.bytes += found.size
        self.batches += found.batches
        self.records += found.records
        self.offsets_lost += found.offsets_lost
        self.offsets_unexplained += found.offsets_unexplained
        self.records_lost += done.records_lost
        self.records_unknown += done.ranges_unknown
        self.severities[Severity.ERROR] += len(done.among)
        self.severities[Severity.NOTE] += len(done.left)
        if done.has_losses:
            self.with_losses.append(found.partition)
        if done.why_not_complete:
            self.not_complete.append((found.partition, done.why_not_complete))

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self.severities[finding.severity] += 1

    @takes(OpenFailure)
    def _unread(self, failure: OpenFailure) -> None:
        self.unchecked.append((failure.path, failure.sentence))

    @takes(SalvageRefused)
    def _not_made(self, refused: SalvageRefused) -> None:
        self.unchecked.append((refused.partition or None, refused.why))
        if refused.partition and not refused.failed:
            self.refused.append(refused.partition)


class SalvageSink(Sink):
    """Says on stderr what could not be read, or not be made."""

    @takes(SalvageRefused)
    def _refused(self, refused: SalvageRefused) -> None:
        self._error(f"kdump: {refused.why}")

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._error(f"kdump: {finding.code.name} {finding.file}: {finding.message}")
