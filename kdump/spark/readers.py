"""What the readers of the data source share: their tasks, and what becomes of what cannot be opened."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kdump.spark.errors import UnreadError
from kdump.spark.source_options import OptionError
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.finding import Finding
    from kdump.spark.source_options import SourceOptions
    from kdump.storage.sighting import Unseen

_HELP = "option mode=permissive reads the rest, and the table unread has what was left out"


class Task(InputPartition):
    """The work of one task; None for a relation without any."""

    def __init__(self, work: Any) -> None:  # noqa: ANN401 (a list of splits, or of directories)
        super().__init__(work)
        self.work = work


def tasks_of(groups: list[list[Any]]) -> list[InputPartition]:
    """Return the tasks of some groups of work; one where there is none."""
    return [Task(group) for group in groups] or [Task([])]


def complain(problem: OpenFailure) -> None:
    """Say on the standard error of the task what is left out; no row can."""
    sys.stderr.write(f"kafka-segments: {problem.sentence}\n")


class Reader(DataSourceReader):
    """What all readers share: what cannot be opened ends the work, or is left out.

    Args:
        options: of the relation.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @property
    def options(self) -> SourceOptions:
        """The options of the relation."""
        return self._options

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the work."""
        self._options.demand_selected()
        return self.planned()

    def planned(self) -> Sequence[InputPartition]:
        """Plan the work of a table."""
        raise NotImplementedError

    def _plan_without(self, problem: OpenFailure | Finding) -> None:
        """Take what cannot be opened where the work is planned."""
        if isinstance(problem, OpenFailure) and problem.is_of_opening:
            if not self._options.is_permissive:
                raise OptionError(f"{problem.sentence} ({_HELP})")
            complain(problem)

    def _go_without(self, problem: OpenFailure) -> None:
        """Take what cannot be opened, or not be read to its end, where the work is done."""
        if problem.is_of_opening and not self._options.is_permissive:
            raise UnreadError(f"{problem.sentence} ({_HELP})")
        complain(problem)

    def _misses(self, unseen: list[Unseen]) -> bool:
        """Take what is not there where the work is done; tell whether that is a fault: what was removed is none."""
        for one in unseen:
            if one.is_gone:
                complain(one.failure)
            else:
                self._go_without(one.failure)
        return any(not one.is_gone for one in unseen)
