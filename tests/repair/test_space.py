"""Bytes behind the last batch of a closed log, for which no offset is left: that log alone is cut, nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kdump.finding import Code, Finding
from kdump.repair.truncate import LogDamage
from tests.support.make_fixtures import topic_id
from tests.support.partitions import Files, below, checkpoint, meta, name, segment, snapshot, write
from tests.support.runs import run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

PARTS = {base: [batch(at, [b"v%d" % at]) for at in range(base, base + 4)] for base in (0, 4, 8)}


TORN = batch(4, [b"w" * 300])
ENDS = {
    "zeros": bytes(60_000),
    "few zeros": bytes(3),
    "a torn batch": TORN[:100],
    "a torn one, and zeros": TORN[:100] + bytes(900),
}


def data(*loose: int, end: bytes = bytes(60_000), without: tuple[int, ...] = ()) -> Files:
    """A log.dir with a partition of three segments; some logs end so, and some batches are not there."""
    files: Files = {}
    for base, parts in PARTS.items():
        files |= segment(base, [part for at, part in enumerate(parts, base) if at not in without], interval=1)
        files[name(base)] += end if base in loose else b""
    files |= topic_id("C") | {"leader-epoch-checkpoint": checkpoint((0, 0)), name(12, "snapshot"): snapshot()}
    beside = {"meta.properties": meta(1), ".kafka_cleanshutdown": b""}
    return below("data", below("users-0", files) | beside)


def rows(root: Path, *command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_kdump([*command, "--format", "json"], root).stdout.splitlines()]


@pytest.mark.parametrize("loose", [(0,), (4,), (0, 4)])
@pytest.mark.parametrize("end", ENDS)
def test_the_steps_cut_these_logs_alone_and_all_is_clean_then(loose: tuple[int, ...], end: str, tmp_path: Path) -> None:
    write(tmp_path, data(*loose, end=ENDS[end]))
    steps = [row["command"] for row in rows(tmp_path, "verify", "data") if row["type"] == "step" and row["command"]]
    cuts = [f"kdump truncate data/users-0/{name(base)} --at-damage" for base in loose]
    assert steps == (["kdump repair data/users-0"] if end == "zeros" else cuts)
    for number, step in enumerate(steps):
        more = ["--apply", "--quarantine", f"q{number}"]
        is_last = step == steps[-1]
        assert run_kdump([*step.split()[1:], *more], tmp_path).exit == (0 if is_last else 3)
    found = rows(tmp_path, "verify", "data", "--start", "all")
    assert [
        row for row in found if row.get("severity") in ("error", "warning") or row["type"] in ("loss", "step")
    ] == []
    assert {(row["loads"], row["logEndOffset"]) for row in found if row["type"] == "prediction"} == {(True, 12)}
    for base, parts in PARTS.items():
        assert (tmp_path / "data" / "users-0" / name(base)).read_bytes() == b"".join(parts)


@pytest.mark.parametrize("case", [data(0, without=(3,)), data(8)], ids=["a hole behind them", "the last segment"])
def test_where_the_next_log_does_not_go_on_at_the_zeros_the_cut_is_that_of_damage(case: Files, tmp_path: Path) -> None:
    write(tmp_path, case)
    plan = next(row for row in rows(tmp_path, "truncate", "data/users-0", "--at-damage") if row["type"] == "plan")
    whole = "--with-later-segments" in run_kdump(["truncate", "data/users-0", "--at-damage"], tmp_path).stdout.decode()
    assert whole == any(one["action"] == "delete" and one["file"].endswith(".log") for one in plan["operations"])


def test_damage_before_the_zeros_keeps_its_own_steps(tmp_path: Path) -> None:
    files = data(0, 4)
    path = f"data/users-0/{name(4)}"
    files[path] = files[path][:30] + b"\xff" + files[path][31:]
    write(tmp_path, files)
    commands = [row["command"] for row in rows(tmp_path, "verify", "data") if row["type"] == "step"]
    assert "kdump repair data/users-0" in commands
    planned = [row for row in rows(tmp_path, "repair", "data/users-0") if row["type"] == "plan"]
    assert [(row["kind"], row["operations"][0]["file"]) for row in planned] == [("zeros", name(0))]
    assert f"kdump truncate data/users-0/{name(4)} --at-damage" not in commands


def test_an_intact_batch_between_damage_and_what_patch_header_mends_is_no_loose_end() -> None:
    damage = LogDamage("users-0")
    log = f"users-0/{name(0)}"
    damage.see(Finding(Code.L09, log, 100, 50, gap=True))
    damage.see(Finding(Code.O03, log, 300, 80, field="baseOffset", found=1, expected=3))
    damage.see(Finding(Code.L03, log, 300, 100, gap=True))
    assert not damage.reaches_end(0, 400)
    assert damage.reaches_end(0, 150)
