"""Groups, commits and transactions in tasks of Spark: the copies of an internal partition meet in one task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.rows.coordinators import Horizon, OpenRow
from kdump.state.copies import Copies
from kdump.state.groups import GroupOptions, groups
from kdump.state.transactions import TransactionOptions, transactions
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.finding import Finding
    from kdump.format.read_limits import ReadLimits


class StateUnit(Value):
    """What one task folds."""

    table: str  # groups, commits, transactions or open
    paths: tuple[str, ...]  # that are read
    topic: str  # only what is said of this topic; empty for all
    size: int  # bytes of the logs that are read


def state_units(table: str, paths: Sequence[str]) -> tuple[list[StateUnit], list[OpenFailure | Finding]]:
    """Return the tasks of a table, and what cannot be read of the paths.

    Args:
        table: groups, commits, transactions or open.
        paths: as the user wrote them.
    """
    problems: list[OpenFailure | Finding] = []
    copies = Copies(paths, problems.append)
    if table in ("groups", "commits"):
        units = _of_topic(copies, table, OFFSETS_TOPIC)
        if table == "commits" and copies.of_topic(SHARE_TOPIC):  # they need the names that groups have
            size = sum(unit.size for unit in units)
            units.append(StateUnit(table, tuple(paths), SHARE_TOPIC, size))
        return units, problems
    if table == "transactions":
        return _of_topic(copies, table, TRANSACTIONS_TOPIC), problems
    coordinators = [copies.partitions[TRANSACTIONS_TOPIC, n] for n in copies.of_topic(TRANSACTIONS_TOPIC)]
    around = tuple(one.path for some in coordinators for one in some)
    units = [
        StateUnit(table, (*around, *(one.path for one in some)), key[0], sum(one.log_bytes for one in some))
        for key, some in copies.partitions.items()
        if key[0] != TRANSACTIONS_TOPIC
    ]
    return units, problems


def _of_topic(copies: Copies, table: str, topic: str) -> list[StateUnit]:
    """A task for each partition of a topic."""
    found = [copies.partitions[topic, number] for number in copies.of_topic(topic)]
    return [StateUnit(table, tuple(one.path for one in some), "", sum(one.log_bytes for one in some)) for some in found]


def state_items(unit: StateUnit, limits: ReadLimits) -> Iterator[Any]:
    """Yield what the verb groups or transactions says of the partitions of a task.

    Args:
        unit: the task.
        limits: what is read at most.
    """
    if unit.table in ("groups", "commits"):
        wanted = GroupOptions(None, None, frozenset(), frozenset(), lag=False, limits=limits)
        items: Iterator[Any] = groups(list(unit.paths), wanted)
    else:
        items = transactions(list(unit.paths), TransactionOptions(None, False, limits))
    if not unit.topic:
        yield from items
        return
    is_its = False
    for item in items:
        if isinstance(item, Horizon):
            is_its = item.partition.startswith(f"{unit.topic}-")
        path = item.path if isinstance(item, OpenFailure) else getattr(item, "file", None)
        if is_its or isinstance(item, OpenRow) or (path is not None and _lies_in(path, unit.topic)):
            yield item


def _lies_in(path: str, topic: str) -> bool:
    """Whether a path is of a partition of a topic, or of a file in it."""
    names = os.path.basename(path), os.path.basename(os.path.dirname(path))
    return any(name.startswith(f"{topic}-") for name in names)
