"""The snapshots that lie in the metadata log of KRaft, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.format.kinds import FileKind
from kdump.storage.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable


class RaftSnapshot(NamedTuple):
    """A snapshot of the metadata log, in the order in which a node has them. Source: OffsetAndEpoch.compareTo.

    Args:
        epoch: leader epoch of the last record that it covers.
        offset: the first offset that is not in it.
        name: of the file.
    """

    epoch: int
    offset: int
    name: str


def raft_snapshots(names: Iterable[str], log_start: int = 0) -> list[RaftSnapshot]:
    """Return the snapshots that a node keeps, the newest last.

    Args:
        names: of files of the metadata log.
        log_start: its log start offset; older snapshots are deleted.

    Source: KafkaRaftLog.recoverSnapshots.
    """
    parsed = ((name, parse_name(name)) for name in names)
    return sorted(
        RaftSnapshot(one.epoch or 0, one.base_offset, name)
        for name, one in parsed
        if one.kind is FileKind.CHECKPOINT and one.is_live and one.base_offset is not None
        if one.base_offset >= log_start
    )


def is_ahead(snapshot: RaftSnapshot, end: int, latest_epoch: int) -> bool:
    """Tell whether a node empties its log because of a snapshot.

    Args:
        snapshot: the newest one.
        end: the log end offset.
        latest_epoch: the newest leader epoch of the log, below 0 for none.

    Source: KafkaRaftLog.truncateToLatestSnapshot.
    """
    latest = max(latest_epoch, 0)
    return snapshot.epoch > latest or (snapshot.epoch == latest and snapshot.offset > end)
