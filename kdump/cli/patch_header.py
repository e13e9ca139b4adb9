"""`kdump patch-header`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from kdump.cli.options.common import fail_on_option, format_option, help_option, jobs_option
from kdump.cli.options.help import Command
from kdump.cli.options.partitions import partition_options, selected
from kdump.cli.options.repair import (
    apply_option,
    count_partitions,
    demand_quarantine,
    plan_id_option,
    quarantine_option,
    segments_of,
)
from kdump.cli.repairing import Repair


@click.command(
    "patch-header",
    cls=Command,
    usual=("--apply", "--quarantine", "--plan-id", "--topic", "--format"),
    add_help_option=False,
    examples=(
        "kdump patch-header /data/orders-0",
        "kdump patch-header /data/orders-0 --apply --quarantine /backup/orders-0",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@partition_options
@apply_option
@quarantine_option
@plan_id_option
@format_option
@jobs_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Restore base offset, length, leader epoch and magic of batches, where they can have one value only.

    PATH is a log, a partition directory or a log.dir. Without --apply nothing is changed, and what would be is
    shown. At most 17 bytes of a batch are changed. Where a field could have more than one value, nothing in that
    partition is changed; its other logs can be named one by one.
    """
    demand_quarantine(given)
    given["paths"] = selected(given, [os.fspath(path) for path in given["paths"]])
    repair = Repair(given, partitions=count_partitions(given["paths"]))
    with repair.interruptible():
        for path in map(os.fspath, given["paths"]):
            with repair.guarded(path):
                if os.path.isdir(path):
                    _directory(repair, path)
                else:
                    _log(repair, path)
            if repair.has_failed:
                break
    sys.exit(repair.end())


def _directory(repair: Repair, path: str) -> None:
    """Take all partitions that a directory stands for, up to the first in which something fails."""
    from kdump.repair.patch_header import WrongHeaders, plan_partition_patches

    directory, _ = segments_of(path)
    for partition, wrong, examined in repair.examine_each(directory, WrongHeaders):
        with repair.guarded(partition):
            plan = plan_partition_patches(partition, wrong)
            repair.carry_out(plan, [partition], examined, [partition])
        if repair.has_failed:
            return


def _log(repair: Repair, path: str) -> None:
    from kdump.repair.patch_header import WrongHeaders, plan_patches

    os.lstat(path)
    wrong = WrongHeaders(os.path.dirname(path))
    examined = repair.examine([path], wrong.see, deep=False)
    repair.carry_out(plan_patches(path, wrong.by_others), [path], examined, _with_indexes(path))


def _with_indexes(path: str) -> list[str]:
    stem = path.removesuffix(".log")
    beside = [f"{stem}{suffix}" for suffix in (".index", ".timeindex")]
    return [path, *(one for one in beside if os.path.lexists(one))]
