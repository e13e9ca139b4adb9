#!/usr/bin/env python3
"""Time two trees of kdump against each other, command by command in turn: is the new one slower?

    python -m tests.bench.pairs FOLDER --old TREE --new TREE [--runs N] [--only TEXT] [--most RATIO]

FOLDER is a scratch directory: the data is made there once, from a fixed seed. Each command runs in both trees, in
turn: the CPU (user and system) of whole processes. Printed are the medians, their ratio, and how far two halves of the
runs of the old tree lie apart, which is the noise of the machine. Ends with 1 where the new one needs more than RATIO
(1.03) and more than that noise. Both trees need their kernels: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench.dump import MB, Recipe, make, run
from tests.bench.verify import make_indexes

NODE = Path(__file__).resolve().parents[2] / "fixtures" / "kafka-4.3.1" / "clean" / "node1"
ONE = f"{0:020}.log"
LARGE, ZSTD, TINY = f"none/{ONE}", f"zstd/{ONE}", f"tiny/{ONE}"
COMMANDS = {
    "start": "--version",
    "verify of a small directory": f"verify {NODE}/plain-0",
    "verify of a node": f"verify {NODE}",
    "verify --format json of a node": f"verify --format json {NODE}",
    "verify, 256 MB": "verify data-0",
    "verify --shallow": "verify --shallow data-0",
    "verify, zstd": f"verify {ZSTD}",
    "verify, a record a batch": f"verify {TINY}",
    "dump, 256 MB": f"dump {LARGE}",
    "dump --print-data-log": f"dump --print-data-log {LARGE}",
    "dump --print-data-log, json": f"dump --print-data-log --format json {LARGE}",
    "dump --print-data-log, zstd": f"dump --print-data-log {ZSTD}",
    "dump --print-data-log, a record a batch": f"dump --print-data-log {TINY}",
    "dump of a part": f"dump --print-data-log --from-offset 777777 --to-offset 777877 {LARGE}",
    "dump --value-regex": f"dump --print-data-log --value-regex ZZ {LARGE}",
    "dump --fate": f"dump --fate --set cleanup.policy=compact {ZSTD}",
    "dump --fate of a part": (
        f"dump --fate --set cleanup.policy=compact --from-offset 777777 --to-offset 777877 {LARGE}"
    ),
    "find-offset": "find-offset data-0 777777",
    "find-time": "find-time data-0 2023-11-14T22:20:00Z",
    "reindex that finds nothing to do": "reindex data-0",
    "salvage": "salvage data-0 --to result",
    "salvage of a node": f"salvage {NODE} --to result",
    "groups of a node": f"groups {NODE}",
    "transactions of a node": f"transactions {NODE}",
    "cluster of a node": f"cluster {NODE}",
    "retention of a node": f"retention {NODE}",
    "du --by key": "du --by key data-0",
    "export of records": "export --table records --to result data-0",
}


def make_data(folder: Path) -> None:
    """Make the data that all commands read."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in ("none", "zstd", "tiny"):
        make(case, folder)
    make("data-0", folder, Recipe(80, 128 * MB, segments=2))
    for log in (folder / "data-0").glob("*.log"):
        if not log.with_suffix(".index").exists():
            make_indexes(log)


def cpu_of(tree: str, command: str, folder: Path) -> float:
    """Run a command of a tree; return its seconds of CPU, and remove what it made."""
    cost = run(["env", f"PYTHONPATH={tree}", sys.executable, "-P", "-m", "kdump", *command.split()], folder)
    shutil.rmtree(folder / "result", ignore_errors=True)
    return cost.cpu


def main() -> int:
    """Time the commands; return 1 where the new tree is slower."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--runs", type=int, default=6, help="of each tree, at least 2")
    parser.add_argument("--only", default="", help="commands with this in their name")
    parser.add_argument("--most", type=float, default=1.03)
    options = parser.parse_args()
    with ProcessPoolExecutor(1) as maker:
        maker.submit(make_data, options.folder).result()
    slower = False
    print(f"{'command':40} {'old ms':>8} {'new ms':>8} {'ratio':>6} {'noise':>6}")
    for name, command in COMMANDS.items():
        if options.only not in name:
            continue
        costs: dict[str, list[float]] = {"old": [], "new": []}
        for number in range(-1, options.runs):
            for side in ("old", "new") if number % 2 else ("new", "old"):
                cost = cpu_of(getattr(options, side), command, options.folder)
                costs[side] += [cost] if number >= 0 else []
        old, new = statistics.median(costs["old"]), statistics.median(costs["new"])
        halves = statistics.median(costs["old"][::2]), statistics.median(costs["old"][1::2])
        noise, ratio = max(halves) / min(halves), new / old
        is_slower = ratio > max(options.most, noise)
        slower |= is_slower
        print(
            f"{name:40} {1000 * old:8.0f} {1000 * new:8.0f} {ratio:6.3f} {noise:6.3f}{'  slower' * is_slower}",
            flush=True,
        )
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
