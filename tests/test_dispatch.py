"""Items go to the method that is declared for their type."""

from __future__ import annotations

from kdump.dispatch import Dispatcher, takes


class Animal:
    """The least that is known."""


class Bird(Animal):
    """More of it."""


class Gull(Bird):
    """Nobody names it."""


class Stone:
    """Nobody takes it."""


class Keeper(Dispatcher):
    @takes(Animal)
    def animal(self, item: Animal) -> str:
        return f"animal {type(item).__name__}"

    @takes(int, str, always=True)
    def plain(self, item: object) -> str:
        return f"plain {item}"


class Falconer(Keeper):
    @takes(Bird)
    def bird(self, item: Bird) -> str:
        return f"bird {type(item).__name__}"

    def plain(self, item: object) -> str:
        return f"other {item}"


class Ranger(Dispatcher):
    @takes(Stone)
    def stone(self, _item: Stone) -> str:
        return "stone"


class Both(Falconer, Ranger):
    """Takes what either takes."""


def test_the_nearest_type_counts() -> None:
    assert [Keeper().take(one) for one in (Animal(), Gull(), 5, "x")] == [
        "animal Animal", "animal Gull", "plain 5", "plain x",
    ]  # fmt: skip
    assert Falconer().take(Gull()) == "bird Gull"
    assert Falconer().take(Animal()) == "animal Animal"


def test_what_nobody_takes_is_passed_over_each_time() -> None:
    assert [Falconer().take(one) for one in (Stone(), Stone(), None)] == [None] * 3


def test_a_method_written_anew_takes_what_the_first_one_took() -> None:
    assert Falconer().take(5) == "other 5"
    assert Keeper().take(5) == "plain 5"


def test_a_class_of_two_takes_what_both_take() -> None:
    assert [Both().take(one) for one in (Stone(), Gull(), 5)] == ["stone", "bird Gull", "other 5"]
    assert Falconer().take(Stone()) is None


def test_where_little_is_wanted_some_are_taken_all_the_same() -> None:
    assert [Keeper().take(one, lambda _item: False) for one in (Animal(), 5)] == [None, "plain 5"]
    assert Keeper().take(Animal(), lambda item: isinstance(item, Animal)) == "animal Animal"
