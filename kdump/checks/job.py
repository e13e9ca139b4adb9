"""What one process is given to judge, and what it hands back: plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch.epoch_order import EpochsAround
from kdump.format.kinds import FileKind
from kdump.item import SegmentChecked
from kdump.value import Value

if TYPE_CHECKING:
    from typing import Self

    from kdump.broker.foreign import LogShape
    from kdump.broker.missing.ranges import MissingRange
    from kdump.broker.producer.replay import SegmentProducers
    from kdump.checks.duplicates import Overlap
    from kdump.finding import Code
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.storage.misplaced import Misplaced


class SegmentJob(Value):
    """The files of one base offset, and what their surroundings say."""

    files: dict[FileKind, str]  # path of each kind that is there; a log is
    base_offset: int  # from the name, or that of the segment that the log is under another name
    is_clean: bool  # the broker that had the log directory has closed it
    is_last: bool  # no segment follows
    is_held: bool  # a broker has the log directory open
    start_offset: int  # the log start offset: what lies below it is on its way out
    # entries of the leader-epoch-checkpoint, ascending; empty when there are none that can be used
    epochs: tuple[EpochEntry, ...]
    topic: str | None  # None for a directory that is no partition's
    is_leftover: bool  # the directory is one that the broker is about to delete
    only: str | None = None  # judge only the file of this path; None for all
    is_alone: bool = False  # nothing but the log is judged: a KRaft snapshot
    is_raft_log: bool = False  # it is the metadata log: see `PartitionName`
    next_base: int | None = None  # base offset of the next segment, None after the last
    # of the last segment: an offset that the log must have reached, and the code of the finding that says so where it
    # has not; of snapshots and checkpoints
    known_ends: tuple[tuple[int, str], ...] = ()
    misplaced: Misplaced | None = None  # what is known of a log under the name of another segment
    around: EpochsAround = EpochsAround()  # what lies around the log says of leader epochs
    is_under_work: bool = False  # files of a cleaning that was not finished lie beside it

    @classmethod
    def alone(cls, log: str, base_offset: int, *, only: str | None = None) -> Self:
        """Return the job of a log of which nothing around it is known, as no broker loads it as a segment.

        Args:
            log: its path.
            base_offset: of it.
            only: judge only the file of this path; None for all.
        """
        return cls(
            {FileKind.LOG: log},
            base_offset,
            is_clean=True,
            is_last=False,
            is_held=False,
            start_offset=base_offset,
            epochs=(),
            topic=None,
            is_leftover=False,
            only=only,
            is_alone=True,
        )

    @property
    def may_be_unfinished(self) -> bool:
        """Whether a broker has not let go of the segment in order: its indexes may be missing, or not be trimmed."""
        return self.is_leftover or (self.is_last and not self.is_clean) or self.is_preallocated

    @property
    def is_preallocated(self) -> bool:
        """Whether zeros at the end of its indexes are as they should be."""
        return self.is_raft_log and self.is_last


class IndexVerdict(Value):
    """How the entries of one index agree with the log."""

    # right, wrong: entries that do, and that do not
    right: int
    wrong: int
    misplaced: int  # of the wrong ones, those that point to where no batch begins
    beyond: int  # of the wrong ones, those for what comes after the end of the log
    reaches: int | None  # the highest offset that it has for what comes after the end of the log; None for none


class OriginFacts(Value):
    """What a segment tells about where its files are from."""

    indexes: dict[FileKind, IndexVerdict]  # how each index that could be judged agrees with the log
    shape: LogShape
    cause: Code | None  # what explains all other findings of the segment, and was told before them


class MissingInLog(Value):
    """Offsets of a log that readers do not get; the holes among them are not judged yet."""

    ranges: tuple[MissingRange, ...]  # in the order of offsets
    traced_to: int  # the offset after the last batch so far that shows a cleaner at work; 0 for none


class SegmentSummary(Value):
    """What the partition needs to know of a judged segment."""

    # batches, records: that were read
    batches: int
    records: int
    end_offset: int  # the offset after its last batch; its base offset when there is none
    is_read: bool  # its log was read to the end
    has_epochs: bool  # a batch has a leader epoch
    has_holes: bool  # offsets are missing, or batches lack records: compaction was at work, or a loss
    damaged: bool  # an error was found in its log
    producers: SegmentProducers | None  # what its producers did; None where its log could not be read
    sizes: dict[FileKind, int]  # of each file that was read, bytes
    first_timestamp: int | None = None  # of its first batch, ms; None without one
    max_timestamp: int | None = None  # the largest of its batches, ms; None without one
    evidence: OriginFacts | None = None  # where its files are from; None where its log could not be read
    # from this offset to the end none is missing, and a reader gets them all; None where that is unknown
    dense_from: int | None = None
    # holes, first and last offset, in which the transaction index knows an end marker
    marker_holes: tuple[tuple[int, int], ...] = ()
    overlaps: tuple[Overlap, ...] = ()  # batches that lie over others: their offsets are there twice
    is_asked_around: bool = False  # what was found hangs on other logs of the partition, or on all of its epochs
    read_at: int | None = None  # when its bytes were read, ms; None where nobody keeps that

    @classmethod
    def not_read(cls, base_offset: int) -> Self:
        """Return what is known of a segment whose log could not be opened: nothing."""
        return cls(0, 0, base_offset, False, False, False, damaged=False, producers=None, sizes={})

    def checked(self, job: SegmentJob, *, deep: bool) -> SegmentChecked:
        """Return what the user is told of the segment.

        Args:
            job: the segment.
            deep: its records were asked for.
        """
        return SegmentChecked(
            path=job.files[FileKind.LOG],
            base_offset=job.base_offset,
            next_offset=self.end_offset,
            size=self.sizes.get(FileKind.LOG, 0),
            batches=self.batches,
            records=self.records if deep else None,
            first_timestamp=self.first_timestamp,
            max_timestamp=self.max_timestamp,
            is_read=self.is_read,
            has_transactions=self.producers is not None and self.producers.has_transactions,
            read_at=self.read_at,
        )
