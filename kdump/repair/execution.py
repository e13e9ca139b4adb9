"""One repair at work: what its journal says, step by step, in both directions."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.repair import journal
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.file_state import state_of
from kdump.repair.files import AFTER, BEFORE, OTHER, File
from kdump.repair.journal import ARMED, DONE, PLANNED, UNDOING, UNDONE, Journal
from kdump.repair.lock import users_of
from kdump.storage.fsops import FileOps
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.repair.lock import Users
    from kdump.repair.quarantine import Quarantine

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Means(NamedTuple):
    """What a repair works with; tests put in their own.

    Args:
        ops: makes the calls that change something.
        look: tells which processes have files open.
    """

    ops: FileOps = FileOps()
    look: Callable[[dict[tuple[int, int], str]], Users] = users_of


class Applied(Value):
    """A repair that was done.

    Args:
        journal: path of its journal.
        directory: of the partition.
        unseen: processes of others into which could not be looked: they may have the files open.
        checked: paths to verify now.
    """

    journal: str
    directory: str
    unseen: int
    checked: list[str]


class Work:
    """One repair at work."""

    def __init__(self, fields: dict[str, Any], directory: int, quarantine: Quarantine, ops: FileOps) -> None:
        self.directory_path: str = fields["directory"]
        self.journal = Journal(os.path.join(quarantine.path, journal.NAME), quarantine.fd, fields, ops)
        self._quarantine = quarantine
        self._files = [File(entry, directory, quarantine, ops) for entry in fields["changes"]]
        self._directory = directory

    def applied(self, unseen: int) -> Applied:
        """Return what there is to say of it."""
        where = self.directory_path
        logs = [os.path.join(where, file.name) for file in self._files if file.entry["patches"]]
        return Applied(self.journal.path, where, unseen, logs or [where])

    def plan(self, contents: list[Callable[[], bytes] | None]) -> None:
        """Write what the files are to become, and the journal."""
        for file, data in zip(self._files, contents, strict=True):
            if data is not None:
                self._quarantine.put(file.entry["new"], data(), file.entry["after"]["sha256"])
        self._quarantine.sync()
        self.journal.note(PLANNED)

    def prepare(self) -> None:
        """Save what will be gone, write the new files, and arm."""
        sums: dict[str, str] = {}
        for file in self._files:
            sums.update(file.save())
        fields = self.journal.fields
        self._quarantine.explain(fields["command"], fields["directory"], sums)
        self._quarantine.sync()
        for file in self._files:
            file.stage()
        self.journal.note(ARMED)

    def clear(self) -> None:
        """Remove the temporary files, as far as that can be done."""
        for file in self._files:
            with suppress(OSError):
                file.clear()

    def check_resume(self) -> bool:
        """Refuse before anything is written when the repair cannot be gone on with; tell whether something is left."""
        state = self.journal.state
        if state in (UNDOING, UNDONE):
            what = "is being undone: go on with kdump undo" if state == UNDOING else "was undone: run the command again"
            raise RefusedError(f"{self.journal.path}: this repair {what}")
        if state != DONE:
            self.demand((BEFORE,) if state == PLANNED else None)
            self._demand_rights()
        return state != DONE

    def check_undo(self) -> bool:
        """Refuse before anything is written when the repair cannot be taken back; tell whether something is left."""
        state = self.journal.state
        if state not in (PLANNED, UNDONE):  # there nothing is changed, whatever others have done since
            self.demand((BEFORE, AFTER) if state == DONE else None)
            self._demand_rights()
            if any(file.where() != BEFORE for file in self._files):
                self._demand_inputs()
        return state != UNDONE

    def carry_out(self) -> None:
        """Make the changes, each by itself."""
        with part_way(self.journal.path):
            for file in self._files:
                with _undisturbed():
                    file.forward()
            self.demand((AFTER,))
            for file in self._files:
                file.clear()
            self.journal.note(DONE)

    def take_back(self) -> None:
        """Take the changes back, the last one first: the log is whole again before its indexes are."""
        if self.journal.state == PLANNED:
            with part_way(self.journal.path, "undo"):
                for file in self._files:
                    file.clear()
                self.journal.note(UNDONE)
            return
        with part_way(self.journal.path, "undo"):
            self.journal.note(UNDOING)
            for file in reversed(self._files):
                with _undisturbed():
                    file.backward()
            for file in self._files:
                file.clear()
            self.demand((BEFORE,))
            self.journal.note(UNDONE)

    def demand(self, allowed: tuple[str, ...] | None) -> None:
        """Refuse unless each file is in one of some states; None for all in which somebody else did nothing."""
        for file in self._files:
            where = file.where()
            if where == OTHER or (allowed is not None and where not in allowed):
                path = os.path.join(self.directory_path, file.name)
                links = file.links()
                if links > 1:
                    why = f"has {links} names by now, and would change under all; remove the others"
                    raise RefusedError(f"{path}: {why}; nothing was done")
                raise RefusedError(f"{path}: was changed by somebody else since, or is another file; nothing was done")

    def _demand_rights(self) -> None:
        """Refuse when a file would get another owner than it has, or more rights."""
        for file in self._files:
            why = file.exceeds()
            if why:
                raise RefusedError(f"{os.path.join(self.directory_path, file.name)}: {why}; nothing was done")

    def _demand_inputs(self) -> None:
        """Refuse when a file from which the changes follow is another one by now."""
        for name, planned in self.journal.fields["inputs"].items():
            now = state_of(self._directory, name)
            if now is None or (now.inode, now.size, now.modified) != tuple(
                planned[key] for key in ("inode", "size", "modified")
            ):
                path = os.path.join(self.directory_path, name)
                raise RefusedError(
                    f"{path}: was changed since: what the undo would bring back does not fit it any more"
                )


@contextmanager
def part_way(path: str, verb: str = "resume") -> Iterator[None]:
    """What fails here leaves a journal behind."""
    try:
        yield
    except (OSError, RefusedError, KeyboardInterrupt) as error:
        other = "undo" if verb == "resume" else "resume"
        then = f"go on with kdump {verb} {path}" + ("" if verb == "undo" else f", or back with kdump {other} {path}")
        sentence = (
            error.sentence
            if isinstance(error, RefusedError)
            else sentence_of(error)
            if isinstance(error, OSError)
            else "interrupted"
        )
        raise FailedError(f"{sentence}; {then}", path) from error


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait until a change is made and on the disk."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sentence_of(error: OSError) -> str:
    """Return what an error says, with the name of the file when it has one."""
    name = error.filename if isinstance(error.filename, str) else None
    why = error.strerror or str(error)
    return why if name is None else f"{name}: {why}"
