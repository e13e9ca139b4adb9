"""The quarantine of one repair: copies of all that it replaces or removes, under names that no broker reads."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kdump.repair.file_state import (
    open_directory,
    open_to_read,
    pieces,
    sha256_of_name,
    state_of,
)
from kdump.storage.own_files import DIRECTORY, demand_ours, led_to
from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from kdump.storage.fsops import FileOps

_ODD = pattern(r"[^A-Za-z0-9._-]")
_README = """\
kdump {command} of {directory}

journal.json   what was done; kdump undo {path}/journal.json --apply brings everything back,
               and kdump resume {path}/journal.json finishes it after a crash
cut.records    the bytes that were cut from the end of the log
old.*.bin      the files that were replaced or removed, as they were
new.*.bin      what they became

Keep this directory until another replica, or time, has proven that nothing in it is wanted.
"""


class Quarantine:
    """A directory for one repair.

    Args:
        path: of the directory, without links.
        fd: its descriptor; closed with the quarantine.
        ops: makes the calls.
        has_made_root: the directory that it lies in was made for it.
    """

    def __init__(self, path: str, fd: int, ops: FileOps, *, has_made_root: bool = False) -> None:
        self.path = path
        self.fd = fd  # its descriptor
        self._ops = ops
        self._has_made_root = has_made_root

    @classmethod
    def make(cls, root: str, partition: str, command: str, owner: int, ops: FileOps) -> Self:
        """Make a new one.

        Args:
            root: the directory that the user named; made when it is not there.
            partition: name of the partition directory.
            command: what is done to it.
            owner: of the partition directory, who may have the root too.
            ops: makes the calls.

        Raises:
            RefusedError: others could put something in the place of what lies there, or a link of theirs leads there.
        """
        root = led_to(root)
        has_made_root = not os.path.isdir(root)
        with ExitStack() as made:  # goes again where something fails
            if has_made_root:
                made.callback(_remove_directory, root, ops)
                try:
                    _make_directory(os.path.dirname(root), os.path.basename(root), ops)
                except FileExistsError:  # somebody else has been faster: it is not removed
                    made.pop_all()
                    raise
            above = os.open(root, DIRECTORY | os.O_NOFOLLOW)
            made.callback(os.close, above)
            owners = {os.geteuid(), 0, *(() if os.geteuid() else (owner,))}
            _demand_ours(root, above, owners, sticky=True)
            stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{_ODD.sub('_', partition)}-{command}"
            name, number = stem, 1
            while state_of(above, name) is not None:
                number += 1
                name = f"{stem}-{number}"
            path = os.path.join(root, name)
            made.callback(_remove_directory, path, ops)
            ops.make_directory(above, name)
            ops.sync(above)
            fd = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            made.callback(os.close, fd)
            _demand_ours(path, fd, {os.geteuid()})
            made.pop_all()
        os.close(above)
        return cls(path, fd, ops, has_made_root=has_made_root)

    def save(self, name: str, source: int, start: int, end: int, sha256: str) -> None:
        """Save the bytes [start, end) of a file, and read back what was written.

        Args:
            name: of the copy.
            source: descriptor of the file.
            start, end: bytes, half-open.
            sha256: what they must have.
        """
        self._write(name, pieces(source, start, end), sha256)

    def put(self, name: str, data: bytes, sha256: str) -> None:
        """Write a file, and read it back."""
        self._write(name, (data,), sha256)

    def _write(self, name: str, data: Iterable[bytes], sha256: str) -> None:
        if state_of(self.fd, name) is not None:  # of a run that was ended
            self._ops.remove(self.fd, name)
        fd, at = self._ops.create(self.fd, name), 0
        try:
            for piece in data:
                self._ops.write(fd, piece, at)
                at += len(piece)
            self._ops.sync(fd)
        finally:
            os.close(fd)
        self.demand(name, sha256)

    def demand(self, name: str, sha256: str) -> None:
        """Raise OSError unless a file is there and whole."""
        if sha256_of_name(self.fd, name) != sha256:
            raise OSError(f"{os.path.join(self.path, name)} is not what was written there")

    def explain(self, command: str, directory: str, sums: dict[str, str]) -> None:
        """Write what this directory is, and the hashes of its files; nothing depends on that."""
        texts = {
            "README": _README.format(command=command, directory=directory, path=self.path),
            "SHA256SUMS": "".join(f"{sha256}  {name}\n" for name, sha256 in sums.items()),
        }
        for name, text in texts.items():
            if state_of(self.fd, name) is not None:
                self._ops.remove(self.fd, name)
            fd = self._ops.create(self.fd, name)
            try:
                self._ops.write(fd, text.encode("utf-8", "surrogateescape"), 0)
            finally:
                os.close(fd)

    def read(self, name: str) -> int:
        """Return a descriptor to read a file."""
        return open_to_read(self.fd, name)

    def sync(self) -> None:
        """Wait until the names are on the disk."""
        self._ops.sync(self.fd)

    def discard(self) -> None:
        """Remove it, and the directory that was made for it, as far as that can be done: nothing was changed.

        The journal goes first: without it nobody takes the rest for more than it is.
        """
        with suppress(OSError):
            names = sorted(os.listdir(self.fd), key=lambda name: (not name.startswith("journal"), name))
            for name in names:
                self._ops.remove(self.fd, name)
            _remove_directory(self.path, self._ops)
        if self._has_made_root:
            _remove_directory(os.path.dirname(self.path), self._ops)

    def close(self) -> None:
        """Close the directory; a second time does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _demand_ours(path: str, fd: int, owners: set[int], *, sticky: bool = False) -> None:
    found = os.fstat(fd)
    demand_ours(path, found.st_uid, found.st_mode, owners, sticky=sticky)


def _remove_directory(path: str, ops: FileOps) -> None:
    """Remove a directory, if it is empty: another repair may have begun in it."""
    with suppress(OSError):
        fd = open_directory(os.path.dirname(path))
        try:
            ops.remove_directory(fd, os.path.basename(path))
        finally:
            os.close(fd)


def _make_directory(parent: str, name: str, ops: FileOps) -> None:
    fd = open_directory(parent)
    try:
        ops.make_directory(fd, name)
        ops.sync(fd)
    finally:
        os.close(fd)
