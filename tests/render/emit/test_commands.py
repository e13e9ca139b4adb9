"""`kdump cluster --emit commands`: a shell and Java's rules make of it what the metadata log has, whatever that is."""

from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kdump.render.emit.cluster import TopicAgain, operation_word
from kdump.words.command import PROGRAMS
from tests.support import metadata_records as made
from tests.support.partitions import name as file_name
from tests.support.partitions import write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import CONTROL, TIME, batch
from tests.support.shells import HOSTILE, bash

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.segments import Record

METADATA = "__cluster_metadata-0"
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
CLUSTER = "bk62DHJPTQOUKgGAmgTSxQ"
TOPIC, BROKER = 2, 4
CONNECTION = ["--bootstrap-server", "b:9092", "--command-config", "/dev/null"]
Call = tuple[list[str], bytes]
NAMES = [name for name in HOSTILE if name.isprintable() or name.isascii()]  # a record holds UTF-8


def log_dir(root: Path, *records: Record, meta: str | None = CLUSTER) -> Path:
    """A log.dir of node 1 with these records in its metadata log."""
    files = {f"{METADATA}/{file_name(0)}": made.log(records)}
    if meta is not None:
        text = f"version=1\nnode.id=1\ncluster.id={meta}\ndirectory.id={made.uuid(9)}\n"
        files["meta.properties"] = text.encode()
    return write(root, files)


def emitted(path: Path, *options: str, exit_status: int = 0) -> str:
    """What is printed."""
    run = run_kdump(["cluster", str(path), "--emit", "commands", *options], path)
    assert run.exit == exit_status, run.stderr
    return run.stdout.decode("utf-8", "surrogateescape")


def calls(script: str, where: Path) -> list[Call]:
    """Let a shell run the script: the words of each call of one of Kafka's tools, and what it read."""
    programs, room, log = where / "programs", where / "room", where / "log"
    for one in (programs, room, log):
        one.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(
            "#!/bin/bash\n"
            f"n=$(printf %s {log}/*.words | /usr/bin/wc -c); f={log}/$(/usr/bin/date +%s%N)-$n\n"
            'printf \'%s\\0\' "${0##*/}" "$@" > $f.words\n'
            'case "$*" in */dev/stdin*) /usr/bin/cat > $f.read;; esac\n'
        )
        (programs / name).chmod(0o755)
    shell = bash()
    assert shell is not None
    env = {"PATH": str(programs), "HOME": "/home-of-nobody", "BOOTSTRAP": "b:9092"}
    (where / "script").write_bytes(script.encode("utf-8", "surrogateescape"))
    done = subprocess.run([shell, where / "script"], cwd=room, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr, list(room.iterdir())) == (0, b"", [])
    found = []
    for path in sorted(log.glob("*.words")):
        words = [one.decode("utf-8", "surrogateescape") for one in path.read_bytes().split(b"\0")[:-1]]
        read = path.with_suffix(".read")
        found.append((words, read.read_bytes() if read.exists() else b""))
    return found


def of(found: list[Call], program: str) -> list[Call]:
    """Calls of one program, without its name and the connection."""
    its = [(words[1:], read) for words, read in found if words[0] == program]
    assert program == "kafka-storage.sh" or all(words[:4] == CONNECTION for words, _ in its)
    return [(words if program == "kafka-storage.sh" else words[4:], read) for words, read in its]


def properties(read: bytes) -> dict[str, str]:
    """A properties file by Java's rules, escapes alone. Source: Properties.load."""
    found = {}
    for line in read.decode("ascii").splitlines():
        name, value = (
            re.sub(
                r"((?:\\u[0-9a-f]{4})+)",
                lambda one: bytes.fromhex(one[1].replace("\\u", "")).decode("utf-16-be", "surrogatepass"),
                part,
            )
            for part in line.split("=", 1)
        )
        assert not line.startswith(("#", "!"))
        assert " " not in line.split("=", 1)[0]
        found[name] = value
    return found


