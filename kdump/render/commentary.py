"""What goes to stdout as it is, lines to stderr, and the exit when the answer cannot be written."""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TextIO

from kdump.render.report.sentences import fitter_of
from kdump.value import pattern
from kdump.words.escape import escape
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable


_FINDING = pattern(r"(error|warning|note) [A-Z][0-9][0-9] ")  # how the line of a finding begins, and no other one
_hide: Callable[[str], str] = str
_color = "auto"


def colour_messages(color: str) -> None:
    """From now on write findings to stderr in colours, or without.

    Args:
        color: auto, always or never.
    """
    global _color  # noqa: PLW0603 (stderr is one, too)
    _color = color


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


def end_on_interrupt(sentence: Callable[[], str], stream: TextIO | None = None) -> None:
    """On Ctrl-C say one sentence on stderr, then end as every program does that is interrupted.

    Args:
        sentence: returns it, and takes away what it is to stand in the place of.
        stream: takes it; None for stderr.
    """
    owner = os.getpid()

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        to = sys.stderr if stream is None else stream
        if os.getpid() == owner and to is not None:  # a process that was forked says nothing
            with suppress(OSError, ValueError, RuntimeError):  # stderr was at work itself, or is gone
                to.write(f"kdump: {sentence()}\n")
                to.flush()
        os.kill(os.getpid(), number)

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        with suppress(ValueError):  # only the first thread of a program may
            signal.signal(signal.SIGINT, end)


def say_left(path: str, errors: int) -> None:
    """Say where nothing to do does not mean that nothing is wrong.

    Args:
        path: what was looked at.
        errors: that stay; with none there is nothing to say.
    """
    if errors:
        what = f"{counted(errors, 'error')} here that this command cannot repair"
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
            sys.stderr.write(f"{shown_by_stderr()(escape(_hide(line)))}\n")
            sys.stderr.flush()


def shown_by_stderr() -> Callable[[str], str]:
    """Return what makes of a line what stderr shows: as wide as the terminal, a finding in its colour."""
    fit = fitter_of(sys.stderr)
    return lambda line: _coloured(fit(line))


def _coloured(text: str) -> str:
    """Return the lines of a finding in the colour of its severity, where stderr has colours; others as they are."""
    begin = _FINDING.match(text)
    if begin is None:
        return text
    from kdump.render.report.styled import Text, wants_colour  # most runs find nothing

    if not wants_colour(_color, is_terminal=sys.stderr.isatty()):
        return text
    from kdump.finding import Severity
    from kdump.render.report.columns import style_of

    style = style_of(Severity(begin[1]))
    return "\n".join([Text(line, style).written(coloured=True) for line in text.split("\n")])
