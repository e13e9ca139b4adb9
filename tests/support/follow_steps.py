"""Who does what verify recommends loses nothing unknown, and keeps as much as by any other option.

    python -m tests.support.follow_steps --cases fixtures/damage --runs 1000 --seed 0 --jobs 2
    python -m tests.support.follow_steps --seed 7 --runs 1 --keep DIR # one run again

A scene is a partition in the log directories of one to three brokers, each damaged or not. An operator runs verify on
each, and does what the recommended option says; where that asks for another replica, and there is none, the option
with that condition. Then verify is run again, until there is nothing to do, and the brokers start: by the model of a
broker, or by Kafka's own classes (--jars). Every batch that was intact before must be served then, or have been told as
lost; and no other single option of the first verdict may keep more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import kdump
from kdump.broker.config import Config
from kdump.broker.load.coming_start import coming_starts
from kdump.broker.load.log_loader import load
from kdump.broker.load.log_manager import LoadSettings, LogManager
from kdump.storage.log_dir import LogDir
from kdump.storage.names import parse_partition
from kdump.storage.partition_dir import PartitionDir
from tests.support.broker_loads import NOW, Kafka, damage
from tests.support.damage_cases import damage_cases
from tests.support.salvage_steps import Broker
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
WRITERS = "patch-header", "reindex", "truncate", "repair"
BASES = "none", "txn", "gzip", "lz4", "logstart"
HOLES = "O04", "O07"  # notes, where compaction explains them: as that of a .swap file may
IDLE = "nothing to do", "do not start the broker"
ROUNDS = 6
MEMORY = Path("/dev/shm")
CLEAN = ".kafka_cleanshutdown"
_FILES = re.compile(r"((?:\S+, )*\S+?)(?: and \d+ more)?: [A-Z]\d\d [a-z-]+: ")

Rows = list[dict[str, Any]]
Batches = dict[int, bytes]


class NobodyCanError(Exception):
    """A step is for a person, and not for a script."""


@dataclass
class Scene:
    """A partition with its replicas.

    Args:
        root: with a directory for each broker.
        brokers: log directories.
        intact: the log directory that all of them are copies of.
        partition: the name of the partition.
        told: offsets that somebody was told to be lost.
    """

    root: Path
    brokers: list[Path]
    intact: Path
    partition: str
    told: set[int] = field(default_factory=set)

    def copied(self, root: Path) -> Scene:
        """The same scene in another directory."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.root, root, symlinks=True)
        brokers = [root / one.relative_to(self.root) for one in self.brokers]
        return Scene(root, brokers, self.intact, self.partition)

    @property
    def truth(self) -> Batches:
        """The batches of the intact partition."""
        return walked(self.intact / self.partition)


