"""What groups had committed: transactions, tombstones, times, damage, copies, differences, and the file of a reset."""

from __future__ import annotations

import json
import random
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from kdump.format.batch.walk import CheckedWalk
from kdump.format.record.reader import RecordReader
from kdump.format.source import BytesSource
from kdump.state import _fold
from tests.format.test_kernels import both
from tests.support.coordinator_records import at, classic, commit, ended
from tests.support.partitions import checkpoint, segment, write
from tests.support.partitions import name as file_name
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.segments import Record
from tests.support.terminal import run_in_terminal
from tests.support.verify_runs import held

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.runs import Run

Json = dict[str, Any]
OFFSETS = "__consumer_offsets-0"
T = 1_700_000_000_000
ME = (7, 0)  # producer id and epoch
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"


def log_dir(root: Path, *batches: bytes, **files: bytes) -> Path:
    """A log directory whose offsets topic has these batches."""
    return write(root, {f"{OFFSETS}/{file_name(0)}": b"".join(batches), **files})


def groups(path: Path, *args: str, exit_status: int = 0) -> list[Json]:
    """The rows of `kdump groups`."""
    run = run_kdump(["groups", str(path), "--format", "json", *args], path)
    assert run.exit == exit_status, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def of(rows: list[Json], kind: str, *keys: str) -> list[Any]:
    """Some keys of the rows of a type."""
    found = [tuple(row[key] for key in keys) for row in rows if row["type"] == kind]
    return [one[0] for one in found] if len(keys) == 1 else found


# --- commits in transactions ----------------------------------------------------------------------------------
def test_a_commit_in_a_transaction_is_pending_beside_the_committed_one_until_its_marker(tmp_path: Path) -> None:
    batches = [at(0, T, commit("g", 0, 10)), at(1, T + 1, commit("g", 0, 20), producer=ME)]
    keys = ("offset", "pending", "producerId")
    assert of(groups(log_dir(tmp_path / "a", *batches)), "commit", *keys) == [(10, False, None), (20, True, 7)]
    committed = [*batches, ended(2, T + 2, ME, commit=True)]
    assert of(groups(log_dir(tmp_path / "b", *committed)), "commit", *keys) == [(20, False, 7)]
    aborted = [*batches, ended(2, T + 2, ME, commit=False)]
    assert of(groups(log_dir(tmp_path / "c", *aborted)), "commit", *keys) == [(10, False, None)]


def test_the_newer_commit_record_wins_not_the_newer_marker(tmp_path: Path) -> None:
    early = at(0, T, commit("g", 0, 10), producer=ME)
    found = groups(log_dir(tmp_path, early, at(1, T, commit("g", 0, 20)), ended(2, T, ME, commit=True)))
    assert of(found, "commit", "offset", "pending") == [(20, False)]


def test_a_tombstone_removes_pending_commits_too(tmp_path: Path) -> None:
    batches = at(0, T, commit("g", 0, 10)), at(1, T, commit("g", 0, 20), producer=ME), at(2, T, commit("g", 0, None))
    found = groups(log_dir(tmp_path, *batches, ended(3, T, ME, commit=True)))
    assert of(found, "commit", "offset") == []
    assert of(found, "group", "group", "state", "protocol") == [("g", "Empty", "")]


def test_keys_of_both_versions_are_one_commit(tmp_path: Path) -> None:
    found = groups(log_dir(tmp_path, at(0, T, commit("g", 0, 10, key_version=0)), at(1, T, commit("g", 0, 20))))
    assert of(found, "commit", "offset") == [20]
    found = groups(log_dir(tmp_path, at(0, T, commit("g", 0, 10)), at(1, T, commit("g", 0, 30, key_version=0))))
    assert of(found, "commit", "offset", "leaderEpoch") == [(30, None)]


# --- groups ---------------------------------------------------------------------------------------------------
def test_a_commit_makes_a_group_again_after_the_group_was_deleted(tmp_path: Path) -> None:
    batches = at(0, T, commit("g", 0, 10)), at(1, T, classic("g", 4)), at(2, T, classic("g", None))
    assert of(groups(log_dir(tmp_path, *batches)), "group", "group") == []
    found = groups(log_dir(tmp_path, *batches, at(3, T, commit("g", 0, 11))))
    assert of(found, "group", "groupType", "epoch", "protocol") == [("Classic", 0, "")]


