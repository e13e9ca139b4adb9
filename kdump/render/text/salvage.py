"""What salvage has kept, lost and left out, as text: a few lines for each partition, then what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.producer.transaction_fates import UNKNOWN
from kdump.dispatch import takes
from kdump.exit_status import Exit
from kdump.finding import Code
from kdump.render.salvaged import SalvageSink, SalvageTotals
from kdump.render.text.losses import LossSum
from kdump.render.text.verify import amounts_of, rank_of
from kdump.rows.salvaged import SalvageDone
from kdump.rows.verdict import Certainty, Loss
from kdump.words.escape import escape
from kdump.words.numbers import NamedRanges, counted, some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kdump.rows.salvaged import LeftOutBatches
    from kdump.rows.steps import Step

    Write = Callable[[str], object]

_TOLD = 5  # partitions that a last line names


class SalvageText(SalvageSink):
    """Writes a few lines for each partition; beside new ones one for each that a former run has made, at the end.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        losses: gives the losses of a file of rows.
        raw: names are written as they are.
    """

    def __init__(
        self, write: Write, error: Write, losses: Callable[[str], Iterable[Loss]], *, raw: bool = False
    ) -> None:
        self._totals = SalvageTotals()
        super().__init__(write, error, self._totals)
        self._losses = losses
        self._kept: list[SalvageDone] = []  # from a former run
        self._has_new = False
        self._escape = (lambda text: text) if raw else escape

    @takes(SalvageDone)
    def _done(self, done: SalvageDone) -> None:
        """Write the lines of a new partition; those of a kept one come at the end."""
        if done.is_new:
            self._has_new = True
            self._say(self._lines(done))
        else:
            self._kept.append(done)

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._write(f"{self._escape(line)}\n")

    def _lines(self, item: SalvageDone, *, in_brief: bool = False) -> Iterable[str]:
        found = item.salvaged
        what = "salvaged" if item.is_new else "kept from a former run:"
        offsets = f"offsets {found.log_start_offset}..{found.log_end_offset - 1}"
        head = (
            f"{what} {found.partition} -> {item.path}: {offsets}, {counted(found.segments, 'segment')}, "
            f"{_amounts(found.batches, found.records, found.size)}"
        )
        total = LossSum(found.partition)
        unexplained, is_alone, absent = NamedRanges(), False, 0
        for loss in self._losses(item.rows):
            total.add(loss)
            absent += loss.offsets if loss.certainty is Certainty.ABSENT else 0
            if loss.certainty is Certainty.UNEXPLAINED:
                unexplained.add(loss.offset, loss.last_offset)
                is_alone |= Code.L19.name in loss.because
        lost = total.sentence()
        # of replicas that are no sources nothing is known
        whole = "  nothing is lost of what was read" if item.why_not_complete else "  nothing is lost"
        if lost is not None and item.is_part:  # of segments that were not read nobody knows
            lost = lost.replace("lost: ", "lost, or not read: ", 1)
        told = [f"  error O04 {one}" for one in item.among]
        if lost is not None or not told:
            told.insert(0, whole if lost is None else f"  {lost.partition('; no replica')[0]}")
        if in_brief:
            yield ";".join(
                (
                    head,
                    *(one[1:] for one in told),
                    *_if_changed(item),
                    " the same command once more says what to do next",
                )
            )
            yield from _steps(item.why_not_complete)
            return
        yield head
        yield from told
        yield from (f"  {line}" for line in _left_out(item.left_out))
        if unexplained.offsets:
            yield f"  {_unexplained(unexplained, found.partition, is_alone=is_alone)}"
        if absent:
            yield f"  absent: {absent} offsets: cleaned away, below the log start, or never here"
        if item.diverged:
            yield f"  divergent: {item.diverged} records of other branches stay out"
        means = "no end of it in what was read" if item.is_part else "readers of committed data wait there"
        for one in found.open_transactions:
            yield (
                f"  open transaction of producer {one.producer_id}, epoch {one.producer_epoch}, "
                f"from offset {one.first_offset} on: {means}"
            )
        for note in item.notes:
            yield f"  note: {note}"
        yield f"  what became of every offset: {item.rows}"
        if item.is_sound:
            yield "  no copy of it is damaged: its replicas need no rescue, leave them in place"
        yield from _steps(item.steps)

    def end(self, status: int) -> None:
        """Write what was kept, and what all comes to."""
        for item in self._kept:
            self._say(self._lines(item, in_brief=self._has_new))
        if self._totals.not_complete:
            told = _counted_names([name for name, _ in self._totals.not_complete])
            self._write(f"{self._escape(f'not complete: {told} (next 1 of each says why)')}\n")
        if self._totals.refused:
            self._write(f"{self._escape(f'refused: {_counted_names(self._totals.refused)} (why stands above)')}\n")
        if self._totals.with_losses:
            told = _counted_names(self._totals.with_losses)
            self._write(f"{self._escape(f'with losses: {told} (its lines above say which)')}\n")
        totals = self._totals
        if status == Exit.NOT_FOUND:
            self._write("nothing was salvaged\n")
            return
        self._write(
            f"salvaged {counted(totals.partitions, 'partition')}: "
            f"{_amounts(totals.batches, totals.records, totals.bytes)}; "
            f"lost: {_lost(totals.offsets_lost, totals.records_lost, totals.records_unknown)}"
            f"{f'; unexplained: {_offsets(totals.offsets_unexplained)}' if totals.offsets_unexplained else ''}\n"
        )


def _if_changed(item: SalvageDone) -> Iterable[str]:
    if item.changed:
        more = " and others" if item.changed[1:] else ""
        yield f" {item.changed[0]}{more} changed since: remove {item.path} to make it again"


def _steps(steps: Iterable[Step]) -> Iterable[str]:
    """The steps, numbered through, below the rank or the condition of their option."""
    for number, step in enumerate(steps, 1):
        if step.begins_option:
            yield f"  {rank_of(step)}:"
        amounts = amounts_of(step)
        yield (
            f"  next {number}: {step.why}{f' ({amounts})' if amounts else ''}"
            f"{'' if step.command is None else f': {step.command}'}"
        )


def _left_out(some: Sequence[LeftOutBatches]) -> Iterable[str]:
    """Say which of the losses are intact, and why they stay out all the same: one line for each fate."""
    for fate in dict.fromkeys(one.fate for one in some):
        out, lost = NamedRanges(), NamedRanges()
        told = [one for one in some if one.fate == fate]
        for one in told:
            out.add(one.offset, one.last_offset)
        for first, last in sorted({(one.lost_offset, one.last_lost_offset) for one in told}):
            lost.add(first, last)
        records, them = counted(sum(one.records for one in told), "record"), "it" if lost.offsets == 1 else "these"
        why = f"the end of their transaction may be in what is lost at {lost}; a copy that has {them} settles it"
        if fate == UNKNOWN:
            why = (
                f"their transaction has ended, as the transaction index tells of the next one, and its end is lost, at "
                f"{lost}: whether it was committed or aborted is unknown; a copy that has {them} settles it"
            )
        elif fate is not None:
            why = f"their transaction was {fate}, as the transaction index tells, and its end is lost, at {lost}"
        yield f"left out: {out} ({records}, intact): {why}"


def _unexplained(ranges: NamedRanges, partition: str, *, is_alone: bool) -> str:
    """Say which offsets no batch has, and nobody can tell whether they are lost."""
    told = f"unexplained: {ranges}: compaction took {'it' if ranges.offsets == 1 else 'them'}, or a loss did"
    if not is_alone:
        return told
    lost = f"{'it is' if ranges.offsets == 1 else 'they are'} lost unless {partition} is, or was, compacted"
    return f"{told}; {lost}: look for a replica that has more, and salvage both"


def _counted_names(names: list[str]) -> str:
    return f"{counted(len(names), 'partition')}: {some_of(names, _TOLD)}"


def _amounts(batches: int, records: int, size: int) -> str:
    """What was kept."""
    return f"{counted(batches, 'batch', 'batches')}, {counted(records, 'record')}, {counted(size, 'byte')}"


def _lost(offsets: int, records: int, unknown: int) -> str:
    """What was lost; of some ranges nobody knows how many records they had."""
    if not offsets:
        return f"the records of {counted(unknown, 'range')}, how many is unknown" if unknown else "nothing"
    of = f", and those of {counted(unknown, 'range')} unknown" if unknown else ""
    return f"{_offsets(offsets)}, {counted(records, 'record')}{of}"


def _offsets(count: int) -> str:
    return counted(count, "offset")
