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
from kdump.checks.segment import check_segment
from kdump.finding import Code, Finding, Severity, Trait, ignore
from kdump.format.batch.header_fields import is_of_header
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.item import Checked, PartitionChecked, Progress, SegmentChecked
from kdump.rows.verdict import Certainty, Loss, Step
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
    from kdump.item import Item
    from kdump.storage.partition_dir import PartitionDir

_HELD = 10_000  # findings of one segment that wait for what is known of all of it; further ones name no command
_EARLY = 100  # of those that are not held, how many count for the steps
_INDEX_KINDS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
FROM_ANOTHER = "from another replica, if one is sound"
"""What a step says where no other replica was looked at."""

_OF_FIELD = Code.E01.remedy  # patch-header mends it: the checkpoint is right
_BUT_IN_DOUBT = "; it leaves out, and names, batches whose transaction may have ended in the damage"
_NAMED = 3  # files that a sentence names


class PartitionSteps:
    """Names the repairs of one partition.

    Args:
        directory: the partition.
        jobs: its segments, by base offset.
        only: the one file that is judged; None for all.
    """

    def __init__(self, directory: PartitionDir, jobs: Sequence[SegmentJob], only: str | None = None) -> None:
        self._directory = directory
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
        self._missing = NamedRanges()  # offsets of which no intact byte is here
        self._has_losses = False
        self._has_transactions = False

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
            elif isinstance(item, Finding) and Trait.URGENT in item.code.traits:
                self._persons.see(item)
            if kind is Progress:
                yield item
            elif kind is Checked or kind is PartitionChecked:
                yield from self._told(held) if is_loud else held
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
        yield from self._told(held) if is_loud else held
        has_missing = self._missing.offsets > 0
        if self._misplaced and not self._directory.is_leftover:
            yield from self._steps_of_names()
        elif any((self._segments, self._snapshots, self._beside, self._lost, has_missing, self._persons.has_some)):
            yield from self._steps()

    def _see_loss(self, loss: Loss) -> None:
        is_alone = Code.L19.name in loss.because
        self._has_losses = self._has_losses or loss.counts or is_alone
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
                yield item
                continue
            command = self._repair(segment, item)
            if command is not None:
                told = item if item.code is not Code.E03 else item.replace(values={**item.values, "remedy": _OF_FIELD})
                yield told.replace(repair=command)
                continue
            if shows_lost_log(item):
                self._lost = self._lost or item
                yield item
                continue
            told = item if segment is None else segment.with_blocker(item)
            if segment is None or not segment.is_to_do(item) or not self._has_steps(segment):
                self._persons.see(told)
            yield told

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
        if Trait.CAUSE in _cause(finding).traits:
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
        urgent = [(None, why) for why in self._persons.sentences(urgent=True)]
        rename = (
            f"stop the broker, and give the logs their names, which loses nothing: {renaming(renamed(self._misplaced))}"
        )
        is_all = len(self._segments) == len(self._misplaced) and all(one.is_misplaced_only for one in self._segments)
        again = command_line("verify", named(self._path))
        steps: list[tuple[ShellCommand | None, str]] = [
            *urgent,
            (None, rename if is_all else f"{rename}; then {again} names the steps for what else is wrong"),
            self._salvaged("writes all that is intact, under the right names,"),
            *((None, why) for why in self._persons.sentences(urgent=False)),
        ]
        for at, (command, why) in enumerate(steps, 1):
            instead = (at + 1,) if at == len(urgent) + 1 else ()
            yield Step(at, command, why, instead, self._path if command is not None else None, self._path)

    def _of_files(self, kept: Sequence[_Segment]) -> Iterator[tuple[ShellCommand | None, str]]:
        """Yield what mends files in place, and loses nothing that a reader gets.

        Args:
            kept: the segments that no cut takes away.
        """
        harmless = "" if self._has_losses else "; nothing is lost"
        patched = [one.log for one in self._segments if one.is_patched]
        if patched:
            why = f"restores header fields that no CRC covers and that can have one value only{harmless}"
            yield command_line("patch-header", *map(named, patched)), why
        for one in self._segments:
            if one.has_loose_end:
                yield (
                    one.without_loose_end,
                    f"cuts what is no batch at the end of this log, and touches no other log{harmless}",
                )
        indexed = [one.argument for one in kept if one.unsound and not one.has_loose_end]
        if indexed:
            why = f"builds the indexes that are missing or unsound again, from their logs{harmless}"
            yield command_line("reindex", *map(named, indexed)), why
        if self._beside is not None:
            why = f"names the steps for {self._beside.log}, which is damaged too; its indexes are mended with it"
            yield command_line("verify", named(self._directory.path or ".")), why
        if self._snapshots:
            logs = dict.fromkeys(self._snapshots)
            why = f"builds wrong producer snapshots again, from the logs{harmless}"
            yield command_line("reindex", *map(named, logs), "--snapshot"), why
        witnesses = [one.log for one in kept if one.witnesses]
        if witnesses:
            why = "builds indexes again from a log that they no longer belong to: what they tell of it is given up"
            yield command_line("reindex", *map(named, witnesses), "--force"), why

    def _steps(self) -> Iterator[Step]:
        """Yield what to do, in the order that works: what keeps most first, a cut last."""
        cut = next((one for one in self._segments if one.damage and not one.has_loose_end), None)
        kept = [one for one in self._segments if cut is None or one.job.base_offset < cut.job.base_offset]
        steps = list(self._of_files(kept))
        causes = [one.causes[0] for one in self._segments if one.causes]
        cause = self._lost or (causes[0] if causes and (cut is None or causes[0].file <= cut.log) else None)
        alternatives = [] if cause is None else [self._restored(_place(cause))]
        if self._lost is not None and cut is None and self._jobs:
            alternatives.append(self._salvaged("where no replica has the log that is lost: writes all that is intact"))
        if cut is not None:
            alternatives, last = self._of_cut(cut, cause or cut.damage[0])
            if self._is_kept(cut):
                steps.append(last)
        foreign = [one.log for one in self._segments if one.is_foreign]
        if foreign:
            why = f"writes all that is intact but for {', '.join(foreign[:_NAMED])}"
            alternatives = [*(one for one in alternatives if one[0] is None), self._salvaged(why)]
        urgent = [(None, why) for why in self._persons.sentences(urgent=True)]
        compare = [] if alternatives or not self._missing.offsets else [self._compare()]
        is_covered = bool(alternatives or compare)  # what is missing comes back with the rest
        covered = Trait.RESTORED if is_covered else None
        persons = [(None, why) for why in self._persons.sentences(urgent=False, without=covered)]
        before = len(urgent) + len(alternatives)
        first, count = before + len(persons), before + len(persons) + len(steps)
        for at, (command, why) in enumerate((*urgent, *alternatives, *compare, *persons, *steps), 1):
            is_better = len(urgent) < at <= before  # it makes a new copy of the partition, and nothing here is mended
            behind = at if command is None else first
            instead = tuple(range(behind + 1, count + 1)) if is_better else ()
            step = Step(at, command, why, instead, self._path if is_better else None, self._path)
            if compare and at == before + 1:
                step = step.replace(once_compared=self._restored(self._are_missing)[1])
            yield step

    @property
    def _are_missing(self) -> str:
        return f"{self._missing} {'is' if self._missing.offsets == 1 else 'are'} missing"

    def _compare(self) -> tuple[ShellCommand | None, str]:
        """The step about offsets that are missing where no other step brings them back."""
        command = command_line("verify", "--replicas", named(self._directory.path or "."), "OTHER")
        what = "it" if self._missing.offsets == 1 else "them"
        return command, f"{self._are_missing}: shows whether another replica has {what}, and how to restore {what}"

    def _restored(self, why: str) -> tuple[ShellCommand | None, str]:
        """The step that is better than all others."""
        how = "stop the broker, move the directory out of the log.dir, and let it be replicated again"
        if self._directory.parsed is not None and self._directory.parsed.is_raft_log:
            how = f"stop the node, {FETCH_AGAIN}"
        return None, f"restore {self._path} {FROM_ANOTHER} ({why}): {how}"

    def _salvaged(self, what: str) -> tuple[ShellCommand | None, str]:
        but = _BUT_IN_DOUBT if self._has_transactions else ""
        whose = () if parse_partition(base_name(self._path)) else ("--name", "TOPIC-N")
        return command_line("salvage", named(self._path), "--to", "DIR", *whose), f"{what} to a new directory{but}"

    def _of_cut(
        self, cut: _Segment, cause: Finding
    ) -> tuple[list[tuple[ShellCommand | None, str]], tuple[ShellCommand, str]]:
        """Return what keeps more than a cut, and the cut."""
        first = cut.damage[0]
        better = [self._restored(_place(cause))]
        later = [job for job in self._jobs.values() if job.base_offset > cut.job.base_offset]
        if _salvage_keeps_more(cut, later):
            better.append(self._salvaged("writes all that is intact, what lies behind the damage too,"))
        where = f"the first damage, {_place(first)}" + (f" (offset {first.offset})" if first.offset is not None else "")
        why = f"cuts the log at {where}: "
        if later:
            noun = "1 later segment" if len(later) == 1 else f"{len(later)} later segments"
            why += f"{noun} and all that is intact behind it go too"
        else:
            why += "nothing behind it is intact" if cut.ends_with_damage else "all that is intact behind it goes too"
        flags = ["--with-later-segments"] if later else []
        if cut.blocked:  # its headers are not patched, and a cut at the damage would ask for that
            return better, (
                command_line("truncate", named(cut.log), "--to-position", str(first.position), *flags),
                why,
            )
        return better, (command_line("truncate", named(self._only or self._path), "--at-damage", *flags), why)


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
        job: the same.
        log: path of its log.
        damage: of its log, that no patch mends; by position.
        unsound: what is wrong with its indexes, as far as building them again mends it.
        witnesses: the same, where that would give up what they tell of the log.
        causes: what explains others, and no command mends.
        blocked: a header field has one value only, and patches are refused for another one.
        is_foreign: it is not the segment of its name.
    """

    def __init__(self, job: SegmentJob, size: int, found: Sequence[Finding], *, is_whole: bool) -> None:
        self.job = job
        self._is_whole = is_whole
        self.log = job.files[FileKind.LOG]
        self._size = size
        errors = [one for one in found if one.file == self.log and one.severity is Severity.ERROR]
        self._state = LogState(self.log, job.base_offset, job.next_base, job.around, errors)
        self.damage = self._state.damage
        self._not_searched = [one.position or 0 for one in found if one.file == self.log and one.code is Code.L12]
        self.is_foreign = any(one.code is Code.F15 for one in found)
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


class PersonSteps:
    """What is wrong and no command mends: one sentence a code."""

    def __init__(self) -> None:
        self._found: dict[Code, tuple[Finding, list[str]]] = {}

    @property
    def has_some(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._found)

    def see(self, finding: Finding) -> None:
        """Take one finding; notes, warnings, effects of a cause and what has no remedy leave nothing to do."""
        is_to_do = finding.severity is Severity.ERROR or Trait.URGENT in finding.code.traits
        if is_to_do and finding.because is None and not finding.remedy.startswith("none"):
            _, files = self._found.setdefault(finding.code, (finding, []))
            if finding.file not in files and len(files) <= _NAMED:
                files.append(finding.file)

    def sentences(self, *, urgent: bool | None = None, without: Trait | None = None) -> Iterator[str]:
        """Yield what a person does about them.

        Args:
            urgent: those only that come before all other steps, or all but those; None for all.
            without: codes with this trait are left out; None for none.
        """
        for code, (finding, files) in self._found.items():
            if without in code.traits:
                continue
            if urgent is not None and urgent is not (Trait.URGENT in code.traits):
                continue
            more = ", and others" if len(files) > _NAMED else ""
            what = f"{', '.join(files[:_NAMED])}{more}: {code.name} {code.slug}"
            yield f"{what}: {finding.remedy}"
