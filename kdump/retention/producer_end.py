"""What a broker knows of producers at the end of a log: the newest snapshot, and what was written after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.cleaner.cleaner import LastRecord
from kdump.broker.failure import BrokerError
from kdump.broker.producer.producer_append import StateManager
from kdump.broker.producer.replay import Producers
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.format.batch.window import Window
from kdump.format.kinds import FileKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.retention.log_facts import LogFiles

_LIMIT = 64 * 1024 * 1024


def producers_at(files: LogFiles, end_offset: int) -> Mapping[int, ProducerStateEntry]:
    """Return what a broker knows of producers.

    Without a snapshot a broker reads the whole log after an unclean stop, and nothing after a clean one. A directory
    without the files of its log directory around it is a copy, and taken as after a clean one.

    Args:
        files: the partition.
        end_offset: of the log.

    Source: UnifiedLog.rebuildProducerState, ProducerStateManager.truncateAndReload.
    """
    log_dir = files.log_dir
    start, known = _newest(files, end_offset)
    if start is None:
        if files.directory.was_closed or not log_dir.file(FileKind.RECOVERY_POINT).is_read:
            return {}
        start, known = files.bases[0], Producers.empty(files.bases[0])
    if start < end_offset:
        known = _replayed(files, known, start)
    return known.entries


def _newest(files: LogFiles, end_offset: int) -> tuple[int | None, Producers]:
    """The newest snapshot that can be read. Source: ProducerStateManager.loadFromSnapshot."""
    listing = files.directory.listing
    parsed = ((listing.name_of(name), name) for name in listing.names if name.endswith(".snapshot"))
    offsets = {one.base_offset: name for one, name in parsed if one.is_live and one.kind is FileKind.SNAPSHOT}
    for offset in sorted((one for one in offsets if one is not None and one <= end_offset), reverse=True):
        file = files.directory.file(offsets[offset], FileKind.SNAPSHOT)
        if file.error is not None:
            raise file.error
        snapshot = file.snapshot()
        if snapshot is not None and snapshot.error is None:
            return offset, Producers.of_snapshot(snapshot.entries, offset)
    return None, Producers.empty()


def _replayed(files: LogFiles, known: Producers, start: int) -> Producers:
    """Go on from a snapshot to the end of the log, as far as a broker gets."""
    manager = StateManager(known, start, files.name, "", _LIMIT, _LIMIT)
    first = max((number for number, base in enumerate(files.bases) if base <= start), default=0)
    try:
        for number in range(first, len(files.bases)):
            log = files.log(number)
            position = files.position(number, start) if number == first else 0
            for window in KafkaWalk(log, log.name, position, log.size, _LIMIT).windows():
                ends = window.column(layout.LAST_OFFSET)
                skipped = next((k for k, last in enumerate(ends) if last >= start), len(ends))
                rows = window.rows[skipped * layout.BATCH_WIDTH : window.count * layout.BATCH_WIDTH]
                count = window.count - skipped
                if count:
                    manager.step(Window(window.view, window.origin, rows, count, window.whole), count)
    except BrokerError:
        pass  # a broker does not load the log; verify says so
    return manager.producers()


def last_records(producers: Mapping[int, ProducerStateEntry], now: int, expiration: int) -> dict[int, LastRecord]:
    """Return the active producers: those that a broker has not forgotten.

    Args:
        producers: by their id.
        now: the clock, ms.
        expiration: producer.id.expiration.ms.

    Source: ProducerStateManager.isProducerExpired, UnifiedLog.lastRecordsOfActiveProducers.
    """
    return {
        producer: LastRecord(one.last_offset if one.has_batch else None, one.producer_epoch)
        for producer, one in producers.items()
        if one.current_txn_first_offset >= 0 or now - one.timestamp < expiration
    }
