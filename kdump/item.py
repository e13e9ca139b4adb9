"""The items that a verb yields to a sink, besides findings and chunks of a log: plain values, in file order.

The stream of one file is: FileStart, one header or none, then its contents, then what its end says.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from array import array

    from kdump.figures import Figures
    from kdump.finding import Finding
    from kdump.format.checkpoint.checkpoint_file import Checkpoint
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.kinds import FileKind
    from kdump.format.record.chunk import Chunk
    from kdump.storage.file_source import OpenFailure
    from kdump.words.command import ShellCommand


class FileStart(Value):
    """A file begins.

    Args:
        path: as the user wrote it.
        kind: which file it is; None where Kafka's tool is mirrored.
        base_offset: the number of its name, or of the user; None where neither says one.
        size: bytes.
    """

    path: str
    kind: FileKind | None = None
    base_offset: int | None = None
    size: int | None = None


class FileTurn(Value):
    """A file of several that are followed is in hand: it begins, or goes on where another one was in between.

    Args:
        file: it, with its present size.
        is_new: it begins; the file before it in its directory is at its end.
    """

    file: FileStart
    is_new: bool


class Looked(Value):
    """All that is there now was looked at: what was made of it is to be seen."""


class LogStart(Value):
    """A log segment: its base offset, from the name or the user; None when neither says it."""

    base_offset: int | None


class SnapshotStart(Value):
    """A KRaft snapshot: where it ends; both None for the bootstrap snapshot."""

    end_offset: int | None
    epoch: int | None


class TrailingBytes(Value):
    """Bytes after the last batch that Kafka's walk did not read; `name` is the file name without directory."""

    size: int
    name: str


class RecordsUnread(Value):
    """Records that cannot be read; the finding says what is wrong, and was said already where that is its own line.

    Those of a batch, to their end, or those of offsets that are lost.

    Args:
        finding: about the batch, or the offsets.
    """

    finding: Finding


class OffsetEntries(Value):
    """Entries of an offset index, as columns: absolute offsets, byte positions."""

    offsets: array[int]
    positions: array[int]


class TimeEntries(Value):
    """Entries of a time index, as columns: ms since the epoch, absolute offsets."""

    timestamps: array[int]
    offsets: array[int]


class IndexEmpty(Value):
    """An offset index without entries."""

    path: str


class IndexPassed(Value):
    """An index that passed the broker's own check."""

    path: str


class SanityFailed(Value):
    """An index that failed the broker's own check, in its words; and as a finding."""

    message: str
    finding: Finding


class Unknown(Value):
    """A file that is not dumped because of its name."""

    path: str


class SnapshotError(Value):
    """A producer snapshot that Kafka refuses, in its words."""

    message: str


class ComplaintKind(Enum):
    """The kinds of complaint that Kafka's tool collects."""

    MISMATCH = "offset index entry and log"
    TIMESTAMP = "time index entry and log"
    UNORDERED = "time index entry and the one before"
    NOT_FOUND = "time index entry without batch"
    GAP = "offset of a record and the one before"


class Nowhere(Enum):
    """Why a question has no answer, where more is said of it than that."""

    PAST_END = auto()  # the offset is the end of the log, or beyond
    NO_TIME = auto()  # no record is late enough, or none has a timestamp


class LookupAnswer(Value):
    """Where something is, or why it is nowhere.

    Args:
        query: the question, as the user wrote it.
        offset: of the record, or the end of the log that was asked for; None for no answer.
        timestamp: of the record, ms; -1 for an end of the log, as brokers answer.
        leader_epoch: None where there is none.
        file: the log, as the user wrote its path, or below the directory that the user wrote.
        position: of the batch, bytes.
        base_offset, last_offset: of the batch.
        error: why there is no answer, a sentence.
        nowhere: which kind of no answer it is; None for others, and where there is one.
    """

    query: str
    offset: int | None = None
    timestamp: int | None = None
    leader_epoch: int | None = None
    file: str | None = None
    position: int | None = None
    base_offset: int | None = None
    last_offset: int | None = None
    error: str | None = None
    nowhere: Nowhere | None = None

    @property
    def answer(self) -> str:
        """The answer in a few words, for sentences that compare two."""
        if self.error is not None:
            return "nothing"
        if self.position is None:
            return f"offset {self.offset}"
        at = f"the batch {self.base_offset}..{self.last_offset} at byte {self.position} of {self.file}"
        return at if self.offset is None else f"offset {self.offset} in {at}"


