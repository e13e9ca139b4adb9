"""The metadata log of KRaft beside its snapshots: which of them it does not reach, and what mends a damaged one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.load.bootstrap import bootstrap_failure
from kdump.broker.load.raft_records import ends_of, records_failure
from kdump.broker.load.release_refusal import level_sentence, refusal
from kdump.checks.job import SegmentJob, SegmentSummary
from kdump.checks.segment import check_segment
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import CheckedFile
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.raft_snapshots import COPY, MOVE_BOOTSTRAP, is_ahead, raft_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.broker.releases import Rules
    from kdump.checks.options import VerifyOptions
    from kdump.format.read_limits import ReadLimits
    from kdump.storage.partition_dir import PartitionDir

_ELSEWHERE = "restore from another controller or broker"
_DONE = "none for the file; compare with another controller what lay behind the snapshot: a broker goes on without it"


def for_node(finding: Finding, directory: PartitionDir, end: int, *, is_sound: bool) -> Finding:
    """Return a finding about the metadata log, or a snapshot of it, with what mends it: no consumer reads it.

    Args:
        finding: about one of its files.
        directory: of the metadata log.
        end: the log end offset so far.
        is_sound: no log of it is damaged so far.
    """
    is_of_snapshot = finding.file.endswith(FileKind.CHECKPOINT.value)
    if is_of_snapshot and finding.severity is Severity.ERROR:
        remedy = _of_snapshot(os.path.basename(finding.file), directory, end if is_sound else -1)
    elif finding.code is Code.B01:
        newest = raft_snapshots(directory.listing.files)[-1:]
        covering = [one.name for one in newest if one.offset > (finding.last_offset or 0)]
        remedy = _ELSEWHERE + "".join(f"; the snapshot {name} has what these records had done" for name in covering)
    else:
        return finding
    return finding.replace(values={**finding.values, "remedy": remedy, "once": None})


def check_snapshot(path: str, options: VerifyOptions) -> Iterator[Finding | OpenFailure | CheckedFile]:
    """Yield what is wrong with a snapshot, and the file: it has the format of a log, and offsets of its own.

    Args:
        path: of it.
        options: what was asked for.

    Reports: what `check_segment` does.
    """
    job = SegmentJob.alone(path, 0)
    for result in check_segment(job, options):
        if isinstance(result, Finding | OpenFailure):
            yield result
        elif isinstance(result, SegmentSummary) and FileKind.LOG in result.sizes:
            yield CheckedFile(path, FileKind.CHECKPOINT, result.sizes[FileKind.LOG])


def snapshot_ends(path: str, directory: PartitionDir) -> Iterator[Finding]:
    """Yield what is wrong with a snapshot that lacks its header or its footer.

    Args:
        path: of it.
        directory: of the metadata log.

    Reports: L20.

    Source: RecordsSnapshotReader, MetadataLoader.handleLoadSnapshot.
    """
    source = directory.cache.open(path, follow=False)
    if isinstance(source, OpenFailure):
        return
    try:
        has_header, has_footer = ends_of(source)
        if has_header and has_footer:
            return
        failure = records_failure(source)
    except OSError:
        return  # it is said where it is read
    lacks = " and ".join([*([] if has_header else ["header"]), *([] if has_footer else ["footer"])])
    what = f"the snapshot has no {lacks}: {'nothing' if not source.size else 'not all'} of it was written"
    snapshots = raft_snapshots(directory.listing.files)
    if snapshots and snapshots[-1].name != os.path.basename(path):
        does = f"no node reads it while {snapshots[-1].name} is here"
    elif failure is not None:
        does = f"a node that reads it does not start, with {failure}"
    else:
        does = "a node takes what is left for the whole state, and says nothing"
    yield Finding(Code.L20, path, 0, source.size, values={"what": what, "does": does})


def bootstrap_unusable(path: str, rules: Rules, limits: ReadLimits) -> Iterator[Finding]:
    """Yield what is wrong with a bootstrap.checkpoint of which a node does not start.

    Args:
        path: of it.
        rules: of the release of the node.
        limits: of what is read.

    Reports: L20.
    """
    source = open_source(path)
    if isinstance(source, OpenFailure):
        return
    try:
        failure = bootstrap_failure(source, rules, limits)
    except OSError:
        return  # it is said where it is read
    finally:
        source.close()
    if failure is not None:
        what = "no metadata.version can be read in it"
        does = f"a node does not start, with {failure}"
        yield Finding(Code.L20, path, values={"what": what, "does": does, "remedy": MOVE_BOOTSTRAP})


def refused_record(directory: PartitionDir, rules: Rules, limits: ReadLimits) -> Iterator[Finding]:
    """Yield the record that no node can apply, of whatever release.

    Args:
        directory: of the metadata log.
        rules: of the release of the node.
        limits: of what is read.

    Reports: L21.
    """
    try:
        found = refusal(directory, rules, limits)
    except OSError:
        return  # it is said where it is read
    if found is not None and not found.is_of_release:
        values: dict[str, int | str | None] = {"record": found.offset, "exception": found.exception}
        yield Finding(Code.L21, found.path, found.position, found.size, offset=found.offset, values=values)


def level_of(directory: PartitionDir, rules: Rules, limits: ReadLimits) -> str:
    """Return which releases can read the metadata log; empty where nothing tells.

    Args:
        directory, rules, limits: as `refused_record` has them.
    """
    try:
        return level_sentence(directory, rules, limits)
    except OSError:
        return ""  # it is said where it is read


def _of_snapshot(name: str, directory: PartitionDir, end: int) -> str:
    """What mends a damaged snapshot: a copy; where other files here have all that it has, its removal too."""
    first = directory.log_bases[0] if directory.log_bases else -1
    snapshots = raft_snapshots(directory.listing.files)
    damaged = next((one for one in snapshots if one.name == name), None)
    if damaged is None:
        return COPY
    if damaged is not snapshots[-1]:
        return f"{COPY}, or move this one away: no broker reads it while {snapshots[-1].name} is here"
    others = [one for one in snapshots if one is not damaged and one.offset >= max(first, 0)]
    if first < 0 or end < damaged.offset or not (first == 0 or others):
        return f"{COPY}: nothing else here has all that is in it"
    have = f"the snapshot {others[-1].name} and the log behind it have" if others else "the log has"
    return f"{COPY}, or move this one away: {have} all that is in it"


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


def snapshot_missing(directory: PartitionDir, start: int) -> list[Finding]:
    """Return what is wrong where the metadata log begins above 0, and no snapshot has what was below; one, or nothing.

    Args:
        directory: of the metadata log.
        start: the log start offset.

    Reports: L18.

    Source: KafkaRaftLog.recoverSnapshots.
    """
    if start <= 0 or raft_snapshots(directory.listing.files, start):
        return []
    path = directory.path_of(directory.log_bases[0], FileKind.LOG)
    return [Finding(Code.L18, path, offset=0, last_offset=start - 1, values={"start": start})]
