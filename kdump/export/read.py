"""Record batches from splits of logs: a task of the data source, and a step of an export."""

from __future__ import annotations

import json
from array import array
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kdump.decode.payload.records import SchemaDecoder
from kdump.export.arrow import ArrowRows, as_numbers, batch_columns, with_times
from kdump.export.arrow_records import MOST_BYTES, Records, parts
from kdump.export.origin import printable
from kdump.export.pruned import Pruning, walked
from kdump.export.split import WantedLogs, end_beside, hints_beside
from kdump.export.tables import TABLES
from kdump.finding import Code, Finding, ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.format.record.reader import RecordReader, key_and_value
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kdump.decode.decoded import Decoder
    from kdump.decode.payload.records import Schemas
    from kdump.export.log_file import Split
    from kdump.export.tables import TableField
    from kdump.finding import Report
    from kdump.format.batch.window import Window
    from kdump.format.record.chunk import Chunk
    from kdump.format.record.selection import Filter
    from kdump.storage.file_source import FileSource

_ROWS = 16384  # rows of a record batch, about
_BYTES = 8 * 1024 * 1024  # bytes of one, about
_BOUNDS = {
    "batches": ("lastOffset", "baseOffset", "maxTimestamp", "baseTimestamp"),
    "records": ("offset", "offset", "timestamp", "timestamp"),
}


class ReadOptions(Value):
    """The options of reading."""

    table: str  # batches or records
    columns: tuple[TableField, ...]  # of the table
    wanted: WantedLogs = WantedLogs()  # the rows that are asked for
    decoder: str = "auto"  # auto, none, or the name of a decoder for all topics
    max_batch_bytes: int = MAX_BATCH_BYTES  # a larger batch is not held in memory: its records are not read
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES  # records of one batch over this are not read
    schemas: Schemas | None = None  # what keys and values of other topics are decoded by; None for nothing
    seeks: bool = True  # what has no row that is asked for is not read, as far as indexes and headers tell


MOST_CELL = 1024 * 1024  # bytes of a key, a value or all headers in one cell, where the record is very large


