#!/usr/bin/env python3
"""Time `kdump reindex` of a partition without indexes against `kdump verify --shallow` of the same partition with them.

    python -m tests.bench.repair [FOLDER] [--runs N] [--kdump COMMAND]

The data is that of `tests.bench.verify`: four segments of 256 MB, 80 records of 200 bytes to a batch, kept in FOLDER.
The partition without indexes has the same logs under a second name. Medians of CPU time (user and system), wall time
and peak memory of whole processes. `--apply` writes into a third directory, whose indexes go before each run; the check
of the result, which reads all records, is a part of it. Ends with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench.dump import MB, SEED, Cost, run
from tests.bench.verify import make_all

MOST_TIME, MOST_MB = 2.0, 64
INDEXES = (".index", ".timeindex")


def harm(folder: Path, name: str) -> None:
    """Make a partition of copies of the logs, without an index; copies that are there are kept."""
    target = folder / name
    target.mkdir(exist_ok=True)
    for log in sorted((folder / "four-0").glob("*.log")):
        if not (target / log.name).exists():
            shutil.copyfile(log, target / log.name)
    for path in target.iterdir():
        if path.suffix in INDEXES:
            path.unlink()


def main() -> int:
    """Make the data, time everything, print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="repair.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench-verify")
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(1) as pool:
        pool.submit(make_all, folder).result()
        pool.submit(harm, folder, "bare-0").result()
    quarantine = folder.parent / f"{folder.name}-quarantine"
    commands = {
        "verify --shallow": [*options.kdump, "verify", "--shallow", "four-0"],
        "verify": [*options.kdump, "verify", "four-0"],
        "reindex": [*options.kdump, "reindex", "bare-0"],
        "reindex --apply": [*options.kdump, "reindex", "done-0", "--apply", "--quarantine", str(quarantine)],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(options.runs):
        for name in random.Random(SEED + turn).sample(list(commands), len(commands)):
            with ProcessPoolExecutor(1) as pool:
                pool.submit(harm, folder, "done-0").result()
            costs[name].append(run(commands[name], folder, 3 if name == "reindex" else 0))
    shutil.rmtree(quarantine, ignore_errors=True)
    found = {name: Cost(*map(statistics.median, zip(*all_runs, strict=True))) for name, all_runs in costs.items()}
    for name, cost in found.items():
        print(f"{name:42}{cost}")
    return 0 if judged(found) else 1


def judged(costs: dict[str, Cost]) -> bool:
    """Print the ratios with their bars, and return whether all are passed."""
    base, good = costs["verify --shallow"], True
    for name in ("reindex", "reindex --apply"):
        cost = costs[name]
        ratio, passed = cost.cpu / base.cpu, cost.memory / MB < MOST_MB
        bar = f"; bar {MOST_MB} MB"
        if name == "reindex":
            passed, bar = passed and ratio <= MOST_TIME, f"; bar {MOST_TIME}x, {MOST_MB} MB"
        print(f"{name:42}{ratio:.2f}x the CPU time of verify --shallow, {cost.memory / MB:.0f} MB{bar}")
        good = good and passed
    return good


if __name__ == "__main__":
    sys.exit(main())
