"""The tables that need whole partitions: findings, segments, losses and more, from the items of verify."""

from __future__ import annotations

import json
import os
from enum import Enum
from typing import TYPE_CHECKING, Any

from kdump.export.origin import printable
from kdump.export.partition_sums import PartitionSums
from kdump.export.tables import SUMMARY_TABLE
from kdump.finding import Code, Finding
from kdump.item import PartitionChecked, SegmentChecked
from kdump.row import Kind
from kdump.row import Row as RowValue
from kdump.rows.coordinators import CommitRow, GroupRow, Horizon, OpenRow, TransactionRow
from kdump.rows.files import SegmentRow, UnreadRow
from kdump.rows.json_lines import inner
from kdump.rows.usage import PlacedUsage
from kdump.rows.verdict import Duplicate, Loss, ReplicaDiff
from kdump.storage.directory import expanded
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_name
from kdump.storage.sighting import Unseen, sightings, unread_in
from kdump.value import Value
from kdump.verdict import UNREAD, Judgement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.export.origin import Origins
    from kdump.item import Item
    from kdump.row import Column
    from kdump.storage.sighting import LogDirs, Sighting

    Row = dict[str, object]

_OF_TABLE = {"groups": GroupRow, "commits": CommitRow, "transactions": TransactionRow}


def placed(row: RowValue, place: Row) -> Row:
    """Return a row of a table: where it is from, and its cells.

    Args:
        row: as JSON shows it, too.
        place: where it is from, by the name of the column.
    """
    return {**place, **cells_of(row)}


def cells_of(row: RowValue) -> Row:
    """Return the cells of a row in its table, by the name of the column."""
    made = {}
    for one in row.columns:
        if one.kind is not Kind.PARTITION or one.is_list:
            value = getattr(row, one.attribute)
            made[one.key] = value if value is None else _cell(one, value)
    return made


def _cell(made: Column, value: Any) -> object:  # noqa: ANN401 (of any column)
    if made.is_number_list:
        return list(value)
    if made.is_list and made.kind is not Kind.ROW:
        return [_text(each) for each in value]
    if made.kind is Kind.ROW:
        return json.dumps([inner(one) for one in value] if made.is_list else inner(value), separators=(",", ":"))
    return value if made.is_number or made.kind is Kind.FLAG else _text(value)


def _text(value: object) -> str:
    """One that is no number: a path, a sentence, a word, the value of a field."""
    if isinstance(value, Enum):
        value = value.name if isinstance(value, Code) else value.value
    return printable(str(value))


def usage_row(item: PlacedUsage, origins: Origins) -> Row:
    """Return what uses the space in a partition as a row of the table `usage`.

    Args:
        item: the row of du, and its directory.
        origins: tells where that is from.
    """
    place = origins.of(item.path).columns()
    if item.usage.name is None:
        place = {**place, "topic": None, "partition": None}
    return placed(item.usage, place)


def unread_row(unseen: Unseen, phase: str, origins: Origins) -> Row:
    """Return a file that was not read as a row of the table `unread`.

    Args:
        unseen: it, and why.
        phase: plan, or read.
        origins: tells where its file is from.
    """
    row = UnreadRow(unseen.failure.path, phase, unseen.failure.sentence, unseen.size)
    return placed(row, origins.of(unseen.failure.path).columns())


class UnreadFound(Value):
    """A row of the table `unread`, and what it says."""

    row: Row
    failure: OpenFailure


def unread_rows(paths: Iterable[str], origins: Origins) -> Iterator[UnreadFound]:
    """Yield the rows of the table `unread` for some paths, all looked at here.

    Args:
        paths: of the user, without manifests.
        origins: tells where files are from.
    """
    for seen in sightings(expanded(paths), origins.log_dirs):
        yield from unread_of(seen, origins.log_dirs, origins)


def unread_of(seen: Sighting | OpenFailure, log_dirs: LogDirs, origins: Origins) -> Iterator[UnreadFound]:
    """Yield the rows of the table `unread` for one directory, or for what could not be opened in the first place.

    Args:
        seen: where the work was planned.
        log_dirs: tells log directories apart here.
        origins: tells where files are from.
    """
    if isinstance(seen, OpenFailure):
        yield UnreadFound(unread_row(Unseen(seen, None, False), "plan", origins), seen)
        return
    for unseen in unread_in(seen, log_dirs):
        failure = unseen.failure.replace(kind="read") if unseen.is_gone else unseen.failure
        yield UnreadFound(unread_row(unseen, "read", origins), failure)


def unread_segment_row(path: str, origins: Origins) -> Row:
    """Return a log that was not read as a row of the table `segments`.

    Args:
        path: of the log.
        origins: tells where it is from.
    """
    base = parse_name(os.path.basename(path)).base_offset
    row = _segment_row(
        SegmentChecked(
            path, base or 0, 0, size=0, batches=0, records=None, first_timestamp=None, max_timestamp=None, is_read=False
        ),
        {},
        set(),
        origins,
    )
    return {**row, "baseOffset": base}


