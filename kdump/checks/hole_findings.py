"""The findings about holes of a partition, with what is judged of each hole: a note, an error, or the effect of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.missing_walk import COMPARE, as_lost, of_hole, of_unexplained
from kdump.finding import Code, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence
    from typing import TypeGuard

    from kdump.broker.losses import PartitionLosses
    from kdump.broker.missing_offsets import HoleVerdict, OffsetHole
    from kdump.item import Item, Loss

_OF_HOLES = (Code.O04, Code.O07)
_HOLES = ((Code.O04.name,), (Code.O07.name,), (Code.T04.name,))
_MOST_HELD = 20_000  # findings of a partition that wait for what comes behind them; those over it are told as notes
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
        self._waiting: dict[int, list[Finding]] = {}  # by last offset; what comes behind them decides

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
        lost = [*lost, *self._losses.settled()]
        held, self._held = self._held, []
        decided = [one for last in self._losses.verdicts for one in self._waiting.pop(last, ())]
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
        elif self._losses.is_waiting(last) and len(self._waiting) < _MOST_HELD:
            self._waiting.setdefault(last, []).append(finding)
        else:  # damaged bytes are there, or another segment has the offsets
            yield finding

    def rest(self) -> Iterator[Item]:
        """Yield what has waited, once all of the partition was taken, the cause before its effects."""
        lost = list(self._losses.rest())
        for code, (first, count) in self._losses.unexplained.items():
            if code is not Code.X04:
                yield of_unexplained(code, first, count)
        yield from self.settle(lost)

    def _with_findings(self, lost: Iterable[Loss], told: Container[int | None]) -> Iterator[Item]:
        """Losses, and an error before each that is one of a hole of which no finding tells: at the head of a log."""
        for loss in lost:
            is_told = loss.is_known or loss.last_offset in told
            found = None if is_told or loss.because[:1] not in _HOLES else self._losses.verdicts.get(loss.last_offset)
            if found is not None:
                finding = self._judged(of_hole(loss), *found)
                if found[1].is_lost or finding.is_among_holes:
                    yield finding
            yield loss

    def _judged(self, finding: Finding, hole: OffsetHole, verdict: HoleVerdict) -> Finding:
        """A finding about a hole with what is to be said of that."""
        if verdict.is_known:
            return finding.replace(values={**finding.values, "also": _KNOWN})
        if verdict.is_lost:
            return as_lost(finding, hole)
        also = self._losses.among(hole.last) if verdict.because is Code.X04 else None
        if also is not None:
            values = {**finding.values, "also": also, "remedy": COMPARE, "among": also}
            return finding.replace(code=Code.O04, severity_override=Severity.ERROR, values=values)
        if verdict.because is None or finding.because is not None:
            return finding
        return finding.replace(because=verdict.because)


def _is_of_hole(item: Item) -> TypeGuard[Finding]:
    """Whether an item is about a hole, and nothing else explains that."""
    if not isinstance(item, Finding) or item.code not in _OF_HOLES or item.severity is Severity.ERROR:
        return False
    is_own = item.because in (None, Code.F14)
    return is_own and item.offset is not None and item.last_offset is not None