def test_a_classic_group_with_members_is_stable_and_one_without_is_empty(tmp_path: Path) -> None:
    found = groups(log_dir(tmp_path, at(0, T, classic("a", 3, members=2), classic("b", 4))))
    keys = ("group", "state", "epoch", "members", "partition")
    assert of(found, "group", *keys) == [("a", "Stable", 3, 2, OFFSETS), ("b", "Empty", 4, 0, OFFSETS)]


def test_only_the_groups_and_topics_that_are_named_are_shown(tmp_path: Path) -> None:
    records = commit("a", 0, 1), commit("a", 0, 2, topic="u"), commit("b", 0, 3)
    path = log_dir(tmp_path, at(0, T, *records))
    assert of(groups(path, "--group", "a"), "commit", "offset") == [1, 2]
    assert of(groups(path, "--topic", "t"), "commit", "offset") == [1, 3]
    found = groups(path, "--topic", "u")
    assert (of(found, "group", "group"), of(found, "commit", "offset")) == (["a"], [2])
    assert groups(path, "--group", "nobody", exit_status=5)[-1]["exit"] == 5, "its partition is not here"


# --- times ----------------------------------------------------------------------------------------------------
def test_a_time_means_all_up_to_the_last_batch_that_is_not_later_even_where_the_clock_went_back(
    tmp_path: Path,
) -> None:
    times = [T, T + 100, T + 50, T + 200]
    path = log_dir(tmp_path, *(at(n, time, commit("g", n, n)) for n, time in enumerate(times)))
    for when, count in ((T - 1, 0), (T, 1), (T + 49, 1), (T + 50, 3), (T + 199, 3), (T + 200, 4)):
        found = groups(path, "--at", str(when), exit_status=0 if count else 10)
        assert len(of(found, "commit", "offset")) == count, when
    assert len(of(groups(path, "--at", "end"), "commit", "offset")) == 4


def test_records_below_the_log_start_are_not_loaded(tmp_path: Path) -> None:
    start = {"log-start-offset-checkpoint": checkpoint(("__consumer_offsets", 0, 1))}
    path = log_dir(tmp_path, at(0, T, commit("g", 0, 1)), at(1, T, commit("g", 1, 2)), **start)
    assert of(groups(path), "commit", "partition") == [1]


# --- exactness ------------------------------------------------------------------------------------------------
def test_answers_are_always_exact_where_nothing_was_compacted(tmp_path: Path) -> None:
    found = groups(log_dir(tmp_path, at(0, T, commit("g", 0, 1))), "--at", str(T))
    assert of(found, "horizon", "partition", "exactFrom", "offset") == [(OFFSETS, None, 0)]
    assert of(found, "commit", "exact") == [True]


@pytest.mark.parametrize(("dirty", "expected"), [(None, (T + 10, 5)), (6, (T + 30, 6)), (2, (T + 10, 5))])
def test_compaction_makes_answers_exact_from_its_end_on(
    dirty: int | None, expected: tuple[int, int], tmp_path: Path
) -> None:
    """Offsets 2 to 4 are gone; the first dirty offset of the cleaner counts where it is there."""
    times = {0: T, 1: T + 10, 5: T + 30, 6: T + 20, 7: T + 40}
    batches = [at(n, time, commit("g", n, n)) for n, time in times.items()]
    files = {} if dirty is None else {"cleaner-offset-checkpoint": checkpoint(("__consumer_offsets", 0, dirty))}
    path = log_dir(tmp_path, *batches, **files)
    assert of(groups(path), "horizon", "exactFrom", "offset") == [expected]
    assert set(of(groups(path), "commit", "exact")) == {True}
    assert set(of(groups(path, "--at", str(expected[0] - 1)), "commit", "exact")) == {False}
    assert set(of(groups(path, "--at", str(expected[0])), "commit", "exact")) == {True}


