"""`Log`: the batches, records and findings of one log."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from kdump.api.columns import batch_columns, record_columns, record_list
from kdump.api.errors import raise_first
from kdump.api.select import selection_of, whole
from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.finding import Finding
from kdump.format.batch import layout
from kdump.format.codec.base import codec_name
from kdump.format.kernels import wire
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.format.record.chunk import Chunk
from kdump.format.record.cut_record import whole_chunk
from kdump.item import FileStart
from kdump.storage.file_source import OpenFailure
from kdump.value import Value

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Generator, Iterator, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from kdump.api._rows import Record
    from kdump.api.columns import BatchColumns, RecordColumns
    from kdump.api.decoded import DecodedRecord
    from kdump.api.select import Selected
    from kdump.format.record.selection import Selection

    Chunks = Generator[tuple[str, Chunk]]

_Row = TypeVar("_Row")
_Columns = TypeVar("_Columns")


class Batch(Value):
    """One batch of a log, by Kafka's names; what a batch of magic 0 or 1 does not have is None.

    Attributes:
        file: the log, as its path was given or below the directory that was given.
        position, size: bytes.
        isvalid: the CRC is right.
    """

    file: str
    position: int
    size: int
    base_offset: int | None
    last_offset: int
    count: int | None
    base_sequence: int | None
    last_sequence: int | None
    producer_id: int | None
    producer_epoch: int | None
    partition_leader_epoch: int | None
    is_transactional: bool | None
    is_control: bool | None
    delete_horizon_ms: int | None
    timestamp_type: str
    base_timestamp: int | None
    max_timestamp: int | None
    magic: int
    compresscodec: str
    attributes: int
    crc: int
    isvalid: bool


class Rows(Generic[_Row, _Columns]):
    """The batches or the records of a reading: iterate it for one after the other, or take them by columns.

    Each iteration reads the log again.
    """

    def __init__(
        self,
        read: Callable[[], Chunks],
        rows: Callable[[str, Chunk], list[_Row]],
        columns: Callable[[str, Chunk], _Columns],
    ) -> None:
        self._read = read
        self._rows = rows
        self._columns = columns

    def __iter__(self) -> Iterator[_Row]:
        make = self._rows
        return chain.from_iterable(make(file, chunk) for file, chunk in self._read())

    def columns(self) -> Iterator[_Columns]:
        """Yield the same, chunk by chunk, as columns."""
        make = self._columns
        return (make(file, chunk) for file, chunk in self._read())


class Log:
    """The logs of a file, a partition directory or a log.dir, in order; nothing is ever created, changed or locked.

    Args:
        path: of it.
        base_offset: for files whose name tells none.
        kind: "log" or "checkpoint" (a KRaft snapshot), for files whose name does not tell what they are.
        max_batch_bytes: the records of a larger batch are not read.
        max_uncompressed_bytes: the records of one batch are read up to this size.

    Raises:
        Error: there is no such path.
        TypeError, ValueError: a keyword makes no sense.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        base_offset: int | None = None,
        kind: str | None = None,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
    ) -> None:
        self.path = os.fspath(path)
        if not os.path.lexists(self.path):
            raise_first([OpenFailure(self.path, "missing", f"{self.path}: no such file or directory")])
        if kind not in (None, "log", "checkpoint"):
            raise ValueError(f"kind: {kind!r} is neither 'log' nor 'checkpoint'")
        self._options = DumpOptions(
            base_offset=None if base_offset is None else whole(0)("base_offset", base_offset),
            kind=kind,
            max_batch_bytes=whole(1)("max_batch_bytes", max_batch_bytes),
            max_uncompressed_bytes=whole(1)("max_uncompressed_bytes", max_uncompressed_bytes),
        )
        self._findings: list[Finding] | None = None
        self._readings: WeakSet[Chunks] = WeakSet()

    def batches(self, **selection: Unpack[Selected]) -> Rows[Batch, BatchColumns]:
        """Return the batches, whose records are not read; arguments and errors as `records`."""
        read = self._reader(selection, deep=False)
        return Rows(read, _batch_list, batch_columns)

    def records(self, **selection: Unpack[Selected]) -> Rows[Record, RecordColumns]:
        """Return the records.

        Args:
            selection: which of them; all of dump's options that select are here, as keywords.

        Raises:
            TypeError, ValueError: a selection makes no sense.
            Error: while it is read, at the end, when some file could not be read.
        """
        read = self._reader(selection, deep=True)
        return Rows(lambda: (one for one in read() if one[1].filled), record_list, record_columns)

    def decoded(
        self,
        *,
        schemas: str | os.PathLike[str] | None = None,
        key_schema: str | os.PathLike[str] | None = None,
        value_schema: str | os.PathLike[str] | None = None,
        **selection: Unpack[Selected],
    ) -> Iterator[DecodedRecord]:
        """Yield the records with key and value decoded by schemas; what is not decoded is a finding.

        Args:
            schemas: a log directory with `_schemas`, the partition directory of a registry's log, a directory of
                schema files, or a file.
            key_schema, value_schema: a file for all keys, or values, that `schemas` does not know, framed or not.
            selection: as for `records`.

        Raises:
            TypeError, ValueError: a selection makes no sense.
            Error: a schema cannot be read, or a library is not installed; while it is read, as `records`.
        """
        from kdump.api.decoded import decoded, schemas_of

        of_schemas: list[Finding] = []
        read = self._reader(selection, deep=True, before=of_schemas)
        known = schemas_of(schemas, key_schema, value_schema, of_schemas.append)

        def report(finding: Finding) -> None:
            assert self._findings is not None
            self._findings.append(finding)

        return decoded((one for one in read() if one[1].filled), known, report)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the latest reading so far; where nothing was read yet, all is read now."""
        if self._findings is None:
            for _ in self._reader({}, deep=True)():
                pass
        return tuple(self._findings or ())

    def close(self) -> None:
        """End all readings, and close their files."""
        for reading in list(self._readings):
            reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reader(self, wanted: Selected, *, deep: bool, before: Sequence[Finding] = ()) -> Callable[[], Chunks]:
        """Return what begins a reading; `before`: what was found before it, and is among its findings."""
        selection = selection_of(wanted)

        def read() -> Chunks:
            reading = self._chunks(selection, deep=deep, before=before)
            self._readings.add(reading)
            return reading

        return read

    def _chunks(self, selection: Selection | None, *, deep: bool, before: Sequence[Finding]) -> Chunks:
        """Yield the chunks of all logs with the names of these; what cannot be read is raised when all else is read."""
        findings = self._findings = [*before]
        problems: list[OpenFailure] = []
        file = ""
        by_record = selection is not None and selection.by_record
        options = self._options.replace(deep=deep or by_record, contents=deep)
        for item in _items(self.path, options, selection):
            if isinstance(item, Chunk):
                yield file, item if item.cut is None else whole_chunk(item)
            elif isinstance(item, FileStart):
                file = item.path
            elif isinstance(item, Finding):
                findings.append(item)
            elif isinstance(item, OpenFailure) and item.kind != "skipped":
                problems.append(item)
        raise_first(problems)


def _items(path: str, options: DumpOptions, selection: Selection | None) -> Iterator[Any]:
    if selection is not None:
        from kdump.dump.selected import SelectedDump

        return SelectedDump(options, selection).files([path])
    from kdump.dump.checked import CheckedDump

    return CheckedDump(options, logs_only=True).files([path])


def records(path: str | os.PathLike[str], **selection: Unpack[Selected]) -> Rows[Record, RecordColumns]:
    """Return the records of a file, a partition directory or a log.dir; see `Log` and `Log.records`."""
    return Log(path).records(**selection)


def _batch_list(file: str, chunk: Chunk) -> list[Batch]:
    width, rows = layout.BATCH_WIDTH, chunk.window.rows
    return [_batch(file, rows[k * width : (k + 1) * width]) for k in range(chunk.first + chunk.begun, chunk.last)]


def _batch(file: str, row: array[int]) -> Batch:
    attributes, magic, base = row[layout.ATTRIBUTES], row[layout.MAGIC], row[layout.BASE_OFFSET]
    codec = attributes & layout.CODEC_MASK
    is_new = magic >= layout.MAGIC_V2
    first = row[layout.BASE_SEQUENCE]
    last = wire.last_sequence(first, row[layout.LAST_OFFSET_DELTA])
    new: list[Any] = [
        row[layout.COUNT],
        first,
        last,
        row[layout.PRODUCER_ID],
        row[layout.PRODUCER_EPOCH],
        row[layout.LEADER_EPOCH],
        attributes & layout.TRANSACTIONAL_FLAG != 0,
        attributes & layout.CONTROL_FLAG != 0,
        row[layout.BASE_TIMESTAMP] if attributes & layout.DELETE_HORIZON_FLAG else None,
    ]
    appended = "LogAppendTime" if attributes & layout.TIMESTAMP_TYPE_FLAG else "CreateTime"
    values = [
        file,
        row[layout.POSITION],
        row[layout.SIZE],
        base if is_new or base >= 0 else None,
        row[layout.LAST_OFFSET],
        *(new if is_new else [None] * len(new)),
        "NoTimestampType" if magic == 0 else appended,
        row[layout.BASE_TIMESTAMP] if is_new else None,
        row[layout.MAX_TIMESTAMP] if magic else None,
        magic,
        codec_name(codec),
        attributes,
        row[layout.CRC],
        row[layout.CRC] == row[layout.COMPUTED_CRC],
    ]
    return Batch(*values)
