"""What the tests share: running kdump, comparing what it wrote, and working on copies of the fixtures.

`golden.py` and `damage.py` build on this for the two layouts of recorded runs (`fixtures/README.md`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

# Releases whose DumpLogSegments was recorded, and what kdump calls them.
COMPAT = {"4.3.1": "4.3", "4.2.1": "4.2", "3.9.2": "3.9"}

# What a dump may end with: 1 would be a bug, 2 a wrong use, above 128 a signal.
FAIR_EXITS = frozenset({0, 3, 4, 5, 6, 10})

SECONDS = 120  # a run that takes longer hangs


# --- running kdump ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Run:
    """How one run of kdump ended: exit code (128 + N after signal N) and what it wrote."""

    exit: int
    stdout: bytes
    stderr: bytes


def run_kdump(args: Sequence[str], cwd: Path) -> Run:
    """Run `kdump ARGS...` in `cwd` as the installed command does, without paying for a new interpreter.

    A forked child has the modules already, and descriptors and a state of its own. Where there is no fork, or
    the variable KDUMP_COMMAND names a command, a process is started.
    """
    command = os.environ.get("KDUMP_COMMAND")
    if command or not hasattr(os, "fork"):
        return _run_command(shlex.split(command or "") or [sys.executable, "-P", "-m", "kdump"], args, cwd)
    main = _main()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = _fork()
        if pid == 0:
            _child(main, args, cwd, out.fileno(), err.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return Run(_as_shells_say(status), out.read(), err.read())


def use_interpreted() -> None:
    """Run the kernels uncompiled even where compiled ones are installed. Call it before kdump is imported."""
    sys.meta_path.insert(0, _SourceOnly())


class _SourceOnly:
    """Finds the modules of kdump as the import system does, but is blind for compiled ones."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("kdump."):
            return None
        finders = (FileFinder(entry, (SourceFileLoader, SOURCE_SUFFIXES)) for entry in path or ())
        return next(filter(None, (finder.find_spec(name) for finder in finders)), None)


@cache
def _main() -> Callable[[], Any]:
    """The entry point, once every module that a run may load is loaded, so that each child has it."""
    main: Callable[[], Any] = importlib.import_module("kdump.__main__").main
    package = importlib.import_module("kdump")
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "kdump.")]
    for name in (*names, "lz4.block", "lz4.frame", "snappy", "zstandard"):
        with contextlib.suppress(Exception):  # a run that needs it will say so
            importlib.import_module(name)
    return main


def _fork() -> int:
    with warnings.catch_warnings():
        # pytest-xdist has threads. What they hold does not matter to a child that runs nothing but kdump.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _child(main: Callable[[], Any], args: Sequence[str], cwd: Path, out: int, err: int) -> NoReturn:
    code = 1
    try:
        signal.alarm(SECONDS)
        os.chdir(cwd)
        for fd, source in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
            os.dup2(source, fd)
        code = _run_main(main, args)
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def _run_main(main: Callable[[], Any], args: Sequence[str]) -> int:
    """Call the entry point as the installed command does; return what the interpreter would exit with."""
    sys.argv = ["kdump", *args]
    with (
        open(0, encoding="utf-8", closefd=False) as sys.stdin,
        open(1, "w", encoding="utf-8", closefd=False) as sys.stdout,
        open(2, "w", encoding="utf-8", closefd=False) as sys.stderr,
    ):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
        if code is None or isinstance(code, int):
            return (code or 0) & 0xFF
        print(code, file=sys.stderr)
    return 1


def _run_command(command: Sequence[str], args: Sequence[str], cwd: Path) -> Run:
    done = subprocess.run(
        [*command, *args],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Run(_as_shells_say(done.returncode), done.stdout, done.stderr)


def _as_shells_say(status: int) -> int:
    return status if status >= 0 else 128 - status


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


def hash_ordered_blocks(stderr: bytes, cwd: str) -> bytes:
    """Order the blocks of each kind as Kafka does in `cwd`: by Java's hash of the absolute path."""

    def bucket(block: bytes) -> int:
        path = cwd + block.partition(b"\n")[0].partition(b"{CWD}")[2].decode()
        value = java_hash(path)
        return (value ^ (value >> 16)) & 15  # a HashMap of up to 12 entries has 16 buckets

    return b"".join(block for kind in blocks(stderr).values() for block in sorted(kind, key=bucket))


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
