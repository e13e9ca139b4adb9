"""What goes to stdout as it is, lines to stderr, and the exit when the answer cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from kdump.render.terminal.sentences import fitter_of
from kdump.words.escape import escape
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable


_hide: Callable[[str], str] = str


def hide_in_messages(hide: Callable[[str], str]) -> None:
    """From now on let messages of this process say only what `hide` makes of them.

    Args:
        hide: takes a text, and returns it without what may not be seen.
    """
    global _hide  # noqa: PLW0603 (stderr is one, too)
    _hide = hide


def hidden(text: str) -> str:
    """Return a text as messages may say it."""
    return _hide(text)


def say(line: str) -> None:
    """Write one line to stderr, safe on a terminal, after all that stdout got; the answer must not fail on it."""
    if sys.stdout is not None:
        sys.stdout.flush()
    _to_stderr(line)


def say_at_once(line: str) -> None:
    """Write one line to stderr, from within a signal: stdout may be at work, or stand still."""
    with suppress(RuntimeError, ValueError):  # stderr was at work itself
        _to_stderr(line)


def say_left(path: str, errors: int) -> None:
    """Say where nothing to do does not mean that nothing is wrong.

    Args:
        path: what was looked at.
        errors: that stay; with none there is nothing to say.
    """
    if errors:
        what = f"{counted(errors, 'error')} here that this command does not mend"
        say(f"kdump: {path}: {what}; look with kdump verify")


def write(text: str) -> None:
    """Write text to stdout as UTF-8; names that are not UTF-8 go out as the bytes they are."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


def answer(text: str, *standing: str) -> None:
    """Write the whole answer to stdout; end where that fails.

    Args:
        text: without the end of its last line.
        standing: as `fail_to_write` takes it.
    """
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError as error:
        fail_to_write(error, *standing)


def fail_to_write(error: OSError, *standing: str) -> NoReturn:
    """Say that the answer cannot be written, and end at once: flushing what is left would fail again.

    Args:
        error: of the write; where it names a file it is of that, and not of what goes to stdout.
        standing: what was done all the same, a sentence each.
    """
    what = "cannot write the output" if error.filename is None else os.fsdecode(error.filename)
    if error.errno in (errno.EMFILE, errno.ENFILE):  # no write ends so
        what = f"{what if error.filename is not None else 'a file'} cannot be opened (ulimit -n allows more)"
    _to_stderr(f"kdump: {what}: {error.strerror or error}")
    for sentence in standing:
        _to_stderr(f"kdump: {sentence}")
    from kdump.exit_status import Exit  # it knows all findings: most runs that only answer never need them

    os._exit(Exit.INCOMPLETE)


def _to_stderr(line: str) -> None:
    if sys.stderr is not None:  # it is closed
        with suppress(OSError):
            sys.stderr.write(f"{fitter_of(sys.stderr)(escape(_hide(line)))}\n")
            sys.stderr.flush()
