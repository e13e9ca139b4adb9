"""Transactions whose state unfolds: memory and time follow the bytes that are read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from tests.support.measured import cost
from tests.support.partitions import name, write
from tests.support.scan_windows import COMPILED
from tests.support.segments import ZSTD, Record, batch

if TYPE_CHECKING:
    from pathlib import Path

MOST_MEMORY = 300  # MiB


def unfolding(count: int, partitions: int) -> bytes:
    """A log of a coordinator: each transaction has hundreds of partitions of one topic with a long name."""
    topic = b"t" * 240
    value = struct.pack(">hqhib", 0, 7, 0, 60000, 1) + struct.pack(">ih", 1, len(topic)) + topic
    value += struct.pack(f">i{partitions}iqq", partitions, *range(partitions), 1795219607316, 1795219607316)
    return batch(0, [Record(value, struct.pack(">hh", 0, 9) + b"x%08d" % n) for n in range(count)], codec=ZSTD)


@pytest.mark.parametrize("layout", ["text", "json"])
def test_transactions_that_unfold_are_written_one_by_one(layout: str, tmp_path: Path) -> None:
    """13,854 bytes took 861 MB."""
    write(tmp_path / "ld" / "__transaction_state-0", {name(0): unfolding(1500, 900)})
    done = cost("transactions", "--format", layout, "ld", cwd=tmp_path, seconds=100, keep=False)
    assert done.status == 0
    assert done.memory < MOST_MEMORY / 2


@pytest.mark.skipif(not COMPILED, reason="the walk is the kernels' work")
def test_open_transactions_are_measured_in_one_pass(tmp_path: Path) -> None:
    """Each window was walked once for each of them: 20,000 took 34 s."""
    spent = []
    for count in (2500, 10_000):
        parts = [batch(n, [Record()], producer=(n, 0, 0), flags=16) for n in range(count)]
        write(tmp_path / str(count) / "t-0", {name(0): b"".join(parts)})
        done = cost("transactions", "--format", "json", str(count), cwd=tmp_path, seconds=60)
        assert done.out.count(b'"type":"open"') == count
        spent.append(done.cpu)
    assert spent[1] < 5 * spent[0]
