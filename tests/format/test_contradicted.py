"""Which is wrong where a leader-epoch-checkpoint and the batches differ."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.format.checkpoint.contradicted import contradicts_batches
from kdump.format.source import BytesSource
from tests.support.segments import batch


@pytest.mark.parametrize(
    ("epochs", "of_file", "is_wrong"),
    [
        ([0, 0, 0, 0], [(1, 0)], True),
        ([0, 0, 1, 1], [(0, 0)], True),
        ([0, 0, 0, 1], [(0, 0)], False),  # one batch proves nothing
        ([0, 1, 1, 0], [(1, 0)], True),
        ([0, 0, 1, 1], [(0, 0), (1, 2)], False),
        ([0, 0, 1, 1], [(1, 0), (0, 2)], False),  # it does not rise: it is wrong in itself
        ([0, 0, 1, 1], [], False),
    ],
)
def test_the_file_is_wrong_where_several_batches_have_each_epoch_against_it(
    epochs: list[int], of_file: list[tuple[int, int]], is_wrong: bool
) -> None:
    log = b"".join(batch(offset, epoch=epoch) for offset, epoch in enumerate(epochs))
    logs = [nullcontext(BytesSource(log, "00000000000000000000.log"))]
    assert contradicts_batches([EpochEntry(*one) for one in of_file], 0, logs) is is_wrong
