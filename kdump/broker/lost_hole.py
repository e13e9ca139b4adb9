"""The offsets that a partition lacks though no file shows a loss: whether they are lost, by the rule of verify.

One hole that stands alone, in a log whose batches have as many records as offsets, is no work of compaction. To know
that takes the headers of all batches; in a compacted log the walk ends at the first thing that compaction explains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.losses import LossFold, PartitionLosses, below, last_offset
from kdump.finding import Code, Finding
from kdump.format.batch import _scan, layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.format.record.wrapper import first_offset
from kdump.item import Certainty
from kdump.storage.lost_logs import lost_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.broker.losses import LostRange
    from kdump.format.read_limits import ReadLimits
    from kdump.storage.partition_dir import PartitionDir


def lost_hole(partition: PartitionDir, limits: ReadLimits) -> Finding | None:
    """Return the one hole of a partition that is lost; None where there is none, or compaction explains it.

    Args:
        partition: its segments.
        limits: what is read of a batch.

    Reports: O04, O07, as the finding.
    """
    losses = PartitionLosses(partition.path, partition.name, partition.start_offset)
    for number in range(len(partition)):
        log = partition.path_of(partition.bases[number], FileKind.LOG)
        for ranges in _ranges(partition, number, limits):
            if ranges is None:
                return None
            for _ in losses.take(log, ranges):
                pass
            if losses.explains_holes:
                return None
    lone = next(losses.rest(), None)
    if lone is None or lone.certainty is not Certainty.LOST or lone.file is None:
        return None
    if any(lone.offset <= base <= lone.last_offset for base in lost_of(partition).logs):
        return None  # that a log is lost is said of it
    values: dict[str, int | str | None] = {"missing_first": lone.offset, "missing_last": lone.last_offset}
    if Code.O07.name in lone.because:
        values["why"] = f"the next segment begins at {lone.last_offset + 1}"
    return Finding(
        Code[lone.because[0]],
        lone.file,
        lone.position,
        lone.length,
        offset=lone.offset,
        last_offset=lone.last_offset,
        values=values,
    )


def _ranges(partition: PartitionDir, number: int, limits: ReadLimits) -> Iterator[Sequence[LostRange] | None]:
    """Yield what a reader of one log does not get, in order; None where a batch has fewer records than offsets."""
    segment, base = partition.segment(number), partition.bases[number]
    log, following = segment.log, partition.next_base(base)
    sizes = limits.max_uncompressed_bytes, limits.max_batch_bytes
    fold = LossFold(log.size, lambda at: first_offset(log, at, *sizes), lambda at: last_offset(log, at, *sizes))
    walk = CheckedWalk(
        log,
        fold.see,
        segment=base,
        next_base=following,
        hints=segment.offset_index.ascending_positions,
        max_batch_bytes=limits.max_batch_bytes,
    )
    walk.checks.follow_producers = False
    walk.checks.offsets.when_free = fold.settle
    for window in walk.windows():
        if window.cell(0, layout.MAGIC) >= layout.MAGIC_V2 and _scan.lacks_records(window.rows, window.count):
            yield None
        fold.window(lambda _position: None)
        yield below(fold.ranges(), following)
    last = walk.checks.offsets.last
    if following is not None:
        fold.finish(base if last is None else last + 1, following - 1, (), is_last=False)
    yield below(fold.ranges(), following)