def read_split(
    split: Split, options: ReadOptions, problem: Callable[[OpenFailure], None], report: Report = ignore
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one piece of a log; as `read_splits`."""
    return read_splits([split], options, problem, report)


def _opened(split: Split) -> FileSource | OpenFailure:
    return open_source(split.log.path)


def read_splits(
    splits: Iterable[Split],
    options: ReadOptions,
    problem: Callable[[OpenFailure], None],
    report: Report = ignore,
    opened: Callable[[Split], FileSource | OpenFailure] = _opened,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of pieces of logs, those of many small ones together.

    Args:
        splits: the pieces.
        options: what is read.
        problem: takes what could not be read: a log, or its end.
        report: takes what the walks find.
        opened: opens the log of a piece.

    Reports: what the checked walk does.
    """
    known = {column.name: column for column in TABLES[options.table]}
    bounds = _bounds(options)
    names = [column.name for column in options.columns]
    needed = (*as_numbers(options.columns), *(known[name] for name, *_ in bounds if name not in names))
    of_batches = options.table == "batches"
    limit, asked = options.max_uncompressed_bytes, options.wanted.selection
    pruning = Pruning(asked, of_batches=of_batches, max_uncompressed_bytes=limit, seeks=options.seeks)
    windows = _windows(((split, opened(split)) for split in splits), options, pruning, problem, report)
    made: Iterator[pa.RecordBatch]
    if of_batches:
        made = _batches(windows, needed)
    else:
        made = _records(windows, needed, options, (pruning.records, problem, report))
    for batch in made:
        kept = _within(batch, bounds)
        if kept.num_rows:
            shown = kept.select(names) if len(names) != len(needed) else kept
            yield with_times(shown, options.columns)


def _windows(
    splits: Iterable[tuple[Split, FileSource | OpenFailure]],
    options: ReadOptions,
    pruning: Pruning,
    problem: Callable[[OpenFailure], None],
    report: Report,
) -> Iterator[tuple[Split, Window]]:
    """The windows of each piece, as far as they may have what is asked for."""
    for split, source in splits:
        if isinstance(source, OpenFailure):
            problem(source)
            continue
        if source.size < split.stop:
            problem(_shorter(source.size, split))
        with source:
            walk = CheckedWalk(
                source,
                report,
                segment=layout.UNKNOWN if split.log.base_offset is None else split.log.base_offset,
                next_base=split.log.next_base,
                known_end=partial(end_beside, split.log),
                hints=partial(hints_beside, split.log),
                max_batch_bytes=options.max_batch_bytes,
                border=split.border,
            )
            walk.checks.follow_producers = False
            for window in _readable(walk, source, split, pruning, problem):
                yield split, window


def _readable(
    walk: CheckedWalk, source: FileSource, split: Split, pruning: Pruning, problem: Callable[[OpenFailure], None]
) -> Iterator[Window]:
    """The windows of a walk, up to where the disk cannot be read."""
    try:
        yield from walked(walk, pruning, pruning.parts(source, split), split.log.size)
    except OSError as error:
        problem(OpenFailure(split.log.path, "read", f"{split.log.path}: cannot be read further: {error.strerror}"))


def _shorter(size: int, split: Split) -> OpenFailure:
    """A log has lost bytes since the pieces were made."""
    path = split.log.path
    said = f"{path}: has {size} bytes, and had {split.log.size} when the work was planned: the rest is not read"
    return OpenFailure(path, "read", said)


def _batches(
    windows: Iterator[tuple[Split, Window]],
    columns: Sequence[TableField],
) -> Iterator[pa.RecordBatch]:
    held, runs = array("q"), _Runs()
    for split, window in windows:
        held.extend(window.rows[: window.count * layout.BATCH_WIDTH])
        runs.add(split, window.count)
        if len(held) >= _ROWS * layout.BATCH_WIDTH:
            yield batch_columns(ArrowRows(held, runs.ends), columns)
            held, runs = array("q"), _Runs()
    if held:
        yield batch_columns(ArrowRows(held, runs.ends), columns)


class _Runs:
    """The piece that each row is from.

    Attributes:
        ends: constants of a piece, and the number of the first row after its rows.
    """

    def __init__(self) -> None:
        self.ends: list[tuple[dict[str, object], int]] = []
        self._split: Split | None = None
        self._rows = 0

    def add(self, split: Split, rows: int) -> None:
        """Some more rows are from a piece."""
        self._rows += rows
        if split is self._split:
            self.ends[-1] = (self.ends[-1][0], self._rows)
        else:
            self._split = split
            self.ends.append((_constants(split), self._rows))


def _records(
    windows: Iterator[tuple[Split, Window]],
    columns: Sequence[TableField],
    options: ReadOptions,
    to: tuple[Filter, Callable[[OpenFailure], None], Report],
) -> Iterator[pa.RecordBatch]:
    """The rows of records; `to`: what is wanted, and what takes what cannot be read, and what is found."""
    wanted, problem, report = to
    schemas = None if options.schemas is None else SchemaDecoder(options.schemas)
    reader = RecordReader(options.max_uncompressed_bytes, max_batch=options.max_batch_bytes, cut=MOST_CELL)
    held: list[pa.RecordBatch] = []
    rows = size = 0
    read: Split | None = None
    for split, window in windows:
        if split is not read:
            read, constants = split, _constants(split)
            decoding = Decoding(split.log.path, split.log.origin.topic, options.decoder, schemas, report)
        for read_chunk in reader.chunks(window):
            if not read_chunk.filled:
                continue
            is_cut = read_chunk.cut is not None
            cut = _cut(split.log.path, read_chunk) if is_cut else ""
            chunk = wanted.chunk(read_chunk) if options.wanted.is_part else read_chunk
            if is_cut and (chunk is not None or options.wanted.patterns):
                problem(OpenFailure(split.log.path, "limit", cut))
            if chunk is None or not chunk.filled:
                continue
            for part in parts(chunk):
                batch = Records(part, constants, decoding).columns(columns)
                if held and size + batch.nbytes >= MOST_BYTES:
                    yield _joined(held)
                    held, rows, size = [], 0, 0
                held.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows >= _ROWS or size >= _BYTES:
                    yield _joined(held)
                    held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _cut(path: str, chunk: Chunk) -> str:
    """The finding for a record whose cells do not hold all of it."""
    assert chunk.cut is not None
    finding = Finding(Code.C03, path, values={"why": f"its cells hold the first {MOST_CELL} bytes of each field"})
    at = f"the record at offset {chunk.rows[layout.R_OFFSET]} has {chunk.cut.size} bytes"
    return f"{path}: {finding.code.name} {finding.code.slug}: {at}: {finding.message}"


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _constants(split: Split) -> dict[str, object]:
    return {**split.log.origin.columns(), "file": printable(split.log.path)}


def _bounds(options: ReadOptions) -> list[tuple[str, str, int]]:
    """The conditions on columns: name, comparison, value."""
    (first, last), (earliest, latest) = options.wanted.offsets, options.wanted.times
    names = _BOUNDS[options.table]
    given = zip(names, (first, last, earliest, latest), ("greater_equal", "less") * 2, strict=True)
    return [(name, comparison, value) for name, value, comparison in given if value is not None]


def _within(batch: pa.RecordBatch, bounds: Sequence[tuple[str, str, int]]) -> pa.RecordBatch:
    for name, comparison, value in bounds:
        # what is null is not known, and stays
        batch = batch.filter(pc.fill_null(getattr(pc, comparison)(batch.column(name), value), True))
    return batch


class Decoding:
    """The records of internal topics and control records, decoded to JSON.

    Args:
        path: of the log.
        topic: its name.
        name: auto, none, or the name of a decoder.
        schemas: decodes the records of topics that no decoder is for; None where nothing does.
        report: takes what is found about them.

    Reports: R08, R09, R10.
    """

    def __init__(
        self, path: str, topic: str | None, name: str, schemas: SchemaDecoder | None = None, report: Report = ignore
    ) -> None:
        from kdump.decode import open_decoder, topic_decoder

        self._schemas, self._report = schemas, report
        if schemas is not None:
            schemas.begin(path, topic or "")

        known = topic_decoder(topic or "") if name == "auto" else name
        self._wants_control = name != "none"
        self._decoder: Decoder | None = None
        if known not in (None, "none"):
            self._decoder = open_decoder(known, is_sure=name != "auto")

    def __call__(self, chunk: Chunk) -> Mapping[str, Sequence[str | None]]:
        """Return the columns of decoders."""
        attributes = chunk.window.column(layout.ATTRIBUTES)
        magics = chunk.window.column(layout.MAGIC)
        controls = {
            k
            for k in range(chunk.first, chunk.last)
            if attributes[k] & layout.CONTROL_FLAG and magics[k] >= layout.MAGIC_V2 and self._wants_control
        }
        if self._decoder is None and self._schemas is not None:
            return self._by_schemas(chunk, controls)
        if self._decoder is None and not controls:
            return {}
        found: dict[str, list[str | None]] = {"control": [], "decodedKey": [], "decodedPayload": []}
        for at in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
            row = chunk.rows[at : at + layout.RECORD_WIDTH]
            key, value = key_and_value(chunk.view, row)
            control = key_object = payload_object = None
            if row[layout.R_BATCH] in controls:
                from kdump.decode.control import control_object

                control = control_object(key, value)
            elif self._decoder is not None:
                decoded = self._decoder(row[layout.R_OFFSET], key, value)
                key_object, payload_object = decoded.shown_key, decoded.shown_payload
            for name, one in (("control", control), ("decodedKey", key_object), ("decodedPayload", payload_object)):
                found[name].append(None if one is None else json.dumps(one, separators=(",", ":")))
        return found

    def _by_schemas(self, chunk: Chunk, controls: set[int]) -> Mapping[str, Sequence[str | None]]:
        """The columns of records that are decoded by schemas."""
        assert self._schemas is not None
        found: dict[str, list[str | None]] = {
            name: [] for name in ("control", "decodedKey", "decodedPayload", "keySchema", "schema")
        }
        for number, both in enumerate(self._schemas.take(chunk)):
            row = chunk.rows[number * layout.RECORD_WIDTH : (number + 1) * layout.RECORD_WIDTH]
            control = None
            if row[layout.R_BATCH] in controls:
                from kdump.decode.control import control_object

                control = control_object(*key_and_value(chunk.view, row))
            found["control"].append(None if control is None else json.dumps(control, separators=(",", ":")))
            for part, made, used in ((both.key, "decodedKey", "keySchema"), (both.value, "decodedPayload", "schema")):
                found[made].append(None if part is None else part.made.decode())
                found[used].append(None if part is None else part.used.decode())
        for finding in self._schemas.findings():
            self._report(finding)
        return found
