"""What a broker had on a disk that is gone: by the directory ids that it has registered, and the partitions in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.words.numbers import brokers

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    Assignment = tuple[str, int, Sequence[int], Sequence[str]]
    """Topic, number, brokers, and of each of them the id of its log directory."""


MIGRATING = "A" * 22
"""DirectoryId: not known, for the cluster is older than directory ids."""
UNASSIGNED = "A" * 21 + "Q"
"""DirectoryId: the controller chooses none, the broker will tell."""
LOST = "A" * 21 + "g"
"""DirectoryId: on a disk that the broker has lost."""


def is_to_lie_in(
    directory: str | None, node: int, replicas: Sequence[int], directories: Sequence[str], registered: Sequence[str]
) -> bool | None:
    """Tell whether a partition is assigned to a log directory of a broker; None where nobody can tell.

    Args:
        directory: id of the log directory; None where it has none.
        node: the broker.
        replicas: the brokers that have the partition.
        directories: of each of them the id of its log directory; fewer where the cluster does not say it.
        registered: the directory ids that the broker has told the cluster.
    """
    if node not in replicas:
        return False
    at = replicas.index(node)
    its = directories[at] if at < len(directories) else MIGRATING
    if its not in (MIGRATING, UNASSIGNED, LOST):
        return None if directory is None else its == directory
    is_only = its != LOST and list(registered) == [directory]
    return True if is_only else None


def of_lost_directories(
    node: int,
    registered: Iterable[str],
    present: Iterable[str],
    assigned: Iterable[Assignment],
    *,
    held: Container[tuple[str, int]],
    place: str,
) -> Iterator[Finding]:
    """Yield the partitions that the cluster has in a directory of a broker that lies on no disk here.

    Args:
        node: the broker.
        registered: the directory ids that it has told the cluster.
        present: those that are here.
        assigned: all partitions.
        held: partitions that lie here all the same.
        place: path of a log directory that is none of the broker's.

    Reports: M02.
    """
    lost = set(registered).difference(present)
    for topic, number, replicas, directories in assigned:
        at = next((at for at, one in enumerate(replicas) if one == node), None)
        if at is None or at >= len(directories) or directories[at] not in lost or (topic, number) in held:
            continue
        others = [one for one in replicas if one != node]
        have = f"{brokers(others)} should have it too" if others else "it has no other replica"
        why = f"the cluster has it in directory {directories[at]} of broker {node}, which lies on no disk here; {have}"
        yield Finding(Code.M02, os.path.join(place, f"{topic}-{number}"), values={"why": why})
