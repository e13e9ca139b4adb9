"""Puts together the sink that prints a dump as text: layout, decoders and what the terminal needs.

Also the complaints of Kafka's tool about indexes and offsets, which it prints to stderr when it is done. It keeps them
in hash maps keyed by absolute path, so the order of the files is that of the map.
"""

from __future__ import annotations

import sys
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any

from kdump.compat.dialect import DEFAULT
from kdump.compat.dump_log_segments_options import STRING
from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.format.java_values import string_hash
from kdump.format.record.chunk import Chunk
from kdump.item import (
    CaughtUp,
    Complaint,
    ComplaintKind,
    Died,
    FileStart,
    FileTurn,
    IndexEmpty,
    IndexPassed,
    LogStart,
    OffsetEntries,
    RecordsUnread,
    SanityFailed,
    SkippedFile,
    SnapshotError,
    SnapshotStart,
    TimeEntries,
    TrailingBytes,
)
from kdump.render.commentary import shown_by_stderr
from kdump.render.dump_sink import DumpSink
from kdump.render.text import _text
from kdump.render.text.findings import FindingLines
from kdump.render.text.writer import TextWriter
from kdump.storage.file_source import OpenFailure
from kdump.value import Value
from kdump.words.escape import escape, escape_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.compat.dialect import Dialect
    from kdump.compat.kafka_legacy import LegacyMessage
    from kdump.decode.file_decoder import FileDecoder
    from kdump.item import Item
    from kdump.output import Output
    from kdump.redact import Redactor
    from kdump.render.text._text import Contents
    from kdump.render.text.buffer import Write

    Broken = Callable[[int, LegacyMessage], tuple[bytes, str | None]]

_TABLE_SIZE = 16
_INT = 0xFFFFFFFF


class RecordFormat(Value):
    """The form of records in the output."""

    deep: bool  # records at all
    contents: bool  # keys and payloads
    skip_metadata: bool  # nothing else of a record
    decoder: str | None  # name of a decoder for internal topics, or "auto"; None for none
    # key_class, value_class: Java classes of Kafka's tool
    key_class: str
    value_class: str
    compat: bool  # end where Kafka's tool ends
    careful: bool  # escape what could drive a terminal
    # key_form, value_form: how keys and payloads are written; None for the classes
    key_form: str | None = None
    value_form: str | None = None
    iso: bool = False  # times as ISO 8601
    # key, payload: shown where contents are not: it is by them that records are selected
    key: bool = False
    payload: bool = False


def text_sink(
    shown: RecordFormat,
    dialect: Dialect,
    decodes: FileDecoder | None,
    output: Output | None = None,
    redactor: Redactor | None = None,
    *,
    listed: Callable[[object], bool] = lambda _item: True,
) -> TextSink:
    """Return the sink for stdout and stderr, or for what takes their place.

    Args:
        shown: the form of records.
        dialect: the release whose layout it is.
        decodes: reads keys and values; None where nothing does.
        output: takes the place of stdout and stderr.
        redactor: makes tokens of what may not be seen of records; None where all may.
        listed: tells which findings and failures are said.
    """
    first = b"| " if shown.skip_metadata else b" "
    contents = None if decodes is None else lambda: decodes.text(first, escape_bytes if shown.careful else None)
    if redactor is not None and not shown.contents and (shown.key or shown.payload):
        contents = partial(_hidden_fields, shown, redactor)
    writer = _writer(shown, dialect, sys.stdout.buffer.write if output is None else output.write, redactor)
    error = error_to(output)
    sentence = error if shown.compat else wrapping(error)
    return TextSink(writer, error, sentence, dialect, contents, listed, careful=shown.careful, iso=shown.iso)


def error_to(output: Output | None) -> Callable[[str], None]:
    """Return what writes one line to stderr, or to what takes its place."""
    if output is None:
        return error_line
    return lambda line: output.error(line.encode("utf-8", "surrogateescape") + b"\n")


def wrapping(error: Callable[[str], None]) -> Callable[[str], None]:
    """Return what writes sentences as `error` does, in the manner of stderr."""
    shown = shown_by_stderr()
    return lambda line: error(shown(line))


def text_writer(*, careful: bool) -> TextWriter:
    """Return what writes batches and records to stdout as dump does with --print-data-log.

    Args:
        careful: escape what could drive a terminal.
    """
    shown = RecordFormat(
        deep=True,
        contents=True,
        skip_metadata=False,
        decoder=None,
        key_class=STRING,
        value_class=STRING,
        compat=False,
        careful=careful,
    )
    return _writer(shown, DEFAULT, sys.stdout.buffer.write)


