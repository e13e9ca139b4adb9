"""Two histories are never mixed, however the one that counts is chosen."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kdump.rescue.epochs import NEVER
from kdump.rescue.partings import BranchBatch, partings
from tests.support.partitions import checkpoint, name, write
from tests.support.segments import batch
from tests.support.two_histories import many
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

Batches = list[BranchBatch]


def test_the_result_is_of_one_history_and_every_record_is_told() -> None:
    ends, wrong = many(range(120))
    assert wrong == {}
    assert ends["written"] > 60
    assert ends["refused"] > 2


# --- the rule -------------------------------------------------------------------------------------------------
def branches(chance: Random) -> list[Batches]:
    """Branches of a few offsets; the identity of a batch tells which history it is of."""
    grown: list[Batches] = []
    for number in range(chance.choice((2, 3))):
        stem = chance.choice(grown) if grown else []
        one = stem[: chance.randrange(len(stem) + 1)]
        for _ in range(chance.randrange(1, 5)):
            offset = one[-1].last_offset + 1 if one else 0
            one.append(BranchBatch(offset, offset + chance.randrange(3), 1, (number, offset)))
        grown.append(one)
    return [[batch for batch in one if chance.random() < 0.8] for one in grown]


def counts(found: list[Batches], chosen: int) -> list[set[BranchBatch]]:
    """What counts of each branch: offset by offset, and again until nothing changes."""
    cuts = [99] * len(found)
    for number, one in enumerate(found):
        for offset in range(99, -1, -1):
            mine = [batch for batch in found[chosen] if batch.offset <= offset <= batch.last_offset]
            yours = [batch for batch in one if batch.offset <= offset <= batch.last_offset]
            if mine and yours and mine != yours:
                cuts[number] = offset
    for _ in found:
        for number, one in enumerate(found):
            for other, cut in zip(found, list(cuts), strict=True):
                shared = [batch for batch in one if batch in other and batch.last_offset >= cut]
                agreed = [batch for batch in one if batch in found[chosen] and batch.last_offset < cuts[number]]
                if shared and number != chosen and all(batch.last_offset < cut for batch in agreed):
                    cuts[number] = min(cuts[number], cut)
    return [{batch for batch in one if batch.last_offset < cut} for one, cut in zip(found, cuts, strict=True)]


def test_what_counts_of_each_branch_is_what_a_search_offset_by_offset_finds() -> None:
    chance, parted = Random(3), 0
    for _ in range(3000):
        found = branches(chance)
        chosen = chance.randrange(len(found))
        told = partings(found, chosen, [NEVER] * len(found), lambda _one, _other: False)
        mine = [{batch for batch in one if batch.last_offset < end.cut} for one, end in zip(found, told, strict=True)]
        assert mine == counts(found, chosen), (found, chosen)
        parted += any(one.cut < NEVER for one in told)
    assert parted > 1000


def test_versions_of_a_batch_that_compaction_made_are_no_contradiction() -> None:
    whole = [BranchBatch(0, 4, 1, (1, 90)), BranchBatch(5, 9, 1, (2, 90))]
    cleaned = [BranchBatch(0, 4, 1, (3, 70)), BranchBatch(5, 9, 1, (2, 90))]
    assert partings([whole, cleaned], 0, [NEVER, NEVER], lambda _one, _other: True)[1].cut == NEVER
    assert partings([whole, cleaned], 0, [NEVER, NEVER], lambda _one, _other: False)[1].cut == 0


# --- cases ----------------------------------------------------------------------------------------------------
Spans = list[tuple[range, int, bytes]]


def source(root: Path, number: int, spans: Spans, epochs: list[tuple[int, int]] | None = None) -> str:
    """A source with batches of two records at some offsets, each with an epoch and a mark."""
    parts = {at: batch(at, [mark + b"%d" % at] * 2, epoch=epoch) for offsets, epoch, mark in spans for at in offsets}
    files = {name(0): b"".join(parts[at] for at in sorted(parts))}
    if epochs is not None:
        files["leader-epoch-checkpoint"] = checkpoint(*epochs)
    write(root / f"b{number}" / "plain-0", files)
    return f"b{number}/plain-0"


def salvaged(root: Path, *args: str) -> tuple[list[dict[str, Any]], int]:
    """The rows of a run, and its status."""
    run = run_kdump(["salvage", *args, "--to", "out", "--format", "json"], root)
    return [json.loads(line) for line in run.stdout.splitlines()], run.exit


def kept(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(row["offset"], row["lastOffset"], row["source"]) for row in rows if row["type"] == "kept"]


def divergent(rows: list[dict[str, Any]]) -> int:
    return sum(row["records"] for row in rows if row["type"] == "divergent")


def test_what_a_source_has_behind_a_contradiction_does_not_follow_the_preferred_one_that_ends_before(
    tmp_path: Path,
) -> None:
    common = (range(0, 10, 2), 1, b"x")
    a = source(tmp_path, 1, [common, (range(10, 20, 2), 1, b"a")])
    b = source(tmp_path, 2, [common, (range(10, 14, 2), 1, b"b")])
    rows, status = salvaged(tmp_path, a, b, "--prefer", b)
    assert kept(rows)[-1][1] == 13
    assert (divergent(rows), status) == (10, 0)


def test_a_third_source_that_goes_on_with_the_other_branch_is_of_it_though_it_has_no_contradiction(
    tmp_path: Path,
) -> None:
    common = (range(0, 10, 2), 1, b"x")
    a = source(tmp_path, 1, [common, (range(10, 20, 2), 1, b"a")])
    b = source(tmp_path, 2, [common, (range(10, 14, 2), 1, b"b")])
    c = source(tmp_path, 3, [common, (range(16, 20, 2), 1, b"a")])
    rows, _ = salvaged(tmp_path, a, b, c, "--prefer", b)
    assert kept(rows)[-1][1] == 13
    assert divergent(rows) == 14


def test_a_batch_that_begins_before_the_preferred_one_and_reaches_into_it_stays_out(tmp_path: Path) -> None:
    b = source(tmp_path, 1, [(range(0, 6, 2), 1, b"x"), (range(9, 15, 2), 1, b"b")])
    a = source(tmp_path, 2, [(range(0, 20, 2), 1, b"x")])
    rows, status = salvaged(tmp_path, a, b, "--prefer", b)
    assert [one[:2] for one in kept(rows)] == [(0, 5), (6, 7), (9, 14)]
    assert (divergent(rows), status) == (12, 3)


def test_what_fills_a_hole_right_before_a_contradiction_is_noted(tmp_path: Path) -> None:
    a = source(tmp_path, 1, [(range(0, 10, 2), 1, b"x"), (range(10, 20, 2), 1, b"a")])
    b = source(tmp_path, 2, [(range(0, 8, 2), 1, b"x"), (range(10, 14, 2), 1, b"b")])
    rows, _ = salvaged(tmp_path, a, b, "--prefer", b)
    assert (8, 9, a) in kept(rows)
    text = run_kdump(["salvage", a, b, "--prefer", b, "--to", "again"], tmp_path).stdout.decode()
    assert f"{a}: offsets 8..9 are taken from it though from offset 8 on it has no batch in common with {b}" in text


def test_sources_that_contradict_each_other_where_the_preferred_one_has_nothing_are_refused(tmp_path: Path) -> None:
    common = (range(0, 10, 2), 1, b"x")
    a = source(tmp_path, 1, [common, (range(10, 14, 2), 1, b"a")])
    b = source(tmp_path, 2, [common])
    c = source(tmp_path, 3, [common, (range(10, 14, 2), 1, b"c")])
    run = run_kdump(["salvage", a, b, c, "--prefer", b, "--to", "out"], tmp_path)
    assert run.exit == 12
    assert b"leave out the source that does not count" in run.stderr


@pytest.mark.parametrize("epochs", [[(5, 0), (7, 8)], [(5, 0), (7, 8), (9, 20)]])
def test_an_epoch_file_that_lacks_the_newest_epoch_is_true_for_those_that_it_has(
    epochs: list[tuple[int, int]], tmp_path: Path
) -> None:
    led = source(tmp_path, 0, [(range(0, 4, 2), 5, b"x"), (range(20, 30, 2), 9, b"n")], epochs)
    old = source(tmp_path, 1, [(range(0, 8, 2), 5, b"x"), (range(8, 20, 2), 5, b"o")], [(5, 0)])
    rows, status = salvaged(tmp_path, led, old)
    assert [one[:2] for one in kept(rows)] == [(0, 3), (4, 7), (20, 29)]
    assert (divergent(rows), status) == (12, 3)


def test_an_old_branch_fills_no_hole_though_its_source_has_a_newer_epoch_of_the_line_too(tmp_path: Path) -> None:
    led = source(tmp_path, 0, [(range(0, 8, 2), 5, b"x"), (range(20, 30, 2), 9, b"n")], [(5, 0), (7, 8), (9, 20)])
    odd = [(range(0, 8, 2), 5, b"x"), (range(8, 20, 2), 5, b"o"), (range(20, 30, 2), 9, b"n")]
    rows, status = salvaged(tmp_path, led, source(tmp_path, 1, odd))
    assert [one[:2] for one in kept(rows)] == [(0, 7), (20, 29)]
    assert (divergent(rows), status) == (12, 3)


def test_several_batches_of_a_newer_epoch_outweigh_a_file_that_ends_before_them(tmp_path: Path) -> None:
    common = (range(0, 8, 2), 0, b"x")
    old = source(tmp_path, 0, [common, (range(8, 14, 2), 8, b"o")], [(0, 0), (8, 8)])
    led = source(tmp_path, 1, [common, (range(8, 18, 2), 9, b"n")], [(0, 0)])
    rows, _ = salvaged(tmp_path, old, led)
    assert kept(rows)[-1] == (8, 17, led)
    assert divergent(rows) == 6


def test_an_epoch_that_begins_inside_the_batches_of_the_preferred_source_is_a_contradiction_there(
    tmp_path: Path,
) -> None:
    common = (range(0, 10, 2), 0, b"x")
    old = source(tmp_path, 0, [common, (range(10, 16, 2), 0, b"o")], [(0, 0)])
    new = source(tmp_path, 1, [common, (range(20, 30, 2), 1, b"n")], [(0, 0), (1, 11)])
    rows, _ = salvaged(tmp_path, old, new, "--prefer", old)
    assert kept(rows)[-1][1] == 15
    assert divergent(rows) == 10


def test_one_wrong_epoch_above_those_behind_it_is_no_branch_of_its_own(tmp_path: Path) -> None:
    whole = source(tmp_path, 0, [(range(0, 30, 2), 1, b"x")])
    late = source(tmp_path, 1, [(range(20, 22, 2), 1 << 25 | 1, b"x"), (range(22, 40, 2), 1, b"x")])
    rows, status = salvaged(tmp_path, late, whole)
    assert (kept(rows)[0][0], kept(rows)[-1][1], divergent(rows), status) == (0, 39, 0, 0)


def test_the_epoch_file_of_another_history_changes_no_epoch(tmp_path: Path) -> None:
    follower = source(tmp_path, 0, [(range(0, 10, 2), 1, b"x"), (range(10, 16, 2), 3, b"y")], [(1, 0), (3, 10)])
    led = source(tmp_path, 1, [(range(0, 6, 2), 1, b"x"), (range(6, 16, 2), 2, b"o"), (range(16, 18, 2), 4, b"n")])
    rows, _ = salvaged(tmp_path, follower, led)
    assert not [row for row in rows if row["type"] == "patched"]
    assert kept(rows)[-1] == (6, 17, led)


def test_the_epoch_file_of_a_copy_that_ends_before_says_nothing_of_what_lies_behind(tmp_path: Path) -> None:
    follower = source(tmp_path, 0, [(range(0, 10, 2), 1, b"x"), (range(10, 12, 2), 2, b"x")], [(1, 0), (2, 10)])
    led = source(tmp_path, 1, [(range(0, 10, 2), 1, b"x"), (range(10, 12, 2), 2, b"x"), (range(12, 14, 2), 6, b"n")])
    rows, _ = salvaged(tmp_path, follower, led)
    assert not [row for row in rows if row["type"] == "patched"]
    assert kept(rows)[-1][1] == 13


def test_an_intact_batch_that_is_out_of_order_behind_a_parting_has_a_row(tmp_path: Path) -> None:
    led = source(tmp_path, 0, [(range(0, 4, 2), 1, b"x"), (range(4, 8, 2), 2, b"n")], [(1, 0), (2, 4)])
    spans = [(range(4, 12, 2), 1, b"o"), (range(12, 14, 2), 65, b"o"), (range(14, 18, 2), 1, b"o")]
    old = source(tmp_path, 1, [(range(0, 4, 2), 1, b"x"), *spans], [(1, 0)])
    rows, _ = salvaged(tmp_path, led, old)
    assert kept(rows)[-1][1] == 7
    assert divergent(rows) == 14
