"""A run lists each directory once and opens each small file once: all checks see one state of a live broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.partitions import below, checkpoint, meta, segment, snapshot, write
from tests.support.segments import Record, batch

_AUDIT = """
import atexit, os, sys
seen = []
def hook(event, args):
    if event in ("open", "os.scandir", "os.listdir") and isinstance(args[0], str):
        seen.append((event, args[0]))
log = sys.argv.pop(1)
def tell():
    lines = [f"{event}\\t{path}\\n" for event, path in list(seen)]
    os.write(os.open(log, os.O_CREAT | os.O_WRONLY), "".join(lines).encode())
sys.addaudithook(hook)
atexit.register(tell)
from kdump.__main__ import main
main()
"""
ROOT = Path(__file__).resolve().parents[2]
SMALL = ("checkpoint", ".snapshot", ".metadata", ".properties")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log.dir with three partitions of three segments, and all small files that a broker writes."""
    partition = {
        "leader-epoch-checkpoint": b"0\n1\n0 0\n",
        "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
    }
    for base in (0, 4, 8):
        partition |= segment(base, [batch(base + n, [Record(b"k")], epoch=0) for n in range(4)], interval=0)
        partition[f"{base + 4:020}.snapshot"] = snapshot()
    files = {"meta.properties": meta(1)}
    for kind in ("recovery-point-offset", "replication-offset", "log-start-offset", "cleaner-offset"):
        files[f"{kind}-checkpoint"] = checkpoint(*(("t", number, 1) for number in range(3)))
    for number in range(3):
        files |= below(f"t-{number}", partition)
    return write(tmp_path_factory.mktemp("once") / "logs", files)


def events_of(logs: Path, tmp_path: Path, *arguments: str) -> Counter[tuple[str, str]]:
    """What a run lists and opens of a log.dir, in a process of its own."""
    log = tmp_path / "events"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _AUDIT, str(log), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, cwd=logs.parent, env=environment)
    assert done.returncode in (0, 4, 7), done.stderr
    found = (tuple(line.split("\t")) for line in log.read_text().splitlines())
    real = ((event, os.path.realpath(logs.parent / path)) for event, path in found)
    return Counter((event, path) for event, path in real if path.startswith(str(logs)))


COMMANDS = [
    ("verify", "logs"),
    ("verify", "logs", "--shallow"),
    ("verify", "logs", "--start", "all"),
    ("verify", "logs/t-1", "--start", "all"),
    ("dump", "logs"),
    ("dump", "logs", "--print-data-log", "--from-offset", "5"),
    ("dump", "logs", "--print-data-log", "--tail", "2"),
    ("dump", "logs/t-0", "--committed"),
    ("find-offset", "logs/t-0", "9"),
    ("find-time", "logs/t-0", "max"),
    ("retention", "logs", "--set", "retention.ms=1", "--now", "1800000000000"),
    ("retention", "logs", "--compaction", "--pass", "--set", "cleanup.policy=compact", "--now", "1800000000000"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_run_lists_each_directory_once_and_opens_each_small_file_once(
    command: tuple[str, ...], logs: Path, tmp_path: Path
) -> None:
    events = events_of(logs, tmp_path, *command)
    lists = {path: count for (event, path), count in events.items() if event != "open"}
    opens = {path: count for (event, path), count in events.items() if event == "open" and path.endswith(SMALL)}
    partitions = (
        [str(logs / f"t-{number}") for number in range(3)] if "logs" in command else [str(logs / command[1][5:])]
    )
    assert {path for path in lists if path != str(logs)} == set(partitions)
    assert set(lists.values()) == {1}, lists
    assert max(opens.values(), default=1) == (2 if "--committed" in command else 1), opens
    if command[0] in ("verify", "retention"):
        assert str(logs / "log-start-offset-checkpoint") in opens


@pytest.mark.parametrize("command", [one for one in COMMANDS if one[0] != "verify"], ids=" ".join)
def test_a_run_opens_each_file_of_a_segment_once(command: tuple[str, ...], logs: Path, tmp_path: Path) -> None:
    events = events_of(logs, tmp_path, *command)
    opens = {path: count for (event, path), count in events.items() if event == "open"}
    assert any(path.endswith(".log") for path in opens)
    assert max(opens.values()) == (2 if "--committed" in command else 1), opens  # the last stable offset comes first


def test_a_verify_of_the_logs_opens_each_file_once_but_a_log_for_its_name_too(logs: Path, tmp_path: Path) -> None:
    opens = {
        path: count for (event, path), count in events_of(logs, tmp_path, "verify", "logs").items() if event == "open"
    }
    del opens[str(logs / ".lock")]  # whether a broker holds it
    assert len(opens) == 3 * 14 + 5
    logs_opened = {count for path, count in opens.items() if path.endswith(".log")}
    assert logs_opened == {2}, "before all else the first offset of each is held against its name"
    assert {count for path, count in opens.items() if not path.endswith(".log")} == {1}, opens
