"""`dump -j N`: the bytes of one process, whatever is damaged, whoever is killed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.ranges import DumpRanges
from kdump.dump.selected_ranges import SelectedRanges
from kdump.format.record.selection import Selection
from tests.support.runs import FIXTURES, run_kdump
from tests.support.sample import OneIn
from tests.support.terminal import run_in_terminal

CLEAN = FIXTURES / "kafka-4.3.1" / "clean" / "node1"

RUNS = """
import hashlib, json, os, signal, sys
import kdump.workers
import kdump.dump.checked as checked
from kdump.__main__ import main
import kdump.cli.main, kdump.cli.dump, kdump.dump.ranges, kdump.render.turns, kdump.render.json.dump

runs, range_size, kill, folder = json.loads(sys.argv[1])
checked._RANGE = checked._PACKED_RANGE = range_size
once = kdump.workers.Output._out
parent, written = 0, 0

def out(self, which, data):
    global written
    if os.getpid() == parent or not kill:
        return once(self, which, data)
    written += 1
    half = memoryview(data)[: len(data) // 2]
    if written == kill:
        once(self, which, half)
        os.kill(os.getpid(), signal.SIGKILL)
    once(self, which, data)

kdump.workers.Output._out = out
for number, run in enumerate(runs):
    pid = os.fork()
    if pid == 0:
        parent = os.getpid()
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}/{name}{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
        sys.argv = ["kdump", "dump", *run]
        try:
            main()
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(int(end.code or 0))
        os._exit(99)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def dumps(
    folder: Path, runs: list[list[str]], *, range_size: int = 3000, kill: int = 0
) -> list[tuple[int, bytes, bytes]]:
    """Return exit status, stdout and stderr of each run; with `kill` each process dies in the middle of that write."""
    given = json.dumps([runs, range_size, kill, str(folder)])
    ended = subprocess.run([sys.executable, "-c", RUNS, given], stdout=subprocess.PIPE, check=True, cwd=FIXTURES.parent)
    codes = [int(line) for line in ended.stdout.split()]
    return [
        (code, (folder / f"out{number}").read_bytes(), (folder / f"err{number}").read_bytes())
        for number, code in enumerate(codes)
    ]


def of_all(paths: Sequence[Path], options: list[str], jobs: int) -> list[str]:
    return ["-j", str(jobs), *options, *map(str, paths)]


OPTIONS: list[list[str]] = [
    ["--print-data-log"],
    ["--format", "json"],
    ["--format", "json", "--print-data-log"],
    ["--deep-iteration", "--max-bytes", "20000", "--decoder", "auto"],
    ["--stats"],
    ["--stats", "--format", "json"],
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("name", ["plain-0", "txn-0", "compact-0", "zstd-0", "__consumer_offsets-2", "bigbatch-0"])
def test_sound_logs_are_the_same_for_every_number_of_processes(name: str, options: list[str], tmp_path: Path) -> None:
    one, *others = dumps(tmp_path, [of_all([CLEAN / name], options, jobs) for jobs in (1, 2, 3, 8)])
    assert one[1]
    assert others == [one] * 3


SELECTIONS: list[list[str]] = [
    ["--limit", "37", "--print-data-log"],
    ["--limit", "400", "--format", "json"],
    ["--committed", "--format", "json"],
    ["--aborted", "--print-data-log"],
    ["--from-offset", "40", "--to-offset", "150", "--deep-iteration"],
    ["--key-regex", "[37]", "--format", "json", "--print-data-log"],
    ["--from-time", "1700000000100", "--format", "json"],
    ["--from-position", "5000", "--stats"],
    ["--stats", "--committed", "--format", "json"],
    ["--tail", "7", "--format", "json"],
    ["--limit", "9", "--aborted"],
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", SELECTIONS, ids=" ".join)
def test_selections_are_the_same_for_every_number_of_processes(options: list[str], tmp_path: Path) -> None:
    paths = [CLEAN / name for name in ("txn-0", "plain-0", "compact-0", "zstd-0", "bigbatch-0")]
    one, *others = dumps(tmp_path, [of_all(paths, options, jobs) for jobs in (1, 2, 3, 8)])
    assert one[1]
    assert others == [one] * 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", SELECTIONS[:8], ids=" ".join)
def test_selections_of_damaged_logs_are_the_same_for_every_number_of_processes(
    options: list[str], damaged: list[Path], one_in: OneIn, tmp_path: Path
) -> None:
    size = 700 if SELECTIONS.index(options) % 2 else 4000
    some = one_in(5, damaged[::2])
    runs = [of_all(some, options, jobs) for jobs in (1, 2, 3, 8)]
    one, *others = dumps(tmp_path, runs, range_size=size)
    assert one[0] in (0, 3)
    assert others == [one] * 3


@pytest.mark.parametrize("options", [SELECTIONS[1], SELECTIONS[2]], ids=" ".join)
def test_what_a_killed_process_has_selected_is_not_written_twice(options: list[str], tmp_path: Path) -> None:
    one, other = dumps(tmp_path, [of_all([CLEAN / "txn-0"], options, jobs) for jobs in (1, 3)], kill=1)
    assert other[:2] == one[:2]
    assert all(b"a process was killed by signal 9" in line for line in other[2].splitlines())
    assert other[2]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Partitions with one damage each, by a fixed rule: a flipped bit, a hole, a cut, a damaged index."""
    made = []
    folder = tmp_path_factory.mktemp("damaged")
    for name in ("txn-0", "compact-0", "zstd-0", "__consumer_offsets-2"):
        log = max((CLEAN / name).glob("*.log"), key=lambda path: path.stat().st_size)
        size = log.stat().st_size
        for number in range(12):
            copy = folder / f"{number}" / name
            shutil.copytree(CLEAN / name, copy)
            target = copy / log.name if number != 10 else (copy / log.name).with_suffix(".index")
            data = bytearray(target.read_bytes())
            at = (number + 1) * 7919 * 31 % max(1, len(data))
            if number < 8:
                data[at] ^= 1 << number
            elif number == 8:
                data[at : at + 3000] = bytes(len(data[at : at + 3000]))
            elif number == 9:
                del data[size * 2 // 3 :]
            elif number == 10:
                data[at : at + 40] = bytes(len(data[at : at + 40]))
            else:
                (copy / log.name).with_suffix(".index").unlink()
            target.write_bytes(data)
            made.append(copy)
    return made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [one for one in OPTIONS if one != ["--stats"]], ids=" ".join)
@pytest.mark.parametrize("range_size", [700, 9000])
def test_damaged_logs_are_the_same_for_every_number_of_processes(
    options: list[str], range_size: int, damaged: list[Path], one_in: OneIn, tmp_path: Path
) -> None:
    some = one_in(3, damaged)
    runs = [of_all(some, options, jobs) for jobs in (1, 2, 3, 8)]
    one, *others = dumps(tmp_path, runs, range_size=range_size)
    assert one[0] == 3
    assert others == [one] * 3


@pytest.mark.parametrize("kill", [1, 3])
@pytest.mark.parametrize("options", OPTIONS[:3], ids=" ".join)
def test_what_a_killed_process_has_written_is_not_written_twice(options: list[str], kill: int, tmp_path: Path) -> None:
    one, other = dumps(tmp_path, [of_all([CLEAN / "txn-0"], options, jobs) for jobs in (1, 3)], kill=kill)
    assert other[:2] == one[:2]
    lines = other[2].splitlines()
    assert len(lines) == 3
    assert all(b"a process was killed by signal 9" in line for line in lines)


def test_a_closed_pipe_ends_all_processes_at_once() -> None:
    path = str(CLEAN / "bigbatch-0")
    command = [sys.executable, "-m", "kdump", "dump", "-j", "2", "--print-data-log", path, path, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=FIXTURES.parent) as dump:
        assert dump.stdout is not None
        assert dump.stdout.read(8) == b"Dumping "
        dump.stdout.close()
        assert dump.wait(60) == -13


def test_a_missing_file_among_others_has_its_place(tmp_path: Path) -> None:
    log = CLEAN / "plain-0" / "00000000000000000000.log"
    paths = [log, FIXTURES / "nothing.log", log]
    one, other = dumps(tmp_path, [of_all(paths, ["--format", "json"], jobs) for jobs in (1, 3)])
    assert one == other
    assert one[0] == 10


# --- how far it is -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("selection", [None, Selection(keys=(b"no such key",))])
def test_each_range_says_how_far_all_is_and_the_last_that_all_is_done(selection: Selection | None) -> None:
    paths = [str(CLEAN / "plain-0"), str(CLEAN / "no-such-directory"), str(CLEAN / "idem-0")]
    options = DumpOptions(deep=True)
    ranges = DumpRanges(paths, options) if selection is None else SelectedRanges(paths, options, selection)
    far = [ranges.how_far(unit) for unit in ranges.units()]  # type: ignore[arg-type]
    files = [one for path in paths for one in Path(path).glob("*.log" if selection else "*")]
    total = sum(one.stat().st_size for one in files if one.is_file())
    assert far[-1].done == far[-1].total
    assert [one.done for one in far] == sorted(one.done for one in far)
    assert 0 < far[-1].total <= total


@pytest.mark.parametrize("jobs", ["1", "2", "8"])
def test_nothing_found_is_said_on_a_terminal_and_in_a_log_by_any_number_of_processes(jobs: str, tmp_path: Path) -> None:
    where = str(CLEAN / "plain-0")
    for key, said in (("no such key", ["kdump: nothing found for --key 'no such key'"]), (None, [])):
        wanted = ["--key", key] if key is not None else ["--from-offset", "0"]
        args = ["dump", where, *wanted, "-j", jobs]
        seen = run_in_terminal(args, tmp_path)
        assert [line for line in seen.lines if "nothing found" in line] == said
        run = run_kdump(args, tmp_path)
        assert (run.exit, run.stderr.decode().splitlines()) == (0 if key is None else 10, said)
        assert run_kdump([*args, "--quiet"], tmp_path).stderr == b""
        if key is not None:
            assert run_kdump([*args, "--redact"], tmp_path).stderr == b"kdump: nothing found\n"


def test_nothing_is_searched_in_a_file_that_is_not_there(tmp_path: Path) -> None:
    run = run_kdump(["dump", "gone-0", "--key", "k"], tmp_path)
    assert (run.exit, run.stderr) == (10, b"kdump: no such file: gone-0\n")