def settings(call: Call) -> dict[str, str]:
    """What a call of kafka-topics.sh or kafka-configs.sh sets, as these tools read it."""
    words, read = call
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word == "--config":
            pair = re.split(r"\s*=\s*", words[at + 1])
            assert len(pair) == 2
            found[pair[0]] = pair[1].strip()
        elif word == "--add-config":  # ConfigCommand.parseConfigsToBeAdded
            for one in re.split(r",(?=[^\]]*(?:\[|$))", words[at + 1]):
                pair = re.split(r"\s*=\s*(?=[^\]]*(?:\[|$))", one)
                assert len(pair) == 2
                found[pair[0].strip()] = re.sub(r"\[?\]?", "", pair[1]).strip()
        elif word == "--add-config-file":
            found.update(properties(read))
    return found


# --- names and values -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("at", range(0, len(NAMES), 4))
def test_a_shell_gives_each_tool_the_names_that_the_log_has(at: int, tmp_path: Path) -> None:
    some = NAMES[at : at + 4]
    records = [made.broker(1)]
    for number, name in enumerate(some):
        records += [made.topic(name, number + 1), made.partition(0, number + 1, [1])]
        records += [made.config(TOPIC, name, "retention.ms", name), made.config(BROKER, name, name, name)]
        records += [made.scram(name, b"s", b"s", b"s"), made.quota(name, "producer_byte_rate", 1.5)]
        records += [made.acl(number, f"User:{name}", (2, name, 3), 3), made.feature(name, 1)]
    script = emitted(log_dir(tmp_path / "dir", *records))
    for line in script.split("\n"):
        assert line.isprintable(), line
    found = calls(script, tmp_path)
    made_topics = of(found, "kafka-topics.sh")
    assert sorted(words[words.index("--topic") + 1] for words, _ in made_topics) == sorted(some)
    configs = of(found, "kafka-configs.sh")
    of_topics: dict[str, dict[str, str]] = {name: {} for name in some}
    for words, read in made_topics:
        of_topics[words[words.index("--topic") + 1]].update(settings((words, read)))
    for words, read in configs:
        if words[2] == "topics":
            of_topics[words[4]].update(settings((words, read)))
    assert of_topics == {name: {"retention.ms": name} for name in some}
    of_brokers = {words[4]: settings((words, read)) for words, read in configs if words[2] == "brokers"}
    assert of_brokers == {name: {name: name} for name in some}
    of_users = {words[4]: settings((words, read)) for words, read in configs if words[2] == "users"}
    assert of_users == {name: {"producer_byte_rate": "1.5"} for name in some}
    said = [words[words.index("--topic") + 1] for words, _ in of(found, "kafka-acls.sh")]
    refused = script.count("cannot be said to kafka-acls.sh")
    assert len(said) + refused == len(some)
    assert all(name == name.strip() for name in said)  # the tool would take blanks away
    ((format_words, _),) = of(found, "kafka-storage.sh")
    levels = [format_words[number + 1] for number, word in enumerate(format_words) if word == "--feature"]
    assert sorted(levels) == sorted(f"{name}=1" for name in some)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            "a,b",
            "[a]",
            "a=b",
            " lead",
            "trail ",
            "a]b,c=[d",
            "\n",
            "END",
            "\\u0041",
            "\u6f22\U0001f600",
            "x\0y",
        ),
        *("#", "!", "a:b", "'", '"', "1:0,2:0", "-1", "${x}", "\t", "\ufeff"),
    ],
)
def test_every_value_survives(value: str, tmp_path: Path) -> None:
    records = [made.broker(1), made.topic("t", 1), made.partition(0, 1, [1])]
    records += [made.config(TOPIC, "t", name, value) for name in ("cleanup.policy", "odd name=:", "z")]
    records += [made.config(BROKER, "", name, value) for name in ("a", "END", "#b")]
    script = emitted(log_dir(tmp_path / "dir", *records))
    found = calls(script, tmp_path)
    ((words, read),) = of(found, "kafka-topics.sh")
    of_topic = settings((words, read))
    defaults: dict[str, str] = {}
    for call in of(found, "kafka-configs.sh"):
        (defaults if "--entity-default" in call[0] else of_topic).update(settings(call))
    assert of_topic == dict.fromkeys(("cleanup.policy", "odd name=:", "z"), value)
    assert defaults == dict.fromkeys(("a", "END", "#b"), value)


