"""What only the directories together show: those of two clusters or brokers, a partition twice, two ids of a topic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import Checked
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.checks.directories import DirectoryCheck
    from kdump.item import Item
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir

_MOST_NAMED = 4  # partitions in a sentence


def not_together(directories: list[DirectoryCheck], *, are_replicas: bool, of_hosts: bool) -> Iterator[Item]:
    """Yield why directories that the user named do not belong together.

    Args:
        directories: that the user named.
        are_replicas: the user says that the same partition under two paths is meant to be there.
        of_hosts: a manifest names them with their hosts.

    Reports: K09-K11, F12.
    """
    yield from clusters_differ(directories, are_replicas=are_replicas, of_hosts=of_hosts)
    if len(directories) > 1 and not (are_replicas or of_hosts):  # else it is known that they are of several brokers
        yield from _brokers_differ(directories)
    yield from duplicates(directories, are_replicas=are_replicas)
    yield from _topic_ids_differ(directories)


def clusters_differ(directories: list[DirectoryCheck], *, are_replicas: bool, of_hosts: bool) -> Iterator[Item]:
    """Yield the clusters beside the first whose log directories are named together.

    Args:
        directories: that the user named.
        are_replicas: the user says that the same partition under two paths is meant to be there.
        of_hosts: a manifest names them with their hosts: clusters may be together on purpose.

    Reports: K10.
    """
    if len(directories) < 2:
        return
    clusters: dict[str, LogDir] = {}
    for one in directories:
        if one.log_dir.cluster_id is not None:
            clusters.setdefault(one.log_dir.cluster_id, one.log_dir)
    first = next(iter(clusters), None)
    for cluster, log_dir in clusters.items():
        if cluster == first:
            continue
        yield Finding(
            Code.K10,
            log_dir.path_of(FileKind.META_PROPERTIES),
            field="cluster.id",
            found=cluster,
            expected=first,
            severity_override=Severity.NOTE if of_hosts else None,
            values={
                "other": clusters[first or ""].path,
                "compared": "; their replicas are not compared" if are_replicas else "",
            },
        )
        yield Checked((), 0, 0)


def duplicates(directories: list[DirectoryCheck], *, are_replicas: bool) -> Iterator[Item]:
    """Yield the partitions that lie in two log directories of one broker.

    Args:
        directories: that the user named.
        are_replicas: the user says that they are replicas or copies: only two directory ids show that they are not.

    Reports: F12.
    """
    if len(directories) < 2:
        return
    seen: dict[tuple[object, ...], tuple[str, object]] = {}
    for one in directories:
        broker, directory = one.broker or (None, None)
        for check in one.partitions if broker is not None else ():
            if check.name is None or check.name.state:
                continue
            key = (broker, check.name.topic, check.name.partition)
            other, its_directory = seen.setdefault(key, (check.path, directory))
            is_known = None not in (directory, its_directory)  # older brokers, and those of ZooKeeper, have none
            is_copy = directory == its_directory if is_known else are_replicas
            if not is_copy and os.path.realpath(other) != os.path.realpath(check.path):
                yield Finding(Code.F12, check.path, values={"other": other})
                yield Checked((), 0, 0)


def _brokers_differ(directories: list[DirectoryCheck]) -> Iterator[Item]:
    """Yield the brokers of one cluster beside the first whose log directories are named together.

    Reports: K11.
    """
    firsts: dict[str | None, LogDir] = {}  # of each cluster
    seen: set[tuple[str | None, int]] = set()
    for log_dir in dict.fromkeys(one.log_dir for one in directories):
        if log_dir.node is None:
            continue
        first = firsts.setdefault(log_dir.cluster_id, log_dir)
        if log_dir.node == first.node or (log_dir.cluster_id, log_dir.node) in seen:
            continue
        seen.add((log_dir.cluster_id, log_dir.node))
        path, values = log_dir.path_of(FileKind.META_PROPERTIES), {"other": first.path}
        yield Finding(Code.K11, path, field="node.id", found=log_dir.node, expected=first.node, values=values)
        yield Checked((), 0, 0)


def _topic_ids_differ(directories: list[DirectoryCheck]) -> Iterator[Item]:
    """Yield the partitions whose topic id is not that of the other partitions of their topic, in one cluster.

    What a broker has set aside, or is about to delete, may be of an older topic of that name.

    Reports: K09.
    """
    topics: dict[tuple[str | None, str], dict[str, list[PartitionDir]]] = {}  # by topic id, and its partitions
    for one in directories:
        cluster = one.log_dir.cluster_id if len(directories) > 1 else None
        for check in one.partitions:
            if check.name is None or check.name.state not in ("", "future"):
                continue
            topic_id = check.directory.topic_id
            if topic_id is not None:
                ids = topics.setdefault((cluster, check.name.topic), {})
                ids.setdefault(topic_id, []).append(check.directory)
    for ids in topics.values():
        if len(ids) > 1:
            yield from _of_topic(ids)


def _of_topic(ids: Mapping[str, list[PartitionDir]]) -> Iterator[Item]:
    """One topic with several ids: those that fewer partitions have are told; of as many the later ones."""
    most = max(map(len, ids.values()))
    usual = next(one for one, some in ids.items() if len(some) == most)
    is_known = sum(len(some) == most for some in ids.values()) == 1
    for topic_id, some in ids.items():
        if topic_id == usual:
            continue
        others = f"{some_of([one.name for one in ids[usual]], _MOST_NAMED)} have {usual}"
        if len(ids[usual]) == 1:
            others = f"{ids[usual][0].name} has {usual}"
        for directory in some:
            path = directory.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA).path
            yield Finding(
                Code.K09,
                path,
                field="topic_id",
                found=topic_id,
                expected=usual if is_known else None,
                values={"others": others},
            )
            yield Checked((), 0, 0)
