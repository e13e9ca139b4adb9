"""What find-offset and find-time say where the end of a log is gone, and what to do: as verify does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from tests.support.runs import FIXTURES, copy_tree, run_kdump

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
LAST = f"plain-0/{240:020}"
AFTER = "1700000135777"  # the time of a record that was cut off; the offsets behind 281 are
LACKS = "the log lacks offsets 282..296"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A log directory with an intact partition of three segments, plain-0."""
    return copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logdir")


def ask(tree: Path, *args: str) -> tuple[int, str, dict[str, dict[str, Any]]]:
    """Ask: exit status, the error of the answer, and the findings by code."""
    run = run_kdump([*args, "--format", "json"], tree)
    objects = [json.loads(line) for line in run.stdout.splitlines()]
    found = {one["code"]: one for one in objects if one["type"] == "finding"}
    return run.exit, objects[-1]["error"] or "", found


def judged(tree: Path) -> dict[str, dict[str, Any]]:
    """What verify finds, the first of each code."""
    objects = map(json.loads, run_kdump(["verify", "plain-0", "--format", "json"], tree).stdout.splitlines())
    found: dict[str, dict[str, Any]] = {}
    for one in objects:
        if one["type"] == "finding":
            found.setdefault(one["code"], one)
    return found


def position_of(log: Path, base: int) -> int:
    return next(one.position for one in kdump.Log(log).batches() if one.base_offset == base)


def poke(file: Path, position: int, data: bytes) -> None:
    stored = bytearray(file.read_bytes())
    stored[position : position + len(data)] = data
    file.write_bytes(stored)


def cut_log(tree: Path) -> None:
    log = tree / f"{LAST}.log"
    log.write_bytes(log.read_bytes()[: position_of(log, 282)])


def cut_segment(tree: Path) -> None:
    """The indexes are as short as the log, as in an older copy: the snapshot and the checkpoints are not."""
    cut_log(tree)
    for suffix, size in ((".index", 32), (".timeindex", 48)):
        file = (tree / LAST).with_suffix(suffix)
        file.write_bytes(file.read_bytes()[:size])


def remove_log(tree: Path) -> None:
    (tree / f"{LAST}.log").unlink()


# --- the end of a log that is gone ------------------------------------------------------------------------------
@pytest.mark.parametrize("scan", [[], ["--scan"]], ids=["broker", "scan"])
@pytest.mark.parametrize(
    ("damage", "code", "lacks"),
    [(cut_log, "O07", LACKS), (cut_segment, "O07", LACKS), (remove_log, "F08", "the log lacks offsets 240..296")],
)
def test_a_time_that_may_be_in_what_is_gone_is_not_said_to_be_nowhere(
    damage: Callable[[Path], None], code: str, lacks: str, scan: list[str], plain: Path
) -> None:
    damage(plain)
    status, error, found = ask(plain, "find-time", "plain-0", AFTER, *scan)
    assert (status, code in found) == (3, True)
    assert error.startswith(f"no record here is at or after {AFTER}; {lacks}, whose records may be; the newest time ")
    status, error, found = ask(plain, "find-offset", "plain-0", "290", *scan)
    assert (status, code in found, error.endswith(f"; {lacks}")) == (3, True, True)


def test_a_checkpoint_alone_is_no_error(plain: Path) -> None:
    """It is above the end after a truncation too."""
    cut_segment(plain)
    (plain / "plain-0" / f"{297:020}.snapshot").unlink()
    status, error, found = ask(plain, "find-time", "plain-0", AFTER)
    assert (status, found["O07"]["severity"], f"; {LACKS}, whose records may be" in error) == (10, "warning", True)


@pytest.mark.parametrize("asked", [("find-offset", "latest"), ("find-time", "max")])
def test_an_answer_about_the_end_is_told_with_what_is_gone(asked: tuple[str, str], plain: Path) -> None:
    cut_segment(plain)
    status, _, found = ask(plain, asked[0], "plain-0", asked[1])
    assert (status, found["O07"]["offset"], found["O07"]["lastOffset"]) == (3, 282, 296)


def test_an_answer_before_the_end_that_is_gone_needs_no_word_of_it(plain: Path) -> None:
    cut_segment(plain)
    assert ask(plain, "find-offset", "plain-0", "281") == (0, "", {})


def test_a_lost_log_is_told_once(plain: Path) -> None:
    remove_log(plain)
    assert set(ask(plain, "find-time", "plain-0", AFTER)[2]) == {"F08"}


def test_of_a_log_alone_its_own_index_is_the_witness(plain: Path) -> None:
    cut_log(plain)
    _, error, found = ask(plain, "find-time", f"{LAST}.log", AFTER)
    assert (found["O07"]["lastOffset"], "the log lacks offsets 282..294, whose" in error) == (294, True)
    assert ask(plain, "find-time", f"plain-0/{119:020}.log", AFTER)[0] == 10


