"""A real cluster loses all its controllers; the runbook brings it back from the volumes of its brokers.

    python -m tests.support.controllers_lost --jars '/the/jars/of/4.4.0/*' [--quorum static|dynamic] [--keep DIR]

The jars, and Java 17, are not part of the project. One controller and two brokers are formatted and started, topics
with configurations are made and written to, all nodes are stopped, and the log.dir of the controller is deleted. Then
the commands of the runbook "A CLUSTER WHOSE CONTROLLERS ARE LOST" of kdump-runbooks(7) are run, all nodes are started,
and topics, partitions and configurations must be those of before, and each record readable.
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
from pathlib import Path
from typing import Any

from tests.support import consoles
from tests.support.emit_on_a_broker import of_cluster, ports, programs

CLUSTER = "bk62DHJPTQOUKgGAmgTSxQ"
CONTROLLER_DIRECTORY = "BSKU5asYTV60pAFfbdfcDw"
TITLE = "A CLUSTER WHOSE CONTROLLERS ARE LOST"
METADATA = "__cluster_metadata-0"
_STARTED = 120  # seconds that a node may take
_CLASSES = {
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
_TOPICS = {
    "orders": ("cleanup.policy=compact,delete", "retention.ms=-1"),
    "audit": ("max.message.bytes=2000000",),
    "plain": (),
}
_RECORDS = 200  # of a topic


class Nodes:
    """One controller and two brokers.

    Args:
        root: directory of all.
        jars: class path of Kafka.
        quorum: static or dynamic.
    """

    def __init__(self, root: Path, jars: str, quorum: str) -> None:
        self.root, self.jars, self.quorum = root, jars, quorum
        self.ports = dict(zip((1, 2, 3), ports(3), strict=True))
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        path = f"{programs(root / 'bin', jars)}{os.pathsep}{os.environ['PATH']}"
        for name, java in _CLASSES.items():
            script = root / "bin" / name
            script.write_text(f'#!/bin/sh\nexec java -Xmx256M -Dfile.encoding=UTF-8 -cp "{jars}" {java} "$@"\n')
            script.chmod(0o755)
        self.env = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}
        for node in self.ports:
            (root / f"node-{node}.properties").write_text(self._properties(node))

    @property
    def bootstrap(self) -> str:
        """Address of a broker."""
        return f"127.0.0.1:{self.ports[2]}"

    def _properties(self, node: int) -> str:
        address = f"127.0.0.1:{self.ports[1]}"
        voters = f"1@{address}" if self.quorum == "static" else address
        key = "controller.quorum.voters" if self.quorum == "static" else "controller.quorum.bootstrap.servers"
        role, listener = ("controller", "CONTROLLER") if node == 1 else ("broker", "PLAINTEXT")
        return (
            f"process.roles={role}\nnode.id={node}\n{key}={voters}\ncontroller.listener.names=CONTROLLER\n"
            f"listeners={listener}://127.0.0.1:{self.ports[node]}\nlog.dirs={self.root / f'volume{node}'}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            "offsets.topic.replication.factor=2\noffsets.topic.num.partitions=3\n"
            "group.initial.rebalance.delay.ms=0\nauto.create.topics.enable=false\n"
        )

    def run(self, *command: str, stdin: str = "") -> str:
        """Run one of Kafka's programs; return what it prints."""
        done = subprocess.run(
            command, cwd=self.root, env=self.env, input=stdin.encode(), stdout=subprocess.PIPE, check=True
        )
        return done.stdout.decode()

    def format(self, node: int) -> None:
        """Format a node as for a new cluster."""
        how: list[str] = []
        if self.quorum == "dynamic":
            initial = f"1@127.0.0.1:{self.ports[1]}:{CONTROLLER_DIRECTORY}"
            how = ["--initial-controllers", initial] if node == 1 else ["--no-initial-controllers"]
        self.run("kafka-storage.sh", "format", "--cluster-id", CLUSTER, "--config", f"node-{node}.properties", *how)

    def start(self) -> None:
        """Start all nodes, and wait until the brokers answer."""
        for node in self.ports:
            with (self.root / f"node-{node}.out").open("ab") as out:
                command = ["java", "-Xmx320M", "-cp", self.jars, "kafka.Kafka", f"node-{node}.properties"]
                self.running[node] = subprocess.Popen(command, cwd=self.root, stdout=out, stderr=out)
        for node, port in self.ports.items():
            until = time.monotonic() + _STARTED
            while True:
                if self.running[node].poll() is not None or time.monotonic() > until:
                    raise SystemExit((self.root / f"node-{node}.out").read_text()[-3000:])
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.5)

    def stop(self) -> None:
        """Stop all nodes, the controller last."""
        for node in sorted(self.running, reverse=True):
            self.running[node].terminate()
            self.running[node].wait()
        self.running.clear()

    def records(self, topic: str) -> list[str]:
        """All records of a topic."""
        shown = self.run(
            *("kafka-console-consumer.sh", "--bootstrap-server", self.bootstrap, "--topic", topic, "--from-beginning"),
            *("--max-messages", str(_RECORDS), "--timeout-ms", "60000"),
        )
        return sorted(shown.splitlines())


