"""The input of a load: a partition directory with its files, and the checkpoints of its log directory."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.broker.load.recover import MAX_BATCH_BYTES, MAX_INDEX_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.format.source import Source

PRODUCER_EXPIRATION = 86_400_000  # producer.id.expiration.ms
DELETE = "delete"


class Start(Enum):
    """The kind of a broker's start.

    CLEAN: as if `.kafka_cleanshutdown` were there. UNCLEAN: without it, by the recovery points of the checkpoint file.
    FULL: without it and without recovery points, so that every segment is recovered.
    """

    CLEAN = "clean"
    UNCLEAN = "unclean"
    FULL = "full"


class PartitionFacts(Value):
    """One partition as a broker finds it.

    Args:
        path: of the directory, as the user wrote it.
        topic, partition: by its name.
        state: "", "delete", "future" or "stray", by its name.
        files: the regular files in it by name; read when they are needed, nothing is opened for writing.
        interval: index.interval.bytes, of the topic.
        now: the broker's clock, ms since the epoch: producers expire by it.
        log_start: by the log-start-offset-checkpoint, 0 when it has none.
        recovery_point: by the recovery-point-offset-checkpoint, 0 when it has none.
        max_index_bytes: segment.index.bytes.
        producer_expiration: producer.id.expiration.ms.
        max_batch_bytes, max_uncompressed_bytes: limits of ours: over them the records of a control batch are not read.
    """

    path: str
    topic: str
    partition: int
    state: str
    files: Mapping[str, Source]
    interval: int
    now: int
    log_start: int = 0
    recovery_point: int = 0
    max_index_bytes: int = MAX_INDEX_BYTES
    producer_expiration: int = PRODUCER_EXPIRATION
    max_batch_bytes: int = MAX_BATCH_BYTES
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES

    @property
    def name(self) -> str:
        """Topic and partition as Kafka's messages have them."""
        return f"{self.topic}-{self.partition}"
