"""`kdump repair`."""

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
    demand_quarantine,
    index_interval_option,
    interval_of,
    plan_id_option,
    quarantine_option,
)
from kdump.cli.repairing import Repair
from kdump.rows.plan import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kdump.repair.mending import RepairOptions
    from kdump.repair.small_files import ClusterFacts
    from kdump.storage.log_dir import LogDir


@click.command(
    "repair",
    cls=Command,
    usual=("--apply", "--quarantine", "--plan-id", "--only", "--topic", "--format"),
    add_help_option=False,
    examples=(
        "kdump repair /data",
        "kdump repair /data --apply --quarantine /backup/repairs",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@partition_options
@apply_option
@quarantine_option
@plan_id_option
@option(
    "--only",
    group="What is done",
    multiple=True,
    type=click.Choice(KINDS),
    metavar="KIND",
    help=f"Mend this alone; may be given again: {', '.join(KINDS)}.",
)
@option(
    "--cluster-id",
    group="What is done",
    metavar="ID",
    help="cluster.id of a lost meta.properties, where nothing here has it.",
)
@option(
    "--node-id",
    group="What is done",
    type=click.IntRange(min=0),
    metavar="N",
    help="node.id of a lost meta.properties, where nothing here has it.",
)
@index_interval_option
@broker_option
@config_option
@format_option
@jobs_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Mend all that can be mended without losing a byte that anyone can read, and name the rest.

    PATH is a log.dir or a partition directory. Without --apply nothing is changed, and what would be is shown. Name
    all log.dirs of a broker together: one tells what another has lost. Mended are indexes, header fields that can
    have one value only, producer snapshots, leader epochs, partition.metadata, checkpoints of offsets,
    meta.properties, and zero bytes behind the last batch of a log that another one continues. Nothing is made up:
    what neither the batches nor the broker's own files tell is left alone, and listed with what to do.
    """
    demand_quarantine(given)
    _check_cluster_id(given["cluster_id"])
    given["paths"] = selected(given, [os.fspath(path) for path in given["paths"]])
    given["settings"] = settings({**given, "now": None})
    repair = Repair(given)
    with repair.interruptible():
        roots: dict[str, _Root] = {}
        for path in dict.fromkeys(given["paths"]):
            with repair.guarded(path):
                _sort(roots, path)
        repair.expect(len(roots))
        options = _options(given, roots) if roots else None
        for root in roots.values():
            assert options is not None
            with repair.guarded(root.log_dir.path):
                _log_dir(repair, root, options, [one.log_dir for one in roots.values() if one is not root])
            if repair.has_failed:
                break
    sys.exit(repair.end())


class _Root:
    """A log directory, and what of it was named.

    Args:
        log_dir: it.
    """

    def __init__(self, log_dir: LogDir) -> None:
        self.log_dir = log_dir
        self.whole: str | None = None  # its path as the user wrote it, where it was named itself
        self.partitions: list[str] = []  # paths of partition directories that were named

    @property
    def paths(self) -> list[str]:
        """What was named of it."""
        return self.partitions if self.whole is None else [self.whole]


def _sort(roots: dict[str, _Root], path: str) -> None:
    """Put a path to the log directory that it is, or that it lies in.

    Raises:
        FileNotFoundError: there is nothing.
        OSError: the directory cannot be listed.
        RefusedError: it is something else.
    """
    from kdump.repair.errors import RefusedError
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import InputDirectory
    from kdump.storage.paths import above

    os.lstat(path)
    if not os.path.isdir(path):
        raise RefusedError(f"{path}: is a file; name the partition directory or the log directory that it lies in")
    if os.path.islink(path.rstrip(os.sep)):
        path = os.path.realpath(path)
    os.scandir(path).close()  # one that cannot be listed is not an empty one
    directory = InputDirectory(path)
    is_whole = directory.is_log_dir
    if is_whole and not (directory.partitions or directory.contents.files):
        raise RefusedError(f"{path}: no file of a broker is here; name a log directory", missing=True)
    if not is_whole and not directory.is_named_so:
        raise RefusedError(f"{path}: is not named as a partition directory (TOPIC-N): reindex and patch-header take it")
    where = path if is_whole else above(path)
    root = roots.setdefault(os.path.realpath(where), _Root(LogDir(where)))
    if is_whole:
        root.whole = path
    elif path not in root.partitions:
        root.partitions.append(path)


def _options(given: dict[str, Any], roots: Mapping[str, _Root]) -> RepairOptions:
    from kdump.repair.mending import RepairOptions

    values = {"cluster.id": given["cluster_id"], "node.id": given["node_id"]}
    return RepairOptions(
        given["settings"],
        frozenset(given["only"] or KINDS),
        interval=lambda directory: interval_of(directory, given["settings"]),
        cluster=cluster_facts([one.log_dir.path for one in roots.values()]),
        given={name: str(value) for name, value in values.items() if value is not None},
    )


def cluster_facts(paths: Sequence[str]) -> ClusterFacts | None:
    """Return what the metadata log among some log directories says, None where none is there or it cannot be trusted.

    Args:
        paths: of the log directories.
    """
    from kdump.repair.small_files import ClusterFacts
    from kdump.storage.names import METADATA_LOG

    directories = [path for path in (os.path.join(one, METADATA_LOG) for one in paths) if os.path.isdir(path)]
    if not directories:
        return None
    from kdump.state.cluster import sound_image

    image = sound_image(directories)
    if image is None:
        return None
    return ClusterFacts(
        image.topic_ids(),
        {number: tuple(map(str, fields.get("logDirs") or ())) for number, fields in image.brokers().items()},
        {int(one["voterId"]): str(one["voterDirectoryId"]) for one in image.voters if "voterDirectoryId" in one},
    )


def _log_dir(repair: Repair, root: _Root, options: RepairOptions, others: Sequence[LogDir]) -> None:
    """Make the plan of one log directory, and show it or have it done."""
    from kdump.repair.mending import LogDirFindings, plan_repair

    found = LogDirFindings()
    examined = repair.examine(root.paths, found.see, deep=False, checked=found.checked)
    plan = plan_repair(root.log_dir, found, options.replace(others=others), is_named=root.whole is not None)
    repair.carry_out(plan, root.paths, examined, root.paths)


def _check_cluster_id(value: str | None) -> None:
    from kdump.storage.identity import is_cluster_id

    if value is not None and not is_cluster_id(value):
        raise click.UsageError("--cluster-id: that is no id of a cluster", click.get_current_context())
