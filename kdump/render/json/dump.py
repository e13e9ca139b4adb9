"""The sink that writes a dump as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.format.batch import layout
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import Chunk
from kdump.item import (
    CaughtUp,
    Complaint,
    FileStart,
    FileTurn,
    LogStart,
    OffsetEntries,
    RecordsUnread,
    SanityFailed,
    TimeEntries,
)
from kdump.render.dump_sink import DumpSink
from kdump.render.json.writer import JsonWriter
from kdump.render.text.dump import error_to
from kdump.rows.files import FileRow, SegmentRow
from kdump.rows.json_lines import line, name, row_json
from kdump.rows.stats import Figures
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_partition
from kdump.tally import Tally
from kdump.verdict import Judgement
from kdump.words.escape import escape

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from kdump.decode.file_decoder import FileDecoder
    from kdump.exit_status import RunStatus
    from kdump.item import Item
    from kdump.output import Output
    from kdump.redact import Redactor
    from kdump.render.json._json import Decode
    from kdump.render.text.buffer import Write
    from kdump.render.text.dump import RecordFormat


def json_sink(
    shown: RecordFormat,
    decodes: FileDecoder | None,
    outcome: RunStatus,
    output: Output | None = None,
    *,
    deep: bool,
    stats: bool,
    quiet: bool = False,
    redactor: Redactor | None = None,
) -> DumpJson:
    """Return the sink for stdout and stderr.

    Args:
        shown: what is shown of records.
        decodes: reads keys and values; None where nothing does.
        outcome: knows the exit status.
        output: takes the place of stdout and stderr.
        deep: records are read.
        stats: figures and findings only.
        quiet: nothing on stderr but errors.
        redactor: makes tokens of what may not be seen of records; None where all may.
    """
    writer = json_writer(
        contents=shown.contents,
        write=None if output is None else output.write,
        redactor=redactor,
        key=shown.key,
        payload=shown.payload,
    )
    error = error_to(output)
    decode = (lambda: None) if decodes is None else decodes.json
    return DumpJson(
        writer,
        decode,
        lambda line: error(escape(line)),
        lambda: int(outcome.exit),
        deep=deep,
        stats=stats,
        quiet=quiet,
    )


def json_writer(
    *,
    contents: bool,
    write: Write | None = None,
    redactor: Redactor | None = None,
    key: bool = False,
    payload: bool = False,
) -> JsonWriter:
    """Return what writes batches and records to stdout.

    Args:
        contents: keys and payloads too.
        write: takes the bytes in the place of stdout.
        redactor: makes tokens of what may not be seen of records; None where all may.
        key, payload: these alone, where contents are not wanted.
    """

    def control(key: bytes | None, value: bytes | None) -> bytes:
        from kdump.decode.control import control_object

        made = control_object(key, value)
        return json.dumps(made if redactor is None else redactor.decoded(made), separators=(",", ":")).encode()

    to = write or sys.stdout.buffer.write
    return JsonWriter(to, contents=contents, control=control, redactor=redactor, key=key, payload=payload)


_NO_TIMESTAMP = -1


class DumpJson(DumpSink):
    """Writes items as JSON lines.

    Args:
        writer: takes what belongs on stdout.
        decode: at the start of each file, what decodes its records; None for nothing.
        error: takes one line for stderr.
        deep: the records are read, and can be counted.
        stats: figures and findings only, not what is in the files.
        quiet: nothing on stderr but errors.
        exit_status: tells what the exit status is, at the end.
    """

    def __init__(
        self,
        writer: JsonWriter,
        decode: Callable[[], Decode | None],
        error: Callable[[str], None],
        exit_status: Callable[[], int],
        *,
        deep: bool,
        stats: bool = False,
        quiet: bool = False,
    ) -> None:
        super().__init__()
        self._stats = stats
        self._quiet = quiet
        self._writer = writer
        self._decode = decode
        self._error = error
        self._exit_status = exit_status
        self._deep = deep
        self._tally = Tally()
        self._file = FileStart("")
        self._entries = 0  # of an index, so far
        self._log: _Log | None = None
        self._verdict = Judgement()  # on it
        self._unread = False  # the log in hand could not be read to its end
        self._directories: set[str] = set()
        self._held: dict[str, tuple[FileStart, _Log, Judgement, bool]] = {}  # of those that are followed

    @takes(Chunk)
    def _chunk(self, chunk: Chunk) -> None:
        assert self._log is not None
        self._log.add(chunk)
        if not self._stats:
            self._writer.chunk(chunk)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._tally.see(finding)
        self._verdict.add(finding)
        self._line(row_json(finding))

    @takes(Complaint, SanityFailed)
    def _complaint(self, complaint: Complaint | SanityFailed) -> None:
        if complaint.finding is not None:
            self._finding(complaint.finding)

    @takes(OpenFailure)
    def _problem(self, problem: OpenFailure) -> None:
        self._tally.see(problem)
        self._unread |= problem.path == self._file.path
        if not (self._quiet and problem.kind == "skipped"):
            self._writer.flush()
            self._error(f"kdump: {problem.sentence}")

    @takes(Figures)
    def _figures(self, figures: Figures) -> None:
        self._line(row_json(figures))

    @takes(CaughtUp)
    def _caught_up(self, _item: CaughtUp) -> None:
        self._writer.flush()

    def end(self, *, dead: bool) -> None:
        """Write what is held back until all files are done.

        Args:
            dead: for sinks that mirror Kafka's tool; here nothing dies.
        """
        assert not dead
        self._segment()
        for held in self._held.values():
            self._file, self._log, self._verdict, self._unread = held
            self._segment()
        self._line(row_json(self._tally.summary(self._exit_status())))
        self._writer.flush()

    @property
    def state(self) -> object:
        """What was shown so far, as far as what comes next hangs on it."""
        where = self._file, self._entries, self._log, self._verdict, self._unread
        return (*where, self._tally, self._directories)

    def resume(self, state: Any) -> None:  # noqa: ANN401 (what `state` was)
        """Go on from what another sink has shown."""
        *where, self._tally, self._directories = state
        self._file, self._entries, self._log, self._verdict, self._unread = where

    def go_on(self, file: FileStart) -> None:
        """Take in hand a file that another sink has begun to show."""
        self._file, self._entries, self._log = file, 0, _Log(deep=self._deep)
        self._writer.begin(file.path, self._decode())

    def is_bulk(self, item: Item) -> bool:
        """Tell whether what is written of an item hangs on nothing that was shown before."""
        return isinstance(item, Chunk)

    def share(self) -> _Log | None:
        """Return what was counted since `go_on`."""
        return self._log

    def join(self, share: _Log | None) -> None:
        """Count what another sink has counted."""
        if share is not None and self._log is not None:
            self._log.join(share)

    def flush(self) -> None:
        """Write out what is collected."""
        self._writer.flush()

    def _line(self, text: str) -> None:
        self._writer.text(f"{text}\n")

    @takes(FileStart)
    def _start(self, file: FileStart) -> None:
        self._segment()
        self._file, self._entries = file, 0
        self._verdict = Judgement()
        self._unread = False
        assert file.kind is not None
        assert file.size is not None
        self._tally.files += 1
        self._tally.bytes += file.size
        if file.kind is FileKind.LOG:
            directory = os.path.dirname(os.path.abspath(file.path))
            if parse_partition(os.path.basename(directory)) is not None:
                self._directories.add(directory)
            self._tally.partitions = len(self._directories)
        if file.kind in (FileKind.LOG, FileKind.CHECKPOINT):
            self._log = _Log(deep=self._deep)
            self._writer.begin(file.path, self._decode())
        if self._stats:
            return
        self._line(row_json(FileRow(file.path, file.kind.value, file.base_offset, file.size)))

    @takes(FileTurn)
    def _turn(self, turn: FileTurn) -> None:
        """Take in hand a file of one directory; what was in hand of another one goes on later."""
        directory = os.path.dirname(turn.file.path)
        if self._log is not None:
            self._held[os.path.dirname(self._file.path)] = self._file, self._log, self._verdict, self._unread
        if directory in self._held:
            self._file, self._log, self._verdict, self._unread = self._held.pop(directory)
        else:
            self._file, self._log, self._verdict, self._unread = turn.file, None, Judgement(), False
        if turn.is_new:
            self._start(turn.file)
        else:
            self._writer.begin(turn.file.path, self._decode())

    def _segment(self) -> None:
        """Write what the log in hand comes to; what is wrong with its end is known only when the next file comes."""
        log, self._log = self._log, None
        if log is None:
            return
        size = max(self._file.size or 0, log.end)  # one that is followed has grown
        self._tally.bytes += size - (self._file.size or 0)
        self._tally.batches += log.batches
        self._tally.records += (log.records or 0) if self._deep else 0
        if self._file.kind is not FileKind.LOG or self._stats:
            return
        base = self._file.base_offset
        row = SegmentRow(
            self._file.path,
            base,
            base if log.last is None else wire.add(log.last, 1),
            size,
            batches=log.batches,
            records=log.records,
            first_timestamp=log.first_timestamp,
            max_timestamp=log.max_timestamp,
            status=self._verdict.word(is_unread=self._unread),
        )
        self._line(row_json(row))

    @takes(OffsetEntries)
    def _offsets(self, item: OffsetEntries) -> None:
        self._index("index", ("offset", "position"), zip(item.offsets, item.positions, strict=True))

    @takes(TimeEntries)
    def _times(self, item: TimeEntries) -> None:
        self._index("timeindex", ("timestamp", "offset"), zip(item.timestamps, item.offsets, strict=True))

    @takes(LogStart, RecordsUnread)
    def _known(self, _item: LogStart | RecordsUnread) -> None:
        """Write nothing: the one is in the file's name, the other is said behind all."""

    @takes(object)
    def _entry(self, item: Item) -> None:
        if self._stats:
            return
        from kdump.render.json.state import state_json

        for text in state_json(item, self._file.path, self._entries):
            self._writer.text(text)
        self._entries += 1

    def _index(self, kind: str, names: tuple[str, str], pairs: zip[tuple[int, int]]) -> None:
        """Write the entries of an index; there may be a million."""
        if self._stats:
            return
        first, second = names
        head = line(kind, {"file": name(self._file.path)})[:-1]
        lines = [
            f'{head},"entry":{number},"{first}":{a},"{second}":{b}}}\n'
            for number, (a, b) in enumerate(pairs, self._entries)
        ]
        self._entries += len(lines)
        self._writer.text("".join(lines))


