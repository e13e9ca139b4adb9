"""What is watched while the log of one segment is walked: an observer for each question that verify answers of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.foreign import LogShape, times_of
from kdump.broker.missing.damage import DamageFold, below, last_offset
from kdump.broker.missing.index_proofs import HoleProofs, ProvenRanges
from kdump.broker.producer.replay import ProducerFold, SegmentProducers
from kdump.checks.duplicates import OverlapWatch
from kdump.checks.indexes import OffsetIndexFold, index_fold
from kdump.checks.job import IndexVerdict, MissingInLog
from kdump.checks.read_errors import broken_off, not_opened, report_not_told
from kdump.checks.state_files import CheckpointFold
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import _scan, layout
from kdump.format.batch.base_offset.header import LogEnd
from kdump.format.java_values import MAX_LONG
from kdump.format.kinds import FileKind
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.format.record.wrapper import first_offset
from kdump.storage.evidence import highest_end
from kdump.storage.file_source import OpenFailure
from kdump.storage.segment import sibling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.broker.missing.ranges import MissingRange
    from kdump.checks.indexes import IndexFold
    from kdump.checks.job import SegmentJob
    from kdump.checks.options import VerifyOptions
    from kdump.finding import Report
    from kdump.format.batch.base_offset.fold import OffsetFold
    from kdump.format.batch.window import Window
    from kdump.storage.open_files import CachedFile
    from kdump.storage.segment import Segment
    from kdump.storage.tolerant import TolerantSource

_HELD = 10_000  # findings that compaction may explain, until it is known whether the log was compacted
_WRONG_OFFSETS = layout.NOT_ABOVE | layout.OUT_OF_RANGE | layout.ODD_DELTA
_MOST_DOUBTS = 4  # findings of a log at which is asked whether it was copied as text


class Observer:
    """Watches one thing of a segment; most need only one of the two calls."""

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Take the next batches; `offsets` has them too, and from its first undecided position on it may blame them."""

    def finding(self, finding: Finding) -> None:
        """Take what is wrong with a file of the segment; the findings about batches come before their window."""


class SegmentFiles:
    """Opens the files of a segment."""

    def __init__(self, job: SegmentJob, segment: Segment, found: list[Finding | OpenFailure]) -> None:
        self._job = job
        self.segment = segment
        self._found = found
        self.sizes: dict[FileKind, int] = {}  # of those that were opened, bytes

    def open(self, kind: FileKind) -> CachedFile | None:
        """Return the file of a kind; None where it is not there, or cannot be opened."""
        if kind not in self._job.files:
            return None
        opened = self.segment.file(kind)
        if isinstance(opened, OpenFailure):
            self._found.append(opened if self._job.only is not None else not_opened(opened))
            return None
        self.sizes[kind] = opened.size
        return opened


class FigureWatch(Observer):
    """Watches how many batches a log has, what their times are, and whether it is damaged."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.batches = 0
        self.last_batch_at = 0  # position of the last one that an index can have
        self._far_at = MAX_LONG  # position of the first one that none can
        self.times: tuple[int | None, int | None] = (None, None)  # of the first, and the largest with a right CRC, ms
        self.damaged = False

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Count the next batches."""
        self.batches += window.count
        near = bisect_left(window.column(layout.POSITION), self._far_at)
        self.last_batch_at = window.cell(near - 1, layout.POSITION) if near else self.last_batch_at
        self.times = times_of(window, *self.times)

    def finding(self, finding: Finding) -> None:
        """Note whether it is damage of the log.

        A leader epoch that its checkpoint contradicts is none: offsets and producers stand, whichever of the two is
        wrong.
        """
        if finding.code is Code.O09 and finding.position is not None:
            self._far_at = finding.position
        if finding.file == self._file and not finding.is_overlap and finding.code is not Code.E03:
            self.damaged |= finding.severity is Severity.ERROR


