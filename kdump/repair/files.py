"""One change of a file, carried out and taken back; each step may be repeated after a crash."""

from __future__ import annotations

import base64
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kdump.repair.errors import RefusedError
from kdump.repair.file_state import attributes_of, opened, pieces, sha256_of, sha256_of_name, state_of, state_of_open
from kdump.storage.names import log_bases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.repair.file_state import FileState
    from kdump.repair.places import Places
    from kdump.repair.quarantine import Quarantine
    from kdump.storage.fsops import FileOps

BEFORE, AFTER, BETWEEN, OTHER = "before", "after", "between", "other"


class File:
    """One file of a repair, by what the journal says of it.

    Args:
        entry: from the journal.
        places: the directories of the repair.
        quarantine: has what was saved.
        ops: makes the calls.
    """

    def __init__(self, entry: dict[str, Any], places: Places, quarantine: Quarantine, ops: FileOps) -> None:
        self.entry = entry
        self.name: str = entry["name"]
        self._base = os.path.basename(self.name)
        self._places = places
        self._quarantine = quarantine
        self._ops = ops

    @property
    def _directory(self) -> int:
        return self._places.of(self.name)[0]

    # --- looking --------------------------------------------------------------------------------------
    def where(self) -> str:
        """Return which of its states the file is in: BEFORE, AFTER, BETWEEN or OTHER."""
        state = self._places.state(self.name)
        if state is not None and state.kind != "regular":
            return OTHER
        if self.entry["cut"] is not None or self.entry["patches"]:
            return OTHER if state is None or not self._is_same(state) else self._where_in_place()
        now = None if state is None else sha256_of_name(self._directory, self._base)
        for side in (AFTER, BEFORE):
            wanted = self.entry[side]
            if now == (None if wanted is None else wanted["sha256"]):
                return side
        return OTHER

    def _is_same(self, state: FileState) -> bool:
        """Whether it may be written in its place. Not by its device: the number of one changes when it is mounted."""
        return state.kind == "regular" and state.links == 1 and state.inode == self.entry["before"]["inode"]

    def links(self) -> int:
        """Return how many names a file has that is written in its place; 1 for all others."""
        state = self._places.state(self.name)
        in_place = self.entry["cut"] is not None or self.entry["patches"]
        return state.links if state is not None and in_place and state.kind == "regular" else 1

    def exceeds(self) -> str:
        """Return why what the journal would make here has an owner or rights that nothing here has, else nothing.

        A file that is written in its place keeps both.
        """
        if self.entry["cut"] is not None or self.entry["patches"]:
            return ""
        like, state = self.entry["before"] or self.entry["like"], self._places.state(self.name)
        here = state or _lasting(self._directory)
        if here is not None and (like["uid"], like["gid"]) != (here.uid, here.gid):
            has = f"belongs to {here.uid}:{here.gid} here"
            return f"{has}, and the journal would give it to {like['uid']}:{like['gid']}"
        if state is not None and like["mode"] & ~state.mode:
            return f"has mode {state.mode:04o}, and the journal would give it {like['mode']:04o}"
        return ""

    def _where_in_place(self) -> str:
        with opened(self._directory, self._base) as fd:
            size = os.fstat(fd).st_size
            return self._where_cut(fd, size) if self.entry["cut"] is not None else self._where_patched(fd, size)

    def _where_cut(self, fd: int, size: int) -> str:
        cut, kept, whole = self.entry["cut"], self.entry["after"]["size"], self.entry["before"]["size"]
        if not kept <= size <= whole or sha256_of(fd, 0, kept) != cut["prefix"]:
            return OTHER
        if size == kept:
            return AFTER
        return BEFORE if size == whole and sha256_of(fd, kept) == cut["tail"] else BETWEEN

    def _where_patched(self, fd: int, size: int) -> str:
        if size != self.entry["before"]["size"]:
            return OTHER
        sha256 = sha256_of(fd)
        if sha256 == self.entry["after"]["sha256"]:
            return AFTER
        if sha256 == self.entry["before"]["sha256"]:
            return BEFORE
        for position, old, new in self._patches():
            now = os.pread(fd, len(old), position)
            if any(byte not in pair for byte, *pair in zip(now, old, new, strict=True)):
                return OTHER
        return BETWEEN

    def _patches(self) -> Iterator[tuple[int, bytes, bytes]]:
        for position, old, new in self.entry["patches"]:
            yield position, bytes.fromhex(old), bytes.fromhex(new)

    # --- before anything is seen ----------------------------------------------------------------------------
    def save(self) -> dict[str, str]:
        """Copy what will be gone; return name and hash of the copies."""
        sums = {}
        if self.entry["saved"] is not None:
            cut, before = self.entry["cut"], self.entry["before"]
            start, sha256 = (self.entry["after"]["size"], cut["tail"]) if cut else (0, before["sha256"])
            with opened(self._directory, self._base) as fd:
                self._quarantine.save(self.entry["saved"], fd, start, before["size"], sha256)
            sums[self.entry["saved"]] = sha256
        if self.entry["new"] is not None:
            sums[self.entry["new"]] = self.entry["after"]["sha256"]
        return sums

    def stage(self) -> None:
        """Write the new file under its temporary name, with the owner and the rights that it is to have.

        A file that is changed in its place is opened for that once: what forbids it must show before anything changes.
        """
        if self.entry["cut"] is not None or self.entry["patches"]:
            with self._to_change():
                pass
        if self.entry["temporary"] is not None:
            like = self.entry["before"] or self.entry["like"]
            self._write(self.entry["temporary"], self.entry["new"], self.entry["after"], like)

    def clear(self) -> None:
        """Remove temporary files."""
        for name in (self.entry["temporary"], self.entry["back"]):
            if name is not None and state_of(self._directory, name) is not None:
                self._ops.remove(self._directory, name)

    # --- there and back -------------------------------------------------------------------------------------
    def forward(self) -> None:
        """Make the change; what is made already is only brought to the disk."""
        where, entry, ops = self.where(), self.entry, self._ops
        if where == OTHER or (where == BETWEEN and entry["cut"] is not None):
            raise RefusedError(f"{self.name} is neither what it was nor what it was to become; nothing more was done")
        if entry["cut"] is not None:
            with self._to_change() as fd:
                if where == BEFORE:
                    ops.cut(fd, entry["after"]["size"])
                ops.sync(fd)
            return
        if entry["patches"]:
            with self._to_change() as fd:
                for position, _, new in self._patches() if where != AFTER else ():
                    ops.write(fd, new, position)
                ops.sync(fd)
            return
        if entry["after"] is None:
            if where == BEFORE:
                ops.remove(self._directory, self._base)
        elif where == BEFORE:
            if sha256_of_name(self._directory, entry["temporary"]) != entry["after"]["sha256"]:
                self.stage()
            ops.rename(self._directory, entry["temporary"], self._base)
        ops.sync(self._directory)

    def backward(self) -> None:
        """Take the change back."""
        where, entry, ops = self.where(), self.entry, self._ops
        if where == OTHER:
            raise RefusedError(f"{self.name} was changed by somebody else since; nothing more was done")
        before = entry["before"]
        if entry["cut"] is not None or entry["patches"]:
            with self._to_change() as fd:
                if where != BEFORE:
                    self._restore_in_place(fd)
                if os.fstat(fd).st_mtime_ns != before["modified"]:
                    ops.date(fd, before["accessed"], before["modified"])
                ops.sync(fd)
            return
        if where == AFTER and before is None:
            ops.remove(self._directory, self._base)
        elif where == AFTER:
            self._write(entry["back"], entry["saved"], before, before, dated=True)
            ops.rename(self._directory, entry["back"], self._base)
        ops.sync(self._directory)

    def _restore_in_place(self, fd: int) -> None:
        if self.entry["cut"] is None:
            for position, old, _ in self._patches():
                self._ops.write(fd, old, position)
            return
        at: int = self.entry["after"]["size"]
        self._quarantine.demand(self.entry["saved"], self.entry["cut"]["tail"])
        source = self._quarantine.read(self.entry["saved"])
        try:
            for data in pieces(source, 0, self.entry["before"]["size"] - at):
                self._ops.write(fd, data, at)
                at += len(data)
        finally:
            os.close(source)

    # --- help -----------------------------------------------------------------------------------------------
    @contextmanager
    def _to_change(self) -> Iterator[int]:
        """The file open for writing: the one that was looked at, and under no other name."""
        fd = self._ops.open_to_change(self._directory, self._base)
        try:
            if not self._is_same(state_of_open(fd)):
                raise RefusedError(f"{self.name} is not the file that it was; nothing more was done")
            yield fd
        finally:
            os.close(fd)

    def _write(
        self, name: str, source: str, wanted: dict[str, Any], like: dict[str, Any], *, dated: bool = False
    ) -> None:
        """Write a file of the quarantine under a temporary name, and read it back."""
        ops = self._ops
        if state_of(self._directory, name) is not None:
            ops.remove(self._directory, name)
        self._quarantine.demand(source, wanted["sha256"])
        copy, fd, at = self._quarantine.read(source), -1, 0
        try:
            fd = ops.create(self._directory, name)
            for data in pieces(copy, 0, wanted["size"]):
                ops.write(fd, data, at)
                at += len(data)
            self._dress(fd, like)
            if dated:
                ops.date(fd, like["accessed"], like["modified"])
            ops.sync(fd)
        finally:
            os.close(copy)
            if fd >= 0:
                os.close(fd)
        if sha256_of_name(self._directory, name) != wanted["sha256"]:
            raise OSError(f"{name} is not what was written there")

    def _dress(self, fd: int, like: dict[str, Any]) -> None:
        """Give a new file the owner, the rights and the attributes that it is to have."""
        made = state_of_open(fd)
        if (made.uid, made.gid) != (like["uid"], like["gid"]):
            self._ops.own(fd, like["uid"], like["gid"])
        has = attributes_of(fd)
        for name, text in like["attributes"].items():
            value = base64.b64decode(text)
            if has.get(name) != value:
                self._ops.attribute(fd, name, value)
        self._ops.permit(fd, like["mode"])


def _lasting(directory: int) -> FileState | None:
    """The first log of a partition, whose files have one owner; a log directory has no log, and counts itself."""
    logs = log_bases(os.listdir(directory))
    return state_of(directory, f"{logs[0]:020}.log") if logs else state_of_open(directory)
