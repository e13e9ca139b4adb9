"""Groups and transactions as real brokers said they are, and as a fold that shares no code with kdump says."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kdump.format.read_limits import ReadLimits
from kdump.row import Row
from kdump.rows.json_lines import row_json
from kdump.state.groups import GroupOptions, groups
from kdump.state.transactions import TransactionOptions, transactions
from tests.support import state_fold
from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Json = dict[str, Any]
NODES = {
    "kafka-4.3.1": FIXTURES / "kafka-4.3.1" / "clean" / "node1",
    "kafka-4.4.0": FIXTURES / "state" / "kafka-4.4.0" / "node1",
}
POINTS = 50  # in time, of each log
INTERNAL = ("__consumer_offsets", "__transaction_state")
LOGS = sorted(
    path.parent
    for topic in INTERNAL
    for path in [
        *FIXTURES.glob(f"releases/*/*/{topic}-*/*.log"),
        *(log for node in NODES.values() for log in node.glob(f"{topic}-*/*.log")),
    ]
)


def rows(*args: str | Path, exit_status: int = 0) -> list[Json]:
    """The JSON rows of a run of kdump."""
    run = run_kdump([*map(str, args), "--format", "json"], FIXTURES)
    assert run.exit == exit_status, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def answers(release: str) -> dict[str, list[Json]]:
    """What the brokers said."""
    found: dict[str, list[Json]] = json.loads((FIXTURES / "state" / release / "answers.json").read_text("utf-8"))
    return found


# --- the brokers ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("release", NODES)
def test_groups_and_commits_are_those_that_the_brokers_had(release: str) -> None:
    """Without an exception: the brokers were asked after a restart, and nothing had expired since."""
    found = rows("groups", NODES[release])
    groups = {row["group"]: (row["groupType"], row["protocol"]) for row in found if row["type"] == "group"}
    share = {name for name, (group_type, _) in groups.items() if group_type == "Share"}
    commits = {
        (row["group"], f"{row['topic']}-{row['partition']}"): row["offset"]
        for row in found
        if row["type"] == "commit" and not row["pending"] and row["group"] not in share
    }
    theirs = answers(release)["groups"]
    assert groups == {one["group"]: (one["type"], one["protocol"]) for one in theirs}
    assert commits == {(one["group"], name): offset for one in theirs for name, offset in one["committed"].items()}


@pytest.mark.parametrize("release", NODES)
def test_transactions_are_those_that_the_brokers_had(release: str) -> None:
    found = rows("transactions", NODES[release])
    keys = ("transactionalId", "producerId", "state")
    ours = {tuple(row[key] for key in keys) for row in found if row["type"] == "transaction"}
    assert ours == {tuple(one[key] for key in keys) for one in answers(release)["transactions"]}


@pytest.mark.parametrize("release", NODES)
def test_open_transactions_are_those_of_describe_producers_and_do_not_hang(release: str) -> None:
    found = [row for row in rows("transactions", NODES[release]) if row["type"] == "open"]
    keys = ("topic", "partition", "producerId", "producerEpoch", "coordinatorEpoch")
    ours = {(*(row[key] for key in keys), row["firstOffset"]) for row in found}
    here = {(row["topic"], row["partition"]) for row in found}
    theirs = {
        (*(one[key] for key in keys), one["currentTransactionStartOffset"])
        for one in answers(release)["producers"]
        if one["currentTransactionStartOffset"] is not None and (one["topic"], one["partition"]) in here
    }
    assert ours == theirs
    assert len(ours) >= 2
    assert {row["hanging"] for row in found} == {False}


def test_what_hangs_is_what_find_hanging_of_a_real_cluster_found() -> None:
    """A broker of Kafka 4.3.1 with `transaction.partition.verification.enable=false` was sent a batch in a transaction
    by a raw Produce request (version 3), whose producer id no coordinator had; five records followed it. Beside it a
    client committed one transaction, and left another open. `kafka-transactions.sh find-hanging --topic orders
    --max-transaction-timeout 0` printed this row, and none for the topic `ordinary`. Both commands that kdump showed
    were run against that cluster, each for a transaction of its own, by org.apache.kafka.tools.TransactionsCommand
    4.3.1: each ended with 0, a consumer of committed data then got the five records behind it, and kdump found nothing
    more that hangs.
    """
    found = [row for row in rows("transactions", FIXTURES / "state" / "hanging" / "logdir") if row["type"] == "open"]
    keys = ("topic", "partition", "producerId", "producerEpoch", "coordinatorEpoch", "firstOffset", "hanging")
    assert [tuple(row[key] for key in keys) for row in found] == [
        ("orders", 0, 4444, 1, None, 18, True),
        ("ordinary", 0, 1, 0, None, 0, False),
    ]
    tool = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic orders --partition 0"
    assert found[0]["abortCommand"] == f"{tool} --start-offset 18"
    assert found[0]["abortCommandBefore30"] == f"{tool} --producer-id 4444 --producer-epoch 1 --coordinator-epoch 0"


# --- the fold -------------------------------------------------------------------------------------------------
@cache
def printed(directory: Path) -> list[state_fold.Batch]:
    """The batches of a partition, as `dump --compat 4.3` prints them."""
    decoder = "--offsets-decoder" if directory.name.startswith("__consumer") else "--transaction-log-decoder"
    text = ""
    for log in sorted(directory.glob("*.log")):
        text += run_kdump(["dump", "--compat", "4.3", decoder, "--files", str(log)], FIXTURES).stdout.decode()
    return state_fold.batches(text)


def state(verb: str, directory: Path, time: int | None) -> list[Json]:
    """The JSON rows of a verb, without a process for each."""
    limits = ReadLimits(1 << 30, 1 << 30)
    items: Iterable[object]
    if verb == "groups":
        items = groups([str(directory)], GroupOptions(time, None, frozenset(), frozenset(), False, limits))
    else:
        items = transactions([str(directory)], TransactionOptions(time, False, limits))
    return [json.loads(row_json(one)) for one in items if isinstance(one, Row)]


@pytest.mark.parametrize("directory", LOGS, ids=lambda path: "-".join(path.relative_to(FIXTURES).parts[-4:]))
def test_the_state_at_any_time_is_that_of_an_independent_fold(directory: Path) -> None:
    found = printed(directory)
    times = sorted({batch.time for batch in found})
    step = max(1, len(times) // (POINTS - 2))
    is_groups = directory.name.startswith("__consumer")
    verb = "groups" if is_groups else "transactions"
    ours = state_fold.group_rows if is_groups else state_fold.transaction_rows
    theirs = state_fold.groups if is_groups else state_fold.transactions
    points = [times[0] - 1, *times[::step], times[-1] + 1] if times else [0]
    for time in [*points, None]:
        assert ours(state(verb, directory, time)) == theirs(found, time), time


def test_the_fold_meets_pending_commits_and_all_types_of_groups() -> None:
    """What is compared above is worth it."""
    types, pending = set(), 0
    for directory in LOGS:
        if directory.name.startswith("__consumer"):
            fold = state_fold.Groups()
            for batch in printed(directory):
                fold.batch(batch)
                types |= {group["type"] for group in fold.groups.values()}
                pending += sum(map(len, fold.pending.values()))
    assert types == {"Classic", "Consumer", "Share", "Streams"}
    assert pending > 10
