#!/usr/bin/env python3
"""Time `kdump dump`, and Kafka's own tool in turn with it: whole processes, their stdout piped to `cat`.

    tests/bench/dump.py [FOLDER] [--case NAME ...] [--runs N] [--java-classpath CP] [--kdump COMMAND]

The data is made once, from a fixed seed, and kept in FOLDER. What is timed is the installed kdump, or what
PYTHONPATH or COMMAND names: medians of CPU time (user and system, of that process only), wall time and peak
memory. Ends with 1 when a bar is missed.
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
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MB = 1 << 20
SEED = 5

# --- the data -----------------------------------------------------------------------------------------------
HEADER = struct.Struct(">qiibIhiqqqhii")  # DefaultRecordBatch
CRC_AT, CRC_FROM = 17, 21
FIRST_TIMESTAMP = 1_700_000_000_000
KEY_SIZE, VALUE_SIZE = 8, 183  # a record is 200 bytes then, 202 from the 64th of a batch on
TEXT = b"the quick brown fox jumps over the lazy dog, the five boxing wizards jump quickly; pack my box with "
STRIDE = 23
BLOCK = 4000  # records made at once, a whole number of batches in all recipes
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" * 4
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the segments of one case are made.

    Args:
        batch: records in a batch.
        size: bytes of a segment, at least.
        codec: Kafka's name.
        letters: how many of every 23 bytes of a value are random: it makes the ratio about 3:1.
        segments: how many.
    """

    batch: int
    size: int
    codec: str = "none"
    letters: int = 9
    segments: int = 1


CASES = {
    "none": Recipe(80, 256 * MB),
    "tiny": Recipe(1, 128 * MB),
    "lz4": Recipe(400, 80 * MB, "lz4", 3),
    "zstd": Recipe(400, 80 * MB, "zstd", 8),
    "snappy": Recipe(400, 80 * MB, "snappy", 3),
    "gzip": Recipe(400, 80 * MB, "gzip", 6),
    "many": Recipe(80, 1, segments=1000),
}


def make(case: str, folder: Path, recipe: Recipe | None = None) -> None:
    """Make the segments of a case, unless they are there."""
    target = folder / case
    if target.is_dir():
        return
    unfinished = Path(tempfile.mkdtemp(prefix=f"{case}.", dir=folder))
    recipe = recipe or CASES[case]
    batches = batches_of(recipe, random.Random(SEED))
    offset = 0
    for _ in range(recipe.segments):
        size = 0
        with (unfinished / f"{offset:020}.log").open("wb") as segment:
            while size < recipe.size:
                size += segment.write(stamped(next(batches), offset, recipe))
                offset += recipe.batch
    unfinished.rename(target)


def batches_of(recipe: Recipe, rng: random.Random) -> Iterator[bytes]:
    """Yield the record sections of batches, without end."""
    value = (TEXT * 2)[:VALUE_SIZE]
    template = bytes(KEY_SIZE) + varint(VALUE_SIZE) + value + varint(0)
    start = len(template) - len(value) - 1
    columns = [*range(KEY_SIZE), *(start + i for i in range(VALUE_SIZE) if i % STRIDE < recipe.letters)]
    heads = [record_head(i, len(template)) for i in range(recipe.batch)]
    width = len(template)
    while True:
        table = bytearray(template * BLOCK)
        for column in columns:
            table[column::width] = rng.randbytes(BLOCK).translate(LETTERS)
        bodies = [bytes(table[at : at + width]) for at in range(0, len(table), width)]
        for first in range(0, BLOCK, recipe.batch):
            pairs = zip(heads, bodies[first : first + recipe.batch], strict=True)
            yield compress(b"".join(part for pair in pairs for part in pair), recipe.codec)


def record_head(index: int, body: int) -> bytes:
    """Return what comes before the key: lengths, attributes, deltas of timestamp and offset."""
    head = b"\0" + varint(index) + varint(index) + varint(KEY_SIZE)
    return varint(len(head) + body) + head


def varint(value: int) -> bytes:
    """Return a number that is not negative as zigzag varint."""
    value <<= 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def stamped(records: bytes, offset: int, recipe: Recipe) -> bytearray:
    """Return a record section with the header of a batch before it."""
    from crc32c import crc32c

    timestamp, last = FIRST_TIMESTAMP + offset, recipe.batch - 1
    batch = bytearray(HEADER.size + len(records))
    HEADER.pack_into(
        batch, 0, offset, len(batch) - 12, 0, 2, 0, CODECS[recipe.codec], last,
        timestamp, timestamp + last, -1, -1, -1, recipe.batch,
    )  # fmt: skip
    batch[HEADER.size :] = records
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch


def compress(data: bytes, codec: str) -> bytes:
    """Compress a record section as Kafka's producers do: no size is declared, lz4 has blocks of 64 KB."""
    if codec == "gzip":
        stream = zlib.compressobj(wbits=31)
        return stream.compress(data) + stream.flush()
    if codec == "zstd":
        import zstandard

        frame = zstandard.ZstdCompressor().compressobj()
        return frame.compress(data) + frame.flush()
    if codec == "lz4":
        import lz4.frame as lz4

        how = {"block_size": lz4.BLOCKSIZE_MAX64KB, "block_linked": False, "store_size": False}
        return bytes(lz4.compress(data, **how))
    return xerial(data) if codec == "snappy" else data


def xerial(data: bytes) -> bytes:
    """Compress as snappy-java does, in blocks of 32 KB."""
    import snappy

    blocks = [snappy.compress(data[at : at + 32768]) for at in range(0, len(data), 32768)]
    framed = [struct.pack(">i", len(block)) + block for block in blocks]
    return b"".join([b"\x82SNAPPY\0", struct.pack(">ii", 1, 1), *framed])


