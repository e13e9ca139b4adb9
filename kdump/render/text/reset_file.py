"""The file that `kafka-consumer-groups.sh --reset-offsets --from-file` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.render.coordinators import CoordinatorSink
from kdump.render.text.find import FindText
from kdump.render.text.lines import TextLines
from kdump.rows.coordinators import SHARE, CommitRow, GroupRow
from kdump.storage.names import parse_partition
from kdump.words.escape import escape
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.format.record.chunk import Chunk
    from kdump.rows.lookup import LookupAnswer


_SHARE = "the file is not for it, kafka-share-groups.sh --reset-offsets resets it"


def reset_line(topic: str, partition: int, offset: int, group: str | None = None) -> str:
    """Return one line of the file.

    Args:
        topic: its name.
        partition: its number.
        offset: that the group goes on at.
        group: its name; None where the file is for the one that the command names.
    """
    cells = [topic, str(partition), str(offset)]
    return ",".join(map(_cell, cells if group is None else [group, *cells])) + "\n"


def _cell(text: str) -> str:
    """Source: RFC 4180."""
    if any(char in text for char in ',"\r\n'):
        inner = text.replace('"', '""')
        return f'"{inner}"'
    return text


class GroupsReset(CoordinatorSink, TextLines):
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
            self._error(f"kdump: group {escape(name)}: a share group is left out: {_SHARE}")
        if self._inexact:
            what = f"{self._inexact} of {counted(self._written, 'offset')} in the file"
            why = "newer commits may be lost or erased; the same command without --reset-csv says which"
            self._error(f"kdump: not exact: {what}: {why}")

    @takes(CommitRow)
    def _commit(self, row: CommitRow) -> None:
        if row.group_type == SHARE:
            self._shares.add(row.group)
            return
        if row.pending or row.removed is not None:
            return
        if "\n" in row.group or "\r" in row.group:
            self.refused = True
            if row.group not in self._told:
                self._told.add(row.group)
                self._error(f"kdump: group {row.group}: its name has a newline, a reset file cannot have it: left out")
            return
        self._written += 1
        self._inexact += not row.exact
        group = None if self._asked == 1 else row.group
        self._write(reset_line(row.topic, row.partition, row.offset, group))


class FindReset(FindText):
    """Writes the answers of partitions as lines of the file; what has none is told on stderr.

    Args:
        path: of the partitions, where what was left out is counted.
        notes: write all notes; else those about offsets that are missing before an answer.
    """

    def __init__(self, path: str, *, notes: bool) -> None:
        super().__init__(path, many=False, of_many=True, raw=True, notes=notes)

    def location(self, location: LookupAnswer) -> None:
        """Write the line of a partition; one without an answer has the log end, where no record is late enough."""
        name = parse_partition(location.partition or "")
        if name is None:
            self._error("kdump: a log in a directory that is not named TOPIC-N: no line can be for it: left out")
            return
        if location.error is not None:
            to = "left out" if location.offset is None else f"the file has the log end, {location.offset}"
            self._error(f"kdump: {location.partition}: {escape(location.error)}: {to}")
        if location.offset is not None:
            self._writer.text(reset_line(name.topic, name.partition, location.offset))

    def chunk(self, _file: str, _chunk: Chunk) -> None:
        """Write none: the file has no room for records."""