class Complaint(Value):
    """One complaint about the file at the absolute path: the two numbers that Kafka prints; where true, a finding."""

    kind: ComplaintKind
    path: str
    first: int
    second: int
    finding: Finding | None = None


class Died(Value):
    """Kafka's tool ends here: the exception as Java prints it, class and message."""

    exception: str


class CheckedFile(Value):
    """A file that verify has judged.

    Args:
        path: as the user wrote it, or below the directory that the user wrote.
        kind: which file it is.
        size: bytes.
    """

    path: str
    kind: FileKind
    size: int


class Checked(Value):
    """Some files are judged: the findings since the last of these are about them, or about files that are not there.

    Args:
        files: in the order in which they are shown.
        batches, records: that were read in them; records is 0 where they were not asked for.
    """

    files: tuple[CheckedFile, ...]
    batches: int
    records: int


class CarvedRun(Value):
    """Batches that carve found following each other in an image, and the file that has them.

    Args:
        file: path of the file, below the directory as the user wrote it.
        image: path of the image, as the user wrote it.
        kind: "log", or "snapshot" for the content of a `.checkpoint` file.
        extents: position and bytes of each stretch of the image.
        batches, records: how many.
        offset, last_offset: of the first and the last record.
        epochs, producer_ids: of its batches, rising.
        first_timestamp, max_timestamp: the lowest and the highest, ms since the epoch; None where batches have none.
        partition: topic and number that it belongs to; None where nothing tells.
        evidence: sentences that say why, or what speaks against.
    """

    file: str
    image: str
    kind: str
    extents: tuple[tuple[int, int], ...]
    batches: int
    records: int
    offset: int
    last_offset: int
    epochs: tuple[int, ...]
    producer_ids: tuple[int, ...]
    first_timestamp: int | None
    max_timestamp: int | None
    partition: tuple[str, int] | None
    evidence: tuple[str, ...]


class Freeable(Value):
    """What retention frees of a partition, or of several.

    Args:
        size: bytes of the logs that a broker deletes now.
        segments: how many.
        next_at: when it deletes more, as all is now, ms; None for never.
        next_size: bytes of the logs that it deletes then.
        why: the reason of what goes now; None where nothing does.
    """

    size: int
    segments: int
    next_at: int | None
    next_size: int
    why: str | None


class Usage(Value):
    """What uses the space, for one name. Sizes are in bytes, times in ms since the epoch.

    Args:
        by: what the name is one of: topic, partition, kind, codec, producer, day, group, key.
        name: None for what has no name, or is not listed; a key as it is.
        log_size, index_size, other_size, leftover_size: of the files.
        allocated: on the disk; the same as the files' sizes where a file system does not tell.
        files, segments, batches, records: how many.
        key_size, value_size, uncompressed: None where records were not read.
        first_timestamp, max_timestamp: the lowest and the highest; None where there is none.
        superseded, superseded_size: records that a newer one replaces; None where that was not asked for.
        exact: the sums are those of the name; else at most `error` is missing.
        error: bytes.
        freeable: None where the row is not of partitions.
        waits: why compaction waits.
        assumed: what was assumed of the configuration.
    """

    by: str
    name: str | bytes | None
    log_size: int
    index_size: int
    other_size: int
    leftover_size: int
    allocated: int
    files: int
    segments: int
    batches: int
    records: int
    key_size: int | None
    value_size: int | None
    uncompressed: int | None
    first_timestamp: int | None
    max_timestamp: int | None
    superseded: int | None
    superseded_size: int | None
    exact: bool
    error: int
    freeable: Freeable | None = None
    waits: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return self.log_size + self.index_size + self.other_size + self.leftover_size

    @property
    def weight(self) -> int:
        """What rows are ranked by, and what shares are of, in bytes.

        Of files it is what they take on the disk, however long they are. Of what batches say it is their bytes; of a
        key what its records have, for compressed bytes belong to no single one.
        """
        if self.by == "key":
            return (self.key_size or 0) + (self.value_size or 0)
        return self.allocated if self.by in ("topic", "partition", "kind") else self.size


