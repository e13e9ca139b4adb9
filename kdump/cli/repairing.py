"""The commands that write: plans shown, refusals, and the check of the result."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from kdump.cli.options.repair import options_of
from kdump.cli.options.terminal import fitter_of_stdout
from kdump.exit_status import Exit, RunStatus
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import Checked, PartitionChecked
from kdump.render.commentary import fail_to_write, say, say_at_once, say_left, write
from kdump.render.text.findings import FindingLines
from kdump.render.text.plan import left_lines, plan_lines, taken_back
from kdump.repair.errors import FailedError, RefusedError, SeveralError
from kdump.repair.plan import rows_of
from kdump.repair.schema import REPAIR
from kdump.rows.layout import LAYOUTS
from kdump.rows.steps import Rank, Step
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import did_you_mean, why_not
from kdump.tally import Tally
from kdump.words.command import command_line, named
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.item import Item
    from kdump.repair.plan import Plan

    class _Takes(Protocol):
        """Takes findings."""

        def see(self, finding: Finding) -> None:
            """Take one finding."""

    Kept = TypeVar("Kept", bound=_Takes)

_WORST = (Exit.PART_WAY, Exit.FAILED, Exit.REFUSED, Exit.LOCKED)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NAMED = 3  # partitions of one kind in the last line; of more only the first ones
_NOTHING = "with nothing to do"


class _RepairStatus(RunStatus):
    """The exit status of a repair: how far it came is worse than what is found in what is left.

    Attributes:
        pending: something would be done.
        unclean_warning: the result has a warning.
    """

    def __init__(self, fail_on: str, *, compat: bool) -> None:
        super().__init__(fail_on, compat=compat)
        self.exits: set[Exit] = set()  # of what was refused, or failed
        self.pending = self.unclean_warning = False

    @property
    def exit(self) -> Exit:
        """The exit status."""
        for code in _WORST:
            if code in self.exits:
                return code
        code = super().exit
        if code is Exit.OK and self.pending:
            return Exit.PENDING
        if code is Exit.OK and self.unclean_warning and self._fail_on != "never":
            return Exit.WARNINGS
        return code


class Repair:
    """One run of a command that writes.

    Args:
        given: what click was given.
        partitions: number of those that the paths stand for: of several, those where nothing is to be done are counted.
    """

    def __init__(self, given: dict[str, Any], *, partitions: int = 1) -> None:
        self._partitions = partitions
        self._ends: dict[str, list[str]] = {}  # what became of partitions, and which
        self._obstacles: dict[str, None] = {}  # what would refuse the plans as things are, in order
        self._signal = 0  # that came in the middle of a repair
        self._finished = 0
        self.fail_on: str = given["fail_on"]  # error, warning or never
        self.outcome = _RepairStatus(self.fail_on, compat=False)  # takes what is found in what is left
        self._layout = LAYOUTS.get(given["layout"])  # of rows; None for text
        self._given = given
        self._tally = Tally()
        self._patched: list[str] = []
        self._journals: list[str] = []
        self._told: set[str] = set()  # what was said of paths that cannot be read, and the paths

    def expect(self, partitions: int) -> None:
        """Note for how many the paths stand, where that is known late."""
        self._partitions = partitions

    # --- looking --------------------------------------------------------------------------------------
    def examine(
        self,
        paths: list[str],
        see: Callable[[Finding], None],
        *,
        deep: bool,
        checked: Callable[[PartitionChecked], None] | None = None,
    ) -> Examined:
        """Let verify judge some paths before anything is planned.

        Args:
            paths: files or directories.
            see: takes each finding.
            deep: read the records.
            checked: is told each partition once all about its own files is known.
        """
        found = Examined(self.fail_on)
        for item in self._verified(paths, deep=deep):
            found.see(item)
            if isinstance(item, Finding):
                see(item)
            elif isinstance(item, OpenFailure):
                found.unread += not item.missing
                self._say_unread(item)
            elif isinstance(item, PartitionChecked):
                found.end_offset = item.end_offset
                if checked is not None:
                    checked(item)
            self._count(item)
        return found

    def examine_each(self, path: str, keep: Callable[[str], Kept]) -> Iterator[tuple[str, Kept, Examined]]:
        """Let verify judge a directory, and yield each partition in it once that is judged.

        Args:
            path: of a partition directory or a log directory.
            keep: makes for a partition directory what takes its findings.

        Yields:
            the directory, what took its findings, and what was found in all.
        """
        found = Examined(self.fail_on)
        reasons: dict[str, Kept] = {}
        for item in self._verified([path], deep=False):
            found.see(item)
            self._count(item)
            if isinstance(item, Finding):
                directory = os.path.dirname(item.file)
                if directory not in reasons:
                    reasons[directory] = keep(directory)
                reasons[directory].see(item)
            elif isinstance(item, OpenFailure):
                found.unread += not item.missing
                self._say_unread(item)
            elif isinstance(item, PartitionChecked):
                found.end_offset = item.end_offset
                known = reasons.get(item.path.rstrip(os.sep))
                yield item.path, known or keep(item.path), found
                found, reasons = Examined(self.fail_on), {}
        self._take(found)  # of the log directory itself
        say_left(path, found.severities[Severity.ERROR])

    def _verified(self, paths: list[str], *, deep: bool) -> Iterator[Item]:
        from kdump.checks.options import VerifyOptions
        from kdump.checks.run import verify

        return verify(paths, VerifyOptions(deep=deep, jobs=self._given.get("jobs", 1)))

    def _say_unread(self, failure: OpenFailure) -> None:
        say(f"kdump: {failure.sentence}")
        self._told |= {failure.path, failure.sentence}

    def _take(self, found: Examined, plan: Plan | None = None) -> None:
        """Let what was found count, but for what a plan mends; the summary counts all of it.

        Args:
            found: what verify has found.
            plan: what is to be done; None for nothing.
        """
        self.outcome.join(found.outcome if plan is None else found.without(plan))
        self._tally.severities += found.severities

    def _count(self, item: Item) -> None:
        if isinstance(item, Checked | PartitionChecked | OpenFailure):
            self._tally.see(item)

    # --- what is to be done ---------------------------------------------------------------------------------
    def carry_out(self, plan: Plan, paths: Sequence[str], examined: Examined, result: list[str]) -> None:
        """Show a plan, or have it done when that was asked for.

        Args:
            plan: what is to be done.
            paths: what names it on the command line.
            examined: what was found before.
            result: the paths that are checked afterwards.
        """
        if plan.changes and not self._given["wants_apply"] and not self._given.get("to"):
            plan = self._foreseen(plan)
        for sentence in plan.refused:
            self.refuse(sentence)
        is_other = self._is_other(plan)
        if not self._given["wants_apply"] or not plan.changes or plan.refused or is_other:
            is_refused = bool(plan.refused) or is_other
            self._note(
                "refused" if is_refused else "to do" if plan.changes else "not judged" if examined.unread else _NOTHING,
                plan.partition,
            )
            self._show(plan, paths, None, examined.unread)
            if not plan.changes and not plan.refused:
                say_left(paths[0] if len(paths) == 1 else plan.directory, examined.severities[Severity.ERROR])
            self._take(examined, plan if plan.changes and not is_refused else None)
            self.outcome.pending |= bool(plan.changes)
            return
        from kdump.repair.apply import Means, apply, argv_of

        with self.guarded(plan.partition):
            self._demand_outside()
            with gracefully():
                done = apply(plan, self._given["quarantine"], argv_of(), Means(finished=self.finish))
            self._note("done", plan.partition)
            self._journals.append(done.journal)
            self._show(plan, paths, done.journal)
            self.say_unseen(done.unseen)
            self.wrote(done.patched)
            self.check(result)

    def _foreseen(self, plan: Plan) -> Plan:
        """A dry run says what --apply would refuse: what the files tell refuses the plan, the rest may change."""
        from kdump.repair.guard import check_circumstances, check_files

        try:
            self._demand_outside()
            check_circumstances(plan, self._given["quarantine"])
        except RefusedError as error:
            self._obstacles[error.sentence] = None
        try:
            check_files(plan)
        except RefusedError as error:
            return plan.replace(refused=(*plan.refused, error.sentence), alone=())
        return plan

    def _demand_outside(self) -> None:
        """Refuse a quarantine in what the user named, which may be a log directory without the files of one."""
        from kdump.storage.outputs import refuse_inside_sources

        if self._given["quarantine"]:
            paths = self._given.get("paths") or (self._given["path"],)
            refuse_inside_sources(self._given["quarantine"], paths, "--quarantine")

    def _is_other(self, plan: Plan) -> bool:
        """Whether plans were named, and not this one; say so."""
        ids = self._given["plan_id"]
        is_other = bool(ids and plan.changes and plan.plan_id not in ids)
        if is_other:
            self.refuse(
                f"{plan.directory}: the plan is {plan.plan_id} by now, and not the one that was named; look again"
            )
        return is_other

    def _note(self, end: str, partition: str) -> None:
        self._ends.setdefault(end, []).append(os.path.basename(os.path.abspath(partition)))

    def refuse(self, sentence: str) -> None:
        """Say why something is not done."""
        say(f"kdump: {sentence}")
        self.outcome.exits.add(Exit.REFUSED)

    def say_unseen(self, unseen: Sequence[int]) -> None:
        """Say that other processes, which may be brokers, could not be looked at."""
        if unseen:
            pids = ", ".join(map(str, unseen))
            who = f"process {pids}" if len(unseen) == 1 else f"processes {pids}"
            say(f"kdump: warning: {who} could not be looked at: the files may be open there")

    def _show(self, plan: Plan, paths: Sequence[str], journal: str | None, unread: int = 0) -> None:
        shown = plan.shown(tuple(map(named, paths)), tuple(options_of(self._given)), journal, unread)
        self._tally.offsets_lost += shown.offsets_lost
        self._tally.records_lost += shown.records_lost
        if self._is_of_several and not (self._layout is not None or plan.changes or plan.refused or unread):
            return  # the last line counts it
        if self._layout is not None:
            rows = rows_of(shown, [one.kind for one in plan.changes]) if plan.command == REPAIR else (shown,)
            for row in rows:
                self._write(self._layout.row(row))
            for step in self._steps(plan):
                self._write(self._layout.row(step))
            if journal is not None:
                say(f"kdump: journal: {journal}")
                say(f"kdump: {taken_back(journal)}")
            return
        fit = fitter_of_stdout()
        for text in plan_lines(shown, quarantine=self._given["quarantine"]):
            self._write(fit(f"{text}\n"))
        for text in left_lines(self._steps(plan)):
            self._write(fit(f"{text}\n"))

    def _steps(self, plan: Plan) -> list[Step]:
        """What to do about what a plan leaves alone, a block for each."""
        return [
            Step(1, 1, one.partitions, Rank.RECOMMENDED, condition=None, command=one.command, why=one.why)
            for one in plan.left
        ]

    def _write(self, text: str) -> None:
        """Write to stdout; where that fails, say which repairs are done: it is no error of theirs."""
        try:
            write(text)
            sys.stdout.buffer.flush()
        except OSError as error:
            told = ((f"the repair is done; journal: {one}", taken_back(one)) for one in self._journals)
            fail_to_write(error, *(sentence for both in told for sentence in both))

    @property
    def _is_of_several(self) -> bool:
        return self._partitions > 1

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Say what stands when a signal ends the command between two repairs, and end by that signal."""
        verb = click.get_current_context().info_name
        owner = os.getpid()

        def end(number: int, _frame: object) -> None:
            signal.signal(number, signal.SIG_DFL)
            if os.getpid() == owner:  # a process that was forked says nothing
                say_at_once(f"kdump: {verb} was interrupted: {self._standing(verb == 'undo')}")
            os.kill(os.getpid(), number)

        with _handling(end):
            yield

    def _standing(self, undoes: bool) -> str:
        """What an interrupt leaves."""
        if not self._finished:
            return "nothing was changed"
        what = "repair is" if self._finished == 1 else "repairs are"
        return f"{self._finished} {what} {'undone' if undoes else 'done'}; run the same command again to go on"

    def finish(self) -> None:
        """Count a repair that is done, or taken back."""
        self._finished += 1

    @contextmanager
    def guarded(self, partition: str = "") -> Iterator[None]:
        """Turn what is refused or fails into a line and an exit status.

        Args:
            partition: path or name of it, for the last line.
        """
        try:
            yield
        except RefusedError as error:
            self._note("in use" if error.locked else "refused", partition)
            if error.sentence not in self._told:
                say(f"kdump: {error.sentence}")
            if isinstance(error, SeveralError):
                for folder, is_undone in error.folders:
                    verb, more = str(click.get_current_context().info_name), ["--apply"] if self._applies else []
                    command = command_line(verb, named(folder), *more)
                    say(f"  {command}  # undone already" if is_undone else f"  {command}")
            if error.missing:
                self.outcome.nothing()
            else:
                self.outcome.exits.add(Exit.LOCKED if error.locked else Exit.REFUSED)
        except FailedError as error:
            self._note("failed", partition)
            say(f"kdump: {error.sentence}")
            self.outcome.exits.add(Exit.FAILED if error.journal is None else Exit.PART_WAY)
            if isinstance(error.__cause__, _SignalledError):
                self._signal = error.__cause__.args[0]
        except (FileNotFoundError, NotADirectoryError) as error:
            self._note("not found", partition)
            say(f"kdump: no such file: {error.filename}{did_you_mean(str(error.filename))}")
            self.outcome.nothing()
        except OSError as error:
            self._note("not judged", partition)
            if error.filename not in self._told:
                path = str(error.filename or "a file")
                say(f"kdump: {path}: {why_not(path, error)}")
            self.outcome.unreadable()

    @property
    def _applies(self) -> bool:
        """Whether it was asked for what only --apply does."""
        return bool(self._given.get("wants_apply"))

    @property
    def has_failed(self) -> bool:
        """Whether something failed: nothing more is begun then."""
        return bool(self.outcome.exits & {Exit.FAILED, Exit.PART_WAY})

    def wrote(self, logs: Iterable[str]) -> None:
        """Note that logs were written in place: a ledger of a scrub has their bytes from before."""
        self._patched += logs

    # --- afterwards -----------------------------------------------------------------------------------------
    def check(self, paths: list[str]) -> None:
        """Let verify judge the result, and show what is wrong with it."""
        lines = FindingLines(lambda text: self._write(f"{text}\n"))
        for item in self._verified(paths, deep=True):
            if isinstance(item, Finding) and (_is_announced(item) or item.severity is Severity.NOTE):
                continue
            self.outcome.see(item)
            if isinstance(item, OpenFailure):
                say(f"kdump: {item.sentence}")
            if isinstance(item, Finding):
                self._tally.see(item)
                self.outcome.unclean_warning |= item.severity is Severity.WARNING
                if self._layout is not None:
                    self._write(self._layout.row(item))
                else:
                    lines(item)

    def end(self) -> Exit:
        """Write the summary, and what to do about logs that were written in place; return the exit status."""
        code = self.outcome.exit
        if self._signal:
            self._sum_up()
            _end_by(self._signal)
        if self._layout is not None:
            self._write(self._layout.row(self._tally.summary(code)))
        if self._patched:
            accept = [word for path in self._patched for word in ("--accept", named(path))]
            told = f"where verify --scrub keeps a ledger: {command_line('verify', '--scrub', 'LEDGER', *accept)}"
            if self._layout is not None:
                say(f"kdump: {told}")
            else:
                self._write(fitter_of_stdout()(f"{told}\n"))
        sys.stdout.flush()
        self._sum_up()
        return code

    def _sum_up(self) -> None:
        """Say at last what is easily lost above: how many partitions there are of each kind, and what is in the way."""
        seen = sum(map(len, self._ends.values()))
        if self._is_of_several and seen:
            order = ("done", "to do", "refused", "in use", "failed", "not judged", "not found", _NOTHING)
            parts = [_kind(end, self._ends[end]) for end in order if end in self._ends]
            if self.has_failed and seen < self._partitions:
                parts.append(f"{self._partitions - seen} not reached")
            say(f"kdump: {click.get_current_context().info_name}: {', '.join(parts)}")
        for sentence in self._obstacles:
            say(f"kdump: --apply would be refused as things are: {sentence}")


