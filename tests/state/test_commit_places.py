"""Where committed offsets stand in their logs, and commits that were removed."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.commit_place import CommitLog
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from tests.support.coordinator_records import at, classic, commit, ended, text
from tests.support.field_cases import TIME, log_dir, one_by_one
from tests.support.partitions import checkpoint, name, segment, snapshot, write
from tests.support.runs import run_kdump
from tests.support.segments import Record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.partitions import Files

ONE = (7, 0)
DAY = 86_400_000


def topic(
    *batches: bytes,
    epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    end: int,
    state: tuple[int, int, int, int, int, int, int, int] | None = None,
) -> Files:
    files = segment(0, list(batches), interval=1) | {"leader-epoch-checkpoint": checkpoint(*epochs)}
    return files | {name(end, "snapshot"): snapshot(*([] if state is None else [state]))}


def offset_commit(topic_name: str, offset: int, epoch: int = -1) -> Record:
    key = struct.pack(">h", 1) + text("g") + text(topic_name) + struct.pack(">i", 0)
    return Record(struct.pack(">hqi", 3, offset, epoch) + text("") + struct.pack(">q", TIME), key)


def member_of(*topics: str) -> Record:
    """A stable classic group with one member that subscribes to some topics."""
    subscription = struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + struct.pack(">i", -1)
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">i", 1) + text("range") + text("m0")
    value += struct.pack(">i", 1) + text("m0") + text("client") + text("/host") + struct.pack(">i", 1)
    value += struct.pack(">i", len(subscription)) + subscription + struct.pack(">i", 0)
    return Record(value, struct.pack(">h", 2) + text("g"))


def rows(root: Path, *args: str) -> dict[str, dict[str, Any]]:
    run = run_kdump(["groups", "logdir", "--format", "json", *args], root)
    found = map(json.loads, run.stdout.splitlines())
    return {row["topic"]: row for row in found if row["type"] == "commit"}


def coordinator(*records: Record) -> Files:
    parts = [at(n, TIME + n, one) for n, one in enumerate(records)]
    return topic(*parts, end=len(records))


TWO_EPOCHS = topic(*one_by_one(0, 10), *one_by_one(10, 20, epoch=1), epochs=((0, 0), (1, 10)), end=20)
LEFT_OUT = topic(*one_by_one(0, 4), *one_by_one(4, 6, epoch=3), epochs=((1, 0), (3, 4)), end=6)
RECORD = Record(b"v", b"k")
OPEN = topic(
    *one_by_one(0, 2), at(2, TIME, RECORD, producer=ONE), *one_by_one(3, 5), end=5, state=(7, 0, 0, 2, 0, TIME, -1, 2)
)
WHOLE = topic(at(0, TIME, *[RECORD] * 10, producer=ONE), ended(10, TIME, ONE, commit=True), end=11)
ABORTED = topic(at(0, TIME, RECORD, producer=ONE), ended(1, TIME, ONE, commit=False), end=2)
CASES: dict[str, tuple[Files, int, int, str, int | None]] = {  # log, offset and leader epoch; place and cutFrom
    "read-whole": (WHOLE, 10, -1, "markersOnly", None),
    "read-half": (WHOLE, 5, -1, "sound", None),
    "aborted-left": (ABORTED, 0, -1, "sound", None),
    "again": (topic(*one_by_one(0, 3), end=3), 500, -1, "aboveEnd", None),
    "again-same-epoch": (topic(*one_by_one(0, 3), end=3), 4, 0, "aboveEnd", None),
    "cut": (TWO_EPOCHS, 15, 0, "cut", 10),
    "cut-off": (LEFT_OUT, 9, 2, "cut", 4),
    "same-epoch": (TWO_EPOCHS, 10, 0, "sound", None),
    "waits": (OPEN, 3, -1, "waits", None),
    "before-it": (OPEN, 1, -1, "sound", None),
}


def test_each_commit_has_its_place(tmp_path: Path) -> None:
    commits = coordinator(*(offset_commit(topic_name, *case[1:3]) for topic_name, case in CASES.items()))
    parts = {f"{topic_name}-0": case[0] for topic_name, case in CASES.items()}
    write(tmp_path / "logdir", log_dir(parts | {"__consumer_offsets-3": commits}))
    found = rows(tmp_path, "--lag")
    assert {one: (row["place"], row["cutFrom"]) for one, row in found.items()} == {
        topic_name: case[3:] for topic_name, case in CASES.items()
    }
    assert {row["place"] for row in rows(tmp_path).values()} == {None}  # nobody asked


def test_epochs_that_lie_below_the_log_start_end_there_as_a_broker_has_them(tmp_path: Path) -> None:
    """A broker that loads the log lets the epoch of the log start begin there, and forgets those before."""
    logs = [*one_by_one(0, 4), *one_by_one(4, 8, epoch=1), *one_by_one(8, 12, epoch=2)]
    parts = {"t-0": topic(*logs, epochs=((0, 0), (1, 4), (2, 8)), end=12)}
    cases = {(9, 0): ("cut", 6), (5, 0): ("belowStart", None), (10, 1): ("cut", 8), (8, 1): ("sound", None)}
    for (offset, epoch), expected in cases.items():
        commits = coordinator(offset_commit("t", offset, epoch))
        write(tmp_path / "logdir", log_dir(parts | {"__consumer_offsets-3": commits}, start=("t", 0, 6)))
        (row,) = rows(tmp_path, "--lag").values()
        assert (row["place"], row["cutFrom"]) == expected, offset


def test_below_the_log_start_or_without_a_log(tmp_path: Path) -> None:
    commits = coordinator(offset_commit("purged", 5), offset_commit("gone", 9))
    parts = {"purged-0": topic(*one_by_one(0, 20), end=20), "__consumer_offsets-3": commits}
    write(tmp_path / "logdir", log_dir(parts, start=("purged", 0, 20)))
    found = rows(tmp_path, "--lag")
    assert {one: row["place"] for one, row in found.items()} == {"purged": "belowStart", "gone": None}
    said = run_kdump(["groups", "logdir", "--lag", "--format", "text"], tmp_path).stdout.decode()
    assert "below the log start 20" in " ".join(said.split())


@pytest.mark.parametrize(
    ("topics", "place"), [(("other",), "unsubscribed"), (("other", "orders"), "sound"), ((), "unsubscribed")]
)
def test_a_topic_that_no_member_reads_is_unsubscribed(topics: tuple[str, ...], place: str, tmp_path: Path) -> None:
    commits = coordinator(offset_commit("orders", 1), member_of(*topics))
    parts = {"orders-0": topic(*one_by_one(0, 3), end=3), "__consumer_offsets-3": commits}
    write(tmp_path / "logdir", log_dir(parts))
    assert rows(tmp_path, "--lag")["orders"]["place"] == place


def test_a_group_without_members_is_not_called_unsubscribed(tmp_path: Path) -> None:
    commits = coordinator(offset_commit("orders", 1), classic("g", 3))
    write(tmp_path / "logdir", log_dir({"orders-0": topic(*one_by_one(0, 3), end=3), "__consumer_offsets-3": commits}))
    assert rows(tmp_path, "--lag")["orders"]["place"] == "sound"


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_removed_commit_is_shown_where_its_group_is_asked_for(comes_back: bool, tmp_path: Path) -> None:
    parts = [
        at(0, TIME, commit("g", 0, 182_441), commit("h", 0, 3)),
        at(2, TIME + 7 * DAY, commit("g", 0, None)),
        *([at(3, TIME + 9 * DAY, commit("g", 0, 4))] if comes_back else []),
    ]
    write(tmp_path / "logdir", log_dir({"__consumer_offsets-3": topic(*parts, end=3 + comes_back)}))
    run = run_kdump(["groups", "logdir", "--format", "json", "--group", "g"], tmp_path)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    told = [(row["offset"], row["removed"]) for row in found if row["type"] == "commit"]
    removed = (182_441, {"offset": 2, "timestamp": TIME + 7 * DAY})
    assert told == [*([(4, None)] if comes_back else []), removed]
    assert all(row["group"] == "h" for row in rows(tmp_path).values() if row["removed"] is None) or comes_back
    reset = run_kdump(["groups", "logdir", "--group", "g", "--reset-csv"], tmp_path).stdout
    assert b"182441" not in reset


def test_a_difference_shows_a_removal_in_between(tmp_path: Path) -> None:
    parts = [
        at(0, TIME, commit("g", 0, 9)),
        at(1, TIME + DAY, commit("g", 0, None)),
        at(2, TIME + 2 * DAY, commit("g", 0, 4)),
    ]
    write(tmp_path / "logdir", log_dir({"__consumer_offsets-3": topic(*parts, end=3)}))
    run = run_kdump(["groups", "logdir", "--format", "json", "--diff", str(TIME + 1), "end"], tmp_path)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    told = [
        (row["before"], row["after"], row["offset"])
        for row in found
        if row["type"] == "change" and row["field"] == "offset"
    ]
    assert told == [(9, None, 1), (None, 4, 2)]


def test_a_place_says_why_in_words() -> None:
    log = CommitLog(0, 20, [EpochEntry(0, 0), EpochEntry(2, 10)], None, lambda _offset: True)
    assert log.place(15, 0).why.startswith("leader epoch 0 ended at 10 here")
    assert log.place(15, 1).cut_from == 10  # as the epoch below it
    assert log.place(15, 2) == ("sound", None, "")
    assert log.place(30, 2).name == "aboveEnd"
