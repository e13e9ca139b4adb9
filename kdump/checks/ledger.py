"""The ledger of a scrub: what each closed segment was when it was read, and whose turn it is. A file of SQLite.

Strategy: one transaction is what some segments came to, so that a run that ends anywhere leaves what it has told and
nothing else. The sums lie apart from the rows: who looks for the next segment does not read them.

Whose turn it is hangs on no clock. A number goes up with each reading: `turn` of a segment is that of its last one, 0
for none, and `since` when it was listed first. A round is the number at its beginning: what was listed by then and not
read since is left of it, and comes first in the next run.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.format.java_values import as_long
from kdump.storage.own_files import open_own, open_own_place, own_place
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ID = 0x6B64534C  # "kdSL": PRAGMA application_id of a ledger
_VERSION = 1
_TABLES = (
    """CREATE TABLE segments (id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, dev INTEGER, inode INTEGER,
    size INTEGER, mtime INTEGER, ctime INTEGER, turn INTEGER NOT NULL, since INTEGER NOT NULL, seen INTEGER)""",
    "CREATE TABLE sums (id INTEGER PRIMARY KEY, crcs BLOB NOT NULL)",
    "CREATE TABLE state (turn INTEGER NOT NULL, round INTEGER NOT NULL)",
    "INSERT INTO state VALUES (0, 0)",
)
_HERE = (
    "CREATE TEMP TABLE here (path BLOB PRIMARY KEY, shown BLOB, base INTEGER, next INTEGER, dev INTEGER,"
    " inode INTEGER, size INTEGER) WITHOUT ROWID"
)
_TODO = (
    "CREATE TEMP TABLE todo AS SELECT id, shown, base, next, size, is_left FROM ("
    " SELECT s.id, h.shown, h.base, h.next, h.size, h.path, (s.turn < :round AND s.since <= :round) AS is_left,"
    " row_number() OVER (PARTITION BY h.dev ORDER BY (s.turn < :round AND s.since <= :round) DESC, s.turn, h.path)"
    " AS place FROM here h JOIN segments s ON s.path = h.path WHERE h.next IS NOT NULL AND s.turn <= :now"
    ") ORDER BY is_left DESC, place, path"
)
_GONE = (
    "path > ? AND path < ? AND NOT EXISTS (SELECT 1 FROM here h WHERE h.path = segments.path"
    " AND (h.next IS NOT NULL OR (h.inode = segments.inode AND h.size = segments.size)))"
)
_WHAT = "a ledger of kdump"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BESIDE = ("-journal", "-wal")  # SQLite plays them back when it opens a file
_SHARED = "-shm"
_SUMMED = 64 * 1024  # bytes that a sum is of
_MOST_TURNS = 1 << 62
_LIMITS = {  # what a prepared file may make SQLite do: all above what kdump itself asks for
    sqlite3.SQLITE_LIMIT_LENGTH: 64 * 1024 * 1024,  # bytes of a row: the sums of a log of 1 TiB
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 16 * 1024,
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 64,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_OF_INODE = 2**64  # numbers that an inode can have: a column keeps them with a sign


class LedgerError(Exception):
    """The ledger cannot be used; the sentence says why, and what to do.

    Args:
        sentence: why, and what to do.
        is_locked: another run has it.
        is_refused: the file is something else, or lies where it must not.
    """

    def __init__(self, sentence: str, *, is_locked: bool = False, is_refused: bool = False) -> None:
        super().__init__(sentence)
        self.is_locked = is_locked
        self.is_refused = is_refused


class Known(Value):
    """What a segment was when it was read."""

    # dev, inode: of the file; `dev` decides nothing, it may be another one after a start of the machine
    dev: int
    inode: int
    size: int  # bytes
    # mtime, ctime: ns since the epoch
    mtime: int
    ctime: int
    sums: bytes  # the CRC-32C of each 64 KiB, 4 bytes each, little-endian
    seen: int  # when these bytes were read last, ms since the epoch


class Listed(Value):
    """A log that lies there now."""

    path: bytes  # by which the ledger knows it: the same from wherever it is named
    shown: str  # as the user wrote it, or below that
    base: int  # its base offset
    next_base: int | None  # that of the next segment; None for the last one, which is not closed
    # dev, inode: of the file
    dev: int
    inode: int
    size: int  # bytes


class Turn(Value):
    """A segment whose turn it is."""

    number: int  # in the ledger
    path: str  # as the user wrote it, or below that
    # base, next_base: its base offset, and that of the next one
    base: int
    next_base: int
    size: int  # bytes, when it was listed
    is_left: bool  # it is left of a round that was not ended


class Ledger:
    """A ledger, held by this run alone.

    Args:
        path: of the file, as the user wrote it; it is made where there is none.

    Attributes:
        keeps_at_once: what was committed is kept whatever happens then; else from `end` on.

    Raises:
        LedgerError: another run has it, or it is none, or cannot be read or written.
        RefusedError: it, or a journal beside it that SQLite would play back, may be what somebody else has written.
    """

    keeps_at_once = True

    def __init__(self, path: str) -> None:
        self.path = path
        if os.path.isdir(path):
            why = "is a directory, as a ledger of --engine spark; name a file"
            raise LedgerError(f"{path}: {why}", is_refused=True)
        self._names_held: list[str] = []
        try:
            self._db = sqlite3.connect(self._secured(), timeout=0, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            self._let_go()
            reason = error.strerror if isinstance(error, OSError) else None
            raise LedgerError(f"{path}: cannot be opened: {reason or error}") from None
        except BaseException:
            self._let_go()
            raise
        try:
            self._open()
        except BaseException as error:
            self._db.close()
            told = self._explained(error) if isinstance(error, sqlite3.Error) else error
            if not (isinstance(told, LedgerError) and told.is_locked):  # the other run may have them by now
                self._let_go()
            if told is error:
                raise
            raise told from None

    # --- whose files they are -------------------------------------------------------------------------------
    def _secured(self) -> str:
        """Make sure that SQLite will find files of this user and of nobody else; return the path that it opens.

        Where everybody may make files, the names beside the ledger are taken before SQLite looks for them: to it an
        empty file is none, and nobody else can put another in its place.
        """
        name, outer = os.path.basename(self.path), os.path.dirname(self.path) or os.curdir
        folder = own_place(outer)
        directory = open_own_place(outer, sticky=True)
        try:
            self._make_or_check(directory, name, 0o644, is_alone=True)
            is_shared = bool(os.fstat(directory).st_mode & (stat.S_IWGRP | stat.S_IWOTH))
            for end in (*_BESIDE, _SHARED):
                if is_shared and end != _SHARED:
                    if self._make_or_check(directory, name + end, 0o600):
                        self._names_held.append(os.path.join(folder, name + end))
                else:
                    self._check(directory, name + end)
        finally:
            os.close(directory)
        return os.path.join(folder, name)

    def _make_or_check(self, directory: int, name: str, mode: int, *, is_alone: bool = False) -> bool:
        """Make an empty file, and return True; or make sure that the one that is there is ours."""
        try:
            os.close(os.open(name, _NEW, mode, dir_fd=directory))
        except FileExistsError:
            self._check(directory, name, is_alone=is_alone)
            return False
        return True

    def _check(self, directory: int, name: str, *, is_alone: bool = False) -> None:
        path = os.path.join(os.path.dirname(self.path), name)
        with suppress(FileNotFoundError):
            os.close(open_own(directory, name, path, _WHAT, to_write=is_alone))

    def _let_go(self) -> None:
        """Remove the empty files that only held their names."""
        for path in self._names_held:
            with suppress(OSError):
                if os.stat(path, follow_symlinks=False).st_size == 0:
                    os.unlink(path)  # noqa: PTH108
        self._names_held = []

    def _open(self) -> None:
        run = self._db.execute
        for which, most in _LIMITS.items():
            self._db.setlimit(which, most)
        run("PRAGMA trusted_schema = OFF")
        run("PRAGMA cell_size_check = ON")
        run("PRAGMA mmap_size = 0")  # a file that is cut while it is mapped would end the process
        run("PRAGMA locking_mode = EXCLUSIVE")  # until it is closed; the system lets go of it when this process ends
        run("BEGIN EXCLUSIVE")
        found = run("PRAGMA application_id").fetchone()[0], run("PRAGMA user_version").fetchone()[0]
        if found == (0, 0) and not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for sentence in _TABLES:
                run(sentence)
            run(f"PRAGMA application_id = {_ID}")
            run(f"PRAGMA user_version = {_VERSION}")
        elif found[0] != _ID:
            raise LedgerError(f"{self.path}: is a database of something else; name another file", is_refused=True)
        elif found[1] != _VERSION:
            why = f"is a ledger of version {found[1]}, and this kdump writes {_VERSION}"
            raise LedgerError(f"{self.path}: {why}; use a newer kdump, or name a new file", is_refused=True)
        elif sorted(_squeezed(one) for (one,) in run("SELECT sql FROM sqlite_master WHERE sql NOT NULL")) != _SCHEMA:
            raise self._damaged("its tables are not those that kdump makes")
        run("COMMIT")
        run(_HERE)
        rows = run("SELECT turn, round FROM state").fetchmany(2)
        if len(rows) != 1 or not all(isinstance(one, int) and 0 <= one < _MOST_TURNS for one in rows[0]):
            raise self._damaged("it does not say whose turn it is")
        self._now, self._round = rows[0][0] + 1, rows[0][1]
        self._turn = self._now
        self._names_held = [one for one in self._names_held if not one.endswith(_BESIDE[0])]  # SQLite removes that one
        self._let_go()

    def _damaged(self, why: str) -> LedgerError:
        return LedgerError(f"{self.path}: is damaged ({why}); restore it, or move it away and begin a new one")

    def _explained(self, error: sqlite3.Error) -> LedgerError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            why = "another run of verify --scrub has it; wait for its end, or name another ledger"
            return LedgerError(f"{self.path}: {why}", is_locked=True)
        if name.startswith("SQLITE_NOTADB"):
            return LedgerError(f"{self.path}: is not a ledger of kdump; name another file", is_refused=True)
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_TOOBIG")):
            return self._damaged(str(error))
        return LedgerError(f"{self.path}: cannot be written: {error}")

    # --- what lies there ------------------------------------------------------------------------------------
    def enter(self, found: Iterable[Listed]) -> None:
        """Take note of logs that lie there now; a path that comes again is the same."""
        rows = (
            (it.path, os.fsencode(it.shown), it.base, it.next_base, it.dev, as_long(it.inode), it.size) for it in found
        )
        if not self._db.in_transaction:
            self._run("UPDATE state SET turn = turn")  # one transaction for all of them
        self._db.executemany("INSERT OR IGNORE INTO here VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, directory: str) -> None:
        """Strike off what is gone from a directory all of which was listed, and what is no longer closed but changed.

        Args:
            directory: by its real path.
        """
        start = os.fsencode(os.path.join(directory, ""))
        end = start[:-1] + bytes((start[-1] + 1,))
        self._run(f"DELETE FROM sums WHERE id IN (SELECT id FROM segments WHERE {_GONE})", start, end)
        self._run(f"DELETE FROM segments WHERE {_GONE}", start, end)

    def begin(self) -> Iterator[Turn]:
        """Enter what is new, and return the closed segments that lie there in the order in which they are to be read.

        Those that are left of a round come first; of each disk the one that was read longest ago comes first, and disks
        take turns.
        """
        self._run(
            "INSERT OR IGNORE INTO segments (path, turn, since)"
            " SELECT path, 0, ? FROM here WHERE next IS NOT NULL ORDER BY path",
            self._now,
        )
        self._run("DROP TABLE IF EXISTS todo")
        try:
            self._db.execute(_TODO, {"round": self._round, "now": self._now})
            some = self._db.execute("SELECT count(*) FROM todo WHERE is_left").fetchone()[0]
        except sqlite3.Error as error:
            raise self._explained(error) from None
        if not some:
            self._round = self._now
            self._run("UPDATE state SET round = ?", self._round)
        self.commit()
        return self._turns()

    def _turns(self) -> Iterator[Turn]:
        at = 0
        while rows := self._rows("SELECT rowid, * FROM todo WHERE rowid > ? ORDER BY rowid LIMIT 256", at):
            for at, number, shown, base, following, size, is_left in rows:  # noqa: B007 (the last place counts)
                yield Turn(number, os.fsdecode(shown), base, following, size, bool(is_left))

    @property
    def size(self) -> int:
        """Bytes of the segments that are to be read."""
        return int(self._rows("SELECT coalesce(sum(size), 0) FROM todo")[0][0])

    def number_of(self, path: bytes) -> int:
        """Return under which number a path is known; it is entered where it was not."""
        self._run("INSERT OR IGNORE INTO segments (path, turn, since) VALUES (?, 0, ?)", path, self._now)
        return int(self._rows("SELECT id FROM segments WHERE path = ?", path)[0][0])

    def known(self, number: int) -> Known | None:
        """Return what a segment was; None where it was not read yet."""
        query = "SELECT dev, inode, size, mtime, ctime, crcs, seen FROM segments JOIN sums USING (id) WHERE id = ?"
        for row in self._rows(query, number):
            dev, inode, size, mtime, ctime, sums, seen = row
            is_sound = isinstance(sums, bytes) and all(isinstance(one, int) for one in row if one is not sums)
            if not is_sound or len(sums) != 4 * -(-size // _SUMMED):
                raise self._damaged(f"what it has of segment {number} is no sums of one")
            return Known(dev, inode % _OF_INODE, size=size, mtime=mtime, ctime=ctime, sums=sums, seen=seen)
        return None

    # --- what was read --------------------------------------------------------------------------------------
    def took_turn(self, number: int, *, is_left: bool) -> None:
        """Take note that a segment was read, or could not be."""
        if not is_left and self._round != self._now:  # that round is at its end
            self._round = self._now
            self._run("UPDATE state SET round = ?", self._round)
        self._turn += 1
        self._run("UPDATE segments SET turn = ? WHERE id = ?", self._turn, number)

    def keep(self, number: int, known: Known) -> None:
        """Take what a segment is now as what it is held against from now on."""
        self.saw(number, known)
        self._run("INSERT OR REPLACE INTO sums VALUES (?, ?)", number, known.sums)

    def saw(self, number: int, known: Known) -> None:
        """Take note that a segment has the bytes that it had."""
        self._run(
            "UPDATE segments SET dev = ?, inode = ?, size = ?, mtime = ?, ctime = ?, seen = ? WHERE id = ?",
            *(known.dev, as_long(known.inode), known.size, known.mtime, known.ctime, known.seen, number),
        )

    def commit(self) -> None:
        """Let all that was noted since the last time count."""
        if self._db.in_transaction:
            self._run("UPDATE state SET turn = ?", self._turn)
            self._run("COMMIT")

    def end(self) -> None:
        """Keep all that was committed."""

    def close(self) -> None:
        """Let go of the file; what was not committed does not count."""
        with suppress(sqlite3.Error):
            self._db.close()

    def _run(self, sentence: str, *values: object) -> None:
        """Write, in the open transaction or a new one."""
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            self._db.execute(sentence, values)
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _rows(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from None


def _squeezed(sentence: str) -> str:
    """A sentence of SQL whatever its spaces."""
    return " ".join(str(sentence).split())


_SCHEMA = sorted(_squeezed(one) for one in _TABLES if one.startswith("CREATE"))
