"""A log that is gone while its indexes are still here: an error, for they are all that shows it; no answer is whole."""

from __future__ import annotations

import json
import shutil
from struct import pack
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.finding import Severity
from kdump.format.read_limits import ReadLimits
from kdump.state.partition_log import PartitionLog, result_of
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support.measured import lines_run
from tests.support.partitions import name
from tests.support.runs import FIXTURES, copy_tree, flat, run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

CLEAN = FIXTURES / "kafka-4.3.1" / "clean"
BASES = [0, 68, 139, 211]
END = 258


@pytest.fixture
def txnspan(tmp_path: Path) -> Path:
    """A partition of four segments, closed in order."""
    return copy_tree(CLEAN / "node1", tmp_path / "node1") / "txnspan-0"


def errors(directory: Path) -> list[tuple[str, str]]:
    found = [one for one in kdump.verify([str(directory)]).findings if one.severity is Severity.ERROR]
    return [(one.code.name, one.file.removeprefix(f"{directory}/")) for one in found]


def verified(*args: object) -> tuple[int, str]:
    """Status and stdout of verify."""
    run = run_kdump(["verify", *map(str, args)], FIXTURES)
    return run.exit, flat(run.stdout)


def lost(directory: Path) -> list[tuple[int, int, str]]:
    return [(one.offset, one.last_offset, one.certainty.value) for one in kdump.verify([str(directory)]).losses]


@pytest.mark.parametrize("number", range(3))
def test_a_log_whose_indexes_have_entries_is_lost(number: int, txnspan: Path) -> None:
    base, end = BASES[number], BASES[number + 1]
    (txnspan / name(base)).unlink()
    assert {one for one in errors(txnspan) if one[0] == "F08"} == {
        ("F08", name(base, kind)) for kind in ("index", "timeindex", "txnindex")
    }
    assert lost(txnspan) == [(base, end - 1, "lost")]
    status, text = verified(txnspan)
    assert status == 3
    assert f"its log is missing: the indexes have entries up to offset {end - 1} -> restore from another" in text
    steps = kdump.verify([str(txnspan)]).steps
    assert any(one.why.startswith(f"restore {txnspan} from another replica") for one in steps)


def test_logs_that_follow_each_other_are_lost_together(txnspan: Path) -> None:
    for base in BASES[1:3]:
        (txnspan / name(base)).unlink()
    assert lost(txnspan) == [(68, 210, "lost")]


def test_without_any_log_all_are_lost(txnspan: Path) -> None:
    for base in BASES:
        (txnspan / name(base)).unlink()
    assert {code for code, _ in errors(txnspan)} == {"F08"}
    found = lost(txnspan)
    assert (found[0][0], found[-1][1]) == (0, END - 1)


def test_a_last_log_is_lost_though_no_snapshot_knows_it(txnspan: Path) -> None:
    (txnspan / name(211)).unlink()
    for path in txnspan.glob("*.snapshot"):
        path.unlink()
    for path in txnspan.parent.glob("*checkpoint"):
        path.unlink()
    (txnspan.parent / ".kafka_cleanshutdown").unlink()
    assert ("F08", name(211, "index")) in errors(txnspan)
    assert lost(txnspan) == [(211, END - 1, "lost")]


@pytest.mark.parametrize("suffix", ["deleted", "swap"])
def test_a_log_that_a_broker_renamed_is_not_lost(suffix: str, txnspan: Path) -> None:
    """A removal that was cut off: the log is renamed first."""
    kinds = ("log",) if suffix == "deleted" else ("log", "index", "timeindex", "txnindex")
    for path in [txnspan / name(0, kind) for kind in kinds]:
        path.rename(f"{path}.{suffix}")
    assert errors(txnspan) == []


def test_a_log_below_the_log_start_offset_is_not_lost(txnspan: Path) -> None:
    (txnspan / name(0)).unlink()
    start = txnspan.parent / "log-start-offset-checkpoint"
    start.write_text("0\n1\ntxnspan 0 68\n")
    assert errors(txnspan) == []
    assert lost(txnspan) == []


def test_a_log_whose_indexes_are_empty_or_zeros_is_not_known_to_be_lost(txnspan: Path) -> None:
    (txnspan / name(0)).unlink()
    (txnspan / name(0, "index")).write_bytes(b"")
    (txnspan / name(0, "timeindex")).write_bytes(bytes(1200))
    (txnspan.parent / ".kafka_cleanshutdown").unlink()
    assert "F08" not in {code for code, _ in errors(txnspan)}


