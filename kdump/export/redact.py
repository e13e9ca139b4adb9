"""Rows of tables as they may be seen: the cells of each column by what it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdump.export.tables import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.export.tables import Column
    from kdump.render.redact import Redactor


def redacted(batch: pa.RecordBatch, columns: Sequence[Column], redactor: Redactor) -> pa.RecordBatch:
    """Return rows with tokens in the place of what may not be seen; numbers are as they were.

    Args:
        batch: the rows, with these columns.
        columns: of a table.
        redactor: makes the tokens.
    """
    arrays = [_column(batch.column(at), one, redactor) for at, one in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _column(values: pa.Array, column: Column, redactor: Redactor) -> pa.Array:
    if column.kind in (Kind.LONG, Kind.INT, Kind.BOOL):
        return values
    made = [None if one is None else _cell(one, column, redactor) for one in values.to_pylist()]
    return pa.array(made, values.type)


def _cell(value: Any, column: Column, redactor: Redactor) -> object:  # noqa: ANN401 (of any column)
    if column.kind is Kind.BYTES:
        return redactor.token(value).encode()
    if column.kind is Kind.HEADERS:
        return [
            {**one, "value": None if (it := one["value"]) is None else redactor.token(it).encode()} for one in value
        ]
    if column.kind is Kind.JSON:
        return json.dumps(redactor.decoded(json.loads(value)), separators=(",", ":"))
    return redactor.cell(column.name, value)