def test_a_table_on_a_terminal_ends_with_how_exact_it_is(tmp_path: Path) -> None:
    times = {0: T, 1: T + 10, 5: T + 30}  # offsets 2 to 4 are gone
    path = log_dir(tmp_path, *(at(n, time, commit("g", n, n)) for n, time in times.items()))
    seen = run_in_terminal(["groups", str(path)], tmp_path)
    assert "complete: no newer value is missing" in seen.lines
    seen = run_in_terminal(["groups", str(path), "--at", str(T)], tmp_path)
    assert "not exact: 1 of 1 line: newer values may be lost or erased" in seen.lines


def with_hole(root: Path, **files: bytes) -> Path:
    """A log directory whose offsets topic has lost offsets 2 to 4, of T + 10 or later."""
    times = {0: T, 1: T + 10, 5: T + 30}
    return log_dir(root, *(at(n, time, commit("g", n, n)) for n, time in times.items()), **files)


NOT_CLEANED = {"cleaner-offset-checkpoint": checkpoint(("other", 0, 9))}
ROWS = {f"{OFFSETS}.salvage.jsonl": b'{"type": "loss", "offset": 2, "lastOffset": 4, "certainty": "doubtful"}\n'}


def test_a_hole_that_is_a_loss_is_no_compaction_and_what_was_before_it_is_exact(tmp_path: Path) -> None:
    why = "lost before salvage made this: offsets 2..4"
    path = with_hole(tmp_path, **ROWS)
    assert of(groups(path), "horizon", "exactFrom", "offset") == [(None, 0)]
    assert set(of(groups(path), "commit", "exact")) == {False}
    for when, is_exact in ((T + 9, True), (T + 10, False), (T + 30, False)):
        assert set(of(groups(path, "--at", str(when)), "commit", "exact")) == {is_exact}
    run = run_kdump(["groups", "."], path)
    assert "not exact: " in run.stdout.decode()
    said = run.stderr.decode()
    assert f"kdump: ./{OFFSETS}: {why}: newer values may have been there" in said.splitlines()


def test_more_holes_than_one_are_compaction_also_where_the_cleaner_has_no_entry(tmp_path: Path) -> None:
    """A new replica copies a log that the leader has cleaned."""
    times = {0: T, 1: T + 10, 5: T + 30, 9: T + 40}
    path = log_dir(tmp_path, *(at(n, time, commit("g", n, n)) for n, time in times.items()), **NOT_CLEANED)
    assert of(groups(path), "horizon", "exactFrom", "offset") == [(T + 30, 9)]


def test_one_hole_is_compaction_too_for_brokers_make_the_topic_compacted(tmp_path: Path) -> None:
    path = with_hole(tmp_path, **NOT_CLEANED)
    assert set(of(groups(path), "commit", "exact")) == {True}


def test_of_equal_copies_the_one_that_has_lost_nothing_is_read(tmp_path: Path) -> None:
    with_hole(tmp_path / "a", **ROWS)
    log_dir(tmp_path / "b", *(at(n, T + n, commit("g", n, n)) for n in range(6)))
    run = run_kdump(["groups", "a", "b", "--group", "g", "--format", "json"], tmp_path)
    assert of([json.loads(line) for line in run.stdout.splitlines()], "commit", "exact") == [True] * 6


def test_a_batch_with_records_taken_out_is_a_hole_too(tmp_path: Path) -> None:
    first, last = commit("g", 0, 1), commit("g", 1, 2)
    path = log_dir(tmp_path, at(0, T, first, Record(last.value, last.key, delta=3)), at(4, T + 5, commit("g", 2, 3)))
    assert of(groups(path), "horizon", "exactFrom", "offset") == [(T, 4)]


def test_a_damaged_batch_is_passed_over_and_nothing_is_exact_from_its_time_on(tmp_path: Path) -> None:
    batches = [at(n, T + 10 * n, commit("g", n, n)) for n in range(4)]
    damaged = bytearray(batches[2])
    damaged[-3] ^= 1
    path = log_dir(tmp_path, *batches[:2], bytes(damaged), batches[3])
    found = groups(path, exit_status=3)
    assert of(found, "commit", "partition", "exact") == [(0, False), (1, False), (3, False)]
    assert of(found, "finding", "code", "offset") == [("B01", 2)]
    assert of(found, "horizon", "exactFrom") == [None]
    assert of(groups(path, "--at", str(T + 19), exit_status=3), "commit", "exact") == [True, True]
    assert of(groups(path, "--at", str(T + 20), exit_status=3), "commit", "exact") == [False, False]


