"""An overlap that a broker wrote is left as it is: no base offset is changed against what other files say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.partitions import Files, below, checkpoint, marker, name, segment, snapshot, write
from tests.support.runs import run_kdump
from tests.support.segments import TRANSACTIONAL, batch

EPOCHS = checkpoint((0, 0))


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
    lost = [one["offset"] for one in rows(tmp_path, "verify", "d") if one["type"] == "loss"]
    assert lost == list(range(second + 7, end or 0))  # what lies behind the overlap, if a file knows of that
    assert [one["operations"] for one in rows(tmp_path, "patch-header", "d") if one["type"] == "plan"] == [[]]
    made = rows(tmp_path, "salvage", "d/events-0", "--to", "out")
    assert [one for one in made if one["type"] == "patched"] == []
    assert [one["offset"] for one in made if one["type"] in ("loss", "divergent")] == lost
    log = Path("events-0", name(0))
    assert (tmp_path / "out" / log).read_bytes() == (tmp_path / "d" / log).read_bytes()
    assert [one["offset"] for one in made if one["type"] == "kept"] == [0, second]


@pytest.mark.parametrize("verb", [["truncate", "d/events-0", "--at-damage"], ["reindex", "d"], ["patch-header", "d"]])
def test_no_command_takes_an_overlap_away(verb: list[str], tmp_path: Path) -> None:
    overlap(tmp_path, 8, 5, None, None)
    run = run_kdump(verb, tmp_path)
    assert b"nothing to do" in run.stdout or b".log" not in run.stdout


def test_an_overlap_in_the_middle_is_kept_with_what_follows_it(tmp_path: Path) -> None:
    parts = [batch(0, [b"a"] * 20), batch(15, [b"b"] * 10, epoch=1), batch(25, [b"c"] * 5, epoch=1)]
    files = {
        name(0): b"".join(parts),
        "leader-epoch-checkpoint": checkpoint((0, 0), (1, 15)),
        name(30, "snapshot"): snapshot(),
    }
    for copy in ("a", "b"):
        write(tmp_path / copy / "events-0", files)
    found = [one for one in rows(tmp_path, "verify", "a") if one["type"] in ("finding", "loss")]
    assert [(one["type"], one.get("code"), one["offset"]) for one in found if one.get("severity") != "note"] == [
        ("finding", "O03", 15),
        ("finding", "O08", 15),
    ]
    made = rows(tmp_path, "salvage", "a", "b", "--to", "out")
    assert [(one["offset"], one["lastOffset"], one["sources"]) for one in made if one["type"] == "kept"] == [
        (0, 19, 2),
        (15, 29, 2),
    ]
    assert (tmp_path / "out" / "events-0" / name(0)).read_bytes() == files[name(0)]


def test_a_batch_that_one_bit_would_make_follow_has_no_place_where_nothing_bears_it_out(tmp_path: Path) -> None:
    """Base offset 8 where 9 would follow, and a hole behind: a flipped bit explains it as well as a broker does."""
    write(tmp_path / "d" / "events-0", {name(0): batch(0, [b"a"] * 9) + batch(8, [b"b"] * 7) + batch(40, [b"c"])})
    made = rows(tmp_path, "salvage", "d/events-0", "--to", "out")
    assert [(one["offset"], one["lastOffset"]) for one in made if one["type"] == "kept"] == [(0, 8), (40, 40)]


def test_a_base_offset_that_another_file_contradicts_is_put_right(tmp_path: Path) -> None:
    overlap(tmp_path, 5, 4, None, 12)
    made = rows(tmp_path, "salvage", "d/events-0", "--to", "out")
    assert [(one["from"], one["to"]) for one in made if one["type"] == "patched"] == [(4, 5)]


@pytest.mark.parametrize("index", [{}, {name(0, "txnindex"): b""}], ids=["no index", "an empty one"])
@pytest.mark.parametrize("twice", [[batch(2, [b"d"])], [batch(1, [b"d"] * 3)]], ids=["inside", "over the end"])
def test_an_abort_that_the_index_lacks_is_found_beside_offsets_that_are_there_twice(
    twice: list[bytes], index: Files, tmp_path: Path
) -> None:
    """The append to the index failed behind the marker, the end did not move, and the next batch took its offset."""
    aborted = [batch(0, [b"x", b"y"], flags=TRANSACTIONAL, producer=(7, 0, 0)), marker(2, (7, 0), commit=False)]
    is_over = len(twice[0]) > 75
    rest = [batch(4 if is_over else 3, [b"z"])]
    write(tmp_path, below("d/t-0", segment(0, [*aborted, *twice, *rest]) | index | {"leader-epoch-checkpoint": EPOCHS}))
    found = rows(tmp_path, "verify", "d")
    assert [row["code"] for row in found if row.get("severity") == "error"] == ["O03", "O08", "A04"]
    assert [row["command"].split()[1] for row in found if row["type"] == "step" and row["command"]] == ["repair"]
    planned = [row for row in rows(tmp_path, "repair", "d/t-0") if row["type"] == "plan"]
    assert [(row["kind"], row["operations"][0]["file"]) for row in planned] == [("index", name(0, "txnindex"))]
    made = rows(tmp_path, "salvage", "d/t-0", "--to", "out")
    records = sum(row["records"] for row in made if row["type"] in ("kept", "divergent"))
    assert records == 2 + 1 + (3 if is_over else 1) + 1
