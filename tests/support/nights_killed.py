"""Nights that are killed at random moments, each in a process of its own: `python -m tests.support.nights_killed`.

After each kill the list of the store must be whole: every file of it there, with its rows. The night after the last
kill must have the tables of a fresh run, and leave no file that no list has. With `--engine spark` the driver and its
JVM are killed, a new JVM for each run: 20 kills take some minutes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.nights import files_of, node, on_disk, partition, rest, rows_of
from tests.support.partitions import write


def command(verb: str, data: Path, store: Path, engine: str) -> list[str]:
    """One night."""
    words = [verb, str(data), "--to", str(store), "--update", "--quiet", "--engine", engine]
    return [sys.executable, "-P", "-m", "kdump", *words]


def run(words: list[str]) -> float:
    """Let it come to its end; return how long it took."""
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode in (0, 3), done.stderr.decode()
    return time.monotonic() - began


def killed(words: list[str], after: float) -> None:
    """Kill it, and all that it has started, after some seconds."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        time.sleep(after)
        os.killpg(child.pid, signal.SIGKILL)


def check(verb: str, engine: str, kills: int, seed: int, place: Path) -> None:
    """Kill a verb so many times, and compare."""
    chance = random.Random(seed)
    data, store = node(place / "data"), place / "store"
    took = run(command(verb, data, store, engine))
    for at in range(kills):
        write(data, partition(f"more{at}-0", segments=1))
        killed(command(verb, data, store, engine), chance.random() * took)
        rows_of(store)
    rest()
    run(command(verb, data, store, engine))
    run(command(verb, data, place / "fresh", "local"))
    assert rows_of(store) == rows_of(place / "fresh"), "the rows differ"
    assert on_disk(store) == files_of(store), "files are left over"
    print(f"{verb} on {engine}: {kills} kills within {took:.1f} s each; the tables are those of a fresh run")


def main() -> None:
    """Kill, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verb", choices=["export", "verify"], action="append")
    given = parser.parse_args()
    for verb in given.verb or ("export", "verify"):
        with tempfile.TemporaryDirectory() as place:
            check(verb, given.engine, given.kills, given.seed, Path(place))


if __name__ == "__main__":
    main()
