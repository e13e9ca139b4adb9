"""The verb groups: what groups had committed, at the end or at a time, and what changed between two times."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from kdump.broker.commit_place import MARKERS_ONLY, NOT_SUBSCRIBED, WAITS, CommitLog, PlaceOfCommit
from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.broker.log_end import last_epoch_and_end
from kdump.broker.log_facts import LogFiles, LogReader, earliest_open, waits_for
from kdump.finding import Finding, Severity
from kdump.format.batch import layout
from kdump.format.java_values import ABOVE_ALL
from kdump.item import Progress
from kdump.rows.coordinators import ChangeRow, CommitRow, GroupRow
from kdump.state.copies import Copies, told_once
from kdump.state.doubt import Doubt
from kdump.state.group_coordinator import GroupCoordinator
from kdump.state.open_transactions import open_transactions
from kdump.state.partition_log import START, Cut, PartitionLog, result_of, up_to
from kdump.state.share_coordinator import ShareCoordinator
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OFFSETS_TOPIC, SHARE_TOPIC
from kdump.storage.segment import UnreadableError
from kdump.value import Value
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.format.read_limits import ReadLimits
    from kdump.item import Checked, PartitionChecked
    from kdump.rows.coordinators import CopyChosen, Horizon
    from kdump.storage.partition_dir import PartitionDir

    GroupItem = (
        GroupRow
        | CommitRow
        | ChangeRow
        | Horizon
        | CopyChosen
        | Checked
        | PartitionChecked
        | Progress
        | Finding
        | OpenFailure
    )

_NOT_HERE = (
    f"no partition of {OFFSETS_TOPIC} or {SHARE_TOPIC} here; each group is in one, kdump partition-for GROUP tells in "
    "which: name the log.dirs of all brokers"
)


class GroupOptions(Value):
    """What was asked for."""

    at: int | None  # ms; None for the end
    diff: tuple[int | None, int | None] | None  # two times, each ms or None for the end; None for no difference
    # groups, topics: only these; none for all
    groups: frozenset[str]
    topics: frozenset[str]
    lag: bool  # say how far the logs go that are at hand
    limits: ReadLimits  # what is read at most
    jobs: int = 1  # processes; 0 for every core
    progress: bool = False  # yield how far it is

    @property
    def passes(self) -> int:
        """How often a log is read: for its times, for a state, and for a second one that is earlier."""
        whens = self.diff or (self.at,)
        first, last = whens[0], whens[-1]
        is_backwards = last is not None and (first is None or last < first)
        return 1 + any(when is not None for when in whens) + is_backwards

    def wants(self, group: str) -> bool:
        """Tell whether a group is asked for."""
        return not self.groups or group in self.groups

    def wants_topic(self, topic: str) -> bool:
        """Tell whether a topic is asked for."""
        return not self.topics or topic in self.topics


_Fields = dict[str, "int | str | None"]
_Entity = tuple[_Fields, int, int]  # fields, offset and timestamp of the newest record


def groups(paths: list[str], options: GroupOptions) -> Iterator[GroupItem]:
    """Yield the state of groups, a partition of the log at a time, each after what is wrong with it.

    Args:
        paths: partition directories and log directories, as the user wrote them.
        options: what was asked for.

    Yields:
        for each partition what was chosen and found, its Horizon, GroupRows by name, CommitRows by group, topic and
        partition; with `diff` ChangeRows by offset in the place of the rows. In between, with `progress`, how far it
        is.

    Reports: R07; what is wrong with a damaged log.
    """
    return told_once(_groups(paths, options))


def _groups(paths: list[str], options: GroupOptions) -> Iterator[GroupItem]:
    """Yield the same, but what is wrong with a log once for each partition that needs it."""
    run = _Run(paths, options)
    yield from run.drain()
    found = run.copies.of_topic(OFFSETS_TOPIC), run.copies.of_topic(SHARE_TOPIC)
    if not any(found) and run.is_clean:
        for path in paths:
            yield OpenFailure(path, "skipped", f"{path}: {_NOT_HERE}")
    names: dict[str, str] = {}
    before = sum(run.size((OFFSETS_TOPIC, number)) for number in found[0])
    total = before + sum(run.size((SHARE_TOPIC, number)) for number in found[1])
    with in_order(found[0], run.offsets, options.jobs, total=total if options.progress else None) as folded:
        for item in chain.from_iterable(folded):
            if isinstance(item, _TopicNames):
                names.update(item.names)
            else:
                yield item
    shares = partial(run.shares, topics=names)
    with in_order(found[1], shares, options.jobs, total=total if options.progress else None) as shared:
        for item in chain.from_iterable(shared):
            yield item.replace(done=before + item.done) if isinstance(item, Progress) else item


class _TopicNames(Value):
    """The names of topics by id, as the share groups of a partition have them."""

    names: dict[str, str]


class _Run:
    """One run.

    Attributes:
        is_clean: all paths are directories that can be listed.
    """

    def __init__(self, paths: list[str], options: GroupOptions) -> None:
        self._held: list[Finding | OpenFailure] = []
        self.copies = Copies(paths, self._held.append)  # the partitions under the paths
        self.is_clean = not any(isinstance(one, OpenFailure) and one.kind != "skipped" for one in self._held)
        self._options = options
        self._ends: dict[tuple[str, int, int | None], int | None] = {}
        self._logs: dict[tuple[str, int, int | None], CommitLog | None] = {}

    def drain(self) -> Iterator[Finding | OpenFailure]:
        """Hand on what was found since the last time."""
        yield from self._held
        self._held.clear()

    def size(self, key: tuple[str, int]) -> int:
        """Return the bytes that are read of a partition, as often as they are; 0 where nobody wants to know."""
        return self.copies.size(key) * self._options.passes if self._options.progress else 0

    # --- one partition ----------------------------------------------------------------------------------------
    def offsets(self, number: int) -> Iterator[GroupItem | _TopicNames]:
        """Yield what a partition of `__consumer_offsets` comes to."""
        key = OFFSETS_TOPIC, number
        directory, chosen = self._directory(key)
        yield from up_to(self.size(key), directory.path, self._offsets(directory, chosen))

    def shares(self, number: int, topics: dict[str, str]) -> Iterator[GroupItem]:
        """Yield what a partition of `__share_group_state` comes to; `topics` are names by id."""
        key = SHARE_TOPIC, number
        directory, chosen = self._directory(key)
        yield from up_to(self.size(key), directory.path, self._shares(directory, chosen, topics))

    def _offsets(self, directory: PartitionDir, chosen: CopyChosen | None) -> Iterator[GroupItem | _TopicNames]:
        if chosen is not None:
            yield chosen
        log = PartitionLog(directory, self._options.limits, self._held.append)
        doubt = Doubt(log, self._held.append, OFFSETS_TOPIC, self._options.wants)

        def begin() -> GroupCoordinator:
            is_diff = self._options.diff is not None
            asked = self._options.groups if not is_diff else frozenset()
            return GroupCoordinator(doubt, log.name, keep_gone=is_diff, keep_removed=asked.__contains__)

        whens = self._options.diff or (self._options.at,)
        states: list[dict[tuple[str, ...], _Entity]] = []
        rows: Iterable[GroupRow | CommitRow] = ()
        place, fold, is_exact = START, begin(), True
        for cut in (yield from log.cuts(whens)):
            if cut[:2] < place[:2]:
                place, fold = START, begin()
            for path, chunk in log.chunks(place, cut):
                fold.add(path, chunk)
                yield log.how_far
            place = cut
            if self._options.diff is not None:
                states.append(self._entities(fold))
            else:
                made = self._rows(fold, log.is_exact(cut), cut)
                if fold.is_large:  # nor do the rows fit into memory: each is made twice
                    deque(made, maxlen=0)
                else:
                    rows = list(made)
                is_exact = log.is_exact(cut)
                if fold.is_large or not is_exact:  # a value that cannot be read is met only now
                    again = self._rows(fold, is_exact, cut)
                    rows = again if fold.is_large else list(again)
        directory.close()
        yield _TopicNames(fold.topics)
        yield from self.drain()
        yield log.horizon.replace(is_whole=is_exact)
        yield from rows
        if self._options.diff is not None:
            yield from self._changes(states[0], states[1], fold.gone, log.name)
        yield from self.drain()
        yield from log.checked()

    def _shares(
        self, directory: PartitionDir, chosen: CopyChosen | None, topics: dict[str, str]
    ) -> Iterator[GroupItem]:
        if chosen is not None:
            yield chosen
        log = PartitionLog(directory, self._options.limits, self._held.append)
        doubt = Doubt(log, self._held.append, SHARE_TOPIC)
        whens = self._options.diff or (self._options.at,)
        states: list[dict[tuple[str, ...], _Entity]] = []
        is_diff = self._options.diff is not None
        place, fold, rows = START, ShareCoordinator(doubt, keep_gone=is_diff), []
        names = {**self._names(), **topics}
        for cut in (yield from log.cuts(whens)):
            if cut[:2] < place[:2]:
                place, fold = START, ShareCoordinator(doubt, keep_gone=is_diff)
            for path, chunk in log.chunks(place, cut):
                fold.add(path, chunk)
                yield log.how_far
            place = cut
            found = fold.commits(names, exact=log.is_exact(cut))
            wanted = [one for one in found if self._wants(one[0])]
            states.append({_identity(row): (_fields(row), offset, time) for row, offset, time in wanted})
            rows = [self._with_lag(row, cut, is_subscribed=True) for row, _, _ in wanted]
        directory.close()
        yield from self.drain()
        yield log.horizon
        if is_diff:
            gone: dict[tuple[str, ...], tuple[int, int]] = {
                ("commit", group, f"{names.get(topic, topic)}-{partition}"): place
                for (group, topic, partition), place in fold.gone.items()
            }
            yield from self._changes(states[0], states[1], gone, log.name)
        else:
            yield from rows
        yield from self.drain()
        yield from log.checked()

    def _directory(self, key: tuple[str, int]) -> tuple[PartitionDir, CopyChosen | None]:
        return self.copies.choose(key, self._options.limits.max_batch_bytes)

    def _names(self) -> dict[str, str]:
        """The names of topics by id, by the partitions that are here."""
        names: dict[str, str] = {}
        for (topic, _), directories in self.copies.partitions.items():
            names.update((one.topic_id, topic) for one in directories if one.topic_id is not None)
        return names

    # --- rows -------------------------------------------------------------------------------------------------
    def _wants(self, row: CommitRow) -> bool:
        return self._options.wants(row.group) and self._options.wants_topic(row.topic)

    def _rows(self, fold: GroupCoordinator, is_exact: bool, cut: Cut) -> Iterator[GroupRow | CommitRow]:
        live = (row for row, _, _ in fold.commits(exact=is_exact))
        found: Iterable[CommitRow] = filter(self._wants, chain(live, fold.removed(exact=is_exact)))
        if self._options.groups and not fold.is_large:
            found = sorted(found, key=lambda row: (row.group, row.topic, row.partition))
        if self._options.topics or not fold.is_large:
            found = list(found)
        named = {row.group for row in found} if self._options.topics else None
        for row, _ in fold.groups():
            if self._options.wants(row.group) and (named is None or row.group in named):
                yield row.replace(exact=is_exact)
        for commit in found:
            yield self._with_lag(commit, cut, is_subscribed=fold.subscribes(commit.group, commit.topic))

    def _with_lag(self, row: CommitRow, cut: Cut, *, is_subscribed: bool) -> CommitRow:
        if not self._options.lag:
            return row
        end, place = self._log_end(row.topic, row.partition, cut.when), PlaceOfCommit(None)
        log = self._commit_log(row.topic, row.partition, cut.when)
        if log is not None:
            place = log.place(row.offset, row.leader_epoch, is_subscribed=is_subscribed)
        elif not is_subscribed:
            place = NOT_SUBSCRIBED
        return row.replace(log_end_offset=end, place=place.name, cut_from=place.cut_from, place_why=place.why)

    def _commit_log(self, topic: str, partition: int, when: int | None) -> CommitLog | None:
        """What a log says about commits at a time; None where it is not among the inputs, or cannot be read."""
        end, key = self._log_end(topic, partition, when), (topic, partition, when)
        if end is None:
            return None
        if key not in self._logs:
            self._logs[key] = self._made_log(self._directory((topic, partition))[0], end, when)
        return self._logs[key]

    def _made_log(self, directory: PartitionDir, end: int, when: int | None) -> CommitLog | None:
        log = PartitionLog(directory, self._options.limits, _nobody)
        try:
            files = LogFiles(directory, _nobody, self._options.limits.max_batch_bytes)
            if when is None:
                cut = Cut(len(log.bases), 0, -1)
                first = waits_for(LogReader(files))
            else:
                cut = result_of(log.cuts([when]))[0]
                opened = result_of(open_transactions(log, cut, self._options.limits))
                first = earliest_open({one.entry.producer_id: one.entry for one in opened})
        except (UnreadableError, OSError):
            return None
        finally:
            directory.close()
        epochs = EpochCache(directory.sound_epochs)  # as a broker has it that has loaded the log
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(log.log_start)
        return CommitLog(log.log_start, end, epochs.entries, first, DataBehind(log, files, cut).is_there)

    def _log_end(self, topic: str, partition: int, when: int | None) -> int | None:
        """The end of a log at a time, None where it is not among the inputs."""
        key = topic, partition
        if key not in self.copies.partitions:
            return None
        if (*key, when) not in self._ends:
            directory, _ = self._directory(key)
            self._held += evidence_of(directory).findings()
            log = PartitionLog(directory, self._options.limits, self._held.append)
            self._ends[*key, when] = None
            if log.bases and when is None:
                found: list[Finding] = []
                end = last_epoch_and_end(directory, self._options.limits.max_batch_bytes, found.append)[1]
                found += () if found else evidence_of(directory).at_end(end)
                is_held = directory.log_dir.is_held  # what is at its end is being written
                self._held += [one for one in found if one.severity is Severity.ERROR and not is_held]
                self._ends[*key, when] = end
            elif log.bases:
                self._ends[*key, when] = result_of(log.cuts([when]))[0].offset
            directory.close()
        return self._ends[*key, when]

    # --- differences ------------------------------------------------------------------------------------------
    def _entities(self, fold: GroupCoordinator) -> dict[tuple[str, ...], _Entity]:
        """What there is, by what and whose it is."""
        found: dict[tuple[str, ...], _Entity] = {}
        commits = [one for one in fold.commits(exact=True) if self._wants(one[0])]
        named = {row.group for row, _, _ in commits} if self._options.topics else None
        for row, offset in fold.groups():
            if self._options.wants(row.group) and (named is None or row.group in named):
                found["group", row.group] = (_group_fields(row), offset, row.timestamp)
        for commit, offset, time in commits:
            found[_identity(commit)] = (_fields(commit), offset, time)
        return found

    def _changes(
        self,
        before: dict[tuple[str, ...], _Entity],
        after: dict[tuple[str, ...], _Entity],
        gone: dict[tuple[str, ...], tuple[int, int]],
        partition: str,
    ) -> Iterator[ChangeRow]:
        """Yield what is not the same, by the offset of the record that made it so."""
        rows: list[tuple[int, ChangeRow]] = []
        for identity in before.keys() | after.keys():
            old, new = before.get(identity), after.get(identity)
            fields = {**(old[0] if old else {}), **(new[0] if new else {})}
            place = gone.get(identity)
            between = place if old and new and place and old[1] < place[0] < new[1] else None
            if between is not None:
                rows += self._field_changes(identity, partition, fields, (old, None), between)
                rows += self._field_changes(identity, partition, fields, (None, new), None)
            else:
                rows += self._field_changes(identity, partition, fields, (old, new), place)
        rows.sort(
            key=lambda one: (ABOVE_ALL if one[1].offset is None else one[1].offset, one[1].what, one[1].name, one[0])
        )
        for _, row in rows:
            yield row

    def _field_changes(
        self,
        identity: tuple[str, ...],
        partition: str,
        fields: Iterable[str],
        states: tuple[_Entity | None, _Entity | None],
        gone: tuple[int, int] | None,
    ) -> Iterator[tuple[int, ChangeRow]]:
        """Yield what differs between two states, by the number of the field.

        Args:
            identity: of what.
            partition: of the log.
            fields: that it has, or had.
            states: before and after; None for absent.
            gone: offset and timestamp of what removed it; None for nothing.
        """
        old, new = states
        offset, timestamp = (gone or (None, None)) if new is None else new[1:]
        for number, field in enumerate(fields):
            was, now = (old[0].get(field) if old else None), (new[0].get(field) if new else None)
            if was == now:
                continue
            epoch = new[0].get("leaderEpoch") if new else None
            why = self._stands_out(identity, field, was, now, epoch if isinstance(epoch, int) else None)
            what = "commit" if identity[0] == "pending" else identity[0]
            row = ChangeRow(
                what,
                " ".join(identity[1:]),
                partition,
                field=field,
                before=was,
                after=now,
                timestamp=timestamp,
                offset=offset,
                stands_out=why,
            )
            yield number, row

    def _stands_out(
        self, identity: tuple[str, ...], field: str, was: int | str | None, now: int | str | None, epoch: int | None
    ) -> str:
        """Say what is odd about a committed offset, with a leader epoch; empty for nothing."""
        if identity[0] != "commit" or field != "offset" or not isinstance(now, int):
            return ""
        if isinstance(was, int) and now < was:
            return f"backwards by {was - now}"
        topic, _, number = identity[2].rpartition("-")
        until = self._options.diff[1] if self._options.diff else None
        log = self._commit_log(topic, int(number), until) if self._options.lag else None
        place = None if log is None else log.place(now, epoch)
        return "" if place is None or place.name in (MARKERS_ONLY, WAITS) else place.why


def _nobody(_found: object) -> None:
    """Take what was told when the end of the log was asked for."""


class DataBehind:
    """Tells whether a record that is no marker stands at or behind an offset.

    Args:
        log, files: the partition.
        cut: up to where it counts.
    """

    def __init__(self, log: PartitionLog, files: LogFiles, cut: Cut) -> None:
        self._log, self._files, self._cut = log, files, cut
        self._known = -1  # offset of a record of that kind

    def is_there(self, offset: int) -> bool:
        """Look for one; what cannot be read is taken for one."""
        if offset <= self._known:
            return True
        try:
            number = max(bisect_right(self._log.bases, offset) - 1, 0)
            start = Cut(number, self._files.position(number, offset), -1)
            for _, chunk in self._log.chunks(start, self._cut):
                rows, width = chunk.rows, layout.RECORD_WIDTH
                for row in range(0, chunk.filled * width, width):
                    flags = chunk.window.cell(rows[row + layout.R_BATCH], layout.ATTRIBUTES)
                    if rows[row + layout.R_OFFSET] >= offset and not flags & layout.CONTROL_FLAG:
                        self._known = rows[row + layout.R_OFFSET]
                        return True
        except (UnreadableError, OSError):
            return True
        finally:
            self._log.directory.close()
        return False


def _identity(row: CommitRow) -> tuple[str, ...]:
    kind = "pending" if row.pending else "commit"
    return kind, row.group, f"{row.topic}-{row.partition}"


def _fields(row: CommitRow) -> _Fields:
    """The fields of a commit that can change."""
    if row.pending:
        return {"pendingOffset": row.offset, "pendingProducerId": row.producer_id}
    return {
        "offset": row.offset,
        "leaderEpoch": row.leader_epoch,
        "metadata": row.metadata,
        "commitTimestamp": row.commit_timestamp,
        "expireTimestamp": row.expire_timestamp,
    }


def _group_fields(row: GroupRow) -> _Fields:
    """The fields of a group that can change."""
    return {
        "groupType": row.group_type,
        "state": row.state,
        "epoch": row.epoch,
        "protocol": row.protocol,
        "members": row.members,
    }
