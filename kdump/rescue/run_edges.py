"""The first and last batches of runs whose base offset cannot be right: moved where something tells, else left out.

Inside a run both neighbours of a batch judge its base offset, as in any log. At its edges there is one, and a run has
no name, no index and no checkpoint. What is left: a batch is wrong that stands among others of its epoch, that lies
behind what follows it in the image, or farther from its neighbour than a segment reaches; so is one that has several of
older epochs between itself and the rest of its epoch, or that lies before where a run shows that this began. It belongs
where it adjoins its neighbour, or fills a hole, if one bit takes it there, or the same bytes stand there. It stays out
where nothing tells.

Strategy: an edge that adjoins its neighbour is right, and most do. Only for the others all logs are walked once more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from heapq import nlargest
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.header_judge import OFFSET_BITS, is_one_bit, one_bit_from
from kdump.rescue.runs import SECTOR
from kdump.rescue.valid_runs import first_offset
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.format.batch.window import Window
    from kdump.rescue.scanned_log import ReadLog

    IsVersion = Callable[["EdgeBatch", "EdgeBatch"], bool]

_SEVERAL = 2  # batches that no single wrong bit makes
_MANY = 9  # batches of which one is wrong, and none of the others shows a cleaner at work


class EdgeBatch(TupleValue):
    """A batch of a log."""

    log: int  # number of the log
    position: int
    size: int
    first: int
    last: int
    epoch: int  # -1 for none
    crc: int
    is_legacy: bool

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.size

    @property
    def span(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1

    @property
    def stored(self) -> int:
        """The offset in its header: of a message of magic 0 or 1 that of its last record."""
        return self.last if self.is_legacy else self.first

    def may_precede(self, other: EdgeBatch) -> bool:
        """Tell whether another batch may lie right behind it in a segment; a new leader's may begin inside of it."""
        if self.first < other.first <= self.last:
            return self.epoch < other.epoch and self.last < other.last
        return 0 < other.first - self.last <= layout.MAX_INT

    def is_same(self, other: EdgeBatch) -> bool:
        """Tell whether two have the same bytes under their CRC."""
        return (self.crc, self.size, self.last - self.first) == (other.crc, other.size, other.last - other.first)

    def wrong(self, place: int | None, log: str) -> Finding:
        """Return what is wrong with it.

        Args:
            place: its true first offset; None where nobody knows.
            log: the path.

        Reports: O03.
        """
        found = Finding(Code.O03, log, self.position, self.size, offset=self.first, last_offset=self.last)
        expected = None if place is None else place + self.stored - self.first
        return found.replace(field="baseOffset", expected=expected, found=self.stored)


class Edge(TupleValue):
    """A batch at the edge of a run that does not adjoin the batch beside it, if there is one."""

    batch: EdgeBatch
    before: EdgeBatch | None  # the one right before it in its file
    after: EdgeBatch | None  # the one right behind it
    is_torn: bool = False  # these lie in another run, which it would go on with if its base offset were right
    adjoined: int = 0  # on how many sides it adjoins what other runs begin or end with

    @property
    def strength(self) -> int:
        """How much bears it out: it adjoins others, and not those beside it."""
        return self.adjoined - (not self.is_alone)

    @property
    def is_alone(self) -> bool:
        """Whether it is the only one of its run, and nothing adjoins that."""
        return self.before is None and self.after is None

    @property
    def contradicts(self) -> bool:
        """Whether it lies behind what follows it, or farther from it than a segment reaches."""
        one, before, after = self.batch, self.before, self.after
        is_behind = before is None or before.may_precede(one)
        return self.is_torn or not (is_behind and (after is None or one.may_precede(after)))

    @property
    def places(self) -> list[int]:
        """The first offsets with which it would adjoin the batches beside it."""
        one, found = self.batch, list[int]()
        if self.before is not None and self.before.epoch <= one.epoch:
            found.append(self.before.last + 1)
        if self.after is not None and one.epoch <= self.after.epoch:
            found.append(self.after.first - one.span)
        return [place for place in dict.fromkeys(found) if 0 <= place != one.first]


