"""Offsets that no source has: the judgement that all verbs share, over the logs of all copies."""

from __future__ import annotations

import heapq
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.clusters import NO_POLICIES
from kdump.broker.missing.columns import MissingColumns
from kdump.broker.missing.findings import among_holes
from kdump.broker.missing.index_proofs import HoleProofs, ProvenRanges, is_under_work
from kdump.broker.missing.judge import NOTHING_AROUND, HoleJudge, HoleVerdict
from kdump.broker.missing.losses import HolesAmong
from kdump.broker.missing.lost_holes import surroundings
from kdump.broker.missing.ranges import MissingRange, Proof
from kdump.finding import Code
from kdump.ranges import RangeSet
from kdump.rows.verdict import Certainty
from kdump.storage.evidence import evidence_of
from kdump.storage.names import parse_partition
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.broker.clusters import TopicPolicies
    from kdump.broker.missing.judge import Surroundings
    from kdump.finding import Finding
    from kdump.rescue.scanned_log import ScannedLog
    from kdump.rescue.sources import Copy, SourceLog
    from kdump.storage.open_files import OpenFileCache

LogWithFacts = tuple["SourceLog", "ScannedLog"]


def _around(copy: Copy, policies: TopicPolicies) -> Surroundings:
    return NOTHING_AROUND if copy.is_carved else surroundings(copy.directory, policies, copy.bases)


def has_trace(copy: Copy, logs: Iterable[LogWithFacts]) -> bool:
    """Tell whether anything in a copy, or beside it, shows that a cleaner was at work: one hole alone shows nothing.

    Args:
        copy: of the partition.
        logs: of it, with what they have.
    """
    judge = HoleJudge(_around(copy, NO_POLICIES))
    for log, facts in logs:
        judge.trace(facts.traced_to)
        for gap in _gaps(copy, log, facts):
            judge.count(gap)
    return judge.has_trace(holes=1)


def is_lost_in(copy: Copy, logs: Iterable[LogWithFacts], policies: TopicPolicies, first: int, last: int) -> bool:
    """Tell whether a hole of a copy is lost, as no cleaner made it, by the policy of the topic.

    Args:
        copy: of the partition.
        logs: of it, with what they have.
        policies: what is known of topics.
        first, last: of its offsets.
    """
    judge = HoleJudge(_around(copy, policies))
    for log, facts in logs:
        judge.trace(facts.traced_to)
        for gap in _gaps(copy, log, facts):
            judge.count(gap)
    verdict = judge.verdict(MissingRange(first, last, (Code.O04.name,)))
    return verdict.certainty is Certainty.LOST and not verdict.is_known  # what a salvage has told of is a hole


def _gaps(copy: Copy, log: SourceLog, facts: ScannedLog) -> Iterator[MissingRange]:
    """The holes of one log of a copy, in order: where offsets are missing, and no bytes stand that may be theirs."""
    own = facts.holes
    inside = (_hole(log, own[at], own[at + 1], own[at + 2]) for at in range(0, len(own), 3))
    return heapq.merge(inside, sorted(_around_spans(copy, log, facts)))


def _hole(log: SourceLog, first: int, last: int, position: int) -> MissingRange:
    return MissingRange(first, last, (Code.O04.name,), log.path, position)


def _around_spans(copy: Copy, log: SourceLog, facts: ScannedLog) -> Iterator[MissingRange]:
    """The holes around the runs of batches of a log: before the first one, between two, behind the last one."""
    spans: list[tuple[int, int, int, int]] = list(facts.runs)
    for place in facts.places:
        if place.is_batch and place.is_exact and place.offset is not None and place.last_offset is not None:
            spans.append((place.position, place.position + place.length, place.offset, place.last_offset))
    base = None if facts.is_renamed or copy.is_carved else log.base
    before = [] if base is None else [(0, 0, base - 1, base - 1)]
    for (_, end, _, last), (begin, _, first, _) in pairwise([*before, *sorted(spans)]):
        if end == begin and first > last + 1:
            yield _hole(log, last + 1, first - 1, begin)
    if _ends_early(copy, log, facts):
        end = (log.base or 0) if facts.last is None else facts.last + 1
        yield _hole(log, end, (log.next_base or 0) - 1, log_size(facts))


def log_size(facts: ScannedLog) -> int:
    """Return where the last batch of a log ends, bytes."""
    return facts.runs.end


def _ends_early(copy: Copy, log: SourceLog, facts: ScannedLog) -> bool:
    """Whether offsets are missing behind a log, up to the next one, without damage or a file that shows them lost."""
    if copy.is_carved or log.base is None or log.next_base is None or facts.is_renamed:
        return False
    end, after = log.base if facts.last is None else facts.last + 1, log_size(facts)
    if end >= log.next_base or any(place.position + place.length > after for place in facts.places):
        return False
    with suppress(OSError):  # an index that cannot be read is no witness
        return (
            evidence_of(copy.directory).behind(log.base, end, copy.directory.listing.size(base_name(log.path))) is None
        )
    return True


