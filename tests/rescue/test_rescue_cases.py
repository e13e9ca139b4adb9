"""Rescues that went wrong once, and what is right: no bit wins over an intact replica, no branch fills another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support import rescue_cases as cases
from tests.support.rescue_cases import PARTITION
from tests.support.rescue_truth.batches import read_log
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path


class Rescue(NamedTuple):
    """What salvage has made: exit status, rows, first and last offset and epoch of each batch, values, epochs, text."""

    exit: int
    rows: list[dict[str, Any]]
    batches: list[tuple[int, int, int]]
    values: dict[int, bytes | None]
    epochs: list[tuple[int, int]]

    def of(self, kind: str) -> list[tuple[int, int]]:
        """The offsets of the rows of one kind; of losses, of one certainty."""
        kinds = (row.get("certainty") if row["type"] == "loss" else row["type"] for row in self.rows)
        return [(row["offset"], row["lastOffset"]) for row, one in zip(self.rows, kinds, strict=True) if one == kind]

    @property
    def offsets(self) -> list[int]:
        """The offsets of all records, as they come."""
        return [at for first, last, _ in self.batches for at in range(first, last + 1)]


def rescued(root: Path, *options: str, sources: list[str] | None = None) -> Rescue:
    """Salvage the copies of a case."""
    found = sources or sorted(f"{one.name}/{PARTITION}" for one in root.glob("b?"))
    run = run_kdump(["salvage", *found, "--to", "out", "--format", "json", *options], root)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] != "summary"]
    made = root / "out" / PARTITION
    batches = [one for log in sorted(made.glob("*.log")) for one in read_log(log.read_bytes())]
    assert all(one.is_whole for one in batches)
    lines = (made / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    return Rescue(
        run.exit,
        rows,
        [(one.base, one.last, one.epoch) for one in batches],
        {entry[0]: entry[2] for one in batches for entry in one.entries},
        [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)],
    )


def patches(root: Path, copy: str = "b0") -> list[dict[str, Any]]:
    """The changes that patch-header would make to a copy."""
    run = run_kdump(["patch-header", f"{copy}/{PARTITION}", "--format", "json"], root)
    plans = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "plan"]
    return [one for plan in plans for one in plan["operations"]]


def wrong(why: str) -> pytest.MarkDecorator:
    """Mark what is not right yet; where it is, the mark goes."""
    return pytest.mark.xfail(strict=True, reason=why)


# --- base offsets -------------------------------------------------------------------------------------------
def test_a_batch_between_its_neighbours_in_an_image_keeps_its_place(tmp_path: Path) -> None:
    cases.moved_in_an_image(tmp_path)
    run_kdump(["carve", "image", "--to", "runs"], tmp_path)
    made = rescued(tmp_path, "--name", PARTITION, sources=["runs"])
    assert made.offsets == list(range(20))
    assert made.exit == 0


def test_one_batch_out_of_place_is_a_wrong_field_and_no_foreign_segment(tmp_path: Path) -> None:
    cases.foreign_by_one_offset(tmp_path)
    made = rescued(tmp_path)
    assert made.offsets == [3, 5, 7, 9, 10, 11]
    assert made.exit == 0


def test_a_wrong_name_is_no_trace_of_compaction(tmp_path: Path) -> None:
    cases.renamed_hole(tmp_path)
    made = rescued(tmp_path)
    assert made.offsets == list(range(30))
    assert made.of("divergent") == made.of("lost") == []
    assert made.exit == 0


def test_a_base_offset_is_right_where_the_epoch_file_begins_its_epoch(tmp_path: Path) -> None:
    cases.overlap_at_the_end(tmp_path)
    made = rescued(tmp_path)
    assert made.batches == [(0, 7, 3), (5, 11, 4)]
    assert made.epochs == [(3, 0), (4, 5)]
    assert made.exit == 0
    assert patches(tmp_path) == []


def test_the_name_of_a_log_moves_no_batch_that_adjoins_the_next_one(tmp_path: Path) -> None:
    cases.lost_first_of_a_segment(tmp_path)
    assert patches(tmp_path) == []
    made = rescued(tmp_path, "--set", "cleanup.policy=delete")
    assert made.offsets == [*range(8), *range(11, 16)]
    assert made.of("lost") == [(8, 10)]


def test_cleaned_copies_of_a_compressed_message_do_not_contradict_each_other(tmp_path: Path) -> None:
    cases.cleaned_wrappers(tmp_path)
    made = rescued(tmp_path)
    assert sorted(made.values) == [0, 1, 2, 3]
    assert made.exit == 0


# --- leader epochs ------------------------------------------------------------------------------------------
def test_one_wrong_bit_never_wins_over_an_intact_replica(tmp_path: Path) -> None:
    cases.first_epoch_flip(tmp_path)
    made = rescued(tmp_path)
    assert made.offsets == list(range(40))
    assert {epoch for first, _, epoch in made.batches if first < 24} == {1}
    assert made.epochs == [(1, 0), (2, 24)]
    assert made.exit == 0


def test_an_entry_at_its_base_offset_determines_the_newest_epoch(tmp_path: Path) -> None:
    cases.newest_epoch_flip(tmp_path)
    made = rescued(tmp_path)
    assert made.batches[-1] == (66, 67, 1)
    assert made.epochs == [(0, 0), (1, 66)]
    assert made.exit == 0


def test_an_older_epoch_file_changes_no_right_epoch(tmp_path: Path) -> None:
    cases.older_epoch_file(tmp_path)
    assert patches(tmp_path) == []
    made = rescued(tmp_path)
    assert made.epochs == [(0, 0), (1, 4)]
    assert made.of("patched") == []


def test_an_older_epoch_file_does_not_overwrite_the_epoch_of_the_last_batch(tmp_path: Path) -> None:
    cases.older_file_before_the_last_batch(tmp_path)
    assert patches(tmp_path) == []
    made = rescued(tmp_path)
    assert made.epochs == [(0, 0), (3, 4), (6, 8)]


def test_an_epoch_that_falls_at_a_roll_is_restored(tmp_path: Path) -> None:
    cases.epoch_flip_at_a_roll(tmp_path)
    made = rescued(tmp_path)
    assert [epoch for _, _, epoch in made.batches] == [2, 3, 3, 3]
    assert made.epochs == [(2, 0), (3, 2)]


# --- branches -----------------------------------------------------------------------------------------------
def test_an_epoch_file_that_ends_early_is_true_for_what_it_has(tmp_path: Path) -> None:
    cases.mixed_branches(tmp_path)
    made = rescued(tmp_path)
    assert made.offsets == [*range(8), *range(20, 30)]
    assert (8, 19) in made.of("lost")
    assert (8, 19) in made.of("divergent")
    assert made.exit == 3


def test_several_batches_outweigh_a_file_that_ends_before_them(tmp_path: Path) -> None:
    cases.stale_epoch_file(tmp_path)
    made = rescued(tmp_path)
    assert made.offsets == list(range(18))
    assert {made.values[at] for at in range(8, 18)} == {f"new{at}".encode() for at in range(8, 18)}
    assert made.epochs == [(0, 0), (9, 8)]
    assert [at for first, last in made.of("divergent") for at in range(first, last + 1)] == list(range(8, 14))


def test_an_epoch_that_begins_inside_the_chosen_copy_is_a_contradiction(tmp_path: Path) -> None:
    cases.cleaned_parting(tmp_path)
    made = rescued(tmp_path, "--prefer", f"b0/{PARTITION}")
    assert made.offsets == list(range(16))
    assert {made.values[at] for at in range(10, 16)} == {f"old{at}".encode() for at in range(10, 16)}


# --- transactions -------------------------------------------------------------------------------------------
def test_an_index_entry_above_an_open_batch_proves_a_marker_between(tmp_path: Path) -> None:
    cases.lost_commit(tmp_path)
    made = rescued(tmp_path)
    assert not {2, 3} & set(made.offsets)
    assert (2, 3) in made.of("doubtful")
    assert made.exit == 3


def test_dump_and_verify_say_what_is_in_doubt(tmp_path: Path) -> None:
    cases.lost_commit(tmp_path)
    run = run_kdump(["dump", f"b0/{PARTITION}", "--fate", "--deep-iteration", "--format", "json"], tmp_path)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    assert {row["fate"]["transaction"] for row in rows if row["offset"] in (2, 3)} == {"unknown"}
    assert run_kdump(["verify", f"b0/{PARTITION}"], tmp_path).exit == 3


def test_a_batch_at_the_offset_of_a_marker_is_written_or_told(tmp_path: Path) -> None:
    cases.failed_index(tmp_path)
    made = rescued(tmp_path)
    told = sum(row["records"] for row in made.rows if row["type"] in ("divergent", "loss"))
    assert len(made.offsets) + told == 7


# --- log starts ---------------------------------------------------------------------------------------------
def test_steps_name_the_first_offset_of_what_lay_below_the_log_start(tmp_path: Path) -> None:
    cases.deleted_records(tmp_path)
    made = rescued(tmp_path, "--below-log-start")
    assert made.offsets == list(range(30))
    said = run_kdump(["salvage", f"b0/{PARTITION}", "--to", "again", "--below-log-start"], tmp_path).stdout
    assert b"log-start-offset-checkpoint says `orders 0 0`" in said


def test_without_the_option_the_records_below_the_log_start_are_counted(tmp_path: Path) -> None:
    cases.deleted_records(tmp_path)
    run = run_kdump(["salvage", f"b0/{PARTITION}", "--to", "out"], tmp_path)
    assert b"--below-log-start" in run.stdout
    assert b"25" in run.stdout
    batches = [one for log in (tmp_path / "out" / PARTITION).glob("*.log") for one in read_log(log.read_bytes())]
    assert sorted(one.base for one in batches) == list(range(25, 30))


@pytest.mark.parametrize("option", [(), ("--below-log-start",)], ids=["", "below"])
def test_the_first_entry_of_an_epoch_file_that_moved_with_the_log_start_begins_no_epoch(
    option: tuple[str, ...], tmp_path: Path
) -> None:
    cases.log_start_inside_a_batch(tmp_path)
    made = rescued(tmp_path, *option)
    assert made.offsets == list(range(0 if option else 10, 20))
    assert {made.values[at] for at in range(10, 20)} == {f"new{at}".encode() for at in range(10, 20)}
    assert made.of("lost") == []
    assert made.exit == 0


def test_the_log_start_of_another_branch_leaves_the_chosen_copy_as_it_is(tmp_path: Path) -> None:
    cases.log_start_of_another_branch(tmp_path)
    made = rescued(tmp_path, "--prefer", f"b0/{PARTITION}")
    assert made.offsets == list(range(12))
