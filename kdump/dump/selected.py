"""`dump` of a selection: only logs that can contain it, from the position that their indexes name.

Strategy: segments are passed over by their names, the beginning of a segment by its indexes (`Starts`), batches by
their headers and records by their columns (`Filter`). The last records are found by counting in growing ends of the
logs, from back to front, so nothing has to be remembered of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.dump.checked import CheckedRecords, check_end, cut, drain, log_head, open_walk, range_ends
from kdump.dump.holes import HolesMet, HoleWatch, not_searched
from kdump.dump.input_file import identify, input_files
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.record.chunk import KEPT, Chunk
from kdump.format.record.selection import Filter, Selection
from kdump.item import FileStart
from kdump.storage.file_source import OpenFailure
from kdump.storage.index_seek import Starts
from kdump.storage.names import FileKind, java_file
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.fates import FateOptions, RecordFates
    from kdump.dump.input_file import InputFile
    from kdump.dump.transaction_outcomes import Outcomes
    from kdump.format.batch.walk import CheckedWalk
    from kdump.format.batch.window import Window
    from kdump.format.index.offset_and_time import OffsetPosition
    from kdump.format.record.chunk import CutRecord
    from kdump.format.source import Source
    from kdump.item import Item, RecordsUnread


_PIECE = 64 * 1024  # bytes at the end of a log in which its last records are looked for first
_GROWTH = 4


class Tail(Value):
    """The position of the last records of a log."""

    position: int  # of a batch
    count: int  # records that are selected from there on
    doubts: dict[int, OffsetPosition]  # entries of the offset index that were passed over on the way, by position
    findings: list[Finding]  # about the indexes, made on the way


class SelectedLog:
    """The selected part of one log.

    Args:
        file: which one.
        options, selection: what was asked for.
        wanted: leaves what is selected.
        outcomes: of transactions; None where they do not matter.
        fates: of records; None where they are not asked for.

    Attributes:
        file, path: the log.
    """

    def __init__(
        self,
        file: InputFile,
        options: DumpOptions,
        selection: Selection,
        wanted: Filter,
        outcomes: Outcomes | None,
        fates: RecordFates | None = None,
    ) -> None:
        self.file = file
        self.path = file.path
        self._options = options
        self._selection = selection
        self._filter = wanted
        self._outcomes = outcomes
        self._fates = fates
        self._records = CheckedRecords(self.path, options) if options.deep else None
        self.is_cut_short = False  # nothing that follows in it is in the range of offsets
        self.holes = HoleWatch(file)  # knows which offsets are missing in what was read

    def items(self, source: Source, tail: Tail | None) -> Iterator[Item]:
        """Yield what is selected, with a header before it, and what is wrong with what is read.

        Args:
            source: the log.
            tail: where to begin; None for where the selection does.

        Reports: X04, X05, T04 of the indexes that are used, and what `dump_log` reports.
        """
        findings: list[Finding] = []
        starts = self.starts(source, findings)
        if tail is None:
            start = starts.first(self._selection)
        else:
            start = tail.position
            starts.doubts.update(tail.doubts)
            findings.extend(tail.findings)
        walk = open_walk(self.file, source, self._options, findings, start)
        is_announced = False
        for window in self.windows(walk, starts, findings, source):
            yield from drain(findings)
            for item in self.wanted(window):
                if isinstance(item, Chunk) and not is_announced:
                    is_announced = True
                    self.holes.found()
                    yield from self.head(source)
                yield item
            if self._filter.is_full:
                return
        if not self.is_cut_short:
            starts.settle()
        yield from drain(findings)
        if not self.is_cut_short and self._options.max_bytes >= source.size:
            yield from self.end(walk)

    def end(self, walk: CheckedWalk) -> Iterator[Finding]:
        """Yield what is wrong at the end of the log.

        Args:
            walk: over all of it.

        Reports: as `check_end`.
        """
        for finding in check_end(self.file, walk):
            self.holes.see((finding,))
            yield finding

    def head(self, source: Source) -> Iterator[Item]:
        """Yield what stands before the first that is selected."""
        yield self.file_start(source.size)
        yield from log_head(self.file, source)

    def file_start(self, size: int) -> FileStart:
        """Return what says that the log begins, of so many bytes."""
        return FileStart(java_file(self.path), self.file.kind, self.file.base, size)

    def from_end(self, source: Source, wanted: int) -> Tail:
        """Find a place from which on at least some records are selected.

        Args:
            source: the log.
            wanted: how many records, if there are so many.
        """
        findings: list[Finding] = []
        starts = self.starts(source, findings)
        low = starts.first(self._selection)
        end = min(source.size, self._options.max_bytes)
        piece = _PIECE
        while True:
            place = max(low, starts.at_or_before(end - piece)) if end - piece > low else low
            count = self._count(source, place)
            if count >= wanted or place <= low:
                return Tail(place, count, starts.doubts, findings)
            piece = max(piece, end - place) * _GROWTH

    def _count(self, source: Source, start: int) -> int:
        findings: list[Finding] = []
        walk = open_walk(self.file, source, self._options, findings, start)
        assert self._records is not None
        count = 0
        for window in self.windows(walk, self.starts(source, []), findings, source):
            findings.clear()
            kept = self._filtered(window)
            if kept.count:
                count += sum(map(self._filter.count, self._records.reader.chunks(kept)))
        return count

    def starts(self, source: Source, findings: list[Finding]) -> Starts:
        """Return what finds where to begin."""
        limit = self._options.max_batch_bytes
        return Starts(self.file.segment, source, self.file.log_base, max_batch_bytes=limit, report=findings.append)

    def stops(self, source: Source, position: int) -> list[int]:
        """Return where the ranges of the log end behind a position; they are the same for any number of processes."""
        end = min(self._options.max_bytes, source.size)
        return [stop for stop in range_ends(source, end) if position < stop < end] + [end]

    def windows(
        self,
        walk: CheckedWalk,
        starts: Starts,
        findings: list[Finding],
        source: Source,
        stop: int | None = None,
    ) -> Iterator[Window]:
        """Yield the windows of a walk up to the one after which nothing in the range of offsets can follow.

        Args:
            walk: over the log.
            starts: is told of them.
            findings: that the walk has made.
            source: the log.
            stop: end of the range that is read; None for all ranges.
        """
        to_offset, end = self._selection.to_offset, min(self._options.max_bytes, source.size)
        is_begin = walk.border.position == 0
        for one in self.stops(source, walk.border.position) if stop is None else [stop]:
            for window in walk.windows(one):
                starts.pass_window(window)
                for finding in findings:
                    starts.pass_damage(finding)
                self.holes.see(findings)
                if is_begin:
                    self.holes.begin(window)
                    is_begin = False
                cut(window, end)
                yield window
                if to_offset is not None and walk.border.floor >= to_offset - 1:
                    self.is_cut_short = True
                    return
        for finding in findings:
            starts.pass_damage(finding)
        self.holes.see(findings)

    def _not_searched(self, chunk: Chunk, cut: CutRecord, offset: int) -> Finding:
        """What is said of a large record that is not wanted by its first bytes."""
        place = chunk.window.cell(chunk.first, layout.POSITION), chunk.window.cell(chunk.first, layout.SIZE)
        why = f"a record of {cut.size} bytes was searched only in the first {KEPT} of its value and of its headers"
        return Finding(Code.L12, self.path, *place, offset=offset, values={"why": why})

    def _count_shown(self, chunk: Chunk) -> None:
        if self._outcomes is not None:
            self._outcomes.shown(self.path, chunk)

    def _filtered(self, window: Window) -> Window:
        kept = self._filter.window(window)
        if self._outcomes is not None and kept.count:
            kept = self._outcomes.window(self.path, kept, self._selection.outcome or "")
        return kept

    def wanted(self, window: Window) -> Iterator[Chunk | Finding | RecordsUnread]:
        """Yield what is selected of a window, and what is wrong with its records."""
        kept = self._filtered(window)
        if not kept.count:
            return
        if self._records is None:
            batches = Chunk(kept, kept.view, 0, last=kept.count, begun=False, rows=kept.rows, filled=0)
            self._count_shown(batches)
            yield batches
            return
        for chunk in self._records.reader.chunks(kept):
            found = self._records.judge(chunk)
            cut, offset = chunk.cut, chunk.rows[layout.R_OFFSET]
            wanted = self._filter.chunk(chunk)
            if wanted is not None:
                self._count_shown(wanted)
                yield wanted if self._fates is None else wanted.replace(fates=self._fates.of(self.file, wanted))
            elif cut is not None and self._filter.looks_inside:
                yield self._not_searched(chunk, cut, offset)
            yield from found
            if self._filter.is_full:
                return


def selected_logs(
    paths: list[str], options: DumpOptions, selection: Selection
) -> Iterator[list[InputFile] | OpenFailure]:
    """Yield the logs of each directory that can have what is selected, in order, and what cannot be read.

    Args:
        paths: files and directories, as the user wrote them.
        options, selection: what was asked for.
    """
    logs: list[InputFile] = []
    others: list[str] = []

    def inside() -> Iterator[list[InputFile]]:
        found = [log for at, log in enumerate(logs) if not _is_outside(log, logs[at + 1 :], selection)]
        logs.clear()
        if found:
            yield found

    for place in input_files(paths):
        file = place if isinstance(place, OpenFailure) else _identify(place, options)
        if isinstance(file, OpenFailure):
            yield from inside()
            yield file
        elif file.is_log:
            if logs and os.path.dirname(logs[-1].path) != os.path.dirname(file.path):
                yield from inside()
            logs.append(file)
        elif file.follow:
            others.append(file.path)
    yield from inside()
    if others:
        count = f"{len(others)} files without batches are not shown" if len(others) > 1 else "not shown"
        why = f"{others[0]}: {count}: only logs have what can be selected"
        yield OpenFailure(others[0], "skipped", why)


def _identify(unknown: InputFile, options: DumpOptions) -> InputFile | OpenFailure:
    """The kind of a file, or why it cannot be read; a file without batches is not opened again."""
    file = identify(unknown, options)
    if not isinstance(file, OpenFailure) and file.is_log:
        return file
    opened = unknown.open()
    return opened if isinstance(opened, OpenFailure) else file


def _is_outside(log: InputFile, after: list[InputFile], one: Selection) -> bool:
    """Whether the names say that nothing of a log of a directory is in the range of offsets."""
    if log.follow or log.kind is not FileKind.LOG or log.base is None:
        return False  # what the user names is read
    if one.to_offset is not None and log.base >= one.to_offset:
        return True
    following = next((other.base for other in after if other.kind is FileKind.LOG), None)
    return one.from_offset is not None and following is not None and following <= one.from_offset


class SelectedDump:
    """Dumps what is selected of the logs among some files.

    Args:
        options: what was asked for, with a selection.
        selection: the same selection.
        fate: say what became of each record, by this; None where that is not asked for.
    """

    def __init__(self, options: DumpOptions, selection: Selection, fate: FateOptions | None = None) -> None:
        self._fate = fate
        self._options = options
        self._selection = selection
        self._filter = Filter(selection, deep=options.deep)
        self._stopped = False
        self._holes = HolesMet()

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all logs, in order; what cannot be read is a OpenFailure among them.

        Args:
            paths: files and directories, as the user wrote them.

        Reports: as findings among the items, what is wrong with what is read, and with the indexes that are used.
        """
        for part in selected_logs(paths, self._options, self._selection):
            if isinstance(part, OpenFailure):
                yield part
            else:
                self._holes = HolesMet()
                yield from self._partition(part)
                if not self._stopped:
                    yield from not_searched(self._holes, part, self._options, self._selection)
            if self._stopped:
                return

    def _partition(self, logs: list[InputFile]) -> Iterator[Item]:
        """The logs of one directory, in order."""
        outcomes = self._outcomes(logs)
        fates = None if self._fate is None else self._fates(logs, self._fate)
        if fates is not None:
            yield from fates.limits()
        first, tail = 0, None
        if self._selection.tail is not None:
            first, tail = self._find_tail(logs, self._selection.tail, outcomes)
            self._filter.left = self._selection.tail
            if outcomes is not None:
                outcomes.met()  # on the way; what is shown is met again
        for log in logs[first:]:
            one = SelectedLog(log, self._options, self._selection, self._filter, outcomes, fates)
            yield from self._read(one, tail)
            self._holes = self._holes.joined(one.holes.met)
            tail = None
            if self._filter.is_full:
                self._stopped = True
                break
        if fates is not None:
            yield from fates.doubts()
        if outcomes is not None:
            yield from outcomes.waiting() if self._stopped else outcomes.left_out()

    def _outcomes(self, logs: list[InputFile]) -> Outcomes | None:
        if self._selection.outcome is None:
            return None
        from kdump.dump.transaction_outcomes import Outcomes

        return Outcomes(logs, self._options, self._selection.outcome)

    def _fates(self, logs: list[InputFile], wanted: FateOptions) -> RecordFates:
        """Run the selection once for the keys of what it finds."""
        from kdump.dump.fates import KeysFound, RecordFates

        found, rehearsal = KeysFound(), SelectedDump(self._options, self._selection)
        rehearsal._filter.left = self._filter.left
        numbers, number = {java_file(log.path): number for number, log in enumerate(logs)}, 0
        for item in rehearsal._partition(logs):
            if isinstance(item, FileStart):
                number = numbers[item.path]
            elif isinstance(item, Chunk):
                found.see(item, number)
        return RecordFates(logs, self._options, wanted, found)

    def _read(self, log: SelectedLog, tail: Tail | None) -> Iterator[Item]:
        """One log, whatever happens to it."""
        source = log.file.open()
        if isinstance(source, OpenFailure):
            yield source
            return
        try:
            yield from log.items(source, tail)
        except OSError as error:
            yield OpenFailure(log.path, "read", f"{log.path}: cannot be read further: {error.strerror}")

    def _find_tail(self, logs: list[InputFile], wanted: int, outcomes: Outcomes | None) -> tuple[int, Tail | None]:
        """Find where the last records begin, from the last log backwards: in which log, and where in it."""
        for number in range(len(logs) - 1, -1, -1):
            log = SelectedLog(logs[number], self._options, self._selection, self._filter, outcomes)
            source = log.file.open()
            if isinstance(source, OpenFailure):
                continue  # it is said when its turn comes
            try:
                tail = log.from_end(source, wanted)
            except OSError:
                continue
            if tail.count >= wanted:
                self._filter.skip = tail.count - wanted
                return number, tail
            wanted -= tail.count
        return 0, None