def test_indexes_whose_offsets_another_log_has_are_what_a_compaction_left(txnspan: Path) -> None:
    merged = (txnspan / name(68)).read_bytes()
    (txnspan / name(68)).unlink()
    (txnspan / name(0)).write_bytes((txnspan / name(0)).read_bytes() + merged)
    assert "F08" not in {code for code, _ in errors(txnspan)}


def test_indexes_beyond_the_end_at_which_a_broker_closed_the_log_were_never_in_it(txnspan: Path) -> None:
    for kind in ("index", "timeindex"):
        shutil.copy(txnspan / name(0, kind), txnspan / name(END, kind))
    assert errors(txnspan) == []
    assert lost(txnspan) == []


def test_a_sound_replica_has_what_a_lost_log_had(txnspan: Path, tmp_path: Path) -> None:
    other = copy_tree(txnspan, tmp_path / "other" / "txnspan-0")
    (txnspan / name(0)).unlink()
    status, text = verified("--replicas", txnspan, other)
    assert status == 3
    assert text.count(" D02 ") == 1
    assert f"offsets 0..67 are not here; {other} has them" in text
    assert f"restore {txnspan} from {other}" in text


def test_what_a_log_lost_at_its_end_is_told_once_and_there(txnspan: Path, tmp_path: Path) -> None:
    other = copy_tree(txnspan, tmp_path / "other" / "txnspan-0")
    (txnspan / name(139)).unlink()
    run = run_kdump(["verify", "--replicas", "--format", "json", str(txnspan), str(other)], FIXTURES)
    (told,) = [row for row in map(json.loads, run.stdout.splitlines()) if row.get("code") == "D02"]
    size = (txnspan / name(68)).stat().st_size
    assert (told["file"], told["position"]) == (str(txnspan / name(68)), size)
    assert (told["length"], told["offset"], told["lastOffset"]) == (0, 139, 210)


# --- who answers questions says that offsets are lost ----------------------------------------------------------
def answer(directory: Path, *args: str) -> tuple[int, str, str]:
    """Status, stdout and stderr."""
    run = run_kdump([args[0], directory.name, *args[1:]], directory.parent)
    return run.exit, run.stdout.decode(), run.stderr.decode()


F08 = f"error F08 leftover txnspan-0/{name(139)} offset=139..210: the log is missing: its indexes have entries up to "


@pytest.mark.parametrize("how", ["deleted", "emptied", "all files deleted"])
def test_a_transaction_that_may_have_ended_in_what_is_lost_is_in_doubt(how: str, txnspan: Path) -> None:
    """Offset 85 was committed at 169; the next marker of its producer, at 253, aborts another transaction."""
    assert "fate: [committed]" in answer(txnspan, "dump", "--fate", "--key", "a0", "--set", "retention.ms=-1")[1]
    if how == "emptied":
        (txnspan / name(139)).write_bytes(b"")
    for path in txnspan.glob(f"{139:020}.*") if how != "emptied" else ():
        if how != "deleted" or path.suffix == ".log":
            path.unlink()
    status, stdout, stderr = answer(txnspan, "dump", "--fate", "--key", "a0", "--set", "retention.ms=-1")
    (line,) = [one for one in stdout.splitlines() if "| offset: 85 " in one]
    assert "fate: [in doubt (its end may be in what cannot be read at offsets 139..210)]" in line
    assert "txnspan-0: offsets 139..210 cannot be read: a newer record of a key may be there" in stderr
    assert (status, F08 in stderr) == (3, how == "deleted")
    for outcome in ("--committed", "--aborted"):
        _, stdout, stderr = answer(txnspan, "dump", outcome, "--key", "a0")
        assert "| offset: 85 " not in stdout
        assert "records are in doubt: the end of their transaction may be in what cannot be read (offsets 139" in stderr


def test_a_hole_that_compaction_makes_puts_nothing_in_doubt(tmp_path: Path) -> None:
    compacted = copy_tree(CLEAN / "node1", tmp_path / "node1") / "compacttxn-0"
    assert "in doubt" not in answer(compacted, "dump", "--fate")[1]


def test_what_lies_in_a_lost_log_was_not_searched(txnspan: Path) -> None:
    (txnspan / name(139)).unlink()
    status, stdout, stderr = answer(txnspan, "dump", "--from-offset", "150", "--to-offset", "160")
    assert (status, stdout) == (3, "")
    assert f"kdump: not searched: txnspan-0/{name(139)}, offsets 139..210 (F08 leftover)" in stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_dump_of_a_directory_tells_of_a_lost_log_once(jobs: str, txnspan: Path) -> None:
    for base in (0, 139):
        (txnspan / name(base)).unlink()
    status, _, stderr = answer(txnspan, "dump", "-j", jobs)
    assert (status, stderr.count("error F08")) == (3, 2)
    one = run_kdump(["dump", str(txnspan / name(68))], txnspan)
    assert (one.exit, b"F08" in one.stderr) == (0, False), "who names a file asks for that"


