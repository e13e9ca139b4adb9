"""Findings as lines: one fact a line, in stable words that scripts can match."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.render.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Code, Finding

FOLD_AFTER = 100  # findings of one code in one file that are written out


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
    return f"{escape(' '.join(parts))}: {escape(finding.message)} -> {escape(finding.remedy)}"


def _place(finding: Finding) -> str:
    if finding.position is None:
        return finding.file
    return f"{finding.file}:{finding.position}+{finding.length or 0}"


class FindingLines:
    """A report that writes each finding as a line, and folds what repeats.

    Args:
        line: takes one line without its end.
    """

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self._counts: Counter[Code] = Counter()

    def __call__(self, finding: Finding) -> None:
        """Write a finding, unless a hundred of its code were written for this file."""
        self._counts[finding.code] += 1
        if self._counts[finding.code] <= FOLD_AFTER:
            self._line(finding_line(finding))

    def end_of_file(self, path: str) -> None:
        """Say how many findings of each code were folded, and begin anew for the next file."""
        for code, count in self._counts.items():
            if count > FOLD_AFTER:
                more = count - FOLD_AFTER
                severity = code.severity.value
                self._line(f"{severity} {code.name} {code.slug} {escape(path)} count={more}: {more} more like these")
        self._counts.clear()
