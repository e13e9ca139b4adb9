"""Carries out a plan: first all that can fail, with nothing to be seen; then each change by itself, in order.

1. Lock, look at everything again, refuse what is not as planned.
2. Quarantine: what the files are to become, and the journal, `planned`. Where the log directory has no lock file, it
   is made and locked now, and everything is looked at once more: the journal knows of it, whatever happens.
3. Copies of all that will be gone, read back; the new files beside the old ones, under names no broker looks at.
4. The journal, `armed`. Up to here a failure leaves nothing behind, and a crash nothing that a broker sees.
5. Each change: a rename, a cut, a few bytes, a removal, and the disk is waited for before the next one. The order is
   that of the plan: indexes before the log, as a broker believes an index that is longer than its log.
6. Everything is read once more; the journal, `done`.

Whatever happens after the journal is there, `resume` finishes the repair and `undo` takes it back.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import signal
import sys
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kdump.repair import guard, journal
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.file_state import (
    attributes_of,
    open_directory,
    opened,
    pieces,
    sha256_of,
    sha256_of_name,
    state_of_open,
)
from kdump.repair.files import AFTER, BEFORE, OTHER, File
from kdump.repair.journal import ARMED, DONE, PLANNED, UNDOING, UNDONE, Journal, repairs
from kdump.repair.lock import DirectoryLock, users_of
from kdump.repair.places import Places, directories_of
from kdump.repair.quarantine import Quarantine
from kdump.repair.schema import REPAIR, names_aside
from kdump.storage.fsops import FileOps
from kdump.storage.paths import as_owner
from kdump.value import TupleValue, Value
from kdump.words.command import command_line, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.repair.lock import Users
    from kdump.repair.plan import Change, Plan

_NO_RIGHT = (errno.EPERM, errno.EACCES, errno.ENOTSUP)
_IF_LATER = "where a later repair did that, undo it first, by its journal in the quarantine that it was given"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def apply(plan: Plan, quarantine: str, argv: list[str], means: Means | None = None) -> Applied:
    """Carry out a plan.

    Args:
        plan: what is to be done; with at least one change.
        quarantine: the directory that the user named for it.
        argv: the command line, for the journal.
        means: what to work with.

    Raises:
        RefusedError: nothing was done.
        FailedError: a call failed; with a journal when something may have changed.
    """
    means = means or Means()
    guard.check_directories(plan.places)
    guard.check_quarantine(quarantine, plan.places)
    with ExitStack() as stack:
        lock = stack.enter_context(DirectoryLock(plan.partitions, plan.log_dir, means.ops))
        directory = open_directory(plan.directory)
        stack.callback(os.close, directory)
        places = Places(directory, plan.directory)
        stack.callback(places.close)
        guard.check_plan(plan, places)
        unseen = guard.check_users(plan, places, means.look)
        guard.check_room(plan, quarantine)
        as_its_owner = partial(as_owner, plan.directory)
        with _nothing_changed(as_its_owner):
            mark = os.urandom(4).hex()
            entries = [describe(change, places, mark, at) for at, change in enumerate(plan.changes)]
            fields = _fields(plan, argv, lock, entries)
            owner = os.fstat(directory).st_uid
        with _nothing_changed(lambda: "; name a place for --quarantine where you may write"):
            place = Quarantine.make(quarantine, plan.partition, plan.command, owner, means.ops)
            stack.callback(place.close)
        work = Work(fields, places, place, means)
        try:
            with _nothing_changed(as_its_owner):
                work.plan([None if one.content is None else one.content.data for one in plan.changes])
                if lock.is_missing:
                    lock.secure()
                    guard.check_users(plan, places, means.look)
                guard.check_plan(plan, places)  # reading took its time
                work.prepare()
        except BaseException:
            work.clear()
            lock.remove()  # while the journal still says whose it is
            place.discard()
            raise
        work.carry_out()
        return work.applied(unseen)


def argv_of() -> list[str]:
    """Return the command line, as far as JSON can have it."""
    return [os.fsencode(word).decode("utf-8", "backslashreplace") for word in sys.argv]


def _fields(plan: Plan, argv: list[str], lock: DirectoryLock, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return journal.new_fields(
        plan.command,
        argv,
        directory=os.path.realpath(plan.directory),
        partition=plan.partition,
        planId=plan.plan_id,
        lock={"how": lock.how, "creates": lock.is_missing},
        inputs={name: state.fields() for name, state in plan.inputs.items()},
        changes=entries,
        bytesLost=plan.bytes_lost,
        recordsLost=plan.records_lost,
        logEndOffset=plan.log_end_offset,
    )


@contextmanager
def _nothing_changed(without_right: Callable[[], str]) -> Iterator[None]:
    """Errors within it have changed nothing; where rights are missing the sentence ends with what to do."""
    try:
        yield
    except OSError as error:
        sentence = f"{sentence_of(error)}; nothing was changed"
        if error.errno in _NO_RIGHT:
            raise RefusedError(f"{sentence}{without_right()}") from error
        raise FailedError(sentence) from error


def describe(change: Change, places: Places, mark: str, number: int = 0) -> dict[str, Any]:
    """Return what the journal says about a change.

    Args:
        change: the change.
        places: the directories of the repair.
        mark: makes the names of temporary files of this repair differ from others.
        number: of the change.
    """
    directory, name = places.of(change.name)
    aside = names_aside(change.name, number)
    saved = new = cut = None
    before, after = _before(change, places), {"size": change.size, "sha256": ""}
    if change.is_cut:
        with opened(directory, name) as fd:
            cut = {"prefix": sha256_of(fd, 0, change.size), "tail": sha256_of(fd, change.size)}
        saved, after["sha256"] = aside.cut, cut["prefix"]
    elif change.patches:
        with opened(directory, name) as fd:
            after["sha256"] = _patched_sha256(fd, change)
    elif change.before is not None:
        saved = aside.old
    if change.content is not None:
        new, after["sha256"] = aside.new, change.content.sha256
    return {
        "name": change.name,
        "action": change.action,
        "before": before,
        "after": None if change.action == "delete" else after,
        "like": _metadata(places, change.like),
        "cut": cut,
        "patches": [[one.position, one.old.hex(), one.new.hex()] for one in change.patches],
        "saved": saved,
        "new": new,
        "temporary": None if new is None else f"kdump-{name}-{mark}.tmp",
        "back": f"kdump-{name}-{mark}-back.tmp",
    }


def _before(change: Change, places: Places) -> dict[str, Any] | None:
    if change.before is None:
        return None
    sha256 = None if change.is_cut else sha256_of_name(*places.of(change.name))
    return {**_metadata(places, change.name), "size": change.before.size, "sha256": sha256}


def _metadata(places: Places, path: str) -> dict[str, Any]:
    """Owner, rights, times and attributes, as the journal has them."""
    with opened(*places.of(path)) as fd:
        found, state = os.fstat(fd), state_of_open(fd)
        attributes = {key: base64.b64encode(value).decode("ascii") for key, value in attributes_of(fd).items()}
    return {**state.fields(), "accessed": found.st_atime_ns, "attributes": attributes}


def _patched_sha256(fd: int, change: Change) -> str:
    found, at = hashlib.sha256(), 0
    for one in change.patches:
        for data in pieces(fd, at, one.position):
            found.update(data)
        found.update(one.new)
        at = one.position + len(one.new)
    for data in pieces(fd, at, change.size):
        found.update(data)
    return found.hexdigest()


class Means(TupleValue):
    """The tools of a repair; tests put in their own."""

    ops: FileOps = FileOps()  # makes the calls that change something
    look: Callable[[dict[tuple[int, int], str]], Users] = users_of  # tells which processes have files open
    # told that a repair is done, or taken back, as soon as the journal says so
    finished: Callable[[], None] = lambda: None


class Applied(Value):
    """A repair that was done."""

    journal: str  # path of its journal
    directory: str  # of the partition
    unseen: tuple[int, ...]  # processes into which could not be looked: they may be brokers, and have the files open
    checked: list[str]  # paths to verify now
    patched: tuple[str, ...] = ()  # logs that were written in place
    was_done: bool = False  # before, so that nothing was to do


class Work:
    """One repair at work."""

    def __init__(self, fields: dict[str, Any], places: Places, quarantine: Quarantine, means: Means) -> None:
        self.directory_path: str = fields["directory"]
        self.journal = Journal(os.path.join(quarantine.path, journal.NAME), quarantine.fd, fields, means.ops)
        self._quarantine = quarantine
        self._files = [File(entry, places, quarantine, means.ops) for entry in fields["changes"]]
        self._places = places
        self._finished = means.finished

    def applied(self, unseen: tuple[int, ...], *, was_done: bool = False) -> Applied:
        """Return what there is to say of it."""
        where = self.directory_path
        logs = [os.path.join(where, file.name) for file in self._files if file.entry["patches"]]
        checked = logs or [where]
        if self.journal.fields["command"] == REPAIR:
            touched = directories_of(where, [file.name for file in self._files])
            checked = [where] if where in touched else touched
        return Applied(self.journal.path, where, unseen, checked, tuple(logs), was_done)

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
        """Refuse before anything is written when the repair cannot be resumed; tell whether something is left."""
        state = self.journal.state
        if state in (UNDOING, UNDONE):
            was_undone = state == UNDONE
            what = (
                "was undone: run the command again"
                if was_undone
                else "is being undone: finish it with kdump undo --apply"
            )
            raise RefusedError(f"{self.journal.path}: this repair {what}")
        if state != DONE:
            self.demand((BEFORE,) if state == PLANNED else None)
            self._demand_rights()
        return state != DONE

    def check_undo(self) -> bool:
        """Refuse before anything is written when the repair cannot be taken back; tell whether something is left."""
        state = self.journal.state
        if state not in (PLANNED, UNDONE):  # there nothing is changed, whatever others have done since
            if state != UNDOING:
                self._demand_latest()
            self.demand((BEFORE, AFTER) if state == DONE else None)
            self._demand_rights()
            if any(file.where() != BEFORE for file in self._files):
                self._demand_inputs()
        return state != UNDONE

    def _demand_latest(self) -> None:
        """Refuse while a later repair of the same quarantine rests on what this one would take back."""
        folder = os.path.dirname(self.journal.path)
        mine, quarantine = os.path.basename(folder), os.path.dirname(folder)
        changed, read = _touched(self.journal.fields)
        later = []
        try:
            others = repairs(quarantine)
        except OSError:  # what this one needs is looked at all the same
            return
        for name, fields in others:
            if name == mine:
                break
            its_changes, its_reads = _touched(fields)
            if fields["events"][-1]["state"] not in (PLANNED, UNDONE) and (
                changed & (its_changes | its_reads) or read & its_changes
            ):
                later.append(os.path.join(quarantine, name))
        if later:
            what = "a later repair rests" if len(later) == 1 else f"{len(later)} later repairs rest"
            first = command_line("undo", *map(named, later), "--apply")
            raise RefusedError(f"{folder}: {what} on it, nothing was done; first: {first}")

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
            self._finished()

    def changed_files(self) -> list[str]:
        """Return the names of the files that are not as they were before, in the order in which they are restored."""
        return [file.name for file in reversed(self._files) if file.where() != BEFORE]

    def take_back(self) -> None:
        """Take the changes back, the last one first: the log is whole again before its indexes are."""
        if self.journal.state == PLANNED:
            with part_way(self.journal.path, "undo"):
                for file in self._files:
                    file.clear()
                self.journal.note(UNDONE)
                self._finished()
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
            self._finished()

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
                raise RefusedError(
                    f"{path}: was changed by somebody else since, or is another file; nothing was done; {_IF_LATER}"
                )

    def _demand_rights(self) -> None:
        """Refuse when a file would get another owner than it has, or more rights."""
        for file in self._files:
            why = file.exceeds()
            if why:
                raise RefusedError(f"{os.path.join(self.directory_path, file.name)}: {why}; nothing was done")

    def _demand_inputs(self) -> None:
        """Refuse when a file from which the changes follow is another one by now."""
        for name, planned in self.journal.fields["inputs"].items():
            now = self._places.state(name)
            if now is None or (now.inode, now.size, now.modified) != tuple(
                planned[key] for key in ("inode", "size", "modified")
            ):
                path = os.path.join(self.directory_path, name)
                raise RefusedError(
                    f"{path}: was changed since: what the undo would bring back does not fit it any more; {_IF_LATER}; "
                    f"else leave this one, and see {command_line('verify', named(self.directory_path))}"
                )


def _touched(fields: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The paths of the files that a repair changes, and of those that its changes follow from."""
    where = fields["directory"]
    changed = {os.path.join(where, one["name"]) for one in fields["changes"]}
    return changed, {os.path.join(where, name) for name in fields["inputs"]}


@contextmanager
def part_way(path: str, verb: str = "resume") -> Iterator[None]:
    """Errors within it leave a journal behind."""
    try:
        yield
    except (OSError, RefusedError, KeyboardInterrupt) as error:
        undo = command_line("undo", named(path), "--apply")
        then = f"finish it with {undo if verb == 'undo' else command_line('resume', named(path))}"
        if verb != "undo":
            then += f", or take it back with {undo}"
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
