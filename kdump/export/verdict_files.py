"""Findings, segments and losses written to files while their items pass to another sink."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from itertools import count
from typing import TYPE_CHECKING

from kdump.export.arrow import from_rows
from kdump.export.job import ExportPlan, ExportTarget, Result, begin, begun, done, folder_of, name_of, note, withdraw
from kdump.export.state import remove_temporaries
from kdump.export.tables import PLACE, STATE_TABLES, SUMMARY
from kdump.export.verdicts import SegmentRows, StateRows, UnreadFound, verdict_rows
from kdump.export.write import RowFile
from kdump.finding import Finding, Severity
from kdump.item import PartitionChecked, SegmentChecked
from kdump.storage.file_source import OpenFailure
from kdump.value import Value
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.export.origin import Origin, Origins
    from kdump.export.verdicts import Row
    from kdump.item import Item
    from kdump.redact import Redactor

_COUNTED = {Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.NOTE: "notes"}
_HELD = 4096  # rows of one file


class VerdictFiles:
    """Writes the rows of one table, a file for each partition directory.

    An interrupted export of these tables starts again: what it has written is removed first.

    Args:
        target: where to, and which table.
        origins: tells where files are from.
        asked: what the user asked for, in JSON's types.

    Attributes:
        rows, files: that were written.

    Raises:
        NotThisExportError: something else lies there.
        RefusedError: somebody else may have written what lies there.
    """

    def __init__(self, target: ExportTarget, origins: Origins, asked: dict[str, object]) -> None:
        self._target = target
        self._origins = origins
        self._segments = SegmentRows(origins)
        self._state = StateRows(target.table, origins)
        self._held: dict[str, list[Row]] = defaultdict(list)
        self._files: dict[str, RowFile] = {}
        self._used: set[tuple[str, int]] = set()
        self.rows = self.files = 0
        if begun(target, asked) is not None:
            for result in done(target).values():
                withdraw(target, result)
        begin(target, asked, ExportPlan())

    def through(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items of verify as they come, and write what they say."""
        try:
            for item in items:
                self._take(self._rows(item))
                if isinstance(item, PartitionChecked):
                    self._close()
                yield item
            self._take(self._segments.rest() if self._target.table == "segments" else [])
            self._close()
        except BaseException as error:
            for file in self._files.values():
                file.__exit__(type(error), error, None)
            raise

    def _rows(self, item: Item | UnreadFound) -> list[Row]:
        if isinstance(item, UnreadFound):
            return [item.row]
        if self._target.table == "segments":
            return self._segments.see(item)
        if self._target.table in STATE_TABLES:
            return self._state.see(item)
        return verdict_rows(self._target.table, item, self._origins)

    def _take(self, rows: list[Row]) -> None:
        for row in rows:
            folder = folder_of(row["topic"], row["partition"], self._target.redactor)
            self._held[folder].append(row)
            self.rows += 1
            if len(self._held[folder]) >= _HELD:
                self._write(folder)

    def _write(self, folder: str) -> None:
        """Hand the rows of a file on; before the first of them a note says that there will be one."""
        if folder not in self._files:
            number = next(number for number in count() if (folder, number) not in self._used)
            self._used.add((folder, number))
            name = name_of(folder, number)
            path = os.path.join(folder, f"{name}.{self._target.kind}")
            note(self._target, Result(name, 0, 0, path, ()))
            self._files[folder] = self._target.file(folder, name)
            self.files += 1
        self._files[folder].write(from_rows(self._held.pop(folder), self._target.columns))

    def _close(self) -> None:
        for folder in [*self._held, *self._files]:  # one after the other: there may be a file for each of many topics
            if folder in self._held:
                self._write(folder)
            if folder in self._files:
                self._files.pop(folder).__exit__(None, None, None)


class Summary:
    """Adds up what verify says, by host, log directory, topic and partition.

    Args:
        origins: tells where files are from.
        redactor: hides what the rows have; None where all may be seen.
    """

    def __init__(self, origins: Origins, redactor: Redactor | None = None) -> None:
        self._redactor = redactor
        self._origins = origins
        self._counts: dict[Origin, Counter[str]] = defaultdict(Counter)

    def through(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items of verify as they come, and count."""
        for item in items:
            if isinstance(item, Finding):
                self._counts[self._origins.of(item.file)][_COUNTED[item.severity]] += 1
            elif isinstance(item, OpenFailure):
                self._counts[self._origins.of(item.path)]["unread"] += 1
            elif isinstance(item, PartitionChecked):
                self._counts[self._origins.of(item.path)]["segments"] += 0
            elif isinstance(item, SegmentChecked):
                sums = {"segments": 1, "size": item.size, "batches": item.batches, "records": item.records or 0}
                self._counts[self._origins.of(item.path)].update(sums)
            yield item

    def rows(self) -> list[Row]:
        """Return a row for each partition."""
        names = [column.name for column in SUMMARY[len(PLACE) :]]
        return [
            {**origin.columns(), **{name: counts[name] for name in names}} for origin, counts in self._counts.items()
        ]

    def disks(self) -> list[LogDirRow]:
        """Return what each log directory comes to, the worst first."""
        found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for origin, counts in self._counts.items():
            host = origin.host or ""
            sums = found[host if self._redactor is None else self._redactor.name(host), origin.log_dir or ""]
            sums.update(counts)
            if origin.topic is not None:
                sums["partitions"] += 1
                sums["bad"] += bool(counts["errors"] or counts["unread"])
        disks = [
            LogDirRow(*place, one["partitions"], one["bad"], one["errors"], one["warnings"], one["unread"])
            for place, one in found.items()
        ]
        return sorted(disks, key=lambda disk: (-disk.bad, -disk.errors, -disk.unread, disk.host, disk.log_dir))

    def write(self, directory: str) -> None:
        """Write the rows as one Parquet file.

        Args:
            directory: where to.
        """
        place = directory, "", "summary.parquet"
        with RowFile(*place, "parquet", "summary", SUMMARY, placed=False, redactor=self._redactor) as file:
            file.write(from_rows(self.rows(), SUMMARY))
        remove_temporaries(directory)


class LogDirRow(Value):
    """The totals of a log directory."""

    host: str  # by the manifest; empty where it says none
    log_dir: str  # the log directory
    partitions: int  # that were judged
    bad: int  # of them have errors, or could not be read
    # errors, warnings: findings
    errors: int
    warnings: int
    unread: int  # files that could not be read

    @property
    def sentence(self) -> str:
        """One line for people."""
        place = f"{self.host}:{self.log_dir}" if self.host else self.log_dir
        said = (
            f"{self.bad} of {counted(self.partitions, 'partition')} bad",
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            f"{counted(self.unread, 'file')} unread",
        )
        return f"{place}: {', '.join(said)}"
