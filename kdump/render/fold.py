"""What of many findings is written out, and what is only counted: the same rule for every page that people read.

Of one code in one file four findings are shown, then one line says how many more there are, with the first and the last
of them. The effects of a cause are counted, each code by one line: the cause is told before them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.value import Value
from kdump.verdict import Judgement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.finding import Code, Finding, Severity

FOLD_AFTER = 4  # findings of one code in one file that are written out


class Folded(Value):
    """Findings of one code and severity in one file that are not written out."""

    # first, last: of them; the first has the code and the severity
    first: Finding
    last: Finding
    count: int  # how many; those that a finding counts as `more` are among them
    because: Code | None  # the cause of which they are effects; None where there are only too many

    @property
    def severity(self) -> Severity:
        """The severity of all of them."""
        return self.first.severity

    @property
    def sentence(self) -> str:
        """How many, why they are not shown, and what the first and the last say."""
        if self.because is not None:
            noun = "effect" if self.count == 1 else "effects"
            how = f"{self.count} {noun} of {self.because.name} {self.because.slug}"
        else:
            how = f"{self.count} more"
        if self.count == 1 or self.first.message == self.last.message:
            return f"{how}: {self.first.message}"
        return f"{how}, first: {self.first.message}; last: {self.last.message}"

    @property
    def remedy(self) -> str:
        """What to do about them: without what hangs on the place of one."""
        first = self.first
        if first.remedy == self.last.remedy:
            return first.remedy
        return first.replace(values={key: one for key, one in first.values.items() if key != "once"}).remedy


class FileFindings:
    """How much was found in one file, and what of it is not written out.

    Args:
        fold: write out four of each code and severity, and no effects; without it all.
    """

    def __init__(self, *, fold: bool = True) -> None:
        self._fold = fold
        self.verdict = Judgement()
        self._written: Counter[tuple[Code, Severity]] = Counter()
        self._folded: dict[tuple[Code, Severity, Code | None], Folded] = {}

    def add(self, finding: Finding) -> bool:
        """Count a finding; return whether it is to be written out."""
        kind = finding.code, finding.severity
        more = finding.more or 0
        self.verdict.add(finding)
        because = finding.because if self._fold else None
        is_shown = not self._fold or (because is None and self._written[kind] < FOLD_AFTER)
        self._written[kind] += is_shown
        count = more if is_shown else 1 + more
        if count:
            key = (*kind, because)
            known = self._folded.get(key)
            first = finding if known is None else known.first
            before = 0 if known is None else known.count
            self._folded[key] = Folded(first, finding, before + count, because)
        return is_shown

    def folded(self) -> Iterator[Folded]:
        """Yield what is not written out, or was only counted."""
        yield from self._folded.values()

    def severities(self) -> Counter[Severity]:
        """Return how many findings of each severity there are."""
        return +self.verdict.severities