class _Log:
    """The totals of a log, chunk by chunk.

    Args:
        deep: records are counted as they are read; else as the headers say.
    """

    def __init__(self, *, deep: bool) -> None:
        self._deep = deep
        self.batches = 0  # how many
        self.records: int | None = 0  # how many; None where headers do not tell (compressed messages of magic 0 and 1)
        self.first_timestamp: int | None = None  # of the first batch, ms; None where it has none
        self.max_timestamp: int | None = None  # the largest one, ms; None where there is none
        self.last: int | None = None  # last offset of the last batch; None without one
        self.end = 0  # where that ends, bytes

    def add(self, chunk: Chunk) -> None:
        """Take the batches and records of a chunk into account."""
        if self._deep:
            self.records = (self.records or 0) + chunk.filled
        first = chunk.first + chunk.begun
        if first >= chunk.last:
            return
        window, rows = chunk.window, slice(first, chunk.last)
        if not self.batches:
            self.first_timestamp = _time(_first_timestamp(window.row(first)))
        self.batches += chunk.last - first
        self.last = window.cell(chunk.last - 1, layout.LAST_OFFSET)
        self.end = window.end(chunk.last)
        latest = _time(max(window.column(layout.MAX_TIMESTAMP)[rows]))
        if latest is not None:
            self.max_timestamp = max(latest, latest if self.max_timestamp is None else self.max_timestamp)
        if self._deep or self.records is None:
            return
        counts = window.column(layout.COUNT)[rows]
        if min(window.column(layout.MAGIC)[rows]) >= layout.MAGIC_V2:
            self.records += sum(counts)
        else:
            self.records = self._with_legacy(chunk, first)

    def join(self, other: _Log) -> None:
        """Take what another one has of what follows into account."""
        if not self.batches:
            self.first_timestamp = other.first_timestamp
        self.batches += other.batches
        self.last = self.last if other.last is None else other.last
        self.end = max(self.end, other.end)
        latest = [one for one in (self.max_timestamp, other.max_timestamp) if one is not None]
        self.max_timestamp = max(latest, default=None)
        is_known = self.records is not None and other.records is not None
        self.records = (self.records or 0) + (other.records or 0) if is_known else None

    def _with_legacy(self, chunk: Chunk, first: int) -> int | None:
        """The records so far, with those of a chunk that has messages of magic 0 or 1."""
        count = self.records or 0
        for k in range(first, chunk.last):
            row = chunk.window.row(k)
            if row[layout.MAGIC] >= layout.MAGIC_V2:
                count += row[layout.COUNT]
            elif row[layout.ATTRIBUTES] & layout.CODEC_MASK:
                return None
            else:
                count += 1
        return count


def _first_timestamp(batch: array[int]) -> int:
    """The timestamp of the first record of a batch, as far as its header tells."""
    if batch[layout.MAGIC] < layout.MAGIC_V2 or batch[layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG:
        return batch[layout.MAX_TIMESTAMP]
    return batch[layout.BASE_TIMESTAMP]


def _time(timestamp: int) -> int | None:
    return None if timestamp == _NO_TIMESTAMP else timestamp
