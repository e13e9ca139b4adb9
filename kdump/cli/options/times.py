"""Times that options take: one way to read them, and to say what was taken, for every command."""

from __future__ import annotations

import time

import click

from kdump.words.escape import escape


def time_of(option: str, text: str, *, other: str = "", quiet: bool = False) -> int:
    """Read a time, ms since the epoch; where it is not written as one moment for all, what was taken is said.

    Args:
        option: that it was given to.
        text: as the user wrote it.
        other: what else the option takes, for the message.
        quiet: say nothing.

    Raises:
        click.UsageError: it is no time.
    """
    from kdump.find.query import moment_query
    from kdump.render.commentary import say

    try:
        query = moment_query(text, other=other)
    except ValueError as error:
        raise click.UsageError(f"{option}: {escape(str(error))}") from None
    if query.assumed and not quiet:
        say(f"kdump: {option}: {query.assumed}")
    return query.number


def clock_of(option: str, text: str | None, *, quiet: bool = False) -> int:
    """Return what an option says of the clock, ms; the clock itself where it says nothing."""
    return time.time_ns() // 1_000_000 if text is None else time_of(option, text, quiet=quiet)
