"""A broker starts after `kdump repair` has mended its small files, and consumers read every record.

    python -m tests.support.repair_on_a_broker --jars '/where/the/jars/of/4.3.1/are/*' [--each] [--keep DIR]

The jars, and Java 17, are not part of the project. A combined node with two log.dirs is formatted and started, topics
are filled, with transactions and over two leader epochs, and it is stopped. Then for each way of damage (zeros, empty,
cut, foreign: that of another partition) a small file of every kind is damaged in a copy, with `--each` one kind at a
time. `kdump repair --apply` mends the copy, `kdump undo` must give every damaged byte back; mended again the node must
start, keep its log directories, set nothing aside as -stray, and serve what it served before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.emit_on_a_broker import CLUSTER, ports
from tests.support.repair_trees import journals
from tests.support.runs import run_kdump

TOPICS = ("orders", "payments")
_STARTED = 120  # seconds that a node may take
_READ_MS = "10000"  # without a further record a consumer ends
_RECORDS = 600  # of a topic, each time

Way = Callable[[Path, Path], object]

WAYS: dict[str, Way] = {
    "zeros": lambda path, _: path.write_bytes(bytes(path.stat().st_size or 16)),
    "empty": lambda path, _: path.write_bytes(b""),
    "cut": lambda path, _: path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3]),
    "foreign": lambda path, other: shutil.copy(other, path),
}
KINDS = {
    "index": "*.index",
    "timeindex": "*.timeindex",
    "snapshot": "*.snapshot",
    "epochs": "leader-epoch-checkpoint",
    "partition-metadata": "partition.metadata",
}
ROOT_KINDS = (
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
# whole files of another partition, which nothing here proves wrong, are named and left: see kdump-repair(1)
FOREIGN = ("index", "timeindex", "snapshot", "epochs")


class Node:
    """A broker and controller in one.

    Args:
        root: of its files; log.dirs are `a` and `b`.
        jars: of its release.
    """

    def __init__(self, root: Path, jars: str) -> None:
        self.root, self.jars = root, jars
        self.dirs = [root / "a", root / "b"]
        broker, controller = ports(2)
        self.port, self.address = broker, f"127.0.0.1:{broker}"
        self.config = root / "node.properties"
        self.config.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}\n"
            f"log.dirs={self.dirs[0]},{self.dirs[1]}\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
            "offsets.topic.num.partitions=2\ntransaction.state.log.num.partitions=2\nnum.partitions=2\n"
            "log.index.interval.bytes=256\n"
        )

    def tool(self, java: str, *args: str) -> bytes:
        """Run one of Kafka's tools; return what it prints."""
        command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", self.jars, java, *args]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def format(self) -> None:
        self.tool("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self.config))

    def __enter__(self) -> Node:
        self._out = (self.root / "node.out").open("wb")
        command = ["java", "-Xmx512M", "-XX:TieredStopAtLevel=1", "-cp", self.jars, "kafka.Kafka", str(self.config)]
        self._process = subprocess.Popen(command, cwd=self.root, stdout=self._out, stderr=self._out)
        until = time.monotonic() + _STARTED
        while time.monotonic() < until and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.5)
            else:
                return self
        self.__exit__()
        raise OSError((self.root / "node.out").read_text("latin-1")[-1500:])

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._out.close()

    def fill(self) -> None:
        """Write records to each topic, in transactions."""
        for topic in TOPICS:
            self.tool(
                "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(_RECORDS),
                "--record-size", "60", "--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms",
                "50", "--producer-props", f"bootstrap.servers={self.address}", "batch.size=200",
            )  # fmt: skip

    def served(self) -> list[bytes]:
        """All records that a consumer reads, with their partitions and offsets."""
        read: list[bytes] = []
        for topic in TOPICS:
            out = self.tool(
                "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", self.address, "--topic", topic,
                "--from-beginning", "--timeout-ms", _READ_MS, "--isolation-level", "read_committed",
                "--property", "print.partition=true", "--property", "print.offset=true",
            )  # fmt: skip
            read += (topic.encode() + b" " + line for line in out.splitlines())
        return sorted(read)


def restored(before: Path, node: Node) -> None:
    """Put the log.dirs back as they were."""
    for one in node.dirs:
        shutil.rmtree(one)
        shutil.copytree(before / one.name, one)


