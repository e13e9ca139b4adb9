"""What a `.swap` replaces when a broker starts, and a reader can read today, counts in the prediction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.partitions import Files, below, checkpoint, meta, name, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

OLD = [batch(at, [b"v%d" % at]) for at in range(10)]
LATER = [batch(at, [b"w"]) for at in range(10, 15)]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def cases() -> dict[str, tuple[bytes, dict[str, int]]]:
    """Content of a swap, and the records that starts lose: after a clean stop, and with a recovery of all."""
    whole, kept = b"".join(OLD), [part for at, part in enumerate(OLD) if at % 2]
    return {
        "as it was": (whole, {"clean": 0, "full": 0}),
        "compacted": (b"".join(kept), {"clean": 0, "full": 0}),
        "a flipped byte in the third batch": (
            b"".join([*OLD[:2], flipped(OLD[2]), *OLD[3:]]),
            {"clean": 1, "full": 13},
        ),
        "compacted, and a flipped byte": (b"".join([*kept[:-1], flipped(kept[-1])]), {"clean": 1, "full": 7}),
        "torn": (whole[: len(whole) - 20], {"full": 6}),
    }


@pytest.mark.parametrize("case", cases())
def test_the_records_that_a_swap_takes_from_readers_count(case: str, tmp_path: Path) -> None:
    swap, expected = cases()[case]
    files: Files = segment(0, OLD, interval=1) | segment(10, LATER, interval=1)
    files |= {f"{name(0)}.swap": swap, "leader-epoch-checkpoint": checkpoint((0, 0))}
    write(tmp_path, below("data/t-0", files) | {"data/meta.properties": meta(1)})
    run = run_kdump(["verify", "data", "--start", "all", "--format", "json"], tmp_path)
    rows = {row["start"]: row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "prediction"}
    assert {start: rows[start]["recordsLost"] for start in expected} == expected
