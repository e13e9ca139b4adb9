"""Segments recovered as their partition wants it, and what is known of them for another start of the same partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.load.recover import NO_EPOCH, recover
from kdump.broker.load.segment_outcomes import count_records
from kdump.format.source import BytesSource

if TYPE_CHECKING:
    from kdump.broker.load.disk import Disk
    from kdump.broker.load.facts import PartitionFacts
    from kdump.broker.load.recover import Recovered
    from kdump.broker.producer.producer_state_manager import ProducerStates
    from kdump.broker.producer.replay import Producers
    from kdump.format.source import Source


class Recoveries:
    """Recovered segments and counted records, so that a second start of the same partition need not read them again.

    Of segments only a few are held: a start without recovery points recovers all, the other one as a rule the last.
    """

    _most = 2
    _most_entries = 1 << 17  # of the columns of an index

    def __init__(self) -> None:
        self._known: list[tuple[tuple[object, ...], Recovered]] = []
        self._records: dict[tuple[str, int], int] = {}

    def count_records(self, log: Source, start: int) -> int:
        """Count the records of a log from a position on."""
        key = log.name, start
        if key not in self._records:
            self._records[key] = count_records(log, start)
        return self._records[key]

    def recover(self, facts: PartitionFacts, disk: Disk, base: int, states: ProducerStates, epoch: int) -> Recovered:
        """Recover a segment, or take what is known of it."""
        log = disk.get(f"{base:020}.log") or BytesSource(b"", f"{base:020}.log")
        key = (log, base, states.producers.entries, epoch)
        for known, recovered in self._known:
            if known[0] is log and known[1:] == key[1:]:
                return recovered
        recovered = recover_segment(facts, log, base, states.producers, epoch)
        if len(recovered.offset_entries[0]) <= self._most_entries:
            self._known = [*self._known[-self._most + 1 :], (key, recovered)]
        return recovered


def recover_segment(
    facts: PartitionFacts, log: Source, base_offset: int, producers: Producers, latest_epoch: int = NO_EPOCH
) -> Recovered:
    """Recover a segment with the settings of its partition.

    Args:
        facts: of the partition.
        log: the segment.
        base_offset: of the segment.
        producers: what is known of producers there.
        latest_epoch: of the leader epoch cache, -1 for none.

    Raises:
        OSError: the log cannot be read.
    """
    return recover(
        log,
        base_offset,
        facts.interval,
        producers,
        latest_epoch=latest_epoch,
        partition=facts.name,
        max_index_bytes=facts.max_index_bytes,
        max_batch_bytes=facts.max_batch_bytes,
        max_uncompressed_bytes=facts.max_uncompressed_bytes,
    )


def write_indexes(disk: Disk, recovered: Recovered) -> None:
    """Put the indexes of a recovered segment on a disk; no transaction index where none is needed and none was."""
    stem = f"{recovered.base_offset:020}"
    disk.write(f"{stem}.index", recovered.index())
    disk.write(f"{stem}.timeindex", recovered.timeindex())
    if recovered.aborted or disk.get(f"{stem}.txnindex") is not None:
        disk.write(f"{stem}.txnindex", recovered.txnindex())
