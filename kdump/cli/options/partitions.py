"""The options that select partitions of log directories, wherever paths are given: --topic and --topic-partition."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options import complete
from kdump.cli.options.engine import MANIFESTS
from kdump.cli.options.help import option, options
from kdump.exit_status import Exit
from kdump.render.commentary import say
from kdump.words.escape import escape
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAMED = 3  # of what is asked for

topic_option = option(
    "--topic",
    "topics",
    group="Selection",
    multiple=True,
    metavar="T",
    shell_complete=complete.topics,
    help="Only the partitions of this topic; may be given again.",
)
topic_partition_option = option(
    "--topic-partition",
    "topic_partitions",
    group="Selection",
    multiple=True,
    metavar="TOPIC-N",
    shell_complete=complete.partitions,
    help="Only this partition; may be given again.",
)
topic_partition_one = option(
    "--topic-partition",
    group="Selection",
    metavar="TOPIC-N",
    shell_complete=complete.partitions,
    help="With a log.dir: the partition, as its directory is named (orders-0).",
)
partition_options = options(topic_option, topic_partition_option)


def selected(given: dict[str, Any], paths: Sequence[str]) -> list[str]:
    """Return the paths of the partitions that are asked for; end where there is none.

    A log directory stands for those of its partition directories that are meant. What is no directory is kept: the
    verb says what is wrong with it, as with a path that is missing.

    Args:
        given: the values of the options.
        paths: as the user wrote them.
    """
    topics, names = given["topics"], given["topic_partitions"]
    if not (topics or names):
        return list(paths)
    manifest = next((path for path in paths if path.lower().endswith(MANIFESTS)), None)
    if manifest is not None:
        raise click.UsageError(f"--topic and --topic-partition are for directories: {escape(manifest)} is a manifest.")
    found = list(dict.fromkeys(one for path in paths for one in _within(path, frozenset(topics), frozenset(names))))
    if not found:
        what = escape(some_of([*topics, *names], _NAMED))
        say(f"kdump: no partition of {what} is in {escape(some_of(list(paths), _NAMED))}")
        sys.exit(Exit.NOT_FOUND)
    return found


def partitions_of(topics: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return the names of the partitions of some topics, of which some paths have a directory; end where none has.

    Args:
        topics: none for none.
        paths: of log directories and partition directories.
    """
    if not topics:
        return []
    from kdump.storage.paths import base_name

    found = selected({"topics": topics, "topic_partitions": ()}, paths)
    return sorted({base_name(path) for path in found})


def _within(path: str, topics: frozenset[str], names: frozenset[str]) -> Iterator[str]:
    from kdump.storage.names import parse_partition
    from kdump.storage.paths import base_name, is_remote

    own = parse_partition(base_name(path))
    if own is not None:
        if own.topic in topics or f"{own.topic}-{own.partition}" in names:
            yield path
        return
    if is_remote(path) or not os.path.isdir(path):
        yield path
        return
    try:
        below = sorted(os.listdir(path))
    except OSError:
        yield path  # the verb says why it cannot be listed
        return
    for name in below:
        found = parse_partition(name)
        if found is not None and not found.state and (found.topic in topics or name in names):
            yield os.path.join(path, name)
