"""An export that can be interrupted and run again: its plan, its progress, and its workers.

The plan is written first, and stays: a second run with the same words resumes it. A part of the plan is one file
of rows, which appears whole; what became of it is noted after that. So a part without a note is written again, under
the same name, and no row is ever there twice.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kdump.export.log_file import LogFile, Split
from kdump.export.origin import Origin
from kdump.export.split import splits_of
from kdump.export.state import (
    NotThisExportError,
    demand_asked_for,
    read_notes,
    read_plan,
    remove_attempt,
    remove_rows,
    remove_state,
    remove_temporaries,
    write_note,
    write_plan,
)
from kdump.export.tables import PLACE, TableField
from kdump.export.write import RowFile
from kdump.finding import Finding, Severity, Trait
from kdump.format.batch.walk import Border
from kdump.item import Progress
from kdump.storage.file_source import OpenFailure
from kdump.storage.own_tree import STATE
from kdump.storage.paths import real
from kdump.value import Value
from kdump.words.numbers import some_of
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.export.read import ReadOptions
    from kdump.redact import Redactor

_PATHS = 3  # that a message names
NO_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The name of the directory of what has no topic, or no partition."""


class ExportPart(Value):
    """One file of an export."""

    name: str  # that tells it from all others of the export
    folder: str  # where its file lies, below the directory of the export
    split: Split  # the rows in it


class Result(Value):
    """The result of a part."""

    name: str  # of the part
    rows: int  # in its file; without any there is no file
    errors: int  # findings of that severity in its piece of the log
    path: str  # of the log; of the file, for a table of verdicts
    problems: tuple[str, ...]  # lines about what could not be read
    codes: tuple[tuple[str, int], ...] = ()  # of these findings, and how many of each
    undecoded: int = 0  # keys and payloads that no schema decodes, where they say that they have one


class ExportTarget(Value):
    """The target of an export: directory, format, table and columns."""

    directory: str
    kind: str  # parquet, json or csv
    table: str  # its name
    columns: tuple[TableField, ...]  # of the table
    redactor: Redactor | None = None  # hides what its files have, and their names; None where all may be seen
    is_noted: bool = True  # what became of each part is noted beside them; of a night there is one list

    @property
    def state(self) -> str:
        """The directory of the plan and the notes."""
        return os.path.join(self.directory, STATE)

    def file(self, folder: str, name: str) -> RowFile:
        """Return the file of a part, to be written."""
        name = f"{name}.{self.kind}"
        return RowFile(self.directory, folder, name, self.kind, self.table, self.columns, redactor=self.redactor)


def folder_of(topic: object, partition: object, redactor: Redactor | None = None) -> str:
    """Return the directories of a topic and its partition, in the form that readers take for columns."""
    if redactor is not None and topic is not None:
        topic = redactor.topic(str(topic))
    names = [NO_NAME if one is None else quote(str(one), safe="") for one in (topic, partition)]
    return os.path.join(f"topic={names[0]}", f"partition={names[1]}")


def name_of(*facts: object) -> str:
    """Return a name that says the same facts each time, and is not that of others."""
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def plan_of(logs: Iterable[LogFile | OpenFailure], size: int, redactor: Redactor | None = None) -> ExportPlan:
    """Return the plan for some logs, in which each is once.

    Args:
        logs: as they are listed: twice where a path of the user lies in another.
        size: bytes that a part should have.
        redactor: hides what the names of its files say; None where all may be seen.
    """
    found = list(logs)
    splits = [split for log in distinct(found) for split in splits_of(log, size)]
    return ExportPlan(tuple(_parts(splits, redactor)), tuple(one for one in found if isinstance(one, OpenFailure)))


def distinct(logs: Iterable[LogFile | OpenFailure]) -> list[LogFile]:
    """Return the logs among some, each once."""
    each: dict[str, LogFile] = {}
    for log in logs:
        if isinstance(log, LogFile):
            each.setdefault(real(log.path), log)
    return list(each.values())


def _parts(splits: Iterable[Split], redactor: Redactor | None) -> list[ExportPart]:
    return [
        ExportPart(
            f"{split.log.base_offset or 0:020}-{split.border.position:010}-{name_of(*_place(split.log, redactor))}",
            folder_of(split.log.origin.topic, split.log.origin.partition, redactor),
            split,
        )
        for split in splits
    ]


