"""Which branch of a partition counts: leader epochs of copies as KIP-101 and KIP-279 compare them.

Two copies that have a batch of the same epoch at the same offset have all before it in common. So a copy counts up to
the end of the highest epoch that it shares with the line, and behind that it is another branch. Where the end of an
epoch lies in a hole, only what is known to be below it counts.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.rescue.log_facts import EpochRun

NEVER = 2**63 - 1


class Branch(NamedTuple):
    """What one copy knows of leader epochs.

    Args:
        runs: of its batches, ascending; those that verify has something against are not among them.
        starts: where epochs begin by a checkpoint that its batches do not contradict.
    """

    runs: list[EpochRun]
    starts: dict[int, int]

    @property
    def newest(self) -> int:
        """The highest epoch, -1 where there is none."""
        return max([*(run.epoch for run in self.runs), *self.starts], default=-1)


def branch_of(
    runs: Iterable[EpochRun], checkpoint: Sequence[EpochEntry], log_start: int, doubted: Callable[[EpochRun], bool]
) -> Branch:
    """Return what a copy knows, without what its batches and its checkpoint contradict each other in.

    Args:
        runs: of the batches, in the order of the log.
        checkpoint: the entries, ascending; none where the file is not sound.
        log_start: below it a checkpoint says nothing.
        doubted: tells that the epoch of a run is known to be wrong.
    """
    merged: list[EpochRun] = []
    agrees = True
    floor = max([log_start, *(one.start_offset for one in checkpoint[:1])])
    for whole in runs:
        run = whole
        if doubted(run):
            continue
        if checkpoint and run.last >= floor:
            first = _epoch_at(checkpoint, max(run.first, floor))
            last = _epoch_at(checkpoint, run.last)
            if first != run.epoch:
                agrees = False
                continue
            if last != run.epoch:
                agrees = False
                end = next(one.start_offset for one in checkpoint if one.epoch > run.epoch)
                run = run._replace(last=end - 1)
        if merged and merged[-1].epoch == run.epoch:
            merged[-1] = merged[-1]._replace(last=max(merged[-1].last, run.last))
        elif not merged or run.epoch > merged[-1].epoch:
            if merged and run.first <= merged[-1].last:  # an offset is wrong: what both know is below the lower one
                merged[-1] = merged[-1]._replace(last=max(merged[-1].first, run.first - 1))
            merged.append(run)
        elif run.epoch < merged[-1].epoch:
            agrees = False
    starts = {one.epoch: one.start_offset for one in checkpoint} if agrees else {}
    return Branch(merged, starts)


def _epoch_at(checkpoint: Sequence[EpochEntry], offset: int) -> int | None:
    at = bisect_right([one.start_offset for one in checkpoint], offset) - 1
    return checkpoint[at].epoch if at >= 0 else None


class LineHistory:
    """The leader epochs of the line, as far as they are known.

    Args:
        leader: the branch that gives the line.
    """

    def __init__(self, leader: Branch) -> None:
        self._ranges: dict[int, tuple[int, int]] = {}
        self._starts: dict[int, int] = {}
        self._add(leader, NEVER)

    def _add(self, branch: Branch, cut: int) -> None:
        for epoch, start in branch.starts.items():
            if start < cut or cut == NEVER:
                self._starts.setdefault(epoch, start)
        for run in branch.runs:
            if run.first >= cut:
                continue
            last = min(run.last, cut - 1)
            low, high = self._ranges.get(run.epoch, (run.first, last))
            self._ranges[run.epoch] = min(low, run.first), max(high, last)

    def foreign(self, branch: Branch) -> list[tuple[int, int]]:
        """Return the ranges of offsets in which a branch has another epoch than the checkpoint of the line says."""
        starts = sorted((start, epoch) for epoch, start in self._starts.items())
        found: list[tuple[int, int]] = []
        for run in branch.runs:
            at = bisect_right(starts, (run.first, NEVER)) - 1
            if 0 <= at < len(starts) - 1 and starts[at][1] != run.epoch:
                found.append((run.first, min(run.last, starts[at + 1][0] - 1)))
        return found

    @property
    def epochs(self) -> list[int]:
        """All epochs of the line that are known, ascending."""
        return sorted({*self._ranges, *self._starts})

    def end_of(self, epoch: int) -> int:
        """Return up to which offset (exclusive) an epoch is known to go; NEVER for the newest."""
        later = [one for one in self.epochs if one > epoch]
        if not later:
            return NEVER
        after = later[0]
        known = self._ranges.get(epoch, (0, self._starts.get(epoch, 0) - 1))[1] + 1
        if after in self._starts:
            return max(self._starts[after], known)
        first = self._ranges[after][0]
        return first if first == known else known

    def cut_of(self, branch: Branch) -> int:
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
            return self.end_of(max(below)) if below else branch.runs[0].first
        end = self.end_of(shared)
        later = next((run.first for run in branch.runs if run.epoch > shared), NEVER)
        cut = min(end, later)
        self._add(branch, cut)
        return cut
