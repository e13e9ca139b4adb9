"""What a night costs in which nothing changed: against the first one, over thousands of segments.

The segments are hard links to few files, so that they take no space: their names and their times are what a night looks
at. `python -m tests.support.nights_cost DIR` measures; DIR is made, and stays.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.partitions import below, checkpoint, meta, name, segment, snapshot, write
from tests.support.segments import Record, batch

_VALUE = b"v" * 1000


def build(root: Path, segments: int, size: int, each: int = 10) -> None:
    """Make a log directory.

    Args:
        root: where.
        segments: how many.
        size: bytes of each, about.
        each: segments of a partition.
    """
    count = max(1, size // 1100)
    topic = b"version: 0\ntopic_id: dnL-uvnQSW-fRt-6IIbovQ"
    around = {"partition.metadata": topic, "leader-epoch-checkpoint": checkpoint((0, 0))}
    around[name(each * count, "snapshot")] = snapshot()
    write(root, {"meta.properties": meta(1), ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":1}'})
    write(root, below("t-0", around))
    files: list[Path] = []
    for at in range(each):
        base, rows = at * count, 15
        parts = [batch(base + k, [Record(_VALUE)] * min(rows, count - k)) for k in range(0, count, rows)]
        write(root, below("t-0", segment(base, parts, interval=4096)))
        files += [root / "t-0" / name(base, kind) for kind in ("log", "index", "timeindex")]
    for number in range(1, segments // each):
        write(root, below(f"t-{number}", around))
        for file in files:
            os.link(file, root / f"t-{number}" / file.name)


def seconds(*args: str) -> float:
    """How long a run takes."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-P", "-m", "kdump", *args], check=False, capture_output=True)
    return time.monotonic() - began


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--segments", type=int, default=3000)
    parser.add_argument("--bytes", type=int, default=8_000_000)
    given = parser.parse_args()
    data = given.directory / "data"
    if not data.exists():
        build(data, given.segments, given.bytes)
        time.sleep(0.3)
    for verb in ("verify", "export"):
        to = str(given.directory / f"{verb}-{os.getpid()}")
        first, second = (seconds(verb, str(data), "--to", to, "--update") for _ in range(2))
        print(f"{verb}: the first night {first:.1f} s, the second {second:.2f} s, {second / first:.1%}")


if __name__ == "__main__":
    main()
