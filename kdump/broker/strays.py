"""Which partitions of a log directory a broker does not serve, as the cluster does not have them there: one judgement.

Source: LogManager.isStrayReplica and getOrCreateLog, TopicsImage.partitionReplicas, UnifiedLog (the topic id),
Kafka 4.3.1; 3.9 and 4.4 judge alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.kinds import FileKind
from kdump.value import TupleValue
from kdump.words.numbers import brokers

if TYPE_CHECKING:
    from kdump.broker.config import ClusterSettings, TopicPlace
    from kdump.storage.names import PartitionName
    from kdump.storage.partition_dir import PartitionDir


_ID_FILE = FileKind.PARTITION_METADATA.value


class Stray(TupleValue):
    """The reason why a broker serves nothing of a partition directory that it can load."""

    # M01, or M03 where the cluster has another topic of this name; K05 where nothing here says of which topic it is
    code: Code
    why: str
    file: str = ""  # of the directory, that shows it; empty for the directory itself
    is_renamed: bool = True  # to -stray; otherwise it stays, and is refused when the topic of its name asks for it


def stray_in(directory: PartitionDir, cluster: ClusterSettings | None) -> Stray | None:
    """Return why a KRaft broker serves nothing of a partition that lies in its log directory; None where it does.

    Args:
        directory: of the partition.
        cluster: what the metadata log of the cluster says; None where none is at hand.
    """
    name, node = directory.parsed, directory.log_dir.node
    if name is None or name.state not in ("", "future") or name.is_raft_log:
        return None
    if directory.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA).is_missing:
        return Stray(Code.K05, "partition.metadata is missing", FileKind.PARTITION_METADATA.value)
    if cluster is None or not cluster.assigned or node is None:  # a metadata log without any topic tells of none
        return None
    own = directory.topic_id
    by_id = cluster.topic_place(cluster.topic_of_id(own), name.partition)
    return stray_of(name, own, by_id, cluster.topic_place(name.topic, name.partition), node)


def stray_of(
    name: PartitionName, own_id: str | None, by_id: TopicPlace | None, by_name: TopicPlace | None, node: int
) -> Stray | None:
    """Return why a broker serves nothing of a partition; None where it is where the cluster has it.

    Its topic id alone decides whether the directory is renamed. One that has the id of another topic stays, if that
    topic has a partition of this number on the broker, and cannot be opened as a partition of its own name
    (InconsistentTopicIdException).

    Args:
        name: of its directory.
        own_id: the topic id that it has; None where it has none.
        by_id: what the cluster has of that id; None where it has no such topic.
        by_name: what the cluster has of the name; None where it has no such topic.
        node: of the log directory.
    """
    found = by_name if own_id is None else by_id
    is_renamed = found is None or found.replicas is None or node not in found.replicas
    whose = "" if found is None or found.topic == name.topic else f", that of {found.topic}"
    if by_name is None:
        known = "" if own_id is None else f" (topic id {own_id}{whose})"
        return Stray(Code.M01, f"the cluster has no topic {name.topic}{known}", "", is_renamed)
    if own_id not in (None, by_name.topic_id):
        why = f"its topic id is {own_id}{whose}, and the cluster has {by_name.topic_id} for {name.topic}"
        return Stray(Code.M03, why, _ID_FILE, is_renamed)
    if found is None or found.replicas is None:
        return Stray(Code.M01, f"topic {name.topic} has no partition {name.partition}")
    if node not in found.replicas:
        return Stray(Code.M01, f"its replicas are on {brokers(found.replicas)}, not on broker {node}")
    return None
