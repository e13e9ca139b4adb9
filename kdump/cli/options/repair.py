"""Options of the commands that write, and the partitions that their paths name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.help import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.broker.load.log_manager import LoadSettings

_OF_PLAN = (
    "to_offset", "to_position", "at_damage", "with_later_segments", "index_interval_bytes", "config", "up_to_damage",
    "force", "snapshot", "cluster_id", "node_id", "only",
)  # fmt: skip

apply_option = option(
    "--apply", "wants_apply", group="What is done", is_flag=True, help="Do it; without this nothing is changed."
)

quarantine_option = option(
    "--quarantine",
    group="What is done",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where to save what is replaced or cut, and the journal; outside of every log directory.",
)

plan_id_option = option(
    "--plan-id",
    group="What is done",
    metavar="ID",
    multiple=True,
    help="Do it only if it is still this plan; may be given several times.",
)

index_interval_option = option(
    "--index-interval-bytes",
    group="What is checked",
    type=click.IntRange(min=0),
    metavar="N",
    help="index.interval.bytes of the topics.  [default: what --config or the sound indexes tell]",
)


def demand_quarantine(given: dict[str, Any]) -> None:
    """End with a usage error for `--apply` without `--quarantine`."""
    if given["wants_apply"] and not given["quarantine"]:
        message = "--apply needs --quarantine DIR: a directory for what is replaced and for the journal"
        raise click.UsageError(message, click.get_current_context())


def options_of(given: dict[str, Any]) -> Iterator[str]:
    """Yield the options that a plan hangs on, as the user gave them."""
    for name in _OF_PLAN:
        value = given.get(name)
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif isinstance(value, tuple):
            yield from (word for one in value for word in (option, str(one)))
        elif value is not None and value is not False:
            yield from (option, str(value))


def interval_of(directory: str, chosen: LoadSettings) -> int | None:
    """Return the index.interval.bytes that was given for a topic; None when none was.

    Args:
        directory: of a partition of it.
        chosen: the settings.
    """
    from kdump.storage.names import parse_partition

    if chosen.interval is not None or not chosen.config.is_given("index.interval.bytes"):
        return chosen.interval
    name = parse_partition(os.path.basename(os.path.abspath(directory)))
    return chosen.config.of_topic(None if name is None else name.topic).index_interval_bytes


def segment_bases(path: str) -> tuple[str, frozenset[int] | None] | None:
    """Return the partition directory and the base offset that a file belongs to, None for another file.

    Args:
        path: as the user wrote it.
    """
    from kdump.format.kinds import FileKind
    from kdump.storage.names import parse_name

    directory, name = os.path.split(path)
    found = parse_name(name)
    kinds = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
    if not found.is_live or found.kind not in kinds or found.base_offset is None or found.uuid is not None:
        return None
    return directory or ".", frozenset((found.base_offset,))


def segments_of(path: str) -> tuple[str, frozenset[int] | None]:
    """Return the directory to look at for a path, and the base offset that it names, None for a whole directory.

    Args:
        path: of a partition directory, a log directory or a file of a segment.

    Raises:
        FileNotFoundError: there is nothing.
        OSError: the directory cannot be listed.
        RefusedError: it is something else.
    """
    from kdump.repair.errors import RefusedError

    os.lstat(path)
    if os.path.isdir(path):
        os.scandir(path).close()  # one that cannot be listed is not an empty one
        if not partitions_of(path):
            why = "no segment is here; name a partition directory or a log directory"
            raise RefusedError(f"{path}: {why}", missing=True)
        return path, None
    named = segment_bases(path)
    if named is None:
        snapshot = _snapshot(path)
        raise RefusedError(snapshot or f"{path}: is not a segment file with the name that a broker gives it")
    return named


def _snapshot(path: str) -> str | None:
    """Return what to do instead about a producer snapshot that was named as a segment; None for any other file."""
    from kdump.format.kinds import FileKind
    from kdump.storage.names import parse_name
    from kdump.words.command import command_line, named

    directory, name = os.path.split(path)
    found = parse_name(name)
    if found.kind is not FileKind.SNAPSHOT or not found.is_live or found.base_offset is None:
        return None
    log = os.path.join(directory, f"{found.base_offset:020}.log")
    if os.path.exists(log):
        return (
            f"{path}: is a producer snapshot; what builds it again: {command_line('reindex', named(log), '--snapshot')}"
        )
    why = f"no segment begins at offset {found.base_offset}: a broker builds it again at its next start"
    return f"{path}: is a producer snapshot, and {why}"


def count_partitions(paths: Iterable[str]) -> int:
    """Return how many partitions some paths stand for; a path that names none counts as one."""
    return sum(max(1, len(partitions_of(one))) if os.path.isdir(one) else 1 for one in paths)


def partitions_of(path: str) -> list[str]:
    """Return the partition directories that a directory stands for: itself, or those of a log directory."""
    from kdump.storage.partition_dir import InputDirectory

    directory = InputDirectory(path)
    return [one.path for one in directory.partitions] if directory.is_partition or directory.is_log_dir else []
