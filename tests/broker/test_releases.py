"""Brokers of the releases differ where one table says so, and nowhere else."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.releases import RELEASES, TABLE, Rules, rules_of
from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NODE = FIXTURES / "kafka-4.4.0" / "clean" / "node1"
PARSE = "org.apache.kafka.server.common.serialization.MetadataParseException"
ILLEGAL = "java.lang.IllegalArgumentException"


def rows(args: Sequence[object], cwd: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_kdump([*map(str, args), "--format", "json"], cwd).stdout.splitlines()]


def predictions(args: Sequence[object], cwd: Path) -> list[dict[str, Any]]:
    return [row for row in rows(["verify", *args], cwd) if row["type"] == "prediction"]


def test_every_rule_has_releases_and_a_source() -> None:
    assert set(TABLE) | {"release"} == set(Rules.__annotations__)
    for name, rule in TABLE.items():
        assert rule.source, name
        assert RELEASES[0] in rule.values, name
        assert set(rule.values) <= set(RELEASES), name
        assert len(set(rule.values.values())) > 1, f"{name}: the same in all releases is no rule"


def test_the_newest_release_is_taken_and_said(tmp_path: Path) -> None:
    tree = shutil.copytree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logs")
    assert (
        "a broker of Kafka 4.4, the newest known; --broker names another"
        in predictions(["--start", "clean", tree], tmp_path)[0]["assumed"]
    )
    named = predictions(["--start", "clean", "--broker", "4.4", tree], tmp_path)[0]
    assert not any("newest" in one for one in named["assumed"])
    assert rules_of() == rules_of("4.4")


@pytest.mark.parametrize(
    ("version", "refusing"),
    [(b"\0\1", ["4.4"]), (b"\xff\xfe", ["4.4"]), (b"\x80\0", ["4.4"]), (b"\1\0", list(RELEASES))],
    ids=["0001", "fffe", "8000", "0100"],
)
def test_what_version_of_an_aborted_transaction_a_release_loads(
    version: bytes, refusing: list[str], tmp_path: Path
) -> None:
    tree = shutil.copytree(FIXTURES / "damage" / "intact" / "txn" / "logdir", tmp_path / "logs")
    index = next(path for path in sorted(tree.glob("*-0/*.txnindex")) if path.stat().st_size)
    data = index.read_bytes()
    index.write_bytes(version + data[2:])
    found = [
        release
        for release in RELEASES
        if not predictions(["--start", "clean", "--broker", release, index.parent], tmp_path)[0]["loads"]
    ]
    assert found == refusing


# What nodes of 4.3.1, 4.2.1 and 3.9.2 did with such a directory of 4.4.0.
@pytest.mark.parametrize(("release", "java_class"), [("3.9", PARSE), ("4.2", PARSE), ("4.3", ILLEGAL), ("4.4", None)])
def test_a_rollback_ends_at_records_and_levels_that_the_release_has_not(
    release: str, java_class: str | None, tmp_path: Path
) -> None:
    tree = shutil.copytree(NODE, tmp_path / "node1")
    for row in predictions(["--start", "all", "--broker", release, tree], tmp_path):
        assert row["reasonClass"] == java_class
        assert row["stops"] == (None if java_class is None else "broker")


def test_a_rollback_names_the_level_that_is_too_new(tmp_path: Path) -> None:
    row = predictions(["--start", "clean", "--broker", "4.3", NODE], tmp_path)[0]
    assert "metadata.version 33 (4.4-IV2) is not one of Kafka 4.3, which has 7 to 30" in row["reason"]
