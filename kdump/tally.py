"""The totals of a run, of verify above all, for the last line of every layout."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.dispatch import Dispatcher, takes
from kdump.finding import Finding, Severity, Trait
from kdump.item import Checked, PartitionChecked, Scrubbed, StartForeseen, Unchecked
from kdump.ranges import RangeSet
from kdump.rows.verdict import Certainty, Duplicate, Loss
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from kdump.rows.summary import RunSummary

NO_RECORDS = "records were not read (--shallow)"


class RunTotals(Dispatcher):
    """What a run comes to, for its last line.

    Attributes:
        files, bytes, batches, records, partitions: that were read, or written.
        offsets_lost, records_lost: what readers do not get, as far as it can be counted; what is absent is not lost. Of
            replicas each offset counts once, if none of them has it.
        offsets_elsewhere, records_elsewhere: that some replicas lack, and another one has.
        records_unknown: losses of which nobody can count the records.
        offsets_unexplained: that no batch has, while nothing tells whether they are lost.
        offsets_twice: that logs have more than once.
        unchecked: path and reason of what was not read, or not all of it, once for each file; None for all files.
    """

    def __init__(self) -> None:
        self.files = self.bytes = self.batches = self.records = self.partitions = 0
        self.offsets_lost = self.records_lost = self.records_unknown = self.offsets_unexplained = self.offsets_twice = 0
        self.offsets_elsewhere = self.records_elsewhere = 0
        self.severities: Counter[Severity] = Counter()  # how many findings of each there are, folded ones included
        self.damages = 0  # errors that say more than that offsets are lost
        self.unchecked: list[tuple[str | None, str]] = []

    def see(self, item: object) -> None:
        """Take one item into account."""
        self.take(item)

    def summary(self, exit_status: int) -> RunSummary:
        """Return the last row of the run.

        Args:
            exit_status: of it.
        """
        from kdump.rows.summary import RunSummary, unread_rows  # text needs no row

        return RunSummary(
            files=self.files,
            size=self.bytes,
            batches=self.batches,
            records=self.records,
            partitions=self.partitions,
            errors=self.severities[Severity.ERROR],
            warnings=self.severities[Severity.WARNING],
            notes=self.severities[Severity.NOTE],
            offsets_lost=self.offsets_lost,
            records_lost=self.records_lost,
            records_unknown=self.records_unknown,
            offsets_elsewhere=self.offsets_elsewhere,
            records_elsewhere=self.records_elsewhere,
            offsets_unexplained=self.offsets_unexplained,
            offsets_twice=self.offsets_twice,
            unchecked=unread_rows(self.unchecked),
            exit=exit_status,
        )


class Tally(RunTotals):
    """Adds up what is checked, what is found, and what is not checked.

    Args:
        shallow: records are not read, on purpose.
        replicas: directories of one name are replicas of one partition.

    Attributes:
        segments: that were checked.
        replicated: names of the partitions whose replicas were checked; None where directories are partitions.
    """

    def __init__(self, *, shallow: bool = False, replicas: bool = False) -> None:
        super().__init__()
        self.replicated: set[str] | None = set() if replicas else None
        self.segments = 0
        self.unchecked += [(None, NO_RECORDS)] if shallow else []
        self._partly: set[str] = set()
        self._lacking: dict[tuple[str, bool], RangeSet] = {}  # by partition, and whether another replica has them

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self.severities[finding.severity] += 1 + (finding.more or 0)
        self.damages += finding.severity is Severity.ERROR and not finding.is_loss
        self.records_unknown += finding.is_among_holes  # nobody knows in which of them, so no loss counts it
        if Trait.NOT_ALL_READ in finding.code.traits and finding.file not in self._partly:
            self._partly.add(finding.file)
            self.unchecked.append((finding.file, finding.message))

    @takes(OpenFailure)
    def _unread(self, failure: OpenFailure) -> None:
        self.unchecked.append((failure.path, failure.sentence.removeprefix(f"{failure.path}: ")))

    @takes(Checked)
    def _checked(self, item: Checked) -> None:
        self.files += len(item.files)
        self.bytes += sum(file.size for file in item.files)
        self.batches += item.batches
        self.records += item.records
        self._partly.clear()

    @takes(PartitionChecked)
    def _partition(self, item: PartitionChecked) -> None:
        self.partitions += 1
        if self.replicated is not None:
            self.replicated.add(base_name(item.path))
        self.segments += item.segments

    @takes(StartForeseen)
    def _foreseen(self, item: StartForeseen) -> None:
        self.partitions += 1
        self.segments += item.logs
        self.bytes += item.size

    @takes(Unchecked)
    def _left_out(self, item: Unchecked) -> None:
        self.unchecked.append((item.path, item.reason))

    @takes(Scrubbed)
    def _scrubbed(self, item: Scrubbed) -> None:
        self.partitions += item.partitions
        self.segments += item.segments

    @takes(Loss)
    def _loss(self, loss: Loss) -> None:
        if loss.counts and loss.replicas is not None:
            self._loss_of_replica(loss)
        elif loss.counts:
            self.offsets_lost += loss.offsets
            self.records_lost += loss.records or 0
            self.records_unknown += loss.records is None
        elif loss.certainty is Certainty.UNEXPLAINED:
            self.offsets_unexplained += loss.offsets

    def _loss_of_replica(self, loss: Loss) -> None:
        """Count the offsets that no replica before this one lacks."""
        is_elsewhere = bool(loss.replicas)
        seen = self._lacking.setdefault((loss.partition, is_elsewhere), RangeSet())
        over = seen.over(loss.offset, loss.last_offset)
        old = sum(min(last, loss.last_offset) - max(first, loss.offset) + 1 for first, last in over)
        new = loss.offsets - old
        seen.add(loss.offset, loss.last_offset)
        records = min(new, loss.records or 0)
        if is_elsewhere:
            self.offsets_elsewhere += new
            self.records_elsewhere += records
        else:
            self.offsets_lost += new
            self.records_lost += records
            self.records_unknown += loss.records is None and new > 0

    @takes(Duplicate)
    def _duplicate(self, found: Duplicate) -> None:
        self.offsets_twice += found.offsets
