"""Cheap frozen dataclass, cheap NamedTuple and cheap regular expressions; they exist for start-up time.

To define a class of five fields takes about 12 us here, 220 us with `typing.NamedTuple`, more with `dataclass`: those
compile text for each class. To compile a regular expression takes 100 to 500 us. A short run of kdump defines hundreds
of classes, and uses few of the expressions.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any, dataclass_transform

if TYPE_CHECKING:
    from re import compile as pattern
    from typing import NamedTuple as TupleValue
    from typing import Self

__all__ = ["TupleValue", "Value", "pattern"]


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


if not TYPE_CHECKING:  # to a type checker they are what they stand for

    class _Fields(type):
        """Make a class whose annotations are the names of the places of a tuple."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            names = tuple(namespace.get("__annotations__", ()))
            namespace["__slots__"] = ()
            if names:
                namespace["__match_args__"] = namespace["_fields"] = names
                namespace["_defaults"] = {field: namespace[field] for field in names if field in namespace}
                for place, field in enumerate(names):
                    namespace[field] = property(itemgetter(place))
            return super().__new__(cls, name, bases, namespace)

    class TupleValue(tuple, metaclass=_Fields):
        """A value that is a tuple too: it is unpacked, compared and sorted as one. Used as `typing.NamedTuple` is."""

        def __new__(cls, *values: Any, **named: Any) -> Self:  # noqa: ANN401, D102
            if named or len(values) != len(cls._fields):
                values = cls._filled(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _filled(cls, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
            """Return values with those that are named, and with the defaults of what lacks."""
            lacking, known = cls._fields[len(values) :], cls._defaults | named
            filled = (*values, *[known[field] for field in lacking if field in known])
            if len(filled) != len(cls._fields) or not named.keys() <= set(lacking):
                raise TypeError(f"a {cls.__name__} has the fields {', '.join(cls._fields)}: each once")
            return filled

        @classmethod
        def _make(cls, values: Any) -> Self:  # noqa: ANN401
            """Return the tuple of an iterable."""
            return cls(*values)

        def _replace(self, **changes: Any) -> Self:  # noqa: ANN401
            """Return the same tuple with other values in some fields."""
            made = tuple.__new__(type(self), [changes.pop(field, old) for field, old in zip(self._fields, self)])  # noqa: B905 (strict costs)
            if changes:
                raise TypeError(f"a {type(self).__name__} has no more fields than {', '.join(self._fields)}")
            return made

        def __getnewargs__(self) -> tuple[Any, ...]:  # to be copied, and for pickle
            return tuple(self)

        def __repr__(self) -> str:
            fields = zip(self._fields, self, strict=True)
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"

    class pattern:  # noqa: N801 (used as `re.compile` is)
        """A regular expression that is compiled when it is first used.

        Args:
            what: as `re.compile` takes them.
        """

        def __init__(self, *what: Any) -> None:  # noqa: ANN401
            self._what = what

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            found = getattr(re.compile(*self._what), name)
            setattr(self, name, found)
            return found
