"""One partition: its copies are read, put right by each other, and made one line."""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import suppress
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING

from kdump.broker.awaiting_deletion import logs_awaiting_deletion
from kdump.broker.clusters import NO_POLICIES, TopicPolicies
from kdump.broker.foreign import ForeignSegments, LogShape, SegmentOrigin, shown_end
from kdump.broker.index_interval import infer_interval
from kdump.format.batch.base_offset.fold import unknown
from kdump.format.batch.epoch_order import goes_on_behind
from kdump.format.batch.header_judge import EPOCH_BITS, is_one_bit
from kdump.format.checkpoint.properties import encode_partition_metadata
from kdump.format.index.offset_and_time import INDEX_INTERVAL
from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.ranges import RangeSet
from kdump.rescue.base_offset.behind_holes import wrong_behind_hole
from kdump.rescue.base_offset.duplicate_batches import AtTwoPlacesError, wrong_in_holes
from kdump.rescue.base_offset.misplaced_batches import wrong_base_offsets
from kdump.rescue.base_offset.seen import CopyLog
from kdump.rescue.end_evidence import EndEvidence
from kdump.rescue.epochs import NEVER, KnownEpochs, LineHistory, branch_of, goes_another_way
from kdump.rescue.holes import LineHoles, has_trace, is_lost_in
from kdump.rescue.line import (
    Candidate,
    ContradictionError,
    Line,
    LineLog,
    PartedError,
    WrongEpochError,
)
from kdump.rescue.scanned_log import (
    ReadLog,
    ScannedLog,
    last_base,
    lone_last,
    read_log,
)
from kdump.rescue.segments import Settings
from kdump.rescue.standing import Standing, standing_of
from kdump.rescue.target import Made
from kdump.storage.evidence import BESIDE, evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.misplaced import first_in_header
from kdump.storage.names import METADATA_TOPIC, OFFSETS_TOPIC
from kdump.storage.open_files import OpenFileCache
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import real
from kdump.storage.tolerant import TolerantSource
from kdump.value import Value
from kdump.words.command import option_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kdump.finding import Finding
    from kdump.format.batch.base_offset.header import LogEnd
    from kdump.format.batch.epoch_order import EpochsAround
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.read_limits import ReadLimits
    from kdump.rescue.destination import Destination, PartitionThere
    from kdump.rescue.partings import Branch, BranchBatch, Parting
    from kdump.rescue.raft_files import RaftFiles
    from kdump.rescue.run_edges import EdgeBatch
    from kdump.rescue.sources import Copy, SourceLog
    from kdump.rescue.valid_runs import EpochRun
    from kdump.rows.salvaged import Salvaged
    from kdump.storage.misplaced import Misplaced

_ATTEMPTS = 8  # epochs that turn out to be wrong, one after the other
_MODE = 0o644


class SalvageOptions(Value):
    """What was asked for."""

    segment_bytes: int  # of a log at most
    prefer: str | None  # the source that wins where sources contradict each other, None for none
    # leader epochs of a replica that is known to be good, None where none was given
    epochs: tuple[EpochEntry, ...] | None
    below_log_start: bool  # batches below the log start offset count too
    limits: ReadLimits  # for reading records
    progress: bool  # somebody looks at the progress
    doubtful: str | None = None  # path of a new file for records that no CRC vouches for, None for none
    deleted: str | None = None  # which logs that a broker is to remove are read: "too", "alone", or None for none
    jobs: int = 1  # processes, one for a partition at a time; 0 for every core
    policies: TopicPolicies = NO_POLICIES  # what is known of topics
    destination: Destination | None = None  # the cluster that results are for, None for that of the sources


class RefusalError(Exception):
    """The partition is not made: one sentence says why, and what to do."""


