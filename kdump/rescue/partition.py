"""One partition: its copies are read, made one line, and written."""

from __future__ import annotations

import os
from bisect import bisect_left
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.foreign import ForeignSegments, SegmentOrigin, shown_end
from kdump.broker.index_interval import DEFAULT, infer_interval
from kdump.broker.producer.end_markers import LARGEST_MARKER
from kdump.broker.producer.transaction_fates import Aborts, Hole, TransactionFates, told_by_index
from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.batch.offset_order import unknown
from kdump.format.batch.window import Buffer, Window
from kdump.format.kinds import FileKind
from kdump.item import Certainty, Loss, Progress
from kdump.ranges import RangeSet
from kdump.render.json.salvage import row_json
from kdump.rescue.epochs import NEVER, Branch, LineHistory, branch_of
from kdump.rescue.holes import was_compacted
from kdump.rescue.line import COPIES, EXTENT, FIRST, ContradictionError, Line, LineLog, Side, WrongEpochError
from kdump.rescue.log_facts import (
    STRETCH,
    LogFacts,
    Place,
    batches_of,
    first_of_name,
    first_offset,
    lone_last,
    read_log,
)
from kdump.rescue.losses import Missing, Spot, but_for, lost_logs, spots_of
from kdump.rescue.moved import OtherLog, OwnLog, wrong_base_offsets
from kdump.rescue.segments import SegmentWriter, Settings, dress
from kdump.rescue.standing import Standing, standing_of
from kdump.rescue.twice import AtTwoPlacesError, CopyLog, moved_in_holes
from kdump.salvaged import Diverged, Kept, LeftOutBatches, OpenedTransaction, PatchedField, Revived, Salvaged
from kdump.storage.file_source import OpenFailure
from kdump.storage.lost_logs import end_beside, lost_of
from kdump.storage.misplaced import first_in_header
from kdump.storage.names import OFFSETS_TOPIC
from kdump.storage.open_files import OpenFileCache
from kdump.storage.tolerant import TolerantSource
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.broker.producer.transaction_fates import Told
    from kdump.finding import Finding
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source
    from kdump.render.json.salvage import SalvageRow
    from kdump.rescue.log_facts import EpochRun
    from kdump.rescue.sources import Copy, SourceLog
    from kdump.rescue.target import Staging, Target
    from kdump.storage.fsops import FileOps
    from kdump.storage.misplaced import Misplaced

_ATTEMPTS = 8  # epochs that turn out to be wrong, one after the other
_MODE = 0o644
_ZEROS = frozenset(("L03", "L04"))


class SalvageOptions(Value):
    """What was asked for.

    Args:
        segment_bytes: of a log at most.
        prefer: the source that wins where sources contradict each other, None for none.
        epochs: leader epochs of a replica that is known to be good, None where none was given.
        below_log_start: batches below the log start offset count too.
        limits: for reading records.
        progress: somebody looks at the progress.
        doubtful: path of a new file for records that no CRC vouches for, None for none.
        jobs: processes, one for a partition at a time; 0 for every core.
    """

    segment_bytes: int
    prefer: str | None
    epochs: tuple[EpochEntry, ...] | None
    below_log_start: bool
    limits: ReadLimits
    progress: bool
    doubtful: str | None = None
    jobs: int = 1


class RefusalError(Exception):
    """The partition is not made: one sentence says why, and what to do."""


class ReadLog(NamedTuple):
    """A log that was read: which, of which copy, through what, and what it has."""

    log: SourceLog
    copy: int
    raw: TolerantSource
    source: Source
    facts: LogFacts


