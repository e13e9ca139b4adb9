"""What a command writes on, a terminal or a pipe: colours, width, and the progress bar."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.help import option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kdump.render.progress import Bar
    from kdump.render.report.styled import Paper

_NO_COLOR = {"auto": None, "always": False, "never": True}  # what rich is told; None: it asks NO_COLOR


def _colour(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    from kdump.render.commentary import colour_messages

    colour_messages(value)
    return value


color_option = option(
    "--color",
    group="What is shown",
    callback=_colour,
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours; always: in a pipe too.",
)


def paper_of(given: Mapping[str, Any], to: Callable[[str], object] | None = None) -> Paper:
    """Return what text for people is written on: the terminal, or a pipe, which is as wide as `PIPE_WIDTH`.

    Args:
        given: values of --color and --raw, where the command has them.
        to: takes the text in the place of stdout; None for stdout.
    """
    from kdump.render.commentary import write
    from kdump.render.report.sentences import columns_of, lines_of
    from kdump.render.report.styled import PIPE_WIDTH, Paper, wants_colour

    columns = columns_of(sys.stdout)
    color = given.get("color", "auto")
    if columns is None:
        return Paper(to or write, PIPE_WIDTH, coloured=wants_colour(color, is_terminal=False))
    # names may have what this terminal, or with --raw any Unicode, has no characters for
    sys.stdout.reconfigure(errors="surrogateescape" if given.get("raw") else "backslashreplace")  # type: ignore[union-attr]
    return Paper(
        to or sys.stdout.write,
        columns,
        lines_of(sys.stdout),
        coloured=wants_colour(color, is_terminal=True),
        ascii_only=not sys.stdout.encoding.lower().startswith("utf"),
        is_screen=True,
    )


def fitter_of_stdout() -> Callable[[str], str]:
    """Return what wraps whole lines by word, as wide as the terminal, or as a page in a pipe."""
    from kdump.render.report.sentences import columns_of, fitted
    from kdump.render.report.styled import PIPE_WIDTH

    columns = columns_of(sys.stdout) or PIPE_WIDTH
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
    from kdump.render.progress import Bar

    wanted = click.get_current_context().params.get("color")  # a verb without tables has no such option
    bar = Bar(verb, sys.stderr, no_color=None if wanted is None else _NO_COLOR[wanted], after=after)
    bar.end_on_interrupt()
    return bar
