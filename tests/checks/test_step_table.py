"""Each row of the table of steps: what is recommended, when something else is right, and what that destroys."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.checks.step_sentences import Harm, Move, StepKind, Sum, move
from kdump.checks.step_table import TABLE, PartitionState, steps_for
from kdump.rows.steps import NONE, UNKNOWN, Amount, Rank, Step, blocks_of
from kdump.words.command import command_line
from tests.support.damage_cases import damage_cases
from tests.support.follow_steps import at_random, followed, of_case
from tests.support.partitions import below, checkpoint, meta, name, segment, write
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.segments import batch
from tests.support.step_runs import acts
from tests.support.verify_runs import held

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DAMAGE = FIXTURES / "damage"
NONE_0 = DAMAGE / "intact" / "none" / "logdir"
LAST = name(240)
WORDS = {
    "files": ("f",), "code": "X99 odd", "remedy": "look", "what": "writes", "but": "", "missing": "offset 3 is missing",
    "them": "it", "it": "it", "path": ("p",), "source": "from another", "cause": ("B01",), "how": "so", "harmless": "",
    "where": "here", "cost": "all", "after": "", "moves": "mv -n a b", "again": "kdump verify p", "has": "",
    "alone": "", "unless": "", "log": "l",
}  # fmt: skip


def moves() -> tuple[Move, ...]:
    """One of each kind."""
    start = Move(StepKind.START, words=(("after", ""), ("what", Sum(5, 7, 1))))
    others = [one for one in StepKind if one not in (StepKind.START, StepKind.HOLD, StepKind.START_ALL_THE_SAME)]
    return start, *(move(one, command_line("verify", one.name), **WORDS) for one in others)


def told(**facts: Any) -> list[tuple[str, str | None, list[str]]]:
    """The options of a partition of which some facts are known and everything can be done."""
    (block,) = blocks_of(steps_for([PartitionState("p", moves(), **facts)]))
    return [
        (
            some[0].rank.value,
            some[0].condition,
            [step.command.split()[-1] if step.command else "START" for step in some],
        )
        for some in block
    ]


LOST: dict[str, Any] = {"has_losses": True, "is_damaged": True}
MENDS = ["REPAIR", "PATCH", "LOOSE_END", "REINDEX", "SNAPSHOT"]
CUT = ("last-resort", None, [*MENDS, "CUT", "WITNESS"])
FIRST = ["URGENT", "RESCUE", "RESCUE_TOO"]


@pytest.mark.parametrize(
    ("facts", "options"),
    [
        ({"has_read_error": True, **LOST}, [("recommended", None, FIRST)]),
        ({"starts_well": True, **LOST}, [("recommended", None, [*FIRST, "START"])]),
        ({"is_mendable": True}, [("recommended", None, [*FIRST, *MENDS])]),
        (
            {**LOST, "sound": "q", "together": ("p", "q")},
            [("recommended", None, [*FIRST, "RESTORE", "CHECKPOINT"]), ("last-resort", None, ["SALVAGE"])],
        ),
        (
            {**LOST, "together": ("p", "q")},
            [
                ("recommended", None, [*FIRST, "JOIN", "CHECKPOINT"]),
                ("if", "a further replica is sound", ["RESTORE"]),
                ("last-resort", None, [*MENDS, "CUT"]),
            ],
        ),
        (
            {**LOST, "others": True},
            [
                ("recommended", None, [*FIRST, "COMPARE", "RESTORE", "CHECKPOINT"]),
                ("if", "no other replica is sound", ["SALVAGE"]),
                CUT,
            ],
        ),
        ({**LOST, "others": False}, [("recommended", None, [*FIRST, "SALVAGE", "CHECKPOINT"]), CUT]),
        (
            LOST,
            [
                ("recommended", None, [*FIRST, "COMPARE", "CHECKPOINT"]),
                ("if", "there is no other replica", ["SALVAGE"]),
                ("if", "another replica is sound, and has all of it", ["RESTORE"]),
                CUT,
            ],
        ),
        (
            {"has_losses": True},
            [
                ("recommended", None, [*FIRST, "COMPARE", "PERSON", "CHECKPOINT"]),
                ("if", "there is no other replica", [*MENDS, "NOTHING"]),
                ("if", "another replica is sound, and has all of it", ["RESTORE"]),
                ("last-resort", None, ["WITNESS"]),
            ],
        ),
        (
            {"has_losses": True, "harm": "hides all"},
            [
                ("recommended", None, ["START", *FIRST, "COMPARE", "PERSON", "CHECKPOINT"]),
                ("if", "there is no other replica", [*MENDS, "WITNESS"]),
                ("if", "another replica is sound, and has all of it", ["RESTORE"]),
                ("last-resort", None, ["START"]),
            ],
        ),
        ({"has_removed": True}, [("recommended", None, FIRST)]),
        (
            {"has_alone": True},
            [
                ("recommended", None, [*FIRST, "COMPARE", "PERSON", "CHECKPOINT"]),
                ("if", "there is no other replica", [*MENDS, "NOTHING"]),
            ],
        ),
        ({"contradicted": True}, [("recommended", None, [*FIRST, "STOP_WRITERS", "PREFER"])]),
        ({}, [("recommended", None, [*FIRST, "PERSON", "CHECKPOINT", "BESIDE", *MENDS, "READABLE"])]),
    ],
)
def test_the_first_row_that_applies_decides(
    facts: dict[str, Any], options: list[tuple[str, str | None, list[str]]]
) -> None:
    assert told(**facts) == options


def test_every_row_has_exactly_one_recommended_option_and_it_stands_first() -> None:
    for row in TABLE:
        assert [one.rank for one in row.options].count(Rank.RECOMMENDED) == 1
        ranks = [one.rank for one in row.options]
        assert ranks == sorted(ranks, key=list(Rank).index)


def test_a_small_file_that_stops_the_start_is_mended_before_the_rest_of_its_block() -> None:
    first, *others = told(fails_by_file=True, **LOST)
    assert first == ("recommended", None, [*FIRST, "MEND", "COMPARE", "CHECKPOINT"])
    assert len(others) == 3


_CUTS = "discards 4 records that can be read today"


def test_a_start_that_does_harm_is_held_back_first_and_is_the_last_of_the_last_resorts() -> None:
    state = PartitionState("p", moves(), harm=Harm(discarded=4), keeps=Amount(9, 9), harm_loses=Amount(4, 4), **LOST)
    steps = list(steps_for([state]))
    assert (steps[0].rank, steps[0].why) == (Rank.RECOMMENDED, f"do not start the broker: it {_CUTS}")
    assert steps[-1].rank is Rank.LAST_RESORT
    assert steps[-1].why == f"start the broker all the same: it {_CUTS}"
    assert (steps[-1].keeps, steps[-1].loses) == (Amount(5, 5), Amount(4, 4))


def test_a_broker_starts_when_all_else_is_done_whatever_the_order_of_partitions() -> None:
    start = Move(StepKind.START, words=(("after", ""), ("what", Sum(5, 7, 1))), keeps=Amount(3, 3), loses=NONE)
    steps = list(
        steps_for(
            [
                PartitionState("a", (start,), starts_well=True),
                PartitionState("b", moves(), harm=Harm(discarded=4), **LOST),
            ]
        )
    )
    assert [one.partitions for one in steps][-1] == ("a",)
    assert steps[-1].why.startswith("start the broker when all that is recommended above is done: ")


def test_where_a_start_does_harm_nobody_is_told_that_there_is_nothing_to_do() -> None:
    only = {"has_losses": True, "others": False, "harm": Harm(again=("offset 3",)), "harm_loses": NONE}
    some = tuple(one for one in moves() if one.kind is StepKind.NOTHING)
    *told, last = steps_for([PartitionState("p", some, **only)])  # type: ignore[arg-type]
    wanted = "nothing to do but to look for what is lost, in backups and on other volumes; "
    assert [one.why.startswith(wanted) for one in told].count(True) == 1
    assert last.rank is Rank.LAST_RESORT


def test_partitions_alike_are_one_block_and_their_amounts_add_up() -> None:
    starts = [
        PartitionState(
            path,
            (
                Move(
                    StepKind.START,
                    words=(("after", ""), ("what", Sum(5, 7, 1))),
                    keeps=Amount(3, 3),
                    loses=NONE,
                    size=7,
                ),
            ),
            starts_well=True,
        )
        for path in ("a", "b", "c")
    ]
    (step,) = steps_for(starts)
    assert step.partitions == ("a", "b", "c")
    assert (step.keeps, step.loses, step.size) == (Amount(9, 9), NONE, 21)
    assert step.why == (
        "start the broker: it cuts 15 B that were never whole and builds the indexes of 3 segments again, and loses "
        "nothing that is intact; it reads 21 B of logs"
    )
    assert (UNKNOWN + NONE, NONE + NONE) == (UNKNOWN, NONE)


def check_blocks(steps: Iterable[Step]) -> list[list[list[Step]]]:
    """What holds for the steps of every run."""
    found = list(blocks_of(steps))
    paths = [path for block in found for path in block[0][0].partitions]
    assert len(paths) == len(set(paths)), "a directory stands in one block only"
    for block in found:
        assert [some[0].rank for some in block].count(Rank.RECOMMENDED) == 1
        for number, some in enumerate(block, 1):
            assert [(one.option, one.n) for one in some] == [(number, n) for n in range(1, len(some) + 1)]
            assert len({(one.rank, one.condition, one.partitions) for one in some}) == 1
            assert (some[0].condition is not None) is (some[0].rank is Rank.IF)
            assert not any("--apply" in (one.command or "") for one in some)
    return found


@pytest.mark.parametrize("case", [case.name for case in damage_cases(DAMAGE)][::12])
def test_of_each_damage_one_option_is_recommended(case: str, tmp_path: Path) -> None:
    scene = of_case(tmp_path, DAMAGE, case)
    assert scene is not None
    check_blocks(kdump.verify(scene.brokers[0]).steps)


# --- the start that is coming -------------------------------------------------------------------------------
def torn(root: Path, *, clean: bool) -> Path:
    logs = copy_tree(NONE_0, root / "logs")
    log = logs / "plain-0" / LAST
    log.write_bytes(log.read_bytes()[:-60])
    if not clean:
        (logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return logs


def test_a_torn_tail_after_a_power_loss_is_cut_by_the_start(tmp_path: Path) -> None:
    (step,) = kdump.verify(torn(tmp_path, clean=False)).steps
    assert step.why.startswith("start the broker, after another replica of plain-0 leads, where there is one (the high")
    assert "it cuts 105 B that were never whole" in step.why
    assert (step.rank, step.command, step.loses, step.keeps.records) == (Rank.RECOMMENDED, None, NONE, 295)
    assert step.size == (tmp_path / "logs" / "plain-0" / LAST).stat().st_size


def test_while_a_broker_runs_nobody_is_told_to_start_it(tmp_path: Path) -> None:
    logs = torn(tmp_path, clean=False)
    (logs / "plain-0" / name(0, "index")).unlink()
    with held(logs):
        assert not any(one.why.startswith("start the broker") for one in acts(kdump.verify(logs).steps))


def test_after_a_clean_shutdown_the_start_keeps_the_torn_batch_and_is_no_option(tmp_path: Path) -> None:
    (block,) = check_blocks(kdump.verify(torn(tmp_path, clean=True)).steps)
    assert block[0][0].why == "do not start the broker: it reuses offsets 295..296 for new records"
    assert (block[0][1].command or "").startswith("kdump verify --replicas ")
    assert block[-1][0].why.startswith("start the broker all the same: ")


def test_zeros_behind_the_last_batch_are_cut_too(tmp_path: Path) -> None:
    logs = copy_tree(NONE_0, tmp_path / "logs")
    log = logs / "plain-0" / LAST
    log.write_bytes(log.read_bytes() + bytes(4096))
    (logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (step,) = kdump.verify(logs).steps
    assert step.why.startswith("start the broker: it cuts 4.1 kB that were never whole")


def test_a_flipped_byte_in_the_last_batch_is_no_torn_tail(tmp_path: Path) -> None:
    logs = copy_tree(NONE_0, tmp_path / "logs")
    log = logs / "plain-0" / LAST
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    (logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (block,) = check_blocks(kdump.verify(logs).steps)
    assert block[0][0].why.startswith("do not start the broker: ")


# --- how many replicas there are ----------------------------------------------------------------------------
CLUSTER = FIXTURES / "kafka-4.3.1" / "clean"


@pytest.mark.parametrize(("topic", "others"), [("plain-0", True)])
def test_the_metadata_log_tells_whether_there_are_other_replicas(topic: str, others: bool, tmp_path: Path) -> None:
    logs = copy_tree(CLUSTER / "node1", tmp_path / "node1")
    log = next(iter(sorted((logs / topic).glob("*.log"))))
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    blocks = check_blocks(kdump.verify(logs).steps)
    block = next(one for one in blocks if one[0][0].partitions == (str(logs / topic),))
    (condition,) = {some[0].condition for some in block if some[0].rank is Rank.IF} or {None}
    assert condition == ("no other replica is sound" if others else None)
    assert any(one.why.startswith("restore ") for one in block[0]) is others


# --- small files, and what lies in no partition -------------------------------------------------------------
def test_topic_ids_that_are_empty_in_many_partitions_are_one_option(tmp_path: Path) -> None:
    files = {"meta.properties": meta(1), "recovery-point-offset-checkpoint": checkpoint()}
    for number in range(5):
        parts = {**segment(0, [batch(0, [b"v"])]), "partition.metadata": b""}
        files |= below(f"orders-{number}", parts)
    (block,) = check_blocks(kdump.verify(write(tmp_path / "logs", files)).steps)
    ((step,),) = block
    assert step.partitions == tuple(str(tmp_path / "logs" / f"orders-{number}") for number in range(5))
    assert "K05 partition-metadata" in step.why
    assert " and 2 more: " in step.why


def test_a_damaged_file_of_the_log_directory_is_a_block_of_the_whole_run(tmp_path: Path) -> None:
    logs = copy_tree(NONE_0, tmp_path / "logs")
    (logs / "recovery-point-offset-checkpoint").write_bytes(b"\0" * 40)
    (block,) = check_blocks(kdump.verify(logs).steps)
    assert block[0][0].partitions == ()
    assert "K03 checkpoint" in block[0][0].why


# --- replicas -----------------------------------------------------------------------------------------------
def test_replicas_that_contradict_each_other_are_one_block_that_asks_which_one_counts(tmp_path: Path) -> None:
    for root, value in (("a", b"x"), ("b", b"y")):
        write(tmp_path / root / "t-0", segment(0, [batch(0, [b"v"]), batch(1, [value])]))
    run = run_kdump(["verify", "--replicas", "a/t-0", "b/t-0", "--format", "json"], tmp_path)
    steps = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "step"]
    assert [one["partitions"] for one in steps] == [["a/t-0", "b/t-0"]] * 2
    assert steps[0]["why"].startswith("stop those who write to t-0")
    assert steps[1]["command"] == "kdump salvage a/t-0 b/t-0 --prefer SOURCE --to DIR"


# --- who follows them ---------------------------------------------------------------------------------------
FOLLOWED = ["l11-cut-at-boundary-last", *[case.name for case in damage_cases(DAMAGE)][5::40]]


@pytest.mark.parametrize("case", FOLLOWED)
def test_who_follows_the_steps_of_a_damage_loses_nothing_unknown(case: str, tmp_path: Path) -> None:
    scene = of_case(tmp_path, DAMAGE, case)
    assert scene is not None
    assert followed(scene, case).faults == []


@pytest.mark.parametrize("seed", range(6))
def test_who_follows_the_steps_of_random_damage_loses_nothing_unknown(seed: int, tmp_path: Path) -> None:
    scene = at_random(tmp_path, seed)
    outcome = followed(scene, str(seed))
    assert outcome.faults == []
    shutil.rmtree(tmp_path / "scene")
