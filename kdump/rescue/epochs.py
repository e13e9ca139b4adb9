"""Which branch of a partition counts: leader epochs of copies as KIP-101 and KIP-279 compare them.

Two copies that have a batch of the same epoch at the same offset have all before it in common. So a copy counts up to
the end of the highest epoch that it shares with the line, and behind that it is another branch. Where the end of an
epoch lies in a hole, only what is known to be below it counts.

The first entry of a leader-epoch-checkpoint moves with the log start: its epoch is there from it on, and may have begun
before. Source: LeaderEpochFileCache.truncateFromStart.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.format.batch.epoch_order import goes_on_behind
from kdump.format.java_values import MAX_LONG
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.rescue.valid_runs import EpochRun

NEVER = MAX_LONG
"""Where an epoch ends that no later one follows."""
_SEVERAL = 2  # batches that agree on an epoch that a checkpoint lacks: that is older than they are


class KnownEpochs(TupleValue):
    """What one copy knows of leader epochs."""

    runs: list[EpochRun]  # of its batches, ascending; those that verify has something against are not among them
    # from where on a checkpoint has epochs that its batches do not contradict, ascending; it may lack the newest ones
    starts: dict[int, int]

    @property
    def begins(self) -> dict[int, int]:
        """Where epochs begin: the first one of the checkpoint may have begun before its entry."""
        first = next(iter(self.starts), None)
        return {epoch: start for epoch, start in self.starts.items() if epoch != first or not start}

    @property
    def newest(self) -> int:
        """The highest epoch, -1 where there is none."""
        return max([*(run.epoch for run in self.runs), *self.starts], default=-1)


def branch_of(
    runs: Iterable[EpochRun], checkpoint: Sequence[EpochEntry], log_start: int, doubted: Callable[[EpochRun], bool]
) -> KnownEpochs:
    """Return what a copy knows, without what its batches and its checkpoint contradict each other in.

    Args:
        runs: of the batches, in the order of the log.
        checkpoint: the entries, ascending; none where the file is not sound.
        log_start: below it a checkpoint says nothing.
        doubted: tells that the epoch of a run is known to be wrong.
    """
    kept: list[EpochRun] = []
    agrees = True
    floor = max([log_start, *(one.start_offset for one in checkpoint[:1])])
    for whole in runs:
        run = whole
        if doubted(run):
            continue
        is_behind = bool(checkpoint) and goes_on_behind(checkpoint[-1], run.epoch, run.first)
        if is_behind and run.batches < _SEVERAL:
            continue  # one wrong bit looks the same
        if checkpoint and run.last >= floor and not is_behind:
            first = _epoch_at(checkpoint, max(run.first, floor))
            last = _epoch_at(checkpoint, run.last)
            if first != run.epoch:
                agrees = agrees and run.batches < _SEVERAL
                continue
            if last != run.epoch:
                end = next(one.start_offset for one in checkpoint if one.epoch > run.epoch)
                agrees = agrees and end > run.last_base >= 0  # a leader may begin inside of the last batch of another
                run = run._replace(last=end - 1)
        kept.append(run)
    merged: list[EpochRun] = []
    ascending = _ascending(kept)
    for run in ascending:
        if merged and run.first <= merged[-1].last:  # an offset is wrong: what both know is below the lower one
            merged[-1] = merged[-1]._replace(last=max(merged[-1].first, run.first - 1))
        if merged and merged[-1].epoch == run.epoch:
            merged[-1] = merged[-1]._replace(last=max(merged[-1].last, run.last))
        else:
            merged.append(run)
    if len(kept) - len(ascending) and any(one.batches >= _SEVERAL for one in kept if one not in ascending):
        agrees = False
    starts = {one.epoch: one.start_offset for one in checkpoint} if agrees else {}
    return KnownEpochs(merged, starts)


def _ascending(runs: list[EpochRun]) -> list[EpochRun]:
    """Return the runs of most batches whose epochs do not fall: one wrong epoch is above those behind it, or below.

    Of as many the lower epochs: a higher one would make a branch of its own.
    """
    if all(before.epoch <= after.epoch for before, after in pairwise(runs)):
        return runs
    before: list[int] = [-1] * len(runs)
    epochs: list[int] = []  # ascending, as are the numbers of batches: the best that ends with each
    best: list[tuple[int, int]] = []  # batches so far, and the run that is the last of them
    for number, run in enumerate(runs):
        at = bisect_right(epochs, run.epoch)
        count, before[number] = best[at - 1] if at else (0, -1)
        count += run.batches
        if at and epochs[at - 1] == run.epoch:
            at -= 1
        stop = at
        while stop < len(best) and best[stop][0] <= count:
            stop += 1
        epochs[at:stop], best[at:stop] = [run.epoch], [(count, number)]
    found, number = [], best[-1][1]
    while number >= 0:
        found.append(runs[number])
        number = before[number]
    return found[::-1]


def goes_another_way(run: EpochRun, checkpoint: Sequence[EpochEntry]) -> bool:
    """Tell whether several batches of one epoch contradict the checkpoint of another copy, as far as that one knows.

    Args:
        run: the batches.
        checkpoint: its entries, ascending; of what lies behind the newest it says only that no epoch is lower.
    """
    newest = checkpoint[-1]
    if run.batches < _SEVERAL or run.last < checkpoint[0].start_offset:
        return False
    if run.last >= newest.start_offset and run.epoch < newest.epoch:
        return True
    known = _epoch_at(checkpoint, run.first), _epoch_at(checkpoint, min(run.last, newest.start_offset))
    return run.first <= newest.start_offset and run.epoch not in known


def _epoch_at(checkpoint: Sequence[EpochEntry], offset: int) -> int | None:
    at = bisect_right([one.start_offset for one in checkpoint], offset) - 1
    return checkpoint[at].epoch if at >= 0 else None


class LineHistory:
    """The leader epochs of the line, as far as they are known.

    Args:
        leader: the branch that gives the line.
    """

    def __init__(self, leader: KnownEpochs) -> None:
        self._ranges: dict[int, tuple[int, int]] = {}
        self._starts: dict[int, int] = {}
        self._begins: dict[int, int] = {}
        self._add(leader, NEVER)

    def _add(self, branch: KnownEpochs, cut: int) -> None:
        for known, told in ((self._starts, branch.starts), (self._begins, branch.begins)):
            for epoch, start in told.items():
                if start < cut or cut == NEVER:
                    known.setdefault(epoch, start)
        for run in branch.runs:
            if run.first >= cut:
                continue
            last = min(run.last, cut - 1)
            low, high = self._ranges.get(run.epoch, (run.first, last))
            self._ranges[run.epoch] = min(low, run.first), max(high, last)

    def foreign(self, branch: KnownEpochs) -> list[tuple[int, int]]:
        """Return the ranges of offsets in which a branch has another epoch than the checkpoint of the line says.

        Behind its newest entry it may lack epochs that are newer still, but none that is older.
        """
        known = sorted(
            (self._starts[epoch], epoch, self._end_before(epoch, after))
            for epoch, after in pairwise([*self.epochs, None])
            if epoch in self._starts
        )
        found: list[tuple[int, int]] = []
        for run in branch.runs:
            for start, epoch, end in known:
                first, last = max(run.first, start), min(run.last, end - 1)
                if first <= last and run.epoch != epoch and (end != NEVER or run.epoch < epoch):
                    found.append((first, last))
        return found

    @property
    def _first(self) -> int:
        """The first offset of which the line knows the epoch: what lies before it contradicts nothing."""
        return min([*(low for low, _ in self._ranges.values()), *self._starts.values()])

    @property
    def epochs(self) -> list[int]:
        """All epochs of the line that are known, ascending."""
        return sorted({*self._ranges, *self._starts})

    def end_of(self, epoch: int) -> int:
        """Return up to which offset (exclusive) an epoch is known to go; NEVER for the newest."""
        return self._end_before(epoch, min((one for one in self.epochs if one > epoch), default=None))

    def _end_before(self, epoch: int | None, after: int | None) -> int:
        """Up to which offset (exclusive) an epoch is known to go that another one follows, None for the newest."""
        if epoch is None or after is None:
            return NEVER
        known = self._ranges.get(epoch, (0, self._starts.get(epoch, 0) - 1))[1] + 1
        if after in self._begins:
            return max(self._begins[after], known)
        first = self._ranges.get(after, (None,))[0]
        return first if first == known else known

    def cut_of(self, branch: KnownEpochs) -> int:
        """Return up to which offset (exclusive) another branch belongs to the line; and learn from it.

        Source: AbstractFetcherThread.getOffsetTruncationState, LeaderEpochFileCache.endOffsetFor.
        """
        known = set(self.epochs)
        if not known:
            return NEVER
        shared = max({*(run.epoch for run in branch.runs), *branch.starts} & known, default=None)
        if shared is None and not branch.runs:
            return NEVER
        if shared is None:
            newest = branch.runs[0].epoch
            below = [one for one in known if one < newest]
            if branch.runs[-1].epoch > max(known):
                return 0
            return self.end_of(max(below)) if below else self._first
        end = self.end_of(shared)
        newer = [run.first for run in branch.runs if run.epoch > shared]
        later = min([*newer, *(start for epoch, start in branch.begins.items() if epoch > shared)], default=NEVER)
        cut = min(end, later)
        self._add(branch, cut)
        return cut
