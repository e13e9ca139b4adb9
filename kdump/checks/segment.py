"""One segment: one walk over its log that feeds all checks, those of its indexes among them."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.foreign import times_of
from kdump.broker.missing.damage import DamageFold, below, last_offset
from kdump.broker.missing.index_proofs import HoleProofs, ProvenRanges
from kdump.broker.producer.replay import ProducerFold
from kdump.checks.indexes import OffsetIndexFold, index_fold
from kdump.checks.job import Evidence, IndexVerdict, LostInLog, SegmentJob, SegmentSummary
from kdump.checks.read_errors import broken_off, not_opened, report_not_told
from kdump.checks.state_files import CheckpointFold
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import _scan, layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.format.record.wrapper import first_offset
from kdump.item import Progress
from kdump.storage.evidence import highest_end
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OFFSETS_TOPIC
from kdump.storage.open_files import OpenFileCache
from kdump.storage.segment import Segment
from kdump.storage.tolerant import TolerantSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.broker.missing.ranges import MissingRange
    from kdump.checks.indexes import IndexFold
    from kdump.checks.options import VerifyOptions
    from kdump.format.batch.base_offset.fold import OffsetFold
    from kdump.format.batch.window import Window
    from kdump.storage.open_files import CachedFile

_HELD = 10_000  # findings that compaction may explain, until it is known whether the log was compacted
_WRONG_OFFSETS = layout.NOT_ABOVE | layout.OUT_OF_RANGE | layout.ODD_DELTA
_MOST_DOUBTS = 4  # findings of a log at which is asked whether it was copied as text

Result = Finding | OpenFailure | Progress | LostInLog | SegmentSummary


def check_segment(job: SegmentJob, options: VerifyOptions) -> Iterator[Result]:
    """Yield what is wrong with the files of one segment, and at the end what the partition needs to know of it.

    Args:
        job: the segment.
        options: what was asked for.

    Reports: F02, F03, F06, F09, F13, O06, O07, E03, X01-X08, T01-T05, V01-V03, and what the checked walk, the records
        and the producers show.
    """
    found: list[Finding | OpenFailure] = []
    with OpenFileCache() as cache:
        segment = _SegmentCheck(job, options, cache, found)
        for progress in segment.walk():
            yield from _wanted(found, job.only)
            yield from segment.losses(is_end=False)
            yield progress
        yield from _wanted(found, job.only)
        yield from segment.losses(is_end=True)
        yield segment.facts()


def _wanted(found: list[Finding | OpenFailure], only: str | None) -> Iterator[Finding | OpenFailure]:
    """Hand on what was found since the last time."""
    for one in found:
        file = one.file if isinstance(one, Finding) else one.path
        if only is None or file == only:
            yield one
    found.clear()


class _SegmentCheck:
    """The checks of one segment.

    Args:
        job: the segment.
        options: what was asked for.
        cache: where its files are open.
        found: takes what is found.
    """

    def __init__(
        self,
        job: SegmentJob,
        options: VerifyOptions,
        cache: OpenFileCache,
        found: list[Finding | OpenFailure],
    ) -> None:
        self._job = job
        self._options = options
        self._found = found
        self._path = job.files[FileKind.LOG]
        follow = job.only is not None
        self._segment = Segment(self._path, job.base_offset, cache, follow=follow, files=job.files)
        self._maybe_compaction: list[Finding] = []
        self._told: list[tuple[int, int]] = []  # what the disk could not read, as far as the walk has told it
        self._blamed: set[int] = set()
        self._folds: dict[FileKind, IndexFold] = {}
        self._sizes: dict[FileKind, int] = {}
        self._verdicts: dict[FileKind, IndexVerdict] = {}
        self._log: TolerantSource | None = None
        self._cause: Code | None = None
        self._doubts = 0
        self._gap_end: int | None = None  # of the last gap
        self._epoch_range: tuple[int, int] | None = None
        self._is_sure_of_last = True
        self._late: deque[Window] = deque()  # rows of batches that the indexes are still held against
        self._late_wrong: set[int] = set()  # positions of those whose base offset is wrong
        self._off_epochs = self._holes_inside = False
        self._is_whole = True
        self._first_offset: int | None = None
        self._batches = self._records = self._last_batch_at = 0
        self._end = job.base_offset
        self._only_magic_0 = True
        self._overlaps = 0  # batches that lie over those before them, where they were written
        self._is_read = self._has_holes = self._damaged = self._has_epochs = False
        self._times: tuple[int | None, int | None] = (None, None)
        self._claimed_time = layout.UNKNOWN  # the largest timestamp, that of batches with a wrong CRC too
        self._producers: ProducerFold | None = None
        self._is_growing = job.is_held and job.is_last
        self._end_is_unknown = self._is_growing  # what was appended meanwhile is in its indexes only
        self._trusted_at = -1  # position of the last batch with a right CRC
        self._is_short = False
        self._traced_to = 0  # the offset after the last batch that shows a cleaner at work
        self._proofs = HoleProofs(
            self._segment, is_last=job.is_last, next_base=job.next_base, max_batch_bytes=options.max_batch_bytes
        )
        self._proven = ProvenRanges(None if job.is_under_work else self._proofs)
        self._marker_holes: list[tuple[int, int]] = []
        self._losses: DamageFold | None = None
        self._before: int | None = None  # last offset before the window in hand
        self._last_offset: int | None = None  # of the last batch, by its header
        self._dense_from: int | None = None

    def walk(self) -> Iterator[Progress]:
        """Walk through the log, and judge everything."""
        opened = self._open(FileKind.LOG)
        if opened is None:
            return
        self._log = log = TolerantSource(opened)
        self._open_indexes(log.size)
        self._producers = ProducerFold(
            self._path, self._report, self._options.max_uncompressed_bytes, report_controls=not self._options.deep
        )
        try:
            yield from self._batches_of(log)
            self._is_read = True
        except OSError as error:
            self._producers.gap()
            self._found.append(broken_off(error, self._path, log.size))
        for kind, fold in self._folds.items():
            fold.close()
            self._verdicts[kind] = IndexVerdict(fold.right, fold.wrong, fold.misplaced, fold.beyond, fold.reaches)
        yield Progress(log.size, log.size, self._path)

    def facts(self) -> SegmentSummary:
        """Return what the partition needs to know."""
        return SegmentSummary(
            self._batches,
            self._records,
            self._end,
            self._is_read,
            self._has_epochs,
            self._has_holes,
            self._damaged,
            None if self._producers is None else self._producers.finish(self._overlaps),
            self._sizes,
            *self._times,
            self._evidence(),
            self._dense_from,
            tuple(self._marker_holes),
        )

    def _evidence(self) -> Evidence | None:
        if self._log is None or not self._is_read:
            return None
        return Evidence(
            self._verdicts,
            self._is_whole,
            self._gap_end != self._log.size and self._is_sure_of_last and not self._end_is_unknown,
            self._cause,
            self._epoch_range,
            self._off_epochs,
            self._first_offset,
            self._holes_inside,
        )

    def losses(self, *, is_end: bool) -> Iterator[LostInLog]:
        """Yield what readers do not get, as far as it is known; at the end all of it."""
        fold = self._losses
        if fold is None or not (is_end or fold.is_full):
            return
        ranges = self._proven.take(below(fold.ranges(), self._job.next_base))
        if is_end:
            ranges += self._proven.rest()
        self._note_markers(ranges)
        if ranges or (is_end and self._traced_to):
            yield LostInLog(tuple(ranges), self._traced_to)

    def _note_markers(self, ranges: Sequence[MissingRange]) -> None:
        """Note in which of the ranges that have no bytes the transaction index knows an end marker."""
        if self._job.is_under_work:
            return
        gone = [one for one in ranges if not one.length and not (one.certainty and self._job.is_last)]
        with suppress(OSError):  # the check of that index says so
            self._marker_holes += [(gap.first, gap.last) for gap in self._proofs.with_markers(gone)]

    # --- files ----------------------------------------------------------------------------------------------
    def _open(self, kind: FileKind) -> CachedFile | None:
        if kind not in self._job.files:
            return None
        opened = self._segment.file(kind)
        if isinstance(opened, OpenFailure):
            self._found.append(opened if self._job.only is not None else not_opened(opened))
            return None
        self._sizes[kind] = opened.size
        return opened

    def _open_indexes(self, log_size: int) -> None:
        job = self._job
        for kind in (FileKind.INDEX, FileKind.TIMEINDEX):
            source = self._open(kind)
            if source is None:
                continue
            try:
                fold = index_fold(
                    kind,
                    source,
                    job.base_offset,
                    self._report,
                    may_be_untrimmed=job.may_be_unfinished,
                    log_size=log_size,
                    tells_zeros=not job.is_preallocated,
                )
                self._folds[kind] = fold
            except OSError as error:
                self._found.append(broken_off(error, source.name, source.size))

    def _to_indexes(self, act: Callable[[IndexFold], Iterator[None]]) -> Iterator[None]:
        """Let each index take what comes; one that cannot be read further is done with."""
        for kind, fold in list(self._folds.items()):
            try:
                yield from act(fold)
            except OSError as error:
                del self._folds[kind]
                fold.close()
                self._found.append(broken_off(error, self._job.files[kind], self._sizes[kind]))

    # --- the walk -------------------------------------------------------------------------------------------
    def _batches_of(self, log: TolerantSource) -> Iterator[Progress]:
        job, options = self._job, self._options
        if log.size > layout.MAX_INT:
            over = log.size - layout.MAX_INT
            self._report(Finding(Code.F03, self._path, layout.MAX_INT, over, found=log.size, expected=layout.MAX_INT))
        walk = CheckedWalk(
            log,
            self._report,
            segment=job.base_offset,
            next_base=job.next_base,
            known_end=self._known_end,
            hints=self._hints,
            max_batch_bytes=options.max_batch_bytes,
            resync=options.resync,
            around=job.around,
        )
        walk.checks.follow_producers = job.topic != OFFSETS_TOPIC
        if not (job.is_alone or job.is_leftover):
            limits = options.limits
            self._losses = DamageFold(
                (self._path, log.size),
                lambda position: first_offset(log, position, limits),
                lambda position: last_offset(log, position, limits),
            )
            walk.checks.offsets.on_missing_offsets = self._losses.settle
        epochs = CheckpointFold(self._path, job.epochs, job.start_offset, job.around)
        reader = RecordReader(options.max_uncompressed_bytes, max_batch=options.max_batch_bytes, cut=KEPT)
        records = RecordChecks(self._path)
        for window in walk.windows():
            end = Progress(window.end(window.count), log.size, self._path)
            yield from self._handing_on(self._headers(window, walk.checks.offsets), end)
            epochs.step(window)
            judged = walk.checks.offsets.first_undecided_position  # from there on batches may still be blamed
            for finding in epochs.findings(self._blamed, self._last_batch_at if judged is None else judged):
                self._report(finding)
            if options.deep:
                for chunk in reader.chunks(window):
                    self._records += chunk.filled
                    for finding in records.check(chunk):
                        self._report(finding)
            if self._losses is not None:
                self._losses.window(partial(_records_at, window))
            self._before = walk.checks.offsets.last
            if options.progress or self._found:
                yield end
        if walk.checks.offsets.last is not None:
            self._end = walk.checks.offsets.last + 1
        self._is_sure_of_last &= walk.checks.offsets.last == self._last_offset  # else it was blamed
        self._off_epochs = epochs.contradicts_all
        for finding in epochs.findings(self._blamed, log.size):
            self._report(finding)
        end = Progress(log.size, log.size, self._path)
        yield from self._handing_on(self._finish(log, walk.checks.offsets.last), end)
        self._lost_end(walk.checks.offsets.last)
        report_not_told(log, self._told, self._report)

    def _known_end(self) -> int | None:
        """Where the log ends by all other files; while a broker writes they may be older than what was read."""
        if not self._job.is_last or self._job.is_held:
            return None
        return highest_end(self._job.known_ends, self._segment)

    def _lost_end(self, last: int | None) -> None:
        """What is missing behind the last batch."""
        job, fold = self._job, self._losses
        if fold is None:
            return
        free = job.base_offset if last is None else last + 1
        self._dense_from = fold.dense_from or job.base_offset
        known = list(job.known_ends)
        if not self._end_is_unknown:
            with suppress(OSError):  # they have vanished meanwhile
                largest = max(self._claimed_time, -1 if self._times[1] is None else self._times[1])
                ends = self._segment.known_ends(self._trusted_at, free - 1, largest)
                known += ends if job.is_last or not job.is_under_work else ()
        most = layout.LARGEST_OFFSET if job.next_base is None else job.next_base
        beyond = [] if self._end_is_unknown else [one for one in known if free < one[0] <= most]
        end = job.next_base if not job.is_last else max([offset for offset, _ in beyond], default=None)
        why = tuple(dict.fromkeys(code for _, code in beyond))
        fold.finish(free, None if end is None else end - 1, why, is_last=job.is_last)

    def _handing_on(self, checks: Iterator[None], progress: Progress) -> Iterator[Progress]:
        """Let what the checks have found so far be handed on: nothing grows with what is wrong."""
        for _ in checks:
            if self._found:
                yield progress

    def _headers(self, window: Window, offsets: OffsetFold) -> Iterator[None]:
        if self._first_offset is None and window.all_trusted and window.cell(0, layout.MAGIC) >= layout.MAGIC_V2:
            first, base = window.cell(0, layout.BASE_OFFSET), self._job.base_offset
            is_overlap = first < base <= window.cell(0, layout.LAST_OFFSET)  # over the end of the segment before
            self._first_offset = base if is_overlap else first
        self._batches += window.count
        trusted = window.count - 1 if window.all_trusted else _last_trusted(window)
        if trusted >= 0:
            self._trusted_at = window.cell(trusted, layout.POSITION)
        self._last_batch_at = window.cell(window.count - 1, layout.POSITION)
        rows, count = window.rows, window.count
        self._only_magic_0 = self._only_magic_0 and _scan.extremes(rows, count, layout.MAGIC) == (0, 0)
        lowest, highest = _scan.extremes(rows, count, layout.LEADER_EPOCH)
        self._has_epochs = self._has_epochs or highest >= 0
        if window.all_trusted:
            before = self._epoch_range or (lowest, highest)
            self._epoch_range = min(lowest, before[0]), max(highest, before[1])
        if not self._is_short and window.cell(0, layout.MAGIC) >= layout.MAGIC_V2:
            self._is_short = _scan.lacks_records(rows, count)
            self._has_holes |= self._is_short
        traced = _scan.last_trace(rows, count)
        if traced >= 0:
            self._traced_to = max(self._traced_to, window.cell(traced, layout.LAST_OFFSET) + 1)
        self._times = times_of(window, *self._times)
        if not window.all_trusted:
            self._claimed_time = max(self._claimed_time, *window.column(layout.MAX_TIMESTAMP))
        assert self._producers is not None
        self._producers.step(window)
        odd = window.suspicions & _WRONG_OFFSETS
        last = window.cell(window.count - 1, layout.LAST_OFFSET)
        if odd:
            last = self._job.base_offset - 1 if offsets.last is None else offsets.last
            self._gap_for_indexes()
        k = window.count - 1
        self._is_sure_of_last = not odd and window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
        self._last_offset = window.cell(k, layout.LAST_OFFSET)
        return self._index_steps(window, last, offsets, sure=not odd)

    def _index_steps(self, window: Window, last: int, offsets: OffsetFold, *, sure: bool) -> Iterator[None]:
        """Hold batches against the indexes, but those that wait to be judged by the ones behind them.

        Args:
            window: the batches.
            last: the last offset that is believed after them.
            offsets: judges their offsets.
            sure: these can be.
        """
        edge = offsets.first_undecided_position
        yield from self._late_steps(edge)
        if not sure or edge is None:
            yield from self._to_indexes(lambda fold: fold.step(window, last, sure=sure and edge is None))
            return
        k = bisect_left(window.column(layout.POSITION), edge, 0, window.count)
        self._late.extend(window.row_alone(row) for row in range(k, window.count))
        if k:
            part = window.part(0, k)
            last = part.cell(k - 1, layout.LAST_OFFSET)
            yield from self._to_indexes(lambda fold: fold.step(part, last, sure=True))

    def _late_steps(self, edge: int | None) -> Iterator[None]:
        """Hold batches against the indexes that are judged by now: those before a position, or all."""
        while self._late and (edge is None or self._late[0].cell(0, layout.POSITION) < edge):
            one = self._late.popleft()
            sure, last = one.cell(0, layout.POSITION) not in self._late_wrong, one.cell(0, layout.LAST_OFFSET)
            self._late_wrong.discard(one.cell(0, layout.POSITION))
            yield from self._to_indexes(
                lambda fold, one=one, last=last, sure=sure: fold.step(one, last, sure=sure)  # type: ignore[misc]
            )

    def _gap_for_indexes(self) -> None:
        for fold in self._folds.values():
            fold.gap()

    def _hints(self) -> Sequence[int]:
        fold = self._folds.get(FileKind.INDEX)
        try:
            return fold.hints() if isinstance(fold, OffsetIndexFold) else ()
        except OSError:  # the fold will say so
            return ()

    def _finish(self, log: TolerantSource, last: int | None) -> Iterator[None]:
        if self._job.is_alone:
            return
        self._holes_inside = self._has_holes
        with suppress(OSError):  # what lies around it has vanished
            for finding in self._segment.check_end(last, self._job.next_base):
                self._report(finding)
        if not log.size:
            self._report(Finding(Code.F02, self._path))
        yield from self._late_steps(None)
        yield from self._to_indexes(lambda fold: fold.finish(self._end, log.size, self._last_batch_at))
        self._missing_indexes(log.size)
        for finding in self._maybe_compaction:
            self._found.append(finding.replace(severity_override=Severity.NOTE) if self._has_holes else finding)

    def _missing_indexes(self, size: int) -> None:
        loose = self._job.may_be_unfinished
        for kind in (FileKind.INDEX, FileKind.TIMEINDEX):
            if kind in self._job.files or (kind is FileKind.TIMEINDEX and self._only_magic_0):
                continue
            is_cut = self._damaged and kind is FileKind.INDEX  # a clean start recovers the segment too
            severity = Severity.NOTE if loose or not size else Severity.ERROR if is_cut else Severity.WARNING
            path = self._path.removesuffix(FileKind.LOG.value) + kind.value
            self._report(Finding(Code.F09, path, severity_override=severity))

    def _bounded(self, gap: Finding) -> Finding:
        """A gap at the end of the log, with the offsets that the next segment, snapshots and checkpoints leave it."""
        if (gap.position or 0) + (gap.length or 0) < self._sizes[FileKind.LOG]:
            return gap
        following = self._job.next_base
        end = highest_end(self._job.known_ends, None) if following is None else following
        if end is None or gap.offset is None:
            return gap
        return gap.replace(last_offset=end - 1) if end > gap.offset else gap.replace(offset=None)

    # --- findings -------------------------------------------------------------------------------------------
    def _report(self, finding: Finding) -> None:
        code = finding.code
        finding = self._explained(finding)
        if finding.offset is None and finding.last_offset is not None:  # a wrapper: after the batch before it
            first = self._job.base_offset if self._before is None else self._before + 1
            finding = finding.replace(offset=min(first, finding.last_offset), by_neighbours=True)
        if finding.gap and finding.offset is not None and finding.last_offset is None:
            finding = self._bounded(finding)
        if Trait.BEYOND_END in code.traits and self._end_is_unknown and (finding.offset or 0) >= self._end:
            return
        self._end_is_unknown |= code is Code.L12
        if finding.gap:
            self._gap_for_indexes()
            assert self._producers is not None
            self._producers.gap()
        if finding.is_misplaced and finding.position is not None:
            self._blame(finding.position)
        if Trait.HOLE in code.traits:
            self._has_holes = True
            if self._options.contiguous and finding.severity is Severity.NOTE:
                finding = finding.replace(severity_override=Severity.WARNING)
        if finding.file == self._path:
            self._overlaps += finding.is_overlap
            self._damaged |= finding.severity is Severity.ERROR and not finding.is_overlap
            if self._losses is not None:
                self._losses.see(finding)
        if Trait.OR_COMPACTION in code.traits and len(self._maybe_compaction) < _HELD:
            self._maybe_compaction.append(finding)
        else:
            self._found.append(finding)

    def _blame(self, position: int) -> None:
        """The base offset of a batch is wrong."""
        self._blamed.add(position)
        if self._late:
            self._late_wrong.add(position)

    def _explained(self, finding: Finding) -> Finding:
        """Note what a finding says of where the files are from; return it with its cause where that is known."""
        self._look_for_cause(finding)
        if finding.code is Code.F06 and finding.file == self._path:
            self._told.append((finding.position or 0, (finding.position or 0) + (finding.length or 0)))
        if finding.file == self._path and (finding.gap or Trait.BREAKS_CHAIN in finding.code.traits):
            self._is_whole = False
        if finding.gap:
            self._gap_end = (finding.position or 0) + (finding.length or 0)
        return finding if self._cause is None else finding.replace(because=self._cause)

    def _look_for_cause(self, finding: Finding) -> None:
        """Find out at the first batches that are damaged whether the log was copied as text."""
        is_like_text = Trait.COPIED_AS_TEXT in finding.code.traits
        if not is_like_text or finding.file != self._path or self._cause is not None:
            return
        self._doubts += 1
        if self._log is None or self._doubts > _MOST_DOUBTS or finding.position is None:
            return
        from kdump.format.batch.text_mode import as_text

        with suppress(OSError):  # the walk will say so
            why = as_text(self._log, finding.position, self._options.max_batch_bytes)
            if why is not None:
                self._found.append(Finding(Code.F13, self._path, values={"why": why}))
                self._cause, self._damaged = Code.F13, True


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
