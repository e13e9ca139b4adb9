"""`dump` of the small files beside a log: indexes, producer snapshots, text files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

from kdump.dump.indexes import CheckedIndexes
from kdump.finding import Code, Finding
from kdump.format import layout
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kinds import FileKind
from kdump.format.txnindex import TransactionIndex
from kdump.log.edges import sibling
from kdump.log.source import DoorProblem, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.dump.options import DumpOptions
    from kdump.format.source import Source
    from kdump.item import Item


_SAMPLE = 1024 * 1024  # bytes that are shown of a file that is too large for any broker


def dump_state(kind: FileKind, path: str, source: Source, options: DumpOptions, base: int) -> Iterator[Item]:
    """Yield what is in a small file, with complaints and findings.

    Args:
        kind: which file it is; no log and no KRaft snapshot.
        path: as the user wrote it.
        source: the file.
        options: what was asked for.
        base: base offset of an index.

    Reports: F03, L12, X03-X05, T03, T04 (as complaints), A02, S01, K03-K05.
    """
    if kind is FileKind.TXNINDEX:
        yield from _transactions(path, source, base)
    elif kind is FileKind.SNAPSHOT:
        yield from _snapshot(path, source)
    elif kind in (FileKind.INDEX, FileKind.TIMEINDEX):
        yield from _index(kind, path, source, options, base)
    else:
        yield from _text(kind, source)


def _index(kind: FileKind, path: str, source: Source, options: DumpOptions, base: int) -> Iterator[Item]:
    with ExitStack() as stack:
        checked = CheckedIndexes(_open_sibling(path, "log", stack), options, os.path.abspath(path))
        if source.size > layout.MAX_INT:  # a broker cannot even open it
            yield from _too_large(path, source.size)
        if kind is FileKind.INDEX:
            yield from checked.offset_index(OffsetIndex(source, base), path)
            return
        beside = _open_sibling(path, "index", stack)
        offsets = None if beside is None else OffsetIndex(beside, base)
        yield from checked.time_index(TimeIndex(source, base), offsets, path)


def _too_large(path: str, size: int) -> Iterator[Finding]:
    """What is said of a file that no broker can have made, and of which the first entries are shown."""
    at = layout.MAX_INT
    yield Finding(Code.F03, path, at, size - at, found=size, expected=at)
    yield Finding(Code.L12, path, at, size - at, values={"why": "only its first entries"})


def _open_sibling(path: str, suffix: str, stack: ExitStack) -> Source | None:
    """The file of the same segment with another suffix, where there is one; of a copy, the copy."""
    source = open_source(sibling(path, suffix))
    return None if isinstance(source, DoorProblem) else stack.enter_context(source)


def _transactions(path: str, source: Source, base: int) -> Iterator[Item]:
    index = TransactionIndex(source, base)
    if source.size > layout.MAX_INT:
        yield from islice(index.all_entries(), _SAMPLE // index.entry_size)
        yield from _too_large(path, source.size)
        return
    yield from index
    if index.error is not None:  # what follows is not shown, as no broker reads it
        txn, size = index.entry(index.readable), index.entry_size
        finding = Finding(Code.A02, path, index.readable * size, size, field="version", found=txn.version, expected=0)
        yield finding.replace(offset=txn.first_offset, last_offset=txn.last_offset)


def _snapshot(path: str, source: Source) -> Iterator[Item]:
    from kdump.format.snapshot import ENTRY_SIZE, read_snapshot

    snapshot = read_snapshot(source)
    if source.size > layout.MAX_INT:
        yield from islice(snapshot.salvaged, _SAMPLE // ENTRY_SIZE)
        yield from _too_large(path, source.size)
    else:
        yield from snapshot.salvaged
    if snapshot.error is not None:
        yield Finding(Code.S01, path, 0, source.size, values={"why": snapshot.error})


def _text(kind: FileKind, source: Source) -> Iterator[Item]:
    from kdump.format.checkpoint import read_checkpoint

    findings: list[Finding] = []
    yield read_checkpoint(kind, source, findings.append)
    yield from findings
