"""`kdump cluster --emit strimzi`: a reader of YAML finds what the metadata log has, whatever that is."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.render.emit.test_commands import NAMES, NODE, TOPIC, log_dir
from tests.support import metadata_records as made
from tests.support.runs import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(\.{LABEL})*\Z")  # Kubernetes: IsDNS1123Subdomain


def text_of(path: Path, *options: str) -> str:
    """What is printed."""
    run = run_kdump(["cluster", str(path), "--emit", "strimzi", *options], path)
    assert run.exit == 0, run.stderr
    return run.stdout.decode("ascii" if run.stdout.isascii() else "utf-8")


def read(text: str) -> list[Json]:
    """The documents of what is printed: a strict reader of the little YAML that it has; PyYAML agrees."""
    found = [
        _node([line for line in part.split("\n") if line and not line.startswith("#")])
        for part in re.split(r"(?m)^---$", text)[1:]
    ]
    try:
        import yaml
    except ImportError:
        return found
    assert list(yaml.safe_load_all(text)) == found
    return found


def _node(lines: list[str]) -> Any:
    if lines[0].startswith("- "):
        items: list[list[str]] = []
        for line in lines:
            if line.startswith("- "):
                items.append([])
            items[-1].append(line[2:])
        return [_node(one) if _is_map(one[0]) else _scalar(one[0]) for one in items]
    made_of: Json = {}
    while lines:
        head = lines.pop(0)
        if head.startswith("? "):
            key, rest = _scalar(head[2:]) if head[2] == '"' else head[2:], lines.pop(0).removeprefix(":")
        else:
            found = re.fullmatch(r'([A-Za-z][A-Za-z0-9./]*|"(?:[^"\\]|\\.)*"):(.*)', head)
            assert found is not None, head
            key, rest = found[1] if head[0] != '"' else _scalar(found[1]), found[2]
        below = []
        while lines and lines[0].startswith("  "):
            below.append(lines.pop(0)[2:])
        assert key not in made_of
        made_of[key] = _scalar(rest[1:]) if rest else _node(below)
    return made_of


def _is_map(line: str) -> bool:
    return not line.startswith('"') or re.match(r'"(?:[^"\\]|\\.)*":', line) is not None


def _scalar(text: str) -> Any:
    if text in ("{}", "[]"):
        return json.loads(text)
    if text[0] != '"':
        return int(text)
    text = re.sub(r"\\x(..)", r"\\u00\1", text)
    text = re.sub(r"\\U(.{8})", lambda one: json.dumps(chr(int(one[1], 16)))[1:-1], text)
    return json.loads(text)


def topics(text: str) -> dict[str, Json]:
    """The KafkaTopics by the name of the topic."""
    found = {}
    for one in read(text):
        if one["kind"] == "KafkaTopic":
            assert SUBDOMAIN.match(one["metadata"]["name"])
            found[one["spec"].get("topicName", one["metadata"]["name"])] = one
    return found


@pytest.mark.parametrize("at", range(0, len(NAMES), 8))
def test_names_are_made_legal_and_kept(at: int, tmp_path: Path) -> None:
    some = NAMES[at : at + 8]
    records = [made.broker(1)]
    for number, name in enumerate(some):
        records += [made.topic(name, number + 1), made.partition(0, number + 1, [1, 2])]
        records += [made.config(TOPIC, name, name, name)]
    found = topics(text_of(log_dir(tmp_path / "dir", *records)))
    assert {name: one["spec"]["config"] for name, one in found.items()} == {name: {name: name} for name in some}
    assert len({one["metadata"]["name"] for one in found.values()}) == len(some)


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "no", "null", "~", "1e3", "0x10", "2026-11-21", "a: b", "a #b", "- x", "\\", '"', "'", "\n", "\0"),
        *("\x85", "\u2028", "\ufeff", "\u6f22\U0001f600", "%TAG", "&a", "*a", "!x", "|", "---", "...", "\t", "a,b"),
    ],
)
def test_every_value_survives(value: str, tmp_path: Path) -> None:
    records = [made.broker(1), made.topic("t", 1), made.partition(0, 1, [1])]
    names = ("cleanup.policy", "no", "a: b", "k" * 3000)
    records += [made.config(TOPIC, "t", name, value) for name in names]
    assert topics(text_of(log_dir(tmp_path / "dir", *records)))["t"]["spec"]["config"] == dict.fromkeys(names, value)


def test_only_a_name_that_is_not_legal_is_changed(tmp_path: Path) -> None:
    names = ["orders", "a.b-c", "Orders", "a_b", "a-.b", "x" * 249, "_", "__x"]
    records = [made.broker(1)]
    for number, name in enumerate(names):
        records += [made.topic(name, number + 1), made.partition(0, number + 1, [1])]
    found = topics(text_of(log_dir(tmp_path / "dir", *records)))
    assert set(found) == set(names)
    assert [name for name in names if "topicName" not in found[name]["spec"]] == ["orders", "a.b-c", "x" * 249]
    assert re.fullmatch(r"orders-[0-9a-f]{10}", found["Orders"]["metadata"]["name"])


def test_partitions_and_replicas_are_those_of_the_log(tmp_path: Path) -> None:
    records = [made.topic("t", 1), *(made.partition(n, 1, [1, 2, 3][: 3 - n % 3 // 2]) for n in range(3))]
    records += [made.topic("__consumer_offsets", 2), made.partition(0, 2, [1])]
    text = text_of(log_dir(tmp_path / "dir", *records))
    assert topics(text)["t"]["spec"] == {"partitions": 3, "replicas": 3, "config": {}}
    assert set(topics(text)) == {"t"}
    assert "# topic t: partition 2 had 2 replicas, others 3\n" in text


def test_users_have_their_acls_and_quotas(tmp_path: Path) -> None:
    records = [made.broker(1), made.scram("alice", b"SALT", b"STORED", b"SERVER"), made.scram("Al", b"s", b"s", b"s")]
    records += [made.acl(1, "User:alice", (2, "t", 4), 3), made.acl(2, "User:alice", (2, "t", 4), 10)]
    records += [made.acl(3, "User:CN=bob", (4, "kafka-cluster", 3), 9, 2), made.acl(4, "Group:x", (2, "t", 3), 3)]
    records += [made.quota("alice", "producer_byte_rate", 7), made.quota(None, "producer_byte_rate", 8)]
    records += [made.quota("alice", "consumer_byte_rate", 0.5), made.acl(5, "User:*", (2, "t", 3), 3)]
    text = text_of(log_dir(tmp_path / "dir", *records))
    users = {one["metadata"]["name"]: one["spec"] for one in read(text) if one["kind"] == "KafkaUser"}
    place = {"type": "topic", "name": "t", "patternType": "prefix"}
    of_alice = {"type": "allow", "resource": place, "host": "*", "operations": ["Read", "DescribeConfigs"]}
    of_bob = {"type": "deny", "resource": {"type": "cluster"}, "host": "*", "operations": ["ClusterAction"]}
    assert users == {
        "alice": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": [of_alice]},
            "quotas": {"producerByteRate": 7},
        },
        "bob": {"authentication": {"type": "tls-external"}, "authorization": {"type": "simple", "acls": [of_bob]}},
    }
    for unsaid in ("user Al with SCRAM-SHA-512", "Group:x", "User:*", "user=<default>", "consumer_byte_rate=0.5"):
        assert any(unsaid in line for line in text.split("\n") if line.startswith("# ")), unsaid
    for secret in ("SALT", "STORED", "SERVER"):
        assert secret not in text


def test_all_of_a_real_cluster_is_there() -> None:
    text = text_of(NODE)
    assert len(topics(text)) == 28
    assert sorted(one["metadata"]["name"] for one in read(text) if one["kind"] == "KafkaUser") == [
        "alice",
        "bob",
        "carol",
    ]
    assert "# spec.kafka.metadataVersion: 4.3-IV0\n" in text
    assert text == text_of(NODE)


def test_of_a_topic_that_is_asked_for_nothing_else_is_written() -> None:
    assert [one["metadata"]["name"] for one in read(text_of(NODE, "--topic", "wide"))] == ["wide"]
