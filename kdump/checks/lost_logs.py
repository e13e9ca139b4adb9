"""Logs that are gone while their indexes are still here: no broker takes away the log alone.

One that removes a segment first renames all its files to `.deleted`, the log before the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from kdump.storage.partition_dir import PartitionDir

_INDEXES: dict[FileKind, type[OffsetIndex | TimeIndex]] = {FileKind.INDEX: OffsetIndex, FileKind.TIMEINDEX: TimeIndex}
_ON_ITS_WAY = ("deleted", "swap")
_REMOVED = "there is no log for it: a broker removes it"
_REMEDY = "restore from another replica; do not start the broker before that: it removes this file, the only witness"


def lost_logs(directory: PartitionDir) -> dict[int, int]:
    """Return the base offsets of logs that are not here though their indexes have entries, and the last of those.

    What lies below the log start offset is nobody's loss, and what lies where a broker has closed the log in order,
    with that end, was never in it.

    Args:
        directory: the partition.
    """
    closed_at = None
    if directory.was_closed and directory.key is not None:
        closed_at = directory.log_dir.offset(FileKind.RECOVERY_POINT, directory.key)
    found: dict[int, int] = {}
    for base, files in sorted(directory.by_base.items()):
        log = f"{base:020}.{FileKind.LOG.value}"
        names = (log, *(f"{log}.{suffix}" for suffix in _ON_ITS_WAY))
        if directory.is_leftover or any(map(directory.listing.has, names)):
            continue
        if closed_at is not None and base >= closed_at:
            continue
        last = _last_entry(directory, base, files)
        if last is not None and last >= directory.log_start:
            found[base] = last
    return found


def _last_entry(directory: PartitionDir, base: int, files: dict[FileKind, str]) -> int | None:
    """The last offset that the indexes of a segment have, None where they have none below the next segment."""
    bound = directory.next_base(base)
    offsets = []
    for kind, index_of in _INDEXES.items():
        source = directory.cache.open(files[kind], follow=False) if kind in files else None
        if source is None or isinstance(source, OpenFailure):
            continue
        try:
            index = index_of(source, base)
            index.trim()
            offsets += [index.entry(index.entries - 1).offset] if index.entries else []
        except OSError:  # it has vanished meanwhile, or its check says so
            continue
        finally:
            source.close()
    return max((one for one in offsets if one >= base and (bound is None or one < bound)), default=None)


def without_log(path: str, last: int | None) -> Finding:
    """Return what is wrong with a file of a segment whose log is not here.

    Args:
        path: the file.
        last: the last offset that the indexes have where the log is lost; None where it is not.
    """
    if last is None:
        return Finding(Code.F08, path, values={"why": _REMOVED}, severity_override=Severity.WARNING)
    why = f"its log is missing: the indexes have entries up to offset {last}"
    return Finding(Code.F08, path, values={"why": why, "remedy": _REMEDY}, severity_override=Severity.ERROR)


def shows_lost_log(finding: Finding) -> bool:
    """Tell whether a finding is about an index whose log is lost."""
    return finding.code is Code.F08 and finding.values.get("remedy") == _REMEDY
