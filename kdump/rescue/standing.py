"""How the copies of a partition stand beside its result: which are sound, and which have all of it.

Where one copy has all, and is sound, Kafka itself replicates it to the others; nothing has to be put in place.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.rescue.holes import has_trace
from kdump.rows.salvaged import SalvagedCopy
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kdump.rescue.line import Line
    from kdump.rescue.scanned_log import ScannedLog
    from kdump.rescue.sources import Copy
    from kdump.rows.salvaged import Salvaged

_WHOLE, _DAMAGED, _SHORT = "whole", "damaged", "short"
_CHECKPOINTS = (FileKind.LOG_START, FileKind.RECOVERY_POINT, FileKind.REPLICATION)


class Standing(Value):
    """How the copies stand beside the result."""

    whole: tuple[str, ...] = ()  # paths of the directories that are sound, and have exactly what the result has
    damaged: tuple[str, ...] = ()  # paths of the others in which something is damaged, or missing
    # of the sound ones those that end before the result does: the path, and the end
    short: tuple[tuple[str, int], ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing has to be rescued."""
        return bool(self.whole) and not self.damaged

    @property
    def copies(self) -> tuple[SalvagedCopy, ...]:
        """The same copy by copy, for the rows."""
        whole = (SalvagedCopy(path, _WHOLE) for path in self.whole)
        damaged = (SalvagedCopy(path, _DAMAGED) for path in self.damaged)
        return (*whole, *damaged, *(SalvagedCopy(path, _SHORT, end) for path, end in self.short))


def standing_by(copies: Iterable[SalvagedCopy]) -> Standing:
    """Return how copies stand by the rows of a former run."""
    rows = list(copies)
    whole, damaged = (tuple(one.path for one in rows if one.state == state) for state in (_WHOLE, _DAMAGED))
    return Standing(whole, damaged, tuple((one.path, one.log_end_offset or 0) for one in rows if one.state == _SHORT))


def standing_of(
    copies: Sequence[Copy], logs: Sequence[Sequence[ScannedLog]], suspects: Sequence[bool], line: Line, result: Salvaged
) -> Standing:
    """Return how the copies stand; of one that is wanting in the logs or beside them nothing is made better.

    Args:
        copies: of the partition.
        logs: of each copy what its logs have, in their order.
        suspects: of each copy whether its epochs are wrong, or the end of a log is cut off.
        line: of all of them.
        result: what the line has come to.
    """
    if (
        line.divergent or line.beyond or result.offsets_lost
    ):  # of branches Kafka cuts one by itself, but a person sees which leads
        return Standing()
    has_id = any(copy.metadata() is not None for copy in copies)
    whole, damaged, short = [], [], []
    for number, (copy, facts) in enumerate(zip(copies, logs, strict=True)):
        if copy.directory.is_leftover and not copy.is_carved:
            continue  # no broker has it for long
        is_replaced = any(pair.other.copy == number for pair in line.pairs)
        if suspects[number] or not _is_sound(copy, facts, has_id=has_id):
            damaged.append(copy.path)
        elif not is_replaced and _has_all(copy, facts, line, result):
            whole.append(copy.path)
        elif _end(copy, facts) < result.log_end_offset:
            short.append((copy.path, _end(copy, facts)))
    return Standing(tuple(whole), tuple(dict.fromkeys(damaged)), tuple(short))


def _end(copy: Copy, logs: Sequence[ScannedLog]) -> int:
    return max([copy.bases[-1], *(one.last + 1 for one in logs if one.last is not None)])


def _is_sound(copy: Copy, logs: Sequence[ScannedLog], *, has_id: bool) -> bool:
    """Whether all logs of a directory were read, nothing in them or beside them is wrong, and nothing is missing."""
    if not copy.is_whole or copy.lost_logs or not len(logs) == len(copy.logs) == len(copy.bases):
        return False
    if any(one.places or one.patches or one.findings or one.is_renamed for one in logs):
        return False
    if any(one.misplaced is not None for one in copy.logs):
        return False
    if (copy.checkpoint(FileKind.LOG_START)[0] or 0) > _end(copy, logs):
        return False
    gaps = sum(one.gaps for one in logs) + sum(before != first for before, first in _borders(logs))
    if gaps and not has_trace(copy, zip(copy.logs, logs, strict=True)):
        return False
    return _is_sound_beside(copy, has_id=has_id) and copy.known_end(_end(copy, logs)) == _end(copy, logs)


def _borders(logs: Sequence[ScannedLog]) -> list[tuple[int, int]]:
    """Of each two logs with batches that follow each other: where the one ends, and the other begins."""
    spans = [(one.first, one.last + 1) for one in logs if one.first is not None and one.last is not None]
    return [(before[1], after[0]) for before, after in pairwise(spans)]


def _is_sound_beside(copy: Copy, *, has_id: bool) -> bool:
    """Whether the small files that salvage reads are sound.

    Args:
        copy: of the partition.
        has_id: a copy has the topic id.
    """
    if not all(copy.checkpoint(kind)[1] for kind in _CHECKPOINTS):
        return False
    if copy.directory.epoch_file.findings or list(copy.directory.epochs) != copy.epochs:
        return False
    kind = FileKind.PARTITION_METADATA
    return not copy.directory.file(kind.value, kind).findings and (not has_id or copy.metadata() is not None)


def _has_all(copy: Copy, logs: Sequence[ScannedLog], line: Line, result: Salvaged) -> bool:
    """Whether a sound copy has what the result has: no more batches, no fewer, from the same log start on.

    All batches of a copy that are on no other branch are in the line: where it is as large, others add none.
    """
    start = max(copy.checkpoint(FileKind.LOG_START)[0] or 0, copy.bases[0])
    if (start, _end(copy, logs)) != (result.log_start_offset, result.log_end_offset):
        return False
    return sum(one.runs.size for one in logs) == line.runs.size