def _writer(shown: RecordFormat, dialect: Dialect, write: Write, redactor: Redactor | None = None) -> TextWriter:
    mode = (
        (_text.CONTENTS if shown.contents else 0)
        | (_text.SKIP_METADATA if shown.skip_metadata else 0)
        | (_text.LEGACY_BRACE if dialect.legacy_brace else 0)
        | (_text.BARE_PAYLOAD if dialect.bare_payload else 0)
        | (_text.KAFKA if shown.compat else 0)
        | (_text.CAREFUL if shown.careful else 0)
        | (_text.ISO if shown.iso else 0)
        | (_text.KEY if shown.key else 0)
        | (_text.PAYLOAD if shown.payload else 0)
    )
    slow_text = escape_bytes if shown.careful else _java_utf8
    control, broken = _control(shown, dialect), _broken(shown, dialect)
    if redactor is not None:
        control, broken = _hidden_control(redactor), _hidden(broken, redactor)
    return TextWriter(write, mode, slow_text, contents=None, control=control, broken=broken, redactor=redactor)


def _hidden_control(redactor: Redactor) -> _text.Contents:
    """Return the writer of control records that may not all be seen: markers have numbers only, voters have hosts."""

    def control(_offset: int, key: bytes | None, value: bytes | None) -> bytes:
        import json

        from kdump.decode.control import Stopped, control_object, control_text

        made = control_object(key, value)
        text = control_text(key, value, DEFAULT.release)
        if isinstance(text, Stopped):
            return b""
        if made is None or b"{" not in text:
            return text
        shown = json.dumps(redactor.decoded(made)["data"], separators=(",", ":"))
        return text[: text.index(b"{")] + shown.encode()

    return control


def _hidden_fields(shown: RecordFormat, redactor: Redactor) -> _text.Contents:
    """Return the writer of the key, or the payload, that records are selected by, where they may not be seen."""

    def fields(_offset: int, key: bytes | None, value: bytes | None) -> bytes:
        text = f" key: {redactor.token(key)}" if shown.key and key is not None else ""
        return (text + (f" payload: {redactor.token(value)}" if shown.payload and value is not None else "")).encode()

    return fields


def _hidden(broken: Broken, redactor: Redactor) -> Broken:
    """The same writer of broken messages; what it writes of them may not be seen."""

    def hidden(offset: int, message: LegacyMessage) -> tuple[bytes, str | None]:
        text, why = broken(offset, message)
        before, mark, shown = text.partition(b": ")
        if not mark or shown.startswith(b"Error at "):
            return text, why
        return before + mark + redactor.token(shown).encode(), why

    return hidden


def _java_utf8(data: bytes) -> bytes:
    from kdump.decode.java_text import java_utf8

    return java_utf8(data)


def error_line(line: str) -> None:
    """Write one line to stderr, after all that stdout got."""
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stderr.buffer.flush()


