"""Kafka's own classes and kdump start the same damaged node: is what `--start auto` foretells what they do?

    python -m tests.support.node_starts --jars '/where/the/jars/of/4.3.1/are/*' --runs 3000 --seed 0

The jars, and Java 17, are not part of the project. A node has one log directory or two, with partitions of `fixtures`,
checkpoints, the metadata log or none, a meta.properties of either version, and 0 to 5 damages of any kind in any file;
`MetaPropertiesEnsemble`, `KafkaRaftLog`, `LogManager` and `UnifiedLog` start it, `MetadataBatchLoader` replays its
metadata log; with `--topics SHARE` that log of some nodes has their topics, and says which partitions are strays.
Compared are whether the process ends, which directories go offline, which partitions are strays, and log start and end
offset of all others; foretold by verify and by the gate. `--only N` makes one again, `--keep DIR` keeps it,
`--record FILE` writes what Kafka did.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.clusters import NO_POLICIES
from kdump.broker.config import Config
from kdump.broker.load.log_manager import LoadSettings
from kdump.checks.gate import foresee
from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.rows.verdict import Prediction
from kdump.storage.names import parse_partition
from kdump.storage.server_properties import node_settings
from tests.support import metadata_records
from tests.support.broker_loads import FIXTURES, NOW, damage, intact
from tests.support.partitions import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.segments import Record

JAVA = Path(__file__).with_name("kafka_classes") / "StartNode.java"
REPLAY = JAVA.with_name("ReplayMetadata.java")
CLUSTER = "bk62DHJPTQOUKgGAmgTSxQ"
IDS = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw"  # of topics
DIRECTORIES = "BSKU5asYTV60pAFfbdfcDw", "CSKU5asYTV60pAFfbdfcDw"
METADATA = FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "__cluster_metadata-0"
SEED = 7  # of the nodes in fixtures/nodes
LARGEST = 60_000  # bytes of a partition
SETTINGS_OF_NODES = "process.roles=broker\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
LISTENERS = "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://localhost:9092\n"
LOADED = (-1, -1)  # offsets of a log that is loaded, and that the broker does not serve
_OFFLINE_BEFORE = "is already offline due to a previous IO exception"
_OF_IDS = 100  # number of the first topic id where the metadata log is made
_ODD = "lost+found", "orders", "t-x", "backup-", "remote-log-index-cache", "-1", "t-99999999999"


class Node(NamedTuple):
    """A node on a disk."""

    config: Path  # its server.properties
    log_dirs: list[Path]
    has_image: bool = False  # its metadata log says which topics there are, and Kafka is asked by it


class Started(NamedTuple):
    """What a start of it came to."""

    ends: str  # the class of what ended the process; empty where it goes on
    offline: list[str]  # names of the directories that went offline
    logs: dict[str, tuple[int, int]]  # start and end offset by directory and partition
    strays: list[str]  # partitions that are set aside


class Kafka:
    """Two JVMs with the classes of Kafka: one starts nodes, one replays metadata logs.

    Args:
        jars: its class path.
    """

    def __init__(self, jars: str) -> None:
        self._starts, self._replays = (
            subprocess.Popen(
                ["java", "-Xmx512m", "-cp", jars, str(java)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for java in (JAVA, REPLAY)
        )

    def start(self, node: Node) -> Started:
        """Start a node, whose files are changed; then replay what is left of its metadata log."""
        fields = [str(node.config), str(NOW), *(["image"] if node.has_image else [])]
        started = read_answer(_asked(self._starts, "\t".join(fields)), str(node.config.parent))
        metadata = node.log_dirs[0] / METADATA.name
        if started.ends or not metadata.is_dir():
            return started
        said = _asked(self._replays, str(metadata)).split("\t")
        return started if said[0] == "replayed" else started._replace(ends=": ".join(said[1:3]))

    def close(self) -> None:
        """End the JVMs."""
        for one in (self._starts, self._replays):
            one.kill()
            one.wait()


def _asked(process: subprocess.Popen[str], question: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{question}\n")
    process.stdin.flush()
    return process.stdout.readline().rstrip("\n")


def read_answer(line: str, root: str) -> Started:
    """Return what StartNode.java said, with paths below a directory."""
    word, *rest = line.split("\t")
    if word != "starts":
        return Started(": ".join(rest[:2]) or "no answer", [], {}, [])
    offline: set[str] = set()
    strays: set[str] = set()
    logs: dict[str, tuple[int, int]] = {}
    while rest:
        first = rest.pop(0)
        if first in ("offline", "stray"):
            (offline if first == "offline" else strays).add(str(Path(rest.pop(0)).relative_to(root)))
            continue
        logs[str(Path(first).relative_to(root))] = int(rest.pop(0)), int(rest.pop(0))
    return Started("", sorted(offline), logs, sorted(strays))


# --- nodes ----------------------------------------------------------------------------------------------------
def make_node(root: Path, chance: random.Random, sources: Sequence[Path]) -> Node:
    """Make a node with some damages.

    Args:
        root: an empty directory.
        chance: decides.
        sources: partition directories to copy.
    """
    log_dirs = [root / "a", *([root / "b"] if chance.random() < 0.25 else [])]
    wanted = chance.sample(sources, chance.choice((1, 2, 2, 3)))
    for at, log_dir in enumerate(log_dirs):
        log_dir.mkdir()
        _properties(log_dir, at, chance)
    names: dict[Path, list[str]] = {one: [] for one in log_dirs}
    for number, source in enumerate(wanted):
        log_dir = chance.choice(log_dirs)
        name = f"{chance.choice(('orders', 't', 'a.b_c'))}{number}-{chance.choice((0, 7))}"
        shutil.copytree(source, log_dir / name)
        if chance.random() < 0.9:
            (log_dir / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {IDS[number % len(IDS)]}\n")
        names[log_dir].append(name)
    if chance.random() < 0.5:
        shutil.copytree(METADATA, log_dirs[0] / METADATA.name)
    for log_dir in log_dirs:
        _checkpoints(log_dir, names[log_dir], chance)
        if chance.random() < 0.5:
            (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4, 5))):
        _harm(chance.choice(log_dirs), chance)
    if chance.random() < 0.15:
        _twin(log_dirs, chance)
    if chance.random() < 0.15:
        _unfinished(chance.choice(log_dirs), chance)
    interval = f"log.index.interval.bytes={chance.choice((0, 64, 512, 4096))}\n"
    config = root / "server.properties"
    config.write_text(f"{SETTINGS_OF_NODES}{LISTENERS}{interval}log.dirs={','.join(map(str, log_dirs))}\n")
    return Node(config, log_dirs)


def with_topics(node: Node, chance: random.Random) -> Node:
    """Put a metadata log into a node that says of its partitions what is so, or not: their topics, ids and brokers.

    What was damaged before stays so, but for another metadata log.
    """
    metadata = node.log_dirs[0] / METADATA.name
    shutil.rmtree(metadata, ignore_errors=True)
    found = [parse_partition(part.name) for one in node.log_dirs for part in sorted(one.iterdir()) if part.is_dir()]
    names = sorted({(one.topic, one.partition) for one in found if one is not None and not one.is_raft_log})
    made: list[Sequence[Record]] = [[metadata_records.broker(number)] for number in (1, 2)]
    made.append([metadata_records.topic("another", 99), metadata_records.partition(0, 99, [2])])
    ids = chance.sample(range(len(IDS)), min(len(names), len(IDS)))
    for (topic, number), its in zip(names, ids, strict=False):
        if chance.random() < 0.15:
            continue  # the cluster has no such topic
        its_number = number if chance.random() < 0.85 else number + 1
        replicas = chance.choice(([1], [1, 2], [2, 1], [2]))
        made.append([metadata_records.topic(topic, _OF_IDS + its)])
        made.append([metadata_records.partition(its_number, _OF_IDS + its, replicas)])
        if chance.random() < 0.1:
            made.append([metadata_records.remove_topic(_OF_IDS + its)])
    for one in node.log_dirs:
        for part in sorted(one.iterdir()):
            name = parse_partition(part.name) if part.is_dir() else None
            if name is None or not (part / "partition.metadata").is_file():
                continue
            of = [its for (topic, _), its in zip(names, ids, strict=False) if topic == name.topic]
            its = of[0] if of and chance.random() < 0.7 else chance.randrange(len(IDS))
            (part / "partition.metadata").write_text(f"version: 0\ntopic_id: {metadata_records.uuid(_OF_IDS + its)}\n")
    metadata.mkdir()
    (metadata / f"{0:020}.log").write_bytes(metadata_records.log(*made))
    return node._replace(has_image=True)


def usual_sources() -> list[Path]:
    """Return the partition directories that nodes are made of."""
    return [one for one in intact() if _is_usual(one)]


def _is_usual(partition: Path) -> bool:
    """Whether a partition is small, and no offset of it so near to 2^63 that a broker's own sums are wrong."""
    files = list(partition.iterdir())
    return sum(one.stat().st_size for one in files) <= LARGEST and not any(one.name.startswith("09") for one in files)


