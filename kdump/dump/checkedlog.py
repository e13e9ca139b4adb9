"""`dump` of a log or a KRaft snapshot: the checked walk, records where they are wanted, and findings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format import layout
from kdump.format.chunk import Chunk
from kdump.format.walk import Border, CheckedWalk
from kdump.item import LogStart, SnapshotStart
from kdump.log.edges import sibling
from kdump.log.names import parse_partition
from kdump.log.source import DoorProblem, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.dump.options import DumpOptions
    from kdump.format.source import Source
    from kdump.format.window import Window
    from kdump.item import Item
    from kdump.log.edges import Edges
    from kdump.log.names import FileName

_FOREIGN_SEQUENCES = ("__consumer_offsets",)  # the coordinator writes there in the name of producers


def dump_log(
    path: str, source: Source, options: DumpOptions, base: int | None, name: FileName, edges: Edges
) -> Iterator[Item]:
    """Yield a header, the batches and records in chunks, and the findings as they are made.

    Args:
        path: as the user wrote it.
        source: the file.
        options: what was asked for.
        base: base offset of a log; None for a KRaft snapshot.
        name: what the file name tells.
        edges: what lies around the logs of a directory.

    Reports: F03, O06, O07, and what CheckedWalk and RecordChecks report.
    """
    yield from log_head(path, source, base, name)
    findings: list[Finding] = []
    walk = open_walk(path, source, options, base, findings)
    records = Records(path, options) if options.deep else None
    for window in walk.windows(options.max_bytes):
        yield from drain(findings)
        cut(window, options.max_bytes)
        if records is not None:
            yield from records.of(window)
        else:
            yield Chunk(window, window.view, 0, window.count, False, window.rows, 0)
    yield from drain(findings)
    if base is not None and name.is_live and options.max_bytes >= source.size:
        yield from edges.check(path, base, walk.checks.offsets.last, source.size)


def log_head(path: str, source: Source, base: int | None, name: FileName) -> Iterator[Item]:
    """Yield what stands before the batches of a log.

    Args:
        path: as the user wrote it.
        source: the file.
        base: base offset of a log; None for a KRaft snapshot.
        name: what the file name tells.

    Reports: F03.
    """
    yield SnapshotStart(name.base_offset, name.epoch) if base is None else LogStart(base)
    if source.size > layout.MAX_INT:
        over = source.size - layout.MAX_INT
        yield Finding(Code.F03, path, layout.MAX_INT, over, found=source.size, expected=layout.MAX_INT)


def open_walk(
    path: str, source: Source, options: DumpOptions, base: int | None, findings: list[Finding], start: int = 0
) -> CheckedWalk:
    """Return the walk over a log.

    Args:
        path: as the user wrote it.
        source: the file.
        options: what was asked for.
        base: base offset of a log; None for a KRaft snapshot.
        findings: takes what the walk reports.
        start: position of a batch, where the walk begins.
    """
    walk = CheckedWalk(
        source,
        findings.append,
        segment=base or 0,
        hints=lambda: _hints(path, base or 0),
        max_batch_bytes=options.max_batch_bytes,
        border=Border(position=start, floor=(base or 0) - 1),
    )
    if start:
        walk.checks.offsets.after_loss()  # what is before it is not known
    directory = parse_partition(os.path.basename(os.path.dirname(os.path.abspath(path))))
    walk.checks.follow_producers = directory is None or directory.topic not in _FOREIGN_SEQUENCES
    return walk


class Records:
    """Reads and checks the records of windows; imported and made only where records are wanted."""

    def __init__(self, path: str, options: DumpOptions) -> None:
        from kdump.format.recordchecks import RecordChecks
        from kdump.format.records import RecordReader

        self._checks = RecordChecks(path)
        self.reader = RecordReader(options.max_uncompressed_bytes, max_batch=options.max_batch_bytes)

    def of(self, window: Window) -> Iterator[Item]:
        """Yield the batches of a window with their records, and what is wrong with these."""
        for chunk in self.reader.chunks(window):
            yield chunk
            yield from self._checks.check(chunk)

    def judge(self, chunk: Chunk) -> list[Finding]:
        """Return what is wrong with the records of a chunk."""
        return self._checks.check(chunk)


def cut(window: Window, end: int) -> None:
    """Leave out the batches that do not end before the end of what is asked for."""
    while window.count and window.end(window.count) > end:
        window.count -= 1


def drain(findings: list[Finding]) -> Iterator[Finding]:
    """Hand on what the walk has reported since the last time."""
    yield from findings
    findings.clear()


def _hints(path: str, base: int) -> Sequence[int]:
    """The positions that the offset index beside a log has, as far as they ascend."""
    from kdump.format.index import OffsetIndex

    source = open_source(sibling(path, "index"))
    if isinstance(source, DoorProblem):
        return ()
    with source:
        return OffsetIndex(source, base).ascending_positions()
