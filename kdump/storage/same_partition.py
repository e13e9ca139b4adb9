"""The same partition in two directories of one broker, which does not start with both: NAME-0 and NAME-00 are one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir


class SamePartition(TupleValue):
    """A partition that lies in two directories."""

    directory: PartitionDir  # the later one
    other: PartitionDir


def same_partitions(
    log_dirs: Iterable[tuple[LogDir, Sequence[PartitionDir]]], *, are_replicas: bool = False
) -> Iterator[SamePartition]:
    """Yield the partitions that lie in two log directories of one broker, or in one under two spellings.

    Args:
        log_dirs: the log directories, with those of their partitions that were named.
        are_replicas: the user says that they are replicas or copies: only two directory ids show that they are not.

    Source: LogManager.loadLog.
    """
    seen: dict[tuple[object, ...], tuple[PartitionDir, object, LogDir]] = {}
    for log_dir, partitions in log_dirs:
        named = log_dir.properties
        node = named.get("node.id", named.get("broker.id"))
        own = named.get("directory.id")
        for one in partitions if node is not None else ():
            name = one.parsed
            if name is None or name.state:
                continue
            key = log_dir.cluster_id, node, name.topic, name.partition
            other, its, place = seen.setdefault(key, (one, own, log_dir))
            is_known = None not in (own, its)  # older brokers, and those of ZooKeeper, have none
            is_copy = place is not log_dir and (own == its if is_known else are_replicas)
            if not is_copy and os.path.realpath(other.path) != os.path.realpath(one.path):
                yield SamePartition(one, other)


def is_bare(directory: PartitionDir) -> bool:
    """Tell whether a directory of the metadata log is one that only formatting, or a hand, has made."""
    is_raft_log = directory.parsed is not None and directory.parsed.is_raft_log
    return is_raft_log and not directory.log_bases and not directory.listing.has(FileKind.QUORUM_STATE.value)
