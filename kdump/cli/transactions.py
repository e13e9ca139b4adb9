"""`kdump transactions`."""

from __future__ import annotations

import os
from typing import Any

import click

from kdump.cli.options.common import format_option, limits_of
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import topic_partition_option, topics_option
from kdump.cli.options.terminal import bar_of
from kdump.cli.state import at_option, run, state_options, time_words, to_list, when
from kdump.state.empty_answer import Question
from kdump.state.transactions import TransactionOptions, transactions
from kdump.storage.names import TRANSACTIONS_TOPIC, parse_partition
from kdump.storage.paths import base_name


@click.command(
    "transactions",
    cls=Command,
    usual=("--topic", "--at", "--hanging", "--format", "--notes"),
    add_help_option=False,
    examples=(
        "kdump transactions /data",
        "kdump transactions /data --hanging",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@topics_option("Only transactions that write to this topic")
@topic_partition_option
@at_option
@option("--hanging", group="Selection", is_flag=True, help="Only transactions that hang: no marker will ever end them.")
@format_option
@state_options
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Show what state transactions are in, which are open, what they block, and which hang.

    PATH is a log.dir or a partition directory; without __transaction_state it is unknown what hangs. Of
    several copies of a partition the newest is read. Nothing is ever created, changed or locked.
    """
    bar = bar_of("transactions", quiet=given["quiet"])
    paths = [os.fspath(path) for path in given["paths"]]
    options = TransactionOptions(
        when("--at", given["at"]),
        given["hanging"],
        limits_of(given),
        given["jobs"],
        bar is not None,
        topics=frozenset(given["topics"]),
        partitions=frozenset(given["topic_partitions"]),
    )
    question = Question(
        "hanging transactions" if options.hanging else "transactions",
        to_list("transactions", given),
        of=_of(given),
        when=time_words(options.at),
        topic=TRANSACTIONS_TOPIC if options.hanging or not all(map(_is_partition, paths)) else "",
        may_be_empty=options.hanging,
        is_alarm=options.hanging,
    )
    run(transactions(paths, options), given, bar, question)


def _of(given: dict[str, Any]) -> str:
    """What they are to write to, as words behind them; empty for anything."""
    asked = [*given["topics"], *given["topic_partitions"]]
    return f" that write to {', '.join(asked)}" if asked else ""


def _is_partition(path: str) -> bool:
    """Whether a path names a partition: who does that asks for what is open in it."""
    return parse_partition(base_name(path)) is not None