def test_a_torn_batch_is_damage_unless_a_broker_is_writing_it(tmp_path: Path) -> None:
    last = at(1, T, commit("g", 1, 2))
    path = log_dir(tmp_path, at(0, T, commit("g", 0, 1)), last[:-5], **{".lock": b""})
    assert of(groups(path, exit_status=3), "commit", "exact") == [False]
    with held(path):
        assert of(groups(path), "commit", "exact") == [True]


def test_a_record_that_cannot_be_read_is_a_finding_and_the_rest_is_folded(tmp_path: Path) -> None:
    odd = [Record(b"\0\x63", commit("g", 0, 1).key), Record(b"v", b""), Record(b"v", None), Record(b"v", b"\0\x63??")]
    found = groups(log_dir(tmp_path, at(0, T, *odd, commit("g", 1, 2))))
    assert of(found, "commit", "partition") == [1]
    assert set(of(found, "finding", "code")) == {"R07"}
    assert found[-1]["warnings"] == 3, "a type of record that nobody knows is what a coordinator passes over"


def with_lost_batch(tmp_path: Path) -> Path:
    """A log.dir whose `__consumer_offsets-1` has lost what made room for another type of the group grp-up."""
    path = copy_tree(FIXTURES / "kafka-4.3.1/clean/node1", tmp_path / "data")
    log = path / "__consumer_offsets-1" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[9000] ^= 1
    log.write_bytes(data)
    return path


def test_what_damage_before_a_record_explains_is_told_as_its_effect(tmp_path: Path) -> None:
    path = with_lost_batch(tmp_path)
    damage, effect = (one for one in groups(path, exit_status=3) if one["type"] == "finding")
    assert (damage["code"], damage["offset"], damage["because"]) == ("B01", 77, None)
    assert (effect["code"], effect["offset"], effect["because"]) == ("R07", 87, "B01")
    assert effect["message"].endswith(
        "a coordinator does not load this, as B01 before it may have lost what changed that"
    )
    assert "newer Kafka" not in effect["remedy"]


def test_findings_about_groups_that_were_not_asked_for_stay_out(tmp_path: Path) -> None:
    path = with_lost_batch(tmp_path)
    assert of(groups(path, "--group", "grp-new", exit_status=3), "finding", "code") == ["B01"]
    assert of(groups(path, "--group", "grp-up", exit_status=3), "finding", "code") == ["B01", "R07"]


@pytest.mark.parametrize("layout", [[], ["--reset-csv"]])
def test_what_text_does_not_write_out_is_counted(layout: list[str], tmp_path: Path) -> None:
    path = with_lost_batch(tmp_path)
    run = run_kdump(["groups", str(path), "--group", "grp-up", *layout], tmp_path)
    assert sum(b" count=1 because=B01: " in line for line in run.stderr.splitlines()) == 1


def test_without_damage_before_it_a_record_of_another_type_is_no_effect(tmp_path: Path) -> None:
    path = with_lost_batch(tmp_path)
    log = path / "__consumer_offsets-1" / f"{0:020}.log"
    data = log.read_bytes()
    log.write_bytes(data[:8859] + data[9249:])  # as if the batch had never been there
    log.with_suffix(".index").unlink()  # which knows of that batch
    (effect,) = (one for one in groups(path) if one["type"] == "finding" and one["code"] == "R07")
    assert (effect["because"], "newer Kafka" in effect["remedy"]) == (None, True)


