#!/usr/bin/env python3
"""Time `kdump du`, and in turn with it `verify --shallow` and `dump --stats` over the same files.

    python -m tests.bench.usage [FOLDER] [--runs N] [--kdump COMMAND] [--keys N]

The data is made once and kept in FOLDER: logs of 200-byte records, and records of 27 bytes with a key each that no
other has. Ends with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from tests.bench.dump import FIRST_TIMESTAMP, HEADER, MB, Cost, Recipe, make, missed, run, varint

KEYS = 100_000_000
SUPERSEDED = 3_000_000
IN_BATCH = 4000
SEGMENT = 1 << 30
MEMORY = 96 << 20
RECIPES = {"batches": Recipe(80, 256 * MB, "none"), "one record a batch": Recipe(1, 128 * MB, "none")}


class Bar(NamedTuple):
    """What a command may cost.

    Args:
        case: whose files it reads.
        words: of the command.
        against: those of what it is compared with; empty for nothing.
        cpu: times the CPU of that.
        memory: bytes.
    """

    case: str
    words: str
    against: str
    cpu: float
    memory: int


def make_keys(folder: Path, name: str, keys: int) -> Path:
    """Make a partition of records with a key each, unless it is there; return its directory."""
    target = folder / f"{name}-{keys}" / "keys-0"
    if target.is_dir():
        return target
    target.parent.mkdir(exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder))
    heads = [b"\0\0" + varint(delta) + b"\x12" for delta in range(IN_BATCH)]
    heads = [varint(len(head) + 9 + 6) + head for head in heads]
    log, size = None, SEGMENT
    for offset in range(0, keys, IN_BATCH):
        body = b"".join([b"%b%09d\x08abcd\0" % (head, offset + n) for n, head in enumerate(heads)])
        time, last = FIRST_TIMESTAMP + offset, IN_BATCH - 1
        packed = bytearray(HEADER.pack(offset, len(body) + 49, 0, 2, 0, 0, last, time, time, -1, -1, -1, IN_BATCH))
        packed += body
        packed[17:21] = crc32c(memoryview(packed)[21:]).to_bytes(4, "big")
        if size >= SEGMENT:
            if log is not None:
                log.close()
            log, size = (unfinished / f"{offset:020}.log").open("wb"), 0
        assert log is not None
        size += log.write(packed)
    if log is not None:
        log.close()
    unfinished.rename(target)
    return target


def make_logs(folder: Path, name: str) -> Path:
    """Make the logs of a recipe, unless they are there; return their directory."""
    target = folder / f"usage {name}" / "logs-0"
    if not target.is_dir():
        target.parent.mkdir(exist_ok=True)
        make("logs-0", target.parent, RECIPES[name])
    return target


def main() -> int:
    """Make the data, time all, print a table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="usage.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench")
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of which the median is taken")
    parser.add_argument("--kdump", default=f"{sys.executable} -m kdump", metavar="COMMAND")
    parser.add_argument("--keys", type=int, default=KEYS, metavar="N", help="records of the case many keys")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(1) as pool:  # this process must stay small: see `run`
        cases = {name: pool.submit(make_logs, options.folder, name).result() for name in RECIPES}
        for name, keys in (("many keys", options.keys), ("3 million keys", SUPERSEDED)):
            cases[name] = pool.submit(make_keys, options.folder, name.replace(" ", "-"), keys).result()
    bars = [
        Bar("batches", "du --by partition", "verify --shallow", 1.5, MEMORY),
        Bar("one record a batch", "du --by partition", "verify --shallow", 1.5, MEMORY),
        Bar("batches", "du --by key", "dump --stats", 2.5, MEMORY),
        Bar("3 million keys", "du --by key", "dump --stats", 2.5, MEMORY),
        Bar("3 million keys", "du --superseded", "", 0, 200 << 20),
        Bar("many keys", "du --by key", "", 0, MEMORY),
    ]
    good = True
    for bar in bars:
        costs: dict[str, list[Cost]] = {}
        for _ in range(1 if bar.case == "many keys" else options.runs):
            for words in filter(None, (bar.words, bar.against)):
                command = [*shlex.split(options.kdump), *words.split(), str(cases[bar.case])]
                costs.setdefault(words, []).append(run(command, options.folder))
        cpu = {words: statistics.median(cost.cpu for cost in some) for words, some in costs.items()}
        memory = max(cost.memory for cost in costs[bar.words])
        share = cpu[bar.words] / cpu[bar.against] if bar.against else 0
        is_bad = share > bar.cpu or memory > bar.memory
        good &= not is_bad
        against = f"{share:5.2f} of {bar.against} (bar {bar.cpu})" if bar.against else " " * 36
        line = f"{bar.case:20}{bar.words:20}{cpu[bar.words]:7.2f} s of CPU {memory / MB:5.0f} MiB  {against}"
        print(f"{line}{missed(is_bad)}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
