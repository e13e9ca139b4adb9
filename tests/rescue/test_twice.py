"""A batch that a wrong bit takes into a hole of compaction is in the result once, at its true offset, or nothing is."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageRefused
from tests.support.healing import OPTIONS, Quick, batches
from tests.support.partitions import name, write
from tests.support.runs import FIXTURES, copy_tree
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

CLEAN = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
BITS = (0, 1, 2, 3, 4, 5, 6, 8)


def salvaged(root: Path, *sources: Path, prefer: Path | None = None) -> tuple[list[bytes], list[str]]:
    """The batches that come of some copies, in order, and why they are refused."""
    options = OPTIONS if prefer is None else OPTIONS.replace(prefer=str(prefer))
    items: list[Any] = list(salvage([str(one) for one in sources], Wanted(str(root), None, ()), options, Quick()))
    refused = [one.why for one in items if isinstance(one, SalvageRefused)]
    got = [log.read_bytes() for log in sorted((root / sources[0].name).glob("*.log"))]
    return got, refused


def with_wrong_bit(source: Path, root: Path, number: int, bit: int) -> Path:
    """A copy of a partition, with a wrong bit in the base offset of one batch of its first log."""
    copy = copy_tree(source, root / source.name)
    log = min(copy.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[places(log)[number] + 7 - bit // 8] ^= 1 << bit % 8
    log.write_bytes(data)
    return copy


def places(log: Path) -> list[int]:
    """Where the batches of a log begin, bytes."""
    data, found = log.read_bytes(), [0]
    while found[-1] < len(data):
        found.append(found[-1] + 12 + int.from_bytes(data[found[-1] + 8 : found[-1] + 12], "big"))
    return found[:-1]


@pytest.mark.parametrize("topic", ["compacttxn-0", "compact-0"])
def test_a_batch_that_a_wrong_bit_takes_into_a_hole_is_there_once(topic: str, tmp_path: Path) -> None:
    whole = CLEAN / topic
    truth, outcomes = batches(whole), Counter[bool]()
    count = len(places(min(whole.glob("*.log"))))
    for case, (number, bit) in enumerate(product(range(0, count, 4), BITS)):
        damaged = with_wrong_bit(whole, tmp_path / str(case), number, bit)
        sources = (whole, damaged) if case % 2 else (damaged, whole)
        got, refused = salvaged(tmp_path / str(case) / "out", *sources)
        outcomes[bool(refused)] += 1
        if not refused:
            assert batches(tmp_path / str(case) / "out" / topic) == truth, (number, bit)
            assert sum(map(len, got)) == sum(map(len, truth.values())), (number, bit)
            continue
        assert "--prefer" in refused[0]
        salvaged(tmp_path / str(case) / "chosen", *sources, prefer=whole)
        assert batches(tmp_path / str(case) / "chosen" / topic) == truth, (number, bit)
    assert outcomes[False] > outcomes[True]


@pytest.mark.parametrize("bit", BITS)
def test_where_two_of_three_copies_agree_on_its_place_it_has_that(bit: int, tmp_path: Path) -> None:
    whole = CLEAN / "compacttxn-0"
    other = copy_tree(whole, tmp_path / "other" / whole.name)
    for number in (0, 3, 6, 9):
        damaged = with_wrong_bit(whole, tmp_path / str(number), number, bit)
        _, refused = salvaged(tmp_path / str(number) / "out", damaged, whole, other)
        assert refused == []
        assert batches(tmp_path / str(number) / "out" / whole.name) == batches(whole)


def test_equal_batches_that_a_producer_without_id_has_written_twice_stay_two(tmp_path: Path) -> None:
    """One copy begins behind the first of them, and the other one has cleaned nothing."""
    parts = [batch(at, [b"v%d" % at]) for at in range(12)]
    again = (7).to_bytes(8, "big") + parts[3][8:]
    log = [*parts[:7:2], parts[3], again, *parts[9:]]
    log.sort()
    sources = [
        write(tmp_path / "a" / "plain-0", {name(0): b"".join(log)}),
        write(tmp_path / "b" / "plain-0", {name(5): b"".join(log[4:])}),
    ]
    _, refused = salvaged(tmp_path / "out", *sources)
    assert refused == []
    assert list(batches(tmp_path / "out" / "plain-0").values()) == log
