"""What a selection must give, told from everything that a dump reads: slow, and made without the filter's own code."""

from __future__ import annotations

import os
import re
import struct
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.checked import CheckedDump
from kdump.dump.selected import SelectedDump
from kdump.finding import Finding
from kdump.format.batch import layout
from kdump.format.record.chunk import Chunk
from kdump.format.record.reader import headers, key_and_value
from kdump.item import FileStart, LogStart, SnapshotStart
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.record.selection import Selection


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class Batch(NamedTuple):
    file: str
    row: tuple[int, ...]
    records: tuple[Record, ...]

    def cell(self, column: int) -> int:
        return self.row[column]


class Dump(NamedTuple):
    batches: list[Batch]
    findings: list[Finding]
    problems: list[OpenFailure]


_STABLE = layout.SUSPICION  # columns from here on are notes of the readers


def everything(paths: Sequence[Path | str], **options: Any) -> Dump:
    """All batches with their records."""
    return read(CheckedDump(DumpOptions(deep=True, **options)).files([str(path) for path in paths]))


def selected(paths: Sequence[Path | str], selection: Selection, *, deep: bool, **options: Any) -> Dump:
    """What kdump selects."""
    made = DumpOptions(deep=deep, **options)
    return read(SelectedDump(made, selection).files([str(path) for path in paths]))


def read(items: Iterator[Any]) -> Dump:
    """Items as plain values; a batch comes once, with all of its records."""
    batches: list[tuple[str, tuple[int, ...], list[Record]]] = []
    findings, problems = [], []
    file, is_log = "", False
    for item in items:
        if isinstance(item, FileStart):
            file, is_log = item.path, False
        elif isinstance(item, LogStart | SnapshotStart):
            is_log = True
        elif isinstance(item, Finding):
            findings.append(item)
        elif isinstance(item, OpenFailure):
            problems.append(item)
        elif isinstance(item, Chunk):
            assert is_log
            _add(batches, file, item)
    return Dump([Batch(file, row, tuple(records)) for file, row, records in batches], findings, problems)


def _add(batches: list[tuple[str, tuple[int, ...], list[Record]]], file: str, chunk: Chunk) -> None:
    records = defaultdict(list)
    for i in range(chunk.filled):
        row = chunk.rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH]
        key, value = key_and_value(chunk.view, row)
        one = Record(row[layout.R_OFFSET], row[layout.R_TIMESTAMP], key, value, tuple(headers(chunk.view, row)))
        records[row[layout.R_BATCH]].append(one)
    assert set(records) <= set(range(chunk.first, chunk.last))
    for k in range(chunk.first, chunk.last):
        cells = tuple(chunk.window.row(k)[:_STABLE])
        if k == chunk.first and chunk.begun:
            assert batches[-1][:2] == (file, cells)
            batches[-1][2].extend(records[k])
        else:
            batches.append((file, cells, records[k]))


def expected(full: Dump, one: Selection, *, deep: bool) -> list[Batch]:
    """What must be selected of everything that is there."""
    chosen = [batch for batch in full.batches if _has_attributes(batch, one)]
    if _is_empty(one.from_offset, one.to_offset) or _is_empty(one.from_time, one.to_time):
        return []
    if one.outcome:
        fate = outcomes(full.batches)
        chosen = [batch for batch in chosen if fate[id(batch)] == one.outcome]
    if not deep:
        return [batch._replace(records=()) for batch in chosen if _touches(batch, one)]
    left = []
    for batch in chosen:
        records = tuple(record for record in batch.records if _is_wanted(record, one))
        is_bare = not batch.records and not one.by_record
        if records or (is_bare and (_touches(batch, one, records=True) or not is_trusted(batch))):
            left.append(batch._replace(records=records))
    if one.tail is not None:
        left = _last(left, one.tail)
    if one.limit is not None:
        left = list(_first(left, one.limit))
    return left


def _is_empty(start: int | None, end: int | None) -> bool:
    return start is not None and end is not None and start >= end


def _has_attributes(batch: Batch, one: Selection) -> bool:
    flags = layout.CONTROL_FLAG * one.control | layout.TRANSACTIONAL_FLAG * one.transactional
    is_new = batch.cell(layout.MAGIC) >= layout.MAGIC_V2
    return (
        batch.cell(layout.POSITION) >= (one.from_position or 0)
        and (not flags or (is_new and batch.cell(layout.ATTRIBUTES) & flags == flags))
        and (not one.producers or (batch.cell(layout.PRODUCER_ID) if is_new else -1) in one.producers)
        and (not one.epochs or (batch.cell(layout.LEADER_EPOCH) if is_new else -1) in one.epochs)
    )