class LineHoles:
    """Judges the holes of the line that several copies make.

    Args:
        name: of the partition.
        copies: of it, each with its logs and what they have, and up to which offset, exclusive, it is of the line.
        end: of the line.
        left_out: offsets of batches that are of another history than the line: what stood there was no compaction.
        policies: what is known of topics.
        cache: where files are open.
        max_batch_bytes: a batch over this is not held in memory.
    """

    def __init__(
        self,
        name: str,
        copies: Sequence[tuple[Copy, Sequence[LogWithFacts], int]],
        end: int,
        left_out: RangeSet,
        policies: TopicPolicies,
        cache: OpenFileCache,
        max_batch_bytes: int,
    ) -> None:
        self._left_out = left_out
        self._proven = {proof: RangeSet() for proof in Proof}
        self._groups: list[tuple[MissingColumns, HolesAmong]] = []  # of each log in which bytes are missing somewhere
        parsed, salvaged, entries = parse_partition(name), RangeSet(), []
        policy, traced = NOTHING_AROUND.policy, 0
        missing = []
        for copy, logs, stop in copies:
            around = _around(copy, policies)
            own_end = max((facts.last + 1 for _, facts in logs if facts.last is not None), default=0)
            if around.cleaned_to is not None:
                entries.append(min(around.cleaned_to, stop) if around.cleaned_to <= own_end else -1)
            policy = policy if copy.is_carved else around.policy
            for first, last in around.salvaged:
                salvaged.add(first, last)
            own = RangeSet()
            for log, facts in logs:
                traced = max(traced, min(facts.traced_to, stop))
                for gap in _gaps(copy, log, facts):
                    own.add(gap.first, gap.last)
                self._prove(copy, log, facts, cache, max_batch_bytes)
            missing.append((own, [facts for _, facts in logs]))
        topic = None if parsed is None else parsed.topic
        around = NOTHING_AROUND._replace(topic=topic, last_base=end, salvaged=salvaged, policy=policy)
        self._judge = HoleJudge(around._replace(cleaned_to=max(entries, default=None)))
        self._judge.trace(traced)
        for first, last in _in_all(missing):
            for part in self._parts(first, last):
                self._judge.count(part)

    def _prove(self, copy: Copy, log: SourceLog, facts: ScannedLog, cache: OpenFileCache, max_batch_bytes: int) -> None:
        if copy.is_carved or log.base is None or facts.is_renamed or is_under_work(copy.directory.listing.names):
            return
        proofs = HoleProofs(
            copy.segment(log, cache),
            is_last=log.next_base is None,
            next_base=log.next_base,
            max_batch_bytes=max_batch_bytes,
        )
        among = MissingColumns()
        for gap in ProvenRanges(proofs).each(_gaps(copy, log, facts)):
            if gap.proof is None:
                continue
            self._proven[gap.proof].add(gap.first, gap.last)
            if gap.proof is Proof.AMONG_SEVERAL:
                if not len(among):
                    self._groups.append((among, HolesAmong(gap.missing_bytes)))
                among.add(gap)

    def _parts(self, first: int, last: int, because: tuple[str, ...] = ()) -> Iterator[MissingRange]:
        """A hole, divided where what an index proves of it begins or ends: an index knows of its own log only."""
        borders = {first, last + 1}
        for ranges in self._proven.values():
            for begin, stop in ranges.over(first, last):
                borders |= {max(begin, first), min(stop, last) + 1}
        for begin, behind in pairwise(sorted(borders)):
            proof = next((one for one, ranges in self._proven.items() if ranges.has_any(begin, begin)), None)
            yield MissingRange(begin, behind - 1, because, proof=proof)

    @property
    def has_trace(self) -> bool:
        """Whether a cleaner was at work in any copy; one hole alone does not show it."""
        return self._judge.has_trace(holes=1)

    def verdicts(self, first: int, last: int, *, is_end: bool) -> Iterator[tuple[int, int, HoleVerdict]]:
        """Yield what is to be said of offsets that no source has: parts of the range, in order, each with its verdict.

        Args:
            first, last: inclusive.
            is_end: they lie behind the line, and only checkpoints and snapshots know of them.
        """
        for part in self._parts(first, last, ("K01",) if is_end else ()):
            found = self._judge.verdict(part)
            is_open = found.certainty is Certainty.UNEXPLAINED and found.because is not Code.X04
            is_left_out = is_open and self._left_out.has_any(part.first, part.last)
            yield part.first, part.last, HoleVerdict(Certainty.LOST) if is_left_out else found

    def note_among(self, first: int, last: int) -> None:
        """Note that the line lacks a hole, one of several in one of which bytes are missing."""
        for gaps, among in self._groups:
            gap = next(iter(gaps.over(first, last)), None)
            if gap is not None:
                among.add(gap._replace(first=first, last=last))
                return

    def among(self) -> list[Finding]:
        """Return a finding for all such holes of one log that the line lacks too.

        Reports: O04.
        """
        return [among_holes(among) for _, among in self._groups if among.first is not None]


def _in_all(copies: Sequence[tuple[RangeSet, Sequence[ScannedLog]]]) -> RangeSet:
    """The holes of the copies that none of the others fills.

    Args:
        copies: of each what is missing in it, and what its logs have.
    """
    spans = []
    for _, logs in copies:
        firsts = [facts.first for facts in logs if facts.first is not None]
        lasts = [facts.last for facts in logs if facts.last is not None]
        spans.append((min(firsts, default=0), max(lasts, default=-1)))
    told = RangeSet()
    for number, (missing, _) in enumerate(copies):
        for first, last in missing:
            others = (k for k, span in enumerate(spans) if k != number and span[0] <= first and last <= span[1])
            if not told.has_any(first, last) and all(copies[k][0].has_any(first, last) for k in others):
                told.add(first, last)
    return told
