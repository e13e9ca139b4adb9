"""`-j N` of the verbs that count, salvage and carve: the output, the files and the exit status of one process."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kdump.rescue import carve, image_search
from kdump.rescue.carve import CarveOptions
from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES, Run, copy_tree, run_kdump
from tests.support.segments import GZIP, batch, message

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
CASES = damage_cases(FIXTURES / "damage")
MANY = (2, 3, 8)


def files(folder: Path) -> dict[str, bytes]:
    """All files below a directory."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def same(args: list[str], cwd: Path) -> Run:
    """Run with one process and with several: nothing differs; return the run of one."""
    one = run_kdump([*args, "-j", "1"], cwd)
    for jobs in MANY:
        other = run_kdump([*args, "-j", str(jobs)], cwd)
        assert (other.exit, other.stdout, other.stderr) == (one.exit, one.stdout, one.stderr), jobs
    return one


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log directories with a damage each, by a fixed rule."""
    folder = tmp_path_factory.mktemp("damaged")
    for number, case in enumerate(CASES[::29]):
        case.build(folder / f"d{number}")
    return folder


# --- du -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("by", ["topic", "partition", "kind", "codec", "producer", "day", "group", "key"])
def test_du_is_the_same_for_every_number_of_processes(by: str, damaged: Path) -> None:
    paths = [str(path) for path in sorted(damaged.iterdir())]
    for layout in ("json", "text") if by == "partition" else ("json",):
        now = ["--now", "1795219700000", "--full-at", "1G"]
        one = same(["du", "--by", by, "--format", layout, "--superseded", *now, str(NODE), *paths], FIXTURES)
        assert one.exit == 3
        assert one.stdout


# --- salvage ------------------------------------------------------------------------------------------------------
def salvaged(args: list[str], cwd: Path, jobs: int) -> tuple[int, bytes, bytes, dict[str, bytes]]:
    out = cwd / "out"
    run = run_kdump(["salvage", *args, "--to", "out", "-j", str(jobs)], cwd)
    found = files(out) if out.exists() else {}
    if out.exists():
        out.rename(cwd / f"out{jobs}-{len(list(cwd.iterdir()))}")
    return run.exit, run.stdout, run.stderr, found


def test_salvage_is_the_same_for_every_number_of_processes(damaged: Path, tmp_path: Path) -> None:
    sources = [str(NODE), *(str(path) for path in sorted(damaged.iterdir())[:2])]
    for layout, some in (("json", sources), ("text", sources[:1])):
        one, *others = (salvaged(["--format", layout, *some], tmp_path, jobs) for jobs in (1, *MANY))
        assert any(name.endswith(".log") for name in one[3])
        assert others == [one] * 3


def test_the_doubtful_records_are_the_same_for_every_number_of_processes(damaged: Path, tmp_path: Path) -> None:
    found = []
    for jobs in (1, *MANY):
        name = f"doubtful{jobs}"
        salvaged(["--doubtful", name, *map(str, sorted(damaged.iterdir()))], tmp_path, jobs)
        found.append((tmp_path / name).read_bytes())
    assert found == [found[0]] * 4


KILLED = """
import os, signal, sys
from kdump.__main__ import main
from kdump.storage.fsops import FileOps
import {module}
here, call, made = os.getpid(), FileOps.call, 0
def counted(self, name, *args, **named):
    global made
    made += os.getpid() != here
    if made == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return call(self, name, *args, **named)
