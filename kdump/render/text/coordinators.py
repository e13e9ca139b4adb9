"""What groups, transactions and clusters came to, in words: one fact a line, stable; and the file of a reset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.render.coordinators import CoordinatorSink
from kdump.render.text.cluster import cluster_line, shown
from kdump.render.text.lines import TextLines
from kdump.rows.coordinators import (
    SHARE,
    ChangeRow,
    ClusterRow,
    CommitRow,
    GroupRow,
    Horizon,
    OpenRow,
    TransactionRow,
)
from kdump.words.escape import escape
from kdump.words.numbers import counted
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable


_RESET_SHARE = "the file is not for it, kafka-share-groups.sh --reset-offsets resets it"
CAUTION = "abort it only when its producer is gone for good: readers of committed data never see what it wrote"


def time(timestamp: int | None) -> str:
    """Return a time in ISO 8601, "none" where there is none."""
    return "none" if timestamp is None or timestamp < 0 else iso(timestamp)


def _horizon(item: Horizon) -> str | None:
    """Return the line where compaction has erased something; else all is exact, and each row says so."""
    if item.exact_from is None:
        return None
    return f"horizon {item.partition} exactFrom={time(item.exact_from)} offset={item.offset}"


def _word(value: bool | None) -> str:
    return "unknown" if value is None else str(value).lower()


def _number(value: int | None) -> str:
    return "none" if value is None else str(value)


def _commit(row: CommitRow) -> str:
    lag = "" if row.log_end_offset is None else f" logEndOffset={row.log_end_offset} lag={row.lag}"
    expires = "" if row.expire_timestamp is None else f" expires={time(row.expire_timestamp)}"
    metadata = f" metadata={shown(row.metadata)}" if row.metadata else ""
    pending = f" pending=true producerId={row.producer_id}" if row.pending else ""
    return (
        f"commit {shown(row.group)} {shown(row.topic)}-{row.partition} offset={row.offset}{lag}"
        f" leaderEpoch={_number(row.leader_epoch)} committed={time(row.commit_timestamp)}{expires}{pending}"
        f"{metadata} exact={_word(row.exact)}"
    )


def change_line(row: ChangeRow) -> str:
    """Return the line of a change."""
    times = row.field.endswith("Timestamp")
    before, after = (value_text(value, is_time=times) for value in (row.before, row.after))
    end = f": {row.stands_out}" if row.stands_out else ""
    return (
        f"change {row.what} {escape(row.name)} {row.field} before={before} after={after} "
        f"timestamp={time(row.timestamp)} partition={row.partition} offset={_number(row.offset)}{end}"
    )


def value_text(value: object, *, is_time: bool) -> str:
    """Return one side of a change as one word."""
    if isinstance(value, str):
        return shown(value)
    if value is None or (is_time and isinstance(value, int)):
        return time(value) if is_time else "none"
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _group(row: GroupRow) -> str:
    return (
        f"group {shown(row.group)} type={row.group_type} state={row.state} epoch={row.epoch} "
        f"protocol={shown(row.protocol)} members={row.members} timestamp={time(row.timestamp)} "
        f"partition={row.partition}{'' if row.exact else ' exact=false'}"
    )


def _transaction(row: TransactionRow) -> str:
    return (
        f"transaction {shown(row.transactional_id)} producerId={row.producer_id} "
        f"producerEpoch={row.producer_epoch} state={row.state} timeoutMs={row.timeout_ms} "
        f"start={time(row.start_timestamp)} lastUpdate={time(row.last_update_timestamp)} "
        f"partitions={','.join(map(shown, row.partitions)) or 'none'} exact={_word(row.exact)}"
    )


def _open(row: OpenRow) -> str:
    ids = f"producerId={row.producer_id} producerEpoch={row.producer_epoch}"
    name = "none" if row.transactional_id is None else shown(row.transactional_id)
    return (
        f"open {shown(row.topic)}-{row.partition} {ids} transactionalId={name} firstOffset={row.first_offset} "
        f"logEndOffset={row.log_end_offset} blockedRecords={row.blocked_records} blockedBytes={row.blocked_bytes} "
        f"since={time(row.since_timestamp)} coordinatorState={row.coordinator_state or 'none'} "
        f"coordinatorEpoch={_number(row.coordinator_epoch)} hanging={_word(row.hanging)}: {escape(row.why)}"
    )


_LINES: dict[type, Callable[[Any], str | None]] = {
    CommitRow: _commit,
    GroupRow: _group,
    Horizon: _horizon,
    TransactionRow: _transaction,
    OpenRow: _open,
    ClusterRow: cluster_line,
    ChangeRow: change_line,
}


def row_line(row: object) -> str | None:
    """Return the line of a row; None for one that has none."""
    return _LINES[type(row)](row)


def abort_lines(row: OpenRow) -> list[str]:
    """Return how a hanging transaction is ended, nothing for others."""
    if not row.hanging:
        return []
    return [
        f"  abort: {escape(row.abort_command)}",
        f"  abort before Kafka 3.0: {escape(row.abort_command_before30)}",
        f"  caution: {CAUTION}",
    ]


class CoordinatorText(CoordinatorSink, TextLines):
    """Writes a line for each row; findings go to stderr."""

    @takes(*_LINES)
    def _row(self, row: object) -> None:
        made = row_line(row)
        if made is not None:
            self._write(f"{made}\n")

    @takes(OpenRow)
    def _open(self, row: OpenRow) -> None:
        self._write("".join(f"{line}\n" for line in (_open(row), *abort_lines(row))))


class ResetCsv(CoordinatorSink, TextLines):
    """Writes committed offsets as `kafka-consumer-groups.sh --reset-offsets --from-file` reads them.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        asked: how many groups were asked for by name, 0 for all; with one the file has no column of the group.

    Attributes:
        refused: a group was left out: no such file can have its name, or it was asked for and is a share group.
    """

    def __init__(self, write: Callable[[str], None], error: Callable[[str], None], *, asked: int) -> None:
        super().__init__(write, error)
        self._asked = asked
        self._told: set[str] = set()
        self._shares: set[str] = set()
        self._written = self._inexact = 0
        self.refused = False

    @takes(GroupRow)
    def _group(self, row: GroupRow) -> None:
        """Remember a share group: it is left out."""
        if row.group_type == SHARE:
            self._shares.add(row.group)

    def end(self, _status: int) -> None:
        """Say what is left out, and how far the file can be trusted: it has no room for that."""
        self._end_of_partition()
        for name in sorted(self._shares):
            self.refused |= self._asked > 0
            self._error(f"kdump: group {escape(name)}: a share group is left out: {_RESET_SHARE}")
        if self._inexact:
            what = f"{self._inexact} of {counted(self._written, 'offset')} in the file"
            why = "newer commits may be lost or erased; the same command without --reset-csv says which"
            self._error(f"kdump: not exact: {what}: {why}")

    @takes(CommitRow)
    def _commit(self, row: CommitRow) -> None:
        if row.group_type == SHARE:
            self._shares.add(row.group)
            return
        if row.pending:
            return
        if "\n" in row.group or "\r" in row.group:
            self.refused = True
            if row.group not in self._told:
                self._told.add(row.group)
                self._error(f"kdump: group {row.group}: its name has a newline, a reset file cannot have it: left out")
            return
        self._written += 1
        self._inexact += not row.exact
        cells = [row.topic, str(row.partition), str(row.offset)]
        self._write(",".join(map(_cell, cells if self._asked == 1 else [row.group, *cells])) + "\n")


def _cell(text: str) -> str:
    """Source: RFC 4180."""
    if any(char in text for char in ',"\r\n'):
        inner = text.replace('"', '""')
        return f'"{inner}"'
    return text