@pytest.mark.parametrize("more", [[], ["--scan"]])
@pytest.mark.parametrize("asked", [("find-offset", "150"), ("find-time", "1795219483229")])
def test_a_lost_log_is_told_beside_the_answer_of_a_broker(
    asked: tuple[str, str], more: list[str], txnspan: Path
) -> None:
    (txnspan / name(139)).unlink()
    status, stdout, stderr = answer(txnspan, *asked, *more)
    assert (status, stdout.startswith("offset: 211 ")) == (3, True)
    assert F08 in stderr


# --- cut off at the end of a batch -----------------------------------------------------------------------------
def cut_at_batch(node: Path) -> None:
    """Cut the log with the groups behind the batch that ends at offset 76; it went to 127."""
    log = node / "__consumer_offsets-1" / name(0)
    log.write_bytes(log.read_bytes()[: _end_of(log, 76)])


def _end_of(log: Path, offset: int) -> int:
    *_, last = (one for one in kdump.Log(log).batches() if one.last_offset <= offset)
    assert last.last_offset == offset
    return last.position + last.size


def test_commits_of_a_log_that_is_cut_off_are_not_exact(tmp_path: Path) -> None:
    node = copy_tree(CLEAN / "node1", tmp_path / "node1")
    assert "exact=false" not in answer(node, "groups", "--format", "lines")[1]
    cut_at_batch(node)
    status, stdout, stderr = answer(node, "groups", "--group", "grp-up")
    assert (status, stdout.count("not exact")) == (3, 2)  # the commit, and how many of all
    assert "offsets 77..127 are missing at the end: " in stderr
    assert stderr.endswith("name the log.dirs of other brokers too: a copy may have it\n")
    assert "not exact: " in answer(node, "groups", "--group", "grp-up", "--reset-csv")[2]


def test_damage_elsewhere_in_a_log_does_not_hide_that_its_end_is_cut_off(tmp_path: Path) -> None:
    """An end that is damaged is told by that damage alone."""
    node = copy_tree(CLEAN / "node1", tmp_path / "node1")
    cut_at_batch(node)
    log = node / "__consumer_offsets-1" / name(0)
    cut = log.read_bytes()
    for position, codes in ((400, ["B01", "O07"]), (-10, ["B01"])):
        damaged = bytearray(cut)
        damaged[position] ^= 1
        log.write_bytes(damaged)
        stderr = answer(node, "groups")[2]
        assert [line.split()[1] for line in stderr.splitlines() if line.startswith("error ")] == codes


def test_groups_of_a_lost_log_are_not_said_to_be_unknown_without_a_word(tmp_path: Path) -> None:
    node = copy_tree(CLEAN / "node1", tmp_path / "node1")
    (node / "__consumer_offsets-1" / name(0)).unlink()
    status, stdout, stderr = answer(node, "groups", "--group", "grp-new")
    assert (status, stdout) == (6, "")
    assert "no group grp-new here" in stderr
    assert f"not searched: node1/__consumer_offsets-1/{name(0)}, offsets 0..127 (F08 leftover)" in stderr


def test_a_lag_behind_a_log_that_is_cut_off_is_told_with_that(tmp_path: Path) -> None:
    node = copy_tree(CLEAN / "node1", tmp_path / "node1")
    assert answer(node, "groups", "--lag")[::2] == (0, "")
    log = node / "txn-0" / name(0)
    log.write_bytes(log.read_bytes()[:-10])
    (node / "wide-0" / name(0)).unlink()
    status, _, stderr = answer(node, "groups", "--group", "grp-new", "--lag")
    assert (status, "error F08 leftover node1/wide-0" in stderr, "error L02 torn-batch node1/txn-0" in stderr) == (
        3,
        True,
        True,
    )


def test_nobody_aborts_a_transaction_for_a_coordinator_whose_log_is_lost(tmp_path: Path) -> None:
    node = copy_tree(CLEAN / "node1", tmp_path / "node1")
    for log in node.glob("__transaction_state-*/*.log"):
        log.unlink()
    status, stdout, _ = answer(node, "transactions")
    assert (status, "HANGING" in stdout, "  abort" in stdout) == (3, False, False)
    assert "open; its coordinator's log is not among the inputs" in stdout
    assert "no transaction of producer 3004 is here, but the log of a coordinator is damaged" in flat(stdout)


