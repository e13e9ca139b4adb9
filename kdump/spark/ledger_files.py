"""The ledger of a scrub by Spark: a directory of Parquet files, one for each run, with what that run came to.

A run reads them all, the oldest first, into a ledger on this machine: so the rules are the same. A row takes the place
of an older one of the same path; without sums it leaves those that were known, and `gone` strikes the path off.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kdump.checks.ledger import Ledger, LedgerError
from kdump.storage.own_files import open_own, open_own_directory, open_own_place

if TYPE_CHECKING:
    from kdump.checks.ledger import Known

_NAMES = ("dev", "inode", "size", "mtime", "ctime", "turn", "since", "seen")
_COLUMNS = pa.schema(
    [("path", pa.binary()), *((name, pa.int64()) for name in _NAMES), ("crcs", pa.binary()), ("gone", pa.bool_())]
)
_START, _END, _TEMPORARY = "run-", ".parquet", ".kdump-"
_ROUND, _TURN = b"kdump.round", b"kdump.turn"
_ROWS = 4096  # at once


class LedgerFiles(Ledger):
    """A ledger in a directory, held by this run alone.

    Args:
        path: of the directory; it is made where there is none.

    Raises:
        LedgerError: another run has it, or it is no ledger, or cannot be read.
        RefusedError: others may have written it.
    """

    keeps_at_once = False

    def __init__(self, path: str) -> None:
        self._place = path
        self._lock = self._held()
        self._scratch = tempfile.TemporaryDirectory(prefix="kdump-")
        try:
            super().__init__(os.path.join(self._scratch.name, "ledger"))
            self.path = path
            self._load()
        except (pa.ArrowException, OSError, ValueError, OverflowError, sqlite3.Error) as error:
            self.close()
            lines = str(error).splitlines() or [""]
            raise LedgerError(f"{path}: cannot be read: {lines[0]}") from None
        except BaseException:
            self.close()
            raise

    def _held(self) -> int:
        """The lock: the directory itself; a process that ends lets go of it."""
        path = self._place
        try:
            outer, name = os.path.split(os.path.abspath(path))
            folder = open_own_place(outer, sticky=True)
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if not (stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                    raise LedgerError(f"{path}: is a file; --engine spark keeps a directory", is_refused=True)
                lock = open_own_directory(os.path.join(outer, name), folder, name)
            finally:
                os.close(folder)
        except OSError as error:
            raise LedgerError(f"{path}: cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            why = "another run of verify --scrub has it; wait for its end, or name another ledger"
            raise LedgerError(f"{path}: {why}", is_locked=True) from None
        others = [name for name in os.listdir(lock) if not name.startswith((_START, _TEMPORARY))]
        if others:
            os.close(lock)
            raise LedgerError(f"{path}: holds {min(others)}; name a directory of its own", is_refused=True)
        return lock

    # --- reading --------------------------------------------------------------------------------------------
    def _load(self) -> None:
        run = self._db.execute
        run("PRAGMA synchronous = OFF")  # it is a copy
        run("CREATE TEMP TABLE was (path BLOB PRIMARY KEY) WITHOUT ROWID")
        run("CREATE TEMP TABLE fresh (id INTEGER PRIMARY KEY)")
        run("BEGIN")
        for name in sorted(os.listdir(self._lock)):
            if name.startswith(_START) and name.endswith(_END):
                self._load_file(name)
        run("INSERT INTO was SELECT path FROM segments")
        run("COMMIT")
        self._turn = self._now

    def _load_file(self, name: str) -> None:
        run, path = self._db.execute, os.path.join(self._place, name)
        opened = os.fdopen(open_own(self._lock, name, path, "a ledger of kdump"), "rb")
        with opened, pq.ParquetFile(opened) as file:
            metadata = file.schema_arrow.metadata or {}
            turns = [metadata.get(one, b"") for one in (_ROUND, _TURN)]
            if not file.schema_arrow.equals(_COLUMNS) or not all(one.isdigit() and len(one) < 20 for one in turns):
                raise LedgerError(f"{path}: is not a ledger of kdump; name another directory", is_refused=True)
            self._round, self._now = int(turns[0]), int(turns[1]) + 1
            for batch in file.iter_batches(_ROWS):
                for row in batch.to_pylist():
                    if row["gone"]:
                        run("DELETE FROM sums WHERE id IN (SELECT id FROM segments WHERE path = ?)", (row["path"],))
                        run("DELETE FROM segments WHERE path = ?", (row["path"],))
                        continue
                    values = [row[name] for name in _NAMES]
                    run(_UPSERT, (row["path"], *values))
                    if row["crcs"] is not None:
                        run(_SUMS, (row["crcs"], row["path"]))

    # --- writing --------------------------------------------------------------------------------------------
    def keep(self, number: int, known: Known) -> None:
        """Take what a segment is now as what it is held against from now on."""
        super().keep(number, known)
        self._run("INSERT OR IGNORE INTO fresh VALUES (?)", number)

    def end(self) -> None:
        """Add the file of this run."""
        self.commit()
        metadata = {_ROUND: str(self._round), _TURN: str(self._turn)}
        temporary = f"{_TEMPORARY}{os.getpid()}"
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._lock)
            made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=self._lock)
            with os.fdopen(made, "wb") as file, pq.ParquetWriter(file, _COLUMNS.with_metadata(metadata)) as writer:
                cursor = self._db.execute(_CHANGED, (self._now, self._now))
                while rows := cursor.fetchmany(_ROWS):
                    columns = zip(zip(*rows, strict=True), _COLUMNS, strict=True)
                    arrays = [pa.array(map(bool, it) if one.name == "gone" else it, one.type) for it, one in columns]
                    writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_COLUMNS.with_metadata(metadata)))
                writer.close()
                file.flush()
                os.fsync(file.fileno())
            name = f"{_START}{self._turn:020}{_END}"
            os.rename(temporary, name, src_dir_fd=self._lock, dst_dir_fd=self._lock)
            os.fsync(self._lock)
        except OSError as error:
            raise LedgerError(f"{self._place}: cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Let go of the directory; what was not ended does not count."""
        with suppress(AttributeError):  # it was not opened
            super().close()
        self._scratch.cleanup()
        if self._lock >= 0:
            for name in os.listdir(self._lock):
                if name.startswith(_TEMPORARY):  # of a run that was killed
                    with suppress(OSError):
                        os.unlink(name, dir_fd=self._lock)
            os.close(self._lock)
            self._lock = -1


_UPSERT = (
    "INSERT INTO segments (path, dev, inode, size, mtime, ctime, turn, since, seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (path) DO UPDATE SET dev = excluded.dev, inode = excluded.inode, size = excluded.size,"
    " mtime = excluded.mtime, ctime = excluded.ctime, turn = excluded.turn, since = excluded.since,"
    " seen = excluded.seen"
)
_SUMS = "INSERT OR REPLACE INTO sums SELECT id, ? FROM segments WHERE path = ?"
_CHANGED = (
    "SELECT path, dev, inode, size, mtime, ctime, turn, since, seen,"
    " CASE WHEN id IN (SELECT id FROM fresh) THEN crcs END, 0 FROM segments LEFT JOIN sums USING (id)"
    " WHERE turn > ? OR since >= ?"
    " UNION ALL SELECT path, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1 FROM was"
    " WHERE path NOT IN (SELECT path FROM segments)"
)
