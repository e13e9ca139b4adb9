"""Writes the line of a partition into new segments, and a row for what becomes of each offset."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import MissingRange
from kdump.broker.producer.transaction_fates import TransactionFates
from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.batch.base_offset.findings import BASE_OFFSET
from kdump.format.batch.window import Buffer, Window
from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.rescue.fate_rows import BatchesLeftOut, FateRows
from kdump.rescue.fitted_epochs import FittedEpochs
from kdump.rescue.losses import LineLosses, lost_logs, outside, spots_of
from kdump.rescue.segments import SegmentWriter, Settings, dress
from kdump.rescue.standing import Standing
from kdump.rescue.unplaced import unplaced
from kdump.rescue.valid_runs import batches_of, first_offset
from kdump.rows.json_lines import row_json
from kdump.rows.salvaged import Diverged, OpenedTransaction, PatchedField, Revived, Salvaged
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.own_files import OTHERS_WRITE
from kdump.words.numbers import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.rescue.fitted_epochs import FittedEpoch
    from kdump.rescue.holes import LineHoles
    from kdump.rescue.line import Line
    from kdump.rescue.partition_salvage import PartitionSalvage, SalvageOptions
    from kdump.rescue.scanned_log import ReadLog
    from kdump.rescue.target import Staging, Target
    from kdump.row import Row
    from kdump.storage.fsops import FileOps


_NONE_FITTED: Sequence[FittedEpoch] = ()


class ChangedError(Exception):
    """A source changed while it was read; the sentence says which."""


class LineWriter:
    """Writes a line, and a row for what becomes of each offset.

    Args:
        work: the partition.
        line: its line.
        options: what was asked for.
        ops: makes the calls.

    Attributes:
        result: what it has come to, once it is written.
        standing: how the copies stand beside that.
    """

    def __init__(
        self, work: PartitionSalvage, line: Line, target: Target, options: SalvageOptions, ops: FileOps
    ) -> None:
        self._work = work
        self._line = line
        self._options = options
        self._ops = ops
        self._path = os.path.join(target.path, work.name)
        self._start = work.log_start(line)
        bases = [one.facts.first if one.facts.is_renamed else one.log.base for one in work.read]
        bases += [one.log.base for one in work.foreign]
        unread = [copy.bases[0] for copy in work.parts]  # what stands there is not in the result, and has rows
        self._base = min((base for base in (*bases, *unread) if base is not None), default=None)
        self._sure_end, self._doubtful_ends = work.end_evidence.known_ends(line)
        self._known_end = max([self._sure_end, *self._doubtful_ends])
        self._missing, holes = self._what_is_missing()
        self.rows = FateRows(work.name, self._missing, holes)  # what becomes of each offset, and the totals of that
        self.left_out = BatchesLeftOut()  # which batches stay out because of their transactions
        self._refused: dict[int, str] = {}
        self.latest_epoch = -1  # the newest leader epoch of the result, below 0 for none
        there = work.there
        self._fitting = None if there is None else FittedEpochs(there.leader_epoch)
        self.fitted = 0  # batches that have another leader epoch, as the cluster wants it that they are for

    @property
    def _limit(self) -> int:
        return self._options.limits.max_batch_bytes

    @property
    def first_base(self) -> int:
        """The base offset of the first segment."""
        return self._base if self._base is not None else self._line.runs.firsts[0]

    @property
    def all_below(self) -> int | None:
        """The log start offset, where all that the line has lies below it and stays out; None where that is not so."""
        start = None if self._options.below_log_start else self._start
        return None if start is None or start <= self._line.last else start

    @property
    def size(self) -> int:
        """Bytes that the logs will have at most."""
        return self._line.runs.size

    def _what_is_missing(self) -> tuple[LineLosses, LineHoles]:
        spots: list[MissingRange] = []
        for one in self._work.read:
            start = one.log.base if one.log.base is not None else one.facts.first or 0
            end = one.log.next_base
            if end is None and one.log.base is not None:
                end = self._known_end
            lost = [first for first, _ in self._work.lost_logs(one.copy) if start < first and end is not None]
            end = min([end or 0, *lost]) if lost else end
            spans = list(spots_of(one.log.path, one.facts, start, end, self._work.end_evidence.cut_end(one)))
            spots.extend(spans)
            if one.log.next_base is None and not self._work.is_carved(one.copy):
                self._note_tail(one, spans)
        for one in self._work.foreign:
            first, last = one.log.base or 0, (one.log.next_base or self._known_end) - 1
            if first <= last:
                is_vouched = bool(one.facts.batches)
                count = _records_of(one, self._limit) if is_vouched else None
                own = MissingRange(first, last, (Code.F15.name,), one.log.path, length=one.raw.size, records=count)
                spots.append(own._replace(certainty=Certainty.LOST, is_vouched=is_vouched))
        for number, cut in enumerate(self._line.cuts):
            ranges = [(first, min(last, cut - 1)) for first, last in self._work.lost_logs(number) if first < cut]
            spots.extend(lost_logs(self._path, ranges))
        holes = self._work.line_holes(self._line)
        if holes.has_trace:  # what a whole copy lacks was cleaned away there, whatever stands in another one
            spots = list(outside(spots, self._work.whole_ranges(self._line)))
        ends = self._line.last + 1, self._work.end_evidence.index_end(self._line), self._sure_end
        self._note_doubtful_ends()
        return LineLosses(self._work.name, self._path, spots, ends, holes), holes

    def _note_doubtful_ends(self) -> None:
        """Say which copies may have had more of the line than anybody has."""
        for number, end in enumerate(self._doubtful_ends):
            if end > self._sure_end:
                told = span(self._sure_end, end - 1, "offset")
                self._work.notes.append(
                    f"{self._work.read_source(number)}: the files beside its logs know of {told}, which no source has; "
                    "nothing tells whether they were of the branch that counts, so they are doubtful"
                )

    def _note_tail(self, one: ReadLog, spots: list[MissingRange]) -> None:
        """Say of bytes behind the last batch of a copy that no offset is known of them, where nothing else does.

        A copy that ends before the line does has lost nothing there that is not in another one.
        """
        facts, told = one.facts, {spot.position for spot in spots}
        if self._known_end != (facts.last if facts.last is not None else (one.log.base or 0) - 1) + 1:
            return
        after = facts.runs.end
        tail = [place for place in facts.places if place.position >= after and place.position not in told]
        tail = [place for place in tail if not place.is_batch and not place.is_zero]
        if tail:
            begin, end = tail[0].position, tail[-1].position + tail[-1].length
            codes = ", ".join(dict.fromkeys(code for place in tail for code in place.codes))
            many = "1 byte" if end - begin == 1 else f"{end - begin} bytes"
            self._work.notes.append(
                f"{one.log.path}: the {many} from byte {begin} on, behind the last batch, are no batch "
                f"({codes}) and stay out; whether they were records, and of which offsets, is unknown"
            )

    # --- the fate of transactions ---------------------------------------------------------------------------
    def judge_transactions(self) -> None:
        """Find out whose batches must stay out because a hole may have ended their transaction."""
        if not any(one.facts.has_transactions for one in self._work.read):
            return
        ends = self._ends()
        evidence = self._work.end_evidence
        aborts = list(evidence.aborts(ends, self._line.last))
        fates = TransactionFates(self.left_out.take, self._options.limits.max_uncompressed_bytes)
        fates.learn(aborts)
        fates.expect(entry for one in aborts for entry in one.entries)
        expected: int | None = None
        for number, _, window in self._windows():
            wrappers = self._work.read[number].facts.wrappers
            start = 0
            first = first_offset(window, 0, wrappers)
            if window.suspicions & layout.GAP or (expected is not None and first > expected):
                for k in range(window.count):
                    first = first_offset(window, k, wrappers)
                    if expected is not None and first > expected:
                        hole = self._hole(expected, first - 1)
                        snapshots = evidence.snapshots(expected + 1, first, ends) if hole is None else []
                        if hole is not None or snapshots or fates.asks_for_all_holes:
                            fates.step(window.slice(start, k))
                            start = k
                        if any(one.shows_an_end(fates.running) for one in snapshots):
                            hole = MissingRange(expected, first - 1)  # a cleaner would have left that marker
                        if hole is not None:
                            may_end = not evidence.has_no_marker(hole.first, hole.last, ends)
                            fates.hole(hole, may_end=may_end)
                        else:
                            fates.explained_hole(expected, first - 1)
                    expected = window.cell(k, layout.LAST_OFFSET) + 1
            fates.step(window.slice(start, window.count))
            expected = window.cell(window.count - 1, layout.LAST_OFFSET) + 1
        last = max([self._known_end - 1, *(one.last for one in aborts)])
        if expected is not None and expected <= last:
            fates.hole(MissingRange(expected, last))
        fates.finish()

    def _ends(self) -> list[int]:
        """Up to which offset (exclusive) each copy is of the line, and what lies beside its batches tells of it."""
        ends = list(self._line.cuts)
        for copy, first, _ in self._line.left_out:
            ends[copy] = min(ends[copy], first)
        return ends

    def _hole(self, first: int, last: int) -> MissingRange | None:
        """Return the hole of a range that the line does not have, None where compaction has made it."""
        spots = self._missing.spots(first, last)
        if not spots and not self._work.end_evidence.lacks_log(first, last):
            told = (one for _, _, one in self._missing.verdicts(first, last))
            is_between = self._work.is_between_runs(first, last) or self._work.is_between_copies(first, last)
            if not is_between and all(one.shows_no_loss for one in told):
                return None
        codes = tuple(dict.fromkeys(code for spot in spots for code in spot.because))
        return MissingRange(first, last, codes)

    def _windows(self) -> Iterator[tuple[int, int, Window]]:
        """Yield the batches of the line: number of the log, number of copies that have them, and the window."""
        buffer: Buffer | None = None
        for run in self._line.runs:
            one = self._work.read[run.log]
            if buffer is None:
                buffer = Buffer(one.source, 1024 * 1024)
            buffer.source = one.source
            reached = run.start
            for window in batches_of(one.source, run.start, run.end, self._limit, buffer):
                if not window.all_trusted:
                    raise ChangedError(f"{one.log.path}: changed while it was read; copy it and salvage the copy")
                yield run.log, run.copies, window
                reached = window.end(window.count)
            if reached != run.end:
                raise ChangedError(f"{one.log.path}: changed while it was read; copy it and salvage the copy")

    # --- writing --------------------------------------------------------------------------------------------
    def write(self, staging: Staging, settings: Settings) -> Iterator[Progress]:
        """Write all, and yield how far that has got.

        Raises:
            OSError: writing failed.
            ChangedError: a source changed.
        """
        base = self.first_base
        lost = [first for copy in range(len(self._line.cuts)) for first, _ in self._work.lost_logs(copy)]
        begin = min([base, *lost])
        floor = self._start if self._start is not None and not self._options.below_log_start else None
        expected = begin if floor is None else max(begin, floor)
        self.rows.begin(staging, expected, self._extras(expected))
        start = max(base, self._start or 0) if not self._options.below_log_start else base
        writer = SegmentWriter(staging.directory, self._work.name, settings, start, self._ops, self._refuse)
        total, done = self.size, 0
        try:
            for number, copies, window in self._windows():
                self._window(writer, number, copies, window, floor)
                done += window.end(window.count) - window.cell(0, layout.POSITION)
                yield Progress(done, total, self._work.read[number].log.path)
            writer.finish()
        finally:
            writer.abandon()
        self.latest_epoch = writer.latest_epoch
        data = self._work.metadata()
        if data is not None:
            writer.put_file(FileKind.PARTITION_METADATA.value, data)
        raft = self._work.raft_files(max(start, writer.first_base), writer.end, writer.latest_epoch)
        if raft is not None and raft.snapshot is not None and not raft.empties_log:
            opened = open_source(raft.snapshot, follow=False)
            if isinstance(opened, OpenFailure):
                raise ChangedError(opened.sentence)
            with opened:
                writer.copy_file(os.path.basename(raft.snapshot), opened)
        dress(staging.directory, settings._replace(mode=settings.mode | (settings.mode & 0o444) >> 2), self._ops)
        dress(staging.rows_file, settings._replace(mode=settings.mode & ~OTHERS_WRITE), self._ops)
        self.rows.finish(self._known_end)
        result = self._salvaged(writer, start)
        is_other = (
            self._work.is_for_another or self._work.is_brought or self.fitted > 0
        )  # no copy serves there as it is
        self.standing = Standing() if is_other or self.rows.among else self._work.standing(self._line, result)
        self.result = result.replace(copies=self.standing.copies)
        staging.row(row_json(self.result))

    def _salvaged(self, writer: SegmentWriter, start: int) -> Salvaged:
        opened = [
            OpenedTransaction(one.producer_id, one.producer_epoch, one.current_txn_first_offset)
            for one in writer.producers.entries.values()
            if one.current_txn_first_offset >= 0
        ]
        opened.sort(key=lambda one: (one.first_offset, one.producer_id))
        return Salvaged(
            self._work.name,
            self._work.sources,
            batches=writer.batches,
            records=self.rows.records,
            size=writer.size,
            segments=writer.segments,
            log_start_offset=max(start, writer.first_base),
            log_end_offset=writer.end,
            offsets_lost=self.rows.offsets_lost,
            offsets_unexplained=self.rows.offsets_unexplained,
            open_transactions=tuple(opened),
            topic_id=self._work.made.topic_id,
            leader_epoch=self._work.made.leader_epoch,
        )

    def _window(self, writer: SegmentWriter, number: int, copies: int, window: Window, floor: int | None) -> None:
        one = self._work.read[number]
        start = 0
        for k in self.left_out.rows(window, floor):
            self._part(writer, number, copies, window, start, k)
            below = floor is not None and window.cell(k, layout.LAST_OFFSET) < floor
            rule = None if below else self.left_out.rule(window, k)
            codes = () if rule is None or rule.hole is None else rule.hole.because
            out = self._out(one, window, k, codes, is_below=below)
            if rule is not None:
                self.left_out.tell(out, rule)
            start = k + 1
        self._part(writer, number, copies, window, start, window.count)

    def _part(self, writer: SegmentWriter, number: int, copies: int, window: Window, start: int, stop: int) -> None:
        """Write rows [start, stop), and say what became of each."""
        if start >= stop:
            return
        one = self._work.read[number]
        part, fitted = window.slice(start, stop), _NONE_FITTED
        if self._fitting is not None:
            part, fitted = self._fitting.fit(part)
        first_of = partial(first_offset, part, wrappers=one.facts.wrappers)
        self._refused.clear()
        for begin, end in writer.write(part, first_of, one.log.base, one.source):
            self._tell_refused(one, part, begin)
            self._keep(one, copies, part.slice(begin, end))
            for epoch in fitted:
                if begin <= epoch.row < end:
                    self._tell_fitted(one, part, epoch)
        self._tell_refused(one, part, part.count)

    def _refuse(self, _window: Window, k: int, why: str) -> None:
        self._refused[k] = why

    def _tell_refused(self, one: ReadLog, part: Window, stop: int) -> None:
        for k in sorted(k for k in self._refused if k < stop):
            del self._refused[k]
            self._out(one, part, k, ("P03",), is_below=False)

    def _out(self, one: ReadLog, window: Window, k: int, codes: tuple[str, ...], *, is_below: bool) -> Loss:
        """A batch of the line stays out; return its loss."""
        first, last = first_offset(window, k, one.facts.wrappers), window.cell(k, layout.LAST_OFFSET)
        count = window.cell(k, layout.COUNT)
        if count < 0:
            inner = one.facts.wrappers.at(window.cell(k, layout.POSITION))
            count = 1 if inner is None else inner[1]
        position, size = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
        certainty = Certainty.ABSENT if is_below else Certainty.DOUBTFUL
        loss = Loss(
            self._path,
            self._work.name,
            file=one.log.path,
            position=position,
            length=size,
            offset=first,
            last_offset=last,
            records=count,
            certainty=certainty,
            because=codes,
        )
        self.rows.leave_out(loss)
        return loss

    # --- rows -----------------------------------------------------------------------------------------------
    def _keep(self, one: ReadLog, copies: int, part: Window) -> None:
        """These batches are kept."""
        wrappers = one.facts.wrappers
        first, last = first_offset(part, 0, wrappers), part.cell(part.count - 1, layout.LAST_OFFSET)
        is_plain = part.cell(0, layout.MAGIC) >= layout.MAGIC_V2 <= part.cell(part.count - 1, layout.MAGIC)
        if is_plain and not _has_gaps(part):
            self.rows.keep(first, last, sum(part.column(layout.COUNT)), one.log.source, copies)
            return
        for k in range(part.count):
            count = part.cell(k, layout.COUNT)
            if count < 0:
                inner = wrappers.at(part.cell(k, layout.POSITION))
                count = 1 if inner is None else inner[1]
            last = part.cell(k, layout.LAST_OFFSET)
            self.rows.keep(first_offset(part, k, wrappers), last, count, one.log.source, copies)

    def _tell_fitted(self, one: ReadLog, part: Window, epoch: FittedEpoch) -> None:
        """A batch that is kept has another leader epoch in the result."""
        position = part.cell(epoch.row, layout.POSITION) + layout.LEADER_EPOCH_AT
        row = PatchedField(self._work.name, one.log.path, position, "partitionLeaderEpoch", epoch.before, epoch.after)
        self.fitted += 1
        self.rows.patch(part.cell(epoch.row, layout.BASE_OFFSET), row)

    def _extras(self, expected: int) -> list[tuple[int, Row]]:
        """Rows that stand between those of the offsets, each with its offset."""
        name = self._work.name
        extras: list[tuple[int, Row]] = []
        for one in self._work.read:
            for patch, finding in zip(one.facts.patches, one.facts.fields, strict=True):
                offset = finding.true_offset if finding.field == BASE_OFFSET else finding.offset
                before, after = (int.from_bytes(data, "big", signed=True) for data in (patch.old, patch.new))
                row = PatchedField(name, one.log.path, patch.position, str(finding.field), before, after)
                extras.append((offset if isinstance(offset, int) else -1, row))
        work, offsets = self._work, (expected, self._known_end)
        more = unplaced(work.read, work.foreign, self._line, self._missing, offsets, self._options.limits)
        for branch in (*self._line.divergent, *more):
            source = self._work.read_source(branch.copy)
            epoch = None if branch.epoch < 0 else branch.epoch
            diverged = Diverged(name, branch.first, branch.last, source, epoch, branch.records)
            extras.append((branch.first, diverged))
        extras.extend((revived.offset, revived) for revived in self._revived())
        return extras

    def _revived(self) -> Iterator[Revived]:
        read, limits = self._work.read, self._options.limits
        if len({one.copy for one in read}) < 2:
            return
        from kdump.rescue.compacted import Cleaned, revived

        cleaned = Cleaned()
        for one in read:
            if not self._work.is_carved(one.copy):
                cleaned.add(one.source, one.facts, one.log.base, one.log.next_base, limits)
        if self._line.pairs or not cleaned.is_empty:
            yield from revived(self._work.name, self._line, [one.source for one in read], cleaned, limits)


def _has_gaps(part: Window) -> bool:
    """Whether offsets are missing between batches, or there twice, the first one not looked at."""
    if not part.suspicions & (layout.GAP | layout.NOT_ABOVE):
        return False
    return any(bits & (layout.GAP | layout.NOT_ABOVE) for bits in part.column(layout.SUSPICION)[1:])


def _records_of(one: ReadLog, max_batch_bytes: int) -> int:
    """How many records the batches of a log have whose CRCs are right."""
    facts, total = one.facts, 0
    for window in facts.runs.windows(one.source, max_batch_bytes):
        told = zip(window.column(layout.COUNT), window.column(layout.POSITION), strict=True)
        total += sum(facts.wrappers.count(count, position) for count, position in told)
    return total + sum(place.records or 0 for place in facts.places if place.is_vouched)
