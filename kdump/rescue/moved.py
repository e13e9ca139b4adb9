"""Batches whose base offset is wrong, by the copies that have them where they belong.

A batch behind torn bytes has no left neighbour that would tell its offset. Where another copy has the same bytes as far
from a batch that both have, and there they fit a neighbour, that copy's base offset is the right one. Batches that
adjoin a neighbour are never looked at: equal bytes at different offsets may be different batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.rescue.epochs import NEVER
from kdump.rescue.log_facts import STRETCH, batches_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.source import Source
    from kdump.rescue.log_facts import LogFacts


class Lone(NamedTuple):
    """A batch that adjoins neither neighbour.

    Args:
        position, size: bytes.
        first, last: offsets by its header.
        crc: stored.
        low, high: offsets that its neighbours leave free.
        hole: where the batch before it ends, bytes.
        after: where the batch behind it begins, None where there is none.
    """

    position: int
    size: int
    first: int
    last: int
    crc: int
    low: int
    high: int
    hole: int
    after: int | None


def lone_batches(log: Source, facts: LogFacts, base: int) -> Iterator[Lone]:
    """Yield the batches of a log that adjoin neither neighbour.

    Args:
        log: as its stretches count on it.
        facts: what it has.
        base: where the log before it ends, or its own base offset.
    """
    rows = facts.stretches
    for at in range(0, len(rows), STRETCH):
        position, end, first, _ = rows[at : at + STRETCH]
        hole, low = (rows[at - STRETCH + 1], rows[at - 1] + 1) if at else (0, base)
        header = log.read_at(position, layout.RECORDS_AT)
        if first == low or len(header) < layout.RECORDS_AT or header[layout.MAGIC_AT] != layout.MAGIC_V2:
            continue
        size = int.from_bytes(header[layout.SIZE_AT : layout.LOG_OVERHEAD], "big") + layout.LOG_OVERHEAD
        last = first + int.from_bytes(header[layout.LAST_OFFSET_DELTA_AT : layout.BASE_TIMESTAMP_AT], "big")
        after, high = None, NEVER
        if position + size < end:
            after, high = position + size, int.from_bytes(log.read_at(position + size, 8), "big") - 1
        elif at + STRETCH < len(rows):
            after, high = rows[at + STRETCH], rows[at + STRETCH + 2] - 1
        if low <= high != last:
            crc = int.from_bytes(header[layout.CRC_AT : layout.CRC_AT + 4], "big")
            yield Lone(position, size, first, last, crc, low, high, hole, after)


class Row(NamedTuple):
    """A batch of another copy."""

    position: int
    size: int
    first: int
    last: int
    crc: int


def _around(one: Lone, log: Source, facts: LogFacts, max_batch_bytes: int) -> Iterator[Row]:
    """Yield the batches of another copy from the one before the hole to the one behind it."""
    rows = facts.stretches
    columns = (layout.POSITION, layout.SIZE, layout.BASE_OFFSET, layout.LAST_OFFSET, layout.CRC)
    for at in range(0, len(rows), STRETCH):
        if rows[at + 3] < one.low - 1 or rows[at + 2] > one.high + 1:
            continue
        for window in batches_of(log, rows[at], rows[at + 1], max_batch_bytes):
            if window.cell(0, layout.BASE_OFFSET) > one.high + 1:
                break
            if window.cell(window.count - 1, layout.LAST_OFFSET) >= one.low - 1:
                for k in range(window.count):
                    yield Row(*(window.cell(k, column) for column in columns))


def offset_elsewhere(one: Lone, log: Source, facts: LogFacts, base: int | None, max_batch_bytes: int) -> int | None:
    """Return the base offset that another copy has for a batch, None where it does not have it between its neighbours.

    Args:
        one: the batch.
        log: of the other copy.
        facts: what that has.
        base: its base offset.
        max_batch_bytes: of a larger batch only the header is read.
    """
    left = 0 if base == one.low else None  # where its batch before the hole ends
    right: int | None = None  # where its batch behind the hole begins
    found: dict[int, Row] = {}  # by base offset
    fits: set[int] = set()
    before = -1 if base is None else base - 1
    for row in _around(one, log, facts, max_batch_bytes):
        if row.last == one.low - 1:
            left = row.position + row.size
        elif row.first == one.high + 1:
            right = row.position
        elif (row.size, row.crc, row.last - row.first) == (one.size, one.crc, one.last - one.first):
            found[row.first] = row
        if row.first == before + 1:
            fits.update((row.first, before - one.last + one.first))
        before = row.last
    for row in found.values():
        from_left = left is not None and row.position - left == one.position - one.hole
        from_right = right is not None and one.after is not None and right - row.position == one.after - one.position
        if row.first in fits and one.low <= row.first <= one.high and (from_left or from_right):
            return row.first
    return None


def wrong_base_offsets(
    log: Source, facts: LogFacts, base: int, others: Sequence[tuple[Source, LogFacts, int | None]], max_batch_bytes: int
) -> list[Finding]:
    """Return a finding for each batch of a log whose base offset another copy knows better.

    Args:
        log: as its stretches count on it.
        facts: what it has.
        base: where the log before it ends, or its own base offset.
        others: the logs of the other copies, their facts and base offsets.
        max_batch_bytes: of a larger batch only the header is read.
    """
    found = []
    for one in lone_batches(log, facts, base):
        known = {offset_elsewhere(one, *other, max_batch_bytes) for other in others} - {None}
        if len(known) == 1 and (offset := known.pop()) != one.first:
            place = one.position, one.size
            text = "baseOffset"
            found.append(Finding(Code.O03, log.name, *place, False, one.first, one.last, text, offset, one.first))
    return found
