"""What a run has come to so far, for who interrupts it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from kdump.finding import Finding, Severity
from kdump.item import FileStart, FileTurn, PartitionChecked
from kdump.render.commentary import end_on_interrupt
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.render.progress import Bar


_PLURALS = {"batch": "batches"}


class SoFar:
    """Counts what a run has found, and knows the file in hand.

    Attributes:
        file: in hand; empty for none.
    """

    def __init__(self) -> None:
        self._severities: Counter[Severity] = Counter()
        self._counts: Counter[str] = Counter()
        self.file = ""

    def see(self, item: object) -> None:
        """Take one item into account."""
        if isinstance(item, Finding):
            self._severities[item.severity] += 1 + (item.more or 0)
        elif isinstance(item, FileStart | FileTurn):
            self.file = item.path if isinstance(item, FileStart) else item.file.path
        elif isinstance(item, PartitionChecked):
            self.add("partition")

    def add(self, noun: str, count: int = 1) -> None:
        """Count something else.

        Args:
            noun: what it is, one of them.
            count: how many.
        """
        self._counts[noun] += count

    def words(self) -> str:
        """Return it as the end of a sentence."""
        told = [counted(count, noun, _PLURALS.get(noun)) for noun, count in self._counts.items() if count]
        told += [counted(self._severities[one], one.value) for one in Severity if self._severities[one]]
        where = f" in {self.file}" if self.file else ""
        return f"{where}; so far: {', '.join(told)}" if told else where


def tell_so_far(bar: Bar | None, words: Callable[[], str]) -> None:
    """On Ctrl-C say what a run has come to so far.

    Args:
        bar: of the run, which says how far it is; None where nobody looks at one.
        words: returns it as the end of a sentence; names in it are made safe here.
    """
    from kdump.words.escape import escape  # who is not interrupted needs it later

    if bar is not None:
        bar.found = lambda: escape(words())
        return
    verb = click.get_current_context().info_name
    end_on_interrupt(lambda: f"{verb} was interrupted{escape(words())}")
