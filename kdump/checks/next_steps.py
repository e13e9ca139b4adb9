"""What to do about damage: to each finding the command that mends it, and for each partition the steps that work.

A command is named only where it mends: header fields where each has one value, indexes where a recovery gets to the end
of their log, a cut where nothing behind the damage is intact. What costs intact records is never the repair of a
finding: it is the last of the steps, after those that keep more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.load.log_state import LogState
from kdump.broker.producer.lost_aborts import WITNESS
from kdump.checks.options import VerifyOptions
from kdump.checks.removed_records import RemovedRecords
from kdump.checks.segment import check_segment
from kdump.checks.step_sentences import DELETED_TOO, FROM_ANOTHER, MOST_NAMED, PersonSteps, StepKind, StepList
from kdump.finding import Code, Finding, Severity, Trait, ignore
from kdump.format.batch.header_fields import is_of_header
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.item import Checked, PartitionChecked, Progress, SegmentChecked
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.evidence import shows_lost_log
from kdump.storage.file_source import OpenFailure
from kdump.storage.misplaced import renamed
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.paths import base_name
from kdump.storage.raft_snapshots import FETCH_AGAIN
from kdump.words.command import ShellCommand, command_line, named, renaming
from kdump.words.numbers import NamedRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.checks.job import SegmentJob
    from kdump.checks.swaps import SwapCheck
    from kdump.item import Item
    from kdump.rows.verdict import Step
    from kdump.storage.partition_dir import PartitionDir

_HELD = 10_000  # findings of one segment that wait for what is known of all of it; further ones name no command
_EARLY = 100  # of those that are not held, how many count for the steps
_INDEX_KINDS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
_OF_FIELD = Code.E01.remedy  # patch-header mends it: the checkpoint is right
_ONCE_SWAPPED = "let a broker put the .swap files in place first, or salvage the partition"
_SALVAGED = "restore from another replica, or salvage the partition: nothing is mended here while files wait as .swap"
_BUT_IN_DOUBT = "; it leaves out, and names, batches whose transaction may have ended in the damage"


class PartitionSteps:
    """Names the repairs of one partition.

    Args:
        directory: the partition.
        jobs: its segments, by base offset.
        only: the one file that is judged; None for all.
        swaps: what waits as `.swap`, None for nothing: no command mends anything in place meanwhile.
        has_transactions: a segment whose items are not given has some.
    """

    def __init__(
        self,
        directory: PartitionDir,
        jobs: Sequence[SegmentJob],
        only: str | None = None,
        swaps: SwapCheck | None = None,
        *,
        has_transactions: bool = False,
    ) -> None:
        self._directory = directory
        self._swaps = swaps
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
        self._persons = PersonSteps()
        self._removed = RemovedRecords()
        self._missing = NamedRanges()  # offsets of which no intact byte is here
        self._has_losses = False
        self._has_transactions = has_transactions

    @property
    def _path(self) -> str:
        """What a restore and salvage name: the partition, as one segment of it in its place loses all others."""
        path = self._directory.path or "."
        found = parse_partition(base_name(path))
        return path if self._only is None or (found is not None and not found.state) else self._only

    def through(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items with the repairs of findings, and at the end the steps, numbered from 1 on.

        Args:
            items: of the partition: findings come before the `SegmentChecked` and `Checked` of their files.
        """
        held: list[Item] = []
        is_loud = False
        for item in items:
            kind = type(item)
            if isinstance(item, Loss):
                self._see_loss(item)
            elif isinstance(item, Finding) and item.code is Code.F16:
                self._removed.see(item)
            elif isinstance(item, Finding) and Trait.URGENT in item.code.traits:
                self._persons.see(item)
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
        has_others = self._missing.offsets > 0 or self._persons.has_some or self._removed.has_some
        if self._is_harmful:
            yield from self._steps_of_swaps()
        elif self._misplaced and not self._directory.is_leftover:
            yield from self._steps_of_names()
        elif any((self._segments, self._snapshots, self._beside, self._lost, has_others)):
            yield from self._steps()

    def _see_loss(self, loss: Loss) -> None:
        is_alone = Code.L19.name in loss.because
        self._has_losses = self._has_losses or loss.counts or is_alone
        self._removed.see_loss(loss, is_alone=is_alone)
        if is_alone or (loss.certainty is Certainty.LOST and not loss.is_known):
            self._missing.add(loss.offset, loss.last_offset)

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
        if segment.is_unsound(finding) and segment.can_be_indexed:
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

    # --- steps ----------------------------------------------------------------------------------------------
    def _steps_of_names(self) -> Iterator[Step]:
        """Yield what to do about logs under the name of another segment: what else is wrong waits for their names."""
        steps = self._step_list()
        is_all = len(self._segments) == len(self._misplaced) and all(one.is_misplaced_only for one in self._segments)
        kind, again = StepKind.RENAME if is_all else StepKind.RENAME_FIRST, command_line("verify", named(self._path))
        steps.add(kind, moves=renaming(renamed(self._misplaced)), again=again)
        self._salvage(steps, "writes all that is intact, under the right names,")
        self._persons.add_to(steps)
        return steps.numbered()

    def _steps_of_swaps(self) -> Iterator[Step]:
        """Yield what to do about files that wait and are worse than what goes for them: what else is wrong waits."""
        assert self._swaps is not None
        steps, way = self._step_list(), self._swaps.way
        if way.is_move:
            again = command_line("verify", named(self._directory.path or "."))
            steps.add(StepKind.SWAP, way.command, again=again)
            self._salvage(steps, "writes what is intact here and there")
        else:
            but = _BUT_IN_DOUBT if self._has_transactions else ""
            what = "before a broker starts: writes what is intact in what waits, and in what goes for it,"
            steps.add(StepKind.SALVAGE, way.command, what=what, but=but)
        self._persons.add_to(steps, without=Trait.RESTORED)
        return steps.numbered()

    def _step_list(self) -> StepList:
        """The steps, with those about what a broker is to remove."""
        steps = StepList(self._path, reads_deleted=self._removed.may_bring_back)
        self._removed.add_to(steps)
        return steps

    def _steps(self) -> Iterator[Step]:
        """Yield what to do, in the order that works: what keeps most first, a cut last."""
        steps = self._step_list()
        cut = next((one for one in self._segments if one.damage and not one.has_loose_end), None)
        causes = [one.causes[0] for one in self._segments if one.causes]
        cause = self._lost or (causes[0] if causes and (cut is None or causes[0].file <= cut.log) else None)
        if cause is None and cut is not None:
            cause = cut.damage[0]
        if cause is not None:
            steps.add(StepKind.RESTORE, **self._of_restore(_place(cause)))
        later = [] if cut is None else [one for one in self._jobs.values() if one.base_offset > cut.job.base_offset]
        foreign = [one.log for one in self._segments if one.is_foreign]
        has_salvage = True
        if foreign:
            self._salvage(steps, f"writes all that is intact but for {', '.join(foreign[:MOST_NAMED])}")
        elif cut is not None and _salvage_keeps_more(cut, later):
            self._salvage(steps, "writes all that is intact, what lies behind the damage too,")
        elif cut is None and self._lost is not None and self._jobs:
            self._salvage(steps, "where no replica has the log that is lost: writes all that is intact")
        elif self._swaps is not None and any(one.has_error for one in self._segments):
            self._salvage(steps, "writes the partition as a start makes it, with all that is intact,")
        else:
            has_salvage = False
        is_covered = cause is not None or has_salvage
        if self._missing.offsets and not is_covered:
            self._compare(steps)
            is_covered = True
        # what is missing comes back with the rest
        self._persons.add_to(steps, without=Trait.RESTORED if is_covered else None)
        if self._swaps is None:
            self._mend_files(steps, cut)
            if cut is not None and self._is_kept(cut):
                self._cut(steps, cut, later)
        return steps.numbered()

    def _mend_files(self, steps: StepList, cut: _Segment | None) -> None:
        """Add what mends files in place, and loses nothing that a reader gets; not those that a cut takes away."""
        kept = [one for one in self._segments if cut is None or one.job.base_offset < cut.job.base_offset]
        harmless = "" if self._has_losses else "; nothing is lost"
        patched = [one.log for one in self._segments if one.is_patched]
        if patched:
            steps.add(StepKind.PATCH, command_line("patch-header", *map(named, patched)), harmless=harmless)
        for one in self._segments:
            if one.has_loose_end:
                steps.add(StepKind.LOOSE_END, one.without_loose_end, harmless=harmless)
        indexed = [one.argument for one in kept if one.unsound and not one.has_loose_end]
        if indexed:
            steps.add(StepKind.REINDEX, command_line("reindex", *map(named, indexed)), harmless=harmless)
        if self._beside is not None:
            command = command_line("verify", named(self._directory.path or "."))
            steps.add(StepKind.BESIDE, command, log=self._beside.log)
        if self._snapshots:
            command = command_line("reindex", *map(named, dict.fromkeys(self._snapshots)), "--snapshot")
            steps.add(StepKind.SNAPSHOT, command, harmless=harmless)
        witnesses = [one.log for one in kept if one.witnesses]
        if witnesses:
            steps.add(StepKind.WITNESS, command_line("reindex", *map(named, witnesses), "--force"))

    def _compare(self, steps: StepList) -> None:
        """Add the step about offsets that are missing where no other step brings them back."""
        command = command_line("verify", "--replicas", named(self._directory.path or "."), "OTHER")
        is_one = self._missing.offsets == 1
        missing = f"{self._missing} {'is' if is_one else 'are'} missing"
        why_once_compared = StepKind.RESTORE.sentence.format_map(self._of_restore(missing))
        them = "it" if is_one else "them"
        steps.add(StepKind.COMPARE, command, why_once_compared=why_once_compared, missing=missing, them=them)

    def _of_restore(self, cause: str) -> dict[str, str]:
        """The words of the step that is better than all others."""
        how = "stop the broker, move the directory out of the log.dir, and let it be replicated again"
        if self._directory.parsed is not None and self._directory.parsed.is_raft_log:
            how = f"stop the node, {FETCH_AGAIN}"
        return {"path": self._path, "source": FROM_ANOTHER, "cause": cause, "how": how}

    def _salvage(self, steps: StepList, what: str) -> None:
        """Add the step that writes what is intact to another directory."""
        whose = () if parse_partition(base_name(self._path)) else ("--name", "TOPIC-N")
        deleted = DELETED_TOO if self._removed.may_bring_back else ()
        command = command_line("salvage", named(self._path), *deleted, "--to", "DIR", *whose)
        brings = self._removed.brings()
        but = f", with {brings}" if brings else ""
        steps.add(StepKind.SALVAGE, command, what=what, but=but + (_BUT_IN_DOUBT if self._has_transactions else ""))

    def _cut(self, steps: StepList, cut: _Segment, later: Sequence[SegmentJob]) -> None:
        """Add the cut at the first damage, which takes what lies behind it along."""
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
        steps.add(StepKind.CUT, command, where=where, cost=cost)


