"""The base of plain values."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.value import Value


class Point(Value):
    """A value with a default."""

    x: int
    y: int = 2


MADE: Any = Point  # what a type checker would refuse is refused when it runs, too


def test_values_are_equal_when_their_fields_are() -> None:
    assert Point(1) == Point(1, 2) == Point(x=1, y=2)
    assert hash(Point(1)) == hash(Point(1, 2))
    assert Point(1) != Point(1, 3)
    assert repr(Point(1)) == "Point(x=1, y=2)"


def test_a_value_never_changes() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="never changes"):
        point.x = 3  # type: ignore[misc]
    assert point.replace(y=5) == Point(1, 5)
    assert point == Point(1, 2)


@pytest.mark.parametrize(("values", "named"), [((1, 2, 3), {}), ((1,), {"z": 3}), ((), {"x": 1, "z": 3})])
def test_a_value_takes_nothing_that_is_not_a_field(values: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="no more fields than x, y"):
        MADE(*values, **named)


def test_a_replacement_has_the_same_fields() -> None:
    with pytest.raises(TypeError, match="no more fields than x, y"):
        MADE(1).replace(z=3)
