"""Kafka's own tools run what `cluster --emit commands` printed, and a new cluster is like the old one.

    python -m tests.support.emit_on_a_broker --jars '/where/the/jars/of/4.3.1/are/*' [--of LOGDIR] [--keep DIR]

The jars, and Java 17, are not part of the project. A metadata log with odd names and values is made (or that of LOGDIR
is taken), one combined node is formatted as part 1 says and started, part 2 is run, and `kdump cluster` of the new
node is compared with that of the old one: topics, partitions, configurations, features, quotas and ACLs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from tests.support import metadata_records as made
from tests.support.partitions import name as file_name
from tests.support.partitions import write
from tests.support.runs import run_kdump

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER = "bk62DHJPTQOUKgGAmgTSxQ"
METADATA = "__cluster_metadata-0"
CLASSES = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
_MOVED = {"kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand"}  # from 4.4 on
_STARTED = 60  # seconds that a node may take
_KINDS = ("topic", "partition", "config", "feature", "quota", "acl")
_FIELDS = {"topic": ("name",), "partition": ("topic", "partitionId", "replicas")}


def odd(root: Path) -> Path:
    """A log.dir of a cluster with one node and what tools have trouble with."""
    names = ["plain", "-dash", "a.b_c", "--topic", "UPPER", "1"]
    records = [made.broker(1), made.feature("metadata.version", 30), made.feature("group.version", 1)]
    records += [made.feature("transaction.version", 2), made.feature("share.version", 1)]
    for number, name in enumerate(names):
        records += [
            made.topic(name, number + 1),
            made.partition(0, number + 1, [1]),
            made.partition(1, number + 1, [1]),
        ]
        records += [
            made.config(2, name, "cleanup.policy", "compact,delete"),
            made.config(2, name, "retention.ms", "-1"),
        ]
    throttled = [("leader.replication.throttled.replicas", "0:1,1:1"), ("follower.replication.throttled.replicas", "")]
    records += [made.config(2, "plain", *one) for one in throttled]
    records += [made.config(4, "", "log.cleaner.threads", "2"), made.config(4, "1", "ssl.cipher.suites", "")]
    records += [made.config(16, "odd one", "metrics", "a,b"), made.config(16, "odd one", "match", "client_id=a.*")]
    records += [made.config(32, "a group", "share.auto.offset.reset", "earliest")]
    users = ["it's", "a b", "-x", "\u00e4", "$(touch PWN)", "a\nb", "a=b,c", "[x]"]
    for number, user in enumerate(users):
        records += [made.acl(number, f"User:{user}", (3, user, 4), 3), made.quota(user, "producer_byte_rate", 15)]
        records += [made.quotas([("user", user), ("client-id", None)], "consumer_byte_rate", 1024)]
        records += [made.acl(100 * one + number, f"User:{user}", (2, "plain", 3), one) for one in (3, 4)]
    records += [made.quotas([("user", None), ("client-id", "c d")], "request_percentage", 12.25)]
    records += [
        made.quotas([("client-id", "-z")], "producer_byte_rate", 1e12),
        made.quota(None, "producer_byte_rate", 9),
    ]
    records += [made.quotas([("ip", "10.0.0.1")], "connection_creation_rate", 5)]
    records += [made.quotas([("ip", None)], "connection_creation_rate", 6)]
    records += [made.acl(90, "User:ops", (4, "kafka-cluster", 3), 9), made.acl(91, "User:ops", (7, "User:x", 3), 13)]
    records += [made.acl(92, "User:ops", (5, "*", 3), 4, 2), made.acl(93, "User:ops", (6, "tok", 3), 8)]
    meta = f"version=1\nnode.id=1\ncluster.id={CLUSTER}\ndirectory.id={made.uuid(9)}\n".encode()
    return write(root, {f"{METADATA}/{file_name(0)}": made.log(records), "meta.properties": meta})


def of_cluster(path: Path) -> set[str]:
    """What is compared of a cluster, a row each."""
    run = run_kdump(["cluster", str(path), "--format", "json"], path)
    found = set()
    for row in map(json.loads, run.stdout.splitlines()):
        kind = row.pop("type")
        if kind in _KINDS and row.get("name") != "kraft.version":
            row.pop("id", None)
            shown = {field: row[field] for field in _FIELDS.get(kind, row)}
            if kind == "quota":
                shown["entity"].sort(key=str)
            found.add(f"{kind} {json.dumps(shown, sort_keys=True)}")
    return found


def ports(count: int) -> list[int]:
    """Free ones."""
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in opened]
    for one in opened:
        one.close()
    return found


def _is_in(jars: str, classes: Mapping[str, str]) -> bool:
    """Whether the tools of a release have some classes."""
    wanted = {f"{one.replace('.', '/')}.class" for one in classes.values()}
    return any(wanted <= set(ZipFile(one).namelist()) for one in Path(jars).parent.glob("kafka-tools-*.jar"))


def programs(root: Path, jars: str, classes: Mapping[str, str] = CLASSES) -> Path:
    """Kafka's scripts, as far as they start a class."""
    moved = _MOVED if _is_in(jars, _MOVED) else {}
    for name, java in {**classes, **moved}.items():
        root.mkdir(exist_ok=True)
        (root / name).write_text(
            f'#!/bin/sh\nexec java -Xmx256M -XX:TieredStopAtLevel=1 -Dfile.encoding=UTF-8 -cp "{jars}" {java} "$@"\n'
        )
        (root / name).chmod(0o755)
    return root


