"""The base of plain values."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from kdump.value import TupleValue, Value

pytestmark = pytest.mark.quick


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


class Place(TupleValue):
    """A tuple with a default."""

    file: str
    position: int
    length: int = 1

    @property
    def end(self) -> int:
        """What a class adds."""
        return self.position + self.length


PLACE: Any = Place


def test_a_tuple_value_is_a_tuple_with_names() -> None:
    place = Place("a", 5)
    file, position, length = place
    assert (file, position, length) == ("a", 5, 1) == place
    assert (place.file, place[1], place.length, place.end) == ("a", 5, 1, 6)
    assert Place("a", length=1, position=5) == Place(file="a", position=5) == place
    assert hash(place) == hash(("a", 5, 1))
    assert Place("a", 4) < place < Place("b", 0)
    assert repr(place) == "Place(file='a', position=5, length=1)"


def test_a_tuple_value_never_changes_and_has_no_room_for_more() -> None:
    place: Any = Place("a", 5)
    for name in ("file", "other"):
        with pytest.raises(AttributeError):
            setattr(place, name, 3)
    assert not hasattr(place, "__dict__")
    assert place._replace(position=7) == Place("a", 7)
    assert place == Place("a", 5)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("a", 5, 1, 2), {}),
        (("a",), {}),
        ((), {"position": 5}),
        (("a", 5), {"file": "b"}),
        (("a", 5), {"other": 1}),
        (("a", 5, 1), {"length": 1}),
        (("a",), {"length": 1}),
    ],
    ids=str,
)
def test_a_tuple_value_takes_each_field_once(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="a Place has the fields file, position, length: each once"):
        PLACE(*values, **named)


def test_a_tuple_value_is_made_of_an_iterable_of_its_length() -> None:
    assert Place._make(iter(["a", 5, 2])) == Place("a", 5, 2)
    with pytest.raises(TypeError, match="each once"):
        Place._make(["a", 5, 2, 3])
    with pytest.raises(TypeError, match="no more fields"):
        PLACE("a", 5)._replace(other=3)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_tuple_value_goes_to_another_process(protocol: int) -> None:
    place = Place("a", 5, 2)
    there = pickle.loads(pickle.dumps(place, protocol))
    assert there == place
    assert type(there) is Place
    assert copy.copy(place) == copy.deepcopy(place) == place


def test_a_class_of_tuple_values_has_the_fields_of_its_base() -> None:
    class Named(Place):
        """With nothing of its own."""

    assert Named("a", 5)._replace(length=3) == ("a", 5, 3)
