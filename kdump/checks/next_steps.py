"""What to do about damage: to each finding the command that mends it, and for each partition what can be done.

A command is named only where it mends: header fields where each has one value, indexes where a recovery gets to the end
of their log, a cut where nothing behind the damage is intact. What costs intact records is never the repair of a
finding: it is a last resort. Which of them are told, and in which rank, `step_table` decides.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.load.log_state import LogState
from kdump.broker.producer.lost_aborts import WITNESS
from kdump.checks.intact_records import IntactRecords
from kdump.checks.mendable import Mended, SmallFiles, file_repair
from kdump.checks.options import VerifyOptions
from kdump.checks.removed_records import RemovedRecords
from kdump.checks.segment import check_segment
from kdump.checks.start_effects import StartEffects
from kdump.checks.step_sentences import DELETED_TOO, FROM_ANOTHER, MOST_NAMED, Move, PersonSteps, StepKind, move
from kdump.checks.step_table import MENDS, PartitionState
from kdump.finding import Code, Finding, Severity, Trait, ignore
from kdump.format.batch import layout
from kdump.format.batch.header_fields import is_of_header
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.item import Checked, PartitionChecked, Progress, SegmentChecked
from kdump.rows.steps import NONE, UNKNOWN
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.evidence import shows_lost_log
from kdump.storage.file_source import OpenFailure
from kdump.storage.misplaced import renamed
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.paths import base_name
from kdump.storage.raft_snapshots import FETCH_AGAIN
from kdump.words.command import ShellCommand, command_line, named, renaming
from kdump.words.numbers import NamedRanges, brokers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.checks.job import SegmentJob
    from kdump.checks.swaps import SwapCheck
    from kdump.item import Item
    from kdump.rows.steps import Amount
    from kdump.storage.partition_dir import PartitionDir

_HELD = 10_000  # findings of one segment that wait for what is known of all of it; further ones name no command
_EARLY = 100  # of those that are not held, how many count for the steps
_INDEX_KINDS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
_OF_FIELD = Code.E01.remedy  # patch-header mends it: the checkpoint is right
_ONCE_SWAPPED = "let a broker put the .swap files in place first, or salvage the partition"
_SALVAGED = "restore from another replica, or salvage the partition: nothing is mended here while files wait as .swap"
_BUT_IN_DOUBT = "; it leaves out, and names, batches whose transaction may have ended in the damage"


class PartitionSteps:
    """Names the repairs of one partition, and what can be done about it.

    Args:
        directory: the partition.
        jobs: its segments, by base offset.
        options: what was asked for.
        only: the one file that is judged; None for all.
        swaps: what waits as `.swap`, None for nothing: no command mends anything in place meanwhile.
        foreseen: the partition as it lies, whose coming start is looked at; None where that is not asked.
        has_transactions: a segment whose items are not given has some.
        before: what was counted of these; None for none.
    """

    def __init__(
        self,
        directory: PartitionDir,
        jobs: Sequence[SegmentJob],
        options: VerifyOptions,
        only: str | None = None,
        swaps: SwapCheck | None = None,
        *,
        foreseen: PartitionDir | None = None,
        has_transactions: bool = False,
        before: IntactRecords | None = None,
    ) -> None:
        self._directory = directory
        self._options = options
        self._swaps = swaps
        self._foreseen = foreseen
        self._is_harmful = False  # what waits would cost records, or the start of the broker
        self._jobs = {job.files[FileKind.LOG]: job for job in jobs}
        self._last = max((job.base_offset for job in jobs), default=0)
        self._only = only
        self._segments: list[_Segment] = []  # those in which there is something to do
        self._snapshots: list[str] = []  # logs whose producer snapshots are wrong
        self._early: list[Finding] = []  # of the segment in hand, that were handed on already
        self._beside: _Segment | None = None  # an index of it was named alone, and its log is damaged too
        self._lost: Finding | None = None  # what shows that a log is not here
        self._misplaced = [job.misplaced for job in jobs if job.misplaced is not None]
        self._persons, self._late = PersonSteps(), PersonSteps(StepKind.CHECKPOINT)
        self._files = SmallFiles(directory, options)
        self._removed = RemovedRecords()
        self._missing = NamedRanges()  # offsets of which no intact byte is here
        self._unexplained = NamedRanges()  # those that compaction may have taken as well
        self._records = before or IntactRecords()
        self._start = StartEffects()
        self._has_losses = self._has_alone = self._has_unexplained = self._is_unmended = self._is_concerned = False
        self._has_transactions = has_transactions

    @property
    def _path(self) -> str:
        """What a restore and salvage name: the partition, as one segment of it in its place loses all others."""
        path = self._directory.path or "."
        found = parse_partition(base_name(path))
        return path if self._only is None or (found is not None and not found.state) else self._only

    def through(self, items: Iterable[Item], late: Sequence[Finding] = ()) -> Iterator[Item]:
        """Yield items with the repairs of findings, and at the end what is known of the partition, for the steps.

        Args:
            items: of the partition: findings come before the `SegmentChecked` and `Checked` of their files.
            late: what checkpoints of the log directory say of it, once the items are at their end.
        """
        held: list[Item] = []
        is_loud = False
        for item in items:
            kind = type(item)
            self._records.see(item)
            if isinstance(item, Loss):
                self._see_loss(item)
            elif isinstance(item, Finding):
                self._see_finding(item)
            if kind is Progress:
                yield item
            elif kind is Checked or kind is PartitionChecked:
                yield from self._told(held) if is_loud else map(self._of_sound, held)
                held.clear()
                is_loud = False
                yield item
            else:
                if len(held) == _HELD:
                    yield from self._passed_on(held)
                    held.clear()
                held.append(item)
                self._has_transactions |= kind is SegmentChecked and item.has_transactions  # type: ignore[union-attr]
                is_loud = is_loud or (kind is Finding and item.severity is not Severity.NOTE)  # type: ignore[union-attr]
        yield from self._told(held) if is_loud else map(self._of_sound, held)
        for one in late:
            self._see_finding(one)
            self._late.see(one)
        if self._is_concerned and self._options.has_steps:
            yield self._state()

    def _see_finding(self, finding: Finding) -> None:
        traits = finding.code.traits
        if finding.code is Code.F16:
            self._removed.see(finding)
        elif Trait.URGENT in traits:
            self._persons.see(finding)
        if finding.severity is Severity.ERROR and Trait.ONLY_LOST in traits:
            self._has_losses = True
        if not self._directory.is_leftover:
            self._start.see(finding)
        is_loud = finding.severity is not Severity.NOTE and not self._directory.is_leftover
        self._is_concerned |= is_loud or Trait.URGENT in traits

    def _see_loss(self, loss: Loss) -> None:
        is_alone = Code.L19.name in loss.because
        self._has_losses = self._has_losses or loss.counts
        self._has_alone |= is_alone
        self._has_unexplained |= loss.certainty is Certainty.UNEXPLAINED
        self._start.see_loss(loss, is_alone=is_alone)
        self._is_concerned |= loss.counts or loss.certainty is Certainty.UNEXPLAINED
        self._removed.see_loss(loss, is_alone=is_alone)
        if is_alone or (loss.certainty is Certainty.LOST and not loss.is_known):
            self._missing.add(loss.offset, loss.last_offset)
        elif loss.certainty is Certainty.UNEXPLAINED:
            self._unexplained.add(loss.offset, loss.last_offset)

    def _passed_on(self, held: list[Item]) -> Iterator[Item]:
        """Findings of a group that has too many of them: the first errors count for its steps, none has a repair."""
        for item in held:
            if isinstance(item, Finding) and item.severity is Severity.ERROR and len(self._early) < _EARLY:
                self._early.append(item)
        yield from held

    # --- findings -------------------------------------------------------------------------------------------
    def _told(self, held: list[Item]) -> Iterator[Item]:
        """The findings of one group of files with their repairs."""
        early, self._early = self._early, []
        found = [*early, *(one for one in held if isinstance(one, Finding))]
        if self._directory.is_leftover:
            yield from held
            return
        checked = next((one for one in held if isinstance(one, SegmentChecked)), None)
        segment = self._segment(checked, found, is_whole=not early)
        for item in held:
            if not isinstance(item, Finding) or item.severity is Severity.NOTE:
                is_index_mended = segment is not None and segment.can_be_indexed and not segment.causes
                yield self._of_sound(item) if is_index_mended else item
                continue
            command = self._repair(segment, item)
            self._files.see(item)
            if command is None and self._files.takes(item):
                yield item
                continue
            self._is_unmended |= not self._is_mended(segment, item, command)
            if command is not None:
                told = item if item.code is not Code.E03 else item.replace(values={**item.values, "remedy": _OF_FIELD})
                yield told.replace(repair=command)
                continue
            if item.code is Code.F19:
                self._is_harmful = True
                yield item
                continue
            if shows_lost_log(item):
                self._lost = self._lost or item
                yield item
                continue
            told = item
            if segment is not None:
                told = segment.with_blocker(item) if self._swaps is None else segment.while_swapping(item)
            if segment is None or not segment.is_to_do(item) or not self._has_steps(segment):
                self._persons.see(told)
            yield told

    def _of_sound(self, item: Item) -> Item:
        """An item of a segment whose log is sound: an index with which lookups are slow can be built again."""
        if not isinstance(item, Finding) or item.code is not Code.X08 or self._directory.is_leftover:
            return item
        return item.replace(repair=command_line("reindex", named(item.file), "--force"))

    def _has_steps(self, segment: _Segment) -> bool:
        """Whether a step is about the segment in hand."""
        return segment is self._beside or (bool(self._segments) and self._segments[-1] is segment)

    def _segment(self, checked: SegmentChecked | None, found: list[Finding], *, is_whole: bool) -> _Segment | None:
        """What is known of the segment that findings are about, None where they are about something else."""
        if checked is None:
            return self._of_index(found)
        job = self._jobs.get(checked.path)
        if job is None or not checked.is_read:
            return None
        segment = _Segment(job, checked.size, found, is_whole=is_whole)
        if segment.is_patched or segment.damage or segment.unsound or segment.causes:
            self._segments.append(segment)
        return segment

    def _of_index(self, found: list[Finding]) -> _Segment | None:
        """The segment of an index that was named alone: its log is judged too, and nothing is said of that."""
        job = next((one for one in self._jobs.values() if self._only in one.files.values()), None)
        if job is None:
            return None
        log = job.files[FileKind.LOG]
        judged = check_segment(job.replace(only=log), VerifyOptions(deep=False))
        others = (one for one in judged if isinstance(one, Finding))
        segment = _Segment(job, 0, [*found, *islice(others, _HELD)], is_whole=True)
        if segment.can_be_indexed:
            self._segments.append(segment)
        elif segment.unsound:
            self._beside = segment
        return segment

    def _repair(self, segment: _Segment | None, finding: Finding) -> ShellCommand | None:
        """Return the command that mends a finding and costs nothing that is intact, None where there is none."""
        if Trait.CAUSE in _cause(finding).traits or self._swaps is not None:
            return None
        if Trait.UNSOUND_SNAPSHOT in finding.code.traits:
            return self._of_snapshot(finding)
        if segment is None:
            return None
        if segment.mends(finding):
            return command_line("patch-header", named(segment.log))
        if segment.is_damage(finding):
            if segment.has_loose_end:
                return segment.without_loose_end
            is_last = segment.job.base_offset == self._last
            others = [one for one in self._segments if one is not segment]
            if not is_last or any(one.damage or one.is_patched for one in others) or self._only is not None:
                return None
            may_be_cut = segment.ends_with_damage and self._may_be_cut(segment)
            return command_line("truncate", named(segment.log), "--at-damage") if may_be_cut else None
        if segment.is_unsound(finding) and segment.can_be_indexed and not segment.witnesses:
            path = finding.file if finding.file in segment.job.files.values() else segment.log
            return command_line("reindex", named(path))
        return None

    def _of_snapshot(self, finding: Finding) -> ShellCommand | None:
        base = parse_name(os.path.basename(finding.file)).base_offset
        job = next((job for job in self._jobs.values() if job.base_offset == base), None)
        if job is None or self._only is not None or any(one.damage or one.is_patched for one in self._segments):
            return None
        self._snapshots.append(job.files[FileKind.LOG])
        return command_line("reindex", named(job.files[FileKind.LOG]), "--snapshot")

    def _is_kept(self, segment: _Segment) -> bool:
        """Whether a broker keeps what a cut at the first damage leaves: below the log start it deletes all of it."""
        start = self._directory.log_start
        return segment.job.base_offset > start or not start or segment.end_before_damage > start

    def _may_be_cut(self, segment: _Segment) -> bool:
        """Whether nothing but the damage speaks against a cut; what truncate refuses is not named."""
        from kdump.broker.truncate import LOADED, name_error  # the model of the broker costs time to import

        if not self._is_kept(segment):
            return False
        names = [name for name in self._directory.listing.names if name.endswith(LOADED)]
        return all(name_error(name) is None and self._directory.listing.is_regular(name) for name in names)

    def _is_mended(self, segment: _Segment | None, finding: Finding, command: ShellCommand | None) -> bool:
        """Whether a command that takes nothing away mends it, be it after that of another finding."""
        if Trait.CAUSE in _cause(finding).traits or self._swaps is not None:
            return False
        if finding.remedy.startswith("none"):
            return True
        if segment is not None and segment.is_damage(finding):
            return segment.has_loose_end
        if command is not None:
            return True
        return segment is not None and segment.is_unsound(finding) and not segment.damage

    # --- what can be done -----------------------------------------------------------------------------------
    def _state(self) -> PartitionState:
        """What is known of the partition, for the table of steps."""
        path = self._directory.path or "."
        keeps = self._records.intact
        cut = next((one for one in self._segments if one.damage and not one.has_loose_end), None)
        waits = self._is_harmful or (bool(self._misplaced) and not self._directory.is_leftover)
        files = self._mended_files() if self._is_repaired and not waits else self._files.all
        for one in files.left:
            self._persons.see(one)
            self._is_unmended |= not one.remedy.startswith("none")
        mends = [*self._mends(cut, files)] if self._swaps is None else []
        coming = self._start.foreseen(self._foreseen, self._options, self._records)
        persons = self._persons.moves(without=Trait.RESTORED if self._has_losses else None, mends=coming.blames)
        late = self._late.moves(repairing=lambda one, file: file_repair(one, file, [self._directory.log_dir]))
        moves = [*self._removed.moves(keeps), *persons, *late]
        if waits:
            moves += self._of_waiting()
        else:
            moves += self._of_losses(cut)
        if coming.move is not None:
            moves.append(coming.move)
        if mends and cut is not None and not self._has_losses:
            mends = [one for one in mends if one.kind in MENDS]
        moves += mends
        if self._swaps is None and cut is not None and not waits and self._is_kept(cut):
            moves.append(self._cut(cut))
        causes = (cause for one in self._segments for cause in one.causes)
        is_damaged = cut is not None or any(Trait.ONLY_LOST not in cause.code.traits for cause in causes)
        return PartitionState(
            path,
            tuple(one if one.keeps is not UNKNOWN or one.command else _harmless(one, keeps) for one in moves),
            has_read_error=self._start.has_read_error,
            fails_by_file=bool(coming.blames),
            mends_start=files.mends_start,
            waits=waits,
            starts_well=coming.move is not None and not waits and not self._removed.has_some,
            is_mendable=any(one.kind in MENDS for one in mends)
            and not (self._is_unmended or self._is_lacking or self._late.has_some),
            has_losses=self._has_losses or is_damaged or self._lost is not None,
            has_alone=self._has_alone,
            is_damaged=is_damaged,
            others=self._others(),
            has_removed=self._removed.has_some,
            removed_has_all=self._removed.has_all_lost,
            harm=coming.harm,
            keeps=keeps,
            harm_loses=coming.loses,
        )

    @property
    def _is_repaired(self) -> bool:
        """Whether `kdump repair` takes the partition: it wants the directory whole, under the name of a partition."""
        name = self._directory.parsed
        is_partition = name is not None and name.state not in ("delete", "stray")
        return is_partition and self._only is None and self._swaps is None

    def _mended_files(self) -> Mended:
        """What it mends of the small files."""
        damaged = [one for one in self._segments if one.damage]
        is_torn = [one.job.base_offset for one in damaged if one.is_torn] == [self._last]
        is_sound = not damaged and not any(one.is_patched for one in self._segments)
        are_read = not self._start.has_read_error and (not damaged or (is_torn and len(damaged) == 1))
        return self._files.settled(are_read=are_read, is_sound=is_sound and are_read)

    @property
    def _is_lacking(self) -> bool:
        """Whether offsets are lost, doubtful, or may be lost."""
        return self._has_losses or self._has_alone or self._lost is not None

    def _others(self) -> bool | None:
        """Whether the partition has other replicas, by the metadata logs at hand; None where none tells."""
        if self._directory.parsed is None or not self._is_lacking:
            return None
        replicas = self._options.policies_for(self._directory).replicas(self._directory)
        return None if replicas is None else len(replicas) > 1

    def _elsewhere(self) -> str:
        """Return which other brokers have the partition, as words behind "another replica"; empty for none known."""
        replicas = self._options.policies_for(self._directory).replicas(self._directory) or ()
        others = [one for one in replicas if one != self._directory.log_dir.node]
        return f" (on {brokers(others)})" if others and len(others) < len(replicas) else ""

    def _of_waiting(self) -> Iterator[Move]:
        """Yield what to do about logs under wrong names, and files that wait and are worse than what goes for them."""
        again = command_line("verify", named(self._directory.path or "."))
        if not self._is_harmful:
            is_all = len(self._segments) == len(self._misplaced)
            is_all = is_all and all(one.is_misplaced_only for one in self._segments)
            kind = StepKind.RENAME if is_all else StepKind.RENAME_FIRST
            words: dict[str, object] = {"moves": renaming(renamed(self._misplaced))}
            yield self._costless(move(kind, **words) if is_all else move(kind, **words, again=again))
            yield self._salvage("writes all that is intact, under the right names,")
            return
        assert self._swaps is not None
        way = self._swaps.way
        if way.is_move:
            yield self._costless(move(StepKind.SWAP, way.command, again=again))
            yield self._salvage("writes what is intact here and there")
        else:
            but = _BUT_IN_DOUBT if self._has_transactions else ""
            yield self._saved(move(StepKind.SWAP_OUT, way.command, but=but))

    def _of_losses(self, cut: _Segment | None) -> Iterator[Move]:
        """Yield what brings back what is lost, and what saves the rest."""
        is_lacking = self._is_lacking or self._has_unexplained
        if not (is_lacking or cut is not None or any(one.causes for one in self._segments)):
            return
        causes = [one.causes[0] for one in self._segments if one.causes]
        cause = self._lost or (causes[0] if causes and (cut is None or causes[0].file <= cut.log) else None)
        if cause is None and cut is not None:
            cause = cut.damage[0]
        ranges = self._missing if self._missing.offsets else self._unexplained
        missing = (
            f"{ranges} {'is' if ranges.offsets == 1 else 'are'} missing" if ranges.offsets else "something is lost"
        )
        told = _place(cause) if cause is not None else missing
        yield self._restore(told)
        foreign = [one.log for one in self._segments if one.is_foreign]
        what = "writes all that is intact"
        if foreign:
            what = f"writes all that is intact but for {', '.join(foreign[:MOST_NAMED])}"
        elif self._swaps is not None:
            what = "writes the partition as a start makes it, with all that is intact,"
        yield self._salvage(what)
        path = named(self._directory.path or ".")
        them = "it" if ranges.offsets == 1 else "them"
        words = {"missing": missing, "them": them, "it": them}
        if cause is not None:
            words = {"missing": told, "them": "what is lost", "it": "it"}
        words["where"] = self._elsewhere()
        yield self._costless(move(StepKind.COMPARE, command_line("verify", "--replicas", path, "OTHER"), **words))
        yield self._costless(move(StepKind.NOTHING)).replace(size=None)

    def _restore(self, cause: str) -> Move:
        """The step that is better than all others."""
        how = (
            "once that one leads, stop the broker, move the directory out of the log.dir, and let it be replicated "
            "again; one that starts empty and leads would make the others cut their logs"
        )
        if self._directory.parsed is not None and self._directory.parsed.is_raft_log:
            how = f"stop the node, {FETCH_AGAIN}"
        return move(StepKind.RESTORE, path=(self._path,), source=FROM_ANOTHER, cause=(cause,), how=how)

    def _costless(self, one: Move) -> Move:
        """A step that takes nothing away, and reads all logs."""
        return one.replace(keeps=self._records.intact, loses=NONE, size=self._records.size)

    def _saved(self, one: Move) -> Move:
        """A step that writes all that is intact; of transactions that may have ended in the damage nobody knows."""
        return self._costless(one).replace(**({"keeps": UNKNOWN, "loses": UNKNOWN} if self._has_transactions else {}))

    def _salvage(self, what: str) -> Move:
        """The step that writes what is intact to another directory."""
        whose = () if parse_partition(base_name(self._path)) else ("--name", "TOPIC-N")
        deleted = DELETED_TOO if self._removed.may_bring_back else ()
        brings = self._removed.brings()
        but = f", with {brings}" if brings else ""
        but += _BUT_IN_DOUBT if self._has_transactions else ""
        words = (("what", what), ("but", but))
        flags = (*deleted, "--to", "DIR", *whose)
        made = Move(StepKind.SALVAGE, "salvage", (self._path,), flags, words=words)
        return made if any(one.is_foreign for one in self._segments) else self._saved(made)

    def _mends(self, cut: _Segment | None, files: Mended) -> Iterator[Move]:
        """Yield what mends files in place, and loses nothing that a reader gets; not those that a cut takes away."""
        kept = [one for one in self._segments if cut is None or one.job.base_offset < cut.job.base_offset]
        words = (("harmless", "" if self._is_lacking else "; nothing is lost"),)

        def mend(kind: StepKind, verb: str, some: Sequence[_Segment], paths: Iterable[str], *flags: str) -> Move:
            read = sum(one.size for one in some)
            return Move(kind, verb, tuple(paths), flags, words=words, keeps=self._records.intact, loses=NONE, size=read)

        patched = [one for one in self._segments if one.is_patched]
        indexed = [one for one in kept if one.unsound and not (one.has_loose_end or one.witnesses)]
        snapshots = tuple(dict.fromkeys(self._snapshots))
        if self._is_repaired:
            zeros = [one for one in self._segments if one.ends_with_zeros]
            kinds = {
                "header": patched,
                "index": indexed,
                "snapshot": () if cut is not None or self._is_lacking else snapshots,
                "zeros": zeros,
            }
            what = [_MENDED[kind] for kind, some in kinds.items() if some] + [_MENDED[kind] for kind in files.kinds]
            if what:
                paths = self._directory.path or ".", *files.beside
                told = mend(StepKind.REPAIR, "repair", (), paths).replace(size=self._records.size)
                yield told.replace(words=(("what", " and ".join(what)), *words))
            patched, indexed, snapshots = [], [], ()
        if patched:
            yield mend(StepKind.PATCH, "patch-header", patched, (one.log for one in patched))
        for one in self._segments:
            if one.has_loose_end and not (self._is_repaired and one.ends_with_zeros):
                loose = mend(StepKind.LOOSE_END, "truncate", [one], [one.log], "--at-damage")
                yield loose.replace(verb=None, command=loose.line)  # it takes one log
        if indexed:
            yield mend(StepKind.REINDEX, "reindex", indexed, (one.argument for one in indexed))
        if self._beside is not None:
            command = command_line("verify", named(self._directory.path or "."))
            yield move(StepKind.BESIDE, command, log=self._beside.log)
        if snapshots:
            yield mend(StepKind.SNAPSHOT, "reindex", (), snapshots, "--snapshot").replace(size=self._records.size)
        witnesses = [one for one in kept if one.witnesses]
        if witnesses:
            yield mend(StepKind.WITNESS, "reindex", witnesses, (one.log for one in witnesses), "--force")

    def _cut(self, cut: _Segment) -> Move:
        """The cut at the first damage, which takes what lies behind it along."""
        later = [one for one in self._jobs.values() if one.base_offset > cut.job.base_offset]
        first = cut.damage[0]
        where = f"the first damage, {_place(first)}" + (f" (offset {first.offset})" if first.offset is not None else "")
        cost = "nothing behind it is intact" if cut.ends_with_damage else "all that is intact behind it goes too"
        if later:
            noun = "1 later segment" if len(later) == 1 else f"{len(later)} later segments"
            cost = f"also deletes {noun} and every intact record after the damage"
        flags = ["--with-later-segments"] if later else []
        command = command_line("truncate", named(self._only or self._path), "--at-damage", *flags)
        if cut.blocked:  # its headers are not patched, and a cut at the damage would ask for that
            command = command_line("truncate", named(cut.log), "--to-position", str(first.position), *flags)
        keeps = self._records.before(cut.log, cut.end_before_damage, cut.records_before_damage)
        loses = self._records.intact.without(keeps)
        told = move(StepKind.CUT, command, where=where, cost=cost)
        return told.replace(keeps=keeps, loses=loses, size=self._records.size)


_MENDED = {
    "header": "header fields that no CRC covers and that can have one value only",
    "index": "indexes, from their logs",
    "snapshot": "producer snapshots, from the logs",
    "epochs": "the leader-epoch-checkpoint, from the batches",
    "zeros": "zero bytes behind the last batch of a log that another one continues",
    "partition-metadata": "partition.metadata, by the topic id that the cluster or another partition has",
}
"""What the step says of each kind that `kdump repair` mends in a partition."""


def _harmless(one: Move, keeps: Amount) -> Move:
    """What a person is told about a file, or that nothing is to be done: no record goes by it."""
    is_told = one.kind in (StepKind.PERSON, StepKind.CHECKPOINT, StepKind.MEND, StepKind.READABLE, StepKind.NOTHING)
    return one.replace(keeps=keeps, loses=NONE) if is_told else one


def _unsearched(found: Iterable[Finding]) -> list[int]:
    """The positions from which on no batch was looked for in a log."""
    limits = [one for one in found if one.code is Code.L12]
    if not limits:
        return []
    from kdump.format.batch.gap import is_unsearched

    return [one.position or 0 for one in limits if is_unsearched(one)]


def _place(finding: Finding) -> str:
    where = finding.file if finding.position is None else f"byte {finding.position} of {finding.file}"
    return f"{finding.code.name} {finding.code.slug} at {where}"


def _cause(finding: Finding) -> Code:
    """The code of what explains a finding, its own where nothing does."""
    return finding.code if finding.because is None else finding.because


class _Segment:
    """One segment in which something is wrong.

    Args:
        job: the segment.
        size: of its log, bytes.
        found: what is wrong with its files.
        is_whole: that is all of it.

    Attributes:
        unsound: what is wrong with its indexes, as far as building them again mends it.
        witnesses: what is wrong with its indexes, where building them again would give up what they tell of the log.
        causes: what explains others, and no command mends.
        blocked: a header field has one value only, and patches are refused for another one.
    """

    def __init__(self, job: SegmentJob, size: int, found: Sequence[Finding], *, is_whole: bool) -> None:
        self.job = job
        self._is_whole = is_whole
        self.log = job.files[FileKind.LOG]  # path of its log
        self.size = size  # of it, bytes
        errors = [one for one in found if one.file == self.log and one.severity is Severity.ERROR]
        self._state = LogState(self.log, job.base_offset, job.next_base, job.around, errors)
        self.damage = self._state.damage  # of its log, that no patch mends; by position
        self._not_searched = _unsearched(one for one in found if one.file == self.log)
        self.is_foreign = any(one.code is Code.F15 for one in found)  # it is not the segment of its name
        indexes = [one for one in found if self._is_of_index(one)]
        self.unsound = [one for one in indexes if Trait.CAUSE not in _cause(one).traits]
        self.witnesses = [one for one in indexes if Trait.WITNESSED in _cause(one).traits and not self.is_foreign]
        is_error = [one for one in found if one.severity is Severity.ERROR]
        self.causes = [one for one in is_error if Trait.CAUSE in one.code.traits]
        self.blocked = any(is_of_header(one) and isinstance(one.expected, int) for one in self.damage[:1])

    @property
    def is_torn(self) -> bool:
        """Whether all that is damaged is an end that a broker did not finish."""
        return bool(self.damage) and all(Trait.UNFINISHED in one.code.traits for one in self.damage)

    @property
    def is_misplaced_only(self) -> bool:
        """Whether nothing is wrong with it but its name."""
        return self.job.misplaced is not None and not (self.damage or self.unsound or self.is_patched)

    def _is_of_index(self, finding: Finding) -> bool:
        kind = parse_name(os.path.basename(finding.file)).kind
        if finding.values.get("remedy") == WITNESS:
            return False
        return kind in _INDEX_KINDS and Trait.REINDEX in finding.code.traits and finding.severity is not Severity.NOTE

    @property
    def argument(self) -> str:
        """The file that reindex is given for all indexes of the segment."""
        files = {one.file for one in self.unsound}
        only = files.pop() if len(files) == 1 else self.log
        return only if only in self.job.files.values() else self.log

    @property
    def has_error(self) -> bool:
        """Whether there is an error in its files that a command mends."""
        is_wrong = any(one.severity is Severity.ERROR for one in self.unsound)
        return bool(self.damage) or is_wrong or self.is_patched

    @property
    def is_patched(self) -> bool:
        """Whether patch-header mends something in its log."""
        return self._state.patches is not None

    @property
    def can_be_indexed(self) -> bool:
        """Whether reindex takes its log as it is."""
        return self._state.can_be_indexed

    def mends(self, finding: Finding) -> bool:
        """Whether patch-header mends it."""
        return self._state.mends(finding)

    def is_damage(self, finding: Finding) -> bool:
        """Whether it is about bytes of the log that no patch mends, and not about those of another partition's."""
        return self._state.is_damage(finding)

    def is_unsound(self, finding: Finding) -> bool:
        """Whether it is about an index."""
        return self._is_of_index(finding)

    def is_to_do(self, finding: Finding) -> bool:
        """Whether a step is about it, though no command for this finding alone."""
        is_cause = Trait.CAUSE in finding.code.traits or finding.values.get("remedy") == WITNESS
        return is_cause or self.mends(finding) or self.is_damage(finding) or self.is_unsound(finding)

    def while_swapping(self, finding: Finding) -> Finding:
        """Return a finding with what helps while files wait as `.swap`: no command mends anything in place."""
        if Trait.CAUSE in _cause(finding).traits:
            return finding
        is_of_index = self.is_unsound(finding)
        if not (is_of_index or self.is_damage(finding) or self.mends(finding)):
            return finding
        remedy = _ONCE_SWAPPED if is_of_index else _SALVAGED
        return finding.replace(values={**finding.values, "once": None, "remedy": remedy})

    def with_blocker(self, finding: Finding) -> Finding:
        """Return a finding about an index with what has to be done before; reindex refuses it before that."""
        if not self.is_unsound(finding) or Trait.CAUSE in _cause(finding).traits or self.can_be_indexed:
            return finding
        once = self._state.before_reindex
        return finding.replace(values={**finding.values, "once": once})

    @property
    def ends_with_damage(self) -> bool:
        """Whether nothing of the log behind its first damage is intact, and all of it was searched."""
        end = self.damage[0].position or 0
        for one in self.damage:
            if (one.position or 0) > end:
                return False
            end = max(end, (one.position or 0) + (one.length or 0))
        is_searched = not any(at >= (self.damage[0].position or 0) for at in self._not_searched)
        return self._is_whole and is_searched and end >= self.size

    @cached_property
    def has_loose_end(self) -> bool:
        """Whether all that is wrong is bytes behind its last batch for which the next log leaves no offset.

        They are space that nobody took back, or what an append left. A reader stops at them; a cut of this log alone
        loses nothing.
        """
        next_base = self.job.next_base
        if next_base is None or not self.damage or not all(one.gap for one in self.damage):
            return False
        return self.ends_with_damage and self.end_before_damage == next_base

    @property
    def ends_with_zeros(self) -> bool:
        """Whether that is zero bytes, and nothing else."""
        return self.has_loose_end and all(one.code is Code.L03 for one in self.damage)

    @property
    def without_loose_end(self) -> ShellCommand:
        """The command that cuts these bytes."""
        return command_line("truncate", named(self.log), "--at-damage")

    @property
    def end_before_damage(self) -> int:
        """The log end offset after a cut at the first damage; the base offset where no right batch is before it."""
        return self._before_damage[0]

    @property
    def records_before_damage(self) -> int | None:
        """How many records are in the log before its first damage; None where some batches do not tell."""
        return self._before_damage[1]

    @cached_property
    def _before_damage(self) -> tuple[int, int | None]:
        """Where the log ends before its first damage, and how many records are there."""
        opened = open_source(self.log, follow=False)
        if isinstance(opened, OpenFailure):
            return self.job.base_offset, None
        records: int | None = 0
        with opened, suppress(OSError):
            limit, job = VerifyOptions().max_batch_bytes, self.job
            walk = CheckedWalk(opened, ignore, segment=job.base_offset, next_base=job.next_base, max_batch_bytes=limit)
            for window in walk.windows(self.damage[0].position):
                is_plain = min(window.column(layout.MAGIC), default=layout.MAGIC_V2) >= layout.MAGIC_V2
                records = records + sum(window.column(layout.COUNT)) if is_plain and records is not None else None
            last = walk.checks.offsets.last
            return self.job.base_offset if last is None else last + 1, records
        return self.job.base_offset, None
