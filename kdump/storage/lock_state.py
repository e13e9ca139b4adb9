"""Whether a broker has a log directory open, by asking only: no lock is taken."""

from __future__ import annotations

import fcntl
import os
import struct

_FLOCK = "hhqqi"  # l_type, l_whence, l_start, l_len, l_pid, as Linux has them on 64 bits
_LOCK = ".lock"


def is_held(log_dir: str) -> bool:
    """Tell whether another process holds the lock of a log directory, as a running broker does.

    Args:
        log_dir: its path. Without a lock file nobody holds it.

    Source: kafka.utils.FileLock.
    """
    try:
        lock = os.open(os.path.join(log_dir, _LOCK), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
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
