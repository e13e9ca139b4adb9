"""Options of more than one command.

`--help` is made here because click's own goes through gettext, which costs each start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdump.broker.releases import RELEASES
from kdump.cli.options.help import Command, brief_help, option, options
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES, ReadLimits
from kdump.render.commentary import answer

if TYPE_CHECKING:
    from collections.abc import Mapping


def _show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        is_brief = "-h" in param.opts and isinstance(ctx.command, Command)
        answer(brief_help(ctx.command, ctx) if is_brief else ctx.get_help())  # type: ignore[arg-type]
        ctx.exit()


_HELP: dict[str, Any] = {
    "group": "More", "is_flag": True, "expose_value": False, "is_eager": True, "callback": _show,
}  # fmt: skip
help_option = options(
    option("-h", "brief", help="Show the options that are used most.", **_HELP),
    option("--help", help="Show every option.", **_HELP),
)

notes_option = option(
    "--notes/--no-notes",
    group="What is shown",
    default=False,
    help="In text: list findings of severity note too; else their number stands there.",
)

format_option = option(
    "--format",
    "layout",
    group="What is shown",
    type=click.Choice(["text", "lines", "json"]),
    default="text",
    show_default=True,
    help="Text, lines of one fact each, or JSON.",
)

raw_option = option(
    "--raw", group="What is shown", is_flag=True, help="On a terminal: write keys, payloads and names as they are."
)

max_batch_bytes_option = option(
    "--max-batch-bytes",
    group="Limits and processes",
    type=click.IntRange(min=1024),
    metavar="N",
    default=MAX_BATCH_BYTES,
    show_default=True,
    help="The records of a larger batch are not read.",
)

max_uncompressed_bytes_option = option(
    "--max-uncompressed-bytes",
    group="Limits and processes",
    type=click.IntRange(min=1024),
    metavar="N",
    default=MAX_UNCOMPRESSED_BYTES,
    show_default=True,
    help="The records of one batch are read up to this size.",
)


def limits_of(given: Mapping[str, Any]) -> ReadLimits:
    """Return what is read at most.

    Args:
        given: the values of both options.
    """
    return ReadLimits(given["max_batch_bytes"], given["max_uncompressed_bytes"])


class _Jobs(click.IntRange):
    """A number of processes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Return the number.

        Raises:
            click.BadParameter: it is none.
        """
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"'{value}': a whole number, 0 for all cores", param, ctx)


jobs_option = option(
    "-j",
    "--jobs",
    group="Limits and processes",
    type=_Jobs(min=0),
    metavar="N",
    default=1,
    show_default=True,
    help="Processes to use; 0: one on every core. The output is the same for every N.",
)

fail_on_option = option(
    "--fail-on",
    group="What is shown",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="Which findings make the exit status 3 or 4.",
)

quiet_option = option(
    "--quiet", group="What is shown", is_flag=True, help="Nothing on stderr but errors: no hints, no progress bar."
)

config_option = option(
    "--config", group="The broker", metavar="FILE", help="Configuration of the broker or a topic: Java properties."
)
broker_option = option(
    "--broker",
    group="The broker",
    type=click.Choice(RELEASES),
    help="The release of Kafka whose broker it is.  [default: the newest]",
)
settings_option = option(
    "--set",
    "settings",
    group="The broker",
    multiple=True,
    metavar="NAME=VALUE",
    help="One setting of the topics; wins over --config. cleanup.policy=delete: no compaction explains a hole.",
)
