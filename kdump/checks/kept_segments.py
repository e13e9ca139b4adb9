"""What segments showed in an earlier night: kept, and taken for those that are as they were.

A verdict is made anew each night, of what its segments show and of all other files; only segments that changed are read
for it. What one shows hangs on its own files and on what its job says. Where it asked for more, or where something is
wrong with it, it hangs on all logs of its partition and on all epochs: it is read again when any of them changed.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from kdump.checks.job import SegmentSummary
from kdump.checks.kept_forms import RESULTS
from kdump.checks.kept_nothing import NothingKept
from kdump.finding import Finding, Severity, Trait
from kdump.format.java_values import MAX_LONG
from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.nights.known import KnownPlace, mark_of, sight_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.json_rules import BadValueError, each_of, fields, items, number, parsed, text
from kdump.storage.own_files import read_own
from kdump.storage.own_tree import STATE, folder_in, write_json
from kdump.storage.paths import absolute
from kdump.storage.refusal import RefusedError
from kdump.storage.value_forms import CannotKeepError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.checks.job import SegmentJob
    from kdump.checks.options import VerifyOptions
    from kdump.checks.partition_check import PartitionCheck
    from kdump.checks.segment import Result
    from kdump.nights.present import Store

_FOLDER = f"{STATE}/segments"
_MOST = 256 * 1024 * 1024  # bytes of the file of a partition
_MOST_RESULTS = 10_000  # of one segment: one with more is read again each night
_RULE = fields({"segments": items(each_of(text, number(0, MAX_LONG), lambda _found, _path: None))})
"""The results are looked at when they are taken."""


class KeptSegments:
    """What the segments of all partitions showed.

    Args:
        store: where it is kept.
        options: of verify.

    Attributes:
        files, size: of the logs that are read in this night: how many, and bytes.
    """

    def __init__(self, store: Store, options: VerifyOptions) -> None:
        self._store = store
        asked = (options.deep, options.resync, options.contiguous, options.max_batch_bytes)
        self._asked = (*asked, options.max_uncompressed_bytes)
        self.files = self.size = 0

    def of(self, check: PartitionCheck) -> KeptPartition:
        """Return those of a partition; the marks of its segments are taken now, before any is read."""
        found = KeptPartition(check, self._store, self._asked)
        for at, job in enumerate(check.jobs):
            if at not in found.unchanged:
                self.files += 1
                self.size += check.directory.listing.size(os.path.basename(job.files[FileKind.LOG]))
        return found


class KeptPartition(NothingKept):
    """What the segments of one partition showed.

    Args:
        check: the partition.
        store: where it is kept.
        asked: the options that it hangs on.
    """

    def __init__(self, check: PartitionCheck, store: Store, asked: tuple[object, ...]) -> None:
        self._store = store
        log_dir = check.directory.log_dir
        own = log_dir.property_text("directory.id") or None
        place = KnownPlace(log_dir.cluster_id, own, None, absolute(log_dir.path), None, None)
        self._name = f"{mark_of(place.group, absolute(check.path))}.json"  # of two copies each has its own
        known = {one[0]: one[1] for one in self._read() if store.is_recent(one[1])}
        now = store.now
        logs = [job.files[FileKind.LOG] for job in check.jobs]
        around = sight_of(logs, now)
        self._sights: list[tuple[str | None, str | None]] = []  # of each segment alone, and with all around it
        for job in check.jobs:
            own = sight_of(job.files.values(), now, inputs_of(job), asked)
            epochs = (job.epochs, job.start_offset, check.directory.log_start)
            self._sights.append((own, None if own is None or around is None else mark_of(own, around, epochs)))
        pairs = ((at, one) for at, both in enumerate(self._sights) for one in both)
        self._taken = {at: one for at, one in pairs if one is not None and one in known}
        self.unchanged = frozenset(self._taken)
        self._fresh: dict[int, list[Any]] = {}
        self._kept: dict[str, list[Any]] | None = None

    def _read(self) -> list[list[Any]]:
        path = os.path.join(self._store.directory, _FOLDER, self._name)
        try:
            with folder_in(self._store.directory, _FOLDER) as folder:
                found: Any = parsed(read_own(folder, self._name, path, "what kdump keeps of segments", _MOST))
            _RULE(found, "")
        except (FileNotFoundError, BadValueError):  # it is no more than work that is saved
            return []
        return list(found["segments"])

    def _all_kept(self) -> dict[str, list[Any]]:
        """What is kept of the unchanged segments, by their marks: read when its turn comes, as not all may be held."""
        if self._kept is None:
            wanted = set(self._taken.values())
            self._kept = {one[0]: one for one in self._read() if one[0] in wanted}
        return self._kept

    def results(self, number: int) -> Iterator[Result]:
        """Yield what an unchanged segment showed; it says when its bytes were read."""
        _, read_at, found = self._all_kept()[self._taken[number]]
        try:
            read = list(RESULTS.read(found, self._name))
        except BadValueError as error:
            with folder_in(self._store.directory, _FOLDER) as folder:
                os.unlink(self._name, dir_fd=folder)
            path = os.path.join(self._store.directory, _FOLDER, self._name)
            why = "it was removed, and the next run reads these segments again"
            raise RefusedError(f"{path}: what was kept of segments cannot be read ({error}): {why}") from None
        for one in read:
            yield one.replace(read_at=read_at) if isinstance(one, SegmentSummary) else one

    def fresh(self, number: int, results: Iterator[Result]) -> Iterator[Result]:
        """Yield what a segment shows that is read now, and note it."""
        held: list[Result] = []
        is_kept = True
        for one in results:
            if isinstance(one, Progress):
                yield one
                continue
            is_kept = is_kept and len(held) < _MOST_RESULTS and not _is_unread(one)
            if is_kept:
                held.append(one)
            yield one.replace(read_at=self._store.run.started_at) if isinstance(one, SegmentSummary) else one
        if is_kept and (entry := self._entry(number, held)) is not None:
            self._fresh[number] = entry

    def _entry(self, number: int, held: list[Result]) -> list[Any] | None:
        """What is kept of a segment; None where it is read again in the next night whatever it is then."""
        wrong = (one for one in held if isinstance(one, Finding) and one.severity is not Severity.NOTE)
        asked = (one for one in held if isinstance(one, SegmentSummary) and (one.is_asked_around or not one.is_read))
        own, around = self._sights[number]
        sight = own if next(wrong, None) is None and next(asked, None) is None else around
        if sight is None:
            return None
        try:
            return [sight, self._store.run.started_at, RESULTS.write(held)]
        except CannotKeepError:
            return None

    def done(self) -> None:
        """Keep what was noted, and what is as it was; nothing of segments that are gone."""
        if not self._fresh and len(self._taken) == len(self._sights):
            self._kept = None
            return
        kept = self._all_kept()
        count = len(self._sights)
        entries = [kept[self._taken[at]] if at in self._taken else self._fresh.get(at) for at in range(count)]
        with folder_in(self._store.directory, _FOLDER, makes=True) as folder:
            write_json(folder, self._name, {"segments": [one for one in entries if one is not None]})
        self._kept, self._fresh = None, {}


def _is_unread(result: Result) -> bool:
    """Whether it says that something could not be read: that may have another answer tomorrow, and no time shows it."""
    if isinstance(result, OpenFailure):
        return True
    return isinstance(result, Finding) and Trait.NOT_ALL_READ in result.code.traits


def inputs_of(job: SegmentJob) -> tuple[object, ...]:
    """Return what of a job its segment hangs on as long as nothing is wrong with it: no more than its own offsets.

    A broker that is started again, a new epoch at the end of the log, and a new log start offset change the jobs of all
    segments, and what few of them show.
    """
    end = MAX_LONG if job.next_base is None else job.next_base
    starts = [one.start_offset for one in job.epochs]
    first = max(0, bisect_right(starts, job.base_offset) - 1)
    own = job.epochs[first : bisect_left(starts, end)]
    epochs = [(one.epoch, max(one.start_offset, job.base_offset)) for one in own]
    start = max(job.start_offset, job.base_offset)
    is_open = job.is_last and not job.is_clean
    return (
        job.base_offset,
        job.next_base,
        (job.is_last, is_open, job.is_held and job.is_last, job.is_leftover, job.is_raft_log, job.is_under_work),
        start,
        epochs,
        bool(job.epochs),
        job.topic,
        job.known_ends,
        job.misplaced,
        [(kind.name, path) for kind, path in job.files.items()],
    )
