"""The lines of the small files: transaction indexes, producer snapshots, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.checkpoint import Checkpoint, EpochEntry, TopicPartitionOffset
from kdump.format.index import AbortedTxn
from kdump.format.snapshot import ProducerStateEntry
from kdump.render.escape import escape

if TYPE_CHECKING:
    from kdump.dialect import Dialect
    from kdump.item import Item


def state_text(item: Item, dialect: Dialect) -> str:
    """Return the lines of an item of a small file.

    Args:
        item: AbortedTxn, ProducerStateEntry or Checkpoint.
        dialect: the release whose layout it is.
    """
    if isinstance(item, AbortedTxn):
        return (
            f"version: {item.version} producerId: {item.producer_id} firstOffset: {item.first_offset} "
            f"lastOffset: {item.last_offset} lastStableOffset: {item.last_stable_offset}\n"
        )
    if isinstance(item, ProducerStateEntry):
        return _producer(item, dialect)
    if isinstance(item, Checkpoint):
        return _checkpoint(item)
    raise TypeError(type(item).__name__)


def _producer(entry: ProducerStateEntry, dialect: Dialect) -> str:
    """Source: DumpLogSegments.dumpProducerIdSnapshot."""
    first = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {f'OptionalLong[{first}]' if first >= 0 else 'OptionalLong.empty'} "
        f"lastTimestamp: {entry.timestamp}"
    )
    if not entry.has_batch:
        return line + (" \n" if dialect.snapshot_blank else "\n")
    return line + (
        f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}\n"
    )


def _checkpoint(checkpoint: Checkpoint) -> str:
    """A small text file of a broker, in the manner of Kafka's lines; Kafka's own tool cannot show one."""
    lines = [] if checkpoint.version is None else [f"version: {checkpoint.version}"]
    for entry in checkpoint.entries:
        if isinstance(entry, EpochEntry):
            lines.append(f"epoch: {entry.epoch} startOffset: {entry.start_offset}")
        elif isinstance(entry, TopicPartitionOffset):
            lines.append(f"topic: {entry.topic} partition: {entry.partition} offset: {entry.offset}")
        else:
            lines.append(f"{entry.name}: {'null' if entry.value is None else entry.value}")
    return "".join(f"{line}\n" for line in map(escape, lines))
