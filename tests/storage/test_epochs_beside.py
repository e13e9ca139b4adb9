"""The leader epochs at the ends of the logs beside a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.storage.epochs_beside import EpochsBeside
from tests.support.partitions import name, write
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("epochs", "first", "last"),
    [
        ([3, 3, 4, 5, 5], 3, 5),
        ([3, 4, 4, 5], None, None),  # of one batch alone a wrong bit may tell another epoch
        ([3], None, None),
        ([], None, None),
    ],
)
def test_an_epoch_of_a_log_beside_counts_when_a_second_batch_bears_it_out(
    epochs: list[int], first: int | None, last: int | None, tmp_path: Path
) -> None:
    log = b"".join(batch(offset, [b"v"], epoch=epoch) for offset, epoch in enumerate(epochs))
    path = str(write(tmp_path / "t-0", {name(0): log}) / name(0))
    around = EpochsBeside(path, ["", path])
    assert (around.before(), around.after()) == (last, first)


@pytest.mark.parametrize(("known", "epoch"), [(3, 3), (4, None)])
def test_the_epoch_of_a_lone_batch_counts_when_the_checkpoint_bears_it_out(
    known: int, epoch: int | None, tmp_path: Path
) -> None:
    path = str(write(tmp_path / "t-0", {name(9): batch(9, [b"v"], epoch=3)}) / name(9))
    around = EpochsBeside(path, ["", path], [EpochEntry(known, 0)])
    assert (around.before(), around.after()) == (epoch, epoch)


def test_a_log_that_ends_in_damage_tells_no_epoch(tmp_path: Path) -> None:
    log = b"".join(batch(offset, [b"v"], epoch=3) for offset in range(4))[:-1]
    path = str(write(tmp_path / "t-0", {name(0): log}) / name(0))
    assert EpochsBeside(path, []).before() is None
    assert EpochsBeside(str(tmp_path / "none.log"), []).before() is None
