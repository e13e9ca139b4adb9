"""Writes a row for what becomes of each offset of a partition, and knows which batches stay out of the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.producer.transaction_fates import ABORTED, UNKNOWN
from kdump.finding import Code
from kdump.format.batch import layout
from kdump.rows.json_lines import row_json
from kdump.rows.salvaged import Diverged, Kept, LeftOutBatches
from kdump.rows.verdict import Certainty, Loss

if TYPE_CHECKING:
    from kdump.broker.producer.transaction_fates import Told
    from kdump.finding import Finding
    from kdump.format.batch.window import Window
    from kdump.rescue.holes import LineHoles
    from kdump.rescue.losses import LineLosses
    from kdump.rescue.target import Staging
    from kdump.row import Row
    from kdump.rows.salvaged import PatchedField

_MOST_PATCHED = 4096  # rows of fields: behind so many a row of what is kept ends


class FateRows:
    """Writes a row for what becomes of each offset, in the order of offsets.

    Args:
        name: of the partition.
        missing: says why offsets are not there.
        holes: judges those of which no bytes are there.
    """

    def __init__(self, name: str, missing: LineLosses, holes: LineHoles) -> None:
        self._name = name
        self._missing = missing
        self._holes = holes
        self._staging: Staging | None = None
        self._extras: list[tuple[int, Row]] = []  # rows that stand between the others, the next one last
        self._outs: list[Loss] = []  # batches of the line that stay out, behind the last row
        self._kept: Kept | None = None
        self._patched: list[tuple[int, PatchedField]] = []  # rows that stand behind that one, each with its offset
        self._expected = 0  # the next offset
        self.records = self.records_below = 0  # kept, and intact ones that stay out below the log start offset
        self.offsets_lost = self.records_lost = self.ranges_unknown = 0
        self.offsets_unexplained = 0  # that no source has, while nothing tells whether they are lost
        self.diverged = 0  # records of branches that do not count
        self.among: list[Finding] = []  # of holes in one of which bytes are missing, nobody knows in which

    def begin(self, staging: Staging, expected: int, extras: list[tuple[int, Row]]) -> None:
        """Begin at an offset; `extras` are rows that stand between the others, each with its offset."""
        self._staging, self._expected = staging, expected
        self._extras = sorted(extras, key=lambda extra: extra[0])
        self._extras.reverse()
        self.diverged = sum(row.records for _, row in extras if isinstance(row, Diverged))

    def keep(self, first: int, last: int, records: int, source: str, copies: int) -> None:
        """Batches are kept: their offsets, the source that they are taken from, and how many have them."""
        self.records += records
        if first > self._expected or self._outs:
            self._flush()
            self._gap(first - 1)
        kept = self._kept
        if kept is not None and (kept.last_offset + 1, kept.source, kept.sources) == (first, source, copies):
            self._kept = kept.replace(last_offset=last, records=kept.records + records)
        else:
            self._flush()
            self._kept = Kept(self._name, first, last, records, source, copies)
        self._expected = max(self._expected, last + 1)

    def patch(self, offset: int, row: PatchedField) -> None:
        """A field of a batch that was kept last is another one in the result."""
        self._patched.append((offset, row))
        if len(self._patched) == _MOST_PATCHED:
            self._flush()

    def leave_out(self, loss: Loss) -> None:
        """A batch of the line stays out; those below the log start offset are told together."""
        before, is_below = self._outs[-1] if self._outs else None, loss.certainty is Certainty.ABSENT
        self.records_below += (loss.records or 0) if is_below else 0
        if is_below and before is not None and _goes_on(before, loss):
            assert before.position is not None
            length = (loss.position or 0) + (loss.length or 0) - before.position
            records = (before.records or 0) + (loss.records or 0)
            self._outs[-1] = before.replace(length=length, last_offset=loss.last_offset, records=records)
        else:
            self._outs.append(loss)

    def finish(self, end: int) -> None:
        """Write what is left, up to an offset (exclusive), or further."""
        self._flush()
        if end > self._expected:
            self._gap(end - 1)
        self._finish_extras()

    def _flush(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._row(kept.offset, kept)
        for offset, row in self._patched:
            self._row(offset, row)
        self._patched.clear()

    def _gap(self, last: int) -> None:
        """Say of the offsets from the expected one to a last one why they are not there."""
        at = self._expected
        outs, self._outs = self._outs, []
        for out in outs:
            if out.offset > at:
                self._lose_range(at, out.offset - 1)
            self._lose(out)
            at = max(at, out.last_offset + 1)
        if at <= last:
            self._lose_range(at, last)
        self._expected = max(at, last + 1)

    def _lose_range(self, first: int, last: int) -> None:
        for loss in self._missing.losses(first, last):
            self._lose(loss)

    def _lose(self, loss: Loss) -> None:
        if Code.X04.name in loss.because:
            self._holes.note_among(loss.offset, loss.last_offset)
        if loss.counts:
            self.offsets_lost += loss.offsets
            if loss.records is None:
                self.ranges_unknown += 1
            else:
                self.records_lost += loss.records
        elif loss.certainty is Certainty.UNEXPLAINED:
            self.offsets_unexplained += loss.offsets
        self._row(loss.offset, loss)

    def _row(self, offset: int, row: Row) -> None:
        assert self._staging is not None
        while self._extras and self._extras[-1][0] <= offset:
            self._staging.row(row_json(self._extras.pop()[1]))
        self._staging.row(row_json(row))

    def _finish_extras(self) -> None:
        assert self._staging is not None
        if self._outs:
            self._gap(self._expected - 1)
        while self._extras:
            self._staging.row(row_json(self._extras.pop()[1]))
        self.among = self._holes.among()
        self.ranges_unknown += len(self.among)  # nobody knows in which of the holes, so no loss counts it
        for finding in self.among:
            self._staging.row(row_json(finding))


def _goes_on(before: Loss, loss: Loss) -> bool:
    """Whether both are of offsets below the log start, one behind the other in one log."""
    if (before.certainty, before.file, before.last_offset + 1) != (Certainty.ABSENT, loss.file, loss.offset):
        return False
    return before.position is not None and before.length is not None


class BatchesLeftOut:
    """Knows which batches stay out because a hole may have ended their transaction."""

    def __init__(self) -> None:
        self._rules: list[Told] = []
        self.batches: list[LeftOutBatches] = []

    def take(self, told: Told) -> None:
        """Leave batches out that would come under a marker that is not theirs."""
        if not told.agrees:
            self._rules.append(told)

    def rule(self, window: Window, k: int) -> Told | None:
        """Return why the batch in a row stays out; None where it does not."""
        return _rule(self._rules, window, k)

    def rows(self, window: Window, floor: int | None) -> list[int]:
        """Return the rows that stay out, those below an offset too."""
        first, last = window.cell(0, layout.BASE_OFFSET), window.cell(window.count - 1, layout.LAST_OFFSET)
        is_below = floor is not None and window.cell(0, layout.LAST_OFFSET) < floor
        rules = [rule for rule in self._rules if rule.start <= last and first < rule.stop]
        if not is_below and not rules:
            return []
        return [
            k
            for k in range(window.count)
            if (floor is not None and window.cell(k, layout.LAST_OFFSET) < floor) or _rule(rules, window, k) is not None
        ]

    def tell(self, out: Loss, rule: Told) -> None:
        """Note the row of a batch that stays out; neighbours are one."""
        hole, fate = rule.hole, rule.fate if rule.fate in (ABORTED, UNKNOWN) else None
        if hole is None:
            return
        first, records = out.offset, out.records or 0
        before = self.batches[-1] if self.batches else None
        here = first, hole.first, fate
        if before is not None and (before.last_offset + 1, before.lost_offset, before.fate) == here:
            first, records = before.offset, before.records + records
            self.batches.pop()
        self.batches.append(LeftOutBatches(first, out.last_offset, records, hole.first, hole.last, fate))


def _rule(rules: list[Told], window: Window, k: int) -> Told | None:
    if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
        return None
    producer, first = window.cell(k, layout.PRODUCER_ID), window.cell(k, layout.BASE_OFFSET)
    return next((rule for rule in rules if rule.producer == producer and rule.start <= first < rule.stop), None)
