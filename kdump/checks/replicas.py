"""`verify --replicas`: one partition under several roots, compared batch by batch over the offsets that both have.

Two replicas are walked side by side. Batches with the same offsets and the same CRC are the same. What else may differ
by right: a follower or a compaction of its own may have framed the records in other batches, or removed some; retention
may have deleted more at the start. So where batches differ their records decide: those that both have must be equal.
A batch whose base offset is wrong counts by the right one where that is known: its data is there.
Every pair of replicas is compared, so that with three the odd one shows. Batches with a wrong CRC are left out: what is
wrong with them is said by the verify of their own directory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from itertools import combinations, groupby, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.checks.batch_contents import BatchContents
from kdump.checks.had_elsewhere import HolesHadElsewhere
from kdump.checks.run import LocalVerify, partitions_of, verify
from kdump.checks.step_sentences import DELETED_TOO, Move, PersonSteps, StepKind, move
from kdump.checks.step_table import PartitionState, RunState, steps_for
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk, right_windows
from kdump.format.java_values import ABOVE_ALL
from kdump.format.kinds import FileKind
from kdump.item import Checked, PartitionChecked
from kdump.ranges import RangeSet
from kdump.rows.steps import NONE, UNKNOWN
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.file_source import FileSource, OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.paths import base_name, parent
from kdump.value import TupleValue
from kdump.words.command import command_line, named
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.checks.partition_check import PartitionCheck
    from kdump.item import Item
    from kdump.rows.steps import Amount, Step
    from kdump.storage.partition_dir import PartitionDir
    from kdump.words.command import ShellCommand

_MOST_TOGETHER = 1000  # batches without records that follow each other, of which one is named
_MOST_PARTS = 100  # ranges of one loss that are told apart by who has them
_HELD = 10_000  # findings about missing offsets, until it is known whether compaction explains them


class LocalReplicas(LocalVerify):
    """Judges partitions, and compares their replicas, by processes of this machine."""

    def replicas(self, groups: Sequence[Sequence[PartitionCheck]], options: VerifyOptions) -> Iterator[Item]:
        """Yield where the replicas of partitions are not the same.

        Args:
            groups: the replicas of each partition.
            options: what was asked for.

        Reports: D01-D03.
        """
        for checks in groups:
            yield from compare_all(checks, options)


def compare(
    paths: Sequence[str],
    options: VerifyOptions,
    engine: LocalReplicas | None = None,
    *,
    is_asked: bool = True,
    only_losing: bool = False,
) -> Iterator[Item]:
    """Yield what `verify` has to say, and then where the replicas of a partition are not the same.

    Args:
        paths: partition directories, or log directories; each is a root of its own.
        options: what was asked for.
        engine: judges the partitions.
        is_asked: the user wants replicas to be compared: that there are none, or some of something else, is told.
        only_losing: compare those partitions only of which a replica has lost something.

    Reports: D01-D03, and every code of verify.
    """
    engine = engine or LocalReplicas()
    known = _KnownLosses()
    lacks = False  # a path leads nowhere
    for item in known.through(verify(paths, options, engine, are_replicas=True)):
        lacks |= isinstance(item, OpenFailure) and item.missing
        yield item
    replicas, apart = by_origin(partitions_of(paths))
    if only_losing:
        replicas = {key: some for key, some in replicas.items() if any(known.has_losses(one.path) for one in some)}
    if not is_asked:
        pass
    elif not lacks and all(len(some) < 2 for some in replicas.values()):  # else what is missing was told
        of_one = "".join(f" with one {origin}" for origin in apart)
        sentence = f"--replicas: no partition lies under two of these paths{of_one}: nothing was compared"
        yield OpenFailure(paths[0], "other", sentence)
    else:
        for origin, count in apart.items():
            what = f"--replicas: {counted(count, 'partition')} with more than one {origin}"
            yield OpenFailure(paths[0], "skipped", f"{what}: only replicas that have the same are compared")
    options = options.replace(foreign_logs=frozenset(known.foreign_logs))
    for item in engine.replicas([some for _, some in sorted(replicas.items())], options):
        known.see_difference(item)
        if not known.holes.takes_difference(item):
            yield item
    yield from known.holes.settle(replicas.values(), options)
    groups = [[check.path for check in some] for some in replicas.values()]
    losses = list(known.with_others(groups))
    yield from known.steps(groups, {one.path for one in losses if one.counts})
    yield from losses


_ORIGINS: Mapping[str, Callable[[PartitionDir], str | None]] = MappingProxyType(
    {"cluster.id": lambda directory: directory.log_dir.cluster_id, "topic id": lambda directory: directory.topic_id}
)
"""What the replicas of one partition have in common: a topic that was deleted and created again has another id."""


def by_origin(checks: Iterable[PartitionCheck]) -> tuple[dict[tuple[str, ...], list[PartitionCheck]], dict[str, int]]:
    """Return the replicas that are compared with each other: those of one partition, one cluster and one topic.

    Where there are several, one that does not say its own is compared with others that do not.

    Args:
        checks: of all partitions.

    Returns:
        replicas by topic, partition, and origins; and of how many partitions some are left apart, by what differs.
    """
    found: dict[tuple[str, str], list[PartitionCheck]] = {}
    for check in checks:
        if check.name is not None and not check.name.state and check.sizes:
            found.setdefault((check.name.topic, f"{check.name.partition:010}"), []).append(check)
    replicas: dict[tuple[str, ...], list[PartitionCheck]] = {}
    apart: dict[str, int] = {}
    for key, some in found.items():
        several = []
        for origin, of in _ORIGINS.items():
            if len(some) > 1 and len({of(one.directory) for one in some} - {None}) > 1:
                apart[origin] = apart.get(origin, 0) + 1
                several.append(of)
        for one in some:
            replicas.setdefault((*key, *(of(one.directory) or "" for of in several)), []).append(one)
    return replicas, apart


class _Replicated:
    """Which offsets a replica has: those of its log without what it misses.

    Attributes:
        start, end: the first offset and the log end offset.
    """

    def __init__(self) -> None:
        self.start = self.end = 0
        self.missing = RangeSet()  # the offsets that it misses

    def has(self, first: int, last: int) -> bool:
        """Tell whether all of some offsets are here."""
        return self.start <= first <= last < self.end and not self.missing.has_any(first, last)

    def has_any(self, first: int, last: int) -> bool:
        """Tell whether any of some offsets is here."""
        return not self.missing.has_all(max(first, self.start), min(last, self.end - 1))

    def borders(self, first: int, last: int) -> set[int]:
        """Return where in a range of offsets something begins to be here, or to be missing; some of them if many."""
        found = {one for one in (self.start, self.end) if first < one <= last}
        for borders, behind in ((self.missing.firsts, 0), (self.missing.lasts, 1)):
            at = bisect_right(borders, first - behind)
            found.update(one + behind for one in borders[at : at + _MOST_PARTS] if one + behind <= last)
        return found


class _KnownLosses:
    """What the replicas have lost and what to do about it, until it is known which others have it, and are sound."""

    def __init__(self) -> None:
        self.foreign_logs: set[str] = set()  # paths of the logs that are another partition's
        self.holes = HolesHadElsewhere()
        self._states = RunState((), ())
        self._only_differs: dict[str, Finding] = {}  # replicas that lack records, and the first finding that says so
        self._unsound: set[str] = set()  # directories in which something is wrong, or was not read
        self._warned: set[str] = set()  # directories with a warning
        self._differ: set[tuple[str, str]] = set()  # replicas with other records at the same offsets
        self._lacks: set[tuple[str, str]] = set()  # replicas that lack records, and those that have them
        self._losses: dict[str, list[Loss]] = {}
        self._sizes: dict[str, int] = {}  # of the logs of each replica, bytes
        self._replicas: defaultdict[str, _Replicated] = defaultdict(_Replicated)

    def through(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield the items of verify, but for what is lost and the steps."""
        for item in items:
            if isinstance(item, RunState):
                self._states = item
                continue
            is_held = self.holes.takes(item)
            if isinstance(item, Loss):
                self._replicas[item.path].missing.add(item.offset, item.last_offset)
                if item.counts or item.certainty is Certainty.UNEXPLAINED:
                    self._losses.setdefault(item.path, []).append(item)
                    continue
            elif isinstance(item, PartitionChecked) and item.start_offset is not None and item.end_offset is not None:
                self._replicas[item.path].start, self._replicas[item.path].end = item.start_offset, item.end_offset
                self._sizes[item.path] = item.size
            elif isinstance(item, Finding) and item.code is Code.F12:
                pass  # that a broker does not start with both makes neither a worse source
            elif isinstance(item, Finding) and item.is_unsound:
                self._unsound.update((item.file, parent(item.file)))
                if item.code is Code.F15 and item.expected is None:  # else it is of this partition, under a wrong name
                    self.foreign_logs.add(item.file)
            elif isinstance(item, OpenFailure) and item.kind != "skipped":
                self._unsound.update((item.path, parent(item.path)))
            elif isinstance(item, Finding) and item.severity is Severity.WARNING:
                self._warned.update((item.file, parent(item.file)))
            if not is_held:
                yield item

    def has_losses(self, path: str) -> bool:
        """Tell whether a replica has lost something, or may have."""
        return path in self._losses

    def see_difference(self, item: Item) -> None:
        """Take into account where two replicas have other records, or one has fewer."""
        if not isinstance(item, Finding) or not item.is_difference:
            return
        pair = parent(item.file), str(item.values["other"])
        if item.code is Code.D02:
            self._lacks.add(pair)
            if item.severity is not Severity.NOTE:
                self._only_differs.setdefault(pair[0], item)
        elif item.code is Code.D01:
            self._differ.update((pair, pair[::-1]))

    def steps(self, groups: Sequence[Sequence[str]], lacking: Collection[str]) -> Iterator[Step]:
        """Yield the steps: each names the sound replica, or all that salvage is to join.

        Args:
            groups: paths of the replicas of each partition.
            lacking: paths of those that have lost something, now that it is known what the others have.
        """
        replicas = {path: tuple(paths) for paths in groups for path in paths if len(paths) > 1}
        found = {one.path: one for one in self._states.partitions}
        for path in {one for pair in self._differ for one in pair} | set(self._only_differs):
            if path not in found and path in replicas:
                found[path] = PartitionState(path)
        for path, one in list(found.items()):
            if path in replicas:
                is_lacking = one.has_losses or path in lacking
                found[path] = self._compared(one.replace(has_losses=is_lacking), replicas[path])
        order = {path: at for at, path in enumerate(path for paths in groups for path in paths)}
        states = sorted(found.values(), key=lambda one: order.get(one.path, -1))
        yield from steps_for(states, self._states.moves)

    def _compared(self, one: PartitionState, paths: tuple[str, ...]) -> PartitionState:
        """What is known of a replica once it is compared with the others."""
        others = [path for path in paths if path != one.path]
        sound = self._sound(one.path, others) if one.lacks or one.has_alone else None
        contradicts = not one.is_damaged and any((one.path, path) in self._differ for path in others)
        moves = [move for move in one.moves if move.kind is not StepKind.COMPARE]
        if sound is not None:
            where = "in whose logs" if sound in self._warned else "in which"
            source = f"from {sound}, {where} nothing is wrong, and nothing is missing that this one has or had"
            size = self._sizes.get(sound)
            moves = [_restored(move, source, one.keeps, size) for move in moves]
        else:
            moves = [
                _restored(move, "from a replica other than these, if one is sound", UNKNOWN, None) for move in moves
            ]
        deleted = DELETED_TOO if any(DELETED_TOO[0] in move.flags for move in moves) else ()
        size = sum(self._sizes.get(path, 0) for path in paths)
        to = "--to", "DIR"
        joining = _salvage(paths, *deleted, *to)
        moves.append(move(StepKind.JOIN, joining).replace(loses=NONE, size=size))
        if contradicts:
            path = base_name(one.path)
            moves.append(move(StepKind.STOP_WRITERS, path=path).replace(keeps=one.keeps, loses=NONE))
            command = _salvage(paths, "--prefer", "SOURCE", *to)
            moves.append(Move(StepKind.PREFER, command=command, size=size))
        if one.path in self._only_differs and not (one.lacks or one.has_alone):
            persons = PersonSteps()
            persons.see(self._only_differs[one.path])
            moves += persons.moves()
        is_mendable = one.is_mendable and not contradicts
        return one.replace(
            moves=tuple(moves), sound=sound, together=paths, contradicted=contradicts, is_mendable=is_mendable
        )

    def _sound(self, path: str, others: Sequence[str]) -> str | None:
        """The replica that has all that one with damage has, and all that it has lost; None where there is none.

        To restore from it is to throw this one away: so it has lost nothing itself, begins as low and ends as high,
        and each record that is intact here is there.
        """
        losses, here = self._losses.get(path, []), self._replicas[path]
        found = [
            one
            for one in others
            if one not in self._unsound
            and one not in self._losses
            and (path, one) not in self._differ
            and (one, path) not in self._lacks
            and self._replicas[one].end
            and self._replicas[one].start <= here.start
            and self._replicas[one].end >= here.end
            and all(self._replicas[one].has(loss.offset, loss.last_offset) for loss in losses)
            and not any(here.has_any(*missing) for missing in self._replicas[one].missing)
        ]
        return max(found, key=lambda one: self._replicas[one].end, default=None)

    def with_others(self, groups: Sequence[Sequence[str]]) -> Iterator[Loss]:
        """Yield what is lost, with the replicas that have it.

        Args:
            groups: paths of the replicas of each partition.
        """
        replicas = {path: paths for paths in groups for path in paths if len(paths) > 1}
        for path, losses in self._losses.items():
            if path not in replicas:
                yield from losses
                continue
            others = {one: self._replicas[one] for one in replicas[path] if one != path}
            for loss in losses:
                for first, last, have in _parts(loss, others):
                    known = last - first + 1 if loss.records == loss.offsets else loss.records
                    part = loss.replace(offset=first, last_offset=last, records=known, replicas=have)
                    yield self.holes.judged(part)


