"""Retention: which segments a broker deletes, when and why, and whether an append rolls the active segment.

Pure functions over facts. All three reasons begin at the oldest segment that is left and stop at the first one that
may not go, so a young segment protects all after it. The clock is the broker's wall clock.

Source: UnifiedLog.deleteOldSegments, LogSegment.largestTimestamp, LogSegment.shouldRoll, Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.java_values import MAX_INT, MAX_LONG, MIN_LONG
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.broker.config import TopicConfig

START, SIZE = "log start offset", "size"
TIME = {"index": "time, largest record timestamp", "mtime": "time, last modified time"}
_INDEX_SLOT, _TIME_SLOT = 8, 12


class SegmentFacts(TupleValue):
    """A segment as a broker sees it."""

    base_offset: int  # from its name
    size: int  # of the .log, bytes
    largest: int  # what a broker takes for its largest timestamp, ms
    source: str  # where that comes from: "index", the last entry of the .timeindex, or "mtime", the time of the .log
    # the largest timestamp of its batches, ms; -1 when none has one, None when it could not be read
    max_in_data: int | None


class RetentionFacts(Value):
    """A log as a broker has it loaded."""

    segments: Sequence[SegmentFacts]  # by base offset, at least one; the last is the active one
    # start_offset, end_offset: of the log
    start_offset: int
    end_offset: int
    high_watermark: int  # from the start offset to the end offset
    remote: int | None = None  # the highest offset in remote storage, -1 for none; None where nothing is copied there

    @property
    def local_start_offset(self) -> int:
        """The first offset on this disk. Source: UnifiedLog.localLogStartOffset."""
        return max(self.start_offset, self.segments[0].base_offset)

    def is_copied(self, number: int) -> bool:
        """Tell whether remote storage has a segment; what goes there at all is known."""
        bound = self.upper_bound(number)
        return self.remote is not None and 0 < bound <= self.remote + 1

    def upper_bound(self, number: int) -> int:
        """Return the base offset of the segment after one, the log end offset for the last."""
        following = number + 1
        return self.segments[following].base_offset if following < len(self.segments) else self.end_offset


class Deletion(Value):
    """One round of deletion."""

    reasons: list[str]  # of the segments that go, from the oldest on
    rolled_to: int | None  # base offset of the empty segment that is made where the active one may go; else None
    start_offset: int  # the log start offset afterwards
    local_start_offset: int  # the first offset on this disk afterwards


def delete(log: RetentionFacts, config: TopicConfig, now: int) -> Deletion:
    """Return what a broker deletes at a time.

    Args:
        log: the log.
        config: of its topic.
        now: the clock, ms.

    Source: UnifiedLog.deleteOldSegments.
    """
    reasons = _timeless(log, config)
    segments = log.segments
    if config.delete and config.kept_ms >= 0:
        while len(reasons) < len(segments) and _may_go(log, len(reasons)):
            segment = segments[len(reasons)]
            if now - segment.largest <= config.kept_ms:
                break
            reasons.append(TIME[segment.source])
    gone = len(reasons)
    is_rolled = gone == len(segments)
    first_left = log.end_offset if is_rolled else segments[gone].base_offset
    local = max(log.local_start_offset, first_left) if gone else log.local_start_offset
    start = log.start_offset if config.is_copied or not gone else local
    rolled_to = log.end_offset if is_rolled or _is_rolled_for_copy(log, config, now, gone) else None
    return Deletion(reasons, rolled_to, start, local)


def _is_rolled_for_copy(log: RetentionFacts, config: TopicConfig, now: int, gone: int) -> bool:
    """Whether only the copy in remote storage is wanted for the active segment to go: it is rolled, to be copied.

    Source: UnifiedLog.deletableSegments.
    """
    active = log.segments[-1]
    if not (config.is_copied and config.delete and gone == len(log.segments) - 1 and active.size):
        return False
    is_old = config.kept_ms >= 0 and now - active.largest > config.kept_ms
    return log.high_watermark >= log.end_offset and (is_old or config.kept_bytes == 0)


def first_deleted(log: RetentionFacts, config: TopicConfig, now: int) -> list[int | None]:
    """Return for each segment the first clock at which it goes, as all is now.

    Args:
        log: the log.
        config: of its topic.
        now: ms; the answer for those that go whatever the clock says.

    Returns:
        ms; None for never.
    """
    found: list[int | None] = [now] * len(_timeless(log, config))
    clock = MIN_LONG
    while len(found) < len(log.segments):
        number = len(found)
        if not (config.delete and config.kept_ms >= 0 and _may_go(log, number)):
            break
        clock = max(clock, log.segments[number].largest + config.kept_ms + 1)
        if clock > MAX_LONG:
            break
        found.append(clock)
    return found + [None] * (len(log.segments) - len(found))


def _timeless(log: RetentionFacts, config: TopicConfig) -> list[str]:
    """The reasons that do not depend on the clock: log start offset, then size."""
    reasons: list[str] = []
    segments = log.segments
    while len(reasons) < len(segments) - 1 and _may_go(log, len(reasons)):
        if log.upper_bound(len(reasons)) > log.start_offset:
            break
        reasons.append(START)
    if config.delete and config.kept_bytes >= 0:
        excess = sum(segment.size for segment in segments[len(reasons) :]) - config.kept_bytes
        while len(reasons) < len(segments) and _may_go(log, len(reasons)):
            excess -= segments[len(reasons)].size
            if excess < 0:
                break
            reasons.append(SIZE)
    return reasons


def _may_go(log: RetentionFacts, number: int) -> bool:
    """Whether a segment lies below the high watermark, and is not the active one without a batch.

    What is to be copied to remote storage must be there, unless the log start offset has passed it.

    Source: UnifiedLog.deletableSegments, isSegmentEligibleForDeletion.
    """
    bound, is_active = log.upper_bound(number), number == len(log.segments) - 1
    if log.high_watermark < bound or (is_active and not log.segments[number].size):
        return False
    return log.remote is None or log.is_copied(number) or (not is_active and log.start_offset >= bound)


class ActiveSegment(Value):
    """The facts of the active segment that decide whether an append rolls it."""

    base_offset: int  # from its name
    size: int  # of the .log, bytes
    # index_entries, timeindex_entries: how many there are
    index_entries: int
    timeindex_entries: int
    first_timestamp: int  # the largest timestamp of its first batch, ms; below 0 for none
    # when the process opened the segment, ms; None where that is not known: nothing on disk says it
    opened_at: int | None = None


class Append(Value):
    """An append: bytes, the largest timestamp (ms), the last offset."""

    size: int
    timestamp: int
    last_offset: int


class Rolling(Value):
    """Whether an append rolls the active segment, each reason by itself; None where that cannot be known."""

    size: bool  # it would be larger than segment.bytes
    time: bool | None  # it is older than segment.ms
    # index_full, timeindex_full: no entry has room
    index_full: bool
    timeindex_full: bool
    offset_overflow: bool  # the last offset is too far above the base offset

    @property
    def rolls(self) -> bool | None:
        """Whether the segment is rolled; None where only time could do it, and that is not known."""
        if self.size or self.index_full or self.timeindex_full or self.offset_overflow:
            return True
        return self.time


def rolling(active: ActiveSegment, append: Append, config: TopicConfig, now: int) -> Rolling:
    """Return whether an append rolls the active segment first.

    Args:
        active: the segment.
        append: what is appended; with LogAppendTime its timestamp is the clock, whatever it says.
        config: of the topic.
        now: the clock, ms.

    Source: LogSegment.shouldRoll, timeWaitedForRoll; OffsetIndex.isFull, TimeIndex.isFull.
    """
    return Rolling(
        active.size > config.segment_bytes - append.size,
        _is_old(active, append, config, now),
        active.index_entries >= config.segment_index_bytes // _INDEX_SLOT,
        active.timeindex_entries >= config.segment_index_bytes // _TIME_SLOT - 1,
        not 0 <= append.last_offset - active.base_offset <= MAX_INT,
    )


def _is_old(active: ActiveSegment, append: Append, config: TopicConfig, now: int) -> bool | None:
    """Whether the segment has waited too long: each has a random part of segment.jitter.ms less to wait."""
    if not active.size:
        return False
    if active.first_timestamp >= 0:
        waited = (
            now if config.message_timestamp_type == "LogAppendTime" else append.timestamp
        ) - active.first_timestamp
    elif active.opened_at is not None:
        waited = now - active.opened_at
    else:
        return None
    if waited > config.max_segment_ms:
        return True
    jitter = min(config.segment_jitter_ms, config.segment_ms)
    return None if jitter and waited > config.max_segment_ms - jitter else False


def misled(log: RetentionFacts, config: TopicConfig, now: int) -> list[int]:
    """Return the numbers of the segments whose wrong largest timestamp changes what is deleted now.

    A segment counts whose time index disagrees with its data, where another set of segments goes once it is right.

    Args:
        log: the log.
        config: of its topic.
        now: the clock, ms.
    """
    return _changed(log, lambda one: delete(one, config, now).reasons)


def _changed(log: RetentionFacts, answer: Callable[[RetentionFacts], list[str]]) -> list[int]:
    wrong = [
        number
        for number, segment in enumerate(log.segments)
        if segment.max_in_data is not None and segment.max_in_data >= 0 and segment.largest != segment.max_in_data
    ]
    if not wrong:
        return []
    right = list(log.segments)
    for number in wrong:
        right[number] = _righted(right[number])
    gone, rightly = len(answer(log)), len(answer(log.replace(segments=right)))
    first, last = sorted((gone, rightly))
    return [number for number in wrong if first <= number < last] or (wrong[:1] if first != last else [])


def _righted(segment: SegmentFacts) -> SegmentFacts:
    assert segment.max_in_data is not None
    return segment._replace(largest=segment.max_in_data, source="index")
