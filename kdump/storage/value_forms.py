"""Values that kdump keeps in a file and reads back: how each is written in JSON, and what may stand there.

A form writes a value, and makes it again of what it has looked at; nothing of a file names a class.
"""

from __future__ import annotations

from array import array
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from kdump.format.java_values import MAX_LONG, MIN_LONG
from kdump.storage.json_rules import BadValueError, number, text
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 1_000_000  # values in one list
_E = TypeVar("_E", bound=Enum)


class CannotKeepError(Exception):
    """A value has something that no form writes."""


class KeptForm(Value):
    """How a value is written, and read."""

    write: Callable[[Any], Any]  # takes a value, returns it in JSON's types
    read: Callable[[Any, str], Any]  # takes these and their path, returns the value; raises BadValueError


def _read_number(found: Any, path: str) -> int:  # noqa: ANN401 (JSON)
    _ANY_NUMBER(found, path)
    return int(found)


def _write_number(value: Any) -> int:  # noqa: ANN401 (of any value)
    if type(value) is not int or not MIN_LONG <= value <= MAX_LONG:
        raise CannotKeepError
    return value


def _read_text(found: Any, path: str) -> str:  # noqa: ANN401 (JSON)
    text(found, path)
    return str(found)


def _write_text(value: Any) -> str:  # noqa: ANN401 (of any value)
    if type(value) is not str:  # a command is more than its text
        raise CannotKeepError
    try:
        text(value, "")
    except BadValueError:
        raise CannotKeepError from None
    return value


def _read_flag(found: Any, path: str) -> bool:  # noqa: ANN401 (JSON)
    if not isinstance(found, bool):
        raise BadValueError(path, "is neither true nor false")
    return found


_ANY_NUMBER = number(MIN_LONG, MAX_LONG)
NUMBER = KeptForm(_write_number, _read_number)
TEXT = KeptForm(_write_text, _read_text)
FLAG = KeptForm(bool, _read_flag)


def _read_word(found: Any, path: str) -> int | str | None:  # noqa: ANN401 (JSON)
    if found is None:
        return None
    return _read_text(found, path) if isinstance(found, str) else _read_number(found, path)


def _write_word(value: Any) -> int | str | None:  # noqa: ANN401 (of any value)
    if value is None:
        return None
    return _write_number(value) if isinstance(value, int) else _write_text(value)


WORD = KeptForm(_write_word, _read_word)
"""A number, a text, or None."""


def maybe(inner: KeptForm) -> KeptForm:
    """A value or None."""
    return KeptForm(
        lambda value: None if value is None else inner.write(value),
        lambda found, path: None if found is None else inner.read(found, path),
    )


def member(of: type[_E]) -> KeptForm:
    """One of an Enum, by its name."""
    names = of.__members__

    def read(found: Any, path: str) -> _E:  # noqa: ANN401 (JSON)
        if not isinstance(found, str) or found not in names:
            raise BadValueError(path, f"is no {of.__name__}")
        return names[found]

    return KeptForm(lambda value: value.name, read)


def many(inner: KeptForm, made: Callable[[list[Any]], Any] = tuple) -> KeptForm:
    """Several values of one form.

    Args:
        inner: of each.
        made: makes of a list what holds them.
    """

    def read(found: Any, path: str) -> Any:  # noqa: ANN401 (JSON)
        if not isinstance(found, list) or len(found) > _MOST:
            raise BadValueError(path, f"is not an array of at most {_MOST} values")
        return made([inner.read(one, path) for one in found])

    return KeptForm(lambda value: [inner.write(one) for one in value], read)


NUMBERS = many(NUMBER, lambda found: array("q", found))
"""Numbers in an array."""


def pairs(key: KeptForm, inner: KeptForm) -> KeptForm:
    """A dict."""
    entries = many(record(_pair, key, inner))

    def write(value: Any) -> list[list[Any]]:  # noqa: ANN401 (of any value)
        return [[key.write(one), inner.write(it)] for one, it in value.items()]

    return KeptForm(write, lambda found, path: dict(entries.read(found, path)))


def _pair(key: Any, value: Any) -> tuple[Any, Any]:  # noqa: ANN401 (of any value)
    return key, value


def record(of: Callable[..., Any], *inner: KeptForm) -> KeptForm:
    """The fields of a Value or a TupleValue, in their order.

    Args:
        of: the class.
        inner: the form of each field.
    """
    names: tuple[str, ...] = getattr(of, "__match_args__", ())
    assert not names or len(names) == len(inner), of

    def write(value: Any) -> list[Any]:  # noqa: ANN401 (of any value)
        if type(value) is not of:
            raise CannotKeepError
        return [one.write(getattr(value, name)) for name, one in zip(names, inner, strict=True)]

    def read(found: Any, path: str) -> Any:  # noqa: ANN401 (JSON)
        if not isinstance(found, list) or len(found) != len(inner):
            raise BadValueError(path, f"is not an array of {len(inner)} values")
        return of(*[one.read(it, path) for one, it in zip(inner, found, strict=True)])

    return KeptForm(write, read)


def one_of(**kinds: tuple[type, KeptForm]) -> KeptForm:
    """One of several classes, by a word of ours before it."""
    by_class = {of: (word, form) for word, (of, form) in kinds.items()}

    def write(value: Any) -> list[Any]:  # noqa: ANN401 (of any value)
        if type(value) not in by_class:
            raise CannotKeepError
        word, form = by_class[type(value)]
        return [word, form.write(value)]

    def read(found: Any, path: str) -> Any:  # noqa: ANN401 (JSON)
        if not isinstance(found, list) or len(found) != 2 or not isinstance(found[0], str) or found[0] not in kinds:
            raise BadValueError(path, f"is none of {', '.join(kinds)}")
        return kinds[found[0]][1].read(found[1], path)

    return KeptForm(write, read)
