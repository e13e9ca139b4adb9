"""Committed offsets: what groups had committed at the moment that is served, and what clients commit meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity
from kdump.rows.coordinators import SHARE, CommitRow, GroupRow
from kdump.state.groups import GroupOptions, groups
from kdump.storage.file_source import OpenFailure
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.serve.options import ServeOptions

_MOST_GROUPS = 256  # whose commits are held
_MOST_COMMITS = 100_000  # of clients
_MOST_METADATA = 4096  # as a broker's offset.metadata.max.bytes


class Commit(TupleValue):
    """A committed offset."""

    offset: int
    epoch: int = -1  # of the record before, -1 for none
    metadata: str = ""


_MOST_TOLD = 100  # lines about what keeps commits from being known


class ListedGroup(TupleValue):
    """A group that is in the files."""

    name: str
    protocol: str
    state: str
    kind: str  # Classic, Consumer, Share or Streams


class TooManyCommitsError(Exception):
    """No more of them are kept."""


class Commits:
    """The commits of groups; what is in the files is read when a group is first asked for.

    Args:
        paths: partition directories and log directories, as the user wrote them.
        options: what was asked for.
        tell: takes a line about commits that are not known: each once.
    """

    def __init__(self, paths: Sequence[str], options: ServeOptions, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self._paths = list(paths)
        self._options = options
        self._of_files: OrderedDict[str, dict[tuple[str, int], Commit]] = OrderedDict()
        self._of_clients: dict[str, dict[tuple[str, int], Commit]] = {}
        self._count = 0
        self._listed: list[ListedGroup] | None = None

    def of(self, group: str) -> dict[tuple[str, int], Commit]:
        """Return the commits of a group by topic and partition. It reads files: call it in a thread of its own."""
        if group not in self._of_files:
            found = {}
            for item in groups(self._paths, self._asked(group)):
                if isinstance(item, CommitRow) and not item.pending and item.group_type != SHARE and not item.removed:
                    epoch = -1 if item.leader_epoch is None else item.leader_epoch
                    found[item.topic, item.partition] = Commit(item.offset, epoch, item.metadata)
                self._see(item)
            self._of_files[group] = found
            while len(self._of_files) > _MOST_GROUPS:
                self._of_files.popitem(last=False)
        return {**self._of_files[group], **self._of_clients.get(group, {})}

    def _see(self, item: object) -> None:
        """Tell what keeps commits from being known: a client would begin elsewhere without a word."""
        line = ""
        if isinstance(item, OpenFailure) and item.kind != "skipped":
            line = item.sentence
        elif isinstance(item, Finding) and item.severity is Severity.ERROR:
            line = f"{item.file}: {item.code.name} {item.message}"
        if line and line not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(line)
            self._tell(f"commits of groups may be older than they were, or missing: {line}")

    def listed(self) -> list[ListedGroup]:
        """Return the groups of the files. It reads them: call it in a thread of its own."""
        if self._listed is None:
            items = groups(self._paths, self._asked())
            rows = (item for item in items if isinstance(item, GroupRow))
            self._listed = [ListedGroup(one.group, one.protocol, one.state, one.group_type) for one in rows]
        return self._listed

    def keep(self, group: str, topic: str, partition: int, commit: Commit) -> bool:
        """Keep a commit of a client as long as the process lives; return whether its text is short enough.

        Raises:
            TooManyCommitsError: no more of them are kept.
        """
        if len(commit.metadata.encode()) > _MOST_METADATA:
            return False
        if (topic, partition) not in self._of_clients.get(group, {}):
            if self._count >= _MOST_COMMITS:
                raise TooManyCommitsError
            self._count += 1
        self._of_clients.setdefault(group, {})[topic, partition] = commit
        return True

    def _asked(self, *names: str) -> GroupOptions:
        return GroupOptions(
            at=self._options.at,
            diff=None,
            groups=frozenset(names),
            topics=frozenset(),
            lag=False,
            limits=self._options.limits,
        )