class _SignalledError(KeyboardInterrupt):
    """A signal came; `args` has its number."""


@contextmanager
def gracefully() -> Iterator[None]:
    """Let a signal end what is being done in order, where it can be: what was prepared is removed first."""

    def stop(number: int, _frame: object) -> None:
        raise _SignalledError(number)

    try:
        with _handling(stop):
            yield
    except _SignalledError as error:
        os.kill(os.getpid(), error.args[0])  # whoever has started us is to see it
        raise


@contextmanager
def _handling(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Handle the signals that end a program, but those that whoever has started it wants to be ignored."""
    before = {one: signal.getsignal(one) for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN}
    for one in before:
        signal.signal(one, handler)
    try:
        yield
    finally:
        for one, earlier in before.items():
            signal.signal(one, earlier or signal.SIG_DFL)


def _end_by(number: int) -> None:
    """End as a signal does."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _is_announced(finding: Finding) -> bool:
    """Tell whether a plan says of what is wrong afterwards that a broker takes care of it."""
    is_of_raft = finding.code is Code.S02 and finding.file.endswith(FileKind.CHECKPOINT.value)
    return finding.code is Code.K01 or is_of_raft  # a broker lowers a checkpoint above the end itself


def _kind(end: str, partitions: list[str]) -> str:
    """Say how many partitions there are of a kind, and name the first ones."""
    if end == _NOTHING:
        return f"{len(partitions)} {end}"
    return f"{len(partitions)} {end} ({some_of(partitions, _NAMED)})"


_MOST_HELD = 100_000  # errors and warnings of one examination


class Examined:
    """The result of verify before a repair."""

    def __init__(self, fail_on: str) -> None:
        self._fail_on = fail_on
        self.outcome = RunStatus(fail_on, compat=False)  # what it would exit with
        self._others = RunStatus(fail_on, compat=False)  # the same without findings about files
        self.severities: Counter[Severity] = Counter()  # how many findings of each there are
        self.end_offset: int | None = None  # the log end offset of the partition, None when it is not known
        self.unread = 0  # files that could not be read
        self._findings: list[Finding] = []  # errors and warnings, the first ones

    def see(self, item: Item) -> None:
        """Take one item of verify into account."""
        self.outcome.see(item)
        if not isinstance(item, Finding):
            self._others.see(item)
            return
        self.severities[item.severity] += 1 + (item.more or 0)
        if item.severity is Severity.NOTE:
            return
        if len(self._findings) < _MOST_HELD:
            self._findings.append(item)
        else:  # whether the plan mends it is not asked: it counts as it is
            self._others.see(item)

    def without(self, plan: Plan) -> RunStatus:
        """Return what it would exit with once a plan is carried out, as far as what was found tells."""
        left = RunStatus(self._fail_on, compat=False)
        left.join(self._others)
        mended = [plan.mends(one) for one in self._findings]
        codes = {one.code for one, is_mended in zip(self._findings, mended, strict=True) if is_mended}
        for one, is_mended in zip(self._findings, mended, strict=True):
            if not (is_mended or one.because in codes or _is_announced(one)):
                left.see(one)
        return left
