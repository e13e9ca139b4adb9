"""What the next start of a broker removes though no other file has it: deleted partitions, and logs of `.deleted`.

A broker renames before it removes. A directory TOPIC-N.ID-delete goes file.delete.delay.ms after the start; files with
`.deleted` or `.cleaned`, `.swap` files that it does not put in place, and logs in whose place it puts others, go as the
partition is loaded. Whoever deleted a topic by mistake, or lost what took the place of others, has the records here,
and nowhere else.

A batch is elsewhere where the same bytes are in a live log of the partition, or of another directory of it that is in
use, or where a compaction of that has taken it out (`kdump.broker.lacking`).

Source: LogManager.loadLog, deleteLogs; LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING

from kdump.broker.clusters import NO_POLICIES
from kdump.broker.lacking import intact_batches, lacking
from kdump.broker.load.swapped_dir import once_swapped
from kdump.broker.missing.judge import HoleJudge
from kdump.broker.missing.lost_holes import is_of_its_index, surroundings
from kdump.broker.missing.ranges import MissingRange
from kdump.finding import Code, Finding, ignore
from kdump.format.kinds import FileKind
from kdump.format.read_limits import ReadLimits
from kdump.rows.verdict import Certainty
from kdump.storage.log_dir import LogDir
from kdump.storage.names import parse_name
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import base_name, real
from kdump.value import TupleValue
from kdump.words.command import command_line, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.broker.lacking import Explains, IntactBatch
    from kdump.broker.load.swapped_dir import SwappedDir
    from kdump.storage.directory import DirectoryListing
    from kdump.storage.file_source import OpenFailure
    from kdump.words.command import ShellCommand

_LOG = f".{FileKind.LOG.value}"
_REMOVED = tuple(f"{_LOG}.{suffix}" for suffix in ("deleted", "cleaned", "swap"))


def has_logs(listing: DirectoryListing) -> bool:
    """Tell whether a directory has logs, if only such as wait to be put in place, or to be removed."""
    return bool(listing.regular_bases) or any(
        name.endswith(_REMOVED) and parse_name(name).is_exact and listing.is_regular(name) for name in listing.names
    )


class _Records(TupleValue):
    """Intact records: first and last offset, and their number; None where batches do not tell it.

    `meets`: live logs of the partition have other batches at their offsets.
    """

    first: int
    last: int
    records: int | None
    meets: bool


def awaiting_deletion(
    directory: PartitionDir, limit: int, report: Callable[[OpenFailure], object] = ignore
) -> Iterator[Finding]:
    """Yield what a broker removes at its next start, and no other file has.

    Nothing where a broker runs: what waits there was renamed a moment ago, and on purpose.

    Args:
        directory: of a partition, as it lies.
        limit: a batch over this is not held in memory.
        report: takes what could not be read, and may have more.

    Reports: F16, one for a directory that is to be removed, or for each log that is; its `count` are the intact records
        that no other file has.
    """
    if not directory.is_leftover:
        yield from logs_awaiting_deletion(directory, limit, report)
        return
    if directory.log_dir.is_held or directory.listing.failure is not None:
        return
    swapped = once_swapped(directory)
    own = [swapped.directory.path_of(base, FileKind.LOG) for base in swapped.directory.log_bases]
    removed = _lacked_here(swapped, limit, report)
    found = list(_by_path(_lacked_elsewhere(directory, removed, limit)).items())
    live = _lacked_elsewhere(directory, intact_batches(directory, own, limit, report), limit)
    found += _by_path(live).items()
    if found:
        first, last = min(one.first for _, one in found), max(one.last for _, one in found)
        counts = [one.records for _, one in found]
        count = None if None in counts else sum(one or 0 for one in counts)
        more = ("--deleted", "too") if any(path not in own for path, _ in found) else ()
        rescue = command_line("salvage", named(directory.path), *more, "--to", "DIR")
        what = "this directory a minute after its start (file.delete.delay.ms)"
        yield _finding(directory.path, _Records(first, last, count, meets=False), what, rescue)


def logs_awaiting_deletion(
    directory: PartitionDir, limit: int, report: Callable[[OpenFailure], object] = ignore
) -> Iterator[Finding]:
    """Yield the logs of a partition that a start removes, and whose records no other file has.

    Args:
        directory: of a partition, as it lies; it may be one that is itself to be removed.
        limit: a batch over this is not held in memory.
        report: takes what could not be read, and may have more.

    Reports: F16.
    """
    if directory.log_dir.is_held or directory.listing.failure is not None:
        return
    removed = _lacked_here(once_swapped(directory), limit, report)
    found = _by_path(_lacked_elsewhere(directory, removed, limit))
    start = 0 if directory.is_leftover else directory.log_start
    below = ("--below-log-start",) if any(one.first < start for one in found.values()) else ()
    how = "alone" if any(one.meets for one in found.values()) else "too"
    rescue = command_line("salvage", named(directory.path or "."), "--deleted", how, "--to", "DIR", *below)
    for path, one in sorted(found.items()):
        yield _finding(path, one, "this file when it loads the partition", rescue, how)


def _finding(path: str, records: _Records, what: str, rescue: ShellCommand, deleted: str | None = None) -> Finding:
    """What is said of a file, or of a directory: of that `deleted`, how the command reads what is renamed, is None."""
    values: dict[str, int | str | None] = {"what": what, "rescue": rescue, "deleted": deleted}
    return Finding(Code.F16, path, offset=records.first, last_offset=records.last, count=records.records, values=values)


def _by_path(batches: Iterable[IntactBatch]) -> dict[str, _Records]:
    found: dict[str, _Records] = {}
    for one in batches:
        count = one.records if one.records >= 0 else None
        known = found.get(one.path)
        if known is None:
            found[one.path] = _Records(one.first, one.last, count, one.meets)
            continue
        records = None if count is None or known.records is None else known.records + count
        meets = known.meets or one.meets
        found[one.path] = _Records(min(known.first, one.first), max(known.last, one.last), records, meets)
    return found


def _removed(swapped: SwappedDir) -> list[str]:
    """The paths of the logs that a start removes as it loads a partition, in the order of their offsets."""
    today = swapped.today.listing
    waiting = (today.join(name) for name in today.names if name.endswith(_REMOVED) and today.is_regular(name))
    paths = [*(path for path in waiting if path not in swapped.put), *swapped.replaced]
    return sorted(paths, key=lambda path: (_base(path) or 0, path))


def _base(path: str) -> int | None:
    return parse_name(base_name(path)).base_offset


def _lacked_here(swapped: SwappedDir, limit: int, report: Callable[[OpenFailure], object]) -> Iterator[IntactBatch]:
    """The batches of the logs that a start removes, and that the live logs of the partition do not have."""
    removed = _removed(swapped)
    if not removed:
        return iter(())
    renamed = (path for path in removed if path.endswith(".deleted"))
    replaced = {base for path in (*renamed, *swapped.replaced, *swapped.put) if (base := _base(path)) is not None}
    batches = intact_batches(swapped.today, removed, limit, report)
    return lacking(batches, swapped.directory, limit, _Explained(swapped.directory, limit, replaced))


class _Explained:
    """Tells whether a cleaner may have taken offsets out of the live logs of a partition.

    Args:
        directory: the partition, its swaps finished.
        limit: a batch over this is not held in memory.
        replaced: base offsets at which a log has taken the place of others, up to the next live one: of logs that were
            renamed, or put in place. A compaction never takes the last, and leaves no index that knows what it took.
    """

    def __init__(self, directory: PartitionDir, limit: int, replaced: Iterable[int] = ()) -> None:
        self._directory = directory
        self._limits = ReadLimits(max_batch_bytes=limit)
        self._whole: dict[int, bool] = {}  # whether logs with a base offset have all that their indexes know
        self._bases = directory.log_bases
        self._replaced = frozenset(replaced)
        self._judge = HoleJudge(surroundings(directory, NO_POLICIES))

    def _is_whole(self, base: int) -> bool:
        if base not in self._whole:
            self._whole[base] = is_of_its_index(self._directory, base, self._limits)
        return self._whole[base]

    def __call__(self, first: int, last: int) -> bool:
        """Tell it of a range, both ends inclusive."""
        after = bisect_right(self._bases, first)
        if 0 < after < len(self._bases) and last < self._bases[after] and self._bases[after - 1] in self._replaced:
            return self._is_whole(self._bases[after - 1])
        verdict = self._judge.early(MissingRange(first, last))
        return verdict is not None and verdict.certainty is Certainty.ABSENT


def _lacked_elsewhere(directory: PartitionDir, batches: Iterator[IntactBatch], limit: int) -> Iterator[IntactBatch]:
    """Those of some batches that no other directory of the partition has that is in use.

    A broker that has moved a partition to another log directory removes the old one, and others have replicas.
    """
    first = next(batches, None)
    if first is None:
        return
    batches, opened = chain((first,), batches), list[PartitionDir]()
    for other in _others(directory):
        opened.append(other)
        ids = directory.topic_id, other.topic_id
        if None in ids or ids[0] == ids[1]:
            explains: Explains | None = None if None in ids else _Explained(other, limit)
            batches = lacking(batches, other, limit, explains)
    try:
        yield from batches
    finally:
        for other in opened:
            other.close()


def _others(directory: PartitionDir) -> Iterator[PartitionDir]:
    own = real(directory.path or ".")
    for log_dir in (directory.log_dir, *directory.log_dir.siblings):
        for path in () if directory.key is None else log_dir.in_use.get(directory.key, ()):
            if real(path) != own:
                yield once_swapped(PartitionDir(path, LogDir(log_dir.path))).directory
