"""What is under a path, on this machine or in a store: the few questions that listings and checks ask."""

from __future__ import annotations

import os

from kdump.storage.file_source import is_remote


def is_dir(path: str) -> bool:
    """Tell whether a path leads to a directory."""
    if is_remote(path):
        from kdump.storage.object_store import info

        return info(path)[0]
    return os.path.isdir(path)


def exists(path: str, *, follow: bool = True) -> bool:
    """Tell whether there is anything.

    Args:
        path: of it.
        follow: a symbolic link counts for what it leads to.
    """
    if is_remote(path):
        from kdump.storage.object_store import info

        return any(info(path)[:2])
    return os.path.exists(path) if follow else os.path.lexists(path)


def size(path: str) -> int:
    """Return the bytes of a file; a symbolic link is not followed.

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


def file_names(directory: str) -> list[str]:
    """Return the names of the regular files in a directory, in no order.

    Raises:
        OSError: it cannot be listed.
    """
    if is_remote(directory):
        from kdump.storage.object_store import entries

        return [name for name, is_directory in entries(directory) if not is_directory]
    with os.scandir(directory) as found:
        return [entry.name for entry in found if entry.is_file(follow_symlinks=False)]


def above(directory: str) -> str:
    """Return the path of the directory that another one lies in, by way of that one: it may be a symbolic link."""
    if is_remote(directory):
        return directory.rstrip("/").rpartition("/")[0]
    return os.path.join(directory, os.pardir)


def parent(directory: str) -> str:
    """Return the directory above another one by the path as the user wrote it: where a symbolic link lies."""
    head, tail = os.path.split(directory.rstrip(os.sep))
    return os.path.join(directory, os.pardir) if tail in ("", os.curdir, os.pardir) else head
