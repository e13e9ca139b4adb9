"""The tables that need whole partitions: findings, segments and losses, from the items of verify."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kdump.export.origin import printable
from kdump.finding import Finding, Severity
from kdump.item import Loss, PartitionChecked, PlacedUsage, SegmentChecked
from kdump.render.json.coordinators import commit_fields, group_fields, open_fields, transaction_fields
from kdump.render.json.usage import usage_fields
from kdump.state_rows import CommitRow, GroupRow, Horizon, OpenRow, TransactionRow
from kdump.storage.directory import expanded
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_name
from kdump.storage.sighting import LogDirs, Unseen, sightings, unread_in
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.export.origin import Origins
    from kdump.item import Item
    from kdump.storage.sighting import Sighting

    Row = dict[str, object]

_RANK = {None: 0, Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}
_STATUS = ("OK", "WARNING", "DAMAGED")
_UNREAD = "UNREAD"


def finding_row(finding: Finding, origins: Origins) -> Row:
    """Return a finding as a row of the table `findings`.

    Args:
        finding: the finding.
        origins: tells where its file is from.
    """
    return {
        **origins.of(finding.file).columns(),
        "code": finding.code.name,
        "name": finding.code.slug,
        "severity": finding.severity.value,
        "file": printable(finding.file),
        "position": finding.position,
        "length": finding.length,
        "gap": finding.gap,
        "offset": finding.offset,
        "lastOffset": finding.last_offset,
        "offsetsFrom": finding.offsets_from,
        "field": finding.field,
        "expected": _text(finding.expected),
        "found": _text(finding.found),
        "message": printable(finding.message),
        "remedy": printable(finding.remedy),
        "repair": finding.repair,
        "count": finding.count,
        "because": None if finding.because is None else finding.because.name,
        "more": finding.more,
    }


def loss_row(loss: Loss, origins: Origins) -> Row:
    """Return offsets that a reader does not get as a row of the table `losses`.

    Args:
        loss: they.
        origins: tells where their partition is from.
    """
    return {
        **origins.of(loss.path).columns(),
        "file": None if loss.file is None else printable(loss.file),
        "position": loss.position,
        "length": loss.length,
        "offset": loss.offset,
        "lastOffset": loss.last_offset,
        "records": loss.records,
        "certainty": loss.certainty.value,
        "because": list(loss.because),
        "elsewhere": [printable(path) for path in loss.elsewhere or ()],
    }


def usage_row(item: PlacedUsage, origins: Origins) -> Row:
    """Return what uses the space in a partition as a row of the table `usage`.

    Args:
        item: the row of du, and its directory.
        origins: tells where that is from.
    """
    row = usage_fields(item.usage)
    free = row["freeable"]
    row["freeable"] = None if free is None else json.dumps(free, separators=(",", ":"))
    if isinstance(item.usage.name, str):
        row["name"] = printable(item.usage.name)
    place = origins.of(item.path).columns()
    if item.usage.name is None:
        place = {**place, "topic": None, "partition": None}
    return {**place, **row}


def unread_row(unseen: Unseen, phase: str, seen: Sighting | None, origins: Origins) -> Row:
    """Return a file that was not read as a row of the table `unread`.

    Args:
        unseen: it, and why.
        phase: plan, or read.
        seen: of its directory; None where nothing is known of that.
        origins: tells where its file is from.
    """
    return {
        "cluster": None if seen is None else seen.cluster,
        "broker": None if seen is None else seen.broker,
        **origins.of(unseen.failure.path).columns(),
        "file": printable(unseen.failure.path),
        "phase": phase,
        "reason": printable(unseen.failure.sentence),
        "bytes": unseen.size,
    }


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
    log_dirs = LogDirs()
    for seen in sightings(expanded(paths), log_dirs):
        yield from unread_of(seen, log_dirs, origins)


def unread_of(seen: Sighting | OpenFailure, log_dirs: LogDirs, origins: Origins) -> Iterator[UnreadFound]:
    """Yield the rows of the table `unread` for one directory, or for what could not be opened in the first place.

    Args:
        seen: where the work was planned.
        log_dirs: tells log directories apart here.
        origins: tells where files are from.
    """
    if isinstance(seen, OpenFailure):
        yield UnreadFound(unread_row(Unseen(seen, None, False), "plan", None, origins), seen)
        return
    for unseen in unread_in(seen, log_dirs):
        failure = unseen.failure.replace(kind="read") if unseen.is_gone else unseen.failure
        yield UnreadFound(unread_row(unseen, "read", seen, origins), failure)


def unread_segment_row(path: str, origins: Origins) -> Row:
    """Return a log that was not read as a row of the table `segments`.

    Args:
        path: of the log.
        origins: tells where it is from.
    """
    base = parse_name(os.path.basename(path)).base_offset
    row = _segment_row(SegmentChecked(path, base or 0, 0, 0, 0, None, None, None, is_read=False), {}, set(), origins)
    return {**row, "baseOffset": base}


def verdict_rows(table: str, item: Item | PlacedUsage, origins: Origins) -> list[Row]:
    """Return the rows that one item of verify is in the table `findings` or `losses`, or one of du in `usage`.

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
        return [loss_row(item, origins)] if isinstance(item, Loss) else []
    return [finding_row(item, origins)] if isinstance(item, Finding) else []


