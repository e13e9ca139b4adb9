"""The findings about holes of a partition, with what is judged of each hole: a note, an error, or the effect of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.missing.columns import MissingColumns
from kdump.broker.missing.findings import among_holes, as_lost, of_hole, of_unexplained, range_of
from kdump.broker.missing.ranges import MissingRange, is_followed_by_batches
from kdump.finding import Code, Finding, Severity, Trait
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence
    from typing import TypeGuard

    from kdump.broker.missing.judge import HoleVerdict
    from kdump.broker.missing.losses import PartitionLosses
    from kdump.item import Item
    from kdump.rows.verdict import Loss

_KNOWN = "as the salvage that made this partition has told"


class HoleFindings:
    """Holds the findings about holes back until it is known what to say of each.

    Args:
        losses: of the partition; they know the verdicts on its holes.

    Reports: L17, L19; O04 and O07 as errors where the offsets are lost.
    """

    def __init__(self, losses: PartitionLosses) -> None:
        self._losses = losses
        self._held: list[Finding] = []  # of the part of a log in hand
        self._waiting = _Waiting()  # what comes behind them decides

    def take(self, item: Item) -> Iterator[Item]:
        """Yield an item, unless it is about a hole of which it is not known yet what to say."""
        if _is_of_hole(item):
            self._held.append(item)
        else:
            yield item

    def settle(self, lost: Iterable[Loss], told: Sequence[Item] = ()) -> Iterator[Item]:
        """Yield what was held back of a part of a log, now that what is lost in it is known, and its losses.

        Args:
            lost: the losses of it.
            told: what comes behind them.
        """
        lost = list(lost)
        for last in self._losses.drop_compacted():
            yield from self._waiting.pop(last)  # a cleaner has made the hole: there is nothing else to say
        yield from self._tell(lost, told)

    def _tell(self, lost: Sequence[Loss], told: Sequence[Item] = ()) -> Iterator[Item]:
        held, self._held = self._held, []
        decided = [one for last in self._losses.verdicts for one in self._waiting.pop(last)]
        lasts = {one.last_offset for one in (*decided, *held, *filter(_is_of_hole, told))}
        for finding in (*decided, *held):
            yield from self._settled(finding)
        yield from self._with_findings(lost, lasts)
        for item in told:
            if _is_of_hole(item):
                yield from self._settled(item)
            else:
                yield item
        self._losses.verdicts.clear()

    def _settled(self, finding: Finding) -> Iterator[Finding]:
        last = finding.last_offset or 0
        if last in self._losses.verdicts:
            yield self._judged(finding, *self._losses.verdicts[last])
        elif self._losses.is_waiting(last):
            self._waiting.add(finding)
        else:  # damaged bytes are there, another segment has the offsets, or a cleaner has made the hole
            yield finding

    def rest(self) -> Iterator[Item]:
        """Yield what has waited, once all of the partition was taken, the cause before its effects."""
        self._losses.conclude()
        for code, (first, count) in self._losses.unexplained.items():
            yield of_unexplained(code, first, count)
        yield from self._tell(())
        for lost in self._losses.rest():
            yield from self._tell(lost)

    def _with_findings(self, lost: Iterable[Loss], told: Container[int | None]) -> Iterator[Item]:
        """Losses, and an error before each that is one of a hole of which no finding tells: at the head of a log."""
        for loss in lost:
            is_hole = is_followed_by_batches(loss.because) or loss.because[:1] == (Code.T04.name,)
            is_told = loss.is_known or loss.last_offset in told or not is_hole
            found = None if is_told else self._losses.verdicts.get(loss.last_offset)
            is_of_end = found is not None and loss.because[:1] == (Code.T04.name,) and found[0].proof is not None
            if found is not None and not is_of_end:  # F14 and T04 tell of an end
                finding = self._judged(of_hole(range_of(loss)), *found)
                if found[1].is_lost or finding.is_among_holes:
                    yield finding
            yield loss

    def _judged(self, finding: Finding, hole: MissingRange, verdict: HoleVerdict) -> Finding:
        """A finding about a hole with what is to be said of that."""
        if verdict.is_known:
            return finding.replace(values={**finding.values, "also": _KNOWN})
        if verdict.is_lost:
            return as_lost(finding, hole.proof)
        among = self._losses.among.get(finding.file) if verdict.because is Code.X04 else None
        if among is not None and among.first is not None and among.first.last == hole.last:
            return among_holes(among, finding)
        if verdict.because is None or finding.because is not None:
            return finding
        return finding.replace(because=verdict.because)


class _Like(TupleValue):
    """What findings about holes have besides the place."""

    code: Code
    length: int | None
    severity: Severity | None
    by_neighbours: bool
    because: Code | None


class _Waiting:
    """Findings about holes that wait, in the order of their holes: nearly all differ in the place only."""

    def __init__(self) -> None:
        self._like: _Like | None = None  # as most of them
        self._alike = MissingColumns()
        self._others: dict[int, list[Finding]] = {}  # by last offset

    def add(self, finding: Finding) -> None:
        """Take a finding."""
        first, last = finding.offset or 0, finding.last_offset or 0
        like = _Like(finding.code, finding.length, finding.severity_override, finding.by_neighbours, finding.because)
        self._like = self._like or like
        held = MissingRange(first, last, (like.code.name,), finding.file, finding.position or 0)
        if self._alike.last < first and like == self._like and _made_again(held, like) == finding:
            self._alike.add(held)
        else:
            self._others.setdefault(last, []).append(finding)

    def pop(self, last: int) -> Iterator[Finding]:
        """Yield the findings about the hole that ends at an offset, and forget them; holes come in their order."""
        run = self._alike.first_run()
        if run is not None and self._like is not None and run.begin.last == last:
            yield _made_again(self._alike.pop(), self._like)
        yield from self._others.pop(last, ())


def _made_again(held: MissingRange, like: _Like) -> Finding:
    return Finding(
        like.code,
        held.file,
        held.position,
        like.length,
        offset=held.first,
        last_offset=held.last,
        severity_override=like.severity,
        values=of_hole(held).values,
        by_neighbours=like.by_neighbours,
        because=like.because,
    )


def _is_of_hole(item: Item) -> TypeGuard[Finding]:
    """Whether an item is about a hole, and nothing else explains that."""
    if not isinstance(item, Finding) or Trait.HOLE not in item.code.traits or item.severity is Severity.ERROR:
        return False
    is_own = item.because in (None, Code.F14)
    return is_own and item.offset is not None and item.last_offset is not None
