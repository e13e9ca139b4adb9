"""Copies of a batch that the cleaner has passed over differently: which is the larger, and which keys it revives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.format.batch import layout
from kdump.format.record.reader import RecordReader, key_and_value
from kdump.rescue.line import EXTENT
from kdump.rescue.log_facts import STRETCH, Limits, LogFacts, batches_of, first_offset
from kdump.salvaged import Revived

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.source import Source
    from kdump.rescue.line import Line, LineLog, Side

Records = dict[int, tuple[bytes, "bytes | None", bool]]
_MOST = 1_000_000  # keys that are followed


def subset(logs: Sequence[LineLog], one: Side, other: Side, limits: Limits) -> int | None:
    """Return which of two batches has all the records of the other: 0 or 1; None where neither has.

    Args:
        logs: by number.
        one, other: batches with the same offsets and epoch.
        limits: for reading them.
    """
    first = records_at(logs[one.log].source, one.position, limits)
    second = records_at(logs[other.log].source, other.position, limits)
    if first is None or second is None:
        return None
    if second.items() <= first.items():
        return 0
    return 1 if first.items() <= second.items() else None


def records_at(source: Source, position: int, limits: Limits) -> Records | None:
    """Return the records of the batch at a position by their offsets: all of it, the key, whether the value is null.

    None where they cannot be read.
    """
    size = int.from_bytes(source.read_at(position + layout.SIZE_AT, 4), "big", signed=True) + layout.LOG_OVERHEAD
    window = next(iter(batches_of(source, position, position + size, limits.max_batch_bytes)), None)
    if window is None or not window.whole:
        return None
    found: Records = {}
    reader = RecordReader(limits.max_uncompressed_bytes, max_batch=limits.max_batch_bytes)
    for chunk in reader.chunks(window):
        if chunk.problem is not None:
            return None
        for at in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
            row = chunk.rows[at : at + layout.RECORD_WIDTH]
            key, value = key_and_value(chunk.view, row)
            body = bytes(chunk.view[row[layout.R_AT] : row[layout.R_END]])
            found[row[layout.R_OFFSET]] = (body, key, value is None)
    return found


class Cleaned(NamedTuple):
    """Offsets whose batches the cleaner has taken out of a copy: the number of the copy, first and last offset."""

    copy: int
    first: int
    last: int


def cleaned_away(copy: int, log: Source, facts: LogFacts, base: int | None, limits: Limits) -> Iterator[Cleaned]:
    """Yield the offsets that a log lacks between batches that lie one behind the other.

    Args:
        copy: number of the copy that it belongs to.
        log: as its stretches count on it.
        facts: what it has.
        base: its base offset, None where its name tells none.
        limits: for reading it.
    """
    rows = facts.stretches
    if not rows or not (facts.gaps or facts.lacks_records):
        return
    if base is not None and rows[0] == 0 and rows[2] > base:
        yield Cleaned(copy, base, rows[2] - 1)
    for at in range(0, len(rows) if facts.gaps else 0, STRETCH):
        expected = rows[at + 2]
        for window in batches_of(log, rows[at], rows[at + 1], limits.max_batch_bytes):
            for k in range(window.count):
                first = first_offset(window, k, facts.wrappers)
                if first > expected:
                    yield Cleaned(copy, expected, first - 1)
                expected = window.cell(k, layout.LAST_OFFSET) + 1


def _older(line: Line, sources: Sequence[Source], cleaned: Sequence[Cleaned], limits: Limits) -> Iterator[Records]:
    """Yield the records of the line that another copy's cleaner has taken away, batch by batch."""
    for pair in line.pairs:
        larger = records_at(sources[pair.taken.log], pair.taken.position, limits) or {}
        smaller = records_at(sources[pair.other.log], pair.other.position, limits) or {}
        yield {offset: larger[offset] for offset in larger.keys() - smaller.keys()}
    rows = line.extents
    gaps = sorted(cleaned, key=lambda one: one.first)
    for at in range(0, len(rows), EXTENT):
        log, position, end, first, last, _ = rows[at : at + EXTENT]
        inside = [one for one in gaps if one.first <= last and one.last >= first]
        if not inside:
            continue
        for window in batches_of(sources[log], position, end, limits.max_batch_bytes):
            for k in range(window.count):
                low, high = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
                if any(one.first <= low and high <= one.last for one in inside):
                    yield records_at(sources[log], window.cell(k, layout.POSITION), limits) or {}


def revived(
    name: str, line: Line, sources: Sequence[Source], cleaned: Sequence[Cleaned], limits: Limits
) -> Iterator[Revived]:
    """Yield the keys that live in the result only because another copy's cleaning was not followed.

    Args:
        name: of the partition.
        line: of it.
        sources: the logs by number.
        cleaned: what the cleaner has taken out of copies.
        limits: for reading.
    """
    candidates: dict[bytes, int] = {}
    for records in _older(line, sources, cleaned, limits):
        for offset, (_, key, is_null) in records.items():
            if key is not None and not is_null and len(candidates) < _MOST:
                candidates[key] = max(offset, candidates.get(key, -1))
    if not candidates:
        return
    latest = dict.fromkeys(candidates, -1)
    rows = line.extents
    reader = RecordReader(limits.max_uncompressed_bytes, max_batch=limits.max_batch_bytes)
    for at in range(0, len(rows), EXTENT):
        source = sources[rows[at]]
        for window in batches_of(source, rows[at + 1], rows[at + 2], limits.max_batch_bytes):
            for chunk in reader.chunks(window):
                for k in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
                    row = chunk.rows[k : k + layout.RECORD_WIDTH]
                    key, _ = key_and_value(chunk.view, row)
                    if key in latest:
                        latest[key] = max(latest[key], row[layout.R_OFFSET])
    for key, offset in sorted(candidates.items(), key=lambda one: one[1]):
        if latest[key] == offset:
            yield Revived(name, key, offset)