class EndWatch(Observer):
    """Watches whether anybody can tell where a log ends."""

    def __init__(self, job: SegmentJob, segment: Segment, size: int) -> None:
        self._job = job
        self._segment = segment
        self._size = size
        self.is_unknown = job.is_held and job.is_last  # what was appended meanwhile is in its indexes only
        self._file = job.files[FileKind.LOG]
        self.offset = job.base_offset  # once all batches are read that after the last one
        self._is_reached = False

    def finding(self, finding: Finding) -> None:
        """Note whether a part of the log was not searched."""
        if finding.code is Code.L12 and finding.file == self._file and not self.is_unknown:
            from kdump.format.batch.gap import is_unsearched  # few logs have a gap

            self.is_unknown = is_unsearched(finding)

    def hides(self, finding: Finding) -> bool:
        """Tell whether a finding is about what may lie behind an end that nobody knows."""
        is_hidden = self.is_unknown and self._is_reached and Trait.BEYOND_END in finding.code.traits
        return is_hidden and (finding.offset or 0) >= self.offset

    def reach(self, last: int | None) -> None:
        """All batches are read, the last offset is this one; None without a batch."""
        self._is_reached = True
        self.offset = self.offset if last is None else last + 1

    def by_all_other_files(self) -> LogEnd | None:
        """Return where the log ends by them; while a broker writes they may be older than what was read."""
        if not self._job.is_last or self._job.is_held:
            return None
        return highest_end(self._job.known_ends, self._segment)

    def bounded(self, gap: Finding) -> Finding:
        """Return a gap at the end of the log with the offsets that the next segment and other files leave it."""
        if (gap.position or 0) + (gap.length or 0) < self._size:
            return gap
        following = self._job.next_base
        known = highest_end(self._job.known_ends, None) if following is None else LogEnd(following)
        if known is None or gap.offset is None:
            return gap
        end = known.offset
        return gap.replace(last_offset=end - 1) if end > gap.offset else gap.replace(offset=None)


class TextCopyWatch:
    """Watches whether a log was copied as text, which explains all that is wrong with it."""

    def __init__(self, log: TolerantSource, found: list[Finding | OpenFailure], max_batch_bytes: int) -> None:
        self._log = log
        self._found = found
        self._max_batch_bytes = max_batch_bytes
        self._doubts = 0
        self.cause: Code | None = None  # of all that is wrong

    def explained(self, finding: Finding) -> Finding:
        """Return a finding with its cause, where that is known; the first ones about damaged batches decide."""
        is_like_text = Trait.COPIED_AS_TEXT in finding.code.traits
        if is_like_text and finding.file == self._log.name and self.cause is None:
            self._doubts += 1
            if self._doubts <= _MOST_DOUBTS and finding.position is not None:
                self._look(finding.position)
        return finding if self.cause is None else finding.replace(because=self.cause)

    def _look(self, position: int) -> None:
        from kdump.format.batch.text_mode import as_text

        with suppress(OSError):  # the walk will say so
            why = as_text(self._log, position, self._max_batch_bytes)
            if why is not None:
                self._found.append(Finding(Code.F13, self._log.name, values={"why": why}))
                self.cause = Code.F13


