"""Hostile names, and what a shell makes of a printed command."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = (
    "a;touch PWN;",
    "a b",
    "it's",
    'say "hi"',
    "$(touch PWN)",
    "`touch PWN`",
    "a&&touch PWN",
    "a|touch PWN",
    "x>PWN",
    "-rf",
    "--apply",
    "~root",
    "*",
    "?[a]",
    "a!b'!c",
    "#x",
    "=ls",
    "{a,b}",
    "A=1",
    "back\\slash",
    "$HOME",
    "%1",
    "a\nb",
    "a\n",
    "\n",
    "tab\there",
    "\x1b[31mred",
    "a\rb",
    "\u202eabc",
    "a\u00a0b",
    "\u00e4\u6f22",
    os.fsdecode(b"\xff\xfe1'!\\n"),
)
"""Names that a shell would not take for one word, or a terminal for text; none has a slash or a zero byte."""


@cache
def bash() -> str | None:
    """A shell that reads `$'...'`; None where none is installed."""
    return shutil.which("bash") or shutil.which("zsh")


def words_of(command: str, where: Path) -> list[str]:
    """Return the words that a shell takes a command for; nothing is run, and nothing may come to be.

    Args:
        command: as it was printed.
        where: an empty directory.
    """
    needs_bash = "$'" in command
    shell = bash() if needs_bash else "/bin/sh"
    assert shell is not None
    program = where / "program"
    program.mkdir()
    stub = program / "words"
    stub.write_text("#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done\n")
    stub.chmod(0o755)
    room = where / "room"
    room.mkdir()
    done = subprocess.run(
        [shell, "-c", "words " + command],
        cwd=room,
        env={"PATH": str(program), "HOME": "/home-of-nobody"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), (command, done)
    assert os.listdir(room) == [], command
    shutil.rmtree(program)
    room.rmdir()
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]
