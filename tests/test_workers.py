"""Units in several processes: the order, what is killed, what fails, and what is said of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.item import Progress
from kdump.output import Output
from kdump.workers import in_order, in_turn, processes


def of(unit: int) -> Iterator[int]:
    """Yield as many results as the unit says."""
    yield from range(unit)


def all_of(units: list[int], jobs: int) -> list[list[int]]:
    with in_order(units, of, jobs) as done:
        return [[one for one in results if isinstance(one, int)] for results in done]


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("units", [[], [5], [3, 0, 700, 1], [9000, 9000, 9000], list(range(40))])
def test_results_come_in_the_order_of_the_units(units: list[int], jobs: int) -> None:
    assert all_of(units, jobs) == [list(range(unit)) for unit in units]


def test_zero_is_every_core_that_the_process_may_use() -> None:
    assert processes(0) == len(os.sched_getaffinity(0))
    assert processes(3) == 3


def test_one_unit_is_done_where_it_is_asked_for() -> None:
    with in_order([0], lambda _: [os.getpid()], 8) as done:
        assert [list(results) for results in done] == [[os.getpid()]]


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_an_exception_is_raised_where_the_results_are_read(jobs: int) -> None:
    def work(unit: int) -> Iterator[int]:
        yield unit
        if unit == 2:
            raise OSError(5, "no", "a file")
        yield -unit

    read: list[object] = []

    def read_all() -> None:
        with in_order(range(5), work, jobs) as done:
            for results in done:
                read.extend(results if len(read) < 4 else [next(results), next(results)])

    with pytest.raises(OSError, match="a file") as caught:
        read_all()
    assert (caught.value.errno, caught.value.filename) == (5, "a file")
    assert read == [0, 0, 1, -1]


@pytest.mark.parametrize("jobs", [2, 3])
def test_what_a_killed_process_had_is_done_again(jobs: int, capfd: pytest.CaptureFixture[str]) -> None:
    here = os.getpid()

    def work(unit: int) -> Iterator[int]:
        for one in range(300):
            if unit in (1, 4) and one == 200 and os.getpid() != here:
                os.kill(os.getpid(), signal.SIGKILL)
            yield one

    with in_order(range(7), work, jobs) as done:
        assert [list(results) for results in done] == [list(range(300))] * 7
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("kdump: a process was killed by signal 9; its share is done again") for line in lines)


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_tells_of_all_units(jobs: int) -> None:
    def work(unit: int) -> Iterator[int | Progress]:
        yield Progress(unit // 2, unit, "a")
        yield unit
        yield Progress(unit, unit, "a")

    with in_order([10, 20, 30], work, jobs, total=60) as done:
        told = [one for results in done for one in results if isinstance(one, Progress)]
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert told[-1].done == 60
    assert {one.total for one in told} == {60}


def test_without_a_total_nobody_is_told_of_progress() -> None:
    with in_order([1, 2], lambda unit: [Progress(unit, unit, "a"), unit], 1) as done:
        assert [list(results) for results in done] == [[1], [2]]


ENDLESS = """
import os, sys, time
from kdump.workers import in_order
def work(unit):
    while True:
        yield f"{unit} {os.getpid()}"
        time.sleep(0.01)
with in_order(range(3), work, 3) as done:
    for results in done:
        for one in results:
            print(one, flush=True)
"""


def test_no_process_outlives_the_one_that_asked() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, cwd=Path.cwd()) as asked:
        assert asked.stdout is not None
        process = int(asked.stdout.readline().split()[1])
        asked.kill()
        asked.wait()
        assert process != asked.pid
        assert asked.stdout.read() is not None  # ends when nobody holds the pipe


class Adding:
    """Adds the units up; 3 is left out, and 100 is enough."""

    def job(self, unit: int, _output: Output) -> "Adding":
        self._unit = unit
        return self

    def ahead(self) -> Iterator[None]:
        yield

    def turn(self, state: int) -> int:
        return state + self._unit

    def is_left_out(self, unit: int, _state: int) -> bool:
        return unit == 3

    def is_over(self, state: int) -> bool:
        return state >= 100


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
def test_each_unit_is_told_in_its_turn_done_or_left_out(jobs: int) -> None:
    told: list[int] = []
    units = [1, 2, 3, 4, 5, 100, 6]
    assert in_turn(units, Adding(), jobs, 0, told=told.append) == 112
    assert told == units[:6]


@pytest.mark.parametrize(("term", "erased"), [("xterm", b"\r\x1b[K"), ("dumb", b""), ("unknown", b"")])
def test_a_terminal_without_escape_sequences_gets_none(
    term: str, erased: bytes, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("TERM", term)
    with os.fdopen(os.dup(1), "w") as stdout, os.fdopen(os.dup(2), "w") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(sys, "stderr", stderr)
        Output(has_bar=True).error(b"kdump: a line\n")
    assert capfdbinary.readouterr().err == erased + b"kdump: a line\n"
