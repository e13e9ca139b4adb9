"""Whether the indexes of a segment can be built again from its log as it is, and what has to be done before.

Every command that judges an index goes by this: `reindex` refuses a log whose recovery does not get to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch.header_fields import is_of_header
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.finding import Finding
    from kdump.format.batch.epoch_order import EpochsAround
    from kdump.format.batch.header_patches import HeaderPatches


def header_patches(
    log: str, base: int, next_base: int | None, around: EpochsAround, errors: Sequence[Finding]
) -> HeaderPatches | None:
    """Return the patches of the headers of a log, None where there are none or they are ambiguous.

    Args:
        log: its path, as the user wrote it.
        base: offset of the segment.
        next_base: of the next segment; None for the last one.
        around: what lies around the log says of leader epochs.
        errors: what is wrong with the log.
    """
    if not any(is_of_header(one) for one in errors):
        return None
    from kdump.format.batch.header_patches import HeaderPatches, by_checkpoint, log_end_by  # it walks the log again

    source = open_source(log, follow=False)
    if isinstance(source, OpenFailure):
        return None
    with source:
        headers = HeaderPatches(source, base, next_base, around, log_end_by(log, errors))
        try:
            refused = headers.solve(by_checkpoint(log, errors))
        except OSError:
            return None
    return headers if headers.patches and not refused else None


def can_be_indexed(log: str, base: int, errors: Sequence[Finding]) -> bool:
    """Tell whether a recovery gets to the end of a log as it is: reindex refuses all others.

    Args:
        log: its path, as the user wrote it.
        base: offset of the segment.
        errors: what is wrong with the log.
    """
    if any(one.is_misplaced for one in errors):
        return False
    if not any(one.is_log_damage for one in errors):
        return True
    from kdump.broker.load.recover import recover
    from kdump.broker.producer.replay import Producers

    source = open_source(log, follow=False)
    if isinstance(source, OpenFailure):
        return False
    with source:
        try:
            done = recover(source, base, source.size, Producers.empty())
        except OSError:
            return False
    return done.failure is None and done.valid_bytes == source.size


def before_reindex(damage: Finding | None) -> str:
    """Return what has to be done to a log before its indexes can be built again.

    Args:
        damage: the first in the log that no patch of a header mends; None where patches mend all.
    """
    if damage is None:
        return "after patch-header has mended its log"
    return f"after its log ({damage.code.name}): a restore, salvage or truncate does both"
