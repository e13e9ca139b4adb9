"""Base offsets with wrong bits: what is lost is told by verify and by salvage alike, and no intact batch with it."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.verdict import Loss
from tests.support.healing import OPTIONS, Quick, batches, last_offset
from tests.support.partitions import name
from tests.support.runs import FIXTURES, copy_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

INTACT = FIXTURES / "damage" / "intact" / "none" / "logdir"
LOG = Path("plain-0", name(119))
TRUTH = list(batches(INTACT / "plain-0").items())
PARTS = [(at, part) for at, part in TRUTH if 119 <= at < 240]
HIGH = (9, 12, 20, 30, 40, 62)  # bits that take a batch out of what the segment has


def damaged(root: Path, parts: Sequence[bytes]) -> tuple[set[int], set[int], dict[int, bytes]]:
    """What verify and salvage tell as lost of a partition with these batches in one log, and what salvage gets."""
    tree = copy_tree(INTACT, root / "logdir")
    (tree / LOG).write_bytes(b"".join(parts))
    told = {
        offset
        for one in verify([str(tree)], VerifyOptions())
        if isinstance(one, Loss) and one.certainty.is_loss
        for offset in range(one.offset, one.last_offset + 1)
    }
    list(salvage([str(tree / "plain-0")], Wanted(str(root / "out"), None, ()), OPTIONS, Quick()))
    rows = map(json.loads, (root / "out" / "plain-0.salvage.jsonl").read_text().splitlines())
    missed = {
        offset
        for row in rows
        if row["type"] == "loss" and row["certainty"] != "absent"
        for offset in range(row["offset"], row["lastOffset"] + 1)
    }
    return told, missed, batches(root / "out" / "plain-0")


def moved(at: int, part: bytes, bits: int) -> bytes:
    """A batch with wrong bits in its base offset."""
    return (at ^ bits).to_bytes(8, "big") + part[8:]


def offsets(some: Sequence[tuple[int, bytes]]) -> set[int]:
    """The offsets of batches."""
    return {offset for at, part in some for offset in range(at, last_offset(at, part) + 1)}


def torn(part: bytes) -> bytes:
    """The same batch with a wrong CRC."""
    return part[:-1] + bytes([part[-1] ^ 1])


@pytest.mark.parametrize(
    ("gap", "bit"),
    [
        *product(("batches missing", "a batch torn"), HIGH),
        *product(("zeros",), HIGH[:4]),  # with others the search behind zeros takes it for no batch
    ],
)
def test_behind_a_gap_one_wrong_bit_of_a_base_offset_loses_nothing_more(gap: str, bit: int, tmp_path: Path) -> None:
    for number, (k, count) in enumerate(product((3, 9, 20, 30), (1, 2))):
        lost = PARTS[k : k + count]
        parts = [part for _, part in PARTS]
        parts[k + count] = moved(*PARTS[k + count], 1 << bit)
        if gap == "batches missing":
            parts[k : k + count] = []
        else:
            parts[k : k + count] = [torn(part) if gap == "a batch torn" else bytes(len(part)) for _, part in lost]
        told, missed, got = damaged(tmp_path / str(number), parts)
        assert told == missed == offsets(lost)
        assert got == {at: part for at, part in TRUTH if (at, part) not in lost}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("low", [0, 1, 2, 3, 5, 8, 20, 31, 62, 63])
def test_neighbours_that_fill_the_place_between_sound_ones_are_restored_whatever_their_base_offsets(
    low: int, count: int, tmp_path: Path
) -> None:
    for number, (k, high) in enumerate(product((2, 10, 25, 41 - count), (0, 2, 4, 20, 62))):
        parts = [part for _, part in PARTS]
        for step, bits in enumerate((1 << low, 1 << high, 5 << low)[:count]):
            parts[k + step] = moved(*PARTS[k + step], bits & (1 << 63) - 1 if step else bits)
        told, missed, got = damaged(tmp_path / str(number), parts)
        assert (told, missed) == (set(), set()), (k, high)
        assert got == dict(TRUTH)


@pytest.mark.parametrize("bits", [(3 << 20, 3 << 24), (3 << 24, 3 << 20), (3 << 20, 3 << 20)])
def test_neighbours_with_no_certain_place_are_lost_with_what_is_missing_beside_them(
    bits: tuple[int, int], tmp_path: Path
) -> None:
    """A batch is missing before them: where these two lay nobody knows."""
    for k in (3, 12, 30):
        parts = [part for _, part in PARTS]
        parts[k + 1 : k + 3] = [moved(*one, bit) for one, bit in zip(PARTS[k + 1 : k + 3], bits, strict=True)]
        del parts[k]
        told, missed, got = damaged(tmp_path / str(k), parts)
        assert told == missed == offsets(PARTS[k : k + 3])
        assert got == {at: part for at, part in TRUTH if (at, part) not in PARTS[k : k + 3]}
