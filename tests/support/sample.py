"""What a test goes through itself, of which a plain run takes one in N: see the fixture `one_in`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

_One = TypeVar("_One")


class OneIn(Protocol):
    """Takes one in `step` of some things by a fixed rule; with `--all`, all of them."""

    def __call__(self, step: int, things: Sequence[_One]) -> Sequence[_One]: ...
