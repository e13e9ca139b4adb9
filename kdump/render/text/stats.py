"""The sink of `dump --stats` as text: statistics on stdout, findings on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.finding import Finding
from kdump.format.record.chunk import Chunk
from kdump.item import Complaint, FileStart, OffsetEntries, SanityFailed, TimeEntries
from kdump.render.figures import figures_text
from kdump.render.text.findings import FindingLines
from kdump.rows.stats import Figures
from kdump.storage.file_source import OpenFailure
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.item import Item


class StatsLines:
    """Writes figures as text.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr, after all that stdout got.
        careful: stdout is a terminal: no name may drive it.
        listed: tells which findings and failures are said.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        error: Callable[[str], None],
        *,
        careful: bool,
        listed: Callable[[object], bool] = lambda _item: True,
    ) -> None:
        self._listed = listed
        self._write = write
        self._error = error
        self._careful = careful
        self._findings = FindingLines(error)

    def __call__(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, Finding | OpenFailure) and not self._listed(item):
            return
        if isinstance(item, Finding):
            self._findings(item)
        elif isinstance(item, Complaint | SanityFailed) and item.finding is not None:
            self._findings(item.finding)
        elif isinstance(item, FileStart):
            self._findings.end_of_file()
        elif isinstance(item, OpenFailure):
            self._error(f"kdump: {escape(item.sentence)}")
        elif isinstance(item, Figures):
            for text in figures_text(item):
                self._write(f"{escape(text) if self._careful else text}\n")

    @property
    def state(self) -> object:
        """What was shown so far, as far as what comes next hangs on it."""
        return self._findings.found

    def resume(self, state: Any) -> None:  # noqa: ANN401 (what `state` was)
        """Go on from what another sink has shown."""
        self._findings.found = state

    def go_on(self, file: FileStart) -> None:
        """Take in hand a file that another sink has begun to show: nothing is to be known of it."""

    def is_bulk(self, item: Item) -> bool:
        """Tell whether nothing is written of an item."""
        return isinstance(item, Chunk | OffsetEntries | TimeEntries)

    def share(self) -> object:
        """Return what was counted since `go_on`; nothing is."""
        return None

    def may_join(self, _state: object, _share: object) -> bool:
        """Tell whether what another sink has counted may be counted here: always."""
        return True

    def join(self, share: object) -> None:
        """Count what another sink has counted; nothing was."""

    def flush(self) -> None:
        """Nothing is collected."""

    def end(self, *, dead: bool) -> None:
        """Write how many findings were left out.

        Args:
            dead: for sinks that mirror Kafka's tool; here nothing dies.
        """
        assert not dead
        self._findings.end_of_file()

    def died(self, exception: str) -> None:
        """Kafka's tool has no such figures, and is not mirrored."""
        raise AssertionError(exception)
