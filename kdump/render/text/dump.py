"""The sink of dump's text: takes items in order, writes Kafka's lines to stdout and the commentary to stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.format.record.chunk import Chunk
from kdump.item import (
    Complaint,
    Died,
    FileStart,
    IndexEmpty,
    IndexPassed,
    LogStart,
    OffsetEntries,
    SanityFailed,
    SnapshotError,
    SnapshotStart,
    TimeEntries,
    TrailingBytes,
    Unknown,
)
from kdump.render.escape import escape
from kdump.render.text.complaints import Complaints
from kdump.render.text.findings import FindingLines
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.compat.dialect import Dialect
    from kdump.item import Item
    from kdump.render.text._text import Contents
    from kdump.render.text.writer import TextWriter


class TextSink:
    """Writes items as text.

    Args:
        writer: takes what belongs on stdout.
        error: takes one line for stderr.
        dialect: the release whose layout it is.
        contents: at the start of each file, what makes the text of its keys and payloads; None for UTF-8.
        careful: stdout is a terminal: no name may drive it.
        iso: times as ISO 8601.
    """

    def __init__(
        self,
        writer: TextWriter,
        error: Callable[[str], None],
        dialect: Dialect,
        contents: Callable[[], Contents | None] | None = None,
        *,
        careful: bool = False,
        iso: bool = False,
    ) -> None:
        self._careful = careful
        self._iso = iso
        self._writer = writer
        self._error = error
        self._dialect = dialect
        self._contents = contents
        self._complaints = Complaints(dialect)
        self._findings = FindingLines(self._stderr)
        self._path = ""

    def __call__(self, item: Item) -> str | None:
        """Write one item.

        Returns:
            Why Kafka's tool ends in the middle of it; None when it does not.
        """
        if isinstance(item, Chunk):
            return self._writer.chunk(item)
        if isinstance(item, Finding):
            self._findings(item)
        elif isinstance(item, Complaint):
            self._complaints.add(item)
        elif isinstance(item, FileStart):
            self._findings.end_of_file(self._path)
            self._path = item.path
            if self._contents is not None:
                self._writer.contents = self._contents()
            self._line(f"Dumping {item.path}")
        elif isinstance(item, SnapshotError | SanityFailed):
            self._stderr(item.message)
        elif isinstance(item, OpenFailure):
            self._stderr(f"kdump: {escape(item.sentence)}")
        elif isinstance(item, Unknown):
            self._stderr(self._name(f"Ignoring unknown file {item.path}"))
        elif isinstance(item, Died):
            self.died(item.exception)
        else:
            for text in self._texts(item):
                self._writer.text(text)
        return None

    def _name(self, line: str) -> str:
        return escape(line) if self._careful else line

    def _line(self, line: str) -> None:
        self._writer.text(f"{self._name(line)}\n")

    def end(self, *, dead: bool) -> None:
        """Write what is held back until all files are done; a tool that died says nothing more.

        Args:
            dead: Kafka's tool died.
        """
        self._findings.end_of_file(self._path)
        self._writer.flush()
        if not dead:
            for line in self._complaints.lines():
                self._error(self._name(line))

    def died(self, exception: str) -> None:
        """Write how Kafka's tool ends when it dies; nothing is said of what it had found."""
        self._stderr(f'Exception in thread "main" {exception}')

    def _stderr(self, line: str) -> None:
        self._writer.flush()  # stdout first: on a terminal the two are one
        self._error(line)

    def _texts(self, item: Item) -> Iterable[str]:
        if isinstance(item, OffsetEntries):
            pairs = zip(item.offsets, item.positions, strict=True)
            return ["".join([f"offset: {offset} position: {position}\n" for offset, position in pairs])]
        if isinstance(item, TimeEntries):
            times: Iterable[int | str] = item.timestamps
            if self._iso:
                from kdump.render.times import time_text

                times = [time_text(time, as_iso=True) for time in item.timestamps]
            entries = zip(times, item.offsets, strict=True)
            return ["".join([f"timestamp: {time} offset: {offset}\n" for time, offset in entries])]
        if isinstance(item, IndexEmpty):
            return [f"{self._name(item.path)} is empty.\n"]
        if isinstance(item, IndexPassed):
            return [f"{self._name(item.path)} passed sanity check.\n"]
        return _edge(item, self._dialect, iso=self._iso)


def _edge(item: Item, dialect: Dialect, *, iso: bool) -> Iterable[str]:
    """What stands at the beginning or the end of a file."""
    if isinstance(item, LogStart):
        return [f"Log starting offset: {item.base_offset}\n"]
    if isinstance(item, SnapshotStart):
        if item.end_offset is None:
            return ["KRaft bootstrap snapshot\n"]
        return [f"Snapshot end offset: {item.end_offset}, epoch: {item.epoch}\n"]
    if isinstance(item, TrailingBytes):
        return [f"Found {item.size} invalid bytes at the end of {item.name}\n"]
    from kdump.render.text.state import state_text

    return state_text(item, dialect, iso=iso)
