"""Tables that are kept night by night: what is new or changed is written, all else keeps its files.

A file has the rows of one piece of a log, or of one partition directory in one table, and a name of its own. So what
takes the place of a file lies beside it until the list of the present state has the one and no longer the other
(`kdump/nights/present.py`).
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.export.arrow import from_rows
from kdump.export.job import ExportPart, Result, distinct, folder_of
from kdump.export.split import SPLIT_SIZE, splits_of
from kdump.export.tables import STATE_TABLES, UNREAD_TABLE
from kdump.export.verdicts import StateRows, UnreadFound, VerdictRows
from kdump.format.kinds import FileKind
from kdump.item import PartitionChecked, Progress
from kdump.nights.known import mark_of, sight_of
from kdump.nights.present import PresentPart, file_name
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import absolute
from kdump.storage.segment import sibling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kdump.export.job import ExportTarget, LocalExport
    from kdump.export.log_file import LogFile
    from kdump.export.origin import Origins
    from kdump.export.read import ReadOptions
    from kdump.export.verdicts import Row
    from kdump.item import Item
    from kdump.nights.known import KnownPlace
    from kdump.nights.present import Store

_HELD = 4096  # rows of one file of a verdict


class Night:
    """One run that keeps a store: what it has made so far, and how it ends.

    Args:
        store: the tables.
        prunes: what has vanished is removed.

    Attributes:
        parts: of the state that will be the present one.
        files, size: of the logs that were read: how many, and bytes.
        unseen: paths that could not be looked at.
        is_whole: the table says how things are now, and nothing of what was: all of it is made anew.
        held_back: nothing was removed of what has vanished, though that was asked for; known at the end.
    """

    def __init__(self, store: Store, *, prunes: bool) -> None:
        self.store = store
        self.parts: list[PresentPart] = []
        self.files = self.size = 0
        self.unseen: list[str] = []
        self._there: dict[str, int | None] = {}  # lowest base offset of each group; None without segments
        self._prunes, self.held_back = prunes, False
        self.is_whole = False

    def _is_meant(self, path: str) -> bool:
        """Whether a path lies below those of this run: of others it says nothing."""
        from fnmatch import fnmatchcase

        places = Path(absolute(path)).parts
        for root in self.store.paths:
            wanted = Path(root).parts
            if len(wanted) <= len(places) and all(map(fnmatchcase, places, wanted)):
                return True
        return False

    def has(self, group: str, base: int | None = None) -> None:
        """Take note of a partition that is there, and of a segment of it."""
        before = self._there.get(group)
        self._there[group] = base if before is None else before if base is None else min(before, base)

    def end(self, exit_code: int) -> None:
        """Let what was made be the present state.

        Args:
            exit_code: of the run.
        """
        store = self.store
        gone, unseen = store.vanished(self.parts, self._there, self.unseen)
        # where something could not be looked at nobody knows what has vanished
        self.held_back = self._prunes and bool(self.unseen)
        is_removed = self.is_whole or (self._prunes and not self.unseen)
        parts = [*self.parts, *unseen, *(one for one in gone if not (is_removed and self._is_meant(one.path)))]
        run = store.run.replace(
            ended_at=store.clock(),
            files=self.files,
            size=self.size,
            rows=sum(one.rows for one in parts),
            unread=len(self.unseen),
            exit=exit_code,
        )
        store.commit(parts, run)


# --- batches and records ----------------------------------------------------------------------------------------
def split_night(
    night: Night,
    target: ExportTarget,
    logs: Sequence[LogFile | OpenFailure],
    origins: Origins,
    engine: LocalExport,
    options: ReadOptions,
) -> Iterator[Result | Progress]:
    """Write the rows of logs that are new or changed; yield what became of each piece, and of the pieces of before.

    Args:
        night: takes the parts.
        target: where the files go.
        logs: that there are, and what could not be looked at.
        origins: tells where they are from.
        engine: writes pieces.
        options: what is read.
    """
    store, table = night.store, target.table
    schemas = None if options.schemas is None else mark_of(options.schemas.facts)
    night.unseen += [one.path for one in logs if isinstance(one, OpenFailure)]
    pieces: list[ExportPart] = []
    owners: dict[str, tuple[PresentPart, LogFile]] = {}
    for log in distinct(logs):
        place = origins.place(log.origin.columns())
        group = place.group
        night.has(group, log.base_offset or 0)
        thing = mark_of(os.path.basename(os.path.dirname(log.path)), os.path.basename(log.path))
        index = sibling(log.path, FileKind.INDEX.value)  # where damage is, its entries tell where batches begin
        sight = sight_of([log.path, index], store.now, log.next_base, log.origin, schemas)
        known = store.unchanged(table, group, thing, sight)
        if known is not None:
            night.parts.append(known)
            yield Result(thing, known.rows, known.errors, known.path, problems=(), codes=known.codes)
            continue
        part = PresentPart(
            table,
            group,
            thing,
            base=log.base_offset or 0,
            sight=sight or "",
            read_at=store.run.started_at,
            path=log.path,
            files=(),
            cluster=place.cluster,
            directory_id=place.directory_id,
        )
        night.files, night.size = night.files + 1, night.size + log.size
        for split in splits_of(log, SPLIT_SIZE[table]):
            folder = folder_of(log.origin.topic, log.origin.partition)
            piece = ExportPart(file_name(log.base_offset or 0, split.border.position), folder, split)
            pieces.append(piece)
            owners[piece.name] = part, log
    left = _Left(night, pieces, owners, target.kind)
    for one in engine.write(pieces, target, options):
        if isinstance(one, Result):
            left.take(one)
        yield one


class _Left:
    """Puts the pieces of each log together, whose rows are one part."""

    def __init__(
        self, night: Night, pieces: Sequence[ExportPart], owners: Mapping[str, tuple[PresentPart, LogFile]], kind: str
    ) -> None:
        self._night, self._owners, self._kind = night, owners, kind
        self._folders = {one.name: one.folder for one in pieces}
        self._left: dict[str, int] = defaultdict(int)  # pieces of each log that are still written
        self._made: dict[str, PresentPart] = {}
        for part, _ in owners.values():
            self._left[part.path] += 1

    def take(self, result: Result) -> None:
        """Take what became of a piece."""
        part, log = self._owners[result.name]
        part = self._made.get(part.path, part)
        path = os.path.join(self._folders[result.name], f"{result.name}.{self._kind}")
        files = (*part.files, (path, result.rows)) if result.rows else part.files
        # what a disk or a limit kept back may be read next time; and damage at the end is judged by other files, too
        is_sure = not result.problems and not (result.errors and log.next_base is None)
        codes = Counter(dict(part.codes)) + Counter(dict(result.codes))
        sight = part.sight if is_sure else ""
        part = part.replace(files=files, codes=tuple(sorted(codes.items())), sight=sight)
        self._made[part.path] = part
        self._left[part.path] -= 1
        if not self._left[part.path]:
            self._night.parts.append(part)
            self._night.store.done_so_far(part)


# --- verdicts, states and usage ---------------------------------------------------------------------------------
class NightTables:
    """Writes the rows of tables that are made anew each night; a partition whose rows are as before keeps its files.

    Args:
        night: takes the parts.
        targets: where the files of each table go.
        origins: tells where files are from.
    """

    def __init__(self, night: Night, targets: Sequence[ExportTarget], origins: Origins) -> None:
        self._night, self._origins = night, origins
        self._tables = [_Table(night, target, origins) for target in targets]
        night.is_whole = all(one.table in (*STATE_TABLES, UNREAD_TABLE) for one in targets)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(one.rows for one in self._tables)

    @property
    def files(self) -> int:
        """How many files have them."""
        return sum(one.files for one in self._tables)

    def through(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield items as they come, and write what they say."""
        for item in items:
            if isinstance(item, OpenFailure):
                self._night.unseen.append(item.path)
            elif isinstance(item, UnreadFound):
                self._night.unseen.append(item.failure.path)
            if isinstance(item, PartitionChecked):
                place = self._origins.place(self._origins.of(item.path).columns())
                self._night.has(place.group)
                self._night.has(place.around.group)
            for table in self._tables:
                table.take(item)
            yield item
        for table in self._tables:
            table.rest()


