"""What a run of salvage comes to, and what it says on stderr in every layout."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.dispatch import Dispatcher, takes
from kdump.finding import Finding, Severity
from kdump.render.sink import Sink
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from kdump.rows.summary import RunSummary, unread_rows
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from kdump.rows.salvaged import SalvageStep


class SalvageTotals(Dispatcher):
    """What a run comes to."""

    def __init__(self) -> None:
        self.partitions = self.segments = self.size = self.batches = self.records = 0
        self.offsets_lost = self.records_lost = self.records_unknown = self.offsets_unexplained = 0
        self.severities: Counter[Severity] = Counter()
        self.unchecked: list[tuple[str | None, str]] = []
        self.not_complete: list[tuple[str, tuple[SalvageStep, ...]]] = []
        self.with_losses: list[str] = []
        self.refused: list[str] = []

    def see(self, item: object) -> None:
        """Take one item into account."""
        self.take(item)

    @takes(SalvageDone)
    def _done(self, done: SalvageDone) -> None:
        found = done.salvaged
        self.partitions += 1
        self.segments += found.segments
        self.size += found.size
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

    def summary(self, exit_status: int) -> RunSummary:
        """Return the last row of the run; files and bytes are those of the logs that were written.

        Args:
            exit_status: of it.
        """
        return RunSummary(
            files=self.segments,
            size=self.size,
            batches=self.batches,
            records=self.records,
            partitions=self.partitions,
            errors=self.severities[Severity.ERROR],
            warnings=self.severities[Severity.WARNING],
            notes=self.severities[Severity.NOTE],
            offsets_lost=self.offsets_lost,
            records_lost=self.records_lost,
            records_unknown=self.records_unknown,
            offsets_unexplained=self.offsets_unexplained,
            unchecked=unread_rows(self.unchecked),
            exit=exit_status,
        )


class SalvageSink(Sink):
    """Says on stderr what could not be read, or not be made."""

    @takes(SalvageRefused)
    def _refused(self, refused: SalvageRefused) -> None:
        self._error(f"kdump: {refused.why}")

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._error(f"kdump: {finding.code.name} {finding.file}: {finding.message}")
