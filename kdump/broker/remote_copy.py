"""Tiered storage: which segments of a log may be copied to remote storage, and which only this disk has.

A broker copies closed segments below the last stable offset, from the oldest on, and from 4.4 on not before they lag
behind. What has been copied stands in no file of the partition: where nobody says it, all that may be counts as copied.

Source: RemoteLogManager.RLMCopyTask.candidateLogSegments, isEligibleForUpload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.log_facts import producers_at
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.broker.config import TopicConfig
    from kdump.broker.log_facts import LogFiles, LogReader
    from kdump.broker.releases import Rules
    from kdump.broker.retention import RetentionFacts


class RemoteCopy(Value):
    """What of a tiered log remote storage has, and what only this disk has."""

    highest: int  # the highest offset in remote storage; -1 for none
    is_assumed: bool  # nobody said so: all that may be copied is taken as copied
    ready: int  # base offset of the first segment that may not be copied yet, or the active one
    lag: tuple[int, int]  # behind which segments are copied, ms and bytes; 0 for at once, below 0 for never by that
    # local_segments, local_bytes: only on this disk, as the limit of the whole log counts them
    local_segments: int
    local_bytes: int

    @property
    def assumed(self) -> str:
        """Say what was taken because nobody said it; else empty."""
        if not self.is_assumed:
            return ""
        known = f"up to offset {self.highest}" if self.highest >= 0 else "which is nothing"
        taken = f"all that a broker copies by now is taken as copied, {known}"
        named = "retention --highest-remote-offset N names it"
        return f"what remote storage has is in no file of a partition: {taken}; {named}"


def remote_copy(
    files: LogFiles, log: RetentionFacts, config: TopicConfig, rules: Rules, now: int, highest: int | None = None
) -> RemoteCopy | None:
    """Return what remote storage has of a log; None where nothing is copied there.

    Args:
        files: of the partition.
        log: the log.
        config: of its topic.
        rules: of the broker's release.
        now: the clock, ms.
        highest: the highest offset in remote storage; None where nobody says it.
    """
    if not config.is_copied:
        return None
    lag = config.copy_lag if rules.delays_copies else (0, 0)
    count = _ready(log, _last_stable(files, log), lag, now)
    reached = log.segments[count].base_offset
    is_assumed = highest is None
    if highest is None:
        highest = reached - 1 if reached > 0 else -1
    limit = highest if rules.counts_last_copied else highest + 1
    local = [segment.size for segment in log.segments if segment.base_offset >= limit]
    return RemoteCopy(highest, is_assumed, reached, lag, len(local), sum(local))


def tiered_facts(
    reader: LogReader, log: RetentionFacts, config: TopicConfig, rules: Rules, now: int
) -> tuple[RetentionFacts, str]:
    """Return a log with what remote storage has of it, as far as its topic is tiered, and what was assumed of that.

    Args:
        reader: of the log.
        log: without it.
        config: of its topic.
        rules: of the broker's release.
        now: the clock, ms.
    """
    copied = remote_copy(reader.files, log, config, rules, now)
    return (log, "") if copied is None else (log.replace(remote=copied.highest), copied.assumed)


def _last_stable(files: LogFiles, log: RetentionFacts) -> int:
    """The last stable offset. Source: UnifiedLog.lastStableOffset."""
    known = producers_at(files, log.end_offset).values()
    return min(
        [log.high_watermark, *(one.current_txn_first_offset for one in known if one.current_txn_first_offset >= 0)]
    )


def _ready(log: RetentionFacts, stable: int, lag: tuple[int, int], now: int) -> int:
    """The number of segments that may be copied."""
    later = sum(segment.size for segment in log.segments)
    for number, segment in enumerate(log.segments[:-1]):
        later -= segment.size
        if log.segments[number + 1].base_offset > stable or not _lags(now - segment.largest, later, lag):
            return number
    return len(log.segments) - 1


def _lags(age: int, later: int, lag: tuple[int, int]) -> bool:
    """Whether a segment is far enough behind.

    Args:
        age: of its largest timestamp, ms; below 0 in the future.
        later: bytes of the segments behind it.
        lag: ms and bytes.
    """
    ms, size = lag
    return 0 in lag or (ms > 0 and (age < 0 or age >= ms)) or (0 < size <= later)
