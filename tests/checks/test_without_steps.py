"""Who wants tables asks for no steps: what is found is the same, and no log is read again for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.checks.table_items import table_items
from kdump.finding import Finding
from kdump.item import PartitionChecked, SegmentChecked
from kdump.rows.steps import Step
from kdump.rows.verdict import Duplicate, Loss
from tests.support.damage_cases import damage_cases
from tests.support.growing_logs import GrowingLog, log_dir
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from tests.support.sample import OneIn

OF_TABLES = Finding, Loss, SegmentChecked, PartitionChecked, Duplicate


def test_what_is_found_is_the_same(tmp_path: Path, one_in: OneIn) -> None:
    count = 0
    for case in one_in(12, damage_cases(FIXTURES / "damage")):
        place = tmp_path / case.name
        case.build(place)
        with_steps, without = (
            list(verify([str(place)], VerifyOptions(has_steps=has_steps))) for has_steps in (True, False)
        )
        count += sum(isinstance(item, Step) for item in with_steps)
        assert not any(isinstance(item, Step) for item in without)
        found = [[item for item in items if isinstance(item, OF_TABLES)] for items in (with_steps, without)]
        assert found[0] == found[1], case.name
    assert count


def test_no_log_is_read_twice_for_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = GrowingLog(log_dir(tmp_path / "disk") / "orders-0")
    log.append(1000)
    log.roll()
    log.append(10)
    read: list[int] = []
    pread, preadv = os.pread, os.preadv

    def one(fd: int, length: int, position: int) -> bytes:
        found = pread(fd, length, position)
        read.append(len(found))
        return found

    def several(fd: int, buffers: Sequence[bytearray | memoryview], position: int) -> int:
        read.append(preadv(fd, buffers, position))
        return read[-1]

    monkeypatch.setattr(os, "pread", one)
    monkeypatch.setattr(os, "preadv", several)
    size = sum(file.stat().st_size for file in log.path.glob("*.log"))
    for table in ("findings", "losses"):
        read.clear()
        assert any(isinstance(item, Finding) for item in table_items(table, [str(tmp_path / "disk")], VerifyOptions()))
        assert size <= sum(read) < 1.1 * size