def _touches(batch: Batch, one: Selection, *, records: bool = False) -> bool:
    """Whether the header of a batch leaves it possible that it has records in the ranges."""
    magic, attributes = batch.cell(layout.MAGIC), batch.cell(layout.ATTRIBUTES)
    is_wrapper = magic < layout.MAGIC_V2 and attributes & layout.CODEC_MASK
    if one.from_offset is not None and batch.cell(layout.LAST_OFFSET) < one.from_offset:
        return False
    file_base = int(os.path.basename(batch.file)[:20])  # a wrapper does not say where it begins
    if one.to_offset is not None and (file_base if is_wrapper else batch.cell(layout.BASE_OFFSET)) >= one.to_offset:
        return False
    if one.from_time is None and one.to_time is None:
        return True
    latest = batch.cell(layout.MAX_TIMESTAMP)
    if latest == -1 or (one.from_time is not None and latest < one.from_time):
        return False
    earliest = latest
    if not attributes & layout.TIMESTAMP_TYPE_FLAG and magic:
        if is_wrapper or attributes & layout.DELETE_HORIZON_FLAG or (records and magic >= layout.MAGIC_V2):
            return True
        if magic >= layout.MAGIC_V2:
            earliest = min(latest, batch.cell(layout.BASE_TIMESTAMP))
    return one.to_time is None or earliest < one.to_time


def _is_wanted(record: Record, one: Selection) -> bool:
    text = None if record.key is None else record.key.decode("utf-8", "surrogateescape")
    by_time = one.from_time is not None or one.to_time is not None
    return (
        (one.from_offset is None or record.offset >= one.from_offset)
        and (one.to_offset is None or record.offset < one.to_offset)
        and (not by_time or record.timestamp != -1)
        and (one.from_time is None or record.timestamp >= one.from_time)
        and (one.to_time is None or record.timestamp < one.to_time)
        and (not one.tombstones or record.value is None)
        and (not one.keys or record.key in one.keys)
        and (not one.patterns or (text is not None and any(re.search(p.pattern, text) for p in one.patterns)))
        and (not one.headers or any(_has_header(record, name, value) for name, value in one.headers))
    )


def _has_header(record: Record, name: bytes, value: bytes | None) -> bool:
    return any(key == name and value in (None, data) for key, data in record.headers)


def is_trusted(batch: Batch) -> bool:
    return batch.cell(layout.CRC) == batch.cell(layout.COMPUTED_CRC)


def _first(batches: list[Batch], count: int) -> Iterator[Batch]:
    for batch in batches:
        if count and batch.records:
            yield batch._replace(records=batch.records[:count])
        count = max(0, count - len(batch.records))


def _last(batches: list[Batch], count: int) -> list[Batch]:
    turned = [batch._replace(records=batch.records[::-1]) for batch in reversed(batches)]
    return [batch._replace(records=batch.records[::-1]) for batch in reversed(list(_first(turned, count)))]


def outcomes(batches: list[Batch]) -> dict[int, str]:
    """The fate of each batch of one partition, by the next marker of its producer that is or was there."""
    fate: dict[int, str] = {}
    lost = _lost_aborts(batches)
    for at, batch in enumerate(batches):
        attributes = batch.cell(layout.ATTRIBUTES) if batch.cell(layout.MAGIC) >= layout.MAGIC_V2 else 0
        if attributes & layout.CONTROL_FLAG:
            fate[id(batch)] = "marker"
        elif not attributes & layout.TRANSACTIONAL_FLAG:
            fate[id(batch)] = "committed"
        elif any(
            batch.cell(layout.PRODUCER_ID) == one[0] and one[1] <= batch.cell(layout.BASE_OFFSET) <= one[2]
            for one in lost
        ):
            fate[id(batch)] = "aborted"
        else:
            fate[id(batch)] = next(filter(None, (_marker(batch, later) for later in batches[at + 1 :])), "open")
    return fate


def _lost_aborts(batches: list[Batch]) -> list[tuple[int, ...]]:
    """Producer, first and last offset of what transaction indexes have where no batch is between two others."""
    offsets = [(batch.cell(layout.BASE_OFFSET), batch.cell(layout.LAST_OFFSET)) for batch in batches]
    begun = {(batch.cell(layout.PRODUCER_ID), batch.cell(layout.BASE_OFFSET)) for batch in batches}
    free = [(last + 1, first - 1) for (_, last), (first, _) in pairwise(offsets)]
    found = []
    for folder in {Path(batch.file).parent for batch in batches}:
        for path in folder.glob("*.txnindex"):
            data = path.read_bytes()
            found += [one[1:4] for one in struct.iter_unpack(">hqqqq", data[: len(data) // 34 * 34]) if not one[0]]
    return [one for one in found if one[:2] in begun and any(low <= one[2] <= high for low, high in free)]


def _is_of(batch: Batch, producer: int, first: int, last: int) -> bool:
    return batch.cell(layout.PRODUCER_ID) == producer and first <= batch.cell(layout.BASE_OFFSET) <= last


def _marker(batch: Batch, later: Batch) -> str | None:
    if later.cell(layout.PRODUCER_ID) != batch.cell(layout.PRODUCER_ID) or not is_trusted(later):
        return None
    if not later.cell(layout.ATTRIBUTES) & layout.CONTROL_FLAG or not later.records:
        return None
    key, value = later.records[0].key or b"", later.records[0].value or b""
    if len(key) < 4 or key[0] > 0x7F or len(value) < 6 or value[0] > 0x7F:
        return None  # no broker could read it
    return {0: "aborted", 1: "committed"}.get(key[3])
