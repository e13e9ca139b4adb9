"""Kafka's own classes load what salvage has made of the cases of `rescue_truth`, and read all records of it.

    python -m tests.support.rescue_loads --jars '/where/the/jars/are/*' --runs 1000 --seed 0

The jars of a release, and Java 17, are not part of the project. Each result is loaded twice: after a clean and after an
unclean shutdown, that one from offset 0 on. It has to load with the log start and end offset that its rows tell; no log
and no file of epochs may change; and a fetch returns the records that are in the bytes of the logs, at their offsets.
With `--for` the results are for another cluster (`fitted_results`): they differ from plain ones in leader epochs alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.broker_loads import Kafka
from tests.support.fitted_results import fitted, unfit
from tests.support.rescue_truth.__main__ import MEMORY
from tests.support.rescue_truth.batches import read_log
from tests.support.rescue_truth.disks import EPOCHS, PARTITION
from tests.support.rescue_truth.runs import salvaged

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_700_007_200_000


def records_of(made: Path, start: int) -> tuple[int, int]:
    """How many records a consumer gets from an offset on, and the CRC-32 of offsets, keys and values.

    Of what batches have twice that lie one over the other it gets the first.
    """
    count, crc, at = 0, 0, start
    for log in sorted(made.glob("*.log")):
        for batch in read_log(log.read_bytes()):
            for offset, key, value, _ in batch.entries:
                if offset >= at:
                    count += 1
                    parts = (offset.to_bytes(8, "big"), key, value)
                    for part in parts:
                        size = -1 if part is None else len(part)
                        crc = zlib.crc32(part or b"", zlib.crc32(size.to_bytes(4, "big", signed=True), crc))
            at = max(at, batch.last + 1)
    return count, crc


def kept(made: Path) -> dict[str, bytes]:
    """The files that a load of a sound partition leaves as they are."""
    return {one.name: one.read_bytes() for one in made.iterdir() if one.suffix == ".log" or one.name == EPOCHS}


def faults(kafka: Kafka, root: Path) -> Iterator[str]:
    """Load the result below a directory; yield what Kafka does otherwise than its rows tell."""
    made = root / "out" / PARTITION
    rows = (root / "out" / f"{PARTITION}.salvage.jsonl").read_text().splitlines()
    last = json.loads(rows[-1])
    start, end = last["logStartOffset"], last["logEndOffset"]
    wanted = ["loaded", *map(str, (start, end, *records_of(made, start)))]
    for is_clean in (True, False):
        copy = root / ("clean" if is_clean else "unclean") / PARTITION
        shutil.copytree(made, copy)
        answer = kafka.ask(copy, NOW, is_clean=is_clean, log_start=start, recovery_point=0, more=["read=yes"])
        how = f"after {'a clean' if is_clean else 'an unclean'} shutdown"
        if answer != wanted:
            yield f"{how}: {answer}, and not {wanted}"
        if kept(copy) != kept(made):
            yield f"{how}: logs or epochs have changed"


def log_start(made: Path) -> int:
    """The log start offset that the last row of a result tells."""
    rows = made.with_name(f"{made.name}.salvage.jsonl").read_text().splitlines()
    return int(json.loads(rows[-1])["logStartOffset"])


def main() -> int:
    """Make the runs; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jars", required=True, action="append", help="once for each release")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--for", action="store_true", dest="for_another")
    given = parser.parse_args()
    kafkas = {jars: Kafka(jars) for jars in given.jars}
    loaded = wrong = 0
    for seed in range(given.seed, given.seed + given.runs):
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            if given.for_another:
                made = fitted(Path(folder), seed)
                if made is None:
                    continue
                others = list(unfit(*made, log_start(made[1])))
                wrong += len(others)
                print(*(f"{seed}: {one}" for one in others), sep="\n", end="\n" * bool(others), flush=True)
                made[1].parent.rename(Path(folder, "out"))
            elif salvaged(Path(folder), seed).end != "written":
                continue
            loaded += 1
            for number, (jars, kafka) in enumerate(kafkas.items()):
                root = Path(folder, str(number))
                shutil.copytree(Path(folder, "out"), root / "out")
                for told in faults(kafka, root):
                    wrong += 1
                    print(f"{seed} {jars}: {told}", flush=True)
    for kafka in kafkas.values():
        kafka.close()
    print(f"{loaded} results, each loaded by {len(kafkas)} releases after both shutdowns; {wrong} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
