#!/usr/bin/env python3
"""Two trees of sources beside each other: what verify, salvage and dump print for the same files must be the same.

    python tests/support/side_by_side.py --old TREE --new TREE --runs 1000 --seed 0 --jobs 2
    python tests/support/side_by_side.py --old TREE --new TREE --corpora fixtures DIR...

A tree is a checkout with its kernels built. Each has one process, which runs the command line again and again. Each run
has a number, from `--seed` on, which decides everything; by its rest `KINDS` says which generator makes the files.
`--corpora` runs over all partition directories below some directories, and over the cases of a damage corpus. What
differs is printed with its number, or its directory, and the first line that differs. Exit status 1 then.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Args = list[str]
_MEMORY = Path("/dev/shm")
_TOGETHER = 25  # runs that a process makes at a time
_OUT = "out"
_MOST = 1 << 24  # bytes of a file of a corpus


# --- the process of one tree --------------------------------------------------------------------------------
def serve() -> None:
    """Answer requests until stdin ends: each is a directory and the arguments of some runs in it, as JSON."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    held = os.memfd_create("stdout")
    for fd in (1, 2):
        os.dup2(held, fd)
    from kdump.cli.main import kdump

    gc.set_threshold(50_000)
    for line in sys.stdin:
        cwd, runs = json.loads(line)
        os.chdir(cwd)
        print(json.dumps([_run(kdump, args, held) for args in runs]), file=answers, flush=True)


def _run(command: Any, args: Args, held: int) -> list[str]:
    """Run kdump once; return what it printed, its status, and what it wrote, line by line."""
    os.ftruncate(held, 0)
    os.lseek(held, 0, os.SEEK_SET)
    code: object = 0
    with (
        open(1, "w", encoding="utf-8", closefd=False) as sys.stdout,
        open(2, "w", encoding="utf-8", closefd=False) as sys.stderr,
    ):
        try:
            command(args, prog_name="kdump")
        except SystemExit as ended:
            code = ended.code
        except Exception as error:  # a bug, in either tree: it is compared too
            code = repr(error)
    text = os.pread(held, os.fstat(held).st_size, 0).decode("utf-8", "backslashreplace")
    written = list(_written(Path(_OUT)))
    shutil.rmtree(_OUT, ignore_errors=True)
    return [*text.splitlines(), f"status {code}", *written]


def _written(root: Path) -> Iterator[str]:
    """What lies below a directory: the rows of salvage as they are, of other files a digest."""
    for path in sorted(one for one in root.rglob("*") if one.is_file()):
        data = path.read_bytes()
        if path.suffix == ".jsonl":
            yield from data.decode("utf-8", "backslashreplace").splitlines()
        else:
            yield f"{path}: {hashlib.sha256(data).hexdigest()}"


class Tree:
    """The process of one tree."""

    def __init__(self, root: str) -> None:
        environ = {**os.environ, "PYTHONPATH": root, "NO_COLOR": "1"}
        command = [sys.executable, "-P", __file__, "--serve"]
        self._process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
        )

    def ask(self, cwd: Path, runs: Sequence[Args]) -> None:
        """Let kdump run in a directory, once for each of some arguments."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps([str(cwd), list(runs)])}\n")
        self._process.stdin.flush()

    def answer(self) -> list[list[str]]:
        """Return what came of each."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process of a tree has ended")
        found: list[list[str]] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


# --- cases --------------------------------------------------------------------------------------------------
def _on(sources: Sequence[str], *more: str) -> list[Args]:
    """The runs over copies of one partition."""
    runs = [["verify", "--format", "json", one] for one in sources]
    return [*runs, ["salvage", "--format", "json", "--to", _OUT, *more, *sources]]


def _names(root: Path, paths: Sequence[Path]) -> list[str]:
    return [str(path.relative_to(root)) for path in paths]


