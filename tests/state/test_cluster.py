"""What a cluster was at a time: the metadata log folded as the controller loads it."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kdump.format.read_limits import ReadLimits
from kdump.render.coordinator_rows import written
from kdump.row import Row
from kdump.rows.coordinators import ClusterRow
from kdump.rows.layout import JSON
from kdump.state.cluster import ClusterOptions, cluster
from tests.support import metadata_fold, metadata_records
from tests.support.metadata_records import ABORT, BEGIN, END, uuid
from tests.support.partitions import name as file_name
from tests.support.partitions import write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import TIME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.segments import Record

Json = dict[str, Any]
NODES = {release: FIXTURES / release / "clean" / "node1" for release in ("kafka-4.3.1", "kafka-4.4.0")}
METADATA = "__cluster_metadata-0"
POINTS = 50
_PASSWORDS = (
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
    "listener.name.internal.ssl.key.password",
    "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
)


# --- helpers --------------------------------------------------------------------------------------------------
def log_dir(root: Path, *records: Sequence[Record], start: int = 0, snapshots: dict[str, bytes] | None = None) -> Path:
    """A log.dir with a metadata log of these batches, and snapshots by name."""
    files = {f"{METADATA}/{name}": data for name, data in (snapshots or {}).items()}
    files[f"{METADATA}/{file_name(start)}"] = metadata_records.log(*records, start=start)
    return write(root, files)


def rows(path: Path, *args: str, exit_status: int = 0) -> list[Json]:
    """The JSON rows of `kdump cluster`, without the summary."""
    run = run_kdump(["cluster", str(path), "--format", "json", *args], path)
    assert run.exit == exit_status, run.stderr
    return [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] != "summary"]


def of(found: list[Json], kind: str) -> list[Json]:
    """The rows of a kind, without their type."""
    return [{key: value for key, value in row.items() if key != "type"} for row in found if row["type"] == kind]


def state(directory: Path, *, at: int | None = None, offset: int | None = None) -> list[Json]:
    """The JSON rows at a point, without a process for each."""
    options = ClusterOptions(at, offset, None, frozenset(), (), ReadLimits(1 << 30, 1 << 30))
    found = (one for one in cluster([str(directory)], options) if isinstance(one, Row | ClusterRow))
    rows = [json.loads(written(one, JSON)) for one in found]
    for row in rows:  # beside the fields of the record
        assert row.pop("oldestRelease", "") in ("", "4.3", "4.4"), row
    return [row for row in rows if row["type"] not in ("horizon", "finding")]


@cache
def printed(node: Path) -> metadata_fold.Printed:
    """The first snapshot and the log of a cluster, as `dump --compat 4.3` prints them."""
    decoder = ["dump", "--compat", "4.3", "--cluster-metadata-decoder", "--files"]
    names = f"{0:020}-{0:010}.checkpoint", file_name(0)
    first, log = (
        metadata_fold.printed(run_kdump([*decoder, str(node / METADATA / name)], FIXTURES).stdout.decode())
        for name in names
    )
    return metadata_fold.Printed(log.batches, [(-1, message) for _, message in first.records] + log.records)


def unordered(found: Sequence[Json]) -> list[Json]:
    """Rows whose lists of names have an order of their own: a snapshot's is that of a hash map."""
    changed = [dict(row) for row in found]
    for row in changed:
        for key in {"features", "endPoints", "entity"} & row.keys():
            row[key] = metadata_fold.in_order(row[key])
    return metadata_fold.in_order(changed)


