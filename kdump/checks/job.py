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
    from kdump.finding import Code
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.storage.misplaced import Misplaced


class SegmentJob(Value):
    """The files of one base offset, and what their surroundings say.

    Args:
        files: path of each kind that is there; a log is.
        base_offset: from the name, or that of the segment that the log is under another name.
        is_clean: the broker that had the log directory has closed it.
        is_last: no segment follows.
        is_held: a broker has the log directory open.
        start_offset: the log start offset: what lies below it is on its way out.
        epochs: entries of the leader-epoch-checkpoint, ascending; empty when there are none that can be used.
        topic: None for a directory that is no partition's.
        is_leftover: the directory is one that the broker is about to delete.
        only: judge only the file of this path; None for all.
        is_alone: nothing but the log is judged: a KRaft snapshot.
        is_raft_log: it is the metadata log: see `PartitionName`.
        next_base: base offset of the next segment, None after the last.
        known_ends: of the last segment: an offset that the log must have reached, and the code of the finding that says
            so where it has not; of snapshots and checkpoints.
        misplaced: what is known of a log under the name of another segment.
        around: what lies around the log says of leader epochs.
        is_under_work: files of a cleaning that was not finished lie beside it.
    """

    files: dict[FileKind, str]
    base_offset: int
    is_clean: bool
    is_last: bool
    is_held: bool
    start_offset: int
    epochs: tuple[EpochEntry, ...]
    topic: str | None
    is_leftover: bool
    only: str | None = None
    is_alone: bool = False
    is_raft_log: bool = False
    next_base: int | None = None
    known_ends: tuple[tuple[int, str], ...] = ()
    misplaced: Misplaced | None = None
    around: EpochsAround = EpochsAround()
    is_under_work: bool = False

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
    """How the entries of one index agree with the log.

    Args:
        right, wrong: entries that do, and that do not.
        misplaced: of the wrong ones, those that point to where no batch begins.
        beyond: of the wrong ones, those for what comes after the end of the log.
        reaches: the highest offset that it has for what comes after the end of the log; None for none.
    """

    right: int
    wrong: int
    misplaced: int
    beyond: int
    reaches: int | None


class Evidence(Value):
    """What a segment tells about where its files are from."""

    indexes: dict[FileKind, IndexVerdict]  # how each index that could be judged agrees with the log
    shape: LogShape
    cause: Code | None  # what explains all other findings of the segment, and was told before them


class LostInLog(Value):
    """Offsets of a log that readers do not get.

    Args:
        ranges: in the order of offsets.
        traced_to: the offset after the last batch so far that shows a cleaner at work; 0 for none.
    """

    ranges: tuple[MissingRange, ...]
    traced_to: int


class SegmentSummary(Value):
    """What the partition needs to know of a judged segment.

    Args:
        batches, records: that were read.
        end_offset: the offset after its last batch; its base offset when there is none.
        is_read: its log was read to the end.
        has_epochs: a batch has a leader epoch.
        has_holes: offsets are missing, or batches lack records: compaction was at work, or a loss.
        damaged: an error was found in its log.
        producers: what its producers did; None where its log could not be read.
        sizes: of each file that was read, bytes.
        first_timestamp: of its first batch, ms; None without one.
        max_timestamp: the largest of its batches, ms; None without one.
        evidence: where its files are from; None where its log could not be read.
        dense_from: from this offset to the end none is missing, and a reader gets them all; None where that is unknown.
        marker_holes: holes, first and last offset, in which the transaction index knows an end marker.
    """

    batches: int
    records: int
    end_offset: int
    is_read: bool
    has_epochs: bool
    has_holes: bool
    damaged: bool
    producers: SegmentProducers | None
    sizes: dict[FileKind, int]
    first_timestamp: int | None = None
    max_timestamp: int | None = None
    evidence: Evidence | None = None
    dense_from: int | None = None
    marker_holes: tuple[tuple[int, int], ...] = ()

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
        )
