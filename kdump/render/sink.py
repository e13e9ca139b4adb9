"""What the sinks of all verbs have in common: one method for each type of item, and failures that read alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kdump.dispatch import Dispatcher, takes
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    class Watch(Protocol):
        """Adds up what a run comes to."""

        def see(self, item: Any, /) -> None:  # noqa: ANN401 (of any verb)
            """Take one item into account."""


class Sink(Dispatcher):
    """Writes the items of a verb, and at the end what all comes to.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr, and makes it safe to show.
        tally: sees every item before it is written; None where nothing adds up.
        wanted: tells what is shown when little is to be shown; None for everything.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        error: Callable[[str], object],
        tally: Watch | None = None,
        wanted: Callable[[Any], bool] | None = None,
    ) -> None:
        self._write = write
        self._error = error
        self._watch = tally
        self._wanted = wanted

    def __call__(self, item: object) -> None:
        """Write one item."""
        if self._watch is not None:
            self._watch.see(item)
        self.take(item, self._wanted)

    @takes(OpenFailure)
    def _problem(self, problem: OpenFailure) -> None:
        self._error(f"kdump: {problem.sentence}")

    def write_held(self) -> None:
        """Write what is held for the end, as the run is interrupted: here nothing."""

    def end(self, status: int) -> None:
        """Write what all comes to: here nothing.

        Args:
            status: the exit status.
        """
