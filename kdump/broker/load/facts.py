"""The input and the result of a load.

`PartitionFacts` is a partition directory with its files, and the checkpoints of its log directory. `Outcome` is what
becomes of it: its segments, offsets and files. What verify predicts is what reindex and truncate write.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.broker.releases import Rules, rules_of
from kdump.format.index.offset_and_time import INDEX_BYTES
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.broker.load.disk import Disk
    from kdump.format.source import Source
    from kdump.rows.verdict import TornBatch

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
    """One partition as a broker finds it."""

    path: str  # of the directory, as the user wrote it
    # topic, partition: by its name
    topic: str
    partition: int
    state: str  # "", "delete", "future" or "stray", by its name
    # the regular files in it by name; read when they are needed, nothing is opened for writing
    files: Mapping[str, Source]
    interval: int  # index.interval.bytes, of the topic
    now: int  # the broker's clock, ms since the epoch: producers expire by it
    log_start: int = 0  # by the log-start-offset-checkpoint, 0 when it has none
    recovery_point: int = 0  # by the recovery-point-offset-checkpoint, 0 when it has none
    rules: Rules = rules_of()  # of the broker's release
    max_index_bytes: int = INDEX_BYTES  # segment.index.bytes
    producer_expiration: int = PRODUCER_EXPIRATION  # producer.id.expiration.ms
    # max_batch_bytes, max_uncompressed_bytes: limits of ours: over them the records of a control batch are not read
    max_batch_bytes: int = MAX_BATCH_BYTES
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES

    @property
    def name(self) -> str:
        """Topic and partition as Kafka's messages have them."""
        return f"{self.topic}-{self.partition}"


class Action(Enum):
    """What becomes of one segment."""

    KEEP = "keep"
    REBUILD_INDEX = "rebuild-index"
    TRUNCATE = "truncate"
    EMPTY = "empty"
    DELETE = "delete"
    SPLIT = "split"
    CREATE = "create"
    REPLACE = "replace"


class Stops(Enum):
    """What ends where a partition cannot be loaded.

    BROKER: the process. LOG_DIR: the broker takes the log directory offline, and ends when it has no other.
    """

    BROKER = "broker"
    LOG_DIR = "logdir"


class SegmentOutcome(Value):
    """One segment."""

    base_offset: int  # of the segment
    action: Action  # what becomes of it
    size: int  # of its log afterwards, bytes; 0 where it is deleted
    size_before: int  # of its log before, bytes; 0 where there was none
    # what its log had is in others afterwards: it was split, or compaction is finished in its place
    is_elsewhere: bool = False

    @property
    def bytes_lost(self) -> int:
        """Bytes that are cut off or deleted."""
        return 0 if self.is_elsewhere else max(0, self.size_before - self.size)


class Outcome(Value):
    """What becomes of a partition."""

    disk: Disk  # the files before and afterwards; as they are when it ended where it does not load
    segments: list[SegmentOutcome]  # by base offset; none where the partition does not load
    # log_start_offset, log_end_offset: afterwards; None where it does not load
    log_start_offset: int | None
    log_end_offset: int | None
    # bytes_lost, records_lost: of logs, that are cut off or deleted, also where it does not load in the end; records in
    # batches whose CRC is right
    bytes_lost: int = 0
    records_lost: int = 0
    stops: Stops | None = None  # what ends because of it, None where it loads
    exception: str = ""  # class and message as Java prints them; empty where it loads
    # files that were moved aside or thrown away on the way, and other things to know, in plain words
    notes: tuple[str, ...] = ()
    has_unstable: bool = False  # a transaction was open or has ended at last, so the broker looks for the offset of it
    # that stay on disk, could be read before, and are outside of the log now; none of them is lost
    hidden_records: int = 0
    # first and last of those that right batches have today, and a torn one, and that are given out again; None for
    # none. By the right base offset where one is wrong.
    reused_offsets: tuple[int, int] | None = None
    torn: TornBatch | None = None  # the torn batch with which the log ended; None for none
    # stage, row: what the broker was at when it threw, and the base offset of the segment where it was at one
    stage: str = ""
    row: int = 0
    latest_epoch: int = -1  # the newest leader epoch of the log afterwards, -1 for none
    bytes_read: int = 0  # of logs, that a broker reads to recover segments and to learn producers
    served_lost: int = 0  # of the records that are lost, those that lie not below the log start offset

    @property
    def loads(self) -> bool:
        """Whether a broker has the partition afterwards."""
        return self.stops is None

    @property
    def has_bad_epochs(self) -> bool:
        """Whether it is the leader-epoch-checkpoint that does not make sense, and no batch."""
        return self.stage == "epochs" and "Received invalid partition leader epoch entry" not in self.exception

    @property
    def java_class(self) -> str:
        """The class of the exception, with its package; empty where there is none."""
        return self.exception.partition(":")[0]
