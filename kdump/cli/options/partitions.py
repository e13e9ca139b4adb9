"""The options that select partitions of log directories, wherever paths are given: --topic and --topic-partition."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kdump.cli.options import complete
from kdump.cli.options.engine import roots_of
from kdump.cli.options.help import option, options
from kdump.exit_status import Exit
from kdump.render.commentary import say
from kdump.storage.paths import DID_YOU_MEAN, base_name, exists, parent
from kdump.words.escape import escape
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn

    from kdump.cli.options.help import Decorated
    from kdump.export.origin import Root
    from kdump.storage.names import PartitionName

_NAMED = 3  # of what is asked for


def topics_option(what: str) -> Callable[[Decorated], Decorated]:
    """Make the option --topic, which may be given again.

    Args:
        what: is meant of a topic, as the help begins.
    """
    return option(
        "--topic",
        "topics",
        group="Selection",
        multiple=True,
        metavar="T",
        shell_complete=complete.topics,
        help=f"{what}; may be given again.",
    )


topic_option = topics_option("Only the partitions of this topic")
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

    A log directory stands for those of its partition directories that are meant. What is missing or cannot be listed is
    kept: the verb says what is wrong with it.

    Args:
        given: the values of the options.
        paths: as the user wrote them; patterns are expanded.
    """
    if not _selects(given):
        return list(paths)
    found = list(dict.fromkeys(_meant(given, paths)))
    return found or _end_without(given, paths)


def selected_roots(given: dict[str, Any], paths: Sequence[str]) -> tuple[Sequence[str], Sequence[Root] | None]:
    """Return the paths of the partitions that are asked for, as `selected` does, and what they stand for.

    Args:
        given: the values of the options.
        paths: as the user wrote them, manifests among them.

    Returns:
        The paths; and the roots of the manifests and the other paths, None where no manifest is among them.
    """
    roots = roots_of(paths)
    if roots is None:
        named = selected(given, paths)
        return named, None
    if _selects(given):
        roots = [root.replace(path=one) for root in roots for one in dict.fromkeys(_meant(given, [root.path]))]
        if not roots:
            _end_without(given, paths)
    return paths, roots


def partitions_of(topics: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return the names of the partitions of some topics, of which some paths have a directory; end where none has.

    Args:
        topics: none for none.
        paths: of log directories and partition directories.
    """
    if not topics:
        return []
    found = selected({"topics": topics, "topic_partitions": ()}, paths)
    return sorted({base_name(path) for path in found})


def _selects(given: dict[str, Any]) -> bool:
    return bool(given["topics"] or given["topic_partitions"])


def _meant(given: dict[str, Any], paths: Sequence[str]) -> Iterator[str]:
    from kdump.storage.directory import expanded

    for path, is_directory in expanded(paths):
        yield from _within(path, given, is_directory=is_directory)


def _within(path: str, given: dict[str, Any], *, is_directory: bool) -> Iterator[str]:
    """Yield what of a path is meant: itself, or partition directories below it."""
    from kdump.storage.directory import DirectoryListing
    from kdump.storage.names import parse_partition

    def is_meant(name: PartitionName) -> bool:
        return name.topic in given["topics"] or name.topic_partition in given["topic_partitions"]

    own = parse_partition(base_name(path if is_directory else parent(path)))
    if own is not None:
        if is_meant(own) or not (is_directory or exists(path, follow=False)):
            yield path
        return
    if not is_directory:
        if not exists(path, follow=False):
            yield path
        return
    listing = DirectoryListing(path)
    if listing.failure is not None:
        yield path
        return
    for one in listing.partitions():
        found = parse_partition(base_name(one))
        if found is not None and not found.state and is_meant(found):
            yield one


def _end_without(given: dict[str, Any], paths: Sequence[str]) -> NoReturn:
    """End, as no partition is meant: say which ones are there."""
    from difflib import get_close_matches

    from kdump.storage.directory import DirectoryListing, expanded

    listings = [DirectoryListing(path) for path, is_directory in expanded(paths) if is_directory]
    there = sorted({base_name(one) for listing in listings for one in listing.partitions()}, key=_own_last)
    asked = [*given["topics"], *map(_topic, given["topic_partitions"])]
    of_topic = [name for name in there if _topic(name) in asked]
    meant = get_close_matches(asked[0], map(_topic, there), 1)
    near = of_topic or [name for name in there if _topic(name) in meant] or there
    what = some_of([*given["topics"], *given["topic_partitions"]], _NAMED)
    hint = f"; here {'is' if len(near) == 1 else 'are'} {some_of(near, _NAMED)}" if near else ""
    if meant and not of_topic:
        hint = f"{DID_YOU_MEAN}{some_of(near, _NAMED)}?"
    say(f"kdump: no partition of {escape(what)} is in {escape(some_of(list(paths), _NAMED))}{escape(hint)}")
    sys.exit(Exit.NOT_FOUND)


def _topic(name: str) -> str:
    return name.rpartition("-")[0]


def _own_last(name: str) -> tuple[bool, str]:
    """The order of names in which Kafka's own topics come last."""
    return name.startswith("__"), name
