"""Cheap frozen dataclass; exists for start-up time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, dataclass_transform

if TYPE_CHECKING:
    from typing import Self


@dataclass_transform(frozen_default=True)
class Value:
    """A value with named fields: the annotations of the class, with its class attributes as defaults.

    It never changes. The types are the type checker's business.
    """

    __match_args__: tuple[str, ...]
    _names: frozenset[str]

    def __init_subclass__(cls) -> None:
        """Take the fields from the annotations."""
        cls.__match_args__ = tuple(cls.__annotations__)  # type: ignore[misc]
        cls._names = frozenset(cls.__match_args__)

    if not TYPE_CHECKING:  # a type checker makes it from the decorator

        def __init__(self, *values: Any, **named: Any) -> None:  # noqa: ANN401
            fields = self.__dict__
            fields.update(zip(self.__match_args__, values))  # noqa: B905 (strict costs)
            if named:
                fields.update(named)
            if len(values) > len(self.__match_args__) or not named.keys() <= self._names:
                raise TypeError(f"a {type(self).__name__} has no more fields than {', '.join(self.__match_args__)}")

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"a {type(self).__name__} never changes: replace() makes another one")

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        fields = zip(self.__match_args__, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401
        """Return the same value with other values in some fields."""
        if not changes.keys() <= self._names:
            raise TypeError(f"a {type(self).__name__} has no more fields than {', '.join(self.__match_args__)}")
        changed = type(self).__new__(type(self))
        changed.__dict__.update(self.__dict__, **changes)
        return changed
