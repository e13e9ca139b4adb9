"""Batches whose base offset is wrong, by the copies that have them where they belong.

A base offset is outside the CRC. A batch that adjoins no neighbour has the offset that another copy has for the same
bytes, where both lie as far from a batch that both copies have, or from the start of segments of one base offset, or
where its own log begins with it by its name.
Equal bytes at different offsets may be different batches: where another copy has them at the same offset too, or two
places fit, nothing is changed.

Strategy: a log is walked once for its batches that adjoin no neighbour, and each log of another copy that may have them
once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch.base_offset.findings import BASE_OFFSET
from kdump.format.batch.base_offset.fold import unknown
from kdump.format.batch.header_fields import Overlay
from kdump.rescue.base_offset.seen import are_same_bytes, seen_at, seen_in, with_neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.finding import Finding
    from kdump.format.source import Source
    from kdump.rescue.base_offset.seen import CopyLog, Neighbourhood, SeenBatch

_MOST = 64  # equal batches of one log that are held


def wrong_base_offsets(
    own: CopyLog,
    others: Callable[[], Iterable[CopyLog]],
    max_batch_bytes: int,
    end: Callable[[], int | None] = unknown,
) -> list[Finding]:
    """Return a finding for each batch of a log whose base offset another copy knows better.

    That may be the offset in its header, where that was taken for wrong: the finding then expects what it found.

    Args:
        own: the log; without a base offset where its name is wrong.
        others: gives the logs of other copies that may have its batches.
        max_batch_bytes: of a larger batch only the header is read.
        end: tells where the log ends as far as anything tells it; a batch that reaches over that is looked for.

    Reports: O03.
    """
    facts, runs = own.facts, own.facts.runs
    pairs = zip(facts.patches, facts.fields, strict=True)
    guessed = {patch.position: one.true_offset for patch, one in pairs if one.field == BASE_OFFSET}
    unplaced = {place.position for place in facts.places if place.is_unplaced}
    if not (runs or unplaced):
        return []
    if not (guessed or unplaced or facts.gaps or len(runs) > 1 or runs.starts[0] or runs.firsts[0] != own.base):
        return []
    log = Overlay(own.raw, [patch for patch in facts.patches if patch.position not in guessed])
    rows = (*seen_in(runs.windows(log, max_batch_bytes), facts.wrappers), *seen_at(log, unplaced, facts.wrappers))
    own_rows = sorted(rows, key=lambda row: row.position)
    lone = list(_lone(own_rows, own, {*guessed, *unplaced}, end))
    known: list[set[int]] = [set() for _ in lone]
    if lone:
        for other in others():
            _look(lone, log, own, other, known, max_batch_bytes)
    wanted = {one.row.content for one, offsets in zip(lone, known, strict=True) if offsets}
    here = (
        {row.place for row in seen_in(runs.windows(log, max_batch_bytes), facts.wrappers) if row.content in wanted}
        if wanted
        else set()
    )
    found = []
    for (row, _, _), offsets in zip(lone, known, strict=True):
        if len(offsets) != 1:
            continue
        [offset] = offsets
        is_free = offset == row.first or (offset, row.size, row.crc) not in here
        if is_free and (row.position in unplaced or offset != guessed.get(row.position, row.first)):
            found.append(row.moved_to(offset, own.raw.name))
    return found


def _lone(
    rows: Iterable[SeenBatch], own: CopyLog, guessed: set[int], end: Callable[[], int | None]
) -> Iterator[Neighbourhood]:
    """Yield the batches that adjoin no neighbour, where order breaks, at torn bytes and at the end of the log.

    Compaction leaves other ones in plenty.

    Args:
        rows: the batches of the log, as their headers are.
        own: the log.
        guessed: positions of those whose base offset is wrong, or was taken for wrong.
        end: tells where the log ends.
    """
    for standing in with_neighbours(rows):
        row, before, after = standing
        begin, left = (0, own.before + 1) if before is None else (before.end, before.last + 1)
        right = own.end if after is None else after.first
        if row.first != left and row.last + 1 != right:
            breaks = row.position in guessed or row.first < left or row.position != begin
            if after is None:
                breaks = breaks or not own.facts.lacks_records or _is_over(row, end())
            else:
                breaks = breaks or after.first <= row.last or after.position != row.end
            if breaks:
                yield standing


def _is_over(row: SeenBatch, end: int | None) -> bool:
    return end is not None and row.last >= end


def _look(
    lone: Sequence[Neighbourhood],
    log: Source,
    own: CopyLog,
    other: CopyLog,
    known: list[set[int]],
    max_batch_bytes: int,
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
    begin = None if other.base is None else other.base - 1
    for row, before, after in with_neighbours(
        seen_in(other.facts.runs.windows(other.source, max_batch_bytes), other.facts.wrappers)
    ):
        if row.place in anchors:
            seen[row.place] = row
        if row.content in wanted:
            fits = row.first - 1 == (begin if before is None else before.last) or (
                after is not None and after.first == row.last + 1
            )
            equal.setdefault(row.content, []).append((row, fits))
            if len(equal[row.content]) > _MOST:
                return  # too many that are equal: none of them tells anything
    is_aligned = other.base == own.base
    for content, some in equal.items():
        for number in wanted[content]:
            one = lone[number]
            for row, fits in some:
                is_same = row.first == one.row.first
                is_inside = fits and own.before < row.first and row.last < own.stop
                begins = not one.row.position and row.first == own.base  # its log has the name of this offset
                is_there = is_inside and (begins or _is_anchored(one, row, seen, is_aligned))
                if (is_same or is_there) and are_same_bytes(one.row, log, row, other.source):
                    known[number].add(row.first)


def _is_anchored(
    one: Neighbourhood, row: SeenBatch, seen: dict[tuple[int, int, int], SeenBatch], is_aligned: bool
) -> bool:
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