def runbook() -> tuple[list[str], list[str]]:
    """The commands of the runbook: those before the controller is formatted, and those after."""
    before, after = consoles.of_page(consoles.sections("kdump-runbooks.7")[TITLE])
    return [one.command for one in before], [one.command for one in after]


def lose_and_bring_back(nodes: Nodes) -> int:
    """Do all of it; return the number of what is not as before."""
    for node in nodes.ports:
        nodes.format(node)
    nodes.start()
    written = {}
    try:
        for topic, settings in _TOPICS.items():
            how = [part for one in settings for part in ("--config", one)]
            nodes.run(
                *("kafka-topics.sh", "--bootstrap-server", nodes.bootstrap, "--create", "--topic", topic),
                *("--partitions", "2", "--replication-factor", "2", *how),
            )
            lines = "".join(f"k{number}:{topic}-{number}\n" for number in range(_RECORDS))
            nodes.run(
                *("kafka-console-producer.sh", "--bootstrap-server", nodes.bootstrap, "--topic", topic),
                *("--property", "parse.key=true", "--property", "key.separator=:"),
                stdin=lines,
            )
            written[topic] = nodes.records(topic)
    finally:
        nodes.stop()
    before = of_cluster(nodes.root / "volume1")
    shutil.rmtree(nodes.root / "volume1")
    before_format, after_format = runbook()
    for command in before_format:
        print("$", command)
        print(nodes.run("bash", "-ec", command))
    formats = (nodes.root / "commands.sh").read_text("utf-8").splitlines()
    (line,) = (one for one in formats if "format --config node-1.properties" in one)
    for command in (line, *after_format):
        print("$", command)
        print(nodes.run("bash", "-ec", command))
    nodes.start()
    wrong = 0
    try:
        for topic, records in written.items():
            found = nodes.records(topic)
            wrong += found != records or len(records) != _RECORDS
            print(f"{topic}: {len(found)} records, {'as before' if found == records else 'NOT AS BEFORE'}")
    finally:
        nodes.stop()
    after = of_cluster(nodes.root / "volume1")
    for row in sorted(before ^ after):
        print("lost" if row in before else "new", row)
    print(f"{len(before)} rows of the cluster, {len(before & after)} of them afterwards too")
    return wrong + len(before - after)


def main() -> int:
    """Lose the controllers of a cluster, and bring them back."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jars", required=True)
    parser.add_argument("--quorum", choices=("static", "dynamic"), default="static")
    parser.add_argument("--keep", type=Path)
    given: Any = parser.parse_args()
    root = given.keep or Path(tempfile.mkdtemp())
    root.mkdir(exist_ok=True)
    try:
        return int(lose_and_bring_back(Nodes(root, given.jars, given.quorum)) > 0)
    finally:
        if given.keep is None:
            shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
