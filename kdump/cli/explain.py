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

_WIDEST = 100
_MOST_MESSAGES = 3  # of one text


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

    Also a runbook by its name (disk-full), and what a message of a broker means: a line of server.log, or a part of it.

    Upper and lower case are the same. A word that is both the name of a finding and a key shows both. Without a name
    the codes are listed. Exit status: 0 done, 2 the manual has no such entry, or wrong use.
    """
    from kdump.render.text.manual import entries, headings, known_names, runbook

    columns = columns_of(sys.stdout)
    width = 80 if columns is None else min(columns, _WIDEST)
    shown: dict[str, None] = {}  # a code and its name have one entry
    for name in names:
        found = entries(name, width) or runbook(name, width) or _messages(name, width)
        if not found:
            near = _near(name, known_names()) or "; kdump explain lists the codes"
            raise click.UsageError(f"the manual has no finding, no JSON key and no word '{name}'{near}")
        shown.update(dict.fromkeys(found))
    text = "\n\n".join(shown) or "\n".join(headings())
    if columns is not None:  # examples are whole lines of other commands, else
        text = "\n".join(fitted(line, width) for line in text.split("\n"))
    answer(text)


def _messages(text: str, width: int) -> list[str]:
    """What the messages of brokers in a text mean, each as a block."""
    from kdump.broker.messages import messages_in
    from kdump.render.text.manual import wrapped
    from kdump.words.command import command_line

    blocks = []
    for one in islice(messages_in(text), _MOST_MESSAGES):
        lines = [f"{one.java_class} (a message of brokers, Kafka {one.releases})", *wrapped(one.means, "  ", width)]
        if one.findings:
            lines.append(f"  Finding: {one.findings}")
        lines.append(f"  Command: {command_line(*one.command)}")
        if one.runbook:
            lines.append(f"  Runbook: {command_line('explain', one.runbook)}")
        blocks.append("\n".join(lines))
    return blocks


def _near(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    by_folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_folded, 1, 0.5)
    return f"; did you mean '{by_folded[near[0]]}'?" if near else ""
