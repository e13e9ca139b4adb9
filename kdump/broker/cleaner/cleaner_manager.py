"""LogCleanerManager: the cleanable part of a log, whether the cleaner takes it, and how it groups segments.

Pure functions over facts; what a pass leaves of the records is in `kdump.broker.cleaner`.

Source: LogCleanerManager.cleanableOffsets, grabFilthiestCompactedLog, LogToClean, Cleaner.groupSegmentsBySize,
Kafka 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.format.java_values import MAX_INT
from kdump.value import TupleValue, Value
from kdump.words.times import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.broker.config import TopicConfig
    from kdump.broker.retention import RetentionFacts

HIGH_WATERMARK, OPEN_TRANSACTION, ACTIVE = "high watermark", "open transaction", "active segment"
LAG, RAISED = "min.compaction.lag.ms", "raised to first dirty offset"
BELOW, ABOVE = "it is below the log start offset", "it is above the log end offset"


class Cleanable(Value):
    """The cleanable part of a log."""

    first_dirty_offset: int  # where the part begins that no pass has seen
    reset: str  # why the checkpoint does not count, and is corrected at once; empty when it does
    first_uncleanable_offset: int  # where the part ends that may be cleaned
    why: list[str]  # what limits it; each that is equal to it
    clean_until_offset: int  # the same, rounded down to a segment: a pass ends there
    # clean_bytes, cleanable_bytes: of the .log files; the segment with the first dirty offset inside counts twice
    clean_bytes: int
    cleanable_bytes: int
    must_compact_now: bool  # the oldest dirty batch is older than max.compaction.lag.ms
    chosen: bool  # the cleaner takes the log when it comes to it

    @property
    def total_bytes(self) -> int:
        """The bytes that the dirty ratio is a part of."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float | None:
        """The dirty part of the log; None for an empty log."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else None


def reason(part: Cleanable, config: TopicConfig) -> str:
    """Return why the cleaner takes a log of a compacted topic or not, in words.

    Args:
        part: what may be cleaned of it.
        config: of its topic.
    """
    least = config.min_cleanable_dirty_ratio
    if part.chosen:
        if (part.dirty_ratio or 0.0) > least:
            return f"the cleaner takes it: more than min.cleanable.dirty.ratio {least:g} of it is dirty"
        return f"the cleaner takes it: its oldest dirty batch is older than {duration(config.max_compaction_lag_ms)}"
    if not part.total_bytes:
        return "there is nothing to clean"
    if not part.cleanable_bytes:
        return f"nothing dirty may be cleaned ({'; '.join(part.why)})"
    return f"not more than min.cleanable.dirty.ratio {least:g} of it is dirty"


def cleanable(
    log: RetentionFacts,
    checkpoint: int | None,
    last_stable_offset: int,
    config: TopicConfig,
    now: int,
    first_timestamp: Callable[[int], int],
) -> Cleanable:
    """Return what may be cleaned of a log, and whether the cleaner takes it.

    Args:
        log: the log.
        checkpoint: its entry in cleaner-offset-checkpoint, None for none.
        last_stable_offset: the high watermark, or the first offset of the oldest open transaction below it.
        config: of its topic.
        now: the clock, ms.
        first_timestamp: gives the largest timestamp of the first batch of a segment, by its number, ms; asked for
            only where it counts.
    """
    bases = [segment.base_offset for segment in log.segments]
    active = len(bases) - 1
    first_dirty, reset = _first_dirty(log, checkpoint)
    dirty = _numbers(bases[:active], first_dirty, bases[active])
    limits = {
        OPEN_TRANSACTION if last_stable_offset < log.high_watermark else HIGH_WATERMARK: last_stable_offset,
        ACTIVE: bases[active],
    }
    if config.min_compaction_lag_ms > 0:
        horizon = now - config.min_compaction_lag_ms
        young = next((number for number in dirty if log.segments[number].largest > horizon), None)
        if young is not None:
            limits[LAG] = bases[young]
    lowest = min(limits.values())
    why = [name for name, offset in limits.items() if offset == lowest]
    if lowest < first_dirty:
        why.append(RAISED)
    uncleanable = max(first_dirty, lowest)
    after = _numbers(bases[:active], uncleanable, bases[active])
    until = bases[after[0]] if after else bases[active]
    part = _numbers(bases, min(first_dirty, until), until)
    cleanable_bytes = sum(log.segments[number].size for number in part)
    clean_bytes = sum(segment.size for segment in log.segments if segment.base_offset < first_dirty)
    must = _must_compact(dirty, config, now, first_timestamp)
    found = Cleanable(
        first_dirty,
        reset,
        uncleanable,
        why=why,
        clean_until_offset=until,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        must_compact_now=must,
        chosen=False,
    )
    ratio = found.dirty_ratio
    chosen = config.compact and ratio is not None
    chosen = chosen and ((must and cleanable_bytes > 0) or (ratio or 0.0) > config.min_cleanable_dirty_ratio)
    return found.replace(chosen=chosen)


def _first_dirty(log: RetentionFacts, checkpoint: int | None) -> tuple[int, str]:
    if checkpoint is None:
        return log.start_offset, ""
    if checkpoint < log.start_offset:
        return log.start_offset, BELOW
    if checkpoint > log.end_offset:
        return log.start_offset, ABOVE
    return checkpoint, ""


def _must_compact(dirty: Iterable[int], config: TopicConfig, now: int, first_timestamp: Callable[[int], int]) -> bool:
    """Source: LogCleanerManager.maxCompactionDelay."""
    horizon = now - config.max_compaction_lag_ms
    if horizon <= 0:
        return False  # only timestamps above 0 count
    return any(0 < first_timestamp(number) < horizon for number in dirty)


def _numbers(bases: Sequence[int], start: int, stop: int) -> range:
    """The segments from the one with an offset on, those with a base below another. Source: LogSegments.values."""
    if start >= stop:
        return range(0)
    first = max(bisect_right(bases, start) - 1, 0)
    return range(first, bisect_right(bases, stop - 1))


class IndexSizes(TupleValue):
    """Bytes of the .index and of the .timeindex of a segment."""

    offset: int
    time: int


def groups(
    log: RetentionFacts, end_offset: int, clean_until: int, index_sizes: Sequence[IndexSizes], config: TopicConfig
) -> list[range]:
    """Return which segments a pass makes one of, by their numbers: those with a base below the end.

    Args:
        log: the log.
        end_offset: the first offset that the offset map does not cover.
        clean_until: where the round was to end.
        index_sizes: of each segment.
        config: of the topic.

    Source: Cleaner.groupSegmentsBySize.
    """
    segments = log.segments
    count = sum(segment.base_offset < end_offset for segment in segments)
    found: list[range] = []
    start = 0
    while start < count:
        size, offsets, times = segments[start].size, *index_sizes[start]
        stop = start + 1
        while stop < count:
            size, offsets, times = (
                size + segments[stop].size,
                offsets + index_sizes[stop].offset,
                times + index_sizes[stop].time,
            )
            last = (segments[stop + 1].base_offset if stop + 1 < count else clean_until) - 1
            if size > config.segment_bytes or max(offsets, times) > config.segment_index_bytes:
                break
            if segments[stop].size and last - segments[start].base_offset > MAX_INT:
                break
            stop += 1
        found.append(range(start, stop))
        start = stop
    return found
