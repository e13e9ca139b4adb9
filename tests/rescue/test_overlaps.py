"""Offsets that are there twice, at a segment roll, one behind the other, below a name: all of it is kept as it is.

A segment has for its name the log end offset, or its first offset where that is higher: a new leader's batch that
begins in the log before is the first of its segment, below its name. Source: LocalLog.roll.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.partitions import Files, below, checkpoint, name, segment, snapshot, write
from tests.support.segments import batch, message
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path


def part(first: int, last: int, epoch: int, note: str = "") -> bytes:
    return batch(first, [f"{note}{epoch}-{at}".encode() for at in range(first, last + 1)], epoch=epoch)


def rows(root: Path, *command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_kdump([*command, "--format", "json"], root).stdout.splitlines()]


def log_dir(root: Path, files: Files, epochs: list[tuple[int, int]] | None, end: int | None) -> None:
    if epochs is not None:
        files = files | {"leader-epoch-checkpoint": checkpoint(*epochs)}
    if end is not None:
        files = files | {name(end, "snapshot"): snapshot()}
        write(root / "d", {"recovery-point-offset-checkpoint": checkpoint(("events", 0, end))})
    write(root, below("d/events-0", files))


def assert_kept(root: Path, records: int, codes: list[str] | None = None) -> None:
    """Nothing is lost, changed or cut, by any verb; salvage writes all records at the offsets that they have."""
    before = {log.name: log.read_bytes() for log in sorted((root / "d/events-0").glob("*.log"))}
    found = rows(root, "verify", "d")
    told = [one["code"] for one in found if one["type"] == "finding" and one["severity"] != "note"]
    assert set(told) == {"O03"}, told
    assert [one for one in found if one["type"] in ("loss", "step")] == []
    if codes is not None:
        assert told == codes
    assert [one["operations"] for one in rows(root, "patch-header", "d") if one["type"] == "plan"] == [[]]
    made = rows(root, "salvage", "d", "--to", "out")
    assert {one["type"] for one in made} <= {"kept", "salvage", "copy", "step", "note", "summary", "partition"}, made
    assert sum(one["records"] for one in made if one["type"] == "kept") == records
    after = sorted((root / "out/events-0").glob("*.log"))
    assert b"".join(log.read_bytes() for log in after) == b"".join(before.values())
    again = [one["code"] for one in rows(root, "verify", "out") if one["type"] == "finding"]
    assert set(again) == {"O03"}, again


# --- at a roll ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("epochs", [[(0, 0), (3, 2)], None], ids=["epochs", "no epochs"])
@pytest.mark.parametrize("end", [7, None], ids=["end", "no end"])
def test_the_first_batch_of_a_segment_may_begin_in_the_one_before(
    epochs: list[tuple[int, int]] | None, end: int | None, tmp_path: Path
) -> None:
    log_dir(tmp_path, segment(0, [part(0, 3, 0)]) | segment(4, [part(2, 6, 3)]), epochs, end)
    assert_kept(tmp_path, 9, ["O03"])


def test_others_and_segments_may_follow_it(tmp_path: Path) -> None:
    files = segment(0, [part(0, 3, 0)]) | segment(4, [part(2, 6, 3), part(7, 8, 3)]) | segment(9, [part(9, 10, 3)])
    log_dir(tmp_path, files, [(0, 0), (3, 2)], 11)
    assert_kept(tmp_path, 13, ["O03"])
    logs = sorted(log.name for log in (tmp_path / "out/events-0").glob("*.log"))
    assert logs == [name(0), name(4), name(9)]  # the result has the names that a broker gives


def test_replicas_that_agree_on_it_are_one(tmp_path: Path) -> None:
    files = segment(0, [part(0, 3, 0)]) | segment(4, [part(2, 6, 3), part(7, 8, 3)])
    for copy in ("a", "b"):
        write(tmp_path, below(f"{copy}/events-0", files | {"leader-epoch-checkpoint": checkpoint((0, 0), (3, 2))}))
    made = rows(tmp_path, "salvage", "a", "b", "--to", "out")
    assert [(one["offset"], one["lastOffset"], one["sources"]) for one in made if one["type"] == "kept"] == [
        (0, 3, 2),
        (2, 8, 2),
    ]
    assert not [one for one in made if one["type"] in ("patched", "divergent", "loss")]


def test_a_first_batch_with_a_flipped_bit_is_still_put_right(tmp_path: Path) -> None:
    wrong = (96).to_bytes(8, "big") + part(100, 104, 0)[8:]  # the next one goes on behind the true one
    log_dir(tmp_path, segment(0, [part(0, 99, 0)]) | segment(100, [wrong, part(105, 106, 0)]), None, None)
    made = rows(tmp_path, "salvage", "d", "--to", "out")
    assert [(one["from"], one["to"]) for one in made if one["type"] == "patched"] == [(96, 100)]


def test_a_first_batch_that_lies_all_below_the_name_has_a_wrong_offset(tmp_path: Path) -> None:
    """A broker does not load it: no index of the segment can have it."""
    wrong = (36).to_bytes(8, "big") + part(100, 104, 0)[8:]
    log_dir(tmp_path, segment(0, [part(0, 99, 0)]) | segment(100, [wrong]), None, None)
    found = [one["code"] for one in rows(tmp_path, "verify", "d") if one["type"] == "finding"]
    assert "O01" in found


# --- one behind the other -----------------------------------------------------------------------------------
CHAINS = {
    "two": ([(0, 7, 0), (5, 11, 2), (10, 15, 4)], [(0, 0), (2, 5), (4, 10)]),
    "and more": ([(0, 7, 0), (5, 11, 2), (10, 15, 4), (16, 17, 4)], [(0, 0), (2, 5), (4, 10)]),
    "three": ([(0, 7, 0), (5, 11, 2), (12, 13, 2), (11, 16, 4), (13, 20, 7)], [(0, 0), (2, 5), (4, 11), (7, 13)]),
    "the last is lower": ([(0, 7, 0), (5, 11, 2), (4, 15, 4)], [(0, 0), (4, 4)]),
    "at one bit": ([(0, 0, 0), (0, 3, 2), (0, 5, 3), (4, 11, 8), (6, 14, 10)], [(3, 0), (8, 4), (10, 6)]),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("has_epochs", [True, False])
def test_overlaps_one_behind_the_other_are_kept(chain: str, has_epochs: bool, tmp_path: Path) -> None:
    parts, epochs = CHAINS[chain]
    end = max(last for _, last, _ in parts) + 1
    log_dir(tmp_path, segment(0, [part(*one) for one in parts]), epochs if has_epochs else None, end)
    if chain == "at one bit" and not has_epochs:
        return  # nothing but arithmetic is left
    assert_kept(tmp_path, sum(last - first + 1 for first, last, _ in parts))


def test_an_overlap_inside_a_segment_may_begin_below_its_name(tmp_path: Path) -> None:
    files = segment(0, [part(0, 7, 0)]) | segment(8, [part(8, 11, 0), part(6, 14, 2)])
    log_dir(tmp_path, files, [(0, 0), (2, 6)], 15)
    assert_kept(tmp_path, 21, ["O03"])


def test_a_base_offset_is_no_wrong_one_where_the_damaged_batch_beside_goes_on_from_it(tmp_path: Path) -> None:
    torn = part(18, 21, 1)
    parts = [part(0, 12, 0), part(12, 17, 1), torn[:-1] + bytes([torn[-1] ^ 1]), part(22, 24, 1)]
    log_dir(tmp_path, segment(0, parts), None, None)
    made = rows(tmp_path, "salvage", "d", "--to", "out")
    assert [one for one in made if one["type"] == "patched"] == []  # 13 is one bit away, and would follow
    assert sum(one["records"] for one in made if one["type"] == "kept") == 13 + 6 + 3


# --- epochs -------------------------------------------------------------------------------------------------
def test_an_epoch_that_a_lower_overlap_has_removed_is_not_rewritten(tmp_path: Path) -> None:
    """The overlap is the first batch of the next segment: its epoch has removed that of the last batch here."""
    files = segment(0, [part(0, 3, 0), part(4, 5, 1)]) | segment(6, [part(3, 9, 2), part(10, 11, 2)])
    log_dir(tmp_path, files, [(0, 0), (2, 3)], 12)
    assert_kept(tmp_path, 15, ["O03"])


def test_an_epoch_that_is_wrong_is_still_told_beside_an_overlap(tmp_path: Path) -> None:
    wrong = part(6, 7, 3)[:12] + (1).to_bytes(4, "big") + part(6, 7, 3)[16:]
    log_dir(tmp_path, segment(0, [part(0, 3, 0), part(2, 5, 3), wrong, part(8, 9, 3)]), [(0, 0), (3, 2)], 10)
    found = [one["code"] for one in rows(tmp_path, "verify", "d") if one["type"] == "finding"]
    assert "E01" in found


# --- names --------------------------------------------------------------------------------------------------
def test_no_log_takes_the_name_of_one_that_is_there(tmp_path: Path) -> None:
    """The log that begins at 9 by an overlap is not the segment 9, which is another file."""
    files = {
        name(0): part(0, 4, 0) + part(5, 8, 0),
        name(9): part(1, 9, 3) + part(9, 14, 5) + part(13, 16, 8),
        name(17): part(9, 17, 10) + part(18, 19, 10) + part(20, 21, 10),
    }
    write(tmp_path, below("d/events-0", files | {"leader-epoch-checkpoint": checkpoint((0, 0), (3, 1), (10, 9))}))
    found = [one["code"] for one in rows(tmp_path, "verify", "d") if one["type"] == "finding"]
    assert {"F15", "O01", "E01", "E03"}.isdisjoint(found)
    made = rows(tmp_path, "salvage", "d", "--to", "out")
    assert sum(one["records"] for one in made if one["type"] == "kept") == 9 + 19 + 13
    again = {one["code"] for one in rows(tmp_path, "verify", "out") if one["type"] == "finding"}
    assert "O06" not in again


def test_a_legacy_log_that_begins_below_its_name_does_not_stay_out(tmp_path: Path) -> None:
    """Several messages are one append: only the last of them goes beyond the name. The very last one is damaged."""

    def messages(first: int, last: int) -> bytes:
        return b"".join(message(1, at, b"v") for at in range(first, last + 1))

    second = messages(5, 12)
    files = {name(0): messages(0, 6), name(7): second[:-1] + bytes([second[-1] ^ 1]), name(13): messages(13, 14)}
    write(tmp_path, below("d/events-0", files))
    made = rows(tmp_path, "salvage", "d", "--to", "out")
    told = sum(one["records"] or 0 for one in made if one["type"] in ("kept", "divergent", "loss"))
    assert told >= 7 + 8 + 2
    assert max(one["lastOffset"] for one in made if one["type"] == "kept") >= 8
    assert not [one for one in made if one["type"] == "loss" and "F15" in one["because"]]


def test_no_bit_is_put_right_that_leaves_a_damaged_batch_behind_it_without_an_offset(tmp_path: Path) -> None:
    """With 2 for the base offset of 0..4, it would end at 6, right before the 7 behind the damaged batch."""
    damaged = part(0, 6, 2)
    damaged = damaged[:-1] + bytes([damaged[-1] ^ 1])
    files = {name(0): part(0, 1, 0) + part(0, 4, 1) + damaged + part(7, 7, 2)}
    write(tmp_path, below("d/events-0", files))
    assert [
        one for one in rows(tmp_path, "verify", "d") if one.get("expected") is not None and one["code"] == "O03"
    ] == []
    made = rows(tmp_path, "salvage", "d", "--to", "out")
    assert [one for one in made if one["type"] == "patched"] == []
