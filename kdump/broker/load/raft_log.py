"""KafkaRaftLog: the metadata log is loaded as any other, and then held against the newest snapshot beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.load.facts import Action, SegmentOutcome
from kdump.storage.names import log_bases

if TYPE_CHECKING:
    from kdump.broker.load.facts import Outcome
    from kdump.broker.load.log_loader import Recoveries
    from kdump.storage.raft_snapshots import RaftSnapshot


def begun_at(snapshot: RaftSnapshot, outcome: Outcome, recoveries: Recoveries) -> Outcome:
    """Return what becomes of a log that is emptied, and goes on at the end of a snapshot.

    Args:
        snapshot: the newest one.
        outcome: of the load before.
        recoveries: of the same partition.

    Returns:
        the same, where no record counts as lost that is below the end of the snapshot: it has what became of them.

    Raises:
        OSError: a log cannot be read.

    Source: UnifiedLog.truncateFullyAndStartAt.
    """
    disk, begin = outcome.disk, snapshot.offset
    bases = log_bases(disk.before)
    following = dict(pairwise(bases))
    lost = sum(
        recoveries.readable(disk.before[f"{base:020}.log"], base, following.get(base), begin).behind for base in bases
    )
    sizes = {base: disk.before[f"{base:020}.log"].size for base in bases}
    segments = [SegmentOutcome(base, Action.DELETE, 0, size) for base, size in sizes.items() if base != begin]
    action = Action.CREATE if begin not in sizes else Action.EMPTY if sizes[begin] else Action.KEEP
    segments.append(SegmentOutcome(begin, action, 0, sizes.get(begin, 0)))
    last = (outcome.log_end_offset or 0) - 1 if outcome.reused_offsets is None else outcome.reused_offsets[1]
    return outcome.replace(
        segments=sorted(segments, key=lambda one: one.base_offset),
        log_start_offset=begin,
        log_end_offset=begin,
        bytes_lost=sum(sizes.values()),
        records_lost=lost,
        hidden_records=0,
        reused_offsets=(begin, last) if last >= begin else None,
    )