class PartitionSalvage:
    """Salvages one partition.

    Args:
        name: of the partition.
        copies: of it.
        options: what was asked for.

    Attributes:
        read: the logs, once they are read, but for those of other partitions.
        foreign: the logs of other partitions, which stay out.
        notes: what there is to know, a sentence each.
        findings: about what was not all read.
        problems: what could not be read.
    """

    def __init__(self, name: str, copies: Sequence[Copy], options: SalvageOptions) -> None:
        self.name = name
        self.read: list[ReadLog] = []
        self.foreign: list[ReadLog] = []
        self.notes: list[str] = []
        self.findings: list[Finding] = []
        self.problems: list[OpenFailure] = []
        self._copies = copies
        self._options = options
        self._cache = OpenFileCache()
        self._wrong_epochs: set[tuple[int, int]] = set()

    @property
    def sources(self) -> tuple[str, ...]:
        """The paths of the user, each once."""
        return tuple(dict.fromkeys(log.source for copy in self._copies for log in copy.logs))

    @property
    def misplaced(self) -> dict[str, list[Misplaced]]:
        """The logs with the names of other segments, by the paths of the copies."""
        logs = {copy.path: [log.misplaced for log in copy.logs if log.misplaced is not None] for copy in self._copies}
        return {path: some for path, some in logs.items() if some}

    def is_run(self, copy: int) -> bool:
        """Return whether a copy is of runs that were carved, between which anything may be missing."""
        return self._copies[copy].is_run

    def lost_logs(self, copy: int) -> list[tuple[int, int]]:
        """Return first and last offset of each log that a copy has lost, by the indexes that are left of it."""
        return self._copies[copy].lost_logs

    def whole_ranges(self, line: Line) -> list[tuple[int, int]]:
        """Return the ranges of offsets in which a copy has every batch that was left of the log, ascending.

        These are its batches that lie one behind the other, from the base offset of a log on and up to the next log.

        Args:
            line: of all copies; one that has left it does not count, nor one with a single hole.
        """
        found = RangeSet()
        left = {one.copy for one in line.divergent}
        for number in range(len(self._copies)):
            own = [one.facts for one in self.read if one.copy == number]
            if sum(one.gaps for one in own) == 1 and not any(one.lacks_records for one in own):
                left.add(number)  # a hole that stands alone is no compaction
        for one in self.read:
            if one.copy in left or self.is_run(one.copy) or not one.facts.stretches:
                continue
            spans, rows, base, end = one.facts.spans, one.facts.stretches, one.log.base, one.log.next_base
            if base is not None and not one.facts.is_renamed:
                if rows[0] == 0:
                    spans[0] = min(base, spans[0][0]), spans[0][1]
                if rows[-3] == one.source.size and end is not None and self.cut_end(one) is None:
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
        """Read all logs, and yield how far that has got.

        Raises:
            RefusalError: the copies are of different topics.
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
            if not copy.is_run:
                self._leave_out_foreign(number)
                self._mend_offsets(number)
        self._mend_by_copies()
        self._mend_in_holes()
        self._order_runs()
        self._note_epochs()

    def _note_epochs(self) -> None:
        """Say which newest epoch of a copy nothing bears out: the checkpoint of the result has it all the same."""
        for number, copy in enumerate(self._copies):
            logs = [one for one in self.read if one.copy == number and one.facts.epochs]
            if copy.is_run or not logs:
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
                and (last.epoch ^ before[0].epoch).bit_count() == 1
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
        if copy.unread or is_raft_log or directory.is_leftover or directory.log_dir.is_held:
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
        runs = [(run.epoch, copy.epoch_at(run.first), copy.epoch_at(run.last)) for run in facts.epochs]
        epochs = [epoch for epoch, _, _ in runs]
        off = [first is not None and last is not None and not first <= epoch <= last for epoch, first, last in runs]
        return SegmentOrigin(
            log.path,
            log.base or 0,
            log.next_base,
            facts.batches,
            first_in_header(one.raw),
            end,
            all(place.is_batch for place in facts.places),
            max(facts.stretches[1::STRETCH], default=0) == one.raw.size,
            bool(facts.gaps or facts.lacks_records),
            (min(epochs), max(epochs)) if epochs else None,
            facts.batches > 1 and bool(off) and all(off),
            facts.times,
            copy.segment(log, self._cache).has_foreign_index,
            False,
            shown_end(copy.directory, end) if log.next_base is None else None,
        )

    def _mend_by_copies(self) -> None:
        """A batch that fits neither neighbour may stand in another copy where it belongs: its base offset counts."""
        if len({one.copy for one in self.read}) < 2:
            return
        ends = [(one.facts.first, one.facts.last) for one in self.read]

        def others(own: ReadLog) -> Iterator[OtherLog]:
            base, stop = own.log.base or 0, NEVER if own.log.next_base is None else own.log.next_base
            for other, (first, last) in zip(self.read, ends, strict=True):
                if other.copy != own.copy and first is not None and last is not None and first < stop and last >= base:
                    known = None if other.facts.is_renamed else other.log.base
                    yield OtherLog(other.source, other.facts, known)

        for number, one in enumerate(self.read):
            if self._copies[one.copy].is_run or one.log.base is None or one.facts.is_renamed:
                continue
            own = OwnLog(one.raw, one.facts, one.log.base, one.log.next_base)
            given = wrong_base_offsets(own, partial(others, one), self._options.limits.max_batch_bytes)
            if given:
                self._again(number, given)

    def _mend_in_holes(self) -> None:
        """A batch that two copies have at different offsets, in holes of each other, is one: it counts once.

        Raises:
            RefusalError: nothing tells which offset is right.
        """
        if len({one.copy for one in self.read}) < 2 or not any(one.facts.gaps for one in self.read):
            return
        logs = [CopyLog(one.copy, one.source, one.facts, *self._bounds(one)) for one in self.read]
        try:
            given: dict[int, list[Finding]] = {}
            for number, one in moved_in_holes(logs, self._options.limits.max_batch_bytes, self._preferred()):
                given.setdefault(number, []).append(one)
        except AtTwoPlacesError as error:
            sides = "; ".join(
                f"{self.read[one.log].log.path} at byte {one.position} has it at offsets {one.first}..{one.last}"
                for one in error.sides
            )
            why = "the same batch stands at different offsets, and its neighbours decide neither"
            raise RefusalError(f"{self.name}: {why}: {sides}. Say which counts: --prefer SOURCE") from None
        for number, findings in given.items():
            self._again(number, findings)

    def _bounds(self, one: ReadLog) -> tuple[int | None, int | None]:
        """The base offset of a log, and where the next one begins or it is known to end; None where nothing tells."""
        if one.facts.is_renamed:
            return None, None
        end = self._known_end_of(self._copies[one.copy], one.log)() if one.log.next_base is None else one.log.next_base
        return one.log.base, None if end is None or end <= (one.facts.last or 0) else end

    def _known_end_of(self, copy: Copy, log: SourceLog) -> Callable[[], int | None]:
        """What tells where other files know the last log of a copy to end."""
        is_last = not copy.is_run and log.base is not None and log.base == max(copy.bases, default=None)
        return partial(end_beside, copy.directory, copy.segment(log, self._cache)) if is_last else unknown

    def _mend_offsets(self, copy: int) -> None:
        """The first batch of a log has the log before it and its file name for neighbours."""
        own = [number for number, one in enumerate(self.read) if one.copy == copy]
        if self._was_compacted(copy):
            return
        for before, number in pairwise(own):
            one = self.read[number]
            base = one.log.base
            if base is None or self.read[before].facts.last != base - 1 or one.facts.is_renamed:
                continue
            finding = first_of_name(one.raw, one.facts, base)
            if finding is not None:
                self._again(number, [finding])

    def _was_compacted(self, copy: int) -> bool:
        return was_compacted(self._copies[copy], ((one.log, one.facts) for one in self.read if one.copy == copy))

    @property
    def is_compacted(self) -> bool:
        """Whether compaction was at work in any copy."""
        return any(map(self._was_compacted, range(len(self._copies))))

    def _again(self, number: int, given: list[Finding]) -> None:
        """Read a log again with header fields put right that its neighbours determine."""
        one = self.read[number]
        facts = self._facts(self._copies[one.copy], one.log, one.raw, [*one.facts.fields, *given])
        self.read[number] = one._replace(source=facts.overlay(one.raw), facts=facts)

    def _load(self, number: int, copy: Copy, log: SourceLog, raw: TolerantSource) -> None:
        facts = self._facts(copy, log, raw, ())
        self.findings.extend(facts.findings)
        for position, end, why in raw.unreadable(0, raw.size):
            sentence = f"{log.path}: bytes {position}..{end - 1} cannot be read: {why}"
            self.problems.append(OpenFailure(log.path, "read", sentence))
        self.read.append(ReadLog(log, number, raw, facts.overlay(raw), facts))

    def _facts(self, copy: Copy, log: SourceLog, raw: TolerantSource, given: Sequence[Finding]) -> LogFacts:
        segment = copy.segment(log, self._cache)
        return read_log(
            raw,
            log.base,
            self._options.limits,
            copy.epochs_around(log, self._checkpoint_for(copy).epochs),
            next_base=log.next_base,
            known_end=self._known_end_of(copy, log),
            hints=segment.hints if log.base is not None else tuple,
            follow_producers=not self.name.startswith(f"{OFFSETS_TOPIC}-"),
            given=given,
        )

    def _checkpoint_for(self, copy: Copy) -> Copy:
        """Return whose leader-epoch-checkpoint tells of a copy: its own, else the one with the newest epoch.

        One that begins as its own does and goes on has seen more of the same log.
        """
        own = list(copy.epochs)
        more = [one for one in self._copies if list(one.epochs[: len(own)]) == own]
        return max((copy, *more), key=lambda one: one.epochs[-1].epoch if one.epochs else -1)

    def _order_runs(self) -> None:
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
        return any(one.facts.stretches for one in self.read)

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
        logs: list[list[LogFacts]] = [[] for _ in self._copies]
        suspects = [False] * len(self._copies)
        for one in self.read:
            logs[one.copy].append(one.facts)
            suspects[one.copy] |= self.cut_end(one) is not None or any(
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
        return all(copy.is_run for copy in self._copies)

    @property
    def runs_kraft(self) -> bool | None:
        """Whether the brokers of its copies run with KRaft; None where no log.dir tells."""
        told = {copy.directory.log_dir.runs_kraft for copy in self._copies if not copy.is_run}
        return next((one for one in (True, False) if one in told), None)

    @property
    def whole_sources(self) -> tuple[str, ...]:
        """The paths of the user, with the directory in place of the files where those are not all of it."""
        paths = [copy.path if copy.unread else log.source for copy in self._copies for log in copy.logs]
        return tuple(dict.fromkeys(paths))

    # --- the log start --------------------------------------------------------------------------------------
    def log_start(self) -> int | None:
        """Return the highest log start offset of the checkpoints that count, None where there is none."""
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
            else:
                found.append(offset)
        return max(found, default=None)

    # --- the line -------------------------------------------------------------------------------------------
    def line(self) -> Line:
        """Return the line.

        Raises:
            RefusalError: the copies contradict each other, and epochs do not decide.
        """
        from kdump.rescue.compacted import subset

        prefer = self._preferred()
        around = self._around()
        for _ in range(_ATTEMPTS):
            cuts, foreign = self._cuts(prefer)
            logs = [
                LineLog(number, one.copy, one.source, one.facts, *around[number], foreign[one.copy])
                for number, one in enumerate(self.read)
            ]
            try:
                line = Line(
                    logs,
                    cuts,
                    self._options.limits,
                    prefer,
                    lambda one, other, logs=logs: subset(logs, one, other, self._options.limits),  # type: ignore[misc]
                    self._is_doubted,
                )
            except WrongEpochError as error:
                self._wrong_epochs.add((error.copy, error.epoch))
            except ContradictionError as error:
                sides = "; ".join(self._side(side) for side in error.sides)
                raise RefusalError(f"{self.name}: {error.why}: {sides}. Say which counts: --prefer SOURCE") from None
            else:
                if prefer is None and self._options.epochs is None:
                    self._demand_borne_out(line)
                return line
        raise RefusalError(f"{self.name}: the leader epochs of the sources contradict each other; use --prefer SOURCE")

    def _demand_borne_out(self, line: Line) -> None:
        """Refuse a line that only the last batch of one copy gives, by an epoch one bit away from the one before it.

        Raises:
            RefusalError: batches of other copies would not count for it.
        """
        branches = [self._branch(number) for number in range(len(self._copies))]
        leader = max(range(len(branches)), key=lambda one: branches[one].newest)
        runs = branches[leader].runs
        if branches[leader].starts.get(runs[-1].epoch if runs else -1) is not None:
            return
        if len(runs) < 2 or (runs[-1].epoch ^ runs[-2].epoch).bit_count() != 1:
            return
        others = [branch for branch in branches if branch.runs is not runs]
        if any(runs[-1].epoch in (*branch.starts, *(run.epoch for run in branch.runs)) for branch in others):
            return
        one = [one for one in self.read if one.copy == leader and one.facts.stretches][-1]
        if lone_last(one.source, one.facts) is None or all(branch.copy == leader for branch in line.divergent):
            return
        why = (
            f"only the last batch of {one.log.path} (offsets {runs[-1].first}..{runs[-1].last}) has the leader "
            f"epoch {runs[-1].epoch}, for which batches of other sources would not count; one wrong bit looks the same"
        )
        raise RefusalError(f"{self.name}: {why}. Say which counts: --prefer SOURCE")

    def _around(self) -> list[tuple[int, int, int | None]]:
        """Return of each log where the next one of its copy begins, the last offset before it, the epoch behind it.

        Runs of carve may overlap as they like: of them nothing is said.
        """
        found: list[tuple[int, int, int | None]] = [(NEVER, -1, None)] * len(self.read)
        for copy in {one.copy for one in self.read if not self._copies[one.copy].is_run}:
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

    def _side(self, side: Side) -> str:
        log = self.read[side.log].log
        what = f"offsets {side.first}..{side.last}, epoch {side.epoch}, crc {side.crc:#010x}"
        return f"{log.path} at byte {side.position} has {what}"

    def _preferred(self) -> int | None:
        wanted = self._options.prefer
        if wanted is None:
            return None
        for number, copy in enumerate(self._copies):
            if any(os.path.normpath(wanted) == os.path.normpath(log.source) for log in copy.logs):
                return number
        return None

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
            history = LineHistory(Branch([], starts))
        elif prefer is not None:
            history = LineHistory(branches[prefer])
            order.remove(prefer)
        else:
            history = LineHistory(branches[order.pop(0)])
        for number in order:
            cuts[number] = history.cut_of(branches[number])
        return cuts, [tuple(history.foreign(branch)) for branch in branches]

    def _branch(self, number: int) -> Branch:
        copy = self._copies[number]
        runs: list[EpochRun] = [run for one in self.read if one.copy == number for run in one.facts.epochs]
        start, is_sound = copy.checkpoint(FileKind.LOG_START)
        return branch_of(
            runs, copy.epochs, (start or 0) if is_sound else 0, lambda run: (number, run.epoch) in self._wrong_epochs
        )

    # --- what is beside the logs ----------------------------------------------------------------------------
    def interval(self) -> int:
        """Return index.interval.bytes, by the indexes of the copies as far as they tell."""
        for copy in self._copies:
            if copy.is_run:
                continue
            try:
                found = infer_interval(copy.directory.sources())
            except OSError:
                continue
            if found is not None:
                return found
        return DEFAULT

    def metadata(self) -> bytes | None:
        """Return a sound partition.metadata."""
        return next((data for copy in self._copies if (data := copy.metadata()) is not None), None)

    def settings(self) -> Settings:
        """Return how the segments are written; owner and rights are those of the first log."""
        mode, owner = _MODE, (os.geteuid(), os.getegid())
        if self.read:
            status = os.stat(self.read[0].log.path)
            mode, owner = status.st_mode & 0o777, (status.st_uid, status.st_gid)
        return Settings(self._options.segment_bytes, self.interval(), self._options.limits, mode | 0o600, owner)

    def known_end(self, line: Line) -> int:
        """Return the offset up to which anything knows of records of the line.

        What a copy knows behind the point where it leaves the line is of another branch.
        """
        ends = [line.last + 1]
        for number, copy in enumerate(self._copies):
            end = 0
            for one in self.read:
                if one.copy == number:
                    start = end if one.log.base is None or one.facts.is_renamed else max(end, one.log.base)
                    end = one.facts.end(start, line.last)
                    if one.log.next_base is None:
                        end = max([end, *(offset for offset, _ in self._known_by_indexes(one))])
            ends.append(min(copy.known_end(end), line.cuts[number]))
        return max(ends)

    def cut_end(self, one: ReadLog) -> Place | None:
        """Return where the end of a log before another one is cut off; None where nothing shows that.

        Compaction leaves offsets out before the next log, but neither a torn batch nor an index that goes on.
        """
        facts, after = one.facts, one.log.next_base
        if after is None or one.log.base is None or facts.is_renamed or self.is_run(one.copy):
            return None
        last = facts.end(one.log.base, layout.LARGEST_OFFSET) - 1
        codes: tuple[str, ...] = ("L02",) if facts.places and "L02" in facts.places[-1].codes else ()
        codes = tuple(code for offset, code in self._known_by_indexes(one) if last + 1 < offset <= after) or codes
        return Place(one.raw.size, 0, None, None, None, False, codes, False) if codes else None

    def _known_by_indexes(self, one: ReadLog) -> list[tuple[int, str]]:
        """The offsets that a log must have reached by its indexes, and the codes of what they show."""
        facts, base = one.facts, one.log.base
        if base is None or facts.is_renamed or self.is_run(one.copy):
            return []
        last = facts.last if facts.last is not None else base - 1
        with suppress(OSError):
            segment, end = (
                self._copies[one.copy].segment(one.log, self._cache),
                max(facts.stretches[1::STRETCH], default=0),
            )
            known = list(segment.known_ends(end - 1, last, None))
            if len(known) == 1 and known[0][1] == "T04":  # without the offset index its timestamp counts
                known = list(segment.known_ends(end - 1, last, self._latest(one)))
            return known
        return []

    def _latest(self, one: ReadLog) -> int | None:
        """The largest timestamp of the batches of a log that are well."""
        rows, limit = one.facts.stretches, self._options.limits.max_batch_bytes
        stretches = (batches_of(one.source, rows[at], rows[at + 1], limit) for at in range(0, len(rows), STRETCH))
        return max((max(window.column(layout.MAX_TIMESTAMP)) for found in stretches for window in found), default=None)

    def lacks_log(self, first: int, last: int) -> bool:
        """Tell whether the log of a segment is missing that begins in a range: another hole than compaction makes."""
        copies = [copy for copy in self._copies if not copy.is_run]
        return any(first <= base <= last for copy in copies for base in lost_of(copy.directory).logs)

    def has_no_marker(self, first: int, last: int, ends: Sequence[int]) -> bool:
        """Tell whether all bytes that a log has in the place of a hole are batches too large for a marker.

        Args:
            first, last: offsets of the hole.
            ends: up to which offset (exclusive) each copy is of the line.
        """
        for one in self.read:
            if self._copies[one.copy].is_run or last >= ends[one.copy]:
                continue
            rows, base = one.facts.stretches, one.log.base
            lasts = rows[3::STRETCH]
            row = (bisect_left(lasts, first - 1) + 1) * STRETCH  # of the stretch behind the hole
            if row <= len(rows) and rows[row - 1] == first - 1:
                begin = rows[row - 3]
            elif base == first and not one.facts.is_renamed:
                begin = row = 0
            else:
                continue
            if row < len(rows):
                after, end = rows[row + 2], rows[row]
            else:  # the next log that is here is not the one behind it where that is lost
                after, end = one.facts.end(base or 0, first - 1), one.raw.size
            if after == last + 1 and _are_large(one.facts.places, begin, end):
                return True
        return False

    def aborts(self, ends: Sequence[int], last: int) -> Iterator[Aborts]:
        """Yield what the transaction indexes of the copies say, also of those whose logs are lost.

        Args:
            ends: up to which offset (exclusive) each copy is of the line.
            last: offset of the line.
        """
        for number, copy in enumerate(self._copies):
            if copy.is_run:
                continue
            logs = {one.log.base: one.facts for one in self.read if one.copy == number}
            for base, files in sorted(copy.directory.by_base.items()):
                facts, path = logs.get(base), files.get(FileKind.TXNINDEX)
                opened = None if path is None else self._cache.open(path)
                if opened is None or isinstance(opened, OpenFailure) or (facts is not None and facts.is_renamed):
                    continue
                is_whole = facts is not None and bool(facts.stretches) and facts.stretches[0] == 0
                first = facts.stretches[2] if facts is not None and is_whole else None
                end = None if facts is None else facts.end(base, last)
                with suppress(OSError):
                    found = told_by_index(opened, base, copy.directory.next_base(base), first, end)
                    if found is not None:
                        reached = min(found.last, ends[number] - 1)
                        entries = [entry for entry in found.entries if entry.last_offset <= reached]
                        yield Aborts(entries, found.first, reached)


def _place_in_copy(one: ReadLog) -> tuple[int, int]:
    """By what the logs of a copy are ordered: the base offset of the name, unless that is wrong."""
    first = one.facts.first or 0
    return (first if one.facts.is_renamed or one.log.base is None else one.log.base), first


def _are_large(places: Sequence[Place], begin: int, end: int) -> bool:
    """Whether bytes of a log are whole batches that stay out, each too large for a marker; not where there are none."""
    start = begin
    for at in range(bisect_left(places, begin, key=lambda one: one.position), len(places)):
        place = places[at]
        if place.position != begin or begin >= end:
            break
        if place.length <= LARGEST_MARKER or not place.is_whole:
            return False
        begin += place.length
    return start < begin == end


def log_size(path: str) -> int:
    """Return the size of a log in bytes, 0 where nobody can tell."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class ChangedError(Exception):
    """A source changed while it was read; the sentence says which."""


