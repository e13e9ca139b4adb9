#!/usr/bin/env python3
"""Time the decoders of internal topics, and Kafka's own tool in turn with them.

    python -m tests.bench.decode [FOLDER] [--runs N] [--java-classpath CP] [--kdump COMMAND]

The data is made once and kept in FOLDER: the batches that a real broker wrote (fixtures/), in random order from a fixed
seed, with offsets that follow each other, and in each committed offset another number and another time. Ends with 1
when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from crc32c import crc32c

from tests.bench.dump import MB, SEED, Cost, missed, run

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "node1"
TOPICS = {
    "__consumer_offsets": "--offsets-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
SIZE = 64 * MB
LEAST = 3.0  # times the speed of DumpLogSegments, CPU time
MOST_MEMORY = 96 * MB
CONTROL = 0x20
COMMIT_KEY = b"\0\1"


def make(topic: str, folder: Path) -> Path:
    """Make a segment of a topic, unless it is there; return its directory."""
    target = folder / f"{topic}-0"
    if target.is_dir():
        return target
    unfinished = Path(tempfile.mkdtemp(prefix=topic, dir=folder))
    logs = [path.read_bytes() for path in sorted(FIXTURES.glob(f"{topic}-*/*.log"))]
    batches = [(batch, commits(batch)) for log in logs for batch in split(log) if not batch[22] & CONTROL]
    rng = random.Random(SEED)
    offset = size = 0
    with (unfinished / f"{0:020}.log").open("wb") as segment:
        while size < SIZE:
            original, places = rng.choice(batches)
            batch = bytearray(original)
            struct.pack_into(">q", batch, 0, offset)
            struct.pack_into(">i", batch, 12, 0)  # one leader epoch
            offset += struct.unpack_from(">i", batch, 23)[0] + 1
            for committed, time in places:
                struct.pack_into(">q", batch, committed, rng.randrange(1 << 40))
                struct.pack_into(">q", batch, time, rng.randrange(1 << 41))
            struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
            size += segment.write(batch)
    unfinished.rename(target)
    return target


def split(log: bytes) -> list[bytes]:
    """Return the batches of a log."""
    found, at = [], 0
    while at < len(log):
        size = 12 + struct.unpack_from(">i", log, at + 8)[0]
        found.append(log[at : at + size])
        at += size
    return found


def commits(batch: bytes) -> list[tuple[int, int]]:
    """Return where each commit of a batch (version 3 or 4 of its value) has its offset and its time."""
    from kdump.format.batch import layout
    from kdump.format.batch.walk import CheckedWalk
    from kdump.format.record.reader import RecordReader
    from kdump.format.source import BytesSource

    found = []
    reader = RecordReader(1 << 28)
    for window in CheckedWalk(BytesSource(batch), lambda _: None, next_base=None, max_batch_bytes=1 << 28).windows():
        for chunk in reader.chunks(window):
            for i in range(chunk.filled):
                row = chunk.rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH]
                key, value, size = row[layout.R_KEY_AT], row[layout.R_VALUE_AT], row[layout.R_VALUE_SIZE]
                if batch[key : key + 2] == COMMIT_KEY and row[layout.R_KEY_SIZE] > 2 and size > 24:
                    found.append((value + 2, value + size - 8 - (batch[value + 1] == 4)))
    return found


def measure(topic: str, options: argparse.Namespace) -> dict[str, Cost]:
    """Run all that is compared, in turn, and return the medians."""
    folder = options.folder / f"{topic}-0"
    name, option = f"{0:020}.log", TOPICS[topic]
    commands = {
        f"kdump {option}": [*options.kdump, "dump", option, name],
        "kdump --print-data-log --format json": [*options.kdump, "dump", "--print-data-log", "--format", "json", name],
    }
    if options.java_classpath:
        tool = ["java", "-Xmx256M", "-cp", options.java_classpath, "org.apache.kafka.tools.DumpLogSegments"]
        commands[f"DumpLogSegments {option}"] = [*tool, "--files", name, option]
    costs: dict[str, list[Cost]] = {name: [] for name in sorted(commands)}
    for turn in range(options.runs):
        for one in random.Random(SEED + turn).sample(sorted(commands), len(commands)):
            costs[one].append(run(commands[one], folder))
    return {name: Cost(*map(statistics.median, zip(*runs, strict=True))) for name, runs in costs.items()}


def report(topic: str, costs: dict[str, Cost]) -> bool:
    """Print the lines of a topic; return whether every bar is passed."""
    good = True
    java = costs.get(f"DumpLogSegments {TOPICS[topic]}")
    for name, cost in costs.items():
        notes = []
        if name.startswith("kdump"):
            if java is not None:
                times = java.cpu / cost.cpu
                notes.append(f"{times:.1f}x; bar {LEAST:g}x{missed(times < LEAST)}")
            if cost.memory >= MOST_MEMORY:
                notes.append(f"bar {MOST_MEMORY // MB} MB{missed(True)}")
        good = good and not any("MISSED" in note for note in notes)
        print(f"{topic:20}{name:44}{cost}  {'; '.join(notes)}", flush=True)
    return good


def main() -> int:
    """Make the data, time everything, print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="decode", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench")
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--java-classpath", metavar="CP", help="jars of Kafka 4.3.1")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    for topic in TOPICS:  # in processes of their own: memory is never counted below the peak of this one
        subprocess.run([sys.executable, "-c", MAKE, topic, str(options.folder)], check=True)
    subprocess.run([*options.kdump, "--version"], check=True)
    print(f"{'topic':20}{'command':44}{'CPU s':>6} {'wall s':>6} {'MB':>5}  CPU against DumpLogSegments")
    good = [report(topic, measure(topic, options)) for topic in TOPICS]
    return 0 if all(good) else 1


MAKE = "import sys; from pathlib import Path; from tests.bench.decode import make; make(sys.argv[1], Path(sys.argv[2]))"

if __name__ == "__main__":
    sys.exit(main())
