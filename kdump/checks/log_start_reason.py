"""Why offsets are not there any more, where files tell it: deleted, expired, compacted, or cut off with an epoch.

All of it is as it should be, or is told elsewhere already: these are notes for whoever looks for records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.kinds import FileKind
from kdump.storage.evidence import evidence_of
from kdump.storage.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.storage.partition_dir import PartitionDir

_DELETED = ".deleted"
_WATERMARK = "the high watermark"
_OR_A_COPY = (
    "or of a copy that was made while the broker ran, or after a power loss before the system had written the end; a "
    "single broker has no leader that it is cut to"
)


def log_start_reason(directory: PartitionDir, end: int, *, has_holes: bool, may_be_cut: bool) -> Iterator[Finding]:
    """Yield why offsets of a partition are gone.

    Args:
        directory: of the partition; it has a segment.
        end: its log end offset; above all offsets where that is not known.
        has_holes: offsets are missing within its segments, or batches lack records.
        may_be_cut: nothing else explains why its checkpoints know offsets above its end.

    Reports: K08, L14-L16.
    """
    first, start = directory.log_bases[0], directory.log_start
    log = directory.path_of(first, FileKind.LOG)
    if first < start <= end:
        values: dict[str, int | str | None] = {"missing_first": first, "missing_last": start - 1, "start": start}
        yield Finding(Code.L14, log, offset=first, last_offset=start - 1, values=values)
    if first:
        yield from _expired(directory, first, log)
    if directory.key is None:
        return
    dirty = directory.log_dir.offset(FileKind.CLEANER, directory.key)
    if has_holes and dirty is not None and first < dirty <= end:
        yield Finding(Code.L16, log, offset=first, last_offset=dirty - 1, values={"dirty": dirty})
    if may_be_cut:
        yield from _cut(directory, end)


def _expired(directory: PartitionDir, first: int, log: str) -> Iterator[Finding]:
    """Segments below the first one that wait for their deletion, or an epoch that was moved up to its start."""
    waiting = [
        base
        for base in (parse_name(name.removesuffix(_DELETED)).base_offset for name in _deleted(directory))
        if base is not None and base < first
    ]
    epochs = directory.epochs
    if waiting:
        lowest = min(waiting)
        why = f"{len(waiting)} .deleted file{'s' if len(waiting) > 1 else ''} from offset {lowest} on lie here still"
        yield Finding(Code.L15, log, offset=lowest, last_offset=first - 1, values={"first": first, "why": why})
    elif epochs and epochs[0].start_offset == first:
        why = "the leader-epoch-checkpoint begins there too"
        yield Finding(Code.L15, log, offset=0, last_offset=first - 1, values={"first": first, "why": why})
    elif (begin := evidence_of(directory).begin_by_epochs(first)) is not None and begin not in evidence_of(
        directory
    ).logs:
        why = f"the leader-epoch-checkpoint begins at {begin} still, and a broker that deletes segments raises it"
        remedy = "compare with another replica, unless the broker was killed right after it had deleted them"
        told: dict[str, int | str | None] = {"first": first, "why": why, "remedy": remedy}
        yield Finding(Code.L15, log, offset=begin, last_offset=first - 1, values=told)


def _deleted(directory: PartitionDir) -> list[str]:
    return [name for name in directory.listing.names if name.endswith(f"{FileKind.LOG.value}{_DELETED}")]


def _cut(directory: PartitionDir, end: int) -> Iterator[Finding]:
    """A log whose end a follower has cut, as the leader of a new epoch told it to."""
    key, log_dir, epochs = directory.key, directory.log_dir, directory.epochs
    if key is None or not epochs:
        return
    names = {FileKind.RECOVERY_POINT: "the recovery point", FileKind.REPLICATION: _WATERMARK}
    known = {name: log_dir.offset(kind, key) or 0 for kind, name in names.items()}
    above = {name: offset for name, offset in known.items() if offset > end}
    if above:
        what = (
            f"{' and '.join(f'{name} {offset}' for name, offset in above.items())} {'is' if len(above) == 1 else 'are'}"
        )
        newest: dict[str, int | str | None] = {"epoch": epochs[-1].epoch, "start": epochs[-1].start_offset}
        values = {"what": what, "end": end, "committed": _committed(known[_WATERMARK], end), **newest}
        values["also"] = _OR_A_COPY
        path = directory.epoch_file.path
        yield Finding(Code.K08, path, offset=end, last_offset=max(above.values()) - 1, values=values)


def _committed(watermark: int, end: int) -> str:
    """Say whether what was cut off had been committed: a replica knows no high watermark above that of its leader."""
    if watermark <= end:
        return "what was cut off here was not committed, unless that leader was elected uncleanly"
    offsets = f"offset {end} was" if watermark == end + 1 else f"offsets {end}..{watermark - 1} were"
    return f"{offsets} committed; if it does not have what was there, it was elected uncleanly, and that is lost"
