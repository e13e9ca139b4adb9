"""`dump` of the small files beside a log: indexes, producer snapshots, text files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kdump.dump.indexes import CheckedIndexes
from kdump.finding import Code, Finding
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.kinds import FileKind
from kdump.storage.file_source import DoorProblem, open_source
from kdump.storage.segment_boundaries import sibling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.source import Source
    from kdump.item import Item


def dump_state(kind: FileKind, path: str, source: Source, options: DumpOptions, base: int) -> Iterator[Item]:
    """Yield what is in a small file, with complaints and findings.

    Args:
        kind: which file it is; no log and no KRaft snapshot.
        path: as the user wrote it.
        source: the file.
        options: what was asked for.
        base: base offset of an index.

    Reports: X03-X05, T03, T04 (as complaints), A02, S01, K03-K05.
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
        if kind is FileKind.INDEX:
            yield from checked.offset_index(OffsetIndex(source, base), path)
            return
        beside = _open_sibling(path, "index", stack)
        offsets = None if beside is None else OffsetIndex(beside, base)
        yield from checked.time_index(TimeIndex(source, base), offsets, path)


def _open_sibling(path: str, suffix: str, stack: ExitStack) -> Source | None:
    """The file of the same segment with another suffix, where there is one; of a copy, the copy."""
    source = open_source(sibling(path, suffix))
    return None if isinstance(source, DoorProblem) else stack.enter_context(source)


def _transactions(path: str, source: Source, base: int) -> Iterator[Item]:
    index = TransactionIndex(source, base)
    yield from index
    if index.error is not None:  # what follows is not shown, as no broker reads it
        txn, size = index.entry(index.readable), index.entry_size
        finding = Finding(Code.A02, path, index.readable * size, size, field="version", found=txn.version, expected=0)
        yield finding.replace(offset=txn.first_offset, last_offset=txn.last_offset)


def _snapshot(path: str, source: Source) -> Iterator[Item]:
    from kdump.format.checkpoint.producer_snapshot import read_snapshot

    snapshot = read_snapshot(source)
    yield from snapshot.salvaged
    if snapshot.error is not None:
        yield Finding(Code.S01, path, 0, source.size, values={"why": snapshot.error})


def _text(kind: FileKind, source: Source) -> Iterator[Item]:
    from kdump.format.checkpoint.checkpoint_file import read_checkpoint

    findings: list[Finding] = []
    yield read_checkpoint(kind, source, findings.append)
    yield from findings