def _properties(log_dir: Path, at: int, chance: random.Random) -> None:
    node, cluster = chance.choice((1,) * 39 + (2,)), chance.choice((CLUSTER,) * 39 + ("another-cluster-0000",))
    directory = chance.choice((DIRECTORIES[at],) * 9 + (DIRECTORIES[0],))
    text = f"version=1\ncluster.id={cluster}\nnode.id={node}\n"
    text += f"directory.id={directory}\n" if chance.random() < 0.8 else ""
    if chance.random() < 0.1:
        text = f"version=0\nbroker.id={node}\n" + (f"cluster.id={cluster}\n" if chance.random() < 0.8 else "")
    if chance.random() < 0.98:
        (log_dir / "meta.properties").write_text(text)


def _checkpoints(log_dir: Path, names: list[str], chance: random.Random) -> None:
    points: list[tuple[object, ...]] = []
    starts: list[tuple[object, ...]] = []
    for name in names:
        topic, _, number = name.rpartition("-")
        bases = sorted(int(one.stem) for one in (log_dir / name).glob("*.log") if one.stem.isdigit())
        offsets = [0, *bases, *[base + 1 for base in bases], 10**6]
        if chance.random() < 0.8:
            points.append((topic, number, chance.choice(offsets)))
        if chance.random() < 0.3:
            starts.append((topic, number, chance.choice(offsets[:-1])))
    for file, entries in (("recovery-point-offset-checkpoint", points), ("log-start-offset-checkpoint", starts)):
        if chance.random() < 0.9:
            (log_dir / file).write_bytes(checkpoint(*entries))
    (log_dir / "replication-offset-checkpoint").write_bytes(checkpoint())


