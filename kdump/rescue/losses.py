"""What the line lacks: for each range of offsets the bytes that stand there, or that none does.

What stands there is taken from each copy for itself: the bytes may have had the offsets. Of one log
`kdump.broker.missing.damage` tells more, for there each offset is of one damage only.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump.broker.missing.judge import HoleVerdict
from kdump.broker.missing.losses import loss_of
from kdump.broker.missing.ranges import MissingRange
from kdump.finding import Code
from kdump.rows.verdict import Certainty, Loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.rescue.holes import LineHoles
    from kdump.rescue.scanned_log import BadBytes, ScannedLog


def _range_of(path: str, place: BadBytes, first: int, last: int) -> MissingRange:
    """The offsets that a place of a log is taken for: doubtful where a whole header stands there, else lost."""
    certainty = Certainty.DOUBTFUL if place.is_batch else Certainty.LOST
    found = MissingRange(first, last, place.codes, path, place.position, place.length)
    return found._replace(records=place.records, certainty=certainty, is_vouched=place.is_vouched)


def spots_of(
    path: str, facts: ScannedLog, start: int, end: int | None, cut: BadBytes | None = None
) -> Iterator[MissingRange]:
    """Yield the places of a log with their offsets: those of the header where they fit, else what is left free.

    Args:
        path: of the log.
        facts: what it has.
        start: the first offset that it can have.
        end: the first offset that is not in it, None where nobody knows.
        cut: where its end is cut off; None where nothing shows that.
    """
    runs = facts.runs
    at, places = 0, facts.places if cut is None else [*facts.places, cut]
    while at < len(places):
        k = bisect_left(runs.starts, places[at].position)
        before = (runs.lasts[j] for j in range(k - 1, -1, -1))  # a run that reaches over the next log says nothing
        low = next((last + 1 for last in before if end is None or last < end), start)
        highs = [runs.firsts[k] - 1] if k < len(runs) else []
        high = min([*highs, *(() if end is None else (end - 1,))], default=None)
        bound = runs.starts[k] if k < len(runs) else None
        stop = at
        while stop < len(places) and (bound is None or places[stop].position < bound):
            stop += 1
        yield from _between(path, places[at:stop], low, high)
        for place in places[at:stop]:
            if _is_of_other_log(place, start, end):  # the name may be wrong as well: then it stood there
                yield _range_of(path, place, place.offset or 0, place.last_offset or 0)
        at = max(stop, at + 1)


def _is_of_other_log(place: BadBytes, start: int, end: int | None) -> bool:
    """Whether a whole header has offsets, all of them below its log, or in the next one."""
    if not place.is_batch or not place.is_exact or place.is_odd or place.offset is None or place.last_offset is None:
        return False
    return place.last_offset < start or (end is not None and place.offset >= end)


def _between(path: str, places: Sequence[BadBytes], low: int, high: int | None) -> Iterator[MissingRange]:
    """The places between two batches that are well."""
    waiting: list[BadBytes] = []
    for place in places:
        first, last = place.offset, place.last_offset
        fits = place.is_exact and not place.is_odd and first is not None and last is not None and low <= first <= last
        if fits and first is not None and last is not None and (high is None or last <= high):
            if waiting and low < first:
                yield _together(path, waiting, low, first - 1)
            waiting = []
            yield _range_of(path, place, first, last)
            low = last + 1
        elif (
            first is None
            and last is not None
            and place.is_batch
            and not waiting
            and low <= last
            and (high is None or last <= high)
        ):
            yield _range_of(path, place._replace(records=1 if low == last else None), low, last)  # a legacy message
            low = last + 1
        elif (place.is_exact or not place.is_batch) and first is not None and low <= first <= (high or first):
            if waiting and low < first:
                yield _together(path, waiting, low, first - 1)
            waiting, low = [place], first  # where it ends, only what comes next tells
        else:
            waiting.append(place)
    if waiting and high is not None and low <= high:
        counts = [one.records or 0 for one in waiting if one.is_batch]
        if len(counts) == len(waiting) and all(counts) and sum(counts) == high - low + 1:  # each has its share
            for place, count in zip(waiting, counts, strict=True):
                yield _range_of(path, place, low, low + count - 1)
                low += count
            return
        yield _together(path, waiting, low, high)


def _together(path: str, places: Sequence[BadBytes], first: int, last: int) -> MissingRange:
    """The first batch, or else the first place, of those that have some offsets together, nobody knows which has which.

    How many records it has is known where its CRC is true; `unplaced` tells of the others with a true CRC.
    """
    best = next((one for one in places if one.is_batch), places[0])
    if len(places) > 1:
        best = best if best.is_vouched else best._replace(records=None)
    return _range_of(path, best, first, last)


def lost_logs(path: str, ranges: Iterable[tuple[int, int]]) -> Iterator[MissingRange]:
    """Yield the offsets of logs of which only the indexes are left.

    Args:
        path: of the directory.
        ranges: first and last offset of each.
    """
    lost = MissingRange(0, 0, (Code.F08.name,), path, certainty=Certainty.LOST)
    return (lost._replace(first=first, last=last) for first, last in ranges)


def outside(spots: Iterable[MissingRange], whole: Sequence[tuple[int, int]]) -> Iterator[MissingRange]:
    """Drop what lies in ranges that a complete replica covers.

    Args:
        spots: the offsets that damaged bytes of all logs are taken for.
        whole: first and last offset of each range, ascending, no two touching.
    """
    ends = [last for _, last in whole]
    for spot in spots:
        low = spot.first
        for first, last in whole[bisect_left(ends, low) :]:
            if first > spot.last:
                break
            if low < first:
                yield _part(spot, low, first - 1)
            low = last + 1
        if low <= spot.last:
            yield _part(spot, low, spot.last)


def _part(spot: MissingRange, first: int, last: int) -> MissingRange:
    if (first, last) == (spot.first, spot.last):
        return spot
    return spot._replace(first=first, last=last, records=spot.records if spot.is_vouched else None)


class LineLosses:
    """Says of a range of offsets that the line does not have why not.

    Args:
        partition: its name.
        path: of the directory of the result.
        spots: of all logs.
        ends: behind the last batch of the line; the end by what offset indexes know: of what lies between them
            batches were here; and up to where anything knows of the line: what lies behind that may be of another one.
        holes: judges what is simply not there.
    """

    def __init__(
        self, partition: str, path: str, spots: Sequence[MissingRange], ends: tuple[int, int, int], holes: LineHoles
    ) -> None:
        self._partition = partition
        self._path = path
        self._batches = _Spots(one for one in spots if one.certainty is Certainty.DOUBTFUL)
        self._gaps = _Spots(one for one in spots if one.certainty is Certainty.LOST)
        self._end, self._index_end, self._sure_end = ends
        self._holes = holes
        self._counted: dict[tuple[str, int], int] = {}  # by log and position: the part that tells of the records

    def spots(self, first: int, last: int) -> list[MissingRange]:
        """Return what stands in a range."""
        return [*self._batches.over(first, last), *self._gaps.over(first, last)]

    def losses(self, first: int, last: int) -> Iterator[Loss]:
        """Yield the losses of a range, in order."""
        at = first
        for spot in self._batches.over(first, last):
            begin, end = max(spot.first, at), min(spot.last, last)
            if begin > end:
                continue
            if begin > at:
                yield from self._without_batches(at, begin - 1)
            yield self._loss(spot, begin, end, self._records(spot, begin, end))
            at = end + 1
        if at <= last:
            yield from self._without_batches(at, last)

    def _without_batches(self, first: int, last: int) -> Iterator[Loss]:
        at = first
        for spot in self._gaps.over(first, last):
            begin, end = max(spot.first, at), min(spot.last, last)
            if begin > end:
                continue
            if begin > at:
                yield from self.plain(at, begin - 1)
            yield self._loss(spot, begin, end, self._records(spot, begin, end) if spot.is_vouched else None)
            at = end + 1
        if at <= last:
            yield from self.plain(at, last)

    def _records(self, spot: MissingRange, first: int, last: int) -> int | None:
        """How many records a part of a place has; all of those that a CRC vouches for are told with the first part."""
        if not spot.is_vouched or spot.records is None:
            return spot.records if (first, last) == (spot.first, spot.last) else None
        return spot.records if self._counted.setdefault((spot.file, spot.position), first) == first else 0

    def plain(self, first: int, last: int) -> Iterator[Loss]:
        """Yield the losses of offsets that no source has."""
        if first >= self._end and first < self._index_end:
            until = min(last, self._index_end - 1)
            yield self._plain(first, until, HoleVerdict(Certainty.LOST))
            first = until + 1
        sure = last if first < self._end else min(last, max(self._end, self._sure_end) - 1)
        if first <= sure:
            for part in self.verdicts(first, sure):
                yield self._plain(*part)
        if max(first, sure + 1) <= last:
            yield self._plain(max(first, sure + 1), last, HoleVerdict(Certainty.DOUBTFUL))

    def verdicts(self, first: int, last: int) -> Iterator[tuple[int, int, HoleVerdict]]:
        """Yield what is to be said of offsets that no source has: parts of the range, each with its verdict."""
        return self._holes.verdicts(first, last, is_end=first >= self._end)

    def _plain(self, first: int, last: int, verdict: HoleVerdict) -> Loss:
        because = () if verdict.because is None else (verdict.because.name,)
        return self._loss(MissingRange(first, last, because, certainty=verdict.certainty), first, last, None)

    def _loss(self, spot: MissingRange, first: int, last: int, records: int | None) -> Loss:
        """The loss of a part of a place."""
        assert spot.certainty is not None
        part = spot._replace(first=first, last=last, records=records)
        loss = loss_of(self._path, self._partition, part, spot.certainty)
        return loss if spot.length else loss.replace(file=None, position=None, length=None)


class _Spots:
    """Spots in the order of their first offsets; those of several copies overlap as they like.

    Ranges that are asked for mostly ascend: so each spot is taken up once, and let go once.
    """

    def __init__(self, spots: Iterable[MissingRange]) -> None:
        self._all = sorted(spots, key=lambda one: (one.first, one.last))
        self._next = 0
        self._held: list[MissingRange] = []  # of those before `_next`, all that reach up to `_from`
        self._from = -1

    def over(self, first: int, last: int) -> list[MissingRange]:
        """Return those that have offsets in a range, inclusive."""
        if first < self._from:
            self._next, self._held = 0, []
        self._from = first
        while self._next < len(self._all) and self._all[self._next].first <= last:
            self._held.append(self._all[self._next])
            self._next += 1
        self._held = [one for one in self._held if one.last >= first]
        return [one for one in self._held if one.first <= last]
