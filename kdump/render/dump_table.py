"""A dump for people: one row a record, cut to the width; every other line of a file as facts.

The rows are made from the JSON of the same records: what one shows the other has.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.item import Complaint, FileStart, SanityFailed
from kdump.render.json.dump import DumpJson
from kdump.render.report.columns import write_sentence
from kdump.render.report.styled import Paper, Text, cell_len, clipped
from kdump.render.text.findings import FindingLines
from kdump.rows.fact_lines import facts, word
from kdump.words.escape import escape
from kdump.words.times import moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.render.json._json import Decode
    from kdump.render.json.writer import JsonWriter

_OFFSET, _TIME, _GAP = 10, 24, "  "  # columns, and what is between them
_LEAST_KEY = 8
_NULL = "null"
_CONTROL = "control"
_UNSHOWN = ("file", "segment", "batch", "finding", "summary")  # rows that have no line of their own


class RecordRows:
    """Makes rows of lines of JSON.

    Args:
        paper: what they are written on.
        raw: write keys and values as they are.
    """

    def __init__(self, paper: Paper, *, raw: bool) -> None:
        self._paper = paper
        self._safe: Callable[[str], str] = str if raw else escape
        self._begun = b""
        room = max(0, paper.width - _OFFSET - _TIME - 3 * len(_GAP))
        self._key = max(_LEAST_KEY, room // 4)
        self._rest = max(_LEAST_KEY, room - self._key)
        self._is_headed = False

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes of lines of JSON."""
        *lines, self._begun = (self._begun + bytes(data)).split(b"\n")
        for line in lines:
            self._row(json.loads(line))

    def _row(self, row: dict[str, Any]) -> None:
        kind = row.pop("type")
        if kind == "record":
            self._record(row)
        elif kind == "file":
            self._is_headed = False
            write_sentence(self._paper, Text(self._safe(_text(row["file"])), "bold"))
        elif kind not in _UNSHOWN:
            row.pop("file", None)
            for line in facts(kind, row).splitlines():
                write_sentence(self._paper, Text(f"  {line}"))

    def _record(self, row: dict[str, Any]) -> None:
        if not self._is_headed:
            self._is_headed = True
            heads = f"{'offset':>{_OFFSET}}{_GAP}{'time':<{_TIME}}{_GAP}{'key':<{self._key}}{_GAP}value"
            self._paper.line(Text(clipped(heads, self._paper.width), "bold"))
        time = row["timestamp"]
        shown = Text(f"{row['offset']:>{_OFFSET}}{_GAP}{moment(time) or time if time >= 0 else 'none':<{_TIME}}{_GAP}")
        if row.get("control") is not None:
            shown.append(_cut(f"{_CONTROL} {self._safe(_json(row['control']))}", self._key + self._rest), "cyan")
        else:
            self._cell(shown, self._told(row, "decodedKey", "key"), self._key)
            shown.append(_GAP)
            more = "".join(self._more(row))
            room = (
                self._rest - len(_GAP)
                if not more
                else max(_LEAST_KEY, self._rest - min(cell_len(more), self._rest // 2))
            )
            value = self._told(row, "decodedPayload", "payload")
            self._cell(shown, value, room, pads=bool(more))
            shown.append(_cut(more, max(0, self._paper.width - shown.cell_len)), "bright_black")
        plain = shown.plain
        fits = clipped(plain, self._paper.width)
        self._paper.line(shown.cut(0, len(fits.rstrip(" "))))

    def _told(self, row: dict[str, Any], *names: str) -> str | None:
        """Return the first of some members that there is, as text; None for null."""
        value = next((row[name] for name in names if row.get(name) is not None), None)
        if value is None:
            return None
        return self._safe(value if isinstance(value, str) else _json(value))

    def _cell(self, shown: Text, text: str | None, room: int, *, pads: bool = True) -> None:
        told = _cut(_NULL if text is None else text, room)
        shown.append(told, "bright_black" if text is None else "")
        if pads:
            shown.append(" " * (room - cell_len(told)))

    def _more(self, row: dict[str, Any]) -> list[str]:
        """Return the headers, and what became of the record."""
        headers = [
            f"{_GAP}{self._safe(_text(one['key']))}={self._safe(_text(one['value']))}"
            for one in row.get("headers") or ()
        ]
        fate = [
            f"{_GAP}{key}={word(value)}" for key, value in (row.get("fate") or {}).items() if value not in (None, False)
        ]
        return headers + fate


def _text(value: Any) -> str:  # noqa: ANN401 (JSON)
    """Return a text of JSON, or bytes that are no UTF-8, as text."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"]).decode("utf-8", "surrogateescape")
    return _NULL if value is None else str(value)


def _json(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict) and list(value) == ["base64"]:
        return _text(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(text: str, room: int) -> str:
    """Return as much of a text as there is room for, with a mark where something is left out."""
    return text if cell_len(text) <= room else f"{clipped(text, room - 1)}…" if room > 0 else ""


class DumpTable(DumpJson):
    """Writes items as tables; findings go to stderr, four of each code in a file.

    Args:
        writer: makes JSON of records, for `RecordRows`.
        decode: at the start of each file, what decodes its records; None for nothing.
        error: takes one line for stderr.
        listed: tells which findings are said.
    """

    def __init__(
        self,
        writer: JsonWriter,
        decode: Callable[[], Decode | None],
        error: Callable[[str], None],
        *,
        listed: Callable[[object], bool],
        quiet: bool,
    ) -> None:
        super().__init__(writer, decode, error, lambda: 0, deep=True, quiet=quiet)
        self._is_listed = listed
        self._findings = FindingLines(error)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        if self._is_listed(finding):
            self._writer.flush()
            self._findings(finding)

    @takes(Complaint, SanityFailed)
    def _complaint(self, complaint: Complaint | SanityFailed) -> None:
        if complaint.finding is not None:
            self._finding(complaint.finding)

    @takes(FileStart)
    def _start(self, file: FileStart) -> None:
        self._findings.end_of_file()
        super()._start(file)

    def end(self, *, dead: bool) -> None:
        """Write what is held back."""
        super().end(dead=dead)
        self._findings.end_of_file()
