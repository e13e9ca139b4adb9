"""Commands as a shell reads them, for people who paste them."""

from __future__ import annotations

import shlex

from kdump.render.escape import escape


def command_line(command: str, *arguments: str) -> str:
    """Return a command of kdump as one line.

    Args:
        command: its name.
        arguments: paths as the user wrote them, and options.
    """
    return " ".join(("kdump", command, *map(shell_word, arguments)))


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
