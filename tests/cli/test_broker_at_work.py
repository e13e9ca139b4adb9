"""While a broker appends to a log, what stands at its end is no damage: one predicate, and every verb asks it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.partitions import below, checkpoint, meta, name, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch
from tests.support.verify_runs import held

if TYPE_CHECKING:
    from pathlib import Path

VERBS = {
    "verify": ["verify", "data"],
    "dump": ["dump", "data/t-0"],
    "dump --committed": ["dump", "--committed", "data/t-0"],
    "dump --fate": ["dump", "--fate", "--set", "cleanup.policy=delete", "data/t-0"],
    "dump --fate of keys": ["dump", "--fate", "--set", "cleanup.policy=compact", "data/t-0"],
    "find-offset": ["find-offset", "data/t-0", "latest"],
    "find-offset --scan": ["find-offset", "data/t-0", "2", "--scan"],
    "find-time": ["find-time", "data/t-0", "max"],
    "retention": ["retention", "data", "--set", "cleanup.policy=delete"],
    "du": ["du", "data"],
    "du --by key": ["du", "data", "--by", "key"],
    "groups": ["groups", "data/__consumer_offsets-0"],
    "transactions": ["transactions", "data/__transaction_state-0", "--hanging"],
    "cluster": ["cluster", "data"],
    "salvage": ["salvage", "data", "--to", "out"],
    "export": ["export", "data", "--table", "records", "--to", "rows"],
}
NEXT = batch(3, [b"w" * 400])
ENDS = {
    "space that was taken in advance": bytes(4096),
    "a batch that is not whole": NEXT[:120],
    "some bytes of a header": NEXT[:9],
    "a batch that is not whole, and space behind it": NEXT[:120] + bytes(2000),
}
EMPTY = ("__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0")


def log_dir(root: Path, end: str) -> None:
    """A log.dir without a clean stop: the last log of t-0 ends so, and those of Kafka's topics are space only."""
    record = Record(key=b"k", value=b"v")
    logs = segment(0, [batch(0, [record])]) | segment(1, [batch(1, [record]), batch(2, [record])])
    logs[name(1)] += ENDS[end]
    files = {"data/meta.properties": meta(1), "data/.lock": b""}
    for partition, data in (("t-0", logs), *((one, {name(0): bytes(500)}) for one in EMPTY)):
        files |= below(f"data/{partition}", data | {"leader-epoch-checkpoint": checkpoint((0, 0))})
    write(root, files)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("verb", VERBS)
def test_the_end_of_a_log_that_a_broker_appends_to_is_no_damage(verb: str, end: str, tmp_path: Path) -> None:
    log_dir(tmp_path, end)
    with held(tmp_path / "data"):
        run = run_kdump([*VERBS[verb]], tmp_path)
    said = (run.stdout + run.stderr).decode()
    assert run.exit in (0, 10), said  # 10: nothing in empty logs
    assert "error" not in said.replace("errors=0", "").replace('"errors":0', "")
    assert "not searched" not in said
    assert "cannot be read" not in said


@pytest.mark.parametrize("end", ENDS)
def test_where_nobody_holds_the_log_directory_the_same_end_is_damage(end: str, tmp_path: Path) -> None:
    log_dir(tmp_path, end)
    for verb in ("verify", "dump", "salvage"):
        found = run_kdump([*VERBS[verb], "--format", "json"], tmp_path)
        rows = [json.loads(line) for line in found.stdout.splitlines()]
        if verb == "salvage":
            assert not any(row["type"] == "salvage" and row["copies"][:1] == [{"state": "whole"}] for row in rows)
        else:
            assert any(row.get("severity") == "error" and row["file"].endswith(name(1)) for row in rows)


def test_zeros_at_the_end_of_a_closed_segment_are_damage_while_a_broker_runs_too(tmp_path: Path) -> None:
    log_dir(tmp_path, "a batch that is not whole")
    first = tmp_path / "data" / "t-0" / name(0)
    first.write_bytes(first.read_bytes() + bytes(4096))
    with held(tmp_path / "data"):
        run = run_kdump(["verify", "data/t-0", "--format", "json"], tmp_path)
    codes = {
        row["code"]: row["severity"] for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "finding"
    }
    assert (codes["L03"], codes["V03"]) == ("error", "note")
