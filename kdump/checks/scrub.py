"""verify --scrub: closed segments read again and again, and held against what they were.

Strategy: what lies there is listed into the ledger, which says whose turn it is; segments are read by several
processes, and told in that order. What a segment came to is committed before its status is told.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import contextmanager
from mmap import mmap
from typing import TYPE_CHECKING

from kdump.checks.ledger import Ledger, LedgerError, Listed
from kdump.checks.loose import check_loose
from kdump.checks.options import VerifyOptions
from kdump.checks.scrub_segment import NO_TIME, ScrubOutcome, ScrubUnit, scrub_segment
from kdump.checks.step_sentences import PersonSteps
from kdump.checks.step_table import steps_for
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.item import Checked, CheckedFile, Progress, Scrubbed, Unchecked
from kdump.rows.steps import NONE, Rank, Step
from kdump.storage.directory import DirectoryListing, expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_partition
from kdump.storage.outputs import refuse_inside_sources
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import above, base_name, real
from kdump.value import Value
from kdump.words.command import command_line, named
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.checks.ledger import Known, Turn
    from kdump.checks.scrub_segment import Result
    from kdump.item import Item

_TOGETHER = 256  # segments that are committed at once, at most
_OFTEN = 0.25  # seconds between two commits
_MOST_STEPS = 100  # directories that the steps name


class ScrubOptions(Value):
    """What a user of a scrub asks for."""

    ledger: str  # path of the ledger, as the user wrote it
    accept: tuple[str, ...] = ()  # paths of segments whose bytes are right as they are
    seconds: float | None = None  # the run ends after this time; None for no end before all is read
    jobs: int = 1  # processes; 0 for one on each core
    progress: bool = False  # hand out `Progress` items
    resync: bool = True  # search for intact batches after damage
    max_batch_bytes: int = MAX_BATCH_BYTES  # a batch over this is not held in memory


class LocalScrub:
    """Reads segments by processes of this machine; the ledger is a file."""

    def ledger(self, path: str) -> Ledger:
        """Return the ledger, held by this run.

        Raises:
            LedgerError: it cannot be used.
        """
        return Ledger(path)

    @contextmanager
    def judged(
        self, units: Iterator[ScrubUnit], options: ScrubOptions, end: float | None, total: int
    ) -> Iterator[Iterator[Iterator[Result]]]:
        """Give the results of each unit, in order; each is read to its end before the next.

        Args:
            units: the segments, as they are asked for.
            options: what was asked for.
            end: when the time has passed, by the monotonic clock; None for never.
            total: bytes of all segments.
        """
        one_is_done = memoryview(mmap(-1, 1))  # of all processes: a large segment would else never be read to its end

        def is_over() -> bool:
            return end is not None and bool(one_is_done[0]) and time.monotonic() >= end

        def work(unit: ScrubUnit) -> Iterator[Result]:
            for result in (ScrubOutcome(left_out=NO_TIME),) if is_over() else scrub_segment(unit, is_over):
                if isinstance(result, ScrubOutcome) and result.left_out is None:
                    one_is_done[0] = 1
                yield result

        with in_order(units, work, options.jobs, total=total if options.progress else None) as judged:
            yield iter(judged)


def scrub(paths: Sequence[str], options: ScrubOptions, engine: LocalScrub | None = None) -> Iterator[Item]:
    """Yield what is wrong with the logs of closed segments, those first that were not read for longest.

    Args:
        paths: as the user wrote them; a pattern where nothing has that name is expanded.
        options: what was asked for.
        engine: keeps the ledger, and reads the segments.

    Reports: V05, F06, and the errors and warnings of the checked walk.

    Raises:
        LedgerError: the ledger is in use, or cannot be used.
        RefusedError: it lies in what is read, or where a broker looks, or somebody else may have written it.
    """
    began = time.monotonic()
    places = [_Place(path, is_directory=is_directory) for path, is_directory in expanded(paths)]
    wanted = [_accepted(path) for path in options.accept]
    refuse_inside_sources(options.ledger, [*paths, *options.accept], "--scrub")
    engine = engine or LocalScrub()
    ledger = engine.ledger(options.ledger)
    try:
        run = _Run(ledger, options, began)
        for accepted in wanted:
            yield from run.accept(accepted)
        for place in places:
            yield from place.enter(ledger)
            run.partitions.update(place.partitions)
            run.active += place.active
        items = run.all(engine) if places else iter(())
        held: list[Item] = []
        for item in items:
            if ledger.keeps_at_once or isinstance(item, Progress):
                yield item
            else:
                held.append(item)
        ledger.end()
        yield from held
    finally:
        ledger.close()


class _Place:
    """What a path of the user stands for.

    Args:
        path: as the user wrote it.
        is_directory: it is one.

    Attributes:
        partitions: directories that are looked at.
    """

    def __init__(self, path: str, *, is_directory: bool) -> None:
        self._path = path
        self._directory = directory = InputDirectory(path) if is_directory else None
        self.partitions = [] if directory is None else [one.path for one in directory.partitions]
        self.active = 0  # segments that a broker still writes to, once all was entered

    def enter(self, ledger: Ledger) -> Iterator[OpenFailure | Unchecked]:
        """Let the ledger know what lies here; yield what cannot be listed, or is nothing for a scrub."""
        directory, path = self._directory, self._path
        if directory is None:
            yield from self._enter_file(ledger)
            return
        if directory.failure is not None:
            yield directory.failure
            return
        if not (self.partitions or directory.contents.files):
            yield no_kafka_files(path)
            return
        complete: list[str] = []
        for one in self.partitions:  # none is held longer than this
            listing = DirectoryListing(one)
            if listing.failure is not None:
                yield listing.failure
                continue
            ledger.enter(self._counted(_rows(one, listing)))
            complete.append(one)
        is_whole = directory.is_log_dir and complete == self.partitions != []
        for one in [path] if is_whole else complete:
            ledger.forget(real(one))

    def _counted(self, rows: Iterable[Listed]) -> Iterator[Listed]:
        for row in rows:
            self.active += row.next_base is None
            yield row

    def _enter_file(self, ledger: Ledger) -> Iterator[OpenFailure | Unchecked]:
        row = _row(self._path)
        if isinstance(row, OpenFailure):
            yield row
        elif row is None:
            yield Unchecked(self._path, "not the log of a segment: a scrub reads nothing else")
        elif row.next_base is None:
            yield Unchecked(self._path, "not closed: a scrub reads closed segments only")
        else:
            self.partitions.append(os.path.dirname(self._path) or os.curdir)
            ledger.enter((row,))


def _rows(directory: str, listing: DirectoryListing) -> Iterator[Listed]:
    """The logs of a directory; a partition that is about to be deleted has none."""
    name = parse_partition(base_name(directory))
    if name is not None and name.state == "delete":
        return
    where = real(directory)
    bases = listing.regular_bases
    for base, following in zip(bases, [*bases[1:], None], strict=False):  # no log, no row
        file = f"{base:020}.log"
        shown = os.path.join(directory, file)
        try:
            status = os.stat(shown, follow_symlinks=False)
        except OSError:
            continue  # it went meanwhile
        path = os.fsencode(os.path.join(where, file))
        yield Listed(
            path, shown, base=base, next_base=following, dev=status.st_dev, inode=status.st_ino, size=status.st_size
        )


def _row(path: str) -> Listed | OpenFailure | None:
    """What the log of a segment is that the user named; None for another file."""
    if not os.path.lexists(path):
        return OpenFailure(path, "missing", f"no such file: {path}")
    folder, name = os.path.split(path)
    rows = () if os.path.isdir(path) else _rows(folder or os.curdir, DirectoryListing(folder or os.curdir))
    row = next((one for one in rows if os.path.basename(one.shown) == name), None)
    return None if row is None else row.replace(shown=path)


def _accepted(path: str) -> Listed | OpenFailure:
    """The closed segment whose bytes are right as they are.

    Raises:
        LedgerError: the path is something else.
    """
    row = _row(path)
    if row is None or (isinstance(row, Listed) and row.next_base is None):
        why = "is not the log of a closed segment: nothing else is in a ledger, and can be accepted"
        raise LedgerError(f"{path}: {why}", is_refused=True)
    return row


class _Run:
    """One run."""

    def __init__(self, ledger: Ledger, options: ScrubOptions, began: float) -> None:
        self._ledger = ledger
        self._options = options
        self._end = None if options.seconds is None else began + options.seconds
        self._held: list[Item] = []  # that wait for the commit
        self._read = self._left = self._pending = 0
        self._committed = began
        self._persons = PersonSteps()
        self._damaged: dict[str, None] = {}  # directories
        self.partitions: set[str] = set()  # that are looked at
        self.active = 0  # segments that a broker still writes to: none of them is read

    def all(self, engine: LocalScrub) -> Iterator[Item]:
        """Yield what is wrong with the segments, in their turn, and at the end the steps."""
        options, ledger = self._options, self._ledger
        turns: deque[Turn] = deque()  # that were handed out

        begun = ledger.begin()

        def units() -> Iterator[ScrubUnit]:
            for turn in begun:
                turns.append(turn)
                yield self._unit(turn)

        with engine.judged(units(), options, self._end, ledger.size) as judged:
            for results in judged:
                turn = turns.popleft()
                for result in results:
                    if isinstance(result, Progress):
                        yield result
                    elif isinstance(result, ScrubOutcome):
                        yield from self._outcome(turn, result)
                    else:
                        yield from self._told(result)
        yield from self._commit()
        yield from self._steps()
        yield Scrubbed(len(self.partitions), self._read, self._left, self.active)

    def _unit(self, turn: Turn) -> ScrubUnit:
        """What a process needs to know of a segment."""
        return self._unit_of(turn.path, turn.base, turn.next_base, turn.size, self._ledger.known(turn.number))

    def _unit_of(self, path: str, base: int, next_base: int, size: int, known: Known | None) -> ScrubUnit:
        options, directory = self._options, os.path.dirname(path) or os.curdir
        name = parse_partition(base_name(directory))
        partition = None if name is None else (name.topic, name.partition)
        return ScrubUnit(
            path,
            base,
            next_base,
            size,
            known,
            ledger=options.ledger,
            log_dir=above(directory),
            partition=partition,
            resync=options.resync,
            max_batch_bytes=options.max_batch_bytes,
        )

    # --- what comes back ------------------------------------------------------------------------------------
    def _told(self, result: Finding | OpenFailure) -> Iterator[Item]:
        """What was committed stands before it."""
        if self._held:
            yield from self._commit()
        if isinstance(result, Finding):
            self._see(result)
        yield result

    def _see(self, finding: Finding) -> None:
        if finding.severity is Severity.ERROR and finding.because is None:
            if finding.code is Code.V05:
                self._persons.see(finding)
            if len(self._damaged) <= _MOST_STEPS:
                self._damaged[os.path.dirname(finding.file) or os.curdir] = None

    def _outcome(self, turn: Turn, outcome: ScrubOutcome) -> Iterator[Item]:
        if outcome.left_out is not None:
            self._left += outcome.left_out == NO_TIME
            self._held.append(Unchecked(turn.path, outcome.left_out))
        else:
            self._keep(turn.number, outcome)
            self._ledger.took_turn(turn.number, is_left=turn.is_left)
            self._pending += 1
            self._read += 1
            files = (CheckedFile(turn.path, FileKind.LOG, outcome.size),) if outcome.batches or outcome.known else ()
            self._held.append(Checked(files, outcome.batches, 0))
        if self._pending >= _TOGETHER or time.monotonic() - self._committed >= _OFTEN:
            yield from self._commit()

    def _keep(self, number: int, outcome: ScrubOutcome) -> None:
        if outcome.known is None or outcome.is_changed:
            return
        if outcome.is_new:
            self._ledger.keep(number, outcome.known)
        else:
            self._ledger.saw(number, outcome.known)

    def _commit(self) -> Iterator[Item]:
        """Let the ledger have what was read, and then tell it."""
        self._ledger.commit()
        self._pending, self._committed = 0, time.monotonic()
        held, self._held = self._held, []
        yield from held

    def _steps(self) -> Iterator[Item]:
        """What to do: with what changed a person, with the rest the commands that verify names."""
        why = "says what readers lose by this, what else is wrong there, and how to mend it"
        yield from steps_for((), self._persons.moves())
        damaged = tuple(self._damaged)[:_MOST_STEPS]
        for n, one in enumerate(damaged, 1):
            command = command_line("verify", named(one))
            yield Step(1, n, damaged, Rank.RECOMMENDED, condition=None, command=command, why=why, loses=NONE)

    # --- what is right as it is -----------------------------------------------------------------------------
    def accept(self, row: Listed | OpenFailure) -> Iterator[Item]:
        """Yield what is wrong with a segment; if nothing is, it is held against its present bytes from now on."""
        if isinstance(row, OpenFailure):
            yield row
            return
        assert row.next_base is not None
        is_clean, last = True, Checked((), 0, 0)
        for item in check_loose(row.shown, VerifyOptions(max_batch_bytes=self._options.max_batch_bytes)):
            if isinstance(item, Checked):
                last = item
            elif isinstance(item, Finding | OpenFailure):
                is_clean = is_clean and not (isinstance(item, OpenFailure) or item.is_unsound)
                yield item
        outcome: ScrubOutcome | None = None
        unit = self._unit_of(row.shown, row.base, row.next_base, row.size, None)
        for result in scrub_segment(unit) if is_clean else ():
            if isinstance(result, ScrubOutcome):
                outcome = result
            elif isinstance(result, OpenFailure):
                yield result
        if outcome is not None and outcome.known is not None:
            number = self._ledger.number_of(row.path)
            self._ledger.keep(number, outcome.known)
            self._ledger.took_turn(number, is_left=True)
            self._ledger.commit()
        else:
            yield Unchecked(row.shown, "not accepted: verify finds it damaged, or it could not be read")
        yield last
