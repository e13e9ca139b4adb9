"""Which transactions are open, what they block, and which of them hang."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.coordinator_records import at, commit, ended, transaction
from tests.support.partitions import name as file_name
from tests.support.partitions import snapshot, write
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.segments import Record

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
STATE = "__transaction_state-0"
T = 1_700_000_000_000
ME, OTHER = (7, 2), (8, 0)  # producer id and epoch
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"


def log_dir(root: Path, coordinator: list[bytes] | None = None, **logs: list[bytes]) -> Path:
    """A log directory with these batches in t-0 (or what is named) and of the coordinator."""
    files = {f"{name.replace('__dash__', '-')}/{file_name(0)}": b"".join(data) for name, data in logs.items()}
    if coordinator is not None:
        files[f"{STATE}/{file_name(0)}"] = b"".join(coordinator)
    return write(root, files)


def transactions(path: Path, *args: str, exit_status: int = 0) -> list[Json]:
    """The rows of `kdump transactions`."""
    run = run_kdump(["transactions", str(path), "--format", "json", *args], path)
    assert run.exit == exit_status, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def opened(path: Path, *args: str) -> Json:
    """The only open transaction."""
    (row,) = [row for row in transactions(path, *args) if row["type"] == "open"]
    return row


DATA = [
    at(0, T, Record()),
    at(1, T + 1000, Record(), Record(), producer=ME),
    ended(3, T + 2000, ME, commit=False),
    at(4, T + 3000, Record(), Record(), producer=ME),
    at(6, T + 3500, Record(), producer=OTHER),
    ended(7, T + 3600, OTHER, commit=True),
    at(8, T + 4000, Record(), Record(), Record()),
]


# --- what is open ---------------------------------------------------------------------------------------------
def test_an_open_transaction_says_where_it_begins_and_what_it_blocks(tmp_path: Path) -> None:
    coordinator = [at(0, T + 2500, transaction("me", 7, "Ongoing", {"t": [0, 3]}, epoch=2, started=T + 2400))]
    row = opened(log_dir(tmp_path, coordinator, t__dash__0=DATA))
    assert row.pop("why").startswith("transactional id me (producer 7, epoch 2) is in Ongoing with this partition")
    tool = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic t --partition 0"
    assert row == {
        "type": "open",
        "topic": "t",
        "partition": 0,
        "producerId": 7,
        "producerEpoch": 2,
        "transactionalId": "me",
        "firstOffset": 4,
        "logEndOffset": 11,
        "blockedRecords": 6,
        "blockedBytes": sum(map(len, DATA[3:])),
        "sinceTimestamp": T + 3000,
        "coordinatorState": "Ongoing",
        "coordinatorEpoch": 3,
        "hanging": False,
        "abortCommand": f"{tool} --start-offset 4",
        "abortCommandBefore30": f"{tool} --producer-id 7 --producer-epoch 2 --coordinator-epoch 3",
    }


def test_at_a_time_only_what_was_there_counts(tmp_path: Path) -> None:
    path = log_dir(tmp_path, None, t__dash__0=DATA)
    row = opened(path, "--at", str(T + 1999))
    assert (row["firstOffset"], row["logEndOffset"], row["blockedRecords"]) == (1, 3, 2)
    rows = transactions(path, "--at", str(T + 2999), exit_status=5)
    assert [one for one in rows if one["type"] == "open"] == []


def test_commits_in_open_transactions_block_the_offsets_topic_too(tmp_path: Path) -> None:
    data = [at(0, T, commit("g", 0, 1), producer=ME)]
    row = opened(log_dir(tmp_path, None, __consumer_offsets__dash__0=data))
    assert (row["topic"], row["firstOffset"], row["coordinatorEpoch"]) == ("__consumer_offsets", 0, None)
    assert row["abortCommandBefore30"].endswith("--coordinator-epoch 0"), "as Kafka's tool takes a missing one"


def test_a_producer_snapshot_spares_reading_what_is_before_it(tmp_path: Path) -> None:
    """The same answer from the segment after it, though the transaction began before."""
    path = log_dir(tmp_path, None, t__dash__0=DATA[:5])
    entries = [(7, 2, 1, 5, 1, T + 3000, 3, 4), (8, 0, 0, 6, 0, T + 3500, -1, 6)]
    write(path, {"t-0/00000000000000000007.snapshot": snapshot(*entries)})
    write(path, {f"t-0/{file_name(7)}": b"".join(DATA[5:])})
    row = opened(path)
    keys = ("firstOffset", "blockedRecords", "blockedBytes", "coordinatorEpoch", "sinceTimestamp")
    assert [row[key] for key in keys] == [4, 6, sum(map(len, DATA[3:])), 3, T + 3000]


def test_a_topic_with_a_name_for_the_shell_is_quoted(tmp_path: Path) -> None:
    row = opened(log_dir(tmp_path, None, **{"a b__dash__0": [at(0, T, Record(), producer=ME)]}))
    assert "--topic 'a b' --partition 0" in row["abortCommand"]


# --- what hangs -----------------------------------------------------------------------------------------------
LISTED = {"u": [1], "t": [1, 0]}
HANGING = {
    "nobody has the producer": [],
    "another producer alone": [transaction("me", 9, "Ongoing", LISTED)],
    "its transaction is ended": [transaction("me", 7, "CompleteAbort", None, epoch=2)],
    "its transaction is empty": [transaction("me", 7, "Empty", None, epoch=3)],
    "the partition is not listed": [transaction("me", 7, "Ongoing", {"t": [1], "u": [0]}, epoch=2)],
    "the marker would be fenced": [transaction("me", 7, "Ongoing", LISTED, epoch=1)],
    "the id was deleted": [
        transaction("me", 7, "Ongoing", LISTED, epoch=2),
        Record(None, transaction("me", 7, "Empty").key),
    ],
}
ORDINARY = {
    "ongoing": [transaction("me", 7, "Ongoing", LISTED, epoch=2)],
    "long after its timeout": [transaction("me", 7, "Ongoing", LISTED, epoch=2, timeout=1, started=T - 10**9)],
    "fenced: a marker with a higher epoch will come": [transaction("me", 7, "PrepareAbort", LISTED, epoch=3)],
    "about to be committed": [transaction("me", 7, "PrepareCommit", LISTED, epoch=2)],
}


def coordinator(records: list[Record]) -> list[bytes]:
    """The log of a coordinator, with another transaction in it."""
    return [at(0, T, transaction("other", 1, "Empty")), *(at(n, T, one) for n, one in enumerate(records, 1))]


@pytest.mark.parametrize("case", HANGING)
def test_without_a_coordinator_that_will_write_the_marker_a_transaction_hangs(case: str, tmp_path: Path) -> None:
    path = log_dir(tmp_path, coordinator(HANGING[case]), t__dash__0=DATA)
    rows = transactions(path)
    (finding,) = [row for row in rows if row["type"] == "finding"]
    assert opened(path)["hanging"] is True
    assert (finding["code"], finding["severity"], finding["offset"]) == ("P05", "warning", 4)
    assert (finding["position"], finding["length"]) == (sum(map(len, DATA[:3])), len(DATA[3]))
    assert opened(path)["why"] in finding["message"]
    assert [row["firstOffset"] for row in transactions(path, "--hanging", exit_status=3) if row["type"] == "open"] == [
        4
    ]
    transactions(path, "--hanging", "--fail-on", "never")
    assert transactions(path, "--fail-on", "warning", exit_status=4)[-1]["warnings"] == 1


@pytest.mark.parametrize("case", ORDINARY)
def test_where_a_marker_will_come_nothing_hangs_whatever_the_clock_says(case: str, tmp_path: Path) -> None:
    path = log_dir(tmp_path, coordinator(ORDINARY[case]), t__dash__0=DATA)
    row = opened(path)
    assert row["hanging"] is False
    assert ("its timeout of 1 ms passed" in row["why"]) == (case == "long after its timeout")
    assert [one["type"] for one in transactions(path, "--hanging")] == ["horizon", "summary"]
    transactions(path, "--fail-on", "warning")


def test_without_the_log_of_the_coordinator_nobody_can_tell(tmp_path: Path) -> None:
    row = opened(log_dir(tmp_path, None, t__dash__0=DATA))
    assert (row["hanging"], row["transactionalId"], row["coordinatorState"]) == (None, None, None)
    assert "no partition of __transaction_state is among the inputs" in row["why"]


def test_where_a_partition_of_the_coordinators_is_missing_the_producer_may_be_in_it(tmp_path: Path) -> None:
    logs = {"t__dash__0": DATA, "__transaction_state__dash__2": coordinator([])}
    row = opened(log_dir(tmp_path, coordinator([]), **logs))
    assert row["hanging"] is None
    assert "partition 1 of __transaction_state may have it" in row["why"]


def test_it_is_said_where_the_log_of_the_coordinator_ends_before_the_transaction(tmp_path: Path) -> None:
    path = log_dir(tmp_path, coordinator([]), t__dash__0=DATA)
    assert (
        "the log of the coordinator ends at 2023-11-14T22:13:20.000Z, before the transaction's" in opened(path)["why"]
    )
    later = [*coordinator([]), at(1, T + 9000, transaction("other", 1, "Empty"))]
    path = log_dir(tmp_path / "later", later, t__dash__0=DATA)
    assert "the log of the coordinator" not in opened(path)["why"]


def test_text_has_the_commands_and_a_caution_for_what_hangs_alone(tmp_path: Path) -> None:
    path = log_dir(tmp_path, coordinator([]), t__dash__0=DATA)
    run = run_kdump(["transactions", str(path)], tmp_path)
    lines = run.stdout.decode().splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("t-0   HANGING   producer 7 epoch 2   since "))
    commands = [line for line in lines[at:] if "kafka-transactions.sh" in line]
    assert commands[0].endswith("abort --topic t --partition 0 --start-offset 4")
    assert commands[1].endswith("--producer-id 7 --producer-epoch 2 --coordinator-epoch 3")
    assert "only when its producer is gone" in " ".join(lines[at:])
    assert run.stderr.startswith(b"warning P05 hanging-transaction ")
    path = log_dir(tmp_path / "ordinary", coordinator(ORDINARY["ongoing"]), t__dash__0=DATA)
    assert b"abort" not in run_kdump(["transactions", str(path)], tmp_path).stdout


# --- damage ---------------------------------------------------------------------------------------------------
def test_damage_in_the_coordinators_log_makes_its_transactions_inexact(tmp_path: Path) -> None:
    batches = coordinator([transaction("me", 7, "Ongoing", LISTED, epoch=2), transaction("x", 9, "Empty")])
    damaged = bytearray(batches[2])
    damaged[-1] ^= 1
    path = log_dir(tmp_path, [*batches[:2], bytes(damaged)], t__dash__0=DATA)
    rows = transactions(path, exit_status=3)
    assert [row["exact"] for row in rows if row["type"] == "transaction"] == [False, False]
    (row,) = [row for row in rows if row["type"] == "open"]
    assert "the log of a coordinator is damaged" in row["why"]


def test_nothing_of_this_is_found_in_what_real_brokers_wrote() -> None:
    for path in sorted({log.parent.parent for log in FIXTURES.glob("releases/*/*/*/*.log")}):
        run = run_kdump(["transactions", str(path), "--format", "json"], path)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        assert run.exit == (0 if any(row["type"] in ("open", "transaction") for row in rows) else 5)
        assert [row for row in rows if row["type"] == "finding"] == [], path
    assert [row["transactionalId"] for row in transactions(NODE) if row["type"] == "open"] == ["left-open"] * 3


@pytest.mark.parametrize("damage", ["crc", "torn"])
def test_damage_behind_the_newest_snapshot_is_told(damage: str, tmp_path: Path) -> None:
    """The snapshot at 255 is at the end of what can be read: the transaction that began there cannot be seen."""
    node = copy_tree(NODE / "txnspan-0", tmp_path / "txnspan-0").parent
    log = node / "txnspan-0" / file_name(211)
    data = bytearray(log.read_bytes())
    data[9925] ^= 1
    log.write_bytes(data if damage == "crc" else data[:-30])
    run = run_kdump(["transactions", "."], node)
    assert run.exit == 6
    assert b"kdump: not searched: ./txnspan-0/" in run.stderr
    assert b"offsets 255..257" in run.stderr


# --- one topic ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("option", "value"), [("--topic", "txn"), ("--topic-partition", "txn-0")])
def test_only_what_writes_to_a_topic_is_shown_and_judged_by_all_coordinators(option: str, value: str) -> None:
    cwd = FIXTURES / "kafka-4.3.1" / "clean"
    found = run_kdump(["transactions", "node1", option, value, "--format", "json"], cwd)
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(one["transactionalId"], one["partitions"]) for one in rows if one["type"] == "transaction"] == [
        ("left-open", ["compacttxn-0", "txn-0", "txnspan-0"])
    ]
    (row,) = [one for one in rows if one["type"] == "open"]
    assert (row["topic"], row["transactionalId"], row["hanging"]) == ("txn", "left-open", False)
    none = run_kdump(["transactions", "node1", option, "nosuch-0"], cwd)
    assert (none.exit, none.stderr.decode().strip()) == (10, "kdump: no transactions that write to nosuch-0 here")
