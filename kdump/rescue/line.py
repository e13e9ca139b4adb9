"""One line of offsets out of the batches of many logs: which copy counts at which offset.

Strategy: all logs are walked side by side. Where several have the same batches, whole runs are compared column by
column; only where they differ a batch is looked at by itself.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import combinations
from operator import lt
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.rescue.epochs import NEVER
from kdump.rescue.valid_runs import batches_of, first_offset
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source
    from kdump.rescue.scanned_log import ScannedLog


class LineRun(TupleValue):
    """Batches of the line that lie one behind the other in one log: bytes, half-open, and first and last offset."""

    log: int  # its number
    start: int
    end: int
    first: int
    last: int
    copies: int  # how many have them


class LineRuns:
    """The runs of the line by offset: a column for each field of `LineRun`."""

    __slots__ = ("copies", "ends", "firsts", "lasts", "logs", "starts")

    def __init__(self) -> None:
        self.logs, self.starts, self.ends = array("q"), array("q"), array("q")
        self.firsts, self.lasts, self.copies = array("q"), array("q"), array("q")

    def append(self, run: LineRun) -> None:
        """Add the next run."""
        self.logs.append(run.log)
        self.starts.append(run.start)
        self.ends.append(run.end)
        self.firsts.append(run.first)
        self.lasts.append(run.last)
        self.copies.append(run.copies)

    def __len__(self) -> int:
        return len(self.logs)

    def __iter__(self) -> Iterator[LineRun]:
        return map(LineRun, self.logs, self.starts, self.ends, self.firsts, self.lasts, self.copies)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(self.ends) - sum(self.starts)


class LineLog(TupleValue):
    """A log that is read for the line."""

    number: int  # among all logs
    copy: int  # number of the copy that it belongs to
    source: Source  # with its patches
    facts: ScannedLog  # what it has
    limit: int = NEVER  # where the next log of its copy begins: what reaches up to there does not count
    before: int = -1  # the last offset before it in its copy, as far as it is known
    next_epoch: int | None = None  # of the first batch of the next log of its copy, None where there is none
    foreign: tuple[tuple[int, int], ...] = ()  # ranges of offsets in which its copy has another epoch than the line

    @property
    def begins(self) -> int:
        """From which offset on it must be looked at: from where the log before it ends, or its own first."""
        first = self.facts.first or 0
        return first if self.before < 0 else min(first, self.before + 1)


class Divergent(TupleValue):
    """Batches of one copy that do not belong to the line: offsets, epoch (-1: none), records."""

    copy: int
    first: int
    last: int
    epoch: int
    records: int


class BatchesBeyond(TupleValue):
    """Batches, one behind the other, that reach into the next log of their copy.

    Their base offsets are wrong, or the name of their log is.
    """

    copy: int
    log: int  # its number
    # start, end: their bytes, half-open
    start: int
    end: int
    # first, last: offsets as stored
    first: int
    last: int


class Candidate(TupleValue):
    """A batch as one copy has it; of several for one place of the line one is taken."""

    copy: int
    log: int
    position: int
    first: int
    last: int
    epoch: int
    crc: int


class ContradictionError(Exception):
    """Copies contradict each other, and epochs do not decide."""

    def __init__(self, why: str, sides: list[Candidate]) -> None:
        super().__init__(why)
        self.why = why
        self.sides = sides


class PartedError(Exception):
    """A copy contradicts another one, and it is not known yet from where on which of them do not count."""


class WrongEpochError(Exception):
    """The epoch that a copy has for some batches is wrong: another copy has the same bytes, and fits."""

    def __init__(self, copy: int, epoch: int, first: int) -> None:
        super().__init__(copy, epoch, first)
        self.copy, self.epoch, self.first = copy, epoch, first


class Pair(TupleValue):
    """Two batches of one place of which one has records that the other lacks; `taken` is the larger one."""

    taken: Candidate
    other: Candidate


class Cursor:
    """Goes through the batches of one log."""

    def __init__(self, log: LineLog, limits: ReadLimits, beyond: Callable[[Cursor, int], None]) -> None:
        self.log = log
        self._beyond = beyond
        self._limits = limits
        self._windows = self._all()
        self.k = self.count = 0
        self.ended = False
        self._load()

    def _all(self) -> Iterator[tuple[Window, int | None]]:
        """The windows of all runs; with the first of one where its offsets begin."""
        for run in self.log.facts.runs.by_offset():
            first: int | None = run.first
            for window in batches_of(self.log.source, run.start, run.end, self._limits.max_batch_bytes):
                yield window, first
                first = None

    def _load(self) -> None:
        window, first = next(self._windows, (None, None))
        if window is None:
            self.ended = True
            return
        self.k, self.count = 0, window.count
        self.firsts = window.column(layout.BASE_OFFSET)
        if (
            window.cell(0, layout.MAGIC) < layout.MAGIC_V2
            or window.cell(window.count - 1, layout.MAGIC) < layout.MAGIC_V2
        ):
            self.firsts = array("q", [first_offset(window, k, self.log.facts.wrappers) for k in range(window.count)])
        self._stored = self.firsts[0]
        if first is not None:
            self.firsts[0] = first  # another one than its own where it overlaps the batch before it
        self.lasts = window.column(layout.LAST_OFFSET)
        self.crcs = window.column(layout.CRC)
        self.epochs = window.column(layout.LEADER_EPOCH)
        self.positions = window.column(layout.POSITION)
        self.sizes = window.column(layout.SIZE)
        self.counts = window.column(layout.COUNT)
        if self.lasts[-1] >= self.log.limit:
            stop = bisect_left(self.lasts, self.log.limit)
            self._beyond(self, stop)
            self.count = stop
            if not stop:
                self._load()

    @property
    def first(self) -> int:
        """First offset of the batch in hand."""
        return self.firsts[self.k]

    def stored(self, k: int) -> int:
        """Return the first offset of the batch in a row as it is stored, also where others have some of its offsets."""
        return self.firsts[k] if k else self._stored

    def side(self) -> Candidate:
        """Return the batch in hand."""
        return self.side_of(self.k)

    def side_of(self, k: int) -> Candidate:
        """Return the batch in a row."""
        place = self.log.copy, self.log.number, self.positions[k]
        return Candidate(*place, self.firsts[k], self.lasts[k], self.epochs[k], self.crcs[k])

    def records(self, start: int, stop: int) -> int:
        """Return how many records the batches of rows [start, stop) have."""
        wrappers = self.log.facts.wrappers
        return sum(wrappers.count(self.counts[k], self.positions[k]) for k in range(start, stop))

    def move(self, stop: int) -> None:
        """Go on to a row."""
        self.k = stop
        if stop >= self.count:
            self._load()

    def is_foreign(self, k: int) -> bool:
        """Whether the epoch of the batch in a row is not that of the line."""
        return any(first <= self.firsts[k] <= last for first, last in self.log.foreign)

    def border(self, stop: int) -> int:
        """Return up to which row, at most `stop`, batches are all foreign or all not."""
        for one in self.log.foreign:
            for edge in (one[0], one[1] + 1):
                if self.firsts[self.k] < edge:
                    stop = min(stop, bisect_left(self.firsts, edge, self.k, self.count))
        return stop

    def next_epoch(self) -> int | None:
        """Return the epoch of the batch after the one in hand, as far as it is in the window."""
        return self.epochs[self.k + 1] if self.k + 1 < self.count else self.log.next_epoch


class Line:
    """The line.

    Args:
        logs: all of them.
        cuts: for each copy up to which offset it counts.
        limits: for reading.
        prefer: number of the copy that wins, None for none.
        knows_partings: the cuts say where copies contradict the one that wins.
        is_subset: tells of two batches of one place which one has all the records of the other: 0, 1, None where they
            are two, or another number where neither has, and they do not contradict each other.
        doubted: tells whether the epoch that a copy has at an offset is known to be wrong: copy, epoch, offset.
    """

    def __init__(
        self,
        logs: list[LineLog],
        cuts: list[int],
        limits: ReadLimits,
        prefer: int | None,
        is_subset: Callable[[Candidate, Candidate], int | None],
        doubted: Callable[[int, int, int], bool],
        *,
        knows_partings: bool = False,
    ) -> None:
        self.runs = LineRuns()  # of its batches
        self.divergent: list[Divergent] = []  # what does not belong to it, also where its offsets are covered
        self.beyond: list[BatchesBeyond] = []  # what does not count as it reaches into the next log
        self.pairs: list[Pair] = []  # batches of one place of which the larger was taken
        self.cuts = list(cuts)  # as given, but for copies that contradict the line sooner
        self._limits = limits
        self._prefer = prefer
        self._knows_partings = knows_partings
        self._is_subset = is_subset
        self._doubted = doubted
        self._last = -1
        self._epoch = -1
        self._in_hand = -1  # log of the latest run
        self._latest: Candidate | None = None  # the last batch, where others may begin inside of it
        self._copies = {log.number: log.copy for log in logs}
        self._reached = dict.fromkeys(self._copies.values(), -1)  # the last offset that each copy has of it
        self._aside: dict[int, int] = {}  # where the latest batch ends that has another epoch than the line, by copy
        self._build(logs)

    @property
    def last(self) -> int:
        """The last offset of it, -1 where it has none."""
        return self._last

    @property
    def left_out(self) -> Iterator[tuple[int, int, int]]:
        """Copy, first and last offset of all batches that do not belong to it, or do not count."""
        yield from ((one.copy, one.first, one.last) for one in self.divergent)
        yield from ((one.copy, one.first, one.last) for one in self.beyond)

    def _build(self, logs: list[LineLog]) -> None:
        waiting = sorted(
            (log for log in logs if log.facts.runs), key=lambda log: (log.begins, log.number), reverse=True
        )
        active: list[Cursor] = []
        while waiting or active:
            if not active and self._alone(waiting):
                self._whole(waiting.pop())
                continue
            first = min((cursor.first for cursor in active), default=None)
            while waiting and (first is None or waiting[-1].begins <= first):
                cursor = Cursor(waiting.pop(), self._limits, self._reaches_over)
                if cursor.ended:
                    continue
                active.append(cursor)
                first = cursor.first if first is None else min(first, cursor.first)
            if first is None:
                continue
            group = [cursor for cursor in active if cursor.first == first]
            others = [cursor.first for cursor in active if cursor.first != first]
            if waiting:
                others.append(waiting[-1].begins)
            self._step(group, min(others, default=NEVER))
            active = [cursor for cursor in active if not cursor.ended]

    def _alone(self, waiting: list[LineLog]) -> bool:
        """Whether the next log lies below all others and above what is there, so that nothing has to be compared."""
        facts = waiting[-1].facts
        first, last = facts.first or 0, facts.last or 0
        after = waiting[-2].begins if len(waiting) > 1 else NEVER
        ascends = all(map(lt, facts.runs.lasts, facts.runs.firsts[1:]))
        if waiting[-1].foreign:
            return False
        return ascends and self._last < first and last < min(after, waiting[-1].limit, self.cuts[waiting[-1].copy])

    def _whole(self, log: LineLog) -> None:
        runs = log.facts.runs
        for start, end, first, last in runs:
            self.runs.append(LineRun(log.number, start, end, self._begin(log, start, first), last, 1))
        self._last, self._in_hand = runs.lasts[-1], log.number
        self._reached[log.copy] = self._last
        self._epoch = log.facts.epochs[-1].epoch if log.facts.epochs else -1

    def _begin(self, log: LineLog, position: int, first: int) -> int:
        """The first offset that the line has of a batch, or of those behind it.

        The first one of a log that begins below its name has all that is not there yet.
        """
        below = log.facts.begins_below
        return first if position or below is None else min(first, max(below, self._last + 1))

    def _step(self, group: list[Cursor], bound: int) -> None:
        """Take batches that begin at the lowest offset.

        Args:
            group: all cursors that stand there.
            bound: the lowest offset of the others.
        """
        head = group[0]
        stop = min(bisect_left(head.lasts, bound, head.k, head.count), *(one.count - one.k + head.k for one in group))
        stop = self._same(group, max(stop, head.k + 1))
        if stop > head.k:
            self._take(group, stop - head.k)
            return
        self._differing(group)

    def _same(self, group: list[Cursor], stop: int) -> int:
        """Return up to which row of the first cursor all have the same batches and count, or none does."""
        head = group[0]
        for other in group[1:]:
            low, high = head.k, stop
            shift = other.k - head.k
            if not _equal(head, other, head.k, high, shift):
                while low < high:
                    middle = (low + high + 1) // 2
                    if _equal(head, other, head.k, middle, shift):
                        low = middle
                    else:
                        high = middle - 1
                stop = low
        for one in group:
            stop = min(stop, one.border(stop - head.k + one.k) - one.k + head.k)
        cut = max(self.cuts[one.log.copy] for one in group)
        if stop > head.k and head.lasts[stop - 1] >= cut and head.lasts[head.k] < cut:
            stop = bisect_left(head.lasts, cut, head.k, stop)
        return stop

    def _take(self, group: list[Cursor], count: int) -> None:
        """Take `count` batches that all of a group have."""
        head = group[0]
        last = head.lasts[head.k + count - 1]
        good = [one for one in group if self._counts(one, last)]
        if not good:
            for one in group:
                self._set_aside(one, count)
                self._diverge(one, count)
            return
        if head.first <= self._last:  # it begins inside of what is there already
            self._overlap(group)
            return
        best = next((one for one in good if one.log.number == self._in_hand), good[0])
        copies = len({one.log.copy for one in good})
        self._extent(best, count, copies)
        for one in group:
            self._reached[one.log.copy] = self._last
            one.move(one.k + count)

    def _counts(self, one: Cursor, last: int | None = None) -> bool:
        """Whether the batch in hand, or all up to a last offset, may be of the line."""
        last = one.lasts[one.k] if last is None else last
        return last < self.cuts[one.log.copy] and not one.is_foreign(one.k)

    def _extent(self, one: Cursor, count: int, copies: int) -> None:
        k, stop = one.k, one.k + count
        runs, number = self.runs, one.log.number
        position, end = one.positions[k], one.positions[stop - 1] + one.sizes[stop - 1]
        first, last = self._begin(one.log, position, one.firsts[k]), one.lasts[stop - 1]
        if runs and (runs.logs[-1], runs.ends[-1], runs.copies[-1]) == (number, position, copies):
            runs.ends[-1], runs.lasts[-1] = end, last
        else:
            runs.append(LineRun(number, position, end, first, last, copies))
        for copy, end in self._aside.items():
            if end >= first:
                self._part(copy, first)
        self._last, self._in_hand, self._epoch = last, number, one.epochs[stop - 1]
        self._latest = one.side_of(stop - 1)

    def _part(self, copy: int, offset: int) -> None:
        """From an offset on a copy is of another branch."""
        self.cuts[copy] = min(self.cuts[copy], offset)

    def _set_aside(self, one: Cursor, count: int = 1) -> None:
        """Batches have another epoch than the line: of another branch, if the line has another batch there."""
        copy, first = one.log.copy, one.first
        if first > self._reached[copy] and one.is_foreign(one.k):
            self._aside[copy] = one.lasts[one.k + count - 1]
            if first <= self._last:
                self._part(copy, first)

    def _reaches_over(self, one: Cursor, start: int) -> None:
        """The batches from a row on reach into the next log of their copy."""
        end = one.positions[one.count - 1] + one.sizes[one.count - 1]
        firsts, lasts = one.firsts[start : one.count], one.lasts[start : one.count]
        place = one.log.copy, one.log.number, one.positions[start], end
        self.beyond.append(BatchesBeyond(*place, min(firsts), max(lasts)))

    def _diverge(self, one: Cursor, count: int) -> None:
        """These batches are of another branch."""
        stop = one.k + count
        self._branch(one, one.k, stop)
        one.move(stop)

    def _branch(self, one: Cursor, at: int, stop: int) -> None:
        while at < stop:
            epoch = one.epochs[at]
            end = at + 1
            while end < stop and one.epochs[end] == epoch and one.firsts[end] == one.lasts[end - 1] + 1:
                end += 1
            row = Divergent(one.log.copy, one.stored(at), one.lasts[end - 1], epoch, one.records(at, end))
            before = self.divergent[-1] if self.divergent else None
            if before is not None and (before.copy, before.last + 1, before.epoch) == (row.copy, row.first, epoch):
                self.divergent[-1] = before._replace(last=row.last, records=before.records + row.records)
            else:
                self.divergent.append(row)
            at = end

    def _has_all_of(self, taken: Candidate, side: Candidate) -> bool:
        """Whether a batch of the line has all the records of one that was not taken."""
        if not _may_be_versions(taken, side) or self._is_subset(taken, side) != 0:
            return False
        self.pairs.append(Pair(taken, side))
        return True

    def _agrees(self, taken: Candidate, side: Candidate) -> bool:
        """Whether a batch that was not taken is of the one that was, though it has records that this one lacks."""
        return _may_be_versions(taken, side) and self._is_subset(taken, side) is not None

    def _goes_on_over(self, one: Cursor) -> bool:
        """Whether a new leader began a batch below the end: its epoch is newer than that of the line's last batch.

        Its own copy may not have the batch before it, after a cleaning. Where it has, the name of its log tells that
        this begins below it; a run of carve has no name.
        """
        latest, k = self._latest, one.k
        if latest is None or not self._counts(one):
            return False
        if latest.copy == one.log.copy and (one.log.before >= 0 or latest.log == one.log.number):
            return False
        return 0 <= self._epoch < one.epochs[k] and one.lasts[k] > self._last and one.first > latest.first

    def _overlap(self, overlapping: Sequence[Cursor]) -> None:
        """A batch begins inside of what the line has.

        It is what a cleaner has left of that in its copy, a leftover of its own copy, or of another branch.
        """
        group = []
        for one in overlapping:
            is_new = one.first > self._reached[one.log.copy]  # what a copy has twice is no version
            if is_new and self._latest is not None and self._has_all_of(self._latest, one.side()):
                self._reached[one.log.copy] = max(self._reached[one.log.copy], one.lasts[one.k])
                one.move(one.k + 1)
            elif self._goes_on_over(one):
                one.firsts[one.k] = self._last + 1  # the offsets count that only it has
                self._reached[one.log.copy] = self._last
            else:
                group.append(one)
        for one in group:
            self._set_aside(one)
            is_new = self._counts(one) and one.first > self._reached[one.log.copy]
            if is_new and not (self._latest is not None and self._agrees(self._latest, one.side())):
                runs = self.runs
                log, start, first = runs.logs[-1], runs.starts[-1], runs.firsts[-1]
                here = Candidate(self._copies[log], log, start, first, self._last, epoch=self._epoch, crc=0)
                self._contradict(f"batches overlap at offset {one.first}", here, one.side())
        for one in group:
            self._diverge(one, 1)

    def _contradict(self, why: str, *sides: Candidate) -> None:
        """Two copies contradict each other.

        Raises:
            PartedError: one of them may be on the branch of the copy that wins, and nobody has looked yet.
            ContradictionError: nothing decides.
        """
        if self._prefer is not None and not self._knows_partings:
            raise PartedError
        raise ContradictionError(why, list(sides))

    # --- where copies differ --------------------------------------------------------------------------------
    def _differing(self, group: list[Cursor]) -> None:
        """The copies have different batches at one offset."""
        best = self._chosen(group)
        if best is None:
            for one in group:
                self._set_aside(one)
                self._diverge(one, 1)
            return
        if best.first <= self._last:
            self._overlap(group)
            return
        same = [one for one in group if one is best or _is_same(one, best)]
        others = [one for one in group if one not in same]
        for one in others:
            if not _has_same_bytes(one, best):
                self._set_aside(one)
            self._other_side(one, best, len(group))
        self._extent(best, 1, len({one.log.copy for one in same}))
        last = self._last
        for one in group:
            if one in same or one.lasts[one.k] == last:
                self._reached[one.log.copy] = self._last
            one.move(one.k + 1)

    def _chosen(self, group: list[Cursor]) -> Cursor | None:
        """The one that counts, None where none does."""
        fitting = self._epoch_of_same_bytes(group)
        good = [one for one in group if self._counts(one)]
        if not good:
            return None
        if fitting is not None and fitting in good:
            good = [fitting, *(one for one in good if one is not fitting)]
        best = good[0]
        for other in good[1:]:
            best = self._better(best, other, group)
        return best

    def _other_side(self, one: Cursor, best: Cursor, most: int) -> None:
        """What becomes of a batch that was not taken; the last pairs, so many at most, are of its offset."""
        if _has_same_bytes(one, best):
            return  # under another epoch
        side = one.side()
        if any(pair.other == side for pair in self.pairs[-most:]):
            return
        taken = best.side()
        if taken.copy != side.copy and self._has_all_of(taken, side):  # also where its copy ends inside of it
            return
        self._diverge_one(one)

    def _diverge_one(self, one: Cursor) -> None:
        k = one.k
        self.divergent.append(
            Divergent(one.log.copy, one.stored(k), one.lasts[k], one.epochs[k], one.records(k, k + 1))
        )

    def _epoch_of_same_bytes(self, group: list[Cursor]) -> Cursor | None:
        """Of batches with the same bytes under the CRC and different epochs, the one whose epoch fits."""
        for head, other in combinations(group, 2):
            if not _has_same_bytes(head, other) or head.epochs[head.k] == other.epochs[other.k]:
                continue
            ends = [one.next_epoch() for one in (head, other)]
            limit = min((end for end in ends if end is not None and end >= 0), default=NEVER)
            fits = [
                one for one in (head, other) if self._epoch <= one.epochs[one.k] <= limit and not self._is_doubted(one)
            ]
            if len(fits) != 1:
                if self._prefer is not None:
                    return next((one for one in group if one.log.copy == self._prefer), head)
                what = f"the same batch at offset {head.first} has different leader epochs"
                why = f"{what}, and its neighbours decide neither"
                raise ContradictionError(why, [head.side(), other.side()])
            wrong = other if fits[0] is head else head
            if not self._is_doubted(wrong):
                raise WrongEpochError(wrong.log.copy, wrong.epochs[wrong.k], wrong.firsts[wrong.k])
            return fits[0]
        return None

    def _is_doubted(self, one: Cursor) -> bool:
        return self._doubted(one.log.copy, one.epochs[one.k], one.firsts[one.k])

    def _better(self, one: Cursor, other: Cursor, group: Sequence[Cursor]) -> Cursor:
        """Of two batches of a group, which begin at one offset, the one that counts."""
        if _has_same_bytes(one, other):
            return one
        if any(third.log.copy == other.log.copy and _has_same_bytes(one, third) for third in group):
            return one  # the copy has that one too: what it has twice is no other branch
        a, b = one.side(), other.side()
        if _may_be_versions(a, b):
            which = self._is_subset(a, b)
            if which not in (None, 0, 1):  # each lacks some of the other's
                return one if one.records(one.k, one.k + 1) >= other.records(other.k, other.k + 1) else other
            if which is not None:
                taken, left = ((one, a), b) if which == 0 else ((other, b), a)
                self.pairs.append(Pair(taken[1], left))
                return taken[0]
        if a.copy == b.copy == self._prefer:
            return one
        self._contradict(f"different batches at offset {a.first}, and epochs do not decide", a, b)
        return one


def _has_same_bytes(one: Cursor, other: Cursor) -> bool:
    """Whether two batches that begin at one offset are the same under the CRC; epochs are outside of that."""
    k, j = one.k, other.k
    return (one.lasts[k], one.crcs[k], one.sizes[k]) == (other.lasts[j], other.crcs[j], other.sizes[j])


def _may_be_versions(one: Candidate, other: Candidate) -> bool:
    """Whether two batches may be what cleaners have left of one.

    That keeps its offsets, but for a compressed message of magic 0 or 1, which has those of the records that are left.
    Source: MemoryRecords.filterTo.
    """
    return one.epoch == other.epoch and (one.epoch < 0 or (one.first, one.last) == (other.first, other.last))


def _is_same(one: Cursor, other: Cursor) -> bool:
    return _equal(one, other, one.k, one.k + 1, other.k - one.k)


def _equal(one: Cursor, other: Cursor, start: int, stop: int, shift: int) -> bool:
    low, high = start + shift, stop + shift
    return (
        one.firsts[start:stop] == other.firsts[low:high]
        and one.lasts[start:stop] == other.lasts[low:high]
        and one.crcs[start:stop] == other.crcs[low:high]
        and one.epochs[start:stop] == other.epochs[low:high]
        and one.sizes[start:stop] == other.sizes[low:high]
    )
