"""What explains many findings of a partition at once: the cause is told first, and each effect names it.

Effects that may have a cause are held back until their segment is judged; nothing else waits. What is held back is
bounded: findings of an index are capped, and of others no more than some thousand wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.foreign import ForeignSegments, SegmentOrigin, highest_snapshot, shown_end
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.kinds import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeGuard

    from kdump.checks.job import OriginFacts, SegmentJob, SegmentSummary
    from kdump.checks.segment import Result
    from kdump.item import Item
    from kdump.storage.partition_dir import PartitionDir

_MAY_BE_EFFECT = frozenset((Trait.INDEX_ENTRY, Trait.PRODUCER_STATE, Trait.NEIGHBOURS))
_MOST_HELD = 20_000

_INDEXES = {FileKind.INDEX: "its offset index", FileKind.TIMEINDEX: "its time index"}


class PartitionCauses:
    """Finds what explains the findings of a partition.

    Args:
        directory: of the partition.
        has_trace: tells whether anything in the log so far shows that a cleaner was at work.

    Attributes:
        has_holes: offsets are missing within its segments, or batches lack records.
        is_foreign: the segment that was settled last is another partition's.

    Reports: F14, F15, X09.
    """

    def __init__(self, directory: PartitionDir, has_trace: Callable[[], bool]) -> None:
        self._directory = directory
        self._has_trace = has_trace
        self._held: list[Finding] = []
        self._origins = ForeignSegments(directory)
        self._is_after_foreign = False
        self._at_end: Code | None = None
        self._end = 0
        self.has_holes = self.is_foreign = False

    def take(self, item: Item) -> Iterator[Item]:
        """Yield an item of a segment, unless it may be the effect of something that is not known yet."""
        if may_be_effect(item) and len(self._held) < _MOST_HELD:
            self._held.append(item)
        else:
            yield item

    def settle(self, job: SegmentJob, facts: SegmentSummary, others: Iterable[Item]) -> Iterator[Item]:
        """Yield what was held back of a segment, its cause before it.

        Args:
            job: the segment.
            facts: what its log has shown.
            others: what was found about it since.
        """
        rest: list[Item] = []
        for item in others:
            rest += self.take(item)
        found, self._held = self._held, []
        self.is_foreign = False
        yield from self._explained(job, facts, found)
        yield from rest

    def _explained(self, job: SegmentJob, facts: SegmentSummary, found: list[Finding]) -> Iterator[Finding]:
        evidence = facts.evidence
        self.has_holes |= evidence is not None and evidence.shape.has_holes
        if evidence is None or evidence.cause is not None:
            self._origins.skip()
            self._is_after_foreign = False
            if job.is_last and evidence is not None:
                self._at_end, self._end = evidence.cause, facts.end_offset
            yield from found
            return
        reached = self._reached(job, facts)
        causes = _causes_of(job, facts, evidence, found, reached)
        if self._was_whole(job, facts.end_offset):
            causes = [one for one in causes if one.code is not Code.F14]
        foreign = self._foreign(job, facts, evidence, found, causes)
        self.is_foreign = foreign is not None
        if foreign is not None:
            yield foreign
        for one in causes:
            yield one if foreign is None else one.replace(because=Code.F15)
        self._end = facts.end_offset
        if job.is_last and (foreign or any(one.code is Code.F14 for one in causes)):
            self._at_end = Code.F15 if foreign else Code.F14
        for one in found:
            cause = _cause_of(one, causes, facts.end_offset)
            if cause is None and foreign is not None:
                cause = Code.F15
            if cause is None and self._is_after_foreign and Trait.PRODUCER_STATE in one.code.traits:
                cause = Code.F15
            yield one if cause is None else one.replace(because=cause)
        self._is_after_foreign = self.is_foreign

    def _foreign(
        self, job: SegmentJob, facts: SegmentSummary, evidence: OriginFacts, found: list[Finding], causes: list[Finding]
    ) -> Finding | None:
        """What is wrong with a segment that is another partition's."""
        first, latest = facts.first_timestamp, facts.max_timestamp
        origin = SegmentOrigin(
            job.files[FileKind.LOG],
            job.base_offset,
            next_base=job.next_base,
            batches=facts.batches,
            end_offset=facts.end_offset,
            shape=evidence.shape,
            times=None if first is None or latest is None else (first, latest),
            is_other_index=any(one.code is Code.X09 for one in causes),
            skips=any(one.code is Code.P01 and one.severity is Severity.WARNING for one in found),
            shown_end=shown_end(self._directory, facts.end_offset) if job.is_last else None,
        )
        if job.misplaced is not None or job.is_leftover or job.is_held or job.is_raft_log:
            self._origins.keep(origin)
            return None
        return self._origins.judge(origin)

    @property
    def explains_end(self) -> bool:
        """Whether something explains why others know offsets above the end of the log."""
        return self._at_end is not None

    def late(self, finding: Finding) -> Finding:
        """Return a finding about a file that belongs to no segment, with the cause that was told before."""
        is_beyond = finding.code is not Code.K04 or (finding.offset or 0) > self._end
        is_above = Trait.ABOVE_END in finding.code.traits and is_beyond
        if self._at_end is None or finding.because is not None or not is_above:
            return finding
        return finding.replace(because=self._at_end)

    # --- F14 ------------------------------------------------------------------------------------------------
    def _reached(self, job: SegmentJob, facts: SegmentSummary) -> tuple[int, str] | None:
        """The end that the log has had by the snapshots, and which says so; None where it is not above its end."""
        directory = self._directory
        if not job.is_last or job.is_held or job.is_leftover or self._has_trace():  # a truncation may end behind a hole
            return None
        highest = highest_snapshot(directory)
        return None if highest[0] <= facts.end_offset else (highest[0], f"the snapshot {highest[1]}")

    def _was_whole(self, job: SegmentJob, end: int) -> bool:
        """Whether a broker that has closed the log in order has left it with this end: nothing is missing then."""
        key, log_dir = self._directory.key, self._directory.log_dir
        return job.is_last and job.is_clean and key is not None and log_dir.offset(FileKind.RECOVERY_POINT, key) == end


