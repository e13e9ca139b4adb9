"""What verify finds, for grep: `STATUS<TAB>PATH` for each file, behind its findings, and all rows as lines of facts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.item import Checked, PartitionChecked
from kdump.render.row_lines import RowLines
from kdump.rows.fact_lines import status_line
from kdump.rows.layout import LINES
from kdump.rows.steps import Step
from kdump.verdict import DAMAGED, LOST, SOUND, UNREAD, Judgement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.storage.file_source import OpenFailure
    from kdump.tally import Tally


class StatusLines(RowLines):
    """Writes lines; nothing is folded, and nothing is held but how much was found in the files in hand.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
        wanted: tells what is shown when little is to be shown, and the summary only below something else.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        error: Callable[[str], object],
        tally: Tally,
        wanted: Callable[[Any], bool] | None,
    ) -> None:
        super().__init__(self._said, error, tally, wanted, LINES)
        self._out = write
        self._is_silent = True
        self._group: dict[str, Judgement] = {}  # of the files in hand
        self._unread: set[str] = set()
        self._told: set[str] = set()  # directories of which the line of a file says that something is wrong

    def _said(self, text: str) -> None:
        self._is_silent = False
        self._out(text)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._group.setdefault(finding.file, Judgement()).add(finding)
        self._row(finding)

    @takes(Checked, always=True)
    def _checked(self, item: Checked) -> None:
        self._close([file.path for file in item.files])

    @takes(PartitionChecked, always=True)
    def _partition(self, item: PartitionChecked) -> None:
        """Say of a partition that offsets of it are lost, where no line of a file says that anything is wrong."""
        self._close(())
        if item.offsets_lost and _directory(os.path.join(item.path, "x")) not in self._told:
            self._write(status_line(LOST, item.path))

    @takes(Step)
    def _step(self, step: Step) -> None:
        self._close(())
        self._row(step)

    def end(self, status: int) -> None:
        """Write the summary; when little is to be shown, only below something else."""
        self._close(())
        if self._wanted is None or not self._is_silent:
            super().end(status)

    def _problem(self, problem: OpenFailure) -> None:
        self._unread.add(problem.path)
        self._write(status_line(UNREAD, problem.path))
        super()._problem(problem)

    def _close(self, judged: Iterable[str]) -> None:
        """Write what is known of the files of a group; what was found of others is about files that are not there."""
        for path in judged:
            verdict = self._group.pop(path, None)
            if verdict is not None or self._wanted is None:
                self._file(path, (verdict or Judgement()).word(), is_there=path not in self._unread)
        for path, verdict in self._group.items():
            self._file(path, verdict.word(), is_there=False)
        self._group.clear()
        self._unread.clear()

    def _file(self, path: str, word: str, *, is_there: bool) -> None:
        if is_there or word != SOUND:  # nobody calls a file sound that is not there, or that could not be read
            self._write(status_line(word, path))
        if word in (DAMAGED, LOST):
            self._told.add(_directory(path))


def _directory(path: str) -> str:
    return os.path.normpath(os.path.dirname(path) or os.curdir)
