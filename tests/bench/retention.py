#!/usr/bin/env python3
"""Time `kdump retention`: 3,000 partitions with 10 segments each, and a pass over a compacted partition.

    python -m tests.bench.retention [FOLDER] [--runs N] [--kdump COMMAND]

The data is made once, from a fixed seed, and kept in FOLDER: segments of twelve small batches, and three compacted
partitions of 192 MB (batches of 20 records of 100 bytes), 96 MB (one record each) and 32 MB of zstd (200 records). The
offset map has room for all keys: a million slots, 24 MB. Medians of whole processes; ends with 1 when a bar is missed.
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
from typing import NamedTuple

from crc32c import crc32c

from tests.bench.dump import MB, SEED, Cost, run
from tests.support.segments import varint

PARTITIONS, SEGMENTS, BATCHES = 3000, 10, 12
SLOTS, SLOT = 1_000_000, 24
SEGMENT = 64 * MB
TIME = 1_700_000_000_000
WALL, MEMORY = 5.0, 64 * MB


class Compacted(NamedTuple):
    """A compacted partition: bytes, keys, records of a batch, codec."""

    size: int
    keys: int
    records: int
    codec: int = 0


PASSES = {
    "batches": Compacted(192 * MB, 400_000, 20),
    "single": Compacted(96 * MB, 400_000, 1),
    "zstd": Compacted(32 * MB, 400_000, 200, 4),
}


def batch(offset: int, records: list[tuple[bytes, bytes | None]], codec: int = 0) -> bytes:
    """Return a batch of magic 2 of keys and values."""
    body = bytearray()
    for delta, (key, value) in enumerate(records):
        told = varint(-1) if value is None else varint(len(value)) + value
        record = b"\0" + varint(delta) + varint(delta) + varint(len(key)) + key + told + b"\0"
        body += varint(len(record)) + record
    if codec:
        import zstandard

        body = bytearray(zstandard.ZstdCompressor(write_content_size=False).compress(bytes(body)))
    last = len(records) - 1
    rest = struct.pack(">hiqqqhii", codec, last, TIME + offset, TIME + offset + last, -1, -1, -1, last + 1) + body
    return struct.pack(">qiibI", offset, 9 + len(rest), 0, 2, crc32c(rest)) + rest


def write_segment(folder: Path, base: int, end: int) -> None:
    """Write the indexes of a segment, an empty one and one with the last timestamp."""
    (folder / f"{base:020}.index").touch()
    entry = struct.pack(">qi", TIME + end - 1, end - 1 - base) if end > base else b""
    (folder / f"{base:020}.timeindex").write_bytes(entry)


def make_many(folder: Path) -> None:
    """Make the log directory of many partitions."""
    value = bytes(80)
    logs = []
    for segment in range(SEGMENTS):
        base = segment * BATCHES * 3
        logs.append((base, b"".join(batch(base + 3 * n, [(b"key", value)] * 3) for n in range(BATCHES))))
    for number in range(PARTITIONS):
        partition = folder / f"many-{number}"
        partition.mkdir(parents=True)
        for base, data in logs:
            (partition / f"{base:020}.log").write_bytes(data)
            write_segment(partition, base, base + BATCHES * 3)
    (folder / ".kafka_cleanshutdown").touch()


def make_pass(folder: Path, recipe: Compacted) -> None:
    """Make a compacted partition."""
    partition = folder / "compacted-0"
    partition.mkdir(parents=True)
    chance, value = random.Random(SEED), random.Random(SEED).randbytes(80)
    offset = total = 0
    while total < recipe.size:
        base, size = offset, 0
        with (partition / f"{base:020}.log").open("wb") as log:
            while size < SEGMENT and total < recipe.size:
                keys = [b"key-%09d" % chance.randrange(recipe.keys) for _ in range(recipe.records)]
                told = [(key, None if chance.random() < 0.02 else value) for key in keys]
                data = batch(offset, told, recipe.codec)
                log.write(data)
                size, total, offset = size + len(data), total + len(data), offset + recipe.records
        write_segment(partition, base, offset)
    (partition / f"{offset:020}.log").touch()
    write_segment(partition, offset, offset)
    (folder / ".kafka_cleanshutdown").touch()


def make_all(folder: Path) -> None:
    """Make the data, in another process: its memory is not to count."""
    if not (folder / "many" / ".kafka_cleanshutdown").exists():
        make_many(folder / "many")
    for name, recipe in PASSES.items():
        if not (folder / name / ".kafka_cleanshutdown").exists():
            make_pass(folder / name, recipe)
    one = folder / "one" / "one-0"
    one.mkdir(parents=True, exist_ok=True)
    (one / f"{0:020}.log").touch()
    write_segment(one, 0, 0)
    (folder / "one" / ".kafka_cleanshutdown").touch()


def main() -> int:
    """Make the data, time everything, print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="retention.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench-retention")
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(1) as pool:
        pool.submit(make_all, folder).result()
    asked = [*options.kdump, "retention", "--now", str(TIME + 3_600_000)]
    compact = ["--set", "cleanup.policy=compact", "--set", f"log.cleaner.dedupe.buffer.size={SLOTS * SLOT}", "--pass"]
    commands = {
        "start": [*asked, "one"],
        "3,000 partitions": [*asked, "many"],
        "3,000 partitions, json": [*asked, "many", "--format", "json"],
        "3,000 partitions, --compaction": [*asked, "many", "--compaction"],
    }
    for name in PASSES:
        commands[f"--pass, {name}"] = [*asked, name, *compact]
        commands[f"--pass, {name}, json"] = [*asked, name, *compact, "--format", "json"]
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(options.runs):
        for name in random.Random(SEED + turn).sample(list(commands), len(commands)):
            costs[name].append(run(commands[name], folder))
    found = {name: Cost(*map(statistics.median, zip(*runs, strict=True))) for name, runs in costs.items()}
    for name, cost in found.items():
        print(f"{name:42}{cost}")
    return 0 if judged(found) else 1


def judged(costs: dict[str, Cost]) -> bool:
    """Print what has a bar, and return whether all are passed."""
    slowest = max(cost.wall for name, cost in costs.items() if name.startswith("3,000")) - costs["start"].wall
    largest = max(cost.memory for name, cost in costs.items() if name.startswith("--pass")) - SLOTS * SLOT
    print(f"{'3,000 partitions, seconds over the start':76}{slowest:6.2f}  bar {WALL}")
    print(f"{'--pass, MB over the offset map':76}{largest / MB:6.1f}  bar {MEMORY / MB:.0f}")
    return slowest <= WALL and largest <= MEMORY


if __name__ == "__main__":
    sys.exit(main())