# --- copies ---------------------------------------------------------------------------------------------------
def test_of_several_copies_the_highest_epoch_counts_then_the_log_end(tmp_path: Path) -> None:
    old = log_dir(tmp_path / "old", *(at(n, T, commit("g", 0, n)) for n in range(5)))
    new = log_dir(tmp_path / "new", at(0, T, commit("g", 0, 0)), at(1, T, commit("g", 0, 77), epoch=1))
    longer = log_dir(tmp_path / "longer", *(at(n, T, commit("g", 0, n)) for n in range(6)))
    for paths in ([old, new], [new, old]):
        run = run_kdump(["groups", *map(str, paths), "--format", "json"], tmp_path)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        assert of(rows, "commit", "offset") == [77]
        assert f"{new}/{OFFSETS} is read, at leader epoch 1".encode() in run.stderr
    assert of(groups(old, str(longer)), "commit", "offset") == [5]
    assert of(groups(old, str(old / OFFSETS)), "commit", "offset") == [4], "the same directory twice is one copy"


def test_of_equal_copies_a_damaged_one_is_not_read_whatever_the_order_is(tmp_path: Path) -> None:
    batches = [at(n, T + n, commit("g", 0, n)) for n in range(5)]
    sound = log_dir(tmp_path / "sound", *batches)
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    hurt = log_dir(tmp_path / "hurt", *batches)
    for paths in ([hurt, sound], [sound, hurt]):
        assert set(of(groups(paths[0], str(paths[1]), "--at", str(T + 3)), "commit", "exact")) == {True}


# --- lag ------------------------------------------------------------------------------------------------------
def test_lag_is_the_end_of_the_log_at_that_time_less_the_offset(tmp_path: Path) -> None:
    data = b"".join(at(n, T + 10 * n, Record()) for n in range(9))
    path = log_dir(tmp_path, at(0, T, commit("g", 0, 2), commit("g", 1, 2)), **{f"t-0/{file_name(0)}": data})
    keys = ("partition", "logEndOffset", "lag")
    assert of(groups(path, "--lag"), "commit", *keys) == [(0, 9, 7), (1, None, None)]
    assert of(groups(path, "--lag", "--at", str(T + 35)), "commit", *keys) == [(0, 4, 2), (1, None, None)]
    assert of(groups(path), "commit", *keys) == [(0, None, None), (1, None, None)]


def test_a_wrong_base_offset_loses_no_commit_and_makes_no_hole(tmp_path: Path) -> None:
    batches = [bytearray(at(n, T + n, commit("g", n, n))) for n in range(3)]
    batches[1][1] ^= 0x10  # of the base offset: outside of the CRC
    path = log_dir(tmp_path, *map(bytes, batches))
    run = run_kdump(["groups", "."], path)
    assert (run.exit, run.stdout.count(b"t-"), run.stdout.count(b"not exact")) == (3, 3, 0)
    assert b"error O02 offset-overflow" in run.stderr
    assert b"the answer may lack" not in run.stderr


# --- differences ----------------------------------------------------------------------------------------------
def test_a_difference_has_each_field_that_changed_with_the_record_that_made_it_so(tmp_path: Path) -> None:
    batches = [
        at(0, T, commit("g", 0, 50), commit("g", 1, 5), commit("gone", 0, 1)),
        at(3, T + 10, commit("g", 0, 20, time=T + 9)),
        at(4, T + 20, commit("gone", 0, None), classic("gone", None)),
        at(6, T + 30, commit("new", 0, 8)),
    ]
    found = groups(log_dir(tmp_path, *batches), "--diff", str(T), "end")
    keys = ("what", "name", "partition", "field", "before", "after", "timestamp", "offset")
    rows = of(found, "change", *keys)
    assert rows[:2] == [
        ("commit", "g t-0", OFFSETS, "offset", 50, 20, T + 10, 3),
        ("commit", "g t-0", OFFSETS, "commitTimestamp", T, T + 9, T + 10, 3),
    ]
    assert ("commit", "gone t-0", OFFSETS, "offset", 1, None, T + 20, 4) in rows
    assert ("group", "gone", OFFSETS, "groupType", "Classic", None, T + 20, 5) in rows
    assert ("commit", "new t-0", OFFSETS, "offset", None, 8, T + 30, 6) in rows
    assert [row[-1] for row in rows] == sorted(row[-1] for row in rows)
    assert not of(found, "commit", "offset")


