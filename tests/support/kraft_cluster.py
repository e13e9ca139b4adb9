"""A cluster of real brokers, from the jars of a release: one controller, and brokers that start and stop one by one.

The jars, and Java 17, are not part of the project. Kafka's scripts are made as programs that start its classes; whoever
runs commands as kdump prints them asks `stop` and `start` in the place of those two scripts.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from tests.support.emit_on_a_broker import CLASSES, ports, programs
from tests.support.partitions import meta, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONTROLLER = 10
_MORE = {
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
_STATE = re.compile(r"Partition: 0\s+Leader: (\d+)\s.*Isr: ([\d,]*)")
_PATIENCE = 240  # seconds that a broker may take to start or to stop, on a busy machine
_SETTINGS = """offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


class KraftCluster:
    """A cluster in a directory; as a context it ends all that it has started.

    Args:
        root: of it, a new directory.
        jars: class path.
        cluster_id: of it.
        brokers: how many.
    """

    def __init__(self, root: Path, jars: str, cluster_id: str, brokers: int) -> None:
        root.mkdir()
        self.root = root
        self.brokers = list(range(1, brokers + 1))
        self._jars = jars
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        voter, *self._ports = ports(brokers + 1)
        self.address = ",".join([f"127.0.0.1:{one}" for one in self._ports])
        made = programs(root / "bin", jars, {**CLASSES, **_MORE})
        self.environment = {
            **os.environ,
            "PATH": f"{made}{os.pathsep}{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
        }
        quorum = f"controller.quorum.voters={CONTROLLER}@127.0.0.1:{voter}\ncontroller.listener.names=CONTROLLER\n"
        for number, port in zip((CONTROLLER, *self.brokers), (voter, *self._ports), strict=True):
            listener = "CONTROLLER" if number == CONTROLLER else "PLAINTEXT"
            role = "controller" if number == CONTROLLER else "broker"
            (root / f"{number}.properties").write_text(
                f"process.roles={role}\nnode.id={number}\n{quorum}listeners={listener}://127.0.0.1:{port}\n"
                f"log.dirs={self.log_dir(number)}\ndefault.replication.factor={brokers}\n{_SETTINGS}"
            )
            if number == CONTROLLER:
                self.run("kafka-storage.sh", "format", "-t", cluster_id, "-c", str(root / f"{number}.properties"))
            else:  # all that a format makes for a broker
                write(self.log_dir(number), {"meta.properties": meta(number, cluster_id)})

    def __enter__(self) -> KraftCluster:
        """Start all nodes."""
        self._start(CONTROLLER)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all nodes."""
        for node in self._nodes.values():
            node.kill()
            node.wait()

    def log_dir(self, number: int) -> Path:
        """The log directory of a node."""
        return self.root / f"log-{number}"

    def start(self) -> None:
        """Start the brokers that do not run, and wait until they answer."""
        for number in self.brokers:
            self._start(number)
        until = time.monotonic() + _PATIENCE
        for port in self._ports:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.5)

    def stop(self, number: int) -> None:
        """Stop a broker in order."""
        node = self._nodes.pop(number)
        node.send_signal(signal.SIGTERM)
        node.wait(_PATIENCE)

    def _start(self, number: int) -> None:
        if number in self._nodes:
            return
        with (self.root / f"{number}.out").open("ab") as out:
            command = [
                "java",
                "-Xmx320M",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                self._jars,
                "kafka.Kafka",
                str(self.root / f"{number}.properties"),
            ]
            self._nodes[number] = subprocess.Popen(command, cwd=self.root, stdout=out, stderr=out)

    def run(self, *words: str, given: str = "") -> str:
        """Run one of Kafka's programs; return what it prints."""
        done = subprocess.run(
            words, input=given.encode(), cwd=self.root, env=self.environment, capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{shlex.join(words)}: {done.stdout.decode()[-800:]} {done.stderr.decode()[-800:]}")
        return done.stdout.decode()

    def topics(self, *words: str) -> str:
        """Run kafka-topics.sh."""
        return self.run("kafka-topics.sh", "--bootstrap-server", self.address, *words)

    def produce(self, topic: str, values: Sequence[str]) -> None:
        """Write records, to all replicas."""
        words = "--bootstrap-server", self.address, "--topic", topic, "--command-property", "acks=all"
        self.run("kafka-console-producer.sh", *words, given="".join(f"{one}\n" for one in values))

    def consume(self, topic: str, count: int, *more: str) -> list[str]:
        """Read records from the beginning on; where fewer come it ends after a while."""
        words = "--bootstrap-server", self.address, "--topic", topic, "--from-beginning", "--max-messages", str(count)
        return self.run("kafka-console-consumer.sh", *words, "--timeout-ms", "90000", *more).splitlines()

    def leader(self, topic: str) -> int:
        """Wait until all replicas of partition 0 are in sync; return the broker that leads."""
        end = time.monotonic() + _PATIENCE
        while True:
            told = self.topics("--describe", "--topic", topic)
            found = _STATE.search(told)
            if found is not None and len(found[2].split(",")) == len(self.brokers):
                return int(found[1])
            if time.monotonic() > end:
                raise RuntimeError(f"{topic} is not in sync: {told}")
            time.sleep(1)
