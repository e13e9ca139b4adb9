"""`dump` of the small files beside a log: indexes, producer snapshots, text files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.dump.indexes import CheckedIndexes
from kdump.finding import Code, Finding
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.kinds import FileKind
from kdump.storage.file_source import DoorProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.checked import InputFile
    from kdump.format.source import Source
    from kdump.item import Item


def dump_state(file: InputFile, source: Source, options: DumpOptions) -> Iterator[Item]:
    """Yield what is in a small file, with complaints and findings.

    Args:
        file: no log and no KRaft snapshot.
        source: the same, open.
        options: what was asked for.

    Reports: X03-X05, T03, T04 (as complaints), A02, S01, K03-K05.
    """
    kind, path = file.kind, file.path
    if kind is FileKind.TXNINDEX:
        yield from _transactions(path, source, file.base or 0)
    elif kind is FileKind.SNAPSHOT:
        yield from _snapshot(path, source)
    elif kind in (FileKind.INDEX, FileKind.TIMEINDEX):
        yield from _index(file, source, options)
    else:
        yield from _text(kind, source)


def _index(file: InputFile, source: Source, options: DumpOptions) -> Iterator[Item]:
    base = file.base or 0
    checked = CheckedIndexes(_beside(file, FileKind.LOG), options, os.path.abspath(file.path))
    if file.kind is FileKind.INDEX:
        yield from checked.offset_index(OffsetIndex(source, base), file.path)
        return
    beside = _beside(file, FileKind.INDEX)
    offsets = None if beside is None else OffsetIndex(beside, base)
    yield from checked.time_index(TimeIndex(source, base), offsets, file.path)


def _beside(file: InputFile, kind: FileKind) -> Source | None:
    """Another file of the same segment, where there is one."""
    found = file.segment.file(kind)
    return None if isinstance(found, DoorProblem) else found


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