def _text(value: int | str | None) -> str | None:
    return None if value is None else printable(str(value))


class SegmentRows:
    """Makes a row of the table `segments` for each segment, once all that its partition says is known.

    Args:
        origins: tells where files are from.
    """

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._held: list[SegmentChecked] = []
        self._worst: dict[str, int] = {}
        self._unread: set[str] = set()

    def see(self, item: Item) -> list[Row]:
        """Take one item of verify; return the rows that are complete with it."""
        if isinstance(item, Finding):
            stem = _stem(item.file)
            self._worst[stem] = max(self._worst.get(stem, 0), _RANK[item.severity])
        elif isinstance(item, OpenFailure):
            self._unread.add(item.path)
        elif isinstance(item, SegmentChecked):
            self._held.append(item)
        elif isinstance(item, PartitionChecked):
            return self.rest()
        return []

    def rest(self) -> list[Row]:
        """Return the rows that are left."""
        rows = [_segment_row(one, self._worst, self._unread, self._origins) for one in self._held]
        self._held, self._worst, self._unread = [], {}, set()
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
        elif isinstance(item, GroupRow) and self._table == "groups":
            return [{**self._place(), **_without(group_fields(item), "partition")}]
        elif isinstance(item, CommitRow) and self._table == "commits":
            return [{**self._place(), **commit_fields(item)}]
        elif isinstance(item, TransactionRow) and self._table == "transactions":
            return [{**self._place(), **transaction_fields(item)}]
        elif isinstance(item, OpenRow) and self._table == "open":
            return [{**self._origins.of(item.file).columns(), **open_fields(item)}]
        return []

    def _place(self) -> Row:
        return self._origins.of(self._path).columns()


def _without(row: Row, name: str) -> Row:
    """The keys of JSON that a table has not: where it is from stands in columns of its own."""
    return {key: value for key, value in row.items() if key != name}


def segment_rows(items: Iterable[Item], origins: Origins) -> Iterator[Row]:
    """Yield a row of the table `segments` for each segment.

    Args:
        items: of verify.
        origins: tells where files are from.
    """
    segments = SegmentRows(origins)
    for item in items:
        yield from segments.see(item)
    yield from segments.rest()


def _segment_row(segment: SegmentChecked, worst: dict[str, int], unread: set[str], origins: Origins) -> Row:
    is_read = segment.is_read and segment.path not in unread
    return {
        **origins.of(segment.path).columns(),
        "file": printable(segment.path),
        "baseOffset": segment.base_offset,
        "nextOffset": segment.next_offset if is_read else None,
        "size": segment.size if is_read else None,
        "batches": segment.batches if is_read else None,
        "records": segment.records if is_read else None,
        "firstTimestamp": segment.first_timestamp,
        "maxTimestamp": segment.max_timestamp,
        "status": _STATUS[worst.get(_stem(segment.path), 0)] if is_read else _UNREAD,
    }


def _stem(path: str) -> str:
    """The common part of the names of a segment's files."""
    directory, name = os.path.split(path)
    return os.path.join(directory, name.partition(".")[0])
