"""The base of the readers of small text files: lines and fields as Java splits them, and their findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kdump.finding import Code, Finding
from kdump.format.java_values import IO_CLASSES, NOT_UTF8, JavaComplaint
from kdump.format.kinds import FileKind
from kdump.value import TupleValue, pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from kdump.finding import Report

_CODES = {FileKind.PARTITION_METADATA: Code.K05, FileKind.EPOCHS: Code.K04}
MAX_FINDINGS = 100  # of one file; one more stands for all the rest

_BUFFER = 8192  # bytes that Java decodes at a time: of one that is no UTF-8, the lines before it in there are not seen
_LINE_END = pattern(rb"\r\n|\n|\r")  # BufferedReader.readLine


class Property(TupleValue):
    """One named value: text, or what JSON had there (nested JSON as compact text)."""

    name: str
    value: str | int | None


Properties: TypeAlias = tuple[int | None, list[Property]]
"""The version of a file, where it tells one, and its entries."""


_REMEDIES = {  # of those that are no checkpoint of offsets
    FileKind.META_PROPERTIES: "while the broker is stopped, restore this very file from a backup, or write it again:"
    " kdump explain K03 names its lines",
    FileKind.QUORUM_STATE: "while the broker is stopped, restore this very file from a backup; kdump explain K03 says"
    " what it costs to do without",
}
_ENDS = (
    "copy the file from another partition of the topic, or another replica, or write its two lines, `version: 0` and "
    "`topic_id: ID`, the ID by kdump cluster (topicId): a broker ends when it starts"
)


class TextDamage:
    """Reports the damaged places of one file, and all beyond the first hundred as one.

    Args:
        kind: which file it is.
        name: what messages call it.
        report: takes the findings.

    Reports: K05 for partition.metadata, K04 for leader-epoch-checkpoint, K03 for all others.
    """

    def __init__(self, kind: FileKind, name: str, report: Report) -> None:
        self.name = name
        self.count = 0
        self._code = _CODES.get(kind, Code.K03)
        self._remedy = _REMEDIES.get(kind)
        self._report = report
        self._rest = (0, 0)
        self._ends_broker = False  # an exception that is none of reading: no broker takes it for a fault of the disk
        self._undecoded = 0  # where the buffer begins in which Java meets bytes that are no UTF-8 first
        self._behind = 0  # and where the line of these is; 0 where no complaint is waiting for theirs
        self._waiting: list[tuple[int, int, JavaComplaint]] = []

    def read(self, data: bytes) -> None:
        """Let bytes that are no UTF-8 come before complaints of lines that Java decodes with them.

        Args:
            data: the file, which Java reads by lines.

        Source: BufferedReader, StreamDecoder.
        """
        try:
            data.decode()
        except UnicodeDecodeError as error:
            self._undecoded = error.start // _BUFFER * _BUFFER
            self._behind = max((end.end() for end in _LINE_END.finditer(data, 0, error.start)), default=0)

    def add(self, position: int, length: int, complaint: JavaComplaint | None) -> None:
        """Report one place, unless there is nothing to complain about."""
        if complaint is None:
            return
        if position < self._behind and position + length >= self._undecoded:
            self._waiting.append((position, length, complaint))
            return
        self._report_place(position, length, complaint)
        if position >= self._behind:
            self._release()

    def _release(self) -> None:
        """Report what has waited."""
        self._behind, waiting = 0, self._waiting
        self._waiting = []
        for one in waiting:
            self._report_place(*one)

    def _report_place(self, position: int, length: int, complaint: JavaComplaint) -> None:
        if self.is_full:
            self.count_place(position, length)
            return
        self.count += 1
        values: dict[str, int | str | None] = {"why": complaint.why, "exception": complaint.exception}
        if complaint.is_caught:
            values["caught"] = complaint.exception
        if self.count == 1:  # a broker meets no other
            self._ends_broker = complaint.exception not in (None, *IO_CLASSES)
        if self._code is Code.K05 and self._ends_broker:
            values["remedy"] = _ENDS
        elif self._remedy is not None:
            values["remedy"] = self._remedy
        self._report(Finding(self._code, self.name, position, length, values=values))

    @property
    def is_full(self) -> bool:
        """Whether further places are only counted."""
        return self.count >= MAX_FINDINGS

    def count_place(self, position: int, length: int) -> None:
        """Count one more place, whatever is wrong there."""
        self.count += 1
        first = position if self.count == MAX_FINDINGS + 1 else self._rest[0]
        self._rest = (first, position + length)

    def finish(self) -> None:
        """Report what is beyond the first hundred, and what still waits."""
        self._release()
        more = self.count - MAX_FINDINGS
        if more > 0:
            first, end = self._rest
            values = {"why": f"{more} more places like these", "exception": None}
            self._report(Finding(self._code, self.name, first, end - first, count=more, values=values))


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of each line without its end."""
    start = 0
    for end in _LINE_END.finditer(data):
        yield start, data[start : end.start()]
        start = end.end()
    if start < len(data):
        yield start, data[start:]


def line_at(data: bytes, start: int) -> bytes:
    """Return the line that begins at `start`, without its end."""
    end = _LINE_END.search(data, start)
    return data[start : end.start() if end else None]


def text_of(line: bytes) -> str | JavaComplaint:
    """Decode the UTF-8 of a line."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return JavaComplaint("the line is not UTF-8", NOT_UTF8)


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split as Java does: empty parts at the end do not count, but a text without a match is one part."""
    parts = pattern.split(text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if len(parts) > 1 or parts[0] or not text else []
