"""The exceptions of the library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.storage.file_source import OpenFailure

_HINTS = {
    "missing": "see whether the path is right, and whether the volume is mounted",
    "permission": "read it as the user that the broker runs as, or as root",
    "directory": "name a file, or a partition directory or log.dir as such",
    "type": "name the kind of the file with kind=, for example kind='log'",
    "base": "give the base offset with base_offset=",
}


class Error(Exception):
    """Something asked for cannot be read; the message is one line.

    Attributes:
        path: of the file or directory, as it was given.
        hint: what to do now; empty where nothing is known to help.
    """

    def __init__(self, message: str, path: str, hint: str = "") -> None:
        super().__init__(message, path, hint)
        self.path = path
        self.hint = hint

    def __str__(self) -> str:
        return str(self.args[0])


def error_of(problem: OpenFailure) -> Error:
    """Return a problem of a file as what is raised for it."""
    message = re.split(r"[;,:] [^;,:]* --[a-z]", problem.sentence)[0]  # an option is a keyword here, or needless
    return Error(message, problem.path, _HINTS.get(problem.kind, ""))


def raise_first(problems: list[OpenFailure]) -> None:
    """Raise the first of some problems, with the others as its notes.

    Raises:
        Error: there are any.
    """
    if problems:
        error = error_of(problems[0])
        for problem in problems[1:]:
            error.add_note(str(error_of(problem)))
        raise error
