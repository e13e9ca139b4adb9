"""Real brokers take what `kdump salvage --for` has made, and consumers read every record of it.

    python -m tests.support.salvage_for --jars '/where/the/jars/of/4.3.1/are/*' [--keep DIR]

The jars, and Java 17, are not part of the project. Three brokers write a topic over several leader epochs. Scene 1: the
topic is deleted, its -delete directory copied in time, and the partition comes back under a new topic of the name.
Scene 2: a partition with the leader epochs of many elections is brought into another cluster. Each time the commands of
the steps are run as they are printed, with the names in capitals filled in; then consumers read all, in order; all
replicas are equal, in sync, and none was cut; what is written then is read too. `--unfitted` gives the batches their
old epochs back before they are put in place: Kafka then does what the fitted ones spare it, and that is a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.consoles import environment
from tests.support.kraft_cluster import KraftCluster
from tests.support.partitions import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDS = "bk62DHJPTQOUKgGAmgTSxQ", "ZG92ZXIgdGhlIHNlYSEhIQ"
TOPIC = "orders"
NAME = f"{TOPIC}-0"
_EACH = 200  # records that are written at once
_ELECTIONS = 2
_LATER = 3  # times that records are written behind those that came back


class Scene:
    """A directory in which kdump runs, and what was found there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._environment = environment(root / "programs")
        self.faults: list[str] = []
        self.placed: dict[Path, tuple[int, int]] = {}  # closed logs as they were put in place: inode and time of change

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Note what is not as it should be."""
        is_right = found == wanted
        print(f"  {'yes' if is_right else 'NO '} {what}", flush=True)
        if not is_right:
            self.faults.append(f"{what}: {str(found)[:600]}, and not {str(wanted)[:600]}")

    def kdump(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run kdump."""
        return subprocess.run(
            ["kdump", *words], cwd=self.root, env=self._environment, capture_output=True, text=True, check=False
        )

    def steps(self, *words: str) -> list[dict[str, Any]]:
        """Run salvage; return the steps that it recommends."""
        done = self.kdump("salvage", *words, "--segment-bytes", "4096", "--format", "json")
        self.expect(f"salvage {' '.join(words)} ends with 0", (done.returncode, done.stderr), (0, done.stderr))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        steps = [row for row in rows if row["type"] == "step" and row["rank"] == "recommended"]
        patched = [row for row in rows if row["type"] == "patched"]
        print(f"  {len(steps)} steps, {len(patched)} batches with another leader epoch")
        return steps

    def follow(self, steps: list[dict[str, Any]], cluster: KraftCluster) -> None:
        """Do what the steps say."""
        told = None
        for step in steps:
            command = step["command"]
            if command is None:
                print(f"      (a person: {step['why'][:100]})")
                continue
            words = shlex.split(command.replace("HOST:PORT", cluster.address))
            if words[0] == "kafka-server-stop.sh":
                cluster.stop(int(words[1].rpartition("=")[2]))
            elif words[0] == "kafka-server-start.sh":
                self.placed = {one: state_of(one) for one in closed_logs(cluster)}
                cluster.start()
            elif words[:2] in (["kdump", "groups"], ["kdump", "salvage"]):
                continue
            else:
                told = self._shell(step, command, cluster)
            if words[:2] == ["kdump", "verify"]:
                self.expect("what was put in place is sound", "SOUND" in str(told), True)

    def _shell(self, step: dict[str, Any], command: str, cluster: KraftCluster) -> str:
        broker = next((one for one in cluster.brokers if f"on broker {one} " in step["why"]), 1)
        filled = command.replace("HOST:PORT", cluster.address).replace("REPLACED", f"replaced-{broker}")
        filled = filled.replace("LOGDIR", str(cluster.log_dir(broker)))
        path = f"{cluster.environment['PATH']}{os.pathsep}{self._environment['PATH']}"
        done = subprocess.run(
            ["sh", "-c", filled],
            cwd=self.root,
            env={**cluster.environment, **self._environment, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        self.expect(filled, (done.returncode, done.stderr), (0, done.stderr))
        return done.stdout


def written(cluster: KraftCluster) -> list[str]:
    """Write a topic over several leader epochs; return the values of its records."""
    cluster.topics("--create", "--topic", TOPIC, "--partitions", "1")
    values: list[str] = []
    for _ in range(_ELECTIONS):
        leader = cluster.leader(TOPIC)
        _write(cluster, values)
        cluster.stop(leader)  # another broker leads then
        _write(cluster, values)
        cluster.start()
    cluster.leader(TOPIC)
    _write(cluster, values)
    return values


def _write(cluster: KraftCluster, values: list[str]) -> None:
    some = [f"record {len(values) + k}" for k in range(_EACH)]
    cluster.produce(TOPIC, some)
    values += some


def epochs_of(directory: Path) -> list[tuple[int, int]]:
    """The entries of a leader-epoch-checkpoint."""
    lines = (directory / "leader-epoch-checkpoint").read_text("ascii").splitlines()[2:]
    return [(int(one), int(two)) for one, two in map(str.split, lines)]


def judged(scene: Scene, cluster: KraftCluster, values: list[str]) -> None:
    """The partition is back: all replicas have all of it, and go on."""
    cluster.leader(TOPIC)
    scene.expect("a consumer reads every record", cluster.consume(TOPIC, len(values)), values)
    every = list(values)
    for _ in range(
        _LATER
    ):  # a producer each, and one may have the id, and writes the sequences, of one that wrote before
        _write(cluster, every)
    group = "--group", "readers", "--isolation-level", "read_committed"
    scene.expect("a group reads what was written then too", cluster.consume(TOPIC, len(every), *group), every)
    for number in cluster.brokers:
        cluster.stop(number)
    cluster.start()
    cluster.leader(TOPIC)
    scene.expect("another start changes nothing", cluster.consume(TOPIC, len(every)), every)
    logs = {
        b"".join(one.read_bytes() for one in sorted((cluster.log_dir(n) / NAME).glob("*.log"))) for n in cluster.brokers
    }
    scene.expect("all replicas are equal", len(logs), 1)
    strays = [path.name for n in cluster.brokers for path in cluster.log_dir(n).glob("*-stray")]
    scene.expect("no directory was set aside", strays, [])
    for number in cluster.brokers:
        epochs = epochs_of(cluster.log_dir(number) / NAME)
        scene.expect(f"the epochs of broker {number} rise: {epochs}", epochs, sorted(set(epochs)))
    written_again = [one.name for one, state in scene.placed.items() if state != state_of(one)]
    scene.expect(f"none of {len(scene.placed)} closed logs was cut and written again", written_again, [])


def closed_logs(cluster: KraftCluster) -> Iterator[Path]:
    """The logs of all segments but the last, of all brokers."""
    for number in cluster.brokers:
        yield from sorted((cluster.log_dir(number) / NAME).glob("*.log"))[:-1]


def state_of(log: Path) -> tuple[int, int]:
    """Another one, or another time, where it was written; 0 where it is gone."""
    return (log.stat().st_ino, log.stat().st_mtime_ns) if log.exists() else (0, 0)


def with_epochs(directory: Path, epoch_of: Callable[[int], int]) -> None:
    """Give each batch of a partition another leader epoch, by its base offset; no CRC covers it."""
    begins: dict[int, int] = {}
    for log in sorted(directory.glob("*.log")):
        data, at = bytearray(log.read_bytes()), 0
        while at < len(data):
            offset, size = struct.unpack_from(">qi", data, at)
            begins.setdefault(epoch_of(offset), offset)
            struct.pack_into(">i", data, at + 12, epoch_of(offset))
            at += 12 + size
        log.write_bytes(data)
    (directory / "leader-epoch-checkpoint").write_bytes(checkpoint(*begins.items()))


def elected(offset: int) -> int:
    """The leader epoch of an offset after many elections."""
    return 40 + offset // _EACH


def deleted(scene: Scene, jars: str) -> Path:
    """Scene 1; returns a copy of the partition as it was before."""
    root = scene.root
    with KraftCluster(root / "cluster", jars, IDS[0], 3) as cluster:
        values = written(cluster)
        (root / "values").write_text("\n".join(values))
        shutil.copytree(cluster.log_dir(1) / NAME, root / "before" / NAME)
        cluster.topics("--delete", "--topic", TOPIC)
        until = time.monotonic() + 50
        while not (gone := list(cluster.log_dir(1).glob(f"{NAME}.*-delete"))) and time.monotonic() < until:
            time.sleep(0.2)
        shutil.copytree(gone[0], root / "copied" / gone[0].name)
        log_dir = str(cluster.log_dir(1).relative_to(root))
        source = f"copied/{gone[0].name}"
        refused = scene.kdump("salvage", source, "--for", log_dir, "--to", "out")
        scene.expect("without a topic it is refused", refused.returncode, 12)
        command = refused.stderr.strip().splitlines()[0].rpartition(": ")[2].replace("HOST:PORT", cluster.address)
        scene.expect("it says how to make the topic", command.split()[0], "kafka-topics.sh")
        cluster.run(*shlex.split(command))
        cluster.leader(TOPIC)
        time.sleep(2)
        scene.follow(scene.steps(source, "--for", log_dir, "--to", "out"), cluster)
        judged(scene, cluster, values)
    return root / "before" / NAME


def moved(scene: Scene, jars: str, source: Path, *, unfitted: bool) -> None:
    """Scene 2: another cluster."""
    root = scene.root
    values = (root / "values").read_text().splitlines()
    with_epochs(source, elected)
    with KraftCluster(root / "other", jars, IDS[1], 2) as cluster:
        cluster.topics("--create", "--topic", TOPIC, "--partitions", "1")
        cluster.produce(TOPIC, ["a record of the topic that was there"])
        time.sleep(2)
        before = epochs_of(source)
        print(f"  leader epochs of the source: {before}")
        words = str(source.relative_to(root)), "--for", str(cluster.log_dir(1).relative_to(root)), "--to", "moved"
        steps = scene.steps(*words)
        if unfitted:
            with_epochs(root / "moved" / NAME, elected)
        scene.follow(steps, cluster)
        there = epochs_of(root / "moved" / NAME)
        print(f"  leader epochs of the result: {there}")
        judged(scene, cluster, values)


def main() -> int:
    """Play both scenes; the status is 1 where anything is not as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jars", required=True)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--unfitted", action="store_true")
    given = parser.parse_args()
    root = given.keep or Path(tempfile.mkdtemp(prefix="kdump-for-"))
    root.mkdir(exist_ok=True)
    scene = Scene(root)
    try:
        print("a topic that was deleted", flush=True)
        before = deleted(scene, given.jars)
        print("a partition of another cluster", flush=True)
        moved(scene, given.jars, before, unfitted=given.unfitted)
    except RuntimeError as error:
        scene.faults.append(str(error))
    finally:
        if given.keep is None:
            shutil.rmtree(root)
    for fault in scene.faults:
        print(f"FAULT {fault}")
    print(f"{len(scene.faults)} faults")
    return int(bool(scene.faults))


if __name__ == "__main__":
    sys.exit(main())
