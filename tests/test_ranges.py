"""Ranges of numbers, against a plain set of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.ranges import RangeSet

pytestmark = pytest.mark.quick

PAIRS = st.tuples(st.integers(-5, 40), st.integers(-5, 40))
MOST = 2**63 - 1


@given(st.lists(PAIRS, max_size=20), PAIRS)
def test_ranges_are_a_set_of_numbers_in_whatever_order_they_come(
    pairs: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    ranges, numbers = RangeSet(), set[int]()
    for first, last in pairs:
        ranges.add(first, last)
        numbers.update(range(first, last + 1))
    assert [one for first, last in ranges for one in range(first, last + 1)] == sorted(numbers)
    assert all(last + 1 < first for (_, last), (first, _) in zip(list(ranges), list(ranges)[1:], strict=False))
    wanted = set(range(asked[0], asked[1] + 1))
    assert ranges.has_any(*asked) == bool(wanted & numbers)
    assert ranges.has_all(*asked) == (wanted <= numbers)


def test_what_no_array_can_hold_changes_nothing() -> None:
    ranges = RangeSet()
    ranges.add(5, MOST)
    with pytest.raises(OverflowError):
        ranges.add(1, MOST + 1)
    ranges.add(-1 - MOST, 2)
    assert list(ranges) == [(-1 - MOST, 2), (5, MOST)]