def _control(shown: RecordFormat, dialect: Dialect) -> _text.Contents:
    """Return the writer of control records."""

    def control(_offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
        from kdump.decode.control import Stopped, control_text

        text = control_text(key, value, dialect.release)
        if not isinstance(text, Stopped):
            return text
        return (b"", text.message) if shown.compat else b""

    return _escaped(control) if shown.careful else control


def _escaped(make: _text.Contents) -> _text.Contents:
    """The same text, safe on a terminal."""

    def safe(offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
        text = make(offset, key, value)
        return escape_bytes(text) if isinstance(text, bytes) else (escape_bytes(text[0]), text[1])

    return safe


class TextSink(DumpSink):
    """Writes items as text.

    Args:
        writer: takes what belongs on stdout.
        error: takes one line for stderr in Kafka's words.
        sentence: takes one line for stderr in ours.
        dialect: the release whose layout it is.
        contents: at the start of each file, what makes the text of its keys and payloads; None for UTF-8.
        listed: tells which findings and failures are said.
        careful: stdout is a terminal: no name may drive it.
        iso: times as ISO 8601.
    """

    def __init__(
        self,
        writer: TextWriter,
        error: Callable[[str], None],
        sentence: Callable[[str], None],
        dialect: Dialect,
        contents: Callable[[], Contents | None] | None = None,
        listed: Callable[[object], bool] = lambda _item: True,
        *,
        careful: bool = False,
        iso: bool = False,
    ) -> None:
        super().__init__(listed)
        self._careful = careful
        self._iso = iso
        self._writer = writer
        self._error = error
        self._sentence = sentence
        self._dialect = dialect
        self._contents = contents
        self._complaints = Complaints(dialect)
        self._findings = FindingLines(partial(self._stderr, to=sentence))

    @takes(Chunk, always=True)
    def _chunk(self, chunk: Chunk) -> str | None:
        """Write batches or records; return why Kafka's tool ends in the middle of them."""
        return self._writer.chunk(chunk)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._findings(finding)

    @takes(OpenFailure)
    def _problem(self, problem: OpenFailure) -> None:
        self._stderr(f"kdump: {escape(problem.sentence)}", self._sentence)

    @takes(Complaint, always=True)
    def _complaint(self, complaint: Complaint) -> None:
        """Keep a complaint of Kafka's tool until the end."""
        self._complaints.add(complaint)

    @takes(FileStart, always=True)
    def _file(self, file: FileStart) -> None:
        self._findings.end_of_file()
        self.go_on(file)
        self._line(f"Dumping {file.path}")

    @takes(FileTurn, always=True)
    def _turn(self, turn: FileTurn) -> None:
        self._file(turn.file)

    @takes(CaughtUp, always=True)
    def _caught_up(self, _item: CaughtUp) -> None:
        self._findings.end_of_file()
        self._writer.flush()

    @takes(SnapshotError, SanityFailed, always=True)
    def _message(self, item: SnapshotError | SanityFailed) -> None:
        self._stderr(item.message)

    @takes(SkippedFile, always=True)
    def _skipped(self, item: SkippedFile) -> None:
        self._stderr(self._name(f"Ignoring unknown file {item.path}"))

    @takes(Died, always=True)
    def _dead(self, item: Died) -> None:
        self.died(item.exception)

    @takes(OffsetEntries, always=True)
    def _offsets(self, item: OffsetEntries) -> None:
        pairs = zip(item.offsets, item.positions, strict=True)
        self._writer.text("".join([f"offset: {offset} position: {position}\n" for offset, position in pairs]))

    @takes(TimeEntries, always=True)
    def _times(self, item: TimeEntries) -> None:
        times: Iterable[int | str] = item.timestamps
        if self._iso:
            from kdump.words.times import time_text

            times = [time_text(time, as_iso=True) for time in item.timestamps]
        entries = zip(times, item.offsets, strict=True)
        self._writer.text("".join([f"timestamp: {time} offset: {offset}\n" for time, offset in entries]))

    @takes(IndexEmpty, always=True)
    def _index_empty(self, item: IndexEmpty) -> None:
        self._line(f"{item.path} is empty.")

    @takes(IndexPassed, always=True)
    def _index_passed(self, item: IndexPassed) -> None:
        self._line(f"{item.path} passed sanity check.")

    @takes(RecordsUnread, always=True)
    def _records_unread(self, _item: RecordsUnread) -> None:
        """Write nothing: it is said behind all."""

    @takes(LogStart, always=True)
    def _log_start(self, item: LogStart) -> None:
        self._writer.text(f"Log starting offset: {item.base_offset}\n")

    @takes(SnapshotStart, always=True)
    def _snapshot_start(self, item: SnapshotStart) -> None:
        end = f"Snapshot end offset: {item.end_offset}, epoch: {item.epoch}"
        self._writer.text("KRaft bootstrap snapshot\n" if item.end_offset is None else f"{end}\n")

    @takes(TrailingBytes, always=True)
    def _trailing_bytes(self, item: TrailingBytes) -> None:
        self._writer.text(f"Found {item.size} invalid bytes at the end of {item.name}\n")

    @takes(object, always=True)
    def _entry(self, item: Item) -> None:
        from kdump.render.text.state import state_text

        for text in state_text(item, self._dialect, iso=self._iso):
            self._writer.text(text)

    @property
    def state(self) -> object:
        """What was shown so far, as far as what comes next hangs on it."""
        return self._findings.found, self._complaints.pairs

    def resume(self, state: Any) -> None:  # noqa: ANN401 (what `state` was)
        """Go on from what another sink has shown."""
        self._findings.found, self._complaints.pairs = state

    def go_on(self, file: FileStart) -> None:
        """Take in hand a file that another sink has begun to show."""
        if self._contents is not None:
            self._writer.contents = self._contents()

    def is_bulk(self, item: Item) -> bool:
        """Tell whether what is written of an item hangs on nothing that was shown before."""
        return isinstance(item, Chunk | OffsetEntries | TimeEntries)

    def flush(self) -> None:
        """Write out what is collected."""
        self._writer.flush()

    def _name(self, line: str) -> str:
        return escape(line) if self._careful else line

    def _line(self, line: str) -> None:
        self._writer.text(f"{self._name(line)}\n")

    def end(self, *, dead: bool) -> None:
        """Write what is held back until all files are done; a tool that died says nothing more.

        Args:
            dead: Kafka's tool died.
        """
        self._findings.end_of_file()
        self._writer.flush()
        if not dead:
            for line in self._complaints.lines():
                self._error(self._name(line))

    def died(self, exception: str) -> None:
        """Write how Kafka's tool ends when it dies; nothing is said of what it had found."""
        self._stderr(f'Exception in thread "main" {exception}')

    def _stderr(self, line: str, to: Callable[[str], None] | None = None) -> None:
        self._writer.flush()  # stdout first: on a terminal the two are one
        (to or self._error)(line)


def _broken(shown: RecordFormat, dialect: Dialect) -> Broken:
    """Return the writer of messages whose key or value cannot be read."""
    first = b"| " if shown.skip_metadata else b" "

    def broken(offset: int, message: LegacyMessage) -> tuple[bytes, str | None]:
        from kdump.decode import classes, decoder
        from kdump.decode.broken_message import broken_message

        plain = classes(shown.key_class, shown.value_class, dialect.release)
        decode = decoder(shown.decoder, dialect.release) if shown.decoder is not None else plain
        decoded = broken_message(shown.decoder, None if isinstance(decode, str) else decode, offset, message)
        name, text = ("key", decoded.key) if decoded.payload is None else ("payload", decoded.payload)
        return (b"" if text is None else b"%b%b: %b" % (first, name.encode(), text)), decoded.stop

    return broken


class Complaints:
    """Collects complaints by file and kind.

    Args:
        dialect: the release whose words and order are wanted.

    Attributes:
        pairs: by kind and file, three numbers in turn: the two of a complaint, and how often it came.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.pairs: dict[ComplaintKind, dict[str, array[int]]] = {kind: {} for kind in ComplaintKind}

    def add(self, complaint: Complaint) -> None:
        """Keep one complaint."""
        held = self.pairs[complaint.kind].setdefault(complaint.path, array("q"))
        if held and held[-3] == complaint.first and held[-2] == complaint.second:
            held[-1] += complaint.times
        else:
            held.extend((complaint.first, complaint.second, complaint.times))

    def lines(self) -> Iterator[str]:
        """Yield the lines as the tool prints them.

        Source: DumpLogSegments.execute, TimeIndexDumpErrors.printErrors.
        """
        for path, pairs in self._in_map_order(ComplaintKind.MISMATCH):
            yield f"Mismatches in :{path}"
            for a, b in self._by_offset(pairs, newest_first=True):
                yield f"  Index offset: {a}, log offset: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.TIMESTAMP):
            yield f"Found timestamp mismatch in :{path}"
            for a, b in _each(pairs):
                yield f"  Index timestamp: {a}, log timestamp: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.UNORDERED):
            yield f"Found out of order timestamp in :{path}"
            for a, b in _each(pairs):
                yield f"  Index timestamp: {a}, Previously indexed timestamp: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.NOT_FOUND):
            if self._dialect.names_time_index:
                yield f"The following indexed offsets are not found in :{path}"
            else:
                yield "The following indexed offsets are not found in the log."
            for a, b in _each(pairs):
                yield f"Indexed offset: {a}, found log offset: {b}"
        for path, pairs in self._in_map_order(ComplaintKind.GAP):
            yield f"Non-consecutive offsets in {path}"
            for a, b in self._by_offset(pairs, newest_first=False):
                yield f"  {a} is followed by {b}"

    def _by_offset(self, held: array[int], *, newest_first: bool) -> Iterable[tuple[int, int]]:
        """Releases before 4.3 prepend to a list; 4.3 has a sorted map, where equal keys collapse."""
        if self._dialect.newest_first:
            return _each(held, newest_first=True)
        return sorted(dict(zip(held[::3], held[1::3], strict=True)).items(), reverse=newest_first)

    def _in_map_order(self, kind: ComplaintKind) -> list[tuple[str, array[int]]]:
        """The files as Java's HashMap or Scala's mutable.HashMap iterates over them.

        Both double their table at three quarters full: Java before an entry when there are more than that already,
        Scala before the one that would reach it. In one bucket Java has the newest first, Scala orders by hash.

        Source: java.util.HashMap.computeIfAbsent (JDK 17)
        """
        files = self.pairs[kind]
        size, scala = _TABLE_SIZE, self._dialect.scala_map
        while len(files) > (size * 3 // 4 - 1 if scala else size * 3 // 4 + 1):
            size *= 2
        hashes = {path: _java_hash(path) for path in files}

        def place(path: str) -> tuple[int, int]:
            value = hashes[path]
            signed = value - (1 << 32) if value >> 31 else value
            return value & (size - 1), signed if scala else 0

        return [(path, files[path]) for path in sorted(reversed(files), key=place)]  # noqa: C414 (the sort is stable)


def _each(held: array[int], *, newest_first: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the two numbers of each complaint, as often as it came."""
    places = range(0, len(held), 3)
    for at in reversed(places) if newest_first else places:
        for _ in range(held[at + 2]):
            yield held[at], held[at + 1]


def _java_hash(text: str) -> int:
    """Source: java.lang.String.hashCode, spread as HashMap.hash and scala's improveHash do (unsigned 32 bits)."""
    value = string_hash(text) & _INT
    return value ^ value >> 16
