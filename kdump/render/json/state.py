"""The small files as JSON: transaction indexes, producer snapshots, checkpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.format.checkpoint.checkpoint_file import Checkpoint, EpochEntry, TopicPartitionOffset
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
from kdump.format.index.transaction_index import AbortedTxn
from kdump.rows.json_lines import line, name, safe_text, safe_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.checkpoint.checkpoint_file import Entry
    from kdump.item import Item

_AT_ONCE = 1000  # entries


def state_json(item: Item, file: str, entry: int) -> Iterator[str]:
    """Yield the line of an item of a small file in pieces, its end included; a checkpoint may have very many entries.

    Args:
        item: AbortedTxn, ProducerStateEntry or Checkpoint; nothing for others.
        file: the path as the user wrote it.
        entry: number of the entry in its file.
    """
    if isinstance(item, AbortedTxn):
        yield f"{line('txnindex', {'file': name(file), 'entry': entry, **_aborted(item)})}\n"
    elif isinstance(item, ProducerStateEntry):
        yield f"{line('snapshot', {'file': name(file), **_producer(item)})}\n"
    elif isinstance(item, Checkpoint):
        head = line("checkpoint", {"file": name(file), "kind": item.kind.value, "entries": []})
        yield head[: -len("]}")]
        for first in range(0, len(item.entries), _AT_ONCE):
            texts = [_entry(one) for one in item.entries[first : first + _AT_ONCE]]
            yield ("," if first else "") + ",".join(texts)
        yield "]}\n"


def _aborted(txn: AbortedTxn) -> dict[str, object]:
    return {
        "version": txn.version,
        "producerId": txn.producer_id,
        "firstOffset": txn.first_offset,
        "lastOffset": txn.last_offset,
        "lastStableOffset": txn.last_stable_offset,
    }


def _producer(entry: ProducerStateEntry) -> dict[str, object]:
    """The names of DumpLogSegments.dumpProducerIdSnapshot; what a producer does not have is null."""
    known = entry.has_batch
    return {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
        "lastTimestamp": entry.timestamp,
        "firstSequence": entry.first_sequence if known else None,
        "lastSequence": entry.last_sequence if known else None,
        "lastOffset": entry.last_offset if known else None,
        "offsetDelta": entry.offset_delta if known else None,
        "timestamp": entry.timestamp if known else None,
    }


def _entry(entry: Entry) -> str:
    values: dict[str, object]
    if isinstance(entry, EpochEntry):
        values = {"epoch": entry.epoch, "startOffset": entry.start_offset}
    elif isinstance(entry, TopicPartitionOffset):
        values = {"topic": safe_text(entry.topic), "partition": entry.partition, "offset": entry.offset}
    else:
        values = {"name": safe_text(entry.name), "value": safe_value(entry.value)}
    return json.dumps(values, separators=(",", ":"))
