"""`dump` as kdump does it: every file and every true batch, and what is wrong as findings."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kdump.dump.edges import Edges, sibling
from kdump.dump.indexes import CheckedIndexes
from kdump.finding import Code, Finding
from kdump.format import layout
from kdump.format.checkpoint import read_checkpoint
from kdump.format.index import OffsetIndex, TimeIndex, TransactionIndex
from kdump.format.recordchecks import check_records
from kdump.format.records import Chunk, RecordReader
from kdump.format.snapshot import read_snapshot
from kdump.format.walk import CheckedWalk
from kdump.item import FileStart, Item, LogStart, SnapshotStart
from kdump.log.directory import expand
from kdump.log.names import FileKind, FileName, java_file, parse_name, parse_partition
from kdump.log.source import DoorProblem, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.dump.options import DumpOptions
    from kdump.format.source import Source
    from kdump.format.window import Window

_FOREIGN_SEQUENCES = ("__consumer_offsets",)  # the coordinator writes there in the name of producers
_NEED_BASE = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


class CheckedDump:
    """Dumps files as kdump does.

    Args:
        options: what was asked for.
    """

    def __init__(self, options: DumpOptions) -> None:
        self._options = options
        self._edges = Edges()

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all files, in order; a file that cannot be opened is a DoorProblem.

        Reports: as findings among the items, all codes of families F, L, B, O, E, R, C, P, S, K that one file shows.
        """
        for path in paths:
            found = expand(path)
            for file in found.files:
                yield from self._one(file, follow=file == path)
            for skipped in found.skipped:
                yield DoorProblem(skipped.path, "skipped", f"{skipped.path}: not read: {skipped.reason}")
            if found.leftovers:
                names = f"{path}: {len(found.leftovers)} files that no broker reads are not shown"
                yield DoorProblem(
                    path,
                    "skipped",
                    f"{names} ({os.path.basename(found.leftovers[0])} ...): name them to see them",
                )

    def _one(self, path: str, *, follow: bool) -> Iterator[Item]:
        """One file, whatever happens to it."""
        source = open_source(path, follow=follow)
        if isinstance(source, DoorProblem):
            yield source
            return
        with source:
            try:
                yield from self._file(path, source)
            except OSError as error:
                yield DoorProblem(path, "read", f"{path}: cannot be read further: {error.strerror}")

    def _file(self, path: str, source: Source) -> Iterator[Item]:
        name = parse_name(os.path.basename(path))
        kind = FileKind(self._options.kind) if self._options.kind else name.kind
        base = self._options.base_offset if self._options.base_offset is not None else name.base_offset
        readers: dict[FileKind, Callable[[str, Source, FileName, int], Iterator[Item]]] = {
            FileKind.LOG: self._log,
            FileKind.CHECKPOINT: self._log,
            FileKind.INDEX: self._offset_index,
            FileKind.TIMEINDEX: self._time_index,
            FileKind.TXNINDEX: self._transaction_index,
            FileKind.SNAPSHOT: self._snapshot,
        }
        if kind is FileKind.UNKNOWN:
            yield DoorProblem(path, "type", f"{path}: the name does not tell what this is; say it with --type KIND")
            return
        if base is None and kind in _NEED_BASE:
            yield DoorProblem(path, "base", f"{path}: no base offset in the name; say it with --base-offset N")
            return
        yield FileStart(java_file(path))
        if kind in readers:
            yield from readers[kind](path, source, name, 0 if base is None else base)
        else:
            yield from self._checkpoint(kind, source)

    def _checkpoint(self, kind: FileKind, source: Source) -> Iterator[Item]:
        findings: list[Finding] = []
        checkpoint = read_checkpoint(kind, source, findings.append)
        yield checkpoint
        yield from findings

    def _log(self, path: str, source: Source, name: FileName, base: int) -> Iterator[Item]:
        is_log = (self._options.kind or name.kind.value) == FileKind.LOG.value
        yield LogStart(base) if is_log else SnapshotStart(name.base_offset, name.epoch)
        findings: list[Finding] = []
        walk = CheckedWalk(
            source,
            findings.append,
            segment=base if is_log else 0,
            hints=lambda: _hints(path, base),
            max_batch_bytes=self._options.max_batch_bytes,
        )
        if source.size > layout.MAX_INT:
            yield Finding(
                Code.F03,
                path,
                layout.MAX_INT,
                source.size - layout.MAX_INT,
                found=source.size,
                expected=layout.MAX_INT,
            )
        directory = parse_partition(os.path.basename(os.path.dirname(os.path.abspath(path))))
        walk.checks.follow_producers = directory is None or directory.topic not in _FOREIGN_SEQUENCES
        reader = RecordReader(self._options.max_uncompressed_bytes)
        for window in walk.windows(self._options.max_bytes):
            yield from _drain(findings)
            _cut(window, self._options.max_bytes)
            if not self._options.deep:
                yield Chunk(window, window.view, 0, window.count, False, window.rows, 0)
                continue
            for chunk in reader.chunks(window):
                yield chunk
                yield from check_records(path, chunk)
        yield from _drain(findings)
        if is_log and name.is_live and self._options.max_bytes >= source.size:
            yield from self._edges.check(path, base, walk.checks.offsets.last, source.size)

    def _sibling(self, path: str, stack: ExitStack, suffix: str) -> Source | None:
        """The file of the same segment with another suffix, where there is one; of a copy, the copy."""
        source = open_source(sibling(path, suffix))
        return None if isinstance(source, DoorProblem) else stack.enter_context(source)

    def _offset_index(self, path: str, source: Source, _name: FileName, base: int) -> Iterator[Item]:
        with ExitStack() as stack:
            checked = self._indexes(path, stack)
            yield from checked.offset_index(OffsetIndex(source, base), path)

    def _time_index(self, path: str, source: Source, _name: FileName, base: int) -> Iterator[Item]:
        with ExitStack() as stack:
            checked = self._indexes(path, stack)
            sibling = self._sibling(path, stack, "index")
            offsets = None if sibling is None else OffsetIndex(sibling, base)
            yield from checked.time_index(TimeIndex(source, base), offsets, path)

    def _indexes(self, path: str, stack: ExitStack) -> CheckedIndexes:
        log = self._sibling(path, stack, "log")
        return CheckedIndexes(log, self._options, os.path.abspath(path))

    def _transaction_index(self, path: str, source: Source, _name: FileName, base: int) -> Iterator[Item]:
        yield from TransactionIndex(source, base)

    def _snapshot(self, path: str, source: Source, _name: FileName, _base: int) -> Iterator[Item]:
        snapshot = read_snapshot(source)
        yield from snapshot.salvaged
        if snapshot.error is not None:
            yield Finding(Code.S01, path, 0, source.size, values={"why": snapshot.error})


def _cut(window: Window, end: int) -> None:
    """Leave out the batches that do not end before the end of what is asked for."""
    while (
        window.count
        and window.cell(window.count - 1, layout.POSITION) + window.cell(window.count - 1, layout.SIZE) > end
    ):
        window.count -= 1


def _drain(findings: list[Finding]) -> Iterator[Finding]:
    """Hand on what the walk has reported since the last time."""
    yield from findings
    findings.clear()


def _hints(path: str, base: int) -> Sequence[int]:
    """The positions that the offset index beside a log has, as far as they ascend."""
    source = open_source(sibling(path, "index"))
    if isinstance(source, DoorProblem):
        return ()
    positions: list[int] = []
    with source:
        for _, column in OffsetIndex(source, base).columns():
            for position in column:
                if position <= (positions[-1] if positions else 0):
                    return positions
                positions.append(position)
    return positions