def _harm(log_dir: Path, chance: random.Random) -> None:
    """Do one damage."""
    parts = sorted(one for one in log_dir.iterdir() if one.is_dir())
    how = chance.choice(("file",) * 6 + ("hole", "batch", "id", "directory", "suffix", "root"))
    if how == "root" or not parts:
        damage(log_dir, chance)
        return
    part = chance.choice(parts)
    logs = sorted(part.glob("*.log"))
    if how == "file":
        damage(part, chance)
    elif how == "hole" and logs:
        stem = chance.choice(logs).stem
        for one in part.glob(f"{stem}.*"):
            one.unlink()
    elif how == "batch" and logs:
        log = chance.choice(logs)
        data = log.read_bytes()
        size = 12 + int.from_bytes(data[8:12], "big", signed=True)
        if 12 < size < len(data):
            log.write_bytes(data[size:])
    elif how == "id":
        (part / "partition.metadata").write_text(f"version: 0\ntopic_id: {chance.choice(IDS)}\n")
    elif how == "directory":
        other = log_dir / chance.choice(_ODD)
        if not other.exists():
            other.mkdir()
    elif how == "suffix" and parse_partition(part.name) and "." not in part.name:
        suffix = chance.choice(("delete", "delete", "future", "stray"))
        part.rename(part.with_name(f"{part.name}.{chance.randbytes(16).hex()}-{suffix}"))


def _twin(log_dirs: Sequence[Path], chance: random.Random) -> None:
    """Put a copy of a partition into the other log directory: with all that it has, or a part of it, or set aside."""
    if len(log_dirs) < 2:
        return
    here, there = chance.sample(log_dirs, 2)
    parts = sorted(one for one in here.iterdir() if one.is_dir() and parse_partition(one.name))
    if not parts:
        return
    part = chance.choice(parts)
    copy = there / f"{part.name.split('.')[0]}{chance.choice(('', '', '', f'.{IDS[0]}-future'))}"
    if copy.exists():
        return
    shutil.copytree(part, copy)
    logs = sorted(copy.glob("*.log"))
    if logs and chance.random() < 0.4:
        for one in copy.glob(f"{logs[-1].stem}.*"):
            one.unlink()


def _unfinished(log_dir: Path, chance: random.Random) -> None:
    """Leave in a partition what a cleaning leaves that did not end: `.swap` files, `.cleaned` files, or both."""
    parts = sorted(one for one in log_dir.iterdir() if any(one.glob("*.log")))
    if not parts:
        return
    logs = sorted(chance.choice(parts).glob("*.log"))
    for suffix in chance.choice((("swap",), ("cleaned",), ("swap", "cleaned"), ("swap", "cleaned"))):
        log = chance.choice(logs)
        for one in sorted(log.parent.glob(f"{log.stem}.*")):
            if one.suffix in (".log", ".index", ".timeindex") and chance.random() < 0.9:
                shutil.copyfile(one, one.with_name(f"{one.name}.{suffix}"))
        if chance.random() < 0.3:
            log.unlink(missing_ok=True)


