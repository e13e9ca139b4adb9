"""Files of rows: Parquet, JSON lines and CSV. A file appears under its name only when it is complete."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

from kdump.export.tables import FOLDERS, CellType
from kdump.rows.json_lines import text_or_bytes
from kdump.storage.own_tree import TEMPORARY, folder_in, new_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from kdump.export.tables import TableField
    from kdump.redact import Redactor

FORMATS = ("parquet", "json", "csv")
_TYPES = {
    "batches": "batch",
    "records": "record",
    "findings": "finding",
    "segments": "segment",
    "losses": "loss",
    "duplicates": "duplicate",
    "usage": "usage",
    "groups": "group",
    "commits": "commit",
    "transactions": "transaction",
    "open": "open",
    "partitionSummary": "partitionSummary",
    "unread": "unread",
    "replicaDiffs": "replicaDiff",
}
_GROUP_ROWS = 131_072  # of a row group of Parquet
_GROUP_BYTES = 32 * 1024 * 1024
_MOST_ITEMS = 100_000  # headers and the like that are objects of Python at a time, but for those of one row
_SPECIAL = frozenset(',"\r\n')


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class RowFile:
    """Takes record batches for one file.

    Args:
        directory: of the export.
        folder: inside it, where the file lies; empty for the directory itself.
        name: of the file; what has it is replaced at the end.
        kind: parquet, json or csv.
        table: its name.
        columns: of the record batches.
        placed: the names of the directories above it have topic and partition: Parquet leaves them out then, as its
            readers take them from there.
        redactor: hides what may not be seen; None where all may.

    Raises:
        RefusedError: somebody else may write there, or a link leads away.
        OSError: it cannot be written.
    """

    def __init__(
        self,
        directory: str,
        folder: str,
        name: str,
        kind: str,
        table: str,
        columns: Sequence[TableField],
        *,
        placed: bool = True,
        redactor: Redactor | None = None,
    ) -> None:
        self._table, self._columns, self._redactor = table, columns, redactor
        self._place, self._name = (directory, folder), name
        # readers leave names with a dot at the front alone; two attempts at one file do not meet
        self._temporary = f".{name}.{os.urandom(4).hex()}{TEMPORARY}"
        with folder_in(*self._place, makes=True) as at:
            self._file = os.fdopen(new_file(at, self._temporary), "wb")
        self._writer: _Writer = _MAKE[kind](self._file, table, columns, placed)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if self._redactor is not None:
            from kdump.export.redact import redacted

            batch = redacted(batch, self._table, self._columns, self._redactor)
        with self._named():
            self._writer.write(batch)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let an error say which file could not be written."""
        try:
            yield
        except OSError as error:
            if error.filename is None:
                error.filename = os.path.join(*self._place, self._name)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._named(), self._file:
                self._writer.close()
                if kind is None:
                    self._file.flush()
                    os.fsync(self._file.fileno())
        except (OSError, ValueError):
            if kind is None:
                self._leave(is_whole=False)
                raise
        self._leave(is_whole=kind is None)

    def _leave(self, *, is_whole: bool) -> None:
        """Give the file its name, or remove it. Its directory is opened again: files of many may be open."""
        with folder_in(*self._place) as at:
            if is_whole:
                os.replace(self._temporary, self._name, src_dir_fd=at, dst_dir_fd=at)
            else:
                os.unlink(self._temporary, dir_fd=at)


class _Parquet:
    def __init__(self, file: BinaryIO, _table: str, columns: Sequence[TableField], placed: bool) -> None:
        from pyarrow import parquet

        from kdump.export.arrow import schema_of

        left_out = FOLDERS if placed else ()
        self._names = [column.name for column in columns if column.name not in left_out]
        schema = schema_of(column for column in columns if column.name in self._names)
        self._writer = parquet.ParquetWriter(file, schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch.select(self._names))
        self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write one row group."""
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
        self._held, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parts whose lists have few items together: as objects of Python these are large."""
    import pyarrow as pa

    lists = [column for column in batch.columns if pa.types.is_list(column.type)]
    if sum(len(one.flatten()) for one in lists) <= _MOST_ITEMS:
        yield batch
        return
    first = items = 0
    for at, counts in enumerate(zip(*(one.value_lengths().to_pylist() for one in lists), strict=True)):
        items += sum(filter(None, counts))
        if items > _MOST_ITEMS:
            yield batch.slice(first, at + 1 - first)
            first, items = at + 1, 0
    if first < batch.num_rows:
        yield batch.slice(first)


class _Lines:
    """Text, a line for each row."""

    def __init__(self, file: BinaryIO, head: str, line: Callable[[dict[str, Any]], str]) -> None:
        self._file = file
        self._line = line
        self._file.write(head.encode())

    def write(self, batch: pa.RecordBatch) -> None:
        for part in _in_parts(batch):
            self._file.writelines(self._line(row).encode() for row in part.to_pylist())

    def close(self) -> None:
        self._file.flush()


def _json(file: BinaryIO, table: str, columns: Sequence[TableField], _placed: bool) -> _Lines:
    plain: dict[CellType, Callable[[Any], object]] = {
        CellType.BYTES: text_or_bytes,
        CellType.HEADERS: _pairs,
        CellType.JSON: _parsed,
    }
    special = [(column.name, plain[column.kind]) for column in columns if column.kind in plain]
    type_ = _TYPES[table]

    def line(row: dict[str, Any]) -> str:
        for name, change in special:
            row[name] = change(row[name])
        return json.dumps({"type": type_, **row}, separators=(",", ":")) + "\n"

    return _Lines(file, "", line)


def _pairs(headers: list[dict[str, Any]] | None) -> object:
    return headers and [{"key": one["key"], "value": text_or_bytes(one["value"])} for one in headers]


def _parsed(text: str | None) -> object:
    return None if text is None else json.loads(text)


def _csv(file: BinaryIO, _table: str, columns: Sequence[TableField], _placed: bool) -> _Lines:
    names = [column.name for column in columns]
    kinds = {column.name: column.kind for column in columns}

    def line(row: dict[str, Any]) -> str:
        return ",".join([_cell(row[name], kinds[name]) for name in names]) + "\n"

    return _Lines(file, ",".join(names) + "\n", line)


def _cell(value: object, kind: CellType) -> str:
    """One value; null is nothing, and an empty text two quotes."""
    if value is None:
        return ""
    if kind in (CellType.INT, CellType.LONG):
        return str(value)
    if kind is CellType.BOOL:
        return "true" if value else "false"
    if kind in (CellType.HEADERS, CellType.TEXTS, CellType.NUMBERS):
        assert isinstance(value, list)
        value = json.dumps(_pairs(value) if kind is CellType.HEADERS else value, separators=(",", ":"))
    elif kind is CellType.BYTES:
        assert isinstance(value, bytes)
        shown = text_or_bytes(value)
        value = shown if isinstance(shown, str) else json.dumps(shown, separators=(",", ":"))
    text = str(value)
    return text if text and _SPECIAL.isdisjoint(text) else '"' + text.replace('"', '""') + '"'


_MAKE: dict[str, Callable[[BinaryIO, str, Sequence[TableField], bool], _Writer]] = {
    "parquet": _Parquet,
    "json": _json,
    "csv": _csv,
}