def _place(log: LogFile, redactor: Redactor | None) -> tuple[str, Origin]:
    """Path and origin of a log as they may be seen."""
    if redactor is None:
        return log.path, log.origin
    place = log.origin.columns()
    return redactor.path(log.path), Origin(*[redactor.cell(one.holds, place[one.name]) for one in PLACE])


class ExportPlan(Value):
    """The plan of an export."""

    parts: tuple[ExportPart, ...] = ()  # the files of rows
    problems: tuple[OpenFailure, ...] = ()  # what could not be read when it was made


def begun(
    target: ExportTarget,
    asked: dict[str, object],
    logs: Iterable[LogFile | OpenFailure] = (),
    paths: Sequence[str] = (),
) -> ExportPlan | None:
    """Return the plan that lies in the directory of an export; None where there is none.

    Args:
        target: where the export goes.
        asked: what the user asked for, in JSON's types.
        logs: that there are, to know those of a plan with tokens in it again.
        paths: that the user named: a plan names no log but theirs.

    Raises:
        NotThisExportError: another export, or something else lies there.
        RefusedError: somebody else may have written what lies there.
    """
    plan = read_plan(target.directory)
    if plan is None:
        return None
    before = plan["asked"]
    if before != asked:
        other = ", ".join(name for name in {**before, **asked} if before.get(name) != asked.get(name))
        why = f"holds an export of something else: {_asked_for(before)}; other {other} are asked for now"
        raise NotThisExportError(f"{target.directory}: {why}; name another directory")
    parts = tuple(_part(one) for one in plan["parts"])
    if target.redactor is not None:
        there = [one for one in logs if isinstance(one, LogFile)]
        parts = _known_again(parts, there, target.redactor)
        unknown = {one.split.log.path for one in parts} - {one.path for one in there}
        demand_asked_for(target.directory, unknown, ())  # tokens lead nowhere
    else:
        demand_asked_for(target.directory, (one.split.log.path for one in parts), paths)
    remove_temporaries(target.directory)
    return ExportPlan(parts, tuple(OpenFailure(*facts) for facts in plan["problems"]))


def newer_than(plan: ExportPlan, logs: Iterable[LogFile | OpenFailure]) -> tuple[list[str], list[str]]:
    """Return the logs that a plan does not have, and those that have become longer since it was made.

    Args:
        plan: of an export that was begun before.
        logs: that there are now.
    """
    sizes = {real(part.split.log.path): part.split.log.size for part in plan.parts}
    each = {real(log.path): log for log in logs if isinstance(log, LogFile)}
    new = [log.path for path, log in each.items() if path not in sizes]
    return new, [log.path for path, log in each.items() if log.size > sizes.get(path, log.size)]


def _asked_for(asked: dict[str, Any]) -> str:
    """Say what an export is of."""
    named = asked.get("paths")
    paths = list(map(str, named)) if isinstance(named, list) else []
    return f"table {asked.get('table')} ({asked.get('kind')}) of {some_of(paths, _PATHS)}"


def _known_again(parts: Iterable[ExportPart], logs: Iterable[LogFile], redactor: Redactor) -> tuple[ExportPart, ...]:
    """Parts of a plan with the paths of their logs; what is gone keeps its tokens, and is said to be missing."""
    each = {_place(log, redactor): log for log in logs}
    found = []
    for part in parts:
        log = part.split.log
        true = each.get((log.path, log.origin))
        true = log if true is None else log.replace(path=true.path, origin=true.origin)
        found.append(part.replace(split=part.split.replace(log=true)))
    return tuple(found)


def begin(target: ExportTarget, asked: dict[str, object], plan: ExportPlan) -> None:
    """Write the plan.

    Args:
        target: where the export goes.
        asked: what the user asked for, in JSON's types.
    """
    shown = plan.problems if target.redactor is None else [target.redactor.item(one) for one in plan.problems]
    problems = [[problem.path, problem.kind, problem.sentence] for problem in shown]
    facts = {"asked": asked, "parts": [_facts(part, target.redactor) for part in plan.parts], "problems": problems}
    write_plan(target.directory, facts)


