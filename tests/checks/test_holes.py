"""Missing offsets: verify says LOST where something here knows of them, and of no hole that a healthy broker made.

The sample is small; `python -m tests.support.holes` makes as many directories as one has time for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.hole_truth import Known, truth_of
from tests.support.holes import case_of, many
from tests.support.make_fixtures import topic_id
from tests.support.partitions import (
    Files,
    aborted,
    below,
    checkpoint,
    meta,
    name,
    offset_index,
    segment,
    snapshot,
    write,
)
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = [range(at, at + 10) for at in range(0, 120, 10)]


@pytest.mark.parametrize("seeds", SAMPLE, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_verify_tells_of_holes_what_the_rules_say(seeds: range) -> None:
    assert [(one.seed, one.kinds, one.faults) for one in many(seeds) if one.faults] == []


# --- the generator ------------------------------------------------------------------------------------------
def test_a_number_makes_the_same_directory_again() -> None:
    first, again = case_of(7), case_of(7)
    assert (first.files, first.args, first.truths) == (again.files, again.args, again.truths)


def test_no_healthy_directory_is_lost_by_the_rules() -> None:
    truths = [truth for seed in range(0, 200, 2) for truth in case_of(seed).truths.values()]
    assert [truth for truth in truths if truth.is_lost is not False] == []


def test_the_sample_has_each_row_of_the_rules() -> None:
    outcomes = many(range(1, 400, 2), only_made=True)
    decided = {row for one in outcomes for row in one.rows}
    assert decided >= {"0", "1", "1b", "3", "4", "5", "6", "7", "lost", "unexplained"}


# --- the reading of the rules: directories by hand ----------------------------------------------------------
def _batch(first: int, last: int | None = None) -> bytes:
    count = 1 if last is None else last - first + 1
    return batch(first, [b"v" * 20] * count)


BEFORE, CUT, BEHIND, LATER = _batch(0, 4), _batch(5, 9), _batch(10, 14), _batch(15, 19)
SIZE = len(CUT)


def _segments(*parts: bytes, entries: tuple[tuple[int, int], ...] = (), slots: int = 0) -> Files:
    files = segment(0, parts) | segment(40, [_batch(40)])
    files[name(0, "index")] = offset_index(0, *entries) + bytes(8 * slots)
    return files


SHORT = batch(0, [Record(delta=0)], last_delta=4)
ALONE = _segments(BEFORE, BEHIND, LATER, _batch(20, 39))
TWO = _segments(BEFORE, BEHIND, _batch(20, 39))
LAST = segment(0, [BEFORE, BEHIND, LATER]) | {name(0, "index"): offset_index(0, (9, SIZE), (14, 2 * SIZE)) + bytes(16)}
MARKER = {name(0, "txnindex"): aborted(1, 2, 7, 8)}
FIRST = {name(0, "txnindex"): aborted(1, 7, 40, 41)}
T = Known("t")
BY_HAND: dict[str, tuple[Files, Known, list[tuple[int, int, str]]]] = {
    "a lone hole": (ALONE, T, [(5, 9, "6")]),
    "two holes": (TWO, T, [(5, 9, "7"), (15, 19, "7")]),
    "an entry inside": (
        _segments(BEFORE, BEHIND, LATER, _batch(20, 39), entries=((9, SIZE), (14, 2 * SIZE))), T, [(5, 9, "1")]
    ),
    "an entry inside, and one behind that agrees": (
        _segments(BEFORE, BEHIND, LATER, _batch(20, 39), entries=((9, SIZE), (19, 2 * SIZE))), T, [(5, 9, "6")]
    ),
    "entries behind are shifted": (
        _segments(BEFORE, BEHIND, LATER, _batch(20, 39), entries=((14, 2 * SIZE), (19, 3 * SIZE))), T, [(5, 9, "1")]
    ),
    "entries behind are shifted, and two holes may be why": (
        _segments(BEFORE, BEHIND, _batch(20, 39), entries=((39, 3 * SIZE),)), T, [(5, 9, "1b"), (15, 19, "1b")]
    ),
    "the second hole lies behind an entry that agrees": (
        _segments(BEFORE, BEHIND, _batch(20, 39), entries=((14, SIZE), (39, 3 * SIZE))), T, [(5, 9, "6"), (15, 19, "1")]
    ),
    "slots in the index of the last segment": (LAST, T, [(5, 9, "6")]),
    "files of a cleaner beside": (
        _segments(BEFORE, BEHIND, LATER, _batch(20, 39), entries=((9, SIZE),)) | {f"{name(0)}.cleaned": b""},
        T,
        [(5, 9, "6")],
    ),
    "a marker inside": (ALONE | MARKER, T, [(5, 9, "1")]),
    "a first offset inside proves nothing": (ALONE | FIRST, T, [(5, 9, "6")]),
    "below the entry": (TWO, T._replace(entry=15), [(5, 9, "3"), (15, 19, "7")]),
    "an entry above the end": (ALONE, T._replace(entry=50, policy="compact"), [(5, 9, "7")]),
    "below a short batch": (
        segment(0, [BEFORE, BEHIND, batch(15, [b"v"], last_delta=4)]) | segment(25, [_batch(30)]),
        T,
        [(5, 9, "3"), (20, 29, "7")],
    ),
    "above a short batch": (segment(0, [SHORT, BEHIND]), T, [(5, 9, "7")]),
    "a topic of a coordinator": (ALONE, Known("__consumer_offsets"), [(5, 9, "4")]),
    "never compacted": (TWO, T._replace(policy="never"), [(5, 9, "5"), (15, 19, "5")]),
    "deleted from now, alone": (ALONE, T._replace(policy="delete"), [(5, 9, "5")]),
    "deleted from now, two": (TWO, T._replace(policy="delete"), [(5, 9, "7"), (15, 19, "7")]),
    "compacted, alone": (ALONE, T._replace(policy="compact"), [(5, 9, "7")]),
    "below the first segment": (segment(10, [BEHIND]), T._replace(start=5), [(5, 9, "2")]),
    "the end of the segment before an empty one": (segment(0, [BEFORE]) | segment(9, []), T, [(5, 8, "6")]),
    "told by a salvage": (ALONE, T._replace(told=((5, 9),)), [(5, 9, "0")]),
}  # fmt: skip


@pytest.mark.parametrize("what", BY_HAND)
def test_the_first_row_that_applies_decides(what: str) -> None:
    files, known, expected = BY_HAND[what]
    found = truth_of(files, known).holes
    assert [(one.first, one.last, " ".join(sorted(one.rows))) for one in found] == expected


def test_an_index_that_knows_of_later_offsets_shows_a_loss() -> None:
    files = segment(0, [BEFORE]) | {name(0, "index"): offset_index(0, (9, SIZE))}
    assert truth_of(files, T._replace(ends=(20,))).above == [(5, 9, frozenset({"lost"})), (10, 19, frozenset())]


def test_a_snapshot_above_the_end_is_unexplained_where_a_cleaner_was() -> None:
    files = segment(0, [SHORT]) | {name(9, "snapshot"): snapshot(), "leader-epoch-checkpoint": checkpoint((0, 0))}
    assert truth_of(files, T).above == [(5, 8, frozenset({"unexplained"}))]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "users"])
@pytest.mark.parametrize("entries", [(), (2,)], ids=["a follower", "its cleaner has passed"])
def test_a_compacted_log_without_its_first_offset_has_lost_nothing(
    topic: str, entries: tuple[int, ...], tmp_path: Path
) -> None:
    """The first record was superseded, and the second stands in the first segment: the log begins with a hole."""
    logs = segment(0, [batch(1, [Record(key=b"a", value=b"1")])]) | segment(
        2, [batch(2, [Record(key=b"b", value=b"2")])]
    )
    data = below(
        f"data/{topic}-3",
        logs | topic_id("C") | {"leader-epoch-checkpoint": checkpoint((0, 0)), name(3, "snapshot"): snapshot()},
    )
    cleaned = checkpoint(*((topic, 3, entry) for entry in entries))
    write(tmp_path, data | {"data/meta.properties": meta(1), "data/cleaner-offset-checkpoint": cleaned})
    args = ["--set", "cleanup.policy=compact"] if topic == "users" else []
    run = run_kdump(["verify", "data", "--format", "json", *args], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row for row in rows if row["type"] == "loss" and row["certainty"] != "unexplained"] == []
    assert [row for row in rows if row["type"] == "step"] == []
    assert [row for row in rows if row.get("severity") in ("error", "warning")] == []
    rescue = run_kdump(["salvage", "data", "--to", "out", *args], tmp_path)
    assert rescue.exit == 0
    assert b"nothing is lost" in rescue.stdout
    assert b"stop every broker" not in rescue.stdout