class PlacedUsage(Value):
    """The row of a partition in one log directory.

    Args:
        path: of its directory; of a file of the log directory for what lies in no partition.
        usage: the row.
    """

    path: str
    usage: Usage


class Growth(Value):
    """How fast something grows, by the timestamps of its batches.

    Args:
        name: as in `Usage`; None for all.
        per_day: bytes a day; None where the batches tell no time.
        from_timestamp, to_timestamp: of the batches that count, ms.
        set_aside: batches with odd timestamps, which do not count.
        full_at: ms; None for never.
        days_left: 0 where it is full; None for never.
    """

    name: str | bytes | None
    per_day: int | None
    from_timestamp: int | None
    to_timestamp: int | None
    set_aside: int
    full_at: int | None
    days_left: float | None


class SegmentChecked(Value):
    """A segment is judged, before the `Checked` of its files.

    Args:
        path: of its log.
        base_offset: from the name, or the first that its log may have.
        next_offset: the offset after its last batch.
        size: of its log, bytes.
        batches: that were read.
        records: that were read; None where they were not asked for.
        first_timestamp: of its first batch, ms; None without one.
        max_timestamp: the largest of its batches, ms; None without one.
        is_read: its log was read to the end.
        has_transactions: a transaction begins or ends there.
    """

    path: str
    base_offset: int
    next_offset: int
    size: int
    batches: int
    records: int | None
    first_timestamp: int | None
    max_timestamp: int | None
    is_read: bool
    has_transactions: bool = False


class PartitionChecked(Value):
    """A partition directory is judged, after all of its files.

    Args:
        path: of the directory.
        segments: how many.
        start_offset, end_offset: the log start offset and the log end offset by the data; None without a segment.
        size: of its logs, bytes.
        offsets_lost: that readers do not get; what is absent is not lost.
    """

    path: str
    segments: int
    start_offset: int | None
    end_offset: int | None
    size: int
    offsets_lost: int = 0


class Certainty(Enum):
    """What a loss is: see `Loss`."""

    LOST = "lost"
    DOUBTFUL = "doubtful"
    UNEXPLAINED = "unexplained"
    ABSENT = "absent"

    @property
    def is_loss(self) -> bool:
        """Whether a reader misses something that was there."""
        return self in (Certainty.LOST, Certainty.DOUBTFUL)


class Loss(Value):
    """Offsets that a reader of one replica does not get.

    Args:
        path: of the partition directory, as the user wrote it or below that.
        partition: the name of the directory.
        file: the log where the bytes are, or were; None where no file has the place.
        position, length: of these bytes; length 0 for a place between two batches. None where there is no place.
        offset, last_offset: first and last; no offset is in two losses of a partition.
        records: that are concerned; None where nobody can count them.
        certainty: LOST: no intact bytes of them are here. DOUBTFUL: bytes are here that no CRC vouches for, or that a
            consumer cannot read though their CRC is right. UNEXPLAINED: no batch has them, and nothing here tells
            whether compaction or a loss took them. ABSENT: never here, or compacted away.
        because: names of the codes that say why.
        elsewhere: paths of the replicas that have all of them intact; None where replicas were not compared.
        is_known: the salvage that made the partition has told of it: it counts no more.
    """

    path: str
    partition: str
    file: str | None
    position: int | None
    length: int | None
    offset: int
    last_offset: int
    records: int | None
    certainty: Certainty
    because: tuple[str, ...]
    elsewhere: tuple[str, ...] | None = None
    is_known: bool = False

    @property
    def offsets(self) -> int:
        """How many."""
        return self.last_offset - self.offset + 1

    @property
    def counts(self) -> bool:
        """Whether it counts in totals: a reader misses something that was there, and nobody has told of it before."""
        return self.certainty.is_loss and not self.is_known


