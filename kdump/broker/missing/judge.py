"""Whether offsets that no batch has are lost: the one judgement of all verbs.

A hole is a range of offsets between the log start offset and the log end that no batch has, and no byte stands for:
before the first batch, between two, between segments, behind the last one. Compaction makes holes, and so do cuts; a
hole by itself does not tell. What damaged bytes had is lost or doubtful (`kdump.broker.missing.damage`), and so is what
an index knows behind the last batch. The first row that applies to any other hole decides:

| | evidence | says |
|-|----------|------|
| 0 | rows of a salvage beside the partition have the offsets lost or doubtful | lost, and known |
| 1 | an index of the log knows batches there (`kdump.broker.missing.index_proofs`) | lost |
| 1b | the offset index shows that bytes are missing, and several holes can be the place | unexplained, X04 |
| 2 | below the first local segment | absent where the log is tiered, else unexplained, L17 |
| 2b | snapshots or checkpoints know offsets behind the last batch | lost by row 5, or without a trace; else L17 |
| 3 | it ends below what a cleaner has passed: by its checkpoint, or by the last batch with a trace of it | absent |
| 3b | in a log that waits as `.swap` to be put in place, and something may have compacted the topic | absent |
| 4 | a topic that brokers make compacted | absent |
| 5 | nothing has ever compacted the topic; or the policy is delete and the hole is the only trace of a cleaner | lost |
| 6 | the hole is the only trace, and the policy is not known | unexplained, L19; lost where another replica has it |
| 7 | anything else | unexplained, L17 |

Cleaning runs over a prefix of a log: a trace higher up shows that a cleaner has passed below, here or on the broker
that this replica was copied from. That there is no checkpoint, or no entry in it, says nothing: brokers create the file
empty, and followers keep the holes of their leader without one. Nor does a policy that is delete now: followers keep
the holes of earlier times.

Source: Cleaner.cleanInto, LogCleanerManager.cleanableOffsets, UnifiedLog.maybeIncrementLogStartOffset.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from kdump.broker.cleanup_policy import CleanupPolicy
from kdump.broker.missing.ranges import Proof
from kdump.finding import Code
from kdump.ranges import RangeSet
from kdump.rows.verdict import Certainty
from kdump.storage.names import METADATA_TOPIC, OFFSETS_TOPIC, REMOTE_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.broker.missing.ranges import MissingRange

_MADE_COMPACTED = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
_MADE_WITH_DELETE = frozenset((METADATA_TOPIC, SHARE_TOPIC, REMOTE_TOPIC))
_DELETE = frozenset(("delete",))


class Surroundings(TupleValue):
    """What lies around the logs of a partition and says something of its holes."""

    topic: str | None  # of the partition; None where its directory has no such name
    # first_base, last_base: base offsets of its first and last segment; 0 without one
    first_base: int
    last_base: int
    cleaned_to: int | None  # its entry in cleaner-offset-checkpoint; None for none
    salvaged: RangeSet  # offsets that were lost or doubtful when salvage made the partition
    swapped: RangeSet = RangeSet()  # what logs that were made anew, and are still to be put in place, have taken over
    # tells whether its log goes on in remote storage, below the first local segment
    is_tiered: Callable[[], bool] = lambda: False
    # tells what is known of the topic's cleanup.policy; asked for only where that decides
    policy: Callable[[], CleanupPolicy] = partial(CleanupPolicy, None)


NOTHING_AROUND = Surroundings(None, 0, 0, None, RangeSet())
"""Of a file that lies in no partition directory."""


class HoleVerdict(TupleValue):
    """What is to be said of a hole."""

    certainty: Certainty  # LOST, ABSENT or UNEXPLAINED
    because: Code | None = None  # the finding that says why nobody can tell: L17, L19 or X04; None where it is told
    is_known: bool = False  # it was lost before salvage made the partition

    @property
    def is_lost(self) -> bool:
        """Whether the offsets were here."""
        return self.certainty is Certainty.LOST

    @property
    def shows_no_loss(self) -> bool:
        """Whether compaction took the offsets, or may have, and nothing tells against it."""
        return self.certainty is Certainty.ABSENT or self.because is Code.L17


_ABSENT, _LOST = HoleVerdict(Certainty.ABSENT), HoleVerdict(Certainty.LOST)
_KNOWN = HoleVerdict(Certainty.LOST, is_known=True)
_ONE_OF_SEVERAL = HoleVerdict(Certainty.UNEXPLAINED, Code.X04)
_SOME_HOLE, _ONLY_TRACE = HoleVerdict(Certainty.UNEXPLAINED, Code.L17), HoleVerdict(Certainty.UNEXPLAINED, Code.L19)


def settled_by_replicas(because: Sequence[str], around: Iterable[Surroundings]) -> bool:
    """Tell whether a hole that is unexplained is lost where another replica has all of it, intact.

    It existed then, and nothing shows a cleaner at work: not in this replica, and not beside any other.

    Args:
        because: names of the codes that tell of the hole.
        around: what lies around the logs of each replica.
    """
    return Code.L19.name in because and all(HoleJudge(one).may_be_lost for one in around)


class HoleJudge:
    """Judges the holes of one partition, while its logs are read in order.

    Args:
        around: the partition.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._end = around.last_base
        self.traced_to = 0  # the offset after the last batch in which a cleaner has left a trace; 0 for none so far
        self.holes = 0  # how many there are so far that rows 0 to 2 do not decide; those that adjoin each other are one
        self._hole_end: int | None = None
        self._is_counted = False  # the hole that ends there, or a part of it

    def trace(self, end: int) -> None:
        """Take a batch that shows a cleaner at work.

        Args:
            end: the offset after it.
        """
        self.traced_to = max(self.traced_to, end)

    def reach(self, end: int) -> None:
        """Note that the log goes on up to an offset, exclusive."""
        self._end = max(self._end, end)

    def count(self, hole: MissingRange) -> None:
        """Take a hole, or the next part of one, into account for what it says of others; in the order of offsets.

        A hole may lie in several logs. Where an index knows a part of it, the rest is a hole all the same.
        """
        self._is_counted = self._is_counted and hole.first == self._hole_end
        self._hole_end = hole.last + 1
        if not (self._is_counted or self.by_files(hole) or hole.is_behind_end):
            self._is_counted = True
            self.holes += 1

    def by_files(self, hole: MissingRange) -> HoleVerdict | None:
        """Return what rows 0 to 2 say of a hole, or of the part of one that lies in one log; None for nothing."""
        around = self._around
        if around.salvaged.has_any(hole.first, hole.last):
            return _KNOWN
        if hole.proof is not None:
            return _ONE_OF_SEVERAL if hole.proof is Proof.AMONG_SEVERAL else _LOST
        if hole.last < around.first_base:
            return _ABSENT if around.is_tiered() else _SOME_HOLE
        return None

    @property
    def passed(self) -> int:
        """Below this offset a cleaner has been. An entry above the end of the log is an older, or another, log's."""
        entry = self._around.cleaned_to
        return max(self.traced_to, entry if entry is not None and entry <= self._end else 0)

    @cached_property
    def _policy(self) -> CleanupPolicy:
        return self._around.policy()

    @property
    def was_never_compacted(self) -> bool:
        """Whether nothing has ever compacted the topic."""
        made_so = self._around.topic in _MADE_WITH_DELETE and not self._policy.ever_compact
        return made_so or self._policy.never_compact

    @property
    def _may_be_lost_alone(self) -> bool:
        """Whether a hole that is the only trace of a cleaner is lost, or may be."""
        return self._policy.of_topic in (None, _DELETE) and not self._policy.ever_compact

    @property
    def may_be_lost(self) -> bool:
        """Whether one more hole is lost, or may be, though nothing says that nothing has ever compacted the topic."""
        return self._may_be_lost_alone and not self.has_trace()

    def has_trace(self, holes: int = 0) -> bool:
        """Tell whether anything shows that a cleaner was at work, so far.

        Args:
            holes: so many say nothing yet.
        """
        is_told = self._around.cleaned_to is not None or len(self._around.swapped) > 0
        return is_told or self.traced_to > 0 or self.holes > holes

    def early(self, hole: MissingRange) -> HoleVerdict | None:
        """Return what is to be said of a hole whatever comes behind it; None where that may decide."""
        found = self.by_files(hole)
        if found is not None or hole.is_behind_end:
            return found
        is_made_by_cleaner = hole.last < self.passed or self._around.topic in _MADE_COMPACTED
        return _ABSENT if is_made_by_cleaner or self._is_in_swap(hole) else None

    def _is_in_swap(self, hole: MissingRange) -> bool:
        return self._around.swapped.has_all(hole.first, hole.last) and not self.was_never_compacted

    def verdict(self, hole: MissingRange) -> HoleVerdict:
        """Return what is to be said of a hole, once all of the partition was taken into account."""
        found = self.early(hole)
        if found is not None:
            return found
        if self.was_never_compacted:
            return _LOST
        if hole.is_behind_end:
            return _SOME_HOLE if self.has_trace() else _LOST
        if self.has_trace(holes=1) or not self._may_be_lost_alone:
            return _SOME_HOLE
        return _ONLY_TRACE if self._policy.of_topic is None else _LOST
