"""What verify finds, as plain text: one fact a line, in stable words that scripts can match.

A line `STATUS<TAB>PATH` for each file, its findings below it, one summary line at the end. Nothing grows with a file:
of each code and severity four findings are held until the status of their file is known. Without folding they
are not held at all, and stand above the status lines of their group instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.finding import Finding, Severity
from kdump.item import Checked, PartitionChecked
from kdump.render.fold import FileFindings
from kdump.render.sink import Sink
from kdump.render.text.findings import finding_line, fold_line
from kdump.render.text.losses import LossesInTurn, LossSum
from kdump.rows.verdict import Loss, Prediction, Step
from kdump.tally import LOST, Tally, status
from kdump.words.escape import escape
from kdump.words.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kdump.item import Item
    from kdump.rows.verdict import SegmentFate
    from kdump.storage.file_source import OpenFailure


_OK = status(FileFindings().severities())
_UNREAD = "UNREAD"
_READ = ("partitions", "files", "bytes", "batches", "records")
_LOST = ("offsets_lost", "records_lost", "records_unknown")


class VerifyText(Sink):
    """Writes what is checked as text.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
        fold: write out four findings of each code in a file, and count the rest and the effects of a cause.
        wanted: tells what is shown when little is to be shown; None for everything.
        notes: write notes; else they are counted only.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        error: Callable[[str], None],
        tally: Tally,
        *,
        fold: bool,
        wanted: Callable[[Item], bool] | None,
        notes: bool = True,
    ) -> None:
        super().__init__(write, error, tally, wanted)
        self._notes = notes
        self._tally = tally
        self._fold = fold
        self._group: dict[str, _File] = {}
        self._unread: set[str] = set()
        self._is_silent = True
        self._losses = LossesInTurn(self._said)
        self._damaged: set[str] = set()  # directories with an error

    @takes(Loss, always=True)
    def _loss(self, loss: Loss) -> None:
        self._losses.add(loss)

    @takes(PartitionChecked, always=True)
    def _partition(self, _item: PartitionChecked) -> None:
        self._losses.end()

    @takes(Checked, always=True)
    def _checked(self, item: Checked) -> None:
        self._close([file.path for file in item.files])

    @takes(Prediction)
    def _prediction(self, prediction: Prediction) -> None:
        self._line(prediction_line(prediction))

    @takes(Step)
    def _step(self, step: Step) -> None:
        self._close(())
        self._losses.end()
        self._line(step_line(step))

    def end(self, _exit: int) -> None:
        """Write the summary; when little is to be shown, only below something else."""
        self._losses.end()
        self._close(())
        if self._wanted is None or not self._is_silent:
            tally = self._tally
            told = [f"{name}={getattr(tally, name)}" for name in _READ]
            told += [f"{severity.value}s={tally.severities[severity]}" for severity in Severity]
            if any(getattr(tally, name) for name in _LOST):
                told += [f"{name}={getattr(tally, name)}" for name in _LOST]
            if tally.offsets_unexplained:
                told.append(f"offsets_unexplained={tally.offsets_unexplained}")
            self._line(f"checked {' '.join(told)} unchecked={len(tally.unchecked)}")

    def _said(self, lost: LossSum) -> None:
        """Write what a partition has lost."""
        sentence = lost.sentence(f" in {lost.path}")
        if sentence is not None:
            if os.path.join(lost.path, "") not in self._damaged:  # then no line of a file tells that something is wrong
                self._line(f"{LOST}\t{escape(lost.path)}")
            self._line(escape(sentence))

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        """Hold a finding until the status of its file is known, or write it."""
        if finding.severity is Severity.ERROR:
            self._damaged.add(os.path.join(os.path.dirname(finding.file) or os.curdir, ""))
        file = self._group.get(finding.file)
        if file is None:
            file = self._group[finding.file] = _File(fold=self._fold)
        is_listed = self._notes or finding.severity is not Severity.NOTE
        if not self._fold:
            file.add(finding)
            if is_listed:
                self._line(finding_line(finding))
        elif file.add(finding) and is_listed:
            file.lines.append(finding_line(finding))

    def _problem(self, problem: OpenFailure) -> None:
        self._unread.add(problem.path)
        self._line(f"{_UNREAD}\t{escape(problem.path)}")
        super()._problem(problem)

    def _close(self, judged: Iterable[str]) -> None:
        """Write what is known of the files of a group; what was found of others is about files that are not there."""
        for path in judged:
            file = self._group.pop(path, None)
            if file is not None or self._wanted is None:
                self._file(path, file or _File(fold=self._fold), is_there=path not in self._unread)
        for path, file in self._group.items():
            self._file(path, file, is_there=False)
        self._group.clear()
        self._unread.clear()

    def _file(self, path: str, file: _File, *, is_there: bool) -> None:
        word = status(file.severities())
        if is_there or word != _OK:  # nobody calls a file sound that is not there, or that could not be read
            self._line(f"{word}\t{escape(path)}")
        for line in file.lines:
            self._line(line)
        for folded in file.folded():
            if self._notes or folded.severity is not Severity.NOTE:
                self._line(fold_line(folded))

    def _line(self, line: str) -> None:
        self._is_silent = False
        self._write(f"{line}\n")


