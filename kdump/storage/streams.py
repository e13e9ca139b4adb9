"""Streams that a user names: stdin, pipes and FIFOs. They are read once, to a file of our own that has no name.

What can be sought is read as it is. Nothing that was not named is ever read so: to open a FIFO that lies in a directory
could wait for ever.
"""

from __future__ import annotations

import os
import select
import stat
from functools import partial
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.java_values import MAX_INT
from kdump.storage.file_source import FileSource, OpenFailure
from kdump.storage.nameless_file import nameless_file
from kdump.storage.open_files import STREAMS
from kdump.storage.paths import OF_THIS_PROCESS, STDIN
from kdump.words.numbers import size

if TYPE_CHECKING:
    from typing import BinaryIO

    from kdump.format.source import Source

MOST = 2 * MAX_INT
"""Bytes of a stream; a log has half of that at most."""
_WAIT = 3.0  # seconds for somebody to open a FIFO for writing
_PIECE = 1 << 20


class StreamSource(FileSource):
    """A Source over what came from a stream.

    Args:
        path: as the user wrote it.
        spool: the file that has its bytes.
    """

    def __init__(self, path: str, spool: BinaryIO) -> None:
        self.name = path
        self._fd = os.dup(spool.fileno())
        self.status = os.fstat(self._fd)
        self.size = self.status.st_size
        self.modified = self.status.st_mtime_ns // 1_000_000

    @property
    def is_growing(self) -> bool:
        """No: it is read to its end."""
        return False


def take_stream(path: str) -> None:
    """Read a stream to its end, once; who opens its path later gets what came, or why nothing did.

    Args:
        path: as the user wrote it; of a stream.
    """
    if path in STREAMS:
        return
    try:
        found = _taken(path)
    except OSError as error:
        found = OpenFailure(path, "other", f"{path}: cannot be read: {error.strerror or error}")
    STREAMS[path] = partial(StreamSource, path, found) if not isinstance(found, OpenFailure) else lambda: found


def first_offset(source: Source | OpenFailure) -> int:
    """Return the base offset of a log that has no name: that of its first batch; 0 where that does not tell one.

    Args:
        source: the log, open; or why it is not.
    """
    if isinstance(source, OpenFailure):
        return 0
    try:
        header = source.read_at(0, layout.MAGIC_AT + 1)
    except OSError:  # it is told when the log is read
        return 0
    is_known = len(header) > layout.MAGIC_AT and header[layout.MAGIC_AT] == layout.MAGIC_V2
    return max(0, int.from_bytes(header[:8], "big", signed=True)) if is_known else 0


def _taken(path: str) -> BinaryIO | OpenFailure:
    fd = os.dup(0) if path == STDIN else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    stream = os.fdopen(fd, "rb", buffering=0)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) and os.lseek(fd, 0, os.SEEK_CUR) == 0:
        return stream
    with stream:
        if stat.S_ISDIR(mode):
            return OpenFailure(path, "directory", f"{path}: is a directory, and a file is meant here")
        if os.isatty(fd):
            return OpenFailure(path, "special", f"{path}: is a terminal: name a file, or let a command write to it")
        if stat.S_ISFIFO(mode) and path != STDIN and not path.startswith(OF_THIS_PROCESS) and not _has_writer(fd):
            what = f"no writer came to this FIFO within {_WAIT:.0f} s: start what writes to it first"
            return OpenFailure(path, "special", f"{path}: {what}")
        return _spooled(path, fd)


def _has_writer(fd: int) -> bool:
    """Whether somebody writes to a FIFO, or has written to it and closed it."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(_WAIT * 1000))


def _spooled(path: str, fd: int) -> BinaryIO | OpenFailure:
    spool = nameless_file()
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    done = 0
    while True:
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            poll.poll()
            continue
        if not data:
            break
        done += len(data)
        if done > MOST:
            spool.close()
            return OpenFailure(path, "limit", f"{path}: more than {size(MOST)} came: write it to a file, and name that")
        spool.write(data)
    spool.flush()
    return spool
