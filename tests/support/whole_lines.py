"""Runs kdump, and gives its text with each sentence in one line, as it was before it was wrapped for a page."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kdump.render.report.styled import PIPE_WIDTH
from tests.support import runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# What a line of salvage or of carve begins with: no sentence goes on with one of these behind two blanks.
_BEGINS = re.compile(
    r" *(nothing is lost|lost|error|absent: |divergent: |open transaction: |note: |what became |next \d|no copy "
    r"|unexplained|intact, left out|aborted)"
)


def run_kdump(args: Sequence[str], cwd: Path) -> runs.Run:
    """Run `kdump ARGS...` in `cwd`; see `tests.support.runs`."""
    done = runs.run_kdump(args, cwd)
    return replace(done, stdout=os.fsencode(whole_text(os.fsdecode(done.stdout))))


def whole_text(text: str) -> str:
    """Return text with each sentence in one line."""
    made: list[str] = []
    last, indent = "", 0  # the last line as it was printed; blanks before the sentence that it belongs to
    for line in text.split("\n"):
        blanks = len(line) - len(line.lstrip(" "))
        word = line.split(" ", blanks + 1)[blanks] if line.strip() else ""
        is_full = len(last) + 1 + len(word) > PIPE_WIDTH or len(last) + 1 + len(line.strip()) > PIPE_WIDTH
        if made and line.strip() and blanks == indent + 2 and is_full and not _BEGINS.match(line):
            made[-1] += f" {line.strip()}"
        else:
            made.append(line)
            indent = blanks
        last = line
    return "\n".join(made)
