"""`kdump partition-for`."""

from __future__ import annotations

import click
from click.core import ParameterSource

from kdump.cli.options.common import help_option
from kdump.cli.options.help import Command, option
from kdump.format.batch import layout
from kdump.format.java_values import DEFAULT_PARTITIONS, coordinator_partition
from kdump.render.commentary import answer, say


@click.command(
    "partition-for",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump partition-for billing",
        "kdump partition-for billing --partitions 100",
    ),
)
@click.argument("id_", metavar="ID")
@option(
    "--partitions",
    group="Input",
    type=click.IntRange(1, layout.MAX_INT),
    metavar="N",
    default=DEFAULT_PARTITIONS,
    show_default=True,
    help="How many partitions the internal topic has.",
)
@option(
    "--format",
    "form",
    group="What is shown",
    type=click.Choice(["text", "lines", "json"]),
    default="text",
    show_default=True,
    help="Text for people; lines, one fact each, for grep; JSON for programs.",
)
@help_option
def command(id_: str, partitions: int, form: str) -> None:
    """Show the coordinator partition of a group or transactional id.

    It is a partition of __consumer_offsets for the ID of a group, of __transaction_state for a transactional ID. The
    leader of that partition is its coordinator. No file is read.
    """
    try:
        id_.encode("utf-8")
    except UnicodeEncodeError:
        raise click.UsageError("ID is not UTF-8: no client of Kafka can have it.") from None
    partition = coordinator_partition(id_, partitions)
    if form != "text":
        from kdump.rows.layout import LAYOUTS

        fields: dict[str, object] = {"id": id_, "partition": partition, "partitions": partitions}
        answer(LAYOUTS[form].fields("coordinator", fields).removesuffix("\n"))
    else:
        answer(str(partition))
        if click.get_current_context().get_parameter_source("partitions") is ParameterSource.DEFAULT:
            say(f"kdump: of {partitions} partitions, Kafka's default: --partitions N for a topic with others")
