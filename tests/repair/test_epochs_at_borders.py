"""A wrong bit in the leader epoch of the first or the last batch of a segment, in every intact partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.finding import Code
from kdump.format.batch import layout
from kdump.repair.patch_header import WrongHeaders, plan_partition_patches
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.step_runs import acts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTACT = FIXTURES / "damage" / "intact"
BITS = (0, 1, 9, 31)


def segments() -> Iterator[tuple[str, str]]:
    """Fixture and log."""
    for fixture in sorted(INTACT.iterdir()):
        if not fixture.name.startswith("legacy"):  # these have no leader epochs
            logs = sorted((fixture / "logdir").glob("*/*.log"))
            yield from ((fixture.name, str(log.relative_to(fixture / "logdir"))) for log in logs)


def starts_of(data: bytes) -> list[int]:
    """Where the batches of a log begin."""
    at, found = 0, []
    while at < len(data):
        found.append(at)
        at += layout.LOG_OVERHEAD + int.from_bytes(data[at + layout.SIZE_AT : at + layout.LOG_OVERHEAD], "big")
    return found


def ends_of(data: bytes) -> tuple[int, int]:
    """Where the first and the last batch of a log begin."""
    return 0, starts_of(data)[-1]


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
    return bytes(data), [step.command for step in acts(judged.steps)], len(judged.losses)


@pytest.mark.parametrize(("fixture", "path"), list(segments()))
def test_a_wrong_epoch_at_a_border_of_logs_is_restored_and_costs_no_record(
    fixture: str, path: str, tmp_path: Path
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
            assert result == intact  # of the last one of all too: a broker has a new epoch in the checkpoint before
            assert commands == [f"kdump repair {log.parent}"]


LAST = "00000000000000000240.log"


@pytest.mark.parametrize("name", ["00000000000000000119.log", LAST])
@pytest.mark.parametrize("batch", ["first", "last"])
def test_a_wrong_epoch_at_a_border_of_logs_is_restored_by_salvage(batch: str, name: str, tmp_path: Path) -> None:
    log = copy_tree(INTACT / "none" / "logdir", tmp_path / "logs") / "plain-0" / name
    intact, checkpoint = log.read_bytes(), (log.parent / "leader-epoch-checkpoint").read_bytes()
    log.write_bytes(flipped(intact, ends_of(intact)[batch == "last"], 2))
    run = run_kdump(["salvage", "logs", "--to", "out", "--format", "json"], tmp_path)
    assert run.exit == 0
    assert b'"type": "patched"' in run.stdout or b'"type":"patched"' in run.stdout
    assert (tmp_path / "out" / "plain-0" / log.name).read_bytes() == intact
    assert (tmp_path / "out" / "plain-0" / "leader-epoch-checkpoint").read_bytes() == checkpoint


def salvaged(where: Path, *sources: str) -> str:
    """What salvage says."""
    run = run_kdump(["salvage", *sources, "--to", "out"], where)
    assert run.exit == 0
    return run.stdout.decode() + run.stderr.decode()


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_salvage_says_which_newest_epoch_nothing_bears_out(has_checkpoint: bool, tmp_path: Path) -> None:
    """Of two batches that agree nobody knows whether they or the checkpoint are wrong; without one, of one alone."""
    log = copy_tree(INTACT / "none" / "logdir", tmp_path / "logs") / "plain-0" / LAST
    intact = log.read_bytes()
    *_, before, last = starts_of(intact)
    wrong = flipped(intact, last, 3)
    log.write_bytes(flipped(wrong, before, 3) if has_checkpoint else wrong)
    if not has_checkpoint:
        (log.parent / "leader-epoch-checkpoint").unlink()
    assert "compare with what another replica has" in salvaged(tmp_path, "logs")


def test_a_checkpoint_of_another_copy_that_goes_on_tells_that_the_own_one_is_older(tmp_path: Path) -> None:
    """The last batch is of a new epoch: the copy whose checkpoint was saved before is not wrong."""
    for name in ("one", "other"):
        log = copy_tree(INTACT / "none" / "logdir", tmp_path / name) / "plain-0" / LAST
        intact = log.read_bytes()
        last = starts_of(intact)[-1]
        log.write_bytes(flipped(intact, last, 3))
    checkpoint = tmp_path / "other" / "plain-0" / "leader-epoch-checkpoint"
    version, count, *entries = checkpoint.read_text().split("\n")[:-1]
    first = int.from_bytes(intact[last : last + 8], "big")
    newest = int.from_bytes(log.read_bytes()[last + 12 : last + 16], "big")
    lines = [version, str(int(count) + 1), *entries, f"{newest} {first}"]
    checkpoint.write_text("\n".join(lines) + "\n")
    assert "compare with" not in salvaged(tmp_path, "one", "other")
    assert (tmp_path / "out" / "plain-0" / LAST).read_bytes() == log.read_bytes()


def test_what_another_replica_has_tells_whether_a_batch_or_the_checkpoint_is_wrong(tmp_path: Path) -> None:
    log = copy_tree(INTACT / "none" / "logdir", tmp_path / "logs") / "plain-0" / "00000000000000000240.log"
    intact = log.read_bytes()
    *_, before, last = starts_of(intact)
    log.write_bytes(flipped(flipped(intact, before, 0), last, 0))  # two batches agree: of one the checkpoint tells
    (step,) = acts(kdump.verify([log.parent]).steps)
    assert step.command == f"kdump repair {log.parent}"  # it goes by the batches, several of which agree
    (finding,) = (one for one in kdump.verify([log.parent]).findings if one.code is Code.E03)
    assert "see what another replica has, kdump verify --replicas" in finding.remedy
    (tmp_path / "logs").rename(tmp_path / "one")
    copy_tree(INTACT / "none" / "logdir", tmp_path / "other")
    told = run_kdump(["verify", "--replicas", "one", "other"], tmp_path).stdout
    assert b"D01" in told
    assert b"leader epoch" in told
