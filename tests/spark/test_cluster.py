"""A standalone cluster whose worker has another environment, another directory, and not all disks of the driver.

Each table has its rows or raises: no rows never stand for what a worker could not look at.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.export.tables import TABLES
from tests.support.fleet import NODE, twice
from tests.support.standalone import master, why_nothing_can_be_hidden, worker
from tests.support.tables import local_table, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]
_TABLES = [name for name in TABLES if name not in ("unread", "replicaDiffs")]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master."""
    with master(tmp_path_factory.mktemp("master")) as found:
        yield found


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a log directory, and a manifest of it elsewhere."""
    folder = tmp_path_factory.mktemp("disk")
    (folder / "data").mkdir()
    shutil.copytree(NODE, folder / "data" / "node", symlinks=True)
    twice(folder / "data" / "node")
    with (folder / "data" / "node" / "txn-0" / f"{0:020}.log").open("r+b") as log:
        log.seek(500)
        log.write(b"X")
    (folder / "lists").mkdir()
    row = {"host": "broker-1", "log.dir": "/var/kafka", "path": "../data/node"}
    (folder / "lists" / "fleet.json").write_text(json.dumps([row]))
    return folder


def tables_of(url: str, folder: Path, path: str, *tables: str) -> dict[str, dict[str, object]]:
    """Read tables with a driver of its own, which works in a directory."""
    left_out = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    given = {name: value for name, value in os.environ.items() if name not in left_out}
    given["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [given.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-m", "tests.support.cluster_tables", url, path, *tables]
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=540)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(tables), done.stderr[-4000:]
    return {one.pop("table"): one for one in found}


def hidden_or_skip() -> None:
    if (why := why_nothing_can_be_hidden()) is not None:
        pytest.skip(f"not run: no disk can be hidden from a worker: {why}")


def test_a_worker_elsewhere_has_the_rows_of_a_relative_path(url: str, disk: Path, tmp_path: Path) -> None:
    with worker(url, tmp_path / "worker"):
        found = tables_of(url, disk / "data", "node", *TABLES)
    for table in TABLES:
        assert found[table] == {"rows": sorted_rows(local_table([str(disk / "data" / "node")], table))}, table
        assert table in ("unread", "replicaDiffs") or found[table]["rows"], table


def test_a_manifest_that_only_the_driver_has_tells_hosts(url: str, disk: Path, tmp_path: Path) -> None:
    hidden_or_skip()
    with worker(url, tmp_path / "worker", hidden=[disk / "lists"]):
        found = tables_of(url, disk, "lists/fleet.json", *_TABLES)
    for table in _TABLES:
        rows = found[table].get("rows")
        assert isinstance(rows, list), found[table]
        assert len(rows) == local_table([str(disk / "data" / "node")], table).num_rows > 0
        assert all("'broker': 1, 'host': 'broker-1', 'logDir': '/var/kafka'" in row for row in rows), table


def test_a_worker_without_the_disk_has_no_table(url: str, disk: Path, tmp_path: Path) -> None:
    hidden_or_skip()
    permissive = [f"{table}:permissive" for table in TABLES]
    with worker(url, tmp_path / "worker", hidden=[disk / "data"]):
        found = tables_of(url, disk / "data", "node", *TABLES, *permissive)
    for table in TABLES:
        reason = str(found[table].get("raises"))
        assert "UnreadError" in reason, found[table]
        assert str(disk / "data") in reason
        assert "mode=permissive" in reason
    logs = sorted((disk / "data" / "node").glob("*-*/*.log"))
    unread, segments = (found[f"{table}:permissive"]["rows"] for table in ("unread", "segments"))
    assert isinstance(unread, list)
    assert isinstance(segments, list)
    for path in logs:
        (row,) = [row for row in unread if f"'file': '{path}'" in row]
        assert "'phase': 'read'" in row
        assert f"'bytes': {path.stat().st_size}" in row
        assert [row for row in segments if f"'file': '{path}'" in row and "'status': 'UNREAD'" in row]
    assert len(segments) == len(logs)
