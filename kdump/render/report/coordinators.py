"""What groups, transactions and clusters came to, for people: aligned tables, numbers with separators.

A table is written when the partition of its rows is done, that of a share group
at the end: its partitions are in other logs than the group.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Severity
from kdump.item import Checked
from kdump.render.coordinators import CoordinatorSink
from kdump.render.report.columns import NARROWEST, TableColumn, texts, write_sentence, write_table
from kdump.render.report.sink import TableSink
from kdump.render.report.styled import Text
from kdump.render.text.cluster import LEAST_NEEDED, cluster_tables
from kdump.render.text.coordinators import CAUTION, time
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
from kdump.rows.fact_lines import facts, row_facts
from kdump.words.numbers import counted, offset_span, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Finding
    from kdump.render.report.styled import Paper
    from kdump.storage.file_source import OpenFailure
    from kdump.value import Value


_METADATA = "__cluster_metadata-0"
_RIGHT = ("offset", "log end", "lag", "epoch", "members", "producer")
_COMMITS = (
    TableColumn("partition", shrink=True),
    TableColumn("offset", right=True),
    TableColumn("log end", right=True, drop=3),
    TableColumn("lag", right=True, drop=1),
    TableColumn("committed", drop=2),
    TableColumn("notes", shrink=True),
)
_TRANSACTIONS = (
    TableColumn("state"),
    TableColumn("transactional id", shrink=True),
    TableColumn("producer", right=True, drop=1),
    TableColumn("epoch", right=True, drop=2),
    TableColumn("last update"),
    TableColumn("partitions", shrink=True, listed=True),
)
_CHANGES = (
    TableColumn("when", drop=1),
    TableColumn("record at", right=True, drop=2),
    TableColumn("what", drop=3),
    TableColumn("name", shrink=True),
    TableColumn("field", shrink=True),
    TableColumn("before", shrink=True),
    TableColumn("after", shrink=True),
    TableColumn("notes", shrink=True),
)
_MOST_NAMES = 50_000  # in one table of transactions
_MOST_TEXT = 8 * 1024 * 1024  # characters of metadata of commits that are held
_MOST_LISTED = 16  # partitions of a transaction in a table


class CoordinatorTable(CoordinatorSink, TableSink):
    """Writes tables.

    Args:
        paper: what they are written on.
        error: takes one line for stderr.
        raw: write names as they are.
        notes: list notes; else they are counted.
    """

    def __init__(self, paper: Paper, error: Callable[[str], None], *, raw: bool, notes: bool = False) -> None:
        super().__init__(paper, error, raw=raw, notes=notes)
        self._groups: dict[str, GroupRow] = {}
        self._shares: list[GroupRow | CommitRow] = []
        self._told = self._inexact = 0  # rows that say whether they are exact, and those that are not
        self._names = 0  # of commits, transactions and their partitions that are held
        self._text = 0  # characters of their metadata
        self._lacks = False  # something is damaged or unread: whole rows may be missing
        self._commits: list[CommitRow] = []
        self._transactions: list[TransactionRow] = []
        self._changes: list[ChangeRow] = []
        self._cluster: list[ClusterRow] = []
        self._held: dict[type, list[Any]] = {
            CommitRow: self._commits,
            TransactionRow: self._transactions,
            ChangeRow: self._changes,
            ClusterRow: self._cluster,
        }

    @takes(GroupRow)
    def _group(self, row: GroupRow) -> None:
        if row.group_type == SHARE:
            self._shares.append(row)
        else:
            self._groups[row.group] = row

    @takes(CommitRow)
    def _commit(self, row: CommitRow) -> None:
        if row.group_type == SHARE:
            self._shares.append(row)
            return
        if self._commits and (self._names > _MOST_NAMES or self._text > _MOST_TEXT):
            self._flush_until(self._commits[-1].group)
        self._commits.append(row)
        self._names += 1
        self._text += len(row.metadata)

    def _flush_until(self, last: str) -> None:
        """Write what is held of groups up to one, as rows come by group: of what is large not all is held."""
        later = {name: row for name, row in self._groups.items() if name > last}
        self._groups = {name: row for name, row in self._groups.items() if name <= last}
        self._flush()
        self._groups = later

    @takes(TransactionRow)
    def _transaction(self, row: TransactionRow) -> None:
        self._transactions.append(row)
        self._names += 1 + len(row.partitions)
        if self._names > _MOST_NAMES:  # the table goes on as another one: it is not all held
            self._flush()

    @takes(ChangeRow, ClusterRow)
    def _keep(self, row: Value) -> None:
        self._held[type(row)].append(row)

    @takes(Horizon)
    def _horizon(self, horizon: Horizon) -> None:
        if horizon.exact_from is not None:
            why = "it begins with a snapshot" if horizon.partition == _METADATA else "before that compaction has erased"
            self._error(f"kdump: {horizon.partition}: exact since {time(horizon.exact_from)}: {why}")

    def _finding(self, finding: Finding) -> None:
        self._lacks |= finding.severity is Severity.ERROR
        super()._finding(finding)

    def _problem(self, problem: OpenFailure) -> None:
        self._lacks |= problem.kind != "skipped"
        super()._problem(problem)

    def end(self, _status: int) -> None:
        """Write what is held, and how far it can be trusted."""
        self._flush()
        self._groups.update((row.group, row) for row in self._shares if isinstance(row, GroupRow))
        commits = [row for row in self._shares if isinstance(row, CommitRow)]
        self._commits.extend(sorted(commits, key=lambda row: (row.group, row.topic, row.partition)))
        self._flush()
        if self._inexact:
            said = f"not exact: {self._inexact:,} of {counted(self._told, 'line')}: newer values may be lost or erased"
            write_sentence(self._paper, Text(said, "yellow"))
        elif self._told and not self._lacks:
            write_sentence(self._paper, Text("complete: no newer value is missing", "green"))
        self._conclude()

    @takes(Checked)
    def _flush(self, _item: object = None) -> None:
        exact = [*(row.exact for row in self._commits), *(row.exact for row in self._transactions)]
        exact.extend(row.exact for row in self._without_commits())
        self._told += len(exact)
        self._inexact += exact.count(False)
        rows: list[Any] = [*self._groups.values(), *self._commits, *self._transactions, *self._changes, *self._cluster]
        if self._paper.width < NARROWEST:  # nothing may be lost: a line each
            for row in rows:
                told = facts(row.kind, row.fields) if isinstance(row, ClusterRow) else row_facts(row)
                for line in told.splitlines():
                    write_sentence(self._paper, Text(line))
        else:
            self._group_tables()
            self._transaction_table()
            self._change_table()
            self._cluster_tables()
        self._groups.clear()
        self._names = self._text = 0
        for held in self._held.values():
            held.clear()

    def _without_commits(self) -> list[GroupRow]:
        """Return the groups that have no row of a commit to say whether they are exact."""
        named = {row.group for row in self._commits}
        return [row for name, row in self._groups.items() if name not in named]

    def _group_tables(self) -> None:
        of_group: dict[str, list[CommitRow]] = {name: [] for name in self._groups}
        for row in self._commits:
            of_group.setdefault(row.group, []).append(row)
        for name, commits in of_group.items():
            head = Text(self._safe(name), "bold")
            group = self._groups.get(name)
            if group is not None:
                protocol = f"   {self._safe(group.protocol)}" if group.protocol else ""
                count = f"{group.members:,} member" + ("" if group.members == 1 else "s")
                said = f"   {group.group_type}   {group.state}   epoch {group.epoch}{protocol}   {count}"
                head.append(said, "not bold")
                if not (commits or group.exact):
                    head.append("   not exact", "not bold")
            write_sentence(self._paper, head)
            if not commits:
                continue
            rows = []
            for row in commits:
                where = f"{self._safe(row.topic)}-{row.partition}"
                notes = [f"pending, producer {row.producer_id}"] if row.pending else []
                notes += [] if row.exact else ["not exact"]
                if row.removed is not None:
                    notes.append(f"removed at {time(row.removed.timestamp)}, by the record at {row.removed.offset}")
                notes += [row.place_why] if row.place_why else []
                notes += [f"metadata: {self._safe(row.metadata)}"] if row.metadata else []
                lag = "" if row.lag is None else f"{row.lag:,}"
                end = "" if row.log_end_offset is None else str(row.log_end_offset)
                cells = where, str(row.offset), end, lag, time(row.commit_timestamp), ", ".join(notes)
                rows.append(texts(cells))
            write_table(self._paper, _COMMITS, rows)

    def _transaction_table(self) -> None:
        if not self._transactions:
            return
        rows = []
        for row in self._transactions:
            shown, more = row.partitions[:_MOST_LISTED], len(row.partitions) - _MOST_LISTED
            names = [*([] if row.exact else ["not exact"]), *map(self._safe, shown)]
            partitions = ", ".join([*names, *([f"{more:,} more (--format lines has them)"] if more > 0 else [])])
            ids = str(row.producer_id), str(row.producer_epoch)
            name = self._safe(row.transactional_id) or '""'
            rows.append(texts((row.state, name, *ids, time(row.last_update_timestamp), partitions)))
        write_table(self._paper, _TRANSACTIONS, rows)

    def _cluster_tables(self) -> None:
        for number, (names, cells) in enumerate(cluster_tables(self._cluster)):
            if number:
                self._paper.line()
            columns = [
                TableColumn(name, right=name in _RIGHT, drop=_drop(name), shrink=name not in _RIGHT) for name in names
            ]
            write_table(self._paper, columns, [texts([self._safe(cell) for cell in row]) for row in cells])

    def _change_table(self) -> None:
        if not self._changes:
            return
        rows = []
        for row in self._changes:
            if row.field == "commitTimestamp" and row.after == row.timestamp:
                continue  # it stands in the first column
            offset = "" if row.offset is None else str(row.offset)
            times = row.field.endswith("Timestamp")
            values = [self._value(value, is_time=times) for value in (row.before, row.after)]
            cells = time(row.timestamp), offset, row.what, self._safe(row.name), row.field, *values, row.stands_out
            rows.append(texts(cells, "bold yellow" if row.stands_out else ""))
        write_table(self._paper, _CHANGES, rows)

    def _value(self, value: object, *, is_time: bool) -> str:
        if value is None:
            return "-"
        if isinstance(value, str):
            return self._safe(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return time(value) if is_time else str(value)
        return self._safe(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    @takes(OpenRow)
    def _open(self, row: OpenRow) -> None:
        where = f"{self._safe(row.topic)}-{row.partition}"
        verdict = {True: "HANGING", False: "open", None: "open; its coordinator's log is not among the inputs"}[
            row.hanging
        ]
        head = Text(f"{where}   {verdict}", "bold red" if row.hanging else "bold")
        blocks = f"{counted(row.blocked_records, 'record')}, {size(row.blocked_bytes)}"
        name = "" if row.transactional_id is None else f" ({self._safe(row.transactional_id)})"
        who = f"producer {row.producer_id} epoch {row.producer_epoch}{name}"
        head.append(f"   {who}   since {time(row.since_timestamp)}", "not bold")
        write_sentence(self._paper, head)
        write_sentence(self._paper, Text(f"  {offset_span(row.first_offset, row.log_end_offset)}: blocks {blocks}"))
        write_sentence(self._paper, Text(f"  {self._safe(row.why)}"))
        if row.hanging:
            self._paper.line(Text(f"  {self._safe(row.abort_command)}"))
            self._paper.line(Text(f"  before Kafka 3.0: {self._safe(row.abort_command_before30)}"))
            write_sentence(self._paper, Text(f"  {CAUTION}", "yellow"))


def _drop(name: str) -> int:
    return len(LEAST_NEEDED) - LEAST_NEEDED.index(name) if name in LEAST_NEEDED else 0
