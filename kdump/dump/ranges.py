"""`dump` by several processes: the files and the ranges of logs that each reads, and what one must know of all before.

A range is read ahead from what the batches before it show (`CheckedLog.run_up`). What that cannot show is right in
nearly every log: that nothing is damaged there. Where it is not right the range is read again, from the state that the
one before it has left: so what comes out is what `CheckedDump` yields.
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from kdump.dump.checked import CheckedDump, CheckedLog, log_head, range_ends
from kdump.dump.input_file import identify, input_files, size_of
from kdump.item import FileStart, Progress
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import java_file
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.batch.walk import WalkState
    from kdump.item import Item


class DumpRange(Value):
    """What one process reads: a range of a log, or a whole file."""

    number: int  # of the file
    # start, end: of the range, bytes, half-open; None for the end of a file that is read whole
    start: int
    end: int | None
    size: int  # of the log, bytes, when it was listed: what a broker appends meanwhile is not read


class DumpRanges:
    """The files that a user names, in ranges.

    Args:
        paths: files and directories, as the user wrote them.
        options: what was asked for.
    """

    def __init__(self, paths: list[str], options: DumpOptions) -> None:
        self._options = options
        self._files = list(input_files(paths))
        self.first_state = None
        self._kept: tuple[int, CheckedLog] | None = None  # the log that this process has read last

    def units(self) -> Iterator[DumpRange]:
        """Yield the ranges, in order."""
        for number, unknown in enumerate(self._files):
            file = unknown if isinstance(unknown, OpenFailure) else identify(unknown, self._options)
            source = None if isinstance(file, OpenFailure) or not file.is_log else file.open()
            if source is None or isinstance(source, OpenFailure):
                yield DumpRange(number, 0, None, 0)
                continue
            ends = range_ends(source, self._options.max_bytes)
            source.close()
            for start, end in zip([0, *ends], ends, strict=False):
                yield DumpRange(number, start, end, source.size)

    def reading(self, unit: DumpRange) -> RangeReading:
        """Return what reads a range."""
        return RangeReading(unit, self)

    def open(self, unit: DumpRange) -> CheckedLog | OpenFailure:
        """Return the log of a range, at its start; what is open stays open for the next range.

        Args:
            unit: the range.
        """
        if self._kept is not None and self._kept[0] == unit.number:
            self._kept[1].restart()
            return self._kept[1]
        unknown = self._files[unit.number]
        file = unknown if isinstance(unknown, OpenFailure) else identify(unknown, self._options)
        if isinstance(file, OpenFailure):
            return file
        source = file.open()
        if isinstance(source, OpenFailure):
            return source
        for one in (source, file.segment.log):
            one.size = min(one.size, unit.size)
        log = CheckedLog(file, source, self._options)
        self._kept = unit.number, log
        return log

    def whole(self, unit: DumpRange) -> Iterator[Item]:
        """Yield the items of a file that is read whole."""
        unknown = self._files[unit.number]
        if isinstance(unknown, OpenFailure):
            yield unknown
        else:
            yield from CheckedDump(self._options).file(unknown)

    def how_far(self, unit: DumpRange) -> Progress:
        """Return how far all is when a range was shown.

        Args:
            unit: the range.
        """
        before = self._ends[unit.number]
        size = self._ends[unit.number + 1] - before
        done = size if unit.end is None else min(unit.end, size)
        return Progress(before + done, self._ends[-1], self._files[unit.number].path)

    @cached_property
    def _ends(self) -> list[int]:
        """Where each file ends in the bytes of all, behind a 0."""
        return [0, *accumulate(size_of(file.path) for file in self._files)]

    def is_left_out(self, unit: DumpRange, state: WalkState | None) -> bool:
        """Tell whether nothing of a range is read: its log could not be read up to there.

        Args:
            unit: the range.
            state: of the walk over what lies before it; None where there is none.
        """
        return unit.start > 0 and state is None

    def is_over(self, _state: WalkState | None) -> bool:
        """Tell whether nothing more is wanted: there is no limit."""
        return False


class RangeReading:
    """Reads one range in one process.

    Args:
        unit: the range.
        ranges: all of them.

    Attributes:
        begins: the file that the range goes on with, for who shows it; None where the range begins it, too.
    """

    def __init__(self, unit: DumpRange, ranges: DumpRanges) -> None:
        self._unit = unit
        self._ranges = ranges
        self._log: CheckedLog | None = None
        self._before: WalkState | None = None
        self.begins: FileStart | None = None

    @property
    def state(self) -> WalkState | None:
        """Of the walk, after all items; None where the log cannot be read further, or is no log."""
        return None if self._log is None else self._log.walk.state

    def shows(self, _item: Item) -> bool:
        """Tell whether an item that was read ahead is to be shown: all are."""
        return True

    def ahead(self) -> Iterator[Item]:
        """Yield the items of the range as far as they can be known before what lies before it is."""
        unit = self._unit
        if unit.start == 0:
            yield from self._first()
            return
        try:
            if isinstance(self._open(), OpenFailure) or self._log is None:
                return
            self._before = self._log.run_up(unit.start)
        except OSError:
            return
        if self._before is not None:
            for item in self._range():
                yield item
                if self._before is not None and self._log.walk.met_damage:
                    return

    def adopt(self, state: WalkState | None) -> bool:
        """Take what the ranges before have left; return whether the items of `ahead` are right, and may go on.

        Args:
            state: of the reading before.
        """
        if self._unit.start == 0:
            return True
        before, self._before = self._before, None
        if state is None or self._log is None or before is None:
            return False
        return self._log.walk.adopt(before, state)

    def again(self, state: WalkState | None) -> Iterator[Item]:
        """Yield the items of the range, from what the ranges before have left."""
        if self._unit.start == 0:
            yield from self._first()
            return
        opened = self._open()
        if isinstance(opened, OpenFailure):
            yield opened
        elif self._log is not None and state is not None:
            self._log.walk.resume(state)
            yield from self._range()

    def _first(self) -> Iterator[Item]:
        """The first range of a log, or a whole file."""
        if self._unit.end is None:
            yield from self._ranges.whole(self._unit)
            return
        opened = self._open()
        yield opened
        if self._log is not None:
            yield from self._range(log_head(self._log.file, self._log.source))

    def _range(self, head: Iterable[Item] = ()) -> Iterator[Item]:
        assert self._log is not None
        assert self._unit.end is not None
        path = self._log.file.path
        try:
            yield from head
            yield from self._log.range(self._unit.end)
        except OSError as error:
            self._log = None
            yield OpenFailure(path, "read", f"{path}: cannot be read further: {error.strerror}")

    def _open(self) -> FileStart | OpenFailure:
        log = self._ranges.open(self._unit)
        if isinstance(log, OpenFailure):
            return log
        self._log, file = log, log.file
        self.begins = FileStart(java_file(file.path), file.kind, file.base, log.source.size)
        return self.begins
