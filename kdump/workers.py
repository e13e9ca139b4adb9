"""More than one process for one verb: `-j N`. What the verbs have in common stands here, and nowhere else.

How to use it. A verb cuts what it does into units: plain values, in the order in which their results are wanted (a
segment, a partition, a part of an export, a range of a log as `storage.ranges` cuts it). Then there are two ways:

`in_order` is for units that leave something to be joined: findings, facts, figures, one small value after the other.
The verb gives a function that yields the results of one unit; it is called in any of the processes, and what it yields
is pickled. The results come back unit by unit, in order, whatever the number of processes, and the verb folds them as
if it had made them itself:

    with in_order(units, work, jobs) as judged:      # work(unit) -> Iterator[result]
        for unit, results in zip(units, judged):     # each `results` is read to its end before the next
            for result in results:
                ...

`in_turn` is for units whose output is large: each process writes that of its unit to stdout itself, when all before it
is written. See `TurnWork`.

With one process both do the same without a fork, in the process that asks: that is the meaning of the order, and what
more processes do must be the same. So a unit must hang on nothing but itself, and what it yields must not hang on how
fast it is. Units that are made as they are asked for are made in this process; what a unit stands for may be built
before the first one is asked for, and be named by a number: a fork sees it.

A process that is killed (for want of memory, say) is told in one line on stderr, and its unit is done again in the
process that asks: what it had handed over or written already is left out. The exit status does not change for that.
An exception in a unit is raised where its results are read.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from collections import deque
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kdump.item import Progress
from kdump.output import Output, erase, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from typing import Any, NoReturn, Self, TextIO

Unit = TypeVar("Unit")
Unit_contra = TypeVar("Unit_contra", contravariant=True)
Result = TypeVar("Result")
State = TypeVar("State")

_TOGETHER = 64  # results that go through a pipe at once
_MOST_HELD = 4096  # results that are held here because others are wanted before them
_AS_ONE = 4096  # bytes of output that count as one result
_OFTEN = 0.2  # seconds between two looks at how far all processes are


def processes(jobs: int) -> int:
    """Return how many processes a number after -j means.

    Args:
        jobs: the number; 0 for every core that this process may use.
    """
    return jobs or len(os.sched_getaffinity(0))


class _Worker:
    """One process.

    Args:
        pid: of it.
        pipe: to it.
        slot: its place in the memory that all share.
    """

    def __init__(self, pid: int, pipe: Connection, slot: int) -> None:
        self.pid = pid
        self.pipe = pipe
        self.slot = slot
        self.number: int | None = None  # of the unit that it has in hand; None for none

    def end(self) -> int:
        """End it, if it has not ended; return the signal it died of, 0 for none."""
        self.pipe.close()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.reap()

    def reap(self) -> int:
        """Wait for its end; return the signal it died of, 0 for none."""
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:  # somebody else has waited for it
            return 0
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


class _Workers:
    """The processes of one run, and the memory that they share.

    Args:
        serve: what a process does: takes its end of the pipe, and its slot.
        most: processes.
    """

    def __init__(self, serve: Callable[[Connection, int], None], most: int) -> None:
        import mmap

        self._serve = serve
        self._most = most
        self._started = 0
        self._pid = os.getpid()
        self.shared = memoryview(mmap.mmap(-1, 8 * SLOT * most)).cast("q")
        self.workers: list[_Worker] = []

    def idle(self) -> _Worker | None:
        """Return a process that has nothing to do, a new one while there may be more; None for none."""
        for worker in self.workers:
            if worker.number is None:
                return worker
        return self._start() if self._started < self._most else None

    def _start(self) -> _Worker:
        from multiprocessing.connection import Pipe  # it costs a tenth of the start

        ours, theirs = Pipe()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # else both processes would write what is in it
        slot = self._started
        pid = os.fork()
        if pid == 0:
            self._live(ours, theirs, slot)
        theirs.close()
        self._started += 1
        worker = _Worker(pid, ours, slot)
        self.workers.append(worker)
        return worker

    def _live(self, ours: Connection, theirs: Connection, slot: int) -> NoReturn:
        """The life of a process."""
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            _end_with(self._pid)
            for other in self.workers:
                other.pipe.close()  # only who reads may hold them: else nobody would learn that it has ended
            ours.close()
            self._serve(theirs, slot)
            code = 0
        except (EOFError, ConnectionError):  # nobody asks any more
            code = 0
        finally:
            os._exit(code)

    def lost(self, worker: _Worker) -> int:
        """Strike off a process that has ended by itself, and say so; return the signal it died of, 0 for none."""
        self.workers.remove(worker)
        worker.pipe.close()
        number = worker.reap()
        if number != signal.SIGPIPE:
            how = f"killed by signal {number}" if number else "ended too soon"
            _say(f"a process was {how}; its share is done again, by one fewer (-j N: fewer leave more memory to each)")
        return number

    def close(self) -> None:
        """End all of them; one of them ends nothing."""
        if os.getpid() != self._pid:
            return
        for worker in self.workers:
            worker.end()
        self.workers.clear()


def _end_with(parent: int) -> None:
    """See to it that this process ends when its parent does, whatever it has in hand; where the system can do that.

    Else it ends when it next hands over a result.
    """
    with suppress(ImportError, OSError, AttributeError):
        import ctypes  # the first process pays for it: a hundredth of a second

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was too late
        os._exit(0)


_PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h
SLOT = 3  # numbers that each process has in the memory that all share


def _say(line: str) -> None:
    """Write one line to stderr, over a progress bar that may stand there."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            before = erase() if sys.stderr.isatty() else ""
            sys.stderr.write(f"{before}kdump: {line}\n")
            sys.stderr.flush()


