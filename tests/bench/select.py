#!/usr/bin/env python3
"""Time the selections of `kdump dump`: small parts of 1 GiB over the start, filters over 256 MB against all of it.

    python -m tests.bench.select [FOLDER] [--runs N] [--kdump COMMAND]

The data is that of find.py and of dump.py; it is made once and kept in FOLDER. Bars are on CPU time, for the clock
tells more about neighbours; ends with 1 when one is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench import dump, find
from tests.bench.dump import MB, Cost, missed, run

ZERO = f"{0:020}.log"
MIDDLE = 777_777  # an offset of the large log
OVER_START = 0.020  # seconds
MOST_MEMORY = 96 * MB
ALL = "everything"
PARTS = {
    "start": [f"tiny-0/{ZERO}"],
    "--from-offset --limit 10": ["--from-offset", str(MIDDLE), "--limit", "10", f"large-0/{ZERO}"],
    "--tail 10": ["--tail", "10", f"large-0/{ZERO}"],
    "--from-time --limit 10": ["--from-time", str(find.FIRST_TIMESTAMP + MIDDLE), "--limit", "10", f"large-0/{ZERO}"],
    "--from-position --limit 10": ["--from-position", str(700 * MB), "--limit", "10", f"large-0/{ZERO}"],
    "--tail 10, a directory": ["--tail", "10", "large-0"],
}
FILTERS = {
    ALL: [],
    "--key": ["--key", "no key is"],
    "--key-regex, with a literal": ["--key-regex", "^ab.*z$"],
    "--key-regex, without": ["--key-regex", "[0-9]{3}"],
    "--header": ["--header", "trace"],
    "--tombstones": ["--tombstones"],
    "--producer-id": ["--producer-id", "4001"],
    "--from-time": ["--from-time", str(find.FIRST_TIMESTAMP + 400_000)],
    "--from-offset": ["--from-offset", "1000000"],
    "--tail 10 --key": ["--tail", "10", "--key", "no key is"],
    "--committed": ["--committed"],
}


def measure(cases: dict[str, list[str]], folder: Path, kdump: list[str], runs: int) -> dict[str, Cost]:
    """Return the medians of each case; the order changes from run to run."""
    costs: dict[str, list[Cost]] = {name: [] for name in cases}
    for turn in range(runs):
        for name in random.Random(turn).sample(list(cases), len(cases)):
            costs[name].append(run([*kdump, "dump", "--print-data-log", *cases[name]], folder))
    return {name: Cost(*map(statistics.median, zip(*some, strict=True))) for name, some in costs.items()}


def main() -> int:
    """Make the data, time everything, print the tables; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="select.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench-select")
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    find.make(folder / "find")
    dump.make("none", folder)
    print(f"{'':30}{'CPU s':>6} {'wall s':>6} {'MB':>5}")
    parts = measure(PARTS, folder / "find", options.kdump, options.runs)
    good = True
    for name, cost in parts.items():
        over = cost.cpu - parts["start"].cpu
        bad = over > OVER_START or cost.memory >= MOST_MEMORY
        good = good and not bad
        print(f"{name:30}{cost}  {over * 1000:+.0f} ms of CPU; bar {OVER_START * 1000:+.0f} ms{missed(bad)}")
    filters = {name: [*args, f"none/{ZERO}"] for name, args in FILTERS.items()}
    costs = measure(filters, folder, options.kdump, options.runs)
    for name, cost in costs.items():
        bad = cost.cpu > costs[ALL].cpu or cost.memory >= MOST_MEMORY
        good = good and not bad
        print(f"{name:30}{cost}  {cost.cpu / costs[ALL].cpu:.2f} of the CPU of everything{missed(bad)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
