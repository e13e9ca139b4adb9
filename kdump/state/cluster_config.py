"""What a metadata log among the paths of a user says at its end, for verbs that ask about other files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.config import ClusterSettings
from kdump.state.metadata_image import BROKER_CONFIG, TOPIC_CONFIG
from kdump.storage.directory import expanded
from kdump.storage.names import METADATA_LOG, METADATA_TOPIC
from kdump.storage.paths import base_name, is_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.read_limits import ReadLimits
    from kdump.state.metadata_image import MetadataImage


class _AtEnd(NamedTuple):
    """The state at the end: the image, its file and last offset in words, and whether nothing of it is lost."""

    image: MetadataImage
    source: str
    is_whole: bool


def cluster_settings(paths: Iterable[str], limits: ReadLimits) -> ClusterSettings | None:
    """Return the configurations, None where no metadata log is among the paths.

    What is wrong with it is told by the verb that reads the log itself; here it is part of the source.

    Args:
        paths: partition directories and log directories, as the user wrote them.
        limits: what is read at most.
    """
    known = _at_end(paths, limits)
    if known is None:
        return None
    topics: dict[str, dict[str, str]] = {name: {} for name in known.image.topics()}
    brokers: dict[str, dict[str, str]] = {}
    for kind, resource, name, value in known.image.configs():
        if kind == TOPIC_CONFIG and resource in topics:
            topics[resource][name] = value
        elif kind == BROKER_CONFIG:
            brokers.setdefault(resource, {})[name] = value
    return ClusterSettings(known.source if known.is_whole else f"{known.source} (damaged)", topics, brokers)


def partition_count(topic: str, paths: Iterable[str], limits: ReadLimits) -> int | None:
    """Return how many partitions a topic has; None where no metadata log tells, or a damaged one.

    Args:
        topic: its name.
        paths: partition directories and log directories, as the user wrote them.
        limits: what is read at most.
    """
    known = _at_end(paths, limits)
    if known is None or not known.is_whole:
        return None
    return sum(name == topic for name, _, _ in known.image.partitions()) or None


def _at_end(paths: Iterable[str], limits: ReadLimits) -> _AtEnd | None:
    having = [
        path
        for path, is_directory in expanded(paths)
        if is_directory and (base_name(path) == METADATA_LOG or is_dir(os.path.join(path, METADATA_LOG)))
    ]
    if not having:
        return None
    from kdump.state.copies import Copies
    from kdump.state.metadata_log import MetadataLog, Until
    from kdump.state.partition_log import result_of

    problems: list[object] = []
    copies = Copies(having, problems.append)
    key = METADATA_TOPIC, 0
    if key not in copies.partitions:
        return None
    directory, _ = copies.choose(key, limits.max_batch_bytes)
    log = MetadataLog(directory, limits, problems.append)
    (cut,) = result_of(log.cuts([Until()]))
    begun = result_of(log.fold(result_of(log.begin(cut, keep_origins=False)), cut))
    directory.close()
    source = f"{directory.path} up to offset {log.end_offset - 1}"
    is_whole = begun.image.is_whole and log.log.is_whole(begun.place, cut) and not problems
    return _AtEnd(begun.image, source, is_whole)
