"""Why there is no answer, in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.find.query import Ask

if TYPE_CHECKING:
    from kdump.broker.lookup_results import Refused
    from kdump.find.query import Query


class Sentences:
    """Words why there is no answer.

    Args:
        separators: numbers get thousands separators: a person reads them.
    """

    def __init__(self, *, separators: bool) -> None:
        self._number = "{:,}".format if separators else str

    def past_end(self, offset: int, end: int) -> str:
        """The offset is the end of the log, or beyond."""
        if offset == end:
            return f"offset {self._number(offset)} is the end of the log: the next record gets it"
        return f"offset {self._number(offset)} is past the end: the log ends at {self._number(end)}"

    def before_start(self, offset: int, start: int) -> str:
        """The offset is below the log start offset."""
        return f"offset {self._number(offset)} is before the start: the log begins at {self._number(start)}"

    def no_batch(self, offset: int) -> str:
        """The offset is inside the log, and a broker finds nothing."""
        return f"nothing is at or after offset {self._number(offset)}: a broker answers with no records"

    def refused(self, refused: Refused, path: str) -> str:
        """A broker throws, or the records that say more were not read.

        Args:
            refused: which of them.
            path: of the log that its place is in.
        """
        if refused.limit and refused.place is not None:
            at = self._number(refused.place[1])
            return f"not known: the records of the batch at byte {at} of {path} were not all read ({refused.limit})"
        return f"a broker fails here: {refused.exception}"

    def no_time(self, query: Query) -> str:
        """No record is late enough, or none has a timestamp."""
        return (
            f"no record is at or after {query.text.strip()}"
            if query.ask is not Ask.MAX
            else "no record has a timestamp"
        )

    def no_named(self, timestamp: int, index: str) -> str:
        """A broker does not find what a time index names as the largest timestamp.

        Args:
            timestamp: ms since the epoch.
            index: path of the time index.
        """
        return f"a broker finds no record with the timestamp {timestamp}, which {index} names as the largest"

    def broker_only(self, query: Query, reason: str) -> str:
        """A broker finds no record, and the data has one.

        Args:
            query: about a time, or the largest one.
            reason: why the broker does not; empty where findings say why.
        """
        what = "a broker finds no record"
        if query.ask is not Ask.MAX:
            what += f" at or after {query.text.strip()}"
        return f"{what}: {reason}" if reason else what
