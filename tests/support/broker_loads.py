"""Kafka's own classes and kdump's model load the same damaged partition directories: where do they differ?

    python -m tests.support.broker_loads --release 4.4 --jars '/where/the/jars/are/*' --runs 500 --seed 0

The jars of a release, and Java 17, are not part of the project. Each directory is a copy of one of `fixtures`, damaged
at random, and is loaded twice: after a clean and after an unclean shutdown. Compared are whether it loads, the class of
the exception, log start and end offset, and every file that is left, byte for byte. `--from` and `--only` make one
again, `--keep DIR` keeps it.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.broker.config import Config
from kdump.broker.load.facts import Start
from kdump.broker.load.log_loader import load
from kdump.broker.load.log_manager import LoadSettings, LogManager
from kdump.broker.releases import RELEASES
from kdump.format.java_values import MAX_LONG
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.broker.load.facts import Outcome, PartitionFacts

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
JAVA = Path(__file__).with_name("kafka_classes") / "LoadPartitions.java"
NOW = 1_700_007_200_000
INTERVALS = 0, 64, 512, 4096
# At their full size as long as they are open; and what the model has gone already, as it is after file.delete.delay.ms.
UNTRIMMED = ".index.deleted", ".timeindex.deleted", ".snapshot.deleted"
LARGEST = 300_000  # bytes of a partition that is damaged
SUFFIXES = ".deleted", ".cleaned", ".swap"
ODD_NAMES = "leader-epoch-checkpoint.tmp", "00000000000000000003.snapshot", "00000000000000000007.log", "x.snapshot"


class Kafka:
    """A JVM with the classes of a release."""

    def __init__(self, jars: str) -> None:
        self._process = subprocess.Popen(
            ["java", "-Xmx512m", "-cp", jars, str(JAVA)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def load(self, directory: Path, facts: PartitionFacts, start: Start, more: Sequence[str] = ()) -> list[str]:
        """Load a directory, which is changed; return "loaded", start, end, or "failed", class, message.

        Args:
            directory: of the partition.
            facts: how a broker finds it.
            start: how it starts.
            more: settings, and `pass`.
        """
        point = 0 if start is Start.FULL else facts.recovery_point
        sizes = f"index.interval.bytes={facts.interval}", f"segment.index.bytes={facts.max_index_bytes}"
        is_clean, log_start = start is Start.CLEAN, facts.log_start
        more = [*sizes, *more]
        return self.ask(directory, facts.now, is_clean=is_clean, log_start=log_start, recovery_point=point, more=more)

    def ask(
        self, directory: Path, now: int, *, is_clean: bool, log_start: int, recovery_point: int, more: Sequence[str]
    ) -> list[str]:
        """Load a directory, which is changed; return what `load` does, and what was read where `more` asks for it.

        Args:
            directory: of the partition.
            now: the clock, ms.
            is_clean: it was shut down well.
            log_start, recovery_point: offsets, by the checkpoints.
            more: settings, `pass` and `read`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        clean = str(is_clean).lower()
        asked = [str(directory), str(now), clean, str(log_start), str(recovery_point), *more]
        self._process.stdin.write("\t".join(asked) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n").split("\t")

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def intact() -> list[Path]:
    """Return the partition directories of the fixtures that are damaged."""
    logs = FIXTURES.glob("*/**/*-[0-9]*/*.log")
    found = sorted({log.parent for log in logs if "cases" not in log.parts and "__cluster_metadata" not in str(log)})
    return [one for one in found if sum(file.stat().st_size for file in one.iterdir() if file.is_file()) <= LARGEST]


def damage(directory: Path, chance: random.Random) -> None:  # noqa: C901 (one way of damage a line)
    """Change some files of a partition directory."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        files = sorted(file for file in directory.iterdir() if file.is_file())
        if not files:
            return
        kinds = sorted({file.suffix for file in files})
        of_kind = chance.choice(kinds)
        file = chance.choice([one for one in files if one.suffix == of_kind])
        data = bytearray(file.read_bytes())
        how = chance.choice(
            ("flip", "flip", "byte", "cut", "zero", "zeros", "append", "splice", "delete", "name", "more")
        )
        if how in ("flip", "byte", "zero", "cut", "splice") and not data:
            how = "append"
        at = chance.randrange(len(data)) if data else 0
        if how == "flip":
            data[at] ^= 1 << chance.randrange(8)
        elif how == "byte":
            data[at] = chance.randrange(256)
        elif how == "cut":
            del data[at:]
        elif how == "zero":
            end = min(len(data), at + chance.choice((1, 8, 34, 100)))
            data[at:end] = bytes(end - at)
        elif how == "zeros":
            data += bytes(chance.choice((1, 8, 12, 34, 61, 400)))
        elif how == "append":
            data += chance.randbytes(chance.choice((1, 8, 12, 34, 100)))
        elif how == "splice":
            del data[at : at + chance.choice((1, 2, 8, 12, 70))]
        if how == "delete":
            file.unlink()
        elif how == "name":
            file.rename(file.with_name(file.name + chance.choice(SUFFIXES)))
        elif how == "more":
            (directory / chance.choice(ODD_NAMES)).write_bytes(bytes(data))
        else:
            file.write_bytes(bytes(data))


def facts_of(directory: Path, chance: random.Random, release: str) -> PartitionFacts:
    """Return the directory as the model's broker finds it, with checkpoints of some kind."""
    interval = chance.choice(INTERVALS)
    settings = LoadSettings(NOW, Config({}, release=release), interval)
    log_dir = LogDir(str(directory.parent))
    facts = LogManager(log_dir).partition(PartitionDir(str(directory), log_dir), settings)[0]
    bases = sorted(int(one.stem) for one in directory.glob("*.log") if one.stem.isdigit())
    starts = [0, *bases, *[min(base + 1, MAX_LONG) for base in bases]]
    return facts.replace(
        recovery_point=chance.choice([0, 0, *starts, 10**6]), log_start=chance.choice([0, 0, 0, 0, *starts])
    )


def state(directory: Path) -> dict[str, str]:
    """Return size and hash of each file."""
    return {one.name: _told(one.read_bytes()) for one in directory.iterdir() if one.is_file()}


def model_state(outcome: Outcome) -> dict[str, str]:
    """Return the same of what the model leaves."""
    found = {}
    for name in outcome.disk.names():
        source = outcome.disk.get(name)
        assert source is not None
        found[name] = _told(source.read_at(0, source.size))
    return found


def _told(data: bytes) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:12]}"


