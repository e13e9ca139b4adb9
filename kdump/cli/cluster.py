"""`kdump cluster`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.common import format_option, limits_of
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import topics_option
from kdump.cli.options.terminal import bar_of
from kdump.cli.state import at_option, run, state_options, time_words, to_list, when
from kdump.format.java_values import MAX_LONG
from kdump.render.commentary import say, write
from kdump.state.cluster import ClusterOptions, cluster
from kdump.state.empty_answer import Question
from kdump.storage.names import METADATA_TOPIC

if TYPE_CHECKING:
    from kdump.render.emit.cluster import EmittedCluster

_OFFSET = click.IntRange(min=0, max=MAX_LONG)


@click.command(
    "cluster",
    cls=Command,
    usual=("--topic", "--at", "--at-offset", "--diff", "--check", "--emit", "--format"),
    add_help_option=False,
    examples=(
        "kdump cluster /data --diff now-1h end",
        "kdump cluster /data --check /mnt/disk1 --check /mnt/disk2",
        "kdump cluster /data --emit commands > cluster.sh",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@topics_option("Only this topic")
@at_option
@option("--at-offset", group="Selection", type=_OFFSET, metavar="N", help="The state after the record at this offset.")
@option("--diff", group="Selection", nargs=2, metavar="WHEN WHEN", help="What changed between two times.")
@option(
    "--check",
    "checks",
    group="What is checked",
    multiple=True,
    metavar="LOGDIR",
    help="Compare a broker's log.dir with this state; may be given again.",
)
@option(
    "--emit",
    group="What is shown",
    type=click.Choice(["commands", "strimzi"]),
    help="What makes a cluster like this again: commands of Kafka's tools, or resources of Strimzi.",
)
@format_option
@state_options
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Show which brokers, topics, leaders, configurations and users a cluster had, and what changed.

    PATH is a log.dir with __cluster_metadata-0, or that directory; of several copies the newest is read. Secrets are
    not shown. Nothing is ever created, changed or locked.
    """
    is_default = click.get_current_context().get_parameter_source("at") is click.core.ParameterSource.DEFAULT
    if given["at_offset"] is not None and not is_default:
        raise click.UsageError("--at-offset says where: it does not go with --at.")
    if given["diff"] and (given["at_offset"] is not None or not is_default):
        raise click.UsageError("--diff has two times of its own: it does not go with --at or --at-offset.")
    if given["diff"] and given["checks"]:
        raise click.UsageError("--check compares with one state: it does not go with --diff.")
    if given["emit"]:
        _refuse_with_emit(given)
    diff = tuple(when("--diff", text) for text in given["diff"]) if given["diff"] else None
    bar = bar_of("cluster", quiet=given["quiet"])
    options = ClusterOptions(
        at=when("--at", given["at"]),
        at_offset=given["at_offset"],
        diff=None if diff is None else (diff[0], diff[1]),
        topics=frozenset(given["topics"]),
        checks=tuple(map(os.fspath, given["checks"])),
        limits=limits_of(given),
        progress=bar is not None,
        origin=given["emit"] is not None,
    )
    at = options.at_offset
    question = Question(
        "topics" if options.topics else "brokers or topics",
        to_list("cluster", given),
        "topic",
        given["topics"],
        when=f" at offset {at}" if at is not None else time_words(*(diff or (options.at,))),
        is_diff=diff is not None,
        topic=METADATA_TOPIC,
        may_be_empty=diff is not None or bool(given["checks"]),
    )
    sink = _emitter(given, question.when) if given["emit"] else None
    run(cluster([os.fspath(path) for path in given["paths"]], options), given, bar, question, sink)


def _refuse_with_emit(given: dict[str, Any]) -> None:
    """Refuse options that --emit does not go with."""
    source = click.get_current_context().get_parameter_source
    if source("layout") is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError("--emit has a layout of its own: it does not go with --format.")
    if given["diff"] or given["checks"]:
        raise click.UsageError("--emit writes one state: it goes with neither --diff nor --check.")
    if given["redact"] or given["redact_key"]:
        raise click.UsageError("--emit writes what is to be run: it goes with neither --redact nor --redact-key.")


def _emitter(given: dict[str, Any], when_asked: str) -> EmittedCluster:
    """Return the sink of --emit."""
    topics_only = bool(given["topics"])
    if given["emit"] == "commands":  # few runs have it
        from kdump.render.emit.commands import EmittedCommands

        return EmittedCommands(write, say, when=when_asked, topics_only=topics_only)
    from kdump.render.emit.strimzi import EmittedResources

    return EmittedResources(write, say, when=when_asked, topics_only=topics_only)
