"""Which offsets a partition lacks, for verbs that answer questions about it: one walk over its headers, when needed.

A question meets a hole; mostly files say at once what it is. What only the rest of the log tells takes the headers of
all batches, once for a partition.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.clusters import policies_beside
from kdump.broker.missing.columns import MissingColumns
from kdump.broker.missing.damage import DamageFold, below, last_offset
from kdump.broker.missing.findings import among_holes, as_lost, of_hole, of_unexplained, range_of
from kdump.broker.missing.index_proofs import HoleProofs, ProvenRanges, is_under_work
from kdump.broker.missing.judge import HoleJudge, Surroundings
from kdump.broker.missing.losses import PartitionLosses
from kdump.broker.missing.ranges import MissingRange, Proof, is_followed_by_batches
from kdump.finding import Code
from kdump.format.batch import _scan, layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.format.record.wrapper import first_offset
from kdump.ranges import RangeSet
from kdump.storage.evidence import evidence_of
from kdump.storage.segment import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.broker.clusters import TopicPolicies
    from kdump.broker.missing.judge import HoleVerdict
    from kdump.finding import Finding
    from kdump.format.read_limits import ReadLimits
    from kdump.rows.verdict import Loss
    from kdump.storage.partition_dir import PartitionDir


def surroundings(partition: PartitionDir, policies: TopicPolicies, bases: Sequence[int] | None = None) -> Surroundings:
    """Return what lies around the logs of a partition and says something of its holes.

    Args:
        partition: the directory.
        policies: what is known of topics.
        bases: base offsets of its logs; None for those of their names.
    """
    bases = partition.log_bases if bases is None else bases
    key = partition.key
    return Surroundings(
        None if partition.parsed is None else partition.parsed.topic,
        bases[0] if bases else 0,
        bases[-1] if bases else 0,
        cleaned_to=None if key is None else _cleaned_to(partition, key),
        salvaged=evidence_of(partition).before_salvage,
        swapped=_swapped(partition, bases),
        is_tiered=lambda: partition.log_dir.has_tiered_logs,
        policy=partial(policies.of, partition),
    )


def _swapped(partition: PartitionDir, bases: Sequence[int]) -> RangeSet:
    """Return the offsets from the base of each log that waits as `.swap` up to the next one.

    The last log is none that a cleaner makes: nothing says where it ended.
    """
    found = RangeSet()
    for base, following in pairwise(bases) if partition.listing.renamed else ():
        if f"{base:020}.{FileKind.LOG.value}" in partition.listing.renamed:
            found.add(base, following - 1)
    return found


def _cleaned_to(partition: PartitionDir, key: tuple[str, int]) -> int | None:
    """Return the entry of a partition in cleaner-offset-checkpoint, None for none.

    A directory that is to take the place of the current log is a copy of that, which lies in another log.dir.
    """
    is_future = partition.parsed is not None and partition.parsed.state == "future"
    log_dirs = (partition.log_dir, *(partition.log_dir.siblings if is_future else ()))
    entries = (one.offset(FileKind.CLEANER, key) for one in log_dirs)
    return max((entry for entry in entries if entry is not None), default=None)


class LostHoles:
    """The holes of a partition that are lost, or may be: among several, or alone in a topic of unknown policy.

    Args:
        partition: its segments.
        limits: what is read of a batch.

    Raises:
        UnreadableError, OSError: from each method: a log that tells cannot be read.
    """

    def __init__(self, partition: PartitionDir, limits: ReadLimits) -> None:
        self._partition = partition
        self._limits = limits
        self._met_several = False

    @cached_property
    def _around(self) -> Surroundings:
        return surroundings(self._partition, policies_beside(self._partition, self._limits))

    def meet(self, holes: Iterable[MissingRange]) -> None:
        """Learn of holes that a reader has met: several show that a cleaner was at work without a walk.

        Args:
            holes: of all logs.
        """
        judge = HoleJudge(self._around)
        losses = self._new_losses(judge)
        for hole in sorted(holes, key=lambda one: one.first):
            proof = Proof.SHOWN if self._may_be_proven(hole.first, hole.last) else None
            for _ in losses.take([hole._replace(because=(Code.O04.name,), proof=proof)]):
                pass
        self._met_several = judge.has_trace(holes=1)

    def of(self, first: int, last: int) -> list[Finding]:
        """Return the holes in a range of offsets, inclusive, that a reader has found to be missing.

        Of several in one of which bytes are missing that is one finding, about the first of them.
        """
        if not self._may_be_lost(first, last):
            return []
        found = map(self._finding, self._lost[1].over(first, last))
        return list({(one.code, one.file, one.offset): one for one in found}.values())

    def at(self, offset: int) -> Finding | None:
        """Return the hole that an offset is in; None for none."""
        return next(iter(self.of(offset, offset)), None)

    @property
    def is_any(self) -> bool:
        """Whether there is one."""
        return len(self._lost[1]) > 0

    def _finding(self, one: MissingRange) -> Finding:
        """What is wrong with a hole.

        Reports: O04, O07, L19.
        """
        losses = self._lost[0]
        if one.proof is Proof.AMONG_SEVERAL:
            return among_holes(losses.among[one.file])
        if Code.L19.name in one.because:
            loss, _ = losses.unexplained[Code.L19]
            return of_unexplained(Code.L19, loss.replace(file=one.file, position=one.position), 1)
        return as_lost(of_hole(one), one.proof)

    def _may_be_proven(self, first: int, last: int) -> bool:
        number = max(self._partition.floor(first), 0)
        is_proven = _proofs(self._partition, number, self._limits).may_show([MissingRange(first, last)])
        return is_proven and not is_under_work(self._partition.listing.names)

    def _may_be_lost(self, first: int, last: int) -> bool:
        """Whether a hole can be lost, by what is known without the headers of all batches, or up to a trace in them."""
        if self._around.salvaged.has_any(first, last) or self._may_be_proven(first, last):
            return True
        judge = HoleJudge(self._around)
        found = judge.early(MissingRange(first, last))
        if found is not None:
            return found.is_lost
        return judge.was_never_compacted or (judge.may_be_lost and not self._met_several and self._is_alone)

    @cached_property
    def _is_alone(self) -> bool:
        """Whether no more than one hole is all that there is of a cleaner's work; the walk ends at the first trace."""
        judge = HoleJudge(self._around)
        losses = self._new_losses(judge)
        for _ in self._walk(losses, judge, judge.has_trace):
            losses.verdicts.clear()
            if judge.has_trace(holes=1):
                return False
        return not judge.has_trace(holes=1)

    def _new_losses(self, judge: HoleJudge) -> PartitionLosses:
        partition = self._partition
        return PartitionLosses(partition.path, partition.name, partition.start_offset, judge)

    def _walk(
        self, losses: PartitionLosses, judge: HoleJudge, until: Callable[[], bool] = lambda: False
    ) -> Iterator[list[Loss]]:
        for number in range(len(self._partition)):
            yield from walk_log(self._partition, number, self._limits, judge, losses, until)

    @cached_property
    def _lost(self) -> tuple[PartitionLosses, MissingColumns]:
        """Each hole, but for those that are told of a log that is gone; and what has judged them."""
        judge = HoleJudge(self._around)
        losses = self._new_losses(judge)
        gone, found = sorted(evidence_of(self._partition).logs), MissingColumns()

        def keep(some: Iterable[Loss]) -> None:
            for loss in some:
                at = bisect_left(gone, loss.offset)
                hole = _held(loss, losses.verdicts.get(loss.last_offset))
                if hole is not None and (at == len(gone) or gone[at] > loss.last_offset):
                    found.add(hole)
            losses.verdicts.clear()

        for some in self._walk(losses, judge):
            keep(some)
        losses.conclude()
        for some in losses.rest():
            keep(some)
        return losses, found