def test_what_was_lost_before_salvage_is_no_compaction(tmp_path: Path) -> None:
    """Offsets 49..50 had the newest commits of grp-new in txn-0 and wide-2."""
    node = copy_tree(CLEAN / "node1", tmp_path / "node1")
    log = node / "__consumer_offsets-1" / name(0)
    damaged = bytearray(log.read_bytes())
    damaged[6350] ^= 1
    log.write_bytes(damaged)
    assert run_kdump(["salvage", "node1/__consumer_offsets-1", "--to", "out"], tmp_path).exit == 3
    status, stdout, stderr = answer(tmp_path / "out", "groups", "--group", "grp-new")
    assert (status, stdout.count("not exact")) == (0, 5)  # four commits, and how many of all
    told = "lost before salvage made this: offsets 49..50: newer values may have been there"
    assert stderr == f"kdump: out/__consumer_offsets-1: {told}\n"
    assert "not exact: 4 of 4 offsets" in answer(tmp_path / "out", "groups", "--group", "grp-new", "--reset-csv")[2]
    assert (
        "not exact" in answer(tmp_path / "out", "groups", "--group", "grp-new", "--reset-csv", "--at", "yesterday")[2]
    )
    (tmp_path / "out" / "__consumer_offsets-1.salvage.jsonl").write_text(
        '{"type":"loss"}\n[]\n"loss"\nx "loss"\n'
        '{"type":"loss","certainty":"lost","offset":Infinity,"lastOffset":1}\n' + "[" * 100_000 + '"loss"'
    )
    status, _, stderr = answer(tmp_path / "out", "groups")
    assert status == 5
    assert "__consumer_offsets-1.salvage.jsonl: line 1: certainty is missing, and no row that salvage writes" in stderr


def salvaged(root: Path, holes: int) -> Path:
    """A partition that salvage has made, with holes of one offset, each of which it calls lost."""
    directory = root / "__consumer_offsets-1"
    directory.mkdir(parents=True)
    one = batch(0, [b"v"])
    (directory / name(0)).write_bytes(b"".join(pack(">q", 2 * n) + one[8:] for n in range(holes + 1)))
    rows = (
        f'{{"type":"loss","certainty":"lost","offset":{2 * n + 1},"lastOffset":{2 * n + 1}}}\n' for n in range(holes)
    )
    (root / "__consumer_offsets-1.salvage.jsonl").write_text("".join(rows))
    return directory


def test_what_was_lost_before_salvage_is_one_line_with_a_few_ranges(tmp_path: Path) -> None:
    stderr = answer(salvaged(tmp_path / "out", 1204), "groups")[2]
    told = "lost before salvage made this: offset 1, offset 3, offset 5, offset 7 and 1,200 more ranges: "
    assert [line for line in stderr.splitlines() if "before salvage" in line] == [
        f"kdump: __consumer_offsets-1: {told}newer values may have been there"
    ]


def test_each_hole_is_looked_up_in_what_was_lost_before_salvage(tmp_path: Path) -> None:
    def work(holes: int) -> int:
        directory = PartitionDir(str(salvaged(tmp_path / str(holes), holes)), LogDir(str(tmp_path)))
        log = PartitionLog(directory, ReadLimits(1 << 26, 1 << 26), lambda _: None)
        return lines_run(lambda: result_of(log.survey()))

    work(1)  # what is loaded at first use does not count
    assert work(1000) < 2.5 * work(500)


# --- the first logs, with their indexes ----------------------------------------------------------------------


def without_first(directory: Path) -> Path:
    for file in directory.glob(f"{0:020}.*"):
        file.unlink()
    return directory


def test_first_segments_that_no_broker_has_deleted_are_lost(txnspan: Path) -> None:
    """A broker that deletes them raises the leader-epoch-checkpoint, and has done so when it has stopped in order."""
    without_first(txnspan)
    assert ("F08", name(0)) in errors(txnspan)
    assert lost(txnspan) == [(0, 67, "lost")]
    status, text = verified(txnspan)
    assert status == 3
    assert "leader-epoch-checkpoint begins at offset 0, and no broker has raised it to 68" in text
    steps = kdump.verify([str(txnspan)]).steps
    assert any(one.why.startswith(f"restore {txnspan} from another replica") for one in steps)


