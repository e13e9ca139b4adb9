"""What the sinks of dump share: several processes may show files, and one sink goes on where another one was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.dispatch import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.item import FileStart, Item


class DumpSink(Dispatcher):
    """Shows the items of dump, and can go on where another one was (see `kdump.render.turns`): here nothing is counted.

    Args:
        listed: tells which findings and failures are shown.
    """

    def __init__(self, listed: Callable[[object], bool] | None = None) -> None:
        self._listed = listed

    def __call__(self, item: Item) -> str | None:
        """Write one item.

        Returns:
            Why Kafka's tool ends in the middle of it; None when it does not.
        """
        found: str | None = self.take(item, self._listed)
        return found

    def go_on(self, file: FileStart) -> None:
        """Take in hand a file that another sink has begun to show."""

    def share(self) -> Any:  # noqa: ANN401 (of the sink)
        """Return what was counted since `go_on`; None for nothing."""
        return None

    def may_join(self, _state: object, _share: object) -> bool:
        """Tell whether what another sink has counted may be counted here: always."""
        return True

    def join(self, share: Any) -> None:  # noqa: ANN401
        """Count what another sink has counted."""

    def flush(self) -> None:
        """Write out what is collected."""

    def died(self, exception: str) -> None:
        """Kafka's tool died: only where that is mirrored."""
        raise AssertionError(exception)
