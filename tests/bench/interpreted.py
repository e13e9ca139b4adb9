#!/usr/bin/env python3
"""Time kdump without its compiled kernels against itself with them: how much longer does it take?

    python -m tests.bench.interpreted FOLDER [--runs N]

FOLDER is a scratch directory: the data, 70 MiB, is made there once, from a fixed seed. Printed are the CPU (user and
system) of whole processes, in turn, medians, and the ratio: what kdump/format/kernels/interpreted.py says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path

import kdump
from kdump.format.kernels.interpreted import SLOWER
from tests.bench.dump import MB, Recipe, make, run

LOG = f"{0:020}.log"
MADE = Recipe(80, 70 * MB)


def main() -> int:
    """Time the verbs; return 1 where what is said is not within a half of what is so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    make("slow-0", options.folder, MADE)
    package = Path(kdump.__file__).parent
    twins = options.folder / "twins"
    shutil.rmtree(twins, ignore_errors=True)
    shutil.copytree(package, twins / "kdump", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    status = 0
    for verb, said in SLOWER.items():
        costs: dict[str, list[float]] = {}
        for _ in range(options.runs):
            for name, tree in (("compiled", package.parent), ("interpreted", twins)):
                command = [sys.executable, "-P", "-m", "kdump", *verb.split(), f"slow-0/{LOG}"]
                cost = run(["env", f"PYTHONPATH={os.fspath(tree)}", *command], options.folder)
                costs.setdefault(name, []).append(cost.cpu)
        fast, slow = (statistics.median(costs[name]) for name in ("compiled", "interpreted"))
        print(f"{verb:24} {fast:7.2f} s {slow:7.2f} s {slow / fast:6.0f} times; kdump says {said}", flush=True)
        status |= not 0.5 <= slow / fast / said <= 1.5
    return status


if __name__ == "__main__":
    sys.exit(main())
