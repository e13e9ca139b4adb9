"""Reading where others work: no faster than is allowed, behind them at the disk, and with the page cache left alone.

`be` sets it for this process and those that it starts from then on; `FileSource` keeps to it. The rate is that of all
of them together: who wants to read asks in shared memory when its turn is.

What a file has in the page cache is asked for before each piece is read, and only what was not there is dropped
afterwards. So the kernel must not read ahead: else the next piece would seem to have been there before.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kdump.storage.file_source import CannotKeepCacheError, FileSource
from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = mmap.PAGESIZE
_PIECE = 1024 * 1024  # bytes that are read at once at most
_SMALLEST = 4096
_OFTEN = 20  # pieces a second, so that the disk is free in between
_SECOND = 1_000_000_000  # ns
_LATE = _SECOND // 2  # of lost time is made good: a process is not always woken when it wants to be
_CACHESTAT = 451  # its number on every machine of Linux
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
_IDLE, _CLASS_SHIFT, _THIS_PROCESS = 3, 13, 1
_MAY_ALWAYS = 1 << 3  # CAP_FOWNER: counts as the owner of every file
_TOLD: dict[str, Any] = {"rate": None, "keeps_cache": False, "idle": False}  # what `be` was called with
_ABSENT = pattern(rb"\0+")  # pages, a byte each
_PRESENT = bytes(one & 1 for one in range(256))  # the other bits of mincore mean nothing


class _Pace:
    """When the next bytes may be read, for all processes together.

    Args:
        rate: bytes a second.
    """

    def __init__(self, rate: int) -> None:
        import fcntl

        self._rate = rate
        self._lock = fcntl.lockf, fcntl.LOCK_EX, fcntl.LOCK_UN
        self._file = _nameless()  # a process that is killed lets go of its lock
        self._next = memoryview(mmap.mmap(-1, 8)).cast("q")  # ns, of the monotonic clock
        self.piece = min(_PIECE, max(_SMALLEST, rate // _OFTEN // _PAGE * _PAGE))

    def wait(self, size: int) -> None:
        """Wait until so many bytes may be read."""
        lockf, take, let_go = self._lock
        lockf(self._file, take)
        try:
            now = time.monotonic_ns()
            start = max(now - _LATE, self._next[0] or now)
            self._next[0] = start + size * _SECOND // self._rate
        finally:
            lockf(self._file, let_go)
        if start > now:
            time.sleep((start - now) / _SECOND)

    def __del__(self) -> None:
        os.close(self._file)


def _nameless() -> int:
    """The descriptor of a file without a name, for its locks."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kdump")
    import tempfile

    file, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108 (a descriptor and its name, as the system has them)
    return file


class _Guest:
    """How this process reads: see `be`."""

    def __init__(self, rate: int | None, *, keeps_cache: bool) -> None:
        self._pace = None if rate is None else _Pace(rate)
        self._cache = _PageCache() if keeps_cache else None
        self._piece = _PIECE if self._pace is None else self._pace.piece

    def opened(self, file: int) -> None:
        """Take note of a file that was opened."""
        if self._cache is not None:
            with suppress(OSError):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead

    def pieces(self, file: int, path: str, position: int, length: int) -> Iterator[tuple[int, int]]:
        """Yield what to read next, position and length, when it is its turn; the piece before it is read then.

        Args:
            file: descriptor.
            path: of it, for messages.
            position, length: what is wanted, bytes.

        Raises:
            CannotKeepCacheError: nobody tells what is in the page cache.
        """
        end = position + length
        while position < end:
            size = min(self._piece, end - position)
            if self._pace is not None:
                self._pace.wait(size)
            if self._cache is None:
                yield position, size
            else:
                with self._cache.kept(file, path, position, size):
                    yield position, size
            position += size


def be(*, rate: int | None = None, keeps_cache: bool = False, idle: bool = False) -> None:
    """Read as a guest from now on.

    Args:
        rate: bytes a second at most, of this process and those that it starts together; None for any.
        keeps_cache: what is read leaves the page cache again; what was there before stays.
        idle: read when nobody else does, where the system has such a class.

    Raises:
        CannotKeepCacheError: the system cannot even be asked.
    """
    FileSource.policy = _Guest(rate, keeps_cache=keeps_cache) if rate is not None or keeps_cache else None
    _TOLD.update(rate=rate, keeps_cache=keeps_cache, idle=idle)
    if idle:
        _be_idle()


