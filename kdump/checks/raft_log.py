"""The metadata log of KRaft beside its snapshots: which of them it does not reach, and what mends a damaged one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.storage.raft_snapshots import is_ahead, raft_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.storage.partition_dir import PartitionDir

_DONE = "none for the file; compare with another controller what lay behind the snapshot: a broker goes on without it"


def snapshot_ahead(directory: PartitionDir, end: int) -> Iterator[Finding]:
    """Yield what is wrong where the newest snapshot lies beyond the end of the metadata log.

    Args:
        directory: of the metadata log.
        end: the log end offset; above all offsets where that is not known.

    Reports: S02.

    Source: KafkaRaftLog.truncateToLatestSnapshot.
    """
    found = raft_snapshots(directory.listing.files, directory.log_bases[0])
    latest = directory.epochs[-1].epoch if directory.epochs else -1
    if not found or found[-1].offset <= end or not is_ahead(found[-1], end, latest):
        return
    snapshot = found[-1]
    does = f"empties the log and goes on at offset {snapshot.offset}; the snapshot has what the offsets below had done"
    values: dict[str, int | str | None] = {"end": end, "does": does, "remedy": _DONE}
    path = directory.listing.join(snapshot.name)
    yield Finding(Code.S02, path, offset=end, last_offset=snapshot.offset - 1, found=snapshot.offset, values=values)
