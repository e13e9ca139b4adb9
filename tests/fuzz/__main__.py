"""Feeds kdump cases that nearly are files of a broker, and says which of them break a promise.

    python -m tests.fuzz TARGET --seconds N --seed S [--finds DIR]
    python -m tests.fuzz all --seconds N
    python -m tests.fuzz TARGET --seed S --only NUMBER

A case depends on target, seed and number alone. What breaks a promise is kept below DIR, each in a directory with its
files and `case.json`; moved to `fixtures/fuzz/` it is a test (`tests/fuzz/test_fuzz.py`). Exit status: 0 nothing found,
1 something was.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.chance import Chance
from tests.fuzz.judge import Judge
from tests.fuzz.targets import TARGETS, make
from tests.support import partitions

if TYPE_CHECKING:
    from tests.fuzz.case import Case

if TYPE_CHECKING:
    from tests.fuzz.case import Case

BOTH = 8  # one case of this many is run uncompiled too
MOST_FINDS = 20  # of one target: one mistake is found again and again


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None, help="another one each time where it is not given")
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER", help="one case alone")
    parser.add_argument("--finds", type=Path, default=None, metavar="DIR", help="where finds are kept")
    parser.add_argument(
        "--atheris", action="store_true", help="let atheris choose, guided by coverage (pip install it)"
    )
    given = parser.parse_args()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    finds = given.finds or Path(tempfile.mkdtemp(prefix="kdump-finds-"))
    names = list(TARGETS) if given.target == "all" else [given.target]
    print(f"seed {seed}, finds go to {finds}", flush=True)
    if given.atheris:
        from tests.fuzz.guided import guided

        return guided(names[0], given.seconds, seed, finds)
    scratch = Path(tempfile.mkdtemp(prefix="kdump-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    judge = Judge(scratch / "case")
    try:
        found = sum(fuzz(judge, name, seed, given.seconds / len(names), finds, given.only) for name in names)
    finally:
        judge.close()
        shutil.rmtree(scratch, ignore_errors=True)
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"{sum(one.ru_utime + one.ru_stime for one in used):.0f} s of CPU", flush=True)
    return int(found > 0)


def fuzz(judge: Judge, target: str, seed: int, seconds: float, finds: Path, only: int | None) -> int:
    """Run cases of one target for some time; return how many broke a promise."""
    known: dict[str, int] = {}
    began, number = time.monotonic(), 0
    while time.monotonic() - began < seconds and len(known) < MOST_FINDS:
        case = make(target, Chance(f"{target} {seed} {number if only is None else only}"))
        problem = judge.problem(case, both=only is not None or number % BOTH == 0)
        if problem is not None:
            kind = kind_of(problem)
            known[kind] = known.get(kind, 0) + 1
            if known[kind] == 1:
                where = keep(finds, f"{target}-{seed}-{number if only is None else only}", case, problem)
                print(f"{target}: {problem}\n    {where}", flush=True)
        number += 1
        if only is not None:
            break
    spent = time.monotonic() - began
    print(f"{target}: {number} cases in {spent:.1f} s, {sum(known.values())} finds of {len(known)} kinds", flush=True)
    return len(known)


def kind_of(problem: str) -> str:
    """A problem without what differs from case to case, so that one mistake is kept once."""
    return re.sub(r"[0-9]+|b'.*|\"[^\"]*\"|'[^']*'", "", problem.partition(": ")[2])[:80]


def keep(finds: Path, name: str, case: Case, problem: str) -> Path:
    """Keep a case with all that a test needs."""
    folder = finds / name
    partitions.write(folder / "files", case.files)
    about = {"problem": problem, "commands": case.commands, "usage": case.usage}
    about |= {"writes": case.writes, "restores": case.restores}
    (folder / "case.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    return folder


if __name__ == "__main__":
    sys.exit(main())
