"""What tasks get: pieces of about the same size, so that all end at about the same time."""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")
_OPEN_COST = 4 * 1024 * 1024  # bytes that could be read while a file is opened
_EVEN = 1.4  # the largest task over the mean of all


def pack(things: list[_T], sizes: list[int], size: int, least: int) -> list[list[_T]]:
    """Return things in groups, each group in their order.

    The largest goes first, each to the group that has least. Where one thing is larger than the mean, groups are
    joined until none is much larger than the mean: the others would only wait for it.

    Args:
        things: what is to be done.
        sizes: bytes of each.
        size: bytes that a group should have.
        least: groups to make even so, if there are as many things.
    """
    if not things:
        return []
    costs = [one + _OPEN_COST for one in sizes]
    count = min(len(things), max(-(-sum(sizes) // max(1, size)), least))
    while True:
        groups, loads = _filled(costs, count)
        if count == 1 or max(loads) * count <= _EVEN * sum(loads):
            return [[things[at] for at in sorted(group)] for group in groups]
        count -= max(1, count // 16)


def _filled(costs: list[int], count: int) -> tuple[list[list[int]], list[int]]:
    from heapq import heapify, heapreplace

    heap = [(0, number) for number in range(count)]
    heapify(heap)
    groups: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for at in sorted(range(len(costs)), key=lambda at: -costs[at]):
        load, number = heap[0]
        groups[number].append(at)
        loads[number] = load + costs[at]
        heapreplace(heap, (loads[number], number))
    return groups, loads