def is_of_its_index(partition: PartitionDir, base: int, limits: ReadLimits) -> bool:
    """Tell whether a log has all batches that its offset index knows, as one has that compaction has just made.

    Args:
        partition: its segments.
        base: offset of the segment.
        limits: what is read of a batch.

    Returns:
        True too where the index cannot be read, or may be of another time.
    """
    if is_under_work(partition.listing.names):
        return True
    number = partition.floor(base)
    with suppress(UnreadableError, OSError):
        try:
            return _proofs(partition, number, limits).knows_nothing_else()
        finally:
            partition.segment(number).close()
    return True


def _held(loss: Loss, judged: tuple[MissingRange, HoleVerdict] | None) -> MissingRange | None:
    """The range of a loss that is a hole, lost or maybe, with what is proven of it; None of others."""
    if judged is None or not is_followed_by_batches(loss.because):
        return None
    hole, verdict = judged
    if verdict.shows_no_loss:
        return None
    proof = None if verdict.is_lost and hole.proof is Proof.AMONG_SEVERAL else hole.proof  # a salvage has told of it
    return range_of(loss)._replace(proof=proof)


def walk_log(
    partition: PartitionDir,
    number: int,
    limits: ReadLimits,
    judge: HoleJudge,
    losses: PartitionLosses,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[list[Loss]]:
    """Yield what a reader of one log does not get, as far as it is known, in the order of offsets, in parts.

    Args:
        partition: its segments.
        number: of the log among them.
        limits: what is read of a batch.
        judge: takes the traces of a cleaner.
        losses: makes losses of ranges; those of holes may wait.
        until: tells when enough was read.
    """
    segment, base = partition.segment(number), partition.bases[number]
    log, following = segment.log, partition.next_base(base)
    path = partition.path_of(base, FileKind.LOG)
    fold = DamageFold(
        (path, log.size), lambda at: first_offset(log, at, limits), lambda at: last_offset(log, at, limits)
    )
    is_proof = not is_under_work(partition.listing.names)
    proven = ProvenRanges(_proofs(partition, number, limits) if is_proof else None)
    walk = CheckedWalk(
        log,
        fold.see,
        segment=base,
        next_base=following,
        hints=segment.offset_index.ascending_positions,
        max_batch_bytes=limits.max_batch_bytes,
    )
    walk.checks.follow_producers = False
    walk.checks.offsets.on_free_range = fold.settle
    for window in walk.windows():
        traced = _scan.last_trace(window.rows, window.count)
        if traced >= 0:
            judge.trace(window.cell(traced, layout.LAST_OFFSET) + 1)
            if until():
                return
        fold.window(lambda _position: None)
        if fold.is_full:
            yield list(losses.take(proven.take(below(fold.ranges(), following))))
    last = walk.checks.offsets.last
    end = base if last is None else last + 1
    if following is not None:
        fold.finish(end, following - 1, (), is_last=False)
    ranges = proven.take(below(fold.ranges(), following))
    yield list(losses.take([*ranges, *proven.rest()]))
    losses.reached(end if following is None else min(end, following))


def _proofs(partition: PartitionDir, number: int, limits: ReadLimits) -> HoleProofs:
    return HoleProofs(
        partition.segment(number),
        is_last=number == len(partition) - 1,
        next_base=partition.next_base(partition.bases[number]),
        max_batch_bytes=limits.max_batch_bytes,
    )


def lost_holes(partition: PartitionDir, limits: ReadLimits) -> LostHoles:
    """Return the holes of a partition that are lost; its logs are walked through once, when they are asked for.

    Args:
        partition: its segments.
        limits: what is read of a batch.
    """
    found = partition.learnt.get(LostHoles)
    if not isinstance(found, LostHoles):
        found = partition.learnt[LostHoles] = LostHoles(partition, limits)
    return found
