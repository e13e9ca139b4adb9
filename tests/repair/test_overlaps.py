"""An overlap that a broker wrote is left as it is: no base offset is changed against what other files say of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.partitions import checkpoint, name, snapshot, write
from tests.support.runs import run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path


def overlap(root: Path, first: int, second: int, epochs: list[tuple[int, int]] | None, end: int | None) -> None:
    """A log of eight records from 0 on or so, and a batch that begins inside of it; what other files say of its end."""
    parts = [batch(0, [b"old"] * first, epoch=3), batch(second, [b"new"] * 7, epoch=4)]
    files = {name(0): b"".join(parts)}
    if epochs is not None:
        files["leader-epoch-checkpoint"] = checkpoint(*epochs)
    if end is not None:
        files[name(end, "snapshot")] = snapshot()
    write(root / "d" / "events-0", files)


def rows(root: Path, *command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_kdump([*command, "--format", "json"], root).stdout.splitlines()]


@pytest.mark.parametrize(
    ("first", "second", "epochs", "end"),
    [
        (8, 5, [(3, 0), (4, 5)], 12),
        (8, 5, [(3, 0), (4, 5)], None),
        (8, 5, None, 12),
        (8, 5, None, None),
        (5, 4, [(3, 0), (4, 4)], 11),  # one bit would make the second follow the first
        (5, 4, [(3, 0), (4, 4)], 12),  # as a file says too; but an epoch begins with it
        (5, 4, None, 11),
        (5, 4, None, None),
    ],
)
def test_a_base_offset_that_something_bears_out_is_not_changed(
    first: int, second: int, epochs: list[tuple[int, int]] | None, end: int | None, tmp_path: Path
) -> None:
    overlap(tmp_path, first, second, epochs, end)
    found = [one for one in rows(tmp_path, "verify", "d") if one["type"] == "finding" and one["code"] == "O03"]
    assert [one["expected"] for one in found] == [None]
    assert [one["operations"] for one in rows(tmp_path, "patch-header", "d") if one["type"] == "plan"] == [[]]
    made = rows(tmp_path, "salvage", "d/events-0", "--to", "out")
    assert [one for one in made if one["type"] == "patched"] == []
    told = [one for one in made if one["type"] in ("loss", "divergent") and one["records"] == 7]
    assert len(told) == 1  # the seven records are not in the result, and not in silence


def test_a_base_offset_that_another_file_contradicts_is_put_right(tmp_path: Path) -> None:
    overlap(tmp_path, 5, 4, None, 12)
    made = rows(tmp_path, "salvage", "d/events-0", "--to", "out")
    assert [(one["from"], one["to"]) for one in made if one["type"] == "patched"] == [(4, 5)]
