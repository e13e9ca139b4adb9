"""A tree of kdump's files in an object store, written by way of a directory on this machine.

A run gets the notes of the runs before, and an empty file in the place of each file of rows, to know that it is there.
What it has made is put into the store when it has ended: each file as a whole, the list of the present state last, and
then what the list no longer has is removed. So readers by the list see the state before or the state after, and a run
that is killed has changed nothing that they see. A store has no locks: who puts a list there looks whether it is still
the one that the run began with, and gives way where it is not; two that look in the same moment are not told apart.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.storage.object_store import files_below, put_file, read_whole, remove_file
from kdump.storage.own_tree import STATE, TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAN, PRESENT = "plan.json", "present.json"
"""The names of the two lists: of an export, and of the present state of tables that are kept."""
_LISTS = f"{STATE}/{PLAN}", f"{STATE}/{PRESENT}"
_BEGUN = f"{STATE}/begun.json"  # it says that the files around it are kdump's, before there is a list


class StoreChangedError(Exception):
    """Another run has written to the store meanwhile; the message is one line for the user."""


class StagedTree:
    """A tree of a store, and the directory that stands for it.

    Args:
        url: of the tree.

    Attributes:
        directory: on this machine.

    Raises:
        OSError: the store cannot be read, or there is no room here.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._root = tempfile.mkdtemp(prefix="kdump-store-")
        self.directory = os.path.join(
            self._root, *filter(None, self.url.replace("://", "/").split("/"))
        )  # for messages
        self._seen: dict[str, tuple[int, int, int]] = {}  # size, time and inode of each file here, as it was made
        self._lists: dict[str, bytes | None] = {}  # those that the run began with
        self._has_begun = self._is_put = False
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Have here what is there; say there that a run has begun, where nothing of somebody else lies there."""
        Path(self.directory).parent.mkdir(parents=True)
        there = files_below(self.url)
        if there and not any(STATE in one.split("/")[:-1] for one in there):
            raise OSError(errno.EEXIST, f"{there[0]} lies there, and nothing says that kdump has made it", self.url)
        self._lists = {one: self._list(one) for one in _LISTS}
        if _BEGUN in there:
            Path(self.directory, STATE).mkdir(parents=True)
        else:
            self._put(_BEGUN, b"{}\n")  # who may not write there is told so before the work
            self._has_begun = True
        for inside in there:
            if inside == _BEGUN:
                continue
            names = _names(inside, f"{self.url}/{inside}")
            path = Path(self.directory, *names)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(read_whole(f"{self.url}/{inside}") if STATE in names[:-1] else b"")
            self._seen[inside] = _facts(str(path))

    def _list(self, inside: str) -> bytes | None:
        """What a list in the store says; None where there is none."""
        try:
            return read_whole(f"{self.url}/{inside}")
        except FileNotFoundError:
            return None

    def put(self) -> None:
        """Put what has been made here into the store, and remove there what was removed here.

        Raises:
            StoreChangedError: another run has written the list meanwhile.
            OSError: the store cannot be written; nothing of this run counts there.
        """
        now = dict(self._files())
        changed = sorted((one for one, facts in now.items() if self._seen.get(one) != facts), key=_order)
        if changed:
            self._demand_unchanged()
        self._is_put = self._is_put or bool(now)
        for inside in changed:
            if inside in _LISTS:
                self._demand_unchanged(inside)
            self._put(inside)
        for inside in sorted(self._seen):
            if not os.path.lexists(self._here(inside)):
                remove_file(f"{self.url}/{inside}")

    def _here(self, inside: str) -> str:
        return os.path.join(self.directory, *inside.split("/"))

    def _put(self, inside: str, data: bytes | None = None) -> None:
        content: str | bytes = self._here(inside) if data is None else data
        if isinstance(content, str) and inside in _LISTS:
            content = Path(content).read_bytes()  # in one piece: a list is never there in part
        put_file(f"{self.url}/{inside}", content)

    def _demand_unchanged(self, *lists: str) -> None:
        if any(self._list(one) != self._lists[one] for one in lists or _LISTS):
            raise StoreChangedError(f"{self.url}: another run has written there meanwhile; run it again")

    def _files(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        for folder, _, names in os.walk(self.directory):
            for name in names:
                path = os.path.join(folder, name)
                if not name.endswith(TEMPORARY):
                    yield os.path.relpath(path, self.directory).replace(os.sep, "/"), _facts(path)

    def close(self) -> None:
        """Remove the directory, and what says that a run has begun, where it has put nothing."""
        try:
            if self._has_begun and not self._is_put:
                remove_file(f"{self.url}/{_BEGUN}")
        finally:
            shutil.rmtree(self._root, ignore_errors=True)


@contextmanager
def staged(url: str) -> Iterator[StagedTree]:
    """Give a tree of a store, and remove the directory at the end; what is to be in the store is put there before.

    Raises:
        OSError: the store cannot be read.
    """
    tree = StagedTree(url)
    try:
        yield tree
    finally:
        tree.close()


def _names(path: str, url: str) -> list[str]:
    """The names in a path of a store, none of which leads away here."""
    names = path.split("/")
    if any(one in ("", os.curdir, os.pardir) or "\0" in one for one in names):
        raise OSError(errno.EINVAL, "this name leads away from its directory: nothing is read or written there", url)
    return names


def _facts(path: str) -> tuple[int, int, int]:
    found = os.stat(path, follow_symlinks=False)
    return found.st_size, found.st_mtime_ns, found.st_ino


def _order(inside: str) -> tuple[int, str]:
    """Plans first, then rows, then notes, then runs and the list: what says that something is there comes behind it."""
    folders, _, name = inside.rpartition("/")
    if STATE not in folders.split("/"):
        return 1, inside
    if name == PLAN:
        return 0, inside
    return (4 if name == PRESENT else 3 if folders.endswith("/runs") else 2), inside
