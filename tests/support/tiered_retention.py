"""Kafka's own retention and `retention` of tiered partitions: where do they differ?

    python -m tests.support.tiered_retention --release 4.4 --jars '/where/the/jars/are/*' --runs 500 --seed 0

The jars of a release, and Java 17, are not part of the project. Each run is an intact partition of the fixtures with
limits, a high watermark, a log start offset and a highest remote offset at random. Compared are the segments that are
left, log start and local log start offset, the bytes that only the disk has, and what a copy task would take.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from kdump.broker.config import Config
from kdump.broker.load.facts import Start
from kdump.broker.load.log_manager import LoadSettings, LogManager
from kdump.broker.releases import RELEASES
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support.broker_loads import Kafka, intact
from tests.support.cleaner_cases import retained, run
from tests.support.partitions import checkpoint


def settings_of(log: Any, release: str, chance: random.Random) -> tuple[dict[str, str], int]:
    """Return settings of a tiered topic, and a clock, near what decides.

    Args:
        log: of it.
        release: of the broker.
        chance: decides.
    """
    segment = chance.choice(log.segments)
    size = sum(one.size for one in log.segments)
    later = sum(one.size for one in log.segments if one.base_offset > segment.base_offset)
    now = max(one.largest for one in log.segments) + chance.choice((0, 1, 1000, 10**6))
    age = now - segment.largest
    ages = [-1, 0, 1, max(age, 0), max(age - 1, 0), age + 1 if age > 0 else 1, 10**12]
    sizes = [-1, 0, 1, later, later + 1, max(later - 1, 0), size, size // 2]
    config = {
        "remote.storage.enable": "true",
        "cleanup.policy": chance.choice(("delete", "delete", "" if release != "3.9" else "delete")),
        "retention.ms": str(chance.choice(ages)),
        "retention.bytes": str(chance.choice(sizes)),
        "local.retention.ms": str(chance.choice([-2, *ages])),
        "local.retention.bytes": str(chance.choice([-2, *sizes])),
    }
    if chance.random() < 0.15:
        config["remote.log.copy.disable"] = "true"
    if release == RELEASES[-1]:
        config["remote.copy.lag.ms"] = str(chance.choice([0, *ages]))
        config["remote.copy.lag.bytes"] = str(chance.choice([0, *sizes]))
    return config, now


def _one(source: Path, place: Path, release: str, chance: random.Random, kafka: Kafka) -> str | None:
    """Return how the two differ; None for no run, empty where they do not."""
    folder = place / source.name
    shutil.copytree(source, folder)
    (place / ".kafka_cleanshutdown").touch()
    log = retained(run(place, {"remote.storage.enable": "true", "cleanup.policy": "delete"}, 0)).log
    bases = [one.base_offset for one in log.segments]
    config, now = settings_of(log, release, chance)
    ends = [*bases, log.end_offset]
    start = chance.choice([0, 0, *bases])
    mark = max(chance.choice([log.end_offset, log.end_offset, *ends, ends[-1] - 1]), start)
    highest = chance.choice([-1, *[one - 1 for one in bases if one], *bases, log.end_offset - 1])
    topic, _, number = source.name.rpartition("-")
    (place / "log-start-offset-checkpoint").write_bytes(checkpoint((topic, number, start)))
    given = {"release": release, "high_watermark": mark, "highest_remote_offset": highest}
    row = retained(run(place, config, now, **given))
    log_dir = LogDir(str(place))
    facts = LogManager(log_dir).partition(
        PartitionDir(str(folder), log_dir), LoadSettings(now, Config(config, release=release))
    )[0]
    asked = [*(f"{name}={text}" for name, text in config.items()), f"tiered={mark},{highest}"]
    answer = kafka.load(folder, facts.replace(log_start=start), Start.CLEAN, asked)
    if answer[0] != "loaded":
        return f"{config}: Kafka: {answer[1:]}"
    assert row.deletion is not None
    left = bases[len(row.deletion.reasons) :]
    if row.deletion.rolled_to is not None:
        left.append(row.deletion.rolled_to)
    is_copied = row.remote is not None
    theirs = {"logStart": int(answer[1]), "localLogStart": int(answer[3]), "left": answer[4]}
    ours = {
        "logStart": row.deletion.start_offset,
        "localLogStart": row.deletion.local_start_offset,
        "left": ",".join(map(str, left)),
    }
    if row.remote is not None:
        ready, copies = row.remote.ready, [int(one) for one in answer[6].split(",") if one]
        theirs["only"], ours["only"] = int(answer[5]), row.remote.local_bytes
        theirs["copies"] = str(copies)
        following = dict(pairwise(bases))
        ours["copies"] = str([one for one in bases if one < ready and following[one] > highest + 1])
    if not is_copied:  # then a broker counts no local log start of its own
        del theirs["localLogStart"], ours["localLogStart"]
    return "" if theirs == ours else f"{config} now={now} mark={mark} highest={highest} start={start}: {theirs} {ours}"


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", choices=RELEASES, required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sources = [
        one
        for one in intact()
        if len(list(one.glob("*.log"))) > 1 and "clean" in one.parts and not one.name.startswith("__")
    ]
    kafka, found = Kafka(given.jars), 0
    for number in range(given.runs):
        chance = random.Random(f"tiered {given.seed} {number}")
        source = chance.choice(sources)
        with tempfile.TemporaryDirectory(prefix="kdump-tiered-") as scratch:
            told = _one(source, Path(scratch), given.release, chance, kafka)
        if told:
            found += 1
            print(f"run {number} {source.name}: {told}", flush=True)
    kafka.close()
    print(f"{given.release}: {given.runs} runs over {len(sources)} partitions, {found} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
