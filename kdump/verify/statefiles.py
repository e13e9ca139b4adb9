"""The small files beside the logs, each judged alone: text files and producer snapshots."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.checkpoint import EpochEntry, read_checkpoint
from kdump.format.kinds import FileKind
from kdump.format.snapshot import read_snapshot
from kdump.item import CheckedFile
from kdump.log.files import exists
from kdump.log.names import parse_name
from kdump.log.source import DoorProblem, open_source
from kdump.verify.doors import broken_off, entries_of, judged, not_opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.finding import Report
    from kdump.format.snapshot import ProducerStateEntry
    from kdump.format.source import Source


MOST_PRODUCERS = 400_000  # of a snapshot that is compared with its log: they are held in memory


def check_text(path: str) -> Iterator[Finding | DoorProblem | CheckedFile]:
    """Yield what is wrong with a text file, and the file.

    Args:
        path: as the user wrote it, or below what the user wrote.

    Reports: K03-K05, V01, V02.
    """
    kind = parse_name(os.path.basename(path)).kind

    def judge(source: Source, report: Report) -> None:
        read_checkpoint(kind, source, report)

    return judged(path, kind, judge)


def read_epochs(path: str) -> tuple[EpochEntry, ...]:
    """Return the entries of a leader-epoch-checkpoint as the file has them; `check_text` tells what is wrong."""
    return tuple(entry for entry in entries_of(FileKind.EPOCHS, path) if isinstance(entry, EpochEntry))


def ascend(epochs: Sequence[EpochEntry]) -> bool:
    """Tell whether epochs and their start offsets ascend, as a broker writes them."""
    return all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(epochs))


def check_epochs(path: str, epochs: Sequence[EpochEntry], end: int, *, has_epochs: bool) -> Iterator[Finding]:
    """Yield what is wrong with a leader-epoch-checkpoint beside its log.

    Args:
        path: of the file, which need not be there.
        epochs: its entries.
        end: the log end offset.
        has_epochs: batches have leader epochs.

    Reports: K04.
    """
    if not epochs:
        if has_epochs:
            what = "has no entries" if exists(path) else "is missing"
            why = f"the file {what}, and batches have leader epochs: a broker makes it anew from them"
            yield Finding(Code.K04, path, values={"why": why}, severity_override=Severity.NOTE)
        return
    if not ascend(epochs):
        why = "epochs or their start offsets do not rise: a broker drops entries without a word"
        yield Finding(Code.K04, path, values={"why": why}, severity_override=Severity.WARNING)
    if epochs[-1].start_offset > end:
        beyond = epochs[-1]
        why = f"epoch {beyond.epoch} begins at offset {beyond.start_offset}, and the log ends at {end}"
        offset, warning = beyond.start_offset, Severity.WARNING
        yield Finding(Code.K04, path, offset=offset, found=offset, values={"why": why}, severity_override=warning)


def read_producers(path: str) -> tuple[Sequence[ProducerStateEntry] | None, list[Finding | DoorProblem | CheckedFile]]:
    """Read a producer snapshot.

    Args:
        path: as the user wrote it, or below what the user wrote.

    Returns:
        its entries, None where a broker would throw it away; and what there is to say, the file last.

    Reports: L12, S01, V01, V02.
    """
    source = open_source(path)
    if isinstance(source, DoorProblem):
        return None, [not_opened(source)]
    file = CheckedFile(path, FileKind.SNAPSHOT, source.size)
    with source:
        try:
            snapshot = read_snapshot(source)
            if snapshot.error is None and len(snapshot.entries) > MOST_PRODUCERS:
                why = f"the {len(snapshot.entries)} producers of the snapshot were not compared with the log"
                return None, [Finding(Code.L12, path, 0, source.size, values={"why": why}), file]
            if snapshot.error is None:
                return list(snapshot.entries), [file]
        except OSError as error:
            return None, [broken_off(error, path, source.size), file]
        return None, [Finding(Code.S01, path, 0, source.size, values={"why": snapshot.error}), file]
