"""What one log has: runs of batches that a reader gets, places that it does not, and what its headers tell.

Strategy: one checked walk with all records read. A header field whose value is determined is put right in an overlay,
and the log walked again as it would be. Nothing is kept of a batch that is well: batches that follow each other are one
run, and who wants its batches walks it again by their lengths, which the CRCs have proven.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.missing.damage import last_offset
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import layout
from kdump.format.batch.base_offset.either import may_be_the_next
from kdump.format.batch.base_offset.fold import unknown
from kdump.format.batch.gap import MOST_IN_BYTE
from kdump.format.batch.header_fields import Overlay, Patch, is_of_header, patch_of
from kdump.format.batch.walk import CheckedWalk
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.rescue.valid_runs import EpochRun, ValidRunBuilder, ValidRuns, Wrappers, batches_of
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.format.batch.base_offset.header import LogEnd
    from kdump.format.batch.epoch_order import EpochsAround
    from kdump.format.batch.window import Window
    from kdump.format.read_limits import ReadLimits
    from kdump.format.record.chunk import Chunk
    from kdump.format.source import Source
    from kdump.rescue.sources import SourceLog
    from kdump.storage.tolerant import TolerantSource

_RENAMED = 2  # batches below the base offset of the name, or too far above it
_ROUNDS = 8  # a field that is put right can show the next one
_FRAMES = ("batchLength", "magic")  # fields that tell where a batch ends, or how it is read


class BadBytes(TupleValue):
    """Bytes of a log that stay out."""

    # position, length: bytes
    position: int
    length: int
    # offset, last_offset: as the header has them, or the neighbours leave free; None where nobody knows
    offset: int | None
    last_offset: int | None
    records: int | None  # by the header; None where nobody can count them
    is_batch: bool  # a whole header stands there
    codes: tuple[str, ...]  # names of what is wrong
    is_exact: bool  # the offsets are those of the header
    is_whole: bool = False  # a batch lies there with all its bytes, as its length and what follows tell

    @property
    def is_wrapper(self) -> bool:
        """Whether it may be a legacy wrapper, whose header has its last offset only."""
        return self.is_batch and self.offset is None and self.last_offset is not None

    @property
    def is_odd(self) -> bool:
        """Whether the header under a wrong CRC has records that cannot be in its offsets, or in its bytes."""
        return self.is_exact and self.records is None and self.codes == (Code.B01.name,)

    @property
    def is_unplaced(self) -> bool:
        """Whether it is a batch with a true CRC whose base offset is wrong, while nobody knows the right one."""
        return self.is_whole and Trait.MISPLACED.is_among(self.codes)

    @property
    def is_vouched(self) -> bool:
        """Whether it is a batch with a true CRC: how many records it has is known, whatever its offsets are."""
        return self.is_whole and Code.B01.name not in self.codes and Code.B02.name not in self.codes

    @property
    def lacks_offsets(self) -> bool:
        """Whether it is a batch with a true CRC and no offsets that can be, or none that can be in its log."""
        if Trait.OUTSIDE_SEGMENT.is_among(self.codes):
            return True
        return None in (self.offset, self.last_offset) and Trait.MISPLACED.is_among(self.codes)

    @property
    def is_zero(self) -> bool:
        """Whether there are zero bytes, and nothing else."""
        return all(Trait.ZEROS in Code[code].traits for code in self.codes)


class ScannedLog(Value):
    """What one log has."""

    runs: ValidRuns  # of batches that lie one behind the other and are all well
    places: list[BadBytes]  # what stays out, by position
    patches: tuple[Patch, ...]  # that the runs count on
    fields: tuple[Finding, ...]  # for each patch the finding that it comes from
    epochs: list[EpochRun]  # of the batches in the runs, in the order of the log
    wrappers: Wrappers  # that were read
    has_transactions: bool  # there are transactional or control batches of producers
    gaps: int  # how often offsets are missing between two batches that lie one behind the other
    lacks_records: bool  # a batch has fewer records than offsets
    findings: list[Finding]  # about what was not all read
    batches: int  # how many are in the runs
    times: tuple[int, int] | None  # timestamp of the first of these, and the largest, ms; None where there is none
    is_renamed: bool = False  # its batches do not fit its name
    traced_to: int = 0  # the offset after the last batch that shows a cleaner at work; 0 for none
    holes: Sequence[int] = ()  # three numbers for each of these gaps: its first and last offset, and its position
    # the base offset of the first batch, where that lies below the name of the log, and the batch goes beyond that:
    # what the log before has of it counts there. None for another one.
    begins_below: int | None = None

    @property
    def first(self) -> int | None:
        """The lowest offset of a batch; None where there is none."""
        return min(self.runs.firsts, default=None)

    @property
    def last(self) -> int | None:
        """The highest offset of a batch; None where there is none."""
        return max(self.runs.lasts, default=None)

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets may be missing between two batches: before a wrapper nobody has looked for them."""
        return bool(self.gaps or self.wrappers.positions)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and last offset of each run of batches."""
        return list(zip(self.runs.firsts, self.runs.lasts, strict=True))

    def end(self, start: int, known: int) -> int:
        """Return up to which offset (exclusive) it is known to go.

        Behind its last batch the headers of torn ones tell, as long as each begins where the one before it ends. A
        header without a true CRC may be wrong itself: where it has fewer records than offsets, in a log that was not
        cleaned, the fewer count; a legacy wrapper begins there. A whole batch that has no offset that can be is taken
        to have the next ones.

        Args:
            start: where the log before it ends, or its own base offset.
            known: the last offset that the line has; a batch behind it has no place in the log.
        """
        after, end = 0, start
        for run in self.runs:  # of those that count: others may lie before, behind and between them
            if run.last <= known:
                after, end = run.end, max(end, run.last + 1)
        claimed = end  # by the header before: where the next one begins there, that was right
        for place in self.places:
            if place.position < after:
                continue
            if place.lacks_offsets:
                claimed = end = min(end + max(1, place.records or 0), layout.LARGEST_OFFSET + 1)
                continue
            if place.is_wrapper and end <= (place.last_offset or 0) < end + MOST_IN_BYTE * place.length:
                claimed = end = (place.last_offset or 0) + 1
                continue
            if not place.is_exact or place.offset not in (end, claimed) or place.last_offset is None:
                break
            end, claimed = place.offset, place.last_offset + 1
            span = claimed - end
            end += span if self.lacks_records or self.gaps else min(span, place.records or span)
        return end

    def overlay(self, source: Source) -> Source:
        """Return the log as its runs count on it."""
        return Overlay(source, self.patches) if self.patches else source


class ReadLog(TupleValue):
    """A log that was read: which, of which copy, through what, and what it has."""

    log: SourceLog
    copy: int
    raw: TolerantSource
    source: Source
    facts: ScannedLog

    @property
    def is_legacy(self) -> bool:
        """Whether it begins with a message of magic 0 or 1: of several that were appended the first tells nothing."""
        return self.raw.read_at(layout.MAGIC_AT, 1) < bytes([layout.MAGIC_V2])


def read_log(
    source: Source,
    base: int | None,
    limits: ReadLimits,
    around: EpochsAround,
    *,
    next_base: int | None = None,
    known_end: Callable[[], LogEnd | None] = unknown,
    hints: Callable[[], Sequence[int]] = tuple,
    follow_producers: bool = True,
    given: Sequence[Finding] = (),
) -> ScannedLog:
    """Read a log.

    Args:
        source: the log.
        base: base offset by its name; None where that tells none.
        limits: for reading records.
        around: what lies around the log says of leader epochs.
        next_base: base offset of the segment after it.
        known_end: tells where other files know it to end, of the last log.
        hints: positions that its offset index has.
        follow_producers: its batches' sequences mean something.
        given: findings about header fields that the logs around it determine; a batch stays out whose field is wrong
            and that they do not.

    Raises:
        OSError: it cannot be read to its end.
    """
    if base is not None:
        facts = _read_log(
            source,
            base,
            limits=limits,
            around=around,
            next_base=next_base,
            known_end=known_end,
            hints=hints,
            given=given,
            follow_producers=follow_producers,
        )
        if not _is_renamed(facts):
            return facts
    found = _read_log(
        source,
        None,
        limits=limits,
        around=around if base is None else around.alone(),  # other logs lie beside it than its name tells
        next_base=None,
        known_end=unknown,
        hints=hints,
        given=given,
        follow_producers=follow_producers,
    )
    return found.replace(is_renamed=base is not None)  # the name is wrong, not so many batches


def _is_renamed(facts: ScannedLog) -> bool:
    """Whether batches tell that the name of their log is wrong, and not their own base offsets.

    They are several, and most of the log, or they lie before all others and lead up to them offset by offset.
    """
    wrong = [place for place in facts.places if Trait.OUTSIDE_SEGMENT.is_among(place.codes)]
    if len(wrong) < _RENAMED:
        return False
    if sum(place.length for place in wrong) > facts.runs.size:
        return True
    ends = [(place.position + place.length, (place.last_offset or 0) + 1) for place in wrong]
    first = facts.runs.starts[0], facts.runs.firsts[0]
    return ends == [*((place.position, place.offset) for place in wrong[1:]), first]


def _read_log(
    source: Source,
    base: int | None,
    limits: ReadLimits,
    around: EpochsAround,
    next_base: int | None,
    known_end: Callable[[], LogEnd | None],
    hints: Callable[[], Sequence[int]],
    given: Sequence[Finding],
    *,
    follow_producers: bool,
) -> ScannedLog:
    patches: dict[int, Patch] = {}
    fields: dict[int, Finding] = {}
    out = [one for one in given if one.expected is None]
    for one in given:
        if one.expected is None:
            continue
        patch = patch_of(one, source)
        patches[patch.position], fields[patch.position] = patch, one
    before: set[tuple[Code, int | None]] = set()
    facts, known = None, None
    asks_wrappers = False
    for _ in range(_ROUNDS):
        log: Source = Overlay(source, patches.values()) if patches else source
        walk_over = partial(
            _Walk,
            log,
            base,
            limits,
            around,
            hints,
            next_base=next_base,
            known_end=known_end,
            follow_producers=follow_producers,
        )
        walk = walk_over(asks_wrappers=asks_wrappers)
        walk.run()
        if walk.has_wrapper_overlaps and not asks_wrappers:  # which only shows once they were read
            asks_wrappers = True
            walk = walk_over(asks_wrappers=True)
            walk.run()
        errors = {(one.code, one.position) for one in walk.errors if one.severity is Severity.ERROR}
        if known is not None and patches and errors - before:
            break  # with these values other headers look wrong: the last ones are not taken
        wrong = walk.determined(next_base)
        before = before or errors
        kept = tuple(patches[at] for at in sorted(patches)), tuple(fields[at] for at in sorted(fields))
        known = walk, kept
        new = {patch.position: (patch, one) for one in wrong for patch in (patch_of(one, source),)}
        new = {at: pair for at, pair in new.items() if at not in patches and pair[0].old != pair[0].new}
        if not new:
            break
        patches.update({at: patch for at, (patch, _) in new.items()})
        fields.update({at: one for at, (_, one) in new.items()})
    assert known is not None
    walk, (taken, why) = known
    walk.errors += out
    facts = walk.facts()
    # a value that another copy confirms is given as one to be put right, so that nothing else is taken for it
    real = [pair for pair in zip(taken, why, strict=True) if pair[0].old != pair[0].new]
    return facts.replace(patches=tuple(patch for patch, _ in real), fields=tuple(one for _, one in real))


class _Walk:
    """One checked walk over a log, with what salvage keeps of it."""

    def __init__(
        self,
        log: Source,
        base: int | None,
        limits: ReadLimits,
        around: EpochsAround,
        hints: Callable[[], Sequence[int]],
        *,
        next_base: int | None,
        known_end: Callable[[], LogEnd | None],
        follow_producers: bool,
        asks_wrappers: bool,
    ) -> None:
        self._log = log
        self._around = around
        self._limits = limits
        self._base = base
        self.errors: list[Finding] = []
        self._gaps: list[Finding] = []
        self._findings: list[Finding] = []
        self._wrong: list[BadBytes] = []
        self._hidden: dict[int, str] = {}  # who follows lengths does not meet these, or what lies behind them
        self._wrappers = Wrappers()
        self._inside: dict[int, Finding] = {}  # of each wrapper of magic 0 what its header should say
        self._by_crc: list[Finding] = []  # of those that say something else
        self._built = ValidRunBuilder(self._wrappers, base)
        self._walk = CheckedWalk(
            log,
            self._report,
            segment=layout.UNKNOWN if base is None else base,
            next_base=next_base,
            known_end=known_end,
            hints=hints,
            max_batch_bytes=limits.max_batch_bytes,
            around=around,
        )
        self._walk.checks.follow_producers = follow_producers
        self._walk.checks.offsets.asks_wrappers = asks_wrappers
        self._has_messages = False  # of magic 0 or 1
        self._gaps_between = 0
        self._holes = array("q")

    @property
    def has_wrapper_overlaps(self) -> bool:
        """Whether what is inside a legacy wrapper lies over the batch before it."""
        return self._built.has_wrapper_overlaps

    def _report(self, finding: Finding) -> None:
        if finding.code is Code.V03:  # a broker has not written it whole yet
            return
        if finding.gap:
            self._gaps.append(finding)
        elif finding.code is Code.O04:
            self._gaps_between += 1
            if finding.offset is not None and finding.last_offset is not None:
                self._holes.extend((finding.offset, finding.last_offset, finding.position or 0))
        elif Trait.NOT_ALL_READ in finding.code.traits:
            self._findings.append(finding)
        elif finding.code is not Code.B01 and (finding.severity is Severity.ERROR or is_of_header(finding)):
            self.errors.append(finding)
            if finding.field in _FRAMES and finding.position is not None and is_of_header(finding):
                self._hidden[finding.position] = finding.code.name

    def run(self) -> None:
        """Walk through the log."""
        limits = self._limits
        reader = RecordReader.within(limits)
        records = RecordChecks(self._log.name)
        for window in self._walk.windows():
            trusted = window.all_trusted
            for chunk in reader.chunks(window):
                if chunk.window.cell(chunk.first, layout.MAGIC) < layout.MAGIC_V2:
                    self._note_wrapper(chunk)
                    is_well = chunk.window.cell(chunk.first, layout.CRC) == chunk.window.cell(
                        chunk.first, layout.COMPUTED_CRC
                    )
                    self._has_messages = self._has_messages or is_well
                for finding in records.check(chunk):
                    self._report(finding)
            start, end = window.cell(0, layout.POSITION), window.end(window.count)
            hidden = {position: code for position, code in self._hidden.items() if start <= position < end}
            if trusted and not hidden:
                self._built.push(window, 0, window.count)
                continue
            for k in range(window.count):
                if (code := hidden.get(window.cell(k, layout.POSITION))) is not None:
                    self._wrong.append(_place_of(window, k, (code,)))
                elif window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC):
                    self._built.push(window, k, k + 1)
                else:
                    self._wrong.append(self._with_own_end(_place_of(window, k)))
        self._by_crc = [one for one in self._inside.values() if one.expected != one.found]
        self.errors += self._by_crc

    def _with_own_end(self, place: BadBytes) -> BadBytes:
        """A batch whose header contradicts itself, with the offsets that its records tell where they do."""
        if not place.is_odd or place.offset is None:
            return place
        last = last_offset(self._log, place.position, self._limits)
        return place if last is None else place._replace(last_offset=last, records=last - place.offset + 1)

    def _note_wrapper(self, chunk: Chunk) -> None:
        window, k = chunk.window, chunk.last - 1
        if not chunk.filled or not window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK:
            return
        position, first = window.cell(k, layout.POSITION), chunk.rows[layout.R_OFFSET]
        last, size = window.cell(k, layout.LAST_OFFSET), window.cell(k, layout.SIZE)
        inner = chunk.rows[(chunk.filled - 1) * layout.RECORD_WIDTH + layout.R_OFFSET]
        is_over = inner > last
        if not window.cell(k, layout.MAGIC) and inner >= 0:  # its offsets are under the CRC, the last one too
            place = self._log.name, position, size, False, first, inner, "baseOffset"
            self._inside[position] = Finding(Code.O03, *place, inner, last)
            is_over = False
        if self._wrappers.add(position, first, chunk.filled) and (is_over or not _has_room(first, last)):
            self.errors.append(Finding(Code.O03, self._log.name, position, size, field="baseOffset", found=first))

    def determined(self, next_base: int | None) -> list[Finding]:
        """Return the findings about header fields whose value is determined: by a CRC first, and then by others."""
        return [
            one
            for one in self._by_crc or self.errors
            if is_of_header(one)
            and isinstance(one.expected, int)
            and not self._lost_its_epoch(one)
            and not (self._gaps_between and may_be_the_next(one, self._log, next_base))
        ]

    def _lost_its_epoch(self, finding: Finding) -> bool:
        """Whether zeros have covered length and epoch of a batch: the CRC tells the length, and nobody the epoch."""
        if finding.code is not Code.L05 or finding.found or finding.position is None or finding.length is None:
            return False
        header = self._log.read_at(finding.position, layout.CRC_AT)
        if any(header[layout.SIZE_AT : layout.MAGIC_AT]) or header[layout.MAGIC_AT] != layout.MAGIC_V2:
            return False
        after = self._log.read_at(finding.position + finding.length + layout.LEADER_EPOCH_AT, 4)
        return any(after) and self._around.at(int.from_bytes(header[:8], "big")) != 0

    def facts(self) -> ScannedLog:
        """Return what there is; batches with an error that only shows behind them are taken out again."""
        out: dict[int, list[Finding]] = {}
        for one in self.errors:
            if one.position is not None and (Trait.UNREADABLE in one.code.traits or is_of_header(one)):
                out.setdefault(one.position, []).append(one)
        built, places = self._built, self._wrong
        if out:
            built, bad = self._without(out)
            places = [*places, *bad]
        if built.epochs and not self._has_messages:
            places = [_without_offsets(one) if one.codes == (Code.B02.name,) else one for one in places]
        places = sorted([*places, *_places_of_gaps(self._gaps)], key=lambda one: one.position)
        return ScannedLog(
            runs=built.runs,
            places=places,
            patches=(),
            fields=(),
            epochs=built.epochs,
            wrappers=self._wrappers,
            has_transactions=built.has_transactions,
            gaps=self._gaps_between,
            lacks_records=built.lacks_records,
            findings=self._findings,
            batches=built.batches,
            times=built.times,
            traced_to=built.traced_to,
            holes=self._holes,
            begins_below=built.begins_below,
        )

    def _without(self, out: dict[int, list[Finding]]) -> tuple[ValidRunBuilder, list[BadBytes]]:
        kept, places = ValidRunBuilder(self._wrappers, self._base), []
        positions = sorted(out)
        for window in self._built.runs.windows(self._log, self._limits.max_batch_bytes):
            start = 0
            first = bisect_left(positions, window.cell(0, layout.POSITION))
            for position in positions[first : bisect_left(positions, window.end(window.count))]:
                k = bisect_left(window.column(layout.POSITION), position)
                if k == window.count or window.cell(k, layout.POSITION) != position:
                    continue
                kept.push(window, start, k)
                start = k + 1
                codes = tuple(dict.fromkeys(one.code.name for one in out[position]))
                is_moved = any(one.is_misplaced for one in out[position])
                places.append(_place_of(window, k, codes, self._wrappers, is_exact=not is_moved))
            kept.push(window, start, window.count)
        return kept, places


def last_base(one: ReadLog) -> int:
    """Return the base offset of the last batch of a log that has one."""
    runs, found = one.facts.runs, 0
    for window in batches_of(one.source, runs.starts[-1], runs.ends[-1], layout.MAX_INT):
        found = window.cell(window.count - 1, layout.BASE_OFFSET)
    return found


def lone_last(log: Source, facts: ScannedLog) -> Window | None:
    """Return the last batch of a log, where it alone has its leader epoch.

    Args:
        log: as its runs count on it.
        facts: what it has.
    """
    runs, run = facts.runs, facts.epochs[-1]
    found: Window | None = None
    for window in batches_of(log, runs.starts[-1], runs.ends[-1], layout.MAX_INT):
        found = window.batch(window.count - 1)
    if found is None or (run.first, run.last) != (found.cell(0, layout.BASE_OFFSET), found.cell(0, layout.LAST_OFFSET)):
        return None
    return found


def _place_of(
    window: Window,
    k: int,
    codes: tuple[str, ...] | None = None,
    wrappers: Wrappers | None = None,
    *,
    is_exact: bool = True,
) -> BadBytes:
    """A batch that stays out, by its header."""
    row = window.row(k)
    is_legacy = row[layout.MAGIC] < layout.MAGIC_V2
    first, last, count = row[layout.BASE_OFFSET], row[layout.LAST_OFFSET], row[layout.COUNT]
    if is_legacy:
        inner = None if wrappers is None else wrappers.at(row[layout.POSITION])
        is_wrapper = row[layout.ATTRIBUTES] & layout.CODEC_MASK
        first, count = inner or ((-1, -1) if is_wrapper or codes is None else (last, 1))
    sane = 0 <= first <= last <= layout.LARGEST_OFFSET
    if not (count or is_legacy or codes) and row[layout.SIZE] > layout.RECORDS_AT:
        count = -1  # there are bytes of records
    if is_legacy and first > last:
        first = -1  # what is inside lies above the wrapper
    return BadBytes(
        row[layout.POSITION],
        row[layout.SIZE],
        offset=first if 0 <= first <= layout.LARGEST_OFFSET else None,
        last_offset=last if 0 <= last <= layout.LARGEST_OFFSET else None,
        records=count if count >= 0 and (not sane or count <= last - first + 1) else None,
        is_batch=True,
        codes=codes or (("B02",) if is_legacy else ("B01",)),
        is_exact=is_exact and sane,
        is_whole=True,
    )


def _without_offsets(place: BadBytes) -> BadBytes:
    """A damaged message of magic 0 or 1 among batches of magic 2: its magic is wrong too, so that no field tells."""
    return place._replace(offset=None, last_offset=None, records=None, is_batch=False, is_exact=False, is_whole=False)


def _places_of_gaps(gaps: Iterable[Finding]) -> Iterator[BadBytes]:
    """Bytes that belong to no batch; where a header still stands, what its length covers is of that batch.

    Args:
        gaps: the findings, by position.
    """
    covered = 0
    for finding in gaps:
        assert finding.position is not None
        assert finding.length is not None
        start, end = finding.position, finding.position + finding.length
        codes = (finding.code.name,)
        if finding.offsets_from == "bytes":
            batch_end = finding.values.get("batchEnd")
            covered = batch_end if isinstance(batch_end, int) else end
            is_batch = finding.count is not None or finding.is_torn_batch
            offsets = finding.offset, finding.last_offset if is_batch else None
            stop = min(end, covered)
            yield BadBytes(start, stop - start, *offsets, finding.count, is_batch, codes=codes, is_exact=is_batch)
            if stop < end:
                yield BadBytes(
                    stop,
                    end - stop,
                    offset=None,
                    last_offset=None,
                    records=None,
                    is_batch=False,
                    codes=codes,
                    is_exact=False,
                )
        elif end > covered:
            start = max(start, covered)
            yield BadBytes(
                start,
                end - start,
                offset=None,
                last_offset=None,
                records=None,
                is_batch=False,
                codes=codes,
                is_exact=False,
            )


def _has_room(first: int, last: int) -> bool:
    """Whether a wrapper of these offsets can lie in a segment; neither its header nor Kafka holds them together."""
    return 0 <= first <= last <= first + layout.MAX_INT
