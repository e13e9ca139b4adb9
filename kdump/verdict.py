"""The verdict on something, in one word: the same one in text, lines, JSON, tables and HTML."""

from __future__ import annotations

from collections import Counter

from kdump.finding import Finding, Severity

SOUND, WARNING, DAMAGED, LOST, UNREAD = "SOUND", "WARNING", "DAMAGED", "LOST", "UNREAD"
VERDICTS = (SOUND, WARNING, DAMAGED, LOST, UNREAD)
"""Nothing is wrong, or notes only; warnings; errors; offsets are lost, and no error says more; it could not be read."""


class Judgement:
    """What was found in a file, a segment or a partition, and the word for it.

    Attributes:
        severities: how many findings of each severity there are, those that were only counted too.
    """

    def __init__(self) -> None:
        self.severities: Counter[Severity] = Counter()
        self._damages = 0  # errors that say more than that offsets are lost

    def add(self, finding: Finding) -> None:
        """Take one more finding into account, with those that it stands for."""
        self.severities[finding.severity] += 1 + (finding.more or 0)
        self._damages += finding.severity is Severity.ERROR and not finding.is_loss

    def join(self, other: Judgement) -> None:
        """Take what was found in a part of it into account."""
        self.severities.update(other.severities)
        self._damages += other._damages

    def word(self, *, is_lost: bool = False, is_unread: bool = False) -> str:
        """Return the verdict.

        Args:
            is_lost: offsets of it are lost: without an error too, as where a segment is gone.
            is_unread: it could not be read, or not all of it.
        """
        if self._damages:
            return DAMAGED
        if is_unread:
            return UNREAD
        if is_lost or self.severities[Severity.ERROR]:
            return LOST
        return WARNING if self.severities[Severity.WARNING] else SOUND