FileOps.call = counted
sys.argv = ["kdump", *{args!r}]
main()
"""


@pytest.mark.parametrize("at", [1, 9])
def test_what_a_killed_process_salvaged_is_salvaged_again(at: int, tmp_path: Path) -> None:
    for name in ("plain-0", "txn-0", "compact-0", "zstd-0"):
        copy_tree(NODE / name, tmp_path / "d" / name)
    one = salvaged(["d"], tmp_path, 1)
    args = ["salvage", "d", "--to", "out", "-j", "2"]
    script = KILLED.format(module="kdump.rescue.salvage", at=at, args=args)
    env = {**os.environ, "PYTHONPATH": str(FIXTURES.parent)}
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=False, env=env)
    lines = run.stderr.decode().splitlines()
    told = [line for line in lines if "a process was killed by signal 9; its share is done again" in line]
    assert len(told) == 2
    assert (run.returncode, run.stdout, files(tmp_path / "out")) == (one[0], one[1], one[3])
    assert not [path for path in os.listdir(tmp_path / "out") if path.startswith(".")]


# --- carve --------------------------------------------------------------------------------------------------------
def carved(image: Path, folder: Path, jobs: int) -> tuple[list[str], dict[str, bytes]]:
    target = folder / f"carved{jobs}"
    items = carve.carve([str(image)], CarveOptions(str(target), jobs=jobs), lambda run: f"{run.offset}\n")
    told = [re.sub(r"carved\d", "", repr(item)) for item in items]
    return told, files(target)


@pytest.mark.parametrize("size", [700, 4096, 50_000])
def test_carve_finds_the_same_runs_for_every_number_of_processes(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carve, "_RANGE", size)
    image = tmp_path / "image"
    whole = gzip.decompress((FIXTURES / "carve" / "ext4.img.gz").read_bytes())
    image.write_bytes(whole if size > 4096 else whole[: len(whole) // 8])
    one, *others = (carved(image, tmp_path, jobs) for jobs in (1, *MANY))
    assert len(one[1]) > 1
    assert others == [one] * 3


def hostile() -> bytes:
    """Batches that reach over borders, lie in others, are large, or say that they are; messages; bytes of no file."""
    inner = batch(7, [b"x" * 40]) + batch(8, [b"y" * 300])
    parts = [b"\0" * 130]
    for n in range(60):
        parts.append(batch(10 * n, [b"v" * (n * 37 % 900), inner if n % 3 == 0 else b"w"]))
        parts.append(batch(10 * n + 5, [b"z" * 2000], codec=GZIP) if n % 7 == 0 else b"\x02" * (n % 50))
        large = bytearray(batch(10 * n + 8, [b"l" * 1500 + inner]))
        large[8:12] = (len(large) + 5000).to_bytes(4, "big")  # a claim that fails
        parts.append(bytes(large) if n % 5 == 1 else batch(10 * n + 8, [b"l" * 3000 + inner]) if n % 5 == 2 else b"")
        parts += [message(n % 2, n * 9 + k, b"m" * (n + k)) for k in range(n % 4)]
    return b"".join(parts)


@pytest.mark.parametrize("size", [130, 301, 999, 2048])
def test_carve_of_what_reaches_over_borders_is_the_same(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carve, "_RANGE", size)
    monkeypatch.setattr(image_search, "_WINDOW", 700)
    monkeypatch.setattr(image_search, "_AHEAD", 300)
    monkeypatch.setattr(image_search, "_HASHED_LEAST", 1 << 12)
    image = tmp_path / "image"
    image.write_bytes(hostile())
    one, *others = (carved(image, tmp_path, jobs) for jobs in (1, *MANY))
    assert len(one[1]) > 20
    assert others == [one] * 3


# --- export -------------------------------------------------------------------------------------------------------
SMALL = [str(NODE / f"{topic}-0") for topic in ("plain", "zstd", "txn", "compact", "__transaction_state")]


def rows_of(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files(folder).items() if not name.startswith("_kdump")}


@pytest.mark.parametrize("table", ["records", "batches", "findings", "usage", "commits", "open"])
def test_export_is_the_same_for_every_number_of_processes(table: str, tmp_path: Path) -> None:
    found = []
    for jobs in (1, *MANY):
        paths = SMALL if table != "commits" else [str(NODE / "__consumer_offsets-2")]
        args = ["export", "--table", table, "--to", f"out{jobs}", "-j", str(jobs), *paths]
        run = run_kdump(args, tmp_path)
        assert run.exit == 0, run.stderr
        said = run.stderr.replace(f" of out{jobs}\n".encode(), b"\n")
        found.append((run.stdout, said, rows_of(tmp_path / f"out{jobs}")))
    assert found[0][2]
    if table == "usage":  # the clock is in it
        found = [(out, err, dict.fromkeys(rows, b"")) for out, err, rows in found]
    assert found[1:] == [found[0]] * 3


EXPORT_KILLED = """
import os, signal, sys
from kdump.__main__ import main
import kdump.export.write as write
here, once = os.getpid(), write.RowFile.write
def killed(self, batch):
    once(self, batch)
    if os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
write.RowFile.write = killed
sys.argv = ["kdump", *sys.argv[1:]]
main()
"""


def test_the_temporary_file_of_a_killed_export_is_removed(tmp_path: Path) -> None:
    run_kdump(["export", "--to", "whole", *SMALL], tmp_path)
    env = {**os.environ, "PYTHONPATH": str(FIXTURES.parent)}
    command = [sys.executable, "-c", EXPORT_KILLED, "export", "--to", "out", "-j", "2", *SMALL]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, env=env)
    assert run.returncode == 0
    assert run.stderr.decode().count("a process was killed by signal 9; its share is done again") == 2
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "whole")
    assert not [name for name in files(tmp_path / "out") if name.endswith(".tmp")]


# --- the end of all ------------------------------------------------------------------------------------------------
SLOW = """
import os, sys, time
from kdump.__main__ import main
import kdump.usage.fold as fold
once = fold.PartFold.count
def count(self, *args):
    os.write(2, f"{os.getpid()}\\n".encode())
    time.sleep(60)
    return once(self, *args)
fold.PartFold.count = count
sys.argv = ["kdump", "du", "-j", "3", sys.argv[1]]
main()
"""


def test_ctrl_c_ends_all_processes_at_once() -> None:
    command = [sys.executable, "-c", SLOW, str(NODE)]
    with subprocess.Popen(command, cwd=FIXTURES.parent, stderr=subprocess.PIPE) as run:
        assert run.stderr is not None
        workers = [int(run.stderr.readline()) for _ in range(3)]
        assert run.pid not in workers
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == -signal.SIGINT  # 130 in a shell
        said = run.stderr.read()  # it ends when nobody holds the pipe
        assert re.fullmatch(rb"kdump: [a-z-]+ was interrupted[^\n]*\n", said), said
        for worker in workers:
            for _ in range(500):
                if not Path(f"/proc/{worker}").exists():
                    break
                time.sleep(0.01)
            assert not Path(f"/proc/{worker}").exists()


def test_the_summary_of_du_is_that_of_all_processes() -> None:
    rows = [json.loads(line) for line in same(["du", "--format", "json", str(NODE)], FIXTURES).stdout.splitlines()]
    assert rows[-1]["type"] == "summary"
    assert rows[-1]["batches"] > 1000
