"""Hostile names, and what a shell makes of a printed command."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

from kdump.words.command import PROGRAMS

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
    """Return the words that a shell takes a command for, those of one behind another too.

    What a shell finds are programs that say how they were called, and none else.

    Args:
        command: as it was printed.
        where: an empty directory.
    """
    shell = bash() if "$'" in command else "/bin/sh"
    assert shell is not None
    programs, room = where / "programs", where / "room"
    programs.mkdir()
    room.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text('#!/bin/sh\nprintf \'%s\\0\' "${0##*/}" "$@"\n')
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [shell, "-c", command],
        cwd=room,
        env={"PATH": str(programs), "HOME": "/home-of-nobody"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), (command, done)
    assert os.listdir(room) == [], command
    shutil.rmtree(programs)
    room.rmdir()
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]