class Operation(Value):
    """What becomes of one file by a repair.

    Args:
        file: name in the partition directory.
        action: rebuild-index, create, replace, truncate, empty, delete or patch.
        before, after: sizes in bytes; None where there is no file.
        why: what is wrong with it now; empty when nothing is.
        detail: what else there is to say.
    """

    file: str
    action: str
    before: int | None
    after: int | None
    why: str = ""
    detail: str = ""


class Planned(Value):
    """What a repair would do to one partition directory, or has done.

    Args:
        command: reindex, truncate or patch-header.
        plan_id: by what the plan is known again.
        partition: name of the directory.
        directory: as the user wrote it.
        operations: in the order in which they are made.
        bytes_lost, records_lost: that are cut from logs; records that can be read today.
        offsets_lost: between the old and the new end.
        log_end_before: where the log ends now by its last batch, a torn one too where its header stands; None where
            that is not known.
        log_end_offset: afterwards; None where it is not known.
        announces: what there is to know of it, a sentence each.
        kept: files of the kinds that the command is about and that are left alone.
        journal: path of the journal, when it is done; None when nothing was done.
        arguments: what to write after the command to have it done.
        is_refused: it will not be done.
        unread: files that could not be read, so that nobody knows whether they need it.
        goes_on: what to write after the command for what can be done where this is refused; empty for nothing.
    """

    command: str
    plan_id: str
    partition: str
    directory: str
    operations: tuple[Operation, ...]
    bytes_lost: int
    records_lost: int
    log_end_offset: int | None
    announces: tuple[str, ...]
    kept: int
    journal: str | None
    arguments: tuple[str, ...]
    is_refused: bool
    offsets_lost: int = 0
    log_end_before: int | None = None
    unread: int = 0
    goes_on: tuple[str, ...] = ()


class SegmentFate(Value):
    """What becomes of a segment when a broker starts.

    Args:
        base_offset: of the segment.
        action: keep, rebuild-index, truncate, empty, delete, split, create or replace.
        size: of its log afterwards, bytes; 0 where it is deleted.
    """

    base_offset: int
    action: str
    size: int


class TornBatch(Value):
    """The last batch of a log, whose end is not in the file; its header stands.

    Args:
        base_offset: of its segment.
        position: bytes.
        offset, last_offset: of the batch.
    """

    base_offset: int
    position: int
    offset: int
    last_offset: int


