"""What the tests of nights share: a log directory that lives, and its tables as the list of a store has them."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from tests.support.partitions import below, checkpoint, meta, name, segment, write
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

SEGMENTS, BATCHES = 4, 5  # of a partition, and of each segment
_PADDING = b"-" * 40
LATELY = 0.25  # seconds after which a change has another timestamp


def log_of(base: int, offsets: Iterable[int] | None = None, word: str = "old", epoch: int = 0) -> dict[str, bytes]:
    """The files of one segment, a batch of one record for each offset."""
    wanted = range(base, base + BATCHES) if offsets is None else offsets
    parts = [
        batch(one, [Record(f"{word} {one}".encode() + _PADDING, key=f"{one % 3}".encode())], epoch=epoch)
        for one in wanted
    ]
    return segment(base, parts)


def node(root: Path, topics: str = "abc", number: int = 1) -> Path:
    """A log directory with a partition of each topic, that was closed a while ago."""
    files = {"meta.properties": meta(number) + b"directory.id=AAAAAAAAAAAAAAAAAAAA%02d\n" % number}
    for topic in topics:
        files.update(partition(f"{topic}-0"))
    write(root, files)
    rest()
    return root


def partition(folder: str, segments: int = SEGMENTS) -> dict[str, bytes]:
    """The files of a partition."""
    found: dict[str, bytes] = {}
    for at in range(segments):
        found.update(below(folder, log_of(at * BATCHES)))
    return {**found, f"{folder}/leader-epoch-checkpoint": checkpoint((0, 0))}


def rest() -> None:
    """Wait until what is changed next has a timestamp of its own."""
    time.sleep(LATELY)


# --- what becomes of a log directory -----------------------------------------------------------------------------
def append(root: Path) -> None:
    """The active segment grows, and another partition rolls."""
    last = (SEGMENTS - 1) * BATCHES
    write(root, below("a-0", log_of(last, range(last, last + BATCHES + 2))))
    write(root, below("b-0", log_of(last + BATCHES, word="rolled")))


def new_topic(root: Path) -> None:
    """A topic is created."""
    write(root, partition("new-0"))


def compaction(root: Path) -> None:
    """The cleaner makes one segment of two, and leaves holes."""
    for kind in ("log", "index", "timeindex"):
        for at in (0, 1):
            path = root / "a-0" / name(at * BATCHES, kind)
            path.unlink(missing_ok=True)
    write(root, below("a-0", log_of(0, [2, 5, 6, 7, 8, 9])))


def deletion(root: Path) -> None:
    """Retention deletes the first segment of a partition, and a topic goes."""
    for path in (root / "b-0").glob(f"{0:020}.*"):
        path.unlink()
    write(root, {"log-start-offset-checkpoint": checkpoint(("b", 0, BATCHES))})
    for path in (root / "c-0").iterdir():
        path.unlink()
    (root / "c-0").rmdir()


def truncation(root: Path) -> None:
    """A follower cuts its log off within a segment, and gets other records there."""
    for path in (root / "a-0").glob(f"{(SEGMENTS - 1) * BATCHES:020}.*"):
        path.unlink()
    base = (SEGMENTS - 2) * BATCHES
    write(root, below("a-0", log_of(base, range(base, base + 2), word="new")))


def checkpoint_changed(root: Path) -> None:
    """Another leader begins, by the checkpoints; a checkpoint goes beyond the end of a log."""
    end = SEGMENTS * BATCHES
    write(root, {"a-0/leader-epoch-checkpoint": checkpoint((0, 0), (1, end))})
    write(root, {"recovery-point-offset-checkpoint": checkpoint(("b", 0, end + 7))})


def epochs_wrong(root: Path) -> None:
    """The leader-epoch-checkpoint of a partition contradicts its log."""
    write(root, {"b-0/leader-epoch-checkpoint": checkpoint((0, 0), (3, 7))})


def damage(root: Path) -> None:
    """A byte of a closed segment changes."""
    flip(root / "b-0" / name(BATCHES))


def flip(path: Path) -> None:
    """Change a byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


CHANGES: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (append, new_topic, compaction, deletion, truncation, checkpoint_changed, epochs_wrong, damage)
}


# --- its tables --------------------------------------------------------------------------------------------------
def listed(store: Path) -> dict[str, Any]:
    """The list of the present state."""
    return dict(json.loads((store / "_kdump" / "present.json").read_bytes()))


def files_of(store: Path) -> list[str]:
    """The files of the present state, below the directory of the store."""
    return sorted(path for part in listed(store)["parts"] for path, _ in part[7])


def rows_of(store: Path) -> dict[str, list[str]]:
    """The rows of each table by the list, but for what tells of the run."""
    found: dict[str, list[str]] = {}
    for part in listed(store)["parts"]:
        for path, count in part[7]:
            rows = pq.ParquetFile(store / path).read().to_pylist()
            assert len(rows) == count
            place = dict(one.split("=", 1) for one in path.split("/") if "=" in one)
            for row in rows:
                for one in ("run", "readAt"):
                    row.pop(one, None)
                found.setdefault(part[0], []).append(repr({**row, **{key: unquote(it) for key, it in place.items()}}))
    return {table: sorted(rows) for table, rows in found.items()}


def on_disk(store: Path) -> list[str]:
    """All files of rows below a store."""
    return sorted(os.path.relpath(path, store) for path in store.rglob("*.parquet"))


def last_run(store: Path) -> dict[str, Any]:
    """The row of the last run."""
    return max(
        (json.loads(one.read_bytes()) for one in (store / "_kdump" / "runs").iterdir()), key=lambda it: it["startedAt"]
    )