def forget(target: ExportTarget) -> None:
    """Remove the plan and the notes of an export that has no rows: another one may have the directory.

    Args:
        target: where the export went.
    """
    remove_state(target.directory)


def _facts(part: ExportPart, redactor: Redactor | None) -> list[object]:
    log, border = part.split.log, part.split.border
    path, origin = _place(log, redactor)
    where = [path, log.size, log.base_offset, log.next_base, *origin.columns().values()]
    facts = [border.position, border.last_offset, border.epoch, border.floor, part.split.stop]
    return [part.name, part.folder, where, facts]


def _part(facts: list[Any]) -> ExportPart:
    name, folder, where, border = facts
    path, size, base, next_base, *origin = where
    log = LogFile(path, size, base, next_base, Origin(*origin))
    return ExportPart(name, folder, Split(log, Border(*border[:4]), border[4]))


def done(target: ExportTarget) -> dict[str, Result]:
    """Return what became of the parts that are written, by name.

    Raises:
        NotThisExportError: a note cannot be read.
        RefusedError: somebody else may have written one.
    """
    return {
        facts["name"]: Result(**{**facts, **{name: tuple(map(_tuple, facts.get(name, ()))) for name in _SEVERAL}})
        for facts in read_notes(target.directory)
    }


_SEVERAL = ("problems", "codes")


def _tuple(one: Any) -> Any:  # noqa: ANN401 (JSON)
    return tuple(one) if isinstance(one, list) else one


def write_part(part: ExportPart, target: ExportTarget, options: ReadOptions) -> Result:
    """Write the file of a part and the note about it.

    Args:
        part: which.
        target: where the export goes.
        options: what is read.
    """
    from kdump.export.read import read_split

    problems: list[OpenFailure] = []
    rows = undecoded = 0
    codes: Counter[str] = Counter()

    def report(finding: Finding) -> None:
        nonlocal undecoded
        codes[finding.code.name] += finding.severity is Severity.ERROR
        undecoded += Trait.UNDECODED in finding.code.traits

    batches = read_split(part.split, options, problems.append, report)
    first = next(batches, None)
    if first is not None:
        with target.file(part.folder, part.name) as file:
            batch = first
            while batch is not None:
                rows += batch.num_rows
                file.write(batch)
                batch = next(batches, None)
    found = tuple(sorted((+codes).items()))
    result = Result(
        part.name,
        rows,
        sum(codes.values()),
        part.split.log.path,
        problems=tuple(one.sentence for one in problems),
        codes=found,
        undecoded=undecoded,
    )
    if target.redactor is not None:
        result = result.replace(
            path=target.redactor.path(result.path), problems=tuple(map(target.redactor.text, result.problems))
        )
    if target.is_noted:
        note(target, result)
    return result


def note(target: ExportTarget, result: Result) -> None:
    """Write down what became of a part."""
    write_note(target.directory, _values(result))


def withdraw(target: ExportTarget, result: Result) -> None:
    """Remove the file of rows of a table of verdicts, and the note about it.

    Args:
        target: where the export goes.
        result: what the note says.

    Raises:
        NotThisExportError: the note is none about such a file.
    """
    remove_rows(target.directory, _values(result), target.kind)


def _values(result: Result) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(result, name) for name in Result.__match_args__}
    return {**values, **{name: [*map(_list, values[name])] for name in _SEVERAL}}


def _list(one: object) -> object:
    return list(one) if isinstance(one, tuple) else one


class LocalExport:
    """Writes parts on this machine.

    Args:
        jobs: processes; 0 for one on each core.
    """

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs

    def write(
        self, parts: Sequence[ExportPart], target: ExportTarget, options: ReadOptions
    ) -> Iterator[Result | Progress]:
        """Yield what becomes of each part, and how far all are."""
        here = os.getpid()

        def write(at: int) -> Iterator[Result | Progress]:
            part = parts[at]
            if self._jobs != 1 and os.getpid() == here:  # a process had it that was killed
                remove_attempt(target.directory, part.folder, part.name)
            yield Progress(0, part.split.size, part.split.log.path)
            yield write_part(part, target, options)
            yield Progress(part.split.size, part.split.size, part.split.log.path)

        total = sum(part.split.size for part in parts)
        with in_order(range(len(parts)), write, self._jobs, total=total) as written:
            for results in written:
                yield from results
