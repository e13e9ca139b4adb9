"""What verify, retention, repair and dump say of each case of tests/support/field_cases.py, and of its sibling."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.wrong_unit import unit_sentence, wrong_unit
from kdump.format.source import BytesSource
from kdump.words.time_units import in_its_unit, unit_of
from tests.support import field_cases
from tests.support.field_cases import closed, log_dir
from tests.support.make_fixtures import topic_id
from tests.support.partitions import below, write
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.partitions import Files

BOTH = pytest.mark.parametrize("which", [0, 1], ids=["reported", "sibling"])
CLOCK = "2026-11-27T00:00:00Z"


class Told:
    """The rows of one run."""

    def __init__(self, root: Path, *args: str) -> None:
        run = run_kdump([*args, "--format", "json"], root)
        self.rows = [json.loads(line) for line in run.stdout.splitlines()]
        self.exit = run.exit
        self.text = run.stdout.decode()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.rows if one["type"] == kind]

    def found(self, *severities: str) -> list[str]:
        wanted = severities or ("error", "warning")
        return sorted({one["code"] for one in self.of("finding") if one["severity"] in wanted})

    def steps(self, rank: str = "recommended", condition: str | None = None) -> list[str]:
        return [one["why"] for one in self.of("step") if (one["rank"], one["condition"]) == (rank, condition)]

    @property
    def foretold(self) -> dict[str, Any]:
        return self.of("prediction")[0]


def verify(root: Path, case: Callable[[int], Files], which: int, *args: str) -> Told:
    write(root / "logdir", case(which))
    return Told(root, "verify", "--start", "auto", "logdir", *args)


def lost(told: Told) -> list[tuple[int, int]]:
    return [(one["offset"], one["lastOffset"]) for one in told.of("loss") if one["certainty"] in ("lost", "doubtful")]


# --- verdicts ---------------------------------------------------------------------------------------------------------
@BOTH
def test_compaction_that_took_the_first_offset_is_no_loss(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.first_compacted, which)
    assert (told.exit, told.found(), told.of("step"), lost(told)) == (0, [], [], [])
    run = run_kdump(["salvage", "logdir/__consumer_offsets-28", "--to", "out"], tmp_path)
    assert b"nothing is lost" in run.stdout
    assert b"stop every broker" not in run.stdout


@BOTH
def test_a_batch_that_begins_below_the_end_is_kept_and_read(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.dip, which)
    assert told.found() == ["O03", "O08"]
    twice = [(one["offset"], one["lastOffset"]) for one in told.of("duplicate")]
    assert twice == ([(15, 19), (28, 29)] if which else [(15, 19)])
    assert lost(told) == []
    assert [step[:13] for step in told.steps()] == ["nothing to do"]
    assert len(told.of("step")) == 1
    run = run_kdump(["salvage", "logdir/events-20", "--to", "out"], tmp_path)
    assert b"nothing is lost" in run.stdout
    copies = [sorted(path.read_bytes() for path in one.glob("*.log")) for one in _partitions(tmp_path)]
    assert copies[0] == copies[1]


def _partitions(root: Path) -> list[Path]:
    return [root / "logdir" / "events-20", root / "out" / "events-20"]


@BOTH
def test_a_segment_that_goes_far_above_its_name_is_split_and_nothing_lost(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.far_up, which)
    assert (told.exit, told.found(), lost(told), told.of("step")) == (0, [], [], [])
    full = Told(tmp_path, "verify", "--start", "full", "logdir").foretold
    assert (full["loads"], full["recordsLost"], full["logEndOffset"]) == (
        True,
        0,
        2**31 + 12_345 + (5 if which else 13),
    )
    assert Told(tmp_path, "dump", "logdir/big-0").found() == []
    run = run_kdump(["export", "logdir/big-0", "--to", "out", "--format", "csv"], tmp_path)
    assert (run.exit, b"1 error" in run.stderr) == (0, False)


@BOTH
def test_a_directory_that_waits_for_its_deletion_is_copied_first(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.deleted, which)
    (found,) = [one for one in told.of("finding") if one["code"] == "F16"]
    assert found["severity"] == "note"
    (step,) = told.of("step")
    assert step["why"].startswith("unless it was removed on purpose, copy logdir/orders-0.2a")
    run = run_kdump(["salvage", f"logdir/orders-0.{'2a' * 16}-delete", "--to", "out"], tmp_path)
    assert (tmp_path / "out" / "orders-0").is_dir()
    text = b" ".join(run.stdout.split())
    assert topic_id("C")["partition.metadata"].split()[-1] in text
    assert b"leave them in place" not in text


@BOTH
def test_zeros_that_a_broker_preallocated_are_cut_by_its_start(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.preallocated, which)
    assert lost(told) == []
    assert (told.foretold["loads"], told.foretold["logEndOffset"]) == (True, 5 if which else 10)
    (step,) = told.of("step")
    assert step["why"].startswith("start the broker: it cuts 65")
    assert (step["rank"], step["loses"]["records"]) == ("recommended", 0)
    assert run_kdump(["verify", "--start", "auto", "--fail-on", "loss", "logdir"], tmp_path).exit == 0


@BOTH
def test_indexes_of_zeros_are_built_again_by_the_start(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.zero_indexes, which)
    assert told.found() == (["T02"] if which else ["T02", "X02"])
    assert (lost(told), told.foretold["loads"], told.foretold["logEndOffset"]) == ([], True, 9)
    assert told.steps()[0].startswith("start the broker: it builds the indexes of ")
    assert run_kdump(["repair", "logdir/orders-0"], tmp_path).exit == 7


@BOTH
def test_a_time_index_of_zeros_is_mended_before_retention_reads_it(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.time_index_of_zeros, which)
    assert (told.found("error"), lost(told)) == (["T02"], [])
    run = run_kdump(["repair", "logdir", "--apply", "--quarantine", "kept"], tmp_path)
    assert run.exit == 0
    assert Told(tmp_path, "verify", "logdir").found() == []


@BOTH
def test_a_flipped_bit_costs_its_batch_and_a_consumer_goes_on_behind_it(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.bad_crc, which)
    (one,) = told.of("finding")
    assert (one["code"], one["offset"], one["lastOffset"]) == ("B01", *((6, 6) if which else (12, 14)))
    assert one["remedy"].endswith(f"at offset {7 if which else 15}")
    full = Told(tmp_path, "verify", "--start", "full", "logdir").foretold
    assert (full["recordsLost"], full["logEndOffset"]) == ((5, 6) if which else (15, 12))


@BOTH
def test_a_broken_epoch_file_takes_the_log_directory_offline(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.bad_epochs, which)
    assert told.found("error") == ["K04"]
    assert {(one["loads"], one["stops"]) for one in told.of("prediction")} == {(False, "logdir")}
    assert "Malformed line in checkpoint file" in told.of("finding")[0]["message"]
    assert run_kdump(["repair", "logdir", "--apply", "--quarantine", "kept"], tmp_path).exit == 0
    assert (tmp_path / "logdir/a-0/leader-epoch-checkpoint").read_bytes() == b"0\n1\n5 0\n"


@BOTH
def test_a_metadata_log_ends_for_a_node_at_its_first_damage(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.bad_metadata, which)
    assert told.found("error") == ["B01"]
    assert told.foretold["logEndOffset"] == (7 if which else 4)
    assert told.steps()[0].startswith("do not start the broker: it ")
    run = run_kdump(["cluster", "logdir"], tmp_path)
    assert b"metadata.version" in run.stdout
    assert b"not searched: " in run.stderr


@BOTH
def test_what_alone_tells_of_a_lost_log_is_kept_from_the_start(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.logs_removed, which)
    assert told.found("error") == ["F08"]
    assert lost(told) == [(0, 3)]
    first = told.steps()[0]
    assert first.startswith("do not start the broker: it ")
    assert first.endswith("takes away what alone tells of lost logs (" + first.partition(" lost logs (")[2])
    assert "logdir/a-0/00000000000000000000.index" in first
    (last,) = told.steps("last-resort")
    assert last.startswith("start the broker all the same: ")


@BOTH
def test_a_copy_that_broke_off_lacks_its_end(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.cut_copy, which)
    assert {"O07", "X07"} <= set(told.found()) or {"F14", "X07"} <= set(told.found())
    assert lost(told) == [(11, 19)]
    assert told.steps()[0].startswith("do not start the broker: it hides 11 records")


@BOTH
def test_a_log_start_above_the_end_makes_a_broker_delete_all(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.start_ahead, which)
    assert told.found("error") == ["K02"]
    assert told.foretold["logEndOffset"] == (11 if which else 5000)
    assert told.steps()[0] == "do not start the broker: it discards 10 records that can be read today"


# --- small files ------------------------------------------------------------------------------------------------------
@BOTH
def test_empty_topic_ids_are_one_option_with_the_id_where_it_is_known(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.ids_empty, which)
    assert len([one for one in told.of("finding") if one["code"] == "K05"]) == (5 if which else 6)
    assert {tuple(one["partitions"]) for one in told.of("step")} == {
        tuple(f"logdir/orders-{n}" for n in range(6) if not (which and n == 3))
    }
    *before, _ = told.of("step")
    assert [one["n"] for one in told.of("step")] == [*range(1, len(before) + 2)]
    assert ["K03 checkpoint" in one["why"] for one in before] == ([] if which else [True])
    if which:
        its = topic_id("C")["partition.metadata"].split()[-1].decode()
        found = [one for one in told.of("finding") if one["code"] == "K05"]
        assert {one["expected"] for one in found} == {its}
        assert all(f"`version: 0` and `topic_id: {its}`" in one["remedy"] for one in found)
        assert run_kdump(["repair", "logdir", "--apply", "--quarantine", "kept"], tmp_path).exit == 0
        assert Told(tmp_path, "verify", "logdir").found() == []


def test_partitions_of_two_topics_get_their_own_ids(tmp_path: Path) -> None:
    parts = {f"{topic}-{n}": field_cases.closed(0, end=1) for topic in "ab" for n in range(2)}
    files = field_cases.log_dir(parts) | below("b-1", topic_id("D")) | {"a-0/partition.metadata": b""}
    write(tmp_path / "logdir", files | {"b-0/partition.metadata": b""})
    told = Told(tmp_path, "verify", "logdir")
    assert [one["expected"][0] for one in told.of("finding") if one["code"] == "K05"] == ["C", "D"]


@pytest.mark.parametrize("stop", ["lost+found", "pay-0.bak"])
def test_what_stops_the_start_comes_first_in_the_block_of_a_damaged_partition(stop: str, tmp_path: Path) -> None:
    write(tmp_path / "logdir", field_cases.bad_crc(0))
    (tmp_path / "logdir" / stop).mkdir()
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert {tuple(one["partitions"]) for one in told.of("step")} == {("logdir/rl-49",)}
    first, then = told.steps()
    assert first.startswith(f"logdir/{stop}: F11 odd-directory: ")
    assert then.startswith("B01 crc-mismatch at byte ")
    assert (told.foretold["stops"], told.foretold["reasonClass"]) == (
        "broker",
        "org.apache.kafka.common.KafkaException",
    )


def test_what_stops_the_start_is_a_block_of_its_own_where_nothing_else_is_wrong(tmp_path: Path) -> None:
    write(tmp_path / "a", field_cases.log_dir({"t-0": field_cases.closed(0, end=2)}))
    write(tmp_path / "b", field_cases.bad_crc(0))
    (tmp_path / "a" / "old").mkdir()
    told = Told(tmp_path, "verify", "a", "b")
    first, *others = told.of("step")
    assert (first["partitions"], first["why"][:5]) == ([], "a/old")
    assert not any("F11" in one["why"] for one in others)


@BOTH
def test_files_of_a_partition_in_the_log_directory_itself_are_told(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.strays, which)
    rows = [one for one in told.of("finding") if one["code"] == "F08"]
    kinds = ["index", "timeindex"] if which else ["log"]
    assert [one["file"].rpartition(".")[2] for one in rows] == kinds
    assert {one["severity"] for one in rows} == {"note" if which else "warning"}
    assert told.exit == 0


@BOTH
def test_swap_files_beside_a_cleaning_that_did_not_end_are_thrown_away(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.cleaned_beside_swap, which)
    assert (told.found("error"), lost(told)) == ([], [])
    assert (told.foretold["loads"], told.foretold["logEndOffset"], told.foretold["recordsLost"]) == (True, 10, 0)
    assert [one["action"] for one in told.foretold["segments"]] == ["keep"] * 3


# --- retention, and the cleaner ---------------------------------------------------------------------------------------
@BOTH
def test_a_timestamp_in_the_future_holds_the_segments_behind_it(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.far_time, which)
    assert (told.exit, told.found("error")) == (0, [])
    given = ["--set", "cleanup.policy=delete", "--now", CLOCK]
    run = run_kdump(["retention", "logdir/clicks-0", *given], tmp_path)
    assert b"0: stays: its timestamp " in run.stdout
    assert b"is in the future" in run.stdout


@BOTH
def test_an_open_transaction_holds_the_cleaner(which: int, tmp_path: Path) -> None:
    assert verify(tmp_path, field_cases.open_commit, which).found("error") == []
    run = run_kdump(["retention", "logdir/__consumer_offsets-20", "--pass"], tmp_path)
    assert b"compaction: dirty from offset 0 to %d (open transaction)" % (4 if which else 0) in run.stdout


@BOTH
def test_one_group_of_the_cleaner_spans_no_more_than_an_index_can_say(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.far_apart, which)
    assert (told.exit, lost(told)) == (0, [])
    run = run_kdump(["retention", "logdir/state-0", "--pass", "--set", "cleanup.policy=compact"], tmp_path)
    groups = run.stdout.decode().partition("segment after")[2].splitlines()[1:]
    rows = [line.split()[0] for line in groups if line.startswith(" ") and line.split()[0].isdigit()]
    assert rows == (["0", "2147483653"] if which else ["0", "1500000000"])


@BOTH
def test_records_without_a_key_are_removed_by_compaction(which: int, tmp_path: Path) -> None:
    write(tmp_path / "logdir", field_cases.unkeyed(which))
    args = ["dump", "logdir/profiles-0/00000000000000000000.log", "--fate", "--set", "cleanup.policy=compact"]
    run = run_kdump(args, tmp_path)
    assert run.stdout.count(b"compaction removes it: it has no key") == (1 if which else 4)


# --- timestamps of 0 --------------------------------------------------------------------------------------------------
@BOTH
def test_a_producer_that_writes_the_time_0_is_no_damage(which: int, tmp_path: Path) -> None:
    write(tmp_path / "logdir", field_cases.time_of_zero(which))
    told = Told(tmp_path, "verify", "--start", "auto", "logdir")
    assert (told.found("error", "warning", "note"), told.exit) == ([], 0)
    assert Told(tmp_path, "find-time", "logdir/orders-0", "0").of("location")[0]["offset"] == 0
    policy = ("--set", "cleanup.policy=delete")
    assert Told(tmp_path, "retention", "logdir", *policy).found("error", "warning", "note") == []


# --- sequences --------------------------------------------------------------------------------------------------------
@BOTH
def test_repeated_and_missing_sequences_are_two_sentences(which: int, tmp_path: Path) -> None:
    told = verify(tmp_path, field_cases.sequences, which)
    repeats, skips = (one["message"] for one in told.of("finding") if one["code"] == "P01")
    first = 6 if which else 4
    assert f"repeats offsets {first}..7: readers get them twice" in repeats
    assert "3 sequences are missing" in skips
    (row,) = told.of("duplicate")
    assert (row["offset"], row["lastOffset"], len(row["places"])) == (first, 7, 2)
    assert (lost(told), told.exit) == ([], 0)


# --- units of time, and sizes -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("unit", list(field_cases.UNITS))
@pytest.mark.parametrize("first", [0, 3])
def test_a_time_in_a_wrong_unit_is_called_that_once_a_log(unit: str, first: int, tmp_path: Path) -> None:
    write(tmp_path / "logdir", field_cases.wrong_unit(unit, first))
    told = Told(tmp_path, "verify", "logdir")
    (note,) = [one for one in told.of("finding") if one["code"] == "B12"]
    assert (note["severity"], note["offset"], told.exit) == ("note", first, 0)
    assert f"looks like {unit}: 2023-11-14T22:13:2" in note["message"]
    policy = ("--set", "cleanup.policy=delete")
    shown = run_kdump(["retention", "logdir", *policy], tmp_path).stdout.decode()
    assert f"({unit}?)" in shown
    assert f"looks like {unit}" in " ".join(shown.split())
    said = run_kdump(["dump", "logdir/orders-0", "--fate", *policy], tmp_path).stderr.decode()
    assert f"from offset {first} on timestamps are not in milliseconds" in said
    said = run_kdump(["du", "--by", "day", "logdir"], tmp_path).stderr.decode()
    assert f"looks like {unit}" in said


@pytest.mark.parametrize("time", [-1, 0, 1000, field_cases.TIME, 2**62])
def test_a_time_that_is_plausible_in_no_other_unit_is_none(time: int) -> None:
    assert unit_of(time) is None
    assert in_its_unit(time) == ""
    assert wrong_unit(BytesSource(batch(0, [Record(b"v", b"k")], base_timestamp=time)), 1 << 20) is None
    assert unit_sentence(3, field_cases.TIME // 1000).endswith("looks like seconds: 2023-11-14T22:13:20.000Z")


@pytest.mark.parametrize("limit", [600, 2000])
def test_retention_by_size_says_how_much_the_log_must_grow(limit: int, tmp_path: Path) -> None:
    write(tmp_path / "logdir", log_dir({"orders-0": closed(0, 5, end=10)}))
    config = f"KAFKA_LOG_RETENTION_BYTES={limit}\nKAFKA_CFG_LOG_RETENTION_MS=-1\nlog.cleanup.policy=delete\n"
    (tmp_path / "env").write_text(f"{config}num.io.threads=8\nKAFKA_MY__OWN___NAME=1\n")
    run = run_kdump(["retention", "logdir", "--config", "env"], tmp_path)
    shown = " ".join(run.stdout.decode().split())
    size = sum(path.stat().st_size for path in (tmp_path / "logdir").rglob("*.log"))
    assert f"the log has {size} bytes" in shown
    grow = limit + size // 2 - size
    assert f"a segment goes when it has {grow} more" in shown
    assert "2 settings of --config mean nothing to kdump: my_own-name, num.io.threads" in shown
    (row,) = Told(tmp_path, "retention", "logdir", "--config", "env").of("retention")
    assert any("mean nothing to kdump" in one for one in row["assumed"])
