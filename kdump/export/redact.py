"""Rows of tables as they may be seen: the cells of each column by what it holds."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdump.export.tables import CellType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.export.tables import TableField
    from kdump.redact import Redactor


def redacted(
    batch: pa.RecordBatch,
    table: str,
    columns: Sequence[TableField],
    redactor: Redactor,
) -> pa.RecordBatch:
    """Return rows with tokens in the place of what may not be seen; numbers are as they were.

    With schemas, nothing of a decoded key or value is as it was but the names of its fields.

    Args:
        batch: the rows, with these columns.
        table: its name.
        columns: of it.
        redactor: makes the tokens.
    """
    hide = redactor.decoded if redactor.fields is None else partial(redactor.payload, names=redactor.fields)
    arrays = [_column(batch.column(at), table, one, redactor, hide) for at, one in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _column(
    values: pa.Array, table: str, column: TableField, redactor: Redactor, hide: Callable[[Any], Any]
) -> pa.Array:
    if column.kind in (CellType.LONG, CellType.INT, CellType.BOOL, CellType.NUMBERS):
        return values
    made = [None if one is None else _cell(one, table, column, redactor, hide) for one in values.to_pylist()]
    return pa.array(made, values.type)


def _cell(
    value: Any,  # noqa: ANN401 (of any column)
    table: str,
    column: TableField,
    redactor: Redactor,
    hide: Callable[[Any], Any],
) -> object:
    if (table, column.name) == ("usage", "name"):
        return redactor.partition(value)
    if (table, column.name) == ("usage", "freeable"):
        free = json.loads(value)
        why = None if free["why"] is None else redactor.text(free["why"])
        return json.dumps({**free, "why": why}, separators=(",", ":"))
    if column.kind is CellType.BYTES:
        return redactor.token(value).encode()
    if column.kind is CellType.HEADERS:
        return [
            {**one, "value": None if (it := one["value"]) is None else redactor.token(it).encode()} for one in value
        ]
    if (table, column.name) in (("records", "schema"), ("records", "keySchema")):
        used = json.loads(value)
        return json.dumps({**used, "subject": redactor.subject(used["subject"])}, separators=(",", ":"))
    if (table, column.name) in (("records", "decodedKey"), ("records", "decodedPayload")):
        return json.dumps(hide(json.loads(value)), separators=(",", ":"))
    if column.kind is CellType.JSON:
        return json.dumps(redactor.decoded(json.loads(value)), separators=(",", ":"))
    return redactor.cell(column.holds, value)
