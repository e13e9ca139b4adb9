"""`dump` of a selection by several processes: see `ranges`; here with what the selection must know of all before.

What is asked for of the last records, or a number of those of committed or aborted transactions, is read by one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kdump.dump.checked import drain, open_walk
from kdump.dump.holes import HolesMet, not_searched
from kdump.dump.input_file import size_of
from kdump.dump.selected import SelectedLog, selected_logs
from kdump.dump.transaction_outcomes import Met, Outcomes
from kdump.format.record.chunk import Chunk
from kdump.format.record.selection import Filter
from kdump.item import Progress
from kdump.storage.file_source import OpenFailure
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.input_file import InputFile
    from kdump.finding import Finding
    from kdump.format.batch.walk import CheckedWalk, WalkState
    from kdump.format.record.selection import Selection
    from kdump.item import FileStart, Item
    from kdump.storage.open_files import CachedFile


class SelectedRange(Value):
    """What one process reads."""

    part: int  # number of the directory among what was named
    log: int | None = None  # number of the log in it; None for what is said behind its logs, or in the place of them
    # start, end: of the range, bytes, half-open; end is None for a log that is read whole
    start: int = 0
    end: int | None = None
    size: int = 0  # of the log, bytes, when it was listed: what a broker appends meanwhile is not read
    # is_first, is_last: of the ranges of the log
    is_first: bool = False
    is_last: bool = False


class SelectedState(Value):
    """What a range must know of all before."""

    left: int  # records that may still be shown
    walk: WalkState | None = None  # over the log; None where it cannot be read further
    announced: bool = False  # what stands before the first that is selected of the log was shown
    cut_short: bool = False  # nothing that follows in the log is in the range of offsets
    met: Met = Met({}, {})  # what was left out of the directory as neither committed nor aborted
    holes: HolesMet = HolesMet()  # what was met of holes in the directory


def can_share(selection: Selection) -> bool:
    """Tell whether several processes can read a selection."""
    return selection.tail is None and (selection.limit is None or selection.outcome is None)


class SelectedRanges:
    """The logs that can have what is selected, in ranges.

    Args:
        paths: files and directories, as the user wrote them.
        options, selection: what was asked for.
    """

    def __init__(self, paths: list[str], options: DumpOptions, selection: Selection) -> None:
        self.options, self.selection = options, selection
        self.filter = Filter(selection, deep=options.deep)
        self.first_state = SelectedState(self.filter.left)  # before the first range
        self.parts = list(selected_logs(paths, options, selection))
        self.outcomes: list[Outcomes | None] = [self._outcomes_of(part) for part in self.parts]

    def _outcomes_of(self, part: list[InputFile] | OpenFailure) -> Outcomes | None:
        if self.selection.outcome is None or isinstance(part, OpenFailure):
            return None
        outcomes = Outcomes(part, self.options, self.selection.outcome)
        outcomes.know_all()
        return outcomes

    def units(self) -> Iterator[SelectedRange]:
        """Yield the ranges, in order."""
        for number, part in enumerate(self.parts):
            for at, file in enumerate(() if isinstance(part, OpenFailure) else part):
                yield from self._ranges(number, at, file)
            yield SelectedRange(number)

    def _ranges(self, part: int, at: int, file: InputFile) -> Iterator[SelectedRange]:
        source = file.open()
        if isinstance(source, OpenFailure):
            yield SelectedRange(part, at)
            return
        log = self.log(part, at)
        size = source.size
        try:
            starts = log.starts(source, [])
            start = starts.first(self.selection)
            stops = log.stops(source, start)
        except OSError:
            starts = None
        if starts is None or starts.doubts:  # an index that is wrong is judged by who reads all
            yield SelectedRange(part, at, size=size)
            return
        for number, (begin, end) in enumerate(zip([start, *stops], stops, strict=False)):
            yield SelectedRange(part, at, begin, end=end, size=size, is_first=number == 0, is_last=end == stops[-1])

    def log(self, part: int, at: int) -> SelectedLog:
        """Return what reads a log."""
        files = self.parts[part]
        assert not isinstance(files, OpenFailure)
        return SelectedLog(files[at], self.options, self.selection, self.filter, self.outcomes[part])

    def reading(self, unit: SelectedRange) -> SelectedReading:
        """Return what reads a range."""
        return SelectedReading(unit, self)

    def how_far(self, unit: SelectedRange) -> Progress:
        """Return how far all is when a range was shown.

        Args:
            unit: the range.
        """
        if unit.log is None:  # what is said behind the logs of a directory
            part = self.parts[unit.part]
            path = part.path if isinstance(part, OpenFailure) else part[-1].path
            return Progress(self._ends[unit.part, -1][1], self._total, path)
        before, end = self._ends[unit.part, unit.log]
        done = end if unit.end is None else min(before + unit.end, end)
        part = self.parts[unit.part]
        assert not isinstance(part, OpenFailure)
        return Progress(done, self._total, part[unit.log].path)

    @cached_property
    def _ends(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Where each log begins and ends in the bytes of all, by part and log; -1 stands for the end of a part."""
        ends, at = {}, 0
        for number, part in enumerate(self.parts):
            for log, file in enumerate(() if isinstance(part, OpenFailure) else part):
                ends[number, log] = at, (at := at + size_of(file.path))
            ends[number, -1] = at, at
        return ends

    @property
    def _total(self) -> int:
        return max((end for _, end in self._ends.values()), default=0)

    def is_left_out(self, unit: SelectedRange, state: SelectedState) -> bool:
        """Tell whether nothing of a range is read: its log could not be read up to there, or has no more.

        Args:
            unit: the range.
            state: before it.
        """
        is_later = unit.log is not None and unit.end is not None and not unit.is_first
        return is_later and (state.walk is None or state.cut_short)

    def is_over(self, state: SelectedState) -> bool:
        """Tell whether all that may be shown is shown."""
        return self.selection.limit is not None and state.left == 0


