"""The present state of tables that are kept night by night: which files have the rows of what, and of which run.

The list of these files is one file, which is replaced as a whole, and last: a run that ends before leaves the state of
the run before it, and files that no list has; the next run removes them. A reader that goes by the list
(`kdump.spark.table`) sees the one state or the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kdump import __version__
from kdump.format.java_values import MAX_LONG, MIN_LONG
from kdump.rows.json_lines import row_json
from kdump.rows.nights import NightRun
from kdump.storage.json_rules import (
    BadValueError,
    anything,
    each_of,
    fields,
    items,
    maybe,
    members,
    number,
    of_form,
    parsed,
    text,
)
from kdump.storage.own_files import open_own_directory, read_own
from kdump.storage.own_tree import ROWS_FOLDER, STATE, TEMPORARY, folder_in, replacing, top_of, write_json
from kdump.storage.paths import is_remote
from kdump.value import Value, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PRESENT = "present.json"
RUNS = "runs"
_DONE = "done.json"  # what a run has written so far
_OFTEN = 5  # seconds between two such lists
_MOST = 512 * 1024 * 1024  # bytes of the list: a million files
_MARK = r"[0-9a-f]{16}"
_FILE = rf"(?:(?:findings|segments|losses|summary)/)?{ROWS_FOLDER}/[0-9a-f-]{{16,80}}\.(?:parquet|json|csv)"
_FILE_FORM = pattern(_FILE)
_LEFT = pattern(rf"\..+\.[0-9a-f]{{4,8}}{re.escape(TEMPORARY)}|.+\.[0-9a-f]{{8}}{re.escape(TEMPORARY)}")


class NotThisStoreError(ValueError):
    """The directory has something else in it; the message is one line for the user."""


class StoreHeldError(Exception):
    """Another run has it; the message is one line for the user."""


class PresentPart(Value):
    """Rows of one thing in one table: of a segment, or of a partition directory."""

    table: str  # its name
    group: str  # the partition that they are of (`KnownPlace.group`)
    thing: str  # the mark of what they are of, in that group
    base: int | None  # base offset of the segment; None for a directory
    sight: str  # the mark of what they were made of; empty where that may have changed since
    read_at: int  # when its bytes were read, ms since the epoch
    path: str  # of the log or the directory
    files: tuple[tuple[str, int], ...]  # their files, below the directory of the store, and how many rows each has
    # codes of findings of severity error that were met while they were made, and how many of each
    codes: tuple[tuple[str, int], ...] = ()
    # cluster, directory_id: by which the group is known; None where nothing tells them
    cluster: str | None = None
    directory_id: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from all others."""
        return self.table, self.group, self.thing

    @property
    def errors(self) -> int:
        """How many such findings."""
        return sum(count for _, count in self.codes)

    @property
    def rows(self) -> int:
        """In all its files."""
        return sum(rows for _, rows in self.files)


_COUNT = number(0, MAX_LONG)
_RULE = fields(
    {
        "asked": members(text, anything),
        "run": text,
        "parts": items(
            each_of(
                of_form(r"[A-Za-z]{1,32}"),
                of_form(_MARK),
                of_form(_MARK),
                maybe(number(MIN_LONG, MAX_LONG)),
                of_form(rf"(?:{_MARK})?"),
                _COUNT,
                text,
                items(each_of(of_form(_FILE), _COUNT)),
                items(each_of(of_form(r"[A-Z][0-9]{2}"), _COUNT)),
                maybe(text),
                maybe(text),
            )
        ),
    }
)


def read_present(directory: str, name: str = PRESENT) -> dict[str, Any] | None:
    """Return the list of the present state, each value of which is one that kdump may have written.

    Args:
        directory: of the store.
        name: of the list.

    Returns:
        None where there is no list.

    Raises:
        NotThisStoreError: it is none.
        RefusedError: somebody else may have written it.
    """
    path = os.path.join(directory, STATE, name)
    try:
        if is_remote(directory):
            from kdump.storage.object_store import read_whole  # few tables lie in a store

            data = read_whole(path)
        else:
            with folder_in(directory, STATE) as state:
                data = read_own(state, name, path, "a list of kdump", _MOST)
        found: Any = parsed(data)
        _RULE(found, "")
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise NotThisStoreError(f"{directory}: is not a directory") from None
    except BadValueError as error:
        raise NotThisStoreError(f"{path}: this list cannot be read ({error}); name another directory") from None
    return dict(found)