# --- kdump ----------------------------------------------------------------------------------------------------
def foretold(node: Node, *, is_gate: bool) -> Started:
    """Return what kdump says of the start."""
    settings = node_settings(str(node.config))
    assert settings is not None
    load = LoadSettings(NOW, Config(settings.values, release="4.3"))
    options = VerifyOptions(is_auto=True, only_starts=is_gate, settings=load, node=settings)
    if not node.has_image:
        options = options.replace(policies=NO_POLICIES)  # no metadata log has these topics, and Kafka gets no image
    paths = [str(one) for one in node.log_dirs]
    items = foresee(paths, options) if is_gate else verify(paths, options.replace(deep=False))
    rows = [item for item in items if isinstance(item, Prediction)]
    root = str(node.config.parent)
    told = {str(Path(row.path).relative_to(root)): row for row in rows}
    ends = next((row.reason_class or "" for row in rows if row.stops == "broker"), "")
    offline = sorted({str(Path(path).parent) for path, row in told.items() if row.stops == "logdir"})
    logs = {path: (row.log_start_offset or 0, row.log_end_offset or 0) for path, row in told.items() if row.loads}
    strays = sorted(path for path, row in told.items() if row.is_renamed and row.stops is None)
    logs |= {path: LOADED for path, row in told.items() if row.is_stray and not row.is_renamed and row.stops is None}
    return Started(ends, offline, logs, strays)


def told_of(started: Started) -> Iterator[str]:
    """Yield the paths of which anything is said."""
    yield from (*started.logs, *started.strays, *(f"{one}/" for one in started.offline))


def differences(kafka: Started, model: Started, node: Node) -> Iterator[str]:
    """Yield what Kafka did otherwise than kdump said."""
    if not (model.ends or model.offline or model.logs or model.strays):
        return  # no partition of which anything could be said
    gone = set(model.offline)
    silent = {one.name for one in node.log_dirs} - {path.split("/")[0] for path in told_of(model)}
    if kafka.ends:
        if _OFFLINE_BEFORE in kafka.ends and gone:
            return  # a partition was loaded after another one had taken the directory offline: threads race for that
        if not model.ends and gone != {one.name for one in node.log_dirs}:
            yield f"Kafka: {kafka.ends}; kdump: the process goes on"
        return
    if model.ends:
        yield f"Kafka: the process goes on; kdump: {model.ends}"
        return
    if set(kafka.offline) - {path.split("/")[0] for path in kafka.logs} - gone - silent or gone - set(kafka.offline):
        yield f"Kafka: offline {kafka.offline}; kdump: {model.offline}"
    strays = [path for path in kafka.strays if path.split("/")[0] not in gone]  # set aside before it went offline
    if strays != model.strays:
        yield f"Kafka: strays {strays}; kdump: {model.strays}"
    for path in sorted(kafka.logs.keys() | model.logs.keys()):
        known = parse_partition(path.split("/")[1])
        if path in model.strays or path.split("/")[0] in gone or (known is not None and known.state == "stray"):
            continue
        if path.endswith(METADATA.name) and not (node.config.parent / path).is_dir():
            continue
        if not _is_as_told(kafka.logs.get(path), model.logs.get(path)):
            yield f"{path}: Kafka {kafka.logs.get(path)}; kdump {model.logs.get(path)}"


def _is_as_told(kafka: tuple[int, int] | None, model: tuple[int, int] | None) -> bool:
    return kafka == model or (model == LOADED and kafka is not None)


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--topics", type=float, default=0.0, help="share of nodes whose metadata log tells of topics")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    sources = usual_sources()
    kafka, found, ended, rows = Kafka(given.jars), 0, 0, []
    for run in range(given.first, given.first + given.runs) if given.only is None else [given.only]:
        chance = random.Random(f"{given.seed} {run}")
        with tempfile.TemporaryDirectory(prefix="kdump-node-", ignore_cleanup_errors=True) as scratch:
            root = Path(given.keep or scratch) / "node"
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            node = make_node(root, chance, sources)
            if random.Random(f"{given.seed} {run} topics").random() < given.topics:
                node = with_topics(node, chance)
            models = {gate: foretold(node, is_gate=gate) for gate in (False, True)}
            copy = Path(scratch) / "kafka"
            shutil.copytree(root, copy)
            config = copy / "server.properties"
            config.write_text(config.read_text().replace(str(root), str(copy)))
            did = kafka.start(Node(config, [copy / one.name for one in node.log_dirs], node.has_image))
        ended += bool(did.ends)
        rows.append({"run": run, **did._replace(ends=did.ends.split(": ")[0])._asdict()})
        told = [f"{'gate' if gate else 'verify'}: {one}" for gate, model in models.items()
                for one in differences(did, model, node)]  # fmt: skip
        if told:
            found += 1
            print(f"run {run}", *told[:6], sep="\n   ", flush=True)
    kafka.close()
    if given.record:
        given.record.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} nodes, {ended} ended; {found} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
