"""Runs of several copies in one image, told apart: which of them can be of one log, and of which history each is.

An image may have replicas of one partition, older copies, segments that were deleted, and the tails of leaders that
lost an election. Nothing beside a run says of which it is. What tells is inside:

- all batches of one leader epoch are of one history: one leader wrote them;
- an epoch has one epoch before it: that which lies before it in a run, else the highest that began below it;
- of that one, only what lies below the newer one is of its history.

So runs that do not overlap are of one copy where the end of the one is of the history of the next. Any two copies are
then compared by their epochs as those of two directories are. A copy that begins late is given the epochs that its
history has below it. An epoch that one batch alone has, against several of a lower epoch behind it, tells nothing: one
wrong bit looks the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.base_offset.header import offsets_at
from kdump.format.batch.header_judge import EPOCH_BITS, is_one_bit
from kdump.rescue.epochs import NEVER, branch_of
from kdump.rescue.runs import SECTOR
from kdump.rescue.valid_runs import EpochRun
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.rescue.scanned_log import ReadLog

_SEVERAL = 2  # batches that agree on an epoch by no single wrong bit


class RunFacts(TupleValue):
    """What a run tells."""

    first: int  # its first offset
    last: int  # the last
    epochs: list[EpochRun]  # of its batches, ascending
    last_base: Callable[[], int]  # tells the base offset of its last batch
    # image, and where it begins and ends there; None where nothing tells
    extent: tuple[str, int, int] | None = None

    def adjoins(self, other: RunFacts) -> bool:
        """Tell whether another run lies right behind it in one file; at a multiple of a sector another may begin."""
        if self.extent is None or other.extent is None or self.extent[2] % SECTOR == 0:
            return False
        return (self.extent[0], self.extent[2]) == other.extent[:2]


class RunCopy(TupleValue):
    """Runs of one copy."""

    runs: list[int]  # their numbers, in the order of their offsets
    below: list[EpochRun]  # the epochs that its history has below it, by other runs, ascending


class Histories:
    """Which leader epoch follows which, by the batches of all logs.

    Args:
        logs: the epochs of each log, in its order.
    """

    def __init__(self, logs: Iterable[Sequence[EpochRun]]) -> None:
        known = list(logs)
        self._runs: dict[int, list[EpochRun]] = {}
        for run in (run for some in known for run in some):
            self._runs.setdefault(run.epoch, []).append(run)
        self.doubted = {epoch for epoch in self._runs if self._is_doubted(epoch)}
        self._starts = {
            epoch: min(run.first for run in some) for epoch, some in self._runs.items() if epoch not in self.doubted
        }
        self._before: dict[int, int | None] = {}
        followed: dict[int, set[int]] = {}
        for some in known:
            for before, run in pairwise([run for run in some if run.epoch not in self.doubted]):
                if before.epoch < run.epoch:  # a cleaner may have taken all of an epoch between the two
                    between = (one for one, start in self._starts.items() if before.last < start < run.first)
                    found = [one for one in between if before.epoch < one < run.epoch]
                    followed.setdefault(run.epoch, set()).update([before.epoch, *found])
        for epoch, start in self._starts.items():
            below = [one for one, begin in self._starts.items() if one < epoch and begin < start]
            self._before[epoch] = max(followed.get(epoch) or below, default=None)

    def _is_doubted(self, epoch: int) -> bool:
        """Whether one batch alone has an epoch, and several of a lower one lie behind it."""
        if sum(run.batches for run in self._runs[epoch]) >= _SEVERAL:
            return False
        first = self._runs[epoch][0].first
        return any(
            one < epoch and sum(run.batches for run in some) >= _SEVERAL and max(run.last for run in some) >= first
            for one, some in self._runs.items()
        )

    def _borne_epoch(self, run: EpochRun) -> int | None:
        """Return the epoch of the only batch of a log with which another epoch would begin too early; None if it may.

        Others have its offsets under an older epoch, one bit away, and batches of older epochs lie between it and the
        rest of the epoch.
        """
        rest = [one.first for one in self._runs[run.epoch] if one.first > run.last]
        if run.batches > 1 or not rest or len(rest) + 1 < len(self._runs[run.epoch]):
            return None
        older = [one for epoch, some in self._runs.items() if epoch < run.epoch for one in some]
        if not any(run.last < one.first and one.last < min(rest) for one in older):
            return None
        there = {one.epoch for one in older if one.first <= run.first and run.last <= one.last}
        borne = [epoch for epoch in there if is_one_bit(run.epoch, epoch, EPOCH_BITS)]
        return borne[0] if len(borne) == 1 else None

    def epoch_of_first(self, some: Sequence[EpochRun]) -> int | None:
        """Return the epoch of the first batch of a log, where that of the one behind it had begun before; else None.

        And that of the only one, where others bear it out.

        Args:
            some: the epochs of the log, in its order.
        """
        if len(some) == 1 and self._starts.get(some[0].epoch) == some[0].first:
            return self._borne_epoch(some[0])
        if len(some) < 2 or some[0].batches > 1 or some[1].epoch in self.doubted:
            return None
        first, behind = some[:2]
        return behind.epoch if first.epoch < behind.epoch and self._starts[behind.epoch] <= first.first else None

    def sure(self, some: Iterable[EpochRun]) -> list[EpochRun]:
        """Return the epochs of a log without those that tell nothing."""
        return branch_of(some, (), 0, lambda run: run.epoch in self.doubted).runs

    def end_of(self, epoch: int, newer: int) -> int | None:
        """Return up to which offset (exclusive) the history of an epoch has an older one; None where it has not.

        Args:
            epoch: the older one, or the same.
            newer: the epoch.
        """
        end: int | None = None
        at: int | None = newer
        while at is not None and at > epoch:
            end, at = self._starts[at], self._before[at]
        return None if at != epoch else NEVER if end is None else end

    def below(self, epoch: int, offset: int) -> list[EpochRun]:
        """Return what the history of an epoch has below an offset, ascending."""
        found: list[EpochRun] = []
        at: int | None = epoch
        end = offset
        while at is not None:
            some = [run for run in self._runs[at] if run.first < end]
            if some:
                first, last = min(run.first for run in some), min(max(run.last for run in some), end - 1)
                found.append(EpochRun(at, first, last, sum(run.batches for run in some)))
            end, at = min(end, self._starts[at]), self._before[at]
        return found[::-1]


def told_apart(runs: Sequence[RunFacts], histories: Histories) -> list[RunCopy]:
    """Return the copies that runs are of: as few as can be, each of runs that do not overlap, and of one history.

    Args:
        runs: of one image.
        histories: of all logs of the partition.
    """
    sure = [histories.sure(one.epochs) for one in runs]
    copies: list[RunCopy] = []
    for number in sorted(range(len(runs)), key=lambda one: (runs[one].first, runs[one].last)):
        fits = [copy for copy in copies if _goes_on(copy, runs, number, sure, histories)]
        if fits:
            ends = [runs[copy.runs[-1]] for copy in fits]
            ways = [(one.adjoins(runs[number]), one.last) for one in ends]  # the nearest
            fits[ways.index(max(ways))].runs.append(number)
            continue
        below = histories.below(sure[number][0].epoch, runs[number].first) if sure[number] else []
        copies.append(RunCopy([number], below))
    return copies


def _goes_on(
    copy: RunCopy, runs: Sequence[RunFacts], number: int, sure: Sequence[Sequence[EpochRun]], histories: Histories
) -> bool:
    """Whether a run lies behind those of a copy, and the last of these with an epoch is of its history.

    A new leader that knew less begins inside of the last batch before it.
    """
    last, run = runs[copy.runs[-1]], runs[number]
    before = next((sure[one][-1] for one in reversed(copy.runs) if sure[one]), None)
    if before is None or not sure[number]:
        return last.last < run.first
    epoch = sure[number][0].epoch
    end = histories.end_of(before.epoch, epoch)
    if end is None or last.last < run.first:
        return end is not None and before.last < end
    return before.epoch < epoch and last.last < run.last and last.last_base() < min(run.first, end)


def wrong_first_epoch(one: ReadLog, epoch: int) -> Finding:
    """Return what is wrong with the first batch of a log, which must have another leader epoch.

    Args:
        one: the log.
        epoch: that it must have.

    Reports: E01.
    """
    window = next(one.facts.runs.windows(one.source, layout.MAX_INT))
    first, last, _ = offsets_at(window, 0)
    return Finding(
        Code.E01,
        one.log.path,
        window.cell(0, layout.POSITION),
        window.cell(0, layout.SIZE),
        offset=first,
        last_offset=last,
        field="partitionLeaderEpoch",
        found=window.cell(0, layout.LEADER_EPOCH),
        expected=epoch,
    )
