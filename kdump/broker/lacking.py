"""Which intact batches of some logs a partition does not have: it has one where the bytes are the same.

A cleaner takes records out of a batch, and whole batches, and leaves their offsets. What lies in a hole that it has
made, or in a batch that it has written again, was to go; damage and cuts make holes too, and explain nothing.

Strategy: both sides ascend, so that they are merged as they are read: nothing is held but one batch of each.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure, first_line
from kdump.storage.names import parse_name
from kdump.storage.paths import base_name
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.storage.partition_dir import PartitionDir

    Explains = Callable[[int, int], bool]

_ROWS = (
    layout.POSITION,
    layout.SIZE,
    layout.BASE_OFFSET,
    layout.LAST_OFFSET,
    layout.COUNT,
    layout.LEADER_EPOCH,
    layout.CRC,
    layout.COMPUTED_CRC,
)


class IntactBatch(TupleValue):
    """A batch whose CRC is true."""

    path: str  # of its log
    # first, last: offsets, inclusive; of a legacy wrapper both are the last one
    first: int
    last: int
    records: int  # how many; below 0 where the batch does not tell
    epoch: int  # leader epoch
    crc: int  # of its bytes behind the header fields that a broker sets
    follows: bool  # no byte between it and the one before is damaged, or missing by anything that the log shows
    meets: bool = False  # the partition that lacks it has another batch at its offsets


def intact_batches(
    directory: PartitionDir,
    paths: Iterable[str],
    limit: int,
    report: Callable[[OpenFailure], object],
    *,
    is_sound: bool = False,
) -> Iterator[IntactBatch]:
    """Yield the batches of logs whose CRC is true, log by log.

    Args:
        directory: where they are open.
        paths: of the logs, in the order of their offsets.
        limit: a batch over this is not held in memory.
        report: takes why a log, or the rest of one, could not be read.
        is_sound: without those whose header has an error: salvage puts it right, a broker that recovers the log cuts it
            off there.
    """
    is_whole = True  # up to here
    for path in paths:
        source = directory.cache.open(path, follow=False)
        if isinstance(source, OpenFailure):
            report(source)
            is_whole = False
            continue
        base = parse_name(base_name(path)).base_offset
        segment = layout.UNKNOWN if base is None else base
        wrong: list[int] = []  # positions
        take = partial(_note_error, wrong) if is_sound else _pass_over
        walk = CheckedWalk(source, take, segment=segment, next_base=None, max_batch_bytes=limit)
        reached = 0
        try:
            for window in walk.windows():
                for position, size, first, last, count, epoch, stored, computed in zip(
                    *map(window.column, _ROWS), strict=True
                ):
                    is_intact = stored == computed and last >= 0
                    if wrong and is_intact:
                        is_intact = not any(position <= at < position + size for at in wrong)
                    is_whole = is_whole and position == reached and is_intact
                    reached = position + size
                    if is_intact:
                        is_after, is_whole = is_whole, True
                        yield IntactBatch(
                            path,
                            first if first >= 0 else last,
                            last,
                            records=count,
                            epoch=epoch,
                            crc=stored,
                            follows=is_after,
                        )
        except OSError as error:
            report(OpenFailure(path, "read", f"{path}: cannot be read to its end: {first_line(error)}"))
            reached = -1
        finally:
            is_whole = is_whole and reached == source.size
            source.close()


def _note_error(wrong: list[int], finding: Finding) -> None:
    if finding.severity is Severity.ERROR and finding.position is not None:
        wrong.append(finding.position)


def _pass_over(_finding: Finding) -> None:
    pass


def lacking(
    batches: Iterable[IntactBatch], other: PartitionDir, limit: int, explains: Explains | None
) -> Iterator[IntactBatch]:
    """Yield those of some batches that the live logs of a partition do not have.

    Args:
        batches: in the order of their offsets, as far as that can be.
        other: the partition.
        limit: a batch over this is not held in memory.
        explains: tells of offsets, the first and the last, whether a cleaner may have taken them out of it; None where
            it may be another partition: then the bytes alone count.
    """
    own, before = _Behind(other, limit), -1
    for one in batches:
        if one.first < before:
            own = _Behind(other, limit)
        before = one.first
        there = own.at(one.first)
        if there is None:
            yield one
        elif there.first > one.last:
            if explains is None or not there.follows or not explains(one.first, one.last):
                yield one
        elif not _is_version(one, there, explains):
            yield one._replace(meets=True)


def _is_version(one: IntactBatch, other: IntactBatch, explains: Explains | None) -> bool:
    """Whether two batches are the same, or a cleaner has taken records out of the one, or the other."""
    if (one.last, one.crc) == (other.last, other.crc):
        return True
    if explains is None or (one.first, one.last, one.epoch) != (other.first, other.last, other.epoch):
        return False
    if one.records >= 0 and other.records >= 0:
        return one.records != other.records
    return explains(one.first, one.last)


def _leave(_unread: OpenFailure) -> None:
    """Say nothing: what cannot be read is not there, and verify says why."""


class _Behind:
    """The intact batches of the live logs of a partition, in order; logs far below what is asked for are not read."""

    def __init__(self, directory: PartitionDir, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._bases = directory.log_bases
        self._number = -2  # of the log that is read
        self._batches: Iterator[IntactBatch] = iter(())
        self._head: IntactBatch | None = None

    def at(self, offset: int) -> IntactBatch | None:
        """Return the first batch that ends at an offset or above; None where none does.

        Args:
            offset: not below that of the call before.
        """
        floor = max(0, bisect_right(self._bases, offset) - 1)
        if floor > self._number + 1:
            self._batches = intact_batches(self._directory, self._logs_from(floor), self._limit, _leave, is_sound=True)
            self._head = next(self._batches, None)
        while self._head is not None and self._head.last < offset:
            self._head = next(self._batches, None)
        return self._head

    def _logs_from(self, floor: int) -> Iterator[str]:
        for number in range(floor, len(self._bases)):
            self._number = number
            yield self._directory.path_of(self._bases[number], FileKind.LOG)
