"""The command: so many runs of each sort; the numbers that fail with their kinds, and how often each kind fails.

python -m tests.support.rescue_truth --salvages 3000 --patch-headers 800 --carves 300 --seed 0 --jobs 2
python -m tests.support.rescue_truth --show salvages --seed 143 --keep DIR    # one case again, its files in DIR
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.rescue_truth.cases import case_of
from tests.support.rescue_truth.known import KNOWN
from tests.support.rescue_truth.runs import SORTS, Outcome, run
from tests.support.rescue_truth.show import made, told
from tests.support.rescue_truth.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMORY = Path("/dev/shm")
_TOGETHER = 50  # runs that a process makes at a time


def many(sort: str, seeds: Iterable[int]) -> list[Outcome]:
    """Make runs of one sort in a directory in memory that is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return [run(SORTS[sort], Path(folder, str(seed)), seed) for seed in seeds]


def main() -> int:
    """Make the runs that were asked for; exit status 1 where anything does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for sort in SORTS:
        parser.add_argument(f"--{sort}", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="number of the first run of each sort")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quiet", action="store_true", help="only numbers and kinds, no sentences")
    parser.add_argument("--show", choices=sorted(SORTS), help="show the run of one sort that has the number --seed")
    parser.add_argument("--keep", type=Path, help="with --show: a new directory for its files")
    given = parser.parse_args()
    if given.show is not None:
        return _show(given.show, given.seed, given.keep)
    kinds: Counter[str] = Counter()
    first: dict[str, int] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for sort in SORTS:
            count = getattr(given, sort.replace("-", "_"))
            seeds = range(given.seed, given.seed + count)
            pieces = [seeds[at : at + _TOGETHER] for at in range(0, count, _TOGETHER)]
            ends: Counter[str] = Counter()
            for outcomes in pool.map(partial(many, sort), pieces):
                for one in outcomes:
                    ends[one.end] += 1
                    found = dict.fromkeys(kind for kind, _ in one.faults)
                    kinds.update(list(found))
                    for kind in found:
                        first.setdefault(kind, one.seed)
                    if found:
                        print(f"{sort} {one.seed}: {', '.join(found)}; {one.told}", flush=True)
                        if not given.quiet:
                            print(*(f"    {kind}: {told}" for kind, told in one.faults), sep="\n")
            if count:
                print(f"{sort}: {count} runs, {dict(ends)}")
    for kind, count in sorted(kinds.items()):
        print(f"{kind}: {count}, the first {first[kind]}{', known' if kind in KNOWN else ''}")
    return int(bool(kinds))


def _show(sort: str, seed: int, keep: Path | None) -> int:
    """Make one run, and say all of it."""
    with tempfile.TemporaryDirectory() as folder:
        root = keep or Path(folder)
        root.mkdir(exist_ok=True)
        print(*told(Truth(case_of(seed))), sep="\n")
        outcome = SORTS[sort](root, seed)
        print(*made(root / "out"), outcome.end, *(f"{kind}: {what}" for kind, what in outcome.faults), sep="\n")
    return int(bool(outcome.faults))


if __name__ == "__main__":
    sys.exit(main())
