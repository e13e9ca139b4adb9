"""The run of a verb: its items go to the sink and into the exit status, while a bar says how far it is."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from kdump.cli.so_far import SoFar, tell_so_far
from kdump.item import Checked, Progress
from kdump.render.commentary import fail_to_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.redact import Redactor
    from kdump.render.progress import Bar
    from kdump.row import Row

    class Sink(Protocol):
        """Writes the items of one verb."""

        def __call__(self, item: Any, /) -> None:  # noqa: ANN401 (rows of each verb)
            """Write one item."""

        def end(self, status: int, /) -> None:
            """Write what all comes to."""

        def write_held(self) -> None:
            """Write what is held for the end: the run is interrupted."""

    class Outcome(Protocol):
        """Knows the exit status."""

        def see(self, item: Any, /) -> None:  # noqa: ANN401
            """Take one item into account."""

        @property
        def exit(self) -> int:
            """The exit status; asked for once all items were seen."""


def show(
    items: Iterator[Any],
    sink: Sink,
    outcome: Outcome,
    bar: Bar | None,
    redactor: Redactor | None = None,
    *,
    standing: Iterable[str] = (),
    hides_bar: bool = True,
    counts: type[Row] | None = None,
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
        counts: rows that who interrupts is told the number of; None for none.
        hides_bar: False for a sink that takes the bar away itself, as many items may make no line.
    """
    held = sink.write_held
    if redactor is not None:
        sink = redactor.before(sink)
    found = SoFar()

    def words() -> str:
        with suppress(OSError, RuntimeError, ValueError):  # stdout was at work itself, or is gone
            held()
            sys.stdout.flush()
        return found.words()

    tell_so_far(bar, words)
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
                if counts is not None and isinstance(item, counts):
                    found.add(counts.row_name)
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
