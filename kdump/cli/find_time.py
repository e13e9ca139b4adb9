"""`kdump find-time`."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.find import find_options, run
from kdump.find.query import time_query


@click.command("find-time", add_help_option=False, short_help="Tell which offset belongs to a time.")
@click.argument("path", metavar="PATH")
@click.argument("time", metavar="TIME")
@find_options
def command(path: str, time: str, **given: Any) -> None:  # noqa: ANN401 (click hands over what the options say)
    """Tell the first offset at or after a time, as a broker answers it.

    PATH is a partition directory, one log, or a log.dir with --topic-partition. TIME is ms since the epoch, ISO 8601
    (without a zone: UTC), now, now-2h, max, earliest or latest, or - for one question on each line of stdin. Exit
    status: 0 found, 10 nothing there, 3 damage or an unsound index met on the way, 5 something could not be read, 2
    wrong use.
    """
    run(path, time, time_query, given, times=True)
