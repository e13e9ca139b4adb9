"""Logs that wait to be put in place (`.swap`) are read as the logs that the coming start makes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.partitions import Files, below, checkpoint, meta, name, segment, write
from tests.support.salvage_steps import steps_done
from tests.support.segments import batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

ID = b"version: 0\ntopic_id: CCCCCCCCCCCCCCCCCCCCCA"
GONE = f"orders-0.{'0' * 32}-delete"


def log(base: int, count: int) -> Files:
    return segment(base, [batch(base + one, [b"v%d" % (base + one)]) for one in range(count)])


def waiting(base: int, data: bytes) -> Files:
    return {name(base, "log.swap"): data, name(base, "index.swap"): b"", name(base, "timeindex.swap"): b""}


def deleted(files: Files) -> Files:
    return {f"{path}.deleted": data for path, data in files.items()}


FIRST, SECOND, THIRD = log(0, 2), log(2, 3), log(5, 3)
CLEANED = batch(1, [b"v1"]) + batch(4, [b"v4"])
SPLIT = waiting(0, log(0, 3)[name(0)]) | waiting(3, log(3, 3)[name(3)])
DAMAGED = CLEANED[:-1] + bytes([CLEANED[-1] ^ 0x55])


def log_dir(root: Path, files: Files, end: int = 8, *, directory: str = "orders-0", cleaned: int = 5) -> Path:
    ends = checkpoint(("orders", 0, end))
    of_dir: Files = {
        "meta.properties": meta(1),
        "log-start-offset-checkpoint": checkpoint(),
        "recovery-point-offset-checkpoint": ends,
        "replication-offset-checkpoint": ends,
        "cleaner-offset-checkpoint": checkpoint(("orders", 0, cleaned)) if cleaned else checkpoint(),
    }
    return write(root, below("data", of_dir | below(directory, files | {"partition.metadata": ID})))


def offsets_of(root: Path, *sources: str) -> tuple[list[int], str, int]:
    """The offsets of the records that salvage makes, what it says, and its status."""
    run = run_kdump(["salvage", *sources, "--to", "out"], root)
    found: list[int] = []
    for path in sorted((root / "out" / "orders-0").glob("*.log")):
        rows = run_kdump(["dump", str(path), "--format", "json", "--print-data-log"], root).stdout.splitlines()
        found += [row["offset"] for row in map(json.loads, rows) if row["type"] == "record"]
    return found, run.stdout.decode() + run.stderr.decode(), run.exit


@pytest.mark.parametrize("source", ["data", "data/orders-0"])
@pytest.mark.parametrize(
    ("files", "offsets"),
    [
        (waiting(0, CLEANED) | THIRD, [1, 4, 5, 6, 7]),
        (waiting(0, CLEANED) | FIRST | SECOND | THIRD, [1, 4, 5, 6, 7]),
        (waiting(0, CLEANED) | deleted(FIRST) | SECOND | THIRD, [1, 4, 5, 6, 7]),
        (SPLIT | deleted(log(0, 6)) | log(6, 2), list(range(8))),
        (SPLIT | log(0, 6) | log(6, 2), list(range(8))),
        ({name(0, "log.swap"): log(0, 8)[name(0)]}, list(range(8))),
        (FIRST | waiting(2, SECOND[name(2)]) | THIRD, list(range(8))),
        (FIRST | waiting(2, SECOND[name(2)]) | waiting(5, THIRD[name(5)]), list(range(8))),
    ],
    ids=["originals gone", "originals there", "one renamed", "split", "split, all there", "alone", "between", "last"],
)
def test_the_result_is_what_a_start_serves_and_nothing_is_to_be_put_in_place(
    source: str, files: Files, offsets: list[int], tmp_path: Path
) -> None:
    log_dir(tmp_path, files)
    found, text, status = offsets_of(tmp_path, source)
    assert (found, status) == (offsets, 0)
    assert ".log.swap: it counts as the log that it becomes" in text
    assert "leave them in place" in text
    assert "F16" not in text


def test_what_a_broker_throws_away_is_not_put_in_place(tmp_path: Path) -> None:
    """A `.swap` at or above an unfinished `.cleaned` goes with it: its originals are there."""
    files = waiting(0, CLEANED) | {name(0, "log.cleaned"): b""} | FIRST | SECOND | THIRD
    log_dir(tmp_path, files)
    assert offsets_of(tmp_path, "data")[0] == list(range(8))


@pytest.mark.parametrize("data", [DAMAGED, b"x" * 100, CLEANED[:-9]])
def test_where_a_log_that_waits_is_damaged_what_it_is_to_replace_counts_too(data: bytes, tmp_path: Path) -> None:
    log_dir(tmp_path, waiting(0, data) | FIRST | SECOND | THIRD)
    found, text, status = offsets_of(tmp_path, "data")
    assert (found, status) == (list(range(8)), 0)
    assert "is sound and has all of this" not in text
    assert "leave them in place" not in text


def test_what_is_damaged_elsewhere_is_mended_with_the_records_that_wait(tmp_path: Path) -> None:
    torn = THIRD | {name(5): THIRD[name(5)][:-3]}
    log_dir(tmp_path, waiting(0, CLEANED) | torn)
    assert offsets_of(tmp_path, "data")[0] == [1, 4, 5, 6]
    work = tmp_path / "work"
    work.mkdir()
    placed, faults = steps_done([(tmp_path / "data").resolve()], work)
    assert (placed, faults) == (1, [])


def test_a_directory_on_its_way_out_may_have_nothing_else(tmp_path: Path) -> None:
    log_dir(tmp_path, {name(0, "log.swap"): log(0, 8)[name(0)]}, directory=GONE)
    found, text, _ = offsets_of(tmp_path, "data")
    assert found == list(range(8))
    assert f"copy data/{GONE} before a broker starts" in text
