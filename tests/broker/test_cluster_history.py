"""What the metadata log knows of a topic's cleanup.policy: now, ever, and since the topic was created."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from kdump.broker.cleanup_policy import CleanupPolicy
from kdump.broker.clusters import cluster_settings, partition_count
from kdump.broker.config import Config
from kdump.format.read_limits import ReadLimits
from kdump.storage.log_dir import LogDir
from tests.support.metadata_records import (
    ABORT,
    BEGIN,
    END,
    change,
    config,
    feature,
    framed,
    log,
    partition,
    remove_topic,
    snapshot,
    topic,
    uuid,
)
from tests.support.partitions import name, write
from tests.support.runs import FIXTURES
from tests.support.segments import TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.segments import Record

LIMITS = ReadLimits(1 << 30, 1 << 30)
DELETE, COMPACT = frozenset(("delete",)), frozenset(("compact",))
NEVER = CleanupPolicy(DELETE, ever_compact=False, never_compact=True)
WAS = CleanupPolicy(DELETE, ever_compact=True, never_compact=False)
IS = CleanupPolicy(COMPACT, ever_compact=True, never_compact=False)
DOUBT = CleanupPolicy(DELETE, ever_compact=False, never_compact=False)
UNKNOWN = CleanupPolicy(None, ever_compact=False, never_compact=False)


def without_place(config: Config, topic: str, log_dir: LogDir, topic_id: str | None = None) -> CleanupPolicy:
    """What is known of a topic, without what is known of it alone."""
    return config.policy(topic, log_dir, topic_id).replace(of_topic=None)


def test_a_default_of_brokers_says_nothing_of_one_topic(tmp_path: Path) -> None:
    alone = LogDir(str(tmp_path))
    for given in ({"log.cleanup.policy": "delete"}, {"retention.ms": "5"}, {}):
        assert Config(given, has_file=True).policy("t", alone).of_topic is None
    assert Config({"cleanup.policy": "delete"}).policy("t", alone).of_topic == DELETE


START = [feature("metadata.version", 25)]
POLICY = partial(config, 2, "t", "cleanup.policy")
DEFAULT = partial(config, 4, "", "log.cleanup.policy")


def policy_in(
    root: Path, files: Mapping[str, bytes], given: Mapping[str, str] | None = None, topic_id: str | None = None
) -> CleanupPolicy:
    """What is known of the topic `t`, whose partition lies beside a metadata log of these files."""
    write(root, {f"__cluster_metadata-0/{path}": data for path, data in files.items()})
    found = cluster_settings([str(root / "t-0")], LIMITS)
    return without_place(Config(given or {}, clusters=found), "t", LogDir(str(root)), topic_id)


def policy_of(root: Path, *records: Sequence[Record], given: Mapping[str, str] | None = None) -> CleanupPolicy:
    """The same with a log of these batches, from the first offset on."""
    return policy_in(root, {name(0): log(START, *records)}, given)


def migration(state: int) -> Record:
    """ZkMigrationStateRecord."""
    return framed(21, 0, bytes((state,)))


@pytest.mark.parametrize(
    ("records", "policy"),
    [
        ([[topic("t", 0)]], NEVER),
        ([[topic("t", 0), POLICY("delete")]], NEVER),
        ([[topic("t", 0), POLICY("compact")]], IS),
        ([[topic("t", 0), POLICY("compact")], [POLICY("delete")]], WAS),
        ([[topic("t", 0), POLICY(" delete , compact")], [POLICY(None)]], WAS),
        ([[topic("t", 0)], [DEFAULT("compact")], [DEFAULT(None)]], WAS),
        ([[DEFAULT("compact")], [topic("t", 0)]], IS),
        ([[DEFAULT("compact")], [topic("t", 0), POLICY("delete")]], NEVER),
        ([[topic("t", 0), POLICY("delete")], [DEFAULT("compact")], [DEFAULT("delete")]], NEVER),
        ([[topic("t", 0), POLICY("compact")], [remove_topic(0)], [topic("t", 1)]], NEVER),
        ([[topic("t", 0)], [config(2, "other", "cleanup.policy", "compact")]], NEVER),
        ([[topic("t", 0)], [BEGIN, POLICY("compact"), ABORT]], NEVER),
        ([[topic("t", 0)], [BEGIN, POLICY("compact")], [END], [POLICY("delete")]], WAS),
        ([[topic("t", 0)], [BEGIN, POLICY("compact")]], NEVER),
        ([[topic("t", 0)], [POLICY("nonsense")]], NEVER),
        ([[topic("u", 0), config(2, "u", "cleanup.policy", "compact")]], DOUBT),
        ([[topic("u", 0)], [DEFAULT("compact")]], IS),
        ([[topic("t", 0), POLICY("delete")], [remove_topic(0)]], UNKNOWN),
        ([[migration(0)], [topic("t", 0)]], NEVER),
        ([[migration(1)], [topic("t", 0)], [migration(2)], [migration(3)]], DOUBT),
        ([[migration(1)], [topic("t", 0)]], DOUBT),
        ([[migration(1)], [migration(2)], [migration(3)], [topic("t", 0)]], NEVER),
    ],
)
def test_the_log_since_the_creation_tells(tmp_path: Path, records: list[list[Record]], policy: CleanupPolicy) -> None:
    assert policy_of(tmp_path, *records) == policy


def test_a_topic_that_was_made_again_is_another_one(tmp_path: Path) -> None:
    files = {name(0): log(START, [topic("t", 0), POLICY("compact")], [remove_topic(0)], [topic("t", 1)])}
    assert policy_in(tmp_path, files, topic_id=uuid(1)) == NEVER
    assert policy_in(tmp_path, files, topic_id=uuid(0)) == CleanupPolicy(None, ever_compact=True)
    assert policy_in(tmp_path, files, topic_id=uuid(7)) == CleanupPolicy(None, ever_compact=True)


def test_a_snapshot_does_not_tell_what_was_before(tmp_path: Path) -> None:
    files = {
        "00000000000000000010-0000000001.checkpoint": snapshot([topic("t", 0)], contained=TIME),
        name(10): log([topic("u", 1)], [feature("f", 1)], start=10),
    }
    assert policy_in(tmp_path, files) == DOUBT
    found = cluster_settings([str(tmp_path / "t-0")], LIMITS)
    assert without_place(Config({}, clusters=found), "u", LogDir(str(tmp_path))) == NEVER


def test_a_log_that_begins_above_0_without_a_snapshot_tells_what_was_only(tmp_path: Path) -> None:
    files = {name(10): log([topic("t", 0), POLICY("compact")], [POLICY("delete")], start=10)}
    assert policy_in(tmp_path, files) == CleanupPolicy(None, ever_compact=True)


@pytest.mark.parametrize("broken", ["crc", "gone", "cut"])
def test_behind_damage_nothing_is_known_of_now_and_of_never(tmp_path: Path, broken: str) -> None:
    whole = log(START, [topic("t", 0)], [feature("f", 1)], [feature("g", 1)])
    sizes = [len(log(START)), len(log(START, [topic("t", 0)])), len(log(START, [topic("t", 0)], [feature("f", 1)]))]
    damaged = {
        "crc": whole[: sizes[2] - 1] + bytes((whole[sizes[2] - 1] ^ 1,)) + whole[sizes[2] :],
        "gone": whole[: sizes[1]] + whole[sizes[2] :],
        "cut": whole[:-3],
    }[broken]
    assert policy_in(tmp_path, {name(0): damaged}) == UNKNOWN


def test_a_snapshot_behind_damage_tells_what_is_now(tmp_path: Path) -> None:
    one, hit = log(START, [topic("t", 0), POLICY("compact")]), log([POLICY("delete")], start=3)
    rest = log([feature("f", 1)], start=4)
    files = {
        name(0): one + hit[:-1] + bytes((hit[-1] ^ 1,)) + rest,
        "00000000000000000004-0000000001.checkpoint": snapshot([topic("t", 0), POLICY("delete")], contained=TIME),
    }
    assert policy_in(tmp_path, files) == WAS
    unfinished = snapshot([topic("t", 0)], contained=TIME, is_finished=False)
    files["00000000000000000004-0000000001.checkpoint"] = unfinished
    assert policy_in(tmp_path, files) == CleanupPolicy(None, ever_compact=True)


def test_what_the_user_says_of_the_topic_is_known_and_never_takes_back_what_the_log_says(tmp_path: Path) -> None:
    was = [[topic("t", 0), POLICY("compact")], [POLICY(None)]]
    assert policy_of(tmp_path, *was, given={"cleanup.policy": "delete"}) == WAS
    alone, given = LogDir(str(tmp_path / "elsewhere")), {"cleanup.policy": "delete"}
    assert without_place(Config(given), "t", alone) == NEVER
    assert without_place(Config({"log.cleanup.policy": "delete"}), "t", alone) == DOUBT
    assert without_place(Config({"cleanup.policy": "compact"}), "t", alone) == IS
    assert without_place(Config({"retention.ms": "5"}), "t", alone) == DOUBT
    assert without_place(Config({"segment.bytes": "5"}), "t", alone) == UNKNOWN
    assert without_place(Config({}), "t", alone) == UNKNOWN
    assert without_place(Config({}, has_file=True), "t", alone) == DOUBT


def test_topics_of_brokers_are_what_brokers_make() -> None:
    here = LogDir("nowhere")
    assert without_place(Config({}), "__consumer_offsets", here) == IS
    assert without_place(Config({}), "__share_group_state", here) == NEVER
    assert without_place(Config({}), "__cluster_metadata", here) == CleanupPolicy(frozenset(), never_compact=True)


def test_each_log_dir_has_the_cluster_that_is_its_own(tmp_path: Path) -> None:
    for number, policy in enumerate(("compact", "delete")):
        records = log(START, [topic("t", 0), POLICY(policy)])
        meta = f"version=1\ncluster.id=c{number}\nnode.id=1\n".encode()
        write(tmp_path / f"n{number}", {f"__cluster_metadata-0/{name(0)}": records, "meta.properties": meta})
        write(tmp_path / f"more{number}", {"meta.properties": meta, f"t-1/{name(0)}": b""})
    write(tmp_path / "third", {"meta.properties": b"version=1\ncluster.id=c3\n", f"t-1/{name(0)}": b""})
    write(tmp_path / "nobody", {f"t-1/{name(0)}": b""})
    known = Config({}, clusters=cluster_settings([str(tmp_path / one) for one in ("n0", "n1", "more1")], LIMITS))
    found = {one: without_place(known, "t", LogDir(str(tmp_path / one))) for one in ("n0", "n1", "more0", "more1")}
    assert found == {"n0": IS, "n1": NEVER, "more0": IS, "more1": NEVER}
    assert without_place(known, "t", LogDir(str(tmp_path / "third"))) == UNKNOWN
    assert without_place(known, "t", LogDir(str(tmp_path / "nobody"))) == UNKNOWN


def test_partitions_are_counted_once(tmp_path: Path) -> None:
    records = [topic("t", 0), partition(0, 0, [1]), partition(1, 0, [1]), change(1, 0, leader=1)]
    write(tmp_path, {f"__cluster_metadata-0/{name(0)}": log(START, records)})
    assert partition_count("t", [str(tmp_path)], LIMITS) == 2
    assert partition_count("u", [str(tmp_path)], LIMITS) is None


def test_a_real_log_knows_its_topics_since_their_creation() -> None:
    node = str(FIXTURES / "kafka-4.3.1" / "clean" / "node1")
    known = Config({}, clusters=cluster_settings([node], LIMITS))
    found = {one: without_place(known, one, LogDir(node)) for one in ("plain", "compact", "__consumer_offsets")}
    assert found == {"plain": NEVER, "compact": IS, "__consumer_offsets": IS}
