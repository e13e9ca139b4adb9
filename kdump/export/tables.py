"""The tables and their columns: the keys of the JSON lines, in their order, behind the origin of a row.

Everything that has columns takes them from here: Arrow and Spark schemas, the options that name columns, the manual.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence


class Kind(Enum):
    """The type of a column: in Arrow, and in Spark."""

    LONG = "int64"
    INT = "int32"
    BOOL = "bool"
    TEXT = "string"
    BYTES = "binary"
    TEXTS = "list<string>"
    HEADERS = "list<struct<key: string, value: binary>>"
    JSON = "json"
    """Text that is one JSON value: what a decoder says."""


class Column(Value):
    """One column: its name, and what it holds."""

    name: str
    kind: Kind


def _columns(words: str) -> tuple[Column, ...]:
    """Columns from words: a name, and the kind behind it unless it is a long."""
    pairs = (word.partition(":") for word in words.split())
    return tuple(Column(name, Kind[kind.upper() or "LONG"]) for name, _, kind in pairs)


PLACE = _columns("host:text logDir:text topic:text partition:int")
"""Where a row is from: the host by the manifest, the log directory, and what the name of the directory says."""

TABLES: dict[str, tuple[Column, ...]] = {
    "batches": PLACE
    + _columns(
        "file:text position size baseOffset lastOffset count baseSequence lastSequence producerId producerEpoch"
        " partitionLeaderEpoch isTransactional:bool isControl:bool deleteHorizonMs timestampType:text baseTimestamp"
        " maxTimestamp magic compresscodec:text attributes crc isvalid:bool"
    ),
    "records": PLACE
    + _columns(
        "file:text batchPosition offset timestamp timestampDelta timestampType:text attributes keySize valueSize"
        " sequence headers:headers key:bytes payload:bytes control:json decodedKey:json decodedPayload:json"
    ),
    "findings": PLACE
    + _columns(
        "code:text name:text severity:text file:text position length gap:bool offset lastOffset offsetsFrom:text"
        " field:text expected:text found:text message:text remedy:text repair:text count because:text more"
    ),
    "segments": PLACE
    + _columns("file:text baseOffset nextOffset size batches records firstTimestamp maxTimestamp status:text"),
    "losses": PLACE
    + _columns("file:text position length offset lastOffset records certainty:text because:texts elsewhere:texts"),
    "usage": PLACE
    + _columns(
        "by:text name:text bytes logBytes indexBytes otherBytes leftoverBytes allocatedBytes files segments batches"
        " records keyBytes valueBytes uncompressedBytes firstTimestamp maxTimestamp supersededRecords supersededBytes"
        " exact:bool errorBytes freeable:json compactionWaits:texts assumed:texts"
    ),
    "groups": PLACE + _columns("group:text groupType:text state:text epoch protocol:text members timestamp"),
    "commits": PLACE
    + _columns(
        "group:text offset leaderEpoch metadata:text commitTimestamp expireTimestamp pending:bool producerId"
        " logEndOffset lag exact:bool"
    ),
    "transactions": PLACE
    + _columns(
        "transactionalId:text producerId producerEpoch state:text timeoutMs startTimestamp lastUpdateTimestamp"
        " partitions:texts exact:bool"
    ),
    "open": PLACE
    + _columns(
        "producerId producerEpoch transactionalId:text firstOffset logEndOffset blockedRecords blockedBytes"
        " sinceTimestamp coordinatorState:text coordinatorEpoch hanging:bool why:text abortCommand:text"
        " abortCommandBefore30:text"
    ),
    "unread": _columns("cluster:text broker:int") + PLACE + _columns("file:text phase:text reason:text bytes"),
}
"""The columns of each table."""

SUMMARY = PLACE + _columns("segments size batches records errors warnings notes unread")
"""What a verify of many log directories comes to, by partition; topic and partition are null for the rest of one."""

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


def columns_of(table: str, names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """Return the columns of a table, or those of them that are named, in the order of the names.

    Args:
        table: its name.
        names: None for all columns.

    Raises:
        UnknownNameError: there is no such table or column.
    """
    if table not in TABLES:
        raise UnknownNameError(f"no table '{table}': there are {', '.join(TABLES)}")
    known = {column.name: column for column in TABLES[table]}
    for name in names or ():
        if name not in known:
            raise UnknownNameError(f"no column '{name}' in {table}: there are {', '.join(known)}")
    return tuple(known.values()) if names is None else tuple(known[name] for name in dict.fromkeys(names))
