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
        wants: tells whether a group is asked for.

    Reports: R07.
    """

    def __init__(
        self,
        log: PartitionLog,
        report: Callable[[Finding | OpenFailure], None],
        topic: str,
        wants: Callable[[str], bool] = lambda _group: True,
    ) -> None:
        self._log = log
        self._wants = wants
        self._report = report
        self._topic = topic
        self._told: set[tuple[int, str]] = set()

    def __call__(self, place: CommitPlace, why: str, *, group: str | None = None, is_state: bool = False) -> None:
        """Take a record.

        Args:
            place: of the record.
            why: no coordinator reads it.
            group: that it is about; None where nobody knows, or for other records.
            is_state: only what stands before it makes it so: where damage lies there, that is the cause.
        """
        if (place.offset, why) in self._told or not (group is None or self._wants(group)):
            return
        self._told.add((place.offset, why))
        file = place.path or self._log.path(self._log.segment_of(place.offset))
        position, size = (place.position, place.size) if place.position >= 0 else (None, None)
        values: dict[str, int | str | None] = {"topic": self._topic, "why": why}
        cause = self._log.damage_before(file, max(0, place.position)) if is_state else None
        if cause is not None:
            values["also"] = f"as {cause.name} before it may have lost what changed that"
            values["remedy"] = f"as for {cause.name}: this is an effect of it"
        self._report(Finding(Code.R07, file, position, size, offset=place.offset, values=values, because=cause))
        self._log.doubt(self._log.segment_of(place.offset), max(0, place.position), place.timestamp)
