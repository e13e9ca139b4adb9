"""The configurations that a metadata log among the paths of a user has, for verbs that ask what a broker will do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.config import ClusterSettings
from kdump.state.metadata_image import BROKER_CONFIG, TOPIC_CONFIG
from kdump.storage.directory import expanded
from kdump.storage.names import METADATA_TOPIC
from kdump.storage.paths import base_name, is_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.read_limits import ReadLimits

_DIRECTORY = f"{METADATA_TOPIC}-0"


def cluster_settings(paths: Iterable[str], limits: ReadLimits) -> ClusterSettings | None:
    """Return what the metadata log says at its end, None where none is among the paths.

    What is wrong with it is told by the verb that reads the log itself; here it is part of the source.

    Args:
        paths: partition directories and log directories, as the user wrote them.
        limits: what is read at most.
    """
    having = [
        path
        for path, is_directory in expanded(paths)
        if is_directory and (base_name(path) == _DIRECTORY or is_dir(os.path.join(path, _DIRECTORY)))
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
    topics: dict[str, dict[str, str]] = {name: {} for name in begun.image.topics()}
    brokers: dict[str, dict[str, str]] = {}
    for kind, resource, name, value in begun.image.configs():
        if kind == TOPIC_CONFIG and resource in topics:
            topics[resource][name] = value
        elif kind == BROKER_CONFIG:
            brokers.setdefault(resource, {})[name] = value
    source = f"{directory.path} up to offset {log.end_offset - 1}"
    is_whole = begun.image.is_whole and log.log.is_whole(begun.place, cut)
    return ClusterSettings(source if is_whole and not problems else f"{source} (damaged)", topics, brokers)
