"""Verify and salvage count a loss alike: the same offsets, records, and offsets whose records nobody can count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.rows.verdict import Certainty
from tests.rescue.test_missing import done_of
from tests.support.runs import FIXTURES, copy_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.rows.verdict import Loss

BYTES = (20, 57, 100)  # of the last but one batch or of records: shares of a log, in percent
LEFT_OUT = ("txn", "__", "compact")  # salvage leaves out what is in doubt beside damage: verify does not count that
SOURCES = [one for one in sorted((FIXTURES / "releases").glob("*/logs/*-[0-9]")) if not one.name.startswith(LEFT_OUT)]

Counted = tuple[list[tuple[int, int]], int, int]


def counted(losses: Iterable[tuple[int, int, int | None]]) -> Counted:
    """Joined ranges of offsets, records, and offsets whose records nobody can count."""
    ranges: list[tuple[int, int]] = []
    records = unknown = 0
    for first, last, count in sorted(losses, key=lambda one: one[:2]):
        records += count or 0
        unknown += last - first + 1 if count is None else 0
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = ranges[-1][0], last
        else:
            ranges.append((first, last))
    return ranges, records, unknown


def by_verify(directory: Path) -> Counted:
    losses: list[Loss] = [one for one in kdump.verify([str(directory)]).losses if one.certainty.is_loss]
    return counted((one.offset, one.last_offset, one.records) for one in losses)


def by_salvage(root: Path, directory: Path) -> Counted:
    rows = map(json.loads, Path(done_of(root, directory).rows).read_text().splitlines())
    lost = [row for row in rows if row["type"] == "loss" and Certainty(row["certainty"]).is_loss]
    return counted((row["offset"], row["lastOffset"], row["records"]) for row in lost)


def damaged(source: Path, to: Path, damage: str) -> Path:
    copy = copy_tree(source, to / "in" / source.name)
    log = max(copy.glob("*.log"), key=lambda one: (one.stat().st_size > 0, one.name))
    data = bytearray(log.read_bytes())
    if damage == "torn":
        del data[-25:]
    elif damage == "zeros":
        at = len(data) // 2 // 512 * 512
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    else:
        data[len(data) * int(damage) // 101] ^= 1
    log.write_bytes(data)
    return copy


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["torn", "zeros", *map(str, BYTES)])
@pytest.mark.parametrize("source", SOURCES[::2], ids=lambda one: f"{one.parent.parent.name}-{one.name}")
def test_verify_and_salvage_count_a_loss_alike(source: Path, damage: str, tmp_path: Path) -> None:
    copy = damaged(source, tmp_path, damage)
    assert by_salvage(tmp_path, copy) == by_verify(copy)


@pytest.mark.parametrize(("release", "topic", "lost"), [
    ("0.8.2.2", "gzip-0", (71, 82, None)),
    ("0.9.0.1", "lz4-0", (71, 82, None)),
    ("0.9.0.1", "plain-0", (65, 65, 1)),
    ("0.10.2.2", "gzip-0", (71, 82, None)),
    ("3.9.2", "zstd-0", (71, 82, 12)),
])  # fmt: skip
def test_a_torn_last_batch_is_lost_in_every_format(
    release: str, topic: str, lost: tuple[int, int, int | None], tmp_path: Path
) -> None:
    """The header of an old wrapper has its last offset: that was given out, and is lost."""
    copy = damaged(FIXTURES / "releases" / release / "logs" / topic, tmp_path, "torn")
    assert by_verify(copy) == counted([lost])
    assert by_salvage(tmp_path, copy) == counted([lost])
