"""`dump` by the checked walk: every file, every intact batch, and the damage as findings.

First the files: which there are, whether they can be opened, and who reads them. Then logs and KRaft snapshots: the
checked walk, records where they are wanted, and findings. Files of other kinds are read by other_files.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kdump.dump.input_file import InputFile, identify, input_files
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.walk import Border, CheckedWalk
from kdump.format.record.chunk import Chunk
from kdump.item import FileStart, LogStart, RecordsUnread, SnapshotStart
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OFFSETS_TOPIC, FileKind, java_file
from kdump.storage.raft_snapshots import to_copy
from kdump.storage.tolerant import TolerantSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.finding import Report
    from kdump.format.batch.base_offset.header import LogEnd
    from kdump.format.batch.walk import WalkState
    from kdump.format.batch.window import Window
    from kdump.format.source import Source
    from kdump.item import Item

_NEED_BASE = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
_RANGE = 4 * 1024 * 1024  # bytes of a log that are read by one process
_PACKED_RANGE = 1024 * 1024  # of one whose first batch is compressed: what comes out of it is larger


class CheckedDump:
    """Dumps files as kdump does.

    Args:
        options: what was asked for.
        logs_only: other files in directories are passed over, and named ones are a OpenFailure.
    """

    def __init__(self, options: DumpOptions, *, logs_only: bool = False) -> None:
        self._options = options
        self._logs_only = logs_only

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all files, in order; what cannot be read is an OpenFailure among them.

        Args:
            paths: files and directories, as the user wrote them.

        Reports: as findings among the items, all codes that one file and the names beside it show.
        """
        for file in input_files(paths):
            if isinstance(file, OpenFailure):
                yield file
            elif not self._passes_over(file):
                yield from self.file(file)

    def _passes_over(self, unknown: InputFile) -> bool:
        if not self._logs_only or unknown.follow:
            return False
        file = identify(unknown, self._options)
        return isinstance(file, InputFile) and not file.is_log

    def file(self, file: InputFile) -> Iterator[Item]:
        """Yield the items of one file, whatever happens to it."""
        source = file.open()
        if isinstance(source, OpenFailure):
            yield source
            return
        try:
            yield from self._file(file, source)
        except OSError as error:
            yield OpenFailure(file.path, "read", f"{file.path}: cannot be read further: {error.strerror}")

    def _file(self, unknown: InputFile, source: Source) -> Iterator[Item]:
        file = identify(unknown, self._options)
        if isinstance(file, OpenFailure):
            yield file
            return
        if self._logs_only and not file.is_log:
            yield OpenFailure(file.path, "other", f"{file.path}: not a log: only logs have batches and records")
            return
        yield FileStart(java_file(file.path), file.kind, file.base, source.size)
        if file.is_log:
            yield from dump_log(file, source, self._options)
        else:
            from kdump.dump.other_files import dump_state

            yield from dump_state(file, source, self._options)


def dump_log(file: InputFile, source: Source, options: DumpOptions) -> Iterator[Item]:
    """Yield a header, the batches and records in chunks, and the findings as they are made.

    Args:
        file: a log, or a KRaft snapshot.
        source: the same, open.
        options: what was asked for.

    Reports: F03, and what `CheckedLog` reports.
    """
    yield from log_head(file, source)
    log = CheckedLog(file, source, options)
    for stop in range_ends(source, options.max_bytes):
        yield from log.range(stop)


def range_ends(source: Source, end: int) -> list[int]:
    """Return where the ranges of a log end: a range has the batches that begin in it.

    The same for any number of processes: what is found in a range is told in an order that hangs on where it begins.

    Args:
        source: the log.
        end: where to stop reading, bytes.
    """
    try:
        header = source.read_at(0, layout.RECORDS_AT)
    except OSError:  # it is told when the log is read
        header = b""
    at = layout.ATTRIBUTES_AT + 1 if header[layout.MAGIC_AT :][:1] == b"\2" else layout.LEGACY_ATTRIBUTES_AT
    size = _PACKED_RANGE if header[at:][:1] and header[at] & layout.CODEC_MASK else _RANGE
    return [*range(size, min(end, source.size), size), end]


class CheckedLog:
    """The batches and records of a log, range by range, and what is wrong with them.

    Args:
        file: a log, or a KRaft snapshot.
        source: the same, open.
        options: what was asked for.
    """

    def __init__(self, file: InputFile, source: Source, options: DumpOptions) -> None:
        self.file = file
        self.source = source = TolerantSource(source)
        self._options = options
        self._findings: list[Finding] = []
        self.walk = open_walk(file, source, options, self._findings)  # over its batches
        self._fresh = self.walk.state
        self._records = CheckedRecords(file.path, options) if options.deep else None

    def run_up(self, start: int) -> WalkState | None:
        """Come to where a range begins without having read what lies before it; None where no batch is found there.

        Args:
            start: of the range, bytes.
        """
        begin = self.file.segment.some_before(start)
        if begin is None:
            return None
        state = self.walk.run_up(begin, start)
        self._findings.clear()
        return state

    def restart(self) -> None:
        """Forget what was read, but not what is open."""
        self._findings.clear()
        self.walk.resume(self._fresh)
        if self._records is not None:
            self._records.restart()

    def range(self, end: int) -> Iterator[Item]:
        """Yield what lies between where the walk is and the end of a range, bytes; behind the last what the end shows.

        Reports: O06, O07, and what CheckedWalk and RecordChecks report.
        """
        options, findings = self._options, self._findings
        for window in self.walk.windows(end):
            yield from drain(findings)
            cut(window, options.max_bytes)
            if self._records is not None:
                yield from self._records.of(window)
            else:
                yield Chunk(window, window.view, 0, last=window.count, begun=False, rows=window.rows, filled=0)
        yield from drain(findings)
        if end >= options.max_bytes >= self.source.size:
            yield from check_end(self.file, self.walk)


