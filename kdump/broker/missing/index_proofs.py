"""What the indexes of a log know of batches that are not in it any more.

An entry of an offset index inside a hole was made for a batch there; and where batches were taken out of a log, the
entries for what lies behind them all point too far by the same number of bytes. Neither counts where an entry behind
the hole agrees with the log as it is: then the index is not that of the whole log. A broker that cleans a log makes its
indexes again, so a log that compaction has made proves nothing; but while it works, and after a crash, index and log
may be of different times: zeros at the end of the last index, `.swap` and `.cleaned` files show that.

A time index proves nothing of a hole, for it may be an older copy (of the end of the last log see `DamageFold.finish`);
nor do the other offsets of a transaction index.

Source: LogSegment.append, OffsetIndex.append, Cleaner.cleanSegments, LogSegment.recover.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import Proof
from kdump.format.batch import _scan, layout
from kdump.format.batch.walk import CheckedWalk, right_windows
from kdump.format.index.offset_and_time import OffsetIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.broker.missing.ranges import MissingRange
    from kdump.finding import Finding
    from kdump.format.source import Source
    from kdump.storage.segment import Segment

_UNFINISHED = ("swap", "cleaned")
_SHIFTS_TRIED = 64  # batches before an entry's own: one append may have had so many, and the entry is of the first
_MOST_ENTRIES = 1 << 21
_MOST_HOLES = 1 << 17  # of one log that are held as objects, before what is known of them is told


class _Batches(TupleValue):
    """The batches of a log, in order: base offset (-1 for a legacy wrapper), last offset and position of each."""

    bases: array[int]
    lasts: array[int]
    positions: array[int]

    def begins(self, entry: tuple[int, int], shift: int = 0) -> bool:
        """Tell whether an entry, offset and position, is right for these batches, `shift` bytes further to the front.

        A batch begins there, and none before it has the offset. The entry may be for several batches of one append.
        """
        offset, position = entry[0], entry[1] - shift
        k = bisect_left(self.positions, position)
        if k == len(self.positions) or self.positions[k] != position:
            return False
        return (not k or self.lasts[k - 1] < offset) and self.bases[k] <= offset

    def shifts(self, entry: tuple[int, int]) -> list[int]:
        """Return by how many bytes an entry may point too far, the likeliest first."""
        k = bisect_left(self.lasts, entry[0])
        if k == len(self.lasts):
            return []
        return [entry[1] - self.positions[j] for j in range(k, max(-1, k - _SHIFTS_TRIED), -1)]


def is_under_work(names: Iterable[str]) -> bool:
    """Tell whether files of a cleaning, or of a split, that was not finished lie in a partition directory.

    Args:
        names: of all that lies there.
    """
    return any(name.rpartition(".")[2] in _UNFINISHED for name in names)


class HoleProofs:
    """What the indexes of one log prove about its holes; one that cannot be read proves nothing.

    Args:
        segment: the log with its indexes.
        is_last: no segment follows: a broker may not have trimmed its indexes.
        next_base: base offset of the next segment.
        max_batch_bytes: a batch over this is not held in memory.
    """

    def __init__(self, segment: Segment, *, is_last: bool, next_base: int | None, max_batch_bytes: int) -> None:
        self._segment = segment
        self._is_last = is_last
        self._next_base = next_base
        self._max_batch_bytes = max_batch_bytes
        self._between = 0  # holes so far in one of which bytes are missing

    def may_show(self, gaps: Sequence[MissingRange]) -> bool:
        """Tell, at a look, whether an index may show something about some holes, in order.

        An entry lies in one, or the first one of the offset index behind one does not agree with the log.
        """
        with suppress(OSError):
            offsets, positions = self._entries
            looked = -1
            for gap in gaps:
                k = bisect_left(offsets, gap.first)
                if k < len(offsets) and offsets[k] <= gap.last:
                    return True
                if k != looked and k < len(offsets) and not _begins_at(self._segment.log, offsets[k], positions[k]):
                    return True
                looked = k
        return any(True for _ in self.with_markers(gaps))

    def knows_nothing_else(self) -> bool:
        """Tell whether each entry of the offset index is for a batch of the log.

        Raises:
            OSError: log or index cannot be read.
        """
        entries = self._entries
        return not entries[0] or all(map(self._batches().begins, zip(*entries, strict=True)))

    def prove(self, ranges: Sequence[MissingRange], *, is_end: bool = True) -> list[MissingRange]:
        """Return ranges of the log, in order, each hole with what is proven of it.

        Many may come in parts. The last hole of a part is not settled yet, unless it is the end: what comes behind it
        counts too, and it must come again as the first of the next part. The last one of all may lie behind the last
        batch.

        Args:
            ranges: holes and others.
            is_end: no more come.
        """
        gaps = [one for one in ranges if one.certainty is None]
        found: dict[MissingRange, MissingRange] = {}
        with suppress(OSError):
            if self._entries[0] and (self._between or self.may_show(gaps)):
                found = self._shown(gaps, is_end=is_end)
        with suppress(OSError):
            for gap in self.with_markers(gaps):
                if gap not in found or found[gap].proof is not Proof.SHOWN:
                    found[gap] = gap._replace(proof=Proof.MARKER)
        return [found.get(one, one) for one in ranges]

    def _shown(self, gaps: Sequence[MissingRange], *, is_end: bool) -> dict[MissingRange, MissingRange]:
        """What the offset index shows of holes."""
        found: dict[MissingRange, MissingRange] = {}
        offsets, positions = self._entries
        last_right, shift = self._held_against
        for gap in gaps:
            inside, behind = bisect_left(offsets, gap.first), bisect_right(offsets, gap.last)
            if inside == behind or last_right >= behind:
                continue
            if behind < len(offsets) or positions[behind - 1] >= gap.position:
                found[gap] = gap._replace(proof=Proof.SHOWN)
        if shift is not None:  # bytes are missing between the last entry that agrees and the one behind it
            after, before = offsets[last_right] if last_right >= 0 else -1, offsets[last_right + 1]
            between = [gap for gap in gaps if after < gap.last and gap.first < before]
            count = self._between + len(between)
            proof = Proof.SHOWN if count == 1 else Proof.AMONG_SEVERAL
            for gap in between:
                found.setdefault(gap, gap._replace(proof=proof, missing_bytes=shift))
            comes_again = not is_end and between[-1:] == [gaps[-1]]
            self._between = count - comes_again
        return found

    @cached_property
    def _held_against(self) -> tuple[int, int | None]:
        """Number of the last entry that agrees with the log, -1 for none, and how far those behind it point too far.

        That is None where they do not all point too far by the same bytes, or one before them does not agree either.
        """
        batches = self._batches()
        entries = list(zip(*self._entries, strict=True))
        agree = [batches.begins(one) for one in entries]
        last_right = max((k for k, is_right in enumerate(agree) if is_right), default=-1)
        is_sound = all(agree[: last_right + 1])
        return last_right, _shift_of(entries[last_right + 1 :], batches) if is_sound else None

    def with_markers(self, gaps: Sequence[MissingRange]) -> Iterator[MissingRange]:
        """Yield those of some ranges of offsets in which the transaction index knows an end marker."""
        for gap in gaps:
            k = bisect_left(self._markers, gap.first)
            if k < len(self._markers) and self._markers[k] <= gap.last:
                yield gap

    @cached_property
    def _markers(self) -> array[int]:
        """The offsets of the end markers that the transaction index knows, ascending."""
        source = self._segment.file(FileKind.TXNINDEX)
        if isinstance(source, OpenFailure) or source.size > _MOST_ENTRIES * TransactionIndex.entry_size:
            return array("q")
        entries = TransactionIndex(source, self._segment.base_offset)
        return array("q", sorted(one.last_offset for one in entries if one.last_offset > 0))

    @cached_property
    def _entries(self) -> tuple[array[int], array[int]]:
        """Offsets and positions of the entries that count: those in order, of an index that nobody still writes to."""
        offsets, positions = array("q"), array("q")
        source = self._segment.file(FileKind.INDEX)
        if isinstance(source, OpenFailure):
            return offsets, positions
        index = OffsetIndex(source, self._segment.base_offset)
        slots = index.entries
        index.trim()
        if (self._is_last and index.entries < slots) or index.entries > _MOST_ENTRIES:
            return offsets, positions
        for columns in index.columns():
            offsets += columns[0]
            positions += columns[1]
        if _scan.ascends(offsets, True) and _scan.ascends(positions, True):
            return offsets, positions
        every, last = list(zip(offsets, positions, strict=True)), len(offsets) - 1
        kept = [
            one
            for k, one in enumerate(every)
            if (not k or _is_below(every[k - 1], one)) and (k == last or _is_below(one, every[k + 1]))
        ]
        return array("q", [one[0] for one in kept]), array("q", [one[1] for one in kept])

    def _batches(self) -> _Batches:
        segment = self._segment
        found: list[Finding] = []
        batches = _Batches(array("q"), array("q"), array("q"))
        walk = CheckedWalk(
            segment.log,
            found.append,
            segment=segment.base_offset,
            next_base=self._next_base,
            hints=segment.hints,
            max_batch_bytes=self._max_batch_bytes,
        )
        walk.checks.follow_producers = False
        highest = -1
        for window, _ in right_windows(walk, found):
            found.clear()
            columns = (window.column(one) for one in (layout.BASE_OFFSET, layout.LAST_OFFSET, layout.POSITION))
            for base, last, position in zip(*columns, strict=True):
                if last > highest:  # one that is not is no place for an entry
                    batches.bases.append(base)
                    batches.lasts.append(last)
                    batches.positions.append(position)
                    highest = last
        return batches


class ProvenRanges:
    """Gives the ranges of a log back, each hole with what the indexes prove of it.

    What lies behind a hole counts too. So where an index may show something all ranges wait for the end of the log, or
    until they are too many: then those whose proof is settled are given back.

    Args:
        proofs: of the log; None where its indexes may be of another time than the log.
    """

    def __init__(self, proofs: HoleProofs | None) -> None:
        self._proofs = proofs
        self._held: list[MissingRange] = []
        self._may_show = False

    def take(self, ranges: Iterable[MissingRange]) -> list[MissingRange]:
        """Take ranges behind all others; return those of which all is known."""
        self._held += ranges
        if self._proofs is not None and not self._may_show:
            self._may_show = self._proofs.may_show([one for one in self._held if one.certainty is None])
        if self._may_show and len(self._held) < _MOST_HOLES:
            return []
        return self._given(is_end=False)

    def rest(self) -> list[MissingRange]:
        """Return what is held, at the end of the log."""
        return self._given(is_end=True)

    def each(self, ranges: Iterable[MissingRange]) -> Iterator[MissingRange]:
        """Yield all ranges of a log, in order, with what is proven of them."""
        rest = iter(ranges)
        while part := list(islice(rest, _MOST_HOLES)):
            yield from self.take(part)
        yield from self.rest()

    def _given(self, *, is_end: bool) -> list[MissingRange]:
        held, self._held = self._held, []
        holes = [k for k, one in enumerate(held) if one.certainty is None]
        if self._proofs is None or not holes or not (is_end or self._may_show):
            return held
        shown = self._proofs.prove(held, is_end=is_end)
        if not is_end:
            shown, self._held = shown[: holes[-1]], held[holes[-1] :]
        return shown


def _is_below(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] and one[1] < other[1]


def _begins_at(log: Source, offset: int, position: int) -> bool:
    """Whether a batch of magic 2 begins at a position that is not above an offset."""
    head = log.read_at(position, layout.RECORDS_AT)
    if len(head) < layout.RECORDS_AT or head[layout.MAGIC_AT] != layout.MAGIC_V2:
        return False
    return int.from_bytes(head[:8], "big", signed=True) <= offset


def _shift_of(behind: Sequence[tuple[int, int]], batches: _Batches) -> int | None:
    """By how many bytes some entries, none of which agrees with the log, all point too far; None where they do not."""
    if not behind:
        return None
    shifts = (one for one in batches.shifts(behind[0]) if one > 0)
    return next((one for one in shifts if all(batches.begins(it, one) for it in behind)), None)
