"""Runs kdump in a real pseudo terminal of a width, and gives what it wrote, line by line, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import kdump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COMMAND = shlex.split(os.environ.get("KDUMP_COMMAND", "")) or [sys.executable, "-P", "-m", "kdump"]


class Seen(NamedTuple):
    """The end of a run: exit status and what came, escape sequences included."""

    exit: int
    raw: str

    @property
    def lines(self) -> list[str]:
        """The lines without escape sequences; of one that was drawn again only its last state."""
        return [_CONTROL.sub("", line).rpartition("\r")[2] for line in self.raw.replace("\r\n", "\n").split("\n")]


def run_in_terminal(
    args: Sequence[str], cwd: Path, columns: int = 80, environment: Mapping[str, str] | None = None
) -> Seen:
    """Run `kdump ARGS...` with stdout and stderr on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    variables = {**kept, "TERM": "xterm-256color", "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}
    process = subprocess.Popen(
        [*COMMAND, *args],
        cwd=cwd,
        env={**variables, **(environment or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    found = b""
    try:
        while data := _read(ours):
            found += data
    finally:
        os.close(ours)
    return Seen(process.wait(), found.decode("utf-8", "backslashreplace"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so that the other side is gone
        return b""
