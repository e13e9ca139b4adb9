"""The run of a verb: its items go to the sink and into the exit status, while a bar says how far it is."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import click

from kdump.finding import Finding, Severity
from kdump.item import Checked, PartitionChecked, Progress
from kdump.render.commentary import end_on_interrupt, fail_to_write
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.redact import Redactor
    from kdump.render.progress import Bar

    class Sink(Protocol):
        """Writes the items of one verb."""

        def __call__(self, item: Any, /) -> None:  # noqa: ANN401 (rows of each verb)
            """Write one item."""

        def end(self, status: int, /) -> None:
            """Write what all comes to."""

    class Outcome(Protocol):
        """Knows the exit status."""

        def see(self, item: Any, /) -> None:  # noqa: ANN401
            """Take one item into account."""

        @property
        def exit(self) -> int:
            """The exit status; asked for once all items were seen."""


class _Found:
    """What was found so far, for who interrupts a run."""

    def __init__(self) -> None:
        self._severities: Counter[Severity] = Counter()
        self._partitions = 0

    def see(self, item: object) -> None:
        """Take one item into account."""
        if isinstance(item, Finding):
            self._severities[item.severity] += 1 + (item.more or 0)
        self._partitions += isinstance(item, PartitionChecked)

    def words(self) -> str:
        """Return it as the end of a sentence."""
        told = [counted(self._partitions, "partition")] if self._partitions else []
        told += [counted(self._severities[one], one.value) for one in Severity if self._severities[one]]
        return f"; so far: {', '.join(told)}" if told else ""


def show(
    items: Iterator[Any],
    sink: Sink,
    outcome: Outcome,
    bar: Bar | None,
    redactor: Redactor | None = None,
    *,
    standing: Iterable[str] = (),
    hides_bar: bool = True,
) -> None:
    """Write every item and the end; where stdout takes no more, say so and end the process.

    What was written is in the hands of whoever reads stdout whenever files are judged, and at the end.

    Args:
        items: of the verb; progress goes to the bar and nowhere else.
        sink: writes them.
        outcome: of the run; it sees each item before the sink does.
        bar: gone before an item is written; None where nobody looks at it.
        redactor: hides what the sink may not see; None where all may be seen.
        standing: what was done even where stdout takes no more, a sentence each; asked for then.
        hides_bar: False for a sink that takes the bar away itself, as many items may make no line.
    """
    if redactor is not None:
        sink = redactor.before(sink)
    found = _Found()
    if bar is not None:
        bar.found = found.words
    else:
        verb = click.get_current_context().info_name
        end_on_interrupt(lambda: f"{verb} was interrupted{found.words()}")
    try:
        try:
            for item in items:
                if isinstance(item, Progress):
                    if bar is not None and item.total:
                        bar.show(item)
                    continue
                if bar is not None and hides_bar:
                    bar.hide()
                outcome.see(item)
                found.see(item)
                sink(item)
                if isinstance(item, Checked):
                    sys.stdout.flush()  # or a process that is forked now would write it once more
        finally:
            if bar is not None:
                bar.hide()
        sink.end(outcome.exit)
        sys.stdout.flush()
    except OSError as error:  # what is read has its own findings: this is where the text goes
        if isinstance(items, Generator):
            with suppress(OSError):
                items.close()  # let the verb put away what it has begun
        fail_to_write(error, *standing)
