"""What must hold for every case, and the one place that says what does not."""

from __future__ import annotations

import json
import os
import re
import shutil
from functools import cache
from typing import TYPE_CHECKING

from tests.fuzz.runner import MEMORY, SANITIZED, Ran, Runner, called
from tests.support import partitions
from tests.support.fork_server import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.fuzz.case import Case
    from tests.support.partitions import Files

EXITS = frozenset({0, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14})  # of the table, without a bug and wrong usage
USAGE = 2
MODIFIED = 1_700_000_000  # seconds since the epoch
PLAN_ID = re.compile(rb"\b[0-9a-f]{16}\b")  # depends on when the files were made


class Judge:
    """Runs cases in a directory.

    Args:
        folder: is emptied for each case.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compiled = Runner()
        self._interpreted: Runner | None = None

    def close(self) -> None:
        """End the processes."""
        self._compiled.close()
        if self._interpreted is not None:
            self._interpreted.close()

    def problem(self, case: Case, *, both: bool) -> str | None:
        """Say what does not hold, None when all does.

        Args:
            case: the case.
            both: run it uncompiled too, and compare all that comes out.
        """
        seen, problem = outcome(self._compiled, self._folder, case)
        if problem is not None or not both:
            return problem
        if self._interpreted is None:
            self._interpreted = Runner(interpreted=True)
        others, problem = outcome(self._interpreted, self._folder, case)
        if problem is not None:
            return f"interpreted: {problem}"
        for command, one, other in zip((*case.commands, ["the files"]), seen, others, strict=True):
            if one != other:
                return f"{shown(command)}: compiled is not uncompiled: {difference(one, other)}"
        return None


def outcome(
    runner: Runner | Here, folder: Path, case: Case
) -> tuple[list[tuple[int | None, bytes, bytes]], str | None]:
    """Run all commands; return what came out of each, last what was written, and what does not hold."""
    shutil.rmtree(folder, ignore_errors=True)
    inputs = partitions.write(folder / "in", case.files)
    for path in inputs.rglob("*"):
        os.utime(path, (MODIFIED, MODIFIED))  # what is retained depends on it
    (folder / "out").mkdir()  # for those that write, a directory each
    before = files_in(inputs)
    seen: list[tuple[int | None, bytes, bytes]] = []
    for command in case.commands:
        ran = runner.run(command, str(inputs))
        said = problem_of(case, command, ran, sparing=not runner.interpreted)
        if said is None and not case.writes and files_in(inputs) != before:
            said = "changed its input"
        if said is not None:
            return seen, f"{shown(command)}: {said}"
        out, err = (PLAN_ID.sub(b"PLAN", text) for text in (ran.stdout, ran.stderr))
        seen.append((ran.exit, out, err) if not case.writes else (ran.exit, b"", b""))
    if case.restores and files_in(inputs) != before:
        return seen, "undo did not put all back"
    made = files_in(folder / "out")
    written = {name: data for name, data in made.items() if name.endswith((".jsonl", ".csv", ".json.gz"))}
    seen.append((None, repr(sorted(written.items())).encode(), b""))
    return seen, None


def files_in(folder: Path) -> Files:
    """The files below a directory; a directory is one without bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if path.name not in {".lock"}
    }


def problem_of(case: Case, command: list[str], ran: Ran, *, sparing: bool) -> str | None:
    """What does not hold for one run."""
    if ran.exit is None:
        last = ran.stderr.decode("utf-8", "backslashreplace").rstrip().splitlines()
        return f"{ran.why}: {' | '.join(last[-3:])[-600:]}"
    if b"Traceback (most recent call last)" in ran.stderr:
        return "printed a traceback"
    if ran.exit not in EXITS and not (ran.exit == USAGE and case.usage):
        return f"exit {ran.exit}: {ran.stderr[-300:]!r}"
    if sparing and not SANITIZED and ran.memory << 10 > MEMORY:
        return f"took {ran.memory} kB"
    if (
        command[0] == "kdump"
        and "--format json" in shown(command)
        and "--compat" not in command
        and command[1] != "export"
    ):
        return not_json(ran.stdout)
    return None


def not_json(text: bytes) -> str | None:
    """Say which line is not JSON as kdump promises it."""
    for line in text.splitlines():
        try:
            found = json.loads(line.decode("ascii"), parse_constant=lambda name: 1 / 0)
        except (ValueError, ZeroDivisionError):
            return f"not JSON: {line[:200]!r}"
        if not isinstance(found, dict) or next(iter(found), None) != "type":
            return f"no object with a type: {line[:200]!r}"
    return None


def shown(command: list[str]) -> str:
    """A command in one line."""
    return " ".join(command)


def difference(one: tuple[int | None, bytes, bytes], other: tuple[int | None, bytes, bytes]) -> str:
    """The first difference, in short."""
    for name, left, right in zip(("exit", "stdout", "stderr"), one, other, strict=True):
        if left != right:
            if isinstance(left, bytes) and isinstance(right, bytes):
                at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
                return f"{name} at {at}: {left[max(0, at - 40) : at + 80]!r} {right[max(0, at - 40) : at + 80]!r}"
            return f"{name} {left!r} {right!r}"
    return ""


class Here:
    """Runs commands in this process, for a fuzzer that looks at it."""

    interpreted = False

    def __init__(self) -> None:
        self._main = load()

    def run(self, command: Sequence[str], cwd: str) -> Ran:
        """Run one command in a directory; what it raises comes out."""
        kept = [os.dup(1), os.dup(2)]
        files = [os.memfd_create("out"), os.memfd_create("err")]
        os.chdir(cwd)
        try:
            for fd, file in enumerate(files, 1):
                os.dup2(file, fd)
            code = called(self._main, list(command))
        finally:
            out, err = (os.pread(file, os.fstat(file).st_size, 0) for file in files)
            for fd, old in enumerate(kept, 1):
                os.dup2(old, fd)
            for fd in (*kept, *files):
                os.close(fd)
        return Ran(code, "", out, err)


@cache
def _here() -> Here:
    return Here()


def outcome_here(case: Case, folder: Path) -> str | None:
    """Say what does not hold for a case that runs in this process."""
    return outcome(_here(), folder, case)[1]
