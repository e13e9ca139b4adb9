"""Rows of tables read in this process, without Spark and without the files of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdump.broker.clusters import cluster_settings
from kdump.checks.options import VerifyOptions
from kdump.checks.table_items import table_items
from kdump.export.arrow import from_rows, schema_of
from kdump.export.log_file import LogFile
from kdump.export.origin import Origins, read_roots
from kdump.export.read import ReadOptions, read_split
from kdump.export.split import WantedLogs, logs_of, splits_of
from kdump.export.tables import SPLIT_TABLES, STATE_TABLES, columns_of
from kdump.export.verdicts import StateRows, VerdictRows, unread_rows, verdict_rows
from kdump.format.read_limits import ReadLimits
from kdump.state.groups import GroupOptions, groups
from kdump.state.transactions import TransactionOptions, transactions
from kdump.usage.options import by_partition
from kdump.usage.run import placed_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE = 1 << 40  # bytes: no log is cut


def split_table(
    paths: Sequence[str], table: str, size: int = WHOLE, wanted: WantedLogs | None = None, **options: Any
) -> pa.Table:
    """Read batches or records, piece by piece.

    Args:
        paths: what is read.
        table: batches or records.
        size: bytes of a piece.
        wanted: rows that are asked for.
        options: of ReadOptions; `columns` are names, and `has_timestamps` makes times dates.
    """
    columns = columns_of(table, options.pop("columns", None), has_timestamps=options.pop("has_timestamps", False))
    wanted = wanted or WantedLogs()
    read = ReadOptions(table, columns, wanted).replace(**options)
    roots = read_roots(paths)
    logs = logs_of([root.path for root in roots], Origins(roots), wanted)
    splits = [split for log in logs if isinstance(log, LogFile) for split in splits_of(log, size, wanted)]
    batches = [batch for split in splits for batch in read_split(split, read, lambda _line: None)]
    return pa.Table.from_batches(batches, schema=schema_of(columns)).combine_chunks()


def whole_table(paths: Sequence[str], table: str) -> pa.Table:
    """Judge or count some paths with the local engine, and make the rows of findings, segments, losses or usage."""
    roots = read_roots(paths)
    origins, paths = Origins(roots), [root.path for root in roots]
    if table == "usage":
        limits = 1 << 28, 1 << 28
        options = by_partition(*limits, cluster_settings(paths, ReadLimits(*limits)))
        found = [row for item in placed_usage(paths, options) for row in verdict_rows(table, item, origins)]
        return pa.Table.from_batches([from_rows(found, columns_of(table))])
    made = VerdictRows(table, origins)
    rows = [row for item in table_items(table, paths, VerifyOptions()) for row in made.see(item)]
    return pa.Table.from_batches([from_rows([*rows, *made.rest()], columns_of(table))])


def state_table(paths: Sequence[str], table: str) -> pa.Table:
    """Fold internal topics with the local engine, and make the rows of a table."""
    roots = read_roots(paths)
    limits, rows = ReadLimits(1 << 28, 1 << 28), StateRows(table, Origins(roots))
    paths = [root.path for root in roots]
    if table in ("groups", "commits"):
        wanted = GroupOptions(None, None, frozenset(), frozenset(), lag=False, limits=limits)
        found = [row for item in groups(list(paths), wanted) for row in rows.see(item)]
    else:
        found = [
            row for item in transactions(list(paths), TransactionOptions(None, False, limits)) for row in rows.see(item)
        ]
    return pa.Table.from_batches([from_rows(found, columns_of(table))])


def unread_table(paths: Sequence[str]) -> pa.Table:
    """What cannot be opened, in this process."""
    roots = read_roots(paths)
    found = [one.row for one in unread_rows([root.path for root in roots], Origins(roots))]
    return pa.Table.from_batches([from_rows(found, columns_of("unread"))])


def local_table(paths: Sequence[str], table: str) -> pa.Table:
    """Any table."""
    if table == "unread":
        return unread_table(paths)
    if table in STATE_TABLES:
        return state_table(paths, table)
    return split_table(paths, table) if table in SPLIT_TABLES else whole_table(paths, table)


def sorted_rows(table: pa.Table) -> list[str]:
    """The rows as text that can be compared, in one order."""
    return sorted(map(repr, table.to_pylist()))