class OriginWatch(Observer):
    """Watches what a log tells of where its files are from: first offset, epochs, and whether it is whole."""

    def __init__(self, job: SegmentJob, size: int) -> None:
        self._file = job.files[FileKind.LOG]
        self._base = job.base_offset
        self._size = size
        self._first_offset: int | None = None
        self._last_offset: int | None = None  # of the last batch, by its header
        self._epochs: tuple[int, int] | None = None
        self._gap_end: int | None = None  # of the last gap
        self._is_whole = self._is_sure_of_last = True
        self.has_epochs = False  # a batch has one

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Note the first offset, the epochs, and whether the last batch is sound."""
        if self._first_offset is None and window.all_trusted and window.cell(0, layout.MAGIC) >= layout.MAGIC_V2:
            first = window.cell(0, layout.BASE_OFFSET)
            is_overlap = first < self._base <= window.cell(0, layout.LAST_OFFSET)  # over the end of the one before
            self._first_offset = self._base if is_overlap else first
        lowest, highest = _scan.extremes(window.rows, window.count, layout.LEADER_EPOCH)
        self.has_epochs = self.has_epochs or highest >= 0
        if window.all_trusted:
            before = self._epochs or (lowest, highest)
            self._epochs = min(lowest, before[0]), max(highest, before[1])
        k, is_odd = window.count - 1, window.suspicions & _WRONG_OFFSETS
        self._is_sure_of_last = not is_odd and window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
        self._last_offset = window.cell(k, layout.LAST_OFFSET)

    def finding(self, finding: Finding) -> None:
        """Note whether bytes are in no batch."""
        if finding.file == self._file and (finding.gap or Trait.BREAKS_CHAIN in finding.code.traits):
            self._is_whole = False
        if finding.gap:
            self._gap_end = (finding.position or 0) + (finding.length or 0)

    def finish(self, last: int | None) -> None:
        """All batches are read; `last` is no offset of the last one where that is blamed."""
        self._is_sure_of_last &= last == self._last_offset

    def shape(self, *, is_end_known: bool, epochs: EpochWatch, has_holes: bool) -> LogShape:
        """Return what it comes to."""
        return LogShape(
            first_offset=self._first_offset,
            is_whole=self._is_whole,
            is_whole_at_end=self._gap_end != self._size and self._is_sure_of_last and is_end_known,
            has_holes=has_holes,
            epochs=self._epochs,
            off_epochs=epochs.contradict_all,
            unknown_epochs=epochs.know_none,
        )


class CompactionWatch(Observer):
    """Watches for what compaction leaves: offsets that are missing, and batches that lack records."""

    def __init__(self) -> None:
        self._lacks_records = False
        self.has_holes = False
        self.has_holes_inside = False  # before the end of the log

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Note whether batches lack records."""
        if not self._lacks_records and window.cell(0, layout.MAGIC) >= layout.MAGIC_V2:
            self._lacks_records = _scan.lacks_records(window.rows, window.count)
            self.has_holes |= self._lacks_records

    def finding(self, finding: Finding) -> None:
        """Note whether offsets are missing."""
        self.has_holes |= Trait.HOLE in finding.code.traits

    def at_end(self) -> None:
        """All batches are read: holes that are found from now on lie behind them."""
        self.has_holes_inside = self.has_holes


class FindingSink:
    """Hands findings on, but for those that compaction may explain: these once it is known if the log has holes."""

    def __init__(self, found: list[Finding | OpenFailure], compaction: CompactionWatch) -> None:
        self._found = found
        self._compaction = compaction
        self._held: list[Finding] = []

    def take(self, finding: Finding) -> None:
        """Hand a finding on, or hold it."""
        if Trait.OR_COMPACTION in finding.code.traits and len(self._held) < _HELD:
            self._held.append(finding)
        else:
            self._found.append(finding)

    def release(self) -> None:
        """Hand on what was held, at every end of a walk: notes in a log with holes, whoever made them."""
        held, self._held = self._held, []
        for finding in held:
            is_note = self._compaction.has_holes
            self._found.append(finding.replace(severity_override=Severity.NOTE) if is_note else finding)


class ProducerWatch(Observer):
    """Watches the producers and their transactions."""

    def __init__(self, file: str, report: Report, options: VerifyOptions) -> None:
        self._file = file
        self._fold = ProducerFold(file, report, options.max_uncompressed_bytes, report_controls=not options.deep)
        self._overlaps = 0  # batches that lie over those before them, where they were written

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Take the next batches."""
        self._fold.step(window)

    def finding(self, finding: Finding) -> None:
        """Note where any producer may have written, and what was written twice."""
        if finding.gap:
            self._fold.gap()
        if finding.file == self._file:
            self._overlaps += finding.is_overlap

    def gap(self) -> None:
        """Bytes were not read: any producer may have written there."""
        self._fold.gap()

    def finish(self) -> SegmentProducers:
        """Return what they did."""
        return self._fold.finish(self._overlaps)


class EpochWatch(Observer):
    """Watches whether the leader epochs of batches are those of the leader-epoch-checkpoint."""

    def __init__(self, job: SegmentJob, report: Report) -> None:
        self._fold = CheckpointFold(job.files[FileKind.LOG], job.epochs, job.start_offset, job.around)
        self._report = report
        self._blamed: set[int] = set()  # positions of batches whose base offset is wrong

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Hold the next batches against the checkpoint; those that may still be blamed wait."""
        self._fold.step(window)
        undecided = offsets.first_undecided_position  # from there on batches may still be blamed
        self._tell(window.cell(window.count - 1, layout.POSITION) if undecided is None else undecided)

    def finding(self, finding: Finding) -> None:
        """Note which batch is to blame for its offset: what epoch that has is not known."""
        if finding.is_misplaced and finding.position is not None:
            self._blamed.add(finding.position)

    def finish(self, size: int) -> None:
        """All batches are judged, to the end of the log."""
        self._tell(size)

    def _tell(self, end: int) -> None:
        for finding in self._fold.findings(self._blamed, end):
            self._report(finding)

    @property
    def contradict_all(self) -> bool:
        """Whether the checkpoint contradicts each batch, and there are several."""
        return self._fold.contradicts_all

    @property
    def know_none(self) -> bool:
        """Whether the checkpoint has the epoch of no batch, and there are several: it may be older."""
        return self._fold.knows_none


