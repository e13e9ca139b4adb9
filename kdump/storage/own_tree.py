"""A tree of files that kdump writes and reads back: no link leads out of it, and each file appears whole or not at all.

The directory on top, and all below it, must be the user's own (`own_files`).
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from kdump.storage.own_files import make_directories, open_own_directory, open_own_place, own_place

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE = "_kdump"
"""The directory of what kdump notes for itself: readers of tables leave names with such a beginning alone."""
TEMPORARY = ".tmp"
"""The end of the name of a file that is not whole yet."""
ROWS_FOLDER = r"topic=[A-Za-z0-9_.~%-]+/partition=[A-Za-z0-9_.~%-]+"
"""The form of the directories that the rows of a partition lie in."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def top_of(directory: str, *, makes: bool = False) -> Iterator[int]:
    """Give the descriptor of the directory on top.

    What is made on the way is asked about like what was there: somebody else may have been faster.

    Raises:
        RefusedError: somebody else may write there, or may put another directory in its place.
        OSError: it is not there, or cannot be made.
    """
    if makes:
        make_directories(own_place(directory, sticky=False))
    outer = open_own_place(directory)
    try:
        yield outer
    finally:
        os.close(outer)


@contextmanager
def folder_in(directory: str, folder: str, *, makes: bool = False) -> Iterator[int]:
    """Give the descriptor of a directory inside another one; no link leads there.

    Args:
        directory: the one on top.
        folder: inside; empty for the directory itself.
        makes: what is not there is made.

    Raises:
        RefusedError: somebody else may write there, or a link leads away.
        OSError: it is not there, or cannot be made.
    """
    with ExitStack() as opened:
        at, path = opened.enter_context(top_of(directory, makes=makes)), directory
        try:
            for name in folder.split("/") if folder else ():
                if makes:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=at)
                path = os.path.join(path, name)
                at = open_own_directory(path, at, name)
                opened.callback(os.close, at)
            yield at
        except OSError as error:  # a name alone does not say which directory it is in
            if error.filename is None:  # of a write
                error.filename = path
            elif isinstance(error.filename, str) and os.sep not in error.filename:
                error.filename = os.path.join(path, error.filename)
            raise


def new_file(folder: int, name: str) -> int:
    """Make a new file and open it for writing: what has the name is neither followed nor written to.

    Args:
        folder: descriptor of its directory.
        name: in it.

    Raises:
        OSError: it cannot be made; something has the name, for one.
    """
    return os.open(name, _NEW, 0o644, dir_fd=folder)


@contextmanager
def replacing(folder: int, name: str) -> Iterator[TextIO]:
    """Give a file that takes the place of what has a name, as a whole, once all is written.

    Args:
        folder: descriptor of its directory.
        name: in it.

    Raises:
        OSError: it cannot be written.
    """
    temporary = f"{name}.{os.urandom(4).hex()}{TEMPORARY}"
    with os.fdopen(new_file(folder, temporary), "w", encoding="ascii") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def write_json(folder: int, name: str, value: object) -> None:
    """Write a file of JSON as a whole, in the place of what has its name.

    Args:
        folder: descriptor of its directory.
        name: in it.
        value: in JSON's types.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(folder, name) as file:
        json.dump(value, file)
