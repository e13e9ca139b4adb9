"""Whether a leader-epoch-checkpoint is wrong where it has other epochs than the batches."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.epoch_order import ascend
from kdump.format.batch.walk import CheckedWalk
from kdump.format.read_limits import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.source import Source


def contradicts_batches(
    epochs: Sequence[EpochEntry], log_start: int, logs: Iterable[AbstractContextManager[Source]]
) -> bool:
    """Tell whether it is the leader-epoch-checkpoint that is wrong where it has other epochs than batches.

    No CRC covers the epoch of a batch, so one batch proves nothing; that several have the same wrong one by chance is
    out of the question, and a broker writes the file from its batches.

    Args:
        epochs: its entries.
        log_start: the log start offset: below it the file says nothing.
        logs: of the partition, each opened when its turn comes; none is damaged, and the epochs of the batches rise.

    Raises:
        OSError: a log cannot be read.
    """
    epochs = list(epochs)
    if not epochs or not ascend(epochs):
        return False
    starts = [one.start_offset for one in epochs]
    floor = max(starts[0], log_start)
    against: Counter[int] = Counter()  # batches by their epoch
    for opened in logs:
        with opened as log:
            for window in CheckedWalk(log, ignore, next_base=None, max_batch_bytes=MAX_BATCH_BYTES).windows():
                for k in range(window.count):
                    first, epoch = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.LEADER_EPOCH)
                    if first >= floor and epoch != layout.NO_EPOCH:
                        against[epoch] += epochs[bisect_right(starts, first) - 1].epoch != epoch
    several = [count for count in against.values() if count]
    return bool(several) and min(several) > 1