def test_what_no_program_can_be_given_is_a_comment(tmp_path: Path) -> None:
    records = [made.broker(1), made.topic("a\0b", 1), made.partition(0, 1, [1]), made.feature("f\0", 1)]
    records += [made.scram("u\0", b"s", b"s", b"s"), made.quota("u\0", "producer_byte_rate", 1)]
    records += [made.acl(1, "User:a\0b", (2, "t", 3), 3), made.config(BROKER, "\0", "a", "b")]
    script = emitted(log_dir(tmp_path / "dir", *records))
    assert [words[0] for words, _ in calls(script, tmp_path)] == ["kafka-storage.sh"]
    assert script.count("for a zero byte") == 5
    assert "no option can name the feature f\\x00" in script


def test_no_secret_is_there_and_each_is_a_line_to_fill_in(tmp_path: Path) -> None:
    secrets = made.config(BROKER, "1", "listener.name.x.ssl.key.password", "hunter2")
    script = emitted(
        log_dir(tmp_path / "dir", made.broker(1), secrets, made.scram("al ice", b"SALT", b"STORED", b"SERVER"))
    )
    for secret in ("hunter2", "SALT", "STORED", "SERVER"):
        assert secret not in script
    assert "--entity-name 1 --add-config listener.name.x.ssl.key.password=SECRET\n" in script
    assert "--entity-name 'al ice' --add-config 'SCRAM-SHA-512=[iterations=8192,password=PASSWORD]'\n" in script
    assert [words[0] for words, _ in calls(script, tmp_path)] == ["kafka-storage.sh"]


# --- topics ---------------------------------------------------------------------------------------------------
def test_replicas_are_kept(tmp_path: Path) -> None:
    records = [made.topic("t", 1), *(made.partition(n, 1, one) for n, one in enumerate(([3, 1], [1, 2], [2, 3])))]
    (call,) = of(calls(emitted(log_dir(tmp_path / "dir", *records)), tmp_path), "kafka-topics.sh")
    assert call[0] == ["--create", "--if-not-exists", "--topic", "t", "--replica-assignment", "3:1,1:2,2:3"]


def test_replicas_of_different_number_are_moved_afterwards(tmp_path: Path) -> None:
    records = [made.topic("t", 1), made.partition(0, 1, [3, 1]), made.partition(1, 1, [1, 2, 3])]
    found = calls(emitted(log_dir(tmp_path / "dir", *records)), tmp_path)
    assert of(found, "kafka-topics.sh")[0][0][-1] == "3:1,1:2"
    ((words, read),) = of(found, "kafka-reassign-partitions.sh")
    assert words == ["--execute", "--reassignment-json-file", "/dev/stdin"]
    partitions = [
        {"topic": "t", "partition": 0, "replicas": [3, 1]},
        {"topic": "t", "partition": 1, "replicas": [1, 2, 3]},
    ]
    assert json.loads(read) == {"version": 1, "partitions": partitions}


def test_a_partition_that_is_not_known_lets_brokers_choose(tmp_path: Path) -> None:
    records = [made.topic("t", 1), made.partition(0, 1, [3, 1]), made.partition(2, 1, [1, 2]), made.topic("gone", 2)]
    script = emitted(log_dir(tmp_path / "dir", *records))
    (call,) = of(calls(script, tmp_path), "kafka-topics.sh")
    assert call[0][-4:] == ["--partitions", "3", "--replication-factor", "2"]
    assert "# topic t: the replicas of partition 1 are not known: brokers choose all\n" in script
    assert "# topic gone: its partitions are not known\n" in script


def test_a_reassignment_counts_as_done() -> None:
    topic = TopicAgain("t", {0: (1, 2), 1: (1, 2), 2: (3,)}, [])
    assert (topic.partitions, topic.factor, topic.lacks, topic.odd) == (3, 2, [], {2: (3,)})


def test_a_topic_whose_assignment_no_word_can_hold_is_made_and_then_moved(tmp_path: Path) -> None:
    numbers = range(9000)
    records = [made.topic("t", 1), *(made.partition(n, 1, [100_001, 100_002]) for n in numbers)]
    found = calls(emitted(log_dir(tmp_path / "dir", *records)), tmp_path)
    assert of(found, "kafka-topics.sh")[0][0][-4:] == ["--partitions", "9000", "--replication-factor", "2"]
    ((_, read),) = of(found, "kafka-reassign-partitions.sh")
    assert len(json.loads(read)["partitions"]) == 9000


