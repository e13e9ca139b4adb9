"""How far the verbs over internal topics are: a true total from the start, and the end at the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kdump.format.read_limits import ReadLimits
from kdump.item import Progress
from kdump.state.cluster import ClusterOptions, cluster
from kdump.state.groups import GroupOptions, groups
from kdump.state.partition_log import result_of, up_to
from kdump.state.transactions import TransactionOptions, transactions
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
LIMITS = ReadLimits(1 << 26, 1 << 26)
NONE: frozenset[str] = frozenset()
NOON = 1_700_000_000_000


def logs(pattern: str) -> int:
    """Bytes of the logs of some partitions of the node."""
    found = (path for path in NODE.iterdir() if re.fullmatch(pattern, path.name))
    return sum(path.stat().st_size for one in found for path in one.glob("*.log"))


def run(verb: str, jobs: int, *, progress: bool, at: int | None = None) -> Iterator[Any]:
    """The items of a verb over the node."""
    paths = [str(NODE)]
    if verb == "groups":
        return groups(paths, GroupOptions(at, None, NONE, NONE, False, LIMITS, jobs, progress))
    if verb == "transactions":
        return transactions(paths, TransactionOptions(at, False, LIMITS, jobs, progress))
    return cluster(paths, ClusterOptions(at, None, None, NONE, (), LIMITS, progress))


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("at", [None, NOON])
@pytest.mark.parametrize(
    ("verb", "pattern"),
    [
        ("groups", "__(consumer_offsets|share_group_state)-[0-9]+"),
        ("transactions", ".*-[0-9]+"),
        ("cluster", "__cluster_metadata-0"),
    ],
)
def test_progress_has_a_true_total_from_its_first_word_and_ends_there(
    verb: str, pattern: str, at: int | None, jobs: int
) -> None:
    said = [item for item in run(verb, jobs, progress=True, at=at) if isinstance(item, Progress)]
    passes = 2 if verb == "cluster" or at is not None else 1
    assert {one.total for one in said} == {passes * logs(pattern)}
    assert said[-1].done == said[-1].total > 0
    if jobs == 1:
        assert [one.done for one in said] == sorted(one.done for one in said)
        assert len({one.done for one in said}) > 1


@pytest.mark.parametrize("verb", ["groups", "transactions", "cluster"])
def test_progress_is_for_those_who_ask_and_changes_no_answer(verb: str) -> None:
    plain = list(run(verb, 1, progress=False))
    assert not any(isinstance(item, Progress) for item in plain)
    told = [item for item in run(verb, 1, progress=True) if not isinstance(item, Progress)]
    assert list(map(repr, told)) == list(map(repr, plain))


def test_what_is_read_twice_does_not_go_beyond_the_total() -> None:
    said = list(up_to(10, "log", ["row", Progress(4, 0, "a"), Progress(14, 0, "a")]))
    assert said == ["row", Progress(4, 0, "a"), Progress(10, 0, "a"), Progress(10, 0, "log")]


def test_steps_come_to_what_they_return() -> None:
    def steps() -> Iterator[Progress]:
        yield Progress(1, 2, "a")
        return 7  # type: ignore[return-value]

    assert result_of(steps()) == 7  # type: ignore[arg-type]