# --- the codes of verify, and what it does about them -----------------------------------------------------------
@pytest.mark.parametrize("asked", [("find-offset", "280"), ("find-time", AFTER)])
def test_an_index_behind_the_end_of_its_log_is_no_wrong_position(asked: tuple[str, str], plain: Path) -> None:
    cut_log(plain)
    _, _, found = ask(plain, asked[0], "plain-0", asked[1])
    assert "X04" not in found
    assert f"the log ends before offset {judged(plain)['F14']['found']}:" in found["X07"]["message"]
    assert found["X07"]["remedy"].startswith("restore the replica before anything is rebuilt")
    if "L13" in found:
        assert found["L13"]["remedy"].startswith("restore the replica, as the end of its log is cut off")
        assert "rebuild" not in found["L13"]["remedy"]


def test_an_index_of_zeros_in_the_place_of_batches_waits_for_its_log(plain: Path) -> None:
    log = plain / f"{LAST}.log"
    start = position_of(log, 282)
    poke(log, start, bytes(log.stat().st_size - start))
    _, _, found = ask(plain, "find-time", "plain-0", AFTER, "--scan")
    assert set(found) >= {"L03", "X07"}
    assert found["X07"]["remedy"] == judged(plain)["X07"]["remedy"]


def test_a_wrong_index_beside_a_damaged_log_waits_for_it(plain: Path) -> None:
    poke(plain / f"{LAST}.log", 1260, b"X")
    poke(plain / f"{LAST}.index", 14, b"\0\1")
    _, _, found = ask(plain, "find-offset", "plain-0", "262")
    assert found["X04"]["remedy"] == judged(plain)["X03"]["remedy"]
    assert found["X04"]["remedy"] == "rebuild the index, after its log (B01): a restore, salvage or truncate does both"
    said = "mend the damaged log before its index (kdump verify has the steps); a consumer gets the broker's answer; "
    assert found["L13"]["remedy"].startswith(said)


def test_where_a_broker_fails_both_lines_say_so(plain: Path) -> None:
    log = plain / f"{LAST}.log"
    start = position_of(log, 282)
    poke(log, start, bytes(log.stat().st_size - start))
    _, error, found = ask(plain, "find-offset", "plain-0", "latest")
    assert error.startswith("a broker fails here: ")
    assert found["L13"]["message"] == "asked for latest, a broker fails; the data has offset 282"


# --- headers that can be put right --------------------------------------------------------------------------------
@pytest.fixture
def misplaced(tmp_path: Path) -> Path:
    """The batch 262..265 of txn-0 has base offset 774; the entry 265 of its index points to it."""
    tree = copy_tree(NODE, tmp_path / "node1")
    poke(tree / "txn-0" / f"{0:020}.log", 20950, b"\3")
    return tree


@pytest.mark.parametrize("offset", ["264", "266", "290"])
def test_no_index_is_blamed_for_a_wrong_base_offset(offset: str, misplaced: Path) -> None:
    _, _, found = ask(misplaced, "find-offset", "txn-0", offset)
    assert set(found) == {"O03", "L13"}
    assert found["L13"]["remedy"].startswith("restore the header that is wrong (kdump verify names the command); ")
    assert b"patch-header" in run_kdump(["verify", "txn-0"], misplaced).stdout


def test_an_entry_past_its_batch_is_blamed_beside_a_wrong_base_offset(misplaced: Path) -> None:
    poke(misplaced / "txn-0" / f"{0:020}.index", 4 * 8 + 3, b"\5")  # 265 became 261, below the batch 262..265
    _, _, found = ask(misplaced, "find-offset", "txn-0", "264")
    assert "begins with offset 262" in found["X05"]["message"]
    assert found["X05"]["remedy"] == "rebuild the index, after patch-header has mended its log"


def test_the_end_that_a_broker_takes_is_not_that_of_the_data(plain: Path) -> None:
    """A length that is too large ends the log for a broker without offset index."""
    log = plain / f"{LAST}.log"
    (plain / f"{LAST}.index").unlink()
    poke(log, position_of(log, 250) + 9, b"\0\1")
    _, error, found = ask(plain, "find-offset", "plain-0", "260")
    assert error == "offset 260 is past the end: a broker takes the log to end at 254, and the data ends at 297"
    assert {"L07", "L13"} <= set(found)
    assert ask(plain, "find-offset", "plain-0", "254")[1] == (
        "offset 254 is the end of the log for a broker, and the data ends at 297"
    )
    assert ask(plain, "find-offset", "plain-0", "300", "--scan")[1] == "offset 300 is past the end: the log ends at 297"
