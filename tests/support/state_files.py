"""State files of every kind, changed in thousands of ways: what kdump reads back never leads it astray.

A case makes a small place with logs, lets kdump write its state there, changes that and runs the command that reads it
back. It must end with a status of the table, in lines and no traceback, and leave all that lies outside as it was.

    python -m tests.support.state_files --runs 5000          # of every kind in turn
    python -m tests.support.state_files --kind plan --seed 7 # one case again
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.format.java_values import MAX_LONG, MIN_LONG
from tests.fuzz.calls import VALUES
from tests.fuzz.chance import Chance
from tests.support.partitions import name
from tests.support.runs import Fingerprint, changed, fingerprint, run_kdump
from tests.support.scrubs import log_dir
from tests.support.segments import CRC_AT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STATUSES = frozenset((0, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14))
SECONDS = 60  # of a run


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of state file.

    Args:
        make: the commands that write it, none where `write` does.
        file: pattern of the file that is changed.
        read: commands that read it back.
        own: what those may change: beginnings of paths.
        write: writes it where no command does.
    """

    file: str
    read: Sequence[Sequence[str]]
    make: Sequence[Sequence[str]] = ()
    own: tuple[str, ...] = ()
    write: Callable[[Path], object] | None = None


def _manifest(place: Path) -> None:
    (place / "m.csv").write_text("host,log.dir,path\nh1,/data,logs\nh2,/data,other\n")


def _objects(place: Path) -> None:
    (place / "m.json").write_text(json.dumps([{"host": "h1", "log.dir": "/data", "path": "logs"}, {"path": "other"}]))


def _config(place: Path) -> None:
    (place / "broker.properties").write_text("log.retention.hours=1\nlog.cleanup.policy=compact\nlog.segment.ms=5\n")


def _epochs(place: Path) -> None:
    (place / "epochs").write_text("0\n2\n0 0\n1 7\n")


def _key(place: Path) -> None:
    (place / "key").write_bytes(bytes(range(32)))
    (place / "key").chmod(0o600)


EXPORT = ("export", "logs", "--table", "records", "--format", "json", "--to", "out")
FINDINGS = ("export", "logs", "--table", "findings", "--format", "json", "--to", "out")
TABLES = ("verify", "logs", "--quiet", "--to", "out")
SALVAGE = ("salvage", "logs/a-0", "other/a-0", "--to", "out")
CARVE = ("carve", "image", "--to", "runs", "--like", "logs")
SCRUB = ("verify", "logs", "--quiet", "--scrub", "ledger")
REPAIR = ("truncate", "logs/a-0", "--at-damage", "--with-later-segments", "--apply", "--quarantine", "quarantine")

KINDS: dict[str, Kind] = {
    "journal": Kind(
        "quarantine/*/journal.json",
        (("undo", "quarantine", "--apply"), ("resume", "quarantine")),
        (REPAIR,),
        ("quarantine", "logs/a-0", "logs/.lock", "logs/recovery-point-offset-checkpoint"),
    ),
    "plan": Kind("out/_kdump/plan.json", (EXPORT,), (EXPORT,), ("out",)),
    "plan of tables": Kind("out/*/_kdump/plan.json", (TABLES,), (TABLES,), ("out",)),
    "note": Kind("out/_kdump/*.done", (EXPORT,), (EXPORT,), ("out",)),
    "note of findings": Kind("out/_kdump/*.done", (FINDINGS,), (FINDINGS,), ("out",)),
    "ledger": Kind("ledger", (SCRUB,), (SCRUB,), ("ledger",)),
    "carve.jsonl": Kind("runs/carve.jsonl", (("salvage", "runs", "--to", "out"),), (CARVE,), ("out",)),
    "rows of salvage": Kind(
        "out/*.jsonl",
        (SALVAGE, (*SALVAGE, "--format", "json"), ("verify", "out"), ("groups", "out")),
        (SALVAGE,),
        ("out",),
    ),
    "known": Kind(
        "rows", (("verify", "logs", "--known", "rows"),), (("verify", "logs", "--format", "json"),), write=None
    ),
    "key": Kind("key", (("verify", "logs", "--redact-key", "key"),), write=_key),
    "manifest": Kind("m.csv", (("verify", "m.csv"), ("export", "m.csv", "--to", "out")), own=("out",), write=_manifest),
    "objects": Kind("m.json", (("verify", "m.json", "--redact"),), own=("out",), write=_objects),
    "config": Kind(
        "broker.properties",
        (("retention", "logs", "--config", "broker.properties"), ("du", "logs", "--config", "broker.properties")),
        write=_config,
    ),
    "epochs": Kind(
        "epochs", (("salvage", "logs/a-0", "--to", "out", "--epochs", "epochs"),), own=("out",), write=_epochs
    ),
}


