"""The tables and their columns: those of the rows, in their order, behind the origin of a row.

Everything that has columns takes them from here: Arrow and Spark schemas, the options that name columns, the manual.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.row import Kind
from kdump.rows.coordinators import CommitRow, GroupRow, OpenRow, TransactionRow
from kdump.rows.files import PartitionSummary, PlaceRow, SegmentRow, UnreadRow
from kdump.rows.log import BatchRow, RecordRow
from kdump.rows.usage import Usage
from kdump.rows.verdict import Duplicate, Loss, ReplicaDiff
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.row import Column, Row


class CellType(Enum):
    """The type of a column: in Arrow, and in Spark."""

    LONG = "int64"
    INT = "int32"
    BOOL = "bool"
    TEXT = "string"
    BYTES = "binary"
    TEXTS = "list<string>"
    NUMBERS = "list<int64>"
    HEADERS = "list<struct<key: string, value: binary>>"
    TIME = "timestamp[us, UTC]"
    """Instead of LONG, where that was asked for."""
    JSON = "json"
    """Text that is one JSON value: what a decoder says."""


class TableField(Value):
    """One column of a table."""

    name: str
    kind: CellType  # its type
    holds: Kind  # what it holds: by that what may be seen of it
    doc: str = ""  # the same in words, as the manual has it


_OF_KIND = {
    Kind.INT: CellType.INT,
    Kind.FLAG: CellType.BOOL,
    Kind.DATA: CellType.BYTES,
    Kind.HEADERS: CellType.HEADERS,
}
_AS_JSON = (Kind.ROW, Kind.JSON)


def _kind(made: Column) -> CellType:
    if made.is_number and made.kind is not Kind.INT:
        return CellType.LONG
    if made.kind in _AS_JSON:
        return CellType.JSON
    if made.is_number_list:
        return CellType.NUMBERS
    return _OF_KIND.get(made.kind) or (CellType.TEXTS if made.is_list else CellType.TEXT)


def _columns(of: type[Row]) -> tuple[TableField, ...]:
    """The columns of a type of row; where it is from stands before them, so that none says it again."""
    return tuple(_field(one) for one in of.columns if not is_place(one))


def _field(made: Column) -> TableField:
    return TableField(made.key, _kind(made), made.kind, made.doc)


def is_place(made: Column) -> bool:
    """Tell whether a column of a row says where the row is from: topic and partition, by name or as TOPIC-N."""
    return (made.kind is Kind.PARTITION and not made.is_list) or made.key in ("topic", "partition")


PLACE = tuple(map(_field, PlaceRow.columns))
"""Where a row is from: cluster, broker, host, log directory, and what the name of the directory says."""

TABLES: dict[str, tuple[TableField, ...]] = {
    "batches": PLACE + _columns(BatchRow),
    "records": PLACE + _columns(RecordRow),
    "findings": PLACE + _columns(Finding),
    "segments": PLACE + _columns(SegmentRow),
    "losses": PLACE + _columns(Loss),
    "duplicates": PLACE + _columns(Duplicate),
    "usage": PLACE + _columns(Usage),
    "groups": PLACE + _columns(GroupRow),
    "commits": PLACE + _columns(CommitRow),
    "transactions": PLACE + _columns(TransactionRow),
    "open": PLACE + _columns(OpenRow),
    "partitionSummary": PLACE + _columns(PartitionSummary),
    "unread": PLACE + _columns(UnreadRow),
    "replicaDiffs": PLACE + _columns(ReplicaDiff),
}
"""The columns of each table."""

SUMMARY_TABLE = "partitionSummary"
"""What a verify comes to, by partition directory; topic and partition are null for the rest of a log directory."""

REPLICA_TABLES = ("losses", "replicaDiffs")
"""Tables of which the replicas of a partition are read together."""

FOLDERS = ("topic", "partition")
"""Columns that the names of directories have; no file of Parquet has them a second time."""

SPLIT_TABLES = ("batches", "records")
"""Tables whose rows are those of a range of a log; the others need the whole partition."""


STATE_TABLES = ("groups", "commits", "transactions", "open")
"""Tables of what internal topics come to; in `commits` and `open` topic and partition are those of the row."""


UNREAD_TABLE = "unread"
"""The table of what could not be looked at: found while the work was planned, or where it was done (`phase`)."""


class UnknownNameError(ValueError):
    """There is no such table, or no such column; the message is one line for the user."""


def columns_of(
    table: str, names: Sequence[str] | None = None, *, has_timestamps: bool = False
) -> tuple[TableField, ...]:
    """Return the columns of a table, or those of them that are named, in the order of the names.

    Args:
        table: its name.
        names: None for all columns.
        has_timestamps: times are of the type TIME; else they are numbers (ms since the epoch).

    Raises:
        UnknownNameError: there is no such table or column.
    """
    if table not in TABLES:
        raise UnknownNameError(f"no table '{table}': there are {', '.join(TABLES)}")
    known = {column.name: column for column in TABLES[table]}
    if has_timestamps:
        known |= {
            name: column.replace(kind=CellType.TIME) for name, column in known.items() if column.holds is Kind.TIME
        }
    for name in names or ():
        if name not in known:
            raise UnknownNameError(f"no column '{name}' in {table}: there are {', '.join(known)}")
    return tuple(known.values()) if names is None else tuple(known[name] for name in dict.fromkeys(names))
