"""Offsets that no source has: the judgement that all verbs share, over the logs of all copies."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.clusters import NO_POLICIES
from kdump.broker.hole_proofs import HoleInLog, HoleProofs, is_under_work
from kdump.broker.missing_offsets import NOTHING_AROUND, HoleVerdict, MissingOffsets, OffsetHole, Proof
from kdump.broker.missing_walk import surroundings
from kdump.finding import Code
from kdump.item import Certainty
from kdump.ranges import RangeSet
from kdump.rescue.log_facts import STRETCH
from kdump.storage.lost_logs import lost_of
from kdump.storage.names import parse_partition
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.broker.clusters import TopicPolicies
    from kdump.broker.missing_offsets import Surroundings
    from kdump.rescue.log_facts import LogFacts
    from kdump.rescue.sources import Copy, SourceLog
    from kdump.storage.open_files import OpenFileCache

CopyLog = tuple["SourceLog", "LogFacts"]


def _around(copy: Copy, policies: TopicPolicies) -> Surroundings:
    return NOTHING_AROUND if copy.is_run else surroundings(copy.directory, policies, copy.bases)


def has_trace(copy: Copy, logs: Iterable[CopyLog]) -> bool:
    """Tell whether anything in a copy, or beside it, shows that a cleaner was at work: one hole alone shows nothing.

    Args:
        copy: of the partition.
        logs: of it, with what they have.
    """
    judge = MissingOffsets(_around(copy, NO_POLICIES))
    for log, facts in logs:
        judge.trace(facts.traced_to)
        for gap in _gaps(copy, log, facts):
            judge.count(OffsetHole(gap.first, gap.last))
    return judge.has_trace(holes=1)


def _gaps(copy: Copy, log: SourceLog, facts: LogFacts) -> list[HoleInLog]:
    """The holes of one log of a copy: where offsets are missing, and no bytes stand that may be theirs."""
    rows = facts.stretches
    spans = [(rows[at], rows[at + 1], rows[at + 2], rows[at + 3]) for at in range(0, len(rows), STRETCH)]
    for place in facts.places:
        if place.is_batch and place.is_exact and place.offset is not None and place.last_offset is not None:
            spans.append((place.position, place.position + place.length, place.offset, place.last_offset))
    base = None if facts.is_renamed or copy.is_run else log.base
    before = [] if base is None else [(0, 0, base - 1, base - 1)]
    found = [HoleInLog(*one) for one in facts.holes]
    for (_, end, _, last), (begin, _, first, _) in pairwise([*before, *sorted(spans)]):
        if end == begin and first > last + 1:
            found.append(HoleInLog(last + 1, first - 1, begin))
    if _ends_early(copy, log, facts):
        end = (log.base or 0) if facts.last is None else facts.last + 1
        found.append(HoleInLog(end, (log.next_base or 0) - 1, log_size(facts)))
    return sorted(found)


def log_size(facts: LogFacts) -> int:
    """Return where the last batch of a log ends, bytes."""
    return max(facts.stretches[1::STRETCH], default=0)


def _ends_early(copy: Copy, log: SourceLog, facts: LogFacts) -> bool:
    """Whether offsets are missing behind a log, up to the next one, without damage or a file that shows them lost."""
    if copy.is_run or log.base is None or log.next_base is None or facts.is_renamed:
        return False
    end, after = log.base if facts.last is None else facts.last + 1, log_size(facts)
    if end >= log.next_base or any(place.position + place.length > after for place in facts.places):
        return False
    with suppress(OSError):  # an index that cannot be read is no witness
        return lost_of(copy.directory).behind(log.base, end, copy.directory.listing.size(base_name(log.path))) is None
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
        copies: Sequence[tuple[Copy, Sequence[CopyLog], int]],
        end: int,
        left_out: RangeSet,
        policies: TopicPolicies,
        cache: OpenFileCache,
        max_batch_bytes: int,
    ) -> None:
        self._left_out = left_out
        self._proven = {proof: RangeSet() for proof in Proof}
        parsed, salvaged, entries = parse_partition(name), RangeSet(), []
        policy, traced = NOTHING_AROUND.policy, 0
        gaps = [[(log, facts, _gaps(copy, log, facts)) for log, facts in logs] for copy, logs, _ in copies]
        for (copy, logs, stop), own in zip(copies, gaps, strict=True):
            around = _around(copy, policies)
            own_end = max((facts.last + 1 for _, facts in logs if facts.last is not None), default=0)
            if around.cleaned_to is not None:
                entries.append(min(around.cleaned_to, stop) if around.cleaned_to <= own_end else -1)
            policy = policy if copy.is_run else around.policy
            for first, last in around.salvaged:
                salvaged.add(first, last)
            for log, facts, found in own:
                traced = max(traced, min(facts.traced_to, stop))
                self._prove(copy, log, facts, found, cache, max_batch_bytes)
        topic = None if parsed is None else parsed.topic
        around = NOTHING_AROUND._replace(topic=topic, last_base=end, salvaged=salvaged, policy=policy)
        self._judge = MissingOffsets(around._replace(cleaned_to=max(entries, default=None)))
        self._judge.trace(traced)
        for first, last in _in_all(gaps):
            self._judge.count(OffsetHole(first, last, self._proof(first, last)))

    def _prove(
        self,
        copy: Copy,
        log: SourceLog,
        facts: LogFacts,
        gaps: Sequence[HoleInLog],
        cache: OpenFileCache,
        max_batch_bytes: int,
    ) -> None:
        if not gaps or copy.is_run or log.base is None or facts.is_renamed:
            return
        if is_under_work(copy.directory.listing.names):
            return
        found = HoleProofs(
            copy.segment(log, cache),
            is_last=log.next_base is None,
            next_base=log.next_base,
            max_batch_bytes=max_batch_bytes,
        ).of(gaps)
        for gap, shown in found.items():
            self._proven[shown.proof].add(gap.first, gap.last)

    def _proof(self, first: int, last: int) -> Proof | None:
        return next((proof for proof, ranges in self._proven.items() if ranges.has_any(first, last)), None)

    @property
    def has_trace(self) -> bool:
        """Whether a cleaner was at work in any copy; one hole alone does not show it."""
        return self._judge.has_trace(holes=1)

    def verdict(self, first: int, last: int, *, is_end: bool) -> HoleVerdict:
        """Return what is to be said of offsets that no source has.

        Args:
            first, last: inclusive.
            is_end: they lie behind the line, and only checkpoints and snapshots know of them.
        """
        because = ("K01",) if is_end else ()
        found = self._judge.verdict(OffsetHole(first, last, self._proof(first, last), because))
        is_open = found.certainty is Certainty.UNEXPLAINED and found.because is not Code.X04
        return HoleVerdict(Certainty.LOST) if is_open and self._left_out.has_any(first, last) else found


def _in_all(gaps: Sequence[Sequence[tuple[SourceLog, LogFacts, list[HoleInLog]]]]) -> Iterator[tuple[int, int]]:
    """The holes of the copies that none of the others fills, each once.

    Args:
        gaps: of each copy its logs with their holes.
    """
    own, spans = [], []
    for copy in gaps:
        missing = RangeSet()
        for _, _, found in copy:
            for gap in found:
                missing.add(gap.first, gap.last)
        own.append(missing)
        firsts = [facts.first for _, facts, _ in copy if facts.first is not None]
        lasts = [facts.last for _, facts, _ in copy if facts.last is not None]
        spans.append((min(firsts, default=0), max(lasts, default=-1)))
    told = RangeSet()
    for number, missing in enumerate(own):
        for first, last in missing:
            others = (k for k, span in enumerate(spans) if k != number and span[0] <= first and last <= span[1])
            if not told.has_any(first, last) and all(own[k].has_any(first, last) for k in others):
                told.add(first, last)
                yield first, last
