"""`dump` as kdump does it: every file and every true batch, and what is wrong as findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from kdump.dump.edges import Edges
from kdump.dump.indexes import CheckedIndexes
from kdump.dump.options import DumpOptions
from kdump.finding import Code, Finding
from kdump.format import layout
from kdump.format.checkpoint import read_checkpoint
from kdump.format.index import OffsetIndex, TimeIndex, TransactionIndex
from kdump.format.recordchecks import check_records
from kdump.format.records import Chunk, RecordReader
from kdump.format.snapshot import read_snapshot
from kdump.format.source import Source
from kdump.format.walk import CheckedWalk
from kdump.format.window import Window
from kdump.item import FileStart, Item, LogStart, SnapshotStart
from kdump.log.names import FileKind, FileName, java_file, parse_name
from kdump.log.source import DoorProblem, open_source

_NO_SEQUENCES = "__consumer_offsets-"  # the coordinator writes there for producers that count elsewhere


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
            source = open_source(path)
            if isinstance(source, DoorProblem):
                yield source
                continue
            with source:
                yield from self._file(path, source)

    def _file(self, path: str, source: Source) -> Iterator[Item]:
        name = parse_name(os.path.basename(path))
        kind = FileKind[self._options.kind.upper()] if self._options.kind else name.kind
        base = self._options.base_offset if self._options.base_offset is not None else name.base_offset
        readers: dict[FileKind, Callable[[str, Source, FileName, int | None], Iterator[Item]]] = {
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
        yield FileStart(java_file(path))
        if kind in readers:
            yield from readers[kind](path, source, name, base)
        else:
            yield from self._checkpoint(kind, source)

    def _checkpoint(self, kind: FileKind, source: Source) -> Iterator[Item]:
        findings: list[Finding] = []
        checkpoint = read_checkpoint(kind, source, findings.append)
        yield checkpoint
        yield from findings

    def _log(self, path: str, source: Source, name: FileName, base: int | None) -> Iterator[Item]:
        if name.kind is FileKind.CHECKPOINT and self._options.kind is None:
            yield SnapshotStart(name.base_offset, name.epoch)
        else:
            yield LogStart(base)
        findings: list[Finding] = []
        walk = CheckedWalk(
            source, findings.append, segment=layout.UNKNOWN if base is None else base,
            hints=lambda: _hints(path, base), max_batch_bytes=self._options.max_batch_bytes,
        )  # fmt: skip
        if source.size > layout.MAX_INT:
            yield Finding(Code.F03, path, layout.MAX_INT, source.size - layout.MAX_INT, found=source.size, expected=layout.MAX_INT)
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
        if base is not None and name.is_live and self._options.max_bytes >= source.size:
            yield from self._edges.check(path, base, walk.checks.offsets.last, source.size)

    def _sibling(self, path: str, stack: ExitStack, suffix: str) -> Source | None:
        """The file of the same segment with another suffix, where there is one."""
        directory, name = os.path.split(path)
        source = open_source(os.path.join(directory, f"{name.split('.')[0]}{suffix}"))
        return None if isinstance(source, DoorProblem) else stack.enter_context(source)

    def _needs_base(self, path: str) -> Item:
        return DoorProblem(path, "base", f"{path}: no base offset in the name; say it with --base-offset N")

    def _offset_index(self, path: str, source: Source, _name: FileName, base: int | None) -> Iterator[Item]:
        if base is None:
            yield self._needs_base(path)
            return
        with ExitStack() as stack:
            checked = self._indexes(path, stack)
            yield from checked.offset_index(OffsetIndex(source, base), path)

    def _time_index(self, path: str, source: Source, _name: FileName, base: int | None) -> Iterator[Item]:
        if base is None:
            yield self._needs_base(path)
            return
        with ExitStack() as stack:
            checked = self._indexes(path, stack)
            sibling = self._sibling(path, stack, ".index")
            offsets = None if sibling is None else OffsetIndex(sibling, base)
            yield from checked.time_index(TimeIndex(source, base), offsets, path)

    def _indexes(self, path: str, stack: ExitStack) -> CheckedIndexes:
        log = self._sibling(path, stack, ".log")
        return CheckedIndexes(log, self._options, os.path.abspath(path))

    def _transaction_index(self, path: str, source: Source, _name: FileName, base: int | None) -> Iterator[Item]:
        yield from TransactionIndex(source, 0 if base is None else base)

    def _snapshot(self, path: str, source: Source, _name: FileName, _base: int | None) -> Iterator[Item]:
        snapshot = read_snapshot(source)
        yield from snapshot.salvaged
        if snapshot.error is not None:
            yield Finding(Code.S01, path, 0, source.size, values={"why": snapshot.error})


def _cut(window: Window, end: int) -> None:
    """Leave out the batches that do not end before the end of what is asked for."""
    while window.count and window.cell(window.count - 1, layout.POSITION) + window.cell(window.count - 1, layout.SIZE) > end:
        window.count -= 1


def _drain(findings: list[Finding]) -> Iterator[Finding]:
    """Hand on what the walk has reported since the last time."""
    yield from findings
    findings.clear()


def _hints(path: str, base: int | None) -> Sequence[int]:
    """The positions that the offset index beside a log has, as far as they ascend."""
    directory, name = os.path.split(path)
    source = open_source(os.path.join(directory, f"{name.split('.')[0]}.index"))
    if isinstance(source, DoorProblem) or base is None:
        return ()
    positions: list[int] = []
    with source:
        for _, column in OffsetIndex(source, base).columns():
            for position in column:
                if position <= (positions[-1] if positions else 0):
                    return positions
                positions.append(position)
    return positions