def differences(answer: list[str], directory: Path, outcome: Outcome) -> Iterator[str]:
    """Yield what Kafka did otherwise than the model.

    Args:
        answer: Kafka's.
        directory: as Kafka has left it.
        outcome: the model's.
    """
    if answer[0] == "failed":
        if "OutOfMemoryError" in answer[1]:  # what else its heap held is not reckoned
            return
        if outcome.loads:
            yield f"Kafka: {answer[1]}: {answer[2]}; model: loads"
        elif answer[1] != outcome.java_class:
            yield f"Kafka: {answer[1]}: {answer[2]}; model: {outcome.exception}"
        return
    if not outcome.loads:
        yield f"Kafka: loads {answer[1:]}; model: {outcome.exception}"
        return
    ends = [str(outcome.log_start_offset), str(outcome.log_end_offset)]
    if answer[1:] != ends:
        yield f"Kafka: offsets {answer[1:]}; model: {ends}"
    here, there = state(directory), model_state(outcome)
    for name in sorted(here.keys() | there.keys()):
        if not name.endswith(UNTRIMMED) and here.get(name) != there.get(name):
            yield f"{name}: Kafka {here.get(name)}; model {there.get(name)}"


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", choices=RELEASES, required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, default=None)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    sources, kafka, found = intact(), Kafka(given.jars), 0
    loaded = failed = 0
    for run in range(given.runs) if given.only is None else [given.only]:
        chance = random.Random(f"{given.seed} {run}")
        source = chance.choice(sources)
        with tempfile.TemporaryDirectory(prefix="kdump-loads-") as scratch:
            directory = Path(given.keep or scratch) / source.name
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(source, directory)
            damage(directory, chance)
            for start in (Start.CLEAN, Start.UNCLEAN):
                facts = facts_of(directory, random.Random(f"{given.seed} {run} facts"), given.release)
                outcome = load(facts, start, wants_contents=True)
                copy = Path(scratch) / start.value / source.name
                shutil.copytree(directory, copy)
                answer = kafka.load(copy, facts, start)
                loaded, failed = loaded + (answer[0] == "loaded"), failed + (answer[0] == "failed")
                told = list(differences(answer, copy, outcome))
                if told:
                    found += 1
                    print(f"run {run} {start.value} {source.relative_to(FIXTURES)}", *told[:6], sep="\n   ", flush=True)
    kafka.close()
    print(f"{given.release}: {loaded} loaded, {failed} did not; {found} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