def test_kafkas_own_topics_are_left_to_brokers(tmp_path: Path) -> None:
    records = [made.topic("__consumer_offsets", 1), made.partition(0, 1, [1, 2]), made.partition(1, 1, [2, 1])]
    records += [
        made.topic("_schemas", 2),
        made.partition(0, 2, [1]),
        made.config(TOPIC, "__consumer_offsets", "a", "b"),
    ]
    script = emitted(log_dir(tmp_path / "dir", *records))
    found = of(calls(script, tmp_path), "kafka-topics.sh")
    assert [words[words.index("--topic") + 1] for words, _ in found] == ["_schemas"]
    assert "#   offsets.topic.num.partitions=2\n#   offsets.topic.replication.factor=2\n" in script


# --- nodes ----------------------------------------------------------------------------------------------------
def formats(script: str, where: Path) -> list[list[str]]:
    """The words of each call of kafka-storage.sh."""
    return [words for words, _ in of(calls(script, where), "kafka-storage.sh")]


def test_each_node_is_formatted_with_the_features_of_the_log(tmp_path: Path) -> None:
    records = [made.broker(1), made.broker(2), made.feature("metadata.version", 30), made.feature("group.version", 1)]
    found = formats(emitted(log_dir(tmp_path / "dir", *records)), tmp_path)
    rest = ["--cluster-id", CLUSTER, "--release-version", "4.3-IV0", "--feature", "group.version=1"]
    assert found == [["format", "--config", f"node-{n}.properties", *rest] for n in (1, 2)]


def test_a_level_without_a_name_is_said(tmp_path: Path) -> None:
    script = emitted(log_dir(tmp_path / "dir", made.broker(1), made.feature("metadata.version", 30_000)))
    assert "--release-version" not in formats(script, tmp_path)[0]
    assert "# metadata.version is 30000, whose name is not known: add --release-version.\n" in script


