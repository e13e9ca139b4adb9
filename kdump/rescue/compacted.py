"""Copies of a batch that the cleaner has passed over differently: which is the larger, and which keys it revives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.record.reader import RecordReader, key_and_value
from kdump.rescue.log_facts import batches_of
from kdump.salvaged import Revived

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source
    from kdump.rescue.line import Line, LineLog, Side

Records = dict[int, tuple[bytes, "bytes | None", bool]]
_MOST = 1_000_000  # keys that are followed


def subset(logs: Sequence[LineLog], one: Side, other: Side, limits: ReadLimits) -> int | None:
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


def records_at(source: Source, position: int, limits: ReadLimits) -> Records | None:
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


def revived(name: str, line: Line, sources: Sequence[Source], limits: ReadLimits) -> Iterator[Revived]:
    """Yield the keys that live in the result only because another copy's cleaning was not followed.

    Args:
        name: of the partition.
        line: of it.
        sources: the logs by number.
        limits: for reading.
    """
    candidates: dict[bytes, int] = {}
    for pair in line.pairs:
        larger = records_at(sources[pair.taken.log], pair.taken.position, limits) or {}
        smaller = records_at(sources[pair.other.log], pair.other.position, limits) or {}
        for offset in larger.keys() - smaller.keys():
            _, key, is_null = larger[offset]
            if key is not None and not is_null and len(candidates) < _MOST:
                candidates[key] = max(offset, candidates.get(key, -1))
    if not candidates:
        return
    latest = dict.fromkeys(candidates, -1)
    rows = line.extents
    reader = RecordReader(limits.max_uncompressed_bytes, max_batch=limits.max_batch_bytes)
    for at in range(0, len(rows), 6):
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
