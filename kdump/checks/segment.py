"""One segment: one walk over its log that feeds all observers, those of its indexes among them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.checks.job import MissingInLog, OriginFacts, SegmentJob, SegmentSummary
from kdump.checks.observers import (
    CompactionWatch,
    DiskErrorWatch,
    EndWatch,
    EpochWatch,
    FigureWatch,
    FindingSink,
    IndexWatch,
    MissingWatch,
    Observer,
    OriginWatch,
    ProducerWatch,
    RecordWatch,
    SegmentFiles,
    TextCopyWatch,
)
from kdump.checks.read_errors import broken_off
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OFFSETS_TOPIC
from kdump.storage.open_files import OpenFileCache
from kdump.storage.segment import Segment
from kdump.storage.tolerant import TolerantSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.checks.options import VerifyOptions

Result = Finding | OpenFailure | Progress | MissingInLog | SegmentSummary


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
        path, follow = job.files[FileKind.LOG], job.only is not None
        segment = Segment(path, job.base_offset, cache, follow=follow, files=job.files)
        files = SegmentFiles(job, segment, found)
        log = files.open(FileKind.LOG)
        if log is None:
            yield from _wanted(found, job.only)
            yield SegmentSummary.not_read(job.base_offset)
            return
        check = _SegmentCheck(job, options, files, TolerantSource(log), found)
        for progress in check.walk():
            yield from _wanted(found, job.only)
            yield from check.missing(is_end=False)
            yield progress
        yield from _wanted(found, job.only)
        yield from check.missing(is_end=True)
        yield check.summary()


def _wanted(found: list[Finding | OpenFailure], only: str | None) -> Iterator[Finding | OpenFailure]:
    """Hand on what was found since the last time."""
    for item in found:
        file = item.file if isinstance(item, Finding) else item.path
        if only is None or file == only:
            yield item
    found.clear()


class _Reports:
    """Completes each finding with what is known of its log, shows it to the observers, and gives it to the sink."""

    def __init__(
        self, base_offset: int, sink: FindingSink, text: TextCopyWatch, end: EndWatch, *, contiguous: bool
    ) -> None:
        self._base = base_offset
        self._sink = sink
        self._text = text
        self._end = end
        self._contiguous = contiguous
        self.observers: tuple[Observer, ...] = ()
        self.last: int | None = None  # the last offset before the window in hand

    def __call__(self, finding: Finding) -> None:
        finding = self._completed(self._text.explained(finding))
        if self._end.hides(finding):
            return
        if self._contiguous and Trait.HOLE in finding.code.traits and finding.severity is Severity.NOTE:
            finding = finding.replace(severity_override=Severity.WARNING)
        for observer in self.observers:
            observer.finding(finding)
        self._sink.take(finding)

    def _completed(self, finding: Finding) -> Finding:
        if finding.offset is None and finding.last_offset is not None:  # a wrapper: after the batch before it
            first = self._base if self.last is None else self.last + 1
            finding = finding.replace(offset=min(first, finding.last_offset), by_neighbours=True)
        is_open_gap = finding.gap and finding.offset is not None and finding.last_offset is None
        return self._end.bounded(finding) if is_open_gap else finding


class _Observers:
    """All that watches the walk over the log of one segment."""

    def __init__(
        self,
        job: SegmentJob,
        options: VerifyOptions,
        files: SegmentFiles,
        log: TolerantSource,
        found: list[Finding | OpenFailure],
    ) -> None:
        path = job.files[FileKind.LOG]
        self.text = TextCopyWatch(log, found, options.max_batch_bytes)
        self.end = EndWatch(job, files.segment, log.size)
        self.compaction = CompactionWatch()
        self.sink = FindingSink(found, self.compaction)
        self.report = report = _Reports(job.base_offset, self.sink, self.text, self.end, contiguous=options.contiguous)
        self.figures = FigureWatch(path)
        self.origin = OriginWatch(job, log.size)
        self.producers = ProducerWatch(path, report, options)
        self.indexes = IndexWatch(job, files, found, report)
        self.epochs = EpochWatch(job, report)
        self.records = RecordWatch(path, report, options)
        self.unreadable = DiskErrorWatch(log, report)
        is_judged = not (job.is_alone or job.is_leftover)
        self.missing = MissingWatch(job, options, files.segment, log) if is_judged else None
        of_headers: list[Observer] = [self.figures, self.origin, self.compaction, self.producers, self.indexes]
        if self.missing is not None:
            of_headers.append(self.missing)
        self.of_headers = tuple(of_headers)
        report.observers = (self.end, *of_headers, self.epochs, self.records, self.unreadable)

    @property
    def is_damaged(self) -> bool:
        """Whether an error was found in the log."""
        return self.figures.damaged or self.text.cause is not None

    def evidence(self) -> OriginFacts:
        """Return what tells where the files are from; the log is read to its end."""
        shape = self.origin.shape(
            is_end_known=not self.end.is_unknown,
            epochs=self.epochs,
            has_holes=self.compaction.has_holes_inside,
        )
        return OriginFacts(self.indexes.verdicts, shape, self.text.cause)


class _SegmentCheck:
    """Walks through the log of one segment, and lets the observers watch."""

    def __init__(
        self,
        job: SegmentJob,
        options: VerifyOptions,
        files: SegmentFiles,
        log: TolerantSource,
        found: list[Finding | OpenFailure],
    ) -> None:
        self._job = job
        self._options = options
        self._files = files
        self._log = log
        self._found = found
        self._watch = _Observers(job, options, files, log, found)
        self._is_read = False

    def walk(self) -> Iterator[Progress]:
        """Walk through the log, and judge everything; yields whenever what was found may be handed on."""
        watch, size = self._watch, self._log.size
        watch.indexes.open(size)
        try:
            yield from self._batches()
            self._is_read = True
        except OSError as error:
            watch.producers.gap()
            watch.sink.release()
            self._found.append(broken_off(error, self._log.name, size))
        watch.indexes.close()
        yield Progress(size, size, self._log.name)

    def missing(self, *, is_end: bool) -> Iterator[MissingInLog]:
        """Yield what readers do not get, if much of it is known by now; at the end all of it."""
        if self._watch.missing is not None:
            yield from self._watch.missing.ranges(is_end=is_end)

    def summary(self) -> SegmentSummary:
        """Return what the partition needs to know."""
        watch, missing = self._watch, self._watch.missing
        first_timestamp, max_timestamp = watch.figures.times
        return SegmentSummary(
            batches=watch.figures.batches,
            records=watch.records.count,
            end_offset=watch.end.offset,
            is_read=self._is_read,
            has_epochs=watch.origin.has_epochs,
            has_holes=watch.compaction.has_holes,
            damaged=watch.is_damaged,
            producers=watch.producers.finish(),
            sizes=self._files.sizes,
            first_timestamp=first_timestamp,
            max_timestamp=max_timestamp,
            evidence=watch.evidence() if self._is_read else None,
            dense_from=None if missing is None else missing.dense_from,
            marker_holes=() if missing is None else tuple(missing.marker_holes),
            overlaps=watch.records.overlaps.overlaps(),
            is_asked_around=self._job.around.is_asked,
        )

    def _batches(self) -> Iterator[Progress]:
        watch, path, size = self._watch, self._log.name, self._log.size
        if size > layout.MAX_INT:
            over = size - layout.MAX_INT
            watch.report(Finding(Code.F03, path, layout.MAX_INT, over, found=size, expected=layout.MAX_INT))
        walk = self._checked_walk()
        offsets = walk.checks.offsets
        for window in walk.windows():
            end = Progress(window.end(window.count), size, path)
            for observer in watch.of_headers:
                observer.window(window, offsets)
            yield from self._handing_on(watch.indexes.steps(window, offsets), end)
            watch.epochs.window(window, offsets)
            watch.records.window(window, offsets)
            if watch.missing is not None:
                watch.missing.judged(window)
            watch.report.last = offsets.last
            if self._options.progress or self._found:
                yield end
        last = offsets.last
        watch.end.reach(last)
        watch.origin.finish(last)
        watch.epochs.finish(size)
        watch.compaction.at_end()
        if not self._job.is_alone:
            yield from self._handing_on(self._finish(last), Progress(size, size, path))
        watch.sink.release()
        if watch.missing is not None:
            watch.missing.finish(last, watch.figures.times[1], is_end_unknown=watch.end.is_unknown)
        watch.unreadable.finish()

    def _checked_walk(self) -> CheckedWalk:
        job, options, watch = self._job, self._options, self._watch
        walk = CheckedWalk(
            self._log,
            watch.report,
            segment=job.base_offset,
            next_base=job.next_base,
            known_end=watch.end.by_all_other_files,
            hints=watch.indexes.hints,
            max_batch_bytes=options.max_batch_bytes,
            resync=options.resync,
            around=job.around,
        )
        walk.checks.follow_producers = job.topic != OFFSETS_TOPIC
        if watch.missing is not None:
            walk.checks.offsets.on_free_range = watch.missing.settle
        return walk

    def _handing_on(self, checks: Iterator[None], progress: Progress) -> Iterator[Progress]:
        """Let what the checks have found so far be handed on: nothing grows with what is wrong."""
        for _ in checks:
            if self._found:
                yield progress

    def _finish(self, last: int | None) -> Iterator[None]:
        """Judge what lies behind the last batch, and what is not there at all."""
        watch, size = self._watch, self._log.size
        with suppress(OSError):  # what lies around it has vanished
            for finding in self._files.segment.check_end(last, self._job.next_base):
                watch.report(finding)
        if not size:
            watch.report(Finding(Code.F02, self._log.name))
        yield from watch.indexes.finish(watch.end.offset, size, watch.figures.last_batch_at)
        watch.indexes.report_missing(size, is_damaged=watch.is_damaged)
