"""What is said where a question about groups, transactions or a cluster has an empty answer: which logs were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.item import PartitionChecked
from kdump.render.not_searched import NotSearched
from kdump.render.terminal.numbers import counted
from kdump.state_rows import ChangeRow, ClusterRow, CommitRow, GroupRow, OpenRow, TransactionRow

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS = (ChangeRow, ClusterRow, CommitRow, GroupRow, OpenRow, TransactionRow)
_NAMED = 4  # logs


class ReadLogs:
    """Watches what a verb yields."""

    def __init__(self) -> None:
        self._is_found = False
        self._logs: list[str] = []
        self._not_read = NotSearched()

    def see(self, item: object) -> None:
        """Take one item into account."""
        if isinstance(item, _ROWS):
            self._is_found = True
        elif isinstance(item, PartitionChecked):
            span = ""  # where a snapshot told all, nothing was read
            if item.start_offset is not None and item.end_offset is not None:
                span = f" (offsets {item.start_offset}..{item.end_offset - 1})"
            self._logs.append(f"{item.path}{span}")
        self._not_read.see(item, is_lost=isinstance(item, Finding) and item.is_log_damage)

    def lines(self, asked: str) -> Iterator[str]:
        """Yield what to say, once all is done; nothing where there is an answer, or no log that could have one.

        Args:
            asked: for what, as the options say it; empty for all.
        """
        if self._is_found or not self._logs:
            return
        named, more = self._logs[:_NAMED], len(self._logs) - _NAMED
        rest = f" and {counted(more, 'more log')}" if more > 0 else ""
        yield f"nothing found{f' for {asked}' if asked else ''}; read: {', '.join(named)}{rest}"
        yield from self._not_read.lines()
