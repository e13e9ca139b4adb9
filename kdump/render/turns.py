"""What is shown of a dump by several processes: each renders its ranges ahead, and writes them in its turn.

Only what is large is rendered ahead: batches and records, which hang on nothing but their file. The rest is held as it
is, in its place, and goes through the sink in the turn, when the sink knows what was shown before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kdump.format.record.chunk import Chunk
from kdump.item import FileStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.decode.file_decoder import FileDecoder
    from kdump.item import Item
    from kdump.output import Output

_MOST_HELD = 12 * 1024 * 1024  # bytes that are rendered ahead of the turn
_ITEM = 500  # bytes of an item that is held, about

Unit = TypeVar("Unit")
Unit_contra = TypeVar("Unit_contra", contravariant=True)
State = tuple[Any, Any, "Watch"]  # of the reading, of the sink, and what the run comes to


class Watch(Protocol):
    """Takes all that is shown, but for what is large, into account."""

    def see(self, item: Item) -> None:
        """Take one item into account."""


class Reading(Protocol):
    """Reads one unit."""

    begins: FileStart | None

    def shows(self, item: Item) -> bool:
        """Tell whether an item that was read ahead is to be shown, once that is known."""

    @property
    def state(self) -> Any:  # noqa: ANN401 (whatever the verb must know)
        """What the next unit must know, after all items."""

    def ahead(self) -> Iterator[Item]:
        """Yield the items as they are if the state is what it mostly is."""

    def adopt(self, state: Any) -> bool:  # noqa: ANN401
        """Take the true state; return whether the items of `ahead` are right, and may go on."""

    def again(self, state: Any) -> Iterator[Item]:  # noqa: ANN401
        """Yield all items from the true state."""


class Readings(Protocol[Unit_contra]):
    """Makes them."""

    def reading(self, unit: Unit_contra) -> Reading:
        """Return what reads a unit."""

    def is_left_out(self, unit: Unit_contra, state: Any) -> bool:  # noqa: ANN401
        """Tell whether nothing of a unit is read."""

    def is_over(self, state: Any) -> bool:  # noqa: ANN401
        """Tell whether nothing more is wanted."""


class TurnSink(Protocol):
    """A sink that can go on where another one was."""

    @property
    def state(self) -> Any:  # noqa: ANN401
        """What was shown so far, as far as what comes next hangs on it."""

    def resume(self, state: Any) -> None:  # noqa: ANN401
        """Go on from what another sink has shown."""

    def go_on(self, file: FileStart) -> None:
        """Take in hand a file that another sink has begun to show."""

    def is_bulk(self, item: Item) -> bool:
        """Tell whether what is written of an item hangs on nothing that was shown before."""

    def share(self) -> Any:  # noqa: ANN401
        """Return what was counted since `go_on`."""

    def may_join(self, state: Any, share: Any) -> bool:  # noqa: ANN401
        """Tell whether that may be counted where another one was; else it is to be shown again from there."""

    def join(self, share: Any) -> None:  # noqa: ANN401
        """Count what another sink has counted."""

    def flush(self) -> None:
        """Write out what is collected."""

    def __call__(self, item: Item) -> str | None:
        """Write an item."""


class ShowInTurn:
    """Shows units of a dump, for `in_turn`.

    Args:
        readings: read the units.
        make_sink: makes the sink of a process.
        decodes: reads keys and values; None where nothing does.
    """

    def __init__(
        self, readings: Readings[Any], make_sink: Callable[[Output], TurnSink], decodes: FileDecoder | None
    ) -> None:
        self._readings = readings
        self._make_sink = make_sink
        self._decodes = decodes
        self._sink: tuple[Output, TurnSink] | None = None

    def job(self, unit: Any, output: Output) -> _Show:  # noqa: ANN401 (of the verb)
        """Return what shows a unit."""
        if self._sink is None or self._sink[0] is not output:
            self._sink = output, self._make_sink(output)
        return _Show(self._readings.reading(unit), self._sink[1], output, self._decodes)

    def is_left_out(self, unit: Any, state: State) -> bool:  # noqa: ANN401
        """Tell whether nothing of a unit is read."""
        return self._readings.is_left_out(unit, state[0])

    def is_over(self, state: State) -> bool:
        """Tell whether nothing more is wanted."""
        return self._readings.is_over(state[0])


class _Show:
    """Shows one unit."""

    def __init__(self, reading: Reading, sink: TurnSink, output: Output, decodes: FileDecoder | None) -> None:
        self._reading = reading
        self._sink = sink
        self._output = output
        self._decodes = decodes
        self._ahead: Iterator[Item] | None = None
        self._has_file = False

    def ahead(self) -> Iterator[None]:
        """Render ahead what is large, hold the rest."""
        self._ahead = self._reading.ahead()
        for item in self._ahead:
            self._hold(item)
            yield
            if self._output.size > _MOST_HELD:
                break
        self._sink.flush()

    def _hold(self, item: Item) -> None:
        if isinstance(item, FileStart):
            self._begin(item)
        elif not self._has_file and self._reading.begins is not None:
            self._begin(self._reading.begins)
        if not self._sink.is_bulk(item):
            self._keep(item)
            return
        if self._decodes is not None and isinstance(item, Chunk):
            self._decodes.take(item)
        self._sink(item)
        if self._decodes is not None and isinstance(item, Chunk):
            for finding in self._decodes.findings(item):
                self._keep(finding)

    def _keep(self, item: Item) -> None:
        self._sink.flush()
        self._output.keep(item, _ITEM)

    def _begin(self, file: FileStart) -> None:
        self._has_file = True
        if self._decodes is not None:
            self._decodes.begin(file)
        self._sink.go_on(file)

    def turn(self, state: State) -> State:
        """Write what was held, and show the rest."""
        before, shown, seen = state
        sink, rest = self._sink, self._ahead
        sink.flush()
        share = sink.share() if self._has_file else None
        held = self._output.release()
        if rest is None or not (self._reading.adopt(before) and sink.may_join(shown, share)):
            for one in held:
                if isinstance(one, memoryview):
                    self._output.put(one, lost=True)
            rest, held, share = self._reading.again(before), [], None
            self._has_file = False
        sink.resume(shown)
        for one in held:
            if isinstance(one, memoryview):
                sink.flush()
                self._output.put(one)
            else:
                self._show(one, seen)
        sink.join(share)
        for item in rest:
            if not (self._has_file or isinstance(item, FileStart)) and self._reading.begins is not None:
                so_far = sink.state
                self._begin(self._reading.begins)
                sink.resume(so_far)
            self._has_file = True
            self._show(item, seen)
        sink.flush()
        return self._reading.state, sink.state, seen

    def _show(self, item: Any, seen: Watch) -> None:  # noqa: ANN401
        if not self._reading.shows(item):
            return
        seen.see(item)
        if self._decodes is not None and isinstance(item, FileStart):
            self._decodes.begin(item)
        if self._decodes is not None and isinstance(item, Chunk):
            self._decodes.take(item)
        self._sink(item)
        if self._decodes is not None and isinstance(item, Chunk):
            for finding in self._decodes.findings(item):
                seen.see(finding)
                self._sink(finding)
