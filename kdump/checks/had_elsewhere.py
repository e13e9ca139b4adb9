"""Holes of which nothing in a replica tells whether they are lost (L19), where others are named: one may have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.missing.findings import had_elsewhere, of_hole, range_of
from kdump.broker.missing.judge import settled_by_replicas
from kdump.broker.missing.lost_holes import surroundings
from kdump.finding import Code, Finding, Severity, Trait
from kdump.item import Checked
from kdump.ranges import RangeSet
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.paths import parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.checks.partition_check import PartitionCheck
    from kdump.item import Item

_HELD = 10_000  # findings that wait until the replicas were compared; of further ones nothing changes


class HolesHadElsewhere:
    """Holds what is said of such holes back until the replicas were compared, batch by batch."""

    def __init__(self) -> None:
        self._held: dict[str, list[Finding]] = {}  # by directory: L19, and its effects
        self._losses: dict[str, list[Loss]] = {}  # by directory
        self._lacks: dict[str, list[Finding]] = {}  # by directory: D02 about such holes
        self._cleaned: set[str] = set()  # replicas of which one was compacted
        self._count = 0
        self._lost: dict[str, RangeSet] = {}  # by directory: what is lost, as another replica has it

    def takes(self, item: Item) -> bool:
        """Take what verify says of a replica; return whether it waits here."""
        if isinstance(item, Loss):
            if Code.L19.name in item.because:
                self._losses.setdefault(item.path, []).append(item)
            return False
        if not isinstance(item, Finding):
            return False
        is_effect = item.because is Code.L19 and Trait.HOLE in item.code.traits
        return (item.code is Code.L19 or is_effect) and self._holds(self._held, item)

    def takes_difference(self, item: Item) -> bool:
        """Take where two replicas differ; return whether it waits here."""
        if not isinstance(item, Finding) or item.code is not Code.D02:
            return False
        path, first, last = parent(item.file), item.offset or 0, item.last_offset or 0
        if item.severity is Severity.NOTE:
            self._cleaned.update((path, str(item.values["other"])))
        losses = self._losses.get(path, ())
        is_of_hole = any(first <= one.last_offset and one.offset <= last for one in losses)
        return is_of_hole and self._holds(self._lacks, item)

    def _holds(self, where: dict[str, list[Finding]], item: Finding) -> bool:
        if self._count == _HELD:
            return False
        self._count += 1
        where.setdefault(parent(item.file), []).append(item)
        return True

    def settle(self, groups: Iterable[Sequence[PartitionCheck]], options: VerifyOptions) -> Iterator[Item]:
        """Yield what has waited, once all replicas were compared, with what they tell.

        Args:
            groups: the replicas of each partition.
            options: what was asked for.

        Reports: O04 and O07 as errors, of holes that a replica has; else what has waited.
        """
        others = {check.path: group for group in groups if len(group) > 1 for check in group}
        for path in dict.fromkeys((*self._held, *self._lacks)):
            group = others.get(path, ())
            is_cleaned = any(check.path in self._cleaned for check in group)
            around = (surroundings(one.directory, options.policies_for(one.directory)) for one in group)
            losses, lacks = self._losses.get(path, []), self._lacks.get(path, [])
            if lacks and not is_cleaned and settled_by_replicas(losses[0].because, around):
                yield from self._settled(path, losses, lacks)
            else:
                yield from (*self._held.get(path, ()), *lacks)
        if self._count:
            yield Checked((), 0, 0)  # a file in which several wait is listed once

    def _settled(self, path: str, losses: Sequence[Loss], lacks: Sequence[Finding]) -> Iterator[Finding]:
        had = self._lost[path] = RangeSet()
        for one in lacks:
            had.add(one.offset or 0, one.last_offset or 0)
        held = self._held.get(path, [])
        holes = {one.last_offset: one for one in held if one.code is not Code.L19}
        is_all = all(had.has_all(one.offset, one.last_offset) for one in losses)
        yield from (one for one in held if one.code is Code.L19 and not is_all)
        cause = Code.O04
        for loss in losses:
            finding = holes.pop(loss.last_offset, None)
            by = [
                one for one in lacks if (one.offset or 0) <= loss.last_offset and loss.offset <= (one.last_offset or 0)
            ]
            if by:
                parts = [(max(low, loss.offset), min(high, loss.last_offset)) for low, high in had.over(*_span(loss))]
                names = list(dict.fromkeys(str(one.values["other"]) for one in by))
                finding = had_elsewhere(finding or of_hole(range_of(loss)), parts, names)
                cause = finding.code
            if finding is not None:
                yield finding
        yield from holes.values()
        yield from (one.replace(because=cause) for one in lacks)

    def judged(self, loss: Loss) -> Loss:
        """Return a loss, or a part of one, as lost where a replica has all of it."""
        lost = self._lost.get(loss.path)
        if Code.L19.name not in loss.because or lost is None or not lost.has_all(*_span(loss)):
            return loss
        because = tuple(one for one in loss.because if one != Code.L19.name)
        return loss.replace(certainty=Certainty.LOST, because=because)


def _span(loss: Loss) -> tuple[int, int]:
    return loss.offset, loss.last_offset
