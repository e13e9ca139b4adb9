"""What the tests share: running kdump, comparing what it wrote, and working on copies of the fixtures.

`golden.py` and `damage.py` build on this for the two layouts of recorded runs (`fixtures/README.md`).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

# Releases whose DumpLogSegments was recorded, and what kdump calls them.
COMPAT = {"4.4.0": "4.4", "4.3.1": "4.3", "4.2.1": "4.2", "3.9.2": "3.9"}

# What a dump may end with: 1 would be a bug, 2 a wrong use, above 128 a signal.
FAIR_EXITS = frozenset({0, 3, 4, 5, 6, 10})


# --- running kdump ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Run:
    """How one run of kdump ended: exit code (128 + N after signal N) and what it wrote."""

    exit: int
    stdout: bytes
    stderr: bytes


def run_kdump(args: Sequence[str], cwd: Path) -> Run:
    """Run `kdump ARGS...` in `cwd` as the installed command does, without paying for a new interpreter.

    Where there is no fork, or the variable KDUMP_COMMAND names a command, a process is started.
    """
    command = os.environ.get("KDUMP_COMMAND")
    if command or not hasattr(os, "fork"):
        return _run_command(shlex.split(command or "") or [sys.executable, "-P", "-m", "kdump"], args, cwd)
    return _server(os.getpid(), os.environ.get("KDUMP_INTERPRETED") == "1").run(args, cwd)


def run_on_full_disk(args: Sequence[object], cwd: Path) -> Run:
    """Run `kdump ARGS...` in `cwd` with a stdout to which nothing can be written."""
    command = shlex.split(os.environ.get("KDUMP_COMMAND", "")) or [sys.executable, "-P", "-m", "kdump"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*command, *map(str, args)],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    return Run(_as_shells_say(done.returncode), b"", done.stderr)


class _Server:
    """A small interpreter that forks a child for each run: forking this one would copy all that it holds."""

    def __init__(self, interpreted: bool) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the server
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        written = self._out.fileno(), self._err.fileno()
        script = Path(__file__).with_name("fork_server.py")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=written,
        )
        atexit.register(self._close, os.getpid())
        package = importlib.import_module("kdump").__file__  # not before: `corpus_check` is to choose which
        self._send([sys.path, package, interpreted, *written])

    def run(self, args: Sequence[str], cwd: Path) -> Run:
        for file in (self._out, self._err):  # the child writes where this stands
            file.seek(0)
            file.truncate()
        self._send([list(args), str(cwd)])
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("kdump cannot be run: see stderr")
        self._out.seek(0)
        self._err.seek(0)
        return Run(_as_shells_say(int(answer)), self._out.read(), self._err.read())

    def _send(self, request: list[object]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # reading its answer will tell
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _close(self, owner: int) -> None:
        if os.getpid() == owner:
            self._process.communicate()
            self._out.close()
            self._err.close()


@cache
def _server(_process: int, interpreted: bool) -> _Server:
    """Return the server of this process: a forked one must not use that of its parent."""
    return _Server(interpreted)


def _run_command(command: Sequence[str], args: Sequence[str], cwd: Path) -> Run:
    done = subprocess.run([*command, *args], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return Run(_as_shells_say(done.returncode), done.stdout, done.stderr)


def _as_shells_say(status: int) -> int:
    return status if status >= 0 else 128 - status


def flat(text: bytes | str) -> str:
    """Return text without line ends and the bars of blocks: sentences stand as they were before they were wrapped."""
    shown = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    return " ".join(shown.replace("\u2503", " ").split())


# --- comparing ----------------------------------------------------------------------------------------------
def differs(what: str, expected: bytes, got: bytes) -> str | None:
    """Describe the first line in which two texts differ; None when they are equal."""
    if expected == got:
        return None
    left, right = expected.split(b"\n"), got.split(b"\n")
    pairs = enumerate(zip(left, right, strict=False))
    at = next((number for number, (a, b) in pairs if a != b), min(len(left), len(right)))
    shown = [_shown(lines[at]) if at < len(lines) else "(end)" for lines in (left, right)]
    return f"{what} line {at + 1}\n    expected {shown[0]}\n    got      {shown[1]}"


def _shown(line: bytes) -> str:
    return repr(line.decode("utf-8", "backslashreplace"))[:300]


def unfair_exit(run: Run) -> str | None:
    """Say what is wrong with an exit code that no dump may end with."""
    if run.exit in FAIR_EXITS:
        return None
    last = run.stderr.decode("utf-8", "backslashreplace").rstrip().rpartition("\n")[2]
    return f"exit {run.exit}: {last[:300]}"


def blocks(stderr: bytes) -> dict[bytes, list[bytes]]:
    """Cut complaints into blocks, by kind: a line that names a file, and the indented lines below it."""
    found: list[bytes] = []
    for line in stderr.splitlines(keepends=True):
        if line.startswith(b"  ") and found:
            found[-1] += line
        else:
            found.append(line)
    kinds: dict[bytes, list[bytes]] = {}
    for block in found:
        kinds.setdefault(block.partition(b"{CWD}")[0], []).append(block)
    return kinds


def sorted_blocks(stderr: bytes) -> bytes:
    """Sort the blocks of each kind; the kinds keep their order."""
    return b"".join(block for kind in blocks(stderr).values() for block in sorted(kind))


def hash_ordered_blocks(stderr: bytes, cwd: str, files: Sequence[str], *, scala: bool) -> bytes:
    """Order the blocks of each kind as Kafka does that is given `files` in `cwd`.

    It keeps them in a hash map by absolute path, which up to 11 entries has 16 buckets. Those that share a bucket
    are in the order of their hashes in Scala's map, and the newest is the first in Java's.
    """

    def place(block: bytes) -> tuple[int, int]:
        name = block.partition(b"\n")[0].partition(b"{CWD}/")[2].decode()
        value = java_hash(f"{cwd}/{name}")
        value ^= value >> 16
        return value & 15, (value ^ 1 << 31) if scala else -files.index(name)

    return b"".join(block for kind in blocks(stderr).values() for block in sorted(kind, key=place))


def java_hash(text: str) -> int:
    """java.lang.String.hashCode, unsigned."""
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value


# --- copies -------------------------------------------------------------------------------------------------
def copy_tree(source: Path, target: Path) -> Path:
    """Copy a tree, writable whatever the original is."""
    for folder, _, names in os.walk(source):
        to = target / Path(folder).relative_to(source)
        to.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(Path(folder) / name, to / name)
    return target


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Give a new directory, by the path that a program in it sees, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="kdump-") as name:
        yield Path(name).resolve()


Fingerprint = dict[str, tuple[int, ...]]


def fingerprint(tree: Path) -> Fingerprint:
    """What shows that a file or directory below `tree` was written, touched, made, replaced or removed."""
    found: Fingerprint = {}
    for folder, _, names in os.walk(tree):
        for path in (Path(folder), *(Path(folder) / name for name in names)):
            stat = path.lstat()
            found[str(path.relative_to(tree))] = (stat.st_ino, stat.st_mode, stat.st_size, stat.st_mtime_ns)
    return found


def changed(before: Fingerprint, after: Fingerprint) -> str | None:
    """Name what was done to the files; None when nothing was."""
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return f"changed files: {', '.join(names)}" if names else None