def place_of(kind: str, root: Path) -> Path:
    """A place with logs in which kdump has written the state of a kind."""
    about, place = KINDS[kind], root / "place"
    log_dir(place / "logs", "ab")
    shutil.copytree(place / "logs" / "a-0", place / "other" / "a-0")
    log = place / "logs" / "a-0" / name(10)
    data = bytearray(log.read_bytes())
    data[CRC_AT] ^= 1
    log.write_bytes(data)
    (place / "image").write_bytes((place / "other" / "a-0" / name(0)).read_bytes() + bytes(512))
    (place / "precious").write_text("mine")
    if about.write is not None:
        about.write(place)
    for command in about.make:
        done = run_kdump([*command], place)
        assert done.exit in STATUSES - {2, 12, 13, 14}, done.stderr
        if kind == "known":
            (place / "rows").write_bytes(done.stdout)
    return place


# --- changes ------------------------------------------------------------------------------------------------
def tampered(chance: Chance, data: bytes) -> bytes:
    """The same file with some values changed where it is JSON, or some of its bytes."""
    if chance.often(0.25):
        return chance.damage(data, 3)
    if chance.often(0.1):
        return chance.among(ODD)
    lines = data.split(b"\n")
    at = chance.among([number for number, line in enumerate(lines) if line.strip()] or [0])
    whole = len(lines) > 1 and chance.often(0.7)
    try:
        value = json.loads(lines[at] if whole else data)
    except ValueError:
        try:
            value, whole = json.loads(lines[at]), True
        except ValueError:
            return chance.damage(data, 3)
    for _ in range(chance.randrange(1, 4)):
        value = _changed(chance, value)
    new = json.dumps(value).encode("utf-8", "surrogatepass")
    if chance.often(0.1):
        new = new.replace(b'"', b'"\x1b[2J', 1)
    if not whole:
        return new
    lines[at] = new
    if chance.often(0.2):
        lines.insert(chance.randrange(len(lines)), chance.among(lines))
    return b"\n".join(lines)


