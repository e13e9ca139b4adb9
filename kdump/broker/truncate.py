"""UnifiedLog.truncateTo: the files and offsets of a partition after a cut, as a pure function over facts.

A broker that truncates cuts the log before the first batch that reaches the target, keeps of the indexes what lies
before it, and of epochs and snapshots what is not beyond. Here nobody trusts the indexes: the batch is searched in the
log itself, and the indexes of the segment that is cut are those that a recovery of what is left makes. The log then
ends where its last batch does, not at the target; a broker that loads it sees the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.failure import BrokerError
from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.broker.load.disk import Disk, FilePart
from kdump.broker.load.facts import Outcome, Stops
from kdump.broker.load.log_loader import count_records, fates, losses, recover_segment, write_indexes
from kdump.broker.load.segments import LoadedSegments
from kdump.broker.load.swap_recovery import NOTHING
from kdump.broker.log_end import log_end as end_of
from kdump.broker.producer.producer_state_manager import SNAPSHOT, ProducerStates, offset_of
from kdump.broker.producer.replay import Producers
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.format.checkpoint.checkpoint_file import EpochEntry, read_checkpoint
from kdump.format.kinds import FileKind
from kdump.storage.names import log_bases
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.broker.load.facts import PartitionFacts
    from kdump.broker.load.recover import Recovered
    from kdump.format.source import Source

LOADED = (".log", ".index", ".timeindex", ".txnindex", SNAPSHOT)  # what a broker asks for the offset in its name


def name_error(name: str) -> str | None:
    """Return what a broker throws for the name of a file in a partition directory, None where it loads.

    Args:
        name: of the file; without directory.
    """
    if name.endswith(LOADED):
        try:
            offset_of(name)
        except BrokerError as error:
            return error.exception
    return None


class CutPoint(Value):
    """The place of a cut: before the first batch that is not wholly before it."""

    base_offset: int  # of the segment
    offset: int | None = None  # the first offset that goes; None when a position says it
    position: int | None = None  # the first byte that goes; None when an offset says it
    # what lies behind it is no batch. Where the next segment goes on there no other log is touched.
    is_loose_end: bool = False


def cut_at_offset(bases: list[int], offset: int) -> CutPoint:
    """Return the cut at an offset: in the last segment that begins at or below it.

    Args:
        bases: of the segments, ascending; at least one.
        offset: the first one that goes.
    """
    return CutPoint(max((base for base in bases if base <= offset), default=bases[0]), offset=offset)


def truncate(facts: PartitionFacts, target: CutPoint) -> Outcome:
    """Cut a log.

    Args:
        facts: of the partition; no producer expires, whatever its clock says.
        target: where to cut.

    Returns:
        what becomes of the partition. `stops` is set when a broker would not load what is left, or when the batches
        before the cut cannot all be read: then the disk is as it was.

    Raises:
        OSError: a file cannot be read.

    Source: UnifiedLog.truncateTo, LocalLog.truncateTo, LogSegment.truncateTo.
    """
    facts = facts.replace(now=0)  # a forensic tool forgets no producer
    disk = Disk(facts.files, wants_contents=True)
    base, stem = target.base_offset, f"{target.base_offset:020}"
    log = disk.before[f"{stem}.log"]
    size = _kept(log, target, facts.max_batch_bytes)
    try:
        done = _recovered(facts, base, size)
    except BrokerError as error:
        note = f"a broker does not load this partition: {error.exception}"
        return _does_not_load(disk, error.exception, note)
    if done.valid_bytes < size or done.failure is not None:
        why = done.failure.exception if done.failure is not None else "no whole batch begins there"
        note = f"{stem}.log: byte {done.valid_bytes}, before the cut: {why}"
        return _does_not_load(disk, why, note)
    end = done.end_offset
    later = [one for one in log_bases(disk.before) if one > base]
    notes: list[str] = []
    if target.is_loose_end and later[:1] == [end]:
        disk.cut(f"{stem}.log", done.valid_bytes)
        write_indexes(disk, done)
        start = max(facts.log_start, log_bases(disk.names())[0])
        return Outcome(disk, fates(disk, set(), NOTHING), start, log_end(facts))
    if size < log.size or later:
        for one in later:
            for suffix in LOADED:
                disk.delete(f"{one:020}{suffix}")
        disk.cut(f"{stem}.log", done.valid_bytes)
        write_indexes(disk, done)
        _cut_epochs(disk, end)
        notes += [*_open_transactions(done), *_take_snapshots(disk, facts, end)]
    segments = fates(disk, set(), NOTHING)
    size_lost, records_lost = losses(disk, segments, count_records)
    start = max(facts.log_start, log_bases(disk.names())[0])
    return Outcome(
        disk,
        segments,
        start,
        log_end_offset=end,
        bytes_lost=size_lost,
        records_lost=records_lost,
        notes=tuple(notes),
    )


def _does_not_load(disk: Disk, exception: str, note: str) -> Outcome:
    return Outcome(disk, [], None, None, stops=Stops.BROKER, exception=exception, notes=(note,))


def log_end(facts: PartitionFacts) -> int:
    """Return where a log ends: after the last batch of all segments.

    Args:
        facts: of the partition.
    """
    bases = log_bases(facts.files)
    following, limit = dict(pairwise(bases)), facts.max_batch_bytes
    ends = (end_of(facts.files[f"{base:020}.log"], base, following.get(base), limit) for base in reversed(bases))
    return next((end for end in ends if end is not None), bases[-1])


def _kept(log: Source, target: CutPoint, most: int) -> int:
    """The number of bytes before the cut, as far as batches follow each other."""
    end = log.size if target.position is None else min(max(target.position, 0), log.size)
    if target.position is not None and end == log.size:
        return end
    kept = 0
    walk = KafkaWalk(log, log.name, 0, log.size, most)
    for window in walk.windows():
        lasts = window.column(layout.LAST_OFFSET)
        for k in range(window.count):
            if window.end(k + 1) > end or (target.offset is not None and lasts[k] >= target.offset):
                return kept
            kept = window.end(k + 1)
    return end if target.offset is None else log.size


def _recovered(facts: PartitionFacts, base: int, size: int) -> Recovered:
    """Recover what is left of the segment, with what was known of producers before it."""
    scratch = Disk(facts.files, wants_contents=True)
    name = f"{base:020}.log"
    segments = LoadedSegments(scratch, facts)
    for one in log_bases(scratch.before):
        if one <= base:
            segments.add(one)
    states = ProducerStates(scratch, facts)
    producers = Producers.empty()
    if base > segments.bases[0]:
        try:
            states.rebuild(segments, facts.log_start, base, was_clean=False)
            producers = states.producers
        except BrokerError:
            pass  # what lies before is damaged: whoever asks has said so
    return recover_segment(facts, FilePart(facts.files[name], 0, size), base, producers)


def _cut_epochs(disk: Disk, end: int) -> None:
    """Source: LeaderEpochFileCache.truncateFromEnd."""
    source = disk.get(FileKind.EPOCHS.value)
    if source is None:
        return
    damage: list[object] = []
    entries = read_checkpoint(FileKind.EPOCHS, source, damage.append).entries
    cache = EpochCache(one for one in entries if isinstance(one, EpochEntry))
    before = list(cache.entries)
    cache.truncate_from_end(end)
    if not damage and not cache.complaint and cache.entries != before:
        disk.write(FileKind.EPOCHS.value, cache.file())


def _open_transactions(done: Recovered) -> list[str]:
    firsts = [one.current_txn_first_offset for one in done.producers.entries.values()]
    still = [first for first in firsts if first >= 0]
    if not still:
        return []
    what = f"{len(still)} transactions are" if len(still) > 1 else "1 transaction is"
    then = "after the cut, kdump transactions --hanging of the log.dir shows which ones nothing will end"
    return [f"{what} open at the new end: readers of committed data stop at offset {min(still)}; {then}"]


def _take_snapshots(disk: Disk, facts: PartitionFacts, end: int) -> list[str]:
    """Remove the snapshots beyond the end, and take one there. Source: UnifiedLog.rebuildProducerState."""
    had = [name for name in disk.names() if name.endswith(SNAPSHOT)]
    try:
        segments = LoadedSegments(disk, facts)
        for base in log_bases(disk.names()):
            segments.add(base)
        states = ProducerStates(disk, facts)
        if had:
            states.rebuild(segments, facts.log_start, end, was_clean=False)
    except BrokerError as error:
        return [f"no producer snapshot was taken at offset {end}: {error.exception}"]
    return []
