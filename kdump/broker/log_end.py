"""Where a log ends, by the last batch that can be trusted, and in which leader epoch: by it copies are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import Border, CheckedWalk, right_windows
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Finding
    from kdump.format.source import Source
    from kdump.storage.partition_dir import PartitionDir


def last_epoch_and_end(
    directory: PartitionDir, limit: int, report: Callable[[Finding], None] = ignore
) -> tuple[int, int]:
    """Return leader epoch and end of the last batch that can be trusted.

    The epoch is outside of the CRC: one that the leader-epoch-checkpoint does not have does not count.

    Args:
        directory: of the partition.
        limit: a batch over this is not held in memory.
        report: takes what is wrong with the log that it ends in, where nobody reads that otherwise.
    """
    known = {entry.epoch for entry in directory.epochs}
    for base in reversed(directory.log_bases):
        source = directory.cache.open(directory.path_of(base, FileKind.LOG), follow=False)
        if isinstance(source, OpenFailure):
            continue
        epoch, end = layout.NO_EPOCH, -1
        found: list[Finding] = []
        try:
            walk = CheckedWalk(
                source,
                found.append,
                segment=base,
                next_base=directory.next_base(base),
                max_batch_bytes=limit,
                border=Border(floor=base - 1),
            )
            for window, _ in right_windows(walk, found):
                _hand_on(found, report)
                rows = window.column(layout.LEADER_EPOCH), window.column(layout.LAST_OFFSET)
                crcs = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
                marks = window.column(layout.SUSPICION)
                for its_epoch, last, bits, stored, computed in zip(*rows, marks, *crcs, strict=True):
                    if stored == computed and not bits & layout.OUT_OF_RANGE:
                        end = last + 1
                        epoch = its_epoch if its_epoch in known or not known else epoch
        except OSError:
            pass
        _hand_on(found, report)
        if end >= 0 or base == directory.log_bases[0]:
            return (epoch if epoch >= 0 else max(known, default=epoch)), max(end, base)
    return layout.NO_EPOCH, -1


def log_end(log: Source, base_offset: int, next_base: int | None, max_batch_bytes: int) -> int | None:
    """Return where a log ends by its last batch, a torn one too where its header stands; None without a batch.

    Args:
        log: the log.
        base_offset: of it.
        next_base: that of the next segment, None after the last.
        max_batch_bytes: a batch over this is not held in memory.
    """
    torn: list[int] = []

    def see(finding: Finding) -> None:
        if finding.is_torn_batch and finding.last_offset is not None:
            torn.append(finding.last_offset)

    walk = CheckedWalk(log, see, segment=base_offset, next_base=next_base, max_batch_bytes=max_batch_bytes)
    for _ in walk.windows():
        pass
    last = walk.checks.offsets.last
    return max([*torn, *(() if last is None else (last,))], default=-1) + 1 or None


def _hand_on(found: list[Finding], report: Callable[[Finding], None]) -> None:
    for finding in found:
        report(finding)
    found.clear()
