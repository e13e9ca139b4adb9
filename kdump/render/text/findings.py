"""Findings as lines: one fact a line, in stable words that scripts can match."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.render.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.finding import Code, Finding, Severity

FOLD_AFTER = 100  # findings of one code in one file that are written out


class FindingCounts:
    """The number of findings in one file, and of those not written out.

    Args:
        fold: write out a hundred of each code and severity; without it all.
    """

    def __init__(self, *, fold: bool = True) -> None:
        self._fold = fold
        self._kinds: Counter[tuple[Code, Severity]] = Counter()
        self._written: Counter[tuple[Code, Severity]] = Counter()

    def add(self, finding: Finding) -> bool:
        """Count a finding; return whether it is to be written out."""
        kind = finding.code, finding.severity
        before = self._written[kind]
        self._kinds[kind] += 1 + (finding.more or 0)
        if self._fold and before == FOLD_AFTER:
            return False
        self._written[kind] += 1
        return True

    def folded(self) -> Iterator[tuple[Code, Severity, int]]:
        """Yield how many findings of each code and severity are not written out, or were only counted."""
        for (code, severity), count in self._kinds.items():
            more = count - self._written[code, severity]
            if more:
                yield code, severity, more

    def severities(self) -> Counter[Severity]:
        """Return how many findings of each severity there are."""
        counts: Counter[Severity] = Counter()
        for (_, severity), count in self._kinds.items():
            counts[severity] += count
        return counts


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


def fold_line(code: Code, severity: Severity, path: str, more: int) -> str:
    """Return the line for the findings of one code and severity in one file that are not written out."""
    return f"{severity.value} {code.name} {code.slug} {escape(path)} count={more}: {more} more like these"


class FindingLines:
    """A report that writes each finding as a line, and folds what repeats.

    Args:
        line: takes one line without its end.
    """

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self._found = FindingCounts()

    def __call__(self, finding: Finding) -> None:
        """Write a finding, unless a hundred of its kind were written for this file."""
        if self._found.add(finding):
            self._line(finding_line(finding))

    def end_of_file(self, path: str) -> None:
        """Say how many findings of each kind were folded, and start again for the next file."""
        for code, severity, more in self._found.folded():
            self._line(fold_line(code, severity, path, more))
        self._found = FindingCounts()
