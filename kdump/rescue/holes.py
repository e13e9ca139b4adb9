"""Whether offsets that are simply not in a copy were compacted away, by the rule of verify."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.losses import is_compaction
from kdump.rescue.log_facts import STRETCH
from kdump.storage.lost_logs import lost_of
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.rescue.log_facts import LogFacts
    from kdump.rescue.sources import Copy, SourceLog


def was_compacted(copy: Copy, logs: Iterable[tuple[SourceLog, LogFacts]]) -> bool:
    """Tell whether compaction was at work in a copy.

    Args:
        copy: of the partition.
        logs: of it, with what they have.
    """
    holes, lacks_records = 0, False
    for log, facts in logs:
        holes += (
            facts.gaps + _begins_late(copy, log, facts) + _ends_early(copy, log, facts) + _beside_damage(log, facts)
        )
        lacks_records |= facts.lacks_records
    return is_compaction(holes, lacks_records=lacks_records)


def _begins_late(copy: Copy, log: SourceLog, facts: LogFacts) -> bool:
    """Whether offsets are missing before the first batch of a log, which lies at its beginning."""
    if copy.is_run or log.base is None or facts.is_renamed or not facts.stretches:
        return False
    return facts.stretches[0] == 0 and facts.stretches[2] > log.base


def _beside_damage(log: SourceLog, facts: LogFacts) -> int:
    """How often offsets are missing right before or behind a batch that stays out, by its header."""
    rows = facts.stretches
    spans = [(rows[at], rows[at + 1], rows[at + 2], rows[at + 3], False) for at in range(0, len(rows), STRETCH)]
    for place in facts.places:
        if place.is_batch and place.is_exact and place.offset is not None and place.last_offset is not None:
            end = place.position + place.length
            spans.append((place.position, end, place.offset, place.last_offset, True))
    base = None if facts.is_renamed else log.base
    before = [] if base is None else [(0, 0, base - 1, base - 1, False)]
    beside = pairwise([*before, *sorted(spans)])
    return sum(
        (is_out or was_out) and end == begin and first > last + 1
        for (_, end, _, last, was_out), (begin, _, first, _, is_out) in beside
    )


def _ends_early(copy: Copy, log: SourceLog, facts: LogFacts) -> bool:
    """Whether offsets are missing behind a log, up to the next one, without damage or a file that shows them lost."""
    if copy.is_run or log.base is None or log.next_base is None:
        return False
    end, after = log.base if facts.last is None else facts.last + 1, max(facts.stretches[1::STRETCH], default=0)
    if end >= log.next_base or any(place.position + place.length > after for place in facts.places):
        return False
    with suppress(OSError):  # an index that cannot be read is no witness
        return lost_of(copy.directory).behind(log.base, end, copy.directory.listing.size(base_name(log.path))) is None
    return True
