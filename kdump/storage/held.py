"""Whether a broker is at work: the lock of a log directory, and the log that it may be appending to."""

from __future__ import annotations

import os

from kdump.format.kinds import FileKind
from kdump.storage.names import LOCK, parse_name

_FLOCK = "hhqqi"  # l_type, l_whence, l_start, l_len, l_pid, as Linux has them on 64 bits


def is_held(log_dir: str) -> bool:
    """Tell whether another process holds the lock of a log directory, as a running broker does.

    Args:
        log_dir: its path. Without a lock file nobody holds it.

    Source: kafka.utils.FileLock.
    """
    import fcntl
    import struct

    try:
        lock = os.open(os.path.join(log_dir, LOCK), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return False
    try:
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(lock, fcntl.F_GETLK, asked)
    except OSError:
        return False
    finally:
        os.close(lock)
    return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)


def is_growing(log: str) -> bool:
    """Tell whether a broker may be appending to a log: the last one of a partition, in a log directory that is held.

    What stands at its end may not be whole yet, and zeros there are space that was taken in advance.

    Args:
        log: its path.
    """
    directory, own = os.path.split(os.path.abspath(log))
    if not _is_live_log(own) or not is_held(os.path.dirname(directory)):
        return False
    try:
        return not any(name > own and _is_live_log(name) for name in os.listdir(directory))
    except OSError:
        return False


def _is_live_log(name: str) -> bool:
    found = parse_name(name)
    return found.kind is FileKind.LOG and found.is_live
