"""`verify --replicas`: what differs between replicas is told, what may differ by right is not."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.checks import batch_contents, replicas
from kdump.checks.options import VerifyOptions
from kdump.checks.replicas import compare
from kdump.checks.run import verify
from kdump.finding import Finding, Severity
from kdump.rows.steps import Rank, Step
from kdump.rows.verdict import Loss
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.words.command import command_line
from tests.support.measured import lines_run
from tests.support.partitions import meta, write
from tests.support.runs import FIXTURES, copy_tree, flat, run_kdump
from tests.support.segments import GZIP, Record, batch, message
from tests.support.step_runs import acts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kdump.storage.file_source import FileSource

ZERO = f"{0:020}.log"
CLEAN = FIXTURES / "kafka-4.3.1/clean"


def differences(*paths: Path) -> list[Finding]:
    """The findings that compare replicas."""
    items = compare([str(path) for path in paths], VerifyOptions())
    return [item for item in items if isinstance(item, Finding) and item.code.name.startswith("D")]


def replica(root: Path, *batches: bytes, name: str = "t-0") -> Path:
    """Write a partition of one segment."""
    directory = root / name
    directory.mkdir(parents=True)
    (directory / ZERO).write_bytes(b"".join(batches))
    return directory


def log(start: int, stop: int, value: bytes = b"v", each: int = 2) -> list[bytes]:
    """Batches of some records each with the offsets [start, stop)."""
    return [batch(at, [value + b"%d" % n for n in range(at, min(at + each, stop))]) for at in range(start, stop, each)]


def test_the_replicas_of_a_cluster_do_not_differ() -> None:
    found = differences(*sorted(CLEAN.iterdir()))
    assert [one for one in found if one.severity is not Severity.NOTE] == []


def test_equal_replicas_have_no_difference(tmp_path: Path) -> None:
    one, other = (replica(tmp_path / root, *log(0, 10)) for root in "ab")
    assert differences(one, other) == []


def test_another_record_at_an_offset_is_an_error(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 10))
    other = replica(tmp_path / "b", *log(0, 4), batch(4, [b"v4", b"other"]), *log(6, 10))
    (found,) = differences(one, other)
    assert (found.code.name, found.severity, found.file) == ("D01", Severity.ERROR, str(other / ZERO))
    assert (found.offset, found.last_offset) == (4, 5)
    assert found.position == len(b"".join(log(0, 4)))


def test_another_framing_of_the_same_records_is_no_difference(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 12, each=2))
    other = replica(tmp_path / "b", *log(0, 12, each=3))
    assert differences(one, other) == []


def test_records_are_compared_however_many_batches_it_takes_until_both_end_alike(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 6000))
    data = [batch(0, [b"v0"]), *log(1, 6001)]  # no batch ends where one of the first replica does
    data[5] = batch(9, [b"other", b"v10"])
    other = replica(tmp_path / "b", *data)
    (found,) = [one for one in differences(one, other) if one.code.name == "D01"]
    assert (found.offset, found.position) == (9, len(b"".join(data[:5])))


def test_a_record_that_another_framing_leaves_out_is_told(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", batch(0, [b"v%d" % n for n in range(12)]))
    other = replica(tmp_path / "b", *log(0, 4), *log(8, 12))
    (found,) = differences(one, other)
    assert (found.code.name, found.file, found.offset, found.last_offset) == ("D02", str(other / ZERO), 4, 7)
    assert found.position == len(b"".join(log(0, 4)))


def test_a_log_that_ends_inside_a_batch_of_the_other_cannot_follow(tmp_path: Path) -> None:
    """The leader sends the batch whole; a follower refuses offsets that it has (UnexpectedAppendOffsetException)."""
    one = replica(tmp_path / "a", *log(0, 2), batch(2, [b"v%d" % n for n in range(2, 12)]))
    other = replica(tmp_path / "b", *log(0, 6))
    (found,) = differences(one, other)
    assert (found.code.name, found.file, found.found, found.values["end"]) == ("D03", str(other), 6, 12)
    assert found.severity is Severity.ERROR
    assert found.remedy.endswith(f"kdump truncate {other} --to-offset 2")
    (behind,) = differences(one, replica(tmp_path / "c", *log(0, 2)))
    assert (behind.code.name, behind.severity) == ("D03", Severity.NOTE)


def test_an_end_inside_a_batch_of_another_history_is_no_reason_to_cut(tmp_path: Path) -> None:
    """A follower goes back to where the epochs part; the shorter one may have the newer history."""
    shared, theirs = log(0, 10), batch(10, [b"o%d" % n for n in range(10, 14)], epoch=1)
    for number, ours in enumerate(
        (
            batch(10, [b"n10", b"n11"], epoch=5),
            batch(10, [b"n10", b"n11"], epoch=1),
            batch(10, [b"o10", b"o11"], epoch=5),
        )
    ):
        one = replica(tmp_path / f"a{number}", *shared, ours)
        found = differences(one, replica(tmp_path / f"b{number}", *shared, theirs))
        assert [each.severity for each in found if each.code.name == "D03"] == [Severity.NOTE]


def test_a_replica_of_an_old_format_that_has_fallen_behind_is_a_note(tmp_path: Path) -> None:
    """Where a message of magic 1 begins behind a hole its header does not say."""
    one = replica(tmp_path / "a", *(message(1, n, b"v%d" % n) for n in range(6)))
    other = replica(tmp_path / "b", *(message(1, n, b"v%d" % n) for n in (0, 1, 2, 3, 4, 6, 7, 8)))
    assert {each.severity for each in differences(one, other) if each.code.name == "D03"} <= {Severity.NOTE}


def test_a_record_that_was_not_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    large = [b"v" * 5000] * 4
    one = replica(tmp_path / "a", *(batch(at, large[:2], codec=GZIP) for at in (0, 2)), *log(4, 8))
    other = replica(tmp_path / "b", batch(0, large), *log(4, 8))
    for limit, codes in ((1000, ["C03", "C03"]), (100_000, [])):
        items = compare([str(one), str(other)], VerifyOptions(max_uncompressed_bytes=limit))
        found = [item.code.name for item in items if isinstance(item, Finding) and item.severity is not Severity.NOTE]
        assert found == codes


def test_the_records_of_a_log_are_read_with_one_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [replica(tmp_path / name, *log(0, 600, each=each)) for name, each in (("a", 2), ("b", 3))]
    opened: list[str] = []

    def counted(path: str) -> FileSource | OpenFailure:
        opened.append(path)
        return open_source(path)

    for module in (replicas, batch_contents):
        monkeypatch.setattr(module, "open_source", counted)
    assert differences(*paths) == []
    assert sorted(opened) == sorted(2 * [str(path / ZERO) for path in paths])  # for the headers, for the records


def test_another_leader_epoch_of_the_same_batch_is_an_error(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 4))
    data = bytearray(b"".join(log(0, 4)))
    data[15] ^= 4
    other = replica(tmp_path / "b", bytes(data))
    assert [(found.code.name, found.field) for found in differences(one, other)] == [("D01", "partitionLeaderEpoch")]


def test_a_hole_that_the_other_has_not_is_a_warning(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 10))
    other = replica(tmp_path / "b", *log(0, 4), *log(6, 10))
    (found,) = differences(one, other)
    assert (found.code.name, found.severity, found.offset, found.last_offset) == ("D02", Severity.WARNING, 4, 5)
    assert found.file == str(other / ZERO)


def test_what_compaction_removed_in_one_replica_is_a_note(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 10))
    lacking = batch(2, [b"v2"], last_delta=1)
    other = replica(tmp_path / "b", *log(0, 2), lacking, *log(6, 10))
    assert {found.severity for found in differences(one, other)} == {Severity.NOTE}


def test_what_retention_removed_in_one_replica_is_no_difference(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 10))
    other = tmp_path / "b" / "t-0"
    other.mkdir(parents=True)
    (other / f"{4:020}.log").write_bytes(b"".join(log(4, 10)))
    assert differences(one, other) == []


def test_a_replica_that_ends_early_is_a_note(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 10))
    other = replica(tmp_path / "b", *log(0, 6))
    (found,) = differences(one, other)
    assert (found.code.name, found.severity, found.found) == ("D03", Severity.NOTE, 6)


def test_a_damaged_batch_is_no_difference_of_its_own(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 10))
    data = bytearray(b"".join(log(0, 10)))
    data[len(b"".join(log(0, 4))) + 70] ^= 1
    other = replica(tmp_path / "b", bytes(data))
    assert differences(one, other) == []


def moved(data: list[bytes], number: int, base: int) -> list[bytes]:
    """Batches, one of them with another base offset: no CRC is over it."""
    return [base.to_bytes(8, "big", signed=True) + one[8:] if n == number else one for n, one in enumerate(data)]


@pytest.mark.parametrize("each", [2, 3], ids=["the same batches", "other batches"])
@pytest.mark.parametrize("wrong", [(0, 8), (2, 1 << 20), (2, 2**63 - 1), (2, -1), (3, 1)])
def test_data_at_a_wrong_base_offset_is_not_missing_where_the_right_one_is_known(
    wrong: tuple[int, int], each: int, tmp_path: Path
) -> None:
    one = replica(tmp_path / "a", *log(0, 12, each=each))
    other = replica(tmp_path / "b", *moved(log(0, 12), *wrong))
    assert differences(one, other) == differences(other, one) == []


def test_the_last_batch_of_a_closed_log_counts_by_its_right_offset(tmp_path: Path) -> None:
    one, other = (replica(tmp_path / name, *log(0, 8)) for name in "ab")
    (other / ZERO).write_bytes(b"".join(moved(log(0, 8), 3, 7)))
    for path in (one, other):
        (path / f"{8:020}.log").write_bytes(b"".join(log(8, 12)))
    assert differences(one, other) == differences(other, one) == []


def test_data_at_a_wrong_base_offset_is_missing_where_nobody_knows_the_right_one(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 12))
    other = replica(tmp_path / "b", *moved([*log(0, 6), *log(8, 12)], 2, 256))  # 4 by the one before, 6 by the next
    found = differences(one, other)
    assert [(it.code.name, it.file, it.offset, it.last_offset) for it in found] == [("D02", str(other / ZERO), 4, 7)]


def test_a_file_that_differs_from_several_is_listed_once_more_at_most(tmp_path: Path) -> None:
    for name in "abc":
        replica(tmp_path / name, *(log(0, 12) if name < "c" else [*log(0, 4), *log(6, 12)]))
    run = run_kdump(
        ["verify", "--replicas", "--set", "cleanup.policy=compact", "--format", "lines", "a", "b", "c"], tmp_path
    )
    listed = [line for line in run.stdout.splitlines() if line.endswith(f"\tc/t-0/{ZERO}".encode())]
    assert [line.split()[0] for line in listed] == [b"SOUND", b"WARNING"]


def test_of_three_replicas_the_odd_one_shows_twice(tmp_path: Path) -> None:
    good = [replica(tmp_path / root, *log(0, 4)) for root in "ab"]
    odd = replica(tmp_path / "c", *log(0, 2), batch(2, [b"x", b"y"]))
    assert [found.file for found in differences(*good, odd)] == [str(odd / ZERO)] * 2


@pytest.mark.parametrize("names", [("t-0", "t-1"), ("t-0", "u-0")])
def test_other_partitions_are_not_compared(tmp_path: Path, names: tuple[str, str]) -> None:
    one = replica(tmp_path / "a", *log(0, 4), name=names[0])
    other = replica(tmp_path / "b", *log(0, 4, b"w"), name=names[1])
    assert differences(one, other) == []


def test_log_directories_are_compared_partition_by_partition(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in "ab"]
    for root in roots:
        replica(root, *log(0, 4))
        replica(root, *log(0, 4, b"v" if root.name == "a" else b"w"), name="u-3")
    assert {found.file for found in differences(*roots)} == {str(roots[1] / "u-3" / ZERO)}


def test_the_command_ends_with_3_when_replicas_differ(tmp_path: Path) -> None:
    copy_tree(CLEAN / "node1" / "plain-0", tmp_path / "a" / "plain-0")
    copied = copy_tree(CLEAN / "node1" / "plain-0", tmp_path / "b" / "plain-0")
    run = run_kdump(["verify", "--replicas", "--format", "json", "a", "b"], tmp_path)
    assert run.exit == 0
    (copied / ZERO).write_bytes(b"".join(log(0, 4)))
    run = run_kdump(["verify", "--replicas", "--format", "json", "a", "b"], tmp_path)
    assert run.exit == 3
    assert "D01" in {json.loads(line).get("code") for line in run.stdout.splitlines()}


# --- what to do -------------------------------------------------------------------------------------------------
def steps_of(*paths: Path) -> list[Step]:
    """What to do about replicas."""
    return acts(item for item in compare([str(path) for path in paths], VerifyOptions()) if isinstance(item, Step))


def spoiled(data: list[bytes], *numbers: int) -> list[bytes]:
    """Batches, some of them with a wrong byte in their records."""
    return [one[:-1] + bytes([one[-1] ^ 1]) if n in numbers else one for n, one in enumerate(data)]


def test_the_first_step_names_the_replica_that_is_sound(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 2))
    other = replica(tmp_path / "b", *log(0, 12))
    restore, salvage = steps_of(one, other)
    assert restore.why.startswith(f"restore {one} from {other}, in which nothing is wrong")
    assert salvage.command == f"kdump salvage {one} --to DIR"
    assert (restore.rank, salvage.rank) == (Rank.RECOMMENDED, Rank.LAST_RESORT)
    assert (restore.keeps.records, restore.loses.records, restore.size) == (9, 0, len(b"".join(log(0, 12))))


def backed_up(tmp_path: Path) -> tuple[Path, Path]:
    """A log.dir without a directory.id, with one damaged log, and a backup of it from before the damage."""
    here, backup = (copy_tree(FIXTURES / "releases/3.9.2/logs", tmp_path / name) for name in ("here", "backup"))
    log = here / "plain-0" / ZERO
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    return here, backup


@pytest.mark.parametrize("partition", ["plain-0", ""])
def test_with_replicas_a_backup_of_the_same_broker_is_no_duplicate_but_the_source(
    partition: str, tmp_path: Path
) -> None:
    here, backup = (root / partition for root in backed_up(tmp_path))
    items = list(compare([str(here), str(backup)], VerifyOptions()))
    errors = [one for one in items if isinstance(one, Finding) and one.severity is Severity.ERROR]
    assert [one.code.name for one in errors] == ["B01"]
    first, *_ = (one for one in items if isinstance(one, Step))
    damaged, sound = tmp_path / "here" / "plain-0", tmp_path / "backup" / "plain-0"
    assert first.why.startswith(f"restore {damaged} from {sound}, in which nothing is wrong")


def test_without_replicas_a_broker_has_each_partition_once(tmp_path: Path) -> None:
    here, backup = backed_up(tmp_path)
    found = [one for one in verify([str(here), str(backup)], VerifyOptions()) if isinstance(one, Finding)]
    assert sum(one.code.name == "F12" for one in found) == sum(path.is_dir() for path in backup.iterdir())


def test_two_directories_of_one_broker_are_told_with_replicas_too_and_each_is_a_source(tmp_path: Path) -> None:
    here, backup = backed_up(tmp_path)
    for root, end in ((here, "Q"), (backup, "g")):
        with (root / "meta.properties").open("a") as properties:
            properties.write(f"directory.id=AAAAAAAAAAAAAAAAAAAAA{end}\n")
    duplicate, restore, *_ = steps_of(here / "plain-0", backup / "plain-0")
    assert duplicate.why.startswith(f"{backup / 'plain-0'}: F12 duplicate: ")
    assert restore.why.startswith(f"restore {here / 'plain-0'} from {backup / 'plain-0'}, in which nothing is wrong")


def test_a_replica_with_sound_logs_and_a_warning_is_called_just_that(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 2))
    other = replica(tmp_path / "b", *log(0, 12))
    (other / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 99\n")  # K04: beyond the end of the log
    restore = steps_of(one, other)[0]
    assert restore.why.startswith(f"restore {one} from {other}, in whose logs nothing is wrong")


@pytest.mark.parametrize(
    "data",
    [log(0, 8), spoiled(log(0, 12), 4), [*log(0, 4), batch(4, [b"v4", b"other"]), *spoiled(log(6, 12), 0)]],
    ids=["it ends before", "it is damaged", "it has other records"],
)
def test_no_replica_is_called_sound_that_has_less_or_another_record(data: list[bytes], tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 1))
    other = replica(tmp_path / "b", *data)
    salvage, restore, *_ = steps_of(one, other)
    assert f"restore {one}" in restore.why
    assert " from a replica other than these, if one is sound" in restore.why
    assert salvage.command == f"kdump salvage {one} {other} --to DIR"


def test_a_replica_with_a_loss_of_its_own_is_no_source(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 4))
    other = replica(tmp_path / "b", *log(0, 12))
    (tmp_path / "b" / "replication-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    (restore,) = (step for step in steps_of(one, other) if step.why.startswith("restore "))
    assert f"restore {one}, {other} from a replica other than these, if one is sound" in restore.why


@pytest.mark.parametrize(
    "has",
    [[*log(0, 2), *log(4, 12)], [*log(0, 2), batch(2, [b"v2"], last_delta=1), *log(4, 12)]],
    ids=["a batch", "a record of a batch"],
)
def test_a_replica_that_lacks_what_the_damaged_one_has_is_no_source(has: list[bytes], tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 4))
    other = replica(tmp_path / "b", *has)
    (restore,) = (step for step in steps_of(one, other) if step.why.startswith(f"restore {one}"))
    assert " from a replica other than these, if one is sound" in restore.why


def test_a_replica_that_begins_later_is_no_source(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 4))
    other = tmp_path / "b" / "t-0"
    other.mkdir(parents=True)
    (other / f"{4:020}.log").write_bytes(b"".join(log(4, 12)))
    (restore,) = (step for step in steps_of(one, other) if step.why.startswith("restore "))
    assert f"restore {one} from a replica other than these, if one is sound" in restore.why


def test_a_replica_that_was_not_all_read_is_no_source(tmp_path: Path) -> None:
    large = batch(10, [b"v" * 5000, b"v11"], codec=GZIP)
    one = replica(tmp_path / "a", *spoiled(log(0, 10), 4), large)
    other = replica(tmp_path / "b", *log(0, 10), large)
    options = VerifyOptions(max_uncompressed_bytes=1000)
    items = list(compare([str(one), str(other)], options))
    assert "C03" in {item.code.name for item in items if isinstance(item, Finding)}
    (restore,) = (item for item in items if isinstance(item, Step) and item.why.startswith("restore "))
    assert f"restore {one} from a replica other than these" in restore.why
    assert restore.condition == "a further replica is sound"


def test_a_record_that_a_batch_lacks_is_a_note(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 8, each=4))
    other = replica(tmp_path / "b", batch(0, [b"v0", Record(b"v3", delta=3)], last_delta=3), *log(4, 8, each=4))
    (found,) = differences(one, other)
    assert (found.code.name, found.severity, found.offset, found.last_offset) == ("D02", Severity.NOTE, 1, 2)
    assert found.file == str(other / ZERO)


def test_salvage_of_several_damaged_replicas_is_one_step(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 3))
    other = replica(tmp_path / "b", *spoiled(log(0, 12), 1))
    found = steps_of(one, other)
    salvage = command_line("salvage", str(one), str(other), "--to", "DIR")
    cuts = [f"kdump truncate {path} --at-damage" for path in (one, other)]
    assert [step.command for step in found if step.command] == [salvage, *cuts]
    assert {step.partitions for step in found} == {(str(one), str(other))}
    (restore,) = (step for step in found if step.why.startswith("restore "))
    assert restore.why.startswith(f"restore {one}, {other} from a replica other than these, if one is sound (B01 ")


def test_a_replica_that_is_mended_in_place_has_a_block_of_its_own_beside_the_joined_copy(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 3))
    other = replica(tmp_path / "b", *moved(log(0, 12), 2, 256))
    found = steps_of(one, other)
    told = [(step.partitions, step.command.split(" ")[1]) for step in found if step.command]
    assert told == [((str(one),), "salvage"), ((str(one),), "truncate"), ((str(other),), "repair")]


def test_of_what_is_lost_each_part_has_the_replicas_that_can_give_it(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *log(0, 4), *log(10, 12))
    for name, data in (("b", [*log(0, 6), *spoiled(log(6, 12), 0)]), ("c", spoiled(log(0, 12), 2, 3))):
        replica(tmp_path / name, *data)
    items = compare([str(tmp_path / name) for name in "abc"], VerifyOptions())
    found = [item for item in items if isinstance(item, Loss) and item.path == str(one)]
    have = [[os.path.relpath(path, tmp_path)[0] for path in item.elsewhere or ()] for item in found]
    assert [(item.offset, item.last_offset) for item in found] == [(4, 5), (6, 7), (8, 9)]
    assert have == [["b"], [], ["b", "c"]]


def test_what_is_lost_is_looked_up_in_the_others_not_searched(tmp_path: Path) -> None:
    def work(count: int) -> int:
        paths = []
        for name, first in (("a", 0), ("b", 1)):  # each third batch
            data = spoiled(log(0, 6 * count), *range(first, 3 * count, 3))
            paths.append(str(replica(tmp_path / f"{name}{count}", *data)))
        list(compare(paths, VerifyOptions()))  # what is loaded at first use does not count
        return lines_run(lambda: list(compare(paths, VerifyOptions())))

    assert work(600) < 2.5 * work(300)


def test_salvage_is_a_step_where_another_replica_has_a_part_of_what_is_lost(tmp_path: Path) -> None:
    one, other = (replica(tmp_path / name, *log(0, 40)) for name in "ab")
    run_kdump(
        ["reindex", str(one), str(other), "--apply", "--quarantine", "q", "--index-interval-bytes", "100"], tmp_path
    )
    for path, end in ((one, 10), (other, 20)):  # what the indexes know of is cut off
        (path / ZERO).write_bytes(b"".join(log(0, end)))
    salvage = command_line("salvage", str(one), str(other), "--to", "DIR")
    (joined,) = (step for step in steps_of(one, other) if step.command == salvage)
    assert joined.rank is Rank.RECOMMENDED


def test_salvage_joins_replicas_where_a_cut_of_one_would_lose_what_the_other_has(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 5))
    other = replica(tmp_path / "b", *spoiled(log(0, 12), 1))
    found = steps_of(one, other)
    joined = [step.command for step in found if step.rank is Rank.RECOMMENDED and step.command]
    assert joined == [f"kdump salvage {one} {other} --to DIR"]
    saved = tmp_path / "saved"
    assert run_kdump(["salvage", str(one), str(other), "--to", str(saved)], tmp_path).exit == 0
    assert kdump.verify(saved / "t-0").summary["records"] == 12


def test_of_one_replica_alone_the_steps_stay_as_they_were(tmp_path: Path) -> None:
    one = replica(tmp_path / "a", *spoiled(log(0, 12), 2))
    other = replica(tmp_path / "b", *log(0, 12), name="u-0")
    compare, salvage, restore, _ = steps_of(one, other)
    assert compare.command == f"kdump verify --replicas {one} OTHER"
    assert "from another replica, if one is sound" in restore.why
    assert salvage.command == f"kdump salvage {one} --to DIR"


def test_without_replicas_a_damaged_partition_that_is_there_twice_is_said_to_be(tmp_path: Path) -> None:
    for root in "ab":
        replica(tmp_path / root, *log(0, 10))
        replica(tmp_path / root, *log(0, 10), name="sound-0")
    assert run_kdump(["verify", "a", "b"], tmp_path).stderr == b""
    data = bytearray(b"".join(log(0, 10)))
    data[-1] ^= 1
    (tmp_path / "b" / "t-0" / ZERO).write_bytes(data)
    hint = (
        "kdump: t-0 is in several of these directories: kdump verify --replicas a b tells which copy has what another "
    )
    run = run_kdump(["verify", "a", "b"], tmp_path)
    assert run.stderr.decode() == f"{hint}has lost\n"
    assert run.exit == 3
    for args in (["b"], ["--replicas", "a", "b"], ["--quiet", "a", "b"], ["--format=json", "a", "b"]):
        assert b"several" not in run_kdump(["verify", *args], tmp_path).stderr


# --- clusters -----------------------------------------------------------------------------------------------------
def in_cluster(root: Path, cluster: str | None, *batches: bytes) -> Path:
    """A log.dir of a cluster with one partition."""
    replica(root, *batches)
    said = "" if cluster is None else f"cluster.id={cluster}\n"
    (root / "meta.properties").write_text(f"version=1\nnode.id=1\n{said}")
    return root


def told(*paths: Path) -> tuple[list[Finding], list[str], list[Step]]:
    """The findings, what was not looked at, and the steps of `--replicas`."""
    items = list(compare([str(path) for path in paths], VerifyOptions()))
    return (
        [one for one in items if isinstance(one, Finding)],
        [one.sentence for one in items if isinstance(one, OpenFailure)],
        [one for one in items if isinstance(one, Step)],
    )


def test_replicas_of_two_clusters_are_not_compared(tmp_path: Path) -> None:
    one = in_cluster(tmp_path / "a", "A", *log(0, 100))
    other = in_cluster(tmp_path / "b", "B", *log(0, 50, b"other"))
    found, not_looked_at, _ = told(one, other)
    (differ,) = [item for item in found if item.code.name[0] == "D" or item.code.name == "K10"]
    assert (differ.code.name, differ.severity) == ("K10", Severity.WARNING)
    assert "cluster.id is B here, and A in" in differ.message
    assert [line for line in not_looked_at if "nothing was compared" in line]
    assert run_kdump(["verify", "--replicas", "a", "b"], tmp_path).exit == 5


def test_partition_directories_of_two_clusters_are_not_compared_either(tmp_path: Path) -> None:
    for root, cluster in (("a", "A"), ("b", "B")):
        in_cluster(tmp_path / root, cluster, *log(0, 10, root.encode()))
    found, _, _ = told(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    assert [one.code.name for one in found if one.code.name[0] == "D" or one.code.name == "K10"] == ["K10"]


def test_partitions_of_a_topic_that_was_created_again_are_not_compared_with_those_of_the_old_one(
    tmp_path: Path,
) -> None:
    for root, topic in (("a", "AAAAAAAAAAAAAAAAAAAAAA"), ("b", "BBBBBBBBBBBBBBBBBBBBBA")):
        in_cluster(tmp_path / root, "A", *log(0, 10 if root == "a" else 20))
        (tmp_path / root / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic}\n")
    found, not_looked_at, steps = told(tmp_path / "a", tmp_path / "b")
    assert [one for one in found if one.code.name[0] == "D"] == []
    assert not_looked_at == [
        "--replicas: no partition lies under two of these paths with one topic id: nothing was compared"
    ]
    assert not any("/b/" in one.why for one in steps if str(tmp_path / "a" / "t-0") in one.partitions)


def test_those_of_each_cluster_are_compared_and_none_is_restored_from_another_cluster(tmp_path: Path) -> None:
    spoilt = bytearray(b"".join(log(0, 20)))
    spoilt[-1] ^= 1
    roots = [
        in_cluster(tmp_path / "a1", "A", bytes(spoilt)),
        in_cluster(tmp_path / "a2", "A", *log(0, 10)),
        in_cluster(tmp_path / "b1", "B", *log(0, 20)),
        in_cluster(tmp_path / "b2", "B", *log(0, 6), *log(6, 20, b"w")),
        in_cluster(tmp_path / "none", None, *log(0, 20, b"x")),
    ]
    found, not_looked_at, steps = told(*roots)
    different = {(one.file.split("/")[-3], one.values["other"]) for one in found if one.code.name == "D01"}
    assert different == {("b2", str(tmp_path / "b1" / "t-0"))}
    assert not_looked_at == [
        "--replicas: 1 partition with more than one cluster.id: only replicas that have the same are compared"
    ]
    of_damaged = [one for one in steps if str(roots[0] / "t-0") in one.partitions]
    assert of_damaged
    assert not any("b1" in one.why or "none" in one.why for one in of_damaged)


def test_one_that_does_not_say_its_cluster_is_compared_where_there_is_one_cluster(tmp_path: Path) -> None:
    one = in_cluster(tmp_path / "a", "A", *log(0, 10))
    other = in_cluster(tmp_path / "none", None, *log(0, 6), *log(6, 10, b"w"))
    found, not_looked_at, _ = told(one, other)
    assert "D01" in [one.code.name for one in found]
    assert "K10" not in [one.code.name for one in found]
    assert not_looked_at == []


def test_where_a_manifest_names_the_hosts_several_clusters_are_a_note(tmp_path: Path) -> None:
    for root, cluster in (("a", "A"), ("b", "B")):
        in_cluster(tmp_path / root, cluster, *log(0, 10))
    options = VerifyOptions(of_hosts=True)
    found = [one for one in verify([str(tmp_path / "a"), str(tmp_path / "b")], options) if isinstance(one, Finding)]
    assert [one.severity for one in found if one.code.name == "K10"] == [Severity.NOTE]
    (tmp_path / "fleet.csv").write_text("host,path\nh1,a\nh2,b\n")
    run = run_kdump(["verify", "--format", "json", "fleet.csv"], tmp_path)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row.get("code") == "K10"]
    assert [row["severity"] for row in rows] == ["note"]


# --- holes of which a replica alone tells nothing -----------------------------------------------------------
def told_of_holes(root: Path, *args: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], dict[str, Any]]:
    """The findings about holes, the losses, and the summary of a comparison of all directories below a root."""
    paths = sorted(path.name for path in root.iterdir())
    run = run_kdump(["verify", "--replicas", *paths, *args, "--format", "json"], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    findings = [
        (row["code"], row["severity"], row["offset"], row["lastOffset"])
        for row in rows
        if row["type"] == "finding" and row["code"] in ("L17", "L19", "O04", "O07")
    ]
    losses = [
        (row["offset"], row["lastOffset"], row["certainty"], row["because"], row["elsewhere"])
        for row in rows
        if row["type"] == "loss"
    ]
    return findings, losses, rows[-1]


def segments_of(root: Path, *logs: tuple[int, list[bytes]]) -> None:
    write(root / "t-0", {f"{base:020}.log": b"".join(parts) for base, parts in logs})


ALL = [(0, log(0, 10)), (10, log(10, 20)), (20, log(20, 30))]
HOLES = {
    "in a log": ([(0, [*log(0, 4), *log(6, 10)]), *ALL[1:]], (4, 5), "O04"),
    "at the end of a log": ([(0, log(0, 8)), *ALL[1:]], (8, 9), "O07"),
    "a whole log": ([ALL[0], ALL[2]], (10, 19), "O07"),
    "at the head of a log": ([ALL[0], (10, log(14, 20)), ALL[2]], (10, 13), "O04"),
    "over two logs": ([(0, log(0, 8)), (10, log(14, 20)), ALL[2]], (8, 13), "O07"),
}


@pytest.mark.parametrize("hole", HOLES)
def test_offsets_that_another_replica_has_are_lost_here_and_not_unexplained(hole: str, tmp_path: Path) -> None:
    logs, (first, last), code = HOLES[hole]
    segments_of(tmp_path / "a", *logs)
    segments_of(tmp_path / "b", *ALL)
    findings, losses, summary = told_of_holes(tmp_path)
    assert {one[:2] for one in findings} <= {("O04", "error"), ("O07", "error")}
    assert (findings[0][0], findings[0][2], max(one[3] for one in findings)) == (code, first, last)
    assert (losses[0][0], losses[-1][1]) == (first, last)
    assert {(certainty, *elsewhere) for _, _, certainty, _, elsewhere in losses} == {("lost", "b/t-0")}
    assert all("L19" not in because for *_, because, _ in losses)
    assert (summary["offsetsLost"], summary["offsetsElsewhere"], summary["exit"]) == (0, last - first + 1, 3)
    assert summary["offsetsUnexplained"] == 0
    text = flat(run_kdump(["verify", "--replicas", "a", "b"], tmp_path).stdout)
    assert "lost: b/t-0 has them -> restore this replica from one that has them" in text
    assert "restore a/t-0 from b/t-0, in whose logs nothing is wrong" in text


def test_of_a_hole_that_another_replica_has_in_part_the_rest_stays_unexplained(tmp_path: Path) -> None:
    torn = [*log(10, 16), log(16, 18)[0][:-5]]
    segments_of(tmp_path / "a", ALL[0], ALL[2])
    segments_of(tmp_path / "b", ALL[0], (10, torn), ALL[2])
    findings, losses, summary = told_of_holes(tmp_path)
    assert [one[:2] for one in findings if one[0] != "O07"] == [("L19", "warning")]
    assert ("O07", "error", 10, 19) in findings
    own = [(one, last, how) for one, last, how, because, elsewhere in losses if elsewhere or "L19" in because]
    assert own == [(10, 15, "lost"), (16, 19, "unexplained")]
    assert summary["exit"] == 3


def cleaned(root: Path) -> None:
    segments_of(root / "b", (0, [batch(0, [b"v0"], last_delta=3), *log(4, 10)]), *ALL[1:])


def checkpointed(root: Path) -> None:
    segments_of(root / "b", *ALL)
    (root / "b" / "cleaner-offset-checkpoint").write_bytes(b"0\n1\nt 0 20\n")
    (root / "b" / "meta.properties").write_bytes(meta(1))


def lacking(root: Path) -> None:
    segments_of(root / "b", ALL[0], ALL[2])


@pytest.mark.parametrize(
    ("other", "args"),
    [
        (cleaned, ()),
        (checkpointed, ()),
        (lacking, ()),
        (lambda root: segments_of(root / "b", *ALL), ("--set", "cleanup.policy=compact")),
    ],
    ids=["a cleaner was at work there", "the checkpoint of a cleaner", "nobody has them", "the topic is compacted"],
)
def test_where_compaction_may_explain_it_or_nobody_has_it_a_hole_stays_unexplained(
    other: Callable[[Path], None], args: tuple[str, ...], tmp_path: Path
) -> None:
    segments_of(tmp_path / "a", ALL[0], ALL[2])
    other(tmp_path)
    findings, losses, summary = told_of_holes(tmp_path, *args)
    assert {severity for _, severity, *_ in findings} <= {"warning", "note"}
    assert {certainty for _, _, certainty, *_ in losses} == {"unexplained"}
    assert summary["exit"] == 0
