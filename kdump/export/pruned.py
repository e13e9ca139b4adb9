"""What is read of a piece of a log for a range of offsets or times, and what of its records is looked at.

Offsets ascend in a log: the offset index names where to begin and to end, and what it names counts only where a batch
is there that fits. Times need not ascend: the headers of all batches are read, and nothing but these. In a large log
the time index says where to begin, if the batches there and some headers on the way bear it out. A header has the
largest time of its batch, and that of its first record. That no other record is earlier is looked up in some of the
batches that would be left out for that; where one has such a record, all of them are read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.headers_only import Stretch, TimeRange, all_before, joined, stretches
from kdump.format.batch.walk import Border, CheckedWalk
from kdump.format.kernels import wire
from kdump.format.record.reader import RecordReader
from kdump.format.record.selection import Filter, Selection
from kdump.storage.file_source import UpTo
from kdump.storage.index_seek import Starts
from kdump.storage.open_files import OpenFileCache
from kdump.storage.segment import Segment

_FAR = 8 * 1024 * 1024  # bytes of headers that are read rather than a time index
_LEAST = 64 * 1024  # bytes of batches that are looked into
_SHARE = 100  # and one byte of so many
_SAMPLES = 8  # batches of a log that are looked into
_CHECKED = 64  # headers, at places of the offset index, that a time index must agree with

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Sequence

    from kdump.export.log_file import LogFile, Split
    from kdump.format.batch.window import Window
    from kdump.storage.file_source import FileSource


def sought(source: FileSource, log: LogFile, selection: Selection, border: Border, stop: int) -> tuple[Border, int]:
    """Return what of a range of a log can have the offsets that are asked for: where it begins, and where it ends.

    Args:
        source: the log.
        log: the same.
        selection: what is asked for.
        border, stop: of the range.

    Raises:
        OSError: the log or its index cannot be read.
    """
    first, last = selection.from_offset, selection.to_offset
    base = log.base_offset
    is_inside = base is not None and (first is not None and first > base)
    is_cut = last is not None and (log.next_base is None or last < log.next_base)
    by_time = selection.from_time is not None and not border.position and stop > _FAR  # else it was looked up before
    if base is None or not (is_inside or is_cut or by_time):
        return border, stop
    with OpenFileCache() as cache:
        segment = Segment(log.path, base, cache)
        starts = Starts(segment, source, base, max_batch_bytes=layout.MAX_INT, report=ignore)
        begin = starts.offset(first) if is_inside and first is not None else 0
        if by_time:
            begin = max(begin, _by_time(source, starts, selection))
        if is_cut and last is not None:
            stop = min(stop, starts.beyond(last))
    return (_border_at(source, begin) if begin > border.position else border), stop


def _by_time(source: FileSource, starts: Starts, selection: Selection) -> int:
    """Where to begin for a time, by the time index; 0 where batches before that say otherwise."""
    begin = starts.first(Selection(from_time=selection.from_time))
    if not begin or selection.from_time is None:
        return 0
    places = starts.some_before(begin, _CHECKED)
    return begin if all_before(source, places, selection.from_time) else 0


def _border_at(source: FileSource, position: int) -> Border:
    """What is known before a batch that is right: the offset below its own."""
    return Border(position, floor=wire.i64(source.read_at(position, 8), 0) - 1)


class Pruning:
    """Leaves out what is not asked for, before it is decoded.

    Args:
        selection: what is asked for.
        of_batches: batches are, and not records.
        max_uncompressed_bytes: limit of records that are looked into.
        seeks: do so; else all is read, and only records are left out.
    """

    def __init__(
        self, selection: Selection, *, of_batches: bool, max_uncompressed_bytes: int, seeks: bool = True
    ) -> None:
        self._seeks = seeks
        self._most = _LEAST  # bytes that may still be read of batches that are only looked into
        self._disordered: set[str] = set()  # directories with a batch that does not begin with its earliest record
        self.selection = selection
        self._times = TimeRange(selection.from_time, selection.to_time, of_batches)
        self._limit = max_uncompressed_bytes
        timeless = selection.replace(from_time=None, to_time=None)  # a record without a time is in the range here
        self.records = Filter(timeless, deep=not of_batches)

    def parts(self, source: FileSource, split: Split) -> list[tuple[Border, int]]:
        """Return the parts of a piece that are read, and where each ends.

        Args:
            source: the log.
            split: the piece.

        Raises:
            OSError: the log or its index cannot be read.
        """
        if not self._seeks:
            return [(split.border, split.stop)]
        end = split.stop if split.stop < split.log.size else source.size
        border, stop = sought(source, split.log, self.selection, split.border, end)
        if border.position >= stop:
            return []
        if self._times.is_all or not source.is_near:
            return [(border, stop)]
        found = stretches(source, Stretch(border.position, stop), self._times)
        wanted = found.wanted
        self._most += (stop - border.position) // _SHARE
        if found.behind and not self._begin_with_earliest(source, found.behind):
            wanted = joined([*wanted, *found.behind])
        return [(border if one.start == border.position else _border_at(source, one.start), one.end) for one in wanted]

    def _begin_with_earliest(self, source: FileSource, batches: Sequence[Stretch]) -> bool:
        """Whether no record of some batches is earlier than the first one, as far as some of them tell."""
        folder = os.path.dirname(source.name)
        for one in batches[:: -(-len(batches) // _SAMPLES)]:
            size = one.end - one.start
            if folder not in self._disordered and size <= self._most:
                self._most -= size
                if not self._begins_with_earliest(source, one):
                    self._disordered.add(folder)
        return folder not in self._disordered

    def _begins_with_earliest(self, source: FileSource, one: Stretch) -> bool:
        alone, border, width = UpTo(source, one.end), Border(one.start), layout.RECORD_WIDTH
        walk = CheckedWalk(alone, ignore, next_base=None, max_batch_bytes=layout.MAX_INT, border=border)
        for window in walk.windows():
            first = window.cell(0, layout.BASE_TIMESTAMP)
            for chunk in RecordReader(self._limit).chunks(window):
                times = chunk.rows[layout.R_TIMESTAMP : chunk.filled * width : width]
                if chunk.problem is not None or min(times, default=first) < first:
                    return False
        return True

    def is_behind(self, walk: CheckedWalk) -> bool:
        """Whether nothing that follows in a log is in the range of offsets."""
        last = self.selection.to_offset
        return self._seeks and last is not None and walk.border.floor >= last - 1

    def window(self, window: Window) -> Window:
        """Return the batches of a window that may have what is asked for; valid as long as the window is."""
        if not self._seeks:
            return window
        kept = self.records.window(window)
        if self._times.is_all or not kept.count:
            return kept
        numbers = self._times.kept_in(kept)
        if len(numbers) == kept.count:
            return kept
        rows: array[int] = kept.rows[:0]
        for k in numbers:
            rows.extend(kept.row(k))
        return kept.some(rows, len(numbers))


def walked(walk: CheckedWalk, pruning: Pruning, parts: Sequence[tuple[Border, int]], size: int) -> Iterator[Window]:
    """Yield the windows of the parts of a log, as far as their batches may have what is asked for.

    Args:
        walk: over the log.
        pruning: what is left out.
        parts: where each begins and ends.
        size: bytes of the log, when it was listed.

    Raises:
        OSError: the log cannot be read further.
    """
    for border, stop in parts:
        if walk.border != border:
            walk.go_to(border)
        for window in walk.windows(stop if stop < size else None):
            kept = pruning.window(window)
            if kept.count:
                yield kept
            if pruning.is_behind(walk):
                return
