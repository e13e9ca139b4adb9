"""Findings as lines: one fact a line, in stable words that scripts can match."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kdump.render.fold import FileFindings
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Finding
    from kdump.render.fold import Folded


_DOES = {  # the verb of a remedy that each repair is, and the words where a remedy does not end with it
    "truncate": ("truncate", "cut the log here"),
    "patch-header": ("restore the", "restore the header"),
    "reindex": ("rebuild", "rebuild it"),
}


def finding_line(finding: Finding) -> str:
    """Return the line of a finding: severity, code, name, place, numbers, sentence, remedy."""
    parts = [finding.severity.value, finding.code.name, finding.code.slug, _place(finding)]
    if finding.offset is not None:
        last = "" if finding.last_offset in (None, finding.offset) else f"..{finding.last_offset}"
        parts.append(f"offset={finding.offset}{last}")
    if finding.field is not None:
        parts.append(f"field={finding.field}")
    crc = finding.field == "crc"
    for name in ("found", "expected"):
        value = getattr(finding, name)
        if value is not None:
            parts.append(f"{name}={value:#010x}" if crc else f"{name}={value}")
    if finding.count is not None:
        parts.append(f"count={finding.count}")
    return f"{escape(' '.join(parts))}: {escape(finding.message)} -> {remedy_text(finding)}"


def _place(finding: Finding) -> str:
    if finding.position is None:
        return finding.file
    return f"{finding.file}:{finding.position}+{finding.length or 0}"


def remedy_text(finding: Finding) -> str:
    """Return what to do about a finding, the command last, right behind its own verb; safe to show."""
    remedy = escape(finding.remedy)
    if finding.repair is None:
        return remedy
    verb, words = _DOES[finding.repair.split(" ", 2)[1]]
    last = re.split("; |, or ", remedy)[-1]
    return f"{remedy}: {finding.repair}" if last.startswith(verb) else f"{remedy}; or {words}: {finding.repair}"


def fold_line(folded: Folded) -> str:
    """Return the line for findings of one code in one file that are not written out."""
    first, last = folded.first, folded.last
    parts = [first.severity.value, first.code.name, first.code.slug, _place(first)]
    if last.position is not None and last.position != first.position:
        parts[-1] += f"..{last.position}+{last.length or 0}"
    parts.append(f"count={folded.count}")
    if folded.because is not None:
        parts.append(f"because={folded.because.name}")
    return f"{escape(' '.join(parts))}: {escape(folded.sentence)} -> {escape(folded.remedy)}"


class FindingLines:
    """A report that writes each finding as a line, and folds what repeats.

    Args:
        line: takes one line without its end.
    """

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self.found = FileFindings()  # in the file in hand

    def __call__(self, finding: Finding) -> None:
        """Write a finding, unless four of its kind were written for this file."""
        if self.found.add(finding):
            self._line(finding_line(finding))

    def end_of_file(self) -> None:
        """Say how many findings of each kind were folded, and begin with the next file."""
        for folded in self.found.folded():
            self._line(fold_line(folded))
        self.found = FileFindings()