def contents(node: Node) -> dict[str, bytes]:
    """All files of the log.dirs."""
    return {str(path): path.read_bytes() for one in node.dirs for path in one.rglob("*") if path.is_file()}


def damaged(node: Node, way: str, only: str | None) -> list[str]:
    """Damage one file of each kind, each in a partition of its own as far as there are; return which."""
    partitions = sorted(
        path for one in node.dirs for path in one.iterdir() if path.is_dir() and path.name.rpartition("-")[0] in TOPICS
    )
    told = []
    for at, (kind, pattern) in enumerate(KINDS.items()):
        if only not in (None, kind) or (way == "foreign" and kind not in FOREIGN):
            continue
        mine, other = partitions[at % len(partitions)], partitions[(at + 1) % len(partitions)]
        path, same = sorted(mine.glob(pattern))[-1], sorted(other.glob(pattern))[-1]
        WAYS[way](path, same)
        told.append(str(path.relative_to(node.root)))
    for name in ROOT_KINDS:
        path = node.dirs[0] / name
        if only in (None, name) and way != "foreign" and path.exists():
            WAYS[way](path, path)
            told.append(str(path.relative_to(node.root)))
    return told


def repaired(node: Node, quarantine: Path) -> int:
    """Have `kdump repair` mend all; return the number of files that it changed."""
    paths = [str(one) for one in node.dirs]
    run = run_kdump(["repair", *paths, "--apply", "--quarantine", str(quarantine), "--format", "json"], node.root)
    if run.exit not in (0, 3):  # 3: of what another partition has
        raise OSError(f"repair ends with {run.exit}: {run.stderr[-500:]!r}")
    return run.stdout.count(b'"action"')


def faults(node: Node, before: Path, way: str, only: str | None, expected: list[bytes]) -> tuple[list[str], int]:
    """Damage, repair, undo, repair again and start; return what does not hold, and how many files were changed."""
    restored(before, node)
    told = damaged(node, way, only)
    if not told:
        return [], 0
    name = f"{way} {only or 'all'} ({', '.join(told)})"
    wrong, was = [], contents(node)
    repaired(node, node.root / f"q-{way}-{only}-1")
    for journal in reversed(journals(node.root / f"q-{way}-{only}-1")):
        if run_kdump(["undo", str(journal), "--apply"], node.root).exit:
            wrong.append(f"{name}: undo fails")
    now = contents(node)
    other = [path for path in sorted({*was, *now}) if was.get(path) != now.get(path) and not path.endswith(".lock")]
    if other:
        wrong.append(f"{name}: undo leaves something else: {other}")
    changed = repaired(node, node.root / f"q-{way}-{only}-2")
    try:
        with node:
            served = node.served()
    except OSError as error:
        return [*wrong, f"{name}: it does not start: {error}"], changed
    if served != expected:
        wrong.append(f"{name}: {len(served)} records of {len(expected)} are served")
    strays = [path.name for one in node.dirs for path in one.iterdir() if path.name.endswith("-stray")]
    if strays:
        wrong.append(f"{name}: {strays}")
    return wrong, changed


def main() -> int:
    """Run all, and print what does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jars", required=True)
    parser.add_argument("--each", action="store_true", help="one kind of file at a time: an hour")
    parser.add_argument("--keep", type=Path)
    given: Any = parser.parse_args()
    root = (given.keep or Path(tempfile.mkdtemp())).resolve()
    root.mkdir(exist_ok=True)
    node, failed, changed, rounds = Node(root, given.jars), 0, 0, 0
    try:
        node.format()
        for _ in range(2):
            with node:
                node.fill()
                expected = node.served()
        for one in node.dirs:
            shutil.copytree(one, root / "before" / one.name)
        for way in WAYS:
            for only in (*KINDS, *ROOT_KINDS) if given.each else (None,):
                wrong, count = faults(node, root / "before", way, only, expected)
                rounds, changed, failed = rounds + bool(count), changed + count, failed + len(wrong)
                for line in wrong:
                    print(line, flush=True)
    finally:
        if given.keep is None:
            shutil.rmtree(root)
    print(f"{rounds} starts, {changed} files mended, {len(expected)} records each time, {failed} that do not hold")
    return int(bool(failed))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
