"""The metadata logs at hand: among the paths of a user, and beside the partitions that these name.

A partition directory, or a file in one, is asked about with the metadata log of its log.dir; a log.dir without one has
that of its own cluster among the paths. Logs of several clusters do not mix.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.format.read_limits import ReadLimits
from kdump.storage.directory import expanded
from kdump.storage.log_dir import LogDir
from kdump.storage.names import METADATA_LOG
from kdump.storage.paths import base_name, is_dir, parent, real

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.broker.cleanup_policy import CleanupPolicy
    from kdump.broker.config import ClusterSettings, Config
    from kdump.storage.partition_dir import PartitionDir


def cluster_settings(paths: Iterable[str], limits: ReadLimits) -> tuple[ClusterSettings, ...]:
    """Return what the metadata logs at hand say, one of each cluster; nothing where there is none.

    What is wrong with a log is told by the verb that reads the log itself; here it is part of the source.

    Args:
        paths: files, partition directories and log directories, as the user wrote them.
        limits: what is read at most.
    """
    where = list(dict.fromkeys(_metadata_logs(paths)))
    if not where:
        return ()
    from kdump.storage.partition_dir import PartitionDir

    copies: dict[object, list[PartitionDir]] = {}
    for path in where:
        directory = PartitionDir(path, LogDir(parent(path)))
        copies.setdefault(directory.log_dir.cluster_id, []).append(directory)
    if None in copies and len(copies) == 2:  # the one cluster that is here
        nameless = copies.pop(None)
        next(iter(copies.values())).extend(nameless)
    return tuple(_of_copies(one, limits) for one in copies.values())


def partition_count(topic: str, paths: Iterable[str], limits: ReadLimits) -> int | None:
    """Return how many partitions a topic has; None where no metadata log tells, or a damaged one, or several differ.

    Args:
        topic: its name.
        paths: files, partition directories and log directories, as the user wrote them.
        limits: what is read at most.
    """
    found = cluster_settings(paths, limits)
    counts = {one.partitions.get(topic, 0) if one.is_known else 0 for one in found}
    return (counts.pop() or None) if len(counts) == 1 else None


class TopicPolicies:
    """What is known of the cleanup.policy of topics; metadata logs are read when the first one is asked for.

    Args:
        paths: where metadata logs may be at hand, as for `cluster_settings`.
        limits: what is read at most.
        config: the settings that the user gave.
    """

    def __init__(self, paths: Iterable[str], limits: ReadLimits, config: Config | None = None) -> None:
        self._paths = tuple(paths)
        self._limits = limits
        self._given = config

    @cached_property
    def _config(self) -> Config:
        from kdump.broker.config import Config

        clusters = cluster_settings(self._paths, self._limits)
        return Config({}, clusters=clusters) if self._given is None else self._given.within(clusters)

    def of(self, partition: PartitionDir) -> CleanupPolicy:
        """Return what is known of the topic of a partition.

        Args:
            partition: the directory.
        """
        topic = None if partition.parsed is None else partition.parsed.topic
        return self._config.policy(topic, partition.log_dir, partition.topic_id)

    def replicas(self, partition: PartitionDir) -> tuple[int, ...] | None:
        """Return the brokers that have a partition; None where no metadata log tells.

        Args:
            partition: the directory.
        """
        name = partition.parsed
        if name is None:
            return None
        return self._config.replicas(name.topic, name.partition, partition.log_dir, partition.topic_id)

    def topic_id(self, topic: str, log_dir: LogDir) -> str | None:
        """Return the id that a topic has by the metadata log of its cluster; None where that is not known."""
        return self._config.topic_id(topic, log_dir)

    def cluster(self, log_dir: LogDir) -> ClusterSettings | None:
        """Return what the metadata log of a log directory's cluster says; None where none is at hand, or is damaged.

        Args:
            log_dir: the directory.
        """
        found = self._config.cluster_of(log_dir)
        return found if found is not None and found.is_known else None


NO_POLICIES = TopicPolicies((), ReadLimits(0, 0))
"""Nothing is known of any topic."""


def policies_beside(partition: PartitionDir, limits: ReadLimits) -> TopicPolicies:
    """Return what the metadata log beside a partition says, for verbs that are given no settings.

    Args:
        partition: the directory.
        limits: what is read at most.
    """
    return TopicPolicies((partition.path,), limits)


def _metadata_logs(paths: Iterable[str]) -> Iterator[str]:
    """The directories of metadata logs at hand."""
    seen: set[str] = set()
    for path, is_directory in expanded(paths):
        if is_directory and base_name(path) == METADATA_LOG:
            candidates = [path]
        else:
            directory = path if is_directory else parent(path)
            candidates = [os.path.join(one, METADATA_LOG) for one in (directory, parent(directory))]
        for one in candidates:
            if (known := real(one)) not in seen:
                seen.add(known)
                if is_dir(one):
                    yield one


def _of_copies(copies: Sequence[PartitionDir], limits: ReadLimits) -> ClusterSettings:
    """What the copy says that a leader would have: the highest epoch, then the highest end, then the one undamaged."""
    from kdump.broker.cluster_history import cluster_history
    from kdump.broker.log_end import last_epoch_and_end

    if len(copies) == 1:
        return cluster_history(copies[0], limits)
    ranks = [last_epoch_and_end(one, limits.max_batch_bytes) for one in copies]
    found = None
    for rank, one in zip(ranks, copies, strict=True):
        if rank == max(ranks) and (found is None or not found.is_known):
            found = cluster_history(one, limits)
    assert found is not None
    return found
