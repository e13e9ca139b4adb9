"""Runs commands in a child that may die of them, one after the other without a new interpreter.

A small process holds all modules and forks the child; when the child dies it says of what, and forks the next one.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tests.support.fork_server import SourceOnly, load, run

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = 2000  # of one child: what a command leaves behind must not reach all others
SANITIZED = "KDUMP_TEST_SANITIZED" in os.environ  # the shadow of the address sanitizer takes terabytes of addresses
CPU_SECONDS = 60 if SANITIZED else 10
MEMORY = 300 << 20  # bytes that a command may take beyond what the modules take
ADDRESSES = 6 << 30
WALL_SECONDS = 300  # the machine may be busy; nothing waits that long
AGAIN = 76  # how a child ends that has had its commands


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a command: an exit code, or why there is none; kilobytes that it took."""

    exit: int | None
    why: str
    stdout: bytes
    stderr: bytes
    memory: int = 0


class Runner:
    """A process that runs commands.

    Args:
        interpreted: without compiled kernels.
    """

    def __init__(self, *, interpreted: bool = False) -> None:
        self.interpreted = interpreted
        self._out, self._err = os.memfd_create("out"), os.memfd_create("err")
        asked, self._ask = os.pipe()
        self._answers, answer = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                os.close(self._ask)
                os.close(self._answers)
                if interpreted:
                    sys.meta_path.insert(0, SourceOnly())
                    sys.modules["cython"] = None  # type: ignore[assignment] # as where it is not installed
                hold(asked, answer, self._out, self._err, CPU_SECONDS * (6 if interpreted else 1))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)
        os.close(asked)
        os.close(answer)

    def run(self, command: Sequence[str], cwd: str) -> Ran:
        """Run one command in a directory."""
        for fd in (self._out, self._err):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        os.write(self._ask, json.dumps([list(command), cwd]).encode() + b"\n")
        ready, _, _ = select.select([self._answers], [], [], WALL_SECONDS)
        if not ready:
            return self._ran({"exit": None, "why": f"not done after {WALL_SECONDS} seconds"})
        line = os.read(self._answers, 4096)
        if not line:
            raise RuntimeError("the process that runs commands is gone: see stderr")
        return self._ran(json.loads(line))

    def _ran(self, answer: dict[str, Any]) -> Ran:
        out, err = (os.pread(fd, os.fstat(fd).st_size, 0) for fd in (self._out, self._err))
        return Ran(answer["exit"], answer["why"], out, err, answer.get("memory", 0))

    def close(self) -> None:
        """End the process. Closing the pipe would not do: another runner may hold it too."""
        os.write(self._ask, b"null\n")
        os.close(self._ask)
        os.close(self._answers)
        os.waitpid(self._process, 0)
        os.close(self._out)
        os.close(self._err)


def hold(asked: int, answer: int, out: int, err: int, seconds: int) -> NoReturn:
    """Hold the modules, and see to it that there is a child that runs commands."""
    import tests.support.scan_windows  # noqa: F401 - it is here for the children

    main = load()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while True:
        child = os.fork()
        if child == 0:
            serve(main, asked, answer, out, err, seconds, base)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            os._exit(0)
        if status != AGAIN:
            why = f"signal {signal.Signals(-status).name}" if status < 0 else f"ended by itself with {status}"
            if status == -signal.SIGPROF:
                why = f"not done after {seconds} seconds of CPU"
            os.write(answer, json.dumps({"exit": None, "why": why}).encode() + b"\n")


def serve(main: Any, asked: int, answer: int, out: int, err: int, seconds: int, base: int) -> NoReturn:
    """Run commands until there are no more."""
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for fd, source in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(source, fd)
    highest = base
    for _ in range(COMMANDS):
        request = json.loads(read_line(asked) or b"null")
        if request is None:
            os._exit(0)
        command, cwd = request
        signal.setitimer(signal.ITIMER_PROF, seconds)
        found: dict[str, Any] = {"exit": None, "why": ""}
        try:
            os.chdir(cwd)
            found["exit"] = called(main, command)
        except BaseException as error:  # what kdump lets pass is what is looked for
            os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
            found["why"] = f"raised {type(error).__name__}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["memory"] = max(0, now - base) if now > highest else 0
        highest = max(highest, now)
        os.write(answer, json.dumps(found).encode() + b"\n")
    os._exit(AGAIN)


def called(main: Any, command: list[str]) -> int:
    """Run `kdump ...` or a function of `calls`."""
    from tests.fuzz.calls import CALLS

    if command[0] == "kdump":
        return run(main, command[1:])
    with open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as sys.stdout:
        return CALLS[command[0]](main, *command[1:])


def read_line(fd: int) -> bytes:
    """One line; the next one is written only when this one is answered."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(fd, 65536)
        if not part:
            return b""
        line += part
    return line
