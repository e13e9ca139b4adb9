"""The lock of a log directory, taken as a broker takes it, and the processes that have the files open.

A broker holds a POSIX record lock on `<log.dir>/.lock`. It is taken here as an open-file-description lock: that
excludes a broker all the same, and does not vanish when this process closes another descriptor of the file. A free lock
proves nothing alone: a broker whose log directory went offline lets go of it and lives on, with the files open. A
directory that is not a log directory is a copy: only another kdump could be at work there, and `flock` on the directory
tells.

Where a log directory has no lock file, one is made: only then can no broker start. But a process may be killed at any
time, and a file that nobody knows of must not be left. So `flock` comes first, then the journal, which says that the
lock file is its own, and then the file; who undoes or resumes the repair removes it.

Source: org.apache.kafka.server.util.FileLock, LogManager.lockLogDirs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.file_state import state_of, state_of_open
from kdump.storage.held import is_held
from kdump.storage.log_dir import is_log_dir
from kdump.storage.names import LOCK
from kdump.storage.paths import as_owner
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from kdump.storage.fsops import FileOps

_FLOCK = "hhqqi4x"  # l_type, l_whence, l_start, l_len, l_pid, as Linux has them on 64 bits
_TAKEN = (errno.EACCES, errno.EAGAIN)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # to make the file, or to look at it
_TRIES = 5


class DirectoryLock:
    """Held as long as a repair is at work in partition directories, or in the log directory itself.

    Args:
        directories: the partition directories, as the user wrote them; that of no partition where only files of the
            log directory itself change.
        log_dir: the directory that they lie in.
        ops: makes the calls.

    Attributes:
        how: what is locked, for the journal.
        is_missing: there is no lock file yet: once the journal says so, `secure` makes it.

    Raises:
        RefusedError: another process has the lock, or nobody knows.
        FailedError: the lock file cannot be looked at.
    """

    def __init__(self, directories: Sequence[str], log_dir: str, ops: FileOps) -> None:
        self._ops = ops
        self._log_dir = log_dir
        self._parent = self._fd = -1
        self._directories: list[int] = []
        self._is_own = self.is_missing = False
        with self._explained():
            if is_log_dir(self._log_dir) or os.path.lexists(os.path.join(self._log_dir, LOCK)):
                self.how = f"record lock on {os.path.join(os.path.realpath(self._log_dir), LOCK)}"
                self._parent = os.open(self._log_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self.is_missing = not self._take(makes=False)
            else:
                self.how = "flock on the partition directory: it lies in no log directory of a broker"
            if self._fd < 0:
                for directory in directories or (log_dir,):
                    self._take_directory(directory)

    def secure(self) -> None:
        """Make the lock file where it is missing, and take the lock on it.

        Raises:
            RefusedError: a broker, or another kdump, has been faster.
            FailedError: the lock file cannot be made.
        """
        if self.is_missing:
            with self._explained():
                self._take(makes=True)
            self.is_missing = False

    def adopt(self) -> None:
        """Let the lock file be one that is removed at the end: an earlier run has made it, and could not."""
        self._is_own |= self._fd >= 0 and not state_of_open(self._fd).size

    def remove(self) -> None:
        """Remove the lock file if it was made here; the lock on it is held on."""
        if self._is_own:
            named, opened = state_of(self._parent, LOCK), state_of_open(self._fd)
            with suppress(OSError):  # it is empty, and stops nobody
                if named is not None and (named.device, named.inode) == (opened.device, opened.inode):
                    self._ops.remove(self._parent, LOCK)
                self._is_own = False

    def release(self) -> None:
        """Let go; a lock file that was made here goes too."""
        self.remove()
        for fd in (self._fd, self._parent, *self._directories):
            if fd >= 0:
                os.close(fd)
        self._fd = self._parent = -1
        self._directories = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Let go when something fails, and say what that means."""
        try:
            yield
        except OSError as error:
            self.release()
            if error.errno in _NO_ROOM:
                raise FailedError(f"{self._path}: {error.strerror}; nothing was changed") from error
            raise RefusedError(self._unknown(error)) from error
        except BaseException:
            self.release()
            raise

    def _take(self, *, makes: bool) -> bool:
        """Lock the lock file; False when there is none, and none is made."""
        for _ in range(_TRIES):
            if not self._open(makes=makes):
                return False
            try:
                fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
                self._is_own = False  # who has it by now will remove it
                raise RefusedError(_taken(self._fd, self._path), locked=True) from None
            named, opened = state_of(self._parent, LOCK), state_of_open(self._fd)
            if named is not None and (named.device, named.inode) == (opened.device, opened.inode):
                return True
            os.close(self._fd)  # who let go of it has removed it: a lock on it would exclude nobody
            self._fd, self._is_own = -1, False
        raise RefusedError(f"{self._path}: comes and goes: a broker is starting or ending here", locked=True)

    def _open(self, *, makes: bool) -> bool:
        with suppress(FileNotFoundError):
            self._fd = self._ops.open_to_change(self._parent, LOCK)
            return True
        if not makes:
            return False
        owner = state_of(self._parent, FileKind.META_PROPERTIES.value) or state_of_open(self._parent)
        with suppress(FileExistsError):
            self._fd = self._ops.create(self._parent, LOCK)
            self._is_own = True
            made = state_of_open(self._fd)
            if (owner.uid, owner.gid) != (made.uid, made.gid):
                self._ops.own(self._fd, owner.uid, owner.gid)  # a broker must be able to open it later
            self._ops.permit(self._fd, owner.mode & 0o666)
            return True
        self._fd = self._ops.open_to_change(self._parent, LOCK)
        return True

    def _take_directory(self, directory: str) -> None:
        self._directories.append(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            fcntl.flock(self._directories[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"{directory}: another kdump is at work here; wait for it", locked=True) from None

    @property
    def _path(self) -> str:
        return os.path.join(os.path.realpath(self._log_dir), LOCK)

    def _unknown(self, error: OSError) -> str:
        why = f"cannot be locked ({error.strerror}), so whether a broker runs is unknown"
        owner = f"{as_owner(self._path)}, or" if isinstance(error, PermissionError) else ";"
        return f"{self._path}: {why}{owner} work on a copy"


def in_use(log_dir: str) -> str | None:
    """Return who holds the lock of a log directory, None where nobody does; nothing is locked for that.

    Args:
        log_dir: path of it.
    """
    if not is_held(log_dir):
        return None
    path = os.path.join(os.path.realpath(log_dir), LOCK)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # it was let go of
        return None
    try:
        return _taken(fd, path)
    finally:
        os.close(fd)


def _taken(fd: int, path: str) -> str:
    """Say who holds a lock file that is open."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with suppress(OSError):
        holder = struct.unpack_from(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))[4]
        if holder > 0:
            who = f"pid {holder} holds {path}"
            return f"{os.path.dirname(path)} is in use by a broker ({who}). Stop it, or work on a copy."
    who = f"somebody outside of this container holds {path}, or another kdump"
    return f"{os.path.dirname(path)} is in use ({who}). Stop the broker, or work on a copy."


class Users(Value):
    """The processes that have files open."""

    found: list[str]  # a sentence for each process and file
    unseen: tuple[int, ...]  # processes that may be brokers, and into which this one may not look


def users_of(files: dict[tuple[int, int], str]) -> Users:
    """Look through /proc for other processes that have some files open or mapped.

    Args:
        files: names by device and inode.
    """
    found: list[str] = []
    unseen: list[int] = []
    own = os.getpid()
    for pid in _processes():
        if pid == own:
            continue
        try:
            names = {files[at] for at in _open_files(pid) if at in files} | _mapped(pid, files)
        except PermissionError:
            if _may_be_broker(_command(pid)):
                unseen.append(pid)
            continue
        except OSError:  # it has ended
            continue
        found += [f"pid {pid} ({_command(pid)}) has {name} open" for name in sorted(names)]
    return Users(found, tuple(unseen))


def _processes() -> Iterable[int]:
    try:
        return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return ()


def _open_files(pid: int) -> Iterable[tuple[int, int]]:
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            found = os.stat(f"/proc/{pid}/fd/{fd}")
            yield found.st_dev, found.st_ino


def _mapped(pid: int, files: dict[tuple[int, int], str]) -> set[str]:
    by_text = {(os.major(device), os.minor(device), inode): name for (device, inode), name in files.items()}
    inodes = {str(inode).encode() for _, inode in files}
    found: set[str] = set()
    with Path(f"/proc/{pid}/maps").open("rb") as maps:
        for line in maps:
            parts = line.split(None, 5)
            if len(parts) > 4 and parts[4] in inodes:
                major, _, minor = parts[3].partition(b":")
                name = by_text.get((int(major, 16), int(minor, 16), int(parts[4])))
                if name is not None:
                    found.add(name)
    return found


def _may_be_broker(command: str) -> bool:
    """Whether a process of this name may write logs of Kafka."""
    return command in ("?", "java", "jsvc") or "kafka" in command


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"