def _salvage(paths: Sequence[str], *flags: str) -> ShellCommand:
    """The command that makes one partition of some replicas."""
    return command_line("salvage", *map(named, paths), *flags)


def _restored(one: Move, source: str, keeps: Amount, size: int | None) -> Move:
    """A step that restores a replica, with the one that it is restored from; another one as it is."""
    if one.kind is not StepKind.RESTORE:
        return one
    words = tuple((name, source if name == "source" else word) for name, word in one.words)
    return one.replace(words=words, keeps=keeps, loses=UNKNOWN if keeps is UNKNOWN else NONE, size=size)


def _parts(loss: Loss, others: Mapping[str, _Replicated]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield the ranges of what is lost that each replica has all of or nothing: first, last, and those that have it.

    What has fewer records than offsets stays one range, as nobody knows which of them have one; so does what would
    come to too many.
    """
    within = {loss.offset, loss.last_offset + 1}
    if loss.records in (None, loss.offsets):
        within.update(*(one.borders(loss.offset, loss.last_offset) for one in others.values()))
        if len(within) > _MOST_PARTS:
            within = {loss.offset, loss.last_offset + 1}
    parts = ((first, end - 1) for first, end in pairwise(sorted(within)))
    for have, same in groupby(parts, lambda part: tuple(path for path, one in others.items() if one.has(*part))):
        ranges = list(same)
        yield ranges[0][0], ranges[-1][1], have


def compare_all(checks: Sequence[PartitionCheck], options: VerifyOptions) -> Iterator[Item]:
    """Yield where the replicas of one partition are not the same.

    Args:
        checks: the replicas.
        options: what was asked for.

    Reports: D01-D03.
    """
    for one, other in combinations(checks, 2):
        yield from _Pair(one, other, options).compare()
    yield Checked((), 0, 0)  # a file that differs from several others is listed once


def _cannot_follow(finding: Finding, base: int) -> Finding:
    """The end of a replica inside a batch of the other one, which sends that whole: a broker refuses such an append.

    Source: UnifiedLog.append (UnexpectedAppendOffsetException).
    """
    inside = f"; its end lies inside a batch of the other one, so it cannot follow: that batch begins at offset {base}"
    cut = command_line("truncate", named(finding.file), "--to-offset", str(base))
    remedy = f"while the broker is stopped, cut it where that batch begins, then it fetches the rest: {cut}"
    values = {**finding.values, "inside": inside, "remedy": remedy}
    return finding.replace(values=values, severity_override=Severity.ERROR)


class _ReplicaBatch(TupleValue):
    """What is compared of a batch, and where it is."""

    first: int
    last: int
    crc: int
    epoch: int
    position: int
    size: int
    is_true: bool
    is_whole: bool  # it has as many records as offsets
    is_v2: bool  # its first offset stands in its header: of older ones it is taken to follow the one before
    log: FileSource
    shift: int = 0  # what its right offsets lie above those in its bytes

    @property
    def place(self) -> tuple[str, int]:
        """Its log, and where it begins."""
        return self.log.name, self.position

    @property
    def end(self) -> tuple[str, int]:
        """Its log, and where it ends."""
        return self.log.name, self.position + self.size


class _Replica:
    """The batches of one replica in order, one of them in hand."""

    def __init__(self, check: PartitionCheck, options: VerifyOptions) -> None:
        self.path = check.path  # of the directory
        self._check = check
        self._options = options
        self._batches = self._walk()
        self.records = BatchContents(options)  # reads those of its batches
        self.is_short = False  # the other one has records behind its end in the last batches of both
        self.inside: int | None = None  # base offset of the batch of the other one in which its end lies
        self.batch: _ReplicaBatch | None = None  # the one in hand, None at the end
        self.before: _ReplicaBatch | None = None  # the one before it, None at the start
        self.end = 0  # the offset after the last batch so far
        self.was_compacted = False  # a batch so far has fewer records than offsets
        self.step()
        self.start = 0 if self.batch is None else min(self.batch.first, check.lost_from)  # the first offset

    def step(self) -> None:
        """Take the next batch in hand."""
        self.before = self.batch
        self.batch = next(self._batches, None)
        if self.batch is not None:
            self.end = max(self.end, self.batch.last + 1)
            self.was_compacted = self.was_compacted or not self.batch.is_whole

    def finish(self) -> bool:
        """Walk to the end; tell whether a batch on the way has a wrong CRC."""
        is_doubtful = False
        while self.batch is not None:
            is_doubtful = is_doubtful or not self.batch.is_true
            self.step()
        return is_doubtful

    def _walk(self) -> Iterator[_ReplicaBatch]:
        last = -1
        for job in self._check.jobs:
            if job.files[FileKind.LOG] in self._options.foreign_logs:
                continue
            source = open_source(job.files[FileKind.LOG])
            if isinstance(source, OpenFailure):
                continue
            with source:
                found: list[Finding] = []
                limit, base, following = self._options.max_batch_bytes, job.base_offset, job.next_base
                walk = CheckedWalk(source, found.append, segment=base, next_base=following, max_batch_bytes=limit)
                walk.checks.follow_producers = False
                for row, shift in _right_rows(walk, found):
                    if row[layout.LAST_OFFSET] <= last or row[layout.SUSPICION] & layout.OUT_OF_RANGE:
                        continue  # its offsets are wrong: they say nothing
                    is_v2 = row[layout.MAGIC] >= layout.MAGIC_V2
                    first = row[layout.BASE_OFFSET] if is_v2 else last + 1
                    last = row[layout.LAST_OFFSET]
                    is_true = row[layout.CRC] == row[layout.COMPUTED_CRC]
                    is_whole = not is_v2 or row[layout.COUNT] > row[layout.LAST_OFFSET_DELTA]
                    place = (row[layout.POSITION], row[layout.SIZE])
                    what = (row[layout.CRC], row[layout.LEADER_EPOCH], *place, is_true, is_whole, is_v2, source, shift)
                    yield _ReplicaBatch(max(first, 0), last, *what)


def _right_rows(walk: CheckedWalk, found: list[Finding]) -> Iterator[tuple[array[int], int]]:
    """Yield the batches of a log with their right offsets, where these are known, and what was added to them.

    Args:
        walk: over the log.
        found: takes what it reports.
    """
    for window, shifts in right_windows(walk, found):
        found.clear()
        for k in range(window.count):
            yield window.row(k), shifts.get(k, 0)


class _Taken:
    """Batches of one replica that are taken together, their records in order, one of them in hand.

    Args:
        replica: its batches are taken as they are needed.

    Attributes:
        offset, record: in hand, `record` None at the end.
        batch: that it is of.
        lacking: first and last offset of records that the other has and these batches have not, and the batch there, or
            behind them; None at the end of the log.
        is_unread: some records cannot be trusted, or read: nobody knows whether they are those that are lacking.
        is_out_of_order: some records are not in the order of their offsets, and were passed over.
    """

    def __init__(self, replica: _Replica) -> None:
        self.replica = replica
        self.offset = ABOVE_ALL
        self.record: tuple[object, ...] | None = None
        self.lacking: list[tuple[int, int, _ReplicaBatch | None]] = []
        self.is_unread = self.is_out_of_order = False
        self._last = -1
        self._records: Iterator[tuple[int, tuple[object, ...] | None]] = iter(())
        self._batches: deque[_ReplicaBatch] = deque(maxlen=_MOST_TOGETHER)  # those that may have the next offset

    @property
    def batch(self) -> _ReplicaBatch:
        """That of the record in hand."""
        return self._batches[-1]

    @property
    def last_batch(self) -> _ReplicaBatch | None:
        """The last one that was taken."""
        return self._batches[-1] if self._batches else None

    def next(self) -> None:
        """Take the next record of the batch in hand; none at its end."""
        for offset, record in self._records:
            if record is None:
                self.is_unread = True
            elif offset <= self._last:
                self.is_out_of_order = True
            else:
                self._last = self.offset = offset
                self.record = record
                return
        self.offset, self.record = ABOVE_ALL, None

    def fill(self, end: int) -> int:
        """Have a record in hand, if batches up to an offset have another one; return up to which offset they go."""
        while self.record is None:
            batch = self.replica.batch
            if batch is None or (self._batches and batch.first > end):
                break
            end = max(end, batch.last)
            self._batches.append(batch)
            self.replica.step()
            if batch.is_true:
                self._records = self.replica.records.of(batch.log.name, batch.position, batch.size, batch.shift)
                self.next()
            else:
                self.is_unread = True
        return end

    def base_around(self, end: int, before: _ReplicaBatch | None) -> int | None:
        """Return the base offset of the batch that begins below a log end offset, and ends at it or behind; or None.

        Args:
            end: of the other replica.
            before: its last batch; one of another epoch is no part of this one, and is cut before it is followed.
        """
        around = (one for one in self._batches if one.is_v2 and one.first < end <= one.last)
        return next((one.first for one in around if before is not None and one.epoch == before.epoch), None)

    def lacks(self, offset: int) -> None:
        """The other has a record that is not here."""
        while len(self._batches) > 1 and self._batches[0].last < offset:
            self._batches.popleft()
        here = self._batches[0] if self._batches[0].last >= offset else self.replica.batch
        if self.lacking and self.lacking[-1][1] == offset - 1:
            self.lacking[-1] = (self.lacking[-1][0], offset, self.lacking[-1][2])
        elif len(self.lacking) < _HELD:
            self.lacking.append((offset, offset, here))


class _Pair:
    """Compares two replicas."""

    def __init__(self, one: PartitionCheck, other: PartitionCheck, options: VerifyOptions) -> None:
        self._one = _Replica(one, options)
        self._other = _Replica(other, options)
        self._missing: list[Finding] = []
        self._has_parted = False

    def compare(self) -> Iterator[Finding]:
        """Yield the differences; those of missing offsets at the end."""
        one, other = self._one, self._other
        while one.batch is not None and other.batch is not None:
            if one.batch.last < other.batch.first:
                self._lacks(other, one)
            elif other.batch.last < one.batch.first:
                self._lacks(one, other)
            elif one.batch[:4] == other.batch[:4]:
                one.step()
                other.step()
            else:
                yield from self._look_closer()
        one.records.close()
        other.records.close()
        compacted = one.was_compacted or other.was_compacted
        for finding in self._missing:
            yield finding.replace(severity_override=Severity.NOTE) if compacted else finding
        yield from self._ends()

    def _lacks(self, replica: _Replica, other: _Replica) -> None:
        """A batch of the other is not here; below the first offset retention has taken it."""
        batch, here = other.batch, replica.batch
        assert batch is not None
        assert here is not None
        if batch.first >= replica.start and batch.is_true:
            before, place = replica.before, here.place
            if before is not None and before.log.name != here.log.name:
                place = before.end  # it is the log before this one that ends early
            self._miss(place, other.path, (batch.first, batch.last), batch.epoch)
        other.step()

    def _miss(self, place: tuple[str, int], other: str, offsets: tuple[int, int], epoch: int | str | None) -> None:
        """Offsets of the other replica are not at a place; those that follow each other are told at once."""
        first, last = offsets
        before = self._missing[-1] if self._missing else None
        if before is not None and before.offset is not None:
            at_once = before.file, before.position, before.last_offset, before.values["other"]
            if at_once == (*place, first - 1, other):
                self._missing.pop()
                first, epoch = before.offset, before.values["other_epoch"]
        if len(self._missing) < _HELD:
            values: dict[str, int | str | None] = {"missing_first": first, "missing_last": last, "other": other}
            values["other_epoch"] = epoch
            self._missing.append(Finding(Code.D02, *place, 0, offset=first, last_offset=last, values=values))

    def _ends(self) -> Iterator[Finding]:
        for replica, other in ((self._one, self._other), (self._other, self._one)):
            if other.batch is not None or replica.is_short:
                epoch = None if other.batch is None else other.batch.epoch
                is_doubtful = other.finish()
                values: dict[str, int | str | None] = {"other": other.path, "end": other.end}
                values |= {"other_epoch": epoch, "is_doubtful": is_doubtful, "inside": ""}
                short = Finding(Code.D03, replica.path, offset=replica.end, found=replica.end, values=values)
                yield short if replica.inside is None else _cannot_follow(short, replica.inside)

    def _look_closer(self) -> Iterator[Finding]:
        """Take batches of both until they end at one offset, and compare their records, in the order of offsets."""
        one, other = self._one.batch, self._other.batch
        assert one is not None
        assert other is not None
        if one[:3] == other[:3]:
            if one.is_true and other.is_true:
                why = f"leader epoch {other.epoch}, where the other has {one.epoch}"
                yield self._differs(other, one, why, "partitionLeaderEpoch")
            self._one.step()
            self._other.step()
            return
        ours, theirs = _Taken(self._one), _Taken(self._other)
        told, end = None, -1
        while True:
            known = None
            while end != known:  # one may need a batch more where the other has taken one
                known, end = end, theirs.fill(ours.fill(end))
            if ours.record is None and theirs.record is None:
                break
            if ours.offset < theirs.offset:
                theirs.lacks(ours.offset)
                ours.next()
            elif theirs.offset < ours.offset:
                ours.lacks(theirs.offset)
                theirs.next()
            else:
                if ours.record != theirs.record and told != theirs.batch:
                    told = theirs.batch
                    why = f"the record of offset {theirs.offset} is another one"
                    yield self._differs(told, ours.batch, f"{why}{self._parting(ours.batch, told)}", None)
                ours.next()
                theirs.next()
        if not (ours.is_out_of_order or theirs.is_out_of_order):
            self._miss_records(ours, theirs, parted=told is not None)
            self._miss_records(theirs, ours, parted=told is not None)

    def _parting(self, ours: _ReplicaBatch, theirs: _ReplicaBatch) -> str:
        """Say once where two histories part, and which replica cuts what, when the other one leads.

        Source: KIP-101 and KIP-279: a follower goes back to where the epochs of both were the same.
        """
        if self._has_parted:
            return ""
        self._has_parted = True
        one, other, first = self._one.path, self._other.path, max(ours.first, theirs.first)
        if ours.epoch == theirs.epoch:
            return f"; both have it in epoch {ours.epoch}: whichever leads, the other one keeps what it has"
        cuts = f"if {one} leads, {other} cuts its offsets from {first} on, and if {other} leads, {one} does"
        return f": epoch {theirs.epoch} here, epoch {ours.epoch} there; they part at {first}: {cuts}"

    def _miss_records(self, taken: _Taken, other: _Taken, *, parted: bool) -> None:
        """Records of the other replica are in none of the batches of this one, which have their offsets."""
        for first, last, here in () if taken.is_unread else taken.lacking:
            if here is None:
                taken.replica.is_short = True
                if not (parted or self._has_parted):
                    taken.replica.inside = other.base_around(taken.replica.end, taken.last_batch)
            elif first >= taken.replica.start:
                self._miss(here.place, other.replica.path, (first, last), None)

    def _differs(self, batch: _ReplicaBatch, other: _ReplicaBatch, why: str, field: str | None) -> Finding:
        """What a replica has in a batch, where the first one of the pair has something else in another."""
        return Finding(
            Code.D01,
            batch.log.name,
            batch.position,
            batch.size,
            offset=batch.first,
            last_offset=batch.last,
            field=field,
            found=None if field is None else batch.epoch,
            expected=None if field is None else other.epoch,
            values={
                "why": why,
                "other": self._one.path,
                "epoch": batch.epoch,
                "other_epoch": other.epoch,
                "is_doubtful": not (batch.is_true and other.is_true),
            },
        )
