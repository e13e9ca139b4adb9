"""What brokers and consumers log about their files: each message by a pattern, and what kdump says to it.

People arrive with a line of server.log. Classes and texts are those of Kafka's sources; where releases differ, the
pattern has both.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator

_STORAGE = "org.apache.kafka.common.errors.KafkaStorageException"
_CORRUPT_RECORD = "org.apache.kafka.common.errors.CorruptRecordException"
_CORRUPT_INDEX = "CorruptIndexException"
_KAFKA = "org.apache.kafka.common.KafkaException"
_IO = "java.io.IOException"
_LOGGED = "a line of the log, no exception"
_VERIFY = ("verify", "LOGDIR")
_NEXT_START = ("verify", "LOGDIR", "--start", "auto")
_WHOLE_NODE = ("verify", "server.properties")  # all its log directories, and the ids of its settings
_OFFLINE = (
    "the broker has taken a log directory offline after an error of reading or writing: the cause is in the lines "
    "above, or below"
)
_BETWEEN = ".{0,500}?"


class Exactness(IntEnum):
    """How much of what went wrong a message has, the most first: it decides what is shown of a text with several."""

    CAUSE = 0  # what is wrong
    EFFECT = 1  # what a broker does because of it, or which of its parts suffers: shown behind the cause
    PLACE = 2  # which part failed, or which file it was about, and not why
    FAILURE = 3  # that something failed


class BrokerMessage(TupleValue):
    """A message, and where it leads."""

    pattern: str  # a regular expression, for a line in which blanks are single; .* is of one message, so not long
    java_class: str  # the class of the exception, or that it is only logged
    releases: str  # that say so
    means: str
    findings: str = ""  # the codes of those that show it: a reader is led there, nothing hangs on them
    command: tuple[str, ...] = _VERIFY  # to run now
    runbook: str = ""  # its name; empty for none
    exactness: Exactness = Exactness.CAUSE


class Match(TupleValue):
    """A message that a text has."""

    message: BrokerMessage
    words: str  # of the text that show it, whole words


MESSAGES = (
    # --- indexes
    BrokerMessage(
        r"Corrupt index found|index file \(?\S+\)? has non-zero size but the last offset", _CORRUPT_INDEX, "0.8 to 4.4",
        "the last entry of an offset index is below the base offset of its segment: the broker builds the index again, "
        "which takes time and loses nothing",
        "X02 X03 X07", runbook="corrupt-index",
    ),
    BrokerMessage(
        r"Index file \S+ is corrupt, found \d+ bytes which is (?:neither positive|not positive nor a multiple|not)",
        _CORRUPT_INDEX, "0.8 to 4.4",
        "the size of an index is no whole number of entries: it was cut, or is no index; the broker builds it again",
        "X01 T01", runbook="corrupt-index",
    ),
    BrokerMessage(
        r"Corrupt time index found", _CORRUPT_INDEX, "0.10.1 to 4.4",
        "the last entry of a time index has a lower time than its first one, or an offset below the segment: the "
        "broker builds it again",
        "T02 T03", runbook="corrupt-index",
    ),
    BrokerMessage(
        r"Found a corrupted index file|Found an orphaned index file", _LOGGED, "0.8 to 4.4",
        "an index does not fit, or has no log beside it: the broker builds it again, or removes it",
        "X01 X02 X07 F08", runbook="corrupt-index",
    ),
    BrokerMessage(
        r"Could not find (?:offset|time) ?index file corresponding to log file", _LOGGED, "0.8 to 4.4",
        "an index is missing: the broker recovers the segment and builds it again",
        "F09", runbook="corrupt-index",
    ),
    BrokerMessage(
        r"Attempt to append an offset .* no larger than the last offset appended", "InvalidOffsetException",
        "0.8 to 4.4",
        "the offset index is ahead of its log, or offsets of the log go back: appends fail until the index is rebuilt",
        "X07 X03 O03", runbook="corrupt-index",
    ),
    BrokerMessage(
        r"Attempt to append to a full (?:time )?index", "java.lang.IllegalArgumentException", "0.8 to 4.4",
        "an index has no room: the segment is to be rolled; entries that are wrong can cause it",
        "X01 X03",
    ),
    BrokerMessage(
        r"Map failed|OutOfMemoryError: Map", "java.lang.OutOfMemoryError", "0.8 to 4.4",
        "the system cannot map more indexes: raise vm.max_map_count; no file is damaged by it",
        "", ("du", "LOGDIR"),
    ),
    # --- transaction indexes and producers
    BrokerMessage(
        r"Last offset of aborted transaction .* is less than start offset|Unexpected aborted transaction version",
        _CORRUPT_INDEX, "0.11 to 4.4",
        "the index of aborted transactions contradicts its log: readers of committed data may see aborted records",
        "A01 A02 A03",
    ),
    BrokerMessage(
        r"Snapshot (?:is corrupt|contained an unknown|file .* is corrupt)|CorruptSnapshotException",
        "CorruptSnapshotException", "0.11 to 4.4",
        "a producer snapshot is damaged: the broker throws it away and reads the log instead, which takes time",
        "S01",
    ),
    BrokerMessage(
        r"OutOfOrderSequence|Out of order sequence number",
        "org.apache.kafka.common.errors.OutOfOrderSequenceException", "0.11 to 4.4",
        "a producer's sequence does not follow the last one that the broker knows: records are missing, or its "
        "snapshot is older than the log",
        "P01 S03",
    ),
    BrokerMessage(
        r"InvalidProducerEpoch|ProducerFenced|has (?:an )?(?:older|smaller) epoch|"
        r"Producer attempted (?:to produce )?with",
        "org.apache.kafka.common.errors.InvalidProducerEpochException", "0.11 to 4.4",
        "a producer with the same transactional id, or the coordinator, has raised the epoch: the older one is out",
        "P02", ("transactions", "LOGDIR"),
    ),
    BrokerMessage(
        r"Invalid coordinator epoch|TransactionCoordinatorFenced", "TransactionCoordinatorFencedException",
        "0.11 to 4.4",
        "a marker of an older coordinator came to a partition, and was refused: its transaction may hang",
        "P05", ("transactions", "LOGDIR", "--hanging"), runbook="blocked-readers",
    ),
    # --- logs and their recovery
    BrokerMessage(
        r"Corruption found in segment|Found invalid messages in log segment", _LOGGED, "0.8 to 4.4",
        "a recovery has met a batch that is damaged: the broker cuts the log there, and deletes all later segments",
        "B01 L02 L07", ("verify", "LOGDIR", "--start", "all"), runbook="not-starting",
    ),
    BrokerMessage(
        r"Truncating (?:to offset|\S+ to offset|partition .* with) ",
        _LOGGED, "0.8 to 4.4",
        "the broker cuts the end of a log: after a crash what is torn, as a follower what its leader does not have",
        "K01 K08 L02", ("verify", "--replicas", "LOGDIR", "OTHER"),
        exactness=Exactness.EFFECT,
    ),
    BrokerMessage(
        r"Record size \S+ is (?:less|smaller) than|(?:less|smaller) than (?:the )?minimum record overhead",
        _CORRUPT_RECORD, "0.11 to 4.4",
        "where a batch should begin there is none: mostly zero bytes, which a crash or a full disk has left, or a "
        "length that is damaged; consumers and followers stop there",
        "L03 L04 L05", runbook="consumers-stuck",
    ),
    BrokerMessage(
        r"Record is corrupt|Found record size|Message is corrupt|"
        r"CorruptRecordException|CORRUPT_MESSAGE|crc = |fails its CRC|InvalidMessageException",
        _CORRUPT_RECORD, "0.8 to 4.4",
        "bytes of a batch are not those that were written: consumers and followers stop there",
        "B01 B02 L05 L07", runbook="consumers-stuck",
    ),
    BrokerMessage(
        r"Found invalid (?:record )?(?:count|batch)|Invalid (?:magic|record)|"
        r"Unknown magic byte|Magic v\d+ does not support|InvalidRecordException",
        "org.apache.kafka.common.InvalidRecordException", "0.11 to 4.4",
        "a header or a record makes no sense though its length does",
        "B03 B04 B08 R01 R02 R03", runbook="consumers-stuck",
    ),
    BrokerMessage(
        r"Unexpected (?:EOF|end of file)|EOFException|reached end of (?:file|stream)",
        "java.io.EOFException", "0.8 to 4.4",
        "a file ends before what it announces: it was cut, or is still being copied",
        "L01 L02 X01",
        exactness=Exactness.PLACE,
    ),
    BrokerMessage(
        r"Skipping recovery (?:for all logs|of \d+ logs)|since clean shutdown file was found|"
        r"Fail to read the clean shutdown",
        _LOGGED, "0.8 to 4.4",
        "the broker was closed in order: it recovers nothing, and believes its indexes and checkpoints",
        "", _NEXT_START,
        exactness=Exactness.EFFECT,
    ),
    BrokerMessage(
        r"Attempting recovery for all logs|Recovering unflushed segment|no clean shutdown file was found",
        _LOGGED, "0.8 to 4.4",
        "the broker was not closed in order: it reads every segment from the recovery point on",
        "", ("verify", "LOGDIR", "--start", "unclean"), runbook="not-starting",
        exactness=Exactness.EFFECT,
    ),
    BrokerMessage(
        r"LogSegmentOffsetOverflow|Detected offset overflow at offset|Splitting overflowed segment",
        "LogSegmentOffsetOverflowException", "1.1 to 4.4",
        "a segment has offsets more than 2^31 above its name, from an older release: the broker splits it",
        "O02",
    ),
    BrokerMessage(
        r"Trying to roll a new log segment .* while it already exists|already exists and is active", _KAFKA,
        "0.8 to 4.4",
        "a segment of the next offset is there already: a copy, or what a crash has left",
        "F02 O06",
    ),
    BrokerMessage(
        r"Out of order offsets found|OffsetsOutOfOrder",
        "org.apache.kafka.common.errors.OffsetOutOfRangeException", "0.8 to 4.4",
        "offsets of what is to be appended go back: a replica has a log that its leader does not have",
        "O03 O08", ("verify", "--replicas", "LOGDIR", "OTHER"),
    ),
    BrokerMessage(
        r"UnexpectedAppendOffset", "UnexpectedAppendOffsetException", "2.0 to 4.4",
        "a follower was sent a batch that begins below its end: the logs of two replicas part inside a batch",
        "D01 D03", ("verify", "--replicas", "LOGDIR", "OTHER"),
    ),
    BrokerMessage(
        r"RecordTooLarge|RecordBatchTooLarge|larger than the maximum (?:record|message) size|MessageSizeTooLarge",
        "org.apache.kafka.common.errors.RecordTooLargeException", "0.8 to 4.4",
        "a batch is larger than max.message.bytes, or than what the consumer takes: no file is damaged",
        "", ("dump", "LOG", "--stats"), runbook="consumers-stuck",
    ),
    BrokerMessage(
        r"UnsupportedCompressionType|Unsupported compression|NoClassDefFoundError: .*(?:Snappy|Zstd|LZ4)|"
        r"Unknown compression type",
        "org.apache.kafka.common.errors.UnsupportedCompressionTypeException", "0.9 to 4.4",
        "the codec of a batch does not exist, or the reader does not have it",
        "B05 C05",
    ),
    BrokerMessage(
        r"LZ4 (?:stream|block|frame)|Stream frame descriptor corrupted|ZstdIOException|PARSING_ERROR|"
        r"FAILED_TO_UNCOMPRESS|"
        r"Not in GZIP format|invalid (?:block type|distance|stored block)",
        _IO, "0.8 to 4.4",
        "compressed records cannot be decompressed: consumers stop at this batch, though its CRC may be right",
        "C01 C02 C04", runbook="consumers-stuck",
    ),
    # --- swap and leftovers
    BrokerMessage(
        r"Found log file .* from interrupted swap operation|Deleting invalid swap file|\.swap\b",
        _LOGGED, "0.8 to 4.4",
        "a cleaning or a split was interrupted: the broker puts in place what was finished, and removes the rest",
        "F08 F19", _NEXT_START,
        exactness=Exactness.EFFECT,
    ),
    # --- checkpoints
    BrokerMessage(
        r"Malformed line in (?:checkpoint|offset checkpoint) file|"
        r"Expected \d+ entries (?:in checkpoint file|but found)",
        _IO, "0.8 to 4.4",
        "a checkpoint is no text of its format, often NUL bytes after a power loss: the broker takes the log directory "
        "offline, or reads every segment",
        "K03 K04", runbook="refused-checkpoints",
    ),
    BrokerMessage(
        r"Error (?:while )?(?:reading|writing to) checkpoint file", _STORAGE, "0.8 to 4.4",
        "a checkpoint of a log directory cannot be read or written: the disk is full or failing, or the file is "
        "malformed; the cause is in the lines below",
        "K03 F06", _NEXT_START, runbook="refused-checkpoints",
        exactness=Exactness.PLACE,
    ),
    BrokerMessage(
        r"Received invalid partition leader epoch entry|New epoch entry .* caused truncation of conflicting",
        "java.lang.IllegalArgumentException", "0.11 to 4.4",
        "the leader epochs of a log or of leader-epoch-checkpoint go back, or are negative",
        "E01 E02 K04",
    ),
    BrokerMessage(
        r"Cannot increment the log start offset to .* larger than the high watermark|"
        r"log ?start ?offset .* (?:is )?(?:larger|greater) than",
        "org.apache.kafka.common.errors.OffsetOutOfRangeException", "0.11 to 4.4",
        "the log start offset is above the end of the log: a broker deletes all segments",
        "K02", runbook="delete-records",
    ),
    # --- meta.properties, partition.metadata, directories
    BrokerMessage(
        r"Duplicate log directories? (?:found|are found)|Duplicate log director", "java.lang.IllegalStateException",
        "1.0 to 4.4",
        "one partition lies in two log directories of a broker: it does not start with both",
        "F12", ("verify", "LOGDIR", "LOGDIR2"), runbook="moving",
    ),
    BrokerMessage(
        r"Found directory .* is not in the form of topic-partition",
        _KAFKA, "0.8 to 4.4",
        "a directory in the log directory is none of a partition, as lost+found or a copy: the broker does not start",
        "F11", runbook="not-starting",
    ),
    BrokerMessage(
        r"Invalid cluster\.?id", "java.lang.RuntimeException", "3.7 to 4.4",
        "meta.properties of two log directories of the broker are of two clusters: the wrong volume is mounted, or the "
        "cluster was made anew; never change the file so that it fits before you know which",
        "K10", _WHOLE_NODE,
    ),
    BrokerMessage(
        r"INCONSISTENT_CLUSTER_ID|given id \S+ doesn't match the cluster id",
        "org.apache.kafka.common.errors.InconsistentClusterIdException", "2.8 to 4.4",
        "another node of the quorum refuses this one, as the two are of two clusters: one has the wrong volume, or was "
        "formatted anew; never change meta.properties so that it fits before you know which",
        "K10", ("verify", "LOGDIR", "LOGDIR_OF_THE_OTHER"),
    ),
    BrokerMessage(
        r"InconsistentClusterId|cluster\.?id .* (?:doesn't|does not) match",
        "kafka.common.InconsistentClusterIdException", "2.4 to 3.6",
        "meta.properties is that of another cluster: the wrong volume is mounted, or the cluster was made anew; never "
        "change the file so that it fits before you know which",
        "K10", _WHOLE_NODE,
    ),
    BrokerMessage(
        r"Stored node id", "java.lang.RuntimeException", "3.7 to 4.4",
        "meta.properties is that of another broker than node.id of the configuration says, or another log directory: "
        "the volumes of two brokers were exchanged",
        "K11 M05", _WHOLE_NODE,
    ),
    BrokerMessage(
        r"InconsistentBrokerId|Configured broker\.id .* doesn't match|Stored broker(?:\.| )id",
        "kafka.common.InconsistentBrokerIdException", "0.8 to 3.6",
        "meta.properties is that of another broker: the volumes of two brokers were exchanged",
        "K11 M05", _WHOLE_NODE,
    ),
    BrokerMessage(
        r"Duplicate directory ID", "java.lang.RuntimeException", "3.7 to 4.4",
        "two log directories have one directory.id: a volume was cloned",
        "K11 M04", _WHOLE_NODE,
    ),
    BrokerMessage(
        r"No `?meta\.properties`? found in|No readable meta\.properties",
        "java.lang.RuntimeException", "2.8 to 4.4",
        "meta.properties is missing: a new or an empty disk is mounted, or the directory was never formatted",
        "K03 M04", _WHOLE_NODE, runbook="refused-checkpoints",
    ),
    BrokerMessage(
        r"Failed to load \S+ during broker startup|Error while reading meta\.properties file", _IO, "2.2 to 4.4",
        "meta.properties of this log directory is there, and cannot be read or is malformed: the broker does without "
        "the directory, or ends when it is the last one",
        "F06 K03 K12", _WHOLE_NODE, runbook="refused-checkpoints",
    ),
    BrokerMessage(
        r"Failed to create data directory|is not a readable log directory", _IO, "0.8 to 4.4",
        "a log directory cannot be made or read, or is no directory: its volume is not mounted, or owner and mode keep "
        "the broker out",
        "K12", _WHOLE_NODE,
    ),
    BrokerMessage(
        r"Failed to create or validate data directory|none of the specified log dirs .*can be created or validated",
        _IO, "1.0 to 4.4",
        "a log directory cannot be made or read, or is no directory: the cause follows in the same trace",
        "K12 F06", _WHOLE_NODE, exactness=Exactness.PLACE,
    ),
    BrokerMessage(
        r"Inconsistent topic ?id|InconsistentTopicId|"
        r"Tried to assign topic ID .* but (?:log|partition) already contained",
        "org.apache.kafka.common.errors.InconsistentTopicIdException", "2.8 to 4.4",
        "a partition directory is of an older topic of the same name, or of another cluster",
        "K09 M03",
    ),
    BrokerMessage(
        r"(?:Malformed line in|Unrecognized version of|Invalid topic ID in) partition metadata file|"
        r"partition metadata file .*is malformed",
        _IO, "2.8 to 4.4",
        "the file with the topic id of a partition is malformed, often empty after a power loss",
        "K05", runbook="not-starting",
    ),
    BrokerMessage(
        r"partition\.metadata|(?:reading|writing|in|version of) partition metadata file", _STORAGE, "2.8 to 4.4",
        "the file with the topic id of a partition cannot be read or written, often as a power loss has left it empty",
        "K05", runbook="not-starting",
        exactness=Exactness.PLACE,
    ),
    BrokerMessage(
        r"[Ss]tray (?:log|replica|partition|dir)|-stray\b|Found stray", _LOGGED, "3.0 to 4.4",
        "the cluster does not have this partition on this broker: it is renamed to -stray, and nothing of it is served",
        "M01 K05", ("cluster", "LOGDIR", "--check", "LOGDIR"),
    ),
    BrokerMessage(
        r"Failed to acquire lock on file .*\.lock|A Kafka instance in another process or thread is using",
        _KAFKA, "0.8 to 4.4",
        "another broker, or the same one still ending, has the log directory",
        "", ("verify", "LOGDIR"),
    ),
    BrokerMessage(
        r"AtomicMoveNotSupported|AccessDenied|Permission denied",
        "java.nio.file.AccessDeniedException", "0.8 to 4.4",
        "a file or directory belongs to somebody else, or its mode keeps the broker out: often after a copy as root",
        "K12",
    ),
    # --- the disk
    BrokerMessage(
        r"No space left(?: on device)?|disk is full|ENOSPC", _IO, "0.8 to 4.4",
        "the disk is full: the broker takes the log directory offline; checkpoints may be left empty",
        "K03 L02", ("du", "LOGDIR"), runbook="disk-full",
    ),
    BrokerMessage(
        r"Input/output(?: error)?|EIO\b|Read-only file system", _IO, "0.8 to 4.4",
        "the disk fails: every read may be its last",
        "F06", runbook="bad-sectors",
    ),
    BrokerMessage(
        r"Stopping serving (?:logs|replicas) in dir|Log ?dir(?:ectory)? \S+ is (?:already )?offline|"
        r"Shutdown broker because all log dirs",
        _STORAGE, "1.0 to 4.4", _OFFLINE,
        "F06 K03", _NEXT_START, runbook="not-starting", exactness=Exactness.PLACE,
    ),
    BrokerMessage(
        r"LogDirFailure|KafkaStorageException", _STORAGE, "1.0 to 4.4", _OFFLINE,
        "F06 K03", _NEXT_START, runbook="not-starting", exactness=Exactness.FAILURE,
    ),
    BrokerMessage(
        r"Too many open files", _IO, "0.8 to 4.4",
        "the limit of open files is too low for the segments: no file is damaged by it", "", ("du", "LOGDIR"),
    ),
    BrokerMessage(
        r"Error while (?:loading|renaming|flushing|appending|deleting|rolling) (?:log|records|segment|dir)|"
        r"There was an error in one of the threads during (?:logs loading|LogManager)",
        _STORAGE, "0.8 to 4.4",
        "a log could not be loaded or written: the cause follows in the same trace",
        "", _NEXT_START, runbook="not-starting",
        exactness=Exactness.PLACE,
    ),
    # --- the cleaner
    BrokerMessage(
        r"Error (?:due to|in cleaner)|Unexpected exception thrown when cleaning|"
        r"Marking its partition .* as uncleanable",
        "java.lang.IllegalStateException", "0.9 to 4.4",
        "the cleaner has met a segment that it cannot read: nothing is compacted until it is mended, and disks fill",
        "B01 C01 O03", ("retention", "LOGDIR", "--compaction"), runbook="disk-full",
        exactness=Exactness.EFFECT,
    ),
    BrokerMessage(
        r"This log contains a message larger than maximum allowable size|offset map",
        "java.lang.IllegalStateException", "0.8 to 4.4",
        "the buffers of the cleaner are too small for a segment or a batch: no file is damaged by it",
        "", ("retention", "LOGDIR", "--compaction"),
    ),
    BrokerMessage(
        r"Resetting first dirty offset|dirty offset .* (?:smaller|larger) than", _LOGGED, "0.9 to 4.4",
        "what cleaner-offset-checkpoint says does not fit the log: the cleaner begins again",
        "K01", ("retention", "LOGDIR", "--compaction"),
        exactness=Exactness.EFFECT,
    ),
    # --- the metadata log
    BrokerMessage(
        r"Inconsistent snapshot state", "java.lang.IllegalStateException", "3.0 to 4.4",
        "the metadata log begins above 0, and the snapshot of what was below is missing",
        "L18", runbook="not-starting",
    ),
    BrokerMessage(
        r"Error (?:replaying|applying|loading) metadata|Encountered (?:initial broker )?metadata \w+ fault|"
        r"Unhandled (?:error|fault) (?:initializing|publishing|in MetadataLoader)|Error applying \w+ delta in|"
        r"unexpected metadata location",
        "org.apache.kafka.server.fault.FaultHandlerException", "3.3 to 4.4",
        "a record of the metadata log cannot be read or applied",
        "B01 L21", ("cluster", "LOGDIR"), runbook="not-starting",
        exactness=Exactness.EFFECT,
    ),
    BrokerMessage(
        r"Error starting (?:LogManager|ReplicaManager|high watermark checkpoint thread)",
        "org.apache.kafka.server.fault.FaultHandlerException", "3.3 to 4.4",
        "the broker could not load its log directories, and ends: the cause is in the lines below",
        "", _NEXT_START, runbook="not-starting", exactness=Exactness.PLACE,
    ),
    BrokerMessage(
        r"Error starting (?:Group ?Coordinator|Transaction ?Coordinator|Share ?coordinator)",
        "org.apache.kafka.server.fault.FaultHandlerException", "3.3 to 4.4",
        "a coordinator of the broker could not start, and the broker ends: the cause is in the lines below",
        "", _NEXT_START, runbook="not-starting", exactness=Exactness.PLACE,
    ),
    BrokerMessage(
        r"Fatal error during \S+ (?:startup|shutdown)|Exiting Kafka due to fatal exception|"
        r"Encountered [\w ]+ fault|Got exception while starting|Unexpected error in raft IO thread|"
        r"Exception in thread \"main\"|Failed to start (?:Kafka|broker|controller)",
        _LOGGED, "0.8 to 4.4",
        "the node ends, and this line does not say why: the cause is in the lines below, or above; give these to "
        "kdump explain too, which reads them from standard input by the name -",
        "", _NEXT_START, runbook="not-starting", exactness=Exactness.FAILURE,
    ),
    BrokerMessage(
        r"Unexpected error [A-Z_]+ in [A-Z_]+ response", _LOGGED, "2.8 to 4.4",
        "another node of the quorum refuses what this one asks, for the error that the line names: its own log, at the "
        "same time, says why",
        "", ("cluster", "LOGDIR"), exactness=Exactness.FAILURE,
    ),
    BrokerMessage(
        r"quorum-state|QuorumStateStore", "java.io.UncheckedIOException", "2.8 to 4.4",
        "the file with the last vote of a controller is malformed: without it the node may vote twice in one epoch",
        "K03",
        exactness=Exactness.PLACE,
    ),
    # --- consumers and followers
    BrokerMessage(
        r"OffsetOutOfRange|Fetch position .* is out of range|offset .* is out of range|OFFSET_OUT_OF_RANGE",
        "org.apache.kafka.common.errors.OffsetOutOfRangeException", "0.8 to 4.4",
        "a group committed an offset that is below the log start, or above the end: auto.offset.reset applies",
        "K01 L14 L15", ("groups", "LOGDIR", "--lag"), runbook="consumers-stuck",
    ),
    BrokerMessage(
        r"Received exception when fetching the next record|please seek past the record|"
        r"Record for partition .* at offset .* is invalid",
        _KAFKA, "0.10 to 4.4",
        "a consumer stopped at a batch that is damaged: every consumer does, at that offset",
        "B01 C01 R01", ("find-offset", "LOGDIR/TOPIC-N", "OFFSET"), runbook="consumers-stuck",
    ),
    BrokerMessage(
        r"diverg(?:ing|ed) epoch|LogTruncation|Truncation detected|log truncation", "LogTruncationException",
        "2.3 to 4.4",
        "what a consumer had read is not in the log of the leader any more: an election has lost it",
        "D01 K08", ("verify", "--replicas", "LOGDIR", "OTHER"),
    ),
    BrokerMessage(
        r"UNKNOWN_LEADER_EPOCH|FENCED_LEADER_EPOCH|FencedLeaderEpoch|UnknownLeaderEpoch",
        "org.apache.kafka.common.errors.FencedLeaderEpochException", "2.1 to 4.4",
        "a client or a follower knows another leader epoch than the broker: it asks again; lasting, epochs were lost",
        "K04 E03", ("verify", "--replicas", "LOGDIR", "OTHER"),
    ),
    BrokerMessage(
        r"NotEnoughReplicas|NOT_ENOUGH_REPLICAS|fewer in-sync replicas", "NotEnoughReplicasException", "0.8 to 4.4",
        "fewer replicas than min.insync.replicas are in sync: find out why the others are not before one is elected",
        "", ("verify", "--replicas", "LOGDIR", "OTHER"), runbook="replicas-damaged",
        exactness=Exactness.EFFECT,
    ),
    BrokerMessage(
        r"[Uu]nclean leader election", _LOGGED, "0.8 to 4.4",
        "a replica that was not in sync leads: what only the others had is cut from them",
        "D01 K08", ("verify", "--replicas", "LOGDIR", "OTHER"), runbook="replicas-damaged",
    ),
    BrokerMessage(
        r"Error (?:loading|while loading|reading) (?:offsets|group metadata|transaction metadata)|"
        r"CoordinatorLoadInProgress|COORDINATOR_LOAD_IN_PROGRESS|Unknown group metadata (?:message )?version",
        "org.apache.kafka.common.errors.CoordinatorLoadInProgressException", "0.9 to 4.4",
        "a coordinator reads __consumer_offsets or __transaction_state: a damaged or very large log keeps it at that",
        "B01 R07", ("groups", "LOGDIR"), runbook="consumers-stuck",
        exactness=Exactness.EFFECT,
    ),
    BrokerMessage(
        r"RemoteStorageException|RemoteResourceNotFound|Error occurred while (?:copying|reading) .*remote",
        "org.apache.kafka.server.log.remote.storage.RemoteStorageException", "3.6 to 4.4",
        "a segment of tiered storage cannot be read or written there: what is local is not concerned",
        "", ("verify", "LOGDIR"),
    ),
)  # fmt: skip


def messages_in(text: str) -> Iterator[Match]:
    """Yield what a text has of brokers' messages, the most exact first.

    Of two that are equally exact, the one with the longer words comes first. Where a cause or an effect is there, that
    something failed is no news; else only the most exact of what is left is shown.

    Args:
        text: a line of a log, several, or a part of one.
    """
    line = " ".join(text.split())
    found = [Match(one, words) for one in MESSAGES if (words := _words(one.pattern, line))]
    found.sort(key=lambda one: (one.message.exactness, -len(one.words)))
    for one in found:
        if one.message.exactness <= max(found[0].message.exactness, Exactness.EFFECT):
            yield one


def _words(pattern: str, line: str) -> str:
    """What a pattern finds, with the rest of its first and of its last word; empty for nothing."""
    found = re.search(pattern.replace(".*", _BETWEEN), line, re.IGNORECASE)
    if found is None:
        return ""
    begin, end = found.span()
    while begin and _is_of_word(line[begin - 1]):
        begin -= 1
    while end < len(line) and _is_of_word(line[end]):
        end += 1
    return line[begin:end]


def _is_of_word(char: str) -> bool:
    return char.isalnum() or char == "_"
