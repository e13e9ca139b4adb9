"""Which offsets a partition lacks, for verbs that answer questions about it: one walk over its headers, when needed.

A question meets a hole; mostly files say at once what it is. What only the rest of the log tells takes the headers of
all batches, once for a partition.
"""

from __future__ import annotations

import os
from functools import cached_property, partial
from typing import TYPE_CHECKING

from kdump.broker.clusters import policies_beside
from kdump.broker.hole_proofs import HoleInLog, HoleProofs, is_under_work
from kdump.broker.losses import LossFold, PartitionLosses, below, last_offset, with_proof
from kdump.broker.missing_offsets import MissingOffsets, OffsetHole, Proof, Surroundings
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import _scan, layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.format.record.wrapper import first_offset
from kdump.item import Certainty
from kdump.storage.lost_logs import lost_of
from kdump.storage.paths import exists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.broker.clusters import TopicPolicies
    from kdump.broker.losses import LostRange
    from kdump.format.read_limits import ReadLimits
    from kdump.item import Loss
    from kdump.storage.partition_dir import PartitionDir

_OF_HOLES = ((Code.O04.name,), (Code.O07.name,))
_WHY = {
    Proof.SHOWN: "and lost: the offset index knows batches there",
    Proof.MARKER: "and lost: the transaction index knows the end of a transaction there",
    None: "and lost: no compaction has made this hole, by the cleanup.policy of the topic",
}
COMPARE = (
    "an index that knows these offsets is a witness; see what another replica has: kdump verify --replicas DIR OTHER"
)
"""What to do about offsets that are missing, before anything is built again."""
_MOST_HELD = 1 << 17  # ranges of one log
_REMOTE_CACHE = "remote-log-index-cache"  # a broker makes it in a log.dir with tiered logs. Source: RemoteIndexCache


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
        None if key is None else _cleaned_to(partition, key),
        lost_of(partition).before_salvage,
        partial(exists, os.path.join(partition.log_dir.path, _REMOTE_CACHE)),
        partial(policies.of, partition),
    )


def _cleaned_to(partition: PartitionDir, key: tuple[str, int]) -> int | None:
    """Return the entry of a partition in cleaner-offset-checkpoint, None for none.

    A directory that is to take the place of the current log is a copy of that, which lies in another log.dir.
    """
    is_future = partition.parsed is not None and partition.parsed.state == "future"
    log_dirs = (partition.log_dir, *(partition.log_dir.siblings if is_future else ()))
    entries = (one.offset(FileKind.CLEANER, key) for one in log_dirs)
    return max((entry for entry in entries if entry is not None), default=None)


class LostHoles:
    """The holes of a partition that are lost, or may be: one that stands alone, in a topic of unknown policy.

    Args:
        partition: its segments.
        limits: what is read of a batch.

    Raises:
        UnreadableError, OSError: from each method: a log that tells cannot be read.
    """

    def __init__(self, partition: PartitionDir, limits: ReadLimits) -> None:
        self._partition = partition
        self._limits = limits

    @cached_property
    def _around(self) -> Surroundings:
        return surroundings(self._partition, policies_beside(self._partition, self._limits))

    def of(self, first: int, last: int, met: int = 1) -> list[Finding]:
        """Return the holes in a range of offsets, inclusive, that a reader has found to be missing.

        Args:
            first, last: the range.
            met: how many holes the reader has met in the partition.
        """
        if not self._may_be_lost(first, last, met):
            return []
        return [one for one in self.findings if (one.offset or 0) <= last and first <= (one.last_offset or 0)]

    def _may_be_lost(self, first: int, last: int, met: int) -> bool:
        """Whether a hole can be lost, by what is known without the headers of all batches, or up to a trace in them."""
        partition, hole = self._partition, OffsetHole(first, last)
        if self._around.salvaged.has_any(first, last):
            return True
        number = max(partition.floor(first), 0)
        is_proven = _proofs(partition, number, self._limits).may_show([HoleInLog(first, last, 0)])
        if is_proven and not is_under_work(partition.listing.names):
            return True
        judge = MissingOffsets(self._around)
        judge.holes = met - 1
        found = judge.early(hole)
        if found is not None:
            return found.is_lost
        return judge.was_never_compacted or (judge.may_be_lost and self._is_alone)

    @cached_property
    def _is_alone(self) -> bool:
        """Whether no more than one hole is all that there is of a cleaner's work; the walk ends at the first trace."""
        judge, last = MissingOffsets(self._around), None
        for number in range(len(self._partition)):
            ranges, end = read_log(self._partition, number, self._limits, judge, judge.has_trace)
            judge.reach(end)
            for one in ranges:
                is_hole = one.certainty is None and one.last >= self._partition.start_offset
                judge.holes += is_hole and one.first != last
                last = one.last + 1
            if judge.has_trace(holes=1):
                return False
        return True

    def at(self, offset: int) -> Finding | None:
        """Return the hole that an offset is in; None for none."""
        return next(iter(self.of(offset, offset)), None)

    @cached_property
    def findings(self) -> list[Finding]:
        """One for each hole, but for those that are told of a log that is gone.

        Reports: O04, O07, L19.
        """
        partition = self._partition
        judge = MissingOffsets(self._around)
        losses = PartitionLosses(partition.path, partition.name, partition.start_offset, judge)
        found: list[Loss] = []
        for number in range(len(partition)):
            log = partition.path_of(partition.bases[number], FileKind.LOG)
            ranges, end = read_log(partition, number, self._limits, judge)
            found += losses.take(log, ranges)
            losses.reached(end)
        found += losses.rest()
        gone = lost_of(partition).logs
        return [
            as_lost(of_hole(one), losses.verdicts[one.last_offset][0])
            if one.certainty is Certainty.LOST
            else of_unexplained(Code.L19, one, 1)
            for one in found
            if (one.certainty is Certainty.LOST and one.because[:1] in _OF_HOLES) or Code.L19.name in one.because
            if not any(one.offset <= base <= one.last_offset for base in gone)
        ]