def run_all(old: Path, root: Path, jars: str) -> set[str]:
    """Make a cluster like the old one; return what is compared of it."""
    script = run_kdump(["cluster", str(old), "--emit", "commands"], root).stdout.decode()
    (root / "script.sh").write_text(script, "utf-8")
    first, second = re.split(r"(?m)^# --- 2\..*$", script)
    brokers, controllers = ports(2)
    (root / "node-1.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controllers}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{brokers},CONTROLLER://127.0.0.1:{controllers}\n"
        f"log.dirs={root / 'new'}\nauthorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "allow.everyone.if.no.acl.found=true\nsuper.users=User:ANONYMOUS\noffsets.topic.replication.factor=1\n"
    )
    path = f"{programs(root / 'bin', jars)}{os.pathsep}{os.environ['PATH']}"
    address = f"127.0.0.1:{brokers}"
    env = {**os.environ, "PATH": path, "BOOTSTRAP": address, "LC_ALL": "C.UTF-8"}
    lines = [line for line in first.splitlines() if "--config node-1.properties" in line]
    subprocess.run(["bash", "-c", "\n".join(lines)], cwd=root, env=env, check=True)
    with (root / "node.out").open("wb") as out:
        node = subprocess.Popen(
            ["java", "-Xmx512M", "-cp", jars, "kafka.Kafka", "node-1.properties"], cwd=root, stdout=out, stderr=out
        )
        try:
            until = time.monotonic() + _STARTED
            while time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", brokers), 1).close()
                    break
                except OSError:
                    time.sleep(0.5)
            subprocess.run(["bash", "-c", second], cwd=root, env=env, check=True)
            time.sleep(2)
        finally:
            node.terminate()
            node.wait()
    return of_cluster(root / "new")


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jars", required=True)
    parser.add_argument("--of", type=Path, help="a log.dir of a cluster of one node")
    parser.add_argument("--keep", type=Path)
    given: Any = parser.parse_args()
    root = given.keep or Path(tempfile.mkdtemp())
    root.mkdir(exist_ok=True)
    try:
        old = given.of or odd(root / "old")
        before, after = of_cluster(old), run_all(old, root, given.jars)
    finally:
        if given.keep is None:
            shutil.rmtree(root)
    for row in sorted(before ^ after):
        print("lost" if row in before else "new", row)
    print(f"{len(before)} rows, {len(before & after)} of them in the new cluster too")
    return int(not before <= after)


if __name__ == "__main__":
    sys.exit(main())
