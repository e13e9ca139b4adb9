"""The last batch of a copy behind a hole that no cleaner made: its base offset is wrong where one bit explains that.

What has to be wrong for a hole is priced as all else (`header_judge`): offsets that nobody took away cost as a witness
that nothing explains. Another copy that has offsets as high bears the batch out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch.header_judge import INVENTED, NEAR, field_cost
from kdump.rescue.base_offset.seen import seen_in
from kdump.rescue.valid_runs import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Finding
    from kdump.rescue.base_offset.seen import CopyLog


def wrong_behind_hole(
    own: CopyLog, is_lost: Callable[[int, int], bool], others_end: int, max_batch_bytes: int
) -> Finding | None:
    """Return what is wrong with the last batch of a copy where it fits right before a hole, by one bit; else None.

    Args:
        own: the last log of the copy, with the end that other files know of.
        is_lost: tells of a hole, by its first and last offset, whether no cleaner can have made it.
        others_end: the offset behind all that the other copies have.
        max_batch_bytes: of a larger batch only the header is read.

    Reports: O03.
    """
    facts, runs = own.facts, own.facts.runs
    if not runs or runs.end != own.raw.size or others_end > runs.lasts[-1]:
        return None
    if facts.holes:
        first, _, position = facts.holes[-3:]
    elif facts.batches == 1 and own.base is not None:
        first, position = own.base, 0
    else:
        return None
    behind = batches_of(own.source, position, runs.ends[-1], max_batch_bytes)
    some = list(seen_in((window.slice(0, min(window.count, 2)) for window in behind), facts.wrappers))
    if len(some) != 1 or first >= some[0].first:
        return None
    last, by = some[0], first - some[0].first
    stored = last.last if last.is_wrapper else last.first
    is_known = own.end is not None and own.end > last.last + by + 1
    if is_known or field_cost(stored, stored + by) + NEAR > INVENTED or not is_lost(first, last.first - 1):
        return None
    return last.moved_to(first, own.raw.name)
