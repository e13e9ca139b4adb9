#!/usr/bin/env python3
"""Time `kdump groups` over a partition of __consumer_offsets, and `dump --format json` in turn with it.

    python -m tests.bench.state [FOLDER] [--runs N] [--kdump COMMAND] [--commits N]

The data is made once and kept in FOLDER: commits of 10,000 keys (500 groups, 20 partitions each) in random order from a
fixed seed, four in a batch. Ends with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import random
import shlex
import statistics
import struct
import sys
import tempfile
from pathlib import Path

from crc32c import crc32c

from tests.bench.dump import SEED, Cost, missed, run
from tests.support.segments import HEADER, RECORDS_AT, TIME, varint

COMMITS, GROUPS, PARTITIONS, IN_BATCH = 10_000_000, 500, 20, 4
SEGMENT = 500_000_000  # bytes
MOST = 1.5  # times the CPU of dump
AIM = 0.2
MOST_MEMORY = 96 << 20


def make(folder: Path, commits: int) -> Path:
    """Make a partition, unless it is there; return its directory."""
    target = folder / f"commits-{commits}" / "__consumer_offsets-0"
    if target.is_dir():
        return target
    target.parent.mkdir(exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder))
    rng = random.Random(SEED)
    topic = b"orders-by-customer"
    keys = [
        struct.pack(">hh", 1, len(name)) + name + struct.pack(">h", len(topic)) + topic + struct.pack(">i", partition)
        for name in (b"consumer-group-%05d" % group for group in range(GROUPS))
        for partition in range(PARTITIONS)
    ]
    heads = [varint(len(key)) + key for key in keys]
    value = struct.Struct(">hqihq")
    sized = varint(value.size)
    deltas = [b"\0\0" + varint(delta) for delta in range(IN_BATCH)]
    offset, size = 0, SEGMENT
    segment = None
    for number in range(commits // IN_BATCH):
        time = TIME + number
        body = b""
        for delta in deltas:
            inner = delta + rng.choice(heads) + sized + value.pack(3, rng.randrange(1 << 40), 7, 0, time) + b"\0"
            body += varint(len(inner)) + inner
        packed = bytearray(
            HEADER.pack(offset, len(body) + RECORDS_AT - 12, 0, 2, 0, 0, IN_BATCH - 1, time, time, -1, -1, -1, IN_BATCH)
        )
        packed += body
        struct.pack_into(">I", packed, 17, crc32c(memoryview(packed)[21:]))
        if size >= SEGMENT:
            if segment is not None:
                segment.close()
            segment, size = (unfinished / f"{offset:020}.log").open("wb"), 0
        assert segment is not None
        size += segment.write(packed)
        offset += IN_BATCH
    if segment is not None:
        segment.close()
    unfinished.rename(target)
    return target


def main() -> int:
    """Make the data, time both, print a table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="state.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench")
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of which the median is taken")
    parser.add_argument("--kdump", default=f"{sys.executable} -m kdump", metavar="COMMAND")
    parser.add_argument("--commits", type=int, default=COMMITS, metavar="N")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    directory = make(options.folder, options.commits)
    kdump = shlex.split(options.kdump)
    size = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{options.commits:,} commits, {size / 1e9:.2f} GB")
    ways = {
        "groups": [*kdump, "groups", "--format", "json", str(directory)],
        "groups --at": [*kdump, "groups", "--format", "json", "--at", str(TIME + options.commits // 8), str(directory)],
        "dump": [*kdump, "dump", "--offsets-decoder", "--format", "json", str(directory)],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(options.runs):
        for name, command in ways.items():
            costs[name].append(run(command, options.folder))
    cpu = {name: statistics.median(cost.cpu for cost in found) for name, found in costs.items()}
    good = True
    for name, found in costs.items():
        memory = max(cost.memory for cost in found)
        share = cpu[name] / cpu["dump"]
        is_bad = name != "dump" and (share > MOST or memory > MOST_MEMORY)
        good &= not is_bad
        print(f"{name:12}{cpu[name]:7.2f} s of CPU {memory / (1 << 20):6.0f} MiB  {share:5.2f} of dump{missed(is_bad)}")
    print(f"bar {MOST} of dump, aim {AIM}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
