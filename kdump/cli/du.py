"""`kdump du`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.broker.config import DEFAULTS
from kdump.cli.options.broker import configured, say_defaults
from kdump.cli.options.common import (
    broker_option,
    fail_on_option,
    format_option,
    help_option,
    jobs_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    notes_option,
    quiet_option,
)
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import partition_options, selected
from kdump.cli.options.redact import redact_options, redactor_of
from kdump.cli.options.sizes import size_of
from kdump.cli.options.terminal import bar_of, color_option, paper_of
from kdump.cli.options.times import clock_of
from kdump.cli.show import show
from kdump.dispatch import takes
from kdump.exit_status import RunStatus
from kdump.render.commentary import say, write
from kdump.rows.usage import Usage
from kdump.tally import Tally
from kdump.usage.options import BY, UsageOptions

if TYPE_CHECKING:
    from kdump.cli.show import Sink

_TOP_KEYS = 20


@click.command(
    "du",
    cls=Command,
    usual=("--topic", "--by", "--top", "--superseded", "--full-at", "--now", "--format"),
    add_help_option=False,
    examples=(
        "kdump du /data --top 10",
        "kdump du /data/users-0 --by key --superseded",
        "kdump du /data --by topic --full-at 500G",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@partition_options
@option(
    "--by",
    group="Selection",
    type=click.Choice(BY),
    default="topic",
    show_default=True,
    metavar="WHAT",
    help=f"What has a row each: {', '.join(BY)}.",
)
@option(
    "--top",
    group="Selection",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N largest; the rest is one row.  [default: all, of keys 20]",
)
@option(
    "--superseded",
    group="What is asked",
    is_flag=True,
    help="Count the records that a newer one of the same key replaces.",
)
@option(
    "--full-at",
    group="What is asked",
    metavar="SIZE",
    help="Show too how fast it grew, over which span, and when it has SIZE: 500G, 2T.",
)
@broker_option
@option(
    "--config",
    group="The broker",
    metavar="FILE",
    help="Topic and broker settings, as Java properties (server.properties).",
)
@option(
    "--set",
    "settings",
    group="The broker",
    multiple=True,
    metavar="NAME=VALUE",
    help="One setting; wins over --config.",
)
@option(
    "--now", group="The broker", metavar="TIME", help="The clock: 2026-11-21T14:03:00Z, 10:00, now+2d.  [default: now]"
)
@notes_option
@format_option
@quiet_option
@color_option
@jobs_option
@redact_options
@max_batch_bytes_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Show which topics, partitions, keys, producers, groups, codecs or days use the space.

    PATH is a log.dir, a partition directory or a file. The rows add up to the sizes of all files below it; the last
    row is what belongs to no topic. Beside a partition stands what retention frees now and next. Nothing is changed.
    """
    from kdump.usage.run import usage

    paths = selected(given, [os.fspath(path) for path in given["paths"]])
    outcome = _UsageStatus(given["fail_on"], compat=False)
    bar = bar_of("du", quiet=given["quiet"])
    top = given["top"] or (_TOP_KEYS if given["by"] == "key" else None)
    options = UsageOptions(
        by=given["by"],
        top=top,
        superseded=given["superseded"],
        full_at=None if given["full_at"] is None else size_of("--full-at", given["full_at"]),
        now=clock_of("--now", given["now"]),
        config=configured(given),
        max_batch_bytes=given["max_batch_bytes"],
        max_uncompressed_bytes=given["max_uncompressed_bytes"],
        progress=bar is not None,
        jobs=given["jobs"],
    )
    redactor = redactor_of(given, paths)
    show(usage(paths, options), _sink(given), outcome, bar, redactor)
    if outcome.assumes and given["layout"] == "text" and not given["quiet"]:  # rows have it in the other layouts
        say_defaults(options.config, "du", always=True)
    sys.exit(outcome.exit)


class _UsageStatus(RunStatus):
    """The exit status, and whether what is freed hangs on settings that nobody gave."""

    assumes = False

    @takes(Usage)
    def _usage(self, row: Usage) -> None:
        self.assumes |= any(DEFAULTS in one for one in row.assumed)


def _sink(given: dict[str, Any]) -> Sink:
    if given["layout"] != "text":
        from kdump.render.row_lines import RowLines
        from kdump.rows.layout import LAYOUTS

        return RowLines(write, say, Tally(), layout=LAYOUTS[given["layout"]])
    from kdump.render.report.usage import UsageText

    return UsageText(paper_of(given), say, notes=given["notes"])
