"""The verb schemas: what a registry has, by its log on the disk or by files; and what payloads are decoded by."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.decode.payload.records import Schemas
from kdump.decode.payload.registry import Registry
from kdump.decode.payload.schema_files import registry_of_files, row_of_file
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.rows.schemas import SchemaRow, SettingRow
from kdump.state.copies import Copies
from kdump.state.messages import TooLarge, fields_of
from kdump.state.partition_log import START, Cut, PartitionLog
from kdump.state.schema_fold import OddRecordError, SchemaFold
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import is_log_dir
from kdump.storage.names import parse_partition
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.read_limits import ReadLimits
    from kdump.format.record.chunk import Chunk
    from kdump.item import Checked, PartitionChecked
    from kdump.rows.coordinators import CopyChosen

    SchemaItem = SchemaRow | SettingRow | CopyChosen | Checked | PartitionChecked | Finding | OpenFailure

SCHEMAS_TOPIC = "_schemas"


def schemas(paths: list[str], limits: ReadLimits) -> Iterator[SchemaItem]:
    """Yield the schemas of a registry by subject and version, then what changed its settings, in order.

    Args:
        paths: log directories, partition directories of a registry's log, directories of files, files.
        limits: what is read at most.

    Yields:
        for each partition what was chosen and found and how far it is, then its rows; then the rows of files.

    Reports: R07; what is wrong with a damaged log.
    """
    logs = [path for path in paths if _has_log(path)]
    held: list[Finding | OpenFailure] = []
    if logs:
        yield from _of_logs(logs, limits, held)
    for path in paths:
        if path not in logs:
            registry = registry_of_files(path, held.append)
            yield from held
            held.clear()
            if not registry.rows and os.path.isdir(path):
                yield OpenFailure(path, "missing", f"{path}: neither a log of schemas nor a file of one is there")
            yield from sorted(registry.rows, key=_order)


def registry_of(path: str, limits: ReadLimits, report: Callable[[Finding | OpenFailure], None]) -> Registry:
    """Return the schemas that a path has.

    Args:
        path: a log directory, the partition directory of a registry's log, a directory of files, or a file.
        limits: what is read at most.
        report: takes what is wrong, and what cannot be read.

    Reports: R07; what is wrong with a damaged log.
    """
    if not _has_log(path):
        return registry_of_files(path, report)
    held: list[Finding | OpenFailure] = []
    rows = []
    for item in _of_logs([path], limits, held):
        if isinstance(item, SchemaRow):
            rows.append(item)
        elif isinstance(item, Finding | OpenFailure):
            report(item)
    return Registry(sorted(rows, key=lambda row: row.offset or 0))


def loaded(paths: Sequence[str | None], limits: ReadLimits, report: Callable[[Finding | OpenFailure], None]) -> Schemas:
    """Return what keys and payloads are decoded by.

    Args:
        paths: of a registry, as for `registry_of`, and of files for all keys and all payloads that it does not know;
            None for none.
        limits: what is read at most.
        report: takes what is wrong, and what cannot be read.

    Reports: as `registry_of`.
    """
    path, key_file, value_file = paths
    registry = Registry(()) if path is None else registry_of(path, limits, report)
    files = [None if one is None else row_of_file(one, one, report) for one in (key_file, value_file)]
    return Schemas(registry, *files)


def _has_log(path: str) -> bool:
    """Whether a path is a partition directory, or a log directory."""
    if not os.path.isdir(path):
        return False
    if parse_partition(base_name(path)) is not None or is_log_dir(path):
        return True
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return any(one.topic == SCHEMAS_TOPIC for one in map(parse_partition, names) if one is not None)


def _of_logs(paths: list[str], limits: ReadLimits, held: list[Finding | OpenFailure]) -> Iterator[SchemaItem]:
    copies = Copies(paths, held.append)
    yield from _drained(held)
    named = {parse_partition(base_name(path)) for path in paths}
    topics = {SCHEMAS_TOPIC, *(one.topic for one in named if one is not None)}
    keys = [key for key in copies.partitions if key[0] in topics]
    if not keys:
        for path in paths:
            yield OpenFailure(path, "other", f"{path}: no partition of {SCHEMAS_TOPIC} is there")
    for key in keys:
        directory, chosen = copies.choose(key, limits.max_batch_bytes)
        if chosen is not None:
            yield chosen
        log = PartitionLog(directory, limits, held.append)
        fold = SchemaFold()
        for path, chunk in log.chunks(START, Cut(len(log.bases), 0, -1)):
            held += _odd(path, chunk, fold)
            yield from _drained(held)
        yield from _drained(held)
        yield from log.checked()
        yield from sorted(fold.rows, key=_order)
        yield from fold.settings
        directory.close()


def _odd(path: str, chunk: Chunk, fold: SchemaFold) -> Iterator[Finding]:
    """Take the records of a chunk; yield what is odd about them."""
    fields, width = fields_of(chunk), layout.RECORD_WIDTH
    for at in range(0, chunk.filled * width, width):
        row = chunk.rows[at : at + width]
        batch = row[layout.R_BATCH]
        if chunk.window.cell(batch, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
            continue
        key, value = fields(chunk.view, row)
        try:
            for one in (key, value):
                if isinstance(one, TooLarge):
                    raise OddRecordError(one.why)
            fold.take(key, value, row[layout.R_OFFSET], row[layout.R_TIMESTAMP])
        except OddRecordError as error:
            place = chunk.window.cell(batch, layout.POSITION), chunk.window.cell(batch, layout.SIZE)
            values = {"topic": SCHEMAS_TOPIC, "why": str(error)}
            yield Finding(Code.R07, path, *place, offset=row[layout.R_OFFSET], values=values)


def _order(row: SchemaRow) -> tuple[str, int, int]:
    return row.subject, row.version or 0, row.offset or 0


def _drained(held: list[Finding | OpenFailure]) -> Iterator[Finding | OpenFailure]:
    yield from held
    held.clear()
