"""The totals of a run of verify, for the last line of every layout."""

from __future__ import annotations

from collections import Counter

from kdump.finding import Finding, Severity, Trait
from kdump.item import Checked, PartitionChecked, Scrubbed, Unchecked
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.file_source import OpenFailure

LOST = "LOST"
NO_RECORDS = "records were not read (--shallow)"


class Tally:
    """Adds up what is checked, what is found, and what is not checked.

    Args:
        shallow: records are not read, on purpose.

    Attributes:
        files, bytes, batches, records, partitions, segments: that were checked.
        severities: how many findings of each there are, folded ones included.
        offsets_lost, records_lost: what readers do not get, as far as it can be counted; what is absent is not lost.
        records_unknown: losses of which nobody can count the records.
        offsets_unexplained: that no batch has, while nothing tells whether they are lost.
        unchecked: path and reason of what was not read, or not all of it, once for each file; None for all files.
    """

    def __init__(self, *, shallow: bool = False) -> None:
        self.files = self.bytes = self.batches = self.records = self.partitions = self.segments = 0
        self.offsets_lost = self.records_lost = self.records_unknown = self.offsets_unexplained = 0
        self.severities: Counter[Severity] = Counter()
        self.unchecked: list[tuple[str | None, str]] = [(None, NO_RECORDS)] if shallow else []
        self._partly: set[str] = set()

    def see(self, item: object) -> None:
        """Take one item into account."""
        if isinstance(item, Finding):
            self.severities[item.severity] += 1 + (item.more or 0)
            self.records_unknown += item.is_among_holes  # nobody knows in which of them, so no loss counts it
            if Trait.NOT_ALL_READ in item.code.traits and item.file not in self._partly:
                self._partly.add(item.file)
                self.unchecked.append((item.file, item.message))
        elif isinstance(item, OpenFailure):
            self.unchecked.append((item.path, item.sentence.removeprefix(f"{item.path}: ")))
        elif isinstance(item, Checked):
            self.files += len(item.files)
            self.bytes += sum(file.size for file in item.files)
            self.batches += item.batches
            self.records += item.records
            self._partly.clear()
        elif isinstance(item, PartitionChecked):
            self.partitions += 1
            self.segments += item.segments
        elif isinstance(item, Unchecked):
            self.unchecked.append((item.path, item.reason))
        elif isinstance(item, Scrubbed):
            self.partitions += item.partitions
            self.segments += item.segments
        elif isinstance(item, Loss):
            if item.counts:
                self.offsets_lost += item.offsets
                self.records_lost += item.records or 0
                self.records_unknown += item.records is None
            elif item.certainty is Certainty.UNEXPLAINED:
                self.offsets_unexplained += item.offsets

    def totals(self) -> dict[str, int]:
        """Return the numbers by the names that summaries give them."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "batches": self.batches,
            "records": self.records,
            "partitions": self.partitions,
            "errors": self.severities[Severity.ERROR],
            "warnings": self.severities[Severity.WARNING],
            "notes": self.severities[Severity.NOTE],
            "offsetsLost": self.offsets_lost,
            "recordsLost": self.records_lost,
            "recordsUnknown": self.records_unknown,
            "offsetsUnexplained": self.offsets_unexplained,
        }


def status(severities: Counter[Severity], *, is_lost: bool = False) -> str:
    """Return the verdict on something, in one word.

    Args:
        severities: of what was found in it.
        is_lost: offsets of it are lost: without an error too, as where a segment is gone.
    """
    if severities[Severity.ERROR]:
        return "DAMAGED"
    if is_lost:
        return LOST
    return "WARNING" if severities[Severity.WARNING] else "OK"
