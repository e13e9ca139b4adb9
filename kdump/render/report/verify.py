"""What verify finds, for people: a line for each partition, what to do, what a broker will do, then what is wrong.

It is the same on a terminal and in a pipe, but for colour, width, and what a screen folds. What is left out (notes, and
what goes on without end on a screen) is counted, and the count says how to get it. Nothing grows with a file: findings
are held until the end, a thousand at most; more are written at once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from kdump.dispatch import Dispatcher, takes
from kdump.finding import Finding, Severity
from kdump.item import Checked, PartitionChecked
from kdump.render.fold import FileFindings
from kdump.render.report.page import Page, ShownBlock, ShownOption
from kdump.render.sink import Sink
from kdump.render.text.losses import LossesInTurn, LossSum
from kdump.render.text.verify import amounts_of, hidden_sentence, prediction_sentences, rank_of
from kdump.rows.steps import Rank, Step, blocks_of
from kdump.rows.verdict import Loss, Prediction
from kdump.storage.paths import base_name
from kdump.tally import NO_RECORDS, Tally
from kdump.verdict import LOST, SOUND, UNREAD, Judgement
from kdump.words.command import command_line
from kdump.words.escape import escape
from kdump.words.numbers import counted, offset_span, size

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.item import CheckedFile, Item
    from kdump.render.fold import Folded
    from kdump.render.report.styled import Paper
    from kdump.storage.file_source import OpenFailure

    _Found: TypeAlias = tuple[str, Sequence[Finding], Sequence[Folded]]

_HELD = 1000  # findings
_MOST_NAMED = 3  # partitions in the heading of a block
_PATTERN = frozenset("*?[")  # may stand for several paths


class VerifyTable(Sink):
    """Writes what is checked as a table.

    Args:
        paper: what it is written on.
        error: takes one line for stderr.
        tally: adds up.
        paths: what the user named: these files get a line each, and one directory alone need not be repeated.
        fold: leave out sound partitions after a screenful, and what repeats in a file.
        wanted: tells what is shown when little is to be shown; None for everything.
        notes: write notes; else they are counted only.
        raw: write names as they are.
        before: called before something is written.
        hosts: tells the host of a path, empty where it need not be told.
        only_starts: nothing is checked, the next start is told: that of partitions that lose nothing is counted.
    """

    def __init__(
        self,
        paper: Paper,
        error: Callable[[str], None],
        tally: Tally,
        paths: Sequence[str],
        *,
        fold: bool,
        wanted: Callable[[Item], bool] | None,
        notes: bool = False,
        raw: bool = False,
        before: Callable[[], None] = lambda: None,
        hosts: Callable[[str], str] = lambda _path: "",
        only_starts: bool = False,
    ) -> None:
        super().__init__(paper.line, error, tally, wanted)
        self._page = Page(paper, before, fold=fold)
        self._tally = tally
        self._named = dict.fromkeys(paths, False)  # files, and whether offsets of them are lost
        self._is_alone = len(paths) == 1 and not _PATTERN & set(paths[0])
        self._fold = fold
        self._notes = notes
        self._safe: Callable[[str], str] = str if raw else escape
        self._hosts = hosts
        self._group: dict[str, _File] = {}  # of the files that are being judged
        self._held: dict[str, _File] = {}  # of the files before them in the same directory
        self._directory: str | None = None
        self._count = 0  # of findings that are held
        self._last = ("", "")  # the partition of the last row: its path, and its name there
        self._found: list[_Found] = []  # of files that have their row: written below the next steps
        self._has_heading = False  # that of what was found is written
        self._unread: dict[str, list[str]] = {}  # paths by their directory; one may be a directory that is not listed
        self._losses = LossesInTurn(self._said)
        self._outlook = _Outlook(self._partition_name, fold=fold or only_starts)
        self._only_starts = only_starts
        self._remarks: dict[str, None] = {}  # on partitions, each once

    def _partition_name(self, path: str, partition: str) -> str:
        return self._safe(partition if self._is_alone else path)

    @takes(Loss, always=True)
    def _loss(self, loss: Loss) -> None:
        self._losses.add(loss)
        if loss.counts and loss.file in self._named:
            self._named[loss.file] = True

    @takes(Step, Prediction)
    def _ahead(self, item: Step | Prediction) -> None:
        self._outlook.take(item)

    def end(self, code: int) -> None:
        """Write the last line: totals and verdict; when little is to be shown, only below something else.

        Args:
            code: the exit status.
        """
        self._losses.end()
        self._close(())
        self._loose()
        self._page.end_rows(has_steps=self._outlook.has_steps)
        if self._wanted is None:
            self._outlook.recommend(self._page)
        self._outlook.forecast(self._page)
        self._details()
        if self._wanted is None:
            self._outlook.others(self._page)
        if self._wanted is not None and self._page.is_empty:
            return
        for one in self._remarks:
            self._page.note(one)
        is_gate = self._only_starts
        totals = _foreseen(self._tally, self._outlook) if is_gate else _totals(self._tally, notes=self._notes)
        self._page.last(totals, f"exit {code}" if code else "")

    def write_held(self) -> None:
        """Write what is held."""
        self._page.end_rows()
        self._let_out()

    def _details(self) -> None:
        """Write what was found in the files that have their row."""
        if not self._has_heading and self._found:
            self._page.heading("what was found")
            self._has_heading = True
        self._page.late_rows()
        for name, findings, folded in self._found:
            self._page.block(name, findings, folded)
        self._found.clear()

    def _said(self, lost: LossSum) -> None:
        """Write what a partition has lost."""
        sentence = lost.sentence()
        if sentence is not None:
            path, name = self._last
            self._page.lost(name if path == lost.path else self._safe(lost.path), escape(sentence))

    def _problem(self, problem: OpenFailure) -> None:
        if problem.kind != "skipped":
            self._unread.setdefault(os.path.dirname(problem.path), []).append(problem.path)
        super()._problem(problem)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        """Hold a finding until the row of its partition is written."""
        self._outlook.take(finding)
        file = self._held.get(finding.file) or self._group.get(finding.file)
        if file is None:
            file = self._group[finding.file] = _File(fold=self._fold)
        if file.add(finding) and (self._notes or finding.severity is not Severity.NOTE):
            file.held.append(finding)
            self._count += 1
        if self._count >= _HELD:  # so that it does not grow, before the line of the partition
            self._let_out()

    def _let_out(self) -> None:
        """Write what is held, also of files that have no row so far."""
        self._details()
        for path, one in (*self._held.items(), *self._group.items()):
            self._page.block(self._safe(path), one.held, ())
            one.held.clear()
        self._count = 0

    @takes(Checked, always=True)
    def _checked(self, item: Checked) -> None:
        self._close(item.files)

    def _close(self, files: Sequence[CheckedFile]) -> None:
        """Put what was found in a group to what is known of its directory."""
        paths = [file.path for file in files] or list(self._group)
        if any(path in self._named for path in paths):
            self._loose()
            for file in files:
                found = self._group.pop(file.path, None)
                self._file(file.path, found or _File(fold=self._fold), size(file.size))
            for path, absent in self._group.items():
                self._file(path, absent)
        else:
            self._enter(os.path.dirname(paths[0]) if paths else self._directory)
            self._held.update(self._group)
        self._group = {}

    def _enter(self, directory: str | None) -> None:
        """What comes next is in this directory: a directory that is left without a verdict is not a partition."""
        if directory != self._directory:
            self._loose()
            self._directory = directory

    def _loose(self) -> None:
        """Write what is held of files that turned out to be in no partition directory."""
        for path, file in self._held.items():
            self._file(path, file)
        self._held = {}

    def _file(self, path: str, file: _File, length: str = "") -> None:
        """Write the findings of a file outside of partitions, or of a partition that has its row."""
        severities = file.severities()
        is_lost = self._named.get(path, False)
        is_unread = path in self._unread.get(os.path.dirname(path), ())
        word = file.verdict.word(is_lost=is_lost, is_unread=is_unread)
        has_row = path in self._outlook.ends and not (severities[Severity.ERROR] or severities[Severity.WARNING])
        if (self._wanted is None or severities or is_lost) and not has_row:
            self._page.row("file", self._safe(path), (length,), word, _counts(severities))
        self._block(self._safe(path), file)

    @takes(PartitionChecked, always=True)
    def _partition(self, item: PartitionChecked) -> None:
        self._close(())
        directory = os.path.dirname(os.path.join(item.path, "x"))
        self._enter(directory)
        verdict = Judgement()
        for file in self._held.values():
            verdict.join(file.verdict)
        severities = verdict.severities
        is_listed = item.path not in self._unread.get(os.path.dirname(item.path), ())
        unread = len(self._unread.pop(directory, ()))
        word = verdict.word(is_lost=item.offsets_lost > 0, is_unread=unread > 0)
        reasons = _counts(severities)
        if word == LOST and item.offsets_lost:
            reasons = ", ".join(filter(None, (f"{counted(item.offsets_lost, 'offset')} lost", reasons)))
        if unread:
            reasons = ", ".join(filter(None, (reasons, f"{counted(unread, 'file')} not read")))
        if not is_listed:
            word, reasons = UNREAD, "not listed"
        if self._wanted is None or severities.total() or unread or item.offsets_lost or not is_listed:
            host = self._hosts(item.path)
            path = os.path.basename(directory) if self._is_alone and not host else item.path
            name = self._safe(f"{host}:{path}" if host else path) or item.path
            cells = (counted(item.segments, "segment"), _offsets(item), size(item.size))
            self._page.row("partition", name, cells, word, reasons)
            if item.remark and self._wanted is None:
                self._remarks.setdefault(f"{name}: {item.remark}")
            self._last = item.path, name
        for path, file in self._held.items():
            self._block(self._shown(path), file)
        self._held = {}
        self._outlook.ends[item.path] = item.end_offset
        self._losses.end()

    def _shown(self, path: str) -> str:
        """Return the name of a file: below the one directory that was named, where there is one."""
        if self._is_alone:
            (root,) = self._named
            path = path.removeprefix(root).lstrip("/") or path
        return self._safe(path)

    def _block(self, name: str, file: _File) -> None:
        kept = [one for one in file.folded() if self._notes or one.severity is not Severity.NOTE]
        if file.held or kept:
            self._found.append((name, file.held, kept))


class _Outlook(Dispatcher):
    """What comes next, for the end of the page: what a broker does at its next start, and what a person does.

    Args:
        name: returns how a partition is shown, by its path and its own name.
        fold: count partitions that a broker leaves as they are.
    """

    def __init__(self, name: Callable[[str, str], str], *, fold: bool) -> None:
        self._name = name
        self._fold = fold
        self.ends: dict[str, int | None] = {}  # log end offsets of the partitions that were judged, by their path
        self._predictions: dict[str, list[Prediction]] = {}
        self._steps: list[Step] = []
        self._worst: Finding | None = None
        self._recommended: list[ShownBlock] = []  # that were written

    @takes(Step)
    def _step(self, step: Step) -> None:
        self._steps.append(step)

    @takes(Prediction)
    def _prediction(self, prediction: Prediction) -> None:
        self._predictions.setdefault(prediction.path, []).append(prediction)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        """Keep the first error, or the first finding where there is none."""
        is_first_error = finding.severity is Severity.ERROR and self._worst_severity is not Severity.ERROR
        if self._worst is None or is_first_error:
            self._worst = finding

    @property
    def _worst_severity(self) -> Severity | None:
        return None if self._worst is None else self._worst.severity

    @property
    def has_steps(self) -> bool:
        """Whether something is to be done."""
        return bool(self._steps)

    def recommend(self, page: Page) -> None:
        """Write the recommended option of each block."""
        self._recommended = [one for block in self._blocks() if (one := self._block(block, is_recommended=True))]
        page.steps("recommended next steps", self._recommended)

    def others(self, page: Page) -> None:
        """Write the other options, where an explanation is, and what was recommended once more."""
        page.steps("other options", [one for block in self._blocks() if (one := self._block(block))])
        if self._worst is not None and self._worst_severity is not Severity.NOTE:
            page.note(f"what a code means: {command_line('explain', self._worst.code.name)}")
        page.pointers(self._recommended)

    def _blocks(self) -> Iterator[list[list[Step]]]:
        return blocks_of(self._steps)

    def _block(self, options: Sequence[Sequence[Step]], *, is_recommended: bool = False) -> ShownBlock | None:
        """What a page shows of the options of a partition, or of several alike: the recommended one, or the others."""
        paths = options[0][0].partitions
        names = [self._name(path, base_name(path)) for path in paths[:_MOST_NAMED]]
        more = f" and {len(paths) - _MOST_NAMED:,} more" if len(paths) > _MOST_NAMED else ""
        told = []
        for steps in options:
            if (steps[0].rank is Rank.RECOMMENDED) is not is_recommended:
                continue
            whys = [one.why for one in steps]
            amounts = amounts_of(steps[-1])
            whys[-1] += f" ({amounts})" if amounts else ""
            heading = "" if is_recommended else rank_of(steps[0])
            told.append(ShownOption(heading, tuple((one.command, why) for one, why in zip(steps, whys, strict=True))))
        return ShownBlock(", ".join(names) + more if paths else "all of it", tuple(told)) if told else None

    @property
    def foreseen(self) -> int:
        """How many partitions a start was told of."""
        return len(self._predictions)

    @property
    def unserved(self) -> int:
        """How many of them are not loaded, by any of the starts that were told."""
        return sum(not all(row.loads for row in rows) for rows in self._predictions.values())

    @property
    def harmed(self) -> int:
        """How many of the others lose something intact."""
        loaded = [rows for rows in self._predictions.values() if all(row.loads for row in rows)]
        return sum(any(row.takes_intact for row in rows) for rows in loaded)

    def forecast(self, page: Page) -> None:
        """Write what the next start of a broker does; on a screen, what loses nothing is counted.

        Several partitions of which the same is to be told are told once.
        """
        alike: dict[tuple[tuple[str, tuple[str, ...], bool], ...], list[str]] = {}
        quiet = rebuilt = 0
        for path, rows in self._predictions.items():
            if self._fold and len(self._predictions) > 1 and all(row.changes_no_record for row in rows):
                quiet += 1
                rebuilt += not all(row.changes_nothing for row in rows)
                continue
            rows.sort(key=lambda row: row.harm)
            told = tuple(
                (_start(row), tuple(prediction_sentences(row, self.ends.get(path))), bool(hidden_sentence(row)))
                for row in rows
            )
            alike.setdefault(told, []).append(self._name(path, rows[0].partition))
        if alike:
            page.section()
        for told, names in alike.items():
            shown = names[:_MOST_NAMED] if self._fold else names
            more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
            page.forecast(f"{', '.join(shown)}{more}, next start of a broker", told)
        if quiet:
            whose = "" if quiet == len(self._predictions) else "more "
            what = (
                f"logs left unchanged, indexes of {rebuilt:,} built again"
                if rebuilt
                else "logs and indexes left unchanged"
            )
            page.note(f"next start of a broker: {counted(quiet, f'{whose}partition')} loaded, {what}")


class _File(FileFindings):
    """What was found in one file, and what of it is still to be written."""

    def __init__(self, *, fold: bool) -> None:
        super().__init__(fold=fold)
        self.held: list[Finding] = []


def _start(row: Prediction) -> str:
    return row.start if row.as_ is None else f"{row.start}: {row.as_}"


def _counts(severities: Counter[Severity]) -> str:
    counts = [counted(severities[one], one.value) for one in Severity if severities[one]]
    return ", ".join(counts)


def _offsets(item: PartitionChecked) -> str:
    if item.start_offset is None or item.end_offset is None:
        return ""
    return offset_span(item.start_offset, item.end_offset)


def _foreseen(tally: Tally, outlook: _Outlook) -> list[str]:
    """Return what a start takes away, and how little was read for that answer, in parts that each stay on one line."""
    if not outlook.foreseen:
        return ["no partition was looked at"]
    parts = counted(tally.partitions, "partition"), counted(tally.segments, "segment")
    found = [f"{counted(outlook.harmed, 'partition')} would lose what is intact"] if outlook.harmed else []
    found += [f"{counted(outlook.unserved, 'partition')} would not be served"] if outlook.unserved else []
    what = ", ".join(found) or "the start takes nothing intact away"
    return [*_listed(parts, ":"), f"{what};", f"{size(tally.bytes)} of logs read whole, nothing else was checked"]


def _totals(tally: Tally, *, notes: bool) -> list[str]:
    """Return what was checked, and the verdict on it, in parts that each stay on one line."""
    parts = (
        counted(tally.partitions if tally.replicated is None else len(tally.replicated), "partition")
        if tally.partitions
        else "",
        counted(tally.partitions, "replica") if tally.replicated else "",
        counted(tally.segments, "segment") if tally.segments else counted(tally.files, "file"),
        size(tally.bytes),
        counted(tally.batches, "batch", "batches"),
    )
    unchecked = [path for path, _ in tally.unchecked if path is not None]
    found = [counted(tally.severities[one], one.value) for one in Severity if tally.severities[one]]
    if tally.severities[Severity.NOTE] and not notes:
        found[-1] += " (--notes lists them)"
    if not tally.damages:
        sound = f"what could be read is {SOUND}" if unchecked else SOUND
        if tally.severities[Severity.WARNING]:
            sound = ""
        if tally.offsets_lost:  # a log that was cut between two batches is sound
            sound = f"{counted(tally.offsets_lost, 'offset')} lost"
        found.insert(0, sound if tally.files else "nothing was checked")
    if tally.offsets_elsewhere:
        found.append(f"{counted(tally.offsets_lost, 'offset')} in no replica")
        found.append(f"{tally.offsets_elsewhere:,} more that another replica has")
    if unchecked:
        found.append(f"{len(unchecked):,} not checked")
    rest = [NO_RECORDS] if len(unchecked) < len(tally.unchecked) else []
    return [*_listed(parts, ":"), *_listed(found, ";" if rest else ""), *rest]


def _listed(parts: Iterable[str], end: str) -> Iterator[str]:
    """Yield the parts of a list, each with the mark behind it; empty ones are none."""
    *others, last = filter(None, parts)
    yield from (f"{one}," for one in others)
    yield last + end
