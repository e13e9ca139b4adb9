"""Which partitions of a log directory a broker sets aside, as the cluster does not have them there: one judgement.

Source: LogManager.isStrayKraftReplica, UnifiedLog (the topic id), Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.kinds import FileKind
from kdump.value import TupleValue
from kdump.words.numbers import brokers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.storage.names import PartitionName


_ID_FILE = FileKind.PARTITION_METADATA.value


class Stray(TupleValue):
    """The reason why a broker renames a partition directory to -stray."""

    # M01, or M03 where the cluster has another topic of this name; K05 where nothing here says of which topic it is
    code: Code
    why: str
    file: str = ""  # of the directory, that shows it; empty for the directory itself


def stray_of(
    name: PartitionName, own_id: str | None, topic_id: str | None, replicas: Sequence[int] | None, node: int
) -> Stray | None:
    """Return why a partition is a stray; None where it is where the cluster has it.

    Args:
        name: of its directory.
        own_id: the topic id that it has; None where it has none.
        topic_id: that of the cluster's topic of its name; None where there is no such topic.
        replicas: the brokers that have the partition; None where the topic has no such partition.
        node: of the log directory.
    """
    if topic_id is None:
        known = "" if own_id is None else f" (topic id {own_id})"
        return Stray(Code.M01, f"the cluster has no topic {name.topic}{known}")
    if own_id is not None and own_id != topic_id:
        return Stray(Code.M03, f"its topic id is {own_id}, and the cluster has {topic_id} for {name.topic}", _ID_FILE)
    if replicas is None:
        return Stray(Code.M01, f"topic {name.topic} has no partition {name.partition}")
    if node not in replicas:
        return Stray(Code.M01, f"its replicas are on {brokers(replicas)}, not on broker {node}")
    return None