class PartitionSalvage:
    """Salvages one partition.

    Args:
        name: of the partition.
        copies: of it.
        options: what was asked for.
        there: what the cluster that the result is for has of the partition; None where it is that of the sources.

    Attributes:
        left_unread: logs that a broker removes and that could not be read, once it was asked for those.
    """

    def __init__(
        self, name: str, copies: Sequence[Copy], options: SalvageOptions, there: PartitionThere | None = None
    ) -> None:
        self.name = name
        self.there = there
        self.read: list[ReadLog] = []  # the logs, once they are read, but for those of other partitions
        self.foreign: list[ReadLog] = []  # the logs of other partitions, which stay out
        self.notes: list[str] = []  # what there is to know, a sentence each
        self.findings: list[Finding] = []  # about what was not all read
        self.problems: list[OpenFailure] = []  # what could not be read
        self.left_unread: list[OpenFailure] = []
        self._copies = list(copies)
        self._options = options
        self._cache = OpenFileCache()
        self._wrong_epochs: set[tuple[int, int]] = set()
        self._below: dict[int, list[EpochRun]] = {}  # by copy, of runs: the epochs that its history has below it
        self._given: dict[str, list[Finding]] = {}  # by log, what other logs determine of its header fields
        self._unlike: list[tuple[Copy, Copy]] = []  # whose batches contradict the checkpoint of which

    @property
    def sources(self) -> tuple[str, ...]:
        """The paths of the user, each once, and of the logs that are read because a broker is to remove them."""
        named = [log.source for copy in self._copies for log in copy.logs]
        aside = [log.path for copy in self._copies if copy.is_aside for log in copy.logs]
        return tuple(dict.fromkeys((*named, *aside)))

    @property
    def topic_id(self) -> str | None:
        """The topic id of the sources, None where none has it."""
        return next((one.directory.topic_id for one in self._copies if one.topic_id is not None), None)

    @property
    def made(self) -> Made:
        """What the result is made of, and for."""
        there = self.there
        if there is None:
            return Made(self.sources, self.topic_id)
        return Made(self.sources, there.topic_id, there.leader_epoch)

    @property
    def is_for_another(self) -> bool:
        """Whether the cluster that the result is for has another topic in its place than the sources are of."""
        return self.there is not None and self.there.topic_id != self.topic_id

    @property
    def is_brought(self) -> bool:
        """Whether the result is for a cluster, and what that has of the partition is none of the sources."""
        there = self.there
        if there is None:
            return False
        return there.live is None or real(there.live) not in [real(one.path) for one in self.directories]

    @property
    def misplaced(self) -> dict[str, list[Misplaced]]:
        """The logs with the names of other segments, by the paths of the copies."""
        logs = {copy.path: [log.misplaced for log in copy.logs if log.misplaced is not None] for copy in self._copies}
        return {path: some for path, some in logs.items() if some}

    @property
    def replicas(self) -> int | None:
        """How many replicas the partition has, by the metadata logs at hand; None where none tells."""
        told = (self._options.policies.replicas(one) for one in self.directories)
        return next((len(one) for one in told if one is not None), None)

    @property
    def directories(self) -> list[PartitionDir]:
        """The directories of the copies, each once; not those of runs, beside which nothing of the partition lies."""
        found = {real(copy.path): copy.directory for copy in self._copies if not copy.is_carved}
        return list(found.values())

    @property
    def on_the_way_out(self) -> list[PartitionDir]:
        """The directories of the copies that a broker is to remove; none where it serves another of them."""
        found = self.directories
        return found if found and all(one.is_leftover for one in found) else []

    @property
    def in_use(self) -> PartitionDir | None:
        """The directory that a broker serves under the name of a deleted partition; None where none lies beside."""
        topic, _, number = self.name.rpartition("-")
        key = topic, int(number)
        log_dirs = (log_dir for one in self.on_the_way_out for log_dir in (one.log_dir, *one.log_dir.siblings))
        return next((PartitionDir(path, one) for one in log_dirs for path in one.in_use.get(key, ())), None)

    @cached_property
    def left_to_broker(self) -> list[Finding]:
        """Logs beside those of the copies that a broker removes, with records that no other file has (F16)."""
        limit, report = self._options.limits.max_batch_bytes, self.left_unread.append
        read = {real(log.path) for copy in self._copies for log in copy.logs}
        directories = {real(copy.path): copy.today for copy in self._copies if not copy.is_carved}
        found = (one for directory in directories.values() for one in logs_awaiting_deletion(directory, limit, report))
        return [one for one in found if real(one.file) not in read]

    def is_carved(self, copy: int) -> bool:
        """Return whether a copy is of runs that were carved, between which anything may be missing."""
        return self._copies[copy].is_carved

    def is_between_runs(self, first: int, last: int) -> bool:
        """Tell whether missing offsets lie between runs that were carved, and in none: anything may have been there."""
        if not self.is_of_runs:
            return False
        firsts, reached = self._holes_in_runs
        return not last <= reached[bisect_right(firsts, first)]

    def is_between_copies(self, first: int, last: int) -> bool:
        """Tell whether missing offsets lie behind some copies and before the others: no cleaner of one took them."""
        return not (self.is_of_runs or self._reach_of_copies.has_all(first, last))

    @cached_property
    def _reach_of_copies(self) -> RangeSet:
        """The offsets from the beginning of each copy up to its last batch."""
        found = RangeSet()
        for number in range(len(self._copies)):
            own = [one for one in self.read if one.copy == number]
            begins = [one.facts.first for one in own if one.facts.first is not None]
            begins += [one.log.base for one in own if one.log.base is not None and not one.facts.is_renamed]
            ends = [one.facts.last for one in own if one.facts.last is not None]
            if ends:
                found.add(min(begins), max(ends))
        return found

    @cached_property
    def _holes_in_runs(self) -> tuple[list[int], list[int]]:
        """The first offset of each hole in a log, ascending; before each, and at last, the highest offset so far."""
        logs = (one.facts.holes for one in self.read)
        holes = sorted((some[at], some[at + 1]) for some in logs for at in range(0, len(some), 3))
        return [first for first, _ in holes], list(accumulate((last for _, last in holes), max, initial=-1))

    def lost_logs(self, copy: int) -> list[tuple[int, int]]:
        """Return first and last offset of each log that a copy has lost, by the indexes that are left of it."""
        return self._copies[copy].lost_logs

    def whole_ranges(self, line: Line) -> list[tuple[int, int]]:
        """Return the ranges of offsets in which a copy has every batch that was left of the log, ascending.

        These are its batches that lie one behind the other, from the base offset of a log on and up to the next log.

        Args:
            line: of all copies; one that has left it does not count, nor one in which nothing shows a cleaner at work.
        """
        found = RangeSet()
        left = {copy for copy, _, _ in line.left_out}
        for number in range(len(self._copies)):
            if sum(one.facts.gaps for one in self.read if one.copy == number) and not self._has_trace(number):
                left.add(number)
        for one in self.read:
            if one.copy in left or self.is_carved(one.copy) or not one.facts.runs:
                continue
            spans, runs, base, end = one.facts.spans, one.facts.runs, one.log.base, one.log.next_base
            if base is not None and not one.facts.is_renamed:
                if runs.begins_at_zero:
                    spans[0] = min(base, spans[0][0]), spans[0][1]
                if runs.ends[-1] == one.source.size and end is not None and self.end_evidence.cut_end(one) is None:
                    ends = [end, *(first for first, _ in self.lost_logs(one.copy) if first > spans[-1][1])]
                    spans[-1] = spans[-1][0], max(spans[-1][1], min(ends) - 1)
            for first, last in spans:
                found.add(first, min(last, line.cuts[one.copy] - 1))
        return list(found)

    def read_source(self, copy: int) -> str:
        """Return the path of the user for a copy."""
        return self._copies[copy].source

    @property
    def size(self) -> int:
        """Bytes of all logs of the copies."""
        return sum(log_size(log.path) for copy in self._copies for log in copy.logs)

    def changed_since(self, moment: int) -> Iterator[str]:
        """Yield the logs, and the directories of the copies, that changed after a moment.

        Args:
            moment: ns since the epoch.
        """
        paths = [path for copy in self._copies for path in (*(log.path for log in copy.logs), copy.path)]
        for path in dict.fromkeys(paths):
            with suppress(OSError):
                if os.stat(path).st_mtime_ns > moment:
                    yield path

    def close(self) -> None:
        """Close all files."""
        self._cache.close()

    # --- reading --------------------------------------------------------------------------------------------
    def load(self) -> Iterator[Progress]:
        """Read all logs, put header fields right by those around them and by other copies, and leave out foreign logs.

        Yields:
            how far that has got.

        Raises:
            RefusalError: the copies are of different topics, or have a batch at two offsets of which neither is wrong.
        """
        self._demand_one_topic()
        total, done = self.size, 0
        for number, copy in enumerate(self._copies):
            for log in copy.logs:
                opened = self._cache.open(log.path)
                if isinstance(opened, OpenFailure):
                    self.problems.append(opened)
                    continue
                self._load(number, copy, log, TolerantSource(opened, OSError))
                done += opened.size
                yield Progress(done, total, log.path)
            self._drop_checkpoint_of_other_history(number)
            if not copy.is_carved:
                unread = evidence_of(copy.directory).rows_unread
                self.problems += () if unread is None else (unread,)
                self._leave_out_foreign(number)
        self._judge_edges()
        self._tell_runs_apart()
        self._judge_epochs_of_edges()
        self._mend_by_copies()
        self._mend_in_holes()
        self._mend_behind_holes()
        self._sort_logs()
        self._note_epochs()
        self._note_swapped()

    def _judge_edges(self) -> None:
        """The first and the last batch of a run have one neighbour in it: all other logs tell of them too."""
        is_run = [self._copies[one.copy].is_carved for one in self.read]
        if not any(is_run):
            return
        from kdump.rescue.run_edges import RunEdges

        def is_version(one: EdgeBatch, other: EdgeBatch) -> bool:
            sides = (
                Candidate(it.log, it.log, it.position, it.first, it.last, epoch=it.epoch, crc=it.crc)
                for it in (one, other)
            )
            return self._subset(*sides) is not None

        given: dict[int, list[Finding]] = {}
        edges = RunEdges(self.read, is_run, self._options.limits.max_batch_bytes, is_version)
        for number, one in edges.findings():
            given.setdefault(number, []).append(one)
        for number, findings in given.items():
            self._again(number, findings)

    def _tell_runs_apart(self) -> None:
        """Runs that overlap are of several copies: each of these counts as a copy of its own."""
        carved = [number for number, copy in enumerate(self._copies) if copy.is_carved]
        if not carved:
            return
        from kdump.rescue.run_copies import Histories, RunFacts, told_apart, wrong_first_epoch

        histories = Histories(one.facts.epochs for one in self.read)
        firsts = [histories.epoch_of_first(one.facts.epochs) if one.copy in carved else None for one in self.read]
        wrong = {at: epoch for at, epoch in enumerate(firsts) if epoch is not None}
        for at, epoch in wrong.items():
            self._again(at, [wrong_first_epoch(self.read[at], epoch)])
        if wrong:
            histories = Histories(one.facts.epochs for one in self.read)
        for number in carved:
            own = [at for at, one in enumerate(self.read) if one.copy == number and one.facts.runs]
            logs = [self.read[at] for at in own]
            runs = [
                RunFacts(
                    one.facts.first or 0,
                    one.facts.last or 0,
                    one.facts.epochs,
                    partial(last_base, one),
                    None if one.log.extents is None else (image, some[0][0], sum(some[-1])),
                )
                for one in logs
                for image, some in (one.log.extents or ("", ()),)
            ]
            copies = told_apart(runs, histories)
            self._wrong_epochs |= {(number, epoch) for epoch in histories.doubted}
            if len(copies) < 2:
                continue
            whole = self._copies[number]
            others = {logs[run].log.path for copy in copies[1:] for run in copy.runs}
            parts = [[log for log in whole.logs if log.path not in others]]
            parts += [[logs[run].log for run in copy.runs] for copy in copies[1:]]
            numbers = [number, *range(len(self._copies), len(self._copies) + len(parts) - 1)]
            self._copies = [*self._copies, *(whole.with_logs(part) for part in parts[1:])]
            self._copies[number] = whole.with_logs(parts[0])
            for as_copy, copy in zip(numbers, copies, strict=True):
                for run in copy.runs:
                    self.read[own[run]] = self.read[own[run]]._replace(copy=as_copy)
                self._below[as_copy] = copy.below
                self._wrong_epochs |= {(as_copy, epoch) for epoch in histories.doubted}

    def _judge_epochs_of_edges(self) -> None:
        """Read runs again whose first or last batch is alone with its epoch: the runs beside them tell of that too."""
        firsts = {one.log.path: one.facts.first for one in self.read if one.facts.first is not None}
        for copy in self._copies:
            copy.is_one_log, copy.firsts = copy.is_carved, firsts
        for number, one in enumerate(self.read):
            ends = (*one.facts.epochs[:1], *one.facts.epochs[-1:])
            if self._copies[one.copy].is_carved and any(run.batches == 1 for run in ends):
                self._again(number, [])

    def _note_swapped(self) -> None:
        """Say which logs are read under the name that a start gives them."""
        for path in (path for copy in self._copies for path in copy.swapped):
            self.notes.append(
                f"{path}: it counts as the log that it becomes: a broker puts it in place when it starts, and removes "
                "what it replaces"
            )

    def _note_epochs(self) -> None:
        """Say which newest epoch of a copy nothing bears out: the checkpoint of the result has it all the same."""
        for number, copy in enumerate(self._copies):
            logs = [one for one in self.read if one.copy == number and one.facts.epochs]
            if copy.is_carved or not logs:
                continue
            one, entries = logs[-1], self._checkpoint_for(copy).epochs
            runs = [run for log in logs for run in log.facts.epochs]
            last, before = runs[-1], runs[-2:-1]
            where = f"{one.log.path}: the leader epoch {last.epoch} of offsets {last.first}..{last.last}"
            if entries and last.epoch > entries[-1].epoch and last.last >= entries[-1].start_offset:
                why = f"is not in the leader-epoch-checkpoint, which ends with {entries[-1].epoch}"
            elif (
                not entries
                and before
                and is_one_bit(last.epoch, before[0].epoch, EPOCH_BITS)
                and lone_last(one.source, one.facts)
            ):
                why = f"is that of the last batch only, one bit away from {before[0].epoch}, and no checkpoint has it"
            else:
                continue
            self.notes.append(
                f"{where} {why}; it counts as the batches have it, in the leader-epoch-checkpoint of the result too: "
                "compare with what another replica has"
            )

    def _leave_out_foreign(self, number: int) -> None:
        """Take the logs of other partitions out of a copy, and say so, and which logs have a wrong name."""
        copy = self._copies[number]
        directory = copy.directory
        is_raft_log = directory.parsed is not None and directory.parsed.is_raft_log
        if copy.unread or copy.is_aside or is_raft_log or directory.is_leftover or directory.log_dir.is_held:
            return
        segments = ForeignSegments(directory)
        read = {one.log.path: one for one in self.read if one.copy == number}
        for log in copy.logs:
            one = read.get(log.path)
            if one is None:
                segments.skip()
                continue
            origin = self._origin(copy, one)
            if log.misplaced is not None:
                segments.keep(origin)
                self._note(log.misplaced.finding)
                continue
            found = segments.judge(origin)
            if found is not None:
                self._note(found, "; it stays out")
                self.foreign.append(one)
        self.read = [one for one in self.read if one not in self.foreign]

    def _note(self, finding: Finding, more: str = "") -> None:
        self.notes.append(f"{finding.file}: {finding.code.name}: {finding.message}{more}")

    def _origin(self, copy: Copy, one: ReadLog) -> SegmentOrigin:
        """What a log tells about where it is from."""
        log, facts = one.log, one.facts
        end = (log.base or 0) if facts.last is None else facts.last + 1
        epochs, around = [run.epoch for run in facts.epochs], copy.epochs_around(log, copy)
        unknown = [run for run in facts.epochs if self._is_unknown(copy, run, around)]
        past = [run for run in unknown if goes_on_behind(copy.epochs[-1], run.epoch, run.first)]
        has_several = facts.batches > 1 and bool(unknown) and len(unknown) == len(facts.epochs)
        first = log.base if facts.begins_below is not None else None if one.is_legacy else first_in_header(one.raw)
        shape = LogShape(
            first_offset=first,
            is_whole=all(place.is_batch for place in facts.places),
            is_whole_at_end=facts.runs.end == one.raw.size,
            has_holes=bool(facts.gaps or facts.lacks_records),
            epochs=(min(epochs), max(epochs)) if epochs else None,
            off_epochs=has_several and not past,
            unknown_epochs=has_several,
        )
        return SegmentOrigin(
            log=log.path,
            base_offset=log.base or 0,
            next_base=log.next_base,
            batches=facts.batches,
            end_offset=end,
            shape=shape,
            times=facts.times,
            is_other_index=copy.segment(log, self._cache).has_foreign_index,
            skips=False,
            shown_end=shown_end(copy.directory, end) if log.next_base is None else None,
        )

    @staticmethod
    def _is_unknown(copy: Copy, run: EpochRun, around: EpochsAround) -> bool:
        """Whether the checkpoint of a copy contradicts the epoch of batches, or may be older than they are."""
        first, last = copy.epoch_at(run.first), copy.epoch_at(run.last)
        if first is None or last is None:
            return False
        if run.epoch > last:
            return True
        return run.epoch < first and not around.begins_behind(first, 0)

    def _mend_by_copies(self) -> None:
        """A batch that fits neither neighbour may stand in another copy where it belongs: its base offset counts."""
        if len({one.copy for one in self.read}) < 2:
            return
        ends = [(one.facts.first, one.facts.last) for one in self.read]

        def others(own: CopyLog) -> Iterator[CopyLog]:
            base, stop = own.base or 0, own.stop
            for other, (first, last) in zip(self.read, ends, strict=True):
                if other.copy != own.copy and first is not None and last is not None and first < stop and last >= base:
                    known = None if other.facts.is_renamed else other.log.base
                    yield _copy_log(other, known, other.log.next_base)

        for number, one in enumerate(self.read):
            if self._copies[one.copy].is_carved or one.log.base is None:
                continue
            is_named = not one.facts.is_renamed and one.log.misplaced is None  # else by its batches, if at all
            own = _copy_log(one, *((one.log.base, one.log.next_base) if is_named else (None, None)))
            limit = self._options.limits.max_batch_bytes
            end = partial(self._end_of, one) if is_named else unknown
            given = wrong_base_offsets(own, partial(others, own), limit, end)
            if given:
                self._again(number, given)

    def _mend_in_holes(self) -> None:
        """A batch that two copies have at different offsets, in holes of each other, is one: it counts once.

        Raises:
            RefusalError: nothing tells which offset is right.
        """
        if len({one.copy for one in self.read}) < 2 or not any(one.facts.may_have_gaps for one in self.read):
            return
        logs = [_copy_log(one, *self._bounds(one)) for one in self.read]
        try:
            given: dict[int, list[Finding]] = {}
            for number, one in wrong_in_holes(logs, self._options.limits.max_batch_bytes, self._preferred()):
                given.setdefault(number, []).append(one)
        except AtTwoPlacesError as error:
            sides = "; ".join(
                f"{self.read[one.log].log.path} at byte {one.position} has it at offsets {one.first}..{one.last}"
                for one in error.sides
            )
            why = "the same batch stands at different offsets, and its neighbours decide neither"
            how = self._how_to_choose({self.read[one.log].copy: one.log for one in error.sides})
            raise RefusalError(f"{self.name}: {why}: {sides}. {how}") from None
        for number, findings in given.items():
            self._again(number, findings)

    def _mend_behind_holes(self) -> None:
        """Move the last batch of a copy into a hole before it that no cleaner made, by one wrong bit, or say so."""
        for number, one in enumerate(self.read):
            copy = self._copies[one.copy]
            if copy.is_carved or one.log.next_base is not None or one.facts.is_renamed:
                continue
            is_lost = partial(is_lost_in, copy, self._logs_of(one.copy), self._options.policies)
            ends = [other.facts.last + 1 for other in self.read if other.copy != one.copy and other.facts.last]
            own, limit = _copy_log(one, one.log.base, self._end_of(one)), self._options.limits.max_batch_bytes
            wrong = wrong_behind_hole(own, is_lost, max(ends, default=0), limit)
            if wrong is not None and wrong.is_wrong:
                self._again(number, [wrong.finding])
            elif wrong is not None:
                self.notes.append(wrong.note)

    def _bounds(self, one: ReadLog) -> tuple[int | None, int | None]:
        """The base offset of a log, and where the next one begins or it is known to end; None where nothing tells."""
        if one.facts.is_renamed:
            return None, None
        end = self._end_of(one)
        return one.log.base, None if end is None or end <= (one.facts.last or 0) else end

    def _end_of(self, one: ReadLog) -> int | None:
        """Where the next log begins, or other files know the last one to end; None where nothing tells."""
        if one.log.next_base is not None:
            return one.log.next_base
        end = self._known_end_of(self._copies[one.copy], one.log)()
        return None if end is None else end.offset

    def _known_end_of(self, copy: Copy, log: SourceLog) -> Callable[[], LogEnd | None]:
        """What tells where other files know the last log of a copy to end."""
        is_last = not copy.is_carved and log.base is not None and log.base == max(copy.bases, default=None)
        if not is_last:
            return unknown
        segment = copy.segment(log, self._cache)
        return lambda: evidence_of(copy.directory).end(BESIDE, segment)

    def _has_trace(self, copy: int) -> bool:
        return has_trace(self._copies[copy], self._logs_of(copy))

    def _logs_of(self, copy: int) -> list[tuple[SourceLog, ScannedLog]]:
        return [(one.log, one.facts) for one in self.read if one.copy == copy]

    def line_holes(self, line: Line) -> LineHoles:
        """Return what judges the holes of the line.

        Args:
            line: of all copies.
        """
        copies = [(copy, self._logs_of(number), line.cuts[number]) for number, copy in enumerate(self._copies)]
        limit = self._options.limits.max_batch_bytes
        left_out = RangeSet()
        for _, first, last in line.left_out:
            left_out.add(first, last)
        return LineHoles(
            self.name,
            copies,
            end=line.last + 1,
            left_out=left_out,
            policies=self._options.policies,
            cache=self._cache,
            max_batch_bytes=limit,
        )

    def _again(self, number: int, given: list[Finding]) -> None:
        """Read a log again with header fields put right that its neighbours determine."""
        one = self.read[number]
        told = self._given.setdefault(one.log.path, [])  # what the log tells by itself it may tell otherwise now
        told += given
        facts = self._facts(self._copies[one.copy], one.log, one.raw, told)
        self.read[number] = one._replace(source=facts.overlay(one.raw), facts=facts)

    def _load(self, number: int, copy: Copy, log: SourceLog, raw: TolerantSource) -> None:
        facts = self._facts(copy, log, raw, ())
        self.findings.extend(facts.findings)
        for position, end, why in raw.unreadable(0, raw.size):
            sentence = f"{log.path}: bytes {position}..{end - 1} cannot be read: {why}"
            self.problems.append(OpenFailure(log.path, "read", sentence))
        self.read.append(ReadLog(log, number, raw, facts.overlay(raw), facts))

    def _drop_checkpoint_of_other_history(self, number: int) -> None:
        """Read the logs of a copy again without the checkpoint of another one that tells of another history."""
        copy = self._copies[number]
        while (other := self._checkpoint_for(copy)) is not copy:
            runs = [run for one in self.read if one.copy == number for run in one.facts.epochs]
            if not any(goes_another_way(run, other.epochs) for run in runs):
                return
            self._unlike.append((copy, other))
            for at, one in enumerate(self.read):
                if one.copy == number:
                    self._again(at, [])

    def _facts(self, copy: Copy, log: SourceLog, raw: TolerantSource, given: Sequence[Finding]) -> ScannedLog:
        segment = copy.segment(log, self._cache)
        return read_log(
            raw,
            log.base,
            self._options.limits,
            copy.epochs_around(log, self._checkpoint_for(copy)),
            next_base=log.next_base,
            known_end=self._known_end_of(copy, log),
            hints=segment.hints if log.base is not None else tuple,
            follow_producers=not self.name.startswith(f"{OFFSETS_TOPIC}-"),
            given=given,
        )

    def _checkpoint_for(self, copy: Copy) -> Copy:
        """Return whose leader-epoch-checkpoint tells of a copy: its own, else the one with the newest epoch.

        One that begins as its own does and goes on has seen more of the same log, unless the batches go another way.
        """
        own = list(copy.epochs)
        more = [one for one in self._copies if list(one.epochs[: len(own)]) == own and (copy, one) not in self._unlike]
        return max((copy, *more), key=lambda one: one.epochs[-1].epoch if one.epochs else -1)

    def _sort_logs(self) -> None:
        self.read.sort(key=lambda one: (one.copy, one.log.base is None, one.facts.first or 0))

    def _demand_one_topic(self) -> None:
        ids: dict[str, str] = {}
        for copy in self._copies:
            if copy.topic_id is not None:
                ids.setdefault(copy.topic_id, copy.source)
        if len(ids) > 1:
            told = ", ".join(f"{one} ({source})" for one, source in ids.items())
            raise RefusalError(f"{self.name}: the sources are of different topics, by their topic ids: {told}")

    @property
    def has_batches(self) -> bool:
        """Whether any batch was found that is well."""
        return any(one.facts.runs for one in self.read)

    @property
    def is_empty(self) -> bool:
        """Whether all copies could be read, and none has or had a batch, as far as anything beside the logs tells."""
        return not self.problems and all(copy.is_empty for copy in self._copies)

    @property
    def parts(self) -> list[Copy]:
        """The copies of which some segments were named as files, and others not; none where another copy is whole."""
        return [] if any(copy.is_whole for copy in self._copies) else [copy for copy in self._copies if copy.unread]

    def standing(self, line: Line, result: Salvaged) -> Standing:
        """Return how the copies stand beside the result.

        Args:
            line: of all of them.
            result: what it has come to.
        """
        logs: list[list[ScannedLog]] = [[] for _ in self._copies]
        suspects = [copy.is_to_be_replaced for copy in self._copies]
        for one in self.read:
            logs[one.copy].append(one.facts)
            suspects[one.copy] |= self.end_evidence.cut_end(one) is not None or any(
                self._is_doubted(one.copy, run.epoch, offset)
                for run in one.facts.epochs
                for offset in (run.first, run.last)
            )
        return standing_of(self._copies, logs, suspects, line, result)

    @property
    def is_named(self) -> bool:
        """Whether all copies tell its name themselves."""
        return all(copy.name == self.name for copy in self._copies)

    @property
    def is_of_runs(self) -> bool:
        """Whether all sources are runs of carve: these tell neither where the log began nor where it ended."""
        return all(copy.is_carved for copy in self._copies)

    @property
    def runs_kraft(self) -> bool | None:
        """Whether the brokers of its copies run with KRaft; None where no log.dir tells."""
        told = {copy.directory.log_dir.runs_kraft for copy in self._copies if not copy.is_carved}
        return next((one for one in (True, False) if one in told), None)

    @property
    def reads_deleted(self) -> bool:
        """Whether logs that a broker is to remove are read."""
        return self._options.deleted is not None

    @property
    def reads_below_log_start(self) -> bool:
        """Whether what lies below the log start offset is read."""
        return self._options.below_log_start

    @property
    def whole_sources(self) -> tuple[str, ...]:
        """The paths of the user, with the directory in place of the files where the rest of it is read nowhere."""
        parts = self.parts
        paths = [copy.path if copy in parts else log.source for copy in self._copies for log in copy.logs]
        return tuple(dict.fromkeys(paths))

    # --- the log start --------------------------------------------------------------------------------------
    def log_start(self, line: Line) -> int | None:
        """Return the highest log start offset of the checkpoints that count, None where there is none.

        Args:
            line: of all copies; what a copy says of offsets from which on it is of another branch does not count.
        """
        found: list[int] = []
        for number, copy in enumerate(self._copies):
            offset, is_sound = copy.checkpoint(FileKind.LOG_START)
            if not is_sound:
                self.notes.append(f"{copy.source}: the log-start-offset-checkpoint is damaged (K03) and does not count")
                continue
            if offset is None:
                continue
            ends = [one.facts.last + 1 for one in self.read if one.copy == number and one.facts.last is not None]
            if offset > max(ends, default=0):
                self.notes.append(
                    f"{copy.source}: the log start offset {offset} is above the end of its log (K02) and does not count"
                )
            elif offset > line.cuts[number]:
                self.notes.append(
                    f"{copy.source}: the log start offset {offset} is of another branch, which begins at "
                    f"{line.cuts[number]}, and does not count"
                )
            else:
                self._note_tiered(copy, offset)
                found.append(offset)
        return max(found, default=None)

    def start_entry(self, start: int, first_base: int) -> tuple[int | None, bool]:
        """Return what the log-start-offset-checkpoint must say of the result, and whether a copy's says more.

        By a higher number a broker deletes what was rescued below it, or all where that is above the end of the log.

        Args:
            start: log start offset of the result.
            first_base: base offset of its first segment: without an entry the log begins there.

        Returns:
            None for an offset that needs no entry.
        """
        topic, _, number = self.name.rpartition("-")
        dirs = (one.log_dir for one in self.directories)  # also of one whose own name a broker has changed
        starts = [one.offset(FileKind.LOG_START, (topic, int(number))) or 0 for one in dirs]
        starts += [] if self.there is None else [self.there.checkpoints.get(FileKind.LOG_START, 0)]
        is_lowered = any(one > start for one in starts)
        return start if is_lowered or start > first_base else None, is_lowered

    def _note_tiered(self, copy: Copy, start: int) -> None:
        """Say which offsets a copy lacks that only a tiered log may lack."""
        first = min(copy.bases, default=start)
        if start < first:
            offsets = f"offset {start}" if start == first - 1 else f"offsets {start}..{first - 1}"
            self.notes.append(
                f"{copy.path}: the log start offset is {start}, and the first segment begins at {first}: {offsets} are "
                "in remote storage if the topic is tiered, else they are lost: name a replica that has them as a source"
            )

    # --- the line -------------------------------------------------------------------------------------------
    def line(self) -> Line:
        """Return the line.

        Raises:
            RefusalError: the copies contradict each other, and epochs do not decide.
        """
        prefer = self._preferred()
        around = self._around()
        partings: list[Parting] | None = None
        for _ in range(_ATTEMPTS):
            cuts, foreign = self._cuts(prefer)
            if partings is not None:
                cuts = [min(cut, one.cut) for cut, one in zip(cuts, partings, strict=True)]
            logs = [
                LineLog(number, one.copy, one.source, one.facts, *around[number], foreign[one.copy])
                for number, one in enumerate(self.read)
            ]
            try:
                line = self._line_of(logs, cuts, prefer, knows_partings=partings is not None)
            except WrongEpochError as error:
                self._wrong_epochs.add((error.copy, error.epoch))
                partings = None  # the epochs that these rest on were wrong
            except PartedError:
                assert prefer is not None
                partings = self._partings(logs, cuts, prefer)
            except ContradictionError as error:
                sides = "; ".join(self._side(side) for side in error.sides)
                how = self._how_to_choose({self.read[side.log].copy: side.log for side in error.sides})
                if prefer is not None:
                    how = f"--prefer {self._options.prefer} has nothing there: leave out the source that does not count"
                raise RefusalError(f"{self.name}: {error.why}: {sides}. {how}") from None
            else:
                if prefer is None and self._options.epochs is None:
                    self._refuse_if_single_bit_epoch_wins(line)
                if partings is not None and prefer is not None:
                    self._note_unsure(line, partings, prefer)
                return line
        how = self._how_to_choose(self._each_copy)
        raise RefusalError(f"{self.name}: the leader epochs of the sources contradict each other. {how}")

    def _line_of(self, logs: list[LineLog], cuts: list[int], prefer: int | None, *, knows_partings: bool) -> Line:
        limits = self._options.limits
        return Line(logs, cuts, limits, prefer, self._subset, self._is_doubted, knows_partings=knows_partings)

    def _subset(self, one: Candidate, other: Candidate) -> int | None:
        from kdump.rescue.compacted import subset

        return subset(self.read, one, other, self._options.limits)

    def _partings(self, logs: Sequence[LineLog], cuts: list[int], prefer: int) -> list[Parting]:
        """Return how far each copy goes with the one that was preferred."""
        from kdump.rescue.branch_batches import CopyBatches
        from kdump.rescue.partings import partings

        branches: list[Branch] = []
        for number in range(len(self._copies)):
            own = [log for log in logs if log.copy == number]
            alone = self._line_of(own, cuts, number, knows_partings=True)
            branches.append(CopyBatches(alone, self.read, self._options.limits))
        return partings(branches, prefer, cuts, self._is_version)

    def _is_version(self, one: BranchBatch, other: BranchBatch) -> bool:
        assert one.side is not None
        assert other.side is not None
        return self._subset(one.side, other.side) is not None

    def _note_unsure(self, line: Line, found: Sequence[Parting], prefer: int) -> None:
        """Say what is taken of a source that shares no batch with the preferred one from somewhere on."""
        end = max((row[1] for one in self.read if one.copy == prefer for row in one.facts.spans), default=-1)
        for number, one in enumerate(found):
            if number == prefer or one.agreed >= end:
                continue
            spans = [
                (max(run.first, one.agreed + 1), min(run.last, one.cut - 1))
                for run in line.runs
                if self.read[run.log].copy == number
            ]
            told = ", ".join(f"{first}..{last}" for first, last in spans if first <= last)
            if told:
                mine, other = self._copies[number].source, self._copies[prefer].source
                parts = (
                    f"it contradicts that from offset {one.cut} on" if one.cut < NEVER else "it has none behind that"
                )
                self.notes.append(
                    f"{mine}: offsets {told} are taken from it though from offset {one.agreed + 1} on it has no batch "
                    f"in common with {other} ({parts}): nothing tells where the two part; compare these records"
                )

    def _refuse_if_single_bit_epoch_wins(self, line: Line) -> None:
        """Refuse a line that only the last batch of one copy gives, by an epoch one bit away from the one before it.

        Raises:
            RefusalError: batches of other copies would not count for it.
        """
        branches = [self._branch(number) for number in range(len(self._copies))]
        leader = max(range(len(branches)), key=lambda one: branches[one].newest)
        runs = branches[leader].runs
        if branches[leader].starts.get(runs[-1].epoch if runs else -1) is not None:
            return
        if len(runs) < 2 or not is_one_bit(runs[-1].epoch, runs[-2].epoch, EPOCH_BITS):
            return
        others = [branch for branch in branches if branch.runs is not runs]
        if any(runs[-1].epoch in (*branch.starts, *(run.epoch for run in branch.runs)) for branch in others):
            return
        own = [one for one in self.read if one.copy == leader and one.facts.runs]
        several = sum(run.batches for one in own for run in one.facts.epochs if run.epoch == runs[-1].epoch)
        one = own[-1]
        if (
            several > 1
            or lone_last(one.source, one.facts) is None
            or all(copy == leader for copy, _, _ in line.left_out)
        ):
            return
        if self._cuts(None) == self._cuts_without(leader, runs[-1].epoch):
            return  # what other sources have that does not count would not count without it
        why = (
            f"only the last batch of {one.log.path} (offsets {runs[-1].first}..{runs[-1].last}) has the leader "
            f"epoch {runs[-1].epoch}, for which batches of other sources would not count; one wrong bit looks the same"
        )
        raise RefusalError(f"{self.name}: {why}. {self._how_to_choose(self._each_copy)}")

    def _cuts_without(self, copy: int, epoch: int) -> tuple[list[int], list[tuple[tuple[int, int], ...]]]:
        """Return what `_cuts` would be if a copy had nothing of an epoch."""
        known = self._wrong_epochs
        self._wrong_epochs = {*known, (copy, epoch)}
        try:
            return self._cuts(None)
        finally:
            self._wrong_epochs = known

    def _around(self) -> list[tuple[int, int, int | None]]:
        """Return of each log where the next one of its copy begins, the last offset before it, the epoch behind it.

        Runs of carve may overlap as they like: of them nothing is said.
        """
        found: list[tuple[int, int, int | None]] = [(NEVER, -1, None)] * len(self.read)
        for copy in {one.copy for one in self.read if not self._copies[one.copy].is_carved}:
            own = [number for number, one in enumerate(self.read) if one.copy == copy]
            befores, before = {}, -1
            for number in own:
                base, last = self.read[number].log.base, self.read[number].facts.last
                befores[number] = max(before, -1 if base is None else base - 1)
                before = before if last is None else last
            after: int | None = None
            afters = {}
            for number in reversed(own):
                afters[number] = after
                after = self.read[number].facts.epochs[0].epoch if self.read[number].facts.epochs else after
            limit = reached = NEVER
            place: tuple[int, int] | None = None
            for number in sorted(own, key=lambda number: _place_in_copy(self.read[number]), reverse=True):
                one = self.read[number]
                if _place_in_copy(one) != place:  # logs at one place do not limit each other
                    limit, place = reached, _place_in_copy(one)
                first = one.facts.first
                found[number] = (NEVER if first is None else limit), befores[number], afters[number]
                reached = reached if first is None else min(reached, first)
        return found

    def _side(self, side: Candidate) -> str:
        log = self.read[side.log].log
        what = f"offsets {side.first}..{side.last}, epoch {side.epoch}, crc {side.crc:#010x}"
        return f"{log.path} at byte {side.position} has {what}"

    def _how_to_choose(self, copies: Mapping[int, int]) -> str:
        """Say how some copies are told apart: by the paths of the user, which are not those of the partitions.

        Args:
            copies: their numbers, each with that of a log of it.
        """
        sources = list(dict.fromkeys(self._copies[number].source for number in copies))
        if len(sources) > 1 or len(copies) == 1:
            return f"Name the one that counts: {option_with('--prefer', sources)}"
        if all(self._copies[number].is_carved for number in copies):
            runs = option_with("--prefer", [self.read[log].log.path for log in copies.values()])
            return f"All are runs in {sources[0]}: name its files as sources, and the one that counts: {runs}"
        places = option_with("--prefer", list(dict.fromkeys(self._copies[number].path for number in copies)))
        return f"All lie in {sources[0]}: name their directories as sources, and the one that counts: {places}"

    @property
    def _each_copy(self) -> dict[int, int]:
        """The copies with batches, each with its last log."""
        return {one.copy: number for number, one in enumerate(self.read) if one.facts.runs}

    def _preferred(self) -> int | None:
        wanted = self._options.prefer
        if wanted is None:
            return None
        found = [
            number
            for number, copy in enumerate(self._copies)
            if any(os.path.normpath(wanted) == os.path.normpath(log.source) for log in copy.logs)
        ]
        return max(found, key=lambda number: (self._branch(number).newest, -number), default=None)

    def _is_doubted(self, copy: int, epoch: int, offset: int) -> bool:
        if (copy, epoch) in self._wrong_epochs:
            return True
        one = self._copies[copy]
        entries = one.epochs
        return bool(entries) and offset >= entries[0].start_offset and one.epoch_at(offset) != epoch

    def _cuts(self, prefer: int | None) -> tuple[list[int], list[tuple[tuple[int, int], ...]]]:
        """Return for each copy up to which offset (exclusive) it counts, and where its epochs are not the line's."""
        branches = [self._branch(number) for number in range(len(self._copies))]
        order = sorted(range(len(branches)), key=lambda one: -branches[one].newest)
        cuts = [NEVER] * len(branches)
        if self._options.epochs is not None:
            starts = {one.epoch: one.start_offset for one in self._options.epochs}
            history = LineHistory(KnownEpochs([], starts))
        elif prefer is not None:
            history = LineHistory(branches[prefer])
            order.remove(prefer)
        else:
            history = LineHistory(branches[order.pop(0)])
        for number in order:
            cuts[number] = history.cut_of(branches[number])
        return cuts, [tuple(history.foreign(branch)) for branch in branches]

    def _branch(self, number: int) -> KnownEpochs:
        copy = self._copies[number]
        runs = [*self._below.get(number, ())]
        runs += [run for one in self.read if one.copy == number for run in one.facts.epochs]
        start, is_sound = copy.checkpoint(FileKind.LOG_START)
        return branch_of(
            runs, copy.epochs, (start or 0) if is_sound else 0, lambda run: (number, run.epoch) in self._wrong_epochs
        )

    # --- what is beside the logs ----------------------------------------------------------------------------
    def interval(self) -> int:
        """Return index.interval.bytes, by the indexes of the copies as far as they tell."""
        for copy in self._copies:
            if copy.is_carved:
                continue
            try:
                found = infer_interval(copy.directory.sources())
            except OSError:
                continue
            if found is not None:
                return found
        return INDEX_INTERVAL

    def metadata(self) -> bytes | None:
        """Return the partition.metadata of the result, None where nothing tells it."""
        if self.there is not None:
            return encode_partition_metadata(self.there.topic_id)
        return next((data for copy in self._copies if (data := copy.metadata()) is not None), None)

    def raft_files(self, start: int, end: int, latest_epoch: int) -> RaftFiles | None:
        """Return what the sources have beside a metadata log; None for another partition.

        Args:
            start, end: log start and end offset of the result.
            latest_epoch: its newest leader epoch, below 0 for none.
        """
        if not self.name.startswith(f"{METADATA_TOPIC}-"):
            return None
        from kdump.rescue.raft_files import raft_files  # few partitions are of it

        return raft_files(self.directories, start, end, latest_epoch)

    @property
    def end_evidence(self) -> EndEvidence:
        """What the files of the copies tell beside their batches, once these are read."""
        return EndEvidence(self._copies, self.read, self._cache, self._options.limits.max_batch_bytes)

    def settings(self) -> Settings:
        """Return how the segments are written; owner and rights are those of the first log."""
        mode, owner = _MODE, (os.geteuid(), os.getegid())
        if self.read:
            status = os.stat(self.read[0].log.path)
            mode, owner = status.st_mode & 0o777, (status.st_uid, status.st_gid)
        limits, is_new = self._options.limits, self.is_for_another
        return Settings(self._options.segment_bytes, self.interval(), limits, mode | 0o600, owner, is_new_topic=is_new)


def _place_in_copy(one: ReadLog) -> tuple[int, int]:
    """By what the logs of a copy are ordered: the base offset of the name, unless that is wrong."""
    first = one.facts.first or 0
    return (first if one.facts.is_renamed or one.log.base is None else one.log.base), first


def log_size(path: str) -> int:
    """Return the size of a log in bytes, 0 where nobody can tell."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _copy_log(one: ReadLog, base: int | None, end: int | None) -> CopyLog:
    """A log to be compared with those of other copies; `base` and `end` as far as anything tells them."""
    return CopyLog(one.copy, one.raw, one.source, one.facts, base, end)