def test_the_other_way_round_a_difference_has_before_and_after_exchanged(tmp_path: Path) -> None:
    path = log_dir(tmp_path, at(0, T, commit("g", 0, 50)), at(1, T + 10, commit("g", 0, 20)))
    found = of(groups(path, "--diff", "end", str(T)), "change", "field", "before", "after", "offset")
    assert found == [("offset", 20, 50, 0)]


def test_a_reset_stands_out_in_text(tmp_path: Path) -> None:
    data = b"".join(at(n, T, Record()) for n in range(9))
    batches = at(0, T, commit("g", 0, 5), commit("g", 1, 5)), at(2, T + 1, commit("g", 0, 500), commit("g", 1, 4))
    path = log_dir(tmp_path, *batches, **{f"t-0/{file_name(0)}": data})
    run = run_kdump(["groups", str(path), "--diff", str(T), "end", "--lag"], tmp_path)
    said = run.stdout.decode()
    assert [text in said for text in ("491 past the", "backwards by 1")] == [True] * 2


# --- the file of a reset --------------------------------------------------------------------------------------
def reset(path: Path, *args: str) -> Run:
    """Run with --reset-csv."""
    return run_kdump(["groups", str(path), "--reset-csv", *args], path)


def test_a_reset_file_has_what_is_committed_and_nothing_else(tmp_path: Path) -> None:
    pending = at(4, T, commit("a", 9, 9), producer=ME)
    records = commit("a", 0, 1), commit('b,"c"', 1, 2), commit("d e", 2, 3)
    path = log_dir(tmp_path, at(0, T, *records), pending)
    run = reset(path)
    assert (run.exit, run.stderr) == (0, b"")
    assert run.stdout == b'a,t,0,1\n"b,""c""",t,1,2\nd e,t,2,3\n'
    assert reset(path, "--group", "a").stdout == b"t,0,1\n"
    assert reset(path, "--group", "a", "--group", "d e").stdout == b"a,t,0,1\nd e,t,2,3\n"


def test_a_reset_says_how_many_of_its_offsets_are_not_exact(tmp_path: Path) -> None:
    damaged = bytearray(at(2, T, commit("a", 2, 3)))
    damaged[70] ^= 1
    run = reset(log_dir(tmp_path, at(0, T, commit("a", 0, 1), commit("a", 1, 2)), bytes(damaged)))
    assert (run.exit, run.stdout) == (3, b"a,t,0,1\na,t,1,2\n")
    assert b"kdump: not exact: 2 of 2 offsets in the file: newer commits may be lost or erased" in run.stderr


def test_a_group_with_a_newline_in_its_name_is_refused(tmp_path: Path) -> None:
    path = log_dir(tmp_path, at(0, T, commit("a\nb", 0, 1), commit("a\nb", 1, 1), commit("c", 0, 1)))
    run = reset(path)
    assert (run.exit, run.stdout) == (12, b"c,t,0,1\n")
    assert run.stderr == rb"kdump: group a\x0ab: its name has a newline, a reset file cannot have it: left out" + b"\n"


def test_share_groups_have_no_line_in_a_reset_file() -> None:
    run = reset(NODE)
    assert b"grp-share" not in run.stdout
    assert b"grp-new,txn,0,335\n" in run.stdout
    told = (
        "kdump: group grp-share: a share group is left out: the file is not for it, kafka-share-groups.sh "
        "--reset-offsets resets it\n"
    )
    assert (run.exit, run.stderr.decode()) == (0, told)
    named = reset(NODE, "--group", "grp-share")
    assert (named.exit, named.stdout, named.stderr.decode()) == (12, b"", told), "it was asked for"


@pytest.mark.parametrize("more", [["--format", "json"], ["--diff", "0", "end"]])
def test_a_reset_file_goes_with_no_other_layout(more: list[str], tmp_path: Path) -> None:
    assert reset(log_dir(tmp_path), *more).exit == 2


# --- share groups ---------------------------------------------------------------------------------------------
def test_start_offsets_of_share_groups_are_those_of_the_share_coordinator() -> None:
    found = [row for row in groups(NODE) if row["type"] == "commit" and row["group"] == "grp-share"]
    assert of(found, "commit", "topic", "partition", "offset") == [
        ("wide", 1, 44),
        ("idem", 0, 0),
        ("wide", 0, 65),
        ("wide", 2, 58),
    ]


