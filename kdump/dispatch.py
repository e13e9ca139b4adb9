"""Which method takes an item is told by its type, where the method is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    _Entry = tuple[str, bool]  # name of a method; whether it takes an item where little is wanted too

_Method = TypeVar("_Method", bound="Callable[..., object]")


def takes(*types: type, always: bool = False) -> Callable[[_Method], _Method]:
    """Declare that a method of a `Dispatcher` takes items of these types, and of types derived from them.

    Args:
        types: the one nearest to the type of an item counts.
        always: where little is wanted too: what the end comes to hangs on such items.
    """

    def mark(method: _Method) -> _Method:
        method.takes = types, always  # type: ignore[attr-defined]
        return method

    return mark


class Dispatcher:
    """Hands each item to the method that `takes` its type; an item that no method takes is passed over.

    A method that a derived class writes anew takes what the one of its base took.
    """

    _takers: ClassVar[dict[type, _Entry]] = {}
    _met: ClassVar[dict[type, _Entry | None]] = {}  # the taker of each type that an item had

    def __init_subclass__(cls) -> None:
        """Collect the methods that take items, those of bases first."""
        super().__init_subclass__()
        cls._takers, cls._met = {}, {}
        for base in reversed(cls.__mro__):
            for name, method in vars(base).items():
                if hasattr(method, "takes"):
                    types, always = method.takes
                    cls._takers.update(dict.fromkeys(types, (name, always)))

    def take(self, item: object, wanted: Callable[[Any], bool] | None = None) -> Any:  # noqa: ANN401 (of the method)
        """Let the method for an item have it; return what it returns, None without one.

        Args:
            item: of a verb.
            wanted: tells what is wanted where that is little; None for everything.
        """
        kind = type(item)
        if kind not in self._met:
            self._met[kind] = next((self._takers[base] for base in kind.__mro__ if base in self._takers), None)
        taker = self._met[kind]
        if taker is None:
            return None
        name, always = taker
        return getattr(self, name)(item) if always or wanted is None or wanted(item) else None
