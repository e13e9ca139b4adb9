"""What a node has beside its metadata log and salvage does not make: snapshots, and the quorum-state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.format.record.control_type import SNAPSHOT_FOOTER, control_type
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.raft_snapshots import is_ahead, raft_snapshots
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.finding import Finding
    from kdump.format.source import Source
    from kdump.storage.partition_dir import PartitionDir


class RaftFiles(TupleValue):
    """What is to be copied beside a salvaged metadata log."""

    snapshot: str | None  # path of the newest sound snapshot that a node keeps with the log, None where there is none
    offset: int  # the first offset that is not in it
    empties_log: bool  # a node empties the log because of it
    quorum: tuple[str, ...]  # paths of the sound quorum-states


def raft_files(directories: Iterable[PartitionDir], start: int, end: int, latest_epoch: int) -> RaftFiles:
    """Return which snapshot and quorum-state of a metadata log the sources have.

    Args:
        directories: of the metadata log in the sources.
        start: the log start offset of the result; a node deletes older snapshots.
        end: its log end offset.
        latest_epoch: its newest leader epoch, below 0 for none.
    """
    found = [(one, where) for where in directories for one in raft_snapshots(where.listing.files, start)]
    newest_first = sorted(found, key=lambda pair: pair[0], reverse=True)
    quorum = tuple(path for where in directories if (path := _quorum_state(where)) is not None)
    for snapshot, where in newest_first:
        path = where.listing.join(snapshot.name)
        if is_whole(path):
            return RaftFiles(path, snapshot.offset, is_ahead(snapshot, end, latest_epoch), quorum)
    return RaftFiles(None, 0, empties_log=False, quorum=quorum)


def _quorum_state(directory: PartitionDir) -> str | None:
    """The path of a sound quorum-state."""
    kind = FileKind.QUORUM_STATE
    file = directory.file(kind.value, kind)
    return file.path if file.is_read and file.source is not None and not file.findings else None


def is_whole(path: str) -> bool:
    """Tell whether a snapshot has no damage, and its footer at the end.

    Args:
        path: of it.
    """
    opened = open_source(path, follow=False)
    if isinstance(opened, OpenFailure):
        return False
    with opened:
        try:
            return _ends_with_footer(opened)
        except OSError:
            return False


def _ends_with_footer(source: Source) -> bool:
    found: list[Finding] = []
    last = -1
    walk = CheckedWalk(source, found.append, segment=0, next_base=None, max_batch_bytes=source.size + 1)
    for window in walk.windows():
        k = window.count - 1
        is_control = window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
        last = window.cell(k, layout.POSITION) if is_control else -1
    if last < 0 or any(one.severity is Severity.ERROR for one in found):
        return False
    return control_type(source, last) == SNAPSHOT_FOOTER