class _File(FileFindings):
    """What was found in one file, and the lines that say so."""

    def __init__(self, *, fold: bool) -> None:
        super().__init__(fold=fold)
        self.lines: list[str] = []


_MOST = 6  # segments that a sentence names


def step_line(step: Step) -> str:
    """Return one line: what to do, a command with its reason as a comment of the shell."""
    what = escape(step.why) if step.command is None else f"{step.command}  # {escape(step.why)}"
    return f"step {step.n}: {what}{instead_of(step)}"


def instead_of(step: Step) -> str:
    """Return the numbers of the steps that one makes unnecessary, in brackets; nothing where there are none."""
    if not step.instead:
        return ""
    noun = "step" if len(step.instead) == 1 else "steps"
    return f" (when this is done, leave out {noun} {', '.join(map(str, step.instead))})"


def prediction_line(one: Prediction) -> str:
    """Return one fact line: name=value pairs, the segments that do not stay as they are last."""
    loads = "true" if one.loads else "false"
    parts = [f"prediction {escape(one.partition)} start={one.start} loads={loads}"]
    if one.loads:
        parts.append(f"start_offset={one.log_start_offset} end={one.log_end_offset}")
    else:
        parts.append(f"stops={one.stops} class={one.reason_class}")
    parts.append(f"lost_bytes={one.bytes_lost} lost_records={one.records_lost}")
    if one.hidden_records:
        parts.append(f"hidden_records={one.hidden_records}")
    if one.reused_offsets is not None:
        parts.append(f"reused_offsets={one.reused_offsets[0]}..{one.reused_offsets[1]}")
    if one.cause is not None:
        parts.append(f'cause={one.cause.code}:"{escape(one.cause.file)}"')
    parts += [f"segment={it.base_offset}:{it.action}:{it.size}" for it in one.segments if it.action != "keep"]
    parts += [f'assumed="{escape(what)}"' for what in one.assumed]
    if one.reason is not None:
        parts.append(f'reason="{escape(one.reason)}"')
    said = []
    if one.torn is not None:
        ends = [one.torn.last_offset, *(one.reused_offsets or ())]  # checkpoints know more of the end
        said.append(f"the log ended at {max(ends) + 1}")
    said += filter(None, (_torn(one), hidden_sentence(one)))
    return " ".join(parts) + (f": {'; '.join(said)}" if said else "")


def hidden_sentence(one: Prediction) -> str:
    """Return what stays on disk and is not served any more, and what is given out again; empty for nothing."""
    found = [f"HIDES {counted(one.hidden_records, 'record')}"] if one.hidden_records else []
    if one.reused_offsets is not None:
        first, last = one.reused_offsets
        found.append(f"offset {first} will be" if first == last else f"offsets {first}..{last} will be")
        found[-1] += " given out again"
    return "; ".join(found)


def prediction_sentences(one: Prediction, end: int | None) -> list[str]:
    """Return what a broker does with a partition, the consequences first.

    Args:
        one: the prediction.
        end: the log end offset by the data, None where it is not known.
    """
    lost = _lost(one)
    if not one.loads:
        found = [escape(one.reason or "")]
        return [*found, f"before that it cuts away {lost}"] if lost else found
    if one.reused_offsets is not None:
        end = max(end or 0, one.reused_offsets[1] + 1)
    was = "" if end in (None, one.log_end_offset) else f" (was {end})"
    done = ", ".join(filter(None, (_done(one.segments), _torn(one)))) or "keeps all logs and indexes"
    found = [f"loads, end offset {one.log_end_offset}{was}: {done}"]
    if lost:
        offsets = max(0, (end or 0) - (one.log_end_offset or 0))
        found.append(f"{counted(offsets, 'offset')}, {lost} lost" if offsets else f"{lost} lost")
    hidden = hidden_sentence(one)
    if one.is_stray:
        found.append("a broker with KRaft renames the directory to -stray: partition.metadata is missing")
    return [*found, hidden] if hidden else found


def _torn(one: Prediction) -> str:
    if one.torn is None or not one.keeps_torn:
        return ""
    where = f"byte {one.torn.position} of segment {one.torn.base_offset}"
    return f"keeps the torn batch at {where}, and appends behind it; consumers stop there"


def _lost(one: Prediction) -> str:
    if not one.bytes_lost:
        return ""
    records = counted(one.records_lost, "record") if one.records_lost else "no readable record"
    return f"{size(one.bytes_lost)} ({records})"


def _done(segments: Iterable[SegmentFate]) -> str:
    groups: dict[str, list[SegmentFate]] = {}
    for one in segments:
        if one.action != "keep":
            groups.setdefault(one.action, []).append(one)
    return ", ".join(_phrase(action, them) for action, them in groups.items())


def _phrase(action: str, segments: list[SegmentFate]) -> str:
    if action == "truncate":
        return " and ".join(f"cuts segment {one.base_offset} at byte {one.size}" for one in segments)
    words = {
        "rebuild-index": "makes new indexes of",
        "empty": "empties",
        "delete": "deletes",
        "split": "splits",
        "create": "makes",
        "replace": "puts finished work of compaction in the place of",
    }
    names = ", ".join(str(one.base_offset) for one in segments[:_MOST])
    more = f" and {len(segments) - _MOST:,} more" if len(segments) > _MOST else ""
    noun = "segment" if len(segments) == 1 else "segments"
    return f"{words[action]} {noun} {names}{more}"
