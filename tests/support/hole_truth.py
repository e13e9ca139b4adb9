"""What the holes of a partition prove: a slow reading of files by the rules, one after the other, nothing clever.

It shares no code with kdump. A hole is a range of offsets that no batch has. The first row that applies decides:

    0   the salvage that made the directory wrote it down: lost
    1   an index, or the marker of an aborted transaction, knows of an offset in it: lost
    1b  an index shows that bytes are missing in one of several holes: each unexplained
    2   below the first segment: unexplained, or in tiered storage
    3   below where a cleaner was: absent
    4   a topic of a coordinator: absent
    5   the topic was never compacted: lost
    6   nothing else here shows a cleaner, and the policy is not known: unexplained, L19
    7   unexplained, L17

Where the rules leave a choice, a verdict has more than one row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_GO_ON = "-"
_CERTAINTY = {
    "0": "lost",
    "1": "lost",
    "1b": "unexplained",
    "2": "unexplained",
    "remote": "absent",
    "3": "absent",
    "4": "absent",
    "5": "lost",
    "6": "unexplained",
    "7": "unexplained",
}
_OF_COORDINATORS = ("__consumer_offsets", "__transaction_state")
_OF_BROKERS = ("__share_group_state", "__remote_log_metadata", "__cluster_metadata")
_HORIZON = 64


class Seen(NamedTuple):
    """A batch as its header shows it."""

    first: int
    last: int
    records: int
    size: int
    position: int
    has_horizon: bool

    @property
    def is_short(self) -> bool:
        """Whether it has fewer records than offsets."""
        return self.records <= self.last - self.first


class SegmentSeen(NamedTuple):
    """A segment as its files show it: entries of its index without the zeros at the end, whether there are some."""

    base: int
    batches: list[Seen]
    entries: list[tuple[int, int]]
    has_slots: bool
    markers: list[int]


class Known(NamedTuple):
    """What is known besides the files of a partition.

    Args:
        topic: the name.
        start: the entry of the log start offset.
        entry: the cleaner's entry.
        ends: high watermark and recovery point.
        policy: never: the topic was never compacted; delete: it has that policy now; compact; None: not known.
        is_tiered: segments are in remote storage.
        told: ranges that the rows of a salvage beside the directory tell.
    """

    topic: str
    start: int | None = None
    entry: int | None = None
    ends: tuple[int, ...] = ()
    policy: str | None = None
    is_tiered: bool = False
    told: tuple[tuple[int, int], ...] = ()


class Hole(NamedTuple):
    """A range of offsets that no batch has, and the rows that may decide."""

    first: int
    last: int
    rows: frozenset[str]

    @property
    def certainties(self) -> frozenset[str]:
        """What may be said of it."""
        return frozenset(_CERTAINTY[row] for row in self.rows)


@dataclass
class Truth:
    """What must be said of a partition.

    Args:
        holes: between the log start offset and the end of the log: of its last batch, or the base of a last segment.
        above: ranges above the end of the log, and what may be said of each; nothing: anything.
        markers: markers of aborted transactions in holes that only an index has.
        markers_above: those above the end of the log.
        notes: how many L17 may be told.
        warnings: how many L19 may be told.
    """

    holes: list[Hole] = field(default_factory=list)
    above: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    markers: list[int] = field(default_factory=list)
    markers_above: list[int] = field(default_factory=list)
    notes: frozenset[int] = frozenset({0})
    warnings: frozenset[int] = frozenset({0})

    @property
    def is_lost(self) -> bool | None:
        """Whether the partition is LOST; None: it may be."""
        found = [one.rows <= {"1", "1b", "5"} for one in self.holes] + [said == {"lost"} for _, _, said in self.above]
        if any(found):
            return True
        maybe = any(one.rows & {"0", "1", "1b", "5"} for one in self.holes)
        return None if maybe or any(not said or "lost" in said for _, _, said in self.above) else False

    @property
    def is_clear(self) -> bool:
        """Whether the rules leave no choice."""
        return all(len(one.rows) == 1 for one in self.holes) and all(said for _, _, said in self.above)


# --- reading ------------------------------------------------------------------------------------------------
def batches_of(data: bytes) -> list[Seen]:
    """The batches of a log of magic 2 that is whole."""
    found, at = [], 0
    while at < len(data):
        base, length, attributes, delta, count = struct.unpack_from(">qi9xhi30xi", data, at)
        found.append(Seen(base, base + delta, count, length + 12, at, bool(attributes & _HORIZON)))
        at += length + 12
    return found


def segments_of(files: Mapping[str, bytes]) -> list[SegmentSeen]:
    """The segments of a partition directory."""
    found = []
    for path in sorted(one for one in files if one.endswith(".log")):
        base = int(path[:20])
        index = files.get(f"{path[:20]}.index", b"")
        slots = list(struct.iter_unpack(">ii", index))
        used = len(slots)
        while used and slots[used - 1] == (0, 0):
            used -= 1
        entries = [(base + offset, position) for offset, position in slots[:used]]
        markers = [one[3] for one in struct.iter_unpack(">hqqqq", files.get(f"{path[:20]}.txnindex", b""))]
        found.append(SegmentSeen(base, batches_of(files[path]), entries, used < len(slots), markers))
    return found


# --- the table ----------------------------------------------------------------------------------------------
def truth_of(files: Mapping[str, bytes], known: Known) -> Truth:
    """What must be said of a partition.

    Args:
        files: content by name, of the directory.
        known: what is known besides.
    """
    segments = segments_of(files)
    batches = [one for segment in segments for one in segment.batches]
    if not segments:
        return Truth()
    is_trusted = not any(one.endswith((".swap", ".cleaned")) for one in files)
    base = segments[0].base
    start = base if known.start is None else known.start
    end = _end_of(segments)
    ranges = _ranges(batches, max(start, base), end)
    below = [(start, base - 1)] if start < base else []
    shown = {one: _shown(one, ranges, segments) if is_trusted else {_GO_ON} for one in ranges}
    truth = Truth(markers=[at for one in segments for at in one.markers if is_trusted and _in(at, ranges)])
    shown.update({one: {"0"} for one in ranges if one in known.told})
    rows = {one: _rows(one, shown, batches, end, known) for one in ranges}
    truth.holes = [Hole(*one, frozenset({"remote", "2"} if known.is_tiered else {"2"})) for one in below]
    known_offsets = [entry[0] for segment in segments for entry in segment.entries]
    for one in ranges:
        parts = _parts(one, segments) if "1" in rows[one] else [one]  # one index knows of its own segment only
        for part in parts:
            own = rows[one]
            if part != one and not any(part[0] <= offset <= part[1] for offset in known_offsets):
                own = own | _later_rows(part, {**shown, part: {_GO_ON}}, batches, end, known)
            truth.holes.append(Hole(*part, frozenset(own)))
    if below and ranges and ranges[0][0] == base:  # one hole or two?
        truth.holes[1] = truth.holes[1]._replace(rows=truth.holes[1].rows | truth.holes[0].rows)
    _above(truth, segments, files, known)
    is_open = any(not said for _, _, said in truth.above)
    if any(said == {"unexplained"} for _, _, said in truth.above):  # is the hole still the only trace?
        truth.holes = [one._replace(rows=one.rows | {"7"}) if "6" in one.rows else one for one in truth.holes]
    sets = [one.rows for one in truth.holes]
    least = any(one == {"7"} for one in sets) or any(said == {"unexplained"} for _, _, said in truth.above)
    truth.notes = frozenset(range(least, (is_open or least or any(one & {"2", "7"} for one in sets)) + 1))
    most = sum("6" in one for one in sets) + is_open + any("2" in one for one in sets)
    truth.warnings = frozenset(range(sum(one == {"6"} for one in sets), most + 1))
    return truth


def _end_of(segments: Sequence[SegmentSeen]) -> int:
    """The log end offset: after the last batch, or the base offset of a last segment without one."""
    return max([segments[-1].base, *(one.last + 1 for segment in segments for one in segment.batches)])


def _ranges(batches: Sequence[Seen], start: int, end: int) -> list[tuple[int, int]]:
    found, expected = [], start
    for one in batches:
        if one.first > expected:
            found.append((expected, one.first - 1))
        expected = max(expected, one.last + 1)
    return found + [(expected, end - 1)] * (expected < end)


def _parts(hole: tuple[int, int], segments: Sequence[SegmentSeen]) -> list[tuple[int, int]]:
    """A hole, divided where a segment begins in it."""
    cuts = [hole[0], *(one.base for one in segments if hole[0] < one.base <= hole[1]), hole[1] + 1]
    return [(first, behind - 1) for first, behind in pairwise(cuts)]


def _in(offset: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= offset <= last for first, last in ranges)


def _rows(
    hole: tuple[int, int],
    shown: Mapping[tuple[int, int], set[str]],
    batches: Sequence[Seen],
    end: int,
    known: Known,
) -> set[str]:
    """The rows that may decide of a hole."""
    rows = shown[hole] - {_GO_ON}
    return rows if _GO_ON not in shown[hole] else rows | _later_rows(hole, shown, batches, end, known)


def _later_rows(
    hole: tuple[int, int],
    shown: Mapping[tuple[int, int], set[str]],
    batches: Sequence[Seen],
    end: int,
    known: Known,
) -> set[str]:
    """Rows 3 to 7."""
    cleaned = max((one.last for one in batches if one.is_short or one.has_horizon), default=-1)
    rows: set[str] = set()
    if hole[1] < cleaned or (known.entry is not None and hole[1] < known.entry <= end):
        return {"3"}
    if known.entry is not None and hole[1] < known.entry <= max(known.ends, default=0):
        rows.add("3")  # is the end of the log that of its last batch?
    if known.topic in _OF_COORDINATORS:
        return {"4"}
    if known.policy == "never" or known.topic in _OF_BROKERS:
        return rows | {"5"}
    lone = _is_lone(hole, shown, batches, end, known)
    for is_lone in (True, False) if lone is None else (lone,):
        if is_lone and known.policy == "delete":
            rows.add("5")
        elif is_lone and known.policy is None:
            rows.add("6")
        else:
            rows.add("7")
    return rows


def _is_lone(
    hole: tuple[int, int],
    shown: Mapping[tuple[int, int], set[str]],
    batches: Sequence[Seen],
    end: int,
    known: Known,
) -> bool | None:
    """Whether a hole is the only trace of a cleaner; None where the rules leave that open."""
    if any(one.is_short for one in batches):
        return False
    others = [rows for other, rows in shown.items() if other != hole]
    if any(rows == {_GO_ON} for rows in others):
        return False
    if known.entry is not None and known.entry <= end:
        return False
    is_open = known.entry is not None or any(one.has_horizon for one in batches)
    return None if is_open or any(rows != {"1"} for rows in others) else True


# --- rows 1 and 1b ------------------------------------------------------------------------------------------
def _shown(hole: tuple[int, int], ranges: Sequence[tuple[int, int]], segments: Sequence[SegmentSeen]) -> set[str]:
    """What indexes say of a hole: 1, 1b, to go on with the next row, or more than one of them."""
    found: list[set[str]] = []
    for number, one in enumerate(segments):
        if any(hole[0] <= at <= hole[1] for at in one.markers):
            found.append({"1"})
        is_last = number == len(segments) - 1
        if one.has_slots and is_last:
            continue
        stop = None if is_last else segments[number + 1].base
        if hole[1] < one.base or (stop is not None and hole[0] >= stop):
            continue
        holes = [some for some in ranges if some[1] >= one.base and (stop is None or some[0] < stop)]
        rows = _shown_by(hole, holes, one)
        found.append(rows | {_GO_ON} if one.has_slots else rows)  # is a closed index with slots a trimmed one?
    rows = set[str]().union(*found)
    if any(hole[0] < one.base <= hole[1] for one in segments):  # is it one hole, or one on each side?
        return rows | {_GO_ON}
    if {"1"} in found:
        return {"1"}
    if {"1b"} in found:
        rows.discard(_GO_ON)
    return rows or {_GO_ON}


def _shown_by(hole: tuple[int, int], holes: Sequence[tuple[int, int]], one: SegmentSeen) -> set[str]:
    """What the index of one segment says of a hole."""
    if _is_entry_inside(hole, one):
        return {"1"}
    strict, free = _shifted_strictly(hole, holes, one), _shifted_freely(hole, holes, one)
    rows = {strict, free}
    if "1b" in rows and any(other != hole and _is_entry_inside(other, one) for other in holes):
        rows.add(_GO_ON)
    return rows


def _shift(entry: tuple[int, int], one: SegmentSeen) -> int | None:
    """How far behind its batch an entry points; None if the log has no such batch."""
    return next((entry[1] - some.position for some in one.batches if some.last == entry[0]), None)


def _is_entry_inside(hole: tuple[int, int], one: SegmentSeen) -> bool:
    inside = [at for at, (offset, _) in enumerate(one.entries) if hole[0] <= offset <= hole[1]]
    behind = [entry for entry in one.entries if entry[0] > hole[1]]
    if any(_shift(entry, one) == 0 for entry in behind):
        return False
    position = sum(some.size for some in one.batches if some.last < hole[0])
    for at in inside:
        near = one.entries[max(at - 1, 0) : at + 2]
        is_ordered = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(near))
        if is_ordered and (behind or one.entries[at][1] >= position):
            return True
    return False


def _between(holes: Sequence[tuple[int, int]], after: int, before: int) -> int:
    return sum(last > after and first < before for first, last in holes)


def _shifted_strictly(hole: tuple[int, int], holes: Sequence[tuple[int, int]], one: SegmentSeen) -> str:
    """As it is written: all entries behind by one constant, all before it agree."""
    before = [entry for entry in one.entries if entry[0] < hole[0]]
    behind = [entry for entry in one.entries if entry[0] > hole[1]]
    shifts = {_shift(entry, one) for entry in behind}
    if len(shifts) != 1 or shifts & {0, None}:
        return _GO_ON
    agreeing = [entry[0] for entry in before if _shift(entry, one) == 0]
    # holes between this one and an entry that no longer agrees share the doubt
    if any(_shift(entry, one) not in (0, *shifts) for entry in before):
        return _GO_ON
    first = min(entry[0] for entry in one.entries if _shift(entry, one) in shifts)
    if hole[0] > first:
        return _GO_ON
    return "1" if _between(holes, max(agreeing, default=-1), first) == 1 else "1b"


def _shifted_freely(hole: tuple[int, int], holes: Sequence[tuple[int, int]], one: SegmentSeen) -> str:
    """By steps: where the shift changes from an entry to the next one, bytes are missing between them."""
    known = [(-1, 0)] + [(entry[0], shift) for entry in one.entries if (shift := _shift(entry, one)) is not None]
    for (low, before), (high, behind) in pairwise(known):
        if low < hole[0] and hole[1] < high:
            if before == behind:
                return _GO_ON
            return "1" if _between(holes, low, high) == 1 else "1b"
    return _GO_ON


# --- above the last batch -----------------------------------------------------------------------------------
def _above(truth: Truth, segments: Sequence[SegmentSeen], files: Mapping[str, bytes], known: Known) -> None:
    """Ranges above the last batch that something knows of."""
    batches = [one for segment in segments for one in segment.batches]
    end = _end_of(segments)
    entries = [(entry[0], segment.has_slots) for segment in segments for entry in segment.entries if entry[0] >= end]
    if entries:
        shown = max(offset for offset, _ in entries)
        is_plain = not any(slots for _, slots in entries)
        truth.above.append((end, shown, frozenset({"lost"} if is_plain else ())))
        end = shown + 1
    truth.markers_above = [at for one in segments for at in one.markers if at >= end]
    ends = [*known.ends, *(int(one[:20]) for one in files if one.endswith(".snapshot"))]
    times = _times_above(files, end)
    if max(ends, default=0) > end or times or truth.markers_above:
        is_traced = known.entry is not None and known.entry <= _end_of(segments)
        is_traced |= any(one.is_short for one in batches) or any(one.rows & {"3", "4", "6", "7"} for one in truth.holes)
        is_free = bool(entries or truth.markers_above) or not is_traced or known.policy in ("never", "delete")
        last = max([*(one - 1 for one in ends), *times, *truth.markers_above])
        truth.above.append((end, last, frozenset() if is_free else frozenset({"unexplained"})))


def _times_above(files: Mapping[str, bytes], end: int) -> list[int]:
    """Offsets at or above the end of the log that time indexes know of."""
    slots = [
        (int(path[:20]) + offset, time)
        for path, data in files.items()
        if path.endswith(".timeindex")
        for time, offset in struct.iter_unpack(">qi", data)
    ]
    return [offset for offset, time in slots if time and offset >= end]
