"""Words that groups, transactions and clusters share; and the file of a reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.render.coordinators import CoordinatorSink
from kdump.render.text.lines import TextLines
from kdump.rows.coordinators import SHARE, CommitRow, GroupRow
from kdump.words.escape import escape
from kdump.words.numbers import counted
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable


_RESET_SHARE = "the file is not for it, kafka-share-groups.sh --reset-offsets resets it"
CAUTION = "abort it only when its producer is gone for good: readers of committed data never see what it wrote"


def time(timestamp: int | None) -> str:
    """Return a time in ISO 8601, "none" where there is none."""
    return "none" if timestamp is None or timestamp < 0 else iso(timestamp)


class ResetCsv(CoordinatorSink, TextLines):
    """Writes committed offsets as `kafka-consumer-groups.sh --reset-offsets --from-file` reads them.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        asked: how many groups were asked for by name, 0 for all; with one the file has no column of the group.

    Attributes:
        refused: a group was left out: no such file can have its name, or it was asked for and is a share group.
    """

    def __init__(self, write: Callable[[str], None], error: Callable[[str], None], *, asked: int) -> None:
        super().__init__(write, error)
        self._asked = asked
        self._told: set[str] = set()
        self._shares: set[str] = set()
        self._written = self._inexact = 0
        self.refused = False

    @takes(GroupRow)
    def _group(self, row: GroupRow) -> None:
        """Remember a share group: it is left out."""
        if row.group_type == SHARE:
            self._shares.add(row.group)

    def end(self, _status: int) -> None:
        """Say what is left out, and how far the file can be trusted: it has no room for that."""
        self._end_of_partition()
        for name in sorted(self._shares):
            self.refused |= self._asked > 0
            self._error(f"kdump: group {escape(name)}: a share group is left out: {_RESET_SHARE}")
        if self._inexact:
            what = f"{self._inexact} of {counted(self._written, 'offset')} in the file"
            why = "newer commits may be lost or erased; the same command without --reset-csv says which"
            self._error(f"kdump: not exact: {what}: {why}")

    @takes(CommitRow)
    def _commit(self, row: CommitRow) -> None:
        if row.group_type == SHARE:
            self._shares.add(row.group)
            return
        if row.pending:
            return
        if "\n" in row.group or "\r" in row.group:
            self.refused = True
            if row.group not in self._told:
                self._told.add(row.group)
                self._error(f"kdump: group {row.group}: its name has a newline, a reset file cannot have it: left out")
            return
        self._written += 1
        self._inexact += not row.exact
        cells = [row.topic, str(row.partition), str(row.offset)]
        self._write(",".join(map(_cell, cells if self._asked == 1 else [row.group, *cells])) + "\n")


def _cell(text: str) -> str:
    """Source: RFC 4180."""
    if any(char in text for char in ',"\r\n'):
        inner = text.replace('"', '""')
        return f'"{inner}"'
    return text
