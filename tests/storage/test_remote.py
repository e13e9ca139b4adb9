"""A verb reads a directory behind a URL as it reads the same directory on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.partitions import below, checkpoint, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

COMMANDS = [
    ("dump", "logs", "--format", "json"),
    ("verify", "logs", "--engine", "local", "--start", "all", "--format", "json", "--now", "1800000000000"),
    ("find-offset", "logs/t-0", "5", "--format", "json"),
    ("find-time", "logs/t-0", "max", "--format", "json"),
    ("retention", "logs", "--set", "retention.ms=1", "--now", "1800000000000", "--format", "json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_url_gives_what_the_path_gives(command: tuple[str, ...], tmp_path: Path) -> None:
    partition = {"leader-epoch-checkpoint": b"0\n1\n0 0\n"}
    for base in (0, 4):
        partition |= segment(base, [batch(base + n, [Record(b"k")], epoch=0) for n in range(4)], interval=0)
    files = {**below("t-0", partition), "log-start-offset-checkpoint": checkpoint(("t", 0, 1))}
    write(tmp_path / "logs", files)
    verb, path, *options = command
    local = run_kdump([verb, f"{tmp_path}/{path}", *options], tmp_path)
    remote = run_kdump([verb, f"file://{tmp_path}/{path}", *options], tmp_path)
    assert local.exit == 0, local.stderr
    shown = remote.stdout.replace(b"file://", b"").replace(b"file:/", b"/")
    assert (remote.exit, shown) == (local.exit, local.stdout)