class LineWriter:
    """Writes a line, and a row for what becomes of each offset.

    Args:
        work: the partition.
        line: its line.
        target: where the result goes.
        staging: its files under temporary names.
        ops: makes the calls.

    Attributes:
        result: what it has come to, once it is written.
        standing: how the copies stand beside that.
    """

    def __init__(
        self, work: PartitionSalvage, line: Line, target: Target, options: SalvageOptions, ops: FileOps
    ) -> None:
        self._work = work
        self._line = line
        self._options = options
        self._ops = ops
        self._path = os.path.join(target.path, work.name)
        self._staging: Staging | None = None
        self._limit = options.limits.max_batch_bytes
        self._start = work.log_start()
        bases = [one.facts.first if one.facts.is_renamed else one.log.base for one in work.read]
        bases += [one.log.base for one in work.foreign]
        unread = [copy.bases[0] for copy in work.parts]  # what stands there is not in the result, and has rows
        self._base = min((base for base in (*bases, *unread) if base is not None), default=None)
        self._known_end = work.known_end(line)
        self._missing = self._what_is_missing()
        self._left_out: list[Told] = []
        self.left_out: list[LeftOutBatches] = []
        self._extras: list[tuple[int, SalvageRow]] = []
        self._outs: list[Loss] = []
        self._kept: Kept | None = None
        self._refused: dict[int, str] = {}
        self.expected = 0
        self.records = 0
        self.offsets_lost = self.records_lost = self.ranges_unknown = self.diverged = 0
        self.first: int | None = None

    @property
    def start_by_checkpoint(self) -> int | None:
        """The log start offset that the checkpoint of the result's log directory must have, None where it need not."""
        base = self._base if self._base is not None else 0
        return self._start if self._start is not None and self._start > base else None

    @property
    def size(self) -> int:
        """Bytes that the logs will have at most."""
        rows = self._line.extents
        return sum(rows[at + 2] - rows[at + 1] for at in range(0, len(rows), EXTENT))

    def _what_is_missing(self) -> Missing:
        spots: list[Spot] = []
        for one in self._work.read:
            start = one.log.base if one.log.base is not None else one.facts.first or 0
            end = one.log.next_base
            if end is None and one.log.base is not None:
                end = self._known_end
            lost = [first for first, _ in self._work.lost_logs(one.copy) if start < first and end is not None]
            end = min([end or 0, *lost]) if lost else end
            own = list(spots_of(one.log.path, one.facts, start, end, self._work.cut_end(one)))
            spots.extend(own)
            if one.log.next_base is None and not self._work.is_run(one.copy):
                self._note_tail(one, own)
        for one in self._work.foreign:
            first, last = one.log.base or 0, (one.log.next_base or self._known_end) - 1
            if first <= last:
                place = Place(0, one.raw.size, None, None, None, False, (Code.F15.name,), False)
                spots.append(Spot(first, last, True, one.log.path, place))
        for number, cut in enumerate(self._line.cuts):
            ranges = [(first, min(last, cut - 1)) for first, last in self._work.lost_logs(number) if first < cut]
            spots.extend(lost_logs(self._path, ranges))
        is_compacted = self._work.is_compacted
        if is_compacted:  # what a whole copy lacks was cleaned away there, whatever stands in another one
            spots = list(but_for(spots, self._work.whole_ranges(self._line)))
        return Missing(self._work.name, self._path, spots, self._line.last + 1, is_compacted=is_compacted)

    def _note_tail(self, one: ReadLog, spots: list[Spot]) -> None:
        """Say of bytes behind the last batch of a copy that no offset is known of them, where nothing else does.

        A copy that ends before the line does has lost nothing there that is not in another one.
        """
        facts, told = one.facts, {spot.place.position for spot in spots}
        if self._known_end != (facts.last if facts.last is not None else (one.log.base or 0) - 1) + 1:
            return
        after = max(facts.stretches[1::STRETCH], default=0)
        tail = [place for place in facts.places if place.position >= after and place.position not in told]
        tail = [place for place in tail if not place.is_batch and not set(place.codes) <= _ZEROS]
        if tail:
            begin, end = tail[0].position, tail[-1].position + tail[-1].length
            codes = ", ".join(dict.fromkeys(code for place in tail for code in place.codes))
            many = "1 byte" if end - begin == 1 else f"{end - begin} bytes"
            self._work.notes.append(
                f"{one.log.path}: the {many} from byte {begin} on, behind the last batch, are no batch "
                f"({codes}) and stay out; whether they were records, and of which offsets, nobody can tell"
            )

    # --- the fate of transactions ---------------------------------------------------------------------------
    def judge_transactions(self) -> None:
        """Find out whose batches must stay out because a hole may have ended their transaction."""
        if not any(one.facts.has_transactions for one in self._work.read):
            return
        ends = self._ends()
        aborts = list(self._work.aborts(ends, self._line.last))
        fates = TransactionFates(self._take_fate, self._options.limits.max_uncompressed_bytes)
        fates.learn(aborts)
        expected: int | None = None
        for number, _, window in self._windows():
            wrappers = self._work.read[number].facts.wrappers
            start = 0
            first = first_offset(window, 0, wrappers)
            if window.suspicions & layout.GAP or (expected is not None and first > expected):
                for k in range(window.count):
                    first = first_offset(window, k, wrappers)
                    if expected is not None and first > expected:
                        hole = self._hole(expected, first - 1, ends)
                        if hole is not None:
                            fates.step(window.part(start, k))
                            fates.hole(hole)
                            start = k
                    expected = window.cell(k, layout.LAST_OFFSET) + 1
            fates.step(window.part(start, window.count))
            expected = window.cell(window.count - 1, layout.LAST_OFFSET) + 1
        last = max([self._known_end - 1, *(one.last for one in aborts)])
        if expected is not None and expected <= last:
            fates.hole(Hole(expected, last))
        fates.finish()

    def _take_fate(self, told: Told) -> None:
        """Leave batches out that would come under a marker that is not theirs."""
        if not told.agrees:
            self._left_out.append(told)

    def _ends(self) -> list[int]:
        """Up to which offset (exclusive) each copy is of the line, and what lies beside its batches tells of it."""
        ends = list(self._line.cuts)
        for branch in self._line.divergent:
            ends[branch.copy] = min(ends[branch.copy], branch.first)
        return ends

    def _hole(self, first: int, last: int, ends: Sequence[int]) -> Hole | None:
        """Return the hole of a range that the line does not have, None where compaction has made it."""
        spots = self._missing.spots(first, last)
        if not spots and self._missing.is_compacted and not self._work.lacks_log(first, last):
            return None
        codes = tuple(dict.fromkeys(code for spot in spots for code in spot.place.codes))
        return Hole(first, last, codes, may_end=not self._work.has_no_marker(first, last, ends))

    def _windows(self) -> Iterator[tuple[int, int, Window]]:
        """Yield the batches of the line: number of the log, number of copies that have them, and the window."""
        rows = self._line.extents
        buffer: Buffer | None = None
        for at in range(0, len(rows), EXTENT):
            number, position, end = rows[at : at + 3]
            one = self._work.read[number]
            if buffer is None:
                buffer = Buffer(one.source, 1024 * 1024)
            buffer.source = one.source
            reached = position
            for window in batches_of(one.source, position, end, self._limit, buffer):
                if not window.all_trusted:
                    raise ChangedError(f"{one.log.path}: changed while it was read; copy it and salvage the copy")
                yield number, rows[at + COPIES], window
                reached = window.end(window.count)
            if reached != end:
                raise ChangedError(f"{one.log.path}: changed while it was read; copy it and salvage the copy")

    # --- writing --------------------------------------------------------------------------------------------
    def write(self, staging: Staging, settings: Settings) -> Iterator[Progress]:
        """Write all, and yield how far that has got.

        Raises:
            OSError: writing failed.
            ChangedError: a source changed.
        """
        self._staging = staging
        base = self._base if self._base is not None else self._line.extents[FIRST]
        lost = [first for copy in range(len(self._line.cuts)) for first, _ in self._work.lost_logs(copy)]
        begin = min([base, *lost])
        self.expected = begin if self._start is None or self._options.below_log_start else max(begin, self._start)
        floor = self._start if self._start is not None and not self._options.below_log_start else None
        self._add_extras()
        start = max(base, self._start or 0) if not self._options.below_log_start else base
        writer = SegmentWriter(staging.directory, self._work.name, settings, start, self._ops, self._refuse)
        total, done = self.size, 0
        try:
            for number, copies, window in self._windows():
                self._window(writer, number, copies, window, floor)
                done += window.end(window.count) - window.cell(0, layout.POSITION)
                yield Progress(done, total, self._work.read[number].log.path)
            writer.finish()
        finally:
            writer.abandon()
        data = self._work.metadata()
        if data is not None:
            writer.put_file(FileKind.PARTITION_METADATA.value, data)
        dress(staging.directory, settings._replace(mode=settings.mode | (settings.mode & 0o444) >> 2), self._ops)
        dress(staging.rows_file, settings, self._ops)
        self._flush()
        if self._known_end > self.expected:
            self._gap(self._known_end - 1)
        self._finish_extras()
        result = self._salvaged(writer, start)
        self.standing = self._work.standing(self._line, result)
        self.result = result.replace(copies=self.standing.copies)
        staging.row(row_json(self.result))

    def _salvaged(self, writer: SegmentWriter, start: int) -> Salvaged:
        opened = [
            OpenedTransaction(one.producer_id, one.producer_epoch, one.current_txn_first_offset)
            for one in writer.producers.entries.values()
            if one.current_txn_first_offset >= 0
        ]
        opened.sort(key=lambda one: (one.first_offset, one.producer_id))
        return Salvaged(
            self._work.name,
            self._work.sources,
            writer.batches,
            self.records,
            writer.size,
            writer.segments,
            max(start, writer.first_base),
            writer.end,
            self.offsets_lost,
            tuple(opened),
        )

    def _window(self, writer: SegmentWriter, number: int, copies: int, window: Window, floor: int | None) -> None:
        one = self._work.read[number]
        start = 0
        for k in self._skipped(window, floor):
            self._part(writer, number, copies, window, start, k)
            below = floor is not None and window.cell(k, layout.LAST_OFFSET) < floor
            rule = None if below else self._rule(self._left_out, window, k)
            hole = None if rule is None else rule.hole
            out = self._out(one, window, k, () if hole is None else hole.codes, is_below=below)
            if hole is not None:
                self._tell_left_out(out, hole)
            start = k + 1
        self._part(writer, number, copies, window, start, window.count)

    def _skipped(self, window: Window, floor: int | None) -> list[int]:
        """The rows that stay out."""
        first, last = window.cell(0, layout.BASE_OFFSET), window.cell(window.count - 1, layout.LAST_OFFSET)
        is_below = floor is not None and window.cell(0, layout.LAST_OFFSET) < floor
        rules = [rule for rule in self._left_out if rule.start <= last and first < rule.stop]
        if not is_below and not rules:
            return []
        found = []
        for k in range(window.count):
            if (floor is not None and window.cell(k, layout.LAST_OFFSET) < floor) or self._rule(
                rules, window, k
            ) is not None:
                found.append(k)
        return found

    def _rule(self, rules: list[Told], window: Window, k: int) -> Told | None:
        if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
            return None
        producer, first = window.cell(k, layout.PRODUCER_ID), window.cell(k, layout.BASE_OFFSET)
        return next((rule for rule in rules if rule.producer == producer and rule.start <= first < rule.stop), None)

    def _tell_left_out(self, out: Loss, hole: Hole) -> None:
        first, records = out.offset, out.records or 0
        before = self.left_out[-1] if self.left_out else None
        if before is not None and (before.last_offset + 1, before.lost_offset) == (first, hole.first):
            first, records = before.offset, before.records + records
            self.left_out.pop()
        self.left_out.append(LeftOutBatches(first, out.last_offset, records, hole.first, hole.last))

    def _part(self, writer: SegmentWriter, number: int, copies: int, window: Window, start: int, stop: int) -> None:
        """Write rows [start, stop), and say what became of each."""
        if start >= stop:
            return
        one = self._work.read[number]
        part = window.part(start, stop)
        first_of = partial(first_offset, part, wrappers=one.facts.wrappers)
        self._refused.clear()
        for begin, end in writer.write(part, first_of, one.log.base, one.source):
            self._tell_refused(one, part, begin)
            self._keep(one, copies, part.part(begin, end))
        self._tell_refused(one, part, part.count)

    def _refuse(self, _window: Window, k: int, why: str) -> None:
        self._refused[k] = why

    def _tell_refused(self, one: ReadLog, part: Window, stop: int) -> None:
        for k in sorted(k for k in self._refused if k < stop):
            del self._refused[k]
            self._out(one, part, k, ("P03",), is_below=False)

    def _out(self, one: ReadLog, window: Window, k: int, codes: tuple[str, ...], *, is_below: bool) -> Loss:
        """A batch of the line stays out; return its loss."""
        first, last = first_offset(window, k, one.facts.wrappers), window.cell(k, layout.LAST_OFFSET)
        count = window.cell(k, layout.COUNT)
        if count < 0:
            inner = one.facts.wrappers.at(window.cell(k, layout.POSITION))
            count = 1 if inner is None else inner[1]
        position, size = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
        certainty = Certainty.ABSENT if is_below else Certainty.DOUBTFUL
        loss = Loss(self._path, self._work.name, one.log.path, position, size, first, last, count, certainty, codes)
        before = self._outs[-1] if self._outs else None
        if is_below and before is not None and _goes_on(before, loss):
            assert before.position is not None
            length, known = position + size - before.position, (before.records or 0) + count
            self._outs[-1] = before.replace(length=length, last_offset=last, records=known)
        else:
            self._outs.append(loss)
        return loss

    # --- rows -----------------------------------------------------------------------------------------------
    def _keep(self, one: ReadLog, copies: int, part: Window) -> None:
        """These batches are kept."""
        wrappers = one.facts.wrappers
        first, last = first_offset(part, 0, wrappers), part.cell(part.count - 1, layout.LAST_OFFSET)
        is_plain = part.cell(0, layout.MAGIC) >= layout.MAGIC_V2 <= part.cell(part.count - 1, layout.MAGIC)
        if is_plain and not _has_gaps(part):
            self._keep_run(one, copies, first, last, sum(part.column(layout.COUNT)))
            return
        for k in range(part.count):
            count = part.cell(k, layout.COUNT)
            if count < 0:
                inner = wrappers.at(part.cell(k, layout.POSITION))
                count = 1 if inner is None else inner[1]
            self._keep_run(one, copies, first_offset(part, k, wrappers), part.cell(k, layout.LAST_OFFSET), count)

    def _keep_run(self, one: ReadLog, copies: int, first: int, last: int, records: int) -> None:
        self.records += records
        if self.first is None:
            self.first = first
        if first > self.expected or self._outs:
            self._flush()
            self._gap(first - 1)
        kept = self._kept
        source = one.log.source
        if kept is not None and (kept.last_offset + 1, kept.source, kept.sources) == (first, source, copies):
            self._kept = kept.replace(last_offset=last, records=kept.records + records)
        else:
            self._flush()
            self._kept = Kept(self._work.name, first, last, records, source, copies)
        self.expected = max(self.expected, last + 1)

    def _flush(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._row(kept.offset, kept)

    def _gap(self, last: int) -> None:
        """Say of the offsets from the expected one to a last one why they are not there."""
        at = self.expected
        outs, self._outs = self._outs, []
        for out in outs:
            if out.offset > at:
                self._lose_range(at, out.offset - 1)
            self._lose(out)
            at = max(at, out.last_offset + 1)
        if at <= last:
            self._lose_range(at, last)
        self.expected = max(at, last + 1)

    def _lose_range(self, first: int, last: int) -> None:
        for loss in self._missing.losses(first, last):
            self._lose(loss)

    def _lose(self, loss: Loss) -> None:
        if loss.certainty.is_loss:
            self.offsets_lost += loss.offsets
            if loss.records is None:
                self.ranges_unknown += 1
            else:
                self.records_lost += loss.records
        self._row(loss.offset, loss)

    def _row(self, offset: int, row: SalvageRow) -> None:
        assert self._staging is not None
        while self._extras and self._extras[-1][0] <= offset:
            self._staging.row(row_json(self._extras.pop()[1]))
        self._staging.row(row_json(row))

    def _finish_extras(self) -> None:
        assert self._staging is not None
        if self._outs:
            self._gap(self.expected - 1)
        while self._extras:
            self._staging.row(row_json(self._extras.pop()[1]))

    def _add_extras(self) -> None:
        name = self._work.name
        for one in self._work.read:
            for patch, finding in zip(one.facts.patches, one.facts.fields, strict=True):
                offset = finding.expected if finding.field == "baseOffset" else finding.offset
                before, after = (int.from_bytes(data, "big", signed=True) for data in (patch.old, patch.new))
                row = PatchedField(name, one.log.path, patch.position, str(finding.field), before, after)
                self._extras.append((offset if isinstance(offset, int) else -1, row))
        for branch in self._line.divergent:
            source = self._work.read_source(branch.copy)
            epoch = None if branch.epoch < 0 else branch.epoch
            self.diverged += branch.records
            diverged = Diverged(name, branch.first, branch.last, source, epoch, branch.records)
            self._extras.append((branch.first, diverged))
        self._extras.extend((revived.offset, revived) for revived in self._revived())
        self._extras.sort(key=lambda one: one[0])
        self._extras.reverse()  # the next one is the last

    def _revived(self) -> Iterator[Revived]:
        read, limits = self._work.read, self._options.limits
        if len({one.copy for one in read}) < 2:
            return
        from kdump.rescue.compacted import Cleaned, revived

        cleaned = Cleaned()
        for one in read:
            if not self._work.is_run(one.copy):
                cleaned.add(one.source, one.facts, one.log.base, one.log.next_base, limits)
        if self._line.pairs or not cleaned.is_empty:
            yield from revived(self._work.name, self._line, [one.source for one in read], cleaned, limits)


def _goes_on(before: Loss, loss: Loss) -> bool:
    """Whether both are of offsets below the log start, one behind the other in one log."""
    if (before.certainty, before.file, before.last_offset + 1) != (Certainty.ABSENT, loss.file, loss.offset):
        return False
    return before.position is not None and before.length is not None


def _has_gaps(part: Window) -> bool:
    """Whether offsets are missing between batches, the first one not looked at."""
    if not part.suspicions & layout.GAP:
        return False
    return any(bits & layout.GAP for bits in part.column(layout.SUSPICION)[1:])