def verdict_rows(table: str, item: Item | PlacedUsage, origins: Origins) -> list[Row]:
    """Return the rows that one item of verify is in a table of items, or one of du in `usage`.

    Args:
        table: its name.
        item: of verify, or of du.
        origins: tells where files are from.
    """
    if table == "usage":
        return [usage_row(item, origins)] if isinstance(item, PlacedUsage) else []
    if table == "unread":
        return []
    if table == "losses":
        return [placed(item, origins.of(item.path).columns())] if isinstance(item, Loss) else []
    if table == "duplicates":
        return [placed(item, origins.of(item.path).columns())] if isinstance(item, Duplicate) else []
    if table == "replicaDiffs":
        return [_replica_diff(item, origins)] if isinstance(item, Finding) and item.is_difference else []
    return [placed(item, origins.of(item.file).columns())] if isinstance(item, Finding) else []


def _replica_diff(finding: Finding, origins: Origins) -> Row:
    """A row of the table `replicaDiffs`."""
    values, here = finding.values, origins.of(finding.file)
    end = values.get("end")  # of the other one, where this one is short
    row = ReplicaDiff(
        finding.offset,
        end - 1 if isinstance(end, int) else finding.last_offset,
        kind=finding.code.slug.removeprefix("replica-"),
        brokers=(here.broker, origins.of(str(values["other"])).broker),
        leader_epochs=(_number(values.get("epoch")), _number(values.get("other_epoch"))),
        certainty="doubtful" if values.get("is_doubtful") else "intact",
    )
    return placed(row, here.columns())


def _number(value: int | str | None) -> int | None:
    return value if isinstance(value, int) else None


class VerdictRows:
    """Makes the rows of a table that needs whole partitions.

    Args:
        table: its name.
        origins: tells where files are from.
    """

    def __init__(self, table: str, origins: Origins) -> None:
        self._table, self._origins = table, origins
        self._segments = SegmentRows(origins) if table == "segments" else None
        self._sums = PartitionSums(origins) if table == SUMMARY_TABLE else None

    def see(self, item: Item) -> list[Row]:
        """Take one item of verify; return the rows that are complete with it."""
        if self._segments is not None:
            return self._segments.see(item)
        if self._sums is not None:
            self._sums.see(item)
            return []
        return verdict_rows(self._table, item, self._origins)

    def rest(self) -> list[Row]:
        """Return the rows that are left at the end."""
        if self._segments is not None:
            return self._segments.rest()
        return [] if self._sums is None else [placed(row, origin.columns()) for origin, row in self._sums.rows()]


class SegmentRows:
    """Makes a row of the table `segments` for each segment, once all that its partition says is known.

    Args:
        origins: tells where files are from.
    """

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._held: list[SegmentChecked] = []
        self._found: dict[str, Judgement] = {}  # by the common part of the names of a segment's files
        self._unread: set[str] = set()

    def see(self, item: Item) -> list[Row]:
        """Take one item of verify; return the rows that are complete with it."""
        if isinstance(item, Finding):
            self._found.setdefault(_stem(item.file), Judgement()).add(item)
        elif isinstance(item, OpenFailure):
            self._unread.add(item.path)
        elif isinstance(item, SegmentChecked):
            self._held.append(item)
        elif isinstance(item, PartitionChecked):
            return self.rest()
        return []

    def rest(self) -> list[Row]:
        """Return the rows that are left."""
        rows = [_segment_row(one, self._found, self._unread, self._origins) for one in self._held]
        self._held, self._found, self._unread = [], {}, set()
        return rows


class StateRows:
    """Makes rows of the tables `groups`, `commits`, `transactions` and `open`.

    Args:
        table: its name.
        origins: tells where files are from.
    """

    def __init__(self, table: str, origins: Origins) -> None:
        self._table = table
        self._origins = origins
        self._path = ""

    def see(self, item: object) -> list[Row]:
        """Take one item of the verbs groups or transactions; return its row in the table, if it has one."""
        if isinstance(item, Horizon):
            self._path = item.path
        elif isinstance(item, OpenRow) and self._table == "open":
            return [placed(item, self._origins.of(item.file).columns())]
        elif isinstance(item, RowValue) and type(item) is _OF_TABLE.get(self._table):
            return [placed(item, self._place())]
        return []

    def _place(self) -> Row:
        return self._origins.of(self._path).columns()


def _segment_row(segment: SegmentChecked, found: dict[str, Judgement], unread: set[str], origins: Origins) -> Row:
    is_read = segment.is_read and segment.path not in unread
    row = SegmentRow(
        segment.path,
        segment.base_offset,
        segment.next_offset if is_read else None,
        segment.size if is_read else None,
        batches=segment.batches if is_read else None,
        records=segment.records if is_read else None,
        first_timestamp=segment.first_timestamp,
        max_timestamp=segment.max_timestamp,
        status=found.get(_stem(segment.path), Judgement()).word() if is_read else UNREAD,
    )
    return placed(row, origins.of(segment.path).columns())


def _stem(path: str) -> str:
    """The common part of the names of a segment's files."""
    directory, name = os.path.split(path)
    return os.path.join(directory, name.partition(".")[0])