def _healing(root: Path, seed: int) -> list[Args]:
    from tests.support.damaged_copies import damaged_copies

    names = _names(root, damaged_copies(root, Random(seed)).paths)
    alone = names[seed // len(KINDS) % len(names)]
    return [*_on([alone]), *(_on(names)[len(names) :])]


def _overlaps(root: Path, seed: int) -> list[Args]:
    from tests.support.every_record import overlapping

    return _on(_names(root, overlapping(root, seed)))


def _rolls(root: Path, seed: int) -> list[Args]:
    from tests.support.every_record import rolling

    return _on(_names(root, rolling(root, seed)))


def _holes(root: Path, seed: int) -> list[Args]:
    from tests.support.holes import case_of
    from tests.support.partitions import write

    case = case_of(seed)
    write(root, case.files)
    settings = [one for one in case.args if not (root / one).is_dir()]
    paths = [path for path in case.truths if next((root / path).glob("*.log"), None)]
    runs: list[Args] = [["verify", "--format", "json", *case.args]]
    runs += (["salvage", "--format", "json", "--to", _OUT, *settings, path] for path in paths[:1])
    for path in paths[:1]:
        logs = [str(one.relative_to(root)) for one in sorted((root / path).glob("*.log"))]
        runs.append(["dump", "--format", "json", "--committed", "--key", "no such key", *logs])
        runs.append(["verify", "--format", "json", logs[-1]])
        runs.append(["transactions", "--format", "json", path])
        runs.append(["find-offset", "--format", "json", path, "40"])
    return runs


KINDS: tuple[Callable[[Path, int], list[Args]], ...] = (_healing, _holes, _healing, _overlaps, _rolls, _holes)
"""What makes the files of a run: the rest of its number by their count says which."""


class Difference(NamedTuple):
    """A run that came out differently: which, its arguments, and the first lines that differ."""

    what: str
    args: Args
    old: str
    new: str


def compared(trees: tuple[Tree, Tree], what: str, root: Path, runs: Sequence[Args]) -> Iterator[Difference]:
    """Let both trees do the same in a directory; yield what differs."""
    answers = []
    for tree in trees:  # one behind the other: both write to the same place
        tree.ask(root, runs)
        answers.append(tree.answer())
    for args, old, new in zip(runs, *answers, strict=True):
        if old != new:
            k = next((k for k, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), -1)
            yield Difference(what, args, old[k], new[k])


def many(trees: tuple[str, str], seeds: range) -> tuple[list[Difference], int]:
    """Make runs in a directory in memory that is gone afterwards; also how often kdump ran."""
    pair = Tree(trees[0]), Tree(trees[1])
    found: list[Difference] = []
    count = 0
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        for seed in seeds:
            root = Path(folder, str(seed))
            root.mkdir()
            runs = KINDS[seed % len(KINDS)](root, seed)
            count += len(runs)
            found += compared(pair, f"seed {seed}", root, runs)
            shutil.rmtree(root)
    for tree in pair:
        tree.close()
    return found, count


def corpora(trees: tuple[str, str], roots: Sequence[Path]) -> tuple[list[Difference], int]:
    """Compare all partition directories below some directories, and the cases of damage corpora."""
    from tests.support.damage_cases import damage_cases

    pair = Tree(trees[0]), Tree(trees[1])
    found: list[Difference] = []
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        places = {log.parent.parent for root in roots for log in root.rglob("*.log*")}
        for index in (index for root in roots for index in root.rglob("index.json")):
            with contextlib.suppress(KeyError, TypeError):  # another kind of index
                places |= {case.build(Path(scratch, case.name)) for case in damage_cases(index.parent)}
        for place in sorted(places):
            copy = Path(scratch, "copy")
            shutil.copytree(place, copy, symlinks=True, ignore=_too_large)
            below = sorted({os.path.relpath(log.parent, copy) for log in copy.glob("*/*.log*")})
            runs = [["salvage", "--format", "json", "--to", _OUT, one] for one in below]
            runs.append(["verify", "--format", "json", "--start", "all", "--now", "2026-01-01", "."])
            count += len(runs)
            found += compared(pair, str(place), copy, runs)
            shutil.rmtree(copy)
    for tree in pair:
        tree.close()
    return found, count


def _too_large(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.lexists(path := os.path.join(folder, name)) and _size(path) > _MOST]


def _size(path: str) -> int:
    return os.lstat(path).st_size


def main() -> int:
    """Make the runs that were asked for; print what differs and how much was compared."""
    if sys.argv[1:] == ["--serve"]:
        serve()
        return 0
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--old", required=True, type=os.path.abspath, help="a tree of sources")
    parser.add_argument("--new", required=True, type=os.path.abspath, help="another one")
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="number of the first run")
    parser.add_argument("--corpora", type=Path, nargs="*", default=(), help="directories with partitions")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one for each tree")
    given = parser.parse_args()
    trees = given.old, given.new
    seeds = range(given.seed, given.seed + given.runs)
    pieces = [seeds[at : at + _TOGETHER] for at in range(0, len(seeds), _TOGETHER)]
    found, count = corpora(trees, given.corpora) if given.corpora else ([], 0)
    with ProcessPoolExecutor(given.jobs) as pool:
        for more, number in pool.map(partial(many, trees), pieces):
            found += more
            count += number
    for one in found:
        print(f"{one.what}: kdump {' '.join(one.args)}\n  old {one.old[:600]}\n  new {one.new[:600]}")
    differ = sorted({one.what for one in found})
    print(f"{given.runs} seeds, {len(given.corpora)} corpora: {count} runs of kdump, {len(found)} differ", *differ)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