def _unsearched(found: Iterable[Finding]) -> list[int]:
    """The positions from which on no batch was looked for in a log."""
    limits = [one for one in found if one.code is Code.L12]
    if not limits:
        return []
    from kdump.format.batch.gap import is_unsearched

    return [one.position or 0 for one in limits if is_unsearched(one)]


def _salvage_keeps_more(cut: _Segment, later: Sequence[SegmentJob]) -> bool:
    """Whether `kdump salvage` keeps records that a cut at the first damage takes away.

    Args:
        cut: the segment with the first damage.
        later: the segments behind it.
    """
    return bool(later) or not cut.ends_with_damage


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
        self._size = size
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
        return self._is_whole and is_searched and end >= self._size

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
    def without_loose_end(self) -> ShellCommand:
        """The command that cuts these bytes."""
        return command_line("truncate", named(self.log), "--at-damage")

    @cached_property
    def end_before_damage(self) -> int:
        """The log end offset after a cut at the first damage; the base offset where no right batch is before it."""
        opened = open_source(self.log, follow=False)
        if isinstance(opened, OpenFailure):
            return self.job.base_offset
        with opened, suppress(OSError):
            limit, job = VerifyOptions().max_batch_bytes, self.job
            walk = CheckedWalk(opened, ignore, segment=job.base_offset, next_base=job.next_base, max_batch_bytes=limit)
            for _ in walk.windows(self.damage[0].position):
                pass
            last = walk.checks.offsets.last
            return self.job.base_offset if last is None else last + 1
        return self.job.base_offset
