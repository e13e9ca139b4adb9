"""Where a committed offset stands in its log: one judgement for lag, for differences between two times, and for tables.

Source: OffsetsForLeaderEpochUtils, Fetcher and OffsetFetcher of the consumer; LeaderEpochFileCache.endOffsetFor;
ClassicGroup.isSubscribedToTopic, Kafka 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.broker.log_facts import FirstOpen
    from kdump.format.checkpoint.checkpoint_file import EpochEntry

SOUND = "sound"
BELOW_START = "belowStart"
ABOVE_END = "aboveEnd"
MARKERS_ONLY = "markersOnly"
WAITS = "waits"
CUT = "cut"
UNSUBSCRIBED = "unsubscribed"


class PlaceOfCommit(TupleValue):
    """Where a committed offset stands."""

    name: str | None  # one of those above; None where nobody can tell
    cut_from: int | None = None  # where the leader epoch of the commit ended, below its offset; None where it did not
    why: str = ""  # in words, empty where it is sound


NOT_SUBSCRIBED = PlaceOfCommit(UNSUBSCRIBED, None, "not subscribed: no member of the group reads the topic")
"""Where a commit stands whatever its log has."""


class CommitLog(TupleValue):
    """What a log says about commits."""

    # start_offset, end_offset: of it
    start_offset: int
    end_offset: int
    epochs: Sequence[EpochEntry]  # of its leader-epoch-checkpoint, ascending
    waits_for: FirstOpen | None  # that keeps readers of committed data; None for nothing
    has_data: Callable[[int], bool]  # tells whether a record that is no marker stands at or behind an offset

    def epoch_end(self, epoch: int) -> int | None:
        """Return where a leader epoch ended that another one followed; None where none did."""
        at = bisect_right([one.epoch for one in self.epochs], epoch)
        return self.epochs[at].start_offset if at < len(self.epochs) else None

    def place(self, offset: int, leader_epoch: int | None, *, is_subscribed: bool = True) -> PlaceOfCommit:
        """Return where a committed offset stands.

        Args:
            offset: that is read next.
            leader_epoch: of the record before it, as the commit has it; None for none.
            is_subscribed: the group subscribes to the topic, as far as anyone knows.
        """
        ended = None if leader_epoch is None else self.epoch_end(leader_epoch)
        cut_from = ended if ended is not None and ended < offset else None
        if not is_subscribed:
            return NOT_SUBSCRIBED._replace(cut_from=cut_from)
        reset = "out of range, auto.offset.reset applies"
        if offset < self.start_offset:
            return PlaceOfCommit(BELOW_START, cut_from, f"below the log start {self.start_offset}: {reset}")
        if cut_from is not None:
            why = f"leader epoch {leader_epoch} ended at {cut_from} here: what the group read from there up to"
            return PlaceOfCommit(CUT, cut_from, f"{why} {offset - 1} is not in this log")
        if offset > self.end_offset:
            past = offset - self.end_offset
            return PlaceOfCommit(ABOVE_END, None, f"{past} past the end of the log at {self.end_offset}: {reset}")
        if offset == self.end_offset:
            return PlaceOfCommit(SOUND)
        if not self.has_data(offset):
            return PlaceOfCommit(MARKERS_ONLY, None, "only markers are left: nothing to read")
        if self.waits_for is not None and offset >= self.waits_for.first_offset:
            producer, first = self.waits_for
            why = f"read_committed waits for producer {producer}, whose transaction is open since offset {first}"
            return PlaceOfCommit(WAITS, None, why)
        return PlaceOfCommit(SOUND)
