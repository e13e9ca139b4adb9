"""The directory that salvage writes into: what may be there already, and names that are final or not."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.format.java_values import MAX_INT
from kdump.rows.salvaged import Salvaged
from kdump.storage.directory import cannot_list
from kdump.storage.json_rows import name_of, rows_in, shown
from kdump.storage.json_rules import BadValueError, fields, items, maybe, number, text
from kdump.storage.names import SALVAGE_ROWS
from kdump.storage.outputs import refuse_inside_sources
from kdump.storage.own_files import (
    DIRECTORY,
    demand_leftovers,
    demand_own_place,
    make_own_place,
    open_own,
    own_place,
)
from kdump.storage.paths import parent
from kdump.storage.refusal import RefusedError
from kdump.value import TupleValue
from kdump.words.command import ShellCommand, named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.storage.fsops import FileOps

_MADE_FOR = {"topicId": maybe(text), "leaderEpoch": maybe(number(0, MAX_INT))}
_TEMPORARY = ".kdump-salvage~"  # no topic has such a character in its name


class Made(TupleValue):
    """What a result is made of, and for."""

    sources: tuple[str, ...]  # the paths of the user
    topic_id: str | None = None  # None where no source has it
    # of the cluster that it is for: the one that no leader epoch of the result is above; None where it is for none
    leader_epoch: int | None = None

    def serves_as(self, wanted: Made) -> bool:
        """Tell whether it is what another run would make; what fits a cluster fits it still when that has gone on."""
        if self.sources != wanted.sources:
            return False
        if self.leader_epoch is None or wanted.leader_epoch is None:
            return self.leader_epoch is None and wanted.leader_epoch is None
        return self.topic_id == wanted.topic_id and self.leader_epoch <= wanted.leader_epoch


class Target:
    """The directory that salvage writes into.

    Args:
        path: of the directory, as the user wrote it.
        ops: makes the calls.
    """

    def __init__(self, path: str, ops: FileOps) -> None:
        self.path = path
        self.fd = -1  # descriptor of the directory, once it is open
        self._ops = ops
        self._sources: tuple[str, ...] = ()
        self._seen: list[str] = []  # what lay there when it was judged

    def check(self, sources: Iterable[str], names: dict[str, Made]) -> set[str]:
        """Refuse a directory that is not new, not empty, or has what salvage has not left.

        Partitions that it has made in other runs stay as they are: the steps of verify come one after the other. A
        directory that is there is opened, and stays open: what was looked at is what is written to.

        Args:
            sources: the paths of the user: it may lie in none.
            names: of the partitions that are to be made, each with what its last row will tell.

        Returns:
            the names of the partitions that are whole already.

        Raises:
            RefusedError: it is refused.
            OSError: it cannot be made.
        """
        self._sources = tuple(sources)
        refuse_inside_sources(self.path, self._sources, "--to")
        if not os.path.lexists(self.path):
            above = parent(self.path) or "."
            if not os.path.lexists(above):
                make = ShellCommand("mkdir", "-p", named(above))
                why = f"no such directory, and --to goes into it; make it first: {make}"
                raise FileNotFoundError(errno.ENOENT, why, above)
            os.close(os.open(above, DIRECTORY))
            if not os.access(above, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                raise PermissionError(errno.EACCES, f"cannot be made: {os.strerror(errno.EACCES)}", self.path)
            own_place(self.path, sticky=False)
            return set()
        if not os.path.isdir(self.path):
            raise RefusedError(f"{self.path}: not a directory; name a new one")
        try:
            return self._opened(names)
        except BaseException:
            self.close()
            raise

    def _opened(self, names: dict[str, Made]) -> set[str]:
        """Open the directory that is there; what a former run has left says what is removed, and what stays.

        Raises:
            RefusedError: it has something else, or somebody else may have made it.
        """
        try:
            self.fd = os.open(self.path, DIRECTORY)
            self._seen = sorted(os.listdir(self.fd))
        except OSError as error:
            raise RefusedError(cannot_list(self.path, error).sentence) from None
        whole = self._whole(set(self._seen), names)
        demand_own_place(self.path, self.fd)
        demand_leftovers(self.fd, self.path, self._seen)
        return whole

    def _whole(self, entries: set[str], names: dict[str, Made]) -> set[str]:
        whole: set[str] = set()
        for entry in sorted(entries):
            if entry.startswith(_TEMPORARY):
                continue
            if entry.endswith(SALVAGE_ROWS):
                partition = entry.removesuffix(SALVAGE_ROWS)
                if partition in entries or partition in names:
                    continue
            elif (made := self.made(entry)) is not None:
                if entry not in names:
                    continue
                if made.serves_as(names[entry]):
                    whole.add(entry)
                    continue
                how = "of other sources" if made.sources != names[entry].sources else "for another cluster, or for none"
                raise RefusedError(f"{self.path}: {entry} was made {how}; name a new directory")
            raise RefusedError(f"{self.path}: has {entry} already; name a new directory, or an empty one")
        return whole

    def rows_path(self, partition: str) -> str:
        """Return the path of the file with what became of every offset."""
        return os.path.join(self.path, f"{partition}{SALVAGE_ROWS}")

    def made(self, partition: str) -> Made | None:
        """Return what the last row of a partition tells, None where there is none."""
        try:
            rows = open_own(self.fd, f"{partition}{SALVAGE_ROWS}", self.rows_path(partition), "a file of rows of kdump")
        except OSError:
            return None
        found: Made | None = None
        try:
            table = {Salvaged.row_name: fields({"sources": items(shown)}, _MADE_FOR, more=True)}
            for _, row in rows_in(lambda at, size: os.pread(rows, size, at), table):
                sources = tuple(str(name_of(one)) for one in row["sources"])
                found = Made(sources, row.get("topicId"), row.get("leaderEpoch"))
        except (BadValueError, OSError):
            return None
        finally:
            os.close(rows)
        return found

    def open(self) -> None:
        """Open the directory, and make it where it was not there; each process does so for itself.

        Raises:
            RefusedError: somebody else has made it meanwhile, or it lies in a source by now.
            OSError: it cannot be made.
        """
        if self.fd >= 0:
            return
        refuse_inside_sources(self.path, self._sources, "--to")
        self.fd = make_own_place(self.path, self._ops, is_new=False)

    def clean(self) -> None:
        """Remove what a killed run has left, before anything is made: what was judged, and nothing that came since."""
        for entry in self._seen:
            if entry.startswith(_TEMPORARY):
                self.discard(entry)
            elif entry.endswith(SALVAGE_ROWS) and entry.removesuffix(SALVAGE_ROWS) not in self._seen:
                self._ops.remove(self.fd, entry)

    def publish(self, partition: str) -> None:
        """Give what is whole under temporary names its final ones: the rows first.

        Args:
            partition: its name.
        """
        self.open()
        self._ops.rename(self.fd, _rows_name(partition), f"{partition}{SALVAGE_ROWS}")
        self._ops.sync(self.fd)
        self._ops.rename(self.fd, f"{_TEMPORARY}{partition}", partition)
        self._ops.sync(self.fd)

    def forget(self, partition: str) -> None:
        """Remove what stands under temporary names, as far as that can be done.

        Args:
            partition: its name.
        """
        with suppress(OSError, RefusedError):
            self.open()
            for name in (f"{_TEMPORARY}{partition}", _rows_name(partition)):
                with suppress(OSError):
                    self.discard(name)

    def discard(self, name: str) -> None:
        """Remove a temporary file, or a temporary directory with its files."""
        try:
            found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode):
            self._ops.remove(self.fd, name)
            return
        inner = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
        try:
            for one in os.listdir(inner):
                self._ops.remove(inner, one)
        finally:
            os.close(inner)
        self._ops.remove_directory(self.fd, name)

    def close(self) -> None:
        """Close the directory."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def free(self) -> int:
        """Return how many bytes there are for files."""
        found = os.fstatvfs(self.fd)
        return found.f_bavail * found.f_frsize


