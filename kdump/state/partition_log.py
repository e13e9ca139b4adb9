"""The log of an internal partition as its coordinator loads it, and what stands in the way of an exact answer.

Strategy: a log is walked once where its end is wanted, and what is wrong, its holes and its times are noted on the way.
Where a time is wanted, a first walk over the headers finds the batch that is the last one then. Only batches with the
right CRC are handed out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kdump.broker.missing.lost_holes import lost_holes
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import layout
from kdump.format.batch.walk import Border, CheckedWalk, right_windows
from kdump.format.kinds import FileKind
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.item import Checked, CheckedFile, PartitionChecked, Progress
from kdump.rows.coordinators import Horizon
from kdump.state import _fold
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.segment import Segment, UnreadableError
from kdump.value import TupleValue
from kdump.words.numbers import counted, span

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.read_limits import ReadLimits
    from kdump.format.record.chunk import Chunk
    from kdump.storage.partition_dir import PartitionDir

    _T = TypeVar("_T")
    Steps = Generator[Progress, None, _T]
    """Yields how far it is, and returns what is wanted."""


def result_of(steps: Steps[_T]) -> _T:
    """Return what steps come to, where nobody wants to know how far they are."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def up_to(size: int, path: str, items: Iterable[_T]) -> Iterator[_T | Progress]:
    """Yield items; what they say of how far it is ends at a size, and never goes beyond.

    Args:
        size: bytes that are said to be read.
        path: of what is read.
        items: of one partition.
    """
    for item in items:
        yield Progress(min(item.done, size), 0, item.path) if isinstance(item, Progress) else item
    yield Progress(size, 0, path)


class Cut(TupleValue):
    """Up to where a log counts."""

    segment: int  # its number
    position: int  # where the next batch would begin
    offset: int  # after the last batch
    when: int | None = None  # the time that is asked for, ms; None for the end


_MOST_RANGES = 4  # that a sentence names
START = Cut(0, 0, -1)


class _Damage(TupleValue):
    """Where records are lost: number of the segment and position; since when, ms, as far as anyone can know."""

    segment: int
    position: int
    since: int


