"""ProducerStateManager during a load: the producers of a partition, and the snapshots beside its logs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kdump.broker.failure import BrokerError
from kdump.broker.producer.producer_append import StateManager
from kdump.broker.producer.replay import Producers
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import _scan, layout
from kdump.format.checkpoint.producer_snapshot import encode_snapshot, read_snapshot
from kdump.format.java_values import ARGUMENT, MAX_LONG
from kdump.storage.names import java_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.broker.load.disk import Disk
    from kdump.broker.load.facts import PartitionFacts
    from kdump.broker.load.segments import LoadedSegments
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.source import Source

SNAPSHOT = ".snapshot"
_TABLE = 16  # buckets of a HashMap at first; it doubles when it is three quarters full
_STAGE = "producers"
_DIGITS = 20  # of an offset in a name


class ProducerStates:
    """A broker's producers, and the snapshots that it knows of.

    Args:
        disk: where the snapshots are.
        facts: the clock, and after how long producers expire.

    Attributes:
        first_completed: the lowest first offset of a transaction that has ended in a replay, None when none has.
        bytes_read: of logs, that were replayed.

    Raises:
        BrokerError: a name ends as that of a snapshot does, and tells no offset.

    Source: ProducerStateManager.
    """

    def __init__(self, disk: Disk, facts: PartitionFacts) -> None:
        self.producers = Producers.empty()  # what is known
        self.end = 0  # offset up to which that is
        self.first_completed: int | None = None
        self.bytes_read = 0
        self._latest = 0  # offset of the latest snapshot that was read or taken
        self._disk = disk
        self._facts = facts
        self._snapshots = self._listed()

    def _listed(self) -> dict[int, str]:
        disk = self._disk
        if len(disk.by_offset) != len(disk.snapshots):
            for name in disk.snapshots:
                disk.learn(name, offset_of(name))
        return dict(disk.by_offset)

    def take_snapshot(self) -> None:
        """Write a snapshot, unless one of here was read or taken."""
        if self.end > self._latest:
            name = f"{self.end:020}{SNAPSHOT}"
            self._disk.write(name, encode_snapshot(in_java_order(self.producers.entries)))
            self._disk.learn(name, self.end)
            self._snapshots[self.end] = name
            self._latest = self.end

    def remove_strays(self, bases: Iterable[int]) -> None:
        """Delete the snapshots that belong to no segment, but for the last one where it is beyond all."""
        kept = set(bases)
        self._snapshots = self._listed()
        strays = sorted(offset for offset in self._snapshots if offset not in kept)
        if strays and kept and strays[-1] > max(kept):
            strays.pop()
        elif not kept:
            del strays[-1:]
        for offset in strays:
            self._delete(offset)

    def forget(self, base_offset: int) -> None:
        """Delete the snapshot of a deleted segment; a broker does it after file.delete.delay.ms."""
        if base_offset in self._snapshots:
            self._delete(base_offset)

    def start_at(self, offset: int) -> None:
        """Forget all, and begin at an offset. Source: truncateFullyAndStartAt."""
        self.producers = Producers.empty()
        for one in list(self._snapshots):
            self._delete(one)
        self._latest, self.end = 0, offset

    def rebuild(self, segments: LoadedSegments, log_start: int, last_offset: int, *, was_clean: bool) -> None:
        """Learn the producers at an offset from the latest snapshot before it and the batches after that.

        Args:
            segments: of the partition.
            log_start: log start offset.
            last_offset: where to end.
            was_clean: after a clean shutdown: without any snapshot there have been no producers.

        Raises:
            BrokerError: a broker throws.

        Source: UnifiedLog.rebuildProducerState.
        """
        marks = [*segments.bases[-2:], last_offset]
        if was_clean and not self._snapshots:
            for offset in marks:
                self.end = offset
                self.take_snapshot()
            return
        had_none = not self.producers.entries and self.end >= last_offset
        self._reload(log_start, last_offset)
        if last_offset > self.end and not had_none:
            floor = bisect_right(segments.bases, last_offset) - 1
            first = max(0, bisect_right(segments.bases, self.end) - 1)
            for number in range(first, bisect_left(segments.bases, last_offset)):
                base = segments.bases[number]
                self.end = max(base, self.end, log_start)
                if base in marks:
                    self.take_snapshot()
                self._replay(segments, number, last_offset if number == floor else None)
        self.end = last_offset
        self.take_snapshot()

    def _reload(self, log_start: int, last_offset: int) -> None:
        """Source: truncateAndReload, loadFromSnapshot, onLogStartOffsetIncremented."""
        if self._snapshots and (max(self._snapshots) > last_offset or min(self._snapshots) <= log_start):
            for offset in [one for one in self._snapshots if one > last_offset or one <= log_start]:
                self._delete(offset)
        if last_offset == self.end:
            self.end = max(self.end, log_start)
            self._latest = max(self._snapshots, default=log_start)
            return
        self.producers = Producers.empty()
        while self._snapshots:
            offset = max(self._snapshots)
            source = self._disk.get(self._snapshots[offset])
            snapshot = None if source is None else read_snapshot(source)
            if snapshot is not None and snapshot.error is None:
                entries = (entry for entry in snapshot.entries if not self._is_expired(entry))
                self.producers = Producers.of_snapshot(entries, offset)
                self._latest = self.end = offset
                return
            self._delete(offset)
        self._latest = self.end = log_start

    def _is_expired(self, entry: ProducerStateEntry) -> bool:
        idle = self._facts.now - entry.timestamp
        return entry.current_txn_first_offset < 0 and idle >= self._facts.producer_expiration

    def _delete(self, offset: int) -> None:
        self._disk.delete(self._snapshots.pop(offset))

    def _replay(self, segments: LoadedSegments, number: int, last_offset: int | None) -> None:
        """Take the batches of a segment from `end` on, up to an offset. Source: loadProducersFromRecords."""
        log = segments.segment(number).log
        stop = log.size if last_offset is None else segments.position(number, last_offset)
        start = segments.position(number, self.end)
        if start is None:
            return
        stop = log.size if stop is None else stop
        if stop < start:
            raise BrokerError(0, _STAGE, f"{ARGUMENT}: Invalid size: {stop - start} in read from {log.name}")
        self.bytes_read += stop - start
        states = self._replayed(log, start, stop, keeps_ends=False)
        if states is None:
            states = self._replayed(log, start, stop, keeps_ends=True)
            assert states is not None
        states.finish()
        self.producers = _in_order_of_arrival(self.producers, states.producers())
        ends = [first for first in (self.first_completed, states.first_completed) if first is not None]
        self.first_completed = min(ends, default=None)

    def _replayed(self, log: Source, start: int, stop: int, *, keeps_ends: bool) -> StateManager | None:
        """Take the batches of a range; None where offsets fall, so that a transaction may end twice."""
        facts = self._facts
        limits = facts.max_uncompressed_bytes, facts.max_batch_bytes
        states = StateManager(self.producers, self.end, facts.name, None, *limits, keeps_ends=keeps_ends)
        walk = KafkaWalk(log, log.name, start, stop, facts.max_batch_bytes)
        bits = 0
        for window in walk.windows():
            bits |= _scan.suspicions(window.rows, window.count)
            if not keeps_ends and bits & layout.NOT_ABOVE and bits & layout.HAS_PRODUCER:
                return None
            states.step(window, window.count)
        if walk.failure is not None:
            raise BrokerError(0, "framing", walk.failure)
        return states

    @property
    def first_unstable(self) -> int | None:
        """The first offset that a broker takes for unstable until it knows the high watermark, None for none.

        Source: ProducerStateManager.firstUnstableOffset.
        """
        firsts = [entry.current_txn_first_offset for entry in self.producers.entries.values()]
        ended = () if self.first_completed is None else (self.first_completed,)
        return min((first for first in (*firsts, *ended) if first >= 0), default=None)


def _in_order_of_arrival(before: Producers, after: Producers) -> Producers:
    """Put the producers that a replay has found where a broker has them: the last one first, behind those from before.

    It collects them in a map of its own, where HashMap.computeIfAbsent puts what is new in front of a bucket.
    """
    entries = {producer: after.entries[producer] for producer in before.entries}
    entries.update((one, entry) for one, entry in reversed(after.entries.items()) if one not in entries)
    return after.replace(entries=entries)


def offset_of(name: str) -> int:
    """Return the number that a file name begins with.

    Raises:
        BrokerError: there is none.

    Source: LogFileUtils.offsetFromFile.
    """
    stem = name[:_DIGITS]
    if name[_DIGITS : _DIGITS + 1] == "." and stem.isascii() and stem.isdigit() and int(stem) <= MAX_LONG:
        return int(stem)  # as all should be
    java = java_name(name)
    if java.base_offset is None:
        raise BrokerError(0, "names", java.error or "")
    return java.base_offset


def in_java_order(entries: dict[int, ProducerStateEntry]) -> list[ProducerStateEntry]:
    """Return entries as a HashMap has them, by which a broker writes them: only then are the files the same."""
    buckets = _TABLE
    while len(entries) > buckets * 3 // 4:
        buckets *= 2
    return sorted(entries.values(), key=lambda entry: _spread(entry.producer_id) & (buckets - 1))


def _spread(key: int) -> int:
    """Source: Long.hashCode, HashMap.hash."""
    low = (key ^ (key & (2**64 - 1)) >> 32) & 0xFFFFFFFF
    return low ^ low >> 16
