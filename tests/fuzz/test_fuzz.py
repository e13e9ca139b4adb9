"""Every find of the fuzzer holds now; the fuzzer itself makes the same cases again, and sees what it looks for."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import calls, runner
from tests.fuzz.case import Case
from tests.fuzz.chance import Chance
from tests.fuzz.judge import Judge, files_in, not_json
from tests.fuzz.targets import TARGETS, make
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

FINDS = sorted(path for path in (FIXTURES / "fuzz").iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    one = Judge(tmp_path_factory.mktemp("fuzz") / "case")
    yield one
    one.close()


@pytest.mark.parametrize("folder", FINDS, ids=lambda folder: folder.name)
def test_find_stays_mended(judge: Judge, folder: Path) -> None:
    about = json.loads((folder / "case.json").read_text("utf-8"))
    case = Case(
        files_in(folder / "files"), **{name: about[name] for name in ("commands", "writes", "restores", "usage")}
    )
    assert judge.problem(case, both=True) is None


@pytest.mark.parametrize("target", TARGETS)
def test_first_cases_of_a_target_hold(judge: Judge, target: str) -> None:
    for number in range(3):
        assert judge.problem(make(target, Chance(f"{target} 0 {number}")), both=number == 0) is None


@pytest.mark.parametrize("target", TARGETS)
def test_case_depends_on_its_number_alone(target: str) -> None:
    assert make(target, Chance("a 1 2")) == make(target, Chance("a 1 2"))


def dies(_main: object) -> int:
    os.kill(os.getpid(), signal.SIGABRT)  # a sanitizer makes a report of SIGSEGV
    return 0


def raises(_main: object) -> int:
    raise ValueError("a bug")


def spins(_main: object) -> int:
    while True:
        pass


def grows(_main: object) -> int:
    # The child begins without the pages of files that its parent has: some 50 MB more must not hide what it takes.
    return len(bytearray(runner.MEMORY + (150 << 20))) & 0


def writes(_main: object) -> int:
    Path("new").touch()
    return 0


def odd_exit(_main: object) -> int:
    return 99


def changes(_main: object) -> int:
    print(os.getpid())
    return 0


BROKEN = {
    "@dies": (dies, "signal SIGABRT"),
    "@raises": (raises, "raised ValueError"),
    "@spins": (spins, "seconds of CPU"),
    "@grows": (grows, "took"),
    "@writes": (writes, "changed its input"),
    "@odd_exit": (odd_exit, "exit 99"),
    "@changes": (changes, "compiled is not uncompiled"),
}


@pytest.fixture(scope="module")
def strict_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "CPU_SECONDS", 3)  # a machine may take one to find the memory of `grows`
        for name, (function, _) in BROKEN.items():
            patch.setitem(calls.CALLS, name, function)
        one = Judge(tmp_path_factory.mktemp("broken") / "case")
        yield one
        one.close()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_promise_is_seen_and_the_next_case_runs(strict_judge: Judge, name: str) -> None:
    if name == "@grows" and runner.SANITIZED:
        pytest.skip("a sanitizer needs memory of its own")
    problem = strict_judge.problem(Case({"a": b"a"}, [[name]]), both=name == "@changes")
    assert problem is not None
    assert BROKEN[name][1] in problem
    assert strict_judge.problem(make("scan", Chance("scan 0 0")), both=False) is None


@pytest.mark.parametrize(
    "line", [b"{}", b"[]", b'{"a": 1, "type": "x"}', b'{"type": NaN}', b'{"type": "\xc3\xa9"}', b"x"]
)
def test_line_that_is_not_json_as_promised_is_seen(line: bytes) -> None:
    assert not_json(b'{"type": "file"}') is None
    assert not_json(line + b"\n") is not None
