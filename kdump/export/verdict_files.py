"""Findings, segments and losses written to files while their items pass to another sink."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from itertools import count
from typing import TYPE_CHECKING

from kdump.export.arrow import from_rows
from kdump.export.job import ExportPlan, ExportTarget, Result, begin, begun, done, folder_of, name_of, note, withdraw
from kdump.export.partition_sums import PartitionSums
from kdump.export.state import remove_temporaries
from kdump.export.tables import STATE_TABLES, SUMMARY_TABLE
from kdump.export.verdicts import StateRows, UnreadFound, VerdictRows, placed
from kdump.export.write import RowFile
from kdump.item import PartitionChecked
from kdump.value import Value
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.export.origin import Origins
    from kdump.export.tables import TableField
    from kdump.export.verdicts import Row
    from kdump.item import Item
    from kdump.redact import Redactor

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
        self._verdicts = VerdictRows(target.table, origins)
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
            self._take(self._verdicts.rest())
            self._close()
        except BaseException as error:
            for file in self._files.values():
                file.__exit__(type(error), error, None)
            raise

    def _rows(self, item: Item | UnreadFound) -> list[Row]:
        if isinstance(item, UnreadFound):
            return [item.row]
        if self._target.table in STATE_TABLES:
            return self._state.see(item)
        return self._verdicts.see(item)

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
    """Adds up what verify says, by partition directory and by log directory.

    Args:
        origins: tells where files are from.
        redactor: hides what the rows have; None where all may be seen.
    """

    def __init__(self, origins: Origins, redactor: Redactor | None = None) -> None:
        self._redactor = redactor
        self._sums = PartitionSums(origins)

    def through(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items of verify as they come, and count."""
        for item in items:
            self._sums.see(item)
            yield item

    def disks(self) -> list[LogDirRow]:
        """Return what each log directory comes to, the worst first."""
        found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for origin, row in self._sums.rows():
            host = origin.host or ""
            sums = found[host if self._redactor is None else self._redactor.name(host), origin.log_dir or ""]
            sums.update({"errors": row.errors, "warnings": row.warnings, "unread": row.unread})
            if origin.topic is not None:
                sums["partitions"] += 1
                sums["bad"] += bool(row.errors or row.unread)
        disks = [
            LogDirRow(*place, one["partitions"], one["bad"], one["errors"], one["warnings"], one["unread"])
            for place, one in found.items()
        ]
        return sorted(disks, key=lambda disk: (-disk.bad, -disk.errors, -disk.unread, disk.host, disk.log_dir))

    def write(self, directory: str, columns: Sequence[TableField]) -> None:
        """Write the table `partitionSummary` as one Parquet file.

        Args:
            directory: where to.
            columns: of the table.
        """
        place = (directory, "", "summary.parquet")
        rows = [placed(row, origin.columns()) for origin, row in self._sums.rows()]
        with RowFile(*place, "parquet", SUMMARY_TABLE, columns, placed=False, redactor=self._redactor) as file:
            file.write(from_rows(rows, columns))
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
