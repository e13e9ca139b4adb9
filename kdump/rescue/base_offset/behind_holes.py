"""The last batch of a copy behind a hole that no cleaner made: one wrong bit of its base offset may explain that.

What has to be wrong for a hole is priced as all else (`header_judge`): offsets that nobody took away cost as a witness
that nothing explains. That is one witness: the batch may be right, and what was before it lost. So it is moved only
where the other files know the log to end where it ends then; else it stays, the hole is lost, and both is told. Another
copy that has offsets as high bears the batch out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch.header_judge import INVENTED, NEAR, field_cost
from kdump.rescue.base_offset.seen import seen_in
from kdump.rescue.valid_runs import batches_of
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Finding
    from kdump.rescue.base_offset.seen import CopyLog, SeenBatch


class BehindHole(TupleValue):
    """The last batch of a copy behind a hole that one bit of it explains as well as a loss does."""

    batch: SeenBatch
    first: int  # with one bit more it begins here
    is_wrong: bool  # other files tell so too
    log: str  # the path

    @property
    def finding(self) -> Finding:
        """What is wrong with it then.

        Reports: O03.
        """
        return self.batch.moved_to(self.first, self.log)

    @property
    def note(self) -> str:
        """The sentence that says that nobody knows."""
        one = self.batch
        ends = self.first + one.last - one.first
        return (
            f"{self.log}: offsets {one.first}..{one.last} of its last batch lie behind a hole that no cleaner made: "
            f"what was there is lost, or one bit of the base offset is wrong, and they are {self.first}..{ends}; it "
            "stays as it is: compare with another replica"
        )


def wrong_behind_hole(
    own: CopyLog, is_lost: Callable[[int, int], bool], others_end: int, max_batch_bytes: int
) -> BehindHole | None:
    """Return the last batch of a copy where it fits right before a hole, by one bit; else None.

    Args:
        own: the last log of the copy, with the end that other files know of.
        is_lost: tells of a hole, by its first and last offset, whether no cleaner can have made it.
        others_end: the offset behind all that the other copies have.
        max_batch_bytes: of a larger batch only the header is read.
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
    end = last.last + by + 1
    is_known = own.end is not None and own.end > end
    if is_known or field_cost(stored, stored + by) + NEAR > INVENTED or not is_lost(first, last.first - 1):
        return None
    return BehindHole(last, first, own.end == end, own.raw.name)