def of_each(count: int) -> dict[str, Any]:
    """Return what to call `be` with in each of so many processes that this one has not started itself."""
    rate = _TOLD["rate"]
    return {**_TOLD, "rate": None if rate is None else max(1, rate // count)}


def _be_idle() -> None:
    number = _IOPRIO_SET.get(os.uname().machine) if sys.platform == "linux" else None
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, _THIS_PROCESS, 0, _IDLE << _CLASS_SHIFT)


class _Range(ctypes.Structure):
    """struct cachestat_range of Linux."""

    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    """struct cachestat of Linux."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


class _PageCache:
    """What of files is in the page cache."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise CannotKeepCacheError("--drop-cache: this system does not tell what is in the page cache; go without")
        self._libc = libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
        self._is_probed = False

    @contextmanager
    def kept(self, file: int, path: str, position: int, length: int) -> Iterator[None]:
        """Leave the page cache as it was: drop what is read within, unless it was there.

        Args:
            file: descriptor.
            path: of it, for messages.
            position, length: what is read, bytes.
        """
        first, end = position // _PAGE, -(-(position + length) // _PAGE)
        is_told = _may_ask(file)
        absent = self._mapped(file, first, end) if is_told else self._counted(file, first, end)
        if absent is None:
            raise CannotKeepCacheError.of(path)
        try:
            yield
        finally:
            if absent and not is_told:
                self._demand_truth(file, path, *absent[0])
            for start, stop in absent:
                os.posix_fadvise(file, start * _PAGE, (stop - start) * _PAGE, os.POSIX_FADV_DONTNEED)

    def _mapped(self, file: int, first: int, end: int) -> list[tuple[int, int]] | None:
        """The runs of pages that are not there, by mincore on a mapping that nobody touches; None: it does not say."""
        size = (end - first) * _PAGE
        start = self._libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, first * _PAGE)
        if start is None or start == ctypes.c_void_p(-1).value:
            return self._counted(file, first, end)
        found = ctypes.create_string_buffer(end - first)
        try:
            failed = self._libc.mincore(start, size, found)
        finally:
            self._libc.munmap(start, size)
        if failed:  # the file has become shorter
            return self._counted(file, first, end)
        pages = found.raw.translate(_PRESENT)
        return [(first + run.start(), first + run.end()) for run in _ABSENT.finditer(pages)]

    def _counted(self, file: int, first: int, end: int) -> list[tuple[int, int]] | None:
        """The same by cachestat, which counts: where some are there and some are not, in halves."""
        count = self._count(file, first, end)
        if count is None:
            return None
        if count >= end - first:
            return []
        if not count:
            return [(first, end)]
        middle = (first + end) // 2
        left, right = self._counted(file, first, middle), self._counted(file, middle, end)
        return None if left is None or right is None else left + right

    def _count(self, file: int, first: int, end: int) -> int | None:
        """How many pages of a range are there; None where nobody tells."""
        wanted, found = _Range(first * _PAGE, (end - first) * _PAGE), _Stat()
        failed = self._libc.syscall(_CACHESTAT, file, ctypes.byref(wanted), ctypes.byref(found), 0)
        return None if failed else int(found.cache)

    def _demand_truth(self, file: int, path: str, first: int, end: int) -> None:
        """What was just read is there: cachestat that says otherwise looks at another file, as on overlays."""
        if not self._is_probed and not self._count(file, first, end):
            raise CannotKeepCacheError.of(path)
        self._is_probed = True


def _may_ask(file: int) -> bool:
    """Whether mincore tells the truth: of files of others that may not be written it calls every page resident."""
    if os.fstat(file).st_uid == os.geteuid() or (os.geteuid() == 0 and _counts_as_owner()):
        return True
    return os.access(f"/proc/self/fd/{file}", os.W_OK)


def _counts_as_owner() -> bool:
    with suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:  # noqa: PTH123
        rights = re.search(rb"CapEff:\s*([0-9a-f]+)", file.read())
        return rights is not None and bool(int(rights[1], 16) & _MAY_ALWAYS)
    return False
