"""The names of Cython that the kernels use, for the interpreter: they do nothing.

A compiled kernel never imports this: the compiler replaces `cython` by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

compiled = False


def _same(function: _F) -> _F:
    return function


def exceptval(*, check: bool) -> Callable[[_F], _F]:
    """Say what a function returns when it raises; here nothing has to be said."""
    return _same


def declare(_type: object, value: Any = None) -> Any:  # noqa: ANN401 (a variable of any type)
    """Return the value: in the interpreter a constant is a constant; arrays and fields are made when they are set."""
    return value


def cast(_type: object, value: _T) -> _T:
    """Return the value: the interpreter needs no types."""
    return value


class _Type:
    """Stands for any C type in an annotation or a cast."""

    def __getitem__(self, _item: object) -> _Type:
        return self


cfunc = inline = cclass = final = no_gc = _same
uchar = uint = longlong = ulonglong = bint = Py_ssize_t = p_char = p_uchar = p_longlong = const = _Type()
int = uchar  # noqa: A001 (the type of C)
