"""The leader epochs at the ends of the logs beside a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kdump.storage.epochs_beside import EpochsBeside
from tests.support.partitions import name, write
from tests.support.segments import batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kdump.format.batch.base_offset.header import HeaderFacts


def epochs_of(facts: Sequence[HeaderFacts]) -> list[int | None]:
    return [one.epoch for one in facts]


@pytest.mark.parametrize(
    ("epochs", "first", "last"),
    [([3, 3, 4, 5, 5], [3, 3], [5, 5]), ([3, 4, 4, 5], [3, 4], [4, 5]), ([3], [3], [3]), ([], [], [])],
)
def test_two_batches_of_the_logs_beside_are_known(
    epochs: list[int], first: list[int], last: list[int], tmp_path: Path
) -> None:
    log = b"".join(batch(offset, [b"v"], epoch=epoch) for offset, epoch in enumerate(epochs))
    path = str(write(tmp_path / "t-0", {name(0): log}) / name(0))
    around = EpochsBeside("", [path], [path])
    assert (epochs_of(around.batches_before), epochs_of(around.batches_behind)) == (last, first)


def test_a_log_of_one_batch_has_the_next_one_beside_it(tmp_path: Path) -> None:
    logs = {name(k): b"" if k == 2 else batch(k, [b"v"], epoch=k) for k in range(5)}
    paths = [str(write(tmp_path / "t-0", logs) / name(k)) for k in range(5)]
    around = EpochsBeside("", paths[::-1], paths)
    assert (epochs_of(around.batches_before), epochs_of(around.batches_behind)) == ([3, 4], [0, 1])
    assert epochs_of(EpochsBeside("", [paths[2], paths[1], paths[0]]).batches_before) == [0, 1]


def test_damage_hides_what_lies_behind_it(tmp_path: Path) -> None:
    log = b"".join(batch(offset, [b"v"], epoch=3) for offset in range(4))[:-1]
    path = str(write(tmp_path / "t-0", {name(0): log, name(9): batch(9, [b"v"], epoch=3)}) / name(0))
    assert epochs_of(EpochsBeside("", [path]).batches_before) == [3, 3]  # before it, in file order
    assert epochs_of(EpochsBeside("", [], [path]).batches_behind) == [3, 3]
    (tmp_path / "t-0" / name(0)).write_bytes(bytes(50) + log)
    assert epochs_of(EpochsBeside("", [], [path]).batches_behind) == []
    assert epochs_of(EpochsBeside("", [path]).batches_before) == []
    assert epochs_of(EpochsBeside("", [str(tmp_path / "none.log")]).batches_before) == []
    assert epochs_of(EpochsBeside("", [path.replace(name(0), name(9)), path]).batches_before) == [3]
