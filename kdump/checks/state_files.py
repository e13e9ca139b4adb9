"""The small files beside the logs, each judged alone, and leader epochs of batches against their checkpoint."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.checks.read_errors import broken_off, not_opened
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.epoch_order import EpochsAround, ascend, goes_on_behind
from kdump.format.checkpoint.producer_snapshot import THROWN_AWAY
from kdump.format.kinds import FileKind
from kdump.item import CheckedFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
    from kdump.storage.file_source import OpenFailure
    from kdump.storage.log_dir import LogDir
    from kdump.storage.state_file import StateFile


class CheckpointFold:
    """Compares the epoch of each batch with the one that its offset has by the checkpoint.

    One finding stands for a run of batches of one epoch. Nothing is said below the first entry and below the log start
    offset: a broker forgets those.

    Args:
        file: the log, as the user wrote it.
        epochs: the entries, ascending.
        start_offset: the log start offset.
        around: tells which epochs begin behind a batch: of these the checkpoint says nothing there.
    """

    def __init__(
        self, file: str, epochs: Sequence[EpochEntry], start_offset: int, around: EpochsAround | None = None
    ) -> None:
        self._file = file
        self._around = EpochsAround() if around is None else around
        self._newest = epochs[-1] if epochs else None
        self._epochs = [one.epoch for one in epochs]
        self._starts = [one.start_offset for one in epochs]
        self._floor = max([start_offset, *self._starts[:1]])
        self._found: list[Finding] = []
        self._run: tuple[int, int | None] | None = None  # epochs of the last batch that does not agree
        self._agrees = False
        self._off = self._past = 0

    @property
    def contradicts_all(self) -> bool:
        """Whether the checkpoint contradicts each batch, and there are several: one that is older does not."""
        return self._off > 1 and not self._agrees

    @property
    def knows_none(self) -> bool:
        """Whether it has the epoch of no batch, and there are several: it contradicts them, or may be older."""
        return self._off + self._past > 1 and not self._agrees

    def step(self, window: Window) -> None:
        """Take the next batches."""
        if not self._epochs:
            return
        changes = window.suspicions & (layout.EPOCH_CHANGES | layout.NOT_ABOVE)
        first, last = window.cell(0, layout.BASE_OFFSET), window.cell(window.count - 1, layout.LAST_OFFSET)
        epoch = window.cell(0, layout.LEADER_EPOCH)
        is_one = not changes and window.all_trusted and self._floor <= first
        if is_one and self._of(first) == self._of(last) == epoch:
            self._run = None
            self._agrees = True
            return
        for k in range(window.count):
            self._batch(window, k)

    def _of(self, offset: int) -> int | None:
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else None

    def _batch(self, window: Window, k: int) -> None:
        epoch, first = window.cell(k, layout.LEADER_EPOCH), window.cell(k, layout.BASE_OFFSET)
        if window.cell(k, layout.CRC) != window.cell(k, layout.COMPUTED_CRC) or epoch == layout.NO_EPOCH:
            return
        expected, position = self._of(first), window.cell(k, layout.POSITION)
        is_known = expected is not None and first >= self._floor
        if is_known and epoch < (expected or 0) and self._around.begins_behind(expected or 0, position):
            is_known = False
        if epoch == expected or not is_known:
            self._run = None
            self._agrees |= epoch == expected
            return
        assert self._newest is not None
        is_past = goes_on_behind(self._newest, epoch, first)
        self._past += is_past
        self._off += not is_past
        if self._run != (epoch, expected):
            self._run = (epoch, expected)
            size, last = window.cell(k, layout.SIZE), window.cell(k, layout.LAST_OFFSET)
            field = "partitionLeaderEpoch"
            self._found.append(
                Finding(
                    Code.E03,
                    self._file,
                    position,
                    size,
                    gap=False,
                    offset=first,
                    last_offset=last,
                    field=field,
                    expected=expected,
                    found=epoch,
                )
            )

    def findings(self, blamed: set[int], end: int) -> Iterator[Finding]:
        """Yield what was found of the batches before a position, and forget them.

        Args:
            blamed: positions of batches whose offset is wrong: what epoch it has is not known. Those before the
                position are forgotten too.
            end: position up to which it is known which offsets are wrong.

        Reports: E03.
        """
        found, self._found = self._found, []
        for one in found:
            if one.position is not None and one.position >= end:
                self._found.append(one)
            elif one.position not in blamed:
                yield one
        blamed.difference_update([position for position in blamed if position < end])


MOST_PRODUCERS = 400_000  # of a snapshot that is compared with its log: they are held in memory

_OFFSETS = {
    FileKind.RECOVERY_POINT: "recoveryPoint",
    FileKind.REPLICATION: "highWatermark",
    FileKind.LOG_START: "logStartOffset",
}


WRITE_TOPIC_ID = (
    "while the broker is stopped, write it, two lines, `version: 0` and `topic_id: ID`; the ID is in the same file of "
    "another partition of the topic, or what kdump cluster shows of the metadata log (topicId)"
)


def check_text(file: StateFile) -> Iterator[Finding | OpenFailure | CheckedFile]:
    """Yield what is wrong with a text file, and the file.

    Args:
        file: a checkpoint, or partition.metadata.

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

    Reports: K01, K02, K07.
    """
    for kind, field in _OFFSETS.items():
        offset = log_dir.offset(kind, partition) or 0
        if offset < 0 and kind is FileKind.RECOVERY_POINT:
            path, name = log_dir.path_of(kind), {"partition": directory}
            yield Finding(Code.K07, path, field=field, found=offset, expected=None, values=name)
        if offset > end:
            code = Code.K02 if kind is FileKind.LOG_START else Code.K01
            values: dict[str, int | str | None] = {"partition": directory, "end": end, "missing": offset - end}
            path = log_dir.path_of(kind)
            finding = Finding(code, path, field=field, found=offset, expected=end, offset=end, values=values)
            yield finding.replace(last_offset=offset - 1) if code is Code.K01 else finding


_MADE_AGAIN = "a broker makes it again from batches that it recovers, after a clean stop from none"
_COPY_EPOCHS = (
    "while the broker is stopped, copy the file of another replica of the partition to this place, or the one that "
    "kdump salvage makes from the batches"
)
_END_IS_LOST = (
    "leave it: what is missing is the end of the log; a broker drops the entry, as do a restore, salvage and truncate"
)


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
            why = f"the file {what}, and batches have leader epochs: {_MADE_AGAIN}"
            values = {"why": why, "remedy": _COPY_EPOCHS}
            yield Finding(Code.K04, path, values=values, severity_override=Severity.NOTE)
        return
    if not ascend(epochs):
        why = "epochs or their start offsets do not rise: a broker drops entries without a word"
        values = {"why": why, "remedy": _COPY_EPOCHS}
        yield Finding(Code.K04, path, values=values, severity_override=Severity.WARNING)
    if epochs[-1].start_offset > end:
        beyond = epochs[-1]
        why = f"epoch {beyond.epoch} begins at offset {beyond.start_offset}, and the log ends at {end}"
        offset, values = beyond.start_offset, {"why": why, "remedy": _END_IS_LOST}
        yield Finding(Code.K04, path, offset=offset, found=offset, values=values, severity_override=Severity.WARNING)


def read_producers(
    file: StateFile,
) -> tuple[Sequence[ProducerStateEntry] | None, list[Finding | OpenFailure | CheckedFile]]:
    """Read a producer snapshot.

    Args:
        file: the snapshot.

    Returns:
        its entries, None where a broker would throw it away; and what there is to say, the file last.

    Reports: L12, S01, V01, V02.
    """
    if file.failure is not None:
        return None, [not_opened(file.failure)]
    checked = CheckedFile(file.path, FileKind.SNAPSHOT, file.size)
    try:
        snapshot = file.snapshot()
        if snapshot is not None and snapshot.error is None and len(snapshot.entries) > MOST_PRODUCERS:
            why = f"the {len(snapshot.entries)} producers of the snapshot were not compared with the log"
            return None, [Finding(Code.L12, file.path, 0, file.size, values={"why": why}), checked]
        if snapshot is not None and snapshot.error is None:
            return list(snapshot.entries), [checked]
    except OSError as error:
        return None, [broken_off(error, file.path, file.size), checked]
    if snapshot is None:
        return None, [broken_off(file.error, file.path, file.size), checked] if file.error is not None else [checked]
    return None, [
        Finding(Code.S01, file.path, 0, file.size, values={"why": snapshot.error, "does": THROWN_AWAY}),
        checked,
    ]
