"""Logs that bear the name of another segment: which segment of its partition each is, by the offsets of its batches.

A log is judged where its name does not let its batches stand: they begin below it, or in the next segment, or the log
before goes on behind it. It is of this partition where its offsets are free there, and meet those before and behind
them, or where the entries of an offset index are about its batches. Nothing is lost of such a log: it needs its name.

This is a question of a file name. Whether the base offset of a batch is wrong is another one, of each batch and its
neighbours: `kdump.format.batch.base_offset`.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.base_offset.fold import unknown
from kdump.format.batch.header_judge import OFFSET_BITS, is_one_bit, one_bit_from
from kdump.format.batch.walk import CheckedWalk
from kdump.format.index.offset_and_time import OffsetIndex
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES, ReadLimits
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.segment import MOST_HOPS
from kdump.value import TupleValue, Value

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.source import Source
    from kdump.storage.partition_dir import PartitionDir

_INDEXES = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
_OFFSET_SIZE = layout.SIZE_AT  # bytes of a base offset
_SAMPLE = 64  # entries of an index
_MOST_WRONG = 8  # batches of a log that lie out of order: of one with more nothing is told


class Misplaced(Value):
    """A log under the name of another segment."""

    path: str  # of the log
    name: int  # the base offset that its name tells
    base: int  # the base offset of the segment that it is
    # first, last: its offsets, inclusive; the last one lies below the first where it has no batch
    first: int
    last: int
    files: dict[FileKind, str]  # the files of that segment that are there, under whatever names; the log is one

    @property
    def right_path(self) -> str:
        """The path that the log should have."""
        return self._right(self.path)

    def _right(self, path: str) -> str:
        folder, name = os.path.split(path)
        return os.path.join(folder, f"{self.base:020}.{name.partition('.')[2]}")

    @property
    def renames(self) -> list[tuple[str, str]]:
        """The files that have a wrong name, and the right ones."""
        return [(path, self._right(path)) for path in self.files.values() if path != self._right(path)]

    @property
    def finding(self) -> Finding:
        """What is wrong with it.

        Reports: F15.
        """
        offsets = f"offset {self.first}" if self.first == self.last else f"offsets {self.first}..{self.last}"
        right, has = os.path.basename(self.right_path), "no batch" if self.is_empty else offsets
        return Finding(
            Code.F15,
            self.path,
            offset=None if self.is_empty else self.first,
            last_offset=None if self.is_empty else self.last,
            expected=self.base,
            found=self.name,
            values={
                "what": "another segment of this partition",
                "why": f"it has {has}, and should have the name {right}; nothing is lost of it once it has that",
                "remedy": f"give it the name {right} before a broker starts, or salvage the partition",
            },
        )

    @property
    def is_empty(self) -> bool:
        """Whether it has no batch, as a cleaner leaves a log: another one bears its name."""
        return self.last < self.first


def misplaced_in(directory: PartitionDir) -> Mapping[int, Misplaced]:
    """Return the logs of a partition that bear the name of another segment of it, by the base offset of that name.

    Args:
        directory: the partition; its logs are looked at once.
    """
    found = directory.learnt.get(_Found)
    if not isinstance(found, _Found):
        found = directory.learnt[_Found] = _Found(_Search(directory).found())
    return found.logs


def know_misplaced(directory: PartitionDir, logs: Mapping[int, Misplaced]) -> None:
    """Take what somebody else has found of a partition, so that its logs are not looked at again.

    Args:
        directory: the partition.
        logs: as `misplaced_in` gives them.
    """
    directory.learnt[_Found] = _Found(dict(logs))


def renamed(some: Sequence[Misplaced]) -> list[tuple[str, str]]:
    """Return which files are to be renamed, in an order in which none takes the name of one that is still there.

    Args:
        some: the logs of a partition; where names were exchanged, a file gets a name for the time in between.
    """
    left = {path: right for one in some for path, right in one.renames}
    steps: list[tuple[str, str]] = []
    while left:
        path = next((one for one, right in left.items() if right not in left), None)
        if path is None:  # a circle
            path = next(iter(left))
            steps.append((path, f"{path}.tmp"))
            left[f"{path}.tmp"] = left.pop(path)
            continue
        steps.append((path, left.pop(path)))
    return steps


class _Found(Value):
    logs: dict[int, Misplaced]


class _Span(TupleValue):
    """What a log has: by its name, first offset, and the one after the last."""

    name: int
    first: int
    end: int


class _Room(TupleValue):
    """What is free around a log: where those before it end, whether any is known, and where the next one begins."""

    floor: int
    has_before: bool
    after: int | None


class _Whole(TupleValue):
    """All of a log: its span, what it lacks, and the epochs of its first and last batch."""

    span: _Span
    first_last: int  # the last offset of its first batch
    has_holes: bool  # offsets are missing inside
    is_open: tuple[bool, bool]  # it may begin before its span, or end behind it: a batch there is damaged
    epochs: tuple[int, int]
    second: int | None = None  # the first offset of its second batch; None where nobody knows

    @property
    def is_one_moved(self) -> bool:
        """Whether one bit of its first batch explains that this lies below the name, where all others lie above."""
        name, first, _ = self.span
        if self.second is None or not first < name <= self.second:
            return False
        stored = self.first_last if self.epochs[0] < 0 else first  # magic 0 and 1 have no epoch
        moved = (other - stored for other in one_bit_from(stored, OFFSET_BITS))
        return any(name <= first + by and self.first_last + by < self.second for by in moved)

    def begun_at(self, names: Iterable[int]) -> _Whole:
        """Return it as the segment of a name inside its first batch, where one is: so begins the log of a new leader.

        Source: LocalLog.roll.
        """
        some = [one for one in names if self.span.first <= one <= self.first_last]
        return self._replace(span=self.span._replace(first=some[0])) if len(some) == 1 else self


class _Search:
    """Looks for the logs of a partition that bear a wrong name.

    Args:
        directory: of the partition.
    """

    def __init__(self, directory: PartitionDir) -> None:
        self._directory = directory
        self._ends: dict[int, int | None] = {}
        self._untold: set[int] = set()  # names of logs in which nothing tells where they belong

    def found(self) -> dict[int, Misplaced]:
        """Return them."""
        directory = self._directory
        names = directory.log_bases
        if directory.is_leftover or directory.log_dir.is_held:
            return {}
        blank = {name for name in names if not directory.listing.size(os.path.basename(self._path(name)))}
        firsts = {name: first for name in names if name not in blank and (first := self._first(name)) is not None}
        swapped = {name for name, first in firsts.items() if firsts.get(first) == name != first}
        for name, after in pairwise([*names, layout.LARGEST_OFFSET + 1]):
            if name <= firsts.get(name, name) < after or name in swapped:
                continue
            begins_all = name == names[0] and firsts[name] in self._starts  # the log begins where the epochs do
            if begins_all or any(first == name != other for other, first in firsts.items()):  # that one has its place
                continue
            if self._leads_from_name(name, after) or self._fills_by_one_bit(name, after):
                firsts[name] = name
        blank |= {name for name in names if name not in firsts}  # nothing in it tells where it belongs
        suspects = set(self._suspects(names, firsts))
        # the name of another one that begins there: whose is it?
        pairs = [(firsts[name], name) for name in suspects]
        exchanged = {first: name for first, name in pairs if first in firsts and self._leads_from(first, name)}
        suspects |= {first for first, _ in pairs if firsts.get(first, first) != first} | {*exchanged}
        wholes = [
            whole for name in sorted(suspects) if (whole := self._whole(name, base=exchanged.get(name))) is not None
        ]
        wholes = [self._placed(one, names, firsts, suspects) for one in wholes]
        if not wholes:
            return {}
        blank |= suspects - {one.span.name for one in wholes}
        self._untold = blank
        in_place = {name: first for name, first in firsts.items() if name not in suspects}
        taken = {name for name in names if name not in suspects and name not in blank}
        found: dict[int, Misplaced] = {}
        for one in (*wholes, *wholes):  # one of two that are exchanged tells of the other
            if one.span.name in found:
                continue
            others = [self._span(other, found) for other in wholes if other is not one]
            place = self._judged(one, others, in_place, taken, found)
            if place is not None:
                found[place.name] = place
        bases = Counter(one.base for one in found.values())
        found = {name: one for name, one in found.items() if bases[one.base] == 1}
        held = {*names} - blank
        while blocked := [name for name, one in found.items() if one.base in held and one.base not in found]:
            for name in blocked:  # a log that stays holds the name
                del found[name]
        found = {name: self._with_snapshot(one, bases) for name, one in found.items()}
        return found | self._exchanged(found, blank)

    def _placed(self, one: _Whole, names: Sequence[int], firsts: Mapping[int, int], suspects: Container[int]) -> _Whole:
        """A log with the offsets that it has by the names of the others.

        It begins at the name of one of them inside its first batch, but where it begins the partition, or goes on from
        the end of another one. Where it has the name of another one that has its own, one bit of its only batch may be
        wrong.
        """
        name, first, end = one.span
        others = [other for other in names if other in suspects and other != name]
        if any(first < other <= one.first_last for other in others):
            is_next = any(self._end(other) == first for other in names)
            return one if is_next or self._begins_all(one, names) else one.begun_at(others)
        after = next((other for other in names if other > name), layout.LARGEST_OFFSET)
        swapped = [other for other in others if name <= firsts.get(other, -1) < after]
        if len(swapped) == 1 and one.first_last + 1 == end and is_one_bit(first, swapped[0]):
            by = swapped[0] - first
            return one._replace(span=_Span(name, first + by, end + by), first_last=one.first_last + by)
        return one

    @staticmethod
    def _span(whole: _Whole, found: Mapping[int, Misplaced]) -> _Span:
        """The offsets of a log, without those of batches that do not fit where it belongs."""
        place = found.get(whole.span.name)
        return whole.span if place is None else _Span(place.name, place.first, place.last + 1)

    def _exchanged(self, found: Mapping[int, Misplaced], blank: Container[int]) -> dict[int, Misplaced]:
        """Return the logs whose names others are to have, and that tell none: they get the names that those leave."""
        wanted = {one.base for one in found.values()}
        left = iter(sorted({*found} - wanted))
        used = {path for one in found.values() for path in one.files.values()}
        exchanged = {}
        for name in (name for name in sorted(wanted - {*found}) if name in blank):
            base = next(left)
            own = {kind: path for kind, path in self._directory.by_base[base].items() if path not in used}
            files = {**own, FileKind.LOG: self._path(name)}
            exchanged[name] = Misplaced(self._path(name), name, base, base, base - 1, files)
        return exchanged

    def _path(self, name: int) -> str:
        return self._directory.path_of(name, FileKind.LOG)

    def _with_snapshot(self, one: Misplaced, bases: Container[int]) -> Misplaced:
        """Add the snapshot of the wrong name where all files of the segment have that, and no other segment is it."""
        own = self._directory.by_base[one.name]
        is_theirs = all(one.files[kind] == own.get(kind) for kind in _INDEXES if kind in one.files)
        if FileKind.SNAPSHOT in one.files or FileKind.SNAPSHOT not in own or one.name in bases or not is_theirs:
            return one
        return one.replace(files={**one.files, FileKind.SNAPSHOT: own[FileKind.SNAPSHOT]})

    def _suspects(self, names: Sequence[int], firsts: Mapping[int, int]) -> Iterator[int]:
        """The logs whose names do not let their batches stand."""
        nexts = dict(pairwise(names))
        before: int | None = None
        for name in names:
            first = firsts.get(name)
            if first is None:
                continue
            if first < name or first >= nexts.get(name, first + 1):
                yield name
                continue
            has_other = any(name < base <= first for base in self._without_log)
            if has_other or (first > name and before is not None and (self._end(before) or 0) > name):
                yield name
            else:
                before = name

    def _begins_all(self, one: _Whole, names: Sequence[int]) -> bool:
        """Whether a log is the first one, and begins where the leader-epoch-checkpoint does: no leader was before."""
        return one.span.name == names[0] and one.span.first in self._starts

    def _leads_from_name(self, name: int, after: int) -> bool:
        """Whether the first batch of a log is in its place where that begins as the name says.

        Two witnesses agree then: of that batch the base offset is wrong, and not the name. Behind the only batch of a
        log the next one begins at `after`.
        """
        return self._leads_from(name, name, after)

    def _leads_from(self, name: int, base: int, after: int | None = None) -> bool:
        """Whether the first batch of a log ends right before the second one if it begins at an offset, and else not.

        Args:
            name: of the log.
            base: the offset.
            after: where the next log begins; None where nobody knows.
        """
        with suppress(OSError):
            opened = open_source(self._path(name), follow=False)
            if not isinstance(opened, OpenFailure):
                with opened:
                    one = _header(opened, 0)
                    other = None if one is None else _header(opened, one.end)
                    behind = after if other is None else _first_at(opened, one.end) if one is not None else None
                    if one is not None and (other is not None or one.end == opened.size):
                        span = _span_at(opened, 0)
                        return span is not None and one.last + 1 != behind == base + span
        return False

    def _fills_by_one_bit(self, name: int, after: int) -> bool:
        """Whether one bit lets the only batch of a log that is left end where the next one begins."""
        whole = self._whole(name)
        if whole is None or whole.first_last + 1 != whole.span.end:
            return False
        first = after - (whole.span.end - whole.span.first)
        fields = (whole.span.first, first), (whole.first_last, after - 1)  # of a wrapper the header has its last offset
        return name <= first and any(is_one_bit(stored, value) for stored, value in fields)

    @cached_property
    def _without_log(self) -> list[int]:
        """The base offsets of indexes that have no log."""
        by_base = self._directory.by_base
        return [base for base, files in by_base.items() if FileKind.LOG not in files and FileKind.INDEX in files]

    def _first(self, name: int) -> int | None:
        """The base offset of the first batch of a log; None without one, or where it tells none."""
        with suppress(OSError):
            opened = open_source(self._path(name), follow=False)
            if not isinstance(opened, OpenFailure):
                with opened:
                    first = first_in_header(opened)
                if first is not None:
                    return first
                whole = self._whole(name)
                return None if whole is None else whole.span.first
        return None

    def _end(self, name: int) -> int | None:
        if name not in self._ends:
            self._ends[name] = end_of_log(self._directory, name)
        return self._ends[name]

    def _whole(self, name: int, after: int | None = None, base: int | None = None) -> _Whole | None:
        """All of a log whose offsets ascend by themselves, but for a few batches that lie out of order; else None.

        Args:
            name: of the log.
            after: where the log behind it would begin; None where nobody knows.
            base: below which no batch of it is right; None where nobody knows.
        """
        opened = open_source(self._path(name), follow=False)
        if isinstance(opened, OpenFailure):
            return None
        wrong: list[int] = []  # positions of batches that lie out of order
        unplaced: set[int] = set()  # of those of which nobody knows where they belong
        over: set[int | None] = set()  # of those that lie over others, as a new leader may have written them
        rows: list[tuple[int, int, int]] = []  # position, end and epoch of the first batches, and the last one
        lacks = False

        def note(one: Finding) -> None:
            nonlocal lacks
            lacks = lacks or one.code is Code.O04
            if one.is_overlap:
                over.add(one.position)
            if one.is_misplaced and one.position is not None and len(wrong) <= _MOST_WRONG:
                wrong.append(one.position)
                unplaced.update([one.position] * one.is_unplaced)

        count = 0
        with opened, suppress(OSError):
            segment = layout.UNKNOWN if base is None else base
            walk = CheckedWalk(opened, note, segment=segment, next_base=after, max_batch_bytes=MAX_BATCH_BYTES)
            for window in walk.windows():
                count += window.count
                some = (*range(min(window.count, _MOST_WRONG + 1)), window.count - 1)
                here = [
                    _place_of(window, k)
                    for k in dict.fromkeys(some)
                    if window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
                ]
                rows = [*rows[: _MOST_WRONG + 1], *here]
                is_old = window.cell(0, layout.MAGIC) < layout.MAGIC_V2
                lacks = lacks or (not is_old and _scan.lacks_records(window.rows, window.count))
                if len(wrong) > _MOST_WRONG:
                    return None
            last = walk.checks.offsets.last
            right = [row for row in rows if row[0] not in wrong and not _is_zeroed(opened, row[0])]
            if not right or last is None or len(unplaced) > min(_MOST_WRONG, (count - len(wrong)) // 2):
                return None
            (position, _, epoch), (last_position, end, last_epoch) = right[0], right[-1]
            first, header = _first_at(opened, position), _header(opened, position)
            if first is not None and header is not None and first <= last:
                is_open = position > 0, end != opened.size or last_position in over
                span, epochs = _Span(name, first, last + 1), (epoch, last_epoch)
                second = _first_at(opened, right[1][0]) if len(right) > 1 else None
                return _Whole(span, header.last, lacks, is_open, epochs, second)
        return None

    # --- where it belongs -----------------------------------------------------------------------------------
    def _judged(
        self,
        whole: _Whole,
        others: Sequence[_Span],
        in_place: Mapping[int, int],
        taken: set[int],
        found: Mapping[int, Misplaced],
    ) -> Misplaced | None:
        """Return where a log belongs, None where not in this partition, or where its name is right."""
        room = self._room(whole.span, others, in_place)
        if room.after is not None and room.after < whole.span.end:
            whole = self._whole(whole.span.name, room.after) or whole
        whole = whole.begun_at([room.floor])
        name, first, end = whole.span
        if room.floor > first or (room.after is not None and room.after < end):
            return None
        witnesses = {base for base in self._directory.by_base if base not in taken and base != name}
        base = max([one for one in witnesses if room.floor <= one <= first], default=first)
        if base == name or base in taken or all(self._other_epochs(whole)):
            return None
        if name < end and self._other_epochs(whole) == [True, False]:
            return None  # the last batch is where its name and its epoch have it: the first one is wrong
        is_theirs = {at: self._agrees(at, whole.span, base) for at in (base, name)}
        is_free = not any(name < one <= first for one in self._untold)  # no other log begins between
        if is_free and room.floor <= name <= first and (is_theirs[name] or not is_theirs[base]):
            return None  # its name can be right
        is_met = (room.has_before and room.floor == first) or first in self._starts
        if whole.is_one_moved and not (is_theirs[base] or first in witnesses or is_met):
            return None  # of the first batch alone the base offset may be wrong
        closed_at = self._directory.closed_at if room.after is None else None
        if closed_at is not None and closed_at < end:
            return None
        is_open_at_start, is_open_at_end = whole.is_open
        ends = room.after == end if room.after is not None else closed_at in (None, end)
        ends |= end in self._untold  # damage has left nothing of the next one but its name
        begins = whole.has_holes or first in witnesses or self._begins_at(first, room)
        meets = (ends or (is_open_at_end and not is_open_at_start)) and (begins or is_open_at_start)
        is_before = any(end <= one < name for one in self._untold)  # it comes before a log that tells nothing itself
        has_neighbour = room.has_before or room.after is not None or first in self._starts or is_before
        may_have_holes = whole.has_holes and base in witnesses
        is_exchanged = base in found and found[base].base == name
        can_be = is_free and room.floor <= name < (room.after or name + 1)
        meets = meets or (not can_be and (room.after == end or (room.has_before and room.floor == first)))
        is_orphan = not can_be and (base in witnesses or first in self._starts)
        if not (any(is_theirs.values()) or (meets and has_neighbour) or may_have_holes or is_exchanged or is_orphan):
            return None
        return Misplaced(self._path(name), name, base, first, end - 1, self._files(name, base, is_theirs))

    def _room(self, span: _Span, others: Sequence[_Span], in_place: Mapping[int, int]) -> _Room:
        """What is free around the offsets of a log, between the logs in place and the others under wrong names."""
        before = max([(begin, at) for at, begin in in_place.items() if begin <= span.first], default=None)
        ends = [] if before is None else [self._end_below(before[1], span.first) or before[0] + 1]
        ends += [other.end for other in others if other.first <= span.first]
        firsts = [min(at, begin) for at, begin in in_place.items() if begin > span.first]
        firsts += [other.first for other in others if other.first > span.first]
        return _Room(max(ends, default=0), bool(ends), min(firsts, default=None))

    def _end_below(self, name: int, after: int) -> int | None:
        """Return where a log ends; with its last batches in order where these reach over a log behind it.

        None where they do, and none of them has a right CRC.
        """
        end = self._end(name)
        if end is None or end <= after:
            return end
        opened = open_source(self._path(name), follow=False)
        if isinstance(opened, OpenFailure):
            return None
        with opened, suppress(OSError):
            walk = CheckedWalk(opened, unknown, segment=name, next_base=after, max_batch_bytes=MAX_BATCH_BYTES)
            for _ in walk.windows():
                pass
            last = walk.checks.offsets.last
            return None if last is None else last + 1
        return None

    def _begins_at(self, first: int, room: _Room) -> bool:
        """Whether a log that begins at an offset meets what lies before it, or begins the partition.

        A leader-epoch-checkpoint begins where the log did, or where its start has moved to.
        """
        if room.has_before:
            return room.floor == first
        return first in (0, self._directory.log_start, *self._starts)

    @property
    def _starts(self) -> list[int]:
        """Where the leader-epoch-checkpoint begins; nothing where there is none."""
        return [one.start_offset for one in self._directory.sound_epochs[:1]]

    def _other_epochs(self, whole: _Whole) -> list[bool]:
        """Whether the leader-epoch-checkpoint contradicts the first batch, and the last.

        One that is older lacks the newest epochs, and says nothing of them.
        """
        entries = self._directory.epochs
        if not entries or min(whole.epochs) < 0:
            return [False, False]
        newest = entries[-1].epoch
        ends = zip((whole.span.first, whole.span.end - 1), whole.epochs, strict=True)
        found = []
        for offset, epoch in ends:
            known = next((one.epoch for one in reversed(entries) if one.start_offset <= offset), None)
            is_above = known is None and epoch > entries[0].epoch  # below the first entry none is newer than that
            found.append(is_above or (known not in (None, epoch) and not newest == known < epoch))
        return found

    def _agrees(self, name: int, span: _Span, base: int) -> bool:
        """Whether the offset index of a name is about the batches of a log, with a base offset."""
        path = self._directory.path_of(name, FileKind.INDEX)
        index_file, log = (
            open_source(one, follow=False) for one in (path, self._directory.path_of(span.name, FileKind.LOG))
        )
        if isinstance(index_file, OpenFailure) or isinstance(log, OpenFailure):
            return False
        with index_file, log, suppress(OSError, ValueError):
            index = OffsetIndex(index_file, base)
            index.trim()
            step = max(1, index.entries // _SAMPLE)
            some = [index.entry(number) for number in range(0, index.entries, step)]
            return bool(some) and all(_is_of(log, one.position, one.offset, span) for one in some)
        return False

    def _files(self, name: int, base: int, is_theirs: Mapping[int, bool]) -> dict[FileKind, str]:
        """The files of the segment: its indexes have its own name, or that of the log."""
        by_base = self._directory.by_base
        own, right = by_base.get(name, {}), by_base.get(base, {})
        has_own = any(kind in own for kind in _INDEXES)
        has_right = any(kind in right for kind in _INDEXES)
        indexes = right if is_theirs[base] or not has_own or (has_right and not is_theirs[name]) else own
        found = {FileKind.LOG: own[FileKind.LOG], **{kind: indexes[kind] for kind in _INDEXES if kind in indexes}}
        if FileKind.SNAPSHOT in right:
            found[FileKind.SNAPSHOT] = right[FileKind.SNAPSHOT]
        return found


def _is_zeroed(log: Source, position: int) -> bool:
    """Whether zero bytes before a batch go on over its base offset: that tells nothing then."""
    return position >= _OFFSET_SIZE and not any(log.read_at(position - _OFFSET_SIZE, 2 * _OFFSET_SIZE))


def _place_of(window: Window, k: int) -> tuple[int, int, int]:
    """Position, end and leader epoch of the batch in row k."""
    return window.cell(k, layout.POSITION), window.end(k + 1), window.cell(k, layout.LEADER_EPOCH)


class _Header(TupleValue):
    """The header of a batch: offsets, and where the next one begins; that of a wrapper tells its last offset only."""

    first: int | None
    last: int
    end: int


def _header(log: Source, position: int) -> _Header | None:
    """The header at a position, None where no batch can begin there."""
    head = log.read_at(position, layout.RECORDS_AT)
    if len(head) < layout.LOG_OVERHEAD + layout.MIN_SIZE_V0:
        return None
    magic, first = head[layout.MAGIC_AT], int.from_bytes(head[: layout.SIZE_AT], "big", signed=True)
    size = int.from_bytes(head[layout.SIZE_AT : layout.LOG_OVERHEAD], "big", signed=True)
    end = position + layout.LOG_OVERHEAD + size
    if magic < layout.MAGIC_V2:
        is_wrapper = head[layout.LEGACY_ATTRIBUTES_AT] & layout.CODEC_MASK
        return _Header(None if is_wrapper else first, first, end) if first >= 0 and size >= layout.MIN_SIZE_V0 else None
    delta = int.from_bytes(head[layout.LAST_OFFSET_DELTA_AT : layout.LAST_OFFSET_DELTA_AT + 4], "big", signed=True)
    if magic > layout.MAGIC_V2 or first < 0 or delta < 0 or size < layout.MIN_SIZE_V2:
        return None
    return _Header(first, first + delta, end)


def _span_at(log: Source, position: int) -> int | None:
    """How many offsets the batch at a position has, also where its base offset is wrong; None where it tells none."""
    header = _header(log, position)
    if header is None:
        return None
    if header.first is not None:
        return header.last - header.first + 1
    from kdump.format.record.wrapper import offsets_inside  # few logs are that old

    inside = offsets_inside(log, position, ReadLimits())
    return None if inside is None else inside[1] - inside[0] + 1


def first_in_header(log: Source) -> int | None:
    """Return the first offset of the first batch of a log, None where it tells none.

    Raises:
        OSError: it cannot be read.
    """
    return _first_at(log, 0)


def _first_at(log: Source, position: int) -> int | None:
    header = _header(log, position)
    if header is None or header.first is not None:
        return None if header is None else header.first
    from kdump.format.record.wrapper import offsets_inside  # few logs are that old

    inside = offsets_inside(log, position, ReadLimits())
    return (
        None if inside is None or inside[1] > header.last else inside[0]
    )  # with the offset 0 Kafka reads on from there


def _is_of(log: Source, position: int, offset: int, span: _Span) -> bool:
    """Whether a batch of a log begins at a position, and the index entry can be about it."""
    header = _header(log, position) if 0 <= position < log.size else None
    if header is None or not span.first <= offset < span.end:
        return False
    return span.first <= header.last < span.end and (header.first is None or header.first <= offset)


def end_of_log(directory: PartitionDir, base: int) -> int | None:
    """Return the offset after the last batch of a log by the chain of its headers, None where that breaks.

    Args:
        directory: of the partition.
        base: base offset by the name of the log.
    """
    opened = open_source(directory.path_of(base, FileKind.LOG), follow=False)
    if isinstance(opened, OpenFailure):
        return None
    with opened, suppress(OSError):
        for position in dict.fromkeys((_near_end(directory, base, opened), 0)):
            end = _chained(opened, position)
            if end is not None:
                return end
    return None


def _near_end(directory: PartitionDir, base: int, log: Source) -> int:
    """Where a batch begins that is one of the last, by the offset index."""
    opened = open_source(directory.path_of(base, FileKind.INDEX), follow=False)
    if isinstance(opened, OpenFailure):
        return 0
    with opened, suppress(OSError):
        index = OffsetIndex(opened, base)
        index.trim()
        last = index.entry(index.entries - 1) if index.entries else None
        if last is not None and _is_of(log, last.position, last.offset, _Span(base, base, layout.LARGEST_OFFSET)):
            return last.position
    return 0


def _chained(log: Source, position: int) -> int | None:
    for _ in range(MOST_HOPS):
        header = _header(log, position)
        if header is None:
            return None
        position = header.end
        if position == log.size:
            return header.last + 1
    return None
