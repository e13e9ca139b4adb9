"""The kinds of files that a broker writes."""

from __future__ import annotations

from enum import Enum


class FileKind(Enum):
    """The kind of a broker's file; a small text file by Kafka's name for it."""

    LOG = "log"
    INDEX = "index"
    TIMEINDEX = "timeindex"
    TXNINDEX = "txnindex"
    SNAPSHOT = "snapshot"
    CHECKPOINT = "checkpoint"  # a snapshot of the metadata log, in the format of a log
    EPOCHS = "leader-epoch-checkpoint"
    RECOVERY_POINT = "recovery-point-offset-checkpoint"
    LOG_START = "log-start-offset-checkpoint"
    REPLICATION = "replication-offset-checkpoint"
    CLEANER = "cleaner-offset-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    META_PROPERTIES = "meta.properties"
    QUORUM_STATE = "quorum-state"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    UNKNOWN = "unknown"


TEXT_KINDS = (
    FileKind.META_PROPERTIES,
    FileKind.RECOVERY_POINT,
    FileKind.LOG_START,
    FileKind.REPLICATION,
    FileKind.CLEANER,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.EPOCHS,
    FileKind.PARTITION_METADATA,
    FileKind.QUORUM_STATE,
)
"""What `read_checkpoint` reads, in the order in which a directory is shown."""

OFFSET_KINDS = (FileKind.RECOVERY_POINT, FileKind.REPLICATION, FileKind.LOG_START, FileKind.CLEANER)
"""The checkpoints of a log directory: an offset for each partition."""
