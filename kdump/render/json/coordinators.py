"""What groups, transactions and the metadata log came to, as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.render.json.lines import finding_json, line, safe_text, summary_json
from kdump.render.text.coordinators import copies_line
from kdump.state_rows import (
    ChangeRow,
    ClusterRow,
    CommitRow,
    CopyChosen,
    GroupRow,
    Horizon,
    OpenRow,
    Remark,
    TransactionRow,
)
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.render.tally import Tally


def group_fields(row: GroupRow) -> dict[str, object]:
    """Return the keys of a group."""
    return {
        "group": row.group,
        "groupType": row.group_type,
        "state": row.state,
        "epoch": row.epoch,
        "protocol": row.protocol,
        "members": row.members,
        "timestamp": row.timestamp,
        "partition": row.partition,
    }


def commit_fields(row: CommitRow) -> dict[str, object]:
    """Return the keys of a commit."""
    return {
        "group": row.group,
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "leaderEpoch": row.leader_epoch,
        "metadata": row.metadata,
        "commitTimestamp": row.commit_timestamp,
        "expireTimestamp": row.expire_timestamp,
        "pending": row.pending,
        "producerId": row.producer_id,
        "logEndOffset": row.log_end_offset,
        "lag": row.lag,
        "exact": row.exact,
    }


def transaction_fields(row: TransactionRow) -> dict[str, object]:
    """Return the keys of a transaction."""
    return {
        "transactionalId": row.transactional_id,
        "producerId": row.producer_id,
        "producerEpoch": row.producer_epoch,
        "state": row.state,
        "timeoutMs": row.timeout_ms,
        "startTimestamp": row.start_timestamp,
        "lastUpdateTimestamp": row.last_update_timestamp,
        "partitions": list(row.partitions),
        "exact": row.exact,
    }


def open_fields(row: OpenRow) -> dict[str, object]:
    """Return the keys of an open transaction."""
    return {
        "topic": row.topic,
        "partition": row.partition,
        "producerId": row.producer_id,
        "producerEpoch": row.producer_epoch,
        "transactionalId": row.transactional_id,
        "firstOffset": row.first_offset,
        "logEndOffset": row.log_end_offset,
        "blockedRecords": row.blocked_records,
        "blockedBytes": row.blocked_bytes,
        "sinceTimestamp": row.since_timestamp,
        "coordinatorState": row.coordinator_state,
        "coordinatorEpoch": row.coordinator_epoch,
        "hanging": row.hanging,
        "why": row.why,
        "abortCommand": row.abort_command,
        "abortCommandBefore30": row.abort_command_before_30,
    }


def _horizon(row: Horizon) -> dict[str, object]:
    return {"partition": row.partition, "exactFrom": row.exact_from, "offset": row.offset}


def _change(row: ChangeRow) -> dict[str, object]:
    return {
        "what": row.what,
        "name": row.name,
        "partition": row.partition,
        "field": row.field,
        "before": row.before,
        "after": row.after,
        "timestamp": row.timestamp,
        "offset": row.offset,
    }


def coordinator_json(item: object) -> str | None:
    """Return the line of a row, None for what is none."""
    if isinstance(item, CommitRow):
        return line("commit", commit_fields(item))
    if isinstance(item, GroupRow):
        return line("group", group_fields(item))
    if isinstance(item, Horizon):
        return line("horizon", _horizon(item))
    if isinstance(item, TransactionRow):
        return line("transaction", transaction_fields(item))
    if isinstance(item, OpenRow):
        return line("open", open_fields(item))
    if isinstance(item, ChangeRow):
        return line("change", _change(item))
    if isinstance(item, ClusterRow):
        return line(item.kind, item.fields)
    return None


class CoordinatorJson:
    """Writes rows and findings as JSON lines, and a summary.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
    """

    def __init__(self, write: Callable[[str], None], error: Callable[[str], None], tally: Tally) -> None:
        self._write = write
        self._error = error
        self._tally = tally

    def __call__(self, item: object) -> None:
        """Write one item."""
        self._tally.see(item)
        made = finding_json(item) if isinstance(item, Finding) else coordinator_json(item)
        if made is not None:
            self._write(f"{made}\n")
        elif isinstance(item, OpenFailure):
            self._error(f"kdump: {item.sentence}")
        elif isinstance(item, CopyChosen):
            self._error(safe_text(copies_line(item)))
        elif isinstance(item, Remark):
            self._error(safe_text(f"kdump: {item.sentence}"))

    def end(self, status: int) -> None:
        """Write the summary."""
        self._write(f"{summary_json(self._tally.totals(), self._tally.unchecked, status)}\n")
