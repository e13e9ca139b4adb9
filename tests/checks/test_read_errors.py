"""A disk with bad sectors: each is told with what is lost, and everything else is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kdump.finding import Code, Finding
from kdump.item import SegmentChecked
from kdump.rows.steps import Step
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.file_source import FileSource
from kdump.storage.tolerant import TolerantSource
from kdump.verdict_status import VerdictStatus
from tests.support.bad_sectors import unreadable
from tests.support.partitions import name, segment, write
from tests.support.segments import batch
from tests.support.verify_runs import items_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BLOCK = 4096
SIZE = len(batch(0, [b"v" * 20_000]))
BATCHES = 40


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of forty batches of one record, each of 20 KB."""
    files = segment(0, [batch(offset, [b"v" * 20_000]) for offset in range(BATCHES)])
    return write(tmp_path / "topic-0", files) / name(0)


def told(items: Sequence[object]) -> list[tuple[str, int | None, int | None, bool, int | None, int | None]]:
    """What the errors say."""
    return [
        (one.code.name, one.position, one.length, one.gap, one.offset, one.last_offset)
        for one in items
        if isinstance(one, Finding) and one.severity.name == "ERROR"
    ]


def test_a_bad_sector_in_a_batch_is_told_with_its_offsets_and_the_rest_is_read(log: Path) -> None:
    bad = 10 * SIZE + BLOCK
    bad -= bad % BLOCK
    with unreadable(log, range(bad + 100, bad + 200)):
        items = items_of(log.parent)
    assert told(items) == [("F06", bad, BLOCK, False, 10, 10)]
    checked = next(one for one in items if isinstance(one, SegmentChecked))
    assert (checked.batches, checked.is_read, checked.next_offset) == (BATCHES, True, BATCHES)
    losses = [one for one in items if isinstance(one, Loss)]
    assert [(one.position, one.length, one.offset, one.last_offset, one.records) for one in losses] == [
        (10 * SIZE, SIZE, 10, 10, 1)
    ]
    assert (losses[0].certainty, losses[0].because) == (Certainty.DOUBTFUL, ("F06",))


def test_a_bad_sector_over_a_header_is_a_gap_and_the_rest_is_read(log: Path) -> None:
    bad = 10 * SIZE
    bad -= bad % BLOCK
    with unreadable(log, range(bad, bad + BLOCK)):
        items = items_of(log.parent)
    found = told(items)
    assert [one for one in found if one[0] == "F06"] == [
        ("F06", bad, BLOCK, True, 9, 10),  # of the batch before it nobody knows the end either
    ]
    assert {one[0] for one in found} == {"F06", "L09"}
    checked = next(one for one in items if isinstance(one, SegmentChecked))
    assert (checked.batches, checked.is_read, checked.next_offset) == (BATCHES - 2, True, BATCHES)


def test_what_the_disk_cannot_read_is_exit_5_and_its_copy_is_the_first_step(log: Path) -> None:
    with unreadable(log, range(10 * SIZE + 8192, 10 * SIZE + 8193)):
        items = items_of(log.parent)
    status = VerdictStatus("error", compat=False)
    for one in items:
        status.see(one)
    assert status.exit == 5
    first = next(one for one in items if isinstance(one, Step))
    assert "ddrescue" in first.why


def test_zeros_that_cannot_be_read_are_told_though_a_crc_is_right(tmp_path: Path) -> None:
    path = write(tmp_path / "topic-0", segment(0, [batch(0, [bytes(50_000)]), batch(1)])) / name(0)
    with unreadable(path, range(8192, 8193)):
        assert told(items_of(path.parent)) == [("F06", 8192, BLOCK, False, None, None)]


def test_a_long_stretch_is_found_exactly_by_few_reads(log: Path) -> None:
    bad = range(40 * BLOCK, 160 * BLOCK)
    with FileSource(str(log)) as file, unreadable(log, bad) as failed:
        source = TolerantSource(file)
        data = source.read_at(0, file.size)
        assert source.unreadable(0, file.size) == [(bad.start, bad.stop, "Input/output error")]
        again = len(failed)
        assert source.read_at(30 * BLOCK, 100 * BLOCK) == data[30 * BLOCK : 130 * BLOCK]
    assert len(failed) == again < 40
    whole = log.read_bytes()
    assert data == whole[: bad.start] + bytes(len(bad)) + whole[bad.stop :]


def test_scattered_sectors_are_told_one_by_one(log: Path) -> None:
    bad = [range(at, at + 1) for at in (5, 9 * BLOCK, 11 * BLOCK, 150 * BLOCK + 7)]
    with FileSource(str(log)) as file, unreadable(log, *bad):
        source = TolerantSource(file)
        source.read_at(0, file.size)
        found = [(start, end) for start, end, _ in source.unreadable(0, file.size)]
    assert found == [(one.start - one.start % BLOCK, one.start - one.start % BLOCK + BLOCK) for one in bad]
    assert Code.F06.severity.name == "ERROR"
