"""Kafka's own tools read from `kdump serve`, and how fast a consumer is beside a real broker on the same files.

    python -m tests.support.serve_to_kafka --jars '/jars/of/4.3/*' --reader '/jars/of/4.4/*' --only java,mirror,speed

The jars, and Java 17, are not part of the project. `java`: the console consumer and GetOffsetShell of each release read
every partition of the fixtures: each record that `dump` shows and verify lets pass, read_committed and not. `mirror`:
MirrorMaker 2, whose jar connect-mirror must be among them, brings what can be read of a damaged partition into a real
broker. `speed`: a consumer reads records of 1 KB from a real broker, then from `kdump serve` over the same files.
`spark` takes the jars of Spark's Kafka source in the place of Kafka's, and is not run unless it is named.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.emit_on_a_broker import programs
from tests.support.kraft_cluster import KraftCluster
from tests.support.runs import FIXTURES, run_kdump
from tests.support.serving import client, first_open, log_start, readable, serving

if TYPE_CHECKING:
    from collections.abc import Callable

LOG_DIR = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
CLUSTER = "bk62DHJPTQOUKgGAmgTSxQ"
_TOOLS = {
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "connect-mirror-maker.sh": "org.apache.kafka.connect.mirror.MirrorMaker",
}
_RECORDS = 300_000
_BAR = 0.5  # of the throughput of a real broker
MIRROR = """clusters=dead, live
dead.bootstrap.servers={dead}
live.bootstrap.servers={live}
dead->live.enabled=true
live->dead.enabled=false
dead->live.topics={topic}
dead->live.emit.heartbeats.enabled=false
dead->live.emit.checkpoints.enabled=false
dead->live.sync.topic.acls.enabled=false
dead->live.sync.topic.configs.enabled=false
dead->live.offset-syncs.topic.location=target
dead.consumer.isolation.level=read_committed
dead.consumer.auto.offset.reset=earliest
live.offset.storage.replication.factor=1
live.config.storage.replication.factor=1
live.status.storage.replication.factor=1
replication.factor=1
offset-syncs.topic.replication.factor=1
heartbeats.topic.replication.factor=1
checkpoints.topic.replication.factor=1
"""


class Faults(list[str]):
    """What is not as it should be.

    Attributes:
        every: of the partitions one in so many is read.
    """

    every = 1

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Note it where it is not."""
        is_right = found == wanted
        print(f"  {'yes' if is_right else 'NO '} {what}", flush=True)
        if not is_right:
            self.append(f"{what}: {str(found)[:300]}, and not {str(wanted)[:300]}")


def partitions() -> list[str]:
    """The partitions of the fixture that are served."""
    found = (one.name for one in sorted(LOG_DIR.iterdir()) if one.is_dir() and any(one.glob("*.log")))
    return [one for one in found if not one.endswith("-delete") and one != "__cluster_metadata-0"]


def java(jars: str, root: Path, faults: Faults) -> None:
    """Read every partition by the console consumer, and its ends by GetOffsetShell."""
    where = programs(root / f"bin-{len(list(root.iterdir()))}", jars, _TOOLS)
    opened = first_open(LOG_DIR)
    with serving([LOG_DIR]) as served:
        # of what has partitions without a leader Kafka's tool waits for minutes
        words = "--bootstrap-server", served.address, "--time", "latest", "--topic", "(?!str-app-).*"
        ends = _run(where / "kafka-get-offsets.sh", *words)
        told = dict(line.rpartition(":")[::2] for line in ends.splitlines() if line.count(":") == 2)
        for name in partitions()[:: faults.every]:
            topic, _, number = name.rpartition("-")
            directory = LOG_DIR / name
            start, records = log_start(directory), readable(directory)
            for level in ("read_uncommitted", "read_committed"):
                wanted = [one for one in records if one[0] >= start]
                if level == "read_committed":
                    end = opened.get(name, 1 << 62)
                    wanted = [one for one in readable(directory, committed=True) if start <= one[0] < end]
                asked = ["--bootstrap-server", served.address, "--topic", topic, "--partition", number]
                asked += ["--offset", "earliest", "--isolation-level", level, "--timeout-ms", "2500"]
                asked += ["--formatter-property", "print.offset=true", "--formatter-property", "print.timestamp=true"]
                shown = _run(where / "kafka-console-consumer.sh", *asked)
                found = [line.split("\t")[1] for line in shown.splitlines() if "\tOffset:" in line]
                faults.expect(f"{name} {level}", found, [f"Offset:{one[0]}" for one in wanted])
            if records and f"{topic}:{number}" in told:
                faults.expect(f"{name} ends", int(told[f"{topic}:{number}"]) > records[-1][0], True)