class RecordWatch(Observer):
    """Watches the records, where all of them are read."""

    def __init__(self, file: str, report: Report, options: VerifyOptions) -> None:
        self._report = report
        self._reader = RecordReader.within(options)
        self._checks = RecordChecks(file)
        self._is_asked_for = options.deep
        self.count = 0
        self.overlaps = OverlapWatch(file)

    def finding(self, finding: Finding) -> None:
        """Note which batches lie over others."""
        self.overlaps.see(finding)

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Read the records of the next batches."""
        if not self._is_asked_for:
            return
        for chunk in self._reader.chunks(window):
            self.count += chunk.filled
            self.overlaps.records(chunk)
            for finding in self._checks.check(chunk):
                self._report(finding)


class DiskErrorWatch(Observer):
    """Watches which bytes of a log the disk could not read, as far as the walk has told of them."""

    def __init__(self, log: TolerantSource, report: Report) -> None:
        self._log = log
        self._report = report
        self._told: list[tuple[int, int]] = []

    def finding(self, finding: Finding) -> None:
        """Note what the walk tells."""
        if finding.code is Code.F06 and finding.file == self._log.name:
            self._told.append((finding.position or 0, (finding.position or 0) + (finding.length or 0)))

    def finish(self) -> None:
        """All of the log is read."""
        report_not_told(self._log, self._told, self._report)


class MissingWatch(Observer):
    """Watches which offsets readers do not get, and what the indexes prove of them."""

    def __init__(self, job: SegmentJob, options: VerifyOptions, segment: Segment, log: TolerantSource) -> None:
        self._job = job
        self._segment = segment
        self._file = log.name
        limits = options.limits
        self._fold = DamageFold(
            (log.name, log.size),
            lambda position: first_offset(log, position, limits),
            lambda position: last_offset(log, position, limits),
        )
        self._proofs = HoleProofs(
            segment, is_last=job.is_last, next_base=job.next_base, max_batch_bytes=options.max_batch_bytes
        )
        self._proven = ProvenRanges(None if job.is_under_work else self._proofs)
        self._traced_to = 0  # the offset after the last batch that shows a cleaner at work
        self._trusted_at = -1  # position of the last batch with a right CRC
        self._claimed_time = layout.UNKNOWN  # the largest timestamp of windows that have batches with a wrong CRC
        self.settle = self._fold.settle
        self.dense_from: int | None = None  # from here on a reader gets all offsets; None where that is unknown
        self.marker_holes: list[tuple[int, int]] = []  # in which the transaction index knows an end marker

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Note what the headers say of cleaning, and which of them can be trusted."""
        trusted = window.count - 1 if window.all_trusted else _last_trusted(window)
        if trusted >= 0:
            self._trusted_at = window.cell(trusted, layout.POSITION)
        traced = _scan.last_trace(window.rows, window.count)
        if traced >= 0:
            self._traced_to = max(self._traced_to, window.cell(traced, layout.LAST_OFFSET) + 1)
        if not window.all_trusted:
            self._claimed_time = max(self._claimed_time, *window.column(layout.MAX_TIMESTAMP))

    def finding(self, finding: Finding) -> None:
        """Take what is wrong with the log."""
        if finding.file == self._file:
            self._fold.see(finding)

    def judged(self, window: Window) -> None:
        """The findings about a window's batches and records are all there."""
        self._fold.window(partial(_records_at, window))

    def ranges(self, *, is_end: bool) -> Iterator[MissingInLog]:
        """Yield what is known by now, if that is much; at the end all of it."""
        if not (is_end or self._fold.is_full):
            return
        ranges = self._proven.take(below(self._fold.ranges(), self._job.next_base))
        if is_end:
            ranges += self._proven.rest()
        self._note_markers(ranges)
        if ranges or (is_end and self._traced_to):
            yield MissingInLog(tuple(ranges), self._traced_to)

    def finish(self, last: int | None, max_timestamp: int | None, *, is_end_unknown: bool) -> None:
        """Take what is missing behind the last batch, with offset `last`."""
        job = self._job
        free = job.base_offset if last is None else last + 1
        self.dense_from = self._fold.dense_from or job.base_offset
        known = list(job.known_ends)
        if not is_end_unknown:
            with suppress(OSError):  # they have vanished meanwhile
                largest = max(self._claimed_time, -1 if max_timestamp is None else max_timestamp)
                ends = self._segment.known_ends(self._trusted_at, free - 1, largest)
                known += ends if job.is_last or not job.is_under_work else ()
        most = layout.LARGEST_OFFSET if job.next_base is None else job.next_base
        beyond = [] if is_end_unknown else [(end, code) for end, code in known if free < end <= most]
        end = job.next_base if not job.is_last else max([offset for offset, _ in beyond], default=None)
        why = tuple(dict.fromkeys(code for _, code in beyond))
        self._fold.finish(free, None if end is None else end - 1, why, is_last=job.is_last)

    def _note_markers(self, ranges: Sequence[MissingRange]) -> None:
        """Note in which of the ranges that have no bytes the transaction index knows an end marker."""
        if self._job.is_under_work:
            return
        gone = [lost for lost in ranges if not lost.length and not (lost.certainty and self._job.is_last)]
        with suppress(OSError):  # the check of that index says so
            self.marker_holes += [(hole.first, hole.last) for hole in self._proofs.with_markers(gone)]