def batches(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The batches of a log as far as lengths lead, each with its base offset."""
    at = 0
    while at + 17 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        if size < 26 or at + size > len(data):
            return
        yield int.from_bytes(data[at : at + 8], "big"), data[at : at + size]
        at += size


def walked(directory: Path) -> Batches:
    """The batches of a partition by their base offsets."""
    return {base: one for log in sorted(directory.glob("*.log")) for base, one in batches(log.read_bytes())}


def last_offset(base: int, data: bytes) -> int:
    """The last offset of a batch."""
    return base + int.from_bytes(data[23:27], "big") if data[16] == 2 else base


def intact_in(scene: Scene) -> set[int]:
    """The base offsets of the batches of which some replica has all that their CRC covers, above the log start."""
    found, everything = set(), b""
    for broker in scene.brokers:
        directory = broker / scene.partition
        everything += b"\0".join(log.read_bytes() for log in sorted(directory.glob("*.log")))
    start = min(PartitionDir(str(one / scene.partition), LogDir(str(one))).log_start for one in scene.brokers)
    for base, data in scene.truth.items():
        if last_offset(base, data) >= start and data[21:] in everything:
            found.add(base)
    return found


def verdict(*args: str, root: Path) -> Rows:
    """The rows of verify."""
    run = run_kdump(["verify", *args, "--format", "json"], root)
    return [json.loads(line) for line in run.stdout.splitlines()]


def blocks(rows: Rows) -> list[list[Rows]]:
    """The options of each block, and the steps of each."""
    found: list[list[Rows]] = []
    for row in rows:
        if row["type"] != "step":
            continue
        if row["option"] == row["n"] == 1:
            found.append([])
        if row["n"] == 1:
            found[-1].append([])
        found[-1][-1].append(row)
    return found


class Operator:
    """Does what the steps say.

    Args:
        scene: the log directories; they are changed.
        kafka: starts brokers; None for the model.
    """

    def __init__(self, scene: Scene, kafka: Kafka | None = None) -> None:
        self.scene = scene
        self._kafka = kafka
        self._number = 0
        self.done: list[str] = []

    def _told(self, rows: Rows) -> Rows:
        """Note what rows say of losses."""
        for row in rows:
            is_hole = row["type"] == "finding" and row["code"] in HOLES and row["offset"] is not None
            if row["type"] == "divergent" or (row["type"] == "loss" and row["certainty"] != "absent") or is_hole:
                self.scene.told.update(range(row["offset"], min(row["lastOffset"], row["offset"] + 100_000) + 1))
        return rows

    def look(self, broker: Path) -> list[list[Rows]]:
        """The blocks that verify has for a log directory."""
        return blocks(self._told(verdict(str(broker), root=self.scene.root)))

    def follow(self) -> None:
        """Do what is recommended for each broker until there is nothing to do."""
        for broker in self.scene.brokers:
            seen: set[str] = set()
            for _ in range(ROUNDS):
                todo = [block for block in self.look(broker) if not is_idle(block[0])]
                todo = [block for block in todo if json.dumps(block) not in seen]
                if not todo:
                    break
                seen.add(json.dumps(todo[0]))
                self.take(self.chosen(todo[0]), broker)

    def chosen(self, block: list[Rows]) -> Rows:
        """The recommended option; where it asks for another replica, and there is none, what is right then."""
        option = block[0]
        if any(is_compare(step) for step in option) and len(self.scene.brokers) == 1:
            without = [one for one in block if (one[0]["condition"] or "").startswith("there is no other")]
            alone = [step for step in option if not is_compare(step)]
            return [*alone, *without[0]] if without else alone
        return option

    def take(self, option: Rows, broker: Path) -> None:
        """Do the steps of an option."""
        for step in option:
            self.done.append(step["command"] or step["why"])
            if self._do(step, broker):
                return

    def _do(self, step: dict[str, Any], broker: Path) -> bool:  # noqa: C901 (one kind of step a line)
        """Do one step; tell whether files have changed of which later steps do not know.

        Args:
            step: the row.
            broker: the log directory that it is about.
        """
        words = shlex.split(step["command"] or "")
        why = str(step["why"])
        if words[1:2] == ["salvage"]:
            self._salvage(words, broker)
        elif is_compare(step):
            self._compare(broker)
        elif words[:1] == ["kdump"] and words[1] in WRITERS:
            self._number += 1
            apply = ["--apply", "--quarantine", str(self.scene.root / f"aside{self._number}")]
            run = run_kdump([*words[1:], *apply], self.scene.root)
            if run.exit not in (0, 3, 4):
                raise NobodyCanError(f"{step['command']} ends with {run.exit}: {run.stderr.decode()[-300:]}")
        elif ": leave it" in why or why.startswith((*IDLE, "stop those who write")) or words[1:2] == ["verify"]:
            return False
        elif why.startswith("start the broker"):
            self.start(broker)
        elif found := re.match(r"restore .+? from ([^,\s]+), in (?:which|whose)", why):
            for path in step["partitions"]:
                shutil.rmtree(path)
                shutil.copytree(found[1], path)
        elif why.startswith("restore "):
            self._restore(broker)
        elif words[:1] == ["mv"]:
            self._number += 1
            away = self.scene.root / f"away{self._number}"
            away.mkdir()
            subprocess.run([str(away) if word == "DIR" else word for word in words], check=True, cwd=self.scene.root)
        elif "mv -n " in why:
            moves = "mv -n " + why.partition("mv -n ")[2].partition("; then ")[0]
            if subprocess.run(["bash", "-c", moves], check=False, cwd=self.scene.root, capture_output=True).returncode:
                raise NobodyCanError(f"it fails: {moves}")
        elif found := _FILES.match(why):
            self._from_backup(found[1].split(", "))
            return True
        else:
            raise NobodyCanError(f"nobody can do: {why}")
        return False

    def _from_backup(self, files: Sequence[str]) -> None:
        """Put small files back as they were before the damage."""
        for file in files:
            path = self.scene.root / file
            broker = next(one for one in self.scene.brokers if path.is_relative_to(one))
            was = self.scene.intact / path.relative_to(broker)
            if path.is_dir():
                shutil.rmtree(path)
            elif was.is_file():
                shutil.copy2(was, path)
            else:
                path.unlink(missing_ok=True)  # it is gone where another step has replaced the partition

    def _restore(self, broker: Path) -> None:
        """Take a replica that is sound, where there is one."""
        for other in self.scene.brokers:
            if other != broker and not blocks(verdict(str(other), root=self.scene.root)):
                shutil.rmtree(broker / self.scene.partition)
                shutil.copytree(other / self.scene.partition, broker / self.scene.partition)
                return
        raise NobodyCanError("no replica is sound")

    def _compare(self, broker: Path) -> None:
        paths = [str(one / self.scene.partition) for one in self.scene.brokers]
        found = blocks(self._told(verdict("--replicas", *paths, root=self.scene.root)))
        own = str(broker / self.scene.partition)
        block = next((one for one in found if own in one[0][0]["partitions"]), None)
        if block is not None:
            self.take([step for step in block[0] if not is_compare(step)], broker)

    def _salvage(self, words: Sequence[str], broker: Path) -> None:
        self._number += 1
        out = self.scene.root / f"out{self._number}"
        meant = {"DIR": str(out), "TOPIC-N": self.scene.partition}
        args = [meant.get(word, word) for word in words[1:]]
        if "SOURCE" in args:
            args[args.index("SOURCE")] = str(self.scene.brokers[0] / self.scene.partition)
        run = run_kdump([*args, "--format", "json"], self.scene.root)
        rows = self._told([json.loads(line) for line in run.stdout.splitlines()])
        result = out / self.scene.partition
        if not result.is_dir():
            raise NobodyCanError(f"{' '.join(args)} ends with {run.exit}: {run.stderr.decode()[-300:]}")
        several = {str(one / self.scene.partition) for one in self.scene.brokers} <= set(words)
        options = [option for block in blocks(rows) for option in block]
        placing = next((one for one in options if any("copy " in step["why"] for step in one)), Rows())
        for one in self.scene.brokers if several else [broker]:
            work = shutil.copytree(result, out / "work" / one.name / self.scene.partition)
            placed = Broker(one, work)
            for step in placing:
                text = f"{step['why']}{'' if step['command'] is None else ': ' + step['command']}"
                placed.do(text.replace(str(result), str(work)))
            shutil.rmtree(one / self.scene.partition, ignore_errors=True)
            shutil.copytree(work, one / self.scene.partition)

    def start(self, broker: Path) -> Batches:
        """Start a broker; return what it serves of the partition, nothing where it does not load."""
        found = kdump.verify(str(broker), start="auto", now=NOW).predictions
        row = next((one for one in found if one.partition == self.scene.partition), None)
        if row is None or not row.loads or row.is_stray:
            return {}
        log_dir = LogDir(str(broker))
        directory = PartitionDir(str(broker / self.scene.partition), log_dir)
        start = coming_starts(log_dir)[0]
        facts = LogManager(log_dir).partition(directory, LoadSettings(NOW, Config({})))[0]
        if self._kafka is not None:
            directory.close()
            answer = self._kafka.load(broker / self.scene.partition, facts, start)
            if answer[0] != "loaded":
                return {}
            begin, end = map(int, answer[1:3])
        else:
            outcome = load(facts, start, wants_contents=True)
            begin, end = outcome.log_start_offset or 0, outcome.log_end_offset or 0
            files = {}
            for name in outcome.disk.names():
                source = outcome.disk.get(name)
                assert source is not None
                files[name] = bytes(source.read_at(0, source.size))
            directory.close()
            for name in set(outcome.disk.before) - files.keys():
                (broker / self.scene.partition / name).unlink()
            for name, data in files.items():
                (broker / self.scene.partition / name).write_bytes(data)
        lower(broker, self.scene.partition, end)
        served = walked(broker / self.scene.partition).items()
        return {base: data for base, data in served if base < end and last_offset(base, data) >= begin}

    def served(self) -> set[int]:
        """Start all brokers; the base offsets of the batches of the intact log that the best of them serves."""
        truth = self.scene.truth
        best: set[int] = set()
        for broker in self.scene.brokers:
            got = self.start(broker)
            right = {base for base, data in got.items() if base in truth and truth[base][21:] == data[21:]}
            best = max(best, right, key=len)
        return best


def lower(broker: Path, partition: str, end: int) -> None:
    """What a broker does with its checkpoints once it runs: none is above the end of a log."""
    topic, _, number = partition.rpartition("-")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = broker / name
        if not path.is_file():
            continue
        lines = path.read_bytes().decode("latin-1").split("\n")
        key = f"{topic} {number} "
        told = [f"{key}{end}" if one.startswith(key) and int(one[len(key) :]) > end else one for one in lines]
        path.write_bytes("\n".join(told).encode("latin-1"))


def is_compare(step: dict[str, Any]) -> bool:
    """Whether a step asks for other replicas."""
    return (step["command"] or "").startswith("kdump verify --replicas ")


def is_idle(option: Rows) -> bool:
    """Whether nothing is to be done."""
    return all(step["command"] is None and step["why"].startswith(IDLE) for step in option)


@dataclass
class Outcome:
    """What became of a scene.

    Args:
        name: of it.
        faults: what does not hold.
        first: the first thing that was done; empty where nothing was to do.
        skipped: why nobody could follow; empty where somebody did.
    """

    name: str
    faults: list[str]
    first: str
    skipped: str = ""


def followed(scene: Scene, name: str, kafka: Kafka | None = None) -> Outcome:
    """Follow the steps of a scene, and hold them against its other options."""
    before, truth = intact_in(scene), scene.truth
    mine = scene.copied(scene.root.with_name(scene.root.name + "-a"))
    operator = Operator(mine, kafka)
    try:
        operator.follow()
        kept = operator.served()
    except NobodyCanError as why:
        return Outcome(name, [], _kind(operator.done), str(why))
    faults = []
    gone = sorted(before - kept)
    unknown = [base for base in gone if not mine.told & set(range(base, last_offset(base, truth[base]) + 1))]
    if unknown:
        faults.append(f"batches are gone and nobody was told: {unknown[:6]} after {operator.done}")
    for broker in range(len(scene.brokers)):
        other = scene.copied(scene.root.with_name(scene.root.name + "-b"))
        first = [block for block in Operator(other).look(other.brokers[broker]) if not is_idle(block[0])]
        for at in range(len(first[0]) if first else 0):
            other = scene.copied(scene.root.with_name(scene.root.name + "-b"))
            alone = Operator(other, kafka)
            block = next(one for one in alone.look(other.brokers[broker]) if not is_idle(one[0]))
            option = [step for step in block[at] if not is_compare(step)]
            if at == 0 or not option:
                continue
            try:
                alone.take(option, other.brokers[broker])
                more = alone.served()
            except NobodyCanError:
                continue
            if len(more) > len(kept):
                faults.append(f"{len(more)} batches are kept by {alone.done}, {len(kept)} by {operator.done}")
    return Outcome(name, faults, _kind(operator.done))


def _kind(done: Sequence[str]) -> str:
    """A word or two for what was done first."""
    real = [one for one in done if not one.startswith("do not start")]
    if not real:
        return ""
    if found := re.search(r": ([A-Z]\d\d) [a-z-]+: ", real[0]):
        return f"by hand {found[1]}"
    return " ".join(real[0].split()[: 3 if "--replicas" in real[0] else 2])


# --- scenes --------------------------------------------------------------------------------------------------
def of_case(root: Path, cases: Path, name: str) -> Scene | None:
    """A case of damage as the log directory of one broker; None where it damages no partition that can be compared."""
    (case,) = (one for one in damage_cases(cases) if one.name == name)
    broker = case.build(root / "scene" / "broker0")
    intact = cases / "intact" / case.base / "logdir"
    first = case.file.split("/")[0] if "/" in case.file else ""
    names = sorted(one.name for one in intact.iterdir() if one.is_dir() and parse_partition(one.name))
    partition = first if first in names else names[0] if names else ""
    return Scene(root / "scene", [broker], intact, partition) if partition else None


def at_random(root: Path, seed: int) -> Scene:
    """One to three replicas, each damaged at random or not."""
    chance = Random(seed)
    bases = [one for one in BASES if (FIXTURES / "damage" / "intact" / one / "logdir").is_dir()]
    intact = FIXTURES / "damage" / "intact" / chance.choice(bases) / "logdir"
    names = sorted(one.name for one in intact.iterdir() if one.is_dir() and list(one.glob("*.log")))
    partition = chance.choice(names)
    brokers = []
    for number in range(chance.randrange(1, 4)):
        broker = root / "scene" / f"broker{number}"
        shutil.copytree(intact, broker, copy_function=shutil.copy)
        for path in (broker, *broker.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if chance.random() < 0.5:
            (broker / CLEAN).unlink(missing_ok=True)
        if chance.random() < 0.8 or not number:
            damage(broker / partition, chance)
        brokers.append(broker)
    return Scene(root / "scene", brokers, intact, partition)


def one_of(what: tuple[str, int | str, str, str | None]) -> Outcome:
    """Make one scene, and follow its steps.

    Args:
        what: "case" or "seed", which of them, the directory of the cases, and the jars.
    """
    kind, which, cases, jars = what
    with tempfile.TemporaryDirectory(prefix="kdump-follow-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        root = Path(folder)
        scene = of_case(root, Path(cases), str(which)) if kind == "case" else at_random(root, int(which))
        if scene is None:
            return Outcome(str(which), [], "", "no partition")
        kafka = None if jars is None else Kafka(jars)
        try:
            return followed(scene, f"{kind} {which}", kafka)
        finally:
            if kafka is not None:
                kafka.close()


def main(args: Sequence[str] | None = None) -> int:
    """Follow the steps of all scenes; the status is 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=Path, help="a directory of cases of damage; all of them are followed")
    parser.add_argument("--case", action="append", help="of these cases only")
    parser.add_argument("--runs", type=int, default=0, help="scenes that are damaged at random")
    parser.add_argument("--seed", type=int, default=0, help="number of the first one")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--jars", help="of a release of Kafka, whose classes start the brokers")
    parser.add_argument("--keep", type=Path, help="a new directory for the files of one run")
    given = parser.parse_args(args)
    if given.keep is not None:
        given.keep.mkdir()
        print(followed(at_random(given.keep.resolve(), given.seed), "kept"))
        return 0
    cases = str((given.cases or FIXTURES / "damage").resolve())
    names = given.case or ([one.name for one in damage_cases(Path(cases))] if given.cases else [])
    work: list[tuple[str, int | str, str, str | None]] = [("case", name, cases, given.jars) for name in names]
    work += [("seed", seed, cases, given.jars) for seed in range(given.seed, given.seed + given.runs)]
    counts: Counter[str] = Counter()
    bad = skipped = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for one in pool.map(one_of, work, chunksize=4):
            counts[one.first or "nothing to do"] += 1
            if one.skipped:
                skipped += 1
                print(f"{one.name}: nobody could: {one.skipped}", flush=True)
            for fault in one.faults:
                print(f"{one.name}: {fault}", flush=True)
            bad += bool(one.faults)
    print(f"{len(work)} scenes followed, {skipped} that nobody could, {bad} wrong; first: {dict(counts)}")
    return int(bool(bad))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
