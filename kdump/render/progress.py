"""The progress bar: one line on a terminal, gone when something else is written there, or when all is done.

It is drawn by hand from a stream of items, without rich's own live display: that one hides the cursor, and a process
that ends at once on Ctrl-C would not give it back.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TextIO

from kdump.render.commentary import end_on_interrupt, hidden
from kdump.value import pattern
from kdump.words.escape import escape
from kdump.words.numbers import size

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.text import Text

    from kdump.item import Progress

_PATIENCE = 0.5  # seconds before there is a bar at all
_REST = 0.1  # seconds between two drawings
_NARROW = 80  # columns, below which the bar itself is all that fits
_BAR = 30  # columns
_LEAST_BAR = 10
_LEAST_PATH = 14  # columns for the file in hand
_LONG_NAME = pattern(r"^\d{15}(?=\d{5}\.)")


class Bar:
    """A progress bar.

    Attributes:
        found: returns what was found so far, for the sentence that Ctrl-C leaves; empty for nothing.

    Args:
        verb: of the work that runs.
        stream: the terminal.
        clock: seconds from any start on.
        no_color: as of rich's console: None asks NO_COLOR.
        after: what is said behind the line that Ctrl-C leaves.
    """

    def __init__(
        self,
        verb: str,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        *,
        no_color: bool | None = None,
        after: str = "",
    ) -> None:
        self._verb = verb
        self._after = after
        self.stream = stream
        self._clock = clock
        self._no_color = no_color
        self._began = clock()
        self._next = self._began + _PATIENCE
        self._console: Console | None = None
        self._is_drawn = False
        self._last: Progress | None = None
        self.found: Callable[[], str] = str

    def show(self, progress: Progress) -> None:
        """Draw the bar, unless it is too early for that."""
        self._last = progress
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _REST
        if self._console is None:
            from rich.console import Console

            self._console = Console(
                file=self.stream, highlight=False, markup=False, emoji=False, no_color=self._no_color
            )
        if not self._console.is_dumb_terminal:
            self._draw(self._console, progress, now - self._began)

    def hide(self) -> None:
        """Take the bar away before something is written to the terminal."""
        if self._is_drawn and self._console is not None:
            self._is_drawn = False
            self._erase(self._console)

    def end_on_interrupt(self) -> None:
        """On Ctrl-C take the bar away, and say how far the work was."""
        end_on_interrupt(self._told, self.stream)

    def _told(self) -> str:
        self.hide()
        return f"{self._verb} was interrupted{self._how_far()}{self.found()}{self._after}"

    def _how_far(self) -> str:
        last = self._last
        if last is None or not last.total:
            return ""
        return f" at {int(100 * min(1.0, last.done / last.total))} %, {size(last.done)} of {size(last.total)}"

    def _draw(self, console: Console, progress: Progress, seconds: float) -> None:
        from rich.text import Text

        from kdump.render.report.columns import shortened

        share = min(1.0, progress.done / progress.total) if progress.total else 1.0
        speed = progress.done / seconds if seconds > 0 else 0.0
        behind = f"  {int(100 * share):3d} %  {size(progress.done)} of {size(progress.total)}"
        room = console.width - 1 - len(self._verb) - 2
        if console.width >= _NARROW:
            behind += f"  {_left(progress, speed)}"
            pace = f"  {size(int(speed))}/s"
            behind += pace if room - len(behind) - len(pace) >= _LEAST_BAR + _LEAST_PATH else ""
        width = min(_BAR, max(5, room - len(behind) - (_LEAST_PATH if console.width >= _NARROW else 0)))
        line = Text(f"{self._verb}  ")
        line.append_text(_bar(share, width, console))
        line.append(behind)
        rest = room - width - len(behind) - 2
        if rest >= _LEAST_PATH - 2:
            line.append(f"  {shortened(escape(short_path(hidden(progress.path))), rest)}")
        line.truncate(console.width - 1, overflow="ellipsis")
        self._erase(console)
        console.print(line, end="", soft_wrap=True)
        self.stream.flush()
        self._is_drawn = True

    def _erase(self, console: Console) -> None:
        from rich.control import Control
        from rich.segment import ControlType

        console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        self.stream.flush()


def short_path(path: str) -> str:
    """Return the last two parts of a path, without the zeros that all names of segments begin with."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.basename(folder), _LONG_NAME.sub("...", name))


def _bar(share: float, width: int, console: Console) -> Text:
    from rich.text import Text

    whole, half = ("#", "#") if console.options.ascii_only else ("━", "╸")
    halves = int(2 * width * share)
    bar = Text(whole * (halves // 2), style="cyan")
    if halves % 2:
        bar.append(half, style="cyan")
    rest = " " if console.options.ascii_only or not console.color_system else whole
    return bar.append(rest * (width - bar.cell_len), style="bright_black")


def _left(progress: Progress, speed: float) -> str:
    """Return the time that is left as h:mm:ss."""
    if speed <= 0:
        return "-:--:--"
    minutes, seconds = divmod(int((progress.total - progress.done) / speed), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