def read_log(
    partition: PartitionDir,
    number: int,
    limits: ReadLimits,
    judge: MissingOffsets,
    until: Callable[[], bool] = lambda: False,
) -> tuple[list[LostRange], int]:
    """Return what a reader of one log does not get, in the order of offsets, and where the log ends.

    Args:
        partition: its segments.
        number: of the log among them.
        limits: what is read of a batch.
        judge: takes the traces of a cleaner.
        until: tells when enough was read.
    """
    segment, base = partition.segment(number), partition.bases[number]
    log, following = segment.log, partition.next_base(base)
    sizes = limits.max_uncompressed_bytes, limits.max_batch_bytes
    fold = LossFold(log.size, lambda at: first_offset(log, at, *sizes), lambda at: last_offset(log, at, *sizes))
    walk = CheckedWalk(
        log,
        fold.see,
        segment=base,
        next_base=following,
        hints=segment.offset_index.ascending_positions,
        max_batch_bytes=limits.max_batch_bytes,
    )
    walk.checks.follow_producers = False
    walk.checks.offsets.when_free = fold.settle
    ranges: list[LostRange] = []
    for window in walk.windows():
        traced = _scan.last_trace(window.rows, window.count)
        if traced >= 0:
            judge.trace(window.cell(traced, layout.LAST_OFFSET) + 1)
            if until():
                return [], base
        fold.window(lambda _position: None)
        if len(ranges) < _MOST_HELD:
            ranges += below(fold.ranges(), following)
    last = walk.checks.offsets.last
    end = base if last is None else last + 1
    if following is not None:
        fold.finish(end, following - 1, (), is_last=False)
    ranges += below(fold.ranges(), following)
    gaps = [HoleInLog(one.first, one.last, one.position) for one in ranges if one.certainty is None]
    if gaps and not is_under_work(partition.listing.names):
        shown = _proofs(partition, number, limits).of(gaps)
        ranges = [with_proof(one, shown) for one in ranges]
    return ranges, end if following is None else min(end, following)


def _proofs(partition: PartitionDir, number: int, limits: ReadLimits) -> HoleProofs:
    return HoleProofs(
        partition.segment(number),
        is_last=number == len(partition) - 1,
        next_base=partition.next_base(partition.bases[number]),
        max_batch_bytes=limits.max_batch_bytes,
    )


def of_hole(loss: Loss) -> Finding:
    """Return what is wrong with a hole that is lost.

    Args:
        loss: of a hole.

    Reports: O04, O07.
    """
    code = Code.O04 if loss.because[0] == Code.O04.name else Code.O07
    values: dict[str, int | str | None] = {"missing_first": loss.offset, "missing_last": loss.last_offset}
    if code is Code.O07:
        knows = "its time index knows them" if loss.because[0] == Code.T04.name else None
        values["why"] = knows or f"the next segment begins at {loss.last_offset + 1}"
    return _of(code, loss).replace(severity_override=Severity.ERROR, values=values)


def as_lost(finding: Finding, hole: OffsetHole) -> Finding:
    """Return a finding about a hole as an error that says why its offsets are lost.

    Args:
        finding: O04 or O07.
        hole: as it was judged.
    """
    why = _WHY.get(hole.proof, _WHY[None])
    values = {**finding.values, "also": why, "remedy": COMPARE}
    return finding.replace(severity_override=Severity.ERROR, values=values)


def of_unexplained(code: Code, first: Loss, count: int) -> Finding:
    """Return what is to be said of holes of which nobody can tell whether they are lost.

    Args:
        code: L17 or L19.
        first: of the first of them.
        count: how many there are.

    Reports: L17, L19.
    """
    is_one = first.offset == first.last_offset and count == 1
    values: dict[str, int | str | None] = {
        "missing_first": first.offset,
        "missing_last": first.last_offset,
        "others": "" if count == 1 else f", nor are those of {count - 1} more hole{'' if count == 2 else 's'}",
        "them": "it" if is_one else "them",
        "they": "it is" if is_one else "they are",
    }
    return _of(code, first).replace(by_neighbours=True, count=count, values=values)


def _of(code: Code, loss: Loss) -> Finding:
    place = loss.file or loss.path, loss.position, loss.length
    return Finding(code, *place, offset=loss.offset, last_offset=loss.last_offset)


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
