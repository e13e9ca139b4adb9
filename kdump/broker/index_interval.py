"""The index.interval.bytes that a topic was written with, deduced from its offset indexes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.format.index.offset_and_time import INDEX_INTERVAL, OffsetIndex
from kdump.storage.names import log_bases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.format.source import Source

_SEGMENTS = 4  # that are looked at
_ENTRIES = 32  # of each
_STRETCH = 1 << 20  # bytes of a segment that are read at most to see where batches begin
_POWERS = tuple(1 << n for n in range(31))
_ROUND = tuple(10**n * m for n in range(9) for m in (1, 2, 3, 5))


def infer_interval(files: Mapping[str, Source]) -> int | None:
    """Return an interval that explains the stored offset indexes, None where they tell nothing.

    An entry is written for the first batch that begins more than the interval after the entry before: each entry leaves
    a range of intervals. Entries of followers and of reopened segments can lie elsewhere, so what most entries agree
    on counts; of what agrees the default is taken, else a power of two, else a round number.

    Args:
        files: of a partition directory, by name.

    Raises:
        OSError: a file cannot be read.

    Source: LogSegment.append, LogSegment.recover.
    """
    ranges: Counter[tuple[int, int]] = Counter()
    for base in islice(log_bases(files), _SEGMENTS):
        index = files.get(f"{base:020}.index")
        if index is not None:
            ranges.update(_ranges(files[f"{base:020}.log"], OffsetIndex(index, base)))
    if not ranges:
        return None
    if all(low <= INDEX_INTERVAL < high for low, high in ranges):
        return INDEX_INTERVAL
    votes: Counter[int] = Counter()
    for candidate in {INDEX_INTERVAL, *_POWERS, *_ROUND, *(low for low, _ in ranges)}:
        votes[candidate] = sum(count for (low, high), count in ranges.items() if low <= candidate < high)
    most = max(votes.values())
    best = [candidate for candidate, count in votes.items() if count == most]
    return min(best, key=lambda one: (one != INDEX_INTERVAL, one not in _POWERS, one not in _ROUND, one))


def _ranges(log: Source, index: OffsetIndex) -> Iterator[tuple[int, int]]:
    """Yield for each entry the intervals that explain it, half-open."""
    positions = [0]
    for _, column in index.columns(0, _ENTRIES):
        positions += column
    end = max(positions)
    if not 0 < end < min(log.size, _STRETCH):
        end = max((one for one in positions if 0 <= one < min(log.size, _STRETCH)), default=0)
    starts: list[int] = []
    for window in KafkaWalk(log, log.name, 0, end, _STRETCH).windows():
        starts += window.column(layout.POSITION)
    for before, position in pairwise(positions):
        at = bisect_left(starts, position)
        if not (0 <= before < position <= end and at) or (at < len(starts) and starts[at] != position):
            return
        yield starts[at - 1] - before, position - before
