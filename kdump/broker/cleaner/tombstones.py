"""When the cleaner removes tombstones: by the delete horizon of their batch, or by the time of their segment's file.

One rule for a simulated pass and for the fate of a record.

Source: Cleaner.cleanInto, MemoryRecords.filterTo, Kafka 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

REMOVED = "removed"
"""The next pass that reads it removes it."""
UNTIL = "until"
"""Passes keep it up to its delete horizon."""
UNMARKED = "unmarked"
"""The next pass sets its delete horizon; of magic 0 and 1, which have none, a later pass removes it."""


def legacy_horizon(
    bases: Sequence[int], modified: Sequence[int], first_dirty_offset: int, delete_retention_ms: int
) -> int:
    """Return up to which time of its file, ms, a segment loses its tombstones of magic 0 and 1.

    Args:
        bases: base offsets of all segments.
        modified: times of their .log files, ms.
        first_dirty_offset: where the part begins that no pass has seen.
        delete_retention_ms: of the topic.
    """
    clean = bisect_right(bases, first_dirty_offset - 1)
    return modified[clean - 1] - delete_retention_ms if clean else 0


def has_horizon(magic: int, attributes: int) -> bool:
    """Tell whether a batch has a delete horizon: its base timestamp is that."""
    return magic >= layout.MAGIC_V2 and bool(attributes & layout.DELETE_HORIZON_FLAG)


def tombstone_of(magic: int, attributes: int, base_timestamp: int, now: int, *, drop_legacy: bool) -> str:
    """Return what passes of the cleaner make of the tombstones of a batch: REMOVED, UNTIL or UNMARKED.

    Args:
        magic, attributes, base_timestamp: of the batch; the timestamp is the horizon, ms, if there is one.
        now: the clock, ms.
        drop_legacy: the file of its segment is old enough for magic 0 and 1.
    """
    if magic < layout.MAGIC_V2:
        return REMOVED if drop_legacy else UNMARKED
    if not has_horizon(magic, attributes):
        return UNMARKED
    return REMOVED if base_timestamp <= now else UNTIL
