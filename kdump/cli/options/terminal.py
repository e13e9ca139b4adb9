"""The terminal that a command writes to: colours, tables, and the progress bar."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.help import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from kdump.render.terminal.progress import Bar

_NO_COLOR = {"auto": None, "always": False, "never": True}  # what rich is told; None: it asks NO_COLOR
color_option = option(
    "--color",
    group="What is shown",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours; always: write as on a terminal, wherever stdout goes.",
)


def console_of(given: dict[str, Any]) -> Console | None:
    """Return the terminal to write tables to; None where plain text is wanted.

    Args:
        given: values of --color and --raw.
    """
    color = given["color"]
    if color != "always" and not sys.stdout.isatty():
        return None
    from rich.console import Console

    # names may have what this terminal, or with --raw any Unicode, has no characters for
    sys.stdout.reconfigure(errors="surrogateescape" if given["raw"] else "backslashreplace")  # type: ignore[union-attr]
    return Console(
        file=sys.stdout,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=_NO_COLOR[color],
        force_terminal=True if color == "always" else None,
    )


def fitter_of_stdout() -> Callable[[str], str]:
    """Return what wraps whole lines by word where stdout is a terminal, and else leaves them as they are."""
    from kdump.render.terminal.sentences import columns_of, fitted

    columns = columns_of(sys.stdout)
    if columns is None:
        return str
    return lambda text: "".join(f"{fitted(line, columns)}\n" for line in text.removesuffix("\n").split("\n"))


def bar_of(verb: str, *, quiet: bool = False, after: str = "") -> Bar | None:
    """Return the progress bar; None where nobody looks at it, or nobody wants to.

    Args:
        verb: of the work that runs.
        quiet: nobody wants to.
        after: what is said behind the line that Ctrl-C leaves.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        return None
    from kdump.render.terminal.progress import Bar

    wanted = click.get_current_context().params.get("color")  # a verb without tables has no such option
    bar = Bar(verb, sys.stderr, no_color=None if wanted is None else _NO_COLOR[wanted], after=after)
    bar.end_on_interrupt()
    return bar
