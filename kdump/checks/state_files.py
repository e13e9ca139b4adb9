"""The small files beside the logs, each judged alone: text files and producer snapshots."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.checks.read_errors import broken_off, not_opened
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import CheckedFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.storage.file_source import DoorProblem
    from kdump.storage.log_dir import LogDir
    from kdump.storage.state_file import StateFile

_OFFSETS = {
    FileKind.RECOVERY_POINT: "recoveryPoint",
    FileKind.REPLICATION: "highWatermark",
    FileKind.LOG_START: "logStartOffset",
}


def check_text(file: StateFile) -> Iterator[Finding | DoorProblem | CheckedFile]:
    """Yield what is wrong with a text file, and the file.

    Args:
        file: it.

    Reports: K03-K05, V01, V02.
    """
    if file.failure is not None:
        yield not_opened(file.failure)
        return
    yield from file.findings
    if file.error is not None:
        yield broken_off(file.error, file.path, file.size)
    yield CheckedFile(file.path, file.kind, file.size)


def check_offsets(log_dir: LogDir, partition: tuple[str, int], directory: str, end: int) -> Iterator[Finding]:
    """Yield the checkpoints of a log directory that go beyond the end of a partition.

    Args:
        log_dir: the log directory.
        partition: topic and number.
        directory: name of its directory.
        end: its log end offset.

    Reports: K01, K02.
    """
    for kind, field in _OFFSETS.items():
        offset = log_dir.offset(kind, partition) or 0
        if offset > end:
            code = Code.K02 if kind is FileKind.LOG_START else Code.K01
            values: dict[str, int | str | None] = {"partition": directory, "end": end, "missing": offset - end}
            path = log_dir.path_of(kind)
            yield Finding(code, path, field=field, found=offset, expected=end, offset=end, values=values)


def ascend(epochs: Sequence[EpochEntry]) -> bool:
    """Tell whether epochs and their start offsets ascend, as a broker writes them."""
    return all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(epochs))


def check_epochs(file: StateFile, end: int, *, has_epochs: bool) -> Iterator[Finding]:
    """Yield what is wrong with a leader-epoch-checkpoint beside its log.

    Args:
        file: it; it need not be there.
        end: the log end offset.
        has_epochs: batches have leader epochs.

    Reports: K04.
    """
    path, epochs = file.path, file.epochs
    if not epochs:
        if has_epochs:
            what = "is missing" if file.failure is not None and file.failure.missing else "has no entries"
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


def read_producers(
    file: StateFile,
) -> tuple[Sequence[ProducerStateEntry] | None, list[Finding | DoorProblem | CheckedFile]]:
    """Read a producer snapshot.

    Args:
        file: it.

    Returns:
        its entries, None where a broker would throw it away; and what there is to say, the file last.

    Reports: S01, V01, V02.
    """
    if file.failure is not None:
        return None, [not_opened(file.failure)]
    checked = CheckedFile(file.path, FileKind.SNAPSHOT, file.size)
    try:
        snapshot = file.snapshot()
        if snapshot is not None and snapshot.error is None:
            return list(snapshot.entries), [checked]
    except OSError as error:
        return None, [broken_off(error, file.path, file.size), checked]
    if snapshot is None:
        return None, [broken_off(file.error, file.path, file.size), checked] if file.error is not None else [checked]
    return None, [Finding(Code.S01, file.path, 0, file.size, values={"why": snapshot.error}), checked]
