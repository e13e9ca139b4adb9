"""Runs kdump in a child of a small process, and says what it cost: seconds of CPU and the most memory it held.

A child that is forked off pytest would inherit what pytest holds as its own peak; so a small one
stands between. How work grows is told by a count of lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import kdump

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LAUNCHER = """
import json, os, resource, sys
cpu, out, err = int(sys.argv[1]), sys.argv[2], sys.argv[3]
pid = os.fork()
if not pid:
    for fd, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    os.execv(sys.executable, [sys.executable, "-m", "kdump", *sys.argv[4:]])
_, status, usage = os.wait4(pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


class Cost(NamedTuple):
    """A run: its exit status, its output (empty where it was not kept), CPU in seconds, peak memory in MiB."""

    status: int
    out: bytes
    err: bytes
    cpu: float
    memory: float


def cost(*args: str, cwd: Path, seconds: int, keep: bool = True) -> Cost:
    """Run `kdump ARGS...`.

    Args:
        args: of kdump.
        cwd: where.
        seconds: of CPU after which the run is killed.
        keep: stdout is wanted; else it is thrown away.
    """
    root = str(Path(kdump.__file__).parent.parent)
    out, err = Path(f"{cwd}.out"), Path(f"{cwd}.err")
    command = [sys.executable, "-c", _LAUNCHER, str(seconds), str(out) if keep else os.devnull, str(err), *args]
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, check=True)
    status, cpu, memory = json.loads(done.stdout)
    return Cost(status, out.read_bytes() if keep else b"", err.read_bytes(), cpu, memory / 1024)


def lines_run(action: Callable[[], object]) -> int:
    """Count the lines of Python that an action runs, as often as it does: the same each time, unlike seconds."""
    count = 0

    def see(_frame: object, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return see

    before = sys.gettrace()
    sys.settrace(see)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
