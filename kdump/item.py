"""The items that a verb yields to a sink, besides findings and chunks of a log: plain values, in file order.

The stream of one file is: FileStart, one header or none, then its contents, then what its end says.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from array import array

    from kdump.finding import Finding
    from kdump.format.checkpoint.checkpoint_file import Checkpoint
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.kinds import FileKind
    from kdump.format.record.chunk import Chunk
    from kdump.rows.plan import Planned
    from kdump.rows.stats import Figures
    from kdump.rows.steps import Step
    from kdump.rows.usage import Growth, Usage
    from kdump.rows.verdict import Duplicate, Loss, Prediction
    from kdump.storage.file_source import OpenFailure


class FileStart(Value):
    """A file begins."""

    path: str  # as the user wrote it
    kind: FileKind | None = None  # which file it is; None where Kafka's tool is mirrored
    base_offset: int | None = None  # the number of its name, or of the user; None where neither says one
    size: int | None = None  # bytes


class FileTurn(Value):
    """A file of several that are followed is in hand: it begins, or goes on where another one was in between."""

    file: FileStart  # it, with its present size
    is_new: bool  # it begins; the file before it in its directory is at its end


class CaughtUp(Value):
    """Every file that is followed is read to its current end: what is held back is to be written out."""


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
    """

    finding: Finding  # about the batch, or the offsets


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


class SkippedFile(Value):
    """A file that Kafka's tool does not dump, because of its name."""

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


class Complaint(Value):
    """One complaint about the file at the absolute path: the two numbers that Kafka prints; where true, a finding."""

    kind: ComplaintKind
    path: str
    first: int
    second: int
    finding: Finding | None = None
    times: int = 1  # as often as this one comes, one after the other


class Died(Value):
    """Kafka's tool ends here: the exception as Java prints it, class and message."""

    exception: str


class CheckedFile(Value):
    """A file that verify has judged."""

    path: str  # as the user wrote it, or below the directory that the user wrote
    kind: FileKind  # which file it is
    size: int  # bytes


class Checked(Value):
    """Some files are judged: the findings since the last of these are about them, or about files that are not there."""

    files: tuple[CheckedFile, ...]  # in the order in which they are shown
    # batches, records: that were read in them; records is 0 where they were not asked for
    batches: int
    records: int


class SegmentChecked(Value):
    """A segment is judged, before the `Checked` of its files."""

    path: str  # of its log
    base_offset: int  # from the name, or the first that its log may have
    next_offset: int  # the offset after its last batch
    size: int  # of its log, bytes
    batches: int  # that were read
    records: int | None  # that were read; None where they were not asked for
    first_timestamp: int | None  # of its first batch, ms; None without one
    max_timestamp: int | None  # the largest of its batches, ms; None without one
    is_read: bool  # its log was read to the end
    has_transactions: bool = False  # a transaction begins or ends there
    read_at: int | None = None  # when its bytes were read, ms since the epoch; None where nobody keeps that


class PartitionChecked(Value):
    """A partition directory is judged, after all of its files."""

    path: str  # of the directory
    segments: int  # how many
    # start_offset, end_offset: the log start offset and the log end offset by the data; None without a segment
    start_offset: int | None
    end_offset: int | None
    size: int  # of its logs, bytes
    offsets_lost: int = 0  # that readers do not get; what is absent is not lost
    remark: str = ""  # what people should know of it that is no finding


class StepFacts(Value):
    """What the steps of a run hang on: verify takes it, and hands out steps in its place."""


class StartForeseen(Value):
    """A partition of which nothing but the next start was looked at."""

    path: str  # of the directory
    logs: int  # that it has
    size: int  # of those that were read whole, bytes


class Unchecked(Value):
    """What was left out, on purpose or for want of time: the summary lists it, and it counts for nothing else."""

    path: str | None  # as the user wrote it, or below that; None for all files
    reason: str  # a few words


class Scrubbed(Value):
    """What a scrub comes to."""

    partitions: int  # with segments that were to be read
    segments: int  # that were read
    left: int  # that were not reached
    active: int = 0  # that a broker still writes to, and that were not read for that


class Progress(Value):
    """How far a verb has got: bytes of logs done and to be done, and the file in hand."""

    done: int
    total: int
    path: str


if TYPE_CHECKING:
    Item = (
        FileStart
        | FileTurn
        | CaughtUp
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
        | SkippedFile
        | Complaint
        | Finding
        | Died
        | CheckedFile
        | Checked
        | SegmentChecked
        | PartitionChecked
        | Duplicate
        | Loss
        | Planned
        | Prediction
        | Step
        | StepFacts
        | StartForeseen
        | Unchecked
        | Scrubbed
        | Progress
        | Figures
        | Usage
        | Growth
    )
