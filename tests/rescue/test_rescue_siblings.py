"""Rescues like those of `test_rescue_cases`, in other places: a kind is mended, and not a case."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.rescue.test_carved_copies import salvaged
from tests.rescue.test_legacy_offsets import wrapped
from tests.rescue.test_rescue_cases import patches, rescued
from tests.support.partitions import aborted, marker, name, snapshot, write
from tests.support.rescue_cases import (
    PARTITION,
    Part,
    lay,
    of_transaction,
    part,
    parts,
    replica,
    with_log_dir,
)
from tests.support.segments import TIME, Record, batch, message
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path


# --- branches -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gone", [(0, 10), (10, 16)], ids=["first-segment", "middle-segment"])
def test_no_old_branch_fills_what_the_line_has_lost(gone: tuple[int, int], tmp_path: Path) -> None:
    """The file of the last leader ends before its newest epoch; two old leaders have what lies in its hole."""
    line = parts(0, 6, 5) + parts(6, 20, 7, "new") + parts(20, 30, 9, "new")
    bases = (0, 10, 16, 20, 30)
    segments = [(first, line[first // 2 : stop // 2]) for first, stop in itertools.pairwise(bases)]
    led = replica([one for one in segments if one[0] != gone[0]], epochs=[(5, 0), (7, 6)], end=30)
    for suffix in ("log", "index", "timeindex"):
        led[name(gone[0], suffix)] = b""
    old = [replica([(0, line[:3] + parts(6, stop, 5, "old"))], epochs=[(5, 0)], end=stop) for stop in (18, 14)]
    lay(tmp_path, led, *old)
    made = rescued(tmp_path)
    assert not any((value or b"").startswith(b"old") for value in made.values.values())
    lost = {at for first, last in made.of("lost") for at in range(first, last + 1)}
    assert lost == set(range(max(6, gone[0]), gone[1]))
    assert made.exit == 3


@pytest.mark.parametrize("newest", [2, 5], ids=["two-batches", "five-batches"])
def test_batches_that_agree_on_a_newer_epoch_outweigh_an_older_file(newest: int, tmp_path: Path) -> None:
    shared = parts(0, 8, 3)
    line = shared + parts(8, 8 + 2 * newest, 11, "new")
    lay(
        tmp_path,
        replica([(0, shared + parts(8, 20, 10, "old"))], epochs=[(3, 0), (10, 8)], end=20),
        replica([(0, line)], epochs=[(3, 0)], end=line[-1].last + 1),
    )
    made = rescued(tmp_path)
    assert made.offsets == list(range(8 + 2 * newest))
    assert made.epochs == [(3, 0), (11, 8)]
    assert not any(row["type"] == "patched" for row in made.rows)


@pytest.mark.parametrize("parting", [5, 13])
def test_an_epoch_that_begins_inside_the_batches_of_the_chosen_copy_ends_what_both_share(
    parting: int, tmp_path: Path
) -> None:
    line = [part(at, 1, 0, "old") for at in range(20)]
    others = [part(at, 1) for at in range(3)] + parts(30, 40, 2, "new")
    lay(
        tmp_path,
        replica([(0, line)], epochs=[(0, 0)], end=20),
        replica([(0, others)], epochs=[(0, 0), (2, parting)], end=40),
    )
    made = rescued(tmp_path, "--prefer", f"b0/{PARTITION}")
    assert made.offsets == list(range(20))
    assert {made.values[at] for at in made.offsets} == {f"old{at}".encode() for at in range(20)}


# --- leader epochs ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bit", [4, 30])
def test_a_wrong_bit_in_the_first_epoch_of_a_copy_gives_it_no_branch(bit: int, tmp_path: Path) -> None:
    some = parts(0, 24, 1) + parts(24, 40, 2)
    broken = [*some[:12], some[12].broken(), *some[13:]]
    flipped = [some[12].with_epoch(2 | 1 << bit), *some[13:]]
    lay(tmp_path, replica([(0, broken)], end=40), replica([(24, flipped)], end=40), replica([(0, some[:6])], end=12))
    made = rescued(tmp_path)
    assert made.offsets == list(range(40))
    assert made.epochs == [(1, 0), (2, 24)]
    assert made.exit == 0


@pytest.mark.parametrize("bit", [3, 20])
def test_an_entry_that_begins_at_the_last_batch_has_its_epoch(bit: int, tmp_path: Path) -> None:
    some = parts(0, 30) + parts(30, 32, 6)
    files = replica([(0, [*some[:-1], some[-1].with_epoch(6 ^ 1 << bit)])], epochs=[(0, 0), (6, 30)], end=32)
    lay(tmp_path, files)
    made = rescued(tmp_path)
    assert made.batches[-1] == (30, 31, 6)
    assert made.epochs == [(0, 0), (6, 30)]


def test_an_older_epoch_file_is_older_once_for_all_the_elections_that_it_lacks(tmp_path: Path) -> None:
    """Nothing is damaged, and each leader wrote a batch or two: no epoch goes back to the one that the file has."""
    epochs = [0, 2, 4, 4, 5, 5, 8, 8]
    logs = [(4 * k, [part(4 * k, 2, epochs[2 * k]), part(4 * k + 2, 2, epochs[2 * k + 1])]) for k in range(4)]
    lay(tmp_path, replica(logs, epochs=[(0, 0)], end=16))
    assert patches(tmp_path) == []
    made = rescued(tmp_path)
    assert [epoch for _, _, epoch in made.batches] == epochs
    assert not any(row["type"] == "patched" for row in made.rows)


def test_batches_before_a_torn_end_bear_out_the_epoch_of_the_next_log(tmp_path: Path) -> None:
    """An epoch file that lacks the newest epochs, and a log that is cut inside of its last batch."""
    logs = [(0, parts(0, 6)), (6, parts(6, 12, 7)), (12, [part(12, 2, 7), part(14, 2, 8)])]
    files = replica(logs, epochs=[(0, 0)], end=16)
    files[name(6)] = files[name(6)][:-20]
    lay(tmp_path, files)
    assert [one for one in patches(tmp_path) if "00000012" in str(one)] == []
    made = rescued(tmp_path)
    assert made.epochs == [(0, 0), (7, 6), (8, 14)]
    assert not any(row["type"] == "patched" for row in made.rows)


@pytest.mark.parametrize("epoch", [32, 51], ids=["two-bits", "three-bits"])
def test_a_last_epoch_after_many_elections_without_a_trace_is_that_of_the_file(epoch: int, tmp_path: Path) -> None:
    some = parts(0, 12) + parts(12, 20, 1)
    lay(tmp_path, replica([(0, [*some[:-1], some[-1].with_epoch(epoch)])], epochs=[(0, 0), (1, 12)], end=20))
    made = rescued(tmp_path)
    assert made.epochs == [(0, 0), (1, 12)]
    assert made.offsets == list(range(20))


@pytest.mark.parametrize("lag", [4, 10])
def test_the_file_of_a_follower_that_lags_says_nothing_of_what_lies_above_its_end(lag: int, tmp_path: Path) -> None:
    some = parts(0, 8, 2) + parts(8, 14, 6)
    follower = [one for one in some if one.last < lag]
    known = [(2, 0)] if lag <= 8 else [(2, 0), (6, 8)]
    lay(tmp_path, replica([(0, some)], end=14), replica([(0, follower)], epochs=known, end=lag))
    made = rescued(tmp_path)
    assert made.epochs == [(2, 0), (6, 8)]
    assert not any(row["type"] == "patched" for row in made.rows)


# --- names and foreign segments -----------------------------------------------------------------------------
def _with_log(files: dict[str, bytes], base: int, some: list[Part]) -> dict[str, bytes]:
    """The same files, of which a log was damaged after its indexes were written."""
    return {**files, name(base): b"".join(one.data for one in some)}


def _renamed(files: dict[str, bytes], base: int, other: int) -> dict[str, bytes]:
    for suffix in ("log", "index", "timeindex"):
        files[name(other, suffix)] = files.pop(name(base, suffix))
    return files


def test_a_log_under_a_name_above_all_others_makes_no_other_log_foreign(tmp_path: Path) -> None:
    """It has older epochs and times than the last one, which lies before it by its name."""
    logs = [(0, parts(0, 10)), (10, parts(10, 20, 1)), (20, parts(20, 30, 4))]
    lay(tmp_path, _renamed(replica(logs, epochs=[(0, 0), (1, 10), (4, 20)], end=30), 10, 500010))
    made = rescued(tmp_path)
    assert made.offsets == list(range(30))
    assert made.exit == 0


def test_so_where_a_new_leader_began_it_inside_of_the_batch_before(tmp_path: Path) -> None:
    logs = [(0, [part(0, 8), part(8, 3)]), (11, [part(10, 3, 3), *parts(13, 19, 3)]), (19, parts(19, 25, 5))]
    lay(tmp_path, _renamed(replica(logs, epochs=[(0, 0), (3, 10), (5, 19)], end=25), 11, 4011))
    made = rescued(tmp_path)
    assert sorted(set(made.offsets)) == list(range(25))
    assert made.of("lost") == made.of("unexplained") == []


def test_so_where_the_epoch_file_is_older_than_the_log(tmp_path: Path) -> None:
    logs = [(0, parts(0, 10)), (10, parts(10, 20, 2)), (20, parts(20, 26, 5)), (26, parts(26, 30, 8))]
    lay(tmp_path, _renamed(replica(logs, epochs=[(0, 0)], end=30), 20, 4020))
    made = rescued(tmp_path)
    assert made.offsets == list(range(30))
    assert made.epochs == [(0, 0), (2, 10), (5, 20), (8, 26)]
    assert not any(row["type"] == "patched" for row in made.rows)


def test_zeros_over_the_base_offset_of_a_first_batch_give_its_log_no_other_name(tmp_path: Path) -> None:
    """A cleaner has emptied the log that the zeros would make it; the second batch and the name agree."""
    some = [part(20, 3), part(23, 2), *parts(25, 31)]
    files = replica([(0, []), (20, some), (31, parts(31, 35))], epochs=[(0, 0)], end=35)
    lay(tmp_path, _with_log(files, 20, [some[0].with_base(0), *some[1:]]))
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert made.offsets == list(range(20, 35))


def test_a_last_batch_where_its_name_and_epoch_have_it_keeps_the_name_of_its_log(tmp_path: Path) -> None:
    """Zeros make the first batch one of the log at 0, which a cleaner has emptied; epoch 6 began behind that."""
    some = [part(54, 2, 6), part(56, 2, 6)]
    files = replica([(0, []), (36, some), (58, parts(58, 64, 6))], epochs=[(0, 0), (3, 36), (6, 50)], end=64)
    old = parts(0, 40)
    lay(tmp_path, _with_log(files, 36, [some[0].with_base(0), some[1]]), replica([(0, old)], epochs=[(0, 0)], end=40))
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert (0, 1, 6) not in made.batches
    assert (56, 57, 6) in made.batches


def test_below_the_first_entry_of_the_epoch_file_no_batch_has_a_newer_epoch(tmp_path: Path) -> None:
    """Zeros cover the beginning of a cleaned log, and the base offset of the first batch that is left."""
    some = [part(1003, 1), part(1044, 1, 1), part(1045, 1, 1), part(1047, 2, 1)]
    files = replica([(1000, some), (1049, parts(1049, 1053, 1))], epochs=[(0, 1000), (1, 1018)], end=1053)
    files = _with_log(files, 1000, [some[1].with_base(0), *some[2:]])
    files[name(1000)] = bytes(len(some[0].data)) + files[name(1000)]
    lay(tmp_path, files)
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert min(made.offsets) >= 1000
    assert {1045, 1047, 1048} <= set(made.offsets)


@pytest.mark.parametrize("bit", [1 << 7, 1 << 26])
def test_a_wrong_epoch_beside_logs_under_exchanged_names_makes_nothing_foreign(bit: int, tmp_path: Path) -> None:
    some = parts(10, 20, 6)
    logs = [(0, parts(0, 10)), (10, [*some[:-1], some[-1].with_epoch(6 | bit)]), (20, parts(20, 30, 7))]
    files = replica(logs, epochs=[(0, 0), (6, 10), (7, 20)], end=30)
    files[name(0)], files[name(20)] = files[name(20)], files[name(0)]
    lay(tmp_path, files)
    made = rescued(tmp_path)
    assert set(made.offsets) >= {*range(18), *range(20, 30)}
    assert not any("F15" in row.get("because", ()) for row in made.rows)


# --- base offsets -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("by", "is_borne"), [(0b11, True), (1 << 29 | 1 << 13, True), (0b11, False)])
def test_several_bits_of_a_last_batch_cost_less_than_several_files_that_are_older(
    by: int, is_borne: bool, tmp_path: Path
) -> None:
    """A snapshot and two checkpoints know an end that no batch has as they are; a snapshot alone may be older."""
    some = parts(0, 16)
    files = replica([(0, some)], epochs=[(0, 0)], end=16)
    files = _with_log(files, 0, [*some[:-1], some[-1].with_base(14 + 16 * by)])
    files = {path: data for path, data in files.items() if "index" not in path}
    if is_borne:
        with_log_dir(tmp_path / "b0", files, end=16)
    else:
        lay(tmp_path, files)
    made = rescued(tmp_path)
    assert made.offsets[:14] == list(range(14))
    assert made.offsets[14:] == ([14, 15] if is_borne else [14 + 16 * by, 15 + 16 * by])


@pytest.mark.parametrize("bit", [2, 64])
def test_the_header_of_a_damaged_batch_and_the_end_tell_the_place_of_the_last_one(bit: int, tmp_path: Path) -> None:
    some = [*parts(0, 10), part(10, 2), part(12, 4)]
    files = replica([(0, some)], epochs=[(0, 0)], end=16)
    files = _with_log(files, 0, [*some[:-2], some[-2].broken(), some[-1].with_base(12 ^ bit)])
    with_log_dir(tmp_path / "b0", files, end=16)
    made = rescued(tmp_path)
    assert made.offsets == [*range(10), *range(12, 16)]
    assert made.of("doubtful") == [(10, 11)]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_that_reaches_into_the_next_one_by_what_is_inside_is_the_wrong_one(
    magic: int, tmp_path: Path
) -> None:
    """By the headers alone the offsets ascend: 6..8 says 12, and the one behind it 13."""
    some = [message(magic, at) for at in range(6)]
    some += [wrapped(magic, 6, 3, by=4), wrapped(magic, 9, 5), *(message(magic, at) for at in (14, 15, 16))]
    write(tmp_path / "b0" / PARTITION, {name(0): b"".join(some)})
    made = rescued(tmp_path)
    assert sorted(made.values) == list(range(17))
    assert made.of("lost") == []


def test_a_cleaned_batch_whose_place_is_wrong_has_no_row_where_its_records_are_written(tmp_path: Path) -> None:
    cleaned = Part(3, 5, 0, batch(3, [Record(b"v3", b"k3")], last_delta=2, base_timestamp=TIME + 3))
    moved = replica([(0, [cleaned])], epochs=[(0, 0)], end=8)
    lay(
        tmp_path,
        replica([(0, [part(0, 3), part(3, 3), part(6, 2)])], epochs=[(0, 0)], end=8),
        _with_log(moved, 0, [cleaned.with_base(3 | 1 << 44)]),
    )
    made = rescued(tmp_path)
    assert made.offsets == list(range(8))
    assert made.of("divergent") == []


# --- transactions -------------------------------------------------------------------------------------------
def test_a_snapshot_in_which_a_transaction_is_not_open_proves_its_end_in_the_hole_before(tmp_path: Path) -> None:
    """Without a byte of the segment between, an ABORT marker is lost, and the next COMMIT is of another transaction."""
    who = (22, 0)
    first = [part(0, 2), of_transaction(2, 2, (*who, 0))]
    second = [of_transaction(20, 2, (*who, 2)), Part(22, 22, 0, marker(22, who, commit=True)), part(23, 2)]
    files = replica([(0, first), (20, second)], epochs=[(0, 0)])
    files[name(20, "snapshot")] = snapshot((22, 0, 1, 3, 0, TIME + 3, 0, -1))
    lay(tmp_path, files)
    made = rescued(tmp_path)
    assert made.offsets == [0, 1, *range(20, 25)]
    assert (2, 3) in made.of("doubtful")
    assert made.exit == 3


def test_a_snapshot_that_has_the_transaction_open_proves_nothing(tmp_path: Path) -> None:
    who = (22, 0)
    first = [part(0, 2), of_transaction(2, 2, (*who, 0))]
    second = [of_transaction(20, 2, (*who, 2)), Part(22, 22, 0, marker(22, who, commit=True)), part(23, 2)]
    files = replica([(0, first), (20, second)], epochs=[(0, 0)])
    files[name(20, "snapshot")] = snapshot((22, 0, 1, 3, 0, TIME + 3, 0, 2))
    lay(tmp_path, files)
    assert rescued(tmp_path, "--set", "cleanup.policy=compact").offsets == [*range(4), *range(20, 25)]


def test_an_entry_of_the_index_proves_an_end_also_where_the_hole_is_between_segments(tmp_path: Path) -> None:
    who = (9, 0)
    first = [part(0, 4), of_transaction(4, 3, (*who, 0)), part(7, 2)]
    second = [part(12, 2), of_transaction(14, 2, (*who, 3)), Part(16, 16, 0, marker(16, who, commit=False))]
    files = replica([(0, first), (12, second)], epochs=[(0, 0)])
    files[name(12, "txnindex")] = aborted(who[0], 14, 16, 17)
    lay(tmp_path, files)
    made = rescued(tmp_path)
    assert not {4, 5, 6} & set(made.offsets)
    assert (4, 6) in made.of("doubtful")


# --- images -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("number", "bit"), [(0, 57), (7, 33), (9, 60)])
def test_a_batch_in_an_image_stays_between_those_that_it_adjoins(number: int, bit: int, tmp_path: Path) -> None:
    some = parts(0, 20)
    some[number] = some[number].with_base(2 * number | 1 << bit)
    (tmp_path / "image").write_bytes(bytes(512) + b"".join(one.data for one in some) + bytes(4096))
    run_kdump(["carve", "image", "--to", "runs"], tmp_path)
    made = rescued(tmp_path, "--name", PARTITION, sources=["runs"])
    assert set(made.offsets) <= set(range(20))
    assert set(made.offsets) >= set(range(20)) - {2 * number, 2 * number + 1}


def test_a_batch_alone_with_an_absurd_epoch_makes_no_branch_above_several_that_are_intact(tmp_path: Path) -> None:
    """Two images: in one a last batch of an old leader has two wrong bits in its epoch."""
    shared = parts(0, 10)
    for number, some in enumerate(([*shared, part(10, 2).with_epoch(9 << 24)], shared + parts(10, 20, 7, "new"))):
        (tmp_path / f"image{number}").write_bytes(bytes(512) + b"".join(one.data for one in some) + bytes(4096))
        run_kdump(["carve", f"image{number}", "--to", f"runs{number}"], tmp_path)
    made = rescued(tmp_path, "--name", PARTITION, sources=["runs0", "runs1"])
    assert made.offsets == list(range(20))
    assert made.epochs == [(0, 0), (7, 10)]


def test_the_first_batch_of_a_run_has_the_epoch_that_had_begun_before_it(tmp_path: Path) -> None:
    logs = [
        [*parts(0, 8, 2), *parts(8, 12, 3)],
        [part(12, 2, 3).with_epoch(2), *parts(14, 20, 3)],
    ]
    _, values, _ = salvaged(tmp_path, logs)
    assert set(values) == set(range(20))
    log = b"".join(one.read_bytes() for one in sorted((tmp_path / "out" / PARTITION).glob("*.log")))
    assert part(12, 2, 3).data in log


def test_a_run_that_a_new_leader_began_inside_the_last_batch_of_another_goes_on_from_there(tmp_path: Path) -> None:
    logs = [[part(0, 4), part(4, 6)], [part(8, 4, 2, "new"), *parts(12, 18, 2, "new")]]
    status, values, rows = salvaged_with_overlap(tmp_path, logs)
    assert status == 0
    assert set(values) == set(range(18))
    assert [row for row in rows if row["type"] == "divergent"] == []


def salvaged_with_overlap(root: Path, logs: list[list[Part]]) -> tuple[int, set[int], list[dict[str, object]]]:
    """Carve an image of logs of which batches lie one over the other; exit status, offsets, rows."""
    (root / "image").write_bytes(
        b"\xff" * 300 + (b"\xff" * 300).join(b"".join(one.data for one in log) for log in logs)
    )
    run_kdump(["carve", "image", "--to", "runs"], root)
    made = rescued(root, "--name", PARTITION, sources=["runs"])
    return made.exit, set(made.offsets), made.rows


def test_a_marker_may_have_been_in_a_hole_between_two_runs(tmp_path: Path) -> None:
    """The COMMIT at 14 is damaged, and no run has it; the ABORT behind it is of a transaction that is gone."""
    who = (22, 0)
    first = [part(0, 4), part(6, 2), of_transaction(8, 2, (*who, 0)), *parts(10, 14)]
    broken = bytearray(marker(14, who, commit=True))
    broken[10] ^= 1
    second = [part(15, 2), *parts(17, 21), Part(21, 21, 0, marker(21, who, commit=False))]
    _, values, rows = salvaged(tmp_path, [[*first, Part(14, 14, 0, bytes(broken))], second])
    assert not {8, 9} & set(values)
    assert any(row["type"] == "loss" and row["certainty"] == "doubtful" and row["offset"] == 8 for row in rows)
