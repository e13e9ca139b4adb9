#!/usr/bin/env python3
"""Time `kdump salvage` against `kdump verify` and `cp` of the same partition.

    python -m tests.bench.rescue [FOLDER] [--runs N] [--kdump COMMAND]

The data is that of `tests.bench.verify`: four segments of 256 MB, 80 records of 200 bytes to a batch, and one of 80 MB
with zstd, kept in FOLDER; a FOLDER in memory leaves the disk out. Medians of CPU time (user and system), wall time and
peak memory of whole processes, all commands in turn. What a run has written goes before the next one. Ends with 1 when
a bar is missed.
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

MOST_MB = 96
BARS = {"": ("verify --shallow", "four-0", 2.0), ", zstd": ("verify", "zstd-0", 1.3)}


def main() -> int:
    """Make the data, time everything, print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="rescue.py", description=__doc__, allow_abbrev=False)
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
    out = folder.parent / f"{folder.name}-salvaged"  # in no log directory
    commands: dict[str, list[str]] = {}
    for case, (verify, partition, _) in BARS.items():
        commands[f"{verify}{case}"] = [*options.kdump, *verify.split(), partition]
        commands[f"cp{case}"] = ["cp", "-r", partition, str(out)]
        commands[f"salvage{case}"] = [*options.kdump, "salvage", partition, "--to", str(out)]
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(options.runs):
        for name in random.Random(SEED + turn).sample(list(commands), len(commands)):
            costs[name].append(run(commands[name], folder))
            shutil.rmtree(out, ignore_errors=True)
    found = {name: Cost(*map(statistics.median, zip(*all_runs, strict=True))) for name, all_runs in costs.items()}
    for name, cost in found.items():
        print(f"{name:42}{cost}")
    return 0 if judged(found) else 1


def judged(costs: dict[str, Cost]) -> bool:
    """Print the ratios with their bars, and return whether all are passed."""
    good = True
    for case, (verify, _, bar) in BARS.items():
        cost = costs[f"salvage{case}"]
        ratio = cost.cpu / (costs[f"{verify}{case}"].cpu + costs[f"cp{case}"].cpu)
        what = f"{ratio:.2f}x the CPU time of {verify} and cp, {cost.memory / MB:.0f} MB"
        print(f"salvage{case:35}{what}; bar {bar}x, {MOST_MB} MB")
        good = good and ratio <= bar and cost.memory / MB < MOST_MB
    return good


if __name__ == "__main__":
    sys.exit(main())
