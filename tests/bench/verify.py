#!/usr/bin/env python3
"""Time `kdump verify` against a bare read with crc32c, against Kafka's own tool, and with two processes.

    python -m tests.bench.verify [FOLDER] [--runs N] [--java-classpath CP] [--kdump COMMAND]

The data is made once, from a fixed seed, and kept in FOLDER: four segments of 256 MB with their indexes, 80 records of
200 bytes to a batch, and one segment of 80 MB with zstd. Medians of CPU time (user and system), wall time and peak
memory of whole processes; what the start of kdump takes (`verify` of an empty partition) is subtracted where the table
says so. Ends with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import statistics
import struct
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench.dump import CASES, MB, SEED, Cost, Recipe, make, run

FOUR = Recipe(80, 256 * MB, segments=4)
INTERVAL = 4096
READ = """
import os, sys
from crc32c import crc32c
piece = memoryview(bytearray(1 << 20))
for path in sys.argv[1:]:
    log, crc = os.open(path, os.O_RDONLY), 0
    while size := os.readv(log, [piece]):
        crc = crc32c(piece[:size], crc)
"""


def make_all(folder: Path) -> None:
    """Make the data, in another process: its memory is not to count."""
    for case, recipe in (("four-0", FOUR), ("zstd-0", CASES["zstd"])):
        make(case, folder, recipe)
        for log in sorted((folder / case).glob("*.log")):
            if not log.with_suffix(".index").exists():
                make_indexes(log)
    (folder / "empty-0").mkdir(exist_ok=True)
    (folder / "empty-0" / f"{0:020}.log").touch()
    (folder / ".kafka_cleanshutdown").touch()


def make_indexes(log: Path) -> None:
    """Write the indexes of a segment as a broker that appends batch by batch does."""
    index, times, position, indexed, base = bytearray(), bytearray(), 0, 0, int(log.stem)
    last = time = 0
    with log.open("rb") as file:
        while header := file.read(61):
            offset, length = struct.unpack_from(">qi", header)
            last, time = offset + struct.unpack_from(">i", header, 23)[0], struct.unpack_from(">q", header, 35)[0]
            if position - indexed > INTERVAL:
                indexed = position
                index += struct.pack(">ii", last - base, position)
                times += struct.pack(">qi", time, last - base)
            position += 12 + length
            file.seek(position)
    if not times.endswith(struct.pack(">qi", time, last - base)):
        times += struct.pack(">qi", time, last - base)
    log.with_suffix(".timeindex").write_bytes(times)
    log.with_suffix(".index").write_bytes(index)


def medians(commands: dict[str, list[str]], folder: Path, runs: int) -> dict[str, Cost]:
    """Run all commands in turn, shuffled, and return their medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(runs):
        for name in random.Random(SEED + turn).sample(list(commands), len(commands)):
            costs[name].append(run(commands[name], folder))
    return {name: Cost(*map(statistics.median, zip(*all_runs, strict=True))) for name, all_runs in costs.items()}


def main() -> int:
    """Make the data, time everything, print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="verify.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench-verify")
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--java-classpath", metavar="CP", help="the jars of Kafka 4.3.1: time DumpLogSegments too")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(1) as pool:
        pool.submit(make_all, folder).result()
    logs = [str(path.relative_to(folder)) for path in sorted(folder.glob("four-0/*.log"))]
    zstd = [str(path.relative_to(folder)) for path in sorted(folder.glob("zstd-0/*.log"))]
    verify = [*options.kdump, "verify"]
    commands = {
        "start": [*verify, "empty-0"],
        "start of Python": [sys.executable, "-c", READ],
        "read and crc32c": [sys.executable, "-c", READ, *logs],
        "verify --shallow": [*verify, "--shallow", "four-0"],
        "verify --shallow --start all": [*verify, "--shallow", "--start", "all", "four-0"],
        "verify": [*verify, "four-0"],
        "verify -j 2": [*verify, "-j", "2", "four-0"],
        "verify, zstd": [*verify, "zstd-0"],
    }
    if options.java_classpath:
        tool = ["java", "-Xmx256M", "-cp", options.java_classpath, "org.apache.kafka.tools.DumpLogSegments"]
        commands["DumpLogSegments"] = [*tool, "--files", ",".join(logs)]
        commands["DumpLogSegments --deep-iteration"] = [*tool, "--deep-iteration", "--files", ",".join(logs)]
        commands["DumpLogSegments --deep-iteration, zstd"] = [*tool, "--deep-iteration", "--files", ",".join(zstd)]
    costs = medians(commands, folder, options.runs)
    for name, cost in costs.items():
        print(f"{name:42}{cost}")
    return 0 if judged(costs) else 1


def judged(costs: dict[str, Cost]) -> bool:
    """Print each ratio with its bar, and return whether all are passed."""

    def net(name: str, start: str) -> float:
        return costs[name].wall - costs[start].wall

    ratios = {
        "speed of --shallow, of a bare read": (
            net("read and crc32c", "start of Python") / net("verify --shallow", "start"), 0.4,
        ),
        "wall time of one process, of two": (costs["verify"].wall / costs["verify -j 2"].wall, 1.6),
        "two of --shallow, of CPU with --start all": (
            2 * costs["verify --shallow"].cpu / costs["verify --shallow --start all"].cpu, 1.0,
        ),
        "64 MB, of the peak memory": (
            64 * MB / max(cost.memory for name, cost in costs.items() if name.startswith("verify")), 1.0,
        ),
    }  # fmt: skip
    for ours, java, bar in (
        ("verify --shallow", "DumpLogSegments", 8.0),
        ("verify", "DumpLogSegments --deep-iteration", 10.0),
        ("verify, zstd", "DumpLogSegments --deep-iteration, zstd", 10.0),
    ):
        if java in costs:
            ratios[f"CPU time of {java}, of {ours}"] = (costs[java].cpu / costs[ours].cpu, bar)
    for name, (ratio, bar) in ratios.items():
        print(f"{name:76}{ratio:6.2f}  bar {bar}{'' if ratio >= bar else '  MISSED'}")
    return all(ratio >= bar for ratio, bar in ratios.values())


if __name__ == "__main__":
    sys.exit(main())
