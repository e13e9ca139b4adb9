"""What explains many findings of a partition at once: the cause is told first, and each effect names it.

Effects that may have a cause are held back until their segment is judged; nothing else waits. What is held back is
bounded: findings of an index are capped, and of others no more than some thousand wait.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import PartitionDir
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeGuard

    from kdump.checks.job import Evidence, SegmentJob, SegmentSummary
    from kdump.checks.segment import Result
    from kdump.item import Item

_OF_INDEXES = (
    *(Code.X01, Code.X02, Code.X03, Code.X04, Code.X05, Code.X06, Code.X07, Code.X08),
    *(Code.T01, Code.T02, Code.T03, Code.T04, Code.T05),
)
_OF_ENDS = (Code.O01, Code.O02, Code.O06, Code.O07)
_OF_PRODUCERS = (Code.P01, Code.P02, Code.S03, Code.A03, Code.A04, Code.A05, Code.A06)
_OF_FOREIGN = (*_OF_INDEXES, *_OF_ENDS, *_OF_PRODUCERS, Code.E03)
_BEYOND = (Code.X07, Code.T04, Code.O07, Code.A03, Code.A05)  # where they are about what lies behind the end
_LATE = (Code.S02, Code.K01, Code.K04)
_MOST_HELD = 20_000
_MOST_LOOKS = 4  # segments of a partition that are looked for in others
_MOST_BESIDE = 256  # partitions
_MOST_HOPS = 100_000  # headers of a log
_NAMES = {FileKind.INDEX: "its offset index", FileKind.TIMEINDEX: "its time index"}
_OF_SHAPE = frozenset({Code.X01, Code.X03, Code.T01, Code.T03})  # of entries that no broker has written so


class _Neighbour(Value):
    """What the segment before, or the first batch of the one after, says: epochs and times, lowest and highest."""

    epochs: tuple[int, int] | None
    times: tuple[int, int] | None


class PartitionCauses:
    """Finds what explains the findings of a partition.

    Args:
        directory: of the partition.

    Attributes:
        has_holes: offsets are missing within its segments, or batches lack records.

    Reports: F14, F15, X09.
    """

    def __init__(self, directory: PartitionDir) -> None:
        self._directory = directory
        self._held: list[Finding] = []
        self._before: _Neighbour | None = None
        self._is_after_foreign = False
        self._at_end: Code | None = None
        self._end = self._looks = 0
        self.has_holes = False
        self._end_before: int | None = None  # of the segment before, where it is known

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
        yield from self._explained(job, facts, found)
        yield from rest

    def _explained(self, job: SegmentJob, facts: SegmentSummary, found: list[Finding]) -> Iterator[Finding]:
        evidence = facts.evidence
        self.has_holes |= evidence is not None and evidence.has_holes
        if evidence is None or evidence.cause is not None:
            self._before, self._is_after_foreign, self._end_before = None, False, None
            if job.is_last and evidence is not None:
                self._at_end, self._end = evidence.cause, facts.end_offset
            yield from found
            return
        reached = self._reached(job, facts)
        causes = _causes_of(job, facts, evidence, found, reached)
        if self._was_whole(job, facts.end_offset):
            causes = [one for one in causes if one.code is not Code.F14]
        now = _neighbour(facts, evidence)
        foreign = self._foreign(job, facts, evidence, now, found, causes, reached)
        for one in [*foreign, *causes]:
            yield one.replace(because=Code.F15) if foreign and one.code is not Code.F15 else one
        self._end = facts.end_offset
        if job.is_last and (foreign or any(one.code is Code.F14 for one in causes)):
            self._at_end = Code.F15 if foreign else Code.F14
        for one in found:
            cause = _cause_of(one, causes, facts.end_offset)
            if cause is None and foreign:
                cause = Code.F15
            if cause is None and self._is_after_foreign and one.code in _OF_PRODUCERS:
                cause = Code.F15
            yield one if cause is None else one.replace(because=cause)
        self._is_after_foreign = bool(foreign)
        self._before = None if foreign else now
        self._end_before = None if foreign or not evidence.is_whole_at_end else facts.end_offset

    @property
    def explains_end(self) -> bool:
        """Whether something explains why others know offsets above the end of the log."""
        return self._at_end is not None

    def late(self, finding: Finding) -> Finding:
        """Return a finding about a file that belongs to no segment, with the cause that was told before."""
        is_beyond = finding.code is not Code.K04 or (finding.offset or 0) > self._end
        if self._at_end is None or finding.code not in _LATE or finding.because is not None or not is_beyond:
            return finding
        return finding.replace(because=self._at_end)

    # --- F14 ------------------------------------------------------------------------------------------------
    def _reached(self, job: SegmentJob, facts: SegmentSummary) -> tuple[int, str] | None:
        """The end that the log has had by the snapshots, and which says so; None where it is not above its end."""
        directory = self._directory
        if not job.is_last or job.is_held or job.is_leftover:
            return None
        found = [
            (file.name.base_offset, os.path.basename(file.path))
            for file in directory.contents.files
            if file.name.kind is FileKind.SNAPSHOT and file.name.base_offset is not None
        ]
        highest = max(found, default=(0, ""))
        return None if highest[0] <= facts.end_offset else (highest[0], f"the snapshot {highest[1]}")

    def _was_whole(self, job: SegmentJob, end: int) -> bool:
        """Whether a broker that has closed the log in order has left it with this end: nothing is missing then."""
        key, log_dir = self._directory.key, self._directory.log_dir
        return job.is_last and job.is_clean and key is not None and log_dir.offset(FileKind.RECOVERY_POINT, key) == end

    # --- F15 ------------------------------------------------------------------------------------------------
    def _foreign(
        self,
        job: SegmentJob,
        facts: SegmentSummary,
        evidence: Evidence,
        now: _Neighbour,
        found: list[Finding],
        causes: list[Finding],
        reached: tuple[int, str] | None,
    ) -> list[Finding]:
        """Whether two independent facts say that the segment is another partition's."""
        if not facts.batches or job.is_leftover or job.is_held or job.is_raft_log:
            return []
        is_other_index = any(one.code is Code.X09 for one in causes)
        skips = any(one.code is Code.P01 and one.severity is Severity.WARNING for one in found)
        joints = self._joints(job, facts, evidence, reached)
        if not (evidence.off_epochs or is_other_index or skips or joints or _apart(self._before, now, None)):
            return []
        after = self._first_of_next(job)
        is_apart = facts.batches > 1 and _apart(self._before, now, after, "epochs")
        is_sure = len(joints) == 2 and any(overlaps for overlaps, _ in joints)
        why = []
        if (evidence.off_epochs or is_apart) and evidence.epochs is not None:
            said = ["the leader-epoch-checkpoint"] if evidence.off_epochs else []
            said += ["the segments beside it"] if is_apart else []
            lowest, highest = evidence.epochs
            which = f"epoch {lowest} contradicts" if lowest == highest else f"epochs {lowest}..{highest} contradict"
            why.append(f"its leader {which} {' and '.join(said)}")
            is_sure |= len(said) == 2
        if any(overlaps for overlaps, _ in joints) or is_sure:
            why += [sentence for _, sentence in joints]
        if is_other_index:
            why.append("its indexes are of another log")
        if skips:
            why.append("sequences of producers do not go on")
        if _apart(self._before, now, after, "times"):
            why.append("its timestamps lie before those of the segment before it, or after those of the next")
        home = None if len(why) > 1 and not joints else self._home(job, facts, evidence)
        if len(why) < 2 and not is_sure and home is None:
            return []
        if home is not None:
            why = [*(why or [sentence for _, sentence in joints]), f"it fits {os.path.basename(home)}"]
        return [
            Finding(
                Code.F15,
                job.files[FileKind.LOG],
                offset=evidence.first_offset,
                last_offset=facts.end_offset - 1 if evidence.first_offset is not None else None,
                values={"why": "; ".join(why)},
            )
        ]

    def _joints(
        self, job: SegmentJob, facts: SegmentSummary, evidence: Evidence, reached: tuple[int, str] | None
    ) -> list[tuple[bool, str]]:
        """Where the offsets do not go on from the segment before, or to the next: whether they overlap, and a sentence.

        Compaction leaves offsets out too: where some are missing inside, those that are missing at an end say nothing.
        """
        first, end, before = evidence.first_offset, facts.end_offset, self._end_before
        if first is None or not evidence.is_whole:
            return []
        found = []
        if first not in (job.base_offset, job.base_offset if before is None else before):
            floor = job.base_offset if before is None else before
            found.append((first < floor, f"it begins with offset {first}, and the one before it ends before {floor}"))
        after, what = job.next_base, "the next one begins at"
        if job.is_last:
            after, what = self._closed_at(job), "the broker had closed the log at"
            if after is None and reached is not None:
                after, what = reached[0], f"{reached[1]} goes on to"
        if after not in (None, end):
            found.append((end > (after or 0), f"it ends before offset {end}, and {what} {after}"))
        has_overlap = any(overlaps for overlaps, _ in found)
        return found if has_overlap or not evidence.has_holes else []

    def _closed_at(self, job: SegmentJob) -> int | None:
        """The end of the log by the broker that has closed it."""
        key = self._directory.key
        return (
            self._directory.log_dir.offset(FileKind.RECOVERY_POINT, key) if job.is_clean and key is not None else None
        )

    def _home(self, job: SegmentJob, facts: SegmentSummary, evidence: Evidence) -> str | None:
        """The partition beside this one that the segment fits, and this one's fits there, where offsets tell it."""
        first, end = evidence.first_offset, facts.end_offset
        if first is None or self._looks == _MOST_LOOKS:
            return None
        self._looks += 1
        log_dir = self._directory.log_dir
        for path in log_dir.listing.partitions()[:_MOST_BESIDE]:
            other = PartitionDir(path, log_dir)
            if other.name == self._directory.name or first not in other.bases:
                continue
            if first != job.base_offset and other.next_base(first) in (None, end):
                return path
            is_full = first == job.base_offset and other.next_base(first) == end
            if is_full and job.next_base not in (None, end) and _end_of_log(other, first) == job.next_base:
                return path
        return None

    def _first_of_next(self, job: SegmentJob) -> _Neighbour | None:
        """Epoch and time of the first batch of the next segment."""
        if job.next_base is None:
            return None
        opened = open_source(self._directory.path_of(job.next_base, FileKind.LOG), follow=False)
        if isinstance(opened, OpenFailure):
            return None
        try:
            with opened:
                head = opened.read_at(0, layout.RECORDS_AT)
        except OSError:
            return None
        if len(head) < layout.RECORDS_AT or head[layout.MAGIC_AT] != layout.MAGIC_V2:
            return None
        epoch = int.from_bytes(head[layout.LEADER_EPOCH_AT : layout.LEADER_EPOCH_AT + 4], "big", signed=True)
        time = int.from_bytes(head[layout.MAX_TIMESTAMP_AT : layout.MAX_TIMESTAMP_AT + 8], "big", signed=True)
        return _Neighbour((epoch, epoch), (time, time))