# --- the clock ----------------------------------------------------------------------------------------------
class Cost(NamedTuple):
    """What a process took: seconds of CPU and by the clock, bytes of memory at its peak."""

    cpu: float
    wall: float
    memory: float

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} {self.wall:6.2f} {self.memory / MB:5.0f}"


def run(command: list[str], folder: Path, wanted: int = 0) -> Cost:
    """Run a command with its stdout piped to `cat >/dev/null`, and let Python keep bytecode, as an installed kdump has.

    Memory is never below the peak of this process, which Linux counts as the child's before that has its
    own program; so the data is made in other processes.

    Raises:
        RuntimeError: it did not end well.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    nothing = subprocess.DEVNULL
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=nothing) as cat,
    ):
        start = time.perf_counter()
        child = subprocess.Popen(command, cwd=folder, stdin=nothing, stdout=cat.stdin, stderr=errors, env=environment)
        assert cat.stdin is not None
        cat.stdin.close()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != wanted:
            errors.seek(0)
            raise RuntimeError(f"{shlex.join(command)[:200]}: {child.returncode}\n{errors.read().decode()}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * unit)


def measure(case: str, options: argparse.Namespace) -> dict[str, Cost]:
    """Run all that is compared, in turn, and return the medians by column."""
    folder = options.folder / case
    files = ",".join(sorted(path.name for path in folder.iterdir()))
    kdump, print_all = [*options.kdump, "dump", "--files", files], "--print-data-log"
    commands = {
        "kdump --print-data-log": [*kdump, print_all],
        "kdump --compat 4.3 --print-data-log": [*kdump, "--compat", "4.3", print_all],
        "kdump --format json --print-data-log": [*kdump, "--format", "json", print_all],
        "kdump": kdump,
    }
    if options.java_classpath:
        tool = ["java", "-Xmx256M", "-cp", options.java_classpath, "org.apache.kafka.tools.DumpLogSegments"]
        commands["DumpLogSegments --print-data-log"] = [*tool, "--files", files, print_all]
        commands["DumpLogSegments"] = [*tool, "--files", files]
    order = sorted(commands, key=lambda name: (print_all not in name, "compat" in name, name))
    costs: dict[str, list[Cost]] = {name: [] for name in order}
    for turn in range(options.runs):
        # what comes after a JVM is slower: each has its turn there
        for name in random.Random(SEED + turn).sample(order, len(order)):
            costs[name].append(run(commands[name], folder))
    return {name: Cost(*map(statistics.median, zip(*runs, strict=True))) for name, runs in costs.items()}


# --- the verdict --------------------------------------------------------------------------------------------
# At least so many times the speed of DumpLogSegments 4.3.1: CPU time, wall time.
PRINT_BARS = {
    "none": (15.0, 8.0), "snappy": (10.0, 6.0), "lz4": (10.0, 6.0), "zstd": (8.0, 5.0), "gzip": (5.0, 4.0),
    "tiny": (7.0, 4.0),
}  # fmt: skip
BARS = {
    "kdump --print-data-log": PRINT_BARS,
    "kdump --format json --print-data-log": {"none": (5.0, 0.0)},
    "kdump": {"none": (6.0, 4.0), "tiny": (5.0, 3.5)},
}
MOST_MEMORY = 64 * MB
MOST_COMPAT = 1.2  # of the CPU time without --compat
MOST_SECONDS = {"many": 1.5}


def report(case: str, costs: dict[str, Cost]) -> bool:
    """Print the lines of a case; return whether every bar is passed."""
    good = True
    for name, cost in costs.items():
        notes = list(judged(case, name, cost, costs))
        good = good and not any("MISSED" in note for note in notes)
        print(f"{case:7}{name:38}{cost}  {'; '.join(notes)}", flush=True)
    return good


def judged(case: str, name: str, cost: Cost, costs: dict[str, Cost]) -> Iterator[str]:
    """Yield what one line shows, against its bars."""
    if not name.startswith("kdump"):
        return
    java = costs.get(
        name.replace("kdump", "DumpLogSegments").replace("--compat 4.3 ", "").replace("--format json ", "")
    )
    bars = BARS.get(name, {}).get(case)
    if java is not None:
        cpu, wall = java.cpu / cost.cpu, java.wall / cost.wall
        yield f"{cpu:.1f}x ({wall:.1f}x)"
        if bars is not None:
            yield f"bar {bars[0]:g}x ({bars[1]:g}x)" + missed(cpu < bars[0] or wall < bars[1])
    if "compat" in name:
        share = cost.cpu / costs["kdump --print-data-log"].cpu
        yield f"{share:.2f} of the default" + missed(share > MOST_COMPAT)
    if cost.memory >= MOST_MEMORY:
        yield f"bar {MOST_MEMORY // MB} MB" + missed(True)
    if case in MOST_SECONDS:
        yield f"bar {MOST_SECONDS[case]} s" + missed(cost.wall >= MOST_SECONDS[case])


def missed(condition: bool) -> str:
    """Mark a bar that is not passed."""
    return " MISSED" if condition else ""


def parse(args: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="dump.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench")
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this one")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--java-classpath", metavar="CP", help="jars of Kafka 4.3.1")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    return parser.parse_args(args)


def main() -> int:
    """Make the data, time everything, print the table; 1 when a bar is missed."""
    options = parse(sys.argv[1:])
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    cases = options.case or list(CASES)
    with ProcessPoolExecutor() as pool:
        list(pool.map(make, cases, [options.folder] * len(cases)))
    subprocess.run([*options.kdump, "--version"], check=True)
    print(f"{'case':7}{'command':38}{'CPU s':>6} {'wall s':>6} {'MB':>5}  CPU (wall) against DumpLogSegments")
    good = [report(case, measure(case, options)) for case in cases]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
