#!/usr/bin/env python3
"""Time the start of kdump over that of Python with click: the version, one small file, one small partition.

    python -m tests.bench.startup [--runs N] [--kdump COMMAND]

CPU time (user and system) of whole processes, all in turn, of which the second lowest counts: neighbours only ever add.
The files are those of a real broker, from `fixtures`. Ends with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from tests.bench.dump import run

NODE = Path(__file__).resolve().parents[2] / "fixtures" / "kafka-4.3.1" / "clean" / "node1"
CLICK = "import click"
BARS = {  # ms of CPU over CLICK
    "--version": 15,
    "dump tombstone-0/00000000000000000611.log": 25,
    "verify plain-0": 45,
    "verify tombstone-0": 45,
}


def main() -> int:
    """Run everything in turn, and print what each takes; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="startup.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("--runs", type=int, default=15, metavar="N", help="of which the second lowest counts")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    options = parser.parse_args()
    commands = {CLICK: [sys.executable, "-c", CLICK], **{name: [*options.kdump, *name.split()] for name in BARS}}
    found: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(options.runs + 1):
        for name, words in commands.items():
            cpu = run(words, NODE).cpu * 1000
            if turn:  # the first one may have to compile
                found[name].append(cpu)
    second = {name: sorted(all_runs)[1] for name, all_runs in found.items()}
    missed = False
    for name, cpu in second.items():
        over, bar = cpu - second[CLICK], BARS.get(name)
        is_missed = bar is not None and over > bar
        missed = missed or is_missed
        told = "" if bar is None else f"  {over:+6.1f} ms over click; bar {bar}{' MISSED' if is_missed else ''}"
        print(f"{name:44}{cpu:6.1f} ms{told}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
