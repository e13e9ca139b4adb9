"""Says once, where much is read without compiled kernels, how much longer that takes; loaded in that case only."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MUCH = 64 * 1024 * 1024  # bytes of logs that are read without a word
# CPU of whole processes, interpreted against compiled, over 70 MiB. Source: tests/bench/interpreted.py
SLOWER = {"verify": 25, "dump --print-data-log": 90}

_SAID, _READ = 0, 1  # whether it was said, and bytes of logs: all processes of a run share these numbers
_listener: tuple[Callable[[str], None], memoryview] | None = None


def listen(tell: Callable[[str], None]) -> None:
    """Begin to count what is read; the library does not.

    Args:
        tell: takes what is to be said, a sentence.
    """
    global _listener  # noqa: PLW0603 (a process has one stderr)
    _listener = tell, memoryview(mmap.mmap(-1, 16)).cast("q")


def count(size: int) -> None:
    """Take note of bytes that are read; say it where they are more than `MUCH`.

    Args:
        size: bytes.
    """
    if _listener is None:
        return
    tell, shared = _listener
    shared[_READ] += size
    if shared[_READ] > MUCH and not shared[_SAID]:
        shared[_SAID] = 1
        times = " and ".join(f"{verb} takes {factor} times as long" for verb, factor in SLOWER.items())
        tell(
            f"more than {MUCH >> 20} MiB are to be read, and kdump's kernels are not compiled: {times} as with them;"
            " install a C compiler, then kdump again, or one of its wheels"
        )
