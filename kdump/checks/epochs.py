"""Leader epochs of batches against the leader-epoch-checkpoint of their partition."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.checkpoint.checkpoint_file import EpochEntry


class CheckpointFold:
    """Compares the epoch of each batch with the one that its offset has by the checkpoint.

    One finding stands for a run of batches of one epoch. Nothing is said below the first entry and below the log start
    offset: a broker forgets those.

    Args:
        file: the log, as the user wrote it.
        epochs: the entries, ascending.
        start_offset: the log start offset.
    """

    def __init__(self, file: str, epochs: Sequence[EpochEntry], start_offset: int) -> None:
        self._file = file
        self._epochs = [one.epoch for one in epochs]
        self._starts = [one.start_offset for one in epochs]
        self._floor = max([start_offset, *self._starts[:1]])
        self._found: list[Finding] = []
        self._run: tuple[int, int | None] | None = None  # epochs of the last batch that does not agree

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
        expected = self._of(first)
        if epoch == expected or first < self._floor:
            self._run = None
        elif self._run != (epoch, expected):
            self._run = (epoch, expected)
            position, size = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
            last = window.cell(k, layout.LAST_OFFSET)
            field = "partitionLeaderEpoch"
            self._found.append(
                Finding(Code.E03, self._file, position, size, False, first, last, field, expected, epoch)
            )

    def findings(self, blamed: set[int]) -> Iterator[Finding]:
        """Yield what was found.

        Args:
            blamed: positions of batches whose offset is wrong: what epoch it has is not known.

        Reports: E03.
        """
        return (one for one in self._found if one.position not in blamed)
