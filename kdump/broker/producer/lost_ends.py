"""The transactions of a log whose ends are lost, as an index proves: one walk over the logs that may have them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import MissingRange
from kdump.broker.producer.transaction_fates import UNKNOWN, Aborts, TransactionFates
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk, right_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.broker.producer.transaction_fates import Told
    from kdump.finding import Finding
    from kdump.format.batch.window import Window
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source


def may_prove(entries: Iterable[AbortedTxn], made: Iterable[AbortedTxn]) -> bool:
    """Tell, at a look, whether an entry of an index may prove that an end is lost before its transaction.

    Args:
        entries: of the index.
        made: what a recovery makes of the log: where that has a transaction from the same offset on, all is there.
    """
    firsts: dict[tuple[int, int], int] = {}
    for one in made:
        firsts.setdefault((one.producer_id, one.last_offset), one.first_offset)
    return any(firsts.get((one.producer_id, one.last_offset), -1) < one.first_offset for one in entries)


def lost_ends(
    logs: Iterable[tuple[Source, int, int | None]], entries: Sequence[AbortedTxn], limits: ReadLimits
) -> list[Told]:
    """Return of which batches the end of their transaction is lost, each with the entry that proves it.

    Args:
        logs: in order, each with its base offset, and that of the next one, None for the last.
        entries: of the indexes.
        limits: for reading control records.

    Raises:
        OSError: a log cannot be read.
    """
    found: list[Told] = []

    def take(told: Told) -> None:
        if told.fate == UNKNOWN:  # here no hole is more than a hole
            found.append(told)

    fates = TransactionFates(take, limits.max_uncompressed_bytes, limits.max_batch_bytes)
    by_end = sorted(entries, key=lambda one: one.last_offset)
    fates.learn([Aborts(by_end, 0, -1)])  # of no range it is known that they are all
    fates.expect(entries)
    end: int | None = None
    for part in _parts(logs, limits):
        first = part.cell(0, layout.BASE_OFFSET)
        if end is not None and first > end:
            _pass_over(fates, by_end, end, first - 1)
        fates.step(part)
        end = part.cell(part.count - 1, layout.LAST_OFFSET) + 1
    last = max((one.last_offset for one in entries), default=-1)
    if end is not None and end <= last:
        _pass_over(fates, by_end, end, last)
    fates.finish()
    return found


def _pass_over(fates: TransactionFates, entries: Sequence[AbortedTxn], first: int, last: int) -> None:
    """Offsets are missing; a hole counts as one in which something ended where an entry has its marker there."""
    at = bisect_left(entries, first, key=lambda one: one.last_offset)
    if at < len(entries) and entries[at].last_offset <= last:
        fates.hole(MissingRange(first, last))
    else:
        fates.explained_hole(first, last)


def _parts(logs: Iterable[tuple[Source, int, int | None]], limits: ReadLimits) -> Iterator[Window]:
    """The batches that a CRC vouches for, as their offsets ascend, those together between which none is missing."""
    end = -1
    for source, base, following in logs:
        found: list[Finding] = []
        walk = CheckedWalk(
            source, found.append, segment=base, next_base=following, max_batch_bytes=limits.max_batch_bytes
        )
        walk.checks.follow_producers = False
        for window, _ in right_windows(walk, found):
            found.clear()
            start = 0
            for k in range(window.count):
                first, last = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LAST_OFFSET)
                is_right = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC) and first >= end
                is_right = is_right and (following is None or last < following)
                if start < k and not (is_right and first == end):
                    yield window.slice(start, k)
                if not is_right:
                    start = k + 1
                    continue
                start = start if first == end and start < k else k
                end = last + 1
            if start < window.count:
                yield window.slice(start, window.count)