def test_on_a_terminal_a_group_without_commits_says_how_exact_it_is(tmp_path: Path) -> None:
    batches = [at(0, T, classic("g", 1)), at(1, T + 9, commit("h", 0, 1))]
    path = log_dir(tmp_path / "a", *batches)
    assert "complete: no newer value is missing" in run_in_terminal(["groups", ".", "--group", "g"], path).lines
    damaged = bytearray(batches[1])
    damaged[-1] ^= 1
    lines = run_in_terminal(["groups", ".", "--group", "g"], log_dir(tmp_path / "b", batches[0], bytes(damaged))).lines
    assert "not exact: 1 of 1 line: newer values may be lost or erased" in lines
    assert next(line for line in lines if line.startswith("g  ")).endswith("   not exact")


def test_on_a_terminal_a_share_group_has_one_table_for_all_its_partitions() -> None:
    lines = run_in_terminal(["groups", ".", "--group", "grp-share"], NODE).lines
    assert [line for line in lines if line.startswith("grp-share")] == [lines[0]]
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["idem-0", "0"],
        ["wide-0", "65"],
        ["wide-1", "44"],
        ["wide-2", "58"],
    ]


def test_a_topic_of_which_nobody_knows_the_name_has_its_id() -> None:
    path = NODE / "__share_group_state-1"
    assert {len(topic) for topic in of(groups(path), "commit", "topic")} == {22}


# --- processes ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("args", [["groups", "--lag"], ["groups", "--diff", "0", "end"], ["transactions"]])
def test_any_number_of_processes_says_the_same(args: list[str], tmp_path: Path) -> None:
    """What is wrong with a log that two partitions need is said once, too."""
    damaged = bytearray(at(0, T, Record()) + at(1, T, Record()))
    damaged[70] ^= 1
    logs = {f"__consumer_offsets-{n}/{file_name(0)}": at(0, T, commit(f"g{n}", 0, n)) for n in range(5)}
    path = write(tmp_path, {**logs, f"t-0/{file_name(0)}": bytes(damaged), "cleaner-offset-checkpoint": b"x"})
    for root in (path, NODE):
        for layout in ("text", "json"):
            runs = [run_kdump([*args, str(root), "--format", layout, "-j", n], tmp_path) for n in ("1", "3", "0")]
            assert runs[0] == runs[1] == runs[2]


# --- what is no log directory ---------------------------------------------------------------------------------
def test_what_is_not_there_and_what_is_no_such_directory_have_their_own_exits(tmp_path: Path) -> None:
    assert run_kdump(["groups", str(tmp_path / "nowhere")], tmp_path).exit == 10
    for verb in ("groups", "transactions"):
        run = run_kdump([verb, str(tmp_path)], tmp_path)
        assert (run.exit, run.stdout) == (10, b"")
        assert run.stderr.endswith(b": no Kafka files here\n")
    (tmp_path / "file").write_bytes(b"")
    assert run_kdump(["groups", str(tmp_path / "file")], tmp_path).exit == 5


def test_a_log_directory_without_internal_topics_has_nothing_to_say(tmp_path: Path) -> None:
    write(tmp_path, {f"t-0/{file_name(0)}": at(0, T, Record())})
    run = run_kdump(["groups", str(tmp_path)], tmp_path)
    assert (run.exit, run.stdout) == (5, b"")
    told = "no partition of __consumer_offsets or __share_group_state here; each group is in one, kdump partition-for "
    assert run.stderr.decode() == f"kdump: {tmp_path}: {told}GROUP tells in which: name the log.dirs of all brokers\n"
    run = run_kdump(["transactions", str(tmp_path)], tmp_path)
    told = "no partition of __transaction_state here; each transactional id is in one, kdump partition-for ID tells in "
    assert run.stderr.decode().splitlines() == [
        f"kdump: {tmp_path}: {told}which: name the log.dirs of all brokers", "kdump: no transactions here",
    ]  # fmt: skip
    assert run.exit == 5
    assert run_kdump(["transactions", str(tmp_path / "t-0")], tmp_path).stderr == b"kdump: no transactions here\n"