def log_head(file: InputFile, source: Source) -> Iterator[Item]:
    """Yield what stands before the batches of a log.

    Args:
        file: a log, or a KRaft snapshot.
        source: the same, open.

    Reports: F03.
    """
    base = file.log_base
    yield SnapshotStart(file.name.base_offset, file.name.epoch) if base is None else LogStart(base)
    if source.size > layout.MAX_INT:
        over = source.size - layout.MAX_INT
        yield Finding(Code.F03, file.path, layout.MAX_INT, over, found=source.size, expected=layout.MAX_INT)


def open_walk(
    file: InputFile,
    source: Source,
    options: DumpOptions,
    findings: list[Finding],
    start: int = 0,
) -> CheckedWalk:
    """Return the walk over a log.

    Args:
        file: a log, or a KRaft snapshot.
        source: the same, open.
        options: what was asked for.
        findings: takes what the walk reports.
        start: position of a batch, where the walk begins.
    """
    base = file.log_base or 0
    walk = CheckedWalk(
        source,
        _with_copy(findings.append) if file.kind is FileKind.CHECKPOINT else findings.append,
        segment=base,
        next_base=file.directory.next_base(base) if file.name.is_live else None,
        known_end=partial(_end_beside, file),
        hints=file.segment.hints,
        max_batch_bytes=options.max_batch_bytes,
        border=Border(position=start, floor=base - 1),
    )
    if start:
        walk.checks.offsets.after_loss()  # what is before it is not known
    name = file.directory.parsed
    walk.checks.follow_producers = name is None or name.topic != OFFSETS_TOPIC
    return walk


def _end_beside(file: InputFile) -> LogEnd | None:
    """Where other files know the last log of a partition to end."""
    base, directory = file.log_base, file.directory
    if not file.name.is_live or base is None or directory.next_base(base) is not None:
        return None
    from kdump.storage.evidence import end_beside  # few logs make anybody ask

    return end_beside(directory, file.segment)


def _with_copy(report: Report) -> Report:
    """A report for a KRaft snapshot: no replica mends it, a copy does."""
    return lambda finding: report(to_copy(finding))


def check_end(file: InputFile, walk: CheckedWalk) -> Iterator[Finding]:
    """Yield what the next segment and the index say about the end of a log that was read whole.

    Of a directory also which logs are lost behind it, or before it where it is the first.

    Reports: F08, O06, O07.
    """
    base = file.log_base
    if base is None or not file.name.is_live or file.name.kind is not FileKind.LOG:  # read as a log by --type
        return
    following = file.directory.next_base(base)
    yield from file.segment.check_end(walk.checks.offsets.last, following)
    if not file.follow:
        from kdump.storage.evidence import evidence_of  # a dump of a log alone need not import it

        is_first = base == file.directory.log_bases[0]
        yield from evidence_of(file.directory).findings(0 if is_first else base, following)


class CheckedRecords:
    """Reads and checks the records of windows; imported and made only where records are wanted."""

    def __init__(self, path: str, options: DumpOptions) -> None:
        from kdump.format.record.reader import RecordReader
        from kdump.format.record.record_checks import RecordChecks, not_read

        self._path = path
        self._not_read = not_read
        self._checks = RecordChecks(path)
        self.reader = RecordReader.within(options)

    def restart(self) -> None:
        """Forget what was read."""
        self._checks = type(self._checks)(self._path)

    def of(self, window: Window) -> Iterator[Item]:
        """Yield the batches of a window with their records, and what is wrong with these."""
        for chunk in self.reader.chunks(window):
            yield chunk
            yield from self.judge(chunk)

    def judge(self, chunk: Chunk) -> list[Finding | RecordsUnread]:
        """Return what is wrong with the records of a chunk, and whether those of a batch cannot be read."""
        return [*self._checks.check(chunk), *map(RecordsUnread, self._not_read(self._path, chunk))]


def cut(window: Window, end: int) -> None:
    """Leave out the batches that do not end before the end of what is asked for."""
    while window.count and window.end(window.count) > end:
        window.count -= 1


def drain(findings: list[Finding]) -> Iterator[Finding]:
    """Hand on what the walk has reported since the last time."""
    yield from findings
    findings.clear()
