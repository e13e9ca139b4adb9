"""What of a file is in the page cache, as mincore tells it; nothing of kdump is used here."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PAGE = mmap.PAGESIZE


def cached(path: Path) -> set[int]:
    """The numbers of the pages of a file that are there."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        found = ctypes.create_string_buffer(-(-size // PAGE))
        try:
            assert not libc.mincore(start, size, found)
        finally:
            libc.munmap(start, size)
    return {at for at, one in enumerate(found.raw) if one & 1}


def drop(path: Path) -> None:
    """Let a file leave the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def touch(path: Path, first: int, end: int) -> None:
    """Bring some pages of a file into the page cache, and no others."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), (end - first) * PAGE, first * PAGE)
