"""Commands to paste: made of words, and quoted by that. No other module writes one down as text.

A name on a disk may be anything, `a;touch X`, `$(...)`, a line break or bytes that are not UTF-8, and who pastes a
command runs what it says. So a command is made of its words, and only here does it become the text that a shell takes
apart into the same words again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

_PLAIN = pattern(r"[\w@%+:,./-][\w@%+=:,./-]*", re.ASCII)  # zsh looks up a program for =WORD
PROGRAMS = (
    *("kdump", "chmod", "chown", "cp", "mkdir", "mv", "pip"),
    *("kafka-acls.sh", "kafka-configs.sh", "kafka-reassign-partitions.sh", "kafka-storage.sh", "kafka-topics.sh"),
    *("kafka-server-start.sh", "kafka-server-stop.sh", "kafka-transactions.sh"),
)
"""Those of which kdump writes commands."""

_END_OF_LINES = "END"
_MOVES = 12  # files that are renamed in one line
_MOST_PATHS = 4  # that a command to paste has


class ShellVariable(str):
    """A word of a command that a variable of the shell has: its name, in capitals."""

    __slots__ = ()


class ShellCommand(str):
    """A command, or several that are run as long as none fails: a text as a POSIX shell reads it.

    A word stands as it is where no shell minds, else in single quotes. One that cannot be shown as it is, for control
    characters, marks without a width or bytes that are not UTF-8, is written `$'...'` with octal numbers: bash, zsh,
    ksh and POSIX since 2024 read that, and the text is ASCII, safe to show and on one line.

    Args:
        words: the program first. A path is `named`, so that it is no option; what is no path comes through
            `operand`.
    """

    __slots__ = ("parts",)
    parts: tuple[tuple[str, ...], ...]  # the words of each command

    def __new__(cls, *words: str) -> Self:
        """Make a command of its words."""
        return cls._of((words,))

    @classmethod
    def _of(cls, parts: tuple[tuple[str, ...], ...]) -> Self:
        made = super().__new__(cls, " && ".join([" ".join(map(_quoted, words)) for words in parts]))
        made.parts = parts
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return ShellCommand._of, (self.parts,)

    def then(self, *others: ShellCommand) -> ShellCommand:
        """Return this command and others behind it, each run only where the one before did not fail."""
        return ShellCommand._of((*self.parts, *(words for one in others for words in one.parts)))

    def plus(self, *words: str) -> ShellCommand:
        """Return this command with more words behind those of the last one."""
        *before, last = self.parts
        return ShellCommand._of((*before, (*last, *words)))

    def with_words(self, change: Callable[[Sequence[str]], Sequence[str]]) -> ShellCommand:
        """Return the same command of other words.

        Args:
            change: takes the words of one command, and returns those that stand instead.
        """
        return ShellCommand._of(tuple([tuple(change(words)) for words in self.parts]))


def _quoted(word: str) -> str:
    """A word as a shell reads it."""
    if isinstance(word, ShellVariable):
        return f'"${word}"'
    if _PLAIN.fullmatch(word):
        return word
    if word.isprintable():  # or empty
        return "'" + word.replace("'", "'\"'\"'") + "'"
    data = b"".join([one.encode("utf-8", "surrogateescape" if _is_byte(one) else "surrogatepass") for one in word])
    is_plain = _IN_DOLLAR_QUOTES
    return "$'" + "".join([chr(one) if one in is_plain else f"\\{one:03o}" for one in data]) + "'"


_IN_DOLLAR_QUOTES = frozenset(range(0x20, 0x7F)) - frozenset(b"'\\!")  # a shell that is typed to minds `!`


def _is_byte(char: str) -> bool:
    """Whether it stands for a byte of a name that was not UTF-8."""
    return "\udc80" <= char <= "\udcff"


def named(path: str) -> str:
    """Return a path as a word that is not taken for an option."""
    return f"./{path}" if path.startswith("-") else path


def fed(command: ShellCommand, lines: Sequence[str]) -> str:
    """Return a command that reads lines from standard input, as a shell reads both.

    Args:
        command: it comes first.
        lines: printable ones; the shell changes nothing in them.
    """
    assert all(one.isprintable() and one != _END_OF_LINES for one in lines)
    return "\n".join([f"{command} <<'{_END_OF_LINES}'", *lines, _END_OF_LINES])


def operand(name: str, *options: str) -> tuple[str, ...]:
    """Return the last words of a command: a name that is no path and is not taken for an option, and options.

    Args:
        name: of a group, for example.
        options: behind the name, or before it where that must be.
    """
    return (*options, "--", name) if name.startswith("-") else (name, *options)


def command_line(command: str, *arguments: str) -> ShellCommand:
    """Return a command of kdump.

    Args:
        command: its name.
        arguments: options, and paths, `named`.
    """
    return ShellCommand("kdump", command, *arguments)


def option_with(option: str, paths: Sequence[str]) -> str:
    """Return an option to be added to the command that was given, with each of some paths; of many only the first.

    Args:
        option: its name.
        paths: that it can be given, as the user wrote them.
    """
    told = [ShellCommand(option, named(path)) for path in paths[:_MOST_PATHS]]
    more = [f"{len(paths) - _MOST_PATHS} more"] if len(paths) > _MOST_PATHS else []
    return " or ".join([*told, *more])


def with_paths(command: str, paths: Sequence[str], *options: str) -> ShellCommand:
    """Return a command of kdump with paths; PATH... for more of them than a command to paste should have.

    Args:
        command: its name.
        paths: as the user wrote them.
        options: before the paths.
    """
    few = len(paths) <= _MOST_PATHS
    return command_line(command, *options, *(map(named, paths) if few else ("PATH...",)))


def renaming(moves: Sequence[tuple[str, str]]) -> str:
    """Return the commands that rename files, as one line; of many only the first ones, and how many more there are.

    Args:
        moves: a path and the new one each, in the order in which that can be done.
    """
    first, *others = [ShellCommand("mv", "-n", named(one), named(to)) for one, to in moves[:_MOVES]]
    told = first.then(*others)
    return told if len(moves) <= _MOVES else f"{told}, and so on with {len(moves) - _MOVES} more"
