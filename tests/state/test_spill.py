"""What coordinators hold beyond a bound lies in a file without a name: the same rows, and memory within bounds."""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from kdump.format.read_limits import ReadLimits
from kdump.state import spill
from kdump.state.groups import GroupOptions, groups
from kdump.state.transactions import TransactionOptions, transactions
from tests.support.coordinator_records import classic, commit, text, transaction
from tests.support.measured import cost
from tests.support.partitions import name, write
from tests.support.runs import FIXTURES
from tests.support.scan_windows import COMPILED
from tests.support.segments import TIME, ZSTD, Record, batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OFFSETS, TRANSACTIONS = "__consumer_offsets-0", "__transaction_state-0"
NODES = sorted(str(one.parent) for one in FIXTURES.glob(f"*/**/{OFFSETS}") if one.is_dir())
COUNT, METADATA = 40_000, 4000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that the smallest log is above."""
    for bound in ("_MOST_HELD", "_LOOKED_AT", "_LEAST"):
        monkeypatch.setattr(spill, bound, 1)


def rows_of(paths: list[str], **asked: Any) -> list[str]:
    """What groups and transactions come to."""
    limits = ReadLimits()
    what: dict[str, Any] = {
        "at": None,
        "diff": None,
        "groups": frozenset(),
        "topics": frozenset(),
        "lag": False,
        **asked,
    }
    of_groups = groups(paths, GroupOptions(limits=limits, **what | asked))
    of_transactions = transactions(paths, TransactionOptions(None, False, limits)) if not asked else ()
    return [repr(one) for one in (*of_groups, *of_transactions)]


@pytest.mark.parametrize("node", NODES, ids=lambda node: os.path.relpath(node, FIXTURES))
def test_rows_are_the_same_whether_values_fit_into_memory_or_not(node: str, request: pytest.FixtureRequest) -> None:
    asked: list[dict[str, Any]] = [{}, {"diff": (TIME, None)}, {"topics": frozenset({"plain"})}]
    in_memory = [rows_of([node], **one) for one in asked]
    request.getfixturevalue("small")
    assert [rows_of([node], **one) for one in asked] == in_memory


def changing(rounds: int) -> Iterator[bytes]:
    """A log whose keys get new values, by known keys, in transactions and by tombstones."""
    offset = 0
    for turn in range(rounds):
        records = [commit(f"g{n}", n % 3, None if (turn + n) % 7 == 0 else turn) for n in range(20)]
        records += [classic(f"g{n}", None if (turn + n) % 11 == 0 else turn, members=n % 3) for n in range(20)]
        pending = turn % 2
        yield batch(offset, records, producer=(5, 0, 0) if pending else (-1, -1, -1), flags=16 * pending)
        offset += len(records)


def test_what_newer_values_have_replaced_is_not_kept(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    class Watched(spill.Spill):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr("kdump.state.group_coordinator.Spill", Watched)
    monkeypatch.setattr(spill, "_MOST_HELD", 300)
    write(tmp_path, {f"{OFFSETS}/{name(0)}": b"".join(changing(60))})
    found = rows_of([str(tmp_path)])
    largest = max(one._end for one in made)
    assert 0 < largest < 20_000  # of some 150,000 that were written
    monkeypatch.undo()
    assert rows_of([str(tmp_path)]) == found


def test_transactions_are_read_back_from_the_file(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    records = [transaction(f"x{n}", n, "Ongoing", {"t" * 200: range(n)}) for n in range(1, 60)]
    write(tmp_path, {f"{TRANSACTIONS}/{name(0)}": batch(0, records)})
    open_there = batch(0, [Record()], producer=(9, 0, 0), flags=16)
    write(tmp_path, {f"t-0/{name(0)}": open_there})
    in_memory = rows_of([str(tmp_path)])
    request.getfixturevalue("small")
    assert rows_of([str(tmp_path)]) == in_memory
    assert any("OpenRow" in one and "x9" in one for one in in_memory)


def many(root: Path) -> None:
    """Commits with 4 KB of metadata each: 0.2 MB on disk, 160 MB as they are read."""
    parts = []
    for first in range(0, COUNT, 4000):
        value = struct.pack(">hqi", 3, 5, 5) + text("x" * METADATA) + struct.pack(">q", TIME)
        keys = [struct.pack(">h", 1) + text(f"g{n:06}") + text("t") + bytes(4) for n in range(first, first + 4000)]
        parts.append(batch(first, [Record(value, key) for key in keys], codec=ZSTD))
    write(root, {f"ld/{OFFSETS}/{name(0)}": b"".join(parts)})


@pytest.mark.skipif(not COMPILED, reason="tens of thousands of records: the kernels' work")
def test_groups_whose_values_unfold_stay_within_memory(tmp_path: Path) -> None:
    """235 KB took 591 MB."""
    many(tmp_path)
    done = cost("groups", "--format", "json", "ld", cwd=tmp_path, seconds=100, keep=False)
    assert done.status == 0
    assert done.memory < 230


@pytest.mark.skipif(not COMPILED, reason="tens of thousands of records: the kernels' work")
def test_a_full_disk_is_said_in_one_line_with_status_13(tmp_path: Path) -> None:
    many(tmp_path)
    limited = f"ulimit -f 1024; exec {shlex.quote(sys.executable)} -P -m kdump groups --format json ld | cat"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", limited], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 13
    assert done.stderr.count(b"\n") == 1
    assert b"cannot be written to a temporary file: File too large" in done.stderr
    assert b"TMPDIR" in done.stderr


@pytest.mark.usefixtures("small")
def test_nothing_is_written_into_a_log_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {f"{OFFSETS}/{name(0)}": batch(0, [commit("g", 0, 1)]), "meta.properties": b"version=1\n"})
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises(spill.SpillError, match="lies in a log directory: set TMPDIR"):
        rows_of([str(tmp_path)])
