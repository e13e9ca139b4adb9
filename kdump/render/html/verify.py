"""What verify finds as an HTML page that can be sent on: one file, which asks for nothing and runs nothing.

A page begins with what is known at the end, so it is written then: the items are put to the files and partitions that
they belong to as they come (`collected`), and the sections are made from these (`sections`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.render.html.collected import Collected
from kdump.render.html.page import MAX_BYTES, pieces
from kdump.render.html.sections import Report
from kdump.render.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.item import Item
    from kdump.render.html.sections import ReportOrigin
    from kdump.tally import Tally


class VerifyHtml(Sink):
    """Writes what is checked as a page.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
        paths: what the user named.
        origin: how the run came about.
        fold: write out four findings of each code in a file and no effects, and fold more where the page gets too
            large to be sent.
        wanted: tells what is shown when little is to be shown; None for everything.
        replicas: the paths are replicas of each other.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        error: Callable[[str], None],
        tally: Tally,
        paths: Sequence[str],
        origin: ReportOrigin,
        *,
        fold: bool,
        wanted: Callable[[Item], bool] | None,
        replicas: bool,
    ) -> None:
        super().__init__(write, error, tally)
        self._tally = tally
        self._origin = origin
        self._fold = fold
        self._replicas = replicas
        self._is_quiet = wanted is not None
        self._found = Collected(paths, fold=fold, wanted=wanted, keep=replicas)

    def __call__(self, item: object) -> None:
        """Take one item."""
        super().__call__(item)
        self._found.see(item)

    def end(self, code: int) -> None:
        """Write the page.

        Args:
            code: the exit status.
        """
        report = Report(self._found, self._tally, self._origin, code, replicas=self._replicas, is_quiet=self._is_quiet)
        known = frozenset(code.name for code in self._found.codes)
        for piece in pieces(report.head, report.sections, MAX_BYTES if self._fold else None, known):
            self._write(piece)
