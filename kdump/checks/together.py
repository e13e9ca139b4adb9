"""What only the directories together show: those of two clusters or brokers, a partition twice, two ids of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.placement import not_placed
from kdump.checks.whole_node import directory_ids_twice, disks_of_node
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import Checked
from kdump.storage.same_partition import is_bare, same_partitions
from kdump.words.command import command_line, named
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.checks.directories import DirectoryCheck
    from kdump.checks.options import VerifyOptions
    from kdump.item import Item
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir

_MOST_NAMED = 4  # partitions in a sentence
_SEVERAL = "log directories of several brokers are named together"
_OF_ANOTHER = "the configuration is another broker's, or the volumes are"


def not_together(directories: list[DirectoryCheck], options: VerifyOptions, *, are_replicas: bool) -> Iterator[Item]:
    """Yield why directories that the user named do not belong together.

    Args:
        directories: that the user named.
        options: whether one configuration names them, or a manifest that has their hosts.
        are_replicas: the user says that the same partition under two paths is meant to be there.

    Reports: K03, K09-K11, F12, M01-M03.
    """
    yield from clusters_differ(directories, options, are_replicas=are_replicas)
    if options.node is not None or not (are_replicas or options.of_hosts):  # else it is known that they are of several
        yield from _brokers_differ(directories, options)
    log_dirs = list(dict.fromkeys(one.log_dir for one in directories))
    if not are_replicas:
        yield from _each_checked(directory_ids_twice(log_dirs, options.node))
    if options.node is not None:
        config = None if options.settings is None else options.settings.config
        held = {one.key for each in directories for one in each.partition_dirs if one.key and not _state(one)}
        yield from _each_checked(disks_of_node(log_dirs, options.node, config, held))
    yield from _each_checked(not_placed(directories, options))
    yield from _duplicates(directories, options, are_replicas=are_replicas)
    yield from _topic_ids_differ(directories)


def _each_checked(found: Iterator[Finding]) -> Iterator[Item]:
    """Yield findings, each with the end of what it is about."""
    for one in found:
        yield one
        yield Checked((), 0, 0)


def clusters_differ(directories: list[DirectoryCheck], options: VerifyOptions, *, are_replicas: bool) -> Iterator[Item]:
    """Yield the clusters beside the first whose log directories are named together.

    Args:
        directories: that the user named.
        options: where one configuration names them, no broker starts with both; where a manifest names them with their
            hosts, clusters may be together on purpose.
        are_replicas: the user says that the same partition under two paths is meant to be there.

    Reports: K10.
    """
    clusters: dict[str, LogDir] = {}
    for one in directories:
        if one.log_dir.cluster_id is not None:
            clusters.setdefault(one.log_dir.cluster_id, one.log_dir)
    first = next(iter(clusters), None)
    severity = Severity.ERROR if options.node is not None else Severity.NOTE if options.of_hosts else None
    for cluster, log_dir in clusters.items():
        if cluster == first:
            continue
        yield Finding(
            Code.K10,
            log_dir.path_of(FileKind.META_PROPERTIES),
            field="cluster.id",
            found=cluster,
            expected=first,
            severity_override=severity,
            values={
                "other": clusters[first or ""].path,
                "compared": "; their replicas are not compared" if are_replicas else "",
                **_one_node(options),
            },
        )
        yield Checked((), 0, 0)


def _one_node(options: VerifyOptions) -> dict[str, str]:
    """What is advised where one configuration names the directories: a broker with both ends."""
    if options.node is None:
        return {}
    ends = f"with {options.node.path} the broker ends when it starts"
    way_out = (
        "mount the right one, or take the directory out of log.dirs: this broker has no copy of its partitions then"
    )
    return {"remedy": f"see whose volume this is, for {ends}: {way_out}"}


def _duplicates(directories: list[DirectoryCheck], options: VerifyOptions, *, are_replicas: bool) -> Iterator[Item]:
    """Yield the partitions that lie in two log directories of one broker, and which of the two ends earlier.

    Args:
        directories: that the user named.
        options: the limits.
        are_replicas: as `same_partitions` has it.

    Reports: F12.
    """
    pairs = ((one.log_dir, one.partition_dirs) for one in directories)
    for one, other in same_partitions(pairs, are_replicas=are_replicas):
        from kdump.broker.log_end import last_epoch_and_end  # few directories have a partition twice

        here, there = (last_epoch_and_end(each, options.max_batch_bytes)[1] for each in (one, other))
        compare = command_line("verify", "--replicas", named(one.path), named(other.path))
        ends, remedy = "", f"{_MOVE_ONE}; see first that the other one has what it has: {compare}"
        if min(here, there) >= 0:
            ends = f"; this one ends at offset {here}, that one at {there}"
        if here != there and min(here, there) >= 0:
            remedy = f"{_MOVE_ONE}: {one.path if here < there else other.path} ends earlier"
        bare = [each for each in (one, other) if is_bare(each)]
        if len(bare) == 1:
            remedy = f"move {bare[0].path} out of its log directory: it has neither a log nor a quorum-state"
        yield Finding(Code.F12, one.path, values={"other": other.path, "ends": ends, "remedy": remedy})
        yield Checked((), 0, 0)


def _state(directory: PartitionDir) -> str:
    """What has become of a partition, by the name of its directory; empty for one that is in use."""
    return "" if directory.parsed is None else directory.parsed.state


_MOVE_ONE = "move one copy out of its log directory"


def _brokers_differ(directories: list[DirectoryCheck], options: VerifyOptions) -> Iterator[Item]:
    """Yield the brokers of one cluster beside the first whose log directories are named together.

    Where one configuration names them, the first one is that of the configuration.

    Reports: K11.
    """
    node = options.node
    all_of = {one.log_dir.node for one in directories} - {None}
    together = _SEVERAL
    if node is not None and node.node is not None and len(all_of) == 1:
        together = f"all log directories here are of broker {min(all_of, key=str)}: {_OF_ANOTHER}"
    firsts: dict[str | None, tuple[int, str]] = {}  # of each cluster: the broker, and what says so
    seen: set[tuple[str | None, int]] = set()
    for log_dir in dict.fromkeys(one.log_dir for one in directories):
        if log_dir.node is None:
            continue
        own = (log_dir.node, log_dir.path) if node is None or node.node is None else (node.node, node.path)
        first, other = firsts.setdefault(log_dir.cluster_id, own)
        if log_dir.node == first or (log_dir.cluster_id, log_dir.node) in seen:
            continue
        seen.add((log_dir.cluster_id, log_dir.node))
        yield Finding(
            Code.K11,
            log_dir.path_of(FileKind.META_PROPERTIES),
            field="node.id",
            found=log_dir.node,
            expected=first,
            severity_override=None if node is None else Severity.ERROR,
            values={"other": other, "together": together, **_one_node(options)},
        )
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
