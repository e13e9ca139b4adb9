"""The results of retention and compaction for one partition, as values for the sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment
    from kdump.broker.cleaner.cleaner_manager import Cleanable
    from kdump.broker.config import TopicConfig
    from kdump.broker.remote_copy import RemoteCopy
    from kdump.broker.retention import Append, Deletion, RetentionFacts, Rolling, SegmentFacts
    from kdump.finding import Finding
    from kdump.item import Progress
    from kdump.storage.file_source import OpenFailure


class Retained(Value):
    """The results of retention for one partition."""

    path: str  # of the directory
    partition: str  # its name
    now: int  # the clock, ms
    log: RetentionFacts  # the segments, and where the log begins and ends
    config: TopicConfig  # of the topic
    policy: frozenset[str] | None  # its cleanup.policy; None where nobody knows it, and so nobody knows what goes
    deletion: Deletion | None  # what goes now; None where that is not known
    # first clock at which each segment goes, ms; None for never, and where that is not known
    first_deleted: list[int | None]
    # whether an append of one small batch rolls the active segment now; its size and timestamp count as those of
    # `append`
    rolling: Rolling
    append: Append  # what is assumed to be appended
    remote: RemoteCopy | None  # what remote storage has; None where nothing is copied there
    assumed: tuple[str, ...] = ()  # what was assumed, sentences
    release: str = ""  # what was assumed of the broker's release, a sentence; empty where it was named

    @property
    def gone(self) -> Sequence[SegmentFacts]:
        """The segments that go now, as far as that is known."""
        return self.log.segments[: len(self.deletion.reasons)] if self.deletion is not None else ()


class Compacted(Value):
    """The results of compaction for one partition."""

    path: str  # of the directory
    partition: str  # its name
    now: int  # the clock, ms
    config: TopicConfig  # of the topic
    # its cleanup.policy; None where nobody knows it, and so nobody knows whether the cleaner looks at it
    policy: frozenset[str] | None
    part: Cleanable  # what may be cleaned
    log_size: int  # bytes of all .log files
    # the segments that a pass leaves, the active one left out; None where no pass was asked for
    cleaned: list[CleanedSegment] | None = None
    before: int = 0  # bytes of the segments that the pass reads, the same it makes others of
    # the first offset that the pass has not cleaned; None for no pass, and for one that fails
    end_offset: int | None = None
    failure: str = ""  # what the cleaner throws; empty when it does not
    assumed: tuple[str, ...] = ()  # what was assumed, sentences
    release: str = ""  # as above


if TYPE_CHECKING:
    RetentionItem = Retained | Compacted | Finding | OpenFailure | Progress