def test_without_cluster_id_format_is_a_comment(tmp_path: Path) -> None:
    path = log_dir(tmp_path / "dir", made.broker(1), meta=None)
    script = emitted(path)
    assert formats(script, tmp_path) == []
    assert "\n# kafka-storage.sh format --config node-1.properties --cluster-id CLUSTER_ID\n" in script
    other = write(tmp_path / "other", {"meta.properties": f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n".encode()})
    assert f"--cluster-id {CLUSTER}" in emitted(path, str(other))


def test_log_directories_of_another_cluster_are_named(tmp_path: Path) -> None:
    other = write(tmp_path / "other", {"meta.properties": b"version=1\nnode.id=5\ncluster.id=another\n"})
    script = emitted(log_dir(tmp_path / "dir", made.broker(1)), str(other))
    assert f"# {other}: cluster.id is another: another cluster's, or its metadata log is\n" in script
    assert "node-5.properties" not in script


def test_voters_keep_their_directory_ids(tmp_path: Path) -> None:
    quorum = made.voters((1, made.uuid(21), "c1", 9093), (3, made.uuid(23), "::1", 9094))
    path = log_dir(tmp_path / "dir", made.broker(1), made.broker(2))
    data = made.log([made.broker(1), made.broker(2)]) + batch(2, [quorum], flags=CONTROL, base_timestamp=TIME, epoch=1)
    (path / METADATA / file_name(0)).write_bytes(data)
    found = formats(emitted(path), tmp_path)
    listed = f"1@c1:9093:{made.uuid(21)},3@[::1]:9094:{made.uuid(23)}"
    ends = {words[2]: words[5:] for words in found}
    initial = ["--initial-controllers", listed]
    assert ends == {
        "node-1.properties": initial,
        "node-2.properties": ["--no-initial-controllers"],
        "node-3.properties": initial,
    }


# --- users ----------------------------------------------------------------------------------------------------
def test_quotas_name_their_entity_in_order(tmp_path: Path) -> None:
    records = [made.quotas([("user", "al"), ("client-id", None)], "producer_byte_rate", 1024.0)]
    records += [made.quotas([("user", "al"), ("client-id", None)], "consumer_byte_rate", 0.25)]
    records += [made.quotas([("ip", "1.2.3.4")], "connection_creation_rate", 1), made.quotas([("moon", None)], "x", 1)]
    script = emitted(log_dir(tmp_path / "dir", made.broker(1), *records))
    found = of(calls(script, tmp_path), "kafka-configs.sh")
    entity = ["--entity-type", "users", "--entity-name", "al", "--entity-type", "clients", "--entity-default"]
    both = "consumer_byte_rate=0.25,producer_byte_rate=1024"
    assert ["--alter", *entity, "--add-config", both] in [words for words, _ in found]
    assert len(found) == 2
    assert "# no option names this: quota of moon <default>: x=1\n" in script


def test_acls_of_one_kind_are_one_command(tmp_path: Path) -> None:
    topic = partial(made.acl, principal="User:a", place=(2, "t", 4))
    records = [topic(1, operation=3), topic(2, operation=10), topic(3, operation=2, permission=2)]
    records += [made.acl(4, "User:a", (4, "kafka-cluster", 3), 9), made.acl(5, "User:a", (7, "User:b", 3), 13)]
    records += [made.acl(6, "User:a", (99, "x", 3), 3), made.acl(7, "User:a", (2, "x", 3), 99)]
    script = emitted(log_dir(tmp_path / "dir", made.broker(1), *records))
    found = [words for words, _ in of(calls(script, tmp_path), "kafka-acls.sh")]
    allow, deny = (["--add", f"--{one}-principal", "User:a", f"--{one}-host", "*"] for one in ("allow", "deny"))
    prefixed = ["--topic", "t", "--resource-pattern-type", "prefixed"]
    assert found == [
        [*deny, "--operation", "All", *prefixed],
        [*allow, "--operation", "Read", "--operation", "DescribeConfigs", *prefixed],
        [*allow, "--operation", "ClusterAction", "--cluster"],
        [*allow, "--operation", "CreateTokens", "--user-principal", "User:b"],
    ]
    assert script.count("cannot be said to kafka-acls.sh") == 2


def test_operations_have_the_names_of_the_tools() -> None:
    assert [operation_word(number) for number in (2, 9, 12, 15, 99)] == [
        *("All", "ClusterAction", "IdempotentWrite", "TwoPhaseCommit", "99")
    ]


# --- the whole ------------------------------------------------------------------------------------------------
def test_all_of_a_real_cluster_is_there(tmp_path: Path) -> None:
    script = emitted(NODE)
    found = calls(script, tmp_path)
    assert len(of(found, "kafka-storage.sh")) == 3
    assert len(of(found, "kafka-topics.sh")) == 28
    assert len(of(found, "kafka-acls.sh")) == 7
    assert script == emitted(NODE)
    programs = [words[0] for words, _ in found]
    assert programs[:3] == ["kafka-storage.sh"] * 3
    assert programs[-7:] == ["kafka-acls.sh"] * 7


def test_of_a_topic_that_is_asked_for_nothing_else_is_written(tmp_path: Path) -> None:
    found = calls(emitted(NODE, "--topic", "wide"), tmp_path)
    assert [words[0] for words, _ in found] == ["kafka-topics.sh"]
    assert "--replica-assignment 1:2,2:3,3:1" in emitted(NODE, "--topic", "wide")


def test_the_state_is_that_of_a_time() -> None:
    assert "before offset 1 of" in emitted(NODE, "--at-offset", "0", exit_status=10)
    assert "--topic plain" not in emitted(NODE, "--at", "2001-01-01", exit_status=10)


def test_damage_is_said_where_the_commands_are(tmp_path: Path) -> None:
    path = log_dir(tmp_path / "dir", made.broker(1), made.topic("t", 1))
    log = path / METADATA / file_name(0)
    second = made.log([made.topic("u", 2)], start=2)
    log.write_bytes(log.read_bytes() + second[:-3] + b"XXX")
    script = emitted(path, exit_status=3)
    assert "# NOT COMPLETE: 1 error in the metadata log; standard error has them.\n" in script


def test_without_a_metadata_log_nothing_is_written(tmp_path: Path) -> None:
    path = write(tmp_path / "dir", {"meta.properties": b"version=1\nnode.id=1\n"})
    assert emitted(path, exit_status=5) == ""


@pytest.mark.parametrize(
    "options",
    [["--format", "json"], ["--format", "text"], ["--diff", "0", "end"], ["--check", "."], ["--redact"]],
    ids=" ".join,
)
def test_what_emit_does_not_go_with_is_wrong_use(options: Sequence[str]) -> None:
    run: Any = run_kdump(["cluster", str(NODE), "--emit", "commands", *options], NODE)
    assert (run.exit, run.stdout) == (2, b"")
    assert b"--emit" in run.stderr
