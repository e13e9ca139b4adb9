"""`kdump find-offset`."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.find import find_options, run
from kdump.find.query import offset_query


@click.command("find-offset", add_help_option=False, short_help="Tell where an offset is.")
@click.argument("path", metavar="PATH")
@click.argument("offset", metavar="OFFSET")
@find_options
def command(path: str, offset: str, **given: Any) -> None:  # noqa: ANN401 (click hands over what the options say)
    """Tell where an offset is, as a broker finds it.

    PATH is a partition directory, one log, or a log.dir with --topic-partition. OFFSET is a number, earliest or latest,
    or - for one question on each line of stdin. The answer is the batch that a broker sends to a consumer who asks for
    this offset, and the first record in it at or after the offset. Exit status: 0 found, 10 nothing there, 3 damage or
    an unsound index met on the way, 5 something could not be read, 2 wrong use.
    """
    run(path, offset, offset_query, given, times=False)