def mirror(jars: str, root: Path, faults: Faults) -> None:
    """Bring a damaged partition into a real broker."""
    damaged = root / "orders-0"
    shutil.copytree(LOG_DIR / "plain-0", damaged)
    log = min(damaged.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    wanted = readable(damaged)
    lost = run_kdump(["verify", ".", "--format", "lines"], damaged).stdout.decode()
    print("  verify: " + next((line for line in lost.splitlines() if line.startswith("loss")), "no loss"))
    where = programs(root / "bin-mirror", jars, _TOOLS)
    with KraftCluster(root / "live", jars, CLUSTER, 1) as cluster, serving([damaged]) as served:
        settings = root / "mirror.properties"
        settings.write_text(MIRROR.format(dead=served.address, live=cluster.address, topic="orders"))
        with (root / "mirror.out").open("wb") as out:
            running = subprocess.Popen([where / "connect-mirror-maker.sh", settings], stdout=out, stderr=out)
        try:
            consumer = client(cluster.address)
            found = _mirrored(consumer, "dead.orders", len(wanted))
            consumer.close()
        finally:
            running.kill()
            running.wait()
        if len(found) < len(wanted):
            print((root / "mirror.out").read_text("utf-8", "replace")[-6000:])
        faults.expect(
            f"{len(wanted)} records were brought over", [one[2:] for one in found], [one[2:] for one in wanted]
        )
        print("  serve: " + served.said().strip())


def _mirrored(consumer: object, topic: str, count: int) -> list[tuple[object, ...]]:
    from confluent_kafka import TopicPartition

    found: list[tuple[object, ...]] = []
    until = time.monotonic() + 150
    consumer.assign([TopicPartition(topic, 0, 0)])  # type: ignore[attr-defined]
    while time.monotonic() < until and len(found) < count:
        message = consumer.poll(1.0)  # type: ignore[attr-defined]
        if message is not None and message.error() is None:
            found.append((message.offset(), 0, message.key(), message.value(), tuple(message.headers() or ())))
    return found


def spark(jars: str, _root: Path, faults: Faults) -> None:
    """Read topics by Spark's Kafka source, whose jars are given in the place of Kafka's."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.jars", ",".join(map(str, Path(jars).parent.glob("*.jar")))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with serving([LOG_DIR]) as served:
        for topic in ("plain", "txn", "zstd", "compact"):
            source = session.read.format("kafka").option("kafka.bootstrap.servers", served.address)
            rows = source.option("subscribe", topic).option("startingOffsets", "earliest").load().collect()
            found = sorted((one.offset, _plain(one.key), _plain(one.value)) for one in rows)
            wanted = [(one[0], one[2], one[3]) for one in readable(LOG_DIR / f"{topic}-0")]
            faults.expect(f"{topic}: {len(wanted)} records", found, wanted)
    session.stop()


def _plain(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def speed(jars: str, root: Path, faults: Faults) -> None:
    """Read the same files from a real broker and from kdump."""
    with KraftCluster(root / "speed", jars, CLUSTER, 1) as cluster:
        where = programs(root / "bin-speed", jars, _TOOLS)
        cluster.topics("--create", "--topic", "big", "--partitions", "1")
        words = "--topic", "big", "--num-records", str(_RECORDS), "--record-size", "1024", "--throughput", "-1"
        # 4.x takes the servers by one name, 3.x by another
        _run(where / "kafka-producer-perf-test.sh", *words, "--bootstrap-server", cluster.address)
        theirs = max(_rate(cluster.address) for _ in range(3))
        cluster.stop(1)
        with serving([cluster.log_dir(1)], "--topic", "big") as served:
            ours = max(_rate(served.address) for _ in range(3))
            print(f"  kdump {ours / 1e6:.0f} MB/s, broker {theirs / 1e6:.0f} MB/s: {ours / theirs:.2f}; "
                  f"kdump's memory {served.memory() >> 20} MiB")  # fmt: skip
    faults.expect(f"at least {_BAR} of a broker's throughput", ours >= _BAR * theirs, True)


def _rate(address: str) -> float:
    """Bytes of values a second, from the first record on."""
    from confluent_kafka import TopicPartition

    consumer = client(address)
    consumer.assign([TopicPartition("big", 0, 0)])
    size, count, began = 0, 0, 0.0
    while count < _RECORDS:
        messages = consumer.consume(10_000, 1.0)
        began = began or (time.perf_counter() if messages else 0.0)
        for one in messages:
            if one.error() is None:
                count += 1
                size += len(one.value())
    consumer.close()
    return size / (time.perf_counter() - began)


def _run(*words: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(map(str, words))}: {done.stderr.decode()[-800:]}")
    return done.stdout.decode("utf-8", "replace")


SCENES: dict[str, Callable[[str, Path, Faults], None]] = {
    "java": java,
    "mirror": mirror,
    "speed": speed,
    "spark": spark,
}


def main() -> int:
    """Run the scenes; the exit status is 1 where something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--reader", action="append", default=[], help="jars of one more release whose consumer reads")
    parser.add_argument("--only", default="java,mirror,speed")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="read one partition in N")
    given = parser.parse_args()
    faults = Faults()
    faults.every = given.every
    with tempfile.TemporaryDirectory() as folder:
        for name in given.only.split(","):
            for jars in (given.jars, *(given.reader if name == "java" else ())):
                print(f"{name}: {jars}")
                SCENES[name](jars, Path(folder), faults)
    print("\n".join(faults) or "all as it should be")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