@pytest.mark.parametrize("args", [["--at", "soon"], ["--at", "max"], ["--diff", "1", "x"], []])
def test_a_wrong_use_opens_nothing(args: list[str], tmp_path: Path) -> None:
    run = run_kdump(["groups", *([str(tmp_path)] if args else []), *args], tmp_path)
    assert run.exit == 2


def test_an_answer_for_the_future_is_said_to_be_that_of_now(tmp_path: Path) -> None:
    root = str(log_dir(tmp_path, at(0, T, commit("g", 0, 7))))
    now, future = (run_kdump(["groups", root, *args], tmp_path) for args in (["--at", "end"], ["--at", "2999-01-01"]))
    assert (future.exit, future.stdout) == (now.exit, now.stdout)
    assert b"--at: 2999-01-01 is in the future: the answer is what was written until now" in future.stderr
    assert b"in the future" not in now.stderr


# --- the kernel -----------------------------------------------------------------------------------------------
def test_the_kernel_keeps_the_newest_value_of_known_keys_and_stops_at_all_others() -> None:
    rng = random.Random(1)
    records = [commit(f"g{rng.randrange(4)}", rng.randrange(3), rng.choice([None, n, n, n])) for n in range(300)]
    data = b"".join(
        at(n, T + n, *records[n : n + 3], producer=ME if n % 21 == 0 else None) for n in range(0, len(records), 3)
    )
    (window,) = CheckedWalk(BytesSource(data), lambda _: None, next_base=None, max_batch_bytes=1 << 20).windows()
    (chunk,) = RecordReader(1 << 20).chunks(window)
    ended_so = []
    for kernel in both(_fold):
        keys = {one.key: n for n, one in enumerate(records[:5]) if one.key is not None}
        columns, values = array("q", [-1] * (5 * kernel.VALUE_WIDTH)), [None] * 5
        stops, r = [], 0
        while r < chunk.filled:
            r = kernel.upsert(chunk.view, window.rows, chunk.rows, r, chunk.filled, keys, columns, values)
            stops.append(r)
            r += 1
        state = array("q", [0, 7, -1, -1, -1, -1, 0, -1, -1])
        cuts = array("q", [0] * 6)
        kernel.survey(window.rows, window.count, 4, state, array("q", [T + 30, T - 1]), cuts)
        ended_so.append((stops, columns, values, state, cuts))
    assert ended_so[0] == ended_so[1]
    stops, columns, values, state, cuts = ended_so[0]
    assert len(stops) > 100
    expected = {}
    for n, one in enumerate(records):
        if n // 3 * 3 % 21 and one.value is not None and one.key in keys:
            expected[keys[one.key]] = n, T + n // 3 * 3, -1, one.value
    for number, value in enumerate(values):
        found = *columns[number * _fold.VALUE_WIDTH : (number + 1) * _fold.VALUE_WIDTH], value
        assert found == expected.get(number, (-1, -1, -1, None))
    assert (state[_fold.END], state[_fold.LARGEST]) == (300, T + 297)
    assert cuts.tolist()[:3] == [4, window.end(11), 33]
    assert cuts.tolist()[3:] == [0, 0, 0]


@pytest.mark.parametrize("base", [0, 20])
def test_offsets_that_an_index_knows_before_the_first_batch_of_a_segment_are_lost(base: int, tmp_path: Path) -> None:
    logs = {start: [at(n, T + n, commit("g", 0, n)) for n in range(start, start + 20)] for start in (0, 20)}
    files = segment(0, logs[0], interval=1) | segment(20, logs[20], interval=1)
    files[file_name(base)] = b"".join(logs[base][5:])
    write(tmp_path / "d" / OFFSETS, files | {"leader-epoch-checkpoint": checkpoint((0, 0))})
    rows = groups(tmp_path / "d" / OFFSETS, exit_status=3)
    assert [row["exact"] for row in rows if row["type"] == "commit"] == [False]
    assert [row["offset"] for row in rows if row.get("code") == "O04"] == [base]
