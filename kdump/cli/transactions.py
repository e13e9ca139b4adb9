"""`kdump transactions`."""

from __future__ import annotations

import os
from typing import Any

import click

from kdump.cli.options.help import Command
from kdump.cli.options.terminal import bar_of
from kdump.cli.state import at_option, limits, run, state_options, time_words, to_list, when
from kdump.state.empty_answer import Question
from kdump.state.transactions import TransactionOptions, transactions


@click.command(
    "transactions",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump transactions /data",
        "kdump transactions /data --hanging",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@at_option
@click.option("--hanging", is_flag=True, help="Only transactions that hang: no marker will ever end them.")
@state_options
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Say what state transactions are in, which are open, what they block, and which hang.

    PATH is a log.dir or a partition directory; without __transaction_state among them nobody can tell what hangs. Of
    several copies of a partition the newest is read. Nothing is ever created, changed or locked. Exit status: 0 done (a
    transaction that hangs is a warning), 3 damage was found, 5 something could not be read, 6 both, 10 no such file, 2
    wrong use.
    """
    bar = bar_of("transactions")
    options = TransactionOptions(
        when("--at", given["at"]), given["hanging"], limits(given), given["jobs"], bar is not None
    )
    question = Question(
        "hanging transactions" if options.hanging else "transactions",
        to_list("transactions", given),
        when=time_words(options.at),
    )
    run(transactions([os.fspath(path) for path in given["paths"]], options), given, bar, question)
