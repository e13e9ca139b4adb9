"""A disk that cannot read some bytes of a file."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest import MonkeyPatch  # noqa: PT013

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def unreadable(path: Path, *ranges: range) -> Iterator[list[int]]:
    """Let no read of a file succeed that touches one of the ranges; yields the positions of the reads that failed."""
    reading, reading_into, wanted = os.pread, os.preadv, path.stat()
    failed: list[int] = []

    def check(fd: int, length: int, position: int) -> None:
        if os.path.samestat(os.fstat(fd), wanted) and any(
            position < bad.stop and position + length > bad.start for bad in ranges
        ):
            failed.append(position)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def pread(fd: int, length: int, position: int) -> bytes:
        check(fd, length, position)
        return reading(fd, length, position)

    def preadv(fd: int, targets: list[memoryview], position: int) -> int:
        check(fd, len(targets[0]), position)
        return reading_into(fd, targets, position)

    with MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", pread)
        patch.setattr(os, "preadv", preadv)
        yield failed