class _Raised:
    """An exception, where a result was expected."""

    def __init__(self, error: Exception) -> None:
        self.error = error


# --- results in order -----------------------------------------------------------------------------------------
def in_order(
    units: Iterable[Unit],
    work: Callable[[Unit], Iterable[Result]],
    jobs: int,
    *,
    total: int | None = None,
) -> InOrder[Unit, Result]:
    """Return what yields, for each unit in order, an iterator over its results.

    A `Progress` among the results says how far its unit is (bytes done); what comes out says how far all units are.

    Args:
        units: plain values; pickled, unless there is one process.
        work: yields the results of a unit.
        jobs: processes; 1 for this one only, 0 for every core.
        total: bytes of all units; None where nobody wants to know how far it is: no `Progress` comes out.
    """
    return InOrder(units, work, processes(jobs), total)


class InOrder(Generic[Unit, Result]):
    """The results of units, in order: see `in_order`."""

    def __init__(
        self, units: Iterable[Unit], work: Callable[[Unit], Iterable[Result]], jobs: int, total: int | None
    ) -> None:
        self._units = iter(units)
        self._work = work
        self._total = total
        self._done = 0  # bytes of the units that are done
        self._taken: dict[int, Unit] = {}  # units that were made and are not read to their end
        self._next = 0  # number of the unit that is made next
        self._is_all = False  # of the units
        self._held: dict[int, deque[Any]] = {}
        self._weight = 0  # of all that is held
        self._count: dict[int, int] = {}  # results that have come of a unit
        self._ended: set[int] = set()  # units of which all has come
        self._lost: set[int] = set()  # units whose process has ended
        self._crew: _Workers | None = None
        if jobs > 1:
            self._crew = crew = _Workers(self._serve, jobs)
            atexit.register(crew.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        if self._crew is not None:
            self._crew.close()
            atexit.unregister(self._crew.close)

    def __iter__(self) -> Iterator[Iterator[Result | Progress]]:
        """Yield the results of unit after unit; each is to be read to its end before the next is asked for."""
        first = list(islice(self._units, 2))
        if len(first) == 1:  # it is done here
            self.close()
            self._crew = None
        self._units, number = chain(first, self._units), 0
        while True:
            self._hand_out()
            if number not in self._taken and not self._take():
                break
            yield self._results(number)
            number += 1
        self.close()

    def _take(self) -> bool:
        """Make the next unit; return whether there was one."""
        if not self._is_all:
            for unit in self._units:
                self._taken[self._next] = unit
                self._next += 1
                return True
            self._is_all = True
        return False

    def _hand_out(self) -> None:
        """Give each process that has nothing to do a unit."""
        crew = self._crew
        while crew is not None and not self._is_all:
            worker = crew.idle()
            if worker is None or not self._take():
                return
            number = self._next - 1
            try:
                worker.pipe.send(self._taken[number])
            except OSError:
                crew.lost(worker)
                self._lost.add(number)
                continue
            worker.number = number
            self._held[number], self._count[number] = deque(), 0

    def _results(self, number: int) -> Iterator[Result | Progress]:
        if number not in self._held:
            yield from self._here(number, 0)
            return
        held = self._held[number]
        while held or number not in self._ended:
            if held:
                result = held.popleft()
                self._weight -= _weight(result)
                if isinstance(result, _Raised):
                    raise result.error
                yield result
            elif number in self._lost:
                yield from self._here(number, self._count[number])
                break
            else:
                if self._total is not None:
                    yield self._progress()
                self._receive()
        if self._total is not None:
            yield self._progress()
        for known in (self._held, self._count, self._taken):
            known.pop(number, None)
        self._ended.discard(number)

    def _here(self, number: int, skip: int) -> Iterator[Result | Progress]:
        """Do a unit in this process, but for the first results of it."""
        last, unit = 0, self._taken.pop(number)
        for result in self._work(unit):
            if isinstance(result, Progress):
                last = result.done
                if self._total is not None:
                    yield Progress(self._done + last, self._total, result.path)
            elif skip:
                skip -= 1
            else:
                yield result
        self._done += last

    def _progress(self) -> Progress:
        assert self._crew is not None
        workers, shared = self._crew.workers, self._crew.shared
        done = sum(shared[SLOT * worker.slot] for worker in workers if worker.number is not None)
        return Progress(self._done + done, self._total or 0, f"{len(workers)} processes")

    def _receive(self) -> None:
        """Take what the processes have: of the unit that is read now, and of others while little of them is held."""
        from multiprocessing.connection import wait

        crew = self._crew
        assert crew is not None
        busy = [worker for worker in crew.workers if worker.number is not None]
        if self._weight > _MOST_HELD:
            first = min(worker.number for worker in busy if worker.number is not None)
            busy = [worker for worker in busy if worker.number == first]
        ready = wait([worker.pipe for worker in busy], None if self._total is None else _OFTEN)
        for worker in busy:
            if worker.pipe in ready:
                self._take_results(crew, worker)
        self._hand_out()

    def _take_results(self, crew: _Workers, worker: _Worker) -> None:
        number = worker.number
        assert number is not None
        try:
            results, is_end = worker.pipe.recv()
        except (EOFError, OSError):
            crew.lost(worker)
            self._lost.add(number)
            return
        self._held[number].extend(results)
        self._weight += sum(map(_weight, results))
        self._count[number] += len(results)
        if is_end:
            self._ended.add(number)
            self._done += crew.shared[SLOT * worker.slot]
            crew.shared[SLOT * worker.slot] = 0
            worker.number = None

    def _serve(self, pipe: Connection, slot: int) -> None:
        """What a process does: unit after unit, as they come."""
        assert self._crew is not None
        shared, at = self._crew.shared, SLOT * slot
        while True:
            unit = pipe.recv()
            held: list[object] = []
            weight = 0
            try:
                for result in self._work(unit):
                    if isinstance(result, Progress):
                        shared[at] = result.done
                        continue
                    held.append(result)
                    weight += _weight(result)
                    if weight >= _TOGETHER:
                        pipe.send((held, False))
                        held, weight = [], 0
            except Exception as error:  # it is raised where the results are read
                held.append(_Raised(error))
            pipe.send((held, True))


def _weight(result: object) -> int:
    """How many results one counts as: output is as large as it is."""
    return 1 + len(result) // _AS_ONE if isinstance(result, bytes) else 1


# --- output in turn -------------------------------------------------------------------------------------------
class TurnJob(Protocol[State]):
    """One unit in one process: see `TurnWork`."""

    def ahead(self) -> Iterator[None]:
        """Do what can be done before it is known what the units before it leave; hold the output.

        Yields often: between two steps it is looked whether it is the unit's turn. Ends when all is done, or as much
        is held as may be.
        """

    def turn(self, state: State) -> State:
        """Write what was held, and do the rest; from the beginning, if the state is not what was thought.

        Args:
            state: what the units before it leave.

        Returns:
            What this one leaves.
        """


class TurnWork(Protocol[Unit_contra, State]):
    """What a verb does whose units write their output in turn: to `in_turn`."""

    def job(self, unit: Unit_contra, output: Output) -> TurnJob[State]:
        """Return the work on a unit.

        Args:
            output: takes what is written.
        """

    def is_left_out(self, unit: Unit_contra, state: State) -> bool:
        """Tell whether a unit has nothing to do.

        Args:
            state: what the unit before it has left.
        """

    def is_over(self, state: State) -> bool:
        """Tell whether nothing more is wanted, whatever comes: a limit is reached."""


def in_turn(
    units: Iterable[Unit],
    work: TurnWork[Unit, State],
    jobs: int,
    state: State,
    *,
    told: Callable[[Unit], None] | None = None,
) -> State:
    """Do units in several processes, each of which writes its output itself, when all before it is written.

    A state goes from unit to unit: what the next one must know of all before it, as small values that can be pickled.
    A process reads its unit ahead, as if the state were what it mostly is, and holds what it would write; when its turn
    comes it sees the state, and writes what it holds, or does the unit again from there. So the output is that of one
    process, whatever was thought; and no more than one unit's output is held in each process, up to a bound.

    Args:
        units: plain values, in order; pickled.
        work: what is done.
        jobs: processes; 1 for this one only, 0 for every core.
        state: before the first unit.
        told: takes each unit, in this process, when its output is written or it was left out, to draw a progress bar
            on stderr; None where nobody wants one.

    Returns:
        The state after the last.
    """
    jobs = processes(jobs)
    if jobs == 1 or not _can_share(sys.stdout) or not _can_share(sys.stderr):
        output = Output(has_bar=told is not None)
        for unit in units:
            if work.is_over(state):
                break
            if not work.is_left_out(unit, state):
                state = work.job(unit, output).turn(state)
            if told is not None:
                told(unit)
        return state
    return _InTurn(iter(units), work, jobs, told).run(state)


def _can_share(stream: TextIO | None) -> bool:
    """Whether other processes can write to a stream: it is a file, not something in the memory of this one."""
    try:
        return stream is not None and stream.fileno() >= 0
    except (OSError, ValueError):
        return False


class _InTurn(Generic[Unit, State]):
    """One run of `in_turn` with several processes."""

    def __init__(
        self,
        units: Iterator[Unit],
        work: TurnWork[Unit, State],
        jobs: int,
        told: Callable[[Unit], None] | None,
    ) -> None:
        self._units = units
        self._told = told
        self._work = work
        self._waiting: deque[tuple[Unit, _Worker | None]] = deque()  # units in order, and who has them
        self._jobs = jobs
        self._crew = _Workers(self._serve, jobs)

    def run(self, state: State) -> State:
        atexit.register(self._crew.close)
        try:
            while self._hand_out(state):
                unit, worker = self._waiting.popleft()
                is_over = self._work.is_over(state)
                if is_over or self._work.is_left_out(unit, state):
                    self._drop(worker)
                else:
                    state = self._turn(unit, worker, state)
                if self._told is not None and not is_over:
                    self._told(unit)
        finally:
            self._crew.close()
            atexit.unregister(self._crew.close)
        return state

    def _hand_out(self, state: State) -> bool:
        """Give each process that has nothing to do a unit; return whether there is one left to be written."""
        while len(self._waiting) <= self._jobs:
            worker = self._crew.idle()
            if worker is None and self._waiting:
                break
            unit = None if self._work.is_over(state) else next(self._units, None)
            if unit is None:
                break
            if worker is not None:
                worker.number = 0
                try:
                    worker.pipe.send(unit)
                except OSError:
                    self._crew.lost(worker)
                    worker = None
            self._waiting.append((unit, worker))
        return bool(self._waiting)

    def _turn(self, unit: Unit, worker: _Worker | None, state: State) -> State:
        written = (0, 0)
        if worker is not None:
            counts = self._crew.shared[SLOT * worker.slot : SLOT * worker.slot + 2]
            counts[0] = counts[1] = 0
            try:
                worker.pipe.send((state,))
                result: State | _Raised = worker.pipe.recv()
                worker.number = None
            except (EOFError, OSError):
                written = (counts[0], counts[1])
                if self._crew.lost(worker) == signal.SIGPIPE:  # whoever read the output has gone
                    self._crew.close()
                    os.kill(os.getpid(), signal.SIGPIPE)
                    raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
            else:
                if isinstance(result, _Raised):
                    raise result.error
                return result
        output = Output(has_bar=self._told is not None)
        output.skip(*written)
        state = self._work.job(unit, output).turn(state)
        sys.stdout.flush()
        return state

    def _drop(self, worker: _Worker | None) -> None:
        """Tell a process that its unit is not wanted."""
        if worker is not None:
            worker.number = None
            with suppress(OSError):
                worker.pipe.send(None)

    def _serve(self, pipe: Connection, slot: int) -> None:
        """What a process does: unit after unit, ahead of its turn and in it."""
        counts = self._crew.shared[SLOT * slot : SLOT * slot + 2]
        output = Output(counts, pipe, has_bar=self._told is not None)
        while True:
            unit = pipe.recv()
            output.hold()
            failed: Exception | None = None
            try:
                job = self._work.job(unit, output)
                for _ in job.ahead():
                    if is_ready(pipe):
                        break
            except Exception as error:  # it is raised in its turn
                failed = error
            turn = pipe.recv()
            if turn is None:
                output.release()
                continue
            result: object = _Raised(failed) if failed is not None else None
            if failed is None:
                try:
                    result = job.turn(*turn)
                except Exception as error:  # it is raised where the output is asked for
                    result = _Raised(error)
            pipe.send(result)