class Staging:
    """The files of one partition under temporary names.

    Args:
        target: where they go.
        partition: its name.
        ops: makes the calls.
    """

    def __init__(self, target: Target, partition: str, ops: FileOps) -> None:
        self._target = target
        self._partition = partition
        self._ops = ops
        self._name = f"{_TEMPORARY}{partition}"
        self._rows_name = _rows_name(partition)
        self._at = 0
        self._buffer: list[bytes] = []
        self._held = 0
        self._rows = -1
        self.directory = -1  # descriptor of the temporary directory

    def open(self) -> None:
        """Make the temporary directory and the temporary file of rows."""
        for name in (self._name, self._rows_name):
            self._target.discard(name)
        self._ops.make_directory(self._target.fd, self._name)
        self.directory = os.open(self._name, DIRECTORY | os.O_NOFOLLOW, dir_fd=self._target.fd)
        self._rows = self._ops.create(self._target.fd, self._rows_name)

    def row(self, text: str) -> None:
        """Write the line of a row."""
        data = f"{text}\n".encode("ascii")
        self._buffer.append(data)
        self._held += len(data)
        if self._held >= 1 << 16:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._buffer)
        self._ops.write(self._rows, data, self._at)
        self._at += len(data)
        self._buffer, self._held = [], 0

    @property
    def rows_file(self) -> int:
        """The descriptor of the rows."""
        return self._rows

    def finish(self) -> None:
        """Bring all of it to the disk; `Target.publish` then gives it its names."""
        self._flush()
        self._ops.sync(self._rows)
        self._ops.sync(self.directory)

    def close(self) -> None:
        """Close what is open."""
        for fd in (self._rows, self.directory):
            if fd >= 0:
                os.close(fd)
        self._rows = self.directory = -1

    def discard(self) -> None:
        """Remove what is under temporary names, as far as that can be done."""
        self.close()
        self._target.forget(self._partition)


def _rows_name(partition: str) -> str:
    return f"{_TEMPORARY}{partition}{SALVAGE_ROWS}"
