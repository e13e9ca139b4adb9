"""The results of retention and compaction for one partition, as values for the sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment
    from kdump.broker.cleaner.cleaner_manager import Cleanable
    from kdump.broker.config import TopicConfig
    from kdump.broker.retention import Append, Deletion, RetentionFacts, Rolling, SegmentFacts
    from kdump.finding import Finding
    from kdump.item import Progress
    from kdump.storage.file_source import OpenFailure


class Retained(Value):
    """The results of retention for one partition.

    Args:
        path: of the directory.
        partition: its name.
        now: the clock, ms.
        log: the segments, and where the log begins and ends.
        config: of the topic.
        policy: its cleanup.policy; None where nobody knows it, and so nobody knows what goes.
        deletion: what goes now; None where that is not known.
        first_deleted: first clock at which each segment goes, ms; None for never, and where that is not known.
        rolling: whether an append of one small batch rolls the active segment now; its size and timestamp count as
            those of `append`.
        append: what is assumed to be appended.
        assumed: what was assumed of the configuration, a sentence; empty for nothing.
    """

    path: str
    partition: str
    now: int
    log: RetentionFacts
    config: TopicConfig
    policy: frozenset[str] | None
    deletion: Deletion | None
    first_deleted: list[int | None]
    rolling: Rolling
    append: Append
    assumed: str = ""

    @property
    def gone(self) -> Sequence[SegmentFacts]:
        """The segments that go now, as far as that is known."""
        return self.log.segments[: len(self.deletion.reasons)] if self.deletion is not None else ()


class Compacted(Value):
    """The results of compaction for one partition.

    Args:
        path: of the directory.
        partition: its name.
        now: the clock, ms.
        config: of the topic.
        policy: its cleanup.policy; None where nobody knows it, and so nobody knows whether the cleaner looks at it.
        part: what may be cleaned.
        log_size: bytes of all .log files.
        cleaned: the segments that a pass leaves, the active one left out; None where no pass was asked for.
        before: bytes of the segments that the pass reads, the same it makes others of.
        end_offset: the first offset that the pass has not cleaned; None for no pass, and for one that fails.
        failure: what the cleaner throws; empty when it does not.
        assumed: what was assumed of the configuration, a sentence; empty for nothing.
    """

    path: str
    partition: str
    now: int
    config: TopicConfig
    policy: frozenset[str] | None
    part: Cleanable
    log_size: int
    cleaned: list[CleanedSegment] | None = None
    before: int = 0
    end_offset: int | None = None
    failure: str = ""
    assumed: str = ""


if TYPE_CHECKING:
    RetentionItem = Retained | Compacted | Finding | OpenFailure | Progress
