"""`kdump retention`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.broker.retention_results import Retained
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
    raw_option,
)
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import partition_options, selected
from kdump.cli.options.terminal import bar_of, color_option, paper_of
from kdump.cli.options.times import clock_of
from kdump.cli.show import show
from kdump.dispatch import takes
from kdump.exit_status import RunStatus
from kdump.format.java_values import MAX_LONG
from kdump.render.commentary import say, write
from kdump.retention.run import RetentionOptions, retention
from kdump.words.escape import escape

if TYPE_CHECKING:
    from kdump.cli.show import Sink

_OFFSET = click.IntRange(min=0, max=MAX_LONG)


@click.command(
    "retention",
    cls=Command,
    usual=("--topic", "--config", "--set", "--now", "--pass", "--format", "--notes"),
    add_help_option=False,
    examples=(
        "kdump retention /data/orders-0 --set retention.ms=86400000",
        "kdump retention /data --config server.properties --now now+1d",
        "kdump retention /data/users-0 --set cleanup.policy=compact --pass",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@partition_options
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
@option(
    "--compaction",
    group="What is asked",
    is_flag=True,
    help="Show too what the cleaner may clean, and whether it does.",
)
@option(
    "--pass",
    "clean",
    group="What is asked",
    is_flag=True,
    help="Simulate one pass of the cleaner too; nothing is written.",
)
@option(
    "--high-watermark",
    group="What is asked",
    type=_OFFSET,
    metavar="N",
    help="Nothing above it is deleted.  [default: the log end]",
)
@option(
    "--log-start-offset",
    group="What is asked",
    type=_OFFSET,
    metavar="N",
    help="Begin logs at N, as after DeleteRecords.  [default: the checkpoint]",
)
@option(
    "--highest-remote-offset",
    group="What is asked",
    type=click.IntRange(min=-1, max=MAX_LONG),
    metavar="N",
    help="Remote storage has a tiered log up to N; -1: nothing.  [default: all that may be copied]",
)
@format_option
@jobs_option
@notes_option
@quiet_option
@color_option
@raw_option
@max_batch_bytes_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Show what a broker will delete, roll and compact, when, and why.

    PATH is a partition directory or a log.dir. Nothing is ever created, changed or locked. The settings of a topic are
    not in its files: they are read from the __cluster_metadata-0 of its log.dir; else give them with --config or --set,
    or name that directory too. Without any of these it is unknown what goes.
    """
    paths = selected(given, [os.fspath(path) for path in given["paths"]])
    outcome = _RetentionStatus(given["fail_on"], compat=False)
    bar = bar_of("retention", quiet=given["quiet"])
    options = RetentionOptions(
        config=configured(given),
        now=clock_of("--now", given["now"]),
        high_watermark=given["high_watermark"],
        log_start_offset=given["log_start_offset"],
        highest_remote_offset=given["highest_remote_offset"],
        compaction=given["compaction"] or given["clean"],
        clean=given["clean"],
        collect=given["layout"] != "text",
        progress=bar is not None,
        max_batch_bytes=given["max_batch_bytes"],
        max_uncompressed_bytes=given["max_uncompressed_bytes"],
        jobs=given["jobs"],
    )
    show(retention(paths, options), _sink(given), outcome, bar)
    if outcome.partitions and given["layout"] == "text" and not given["quiet"]:
        say_defaults(options.config, "retention", always=True)
    unknown = outcome.unknown
    if unknown and not options.config.is_silent and given["layout"] == "text" and not given["quiet"]:
        first, more = escape(unknown[0]), f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        say(f"kdump: retention: cleanup.policy of {first}{more} is not known: give it by --config or --set")
    sys.exit(outcome.exit)


class _RetentionStatus(RunStatus):
    """The exit status: a partition of which nobody knows what goes was asked for, and is not answered."""

    def __init__(self, fail_on: str, *, compat: bool) -> None:
        super().__init__(fail_on, compat=compat)
        self.unknown: list[str] = []  # these partitions
        self.partitions = 0  # that were judged

    @takes(Retained)
    def _retained(self, row: Retained) -> None:
        self.partitions += 1
        if row.deletion is None:
            self.unreadable()
            self.unknown.append(row.partition)


def _sink(given: dict[str, Any]) -> Sink:
    if given["layout"] != "text":
        from kdump.render.retention_rows import RetentionRows
        from kdump.rows.layout import LAYOUTS

        return RetentionRows(write, say, None, layout=LAYOUTS[given["layout"]])
    from kdump.render.report.retention import RetentionTable

    return RetentionTable(paper_of(given), say, raw=given["raw"], notes=given["notes"])
