"""What readers lose is told by offsets, held against a brute force; what starts and cuts cost adds up."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.item import PartitionChecked
from kdump.render.text.losses import LossSum
from kdump.rows.verdict import Certainty, Loss
from tests.support.damage_cases import damage_cases, edited
from tests.support.loss_check import plan_problems, problems_of, start_problems
from tests.support.partitions import name
from tests.support.runs import FIXTURES, copy_tree, flat, run_kdump
from tests.support.scenes import GOLDENS, SCENES, said
from tests.support.segments import batch
from tests.support.verify_runs import held

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Any

DAMAGE = FIXTURES / "damage"
OF_LOGS = tuple("BCFLORPX")  # families of codes whose cases touch what a log has, or where it ends
CASES = [case for case in damage_cases(DAMAGE) if case.codes[0][0] in OF_LOGS]
SAMPLE = CASES[::3]
"""Every third; tests/support/loss_check.py has them all."""
INTACT = sorted(path for path in (DAMAGE / "intact").iterdir())


def rows(tree: Path, *options: str) -> list[dict[str, Any]]:
    run = run_kdump(["verify", "--format", "json", *options, str(tree)], FIXTURES)
    return [json.loads(line) for line in run.stdout.splitlines()]


def losses(tree: Path, *options: str) -> list[tuple[Any, ...]]:
    keys = ("position", "length", "offset", "lastOffset", "records", "certainty")
    return [tuple(row[key] for key in keys) for row in rows(tree, *options) if row["type"] == "loss"]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_every_batch_that_is_gone_lies_in_a_loss_and_none_that_is_here(case: Any, tmp_path: Path) -> None:
    assert problems_of(case, case.build(tmp_path / "logdir")) == []


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_starts_and_cuts_account_for_every_record_that_can_be_read_today(case: Any, tmp_path: Path) -> None:
    tree = case.build(tmp_path / "logdir")
    assert [*start_problems(tree), *plan_problems(tree)] == []


@pytest.mark.parametrize("base", INTACT, ids=lambda base: base.name)
def test_nothing_is_lost_of_what_is_intact(base: Path) -> None:
    found = rows(base / "logdir")
    assert {row["certainty"] for row in found if row["type"] == "loss"} <= {"unexplained"}
    summary = found[-1]
    assert (summary["offsetsLost"], summary["recordsLost"], summary["recordsUnknown"]) == (0, 0, 0)


@pytest.mark.parametrize("golden", GOLDENS)
@pytest.mark.parametrize("scene", sorted(path.name for path in SCENES.iterdir()))
def test_a_scene_is_told_as_in_its_golden(scene: str, golden: str, tmp_path: Path) -> None:
    assert said(scene, golden, tmp_path).stdout == (SCENES / scene / golden).read_bytes()


def damaged(tmp_path: Path, *edits: dict[str, Any], base: str = "none", log: str = "") -> Path:
    """An intact log directory with some edits in one log."""
    copy_tree(DAMAGE / "intact" / base / "logdir", tmp_path / "logdir")
    path = next((tmp_path / "logdir").glob(f"*-0/{log or '0' * 17 + '119'}.log"))
    data = path.read_bytes()
    for edit in edits:
        data = edited(data, edit)
    path.write_bytes(data)
    return tmp_path / "logdir"


def test_a_header_that_stands_keeps_its_offsets_and_records(tmp_path: Path) -> None:
    tree = damaged(tmp_path, {"op": "zero", "position": 3900, "count": 160})
    assert losses(tree) == [(3818, 158, 176, 178, 3, "doubtful"), (3976, 208, 179, 182, None, "lost")]
    gaps = [row for row in rows(tree) if row.get("gap")]
    parts = [(row["code"], row["position"], row["length"], row["offsetsFrom"]) for row in gaps]
    assert parts == [
        ("L09", 3818, 82, "bytes"), ("L04", 3900, 160, "neighbours"), ("L09", 4060, 124, "neighbours"),
    ]  # fmt: skip


def test_a_batch_that_was_cut_out_is_lost_where_the_index_knows_it(tmp_path: Path) -> None:
    tree = damaged(tmp_path / "one", {"op": "cut", "position": 3818, "count": 158})
    assert losses(tree) == [(3818, 0, 176, 178, None, "lost")]
    cuts = {"op": "cut", "position": 3818, "count": 158}, {"op": "cut", "position": 797, "count": 124}
    found = losses(damaged(tmp_path / "two", *cuts))
    assert [(*one[2:4], one[5]) for one in found] == [(176, 178, "lost"), (131, 132, "unexplained")]


def lost(tree: Path) -> list[tuple[int, int, str]]:
    """The offsets that verify tells as lost, which are those that salvage does not get."""
    found = [one[2:4] + one[5:] for one in losses(tree) if one[5] in ("lost", "doubtful")]
    [partition] = (path for path in tree.iterdir() if path.is_dir())
    run = run_kdump(["salvage", "--format", "json", str(partition), "--to", str(tree.parent / "out")], tree)
    missed = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "loss"]
    missed = [row for row in missed if row["certainty"] in ("lost", "doubtful")]
    assert offsets((row["offset"], row["lastOffset"]) for row in missed) == offsets(one[:2] for one in found)
    assert run.exit == (3 if found else 0)
    return found


def offsets(ranges: Iterable[tuple[int, int]]) -> list[int]:
    return sorted(one for first, last in ranges for one in range(first, last + 1))


@pytest.mark.parametrize("without", ["", "index", "timeindex"])
def test_an_end_cut_off_before_another_segment_is_lost_where_the_offset_index_knows_it(
    without: str, tmp_path: Path
) -> None:
    tree = damaged(tmp_path, {"op": "truncate", "size": 3189}, base="compacted", log="0" * 17 + "494")
    if without:
        (tree / "compacted-0" / name(494, without)).unlink()
    is_proof = without != "index"  # a time index alone may be an older copy, and the cleaner has been here
    assert lost(tree) == ([(591, 629, "lost")] if is_proof else [])
    found = [row for row in rows(tree) if row["type"] == "finding"]
    assert [row["expected"] for row in found if row["code"] == "F14"] == ([630] if is_proof else [])
    assert not any("nothing is lost" in row["why"] for row in rows(tree) if row["type"] == "step" and not without)
    run = run_kdump(["reindex", str(tree / "compacted-0")], tree)
    assert run.exit == 12 or without


def test_beside_a_whole_copy_one_whose_end_is_cut_off_is_damaged_and_nothing_is_lost(tmp_path: Path) -> None:
    tree = damaged(tmp_path, {"op": "truncate", "size": 3189}, base="compacted", log="0" * 17 + "494")
    sources = [str(tree / "compacted-0"), str(DAMAGE / "intact" / "compacted" / "logdir" / "compacted-0")]
    run = run_kdump(["salvage", "--format", "json", *sources, "--to", str(tmp_path / "out")], tmp_path)
    [result] = (row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "salvage")
    assert result["offsetsLost"] == 0
    assert [(one["path"], one["state"]) for one in result["copies"]] == [(sources[1], "whole"), (sources[0], "damaged")]


@pytest.mark.parametrize("has_index", [True, False])
def test_behind_a_torn_batch_all_up_to_the_next_segment_is_lost(has_index: bool, tmp_path: Path) -> None:
    tree = damaged(tmp_path, {"op": "truncate", "size": 4774}, base="follower", log="0" * 20)
    if not has_index:
        for suffix in ("index", "timeindex"):
            (tree / "follower-0" / name(0, suffix)).unlink()
    assert lost(tree) == [(63, 65, "doubtful"), (66, 104, "lost")]


@pytest.mark.parametrize(
    ("position", "wrong", "found"),
    [
        (300, "a5" * 400, [(108, 108, "doubtful"), (109, 115, "lost")]),
        (1345, "00000000", [(123, 125, "doubtful")]),
        (1345, "00000000" + "00" * 110, [(123, 125, "doubtful")]),
    ],
    ids=["bytes behind a batch", "a last offset that its records belie", "a last offset that nothing belies"],
)
def test_what_a_header_does_not_claim_of_damaged_bytes_is_no_hole(
    position: int, wrong: str, found: list[tuple[int, int, str]], tmp_path: Path
) -> None:
    tree = damaged(tmp_path, {"op": "set", "position": position, "bytes": wrong}, base="follower", log="0" * 17 + "105")
    assert lost(tree) == found


def test_every_loss_in_a_dense_log_names_codes_that_are_found(tmp_path: Path) -> None:
    tree = damaged(tmp_path, {"op": "set", "position": 300, "bytes": "a5" * 400})
    found = rows(tree)
    codes = {row["code"] for row in found if row["type"] == "finding"}
    assert {code for row in found if row["type"] == "loss" for code in row["because"]} <= codes
    assert lost(tree) == [(122, 124, "doubtful"), (125, 130, "lost")]


def test_a_partition_without_logs_has_lost_all_that_its_other_files_know(tmp_path: Path) -> None:
    source = FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "mixed-0"
    for gone in ("", name(185, "snapshot"), "leader-epoch-checkpoint"):
        tree = tmp_path / f"without {gone}"
        copy_tree(source, tree / "mixed-0")
        for file in (name(0), gone):
            (tree / "mixed-0" / file).unlink() if file else None
        assert [one[2:] for one in losses(tree)] == [(0, 184, None, "lost")]


def test_what_an_intact_batch_of_an_earlier_segment_has_is_not_lost(tmp_path: Path) -> None:
    tree = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "copied")
    (tree / "plain-0" / name(245)).write_bytes((tree / "plain-0" / name(240)).read_bytes())
    assert lost(tree) == []
    tree = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "renamed" / "logdir")
    for path in (tree / "plain-0").glob(name(119, "*")):
        path.rename(path.with_name(name(117, path.suffix[1:])))
    assert lost(tree) == []


def test_a_tail_cut_at_a_boundary_is_lost_up_to_what_indexes_and_checkpoints_know(tmp_path: Path) -> None:
    tree = damaged(tmp_path, {"op": "truncate", "size": 3507}, log="0" * 17 + "240")
    assert losses(tree) == [(3507, 0, 288, 296, None, "lost")]
    for known in (*tree.glob("*-0/*297.snapshot"), *tree.glob("*-offset-checkpoint")):
        known.unlink()
    assert [one[2:4] for one in losses(tree)] == [(288, 296)], "the time index knows the last one"
    for known in (*tree.glob("*-0/*240.index"), *tree.glob("*-0/*240.timeindex")):
        known.unlink()
    assert losses(tree) == [], "nobody knows"


def test_replicas_say_who_has_it(tmp_path: Path) -> None:
    one = damaged(tmp_path / "a", {"op": "zero", "position": 3900, "count": 160})
    other = damaged(tmp_path / "b", {"op": "zero", "position": 3840, "count": 20})
    run = run_kdump(["verify", "--replicas", "--format", "json", str(one), str(other)], tmp_path)
    found = [json.loads(line) for line in run.stdout.splitlines() if b'"type":"loss"' in line]
    told = {(row["offset"], row["lastOffset"]): row["elsewhere"] for row in found if row["elsewhere"]}
    assert told == {(179, 182): [str(other / "plain-0")]}
    text = flat(run_kdump(["verify", "--replicas", str(one), str(other)], tmp_path).stdout)
    assert f"; offsets 179..182 are intact in {other / 'plain-0'}; no replica has offsets 176..178 " in text


def test_a_cut_says_where_the_log_ended_and_what_of_it_is_readable(tmp_path: Path) -> None:
    tree = damaged(tmp_path, {"op": "zero", "position": 3900, "count": 160})
    cut = ["truncate", "--at-damage", "--with-later-segments", str(tree / "plain-0")]
    assert b"ends at 176 instead of 297: 121 offsets, 114 records still readable" in run_kdump(cut, tree).stdout
    done = flat(run_kdump([*cut, "--apply", "--quarantine", str(tmp_path / "aside")], tree).stdout)
    assert "114 records still readable, in the quarantine only " in done
    torn = damaged(tmp_path / "torn", {"op": "truncate", "size": 4084}, log="0" * 17 + "240")
    cut = ["truncate", "--at-damage", str(torn / "plain-0")]
    assert b"ends at 295 instead of 297: 2 offsets, no record still readable" in run_kdump(cut, torn).stdout


def test_a_partition_that_suffers_with_others_names_what_took_the_directory_offline(tmp_path: Path) -> None:
    tree = damaged(tmp_path, base="txn", log="0" * 20)
    file = tree / "recovery-point-offset-checkpoint"
    file.write_bytes(b"0\n1\nhello\n")
    causes = [row["cause"] for row in rows(tree, "--start", "all") if row["type"] == "prediction"]
    assert causes == [{"code": "K03", "file": str(file)}] * 3


@pytest.mark.parametrize("hurt", [False, True], ids=["alone", "with a damaged batch behind it"])
def test_a_wrong_offset_at_the_end_of_a_segment_neither_makes_nor_hides_a_loss_above_the_next_one(
    hurt: bool, tmp_path: Path
) -> None:
    """Its true offset is known, also where the batch before it is damaged: the header of that and the name agree."""
    tree = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logdir")
    log = tree / "plain-0" / name(0, "log")
    data = bytearray(log.read_bytes())
    before = at = following = 0
    while following < len(data):
        before, at = at, following
        following += int.from_bytes(data[following + 8 : following + 12], "big") + 12
    first, spoilt = (int.from_bytes(data[one : one + 8], "big") for one in (at, before))
    data[at + 4] ^= 32  # of the base offset of the last batch
    log.write_bytes(data)
    assert losses(tree) == []
    data[at - 1] ^= 1
    log.write_bytes(data)
    if hurt:
        later = tree / "plain-0" / name(119, "log")
        spoiled = bytearray(later.read_bytes())
        spoiled[900] ^= 1
        later.write_bytes(spoiled)
    found = sorted((one[2], one[3]) for one in losses(tree))
    assert found == [(spoilt, first - 1), *([(131, 132)] if hurt else [])]
    ends = [one.end_offset for one in verify([str(tree)], VerifyOptions()) if isinstance(one, PartitionChecked)]
    assert ends == [297]


def test_a_record_count_that_cannot_be_in_the_offsets_is_not_believed(tmp_path: Path) -> None:
    tree = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logdir")
    log = tree / "plain-0" / name(119, "log")
    data = bytearray(log.read_bytes())
    data[57] ^= 0x51  # of the number of records
    log.write_bytes(data)
    found = rows(tree)
    assert [(row["offset"], row["records"]) for row in found if row["type"] == "loss"] == [(119, None)]
    assert [row["count"] for row in found if row["type"] == "finding" and row["code"] == "B01"] == [None]
    assert (found[-1]["recordsLost"], found[-1]["recordsUnknown"]) == (0, 1)


@pytest.mark.parametrize(
    ("position", "wrong"), [(3956 + 23, "04"), (3956 + 26, "05"), (3956 + 60, "00"), (3956 + 60, "03")], ids=str
)
def test_the_last_batch_is_lost_up_to_its_last_record_whatever_its_header_says(
    position: int, wrong: str, tmp_path: Path
) -> None:
    """One wrong bit of lastOffsetDelta, or of the count: no batch follows that bounds it, its records tell."""
    tree = damaged(tmp_path, {"op": "set", "position": position, "bytes": wrong}, log="0" * 17 + "240")
    assert [one[:4] for one in losses(tree)] == [(3956, 165, 295, 296)]


@pytest.mark.parametrize(
    ("position", "wrong", "said"),
    [
        (300, "58", "a consumer can skip to the next batch, at offset 125"),
        (100, "58", "a consumer can skip to the next batch, at offset 122"),
        (194 + 26, "05", "a consumer can skip to the next batch"),
        (194 + 60, "02", "a consumer can skip to the next batch"),
    ],
    ids=["in a record", "in the first batch", "in lastOffsetDelta", "in the count"],
)
def test_where_a_consumer_can_go_on_is_named_only_by_a_header_that_does_not_contradict_itself(
    position: int, wrong: str, said: str, tmp_path: Path
) -> None:
    """What a wrong lastOffsetDelta names would pass over intact batches."""
    tree = damaged(tmp_path, {"op": "set", "position": position, "bytes": wrong})
    (found,) = (row for row in rows(tree) if row["type"] == "finding" and row["code"] == "B01")
    assert found["remedy"] == f"restore from another replica; {said}"


@pytest.mark.parametrize(
    ("records", "said"),
    [([2, 1], "(3 records)"), ([2, None], "(2 records; number unknown for 1 offset)")],
)
def test_a_sum_of_losses_tells_records_from_offsets_whose_records_nobody_knows(
    records: list[int | None], said: str
) -> None:
    losses = LossSum("t-0")
    for offset, count in zip((4, 9), records, strict=True):
        losses.add(Loss("t-0", "t-0", "t-0/x.log", 0, 1, offset, offset, count, Certainty.LOST, ()))
    assert said in (losses.sentence() or "")


def test_a_sum_of_losses_says_what_can_be_taken_from_where_and_what_no_replica_has() -> None:
    losses = LossSum("t-0")
    for offset, have in ((4, ("b", "a")), (5, ("a", "b")), (7, ("c",)), (9, ())):
        losses.add(Loss("t-0", "t-0", "t-0/x.log", 0, 1, offset, offset, 1, Certainty.LOST, (), have))
    said = (losses.sentence() or "").partition("; ")[2]
    assert said == "offsets 4..5 are intact in a, b; offset 7 is intact in c; no replica has offset 9"


@pytest.mark.parametrize("partition", ["__consumer_offsets-2", "plain-0"])
def test_what_only_a_time_index_knows_behind_the_last_batch_is_lost_in_any_topic(
    partition: str, tmp_path: Path
) -> None:
    """A broker truncates its time index with the log, and a cleaner writes it again: its last entry was a batch."""
    folder = copy_tree(FIXTURES / "kafka-4.3.1" / "clean" / "node1" / partition, tmp_path / partition)
    log = max(folder.glob("*.log"))
    for path in (*folder.glob("*.snapshot"), folder / "leader-epoch-checkpoint", log.with_suffix(".index")):
        path.unlink()
    last = list(kdump.Log(log).batches())[-1]
    os.truncate(log, last.position)
    found = rows(folder)
    assert [one[2:4] + one[5:] for one in losses(folder)] == [(last.base_offset, last.last_offset, "lost")]
    errors = [one["code"] for one in found if one["type"] == "finding" and one["severity"] == "error"]
    assert errors[0] == "F14"
    assert "T04" in errors


@pytest.mark.parametrize("other", ["bak", "deleted"])
def test_a_gap_in_sequences_is_told_of_a_log_that_is_judged_alone(other: str, tmp_path: Path) -> None:
    log = batch(0, [b"a"], producer=(7, 0, 0)) + batch(1, [b"b"], producer=(7, 0, 5))
    path = tmp_path / f"{name(0)}.{other}"
    path.write_bytes(log)
    assert [(one["code"], one["severity"]) for one in rows(path) if one["type"] == "finding"] == [("P01", "warning")]


def test_lost_offsets_are_no_status_0_though_only_checkpoints_know_them(tmp_path: Path) -> None:
    copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logs")
    cut = ["truncate", "logs/plain-0", "--to-offset", "200", "--with-later-segments"]
    assert run_kdump([*cut, "--apply", "--quarantine", "aside"], tmp_path).exit == 0
    for options, status in (([], 3), (["--fail-on", "never"], 0)):
        run = run_kdump(["verify", "logs", *options], tmp_path)
        assert run.exit == status
        assert "98 offsets lost, 2 warnings" in flat(run.stdout)
        assert "(number of records unknown); only checkpoints know them (K01), as after a truncation" in flat(
            run.stdout
        )
    for layout, line in (
        ("text", b"LOST     plain-0 "),
        ("lines", b"LOST\tlogs/plain-0\n"),
        ("json", b'"certainty":"lost","because":["K01"]'),
    ):
        run = run_kdump(["verify", "--quiet", "--format", layout, "logs"], tmp_path)
        assert (run.exit, line in run.stdout) == (3, True)
    page = run_kdump(["verify", "--format", "html", "logs"], tmp_path).stdout
    assert b"No damage in what is here, but 98 offsets are missing: plain-0 is not whole." in page


def test_what_a_salvage_has_told_of_is_status_0(tmp_path: Path) -> None:
    tree = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logs")
    (tree / "plain-0" / name(119)).unlink()
    assert run_kdump(["salvage", "logs", "--to", "out"], tmp_path).exit == 3
    run = run_kdump(["verify", "out", "--format", "json"], tmp_path)
    assert b'"type":"loss"' in run.stdout
    assert run.exit == 0


def test_a_batch_over_the_limit_hides_no_end_that_is_cut_off(tmp_path: Path) -> None:
    """Its records are not read (5), and the batch is intact: where the log ends is known."""
    tree = copy_tree(FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "zstd-0", tmp_path / "zstd-0")
    log = max(tree.glob("*.log"))
    last = list(kdump.Log(log).batches())[-1]
    os.truncate(log, last.position)
    expected = [one[2:4] + one[5:] for one in losses(tree)]
    assert expected == [(last.base_offset, last.last_offset, "lost")]
    assert [one[2:4] + one[5:] for one in losses(tree, "--max-batch-bytes", "2048")] == expected


@pytest.mark.parametrize("is_held", [False, True])
def test_a_wrong_entry_in_the_middle_of_a_time_index_is_told_while_a_broker_writes(
    is_held: bool, tmp_path: Path
) -> None:
    folder = copy_tree(FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "plain-0", tmp_path / "data" / "plain-0")
    index = max(folder.glob("*.timeindex"))
    with index.open("r+b") as file:
        time = int.from_bytes(file.read(8), "big")
        file.seek(0)
        file.write((time + 1).to_bytes(8, "big"))
    with held(tmp_path / "data") if is_held else nullcontext():
        codes = [one["code"] for one in rows(folder) if one["type"] == "finding" and one["severity"] == "error"]
    assert codes == ["T04"]
