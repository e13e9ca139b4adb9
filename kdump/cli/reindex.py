"""`kdump reindex`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.broker import settings
from kdump.cli.options.common import (
    broker_option,
    config_option,
    fail_on_option,
    format_option,
    help_option,
    jobs_option,
)
from kdump.cli.options.help import Command, option
from kdump.cli.options.partitions import partition_options, selected
from kdump.cli.options.repair import (
    apply_option,
    count_partitions,
    demand_quarantine,
    index_interval_option,
    interval_of,
    plan_id_option,
    quarantine_option,
    segments_of,
)
from kdump.cli.repairing import Repair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.cli.repairing import Examined
    from kdump.repair.plan import Plan
    from kdump.repair.reasons import Reasons


@click.command(
    "reindex",
    cls=Command,
    usual=("--apply", "--quarantine", "--plan-id", "--topic", "--to", "--up-to-damage", "--snapshot", "--format"),
    add_help_option=False,
    examples=(
        "kdump reindex /data/orders-0",
        "kdump reindex /data/orders-0 --apply --quarantine /backup/orders-0",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@partition_options
@apply_option
@quarantine_option
@plan_id_option
@index_interval_option
@broker_option
@config_option
@option(
    "--up-to-damage",
    group="What is done",
    is_flag=True,
    help="Index a damaged log up to the damage, as a broker would.",
)
@option("--force", group="What is done", is_flag=True, help="Rebuild sound indexes too.")
@option("--snapshot", group="What is done", is_flag=True, help="Build wrong and missing producer snapshots too.")
@option(
    "--to",
    group="What is done",
    old=("--output",),
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write the new indexes here, aside.",
)
@format_option
@jobs_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Rebuild missing or corrupt indexes, byte for byte as a broker does when it recovers the segment.

    PATH is a partition directory, a log.dir or a file of a segment. Without --apply nothing is changed, and what
    would be is shown. Logs are never changed, and sound indexes are left alone.
    """
    demand_quarantine(given)
    given["paths"] = selected(given, given["paths"])
    if given["to"] is not None and given["wants_apply"]:
        raise click.UsageError("--to writes aside, and --apply in place: choose one", click.get_current_context())
    given["settings"] = settings({**given, "now": None})
    asked = _by_directory(given["paths"])
    repair = Repair(given, partitions=count_partitions(paths[0] if len(paths) == 1 else one for one, paths in asked))
    with repair.interruptible():
        for _, paths in asked:
            _directory(repair, paths, given)
            if repair.has_failed:
                break
    sys.exit(repair.end())


def _by_directory(paths: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Put together what lies in one directory: one repair mends all of it, and its result is judged once."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in dict.fromkeys(paths):
        directory = path if os.path.isdir(path) else os.path.dirname(path) or os.curdir
        found.setdefault(os.path.abspath(directory), (directory, []))[1].append(path)
    return list(found.values())


def _directory(repair: Repair, paths: list[str], given: dict[str, Any]) -> None:
    """Take all partitions that a directory and files in it stand for, up to the first in which something fails."""
    from kdump.repair.reasons import Reasons

    found = []
    for path in paths:
        with repair.guarded(path):
            found.append((path, *segments_of(path)))
    if not found:
        return
    whole = [path for path, _, bases in found if bases is None]
    named = frozenset(base for _, _, bases in found if bases is not None for base in bases)
    with repair.guarded(paths[0]):
        for partition, reasons, examined in repair.examine_each(found[0][1], Reasons):
            arguments = [partition] if whole else [path for path, _, _ in found]
            with repair.guarded(partition):
                asked = {**given, "bases": None if whole else named}
                _partition(repair, partition, reasons, examined, arguments, asked)
            if repair.has_failed:
                return


def _partition(
    repair: Repair, directory: str, reasons: Reasons, examined: Examined, arguments: list[str], given: dict[str, Any]
) -> None:
    from kdump.repair.reindex import ReindexOptions, plan_reindex

    interval = interval_of(directory, given["settings"])
    asked = given["up_to_damage"], given["force"], given["snapshot"], given["bases"]
    plan = plan_reindex(directory, reasons, ReindexOptions(interval, *asked), examined.end_offset)
    if given["to"] is not None:
        _write_aside(plan, given["to"], given["paths"])
    repair.carry_out(plan, arguments, examined, [directory])


def _write_aside(plan: Plan, output: str, paths: Sequence[str]) -> None:
    from kdump.repair.reindex import write_aside

    write_aside(plan, output, paths)
