"""One partition directory: its segments in order, what they leave to be judged together, and its other files."""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from kdump.broker.load.swapped_dir import once_swapped
from kdump.broker.missing.index_proofs import is_under_work
from kdump.broker.missing.judge import HoleJudge
from kdump.broker.missing.losses import PartitionLosses
from kdump.broker.missing.lost_holes import surroundings
from kdump.broker.missing.ranges import MissingRange
from kdump.checks.causes import PartitionCauses
from kdump.checks.hole_findings import HoleFindings
from kdump.checks.intact_records import IntactRecords
from kdump.checks.job import MissingInLog, SegmentJob, SegmentSummary
from kdump.checks.log_start_reason import log_start_reason
from kdump.checks.names import check_names
from kdump.checks.owners import owners_differ
from kdump.checks.replay import Replay
from kdump.checks.state_files import WRITE_TOPIC_ID, check_epochs, check_offsets, check_text
from kdump.checks.transactions import open_transactions
from kdump.finding import Code, Finding, Severity
from kdump.format.java_values import ABOVE_ALL
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.item import Checked, CheckedFile, PartitionChecked, SegmentChecked
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.directory import SEGMENT_KINDS
from kdump.storage.evidence import Witness, evidence_of, without_log
from kdump.storage.file_source import OpenFailure
from kdump.storage.misplaced import misplaced_in
from kdump.storage.names import STRAY_WITHOUT_ID
from kdump.words.time_units import unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.checks.segment import Result
    from kdump.checks.swaps import SwapCheck
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.item import Item
    from kdump.storage.evidence import KnownEnd
    from kdump.storage.misplaced import Misplaced
    from kdump.storage.partition_dir import PartitionDir

_HELD = 16  # parts of what is lost in one log


