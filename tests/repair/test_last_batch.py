"""The base offset of the last batch of a log: the batch before it and what other files know of the end determine it."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.healing import batches
from tests.support.partitions import checkpoint, name, segment, snapshot, write
from tests.support.runs import run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

PARTS = [batch(at, [b"v", b"w"], base_timestamp=1000 + at) for at in range(0, 20, 2)]
BIT = 1 << 20
OTHERS = {
    "time index": {},
    "snapshot": {f"plain-0/{20:020}.snapshot": snapshot()},
    "recovery point": {"recovery-point-offset-checkpoint": b"0\n1\nplain 0 20\n"},
    "high watermark": {"replication-offset-checkpoint": b"0\n1\nplain 0 20\n"},
}
MORE = {
    "snapshot": {f"plain-0/{18 + BIT + 2:020}.snapshot": snapshot()},
    "recovery point": {"recovery-point-offset-checkpoint": b"0\n1\nplain 0 %d\n" % (18 + BIT + 2)},
}


def log_dir(root: Path, others: dict[str, bytes], *, wrong: int = BIT, has_times: bool = False, base: int = 0) -> Path:
    """A partition whose last batch has other bits in its base offset, in a segment that begins at `base`."""
    last = bytearray(PARTS[-1])
    struct.pack_into(">q", last, 0, 18 ^ wrong)
    before, parts = PARTS[: base // 2], PARTS[base // 2 :]
    files = segment(base, parts) | {name(base): b"".join([*parts[:-1], bytes(last)])}
    if not has_times:
        files[name(base, "timeindex")] = b""
    if base:
        files |= segment(0, before) | {name(base, "snapshot"): snapshot()}
    files["leader-epoch-checkpoint"] = checkpoint((0, 0))
    write(root / "plain-0", files)
    write(root, others)
    return root


def rows(root: Path, *command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_kdump([*command, "--format", "json"], root).stdout.splitlines()]


def told(root: Path) -> list[tuple[str, Any]]:
    found = rows(root, "verify", "d")
    return [(one["code"], one["expected"]) for one in found if one["type"] == "finding" and one["severity"] == "error"]


@pytest.mark.parametrize("base", [0, 10, 18])
@pytest.mark.parametrize("witness", OTHERS)
def test_one_wrong_bit_in_the_last_base_offset_is_restored_where_another_file_knows_the_end(
    witness: str, base: int, tmp_path: Path
) -> None:
    log_dir(tmp_path / "d", OTHERS[witness], has_times=witness == "time index", base=base)
    assert told(tmp_path) == [("O03", 18)]
    assert [one for one in rows(tmp_path, "verify", "d") if one["type"] == "loss"] == []
    [plan] = [one for one in rows(tmp_path, "patch-header", "d") if one["type"] == "plan"]
    assert (plan["logEndOffset"], plan["offsetsLost"]) == (20, 0)
    made = rows(tmp_path, "salvage", "d/plain-0", "--to", "out")
    assert [(one["field"], one["from"], one["to"]) for one in made if one["type"] == "patched"] == [
        ("baseOffset", 18 ^ BIT, 18)
    ]
    assert batches(tmp_path / "out" / "plain-0") == dict(zip(range(0, 20, 2), PARTS, strict=True))
    done = run_kdump(["patch-header", "d", "--apply", "--plan-id", plan["planId"], "--quarantine", "q"], tmp_path)
    assert done.exit == 0, done.stderr
    assert batches(tmp_path / "d" / "plain-0") == dict(zip(range(0, 20, 2), PARTS, strict=True))


@pytest.mark.parametrize("witness", MORE)
def test_a_file_that_knows_a_later_end_bears_the_last_base_offset_out(witness: str, tmp_path: Path) -> None:
    log_dir(tmp_path / "d", MORE[witness], has_times=True)
    assert told(tmp_path) == [("T04", 1018)]  # the time index is of the other offset
    made = rows(tmp_path, "salvage", "d/plain-0", "--to", "out")
    assert [one for one in made if one["type"] == "patched"] == []


@pytest.mark.parametrize(("wrong", "others"), [(BIT, {}), (BIT | 1 << 9, OTHERS["snapshot"])])
def test_what_no_other_file_or_no_single_bit_tells_is_not_restored(
    wrong: int, others: dict[str, bytes], tmp_path: Path
) -> None:
    log_dir(tmp_path / "d", others, wrong=wrong)
    assert ("O03", 18) not in told(tmp_path)
    [plan] = [one for one in rows(tmp_path, "patch-header", "d") if one["type"] == "plan"]
    assert plan["operations"] == []
