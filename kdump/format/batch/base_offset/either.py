"""Of two batches that contradict each other either may be wrong, where a hole between batches is nothing odd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.batch.header_judge import is_one_bit
from kdump.format.batch.window import header_at

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.format.source import Source


def may_be_the_next(finding: Finding, log: Source, next_base: int | None) -> bool:
    """Tell whether one bit of the batch behind one that seems too high explains the same.

    Then a hole is before this batch, as compaction leaves it, and that one is too low. In a log without holes there is
    none. What comes behind the two lies above both then.

    Args:
        finding: about the batch that seems too high.
        log: that has it, which has holes.
        next_base: base offset of the next segment; None for the last one.
    """
    found, expected, offset = finding.found, finding.expected, finding.offset
    if finding.code is not Code.O03 or not isinstance(found, int) or (isinstance(expected, int) and found <= expected):
        return False
    last = found if offset is None or finding.last_offset is None else finding.last_offset
    at = (finding.position or 0) + (finding.length or 0)
    after = header_at(log, at)
    if after is None or not is_one_bit(after[layout.BASE_OFFSET], last + 1):
        return False
    end = last + 1 + after[layout.LAST_OFFSET] - after[layout.BASE_OFFSET]
    third = header_at(log, at + after[layout.SIZE])
    if third is None:
        return next_base is None or end < next_base
    return max(third[layout.BASE_OFFSET], third[layout.LAST_OFFSET]) > end
