#!/usr/bin/env python3
"""Time `kdump find-offset` over the start of kdump: a segment of 1 GiB, 5,000 segments, 10,000 questions.

    tests/bench/find.py [FOLDER] [--runs N] [--kdump COMMAND]

The data is made once and kept in FOLDER. The start is the same command for a partition of one batch. Medians by the
clock; ends with 1 when a bar is missed.
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
from pathlib import Path

from crc32c import crc32c

SIZE = 1024  # bytes of a batch
COUNT = 1 << 20  # batches of the large segment
SEGMENTS = 5000
INTERVAL = 4096  # index.interval.bytes
FIRST_TIMESTAMP = 1_700_000_000_000
VALUE = SIZE - 61 - 9


def batch(offset: int) -> bytes:
    """Return a batch of one record, 1 KiB."""
    body = b"\0\0\0\1" + struct.pack(">BB", 0x80 | 2 * VALUE & 0x7F, 2 * VALUE >> 7) + bytes(VALUE) + b"\0"
    record = struct.pack(">BB", 0x80 | 2 * len(body) & 0x7F, 2 * len(body) >> 7) + body
    moment = FIRST_TIMESTAMP + offset
    rest = struct.pack(">hiqqqhii", 0, 0, moment, moment, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", offset, 9 + len(rest), 0, 2, crc32c(rest)) + rest


def make(folder: Path) -> None:
    """Make both partitions, unless they are there."""
    if (folder / ".kafka_cleanshutdown").exists():
        return
    large, many = folder / "large-0", folder / "many-0"
    large.mkdir(parents=True)
    (folder / "tiny-0").mkdir()
    (folder / "tiny-0" / f"{0:020}.log").write_bytes(batch(0))
    (folder / "tiny-0" / f"{0:020}.index").write_bytes(b"")
    many.mkdir()
    index, times, last = bytearray(), bytearray(), 0
    with (large / f"{0:020}.log").open("wb") as log:
        for offset in range(COUNT):
            if offset * SIZE - last > INTERVAL:
                last = offset * SIZE
                index += struct.pack(">ii", offset, last)
                times += struct.pack(">qi", FIRST_TIMESTAMP + offset, offset)
            log.write(batch(offset))
    times += struct.pack(">qi", FIRST_TIMESTAMP + COUNT - 1, COUNT - 1)
    (large / f"{0:020}.index").write_bytes(index)
    (large / f"{0:020}.timeindex").write_bytes(times)
    for offset in range(SEGMENTS):
        (many / f"{offset:020}.log").write_bytes(batch(offset))
        (many / f"{offset:020}.index").write_bytes(b"")
        (many / f"{offset:020}.timeindex").write_bytes(struct.pack(">qi", FIRST_TIMESTAMP + offset, 0))
    (folder / ".kafka_cleanshutdown").write_bytes(b"")


def clock(command: list[str], folder: Path, questions: bytes, runs: int) -> float:
    """Return the median of the seconds that a command takes; Python may keep bytecode, as an installed kdump has."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, cwd=folder, input=questions, stdout=subprocess.DEVNULL, check=True, env=environment)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> int:
    """Make the data, time everything, print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="find.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench-find")
    command = os.environ.get("KDUMP_COMMAND") or shlex.join([sys.executable, "-P", "-m", "kdump"])
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--kdump", type=shlex.split, default=shlex.split(command), metavar="COMMAND")
    options = parser.parse_args()
    folder = options.folder.resolve()
    make(folder)
    rng = random.Random(6)
    many = "".join(f"{rng.randrange(COUNT)}\n" for _ in range(10_000)).encode()
    cases = {
        "start": (["find-offset", "tiny-0", "0"], b"", None),
        "one offset, 1 GiB": (["find-offset", "large-0", "777777"], b"", 0.020),
        "one time, 1 GiB": (["find-time", "large-0", str(FIRST_TIMESTAMP + 777777)], b"", None),
        "one offset, 5,000 segments": (["find-offset", "many-0", "2500"], b"", 0.100),
        "one time, 5,000 segments": (["find-time", "many-0", str(FIRST_TIMESTAMP + 2500)], b"", None),
        "10,000 offsets, 1 GiB": (["find-offset", "large-0", "-"], many, None),
    }
    start, good = 0.0, True
    for name, (args, questions, bar) in cases.items():
        seconds = clock([*options.kdump, *args], folder, questions, options.runs)
        start = start or seconds
        most = 1.0 if questions else bar and start + bar
        missed = most is not None and seconds > most
        good = good and not missed
        print(f"{name:28}{seconds:7.3f} s  {'' if most is None else f'bar {most:.3f} s'}{' MISSED' if missed else ''}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