def may_be_effect(item: Item | Result) -> TypeGuard[Finding]:
    """Tell whether an item may have a cause that is known at the end of its segment only."""
    return isinstance(item, Finding) and item.because is None and not _MAY_BE_EFFECT.isdisjoint(item.code.traits)


def _causes_of(
    job: SegmentJob,
    facts: SegmentSummary,
    evidence: OriginFacts,
    found: Iterable[Finding],
    reached: tuple[int, str] | None = None,
) -> list[Finding]:
    """What explains findings about one segment; `reached` is the end that it has had by others, and which."""
    if _is_foreign_index(facts, evidence) and not any(Trait.ODD_ENTRIES in one.code.traits for one in found):
        kinds = [kind for kind in (FileKind.INDEX, FileKind.TIMEINDEX) if kind in evidence.indexes]
        count = sum(evidence.indexes[kind].wrong for kind in kinds)
        return [Finding(Code.X09, job.files[kinds[0]], count=count)]
    return _stale(job, facts, evidence, reached)


def explained(job: SegmentJob, facts: SegmentSummary, found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings about a segment, or one file of it, that is judged alone, causes first.

    Args:
        job: the segment.
        facts: what its log has shown.
        found: the findings.

    Reports: F14, X09.
    """
    evidence = facts.evidence
    is_told = evidence is None or evidence.cause is not None
    causes = [] if evidence is None or is_told else _causes_of(job, facts, evidence, found)
    causes = [one for one in causes if job.only in (None, one.file)]
    yield from causes
    for one in found:
        cause = _cause_of(one, causes, facts.end_offset)
        yield one if cause is None else one.replace(because=cause)


def _cause_of(finding: Finding, causes: list[Finding], end: int) -> Code | None:
    traits, is_beyond = finding.code.traits, (finding.last_offset or finding.offset or 0) >= end
    for cause in causes:
        if cause.code is Code.X09 and Trait.INDEX_ENTRY in traits:
            return Code.X09
        if cause.code is Code.F14 and Trait.BEYOND_END in traits and is_beyond:
            return Code.F14
    return None


def _is_foreign_index(facts: SegmentSummary, evidence: OriginFacts) -> bool:
    """Whether each entry of all indexes contradicts a log that is intact itself, most by where batches begin."""
    offsets, times = evidence.indexes.get(FileKind.INDEX), evidence.indexes.get(FileKind.TIMEINDEX)
    if offsets is None or not facts.batches or not evidence.shape.is_whole:
        return False
    is_off = not offsets.right and offsets.misplaced and 2 * offsets.misplaced >= offsets.wrong
    if times is None or not (times.right or times.wrong):
        return bool(is_off and offsets.wrong > 2)
    return bool(is_off and not times.right)


def _stale(
    job: SegmentJob, facts: SegmentSummary, evidence: OriginFacts, reached: tuple[int, str] | None
) -> list[Finding]:
    """Whether the log ends at a batch boundary below what its indexes, or those around it, know."""
    end = facts.end_offset
    found = [] if reached is None else [reached]
    for kind, verdict in evidence.indexes.items():
        if verdict.wrong > verdict.beyond:
            return []  # it is no witness
        is_witness = kind is FileKind.INDEX or job.is_last  # a time index may be older than what a cleaner left
        if is_witness and verdict.reaches is not None and verdict.reaches >= end:
            found.append((verdict.reaches + 1, _INDEXES[kind]))
    if job.next_base is not None:
        if job.is_under_work:
            return []  # log and index may be of different times
        found = [(min(known, job.next_base), what) for known, what in found if end < job.next_base]
    if not found or not evidence.shape.is_whole_at_end or job.is_held or job.is_leftover:
        return []
    known, what = max(found, key=lambda one: one[0])
    size = facts.sizes.get(FileKind.LOG, 0)
    return [
        Finding(
            Code.F14,
            job.files[FileKind.LOG],
            size,
            0,
            offset=end,
            last_offset=known - 1,
            by_neighbours=True,
            found=end,
            expected=known,
            values={"what": what},
        )
    ]