class PartitionCheck:
    """Judges one partition directory.

    Args:
        directory: the partition, as it lies.
        only: judge the files of this path only; None for all.

    Attributes:
        directory: the partition as the next start of a broker has it, once it has put `.swap` files in place.
        sizes: of their logs, bytes.
    """

    def __init__(self, directory: PartitionDir, only: str | None = None) -> None:
        self.swapped = once_swapped(directory)
        self.directory = directory = self.swapped.directory
        self.path = directory.path  # of the directory
        self.name = directory.parsed  # what its name tells, None where it tells nothing
        self._only = only
        self.sizes = [self._size(directory.path_of(base, FileKind.LOG)) for base in directory.log_bases]
        self._remark = ""  # what people should know that is no finding
        self.lacks_epochs = False  # batches have leader epochs, and the leader-epoch-checkpoint is gone
        self.checkpoint_findings: list[Finding] = []  # K01 and K02, for whoever judges the files of the log directory
        self._end = 0
        self._has_epochs = self._is_damaged = False
        self._in_hand: list[MissingInLog] = []  # of the segment that is judged
        self._causes = PartitionCauses(directory, self._has_trace)
        self._is_read = True  # up to the end of the last log so far
        self._has_wrong_unit = False  # it was said
        self._ends: list[int] = []  # of the logs so far; of one that was not read, where the next one begins
        self._done: set[str] = set()
        self._removed: dict[str, Finding] = {}  # F16 of what a start removes, by path
        self._unread: list[OpenFailure] = []  # what may have more of that
        self._swaps: SwapCheck | None = None  # where something waits to be put in place

    # Who only hands the partition on to somebody else opens no log: what follows is looked up when it is needed.
    @cached_property
    def jobs(self) -> list[SegmentJob]:
        """Its segments, by base offset; that of a log under another name is the one that its batches tell."""
        return [self._job(base) for base in self._bases]

    @cached_property
    def _misplaced(self) -> dict[int, Misplaced]:
        """The logs under the name of another segment, by base offset of the one that they are."""
        found = {} if self._only is not None else misplaced_in(self.directory)
        return {one.base: one for one in found.values()}

    @cached_property
    def _bases(self) -> list[int]:
        """The base offsets of its segments."""
        moved = {one.name for one in self._misplaced.values()}
        return sorted([*(base for base in self.directory.log_bases if base not in moved), *self._misplaced])

    @cached_property
    def _is_under_work(self) -> bool:
        return is_under_work(self.directory.listing.names)

    def _size(self, path: str) -> int:
        return self.swapped.today.listing.size(os.path.basename(path))

    @property
    def _is_raft_log(self) -> bool:
        return self.name is not None and self.name.is_raft_log

    @cached_property
    def _start(self) -> int:
        return max(self._bases[0] if self._bases else 0, self.directory.log_start)

    @cached_property
    def _usable_epochs(self) -> Sequence[EpochEntry]:
        return self.directory.sound_epochs

    @cached_property
    def _lost_logs(self) -> dict[int, int]:
        return evidence_of(self.directory).logs

    def _judging(self, options: VerifyOptions) -> None:
        """Get ready to judge holes."""
        self._judge = HoleJudge(surroundings(self.directory, options.policies_for(self.directory), self._bases))
        start = min(self._start, self.lost_from, *(first for first, _ in self._below_logs()))
        self._losses = PartitionLosses(self.path, self.directory.name, start, self._judge)

    def _job(self, base: int) -> SegmentJob:
        misplaced, following = self._misplaced.get(base), bisect_right(self._bases, base)
        log_dir = self.directory.log_dir
        return SegmentJob(
            self.directory.by_base[base] if misplaced is None else misplaced.files,
            base,
            is_clean=log_dir.is_clean,
            is_last=base == self._bases[-1],
            is_held=log_dir.is_held,
            start_offset=self._start,
            epochs=tuple(self._usable_epochs),
            topic=None if self.name is None else self.name.topic,
            is_leftover=self.directory.is_leftover,
            only=self._only,
            is_raft_log=self._is_raft_log,
            next_base=None if base == self._bases[-1] else self._bases[following],
            known_ends=self._known_ends() if base == self._bases[-1] else (),
            misplaced=misplaced,
            around=self.directory.epochs_around(base),
            is_under_work=self._is_under_work,
        )

    def _known_ends(self) -> tuple[KnownEnd, ...]:
        """Offsets that the log has reached, by the names of snapshots and by checkpoints; and what shows it."""
        by = Witness.SNAPSHOTS | Witness.LOST_LOGS | Witness.CHECKPOINTS
        return tuple(evidence_of(self.directory).ends(by, behind=self._bases[-1]))

    def _has_trace(self) -> bool:
        in_hand = (one.traced_to or any(part.is_inner_hole for part in one.ranges) for one in self._in_hand)
        return self._judge.has_trace() or any(in_hand)

    @property
    def lost_from(self) -> int:
        """The first offset of the logs that are here, or of one before them of which its indexes alone are left."""
        return max(min([self._start, *self._lost_logs]), self.directory.log_start)

    def check(self, results: Callable[[int], Iterator[Result]], options: VerifyOptions) -> Iterator[Item]:
        """Yield what is wrong with the partition, and at the end what is known of it, for the steps.

        Args:
            results: gives those of the segment with a number among `jobs`; asked for in order.
            options: what was asked for.

        Reports: A01-A08, E03, F01-F09, F14-F16, F19, K01-K07, O06, O07, P04, S01-S04, X09, and what a segment shows.
        """
        self._look_at_what_goes(options)
        items = self._for_node(self._judged(results, options))
        has_transactions, seen = False, IntactRecords()
        for item in items:
            if isinstance(item, (Finding, Loss)):
                from kdump.checks.next_steps import PartitionSteps  # of a sound partition there is nothing to do

                steps = PartitionSteps(
                    self.directory,
                    self.jobs,
                    options,
                    swaps=self._swaps,
                    foreseen=self.swapped.today,
                    has_transactions=has_transactions,
                    before=seen,
                )
                yield from steps.through(chain([item], items), self.checkpoint_findings)
                return
            has_transactions |= isinstance(item, SegmentChecked) and item.has_transactions
            seen.see(item)
            yield item
        if self.checkpoint_findings:  # of a partition in which nothing else is wrong
            from kdump.checks.next_steps import PartitionSteps  # few have any

            steps = PartitionSteps(self.directory, self.jobs, options, foreseen=self.swapped.today, before=seen)
            yield from steps.through((), self.checkpoint_findings)

    def _look_at_what_goes(self, options: VerifyOptions) -> None:
        """Learn what a broker removes at its next start, and what waits to be put in place."""
        today, found = self.swapped.today, self._removed
        if today.is_leftover or today.listing.has_temporaries:
            from kdump.broker.awaiting_deletion import awaiting_deletion  # it has the model of a start

            removed = awaiting_deletion(today, options.max_batch_bytes, self._unread.append)
            found.update((one.file, one) for one in removed)
        if self.swapped.waiting:
            from kdump.checks.swaps import SwapCheck  # few have any

            self._swaps = SwapCheck(self.swapped, found, options.max_batch_bytes)
            for path in self.swapped.replaced:  # it is said of what takes their place
                found.pop(path, None)

    def _for_node(self, items: Iterator[Item]) -> Iterator[Item]:
        """What is judged, with what mends the metadata log, where it is that."""
        if not self._is_raft_log:
            yield from items
            return
        from kdump.checks.raft_log import for_node

        for item in items:
            if isinstance(item, Finding):
                yield for_node(item, self.directory, self._last_end, is_sound=not self._is_damaged and self._is_read)
            else:
                yield item

    def _judged(self, results: Callable[[int], Iterator[Result]], options: VerifyOptions) -> Iterator[Item]:
        self._judging(options)
        replay = Replay(self.directory, options.limits)
        causes, holes = self._causes, HoleFindings(self._losses)
        self._end = self._bases[0] if self._bases else 0
        unread = evidence_of(self.directory).rows_unread
        if unread is not None:
            yield unread
        yield from self._lost_before()
        for number, job in enumerate(self.jobs):
            self._in_hand = held = []
            if job.misplaced is not None:
                yield job.misplaced.finding
            if self._swaps is not None:
                yield from self._swaps.beside(job.files.values())
            for result in results(number):
                if isinstance(result, MissingInLog):
                    held.append(result)
                    if len(held) == _HELD:  # whatever the log turns out to be
                        yield from holes.settle(self._lost_in(held))
                        held.clear()
                elif isinstance(result, SegmentSummary):
                    told = list(causes.settle(job, result, self._after(job, result, replay, deep=options.deep)))
                    lost = list(self._lost_in(held if not causes.is_foreign else self._lost_of_foreign(job, held)))
                    self._losses.reached(self._end)
                    if self._goes_on_in_next(job, result) and not causes.is_foreign:
                        self._losses.have(result.end_offset)
                    yield from holes.settle(lost, [*self._twice(number, result, options), *told])
                else:
                    for item in causes.take(result):
                        yield from holes.take(item)
        for item in self._rest(replay, options):
            yield causes.late(item) if isinstance(item, Finding) else item
        yield from holes.rest()
        size, count = sum(self.sizes), len(self.jobs)
        ends = (self._start, self._end) if self._bases else (None, None)
        yield PartitionChecked(self.path, count, ends[0], ends[1], size, self._losses.offsets_lost, remark=self._remark)

    def _twice(self, number: int, facts: SegmentSummary, options: VerifyOptions) -> Iterator[Item]:
        """The offsets that a segment, with the one before it, has twice."""
        if facts.overlaps:
            from kdump.checks.duplicates import Duplicates  # few logs have any

            logs = [job.files[FileKind.LOG] for job in self.jobs[max(number - 1, 0) : number + 1]]
            yield from Duplicates(self.path, self.directory.name, options).of(facts.overlaps, logs)

    def _goes_on_in_next(self, job: SegmentJob, facts: SegmentSummary) -> bool:
        """Whether right batches of a segment have all offsets from its next one's base on, up to their end (O06)."""
        if job.next_base is None or facts.dense_from is None:
            return False
        return facts.dense_from < job.next_base < facts.end_offset

    def _lost_in(self, some: Iterable[MissingInLog]) -> Iterator[Loss]:
        for one in some:
            self._judge.trace(one.traced_to)
            yield from self._losses.take(self._with_lost_logs(one.ranges))

    def _lost_of_foreign(self, job: SegmentJob, held: Sequence[MissingInLog]) -> Sequence[MissingInLog]:
        """What a segment had whose place a log of another partition has taken; where it ended, others may know."""
        log = job.files[FileKind.LOG]
        ends = [offset for offset, _ in job.known_ends] if job.next_base is None else [job.next_base]
        if max(ends, default=0) <= job.base_offset:
            return held
        offsets, size = (job.base_offset, max(ends) - 1), self._size(log)
        lost = MissingRange(*offsets, (Code.F15.name,), log, length=size, certainty=Certainty.LOST)
        return [MissingInLog((lost,), 0)]

    def _wrong_unit(self, job: SegmentJob, facts: SegmentSummary) -> Iterator[Finding]:
        """Say once of a log that its timestamps are in another unit than milliseconds, and since which offset.

        Reports: B12.
        """
        times = [one for one in (facts.first_timestamp, facts.max_timestamp) if one is not None]
        if self._has_wrong_unit or not any(unit_of(one) for one in times) or FileKind.LOG not in job.files:
            return
        from kdump.broker.wrong_unit import unit_sentence, wrong_unit  # few logs have any

        path = job.files[FileKind.LOG]
        source = self.directory.cache.open(path, follow=False)
        found = None if isinstance(source, OpenFailure) else wrong_unit(source, MAX_BATCH_BYTES)
        if found is not None:
            self._has_wrong_unit = True
            position, size, offset, time = found
            values: dict[str, int | str | None] = {"what": unit_sentence(offset, time)}
            yield Finding(Code.B12, path, position, size, offset=offset, found=time, values=values)

    def _lost_before(self) -> Iterator[Loss]:
        """What the logs before the first one had; where none is here, what all of them had."""
        for begin, last in self._below_logs():
            log = self.directory.path_of(self._bases[0], FileKind.LOG)
            yield from self._losses.take([MissingRange(begin, last, (), log)])
        first = self._bases[0] if self._bases else ABOVE_ALL
        before = {base: last for base, last in self._lost_logs.items() if base < first}
        for base, last in before.items():
            known = max(last + 1, evidence_of(self.directory).end_without_logs)
            end = min([one for one in (*self._lost_logs, *self._bases) if one > base], default=known)
            log = self.directory.path_of(base, FileKind.LOG)
            lost = MissingRange(base, end - 1, (Code.F08.name,), log, certainty=Certainty.LOST)
            yield from self._losses.take([lost])

    def _below_logs(self) -> list[tuple[int, int]]:
        """The offsets from the log start on, by its checkpoint, that lie below the first log: first and last one."""
        key, log_dir = self.directory.key, self.directory.log_dir
        if key is None or not self._bases or self.directory.is_leftover or log_dir.file(FileKind.LOG_START).findings:
            return []
        entry, first = log_dir.offset(FileKind.LOG_START, key), min(self._bases[0], *self._lost_logs, self._bases[0])
        return [(entry, first - 1)] if entry is not None and entry < first else []

    def _with_lost_logs(self, ranges: Sequence[MissingRange]) -> list[MissingRange]:
        """Ranges of a log: in a hole behind it that compaction could have made, a log was that is lost."""
        found: list[MissingRange] = []
        for one in ranges:
            base = min((base for base in self._lost_logs if one.first <= base <= one.last), default=None)
            if one.certainty is not None or base is None:
                found.append(one)
                continue
            if one.first < base:
                found.append(one._replace(last=base - 1))
            found.append(one._replace(first=base, certainty=Certainty.LOST, because=(Code.F08.name,)))
        return found

    def _after(self, job: SegmentJob, facts: SegmentSummary, replay: Replay, *, deep: bool) -> Iterator[Item]:
        """What a segment leaves to be judged, and the end of its group."""
        read = {kind: CheckedFile(job.files[kind], kind, size) for kind, size in facts.sizes.items()}
        for one in replay.segment(job, facts):
            if isinstance(one, CheckedFile):
                read[one.kind] = one
            elif job.only is None:
                yield one
        bounds = [facts.end_offset] if job.next_base is None else [facts.end_offset, job.next_base]
        self._end = max(self._end, min(bounds))  # what lies above the next segment's base offset is a wrong header
        self._ends.append(min(bounds) if facts.is_read else bounds[-1])
        self._is_read = facts.is_read
        self._is_damaged |= facts.damaged
        self._has_epochs = self._has_epochs or facts.has_epochs
        self._done.update(job.files.values())
        yield from self._wrong_unit(job, facts)
        if job.is_last and job.only is None:
            path, is_lone = job.files[FileKind.LOG], self.directory.is_lone_segment
            yield from open_transactions(replay.producers, path, self._end, is_lone=is_lone)
        yield facts.checked(job, deep=deep)
        shown = tuple(read[kind] for kind in SEGMENT_KINDS if kind in read and job.only in (None, read[kind].path))
        yield Checked(shown, facts.batches, facts.records)

    @property
    def _last_end(self) -> int:
        """The log end offset, for those who ask whether something is beyond it; never, when it is not known."""
        return self._end if self._is_read and self._bases else ABOVE_ALL

    # --- the other files ------------------------------------------------------------------------------------
    def _rest(self, replay: Replay, options: VerifyOptions) -> Iterator[Item]:
        shown: list[CheckedFile] = []
        has_sound_epochs, epoch_file = True, self.directory.epoch_file
        for one in self._other_files(replay, options):
            if isinstance(one, CheckedFile):
                shown.append(one)
            else:
                has_sound_epochs = has_sound_epochs and not (isinstance(one, Finding) and one.file == epoch_file.path)
                yield one
        if self._only is None and self._is_read and self._bases and not self._is_raft_log:
            yield from replay.without_snapshots(self._end)
        yield from self._leftovers()
        yield from self._without_files()
        yield from self._of_directory(options)
        is_begun = True
        if self._is_raft_log and self._bases:
            from kdump.checks.raft_log import level_of, refused_record, snapshot_ahead, snapshot_missing

            yield from snapshot_ahead(self.directory, self._last_end)
            missing = snapshot_missing(self.directory, self._start)
            is_begun = not missing
            yield from missing
            if is_begun and self._is_read and not self._is_damaged:
                yield from refused_record(self.directory, options.rules, options.limits)
                self._remark = level_of(self.directory, options.rules, options.limits)
        if has_sound_epochs:  # a broker does not start with others
            self.lacks_epochs = self._has_epochs and epoch_file.is_missing
            yield from check_epochs(epoch_file, self._last_end, has_epochs=self._has_epochs)
        key = self.directory.key
        if key is not None and self._bases and self._has_entries:
            log_dir, name = self.directory.log_dir, self.directory.name
            found = check_offsets(log_dir, key, name, self._last_end)
            self.checkpoint_findings.extend(self._causes.late(one) for one in found)
        if self._bases and not self._is_damaged and is_begun:
            may_be_cut = not self._causes.explains_end
            yield from log_start_reason(
                self.directory, self._last_end, has_holes=self._causes.has_holes, may_be_cut=may_be_cut
            )
        yield Checked(tuple(shown), 0, 0)

    def _of_directory(self, options: VerifyOptions) -> Iterator[Finding]:
        """What is wrong with the directory as a whole: the file with its topic id, and who may open its files."""
        if self._only is not None:
            return
        yield from owners_differ(self.swapped.today)
        name = FileKind.PARTITION_METADATA.value
        listing = self.directory.listing
        if listing.error is not None or listing.has(name):
            return
        if self.name is None or self.name.state not in ("", "future") or self._is_raft_log:
            return
        log_dir = self.directory.log_dir
        if log_dir.is_kraft:
            severity = Severity.NOTE if log_dir.is_held else Severity.WARNING
            values = {"why": STRAY_WITHOUT_ID, "remedy": WRITE_TOPIC_ID}
            missing = Finding(Code.K05, listing.join(name), values=values, severity_override=severity)
            yield self._with_id(missing, options)

    def _with_id(self, finding: Finding, options: VerifyOptions) -> Finding:
        """A finding about partition.metadata with the id that it must have."""
        from kdump.checks.topic_id import with_topic_id  # nearly every file says it

        return with_topic_id(finding, self.directory, options)

    @property
    def _has_entries(self) -> bool:
        """Whether what checkpoints say of the partition is said of this directory, and not of one in use beside it."""
        is_in_use = self.name is None or not self.name.state
        return is_in_use or not (self.directory.is_leftover or self.directory.key in self.directory.log_dir.in_use)

    def _leftovers(self) -> Iterator[Finding | OpenFailure]:
        """What a broker does not load, removes, or puts in the place of others."""
        yield from self._unread
        contents, said = self.swapped.today.contents, dict(self._removed)
        if self._swaps is not None:
            yield from self._swaps.rest()
            told = self._swaps.told
            contents = contents.replace(leftovers=[one for one in contents.leftovers if one not in told])
            said = {**self._swaps.left(), **said}
        yield from check_names(contents, said)
        named = {*contents.leftovers, *contents.ignored}
        yield from (finding for path, finding in said.items() if path not in named)

    def _other_files(self, replay: Replay, options: VerifyOptions) -> Iterator[Item | CheckedFile]:
        directory = self.directory
        for file in directory.contents.files:
            path, kind = file.path, file.name.kind
            if path in self._done:
                continue
            name = os.path.basename(path)
            if path in self.swapped.files:
                name = name.removesuffix(".swap")
            if kind is FileKind.SNAPSHOT:
                yield from replay.snapshot(path, file.name.base_offset, self._last_end, has_log=bool(self._bases))
            elif kind in SEGMENT_KINDS:
                if not directory.listing.has(f"{name.removesuffix(kind.value)}{FileKind.LOG.value}"):
                    yield self._without_log(path, file.name.base_offset or 0)
                yield CheckedFile(path, kind, self._size(path))
            elif kind is FileKind.CHECKPOINT:
                from kdump.checks.raft_log import check_snapshot, snapshot_ends

                yield from check_snapshot(path, options)
                if self._is_raft_log and file.name.is_live:
                    yield from snapshot_ends(path, self.directory)
            else:
                for one in check_text(directory.file(name, kind)):
                    is_of_id = isinstance(one, Finding) and one.code is Code.K05 and self._only is None
                    yield self._with_id(one, options) if is_of_id else one  # type: ignore[arg-type]

    def _without_files(self) -> Iterator[Finding]:
        """Logs that are lost with all their files: no index speaks of them."""
        lost = evidence_of(self.directory)
        for finding in lost.findings():
            if self._only is None and finding.offset is not None and not lost.has_index(finding.offset):
                yield finding

    def _without_log(self, path: str, base: int) -> Finding:
        """An index without its log: it is lost, unless another log has its offsets, as after a compaction."""
        last = self._lost_logs.get(base)
        at = bisect_right(self._bases, base)
        if last is not None and at and self._ends[at - 1] > (base if at < len(self._bases) else last):
            last = None
        return without_log(path, last)
