"""Witnesses of a header field or of a name that a rescue once did not ask: each kind in two places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rescue.test_rescue_cases import patches, rescued
from tests.support.partitions import name
from tests.support.rescue_cases import PARTITION, lay, part, parts, replica, with_log_dir
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.rescue_cases import Part


def _with_log(files: dict[str, bytes], base: int, some: list[Part]) -> dict[str, bytes]:
    """The same files, of which a log was damaged after its indexes were written."""
    return {**files, name(base): b"".join(one.data for one in some)}


def _without_indexes(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if "index" not in path}


def _renamed(files: dict[str, bytes], base: int, other: int) -> dict[str, bytes]:
    for suffix in ("log", "index", "timeindex"):
        files[name(other, suffix)] = files.pop(name(base, suffix))
    return files


# --- base offsets -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrong", [109, 13 + 1024 + 4096])
def test_the_epoch_file_and_the_end_tell_where_the_only_batch_of_a_last_log_is(wrong: int, tmp_path: Path) -> None:
    """A cleaner took what lay before it: no batch adjoins it, and the name of the log is lower."""
    last = part(13, 1, 3)
    files = replica([(0, parts(0, 10)), (10, [last])], epochs=[(0, 0), (3, 13)], end=14)
    with_log_dir(tmp_path / "b0", _without_indexes(_with_log(files, 10, [last.with_base(wrong)])), end=14)
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert made.batches[-1] == (13, 13, 3)
    assert [row["to"] for row in made.rows if row["type"] == "patched"] == [13]
    assert [one["action"] for one in patches(tmp_path)] == ["patch"]
    text = run_kdump(["patch-header", f"b0/{PARTITION}"], tmp_path).stdout.decode()
    assert "becomes 000000000000000d" in " ".join(text.split())


@pytest.mark.parametrize("wrong", [7, 9])
def test_the_only_batch_of_a_log_that_fills_it_from_its_name_begins_there(wrong: int, tmp_path: Path) -> None:
    """As it is it begins in the log before, as the batch of a new leader does; but no epoch begins there."""
    middle = part(10, 5)
    files = replica([(0, parts(0, 10)), (10, [middle]), (15, parts(15, 21))], epochs=[(0, 0)], end=21)
    lay(tmp_path, _with_log(files, 10, [middle.with_base(wrong)]))
    made = rescued(tmp_path)
    assert made.offsets == list(range(21))
    assert made.exit == 0


def test_the_batch_of_a_new_leader_stays_where_its_epoch_begins(tmp_path: Path) -> None:
    """The same with an epoch of its own: the offsets that it leaves free before the next log are lost."""
    logs = [(0, [*parts(0, 8), part(8, 2)]), (10, [part(9, 4, 2)]), (15, parts(15, 21, 2))]
    lay(tmp_path, replica(logs, epochs=[(0, 0), (2, 9)], end=21))
    made = rescued(tmp_path, "--set", "cleanup.policy=delete")
    assert (9, 12, 2) in made.batches
    assert (13, 14) in made.of("lost")


@pytest.mark.parametrize("at", [10, 20])
def test_equal_bytes_that_adjoin_their_neighbours_in_two_copies_are_two_batches(at: int, tmp_path: Path) -> None:
    """A producer without an id has written once more what the other leader has, and that copy lacks the first."""
    once = part(at, 5, 2)
    line = [*parts(0, at, 2), once, *parts(at + 5, at + 11, 3)]
    again = once.with_base(at + 5)._replace(first=at + 5, last=at + 9)
    old = [*parts(0, at, 2), again, *parts(at + 10, at + 14, 2)]
    lay(
        tmp_path,
        replica([(0, line)], epochs=[(2, 0), (3, at + 5)], end=at + 11),
        replica([(0, old)], epochs=[(2, 0)], end=at + 14),
    )
    made = rescued(tmp_path)
    assert made.offsets == list(range(at + 11))
    assert made.of("patched") == []
    out = {offset for first, last in made.of("divergent") for offset in range(first, last + 1)}
    assert out == set(range(at + 5, at + 14))


# --- leader epochs ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("epoch", [9, 3])
def test_batches_before_damage_at_the_begin_of_the_next_log_tell_the_epoch_before_them(
    epoch: int, tmp_path: Path
) -> None:
    files = replica([(0, [*parts(0, 10), part(10, 1)]), (11, parts(11, 15))], epochs=[(0, 0)], end=15)
    files = _with_log(files, 0, [*parts(0, 10), part(10, 1).with_epoch(epoch)])
    files[name(11)] = files[name(11)][: len(part(11).data) + 20]
    lay(tmp_path, _without_indexes(files))
    made = rescued(tmp_path)
    assert {one[2] for one in made.batches} == {0}
    assert made.epochs == [(0, 0)]


@pytest.mark.parametrize("start", [9, 10])
def test_an_entry_inside_the_last_batch_of_an_epoch_keeps_the_file(start: int, tmp_path: Path) -> None:
    """A new leader began there, and its only batch is damaged: what an old leader went on with is another branch."""
    shared = [*parts(0, 8, 3), part(8, 3, 3)]
    led = [*shared, part(start, 3, 5).broken()]
    lay(
        tmp_path,
        replica([(0, led)], epochs=[(3, 0), (5, start)], end=start + 3),
        replica([(0, [*shared, *parts(11, 21, 3, "old")])], epochs=[(3, 0)], end=21),
    )
    made = rescued(tmp_path)
    assert not any((value or b"").startswith(b"old") for value in made.values.values())
    assert made.exit == 3


# --- names and foreign segments -----------------------------------------------------------------------------
@pytest.mark.parametrize("epochs", [(0, 7), (0, 7, 9)])
def test_a_segment_behind_files_that_are_older_is_not_foreign(epochs: tuple[int, ...], tmp_path: Path) -> None:
    """The epoch file and the recovery point of a clean stop were put back: they are older than the last logs."""
    logs = [(10 * at, parts(10 * at, 10 * at + 10, epoch)) for at, epoch in enumerate(epochs)]
    with_log_dir(tmp_path / "b0", replica(logs, epochs=[(0, 0)], end=10 * len(epochs)), end=6)
    (tmp_path / "b0" / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":1}')
    made = rescued(tmp_path)
    assert made.offsets == list(range(10 * len(epochs)))
    assert not any("F15" in row.get("because", ()) for row in made.rows)


@pytest.mark.parametrize("other", [5006, 70006])
def test_a_wrong_base_offset_in_one_log_does_not_hide_the_wrong_name_of_another(other: int, tmp_path: Path) -> None:
    """Zeros lie over the base offset of the only batch of a log, which leads to the next one from its name on."""
    logs = [(0, parts(0, 6)), (6, parts(6, 10)), (10, [part(10, 4)]), (14, parts(14, 20))]
    files = _renamed(replica(logs, epochs=[(0, 0)], end=20), 6, other)
    lay(tmp_path, _with_log(files, 10, [part(10, 4).with_base(0)]))
    made = rescued(tmp_path)
    assert made.offsets == list(range(20))
    assert made.exit == 0


@pytest.mark.parametrize("other", [3, 90])
def test_a_name_below_a_log_of_which_nothing_is_left_is_wrong(other: int, tmp_path: Path) -> None:
    logs = [(100, parts(100, 110)), (110, parts(110, 120, 1)), (120, parts(120, 126, 1))]
    files = _renamed(replica(logs, epochs=[(0, 100), (1, 110)], end=126), 110, other)
    files[name(100)] = bytes(len(files[name(100)]))
    lay(tmp_path, files)
    made = rescued(tmp_path)
    assert made.offsets == list(range(110, 126))
    assert not any("F15" in row.get("because", ()) for row in made.rows)


@pytest.mark.parametrize("size", [1, 4])
def test_zeros_over_a_first_base_offset_do_not_hide_that_two_names_are_exchanged(size: int, tmp_path: Path) -> None:
    """The first batch that lies under the name 0 says 0; the second one leads up to the other name."""
    some = [part(20, size), *parts(20 + size, 26 + size)]
    files = replica([(0, parts(0, 20)), (20, some), (26 + size, parts(26 + size, 30 + size))], epochs=[(0, 0)], end=34)
    files = _with_log(files, 20, [some[0].with_base(0), *some[1:]])
    files[name(0)], files[name(20)] = files[name(20)], files[name(0)]
    lay(tmp_path, files)
    made = rescued(tmp_path)
    assert made.offsets == list(range(30 + size))


def test_the_rows_of_what_zeros_have_moved_know_that_another_copy_has_it(tmp_path: Path) -> None:
    """Zeros cover the first batch of a cleaned log and the base offset of the next one, of which a copy has more."""
    whole = [part(10, 1), part(11, 5), *parts(16, 20)]
    left = [part(10, 1), part(11, 5), *parts(16, 20)]
    files = replica([(0, parts(0, 10)), (10, left)], epochs=[(0, 0)], end=20)
    files = _with_log(files, 10, [left[1].with_base(0), *left[2:]])
    files[name(10)] = bytes(len(left[0].data)) + files[name(10)]
    lay(tmp_path, files, replica([(0, parts(0, 10)), (10, whole)], epochs=[(0, 0)], end=20))
    made = rescued(tmp_path)
    assert made.offsets == list(range(20))
    assert made.of("divergent") == []
