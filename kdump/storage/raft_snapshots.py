"""The snapshots that lie in the metadata log of KRaft, by their names, and what mends a damaged one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Severity
from kdump.format.kinds import FileKind
from kdump.storage.names import BOOTSTRAP, parse_name
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.finding import Finding

COPY = "while the broker is stopped, copy the file of this name, or a newer snapshot, from another controller or broker"
"""What mends a damaged snapshot of the metadata log."""
FETCH_AGAIN = (
    "move all files but quorum-state and sound .checkpoint files out of the directory, and start it while the other "
    "controllers run and have a leader: it fetches the rest"
)
"""What is done with the metadata log of a node that is stopped, where others have a sound one.

Source: KafkaRaftLog.createLog (4.3.1): without a log it begins with the newest snapshot; FileQuorumStateStore.
"""
_COPY_BOOTSTRAP = (
    "while the broker is stopped, copy the file of this name from another controller or broker of the same cluster, or "
    "from a backup"
)
MOVE_BOOTSTRAP = (
    "while the node is stopped, move it away where the metadata log has records: a node starts without it then; else "
    "copy the file of this name from another controller or broker of the same cluster"
)


class RaftSnapshot(TupleValue):
    """A snapshot of the metadata log, in the order in which a node has them. Source: OffsetAndEpoch.compareTo."""

    epoch: int  # leader epoch of the last record that it covers
    offset: int  # the first offset that is not in it
    name: str  # of the file


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


def to_copy(finding: Finding) -> Finding:
    """Return a finding about a snapshot, or the bootstrap snapshot of a log directory, with what mends it: a copy."""
    if finding.severity is not Severity.ERROR:
        return finding
    remedy = _COPY_BOOTSTRAP if os.path.basename(finding.file) == BOOTSTRAP else COPY
    return finding.replace(values={**finding.values, "remedy": remedy, "once": None})