class SelectedReading:
    """Reads one range in one process.

    Args:
        unit: the range.
        ranges: all of them.

    Attributes:
        state: after all items.
    """

    def __init__(self, unit: SelectedRange, ranges: SelectedRanges) -> None:
        self._unit = unit
        self._ranges = ranges
        self._filter = ranges.filter
        self._outcomes = ranges.outcomes[unit.part]
        self._log: SelectedLog | None = None
        self._walk: CheckedWalk | None = None
        self._before: WalkState | None = None
        self._true: SelectedState | None = None  # the state before, once it is known
        self._heads: list[Item] = []
        self._is_announced = False  # here
        self.begins: FileStart | None = None  # the file that the range goes on with, where that is known to be shown

    @property
    def state(self) -> SelectedState:
        """What the next range must know, after all items."""
        assert self._true is not None
        true, unit = self._true, self._unit
        met = true.met if self._outcomes is None else true.met.joined(self._outcomes.met())
        if unit.log is None:
            return SelectedState(self._filter.left)
        walk = None if self._walk is None else self._walk.state
        cut_short = self._log is not None and self._log.is_cut_short
        announced = self._is_announced or (true.announced and not unit.is_first)
        holes = true.holes if self._log is None else true.holes.joined(self._log.holes.met)
        return SelectedState(self._filter.left, walk, announced, cut_short, met, holes)

    def shows(self, item: Item) -> bool:
        """Tell whether an item is to be shown: what stands before the first that is selected, once in a log."""
        is_again = self._true is not None and self._true.announced and not self._unit.is_first
        return not (is_again and any(item is one for one in self._heads))

    def ahead(self) -> Iterator[Item]:
        """Yield the items of the range as far as they can be known before what lies before it is."""
        unit = self._unit
        if unit.log is None or unit.end is None:
            return
        self._filter.begin(self._ranges.first_state.left)
        if self._outcomes is not None:
            self._outcomes.met()
        findings: list[Finding] = []
        try:
            source = self._open(findings)
            if isinstance(source, OpenFailure) or self._log is None or self._walk is None:
                return
            if not unit.is_first:
                begin = self._log.file.segment.some_before(unit.start)
                if begin is None:
                    return
                self._before = self._walk.run_up(begin, unit.start)
                findings.clear()
        except OSError:
            return
        for item in self._range(source, findings):
            yield item
            if self._true is None and not unit.is_first and self._walk is not None and self._walk.met_damage:
                return

    def adopt(self, state: SelectedState) -> bool:
        """Take what the ranges before have left; return whether the items of `ahead` are right, and may go on.

        Args:
            state: of the reading before.
        """
        unit, most = self._unit, self._ranges.first_state.left
        if unit.log is None or unit.end is None or self._log is None:
            return False
        if self._ranges.selection.limit is not None and state.left != most:
            shown = most - self._filter.left
            if shown >= state.left:
                return False
            self._filter.left = state.left - shown
        if not unit.is_first:
            before, self._before = self._before, None
            if before is None or state.walk is None or self._walk is None:
                return False
            if not self._walk.adopt(before, state.walk):
                return False
            if not self._is_announced:
                self._go_on(state, unit.size)
        self._true = state
        return True

    def again(self, state: SelectedState) -> Iterator[Item]:
        """Yield the items of the range, from what the ranges before have left."""
        unit, self._true = self._unit, state
        self._filter.begin(state.left)
        self._heads, self._is_announced = [], False
        if self._outcomes is not None:
            self._outcomes.met()
        part = self._ranges.parts[unit.part]
        if unit.log is None:
            if isinstance(part, OpenFailure):
                yield part
                return
            if self._outcomes is not None:
                self._outcomes.met(state.met)
                yield from self._outcomes.left_out()
            yield from not_searched(state.holes, part, self._ranges.options, self._ranges.selection)
            return
        findings: list[Finding] = []
        source = self._open(findings)
        if isinstance(source, OpenFailure) or self._log is None or self._walk is None:
            if isinstance(source, OpenFailure):
                yield source
            return
        if unit.end is None:
            yield from self._whole(self._log, source)
            return
        if not unit.is_first:
            assert state.walk is not None
            self._walk.resume(state.walk)
            findings.clear()
            self._go_on(state, source.size)
        yield from self._range(source, findings)

    def _go_on(self, state: SelectedState, size: int) -> None:
        """Let the file be taken in hand, if another process has begun to show it."""
        if state.announced and self._log is not None:
            self.begins = self._log.file_start(size)

    def _whole(self, log: SelectedLog, source: CachedFile) -> Iterator[Item]:
        self._walk = None
        try:
            yield from log.items(source, None)
        except OSError as error:
            yield OpenFailure(log.path, "read", f"{log.path}: cannot be read further: {error.strerror}")

    def _open(self, findings: list[Finding]) -> CachedFile | OpenFailure:
        """Open the log, and begin a walk over it."""
        unit, ranges = self._unit, self._ranges
        assert unit.log is not None
        self._log = ranges.log(unit.part, unit.log)
        file = self._log.file
        source = file.open()
        if isinstance(source, OpenFailure):
            self._log = None
            return source
        if unit.end is not None:
            for one in (source, file.segment.log):
                one.size = min(one.size, unit.size)
            if unit.is_first:
                self._log.starts(source, findings).first(ranges.selection)
        self._walk = open_walk(file, source, ranges.options, findings, unit.start if unit.is_first else 0)
        return source

    def _range(self, source: CachedFile, findings: list[Finding]) -> Iterator[Item]:
        log, walk, unit = self._log, self._walk, self._unit
        assert log is not None
        assert walk is not None
        assert unit.end is not None
        starts = log.starts(source, [])
        try:
            for window in log.windows(walk, starts, findings, source, unit.end):
                yield from drain(findings)
                for item in log.wanted(window):
                    if isinstance(item, Chunk) and not self._is_announced:
                        self._is_announced = True
                        log.holes.found()
                        if self._true is None or unit.is_first or not self._true.announced:
                            self._heads = list(log.head(source))
                            yield from self._heads
                    yield item
                if self._filter.is_full:
                    return
            yield from drain(findings)
            if unit.is_last and not log.is_cut_short and self._ranges.options.max_bytes >= source.size:
                yield from log.end(walk)
        except OSError as error:
            self._walk = None
            yield OpenFailure(log.path, "read", f"{log.path}: cannot be read further: {error.strerror}")
