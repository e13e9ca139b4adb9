"""Entries of a transaction index that are the last witnesses of aborts: the log lacks the offsets of their markers.

What a recovery makes of the log has no such entry, and what was aborted would be open there, or come under the next
marker of its producer. Salvage and the fates of dump go by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.ranges import RangeSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.source import Source

WITNESS = "the log may have lost the marker: salvage or restore the partition before this index is built again"
"""What is to be done where an entry may be right, though the log ends before it."""


def goes_on(entry: AbortedTxn, end: int, following: int | None, known: Mapping[int, ProducerStateEntry]) -> bool:
    """Tell whether an entry may be of a marker that was cut off behind the last batch of a log.

    It may in a segment that was rolled, before the next one, and in the last one where the entry is about a transaction
    that is open at the end of the log.

    Args:
        entry: of a transaction index.
        end: the offset after the last batch.
        following: base offset of the next segment; None for the last one.
        known: producers at the end of the log.
    """
    if entry.last_offset < end or not 0 <= entry.first_offset <= entry.last_offset:
        return False
    if following is not None:
        return entry.last_offset < following
    producer = known.get(entry.producer_id)
    return producer is not None and producer.current_txn_first_offset == entry.first_offset


def lost_aborts(
    log: Source,
    base: int,
    following: int | None,
    entries: Iterable[AbortedTxn],
    made: Sequence[AbortedTxn],
    known: Mapping[int, ProducerStateEntry],
) -> list[AbortedTxn]:
    """Return the entries of an index that a log does not prove wrong, and that are not made from it.

    Args:
        log: of the segment.
        base: its base offset.
        following: that of the next segment; None for the last one.
        entries: of the index as it is.
        made: what a recovery makes of the log.
        known: producers at the end of the log.

    Raises:
        OSError: the log cannot be read.
    """
    ends = {one.last_offset for one in made}
    begun = {(one.producer_id, one.first_offset) for one in made}
    left = [one for one in entries if one.last_offset not in ends and (one.producer_id, one.first_offset) not in begun]
    left = [one for one in left if one.version == 0 and one.producer_id >= 0]
    left = [one for one in left if 0 <= one.first_offset <= one.last_offset >= base]
    if not left:
        return []
    free, end = _free(log, base, following)
    return [
        one for one in left if free.has_any(one.last_offset, one.last_offset) or goes_on(one, end, following, known)
    ]


def _free(log: Source, base: int, following: int | None) -> tuple[RangeSet, int]:
    """The offsets before the last batch with a right CRC that no such batch has, and the offset after it."""
    free, end = RangeSet(), base
    walk = CheckedWalk(log, ignore, segment=base, next_base=following, max_batch_bytes=layout.MAX_INT)
    walk.checks.follow_producers = False
    for window in walk.windows():
        for k in range(window.count):
            first, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
            is_trusted = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
            if is_trusted and first >= end and (following is None or last < following):
                if window.cell(k, layout.MAGIC) >= layout.MAGIC_V2:
                    free.add(end, first - 1)
                end = last + 1
    return free, end