class Prediction(Value):
    """What the next start of a broker does with a partition.

    Args:
        path: of the directory, as the user wrote it or below that.
        partition: the name of the directory.
        start: clean, unclean or full.
        loads: whether the broker has the partition afterwards.
        stops: broker or logdir: what ends where it does not; None where it loads.
        reason: why it does not, in plain words; None where it loads.
        reason_class: the Java class of what the broker throws; None where it loads.
        log_start_offset, log_end_offset: afterwards; None where it does not load.
        bytes_lost, records_lost: cut off or deleted from logs, before the failure where it does not load; records of
            batches whose CRC is right.
        assumed: what the answer hangs on and nobody said, in words.
        segments: what becomes of each; none where it does not load.
        hidden_records: that stay on disk and can be read today, and that no reader gets any more; none of them is cut.
        reused_offsets: first and last of those that were there before and are given out again, those of damaged
            batches, of a torn one and of an end that is gone too; None for none. By the right base offset where one
            is wrong.
        cause: code and file of what keeps it from loading; None where it loads.
        torn: with which the log ends before the start; None for none, and where it does not load.
        is_stray: a broker with KRaft renames the directory to -stray, for want of partition.metadata.
    """

    path: str
    partition: str
    start: str
    loads: bool
    stops: str | None
    reason: str | None
    reason_class: str | None
    log_start_offset: int | None
    log_end_offset: int | None
    bytes_lost: int
    records_lost: int
    assumed: tuple[str, ...]
    segments: tuple[SegmentFate, ...]
    hidden_records: int = 0
    reused_offsets: tuple[int, int] | None = None
    cause: tuple[str, str] | None = None
    torn: TornBatch | None = None
    is_stray: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether the broker loads the partition, leaves its logs and indexes as they are, and serves all of it."""
        is_kept = not self.is_stray and all(segment.action == "keep" for segment in self.segments)
        return self.loads and is_kept and self.torn is None and self.reused_offsets is None and not self.hidden_records

    @property
    def keeps_torn(self) -> bool:
        """Whether the torn batch stays in the log, and new records come behind it."""
        torn = self.torn
        return torn is not None and any(
            one.base_offset == torn.base_offset and one.size > torn.position for one in self.segments
        )

    @property
    def harm(self) -> tuple[bool, int, int, int]:
        """What it costs, to put several in order: the least first."""
        again = self.reused_offsets
        reused = 0 if again is None else again[1] - again[0] + 1
        return not self.loads, self.records_lost + self.hidden_records, reused, self.bytes_lost


class Unchecked(Value):
    """What was left out, on purpose or because there was no time: the summary lists it, and it counts for nothing else.

    Args:
        path: as the user wrote it, or below that; None for all files.
        reason: a few words.
    """

    path: str | None
    reason: str


class Scrubbed(Value):
    """What a scrub comes to.

    Args:
        partitions: with segments that were to be read.
        segments: that were read.
        left: that were not reached.
        active: that a broker still writes to, and that were not read for that.
    """

    partitions: int
    segments: int
    left: int
    active: int = 0


class Step(Value):
    """What to do next about what was found; several in an order that works.

    Args:
        n: its number, from 1 on.
        command: as a dry run and as a shell reads it; None where a person acts.
        why: what it does, and what it costs.
        instead: numbers of the steps that this one makes unnecessary.
        damaged: path of the partition directory that it restores or salvages as a whole; None for other steps.
        partition: path of the partition directory that it is about; None where it is about something else.
        once_compared: of one that asks other replicas: what to do where they were asked; empty for other steps.
    """

    n: int
    command: ShellCommand | None
    why: str
    instead: tuple[int, ...] = ()
    damaged: str | None = None
    partition: str | None = None
    once_compared: str = ""


class Progress(Value):
    """How far a verb has got: bytes of logs done and to be done, and the file in hand."""

    done: int
    total: int
    path: str


if TYPE_CHECKING:
    Item = (
        FileStart
        | FileTurn
        | Looked
        | LogStart
        | SnapshotStart
        | Chunk
        | TrailingBytes
        | RecordsUnread
        | OffsetEntries
        | TimeEntries
        | IndexEmpty
        | IndexPassed
        | SanityFailed
        | OpenFailure
        | AbortedTxn
        | ProducerStateEntry
        | SnapshotError
        | Checkpoint
        | Unknown
        | Complaint
        | Finding
        | Died
        | CheckedFile
        | Checked
        | SegmentChecked
        | PartitionChecked
        | Loss
        | Planned
        | Prediction
        | Step
        | Unchecked
        | Scrubbed
        | Progress
        | Figures
        | Usage
        | Growth
    )