def _changed(chance: Chance, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value:
        return deepcopy(chance.among(VALUES))
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = chance.among(keys)
    inner = value[key]
    if isinstance(inner, dict | list) and inner and chance.often(0.8):
        value[key] = _changed(chance, inner)
    elif chance.often(0.15):
        del value[key]
    elif chance.often(0.1):
        value[key] = [deepcopy(inner)] * 3
    elif isinstance(inner, str) and chance.often(0.4):
        value[key] = chance.among([f"../{inner}", f"/tmp/{inner}", inner + "\0", inner * 2, inner[1:], "precious"])
    elif isinstance(inner, int) and chance.often(0.4):
        value[key] = inner + chance.among([-1, 1, 2**31, 2**63, -(2**63)])
    else:
        value[key] = deepcopy(chance.among(VALUES))
    return value


ODD = [
    b"",
    b"\n",
    b"\0" * 4096,
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"1" * 5000,
    b"null",
    b"[]",
    b"{}",
    b"NaN",
    b'"\\ud800"',
    b"\xff\xfe" * 50,
    b"\xef\xbb\xbf{}",
    b'{"type":"run"}\n' * 3,
    b'{"type":"loss"}\n{"type":"salvage"}\n',
    b"a,b\n" * 10,
    b'path\n\n"',
    b"SQLite format 3\0" + b"\1" * 100,
    b"x" * 9_000_000,
]

SQL = [
    "CREATE TRIGGER t AFTER UPDATE ON segments BEGIN INSERT INTO sums VALUES (NULL, zeroblob(1000)); END",
    "CREATE VIEW v AS SELECT * FROM segments",
    "CREATE INDEX i ON segments (abs(turn))",
    "CREATE TABLE more (a)",
    "ALTER TABLE segments RENAME TO s",
    "ALTER TABLE segments ADD COLUMN g GENERATED ALWAYS AS (1)",
    "DROP TABLE sums",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 1",
    "PRAGMA journal_mode = WAL",
    "PRAGMA auto_vacuum = FULL",
    "PRAGMA writable_schema = ON",
    "DELETE FROM state",
    "VACUUM",
    *(
        f"UPDATE {table} SET {column} = {value}"
        for table, columns in (
            ("segments", ("path", "dev", "inode", "size", "mtime", "ctime", "turn", "since", "seen", "id")),
            ("sums", ("crcs", "id")),
            ("state", ("turn", "round")),
        )
        for column in columns
        for value in ("NULL", "'x'", "x'00ff'", "1.5", "-1", str(MAX_LONG), str(MIN_LONG), "zeroblob(9)")
    ),
]


def change(chance: Chance, path: Path) -> None:
    """Change a state file: its bytes, its values, what it is, or whose."""
    how = chance.random()
    if how < 0.04:
        path.unlink()
        os.mkfifo(path)
    elif how < 0.08:
        path.rename(path.with_name("moved"))
        path.symlink_to(path.with_name("moved"))
    elif how < 0.12:
        path.chmod(chance.among([0o666, 0o660, 0o000, 0o644]))
    elif how < 0.14:
        path.unlink()
        path.mkdir()
    elif how < 0.18 and os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    elif path.name == "ledger" and how < 0.85:
        db = sqlite3.connect(path, isolation_level=None)
        for _ in range(chance.randrange(1, 3)):
            with suppress(sqlite3.Error):
                db.execute(chance.among(SQL))
        db.close()
    else:
        path.write_bytes(tampered(chance, path.read_bytes()))


# --- a case -------------------------------------------------------------------------------------------------
def outside(place: Path, own: tuple[str, ...]) -> Fingerprint:
    """What a command may not touch."""
    return {path: seen for path, seen in fingerprint(place).items() if not path.startswith(own) and path != "."}


def problem(kind: str, seed: int, root: Path, ready: Path) -> str | None:
    """Run a case; say what is wrong, None where all held.

    Args:
        kind: of the state file.
        seed: of the changes.
        root: an empty directory.
        ready: a place with the state of the kind: it is copied.
    """
    chance, about = Chance(f"{kind} {seed}"), KINDS[kind]
    place = root / "place"
    shutil.copytree(ready, place, symlinks=True)
    if kind == "journal":  # names where it lies
        for path in place.glob(about.file):
            path.write_text(path.read_text().replace(str(ready), str(place)))
    files = sorted(place.glob(about.file))
    change(chance, chance.among(files))
    for command in about.read:
        before = outside(place, about.own)
        begun = time.monotonic()
        done = run_kdump([*command], place)
        took = time.monotonic() - begun
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.exit not in STATUSES or "Traceback" in said:
            return f"{' '.join(command)}: exit {done.exit}: {said[-600:]}"
        if took > SECONDS:
            return f"{' '.join(command)}: {took:.0f} s"
        if (found := changed(before, outside(place, about.own))) is not None:
            return f"{' '.join(command)}: {found}"
        if "\x1b[2J" in said:
            return f"{' '.join(command)}: an escape sequence came through"
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--begin", type=int, default=0, help="first seed")
    parser.add_argument("--kind", choices=KINDS)
    given = parser.parse_args()
    kinds = [given.kind] if given.kind else list(KINDS)
    wrong = 0
    with tempfile.TemporaryDirectory() as text:
        top = Path(text)
        ready = {one: place_of(one, top / "ready" / str(at)) for at, one in enumerate(kinds)}
        seeds = [given.seed] if given.seed is not None else range(given.begin, given.begin + given.runs)
        for number, seed in enumerate(seeds):
            kind, root = kinds[number % len(kinds)], top / "case"
            root.mkdir()
            found = problem(kind, seed, root, ready[kind])
            if found is not None:
                wrong += 1
                print(f"{kind} {seed}: {found}", flush=True)
            for path in root.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o700)
            shutil.rmtree(root)
    print(f"{len(seeds)} runs, {wrong} problems")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