class IndexWatch(Observer):
    """Watches whether the offset index and the time index point to the batches of their log."""

    def __init__(
        self, job: SegmentJob, files: SegmentFiles, found: list[Finding | OpenFailure], report: Report
    ) -> None:
        self._job = job
        self._files = files
        self._found = found
        self._report = report
        self._folds: dict[FileKind, IndexFold] = {}
        self._late: deque[Window] = deque()  # rows of batches that the offsets behind them are to judge
        self._late_wrong: set[int] = set()  # positions of those whose base offset is wrong
        self._only_magic_0 = True
        self.verdicts: dict[FileKind, IndexVerdict] = {}

    def open(self, log_size: int) -> None:
        """Open the indexes that are there."""
        job = self._job
        for kind in (FileKind.INDEX, FileKind.TIMEINDEX):
            source = self._files.open(kind)
            if source is None:
                continue
            try:
                self._folds[kind] = index_fold(
                    kind,
                    source,
                    job.base_offset,
                    self._report,
                    may_be_untrimmed=job.may_be_unfinished,
                    log_size=log_size,
                    tells_zeros=not job.is_preallocated,
                )
            except OSError as error:
                self._found.append(broken_off(error, source.name, source.size))

    def hints(self) -> Sequence[int]:
        """Return positions at which batches begin by the offset index."""
        fold = self._folds.get(FileKind.INDEX)
        try:
            return fold.hints() if isinstance(fold, OffsetIndexFold) else ()
        except OSError:  # the fold will say so
            return ()

    def window(self, window: Window, offsets: OffsetFold) -> None:
        """Note whether a time index is needed."""
        extremes = _scan.extremes(window.rows, window.count, layout.MAGIC)
        self._only_magic_0 = self._only_magic_0 and extremes == (0, 0)

    def finding(self, finding: Finding) -> None:
        """Note where no entry can be judged, and which batches are to blame."""
        if finding.gap:
            self._gap()
        if self._late and finding.is_misplaced and finding.position is not None:
            self._late_wrong.add(finding.position)

    def steps(self, window: Window, offsets: OffsetFold) -> Iterator[None]:
        """Hold the next batches against the indexes, but those that wait to be judged by the ones behind them.

        Yields whenever what was found so far may be handed on.
        """
        is_sure, last = not window.suspicions & _WRONG_OFFSETS, window.cell(window.count - 1, layout.LAST_OFFSET)
        if not is_sure:
            last = self._job.base_offset - 1 if offsets.last is None else offsets.last
            self._gap()
        undecided = offsets.first_undecided_position
        yield from self._late_steps(undecided)
        if not is_sure or undecided is None:
            sure = is_sure and undecided is None
            yield from self._to_each(lambda fold: fold.step(window, last, sure=sure))
            return
        k = bisect_left(window.column(layout.POSITION), undecided, 0, window.count)
        self._late.extend(window.header_only(row) for row in range(k, window.count))
        if k:
            part = window.slice(0, k)
            last = part.cell(k - 1, layout.LAST_OFFSET)
            yield from self._to_each(lambda fold: fold.step(part, last, sure=True))

    def finish(self, end_offset: int, log_size: int, last_batch_at: int) -> Iterator[None]:
        """Judge what waits, and what lies behind the last batch; yields as `steps` does."""
        yield from self._late_steps(None)
        yield from self._to_each(lambda fold: fold.finish(end_offset, log_size, last_batch_at))

    def report_missing(self, log_size: int, *, is_damaged: bool) -> None:
        """Report those that are not there (F09)."""
        job = self._job
        for kind in (FileKind.INDEX, FileKind.TIMEINDEX):
            if kind in job.files or (kind is FileKind.TIMEINDEX and self._only_magic_0):
                continue
            is_cut = is_damaged and kind is FileKind.INDEX  # a clean start recovers the segment too
            is_loose = job.may_be_unfinished or not log_size
            severity = Severity.NOTE if is_loose else Severity.ERROR if is_cut else Severity.WARNING
            path = sibling(job.files[FileKind.LOG], kind.value)
            self._report(Finding(Code.F09, path, severity_override=severity))

    def close(self) -> None:
        """Close them, and keep how they agree with the log."""
        for kind, fold in self._folds.items():
            fold.close()
            self.verdicts[kind] = IndexVerdict(fold.right, fold.wrong, fold.misplaced, fold.beyond, fold.reaches)

    def _gap(self) -> None:
        for fold in self._folds.values():
            fold.gap()

    def _to_each(self, act: Callable[[IndexFold], Iterator[None]]) -> Iterator[None]:
        """Let each index take what comes; one that cannot be read further is done with."""
        for kind, fold in list(self._folds.items()):
            try:
                yield from act(fold)
            except OSError as error:
                del self._folds[kind]
                fold.close()
                self._found.append(broken_off(error, self._job.files[kind], self._files.sizes[kind]))

    def _late_steps(self, edge: int | None) -> Iterator[None]:
        """Hold batches against the indexes that are judged by now: those before a position, or all."""
        while self._late and (edge is None or self._late[0].cell(0, layout.POSITION) < edge):
            row = self._late.popleft()
            position, last = row.cell(0, layout.POSITION), row.cell(0, layout.LAST_OFFSET)
            sure = position not in self._late_wrong
            self._late_wrong.discard(position)
            yield from self._to_each(partial(_step_alone, row, last, sure))


def _step_alone(row: Window, last: int, sure: bool, fold: IndexFold) -> Iterator[None]:
    return fold.step(row, last, sure=sure)


def _records_at(window: Window, position: int) -> int | None:
    """How many records the batch at a position has by its header; a legacy wrapper does not say it."""
    k = window.column(layout.POSITION).index(position)
    count, delta = window.cell(k, layout.COUNT), window.cell(k, layout.LAST_OFFSET_DELTA)
    is_sound = window.cell(k, layout.MAGIC) >= layout.MAGIC_V2 and 0 < count <= delta + 1
    return count if is_sound else None


def _last_trusted(window: Window) -> int:
    """The last row with a right CRC, -1 for none."""
    pairs = list(zip(window.column(layout.CRC), window.column(layout.COMPUTED_CRC), strict=True))
    return max((k for k, (stored, computed) in enumerate(pairs) if stored == computed), default=-1)
