"""A wrong bit in the leader epoch of the first or the last batch of a segment, in every intact partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.format.batch import layout
from kdump.repair.patch_header import WrongHeaders, plan_partition_patches
from tests.support.runs import FIXTURES, copy_tree, run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTACT = FIXTURES / "damage" / "intact"
BITS = (0, 1, 9, 31)


def segments() -> Iterator[tuple[str, str, bool]]:
    """Fixture, log, and whether it is the last one of its partition."""
    for fixture in sorted(INTACT.iterdir()):
        if not fixture.name.startswith("legacy"):  # these have no leader epochs
            logs = sorted((fixture / "logdir").glob("*/*.log"))
            yield from ((fixture.name, str(log.relative_to(fixture / "logdir")), log is logs[-1]) for log in logs)


def ends_of(data: bytes) -> tuple[int, int]:
    """Where the first and the last batch of a log begin."""
    at = last = 0
    while at < len(data):
        last = at
        at += layout.LOG_OVERHEAD + int.from_bytes(data[at + layout.SIZE_AT : at + layout.LOG_OVERHEAD], "big")
    return 0, last


def flipped(data: bytes, batch: int, bit: int) -> bytes:
    """The log with one bit of the leader epoch of a batch flipped."""
    at = batch + layout.LEADER_EPOCH_AT + 3 - bit // 8
    return data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :]


def patched(log: Path) -> tuple[bytes, list[str | None], int]:
    """The log as patch-header leaves it, the commands of the steps of verify, and how many losses it tells."""
    judged, data = kdump.verify([log.parent]), bytearray(log.read_bytes())
    wrong = WrongHeaders(str(log.parent))
    for finding in judged.findings:
        wrong.see(finding)
    plan = plan_partition_patches(str(log.parent), wrong)
    assert not plan.refused
    for change in plan.changes:
        assert change.name == log.name
        for patch in change.patches:
            data[patch.position : patch.position + len(patch.new)] = patch.new
    return bytes(data), [step.command for step in judged.steps], len(judged.losses)


@pytest.mark.parametrize(("fixture", "path", "is_last_log"), list(segments()))
def test_a_wrong_epoch_at_a_border_of_logs_is_restored_and_costs_no_record(
    fixture: str, path: str, is_last_log: bool, tmp_path: Path
) -> None:
    log = copy_tree(INTACT / fixture / "logdir", tmp_path / "logs") / path
    intact = log.read_bytes()
    losses = len(kdump.verify([log.parent]).losses)
    first, last = ends_of(intact)
    for batch in (first, last):
        for bit in BITS:
            log.write_bytes(flipped(intact, batch, bit))
            result, commands, lost = patched(log)
            assert lost == losses
            if (is_last_log and batch == last) and result != intact:
                assert result == log.read_bytes()  # a new epoch looks the same: another replica tells
                assert commands == [None]
            else:
                assert result == intact
                assert commands == [f"kdump patch-header {log}"]


@pytest.mark.parametrize("batch", ["first", "last"])
def test_a_wrong_epoch_at_a_border_of_logs_is_restored_by_salvage(batch: str, tmp_path: Path) -> None:
    log = copy_tree(INTACT / "none" / "logdir", tmp_path / "logs") / "plain-0" / "00000000000000000119.log"
    intact = log.read_bytes()
    log.write_bytes(flipped(intact, ends_of(intact)[batch == "last"], 2))
    assert run_kdump(["salvage", "logs", "--to", "out"], tmp_path).exit == 0
    assert (tmp_path / "out" / "plain-0" / log.name).read_bytes() == intact


def test_what_another_replica_has_tells_whether_a_batch_or_the_checkpoint_is_wrong(tmp_path: Path) -> None:
    log = copy_tree(INTACT / "none" / "logdir", tmp_path / "logs") / "plain-0" / "00000000000000000240.log"
    intact = log.read_bytes()
    log.write_bytes(flipped(intact, ends_of(intact)[1], 0))
    (step,) = kdump.verify([log.parent]).steps
    assert "E03 epoch-checkpoint: see what another replica has, kdump verify --replicas" in step.why
    (tmp_path / "logs").rename(tmp_path / "one")
    copy_tree(INTACT / "none" / "logdir", tmp_path / "other")
    told = run_kdump(["verify", "--replicas", "one", "other"], tmp_path).stdout
    assert b"D01" in told
    assert b"leader epoch" in told