# --- real clusters --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("release", NODES)
def test_the_state_at_any_time_is_that_of_an_independent_fold(release: str) -> None:
    found = printed(NODES[release])
    times = sorted({time for time, _ in found.batches})
    points = [times[0] - 1, *times[:: max(1, len(times) // (POINTS - 2))], times[-1] + 1]
    assert len(points) >= POINTS
    for time in points:
        theirs = metadata_fold.rows(found, metadata_fold.last_at(found, time))
        assert unordered(state(NODES[release] / METADATA, at=time)) == unordered(theirs), time


@pytest.mark.parametrize("release", NODES)
def test_the_state_after_an_offset_is_that_of_an_independent_fold(release: str) -> None:
    found = printed(NODES[release])
    last = found.records[-1][0]
    for offset in [*range(0, last, last // POINTS), last]:
        theirs = metadata_fold.rows(found, offset)
        assert unordered(state(NODES[release] / METADATA, offset=offset)) == unordered(theirs), offset


@pytest.mark.parametrize("release", NODES)
def test_the_partitions_are_those_that_the_brokers_had(release: str) -> None:
    """Asked after a restart, of what broker 1 has: leaders may be others, but each is a replica."""
    text = (FIXTURES / "state" / release / "layout.json").read_text("utf-8")
    leaders: dict[str, int] = json.loads(text)["leaders"]
    found = {f"{row['topic']}-{row['partitionId']}": row for row in of(rows(NODES[release]), "partition")}
    assert len(leaders) > 30
    assert {name for name, row in found.items() if 1 in row["replicas"]} == set(leaders)
    for name, leader in leaders.items():
        assert leader in found[name]["replicas"], name


@pytest.mark.parametrize("release", NODES)
def test_no_secret_of_a_scram_user_is_in_any_output(release: str) -> None:
    path = NODES[release]
    secrets = [
        message["data"][name]
        for _, message in printed(path).records
        if message["type"] == "USER_SCRAM_CREDENTIAL_RECORD"
        for name in metadata_fold.SECRETS
    ]
    assert len(secrets) >= 3
    for verb, args in (
        ("cluster", []),
        ("cluster", ["--format", "json"]),
        ("cluster", ["--diff", "1970-01-01T00:00Z", "end"]),
        ("cluster", ["--diff", "1970-01-01T00:00Z", "end", "--format", "json"]),
        ("groups", ["--format", "json"]),
        ("transactions", ["--format", "json"]),
    ):
        run = run_kdump([verb, str(path), *args], FIXTURES)
        for secret in secrets:
            assert secret.encode() not in run.stdout + run.stderr


def test_a_cluster_says_when_it_is_exact() -> None:
    """The fold begins at the newest snapshot that is not behind the point in question."""
    node = NODES["kafka-4.3.1"]
    end = of(rows(node), "horizon")
    assert end == [{"partition": METADATA, "exactFrom": 1795219577272, "offset": 333}]
    assert of(rows(node, "--at-offset", "332"), "horizon") == end
    begin = [{"partition": METADATA, "exactFrom": None, "offset": 0}]
    assert of(rows(node, "--at-offset", "331"), "horizon") == begin


# --- the fold -------------------------------------------------------------------------------------------------
D = [uuid(100), uuid(200)]  # directories of brokers 1 and 2
BASE = [
    metadata_records.feature("metadata.version", 25),
    metadata_records.broker(1, [D[0]]),
    metadata_records.broker(2, [D[1]]),
    metadata_records.topic("orders", 7),
    metadata_records.partition(0, 7, [1, 2], D),
]


def test_a_metadata_transaction_counts_from_its_end(tmp_path: Path) -> None:
    path = log_dir(
        tmp_path,
        BASE,
        [BEGIN, metadata_records.topic("later", 8)],
        [metadata_records.partition(0, 8, [1])],
        [END],
    )
    assert [row["name"] for row in of(rows(path, "--at-offset", "7"), "topic")] == ["orders"]
    found = rows(path, "--at-offset", "8")
    assert [row["name"] for row in of(found, "topic")] == ["later", "orders"]
    assert [row["topic"] for row in of(found, "partition")] == ["later", "orders"]


def test_a_metadata_transaction_that_was_aborted_or_has_no_end_does_not_count(tmp_path: Path) -> None:
    config = metadata_records.config
    path = log_dir(
        tmp_path,
        BASE,
        [BEGIN, config(2, "orders", "retention.ms", "1"), ABORT],
        [config(2, "orders", "retention.bytes", "2")],
        [BEGIN, config(2, "orders", "segment.bytes", "3")],
    )
    assert [(row["name"], row["value"]) for row in of(rows(path), "config")] == [("retention.bytes", "2")]


def test_a_partition_has_what_a_snapshot_would_hold(tmp_path: Path) -> None:
    change = metadata_records.change
    path = log_dir(tmp_path, BASE, [change(0, 7, leader=2, isr=[2], elr=[1])], [change(0, 7, isr=[2, 1], elr=[])])
    expected = {
        "topic": "orders",
        "partitionId": 0,
        "topicId": uuid(7),
        "replicas": [1, 2],
        "isr": [2],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": 2,
        "leaderEpoch": 1,
        "partitionEpoch": 1,
        "directories": D,
        "eligibleLeaderReplicas": [1],
    }
    assert of(rows(path, "--at-offset", "5"), "partition") == [expected]
    del expected["eligibleLeaderReplicas"]
    assert of(rows(path), "partition") == [{**expected, "isr": [2, 1], "partitionEpoch": 2}]


def test_a_topic_takes_its_partitions_and_configurations_with_it(tmp_path: Path) -> None:
    config = metadata_records.config
    records = [config(2, "orders", "retention.ms", "1"), config(4, "orders", "log.retention.ms", "1")]
    path = log_dir(tmp_path, BASE, records, [metadata_records.remove_topic(7)])
    found = rows(path)
    assert not of(found, "topic")
    assert not of(found, "partition")
    assert [row["resourceType"] for row in of(found, "config")] == [4]


def test_what_is_removed_is_gone(tmp_path: Path) -> None:
    quota, feature, config = metadata_records.quota, metadata_records.feature, metadata_records.config
    path = log_dir(
        tmp_path,
        [quota("a", "rate", 1.0), quota(None, "rate", 2.5), feature("x", 1), feature("y", 2)],
        [config(4, "", "n", "v"), config(4, "1", "n", "v"), metadata_records.broker(1), metadata_records.broker(2)],
        [quota("a", "rate", None), feature("x", 0), config(4, "", "n", None), metadata_records.unregister(1)],
    )
    found = rows(path)
    entity = [{"entityType": "user", "entityName": None}]
    assert of(found, "quota") == [{"entity": entity, "key": "rate", "value": 2.5, "remove": False}]
    assert of(found, "feature") == [{"name": "y", "featureLevel": 2}]
    assert [row["resourceName"] for row in of(found, "config")] == ["1"]
    assert [row["brokerId"] for row in of(found, "broker")] == [2]


def test_a_broker_always_says_whether_it_is_fenced_and_shutting_down(tmp_path: Path) -> None:
    (first, _) = of(rows(log_dir(tmp_path, BASE)), "broker")
    assert (first["fenced"], first["inControlledShutdown"]) == (False, False)


def test_a_change_of_what_is_not_known_is_told(tmp_path: Path) -> None:
    path = log_dir(tmp_path, BASE, [metadata_records.change(5, 7, leader=1)])
    (finding,) = of(rows(path), "finding")
    assert (finding["code"], finding["offset"], finding["severity"]) == ("R07", 5, "warning")
    assert "partition 5" in finding["message"]


# --- snapshots ------------------------------------------------------------------------------------------------
SNAPSHOT = f"{5:020}-{1:010}.checkpoint"


def test_the_log_counts_from_the_end_of_the_snapshot(tmp_path: Path) -> None:
    data = metadata_records.snapshot(BASE, contained=TIME - 5)
    path = log_dir(tmp_path, [metadata_records.topic("new", 9)], start=5, snapshots={SNAPSHOT: data})
    found = rows(path)
    assert [row["name"] for row in of(found, "topic")] == ["new", "orders"]
    assert of(found, "horizon") == [{"partition": METADATA, "exactFrom": TIME - 5, "offset": 5}]


def test_a_snapshot_alone_is_the_state(tmp_path: Path) -> None:
    data = metadata_records.snapshot(BASE, contained=TIME)
    path = write(tmp_path, {f"{METADATA}/{SNAPSHOT}": data, f"{METADATA}/{file_name(5)}": b""})
    assert [row["name"] for row in of(rows(path), "topic")] == ["orders"]


def test_a_state_before_the_oldest_snapshot_is_said_to_be_later(tmp_path: Path) -> None:
    data = metadata_records.snapshot(BASE, contained=TIME)
    path = log_dir(tmp_path, [metadata_records.topic("new", 9)], start=5, snapshots={SNAPSHOT: data})
    run = run_kdump(["cluster", str(path), "--at-offset", "2"], path)
    assert b"older records are gone: the state is that of the snapshot at offset 5" in run.stderr
    assert run.exit == 0


@pytest.mark.parametrize("how", ["not finished", "damaged"])
def test_a_snapshot_that_cannot_be_trusted_is_not_used(tmp_path: Path, how: str) -> None:
    data = bytearray(metadata_records.snapshot(BASE[:2], contained=TIME, is_finished=how == "damaged"))
    if how == "damaged":
        data[120] ^= 1
    path = log_dir(tmp_path, BASE, [metadata_records.topic("new", 9)], snapshots={SNAPSHOT: bytes(data)})
    found = rows(path, exit_status=6 if how == "damaged" else 5)
    assert [row["name"] for row in of(found, "topic")] == ["new", "orders"]
    assert [row["code"] for row in of(found, "finding")] == (["B01"] if how == "damaged" else [])


def test_damage_of_the_log_is_passed_over(tmp_path: Path) -> None:
    path = log_dir(tmp_path, BASE, [metadata_records.topic("lost", 8)], [metadata_records.topic("new", 9)])
    file = path / METADATA / file_name(0)
    data = bytearray(file.read_bytes())
    data[data.index(b"lost")] ^= 1
    file.write_bytes(data)
    found = rows(path, exit_status=3)
    assert [row["name"] for row in of(found, "topic")] == ["new", "orders"]
    assert [row["code"] for row in of(found, "finding")] == ["B01"]


# --- secrets --------------------------------------------------------------------------------------------------
def test_no_password_and_no_key_is_in_any_output(tmp_path: Path) -> None:
    records = [metadata_records.config(4, "1", name, f"hunter2-{number}") for number, name in enumerate(_PASSWORDS)]
    salted = metadata_records.scram("alice", b"hunter2-salt", b"hunter2-stored", b"hunter2-server")
    again = metadata_records.scram("alice", b"hunter2-salt", b"hunter2-other", b"hunter2-server")
    changed = metadata_records.config(4, "1", "ssl.key.password", "hunter2-new")
    path = log_dir(tmp_path, BASE, [*records, salted, metadata_records.token("tokenid")], [again, changed])
    found = rows(path)
    assert {row["name"]: row["value"] for row in of(found, "config")} == dict.fromkeys(_PASSWORDS)
    times = {"issueTimestamp": 1, "maxTimestamp": 3, "expirationTimestamp": 2}
    names = {"owner": "User:owner", "requester": "User:asked", "renewers": ["User:renewer"], "tokenId": "tokenid"}
    assert of(found, "token") == [{**names, **times}]
    assert of(found, "scram") == [{"name": "alice", "mechanism": 2, "iterations": 8192}]
    points = [f"{TIME - 1}", f"{TIME + 1000}", "end"]
    runs = [[], ["--format", "json"], *(["--diff", *pair] for pair in (points[:2], points[1:], points[::2]))]
    base64 = [b"aHVudGVyMi", b"h1bnRlcjIt", b"odW50ZXIyL"]  # hunter2- at each of three places
    for args in [*runs, *([*one, "--format", "json"] for one in runs[2:])]:
        run = run_kdump(["cluster", str(path), *args], path)
        assert run.exit == 0
        assert b"hunter2" not in run.stdout + run.stderr
        assert not any(one in run.stdout + run.stderr for one in base64)


def test_a_secret_that_changed_is_told_without_its_values(tmp_path: Path) -> None:
    one = metadata_records.scram("alice", b"s", b"t", b"u")
    two = metadata_records.scram("alice", b"s", b"v", b"u")
    path = log_dir(tmp_path, [one], [two])
    (row,) = of(rows(path, "--diff", str(TIME), "end"), "change")
    assert row == {
        "what": "scram",
        "name": "alice SCRAM-SHA-512",
        "partition": METADATA,
        "field": "storedKey",
        "before": None,
        "after": None,
        "timestamp": TIME + 1000,
        "offset": 1,
    }


# --- differences ----------------------------------------------------------------------------------------------
def test_a_change_has_the_record_that_made_it_so(tmp_path: Path) -> None:
    config, change = metadata_records.config, metadata_records.change
    path = log_dir(
        tmp_path,
        BASE,
        [change(0, 7, isr=[1])],
        [change(0, 7, leader=2, isr=[2])],
        [config(2, "orders", "retention.ms", "5")],
        [config(2, "orders", "retention.ms", "6")],
    )
    found = of(rows(path, "--diff", str(TIME), str(TIME + 3000)), "change")
    keys = ("what", "name", "field", "before", "after", "timestamp", "offset")
    assert [tuple(row[key] for key in keys) for row in found] == [
        ("partition", "orders-0", "isr", [1, 2], [2], TIME + 2000, 6),
        ("partition", "orders-0", "leader", 1, 2, TIME + 2000, 6),
        ("partition", "orders-0", "leaderEpoch", 0, 1, TIME + 2000, 6),
        ("partition", "orders-0", "partitionEpoch", 0, 2, TIME + 2000, 6),
        ("config", "orders retention.ms", "value", None, "5", TIME + 3000, 7),
    ]
    assert {row["partition"] for row in found} == {METADATA}
    assert not of(rows(path, "--diff", "end", "end"), "change")


def test_what_is_gone_says_when(tmp_path: Path) -> None:
    path = log_dir(tmp_path, BASE, [metadata_records.remove_topic(7)])
    found = of(rows(path, "--diff", str(TIME), "end"), "change")
    (row,) = [row for row in found if row["what"] == "topic"]
    assert (row["before"], row["after"], row["offset"], row["timestamp"]) == (uuid(7), None, 5, TIME + 1000)


def test_a_difference_backwards_has_its_sides_exchanged(tmp_path: Path) -> None:
    path = log_dir(tmp_path, BASE, [metadata_records.change(0, 7, isr=[1])])
    forth = of(rows(path, "--diff", str(TIME), "end"), "change")
    back = of(rows(path, "--diff", "end", str(TIME)), "change")
    assert [(row["field"], row["before"], row["after"]) for row in forth] == [
        (row["field"], row["after"], row["before"]) for row in back
    ]


def test_a_broker_that_registers_again_with_the_same_features_has_not_changed_them() -> None:
    """Their order is that of a hash map."""
    found = of(rows(NODES["kafka-4.3.1"], "--diff", "2026-11-21T00:06:17Z", "end"), "change")
    assert "brokerEpoch" in {row["field"] for row in found if row["what"] == "broker"}
    assert "features" not in {row["field"] for row in found if row["what"] == "broker"}


# --- options and text -----------------------------------------------------------------------------------------
def test_a_topic_has_its_rows_only(tmp_path: Path) -> None:
    config = metadata_records.config
    path = log_dir(tmp_path, BASE, [metadata_records.topic("x", 8), config(2, "x", "a", "1"), config(4, "x", "b", "1")])
    assert [row["type"] for row in rows(path, "--topic", "x")] == ["horizon", "topic", "config"]
    changes = of(rows(path, "--topic", "x", "--diff", str(TIME), "end"), "change")
    assert [(row["what"], row["name"]) for row in changes] == [("topic", "x"), ("config", "x a")]


def test_lines_have_a_line_for_each_row_and_text_a_table(tmp_path: Path) -> None:
    path = log_dir(tmp_path, BASE, [metadata_records.config(4, "1", "ssl.key.password", "x")])
    lines = run_kdump(["cluster", str(path), "--format", "lines"], path).stdout.decode().splitlines()
    kinds = [line.split(" ")[0] for line in lines if "." not in line.split(" ")[0]]
    assert kinds == [*(row["type"] for row in rows(path)), "summary"]
    assert 'config resourceType=4 resourceName="1" name=ssl.key.password' in lines
    text = run_kdump(["cluster", str(path)], path).stdout.decode()
    assert re.search(r"^broker 1 +ssl\.key\.password +hidden$", text, re.MULTILINE)
    assert re.search(r"^orders-0 +1 +0 +1,2 +1,2$", text, re.MULTILINE)


@pytest.mark.parametrize("args", [[], ["--format", "json"], ["--diff", "0", "end"]])
def test_names_are_hidden_where_that_is_asked_for(tmp_path: Path, args: list[str]) -> None:
    configs = [
        metadata_records.config(2, "orders", "retention.ms", "86400000"),
        metadata_records.config(32, "payers", "a", "b"),
    ]
    users = [metadata_records.scram("alice", b"s", b"t", b"u"), metadata_records.token("tokenid")]
    path = log_dir(tmp_path, BASE, [*configs, *users, metadata_records.quota("bob", "producer_byte_rate", 1.0)])
    plain = run_kdump(["cluster", str(path), *args], path)
    hidden = run_kdump(["cluster", str(path), "--redact", *args], path)
    assert plain.exit == hidden.exit == 0
    if "json" in args:
        assert len(plain.stdout.splitlines()) == len(hidden.stdout.splitlines())
    for name in (b"orders", b"payers", b"86400000", b"alice", b"bob", b"User:owner", b"//host", b'"host":"host"'):
        assert name not in hidden.stdout + hidden.stderr, name
    for name in (b"orders", b"alice", b"retention.ms", *([D[0].encode()] if "--diff" not in args else [])):
        assert name in plain.stdout
    assert b"retention.ms" in hidden.stdout
    assert "--diff" in args or D[0].encode() in hidden.stdout  # it goes on in the next line of a narrow column


@pytest.mark.parametrize(
    "args",
    [
        ["--at", "end", "--at-offset", "1"],
        ["--at", "0", "--diff", "0", "end"],
        ["--at-offset", "0", "--diff", "0", "end"],
        ["--check", ".", "--diff", "0", "end"],
        ["--at-offset", "-1"],
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path: Path, args: list[str]) -> None:
    assert run_kdump(["cluster", ".", *args], tmp_path).exit == 2


def test_a_directory_without_the_metadata_log_is_told(tmp_path: Path) -> None:
    run = run_kdump(["cluster", str(write(tmp_path, {"t-0/00000000000000000000.log": b""}))], tmp_path)
    assert (run.exit, b"no __cluster_metadata-0 here; each node has it in one of" in run.stderr) == (5, True)
    assert run_kdump(["cluster", "nowhere"], tmp_path).exit == 10