class PartitionLog:
    """Reads the log of one partition.

    A snapshot of the metadata log has the same form: see `SnapshotLog`.

    Args:
        directory: of the partition.
        limits: what is read at most.
        report: takes what is wrong, once, and what cannot be read.

    Attributes:
        directory, name: its directory, and TOPIC-N.
        kind: of its files.

    Reports: F08, L19, O04, O07; what CheckedWalk and RecordChecks report, without notes.
    """

    kind = FileKind.LOG

    def __init__(
        self, directory: PartitionDir, limits: ReadLimits, report: Callable[[Finding | OpenFailure], None]
    ) -> None:
        self.directory = directory
        self.name = directory.name if directory.key is None else "{}-{}".format(*directory.key)
        if directory.listing.failure is not None:
            report(directory.listing.failure)
        self.bases = directory.log_bases  # base offsets of its segments
        self._limits = limits
        self._report = report
        self._unread: list[tuple[str, int, Code]] = []  # logs, positions and codes of what was not read
        self._told: set[tuple[Code, str, int | None]] = set()
        self._told_lost: set[str] = set()
        self._damage: set[_Damage] = set()
        self._lost_at: set[tuple[int, int]] = set()  # places of damage
        self._breaks: set[int] = set()  # where batches of the log in hand have lost what was before them
        self._files: dict[int, CheckedFile] = {}
        self._batches = self._records = 0
        self._last_time = -1
        self._read = 0
        self._in_hand = directory.path
        self._is_surveyed = False
        dirty = None if directory.key is None else directory.log_dir.offset(FileKind.CLEANER, directory.key)
        self._survey = array("q", [0] * _fold.SURVEY_WIDTH)
        self._survey[_fold.LOG_START] = self.log_start
        self._survey[_fold.DIRTY] = -1 if dirty is None else dirty
        self._survey[_fold.LAST] = self.log_start - 1
        for field in (_fold.LARGEST, _fold.HOLE_END, _fold.HOLE_TIME, _fold.DIRTY_TIME, _fold.END):
            self._survey[field] = -1

    @cached_property
    def log_start(self) -> int:
        """The log start offset, by the first segment and the checkpoint."""
        return max(self.bases[0], self.directory.log_start) if self.bases else self.directory.log_start

    @property
    def how_far(self) -> Progress:
        """The bytes that were read, those that were read twice twice, and the log in hand."""
        return Progress(self._read, 0, self._in_hand)

    # --- places -----------------------------------------------------------------------------------------------
    def cuts(self, whens: Sequence[int | None]) -> Steps[list[Cut]]:
        """Return up to where the log counts at each time: the last batch whose maxTimestamp is at most that.

        Args:
            whens: ms; None for the end.

        Yields:
            how far it is.
        """
        times = array("q", [when for when in whens if when is not None])
        places = array("q", [0] * (_fold.CUT_WIDTH * len(times)))
        places[_fold.CUT_OFFSET :: _fold.CUT_WIDTH] = array("q", [self.log_start] * len(times))
        if times:
            for number, window in self._trusted(None):
                _fold.survey(window.rows, window.count, number, self._survey, times, places)
                yield self.how_far
            self._is_surveyed = True
        found = iter(range(0, len(places), _fold.CUT_WIDTH))
        end = Cut(len(self.bases), 0, -1)
        cuts = []
        for when in whens:
            if when is None:
                cuts.append(end)
            else:
                at = next(found)
                segment, position, offset = places[at : at + _fold.CUT_WIDTH]
                cuts.append(Cut(segment, position, offset, when))
        return cuts

    def survey(self) -> Steps[None]:
        """Walk all of it, where that was not done: its end, its holes and its times are known then.

        Yields:
            how far it is.
        """
        if not self._is_surveyed:
            for _ in self.windows(START, Cut(len(self.bases), 0, -1)):
                yield self.how_far

    def place(self, offset: int, column: int = layout.LAST_OFFSET) -> Steps[tuple[Cut, int]]:
        """Return where the first batch begins that reaches an offset, and the largest timestamp before it (-1: none).

        Args:
            offset: absolute.
            column: of the batch that reaches it: its last offset, or its base offset.

        Yields:
            how far it is.
        """
        largest = -1
        for number, window in self._trusted(None):
            found = window.column(column)
            k = next((k for k, one in enumerate(found) if one >= offset), -1) if max(found) >= offset else -1
            times = window.column(layout.MAX_TIMESTAMP)
            largest = max(largest, max(times[:k] if k >= 0 else times, default=-1))
            if k >= 0:
                return Cut(number, window.cell(k, layout.POSITION), offset), largest
            yield self.how_far
        return Cut(len(self.bases), 0, offset), largest

    def end_offset(self, cut: Cut) -> int:
        """Return the offset after the last batch of what counts; the log was walked up to there."""
        if cut.when is not None:
            return cut.offset
        known = self._survey[_fold.END]
        return max(known, self.bases[-1]) if self.bases else known

    # --- what is in it ----------------------------------------------------------------------------------------
    def windows(self, start: Cut, stop: Cut) -> Iterator[tuple[int, Window]]:
        """Yield number of the segment and batches with the right CRC, in order, without those below the log start.

        Args:
            start, stop: what counts, half-open.
        """
        nothing = array("q")
        for number, window in self._trusted(stop, start):
            if not self._is_surveyed:
                _fold.survey(window.rows, window.count, number, self._survey, nothing, nothing)
            kept = self._from_log_start(window)
            if kept.count:
                yield number, kept
        if stop.when is None:
            self._is_surveyed = True

    def chunks(self, start: Cut, stop: Cut) -> Iterator[tuple[str, Chunk]]:
        """Yield path of the log and records of what counts, in order; large ones are cut: see `messages.fields_of`."""
        reader = RecordReader.within(self._limits)
        checks, checked = RecordChecks(""), -1
        for number, window in self.windows(start, stop):
            path = self.path(number)
            if number != checked:
                checks, checked = RecordChecks(path), number
            for chunk in reader.chunks(window):
                self._records += chunk.filled
                yield path, chunk
                for finding in checks.check(chunk):
                    self._tell(finding)
                if chunk.problem is not None:
                    k = chunk.last - 1
                    since = window.cell(k, layout.MAX_TIMESTAMP)
                    self._damage.add(_Damage(number, window.cell(k, layout.POSITION), since))

    def doubt(self, segment: int, position: int, since: int) -> None:
        """Note that something in a batch is not understood.

        Args:
            segment, position: of the batch.
            since: ms.
        """
        self._damage.add(_Damage(segment, position, since))

    def path(self, number: int) -> str:
        """Return the path of a log by the number of its segment."""
        return self.directory.path_of(self.bases[number], FileKind.LOG)

    def segment_of(self, offset: int) -> int:
        """Return the number of the segment that has an offset."""
        return max(0, bisect_right(self.bases, offset) - 1)

    @property
    def last_time(self) -> int:
        """The largest timestamp of what was walked, ms; -1 for none."""
        return self._survey[_fold.LARGEST]

    # --- how far it can be trusted ------------------------------------------------------------------------------
    @property
    def horizon(self) -> Horizon:
        """Since when answers are exact; the log was walked to its end."""
        known = self._survey
        dirty, end, time = known[_fold.DIRTY], known[_fold.HOLE_END], known[_fold.HOLE_TIME]
        if end < 0:
            return Horizon(self.name, self.directory.path, None, self.log_start)
        if known[_fold.DIRTY_HOLE] and dirty >= end:
            end, time = dirty, known[_fold.DIRTY_TIME]
        return Horizon(self.name, self.directory.path, time, end)

    def is_exact(self, cut: Cut) -> bool:
        """Tell whether nothing that counts has been erased or lost."""
        if cut.when is None:
            return not self._damage
        since = self.horizon.exact_from
        if since is not None and cut.when < since:
            return False
        place = cut.segment, cut.position
        return not any(one[:2] < place or one.since <= cut.when for one in self._damage)

    def is_whole(self, start: Cut, stop: Cut) -> bool:
        """Tell whether nothing between two places is lost, as far as the log was walked."""
        return not any(start[:2] <= one[:2] < stop[:2] for one in self._damage)

    def checked(self) -> Iterator[Checked | PartitionChecked]:
        """Yield what was read, for the totals."""
        files = tuple(self._files.values())
        end = self._survey[_fold.END] if self._survey[_fold.END] >= 0 else None
        size = sum(file.size for file in files)
        yield Checked(files, self._batches, self._records)
        yield PartitionChecked(self.directory.path, len(self.bases), self.log_start, end, size)

    # --- the walk ---------------------------------------------------------------------------------------------
    def _trusted(self, stop: Cut | None, start: Cut | None = None) -> Iterator[tuple[int, Window]]:
        """Yield number of the segment and runs of batches with the right CRC up to a place."""
        counts = not self._is_surveyed
        self._last_time = -1
        unread = evidence_of(self.directory).rows_unread if self.kind is FileKind.LOG else None
        if unread is not None and unread.sentence not in self._told_lost:
            self._told_lost.add(unread.sentence)
            self._report(unread)
        for finding in evidence_of(self.directory).findings() if self.kind is FileKind.LOG else ():
            self._tell(finding)
            if not self.bases or (finding.offset or 0) < self.bases[0]:
                self._lose(0, 0, -1)
        for number in range(start.segment if start else 0, len(self.bases)):
            if stop is not None and (number > stop.segment or (number == stop.segment and not stop.position)):
                return
            begin = start.position if start and number == start.segment else 0
            end = stop.position if stop is not None and number == stop.segment else None
            path = self.path(number)
            self._breaks.clear()
            source = self.directory.cache.open(path, follow=False)
            if isinstance(source, OpenFailure):
                self._fail(number, 0, source)
                continue
            self._files.setdefault(number, CheckedFile(path, self.kind, source.size))
            found: list[Finding] = []
            base = self.bases[number]
            walk = CheckedWalk(
                source,
                found.append,
                segment=base,
                next_base=self.directory.next_base(base) if self.kind is FileKind.LOG else None,
                hints=Segment(path, base, self.directory.cache, follow=False).hints,
                max_batch_bytes=self._limits.max_batch_bytes,
                border=Border(position=begin, floor=base - 1),
            )
            walk.checks.follow_producers = False
            before, self._in_hand, trusted_to = self._read, path, begin
            try:
                for window, _ in right_windows(walk, found, end):
                    self._read = before + min(walk.border.position, source.size if end is None else end) - begin
                    self._drain(number, found, window)
                    if counts:
                        self._batches += window.count
                    for run in self._runs(number, window):
                        self._last_time = max(run.column(layout.MAX_TIMESTAMP), default=-1)
                        trusted_to = run.end(run.count)
                        yield number, run
            except OSError as error:
                why = f"{path}: cannot be read further: {error.strerror}"
                self._fail(number, walk.border.position, OpenFailure(path, "read", why))
            self._drain(number, found)
            if end is None:
                self._lose_behind(number, _last_of(walk, start if begin else None), trusted_to, source.size)
            self._read = before + (source.size if end is None else end) - begin

    def _runs(self, number: int, window: Window) -> Iterator[Window]:
        """Yield the batches with the right CRC, those that adjoin together, and that have lost nothing in between."""
        if window.all_trusted and not self._breaks:
            yield window
            return
        stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
        positions = window.column(layout.POSITION)
        k = 0
        while k < window.count:
            first = k
            if positions[k] in self._breaks:
                self._lose(number, positions[k], self._last_time)
            while k < window.count and stored[k] == computed[k] and (k == first or positions[k] not in self._breaks):
                k += 1
            if k > first:
                yield window.slice(first, k)
            else:
                self._lose(number, window.cell(k, layout.POSITION), window.cell(k, layout.MAX_TIMESTAMP))
                k += 1

    def _from_log_start(self, window: Window) -> Window:
        if window.cell(0, layout.LAST_OFFSET) >= self.log_start:
            return window
        lasts = window.column(layout.LAST_OFFSET)
        first = next((k for k, last in enumerate(lasts) if last >= self.log_start), window.count)
        return window.slice(first, window.count)

    def _drain(self, number: int, found: list[Finding], window: Window | None = None) -> None:
        """Hand on what the walk has found since the last time; None: behind the last batches."""
        if window is not None and not window.cell(0, layout.POSITION):
            self._lose_ahead(number, window)
        for finding in found:
            if finding.code is Code.V03:
                continue
            if finding.code is Code.O04 and self._is_lost(finding.offset or 0, finding.last_offset):
                self._breaks.add(finding.position or 0)
            if finding.gap:
                self._lose(number, finding.position or 0, self._last_time)
            self._tell(finding)
        found.clear()

    def _tell(self, finding: Finding) -> None:
        place = finding.code, finding.file, finding.position
        if finding.severity is not Severity.NOTE and place not in self._told:
            self._told.add(place)
            if finding.is_not_read or Trait.BAD_CRC in finding.code.traits:
                self._unread.append((finding.file, finding.position or 0, finding.code))
            self._report(finding)

    def damage_before(self, path: str, position: int) -> Code | None:
        """Return the code of the last damage before a place, as far as the log was walked; None for none.

        Args:
            path: of a log.
            position: in it, bytes.
        """
        before = [one for one in self._unread if one[:2] < (path, position)]
        return max(before, key=lambda one: one[:2])[2] if before else None

    def _lose(self, number: int, position: int, since: int) -> None:
        """Bytes were lost: what follows is no hole that compaction made."""
        self._survey[_fold.LAST] = layout.UNKNOWN
        if (number, position) not in self._lost_at:  # a later walk may begin here, and know no time before it
            self._lost_at.add((number, position))
            self._damage.add(_Damage(number, position, since))

    def _is_lost(self, first: int, last: int | None) -> bool:
        """Tell whether the offsets of a hole are a loss, and no compaction.

        By the rows of salvage, or as `MissingOffsets` judges.

        Args:
            first, last: inclusive; `last` None for no end.
        """
        if self.kind is not FileKind.LOG:
            return False
        until, found = layout.LARGEST_OFFSET if last is None else last, False
        lost = evidence_of(self.directory).before_salvage
        if lost.has_any(first, until):  # told once, of all: each hole may be one of them
            named = ", ".join(span(*one, "offset") for one in islice(lost, _MOST_RANGES))
            more = f" and {counted(len(lost) - _MOST_RANGES, 'more range')}" if len(lost) > _MOST_RANGES else ""
            self._tell_lost(f"lost before salvage made this: {named}{more}")
            return True
        with suppress(UnreadableError, OSError):  # compaction may explain it in the log that cannot be read
            for one in lost_holes(self.directory, self._limits).of(first, until):
                begin, end = one.offset or 0, one.last_offset or 0
                what = f"{span(begin, end, 'offset')} {'is' if begin == end else 'are'} lost, not compacted"
                self._tell_lost(one.message if one.is_among_holes else what)
                self._tell(one)
                found = True
        return found

    def _tell_lost(self, what: str) -> None:
        if what not in self._told_lost:
            self._told_lost.add(what)
            said = f"{self.directory.path}: {what}: newer values may have been there"
            self._report(OpenFailure(self.directory.path, "skipped", said))

    def _lose_ahead(self, number: int, window: Window) -> None:
        """Offsets that a log lacks before its first batch, where they are lost: no finding of the walk tells of them.

        Args:
            number: of the segment.
            window: its first batches.
        """
        base, first = self.bases[number], window.cell(0, layout.BASE_OFFSET)
        if base < first and window.batch(0).all_trusted and self._is_lost(base, first - 1):
            self._breaks.add(0)

    def _lose_behind(self, number: int, last: int | None, trusted_to: int, size: int) -> None:
        """A log that is lost, or an end that is cut off, behind the last batch of a segment.

        Args:
            number: of the segment.
            last: its last offset, None for none.
            trusted_to: where its last batch with the right CRC ends; damage behind that is told already.
            size: of its log, bytes.
        """
        if self.kind is not FileKind.LOG:
            return
        base = self.bases[number]
        end, following = base if last is None else last + 1, self.directory.next_base(base)
        is_told = any(one.segment == number and one.position >= trusted_to for one in self._damage)
        if self._is_lost(end, None if following is None else following - 1):
            self._lose(number, size, self._last_time)
        with suppress(OSError):  # an index that cannot be read is no witness
            behind = evidence_of(self.directory).behind(base, end, size)
            if behind is not None:
                self._lose(number, size, self._last_time)
                if behind.finding is not None and not is_told:
                    self._tell(behind.finding)

    def _fail(self, number: int, position: int, why: OpenFailure) -> None:
        self._lose(number, position, self._last_time)
        if not self._is_surveyed:
            self._report(why)


def _last_of(walk: CheckedWalk, start: Cut | None) -> int | None:
    """The last offset that a walk has met; where it began behind the last batch, that one's, None for none."""
    last = walk.checks.offsets.last
    return start.offset - 1 if last is None and start is not None else last


class SnapshotLog(PartitionLog):
    """A snapshot of the metadata log: one file of batches whose offsets are its own.

    Args:
        directory: of the partition.
        path: of the file.
        limits: what is read at most.
        report: takes what is wrong, once, and what cannot be read.
    """

    kind = FileKind.CHECKPOINT

    def __init__(
        self,
        directory: PartitionDir,
        path: str,
        limits: ReadLimits,
        report: Callable[[Finding | OpenFailure], None],
    ) -> None:
        super().__init__(directory, limits, report)
        self._path = path
        self.bases = [0]

    @cached_property
    def log_start(self) -> int:
        """0: whatever the checkpoints say of the log."""
        return 0

    def path(self, number: int) -> str:
        """Return its path."""
        return self._path
