"""Kinds that the runs with truth found, `tests/support/rescue_truth`: each mended one as a small case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rescue.test_rescue_cases import patches, rescued
from tests.support.partitions import marker, name, write
from tests.support.rescue_cases import PARTITION, Part, lay, of_transaction, part, parts, replica, with_log_dir
from tests.support.segments import TIME, Record, batch, message, wrapper
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.partitions import Files


def _bytes(*some: Part) -> bytes:
    return b"".join(one.data for one in some)


def _swapped(files: Files, one: int, other: int) -> Files:
    return {**files, name(one): files[name(other)], name(other): files[name(one)]}


def _renamed(files: Files, base: int, other: int) -> Files:
    for suffix in ("log", "index", "timeindex"):
        files[name(other, suffix)] = files.pop(name(base, suffix))
    return files


def _without_indexes(files: Files) -> Files:
    return {path: data for path, data in files.items() if "index" not in path}


def _cleaned(first: int, last: int, epoch: int = 0) -> Part:
    """What a cleaner has left of a batch: its first record."""
    records = [Record(b"v%d" % first, b"k%d" % first)]
    data = batch(first, records, last_delta=last - first, epoch=epoch, base_timestamp=TIME + first)
    return Part(first, last, epoch, data)


# --- names of logs ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("epochs", [[(0, 0)], None], ids=["with-epochs", "without"])
def test_a_log_before_that_ends_where_another_begins_tells_its_name(
    epochs: list[tuple[int, int]] | None, tmp_path: Path
) -> None:
    """A name inside the first batch is no sign of a new leader then; another copy has that batch too."""
    logs = [(0, parts(0, 10)), (10, [part(10, 5)]), (15, parts(15, 21))]
    lay(tmp_path, replica(logs, epochs=epochs), _renamed(replica(logs, epochs=epochs), 10, 12))
    made = rescued(tmp_path)
    assert made.offsets == list(range(21))
    assert made.exit == 0


def test_logs_of_one_batch_under_exchanged_names_are_known_though_one_bit_explains_one_of_them(tmp_path: Path) -> None:
    """15 is one bit away from 14, which would fill the log of the name 10 as well."""
    logs = [(0, parts(0, 10)), (10, [part(10, 5)]), (15, [part(15, 1)])]
    lay(tmp_path, _swapped(replica(logs, epochs=[(0, 0)], end=16), 10, 15))
    assert rescued(tmp_path).offsets == list(range(16))


@pytest.mark.parametrize("bit", [41, 53])
def test_a_batch_that_fits_once_the_logs_have_their_names_hides_none_of_them(bit: int, tmp_path: Path) -> None:
    cleaned = [part(105, 1), part(106, 2).with_base(106 | 1 << bit)]
    logs = [(100, [part(105, 1), part(106, 2)]), (108, parts(108, 120))]
    files = replica(logs, epochs=[(0, 100)], end=120)
    files[name(100)] = _bytes(*cleaned)
    lay(tmp_path, _swapped(files, 100, 108))
    assert rescued(tmp_path, "--set", "cleanup.policy=compact").offsets == list(range(105, 120))


def test_a_first_batch_with_which_an_epoch_begins_is_not_moved_to_the_name_of_its_log(tmp_path: Path) -> None:
    some = [part(653, 5), part(663, 5), *parts(668, 674)]
    files = replica([(653, some), (674, parts(674, 680))], epochs=[(0, 653)], end=680)
    lay(tmp_path, _renamed(files, 653, 658))
    assert patches(tmp_path) == []
    assert 653 in rescued(tmp_path).offsets


def test_a_log_has_not_the_name_of_its_first_batch_where_one_bit_takes_that_among_the_others(tmp_path: Path) -> None:
    """All other batches lie where the name has them: the first one stays out."""
    logs = [(653, [_cleaned(654, 655)]), (666, [_cleaned(677, 678), *parts(680, 690)]), (690, parts(690, 696))]
    files = replica(logs, epochs=[(0, 653)], end=696)
    files[name(666)] = _bytes(_cleaned(677, 678).with_base(661), *parts(680, 690))
    lay(tmp_path, files)
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert made.offsets == [654, 655, *range(680, 696)]
    assert made.exit == 3


def test_a_log_is_not_moved_by_a_bit_to_where_another_one_belongs(tmp_path: Path) -> None:
    """By one bit the batch of 8..12 would fill the log 24, whose batches lie under the name of its own."""
    logs = [(0, [_cleaned(8, 12)]), (15, parts(15, 23)), (24, [part(24, 5)]), (29, parts(29, 37))]
    lay(tmp_path, _swapped(replica(logs, epochs=[(0, 0)], end=37), 0, 24))
    made = rescued(tmp_path, "--set", "cleanup.policy=compact", "--below-log-start")
    assert {*range(8, 13), *range(24, 37)} <= set(made.offsets)


def test_the_end_of_a_log_is_known_though_another_one_bears_a_higher_name(tmp_path: Path) -> None:
    logs = [(0, parts(0, 22)), (22, parts(22, 26)), (26, parts(26, 58)), (58, [part(58, 3)])]
    files = _without_indexes(replica(logs, epochs=[(0, 0)], end=61))
    files[name(58)] = part(58, 3).with_base(56).data
    files[name(9022)] = files.pop(name(22))
    lay(tmp_path, files)
    assert rescued(tmp_path).offsets == list(range(61))


def test_a_log_comes_before_one_that_tells_nothing_and_has_a_lower_name(tmp_path: Path) -> None:
    """Its last batch is damaged, and no checkpoint has an epoch."""
    files = {name(80): _bytes(*parts(0, 12), part(12, 1).broken()), name(13): b""}
    with_log_dir(tmp_path / "b0", files, end=13)
    (tmp_path / "b0" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    made = rescued(tmp_path)
    assert made.offsets == list(range(12))
    assert made.exit == 3


# --- zeros --------------------------------------------------------------------------------------------------
def test_zeros_that_go_on_over_a_base_offset_give_a_log_no_name(tmp_path: Path) -> None:
    some = parts(1000, 1020)
    files = replica([(1000, some), (1020, parts(1020, 1026))], end=1026)
    files[name(1000)] = bytes(len(some[0].data)) + _bytes(some[1].with_base(0), *some[2:])
    lay(tmp_path, files)
    made = rescued(tmp_path)
    assert set(range(1004, 1026)) <= set(made.offsets) <= set(range(1000, 1026))


# --- base offsets -------------------------------------------------------------------------------------------
def test_a_wrapper_of_magic_0_belongs_where_its_messages_say(tmp_path: Path) -> None:
    """They have their own offsets there, under the CRC."""
    head = b"".join(message(0, at, b"v%d" % at, key=b"k") for at in range(3))
    whole = wrapper(0, 3, [b"v3", b"v4"])
    tail = b"".join(message(0, at, b"v%d" % at, key=b"k") for at in (9, 10, 11))
    write(tmp_path / "b0" / PARTITION, {name(0): head + (100).to_bytes(8, "big") + whole[8:] + tail})
    assert [row["to"] for row in rescued(tmp_path).rows if row["type"] == "patched"] == [4]


def test_more_offsets_than_lost_bytes_held_do_not_lie_before_the_last_batch(tmp_path: Path) -> None:
    """Several bits of it are wrong, and all other files know the end."""
    files = replica([(0, parts(0, 32)), (32, [part(32, 1), part(33, 1)])], epochs=[(0, 0)], end=34)
    files[name(32)] = b"\xff" * 75 + part(33, 1).with_base(33 | 3 << 20).data
    with_log_dir(tmp_path / "b0", _without_indexes(files), end=34)
    made = rescued(tmp_path)
    assert max(made.offsets) < 34
    assert made.exit == 3


@pytest.mark.parametrize(("policy", "end", "first"), [("delete", 56, 53), ("delete", 53, 61), ("compact", 53, 61)])
def test_one_bit_explains_a_hole_that_no_cleaner_made_where_the_end_is_known(
    policy: str, end: int, first: int, tmp_path: Path
) -> None:
    """Else the batch may be right, and what was before it lost: it stays, and that is told."""
    files = replica([(0, [*parts(0, 52), part(52, 1)]), (53, [part(53, 3)])], epochs=[(0, 0)], end=end)
    files = _without_indexes(files)
    files[name(53)] = part(53, 3).with_base(61).data
    lay(tmp_path, files)
    made = rescued(tmp_path, "--set", f"cleanup.policy={policy}")
    assert made.offsets[-3:] == [first, first + 1, first + 2]
    assert (made.exit, made.of("lost")) == ((3, [(53, 60)]) if policy == "delete" and first == 61 else (0, []))


def test_a_cleaned_batch_in_which_a_new_leader_began_is_not_moved_into_the_hole_before_it(tmp_path: Path) -> None:
    """It would fill that exactly, by one bit."""
    some = [part(24, 2), _cleaned(27, 29), part(29, 2, 3), *parts(31, 37, 3)]
    lay(tmp_path, replica([(20, [*parts(20, 24), *some])], epochs=[(0, 20), (3, 29)], end=37))
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert not [row for row in made.rows if row["type"] == "patched"]


def test_of_two_batches_at_one_offset_none_is_patched_where_either_may_be_wrong(tmp_path: Path) -> None:
    """0 may say 1 by one bit, or the second one is 2 by two."""
    first, second = part(0, 1).with_base(1), part(1, 1)
    lay(tmp_path, replica([(0, [first, second, part(3, 5), part(8, 1), part(9, 1)])], epochs=[(0, 0)]))
    assert not [one for one in patches(tmp_path) if one["action"] == "patch"]


def test_a_batch_that_one_bit_leads_up_to_is_not_moved_to_the_end_of_its_log(tmp_path: Path) -> None:
    """The first one says 14, and 14..15 are gone: 13 would fill what is left behind that, by one bit too."""
    logs = [(0, parts(0, 12)), (12, [part(12, 1).with_base(14), part(13, 1)]), (16, parts(16, 20))]
    lay(tmp_path, replica(logs, epochs=[(0, 0)]))
    assert {12, 13} <= set(rescued(tmp_path).offsets)


def test_the_name_of_its_log_and_the_same_bytes_tell_where_a_first_batch_was(tmp_path: Path) -> None:
    """Behind it bytes are damaged, and in the other copy it stands in the midst of a log."""
    some = [part(30, 1), part(31, 2), part(33, 1)]
    files = replica([(0, parts(0, 30)), (30, some)], epochs=[(0, 0)])
    files[name(30)] = _bytes(some[0].with_base(30 | 1 << 17), some[1].broken(), some[2].with_base(0))
    lay(tmp_path, files, replica([(0, parts(0, 24)), (24, [*parts(24, 30), *some])], epochs=[(0, 0)]))
    assert rescued(tmp_path, "--prefer", f"b0/{PARTITION}").offsets == list(range(34))


@pytest.mark.parametrize("other", [1000, 601])
def test_the_same_bytes_tell_where_a_batch_was_whose_log_has_a_wrong_name_too(other: int, tmp_path: Path) -> None:
    some = parts(100, 120)
    files = replica([(100, some)], epochs=[(0, 100)], end=120)
    moved = {**files, name(100): _bytes(some[0].with_base(100 ^ 1), *some[1:-1], some[-1].with_base(118 + 64))}
    lay(tmp_path, files, _renamed(moved, 100, other))
    made = rescued(tmp_path, "--prefer", f"b1/{PARTITION}")
    assert made.offsets == list(range(100, 120))
    assert made.exit == 0


def test_a_batch_with_which_its_epoch_begins_fills_the_end_of_its_log(tmp_path: Path) -> None:
    """By one bit the batch before it, of an older epoch, would lead up to where it stands."""
    some = [part(36, 5, 2), part(41, 2, 3)]
    logs = [(0, some), (43, parts(43, 51, 3))]
    files = replica(logs, epochs=[(0, 0), (2, 20), (3, 41)], end=51)
    files[name(0)] = _bytes(some[0], some[1].with_base(9))
    lay(tmp_path, files)
    assert rescued(tmp_path, "--set", "cleanup.policy=compact").offsets == list(range(36, 51))


def test_batches_that_adjoin_each_other_are_not_moved_to_fill_a_hole(tmp_path: Path) -> None:
    """9 is missing, and 14 says 12 by one bit: were 10 and 11..12 one lower, that would explain it as well."""
    some = [*parts(0, 8), part(8, 1), part(10, 1), part(11, 2), part(14, 1).with_base(12), part(15, 1)]
    lay(tmp_path, replica([(0, some), (16, parts(16, 30))], epochs=[(0, 0)], end=30))
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert made.offsets == [*range(9), 10, 11, 12, *range(15, 30)]
    assert made.exit == 3
    assert not [one for one in patches(tmp_path) if one["action"] == "patch"]


# --- losses -------------------------------------------------------------------------------------------------
def test_damaged_bytes_behind_a_batch_that_reaches_over_the_next_log_are_a_loss(tmp_path: Path) -> None:
    """No cleaner took them, and the batch before them tells nothing of where they were."""
    head = [Part(10, 10, -1, message(1, 10, b"v", key=b"k")), Part(11, 11, -1, message(1, 11, b"v", key=b"k"))]
    tail = [Part(at, at, -1, message(1, at, b"v", key=b"k")) for at in range(12, 20)]
    broken = head[1].data[:-1] + bytes([head[1].data[-1] ^ 1])
    files = {name(0): b"", name(8): head[0].with_base(10 + 64).data + broken, name(12): _bytes(*tail)}
    write(tmp_path / "b0" / PARTITION, files)
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert made.exit == 3
    assert any(first <= 11 <= last for first, last in made.of("doubtful"))


def test_damaged_bytes_with_the_offsets_of_a_log_that_is_empty_are_a_loss_there(tmp_path: Path) -> None:
    """The names of the two were exchanged, and no CRC vouches for the only batch."""
    logs = [(0, [_cleaned(5, 7)]), (20, parts(20, 24)), (24, parts(24, 26)), (26, parts(26, 32))]
    files = replica(logs, epochs=[(0, 0)], end=32)
    files[name(0)], files[name(24)] = part(24, 2).broken().data, b""
    lay(tmp_path, files)
    assert (24, 25) in rescued(tmp_path, "--set", "cleanup.policy=compact").of("doubtful")


# --- leader epochs ------------------------------------------------------------------------------------------
def test_a_first_batch_has_not_the_epoch_of_a_checkpoint_that_is_older_than_those_around_it(tmp_path: Path) -> None:
    logs = [(0, [*parts(0, 10), *parts(10, 14, 1)]), (14, [part(14, 2, 1).with_epoch(0), *parts(16, 20, 1)])]
    lay(tmp_path, replica(logs, epochs=[(0, 0)]))
    assert {epoch for first, _, epoch in rescued(tmp_path).batches if first >= 10} == {1}


# --- several copies -----------------------------------------------------------------------------------------
def test_what_two_cleaners_left_of_one_batch_is_one_batch_though_it_has_no_record_in_common(tmp_path: Path) -> None:
    records = [Record(b"v%d" % at, b"k%d" % at) for at in (4, 5)]
    left = [
        Part(4, 5, 0, batch(4, [one._replace(delta=at)], last_delta=1, base_timestamp=TIME + 4))
        for at, one in enumerate(records)
    ]
    lay(tmp_path, *(replica([(0, [*parts(0, 4), one, *parts(6, 12)])], epochs=[(0, 0)]) for one in left))
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert made.exit == 0
    assert set(range(12)) - set(made.offsets) <= {4, 5}


# --- images -------------------------------------------------------------------------------------------------
def test_an_epoch_that_a_run_shows_to_begin_has_no_batch_before_that(tmp_path: Path) -> None:
    """Else all of older epochs would be of another branch than the one batch, which adjoins the next by one bit."""
    head = [_cleaned(1000, 1001), *parts(1004, 1032), *parts(1032, 1040, 4), *parts(1040, 1052, 7)]
    tail = [part(1055, 1, 7).with_base(31), *parts(1056, 1070, 8)]
    (tmp_path / "image").write_bytes(bytes(512) + _bytes(*head, part(1052, 3, 7).broken(), *tail) + bytes(4096))
    run_kdump(["carve", "image", "--to", "runs"], tmp_path)
    made = rescued(tmp_path, "--name", PARTITION, sources=["runs"])
    assert {*range(1004, 1052), *range(1055, 1070)} <= set(made.offsets)
    assert 31 not in made.offsets


# --- transactions -------------------------------------------------------------------------------------------
def test_a_marker_may_have_stood_where_one_copy_has_ended_and_the_other_not_begun(tmp_path: Path) -> None:
    """No cleaner took those offsets: what was open before them is in doubt."""
    who = (7, 0)
    head = replica([(0, [part(0, 1), of_transaction(1, 3, (*who, 0)), *parts(4, 8)])], epochs=[(0, 0)], end=8)
    tail = [part(36, 2, 1), of_transaction(38, 2, (*who, 9)).with_epoch(1), Part(40, 40, 1, _commit(40, who))]
    lay(tmp_path, head, replica([(36, [*tail, *parts(41, 45, 1)])], epochs=[(1, 36)], end=45))
    made = rescued(tmp_path, "--set", "cleanup.policy=compact")
    assert made.of("doubtful") == [(1, 3)]
    assert made.exit == 3


def _commit(offset: int, who: tuple[int, int]) -> bytes:
    data = marker(offset, who, commit=True)
    return data[:12] + (1).to_bytes(4, "big") + data[16:]
