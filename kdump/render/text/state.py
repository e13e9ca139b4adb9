"""The lines of the small files: transaction indexes, producer snapshots, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.checkpoint.checkpoint_file import Checkpoint, EpochEntry, Property, TopicPartitionOffset
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
from kdump.format.index.transaction_index import AbortedTxn
from kdump.words.escape import escape
from kdump.words.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dialect import Dialect
    from kdump.item import Item


def state_text(item: Item, dialect: Dialect, *, iso: bool = False) -> Iterator[str]:
    """Yield the lines of an item of a small file; a checkpoint may have very many.

    Args:
        item: AbortedTxn, ProducerStateEntry or Checkpoint.
        dialect: the release whose layout it is.
        iso: times as ISO 8601.
    """
    if isinstance(item, AbortedTxn):
        yield (
            f"version: {item.version} producerId: {item.producer_id} firstOffset: {item.first_offset} "
            f"lastOffset: {item.last_offset} lastStableOffset: {item.last_stable_offset}\n"
        )
    elif isinstance(item, ProducerStateEntry):
        yield _producer(item, dialect, iso=iso)
    elif isinstance(item, Checkpoint):
        yield from _checkpoint(item)
    else:
        raise TypeError(type(item).__name__)


def _producer(entry: ProducerStateEntry, dialect: Dialect, *, iso: bool) -> str:
    """Source: DumpLogSegments.dumpProducerIdSnapshot."""
    first = entry.current_txn_first_offset
    time = time_text(entry.timestamp, as_iso=iso)
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {f'OptionalLong[{first}]' if first >= 0 else 'OptionalLong.empty'} "
        f"lastTimestamp: {time}"
    )
    if not entry.has_batch:
        return line + (" \n" if dialect.snapshot_blank else "\n")
    return line + (
        f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {time}\n"
    )


def _checkpoint(checkpoint: Checkpoint) -> Iterator[str]:
    """A small text file of a broker, in the manner of Kafka's lines; Kafka's own tool cannot show one."""
    first = next(iter(checkpoint.entries), None)
    if checkpoint.version is not None and not isinstance(first, Property):  # a property says it itself
        yield f"version: {checkpoint.version}\n"
    for entry in checkpoint.entries:
        if isinstance(entry, EpochEntry):
            yield f"epoch: {entry.epoch} startOffset: {entry.start_offset}\n"
        elif isinstance(entry, TopicPartitionOffset):
            yield f"topic: {escape(entry.topic)} partition: {entry.partition} offset: {entry.offset}\n"
        else:
            value = "null" if entry.value is None else entry.value
            yield f"{escape(f'{entry.name}: {value}')}\n"