def parts_of(present: Mapping[str, Any]) -> list[PresentPart]:
    """Return the parts of a list that `read_present` has returned."""
    return [
        PresentPart(
            table,
            group,
            thing,
            base=base,
            sight=sight,
            read_at=read_at,
            path=path,
            files=tuple((inside, rows) for inside, rows in files),
            codes=tuple((code, count) for code, count in codes),
            cluster=cluster,
            directory_id=directory_id,
        )
        for table, group, thing, base, sight, read_at, path, files, codes, cluster, directory_id in present["parts"]
    ]


def file_name(*facts: object) -> str:
    """Return the name of a new file of a store, without its ending: it is that of no other one.

    Args:
        facts: numbers and marks that stand in it.
    """
    return "-".join([*(f"{one:020}" if isinstance(one, int) else str(one) for one in facts), os.urandom(8).hex()])


class Store:
    """The tables in a directory, kept night by night; held by this run alone.

    Args:
        directory: where they lie; made where it is not there.
        asked: what the user asked for, in JSON's types: the same each night, but for `paths`.
        reread_after: seconds after which bytes are read again, though nothing shows a change.

    Attributes:
        paths: that this run is about, absolute.
        run: the row of this run, without what is known at its end.
        before: the parts of the present state.

    Raises:
        NotThisStoreError: something else lies there.
        StoreHeldError: another run has it.
        RefusedError: somebody else may have written what lies there.
        OSError: it cannot be made or read.
    """

    def __init__(self, directory: str, asked: dict[str, object], reread_after: float) -> None:
        import socket

        self.directory, self._asked = directory, asked
        self.paths: list[str] = [str(one) for one in asked.get("paths", ())]  # type: ignore[attr-defined]
        self._lock = self._held()
        try:
            self.now = time.time_ns()
            self._oldest = self.now // 1_000_000 - int(reread_after * 1000)
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.now // 1_000_000_000))
            self.run = NightRun(
                id=f"{stamp}-{os.urandom(3).hex()}",
                started_at=self.now // 1_000_000,
                ended_at=None,
                host=socket.gethostname(),
                version=__version__,
                options=asked,
                files=None,
                size=None,
                rows=None,
                unread=None,
                exit=None,
            )
            present = read_present(directory)
            self.before: list[PresentPart] = []
            if present is not None:
                self._demand_asked(present["asked"])
                self.before = parts_of(present)
            self._done = self._read_done()
            self._known = {one.key: one for one in (*self.before, *self._done)}
            self._remove_left()
            self._saved = time.monotonic()
            self._write_run(self.run)
        except BaseException:
            self.close()
            raise

    def _held(self) -> int:
        """The lock: the directory of the state; a process that ends lets go of it."""
        path = os.path.join(self.directory, STATE)
        if os.path.isdir(self.directory) and not os.path.lexists(path) and os.listdir(self.directory):
            raise NotThisStoreError(f"{self.directory}: is not empty, and not kept by --update; name another directory")
        with folder_in(self.directory, STATE, makes=True) as state:
            if "plan.json" in os.listdir(state):
                why = "holds an export that was made without --update; name another directory"
                raise NotThisStoreError(f"{self.directory}: {why}")
        lock = open_own_directory(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise
            raise StoreHeldError(f"{self.directory}: another run with --update has it; wait for its end") from None
        return lock

    def _demand_asked(self, before: dict[str, Any]) -> None:
        other = _others(before, self._asked)
        if other:
            named = ", ".join(f"{name} {before.get(name)!r}" for name in other)
            why = f"holds tables of something else: {named}; name another directory"
            raise NotThisStoreError(f"{self.directory}: {why}")

    def close(self) -> None:
        """Let go of it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_of: object) -> None:
        self.close()

    # --- what is as it was ----------------------------------------------------------------------------------
    def is_recent(self, read_at: int) -> bool:
        """Tell whether bytes were read so lately that they need not be read again.

        Args:
            read_at: when, ms since the epoch.
        """
        return self._oldest < read_at <= self.run.started_at

    def unchanged(
        self, table: str, group: str, thing: str, sight: str | None, *, is_reread: bool = True
    ) -> PresentPart | None:
        """Return the part of the present state that was made of what lies there now.

        Args:
            table, group, thing: as of a part.
            sight: the mark of what lies there; None where nothing vouches for it.
            is_reread: after some time it is made again even so.

        Returns:
            None where it is to be made again.
        """
        known = self._known.get((table, group, thing))
        if known is None or not sight or known.sight != sight:
            return None
        if is_reread and not self.is_recent(known.read_at):
            return None
        return known if all(self._has(path) for path, _ in known.files) else None

    def _has(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        with suppress(OSError), folder_in(self.directory, folder) as at:
            os.stat(name, dir_fd=at, follow_symlinks=False)
            return True
        return False

    # --- the end of a night ---------------------------------------------------------------------------------
    def vanished(
        self, now: Iterable[PresentPart], is_there: Mapping[str, int | None], unseen: Sequence[str]
    ) -> tuple[list[PresentPart], list[PresentPart]]:
        """Return the parts of before that are of nothing that is there now, and were not taken over by it.

        What a compaction has merged, or a truncation has cut off, is taken over: a segment of its partition that is
        there begins at its base offset or below.

        Args:
            now: the parts of what is there.
            is_there: the lowest base offset of each group that is there; None for one without segments.
            unseen: paths that could not be looked at.

        Returns:
            What is gone; and what is in a place that could not be looked at, of which nobody knows.
        """
        current = list(now)
        keys = {one.key for one in current}
        places = {(one.table, one.path) for one in current}
        gone: list[PresentPart] = []
        hidden: list[PresentPart] = []
        for part in self.before:
            lacked_ids = part.cluster is None or part.directory_id is None
            if part.key in keys or (lacked_ids and (part.table, part.path) in places):
                continue  # what lies there is told under the ids that it has by now
            lowest = is_there.get(part.group)
            if part.base is None and part.group in is_there:
                continue  # of what is there nothing is said any more
            if any(_is_below(part.path, path) for path in unseen):
                hidden.append(part)
            elif part.base is None or lowest is None or lowest > part.base:
                gone.append(part)
        return gone, hidden

    def commit(self, parts: Iterable[PresentPart], run: NightRun) -> None:
        """Let some parts be the present state, and remove the files of all others.

        Args:
            parts: all of them.
            run: the row of this run, at its end.
        """
        all_parts = list(parts)
        self._write_list(PRESENT, all_parts)
        self._write_run(run)  # behind the list: a run has no end before its files are there
        with folder_in(self.directory, STATE) as state, suppress(FileNotFoundError):
            os.unlink(_DONE, dir_fd=state)
        self.before, self._done = all_parts, []
        self._remove_left()

    def done_so_far(self, part: PresentPart) -> None:
        """Take note of a part that is written: a run that is ended before its list need not write it again."""
        self._done.append(part)
        if time.monotonic() - self._saved >= _OFTEN:
            self._write_list(_DONE, self._done)
            self._saved = time.monotonic()

    def _read_done(self) -> list[PresentPart]:
        """The parts that a run has written which was ended before its list."""
        found = read_present(self.directory, _DONE)
        is_same = found is not None and _others(found["asked"], self._asked) == []
        return parts_of(found) if found is not None and is_same else []

    def _write_list(self, name: str, parts: Iterable[PresentPart]) -> None:
        rows = [
            [
                *(one.table, one.group, one.thing, one.base, one.sight, one.read_at, one.path),
                *(list(one.files), one.codes, one.cluster, one.directory_id),
            ]
            for one in parts
        ]
        with folder_in(self.directory, STATE) as state:
            write_json(state, name, {"asked": self._asked, "run": self.run.id, "parts": rows})
            os.fsync(state)

    def clock(self) -> int:
        """Return the time, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def _write_run(self, run: NightRun) -> None:
        with (
            folder_in(self.directory, f"{STATE}/{RUNS}", makes=True) as runs,
            replacing(runs, f"{run.id}.json") as file,
        ):
            file.write(row_json(run) + "\n")

    def _is_other(self, place: str, name: str) -> bool:
        """Whether a directory in a place below is not of this store: that of a host, or one with a state of its own."""
        inside = os.path.join(self.directory, *([] if place == "." else [place]), name)
        return (place == "." and name.startswith("host=")) or (
            (place, name) != (".", STATE) and os.path.lexists(os.path.join(inside, STATE))
        )

    def _remove_left(self) -> None:
        """Remove files of tables that the list does not have, and what is not whole: names that kdump gives alone."""
        listed = {path for part in (*self.before, *self._done) for path, _ in part.files}
        with top_of(self.directory) as top:
            for path, below, names, folder in os.fwalk(dir_fd=top):
                place = os.path.relpath(path, ".")
                below[:] = [one for one in below if not self._is_other(place, one)]
                for name in names:
                    inside = name if place == "." else f"{place}/{name}"
                    is_row_file = _FILE_FORM.fullmatch(inside) and inside not in listed
                    if is_row_file or _LEFT.fullmatch(name):
                        os.unlink(name, dir_fd=folder)


def _others(before: dict[str, Any], asked: dict[str, object]) -> list[str]:
    """The names of what another run was asked for."""
    now = json.loads(json.dumps(asked))
    return [name for name in {**before, **now} if name != "paths" and before.get(name) != now.get(name)]


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(os.path.join(directory, ""))
