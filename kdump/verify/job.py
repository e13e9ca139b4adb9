"""What one process is given to judge, and what it hands back: plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from kdump.broker.producers import SegmentProducers
    from kdump.format.checkpoint import EpochEntry
    from kdump.format.kinds import FileKind


class SegmentJob(Value):
    """The files of one base offset, and what their surroundings say.

    Args:
        files: path of each kind that is there; a log is.
        base_offset: from the name.
        is_clean: the broker that had the log directory has closed it.
        is_last: no segment follows.
        is_held: a broker has the log directory open.
        start_offset: the log start offset: what lies below it is on its way out.
        epochs: entries of the leader-epoch-checkpoint, ascending; empty when there are none that can be used.
        topic: None for a directory that is no partition's.
        is_leftover: the directory is one that the broker is about to delete.
        only: judge only the file of this path; None for all.
        is_alone: nothing but the log is judged: a KRaft snapshot.
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

    @property
    def may_be_unfinished(self) -> bool:
        """Whether a broker has not let go of the segment in order: its indexes may be missing, or not be trimmed."""
        return self.is_leftover or (self.is_last and not self.is_clean)


class SegmentFacts(Value):
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


def nothing_known(job: SegmentJob) -> SegmentFacts:
    """Return the facts of a segment that could not be judged."""
    return SegmentFacts(0, 0, job.base_offset, False, False, False, False, None, {})
