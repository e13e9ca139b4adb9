"""Kafka's own classes and kdump replay the same random metadata logs: which of them can a node not apply, and where?

    python -m tests.support.metadata_replays --jars '/where/the/jars/of/4.3.1/are/*' --runs 1000 --seed 0

The jars, and Java 17, are not part of the project. A log of 4 to 40 records is one that a controller could have
written, with a snapshot in three of four; then records are dropped, doubled, cut, moved or changed to an unknown type.
Compared are whether all is applied, else class, file and offset of the first record that is not. `--only N` makes one
again, `--keep DIR` keeps it.
"""

from __future__ import annotations

import argparse
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.broker.load.release_refusal import refusal
from kdump.broker.releases import rules_of
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES, ReadLimits
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support import metadata_records as records
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from collections.abc import Sequence

JAVA = Path(__file__).with_name("kafka_classes") / "ReplayMetadata.java"
LIMITS = ReadLimits(MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES)
LEVEL = 20


class Cluster:
    """What a controller knows of, so that most records fit those before."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._brokers: dict[int, int] = {}  # epochs
        self._topics: dict[int, int] = {}  # how many partitions
        self._acls: list[int] = []

    def next(self, number: int) -> list[Record]:
        """Return the next records."""
        made = self._dice.choice((self._broker, self._topic, self._partition, self._other))(number)
        return made or [records.config(2, "t", "retention.ms", str(number))]

    def _broker(self, number: int) -> list[Record]:
        kind = self._dice.randrange(4)
        if kind == 0 or not self._brokers:
            one = self._dice.randrange(4)
            self._brokers[one] = number
            return [records.broker(one, epoch=number)]
        one = self._dice.choice(sorted(self._brokers))
        if kind == 1:
            return [records.unregister(one, self._brokers.pop(one))]
        fields = struct.pack(">iq", one, self._brokers[one])
        if kind == 2:
            return [records.framed(self._dice.choice((7, 8)), 0, fields)]
        value = self._dice.choice((-1, 0, 1, 1, 5))
        return [records.framed(17, 1, fields, {0: struct.pack(">b", value)} if value else None)]

    def _topic(self, number: int) -> list[Record]:
        if self._dice.random() < 0.2 and self._topics:
            one = self._dice.choice(sorted(self._topics))
            del self._topics[one]
            return [records.remove_topic(one)]
        self._topics[number] = 0
        return [records.topic(f"t{number}", number)]

    def _partition(self, _number: int) -> list[Record]:
        whole = [one for one, parts in self._topics.items() if parts]
        if whole and self._dice.random() < 0.5:
            of = self._dice.choice(whole)
            return [records.change(self._dice.randrange(self._topics[of]), of, leader=self._dice.randrange(4))]
        if not self._topics:
            return []
        of = self._dice.choice(sorted(self._topics))
        directories = [records.uuid(9)] * self._dice.choice((0, 0, 0, 2, 2, 2, 1))
        self._topics[of] += 1
        return [records.partition(self._topics[of] - 1, of, self._dice.sample(range(4), 2), directories)]

    def _other(self, number: int) -> list[Record]:
        kind = self._dice.randrange(4)
        if kind == 0 and self._acls:
            return [records.framed(19, 0, records.raw(records.uuid(self._acls.pop())))]
        if kind < 2:
            self._acls.append(number)
            return [records.acl(number, "User:a", (2, "t", 3), 3)]
        if kind == 2:
            return []
        begin = records.framed(23, 0, b"", {0: records.text("t")})
        inside = [records.topic(f"x{number}", 1000 + number), records.partition(0, 1000 + number, [1])]
        return [begin, *inside, records.framed(24 if self._dice.random() < 0.7 else 25, 0, b"")]


def spoil(dice: random.Random, made: list[Record]) -> list[Record]:
    """Drop, double, cut, move or change some records."""
    made = list(made)
    for _ in range(dice.choice((0, 0, 1, 1, 1, 2))):
        at, what = dice.randrange(1, len(made)), dice.randrange(6)
        value = made[at].value or b""
        if what == 0 and len(made) > 2:
            del made[at]
        elif what == 1:
            made.insert(dice.randrange(at, len(made) + 1), made[at])
        elif what == 2:
            made[at] = made[at]._replace(value=value[: dice.randrange(len(value))])
        elif what == 3:
            made[at] = made[at]._replace(value=bytes((value[0], dice.choice((30, 99, 6, 13)), *value[2:])))
        elif what == 4:
            made.insert(dice.randrange(1, len(made)), made.pop(at))
        else:
            made[at] = made[at]._replace(value=value + b"x")
    return made


def write(directory: Path, dice: random.Random) -> None:
    """Make a directory of the metadata log."""
    cluster = Cluster(dice)
    made = [records.feature("metadata.version", LEVEL)]
    for number in range(dice.randrange(3, 40)):
        made += cluster.next(number)
    made = spoil(dice, made)
    begin = dice.randrange(1, len(made)) if dice.random() < 0.75 else 0
    directory.mkdir(parents=True)
    if begin:
        name = f"{begin:020}-{1:010}.checkpoint"
        (directory / name).write_bytes(records.snapshot(made[:begin], contained=1_700_000_000_000))
    base = max(0, begin - dice.randrange(3)) if begin else 0
    data, at = b"", base
    while at < len(made):
        some = made[at : min(at + dice.randrange(1, 4), begin if at < begin else len(made))]  # a snapshot ends with one
        data += batch(at, some)
        at += len(some)
    (directory / f"{base:020}.log").write_bytes(data)


def by_kdump(directory: Path) -> tuple[str, ...]:
    """What kdump says."""
    found = refusal(PartitionDir(str(directory), LogDir(str(directory.parent))), rules_of("4.3"), LIMITS)
    if found is None:
        return ("replayed",)
    return "ends", found.exception.partition(":")[0], Path(found.path).name, str(found.offset)


def by_kafka(jars: str, directories: Sequence[Path]) -> list[tuple[str, ...]]:
    """What Kafka's classes say."""
    run = subprocess.run(
        ["java", "-Xmx512m", "-cp", jars, str(JAVA)],
        input="".join(f"{one}\n" for one in directories),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return [tuple(line.split("\t")) for line in run.stdout.splitlines()]


def same(kafka: tuple[str, ...], kdump: tuple[str, ...]) -> bool:
    """Whether both say one thing; MetadataBatchLoader names an offset in a sentence, and no file."""
    if kafka[0] != "ends" or kdump[0] != "ends":
        return kafka[0] == kdump[0]
    where = " ".join(kafka[3:])
    return kafka[1] == kdump[1] and (f" {kdump[3]}" in where if len(kafka) == 4 else where.endswith(f" {kdump[3]}"))


def main() -> int:
    """Compare; return 1 where anything differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jars", required=True)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    numbers = range(given.runs) if given.only is None else [given.only]
    differ = ended = 0
    with tempfile.TemporaryDirectory() as scratch:
        root = given.keep or Path(scratch)
        directories = [root / f"{number}" / "__cluster_metadata-0" for number in numbers]
        for number, directory in zip(numbers, directories, strict=True):
            write(directory, random.Random(f"{given.seed} {number}"))
        for number, directory, kafka in zip(numbers, directories, by_kafka(given.jars, directories), strict=True):
            kdump = by_kdump(directory)
            ended += kafka[0] == "ends"
            if not same(kafka, kdump):
                differ += 1
                print(f"{number}: Kafka {kafka}, kdump {kdump}")
    print(f"{len(directories)} logs, {ended} that a node cannot apply, {differ} differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
