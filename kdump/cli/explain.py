"""`kdump explain`."""

from __future__ import annotations

import sys
from itertools import islice

import click

from kdump.cli.options.common import help_option
from kdump.cli.options.complete import manual_names
from kdump.cli.options.help import Command
from kdump.render.commentary import answer
from kdump.render.report.sentences import columns_of, fitted
from kdump.words.escape import escape

_WIDEST = 100
_MOST_MESSAGES = 3  # of one text
_MOST_SHOWN = 60  # characters of what was typed, or of what a message was known by
_MOST_READ = 1 << 16  # bytes of a log: what fits around an error, and is searched in a moment
_STDIN = "-"
_NEAR = 0.5


@click.command(
    "explain",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump explain B01",
        "kdump explain disk-full",
        "kdump explain 'Corrupt index found'",
    ),
)
@click.argument("names", nargs=-1, metavar="[CODE|KEY|RUNBOOK|TEXT]...", shell_complete=manual_names)
@help_option
def command(names: tuple[str, ...]) -> None:
    """Show what the manual says of a finding, by its code or name, of a key of JSON, or of a word of text.

    Also a runbook by its name (disk-full), and what a message of a broker means: a line of server.log, or a part of it,
    or several lines; - reads them from standard input, which is not read without that.

    Upper and lower case are the same. A word that is both the name of a finding and a key shows both. Without a name
    the codes and the runbooks are listed.
    """
    from kdump.render.text.manual import entries, headings, runbook

    columns, width = _widths()
    shown: dict[str, None] = {}  # a code and its name have one entry
    for name in names:
        text = _from_stdin() if name == _STDIN else name
        found = entries(text, width) or runbook(text, width) or _messages(text, width)
        if not found:
            raise click.UsageError(f"the manual has nothing by the name of {_unknown(text)}")
        shown.update(dict.fromkeys(found))
    _show("\n\n".join(shown) or "\n".join(headings()), columns, width)


def show_topic(name: str) -> bool:
    """Show what all commands have in common about something, from kdump.1.

    Args:
        name: as `kdump help` takes it: statuses, limits, ...

    Returns:
        Whether there is such a topic.
    """
    from kdump.render.text.manual import TOPICS, topic

    if name not in TOPICS:
        return False
    columns, width = _widths()
    _show(topic(name, width), columns, width)
    return True


def _widths() -> tuple[int | None, int]:
    """The columns of the terminal, None without one, and those to wrap at."""
    columns = columns_of(sys.stdout)
    return columns, 80 if columns is None else min(columns, _WIDEST)


def _show(text: str, columns: int | None, width: int) -> None:
    if columns is not None:  # examples are whole lines of other commands, else
        text = "\n".join(fitted(line, width) for line in text.split("\n"))
    answer(text)


def _from_stdin() -> str:
    data = sys.stdin.buffer.read(_MOST_READ + 1)
    if len(data) > _MOST_READ:
        raise click.UsageError(
            f"standard input has more than {_MOST_READ:,} bytes: give the lines around the error alone "
            "(tail -n 100 server.log)"
        )
    text = data.decode("utf-8", "surrogateescape").strip()
    if not text:
        raise click.UsageError("standard input is empty: give a line of server.log")
    return text


def _messages(text: str, width: int) -> list[str]:
    """What the messages of brokers in a text mean, each as a block."""
    from kdump.broker.messages import messages_in
    from kdump.render.text.manual import wrapped
    from kdump.words.command import command_line

    blocks = []
    for match in islice(messages_in(text), _MOST_MESSAGES):
        one = match.message
        lines = [f"'{_short(match.words)}' (a message of brokers, Kafka {one.releases})"]
        lines += [*wrapped(one.means, "  ", width), f"  Class: {one.java_class}"]
        if one.findings:
            lines.append(f"  Finding: {one.findings}")
        lines.append(f"  Command: {command_line(*one.command)}")
        if one.runbook:
            lines.append(f"  Runbook: {command_line('explain', one.runbook)}")
        blocks.append("\n".join(lines))
    return blocks


def _short(text: str) -> str:
    """A text on one line, cut and safe."""
    line = escape(" ".join(text.split()))
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 3]}..."


def _unknown(name: str) -> str:
    """What was asked for, and where to look instead."""
    from difflib import get_close_matches

    from kdump.render.text.manual import OTHER_WORDS, known_names
    from kdump.words.command import command_line

    said = f"'{_short(name)}'"
    if len(name) > _MOST_SHOWN:
        return f"{said}: give the lines around it too, or a few words of the error alone"
    meant = OTHER_WORDS.get("-".join(name.casefold().split()))
    if meant:
        return f"{said}; see: {command_line('explain', *meant)}"
    by_folded = {one.casefold(): one for one in known_names()}
    near = get_close_matches(name.casefold(), by_folded, 1, _NEAR)
    return (
        f"{said}; did you mean '{by_folded[near[0]]}'?"
        if near
        else f"{said}; kdump explain lists the codes and the runbooks"
    )