def test_salvage_and_find_tell_the_first_segments_as_lost_too(txnspan: Path, tmp_path: Path) -> None:
    without_first(txnspan)
    made = run_kdump(["salvage", str(txnspan), "--to", str(tmp_path / "to")], FIXTURES)
    assert made.exit == 3
    assert b"lost: offsets 0..67" in made.stdout
    assert lost(tmp_path / "to" / txnspan.name) == []
    asked = run_kdump(["find-offset", str(txnspan), "5"], FIXTURES)
    assert b"F08" in asked.stderr
    key = run_kdump(["dump", "--key", "none", str(txnspan)], FIXTURES)
    assert b"not searched" in key.stderr or b"F08" in key.stderr


@pytest.mark.parametrize("case", ["killed", "tiered", "expired"])
def test_first_segments_are_not_lost_where_a_broker_may_have_deleted_them(case: str, txnspan: Path) -> None:
    without_first(txnspan)
    home, topic = txnspan.parent, txnspan.name.rpartition("-")[0]
    if case == "killed":
        (home / ".kafka_cleanshutdown").unlink()
    elif case == "tiered":
        (home / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic} 0 0\n")
        (home / "remote-log-index-cache").mkdir()
    else:
        (txnspan / "leader-epoch-checkpoint").write_text("0\n3\n0 68\n2 255\n3 258\n")
    assert errors(txnspan) == []
    assert lost(txnspan) == []
    notes = [one for one in kdump.verify([str(txnspan)]).findings if one.code.name == "L15"]
    assert [one.offset for one in notes] == ([] if case == "tiered" else [0])
    assert all(("begins at 0 still" in one.message) == (case == "killed") for one in notes)


def test_a_segment_is_lost_though_older_ones_wait_for_their_deletion(tmp_path: Path) -> None:
    """The .deleted files end below the offset at which the leader-epoch-checkpoint begins."""
    directory = copy_tree(CLEAN / "node1", tmp_path / "node1") / "retention-0"
    for kind in ("log", "index", "timeindex"):
        (directory / name(437, kind)).unlink()
    assert lost(directory) == [(437, 484, "lost")]
    assert errors(directory) == [("F08", name(437))]


def test_salvage_names_the_offsets_that_only_a_tiered_log_may_lack(tmp_path: Path) -> None:
    for topic, said in (("tiered", "offsets 141..434 are in remote storage if the topic is tiered"), ("dense", None)):
        made = run_kdump(["salvage", str(CLEAN / "node1" / f"{topic}-0"), "--to", str(tmp_path / "to")], FIXTURES)
        assert ("in remote storage" in flat(made.stdout)) is (said is not None)
        assert said is None or said in flat(made.stdout)


# --- all logs, with their indexes ------------------------------------------------------------------------------


def test_a_partition_without_any_log_has_lost_what_its_other_files_know(tmp_path: Path) -> None:
    home = copy_tree(CLEAN / "node1", tmp_path / "node1")
    directory = home / "wide-0"
    for kind in ("log", "index", "timeindex"):
        (directory / name(0, kind)).unlink()
    assert errors(directory) == [("F08", name(0))]
    assert lost(directory) == [(0, 74, "lost")]
    steps = kdump.verify([str(directory)]).steps
    assert not any("salvage" in (one.command or "") for one in steps), "salvage has nothing to write"
    for verb, status in ((("dump", "--key", "none"), 5), (("salvage", "--to", str(tmp_path / "to")), 10)):
        run = run_kdump([*verb, str(directory)], FIXTURES)
        assert run.exit == status
        assert b"no log of it is here, and its other files know of offsets 0..74" in run.stderr
    both = run_kdump(["salvage", str(directory), str(CLEAN / "node1/wide-0"), "--to", str(tmp_path / "both")], FIXTURES)
    assert b"went on without" in both.stdout
    assert b"needs no rescue" not in both.stdout


def test_groups_do_not_answer_for_a_partition_of_which_no_log_is_left(tmp_path: Path) -> None:
    home = copy_tree(CLEAN / "node1", tmp_path / "node1")
    for kind in ("log", "index", "timeindex"):
        (home / "__consumer_offsets-1" / name(0, kind)).unlink()
    run = run_kdump(["groups", str(home), "--group", "grp-new"], FIXTURES)
    assert run.exit == 6
    assert b"not searched: " in run.stderr


def test_a_partition_that_never_had_a_record_has_lost_nothing(tmp_path: Path) -> None:
    directory = copy_tree(CLEAN / "node1", tmp_path / "node1") / "empty-0"
    for file in directory.glob(f"{0:020}.*"):
        file.unlink()
    assert errors(directory) == []
    assert lost(directory) == []