def _directory(row: Row) -> str:
    """The partition directory that a row is about, by its usual name; nothing for a row of none."""
    return "" if row["topic"] is None else f"{row['topic']}-{row['partition']}"


class _Table:
    """One of these tables."""

    def __init__(self, night: Night, target: ExportTarget, origins: Origins) -> None:
        self._night, self._target, self._origins = night, target, origins
        self._verdicts = VerdictRows(target.table, origins)
        self._states = StateRows(target.table, origins)
        self._held: dict[str, list[Row]] = defaultdict(list)  # by group
        self._numbers: dict[str, int] = defaultdict(int)  # of the files of each group so far
        self._places: dict[str, KnownPlace] = {}  # of each group
        self.rows = self.files = 0

    def take(self, item: Item | UnreadFound) -> None:
        """Take an item of a verb."""
        self._hold(self._rows(item))
        if isinstance(item, PartitionChecked):
            self._close()

    def _rows(self, item: Item | UnreadFound) -> list[Row]:
        if isinstance(item, UnreadFound):
            return [item.row] if self._target.table == UNREAD_TABLE else []
        if self._target.table in STATE_TABLES:
            return self._states.see(item)
        return self._verdicts.see(item)

    def rest(self) -> None:
        """All items are there."""
        self._hold(self._verdicts.rest())
        self._close()

    def _hold(self, rows: Iterable[Row]) -> None:
        for row in rows:
            place = self._origins.place(row)
            group = place.group
            self._places[group] = place
            self._night.has(group)
            self._held[group].append(row)
            if len(self._held[group]) >= _HELD:
                self._write(group)

    def _close(self) -> None:
        for group in list(self._held):
            self._write(group)

    def _write(self, group: str) -> None:
        """Write the rows that are held of a group, or keep the file that has them."""
        rows, store, target = self._held.pop(group), self._night.store, self._target
        thing = mark_of(self._numbers[group])
        self._numbers[group] += 1
        self.rows, self.files = self.rows + len(rows), self.files + 1
        sight = mark_of([column.name for column in target.columns], rows)
        known = store.unchanged(target.table, group, thing, sight, is_reread=False)
        if known is not None:
            self._night.parts.append(known)
            return
        folder = folder_of(rows[0]["topic"], rows[0]["partition"])
        name = file_name(thing, sight)
        with target.file(folder, name) as file:
            of_run = [{**row, "run": store.run.id} for row in rows] if "run" in rows[0] else rows
            file.write(from_rows(of_run, target.columns))
        inside = os.path.relpath(os.path.join(target.directory, folder, f"{name}.{target.kind}"), store.directory)
        made = PresentPart(
            target.table,
            group,
            thing,
            base=None,
            sight=sight,
            read_at=store.run.started_at,
            path=os.path.join(str(rows[0]["logDir"] or ""), _directory(rows[0])),
            files=((inside, len(rows)),),
            cluster=self._places[group].cluster,
            directory_id=self._places[group].directory_id,
        )
        self._night.parts.append(made)