class _Seen(TupleValue):
    """What other logs have where an edge is, or may belong."""

    here: list[EdgeBatch]  # among the offsets that it has
    there: dict[int, list[EdgeBatch]]  # at each place that it may have
    older: list[EdgeBatch]  # of lower epochs, between it and the rest of its epoch; so many as tell
    ends: dict[int, int]  # epochs of batches that end before it, or before such a place, by the offset behind them
    begins: dict[int, int]  # epochs of those that begin behind such a place, by their offsets
    same: set[int]  # first offsets of other batches with its bytes


class RunEdges:
    """Judges the edges of runs.

    Args:
        read: all logs of a partition.
        is_run: tells of each whether it is a run of carve.
        max_batch_bytes: of a larger batch only the header is read.
        is_version: tells of two batches of the same offsets and epoch whether compaction made one out of the other.
    """

    def __init__(
        self, read: Sequence[ReadLog], is_run: Sequence[bool], max_batch_bytes: int, is_version: IsVersion
    ) -> None:
        self._read = read
        self._limit = max_batch_bytes
        self._is_version = is_version
        runs = [number for number in range(len(read)) if is_run[number]]
        edges = [edge for number in runs for edge in self._edges_of(number, read[number])]
        self._edges = self._with_torn_neighbours(self._with_adjoined(edges), runs)
        self._highest = nlargest(2, ((one.facts.last or 0, number) for number, one in enumerate(read)))
        holes = sum(one.facts.gaps for one in read)
        self._is_cleaned = holes > 0 or any(one.facts.lacks_records or one.facts.traced_to for one in read)
        self._has_one_hole = holes == 1 and not any(one.facts.lacks_records or one.facts.traced_to for one in read)
        free = sum(
            one.facts.holes[at + 1] - one.facts.holes[at] + 1
            for one in read
            for at in range(0, len(one.facts.holes), 3)
        )
        self._span = sum(last - first + 1 for one in read for first, last in one.facts.spans) - free
        self._batches = sum(one.facts.batches for one in read)
        self._epochs = sorted((run.first, number, run) for number, one in enumerate(read) for run in one.facts.epochs)
        self._starts: dict[int, list[tuple[int, int]]] = {}
        for first, number, run in self._epochs:
            self._starts.setdefault(run.epoch, []).append((first, number))
        self._reach = list(accumulate((run.last for _, _, run in self._epochs), max))
        # where an epoch has begun right behind an older one, by several of its batches: none of it lies before
        self._begun = {
            run.epoch: run.first
            for one in read
            for before, run in pairwise(one.facts.epochs)
            if before.epoch < run.epoch and before.last + 1 == run.first and run.batches >= _SEVERAL
        }
        self._edge_at = {(edge.batch.log, edge.batch.position): edge for edge in self._edges}

    def findings(self) -> Iterator[tuple[int, Finding]]:
        """Yield what is wrong with them, each with the number of its log.

        Reports: O03.
        """
        if not self._edges:
            return
        for edge, seen in zip(self._edges, self._seen(), strict=True):
            one, path = edge.batch, self._read[edge.batch.log].log.path
            is_far = edge.is_alone and not edge.adjoined and self._is_above_all(one, layout.MAX_INT)
            is_out = edge.contradicts or is_far or self._is_contradicted(edge, seen)
            is_wrong = is_out or self._is_before_older(one, seen) or one.last < self._begun.get(one.epoch, 0)
            places = [place for place in seen.there if self._may_be_at(edge, place, seen)]
            if not places and len(seen.same) == 1 and (is_wrong or self._is_outside(edge, *seen.same)):
                places, is_wrong = list(seen.same), True  # no producer writes so late again
            is_filling = (edge.is_alone and not (edge.adjoined or self._is_cleaned)) or self._has_lone_hole(edge)
            if len(places) == 1 and (is_wrong or is_filling or _is_settled(one, places[0], seen)):
                yield one.log, one.wrong(places[0], path)
            elif is_out or (is_wrong and not edge.adjoined):
                yield one.log, one.wrong(None, path)

    # --- which they are -------------------------------------------------------------------------------------
    def _edges_of(self, number: int, one: ReadLog) -> Iterator[Edge]:
        head: list[EdgeBatch] = []
        tail: list[EdgeBatch] = []
        for window in one.facts.runs.windows(one.source, self._limit):
            if len(head) < 2:
                head += [_batch(window, k, number, one) for k in range(min(2 - len(head), window.count))]
            tail = [*tail, *(_batch(window, k, number, one) for k in range(max(0, window.count - 2), window.count))][
                -2:
            ]
        if not head:
            return
        first, after = head[0], next((other for other in head[1:] if other.position == head[0].end), None)
        last, before = tail[-1], next((other for other in tail[:-1] if other.end == tail[-1].position), None)
        if after is None or after.first != first.last + 1:
            yield Edge(first, None, after)
        if last != first and (before is None or before.last + 1 != last.first):
            yield Edge(last, before, None)

    def _with_adjoined(self, edges: Sequence[Edge]) -> list[Edge]:
        """The edges, each with the number of sides on which it adjoins what another log begins or ends with."""
        firsts = Counter(one.facts.first for one in self._read)
        lasts = Counter(one.facts.last for one in self._read)
        return [
            edge._replace(adjoined=(lasts[edge.batch.first - 1] > 0) + (firsts[edge.batch.last + 1] > 0))
            for edge in edges
        ]

    def _with_torn_neighbours(self, edges: Sequence[Edge], runs: Sequence[int]) -> list[Edge]:
        """The edges; of a run of one batch those beside it are in the runs that adjoin it in the image.

        A run of one batch tells as little as it does, unless others bear that out.
        """
        borne = {edge.batch.log for edge in edges if edge.is_alone and not edge.adjoined}
        begins: dict[tuple[str, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        for number in runs:
            one = self._read[number]
            if one.log.extents and number not in borne:
                image, extents = one.log.extents
                begins[image, extents[0][0]], ends[image, sum(extents[-1])] = number, number
        found = []
        for edge in edges:
            log, other = self._read[edge.batch.log].log, edge
            if edge.is_alone and not edge.adjoined and log.extents is not None:
                image, extents = log.extents
                start, stop = extents[0][0], sum(extents[-1])
                behind, ahead = begins.get((image, stop)), ends.get((image, start))
                if stop % SECTOR and behind is not None:
                    other = edge._replace(after=self._batch_of(behind, is_last=False), is_torn=True)
                elif start % SECTOR and ahead is not None:
                    other = edge._replace(before=self._batch_of(ahead, is_last=True), is_torn=True)
            found.append(other)
        return found

    def _batch_of(self, number: int, *, is_last: bool) -> EdgeBatch | None:
        one, found = self._read[number], None
        for window in one.facts.runs.windows(one.source, self._limit):
            found = _batch(window, window.count - 1 if is_last else 0, number, one)
            if not is_last:
                break
        return found

    # --- what else there is ---------------------------------------------------------------------------------
    def _seen(self) -> list[_Seen]:
        """Go through all logs once for what has the offsets of edges, and those that these may have had."""
        seen = [self._nothing(edge) for edge in self._edges]
        asked: list[tuple[int, int, int, int | None]] = []
        behind: list[tuple[int, int, int, int | None]] = []
        for number, edge in enumerate(self._edges):
            one, between = edge.batch, self._behind(edge)
            asked.append((one.first, one.last, number, None))
            asked += [(place, place + one.span - 1, number, place) for place in seen[number].there]
            behind += [] if between is None else [(*between, number, None)]
        queries, older = _Queries(asked), _Queries(behind)
        contents = _by_key((edge.batch.crc,) for edge in self._edges)
        ends, begins = _by_key(some.ends for some in seen), _by_key(some.begins for some in seen)
        for batch in self._met((queries, older)):
            for number, place in queries.over(batch):
                if self._edges[number].batch[:2] != batch[:2]:
                    (seen[number].here if place is None else seen[number].there[place]).append(batch)
            for number, _ in older.over(batch):
                if batch.epoch < self._edges[number].batch.epoch and len(seen[number].older) < _SEVERAL:
                    seen[number].older.append(batch)
            for number in contents.get(batch.crc, ()):
                one = self._edges[number].batch
                if batch.is_same(one) and batch.first != one.first:
                    seen[number].same.add(batch.first)
            for number in ends.get(batch.last + 1, ()):
                seen[number].ends[batch.last + 1] = max(seen[number].ends[batch.last + 1], batch.epoch)
            for number in begins.get(batch.first, ()):
                seen[number].begins[batch.first] = max(seen[number].begins[batch.first], batch.epoch)
        return seen

    def _nothing(self, edge: Edge) -> _Seen:
        """What is to be looked for."""
        one = edge.batch
        places = edge.places
        if edge.is_alone:  # a run of one batch: where one bit takes it
            most = max(other.facts.last or 0 for other in self._read)
            moved = (other - one.stored + one.first for other in one_bit_from(one.stored, OFFSET_BITS))
            places = [place for place in moved if 0 <= place <= most]
        ends = dict.fromkeys((one.first, *places), _NONE)
        begins = dict.fromkeys((place + one.span for place in places), _NONE)
        return _Seen([], {place: [] for place in places}, [], ends, begins, set())

    def _met(self, queries: Sequence[_Queries]) -> Iterator[EdgeBatch]:
        """Yield the batches that something beside them bears out, and that may be asked for."""
        weak = {at for at, edge in self._edge_at.items() if edge.strength <= 0}
        contents = {edge.batch.crc for edge in self._edges}
        low, high = min(one.low for one in queries), max(one.high for one in queries)
        for number, one in enumerate(self._read):
            for window in one.facts.runs.windows(one.source, self._limit):
                lasts, crcs = window.column(layout.LAST_OFFSET), window.column(layout.CRC)
                if (max(lasts) < low or min(lasts) > high) and contents.isdisjoint(crcs):
                    continue
                for k in range(window.count):
                    batch = _batch(window, k, number, one)
                    if (number, batch.position) not in weak:
                        yield batch

    def _behind(self, edge: Edge) -> tuple[int, int] | None:
        """The offsets between a batch and the rest of its epoch, where batches of older epochs may be among them."""
        one = edge.batch
        if one.epoch < 0:
            return None
        starts = self._starts.get(one.epoch, [])
        at = bisect_left(starts, (one.last + 1,))
        rest = next((first for first, log in starts[at : at + 2] if log != one.log), one.last)
        stop = edge.after.first if edge.after is not None and not edge.is_torn else rest
        at = bisect_left(self._epochs, (stop,)) - 1
        while at >= 0 and self._reach[at] > one.last:
            _, number, run = self._epochs[at]
            if number != one.log and run.epoch < one.epoch and run.last > one.last:
                return one.last + 1, stop - 1
            at -= 1
        return None

    # --- what is wrong --------------------------------------------------------------------------------------
    def _is_before_older(self, one: EdgeBatch, seen: _Seen) -> bool:
        """Whether several of older epochs lie between a batch and the rest of its epoch, which did not begin there.

        An epoch begins where another one ends, but for what a cleaner took; an old leader may have gone on there.
        """
        is_begin = self._is_cleaned or seen.ends[one.first] != _NONE
        return len(seen.older) >= _SEVERAL and (not is_begin or one.stored == 0 or bool(seen.same))

    def _has_lone_hole(self, edge: Edge) -> bool:
        """Whether a hole beside a batch is the only one, and larger than all that is known: no cleaner leaves that."""
        one, before, after = edge.batch, edge.before, edge.after
        if not self._has_one_hole or edge.adjoined or self._batches < _MANY:
            return False
        hole = one.first - before.last if before is not None else after.first - one.last if after is not None else 0
        return hole > self._span

    def _is_contradicted(self, edge: Edge, seen: _Seen) -> bool:
        """Whether another batch of its epoch stands among its offsets, and what lies beside that bears it out more."""
        one = edge.batch
        return any(
            other.epoch == one.epoch and not self._is_same_place(one, other) and self._strength(other) > edge.strength
            for other in seen.here
        )

    def _strength(self, one: EdgeBatch) -> int:
        edge = self._edge_at.get((one.log, one.position))
        return _SEVERAL if edge is None else edge.strength

    def _is_outside(self, edge: Edge, place: int) -> bool:
        """Whether a batch lies above all others, or farther from a place than a segment reaches, and adjoins none."""
        one = edge.batch
        if edge.adjoined:
            return False
        return self._is_above_all(one) or abs(place - one.first) > layout.MAX_INT

    def _is_above_all(self, one: EdgeBatch, by: int = 0) -> bool:
        """Whether a batch lies so far above all other logs."""
        others = [last for last, number in self._highest if number != one.log]
        return bool(others) and one.first > max(others) + by

    def _is_same_place(self, one: EdgeBatch, other: EdgeBatch) -> bool:
        if (one.first, one.last) != (other.first, other.last):
            is_inside = one.first <= other.first <= other.last <= one.last
            is_inside |= other.first <= one.first <= one.last <= other.last
            return one.is_legacy and is_inside  # a cleaner takes some offsets of a compressed message
        return one.is_same(other) or self._is_version(one, other)

    def _may_be_at(self, edge: Edge, place: int, seen: _Seen) -> bool:
        """Whether a batch may belong at a place: one bit takes it there, or its bytes stand there, and nothing else."""
        one, others = edge.batch, seen.there[place]
        moved = one._replace(first=place, last=place + one.span - 1)
        is_there = any(other.first == place and one.is_same(other) for other in others)
        if any(other.epoch == one.epoch and not self._is_same_place(moved, other) for other in others):
            return False
        if is_there and not edge.is_alone:
            return True
        if not is_one_bit(one.stored, one.stored + place - one.first):
            return False
        if edge.is_alone and not is_there:
            if others:
                return False
            before, after = seen.ends[place], seen.begins[place + one.span]
            return _NONE < before <= one.epoch and one.epoch <= after
        return True


_NONE = -2  # no batch


def _is_settled(one: EdgeBatch, place: int, seen: _Seen) -> bool:
    """Whether the same bytes stand where one bit takes a batch; not beside it, where a producer may write again."""
    is_there = any(other.first == place and one.is_same(other) for other in seen.there[place])
    return is_there and place not in (one.last + 1, one.first - one.span)


class _Queries:
    """Offsets that are asked for.

    Args:
        asked: first and last one, number of an edge, and the place that it may have; None for its own.
    """

    def __init__(self, asked: list[tuple[int, int, int, int | None]]) -> None:
        self._asked = sorted(asked, key=lambda one: one[:3])
        self._firsts = [first for first, *_ in self._asked]
        self._reach = list(accumulate((last for _, last, *_ in self._asked), max))
        # low, high: no other offset matters, nor what adjoins it
        self.low = self._firsts[0] - 1 if asked else layout.LARGEST_OFFSET
        self.high = self._reach[-1] + 1 if asked else 0

    def over(self, batch: EdgeBatch) -> Iterator[tuple[int, int | None]]:
        """Yield who has asked for an offset of a batch: the number, and the place."""
        at = bisect_right(self._firsts, batch.last) - 1
        while at >= 0 and self._reach[at] >= batch.first:
            _, last, number, place = self._asked[at]
            if last >= batch.first:
                yield number, place
            at -= 1


def _by_key(some: Iterable[Iterable[int]]) -> dict[int, list[int]]:
    """The numbers of those that have a key, by key."""
    found: dict[int, list[int]] = {}
    for number, keys in enumerate(some):
        for key in keys:
            found.setdefault(key, []).append(number)
    return found


def _batch(window: Window, k: int, number: int, one: ReadLog) -> EdgeBatch:
    is_legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2
    return EdgeBatch(
        log=number,
        position=window.cell(k, layout.POSITION),
        size=window.cell(k, layout.SIZE),
        first=first_offset(window, k, one.facts.wrappers),
        last=window.cell(k, layout.LAST_OFFSET),
        epoch=-1 if is_legacy else window.cell(k, layout.LEADER_EPOCH),
        crc=window.cell(k, layout.CRC),
        is_legacy=is_legacy,
    )
