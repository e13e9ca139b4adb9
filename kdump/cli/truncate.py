"""`kdump truncate`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from kdump.cli.options.broker import settings
from kdump.cli.options.common import broker_option, fail_on_option, format_option, help_option, jobs_option
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import topic_partition_one
from kdump.cli.options.repair import (
    apply_option,
    demand_quarantine,
    partitions_of,
    plan_id_option,
    quarantine_option,
    segment_bases,
    segments_of,
)
from kdump.cli.repairing import Repair


@click.command(
    "truncate",
    cls=Command,
    usual=(
        "--to-offset",
        "--to-position",
        "--at-damage",
        "--with-later-segments",
        "--apply",
        "--quarantine",
        "--plan-id",
    ),
    add_help_option=False,
    examples=(
        "kdump truncate /data/orders-0 --at-damage",
        "kdump truncate /data/orders-0 --to-offset 40112 --apply --quarantine /backup",
    ),
)
@click.argument("path", metavar="PATH")
@topic_partition_one
@option(
    "--to-offset", group="Where to cut", type=click.IntRange(min=0), metavar="N", help="The first offset that goes."
)
@option(
    "--to-position", group="Where to cut", type=click.IntRange(min=0), metavar="N", help="The first byte that goes."
)
@option("--at-damage", group="Where to cut", is_flag=True, help="Cut before the first batch that is damaged.")
@option("--with-later-segments", group="Where to cut", is_flag=True, help="Later segments may go too.")
@apply_option
@quarantine_option
@plan_id_option
@option(
    "--index-interval-bytes",
    group="What is checked",
    type=click.IntRange(min=0),
    metavar="N",
    help="index.interval.bytes of the topic.  [default: what --config or the indexes tell]",
)
@broker_option
@option(
    "--config", group="The broker", metavar="FILE", help="Configuration of the broker or the topic: Java properties."
)
@format_option
@jobs_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Cut the end of a log off at an offset, a byte or the first damage, with its indexes, and keep it aside.

    PATH is a partition directory, or a log. Batches are never rewritten: the one that has the offset or the byte
    goes as a whole. Without --apply nothing is changed, and what would be is shown. The first remedy is another
    replica: what is cut here, followers will lose too.
    """
    wanted = [given["to_offset"] is not None, given["to_position"] is not None, given["at_damage"]]
    if sum(wanted) != 1:
        message = "name the place of the cut: --to-offset N, --to-position N or --at-damage"
        raise click.UsageError(message, click.get_current_context())
    demand_quarantine(given)
    path = os.fspath(given["path"])
    if given["topic_partition"] is not None:
        path = given["path"] = os.path.join(path, given["topic_partition"])
    repair = Repair(given)
    with repair.interruptible(), repair.guarded(path):
        os.lstat(path)
        _run(repair, path, given)
    sys.exit(repair.end())


def _run(repair: Repair, path: str, given: dict[str, Any]) -> None:
    from kdump.repair.truncate import CutTarget, LogDamage, plan_truncate

    named = segments_of(path) if os.path.isdir(path) else segment_bases(path)
    if named is None:
        repair.refuse(f"{path}: is not a log with the name that a broker gives it, <20 digits>.log")
        return
    directory, bases = named
    if bases is None and partitions_of(directory) != [directory]:
        repair.refuse(f"{path}: is a log directory; name one of the partition directories in it")
        return
    base = None if bases is None else min(bases)
    damage = LogDamage(directory)
    examined = repair.examine([directory], damage.see, deep=True)
    target = CutTarget(given["to_offset"], given["to_position"], given["at_damage"], base, given["with_later_segments"])
    plan = plan_truncate(directory, target, damage, settings({**given, "now": None}))
    repair.carry_out(plan, [path], examined, [directory])
