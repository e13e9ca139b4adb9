"""`kdump groups`."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import click

from kdump.broker.clusters import partition_count
from kdump.cli.options.common import format_option, limits_of
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import topics_option
from kdump.cli.options.terminal import bar_of
from kdump.cli.state import at_option, run, state_options, time_words, to_list, when
from kdump.render.commentary import say, write
from kdump.state.empty_answer import Question
from kdump.state.groups import GroupOptions, groups
from kdump.storage.names import OFFSETS_TOPIC


@click.command(
    "groups",
    cls=Command,
    usual=("--group", "--topic", "--at", "--diff", "--lag", "--reset-csv", "--format"),
    add_help_option=False,
    examples=(
        "kdump groups /data --group billing --at yesterday",
        "kdump groups /data --lag",
        "kdump groups /data --group billing --at now-2h --reset-csv",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@option(
    "--group", "groups_", group="Selection", multiple=True, metavar="G", help="Only this group; may be given again."
)
@topics_option("Only commits of this topic")
@at_option
@option("--diff", group="Selection", nargs=2, metavar="WHEN WHEN", help="What changed between two times.")
@option(
    "--lag",
    group="What is asked",
    is_flag=True,
    help="Show how far behind commits are, where the partitions' logs are at hand.",
)
@format_option
@option(
    "--reset-csv",
    group="What is shown",
    is_flag=True,
    help="Write the file of kafka-consumer-groups.sh --reset-offsets.",
)
@state_options
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Show committed offsets, now or at a past time.

    PATH is a log.dir, or a partition directory of __consumer_offsets or __share_group_state; of several copies of a
    partition the newest is read. Nothing is ever created, changed or locked.
    """
    if given["reset_csv"] and (given["diff"] or given["layout"] != "text"):
        raise click.UsageError("--reset-csv has a layout of its own: it goes with neither --diff nor another --format.")
    if (
        given["diff"]
        and click.get_current_context().get_parameter_source("at") is not click.core.ParameterSource.DEFAULT
    ):
        raise click.UsageError("--diff has two times of its own: it does not go with --at.")
    diff = tuple(when("--diff", text) for text in given["diff"]) if given["diff"] else None
    bar = bar_of("groups", quiet=given["quiet"])
    options = GroupOptions(
        at=when("--at", given["at"]),
        diff=None if diff is None else (diff[0], diff[1]),
        groups=frozenset(given["groups_"]),
        topics=frozenset(given["topics"]),
        lag=given["lag"],
        limits=limits_of(given),
        jobs=given["jobs"],
        progress=bar is not None,
    )
    sink = None
    if given["reset_csv"]:
        from kdump.render.text.reset_file import GroupsReset

        sink = GroupsReset(write, say, asked=len(options.groups))
    by_group = bool(options.groups)
    question = Question(
        "groups" if by_group or not options.topics else "commits",
        to_list("groups", given),
        "group" if by_group else "commits of topic",
        given["groups_"] or given["topics"],
        f" with commits of topic {', '.join(given['topics'])}" if by_group and options.topics else "",
        time_words(*(diff or (options.at,))),
        at=None if diff else options.at,
        is_diff=diff is not None,
        topic=OFFSETS_TOPIC,
        of_commits=given["reset_csv"],
    )
    paths = [os.fspath(path) for path in given["paths"]]
    count = partial(partition_count, OFFSETS_TOPIC, paths, options.limits)
    run(groups(paths, options), given, bar, question, sink, count)
