"""Paths on this machine or in an object store: the few questions that verbs and sources ask of them."""

from __future__ import annotations

import os
import re
import stat
from itertools import islice
from pathlib import Path

_MOST_NAMES = 2000  # of a directory that are looked at for one that was meant
_ALIKE = 0.8

DID_YOU_MEAN = "; did you mean "
"""Begins the end of a sentence that names what the user has not named."""
AS_OWNER = ("; run as ", "; you own ")
"""Each begins the end of a sentence that names a user of this machine, or a directory that nobody has named."""


STDIN = "-"
"""The name that a user gives to stdin."""
OF_THIS_PROCESS = "/dev/fd/", "/dev/stdin", "/proc/self/fd/"
"""Paths of files that are open already begin with one of these."""


def is_stream(path: str) -> bool:
    """Tell whether a path that a user named is a stream, and not a file of a broker.

    Args:
        path: as the user wrote it.
    """
    if path == STDIN or path.startswith(OF_THIS_PROCESS):
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_remote(path: str) -> bool:
    """Tell whether a path is the URL of an object store."""
    return "://" in path


def is_dir(path: str) -> bool:
    """Tell whether a path leads to a directory."""
    if is_remote(path):
        from kdump.storage.object_store import is_directory

        return is_directory(path)
    return os.path.isdir(path)


def exists(path: str, *, follow: bool = True) -> bool:
    """Tell whether a file or a directory has this path.

    Args:
        path: as the user wrote it.
        follow: a symbolic link counts for what it leads to.
    """
    if is_remote(path):
        from kdump.storage.object_store import info

        return any(info(path)[:2])
    return os.path.exists(path) if follow else os.path.lexists(path)


def size(path: str) -> int:
    """Return the present size of a file, bytes; a symbolic link is not followed.

    Raises:
        OSError: there is none.
    """
    if is_remote(path):
        from kdump.storage.object_store import info

        _, is_file, found = info(path)
        if not is_file:
            raise FileNotFoundError(path)
        return found
    return os.stat(path, follow_symlinks=False).st_size


def why_not(path: str, error: OSError) -> str:
    """Return why the system does not give a file or a directory, and what to do where rights are missing."""
    if not isinstance(error, PermissionError):
        return error.strerror or str(error)
    return "permission denied by the store" if is_remote(path) else f"permission denied{as_owner(path)}"


def as_owner(path: str) -> str:
    """Return as whom to run where rights are missing, as the end of a sentence.

    Args:
        path: of a file or directory; where nobody tells whose that is, the directory above it counts.
    """
    whole = os.path.abspath(path)
    at = _shut(whole)
    what = "it" if at == whole else at
    run_as, you_own = AS_OWNER
    owner = os.stat(at).st_uid
    if owner == os.geteuid():
        return f"{you_own}{what}: chmod u+rwX gives you the right"
    return f"{run_as}{owner_name(owner) or f'user {owner}'}, who owns {what}"


def owner_name(uid: int, form: str = "%s") -> str:
    """Return the name of a user of this machine; empty for one of another machine, or of a container.

    Args:
        uid: user id.
        form: how the name is written where there is one.
    """
    from pwd import getpwuid

    try:
        return form % getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


def _shut(path: str) -> str:
    """Return the first directory on the way to a path that may not be entered; else how far the path leads."""
    at, *names = Path(path).parts
    for name in names:
        if not os.access(at, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            return at
        if not os.path.lexists(os.path.join(at, name)):
            return at
        at = os.path.join(at, name)
    return at


def above(directory: str) -> str:
    """Return the path of the directory that another one lies in: by way of that one where it is a symbolic link."""
    if is_remote(directory):
        return directory.rstrip("/").rpartition("/")[0]
    head, tail = os.path.split(directory.rstrip(os.sep))
    if tail in ("", os.curdir, os.pardir) or os.path.islink(directory.rstrip(os.sep)):
        return os.path.join(directory, os.pardir)
    return head or os.curdir


def parent(directory: str) -> str:
    """Return the directory above another one by the path as the user wrote it: where a symbolic link lies."""
    if is_remote(directory):
        return above(directory)
    head, tail = os.path.split(directory.rstrip(os.sep))
    return os.path.join(directory, os.pardir) if tail in ("", os.curdir, os.pardir) else head


def real(path: str) -> str:
    """Return the path by which a file is known again, symbolic links resolved; a URL stays as it is."""
    return path if is_remote(path) else os.path.realpath(path)


def absolute(path: str) -> str:
    """Return a path that does not depend on the current directory; a URL stays as it is."""
    return path if is_remote(path) else os.path.abspath(path)


def normal(path: str) -> str:
    """Return a path without doubled separators and without one at its end."""
    return path.rstrip("/") if is_remote(path) else os.path.normpath(path)


def relative_to(directory: str, path: str) -> str:
    """Return a path that was written relative to a directory."""
    return path if is_remote(path) else os.path.join(directory, path)


def base_name(directory: str) -> str:
    """Return the name of a directory, also where the user wrote `.` or a separator at the end."""
    return os.path.basename(os.path.abspath(directory))


def did_you_mean(path: str) -> str:
    """Return the name beside a missing path that was probably meant, as the end of a sentence; empty for none.

    What differs in digits alone is no slip of the fingers: another partition or segment. Beside one of those nothing
    else is meant either: the topic is right.

    Args:
        path: as the user wrote it.
    """
    head, name = os.path.split(path.rstrip(os.sep))
    if is_remote(path) or not name or name[0].isdigit():
        return ""
    try:
        with os.scandir(head or os.curdir) as entries:
            names = [entry.name for entry in islice(entries, _MOST_NAMES)]
    except (OSError, ValueError):
        return ""
    without = re.sub(r"[0-9]", "", name)
    others = [one for one in names if re.sub(r"[0-9]", "", one) != without]
    if not others or len(others) < len(names):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(name, others, 1, _ALIKE)
    return f"{DID_YOU_MEAN}{os.path.join(head, near[0])}?" if near else ""
