"""Where the bytes of one process go: to stdout and stderr, or held until it is its turn."""

from __future__ import annotations

import os
import stat
import sys
from select import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_DUMB = ("dumb", "unknown")  # terminals without escape sequences, as rich has it, which draws the bar


class OutputBuffer(bytearray):
    """A buffer of output. `Output` may hold it as it is, without a copy, and gives another one in return."""


class Output:
    """Where the bytes of one process go: held, until it is its turn, then to stdout and stderr.

    What goes out is counted in the memory that all share, after each write: if the process is killed, the one that does
    its unit again leaves out as many bytes.

    Args:
        counts: the numbers of bytes that went to stdout and to stderr in this turn; None where nobody counts.
        pipe: readable when nobody waits for the output any more; None for none.
        has_bar: a progress bar may stand where stderr goes: it is erased before a line.
    """

    def __init__(
        self, counts: memoryview | None = None, pipe: Connection | None = None, *, has_bar: bool = False
    ) -> None:
        self._counts = counts
        self._pipe = pipe
        self._skip = [0, 0]
        self._files = [sys.stdout.fileno(), sys.stderr.fileno()] if counts is not None else [-1, -1]
        if counts is not None:
            self._files = [_unwaited(file) for file in self._files]
        self._has_bar = has_bar
        self._spare: list[OutputBuffer] = []  # what was held in: memory that is given back comes at a price
        self.held: list[object] | None = None
        self.size = 0  # bytes that are held, about

    def skip(self, stdout: int, stderr: int) -> None:
        """Leave out the first bytes: they were written."""
        self._skip = [stdout, stderr]

    def hold(self) -> None:
        """Keep what is written until `release`."""
        self.held, self.size = [], 0

    def keep(self, item: object, size: int) -> None:
        """Hold something else than bytes, in its place between them; its size is about so many bytes."""
        assert self.held is not None
        self.held.append(item)
        self.size += size

    def release(self) -> list[object]:
        """Return what was held: bytes as memoryviews, to be given to `put`; what is written now goes out."""
        held, self.held, self.size = self.held or [], None, 0
        return held

    def put(self, view: memoryview, *, lost: bool = False) -> None:
        """Write what was held, or leave it out where it is lost."""
        if not lost:
            self.write(view)
        if isinstance(view.obj, OutputBuffer):
            self._spare.append(view.obj)

    def write(self, data: bytes | memoryview) -> OutputBuffer | None:
        """Write to stdout; where a whole buffer is held instead, return another one for what comes next."""
        if self.held is None:
            self._out(0, data)
            return None
        self.size += len(data)
        if isinstance(data, memoryview) and isinstance(data.obj, OutputBuffer):
            self.held.append(data)
            return self._spare.pop() if self._spare else OutputBuffer(len(data.obj))
        self.held.append(memoryview(bytes(data)))
        return None

    def error(self, data: bytes) -> None:
        """Write to stderr, after all that stdout got; over a progress bar."""
        self._out(1, erase().encode() + data if self._has_bar else data)

    def _out(self, which: int, data: bytes | memoryview) -> None:
        skip = min(self._skip[which], len(data))
        self._skip[which] -= skip
        rest = memoryview(data)[skip:]
        if self._counts is None:
            if rest:
                stream = (sys.stdout, sys.stderr)[which].buffer
                if which:
                    sys.stdout.buffer.flush()
                stream.write(rest)
                if which:
                    stream.flush()
            return
        if self._pipe is not None and is_ready(self._pipe):
            os._exit(0)  # nobody waits for it
        while rest:
            try:
                done = os.write(self._files[which], rest)
            except BlockingIOError:
                select((), self._files[which : which + 1], ())
                continue
            self._counts[which] += done
            rest = rest[done:]


def is_ready(pipe: Connection) -> bool:
    """Whether something has come, or nobody is at the other end: as `poll`, for a tenth of its time."""
    return bool(select([pipe.fileno()], (), (), 0)[0])


def _unwaited(file: int) -> int:
    """A descriptor of the same pipe that writes what fits and does not wait: how much went out is always known."""
    if not stat.S_ISFIFO(os.fstat(file).st_mode):
        return file
    try:
        return os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return file


def erase() -> str:
    """What takes a progress bar away; a terminal without escape sequences gets none, and has no bar."""
    return "" if os.environ.get("TERM", "").lower() in _DUMB else "\r\x1b[K"
