"""What is said behind the answer about groups, transactions or a cluster: where it is empty, or may lack something."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.finding import Finding, Trait
from kdump.format.java_values import DEFAULT_PARTITIONS, coordinator_partition
from kdump.item import PartitionChecked
from kdump.not_searched import NotSearched
from kdump.rows.coordinators import (
    ChangeRow,
    ClusterRow,
    CommitRow,
    CopyChosen,
    GroupRow,
    Horizon,
    OpenRow,
    TransactionRow,
)
from kdump.storage.names import OFFSETS_TOPIC, parse_partition
from kdump.value import Value
from kdump.words.command import ShellCommand, command_line, operand
from kdump.words.numbers import counted
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

ROWS = (ChangeRow, ClusterRow, CommitRow, GroupRow, OpenRow, TransactionRow)


class Question(Value):
    """What was asked for."""

    what: str  # the things that an answer has, in the plural
    to_list: ShellCommand | None  # the command that lists all that is there now; None for none
    kind: str = ""  # what the names are of, in the singular
    names: tuple[str, ...] = ()  # only these; none for all
    of: str = ""  # what else they are to have, as words behind them
    when: str = ""  # the time or the times, as words behind that; empty for the end
    at: int | None = None  # the time in ms; None for the end and for two times
    is_diff: bool = False  # what changed, not what was there
    topic: str = ""  # of Kafka's own, one of whose partitions has the answer; empty where any log may have it
    of_commits: bool = False  # only committed offsets are an answer
    may_be_empty: bool = False  # that there is nothing is an answer
    is_alarm: bool = False  # that there is something is an error

    @property
    def by_group(self) -> bool:
        """Whether each of some groups is asked for."""
        return self.kind == "group" and bool(self.names) and not self.is_diff

    def without_names(self) -> Question:
        """Return the same question in words that no name is in."""
        what = f"such {self.what}" if self.names else self.what
        return self.replace(what=what, names=(), of="", to_list=None)


class EmptyAnswer:
    """Watches what a verb yields.

    Args:
        partitions: tells how many partitions `__consumer_offsets` has, None where nothing here says it.
    """

    def __init__(self, partitions: Callable[[], int | None] = lambda: None) -> None:
        self._partitions = partitions
        self._read: dict[int, Horizon] = {}  # of `__consumer_offsets`
        self._topics: set[str] = set()  # of which partitions were read
        self._is_found = False
        self._has_logs = False
        self._groups: dict[str, bool] = {}  # whether all of its rows are exact
        self._committed: set[str] = set()  # groups
        self._pending: Counter[str] = Counter()  # commits of a group
        self._chosen = False  # one of several copies was read
        self._not_read = NotSearched()

    @cached_property
    def _count(self) -> int | None:
        return self._partitions()

    def see(self, item: object) -> None:
        """Take one item into account."""
        if isinstance(item, ROWS):
            self._is_found = True
            if isinstance(item, GroupRow | CommitRow):
                self._groups[item.group] = item.exact and self._groups.get(item.group, True)
            if isinstance(item, CommitRow) and item.pending:
                self._pending[item.group] += 1
            elif isinstance(item, CommitRow):
                self._committed.add(item.group)
        if isinstance(item, Horizon):
            parsed = parse_partition(item.partition)
            self._topics.update(() if parsed is None else (parsed.topic,))
            if parsed is not None and parsed.topic == OFFSETS_TOPIC:
                self._read[parsed.partition] = item
        self._has_logs |= isinstance(item, PartitionChecked)
        self._chosen |= isinstance(item, CopyChosen)
        self._not_read.see(item, is_lost=isinstance(item, Finding) and _is_not_folded(item))

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing of what was asked for."""
        return not self._is_found

    def is_answered(self, question: Question) -> bool:
        """Tell whether there is what was asked for, of each group that was."""
        if question.by_group:
            return all(map(self._has_answer(question).__contains__, question.names))
        if question.of_commits:
            return bool(self._committed)
        return self._is_found or (question.may_be_empty and question.topic in self._topics)

    def has_place(self, question: Question) -> bool:
        """Tell whether the partitions that must have what was asked for, and was not found, are among the inputs."""
        if not question.by_group:
            return question.topic in ("", *self._topics)
        missing = [one for one in question.names if one not in self._has_answer(question)]
        return all(self._partition_of(one) in self._read for one in missing)

    def _has_answer(self, question: Question) -> Collection[str]:
        """The groups that have one."""
        return self._committed if question.of_commits else self._groups

    def lines(self, question: Question) -> Iterator[str]:
        """Yield what to say, once all is done; nothing where the answer is whole, or no log could have one.

        Args:
            question: what was asked for.
        """
        if not self._has_logs:
            if question.by_group:
                yield from self._where(question.names, question.at)
            return
        yield from self._nothing(question)
        if question.kind == "group" and not question.is_diff:
            yield from self._without_commits(question)
        if self._is_whole(question):
            return
        not_read = list(self._not_read.lines())
        yield from not_read
        if not_read:
            then = " until then" if question.when else ""
            again = (
                "kdump salvage joins what the copies have: ask its result"
                if self._chosen
                else "name the log.dirs of other brokers too: a copy may have it"
            )
            yield f"the answer may lack what was written there{then}; {again}"

    def _is_whole(self, question: Question) -> bool:
        """Whether all groups that were asked for are exact: what was not read is of others, or of a later time.

        One that is not here is, where its partition was read and is.
        """
        is_of_groups = question.kind == "group" and bool(question.names) and not question.is_diff
        return is_of_groups and all(
            self._groups[one] if one in self._groups else self._is_surely_not_here(one) for one in question.names
        )

    def _is_surely_not_here(self, group: str) -> bool:
        horizon = self._read.get(self._partition_of(group))
        is_known = self._count is not None or all(one.is_whole for one in self._read.values())
        return is_known and horizon is not None and horizon.is_whole

    def _partition_of(self, group: str) -> int:
        more = max(self._read, default=0) + 1
        guessed = more if more > DEFAULT_PARTITIONS and len(self._read) == more else DEFAULT_PARTITIONS
        return coordinator_partition(group, self._count or guessed)

    def _nothing(self, question: Question) -> Iterator[str]:
        """Yield what is not here."""
        missing = question.names
        if self._is_found:  # a group that is mistyped beside one that is not
            by_group = question.kind == "group" and not question.is_diff
            missing = tuple(one for one in missing if by_group and one not in self._groups)
            if not missing:
                return
        what = f"{question.kind} {', '.join(missing)}" if missing else question.what
        if question.is_diff:
            what = f"change of {what}" if question.names or question.what.startswith("such ") else "change"
        next_step = ""
        if question.to_list and (question.names or question.when):
            next_step = f"; {'list them' if question.names else 'at the end of the log'}: {question.to_list}"
        yield f"no {what}{question.of} here{question.when}{next_step}"
        if question.kind == "group" and missing and not question.is_diff:
            yield from self._where(missing, question.at)

    def _without_commits(self, question: Question) -> Iterator[str]:
        """Yield which of the groups that were asked for are here and have no commit that counts."""
        for group in question.names:
            if group not in self._groups or group in self._committed:
                continue
            said = f"no commits of group {group} here{question.when}"
            if self._pending[group]:
                said += f", but {counted(self._pending[group], 'pending one')}, of a transaction that had not ended"
            if not self._groups[group]:
                said += "; some may be lost or erased"
            if question.when and question.to_list:
                said += f"; at the end of the log: {question.to_list.plus('--group', group)}"
            yield said

    def _where(self, groups: tuple[str, ...], at: int | None) -> Iterator[str]:
        """Yield which partition each group belongs to, and whether that was read."""
        count = self._count
        command = command_line("partition-for", *operand(groups[0], "--partitions", "N"))
        if count is None and max(self._read, default=0) >= DEFAULT_PARTITIONS:
            yield f"a group belongs to one partition of {OFFSETS_TOPIC}: {command} tells to which of N"
            return
        of = f"{count} partitions" if count else f"{DEFAULT_PARTITIONS} partitions, Kafka's default"
        for group in groups:
            number = self._partition_of(group)
            yield f"group {group} belongs to {OFFSETS_TOPIC}-{number} (of {of}), which {self._was_read(number, at)}"
        if count is None:
            yield f"where {OFFSETS_TOPIC} has another number of partitions: {command}"

    def _was_read(self, number: int, at: int | None) -> str:
        """Whether a partition was read, and whether it could have had what was there at a time."""
        if number not in self._read:
            return "is not here: name the log.dirs of a broker that has it"
        horizon = self._read[number]
        since = horizon.exact_from
        if horizon.is_whole:
            return "was read"
        if at is not None and since is not None and at < since:
            return f"was read; compaction may have erased it, answers are exact from {iso(since)} on"
        return "is damaged: not all that was there could be read"


def _is_not_folded(finding: Finding) -> bool:
    """Whether a batch was passed over; one whose header alone is wrong is read all the same."""
    return Trait.BAD_CRC in finding.code.traits or Trait.UNREADABLE in finding.code.traits