def may_be_effect(item: Item | Result) -> TypeGuard[Finding]:
    """Tell whether an item may have a cause that is known at the end of its segment only."""
    return isinstance(item, Finding) and item.because is None and item.code in _OF_FOREIGN


def _causes_of(
    job: SegmentJob,
    facts: SegmentSummary,
    evidence: Evidence,
    found: Iterable[Finding],
    reached: tuple[int, str] | None = None,
) -> list[Finding]:
    """What explains findings about one segment; `reached` is the end that it has had by others, and which."""
    if _is_foreign_index(facts, evidence) and _OF_SHAPE.isdisjoint(one.code for one in found):
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
    for cause in causes:
        if cause.code is Code.X09 and finding.code in _OF_INDEXES:
            return Code.X09
        if cause.code is Code.F14 and finding.code in _BEYOND and (finding.last_offset or finding.offset or 0) >= end:
            return Code.F14
    return None


def _is_foreign_index(facts: SegmentSummary, evidence: Evidence) -> bool:
    """Whether each entry of all indexes contradicts a log that is intact itself, most by where batches begin."""
    offsets, times = evidence.indexes.get(FileKind.INDEX), evidence.indexes.get(FileKind.TIMEINDEX)
    if offsets is None or not facts.batches or not evidence.is_whole:
        return False
    is_off = not offsets.right and offsets.misplaced and 2 * offsets.misplaced >= offsets.wrong
    if times is None or not (times.right or times.wrong):
        return bool(is_off and offsets.wrong > 2)
    return bool(is_off and not times.right)


