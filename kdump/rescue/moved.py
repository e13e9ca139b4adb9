"""Batches whose base offset is wrong, by the copies that have them where they belong.

A base offset is outside the CRC. A batch that adjoins no neighbour has the offset that another copy has for the same
bytes, where both lie as far from a batch that both copies have, or from the start of segments of one base offset.
Equal bytes at different offsets may be different batches: where another copy has them at the same offset too, or two
places fit, nothing is changed.

Strategy: a log is walked once for its batches that adjoin no neighbour, and each log of another copy that may have them
once for all of them.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.header_fields import Overlay
from kdump.format.batch.window import header_at
from kdump.rescue.epochs import NEVER
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.format.source import Source
    from kdump.rescue.log_facts import LogFacts

_MOST = 64  # equal batches of one log that are held
_PIECE = 1024 * 1024
_FIELD = "baseOffset"
_COLUMNS = (layout.POSITION, layout.SIZE, layout.BASE_OFFSET, layout.LAST_OFFSET, layout.CRC)


class SeenBatch(TupleValue):
    """A batch: bytes, offsets, and the CRC that it has."""

    position: int
    size: int
    first: int
    last: int
    crc: int

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.size

    @property
    def content(self) -> tuple[int, int, int]:
        """What equal batches have in common, wherever they stand."""
        return self.size, self.crc, self.last - self.first

    @property
    def place(self) -> tuple[int, int, int]:
        """What the same batch has in common in all copies."""
        return self.first, self.size, self.crc


class Lone(TupleValue):
    """A batch that adjoins no neighbour, by its header, with the batches before and behind it (None: none)."""

    row: SeenBatch
    before: SeenBatch | None
    after: SeenBatch | None


class OwnLog(TupleValue):
    """The log whose batches are judged: as it is, what it has, its base offset and the next one (None: not known)."""

    raw: Source
    facts: LogFacts
    base: int
    next_base: int | None


class OtherLog(TupleValue):
    """A log of another copy: as its runs count on it, what it has, and its base offset (None: not known)."""

    log: Source
    facts: LogFacts
    base: int | None


def wrong_base_offsets(own: OwnLog, others: Callable[[], Iterable[OtherLog]], max_batch_bytes: int) -> list[Finding]:
    """Return a finding for each batch of a log whose base offset another copy knows better.

    That may be the offset in its header, where that was taken for wrong: the finding then expects what it found.

    Args:
        own: the log.
        others: gives the logs of other copies that may have its batches.
        max_batch_bytes: of a larger batch only the header is read.

    Reports: O03.
    """
    facts, runs = own.facts, own.facts.runs
    pairs = zip(facts.patches, facts.fields, strict=True)
    guessed = {patch.position: one.expected for patch, one in pairs if one.field == _FIELD}
    unplaced = {place.position for place in facts.places if place.is_unplaced}
    if not (runs or unplaced):
        return []
    if not (guessed or unplaced or facts.gaps or len(runs) > 1 or runs.starts[0] or runs.firsts[0] != own.base):
        return []
    log = Overlay(own.raw, [patch for patch in facts.patches if patch.position not in guessed])
    own_rows = sorted((*_rows(log, facts, max_batch_bytes), *_unplaced(log, unplaced)))
    lone = list(_lone(own_rows, own, {*guessed, *unplaced}))
    known: list[set[int]] = [set() for _ in lone]
    if lone:
        for other in others():
            _look(lone, log, own, other, known, max_batch_bytes)
    wanted = {one.row.content for one, offsets in zip(lone, known, strict=True) if offsets}
    here = {row.place for row in _rows(log, facts, max_batch_bytes) if row.content in wanted} if wanted else set()
    found = []
    for (row, _, _), offsets in zip(lone, known, strict=True):
        if len(offsets) != 1:
            continue
        [offset] = offsets
        is_free = offset == row.first or (offset, row.size, row.crc) not in here
        if is_free and offset != guessed.get(row.position, row.first):
            place = row.position, row.size
            found.append(Finding(Code.O03, own.raw.name, *place, False, row.first, row.last, _FIELD, offset, row.first))
    return found


def _rows(log: Source, facts: LogFacts, max_batch_bytes: int) -> Iterator[SeenBatch]:
    """Yield the batches of a log in the order of their places, but for those of magic 0 and 1."""
    for window in facts.runs.windows(log, max_batch_bytes):
        columns = [window.column(one) for one in (layout.MAGIC, *_COLUMNS)]
        for magic, *cells in zip(*columns, strict=True):
            if magic >= layout.MAGIC_V2:
                yield SeenBatch(*cells)


def _unplaced(log: Source, positions: Iterable[int]) -> Iterator[SeenBatch]:
    """Yield the batches that stay out because nothing in their log tells where they belong."""
    for position in positions:
        header = header_at(log, position)
        if header is not None and header[layout.MAGIC] >= layout.MAGIC_V2:
            yield SeenBatch(*(header[one] for one in _COLUMNS))


def _lone(rows: Iterable[SeenBatch], own: OwnLog, guessed: set[int]) -> Iterator[Lone]:
    """Yield the batches that adjoin no neighbour, where order breaks, at torn bytes and at the end of the log.

    Compaction leaves other ones in plenty.

    Args:
        rows: the batches of the log, as their headers are.
        own: the log.
        guessed: positions of those whose base offset is wrong, or was taken for wrong.
    """
    before: SeenBatch | None = None
    for row, after in pairwise(chain(rows, (None,))):
        assert row is not None
        end, left = (0, own.base) if before is None else (before.end, before.last + 1)
        right = own.next_base if after is None else after.first
        if row.first != left and row.last + 1 != right:
            breaks = row.position in guessed or row.first < left or row.position != end
            if after is None:
                breaks = breaks or not own.facts.lacks_records
            else:
                breaks = breaks or after.first <= row.last or after.position != row.end
            if breaks:
                yield Lone(row, before, after)
        before = row


def _look(
    lone: Sequence[Lone], log: Source, own: OwnLog, other: OtherLog, known: list[set[int]], max_batch_bytes: int
) -> None:
    """Add the offsets that a log of another copy has for batches; two for one that nobody can tell.

    Args:
        lone: the batches.
        log: they are in, as their runs count on it.
        own: the same log.
        other: the other one.
        known: for each batch its offsets so far.
        max_batch_bytes: of a larger batch only the header is read.
    """
    wanted: dict[tuple[int, int, int], list[int]] = {}
    for number, one in enumerate(lone):
        wanted.setdefault(one.row.content, []).append(number)
    anchors = {row.place for one in lone for row in (one.before, one.after) if row is not None}
    seen: dict[tuple[int, int, int], SeenBatch] = {}
    equal: dict[tuple[int, int, int], list[tuple[SeenBatch, bool]]] = {}
    last = None if other.base is None else other.base - 1
    for row, after in pairwise(chain(_rows(other.log, other.facts, max_batch_bytes), (None,))):
        assert row is not None
        if row.place in anchors:
            seen[row.place] = row
        if row.content in wanted:
            fits = last == row.first - 1 or (after is not None and after.first == row.last + 1)
            equal.setdefault(row.content, []).append((row, fits))
            if len(equal[row.content]) > _MOST:
                return  # too many that are equal: none of them tells anything
        last = row.last
    is_aligned = other.base == own.base
    stop = NEVER if own.next_base is None else own.next_base
    for content, some in equal.items():
        for number in wanted[content]:
            one = lone[number]
            for row, fits in some:
                is_same = row.first == one.row.first
                is_there = (
                    fits and own.base <= row.first and row.last < stop and _is_anchored(one, row, seen, is_aligned)
                )
                if (is_same or is_there) and _has_same_bytes(log, one.row, other.log, row):
                    known[number].add(row.first)


def _is_anchored(one: Lone, row: SeenBatch, seen: dict[tuple[int, int, int], SeenBatch], is_aligned: bool) -> bool:
    """Whether a batch of another copy stands between the same neighbours, as far as that copy has them.

    Where it has neither: at the same place of a segment that begins at the same offset.
    """
    before = None if one.before is None else seen.get(one.before.place)
    after = None if one.after is None else seen.get(one.after.place)
    for first, second, own_first, own_second in ((before, row, one.before, one.row), (row, after, one.row, one.after)):
        if first is None or second is None or own_first is None or own_second is None:
            continue
        is_as_far = second.position - first.position == own_second.position - own_first.position
        if first.last >= second.first or not is_as_far:
            return False
    return before is not None or after is not None or (is_aligned and row.position == one.row.position)


def _has_same_bytes(log: Source, row: SeenBatch, other: Source, same: SeenBatch) -> bool:
    """Whether two batches of one size are equal in all that their CRCs are of."""
    for at in range(layout.ATTRIBUTES_AT, row.size, _PIECE):
        size = min(_PIECE, row.size - at)
        if log.read_at(row.position + at, size) != other.read_at(same.position + at, size):
            return False
    return True
