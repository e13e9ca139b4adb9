"""What to say of a record that no coordinator could read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.state.group_coordinator import CommitPlace
    from kdump.state.partition_log import PartitionLog
    from kdump.storage.file_source import OpenFailure


class Doubt:
    """Reports what is no record that a coordinator reads; from there on the log is not exact.

    Args:
        log: of the partition.
        report: takes findings.
        topic: of the partition.

    Reports: R07.
    """

    def __init__(self, log: PartitionLog, report: Callable[[Finding | OpenFailure], None], topic: str) -> None:
        self._log = log
        self._report = report
        self._topic = topic
        self._told: set[tuple[int, str]] = set()

    def __call__(self, place: CommitPlace, why: str) -> None:
        """Take a record."""
        if (place.offset, why) in self._told:
            return
        self._told.add((place.offset, why))
        file = place.path or self._log.path(self._log.segment_of(place.offset))
        position, size = (place.position, place.size) if place.position >= 0 else (None, None)
        values: dict[str, int | str | None] = {"topic": self._topic, "why": why}
        self._report(Finding(Code.R07, file, position, size, offset=place.offset, values=values))
        self._log.doubt(self._log.segment_of(place.offset), max(0, place.position), place.timestamp)
