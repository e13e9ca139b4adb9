"""What the kernels use of Cython, for the interpreter: the types mean nothing, the decorators do nothing.

A compiled kernel never imports this: the compiler replaces `cython` by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

compiled = False


def _same(function: _F) -> _F:
    return function


def declare(_type: object, value: int) -> int:
    """Return the value: in the interpreter a constant is a constant."""
    return value


def cast(_type: object, value: int) -> int:
    """Return the value: what would not fit was cut off before."""
    return value


class _Type:
    """Stands for any C type in an annotation or a cast."""

    def __getitem__(self, _item: object) -> _Type:
        return self


cfunc = inline = _same
uchar = longlong = ulonglong = bint = Py_ssize_t = p_char = p_uchar = p_longlong = const = _Type()
