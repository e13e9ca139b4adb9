"""`kdump explain`."""

from __future__ import annotations

import sys

import click

from kdump.cli.options.common import help_option
from kdump.cli.options.complete import manual_names
from kdump.cli.options.help import Command
from kdump.render.commentary import answer
from kdump.render.report.sentences import columns_of, fitted

_WIDEST = 100


@click.command(
    "explain",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump explain B01",
        "kdump explain hiddenRecords offset",
    ),
)
@click.argument("names", nargs=-1, metavar="[CODE|KEY]...", shell_complete=manual_names)
@help_option
def command(names: tuple[str, ...]) -> None:
    """Show what the manual says of a finding, by its code or name, of a key of JSON, or of a word of text.

    Upper and lower case are the same. A word that is both the name of a finding and a key shows both. Without a name
    the codes are listed. Exit status: 0 done, 2 the manual has no such entry, or wrong use.
    """
    from kdump.render.text.manual import entries, headings, known_names

    columns = columns_of(sys.stdout)
    width = 80 if columns is None else min(columns, _WIDEST)
    shown: dict[str, None] = {}  # a code and its name have one entry
    for name in names:
        found = entries(name, width)
        if not found:
            near = _near(name, known_names()) or "; kdump explain lists the codes"
            raise click.UsageError(f"the manual has no finding, no JSON key and no word '{name}'{near}")
        shown.update(dict.fromkeys(found))
    text = "\n\n".join(shown) or "\n".join(headings())
    if columns is not None:  # examples are whole lines of other commands, else
        text = "\n".join(fitted(line, width) for line in text.split("\n"))
    answer(text)


def _near(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    by_folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_folded, 1, 0.5)
    return f"; did you mean '{by_folded[near[0]]}'?" if near else ""
