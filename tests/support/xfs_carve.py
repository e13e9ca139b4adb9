#!/usr/bin/env python3
"""Carve an XFS file system whose logs were deleted, and hold it against a search that asks every byte for a CRC.

    sudo python -m tests.support.xfs_carve [--megabytes N]

Makes an image in a temporary directory, mounts it by a loop device, copies logs of a real broker to it in pieces, in
turn, so that they lie in fragments, deletes most of them, and unmounts it. Needs root, mkfs.xfs (xfsprogs) and a kernel
that mounts XFS. Prints what was found; exit status 1 when a batch that lies whole in the image is missing, one is
invented, or a run is given to a wrong partition.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.runs import FIXTURES
from tests.support.whole_batches import whole_batches

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
GONE = ("txn-0", "dense-0", "zstd-0", "compact-0", "tombstone-0", "idem-0", "__consumer_offsets-0")
KEPT = ("plain-0", "__cluster_metadata-0")
PIECE = 4096  # a log grows by as much at a time
LEAST = 300  # MB: mkfs.xfs makes no smaller one


def make(image: Path, mount: Path, megabytes: int) -> None:
    """Make the file system, with the logs of some topics, and with deleted ones of others."""
    subprocess.run(["mkfs.xfs", "-q", "-d", f"file,name={image},size={megabytes}m"], check=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    try:
        logs = [path for topic in (*GONE, *KEPT) for path in sorted((NODE / topic).glob("*.log"))]
        most = max(path.stat().st_size for path in logs)
        for at in range(0, most, PIECE):
            for path in logs:
                data = path.read_bytes()[at : at + PIECE]
                if data or not at:
                    target = mount / path.parent.name / path.name
                    target.parent.mkdir(exist_ok=True)
                    with target.open("ab") as file:
                        file.write(data)
                        os.fsync(file.fileno())  # else the blocks are given out when the file is whole, in one piece
        for topic in GONE:
            for path in (mount / topic).iterdir():
                path.unlink()
            (mount / topic).rmdir()
    finally:
        subprocess.run(["umount", mount], check=True)


def check(image: Path, to: Path) -> list[str]:
    """Carve the image; return what does not hold, after a few lines of what was found."""
    command = [sys.executable, "-m", "kdump", "carve", str(image), "--to", str(to), "--like", str(NODE)]
    command += ["--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    runs = [row for row in rows if row["type"] == "run"]
    data = image.read_bytes()
    truth = {data[at : at + size] for at, size in whole_batches(data)}
    found: set[bytes] = set()
    faults = []
    for row in runs:
        made = Path(row["file"]).read_bytes()
        inside = {made[at : at + size] for at, size in whole_batches(made)}
        found |= inside
        owner = row["topicPartition"]
        if owner is not None:
            whole = b"".join(path.read_bytes() for path in (NODE / owner).glob("*.log"))
            faults += [f"{row['file']} is not of {owner}" for one in inside if one not in whole]
    for topic in (*GONE, *KEPT):
        logs = [path.read_bytes() for path in (NODE / topic).glob("*.log")]
        wanted = [log[at : at + size] for log in logs for at, size in whole_batches(log)]
        print(f"{topic}: {sum(one in found for one in wanted)} of {len(wanted)} batches found")
    owned = sum(row["topicPartition"] is not None for row in runs)
    pieces = sum(len(row["extents"]) for row in runs)
    print(f"{len(runs)} runs in {pieces} extents, {owned} given to a partition; {len(truth)} batches lie whole in it")
    faults += [f"{len(truth - found)} batches are missing"] if truth - found else []
    return faults + ([f"{len(found - truth)} batches are invented"] if found - truth else [])


def main() -> int:
    """Make the image, carve it, print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=LEAST, metavar="N", help=f"of the image, {LEAST} at least")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        image, mount = Path(folder, "xfs.img"), Path(folder, "mount")
        mount.mkdir()
        make(image, mount, max(given.megabytes, LEAST))
        faults = check(image, Path(folder, "runs"))
    print(*faults, sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
