"""Leader epochs that a cluster takes: none above its present one, none below that of the batch before.

No CRC covers partitionLeaderEpoch. What is above the present leader epoch is fenced: a follower passes over such
batches, consumers take the metadata of the cluster for old, and a leader forgets the epoch. What falls is cut: an epoch
ends where a higher one begins.

Source: UnifiedLog.appendAsFollower, LeaderEpochFileCache.assign, Metadata.updateLastSeenEpochIfNewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.batch.window import Window
from kdump.value import TupleValue

if TYPE_CHECKING:
    from array import array


class FittedEpoch(TupleValue):
    """The leader epoch of one batch, as it was and as it is."""

    row: int  # number of the batch in its window
    before: int
    after: int


class FittedEpochs:
    """Fits batches that come in the order of their offsets.

    Args:
        present: the leader epoch that the partition has there, or one that was before it.
    """

    def __init__(self, present: int) -> None:
        self._present = present
        self._latest = layout.NO_EPOCH

    def fit(self, window: Window) -> tuple[Window, list[FittedEpoch]]:
        """Return batches with epochs that fit, and which have another one than before.

        Args:
            window: of batches; it stays as it is.
        """
        fitted = self._fitted(window.column(layout.LEADER_EPOCH))
        if not fitted:
            return window, fitted
        start, width = window.cell(0, layout.POSITION), layout.BATCH_WIDTH
        end = window.end(window.count) if window.has_record_bytes else window.origin + len(window.view)
        data, rows = bytearray(window.view[start - window.origin : end - window.origin]), window.rows[:]
        for k, _, after in fitted:
            rows[k * width + layout.LEADER_EPOCH] = after
            at = window.cell(k, layout.POSITION) - start + layout.LEADER_EPOCH_AT
            data[at : at + 4] = after.to_bytes(4, "big", signed=True)
        made = Window(
            memoryview(data), start, rows, window.count, window.has_record_bytes, before=window.offset_before(0)
        )
        return made, fitted

    def _fitted(self, epochs: array[int]) -> list[FittedEpoch]:
        found: list[FittedEpoch] = []
        if epochs and self._latest <= min(epochs) and max(epochs) <= self._present and list(epochs) == sorted(epochs):
            self._latest = epochs[-1]
            return found
        for k, epoch in enumerate(epochs):
            if epoch == layout.NO_EPOCH:  # no leader has given it: no entry of the checkpoint begins there
                continue
            self._latest = max(self._latest, min(epoch, self._present))
            if epoch != self._latest:
                found.append(FittedEpoch(k, epoch, self._latest))
        return found
