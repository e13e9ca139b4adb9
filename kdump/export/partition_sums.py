"""What verify says of each partition directory, added up: the rows of the table `partitionSummary`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity, Trait
from kdump.item import PartitionChecked, SegmentChecked
from kdump.rows.files import PartitionSummary
from kdump.rows.verdict import Loss
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import normal
from kdump.verdict import Judgement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.export.origin import Origin, Origins
    from kdump.item import Item


class _Sum:
    """What one directory comes to so far."""

    def __init__(self) -> None:
        self.segments = self.size = self.batches = self.records = self.offsets_lost = self.records_lost = 0
        self.verdict = Judgement()
        self.unread: set[str] = set()  # paths of files that could not be read, or not to their end
        self.read_at: int | None = None  # the oldest time at which bytes were read, ms; None where nobody keeps that
        self.times: list[int] = []  # the lowest and the highest so far; none where no batch has one

    def segment(self, item: SegmentChecked) -> None:
        self.segments += 1
        self.size += item.size
        self.batches += item.batches
        self.records += item.records or 0
        if item.read_at is not None:
            self.read_at = item.read_at if self.read_at is None else min(self.read_at, item.read_at)
        if not item.is_read:
            self.unread.add(item.path)
        told = [one for one in (item.first_timestamp, item.max_timestamp) if one is not None and one >= 0]
        every = [*self.times, *told]
        self.times = [min(every), max(every)] if every else []

    def finding(self, item: Finding) -> None:
        self.verdict.add(item)
        if Trait.NOT_ALL_READ in item.code.traits:
            self.unread.add(item.file)

    def loss(self, item: Loss) -> None:
        if item.counts:
            self.offsets_lost += item.offsets
            self.records_lost += item.records or 0

    @property
    def row(self) -> PartitionSummary:
        return PartitionSummary(
            self.segments,
            self.size,
            self.batches,
            self.records,
            errors=self.verdict.severities[Severity.ERROR],
            warnings=self.verdict.severities[Severity.WARNING],
            offsets_lost=self.offsets_lost,
            records_lost=self.records_lost,
            unread=len(self.unread),
            status=self.verdict.word(is_lost=self.offsets_lost > 0, is_unread=bool(self.unread)),
            first_timestamp=self.times[0] if self.times else None,
            max_timestamp=self.times[-1] if self.times else None,
            read_at=self.read_at,
        )


class PartitionSums:
    """Adds up what verify says, by partition directory; what lies in none belongs to its log directory.

    Args:
        origins: tells where files are from.
    """

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._sums: dict[tuple[str, Origin], _Sum] = {}

    def see(self, item: Item) -> None:
        """Take one item of verify into account."""
        if isinstance(item, Finding):
            self._of(_concerns(item)).finding(item)
        elif isinstance(item, OpenFailure):
            self._of(item.path).unread.add(item.path)
        elif isinstance(item, SegmentChecked):
            self._of(item.path).segment(item)
        elif isinstance(item, Loss):
            self._of(item.path).loss(item)
        elif isinstance(item, PartitionChecked):
            self._of(item.path)

    def rows(self) -> Iterator[tuple[Origin, PartitionSummary]]:
        """Yield what each directory comes to, and where it is, in the order in which they were met."""
        return ((origin, one.row) for (_, origin), one in self._sums.items())

    def _of(self, path: str) -> _Sum:
        key = normal(self._origins.directory_of(path)), self._origins.of(path)
        if key not in self._sums:
            self._sums[key] = _Sum()
        return self._sums[key]


def _concerns(finding: Finding) -> str:
    """The path that a finding is about: where a checkpoint says something of a partition, that of the partition."""
    partition = finding.values.get("partition")
    return os.path.join(os.path.dirname(finding.file), partition) if isinstance(partition, str) else finding.file
