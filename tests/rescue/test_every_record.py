"""Each record with a true CRC in the sources is written by salvage, or a row says what became of it.

The sample is small; `python -m tests.support.every_record` makes as many runs as one has time for.
"""

from __future__ import annotations

import pytest

from tests.support.every_record import healing, kdump_salvage, many, overlaps, rolls
from tests.support.runs import FIXTURES

CORPUS = sorted(log.parent for log in (FIXTURES / "kafka-4.3.1").rglob("00000000000000000000.log"))


@pytest.mark.parametrize("seeds", [range(at, at + 40) for at in range(0, 240, 40)], ids=lambda seeds: f"{seeds[0]}")
def test_of_overlaps_twins_and_markers_that_share_offsets(seeds: range) -> None:
    assert [(seed, faults) for seed, faults, _ in many(overlaps, seeds) if faults] == []


@pytest.mark.parametrize("seeds", [range(at, at + 40) for at in range(0, 240, 40)], ids=lambda seeds: f"{seeds[0]}")
def test_of_overlaps_at_rolls_and_one_behind_the_other(seeds: range) -> None:
    assert [(seed, faults) for seed, faults, _ in many(rolls, seeds) if faults] == []


def test_of_copies_that_are_damaged_at_random() -> None:
    assert [(seed, faults) for seed, faults, _ in many(healing, range(60)) if faults] == []


@pytest.mark.parametrize("directory", CORPUS[::3], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_of_files_of_brokers(directory, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert not kdump_salvage(directory, tmp_path / "out")
