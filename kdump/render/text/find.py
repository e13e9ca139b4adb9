"""Answers of find as text: answers on stdout, findings and failures on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.finding import Severity, Trait
from kdump.render.commentary import say
from kdump.render.text.dump import text_writer
from kdump.render.text.findings import FindingLines
from kdump.rows.lookup import OffsetContent
from kdump.words.escape import escape
from kdump.words.times import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.finding import Finding
    from kdump.format.record.chunk import Chunk
    from kdump.rows.lookup import LookupAnswer


class FindText:
    """Writes answers as text.

    Args:
        path: of the partition, where what was left out is counted.
        many: there are many questions: each answer begins with its own, and one line of stdout belongs to each.
        of_many: several partitions answer: each answer begins with whose it is.
        raw: write names, keys and payloads as they are; a pipe gets the bytes of a record as Kafka's layout has them.
        notes: write all notes; else those about offsets that are missing before an answer.
        fit: wraps lines; None where each answer is to be one line.
    """

    def __init__(
        self,
        path: str,
        *,
        many: bool,
        of_many: bool = False,
        raw: bool,
        notes: bool,
        fit: Callable[[str], str] | None = None,
    ) -> None:
        self._fit = fit
        self._notes = notes
        self._path = path
        self._many = many
        self._of_many = of_many
        self._raw = raw
        self._writer = text_writer(careful=sys.stdout.isatty() and not raw)
        self._findings = FindingLines(self._error)

    def location(self, location: LookupAnswer) -> None:
        """Write an answer; nothing that was found goes to stderr where it was the one question."""
        if location.error is not None and not (self._many or self._of_many):
            self._error(f"kdump: {escape(location.error)}")
            return
        line = location_line(location, with_query=self._many)
        if self._of_many and location.partition is not None:
            line = f"{location.partition}  {line}"
        line = f"{line if self._raw else escape(line)}\n"
        self._writer.text(line if self._fit is None else self._fit(line))

    def finding(self, finding: Finding) -> None:
        """Write a finding to stderr, unless there were many like it."""
        is_wanted = self._notes or Trait.HOLE in finding.code.traits
        if is_wanted or finding.severity is not Severity.NOTE:
            self._findings(finding)

    def chunk(self, _file: str, chunk: Chunk) -> None:
        """Write a batch or a record in dump's layout."""
        self._writer.chunk(chunk)

    def flush(self) -> None:
        """Write out what is held: another program may wait for the answer."""
        self._writer.flush()
        sys.stdout.flush()

    def end(self) -> None:
        """Write out what is held, and how many findings were left out."""
        self._findings.end_of_file()
        self.flush()

    def _error(self, line: str) -> None:
        self._writer.flush()
        say(line)


def location_line(location: LookupAnswer, *, with_query: bool) -> str:
    """Return the line of an answer, without its end; fields that it has no value for are left out.

    Args:
        location: the answer.
        with_query: begin with the question, where there are many.
    """
    line = f"query: {location.query.strip()} " if with_query else ""
    if location.error is not None:
        return f"{line}nothing: {location.error}"
    timestamp = location.timestamp
    values = (
        ("offset", location.offset),
        ("timestamp", None if timestamp is None or timestamp < 0 else f"{timestamp}{iso(timestamp)}"),
        ("leaderEpoch", location.leader_epoch),
        ("file", location.file),
        ("position", location.position),
        ("baseOffset", location.base_offset),
        ("lastOffset", location.last_offset),
        *_leads_to(location),
    )
    for name, value in values:
        if value is not None:
            line += f"{name}: {value} "
    return line[:-1]


def _leads_to(location: LookupAnswer) -> Iterator[tuple[str, object]]:
    """Yield what stands at the offset, and what comes next, where that is not simply the record of the answer."""
    if location.what is None or (location.what is OffsetContent.RECORD and location.next_committed == location.offset):
        return
    yield "what", location.what.value
    yield "next", "none" if location.next is None else location.next
    yield "nextCommitted", "none" if location.next_committed is None else location.next_committed


def iso(timestamp: int) -> str:
    """Return a time as ISO 8601 in UTC, in brackets after a blank; nothing where the calendar ends.

    Args:
        timestamp: ms since the epoch.
    """
    shown = moment(timestamp)
    return f" ({shown})" if shown else ""
