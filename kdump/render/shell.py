"""Commands as a shell reads them, for people who paste them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kdump.render.escape import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOVES = 12  # files that are renamed in one line
_MOST_PATHS = 4  # that a command to paste has


def command_line(command: str, *arguments: str) -> str:
    """Return a command of kdump as one line.

    Args:
        command: its name.
        arguments: paths as the user wrote them, and options.
    """
    return " ".join(("kdump", command, *map(shell_word, arguments)))


def with_paths(command: str, paths: Sequence[str], *options: str) -> str:
    """Return a command of kdump with paths; PATH... for more of them than a command to paste should have.

    Args:
        command: its name.
        paths: as the user wrote them.
        options: before the paths.
    """
    few = len(paths) <= _MOST_PATHS
    return command_line(command, *options, *map(named, paths)) if few else f"{command_line(command, *options)} PATH..."


def named(path: str) -> str:
    """Return a path as an argument that is not taken for an option."""
    return f"./{path}" if path.startswith("-") else path


def shell_word(text: str) -> str:
    """Return an argument as a shell reads it; what is not safe to show is written in the quotes of bash and zsh."""
    if escape(text) == text:
        return shlex.quote(text)
    data = text.encode("utf-8", "surrogateescape")
    return (
        "$'" + "".join(chr(one) if 0x20 <= one < 0x7F and one not in b"'\\" else f"\\{one:03o}" for one in data) + "'"
    )


def renaming(moves: Sequence[tuple[str, str]]) -> str:
    """Return the commands that rename files, as one line; of many only the first ones, and how many more there are.

    Args:
        moves: a path and the new one each, in the order in which that can be done.
    """
    told = " && ".join(f"mv -n {shell_word(named(one))} {shell_word(named(to))}" for one, to in moves[:_MOVES])
    return told + (f", and so on with {len(moves) - _MOVES} more" if len(moves) > _MOVES else "")