def _stale(
    job: SegmentJob, facts: SegmentSummary, evidence: Evidence, reached: tuple[int, str] | None
) -> list[Finding]:
    """Whether the log ends at a batch boundary below what its indexes, or those around it, know."""
    end = facts.end_offset
    found = [] if reached is None else [reached]
    for kind, verdict in evidence.indexes.items():
        if verdict.wrong > verdict.beyond:
            return []  # it is no witness
        if verdict.reaches is not None and verdict.reaches >= end:
            found.append((verdict.reaches + 1, _NAMES[kind]))
    if job.next_base is not None:
        found = [(min(known, job.next_base), what) for known, what in found if end < job.next_base]
    if not found or not evidence.is_whole_at_end or job.is_held or job.is_leftover:
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


def _neighbour(facts: SegmentSummary, evidence: Evidence) -> _Neighbour:
    first, latest = facts.first_timestamp, facts.max_timestamp
    return _Neighbour(evidence.epochs, None if first is None or latest is None else (first, latest))


def _apart(before: _Neighbour | None, now: _Neighbour, after: _Neighbour | None, what: str = "epochs") -> bool:
    """Whether all of a segment lies below what was before it, or above what comes after it."""
    own = getattr(now, what)
    if own is None or own[0] < 0:
        return False
    lower = None if before is None else getattr(before, what)
    upper = None if after is None else getattr(after, what)
    return (lower is not None and own[1] < lower[0]) or (upper is not None and own[0] > upper[1] >= 0)


def _end_of_log(directory: PartitionDir, base: int) -> int | None:
    """The offset after the last batch of a log by the chain of its headers, None where that breaks."""
    opened = open_source(directory.path_of(base, FileKind.LOG), follow=False)
    if isinstance(opened, OpenFailure):
        return None
    end = None
    with opened, suppress(OSError):
        position = 0
        for _ in range(_MOST_HOPS):
            head = opened.read_at(position, layout.RECORDS_AT)
            if len(head) < layout.RECORDS_AT or head[layout.MAGIC_AT] != layout.MAGIC_V2:
                break
            first, size = int.from_bytes(head[:8], "big", signed=True), int.from_bytes(head[8:12], "big", signed=True)
            delta = head[layout.LAST_OFFSET_DELTA_AT : layout.LAST_OFFSET_DELTA_AT + 4]
            end = first + int.from_bytes(delta, "big", signed=True) + 1
            position += layout.LOG_OVERHEAD + max(size, layout.MIN_SIZE_V2)
            if position == opened.size:
                return end
    return None
